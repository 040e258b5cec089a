package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/client"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/cliflags"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/crashpoint"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/input"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/progress"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/tty"
	"github.com/sievekv/sievekv/internal/migrate"
	"github.com/sievekv/sievekv/kv"
)

func (sh *shell) pullCommand() *cobra.Command {
	return sh.betweenServers("pull", "from", "Copies strings and filters from a running Redis", pullHelp)
}

func (sh *shell) pushCommand() *cobra.Command {
	return sh.betweenServers("push", "to", "Copies strings and filters to a running Redis", pushHelp)
}

// betweenServers returns the word pull or push. The flag names the other server.
func (sh *shell) betweenServers(word, flag, short, long string) *cobra.Command {
	var uri string
	silence := cliflags.Seconds(time.Minute)
	o := migrate.Options{OnConflict: migrate.Fail}
	cmd := &cobra.Command{
		Use:                   word + " --" + flag + " URI [flags]",
		Short:                 short,
		Long:                  long,
		Args:                  exactArgs(0),
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			other, shows, err := client.AddressOf("--"+flag, uri)
			if err != nil {
				return err
			}
			if shows && !sh.server.NoWarning {
				fmt.Fprintln(sh.stderr, passwordWarning)
			}
			if sh.address != nil {
				sh.address = sh.address.Bounded(time.Duration(silence), migrate.MostReplies)
			}
			other = other.Bounded(time.Duration(silence), migrate.MostReplies)
			return sh.copyKeys(cmd.Context(), client.New(other, nil, sh.stderr), word == "push", o)
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&uri, flag, "", "`URI` of the server: redis://[[user:]password@]host[:port][/database], rediss:// or unix://path")
	cmd.Flags().StringVar(&o.Match, "match", "", "copy only keys that match the `PATTERN`, as SCAN does")
	cmd.Flags().StringVar(&o.Prefix, "prefix", "", "`TEXT` to put before each key")
	registerCopy(cmd, &o)
	cmd.Flags().Var(&silence, client.ReplyTimeoutFlag, "give up when a server says nothing for `SECONDS` though a reply is missing, 0 for never")
	return cmd
}

func registerCopy(cmd *cobra.Command, o *migrate.Options) {
	cmd.Flags().Var(&o.OnConflict, "on-conflict", "what to do about a key that holds another value: fail, skip or replace")
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "list what would be copied, and copy nothing; the target is not looked at; a terminal gets the first 100 keys")
}

const pullHelp = `pull copies strings, Bloom filters and cuckoo filters from a running server, a Redis with RedisBloom or one of sievekv, to the
store, or to the server that -h names. Filters keep their bits: they answer as before, also with the same false positives, and
keep the layout: RedisBloom's, or the native one of a server of sievekv. The log that lets a filter grow without layers stays
behind. Times to live are kept. Values of other types, also counting filters, are left out, and counted. Keys and filters that
the store cannot take are named, and the exit code is 1.

  kvshell -d DIR pull --from redis://127.0.0.1:6379
  kvshell -d DIR pull --from redis://127.0.0.1:6379/2 --match 'seen:*' --prefix old:

A key appears as a whole or not at all. A filter is loaded under its key with ` + migrate.Suffix + ` behind it, read back and compared
with what was sent, and then renamed; a filter that changes meanwhile is copied again, up to three times. A string that is too
long for one SET comes piece by piece in the same way. Run a pull that was interrupted again: it passes over what is equal
already, but for the time to live, which becomes that of the source. --on-conflict skip changes nothing of a key that exists.
The password is best in $REDISCLI_AUTH, and its user in redis://user:@HOST. In redis://word@HOST the word is a password.

pull reads by SCAN, TYPE, PTTL, STRLEN, GET, and BF.SCANDUMP, CF.SCANDUMP and the INFO of filters; where SCANDUMP is not allowed,
by DUMP. It changes nothing on the server. Writes that the server gets meanwhile may be missed: see docs/MIGRATING.md. A pull
from a server into the same server needs a --match that the keys with --prefix do not match; otherwise copies are copied again.
`

const pushHelp = `push copies strings, Bloom filters and cuckoo filters from the store, or from the server that -h names, to a running server. It
is the way back from pull, and works as that does. A server of sievekv takes filters with the native layout as they are. No other
server knows their bits: there they are named, and the exit code is 1.

  kvshell -d DIR push --to redis://127.0.0.1:6379
`

