package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/sievekv/sievekv/backup"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/progress"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/tty"
	"github.com/sievekv/sievekv/internal/dirsync"
	"github.com/sievekv/sievekv/kv"
)

func (sh *shell) backupCommand() *cobra.Command {
	var o backup.Options
	cmd := &cobra.Command{
		Use:                   "backup TARGET|- [flags]",
		Short:                 "Makes a second store, in a directory or as an archive",
		Long:                  backupHelp,
		Args:                  exactArgs(1),
		DisableFlagsInUseLine: true,
		RunE:                  func(cmd *cobra.Command, args []string) error { return sh.backup(cmd.Context(), args[0], o) },
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().BoolVar(&o.Copy, "copy", false, "copy tables also where they could be linked")
	cmd.Flags().BoolVar(&o.Check, "verify", false, "read and check all of the backup before it is called done")
	return cmd
}

const backupHelp = `backup makes a second store in the directory TARGET, which must not exist, or writes it as a tar archive to standard
output for -. The backup has everything that was committed before, each transaction whole, and is opened before it gets its
name: there is never half a backup under TARGET. To restore a backup is to open it, or a copy of it; for an archive there is
restore.

Tables, which hold nearly all of a store, are linked where the file system can do it: that takes next to no time and space.
A linked table is one file with two names, so damage to the file is damage to both stores. --copy copies the tables, which
is also done where TARGET is on another file system; a bar shows how far that is.

A store that a server has open is backed up by the server, with -h HOST or -p PORT, if it was started with
--set backup-dir=DIR: TARGET is then the name of a new directory inside of DIR, on the server's machine.
`

func (sh *shell) backup(ctx context.Context, target string, o backup.Options) (err error) {
	switch {
	case sh.address != nil:
		return sh.backupOfServer(ctx, target, o)
	case target == "":
		return exit.Usagef(`backup: TARGET is "", want a directory that does not exist, or - for an archive`)
	case target == "-" && tty.IsTerminal(sh.stdout):
		return exit.Usagef("backup -: standard output is a terminal: send the archive to a file, as in backup - >FILE")
	}
	if target == "-" {
		if err := sh.refuseStream("backup", "standard output", sh.stdout); err != nil {
			return err
		}
	}
	db, err := sh.openExisting()
	if err != nil {
		return err
	}
	defer sh.closeStore(db, &err)
	if sh.stderr.IsTerminal() {
		var bar *progress.Bar
		o.Progress = func(done, total uint64) {
			if bar == nil {
				bar = progress.New(sh.stderr.File(), int64(total))
			}
			bar.Show(int64(done), "backup")
		}
		defer func() { bar.Clear() }()
	}
	if target != "-" {
		if err := backup.Make(ctx, db, target, o); err != nil {
			if errors.Is(err, fs.ErrExist) {
				return takenError("backup: TARGET", err)
			}
			return backupError(err)
		}
		return sh.write(fmt.Sprintf("backup in %s\n", target))
	}
	// A reader that goes away early must not end the process, which would leave the backup in the store's directory.
	signal.Ignore(syscall.SIGPIPE)
	return backupError(writing(ctx, sh.stdout, func(to io.Writer) error {
		out := bufio.NewWriterSize(to, 1<<20)
		if err := backup.WriteTo(ctx, db, out, o); err != nil {
			return err
		}
		return out.Flush()
	}))
}

// backupError gives an error of a backup its code. It is about the target, unless it says that the store is damaged.
func backupError(err error) error {
	if code := exit.Code(err); code == exit.Corrupt || code == exit.Interrupted {
		return err
	}
	return exit.WithCode(exit.Local, err)
}

// takenError returns the error of a local file in which one about a name that is taken names the argument.
func takenError(argument string, err error) error {
	var taken *dirsync.TakenError
	if errors.As(err, &taken) {
		err = fmt.Errorf("%s %w", argument, taken)
	}
	return exit.WithCode(exit.Local, err)
}

// backupOfServer has a server make the backup.
func (sh *shell) backupOfServer(ctx context.Context, target string, o backup.Options) (err error) {
	if target == "-" {
		return exit.Usagef("backup -: a server writes no archive to its client: give a name, or -d DIR of a store that no server has open")
	}
	words := []string{"SIEVE.BACKUP", target}
	if o.Copy {
		words = append(words, "COPY")
	}
	if o.Check {
		words = append(words, "CHECK")
	}
	exec, err := sh.executorOfAll()
	if err != nil {
		return err
	}
	defer exec.Close(&err)
	if _, err := answer(ctx, exec, words...); err != nil {
		return err
	}
	return sh.write(fmt.Sprintf("backup in %s, inside the server's backup-dir\n", target))
}

func (sh *shell) restoreCommand() *cobra.Command {
	return &cobra.Command{
		Use:                   "restore FILE|- DIR",
		Short:                 "Makes a store of an archive",
		Long:                  restoreHelp,
		Args:                  exactArgs(2),
		DisableFlagsInUseLine: true,
		RunE:                  func(cmd *cobra.Command, args []string) error { return sh.restore(cmd.Context(), args[0], args[1]) },
	}
}

const restoreHelp = `restore makes a store in DIR, which must not exist, of an archive that backup - wrote: FILE, or standard input for -. It
checks the archive, whose last entry has the SHA-256 of every file, and opens the store before it gets its name: there is
never half a store in DIR. A compressed archive has to be unpacked on the way: gzip -dc FILE | kvshell restore - DIR.
`

func (sh *shell) restore(ctx context.Context, file, dir string) (err error) {
	if dir == "" {
		return exit.Usagef(`restore: DIR is "", want a directory that does not exist`)
	}
	in := sh.stdin
	if file != "-" {
		if in, err = openFile(ctx, file); err != nil {
			return err
		}
		defer func() { err = exit.JoinLocal(err, in.Close()) }()
	} else if tty.IsTerminal(in) {
		return exit.Usagef("restore -: standard input is a terminal: give the archive, as in restore - DIR <FILE")
	}
	err = backup.Restore(ctx, bufio.NewReaderSize(reading(ctx, in), 1<<20), dir)
	if errors.Is(err, fs.ErrExist) {
		return takenError("restore: DIR", err)
	}
	if err != nil && file != "-" {
		err = fmt.Errorf("restore of %s: %w", file, err)
	}
	switch {
	case errors.Is(err, backup.ErrArchive):
		return exit.WithCode(exit.Corrupt, err)
	case err != nil && !errors.Is(err, kv.ErrCorrupt) && !errors.Is(err, context.Canceled):
		return exit.WithCode(exit.Local, err)
	case err != nil:
		return err
	}
	return sh.write(fmt.Sprintf("store in %s\n", dir))
}