func (sh *shell) importRDBCommand() *cobra.Command {
	o := migrate.Options{OnConflict: migrate.Fail}
	cmd := &cobra.Command{
		Use:                   "import-rdb FILE|- [flags]",
		Short:                 "Copies strings and filters of an RDB file of Redis",
		Long:                  importRDBHelp,
		Args:                  exactArgs(1),
		DisableFlagsInUseLine: true,
		RunE:                  func(cmd *cobra.Command, args []string) error { return sh.importRDB(cmd.Context(), args[0], o) },
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().Uint64Var(&o.Database, "db", 0, "`NUMBER` of the database to copy")
	cmd.Flags().StringVar(&o.Prefix, "prefix", "", "`TEXT` to put before each key")
	registerCopy(cmd, &o)
	return cmd
}

const importRDBHelp = `import-rdb copies strings, and RedisBloom's Bloom and cuckoo filters, from an RDB file, such as the dump.rdb of a Redis, or from
standard input for -. Filters keep their bits: they answer as before, also with the same false positives, and have
RedisBloom's layout. Times to live are kept, and keys that have expired are left out. Values of other types are left out,
and counted.

  kvshell -d DIR import-rdb dump.rdb
  kvshell -d DIR import-rdb dump.rdb --dry-run

All of FILE is checked first, also its checksum. FILE may be compressed by gzip or zstd: then a copy that is not is made in the
directory for temporary files. RDB versions 1 to 15 are known, which are those of Redis up to 8.10 and of Valkey up to 8, and
80, that of Valkey 9. A newer one is read unless it has what is not known. A key appears as a whole or not at all. Run an import that was interrupted again: it passes over what is
equal already, but for the time to live, which becomes that of the file. --on-conflict skip changes nothing of a key that exists.
`

func (sh *shell) importRDB(ctx context.Context, name string, o migrate.Options) (err error) {
	if err := sh.refuseInput("import-rdb", name); err != nil {
		return err
	}
	in := sh.stdin
	switch {
	case name == "":
		return exit.Usagef(`import-rdb: FILE is "", want a file, or - for standard input`)
	case name == "-" && tty.IsTerminal(in):
		return exit.Usagef("import-rdb -: standard input is a terminal: give the file, as in import-rdb - <FILE")
	case name != "-":
		if in, err = openFile(ctx, name); err != nil {
			return err
		}
		defer func() { err = exit.JoinLocal(err, in.Close()) }()
	}
	file, err := wholeRDB(ctx, in)
	if err != nil {
		return exit.WithCode(exit.Code(err), fmt.Errorf("%s: %w", name, err))
	}
	defer func() { err = exit.JoinLocal(err, removeCopy(file, in)) }()
	info, err := file.Stat()
	if err != nil {
		return exit.WithCode(exit.Local, err)
	}
	return sh.copying(o, info.Size(), func(to migrate.Doer, o migrate.Options) (migrate.Report, error) {
		return migrate.Import(ctx, file, to, o)
	})
}

// wholeRDB checks an RDB file, and returns it as a file that can be read anywhere: itself, or a copy in the directory for
// temporary files. What is copied was checked before, as a pipe may never end.
func wholeRDB(ctx context.Context, in *os.File) (*os.File, error) {
	regular, err := isRegular(in)
	if err != nil {
		return nil, err
	}
	var from io.Reader = io.NewSectionReader(in, 0, math.MaxInt64)
	if !regular {
		from = reading(ctx, in)
	}
	r, by, err := input.Decompress(from)
	if err != nil {
		return nil, err
	}
	if regular && by == "" {
		return in, migrate.Check(ctx, r)
	}
	return temporary(func(to io.Writer) error {
		decompressed := &failing{r: r}
		err := migrate.Check(ctx, io.TeeReader(decompressed, to))
		if by != "" && decompressed.err != nil {
			return exit.WithCode(exit.Local, fmt.Errorf("what %s has compressed: %w", by, decompressed.err))
		}
		return err
	})
}

// failing remembers the error of a reader, which is not io.EOF.
type failing struct {
	r   io.Reader
	err error
}

func (f *failing) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	if err != nil && err != io.EOF {
		f.err = err
	}
	return n, err
}

// isRegular reports whether a file is a regular one. A directory is an error.
func isRegular(file *os.File) (bool, error) {
	info, err := file.Stat()
	if err == nil && info.IsDir() {
		err = errors.New("is a directory")
	}
	return err == nil && info.Mode().IsRegular(), err
}

// removeCopy removes a file that was copied from another, unless it is that one.
func removeCopy(file, in *os.File) error {
	if file == in {
		return nil
	}
	return errors.Join(file.Close(), os.Remove(file.Name()))
}

// temporary returns a file in the directory for temporary files, which fill has written.
func temporary(fill func(io.Writer) error) (*os.File, error) {
	file, err := os.CreateTemp("", "kvshell-import-")
	if err != nil {
		return nil, err
	}
	if err = fill(file); err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close(), os.Remove(file.Name()))
	}
	return file, nil
}

// copyKeys copies between another server and the store, or the server of -h: away from it for push.
func (sh *shell) copyKeys(ctx context.Context, other *client.Client, push bool, o migrate.Options) (err error) {
	defer other.Close(&err)
	if err := other.Open(ctx); err != nil {
		return err
	}
	if !push {
		// A server that lets nobody in says so before a store is made.
		if err := migrate.Knock(ctx, other); err != nil {
			return err
		}
		return sh.copying(o, -1, func(to migrate.Doer, o migrate.Options) (migrate.Report, error) {
			return migrate.Copy(ctx, other, to, o)
		})
	}
	from, err := sh.pushSource()
	if err != nil {
		return err
	}
	defer from.Close(&err)
	return sh.reporting(o, -1, func(o migrate.Options) (migrate.Report, error) { return migrate.Copy(ctx, from, other, o) })
}

func (sh *shell) pushSource() (executor, error) {
	if sh.address != nil {
		return sh.client(), nil
	}
	db, err := sh.openExisting()
	if err != nil {
		return nil, err
	}
	return sh.storeExecutor(db), nil
}

// copying opens what is copied to, and copies. Commits need not wait for the disk: at the end all is synced.
func (sh *shell) copying(o migrate.Options, size int64, copyAll func(migrate.Doer, migrate.Options) (migrate.Report, error)) (err error) {
	if o.DryRun {
		return sh.reporting(o, size, func(o migrate.Options) (migrate.Report, error) { return copyAll(nil, o) })
	}
	if sh.address != nil {
		to := sh.client()
		defer to.Close(&err)
		return sh.reporting(o, size, func(o migrate.Options) (migrate.Report, error) { return copyAll(to, o) })
	}
	if sh.sync == durability(kv.DurabilityDefault) {
		sh.sync = durability(kv.EverySec)
		defer func() { sh.sync = durability(kv.DurabilityDefault) }()
	}
	db, err := sh.openOrCreate()
	if err != nil {
		return err
	}
	defer sh.closeStore(db, &err)
	return sh.reporting(o, size, func(o migrate.Options) (migrate.Report, error) {
		report, err := copyAll(sh.storeExecutor(db), o)
		if failed := db.Sync(); failed != nil {
			err = failed
		}
		return report, err
	})
}

// reporting shows progress, and prints the report. Size is the file's, -1 for none.
func (sh *shell) reporting(o migrate.Options, size int64, copyAll func(migrate.Options) (migrate.Report, error)) error {
	o.List = sh.stdout
	if tty.IsTerminal(sh.stdout) {
		o.ListMost = 100
	}
	o.Step = func(name string) { crashpoint.Reached(name) }
	var bar *progress.Bar
	if sh.stderr.IsTerminal() && !o.DryRun {
		bar = progress.New(sh.stderr.File(), size)
	}
	o.Progress = func(r migrate.Report) { bar.Show(r.BytesRead, "%d keys", r.Keys()) }
	report, err := copyAll(o)
	bar.Clear()
	if err != nil {
		code := exit.Code(err)
		if errors.Is(err, context.Canceled) {
			err = errors.New("interrupted")
		}
		err = fmt.Errorf("%w; %d strings and %d filters were copied", err, report.Strings, report.Filters)
		if code != exit.Refused {
			err = fmt.Errorf("%w: the same command again copies the rest", err)
		}
		return exit.WithCode(code, err)
	}
	if err := sh.write(report.Text(o.DryRun)); err != nil {
		return err
	}
	return report.Err()
}
