package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/cliflags"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/system"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/tty"
	"github.com/sievekv/sievekv/internal/dirsync"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/portable"
	"github.com/sievekv/sievekv/scalableext"
)

func (sh *shell) exportCommand() *cobra.Command {
	var replace bool
	cmd := &cobra.Command{
		Use:                   "export KEY FILE|- [flags]",
		Short:                 "Writes a filter, bitmap or string to a file",
		Long:                  exportHelp,
		Args:                  exactArgs(2),
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			return sh.export(cmd.Context(), args[0], args[1], replace)
		},
	}
	cmd.Flags().BoolVar(&replace, "replace", false, "replace FILE if it exists")
	return cmd
}

const exportHelp = `export writes what is under KEY, a filter, a bitmap or a string, to FILE, or to standard output for -. The file does not
depend on the store: import takes it into another one, with the same answers for every item, and a Go program reads a filter
from it without a store. FILE appears when all of it is written. It has checksums, but neither the key nor its expiry.

A new FILE is for this user alone. One that --replace replaces keeps its mode and, if the system lets this user do that, its
owner. Of a symbolic link, what it leads to is replaced, and the link stays. Other hard links to FILE keep the old bytes.

The file of a filter has the secret of the filter's hash, as the store has: who can read it can choose items that collide.

  kvshell -d DIR export seen seen.svkf
  kvshell info seen.svkf
  kvshell -d OTHER import seen seen.svkf
`

func (sh *shell) export(ctx context.Context, key, file string, replace bool) (err error) {
	switch {
	case file == "":
		return exit.Usagef(`export: FILE is "", want a file, or - for standard output`)
	case file == "-" && tty.IsTerminal(sh.stdout):
		return exit.Usagef("export %s -: standard output is a terminal: send it to a file, as in export KEY - >FILE", key)
	}
	if file == "-" {
		err = sh.refuseStream("export", "standard output", sh.stdout)
	} else {
		err = sh.refuseOutput("export", file)
	}
	if err != nil {
		return err
	}
	db, err := sh.openExisting()
	if err != nil {
		return err
	}
	defer sh.closeStore(db, &err)
	write := func(to io.Writer) error {
		out := bufio.NewWriterSize(to, 1<<20)
		if err := portable.Export(ctx, db, []byte(key), out); err != nil {
			return err
		}
		return out.Flush()
	}
	if file == "-" {
		return writing(ctx, sh.stdout, write)
	}
	if old, err := os.Stat(file); err == nil && !old.Mode().IsRegular() {
		to, err := system.OpenToWrite(ctx, file)
		if err != nil {
			return exit.WithCode(exit.Local, err)
		}
		return exit.JoinLocal(writing(ctx, to, write), to.Close())
	}
	place := placeNew
	if replace {
		place = system.Replace
	}
	if file, err = place(file, func(to *os.File) error { return write(to) }); err != nil {
		return err
	}
	return dirsync.Sync(filepath.Dir(file))
}

// placeNew makes the file of an export, which must not exist.
func placeNew(file string, write func(*os.File) error) (string, error) {
	exists := exit.Refusef("export: %s exists: --replace replaces it", file)
	if _, err := os.Lstat(file); err == nil { // a link to nothing is something, too
		return "", exists
	}
	err := system.WriteNew(file, write)
	if errors.Is(err, fs.ErrExist) { // another run was faster
		return "", exists
	}
	return file, err
}

// importFlags are the flags of import.
type importFlags struct {
	portable.ImportOptions
	from   foreignFormat
	bits   uint64
	hashes int
}

// foreignFormat is the flag for the library that has written a file.
type foreignFormat bloomext.ForeignFormat

func (f *foreignFormat) String() string {
	if *f == 0 {
		return ""
	}
	return bloomext.ForeignFormat(*f).String()
}

func (f *foreignFormat) Type() string { return "LIBRARY" }

func (f *foreignFormat) Set(word string) error {
	parsed, ok := bloomext.ParseForeignFormat(strings.ToLower(word))
	if !ok {
		return errors.New("must be guava, bits-and-blooms or redisson")
	}
	*f = foreignFormat(parsed)
	return nil
}

func (sh *shell) importCommand() *cobra.Command {
	var o importFlags
	cmd := &cobra.Command{
		Use:                   "import KEY FILE|- [flags]",
		Short:                 "Makes a key of a file that export has written",
		Long:                  importHelp,
		Args:                  exactArgs(2),
		DisableFlagsInUseLine: true,
		RunE:                  func(cmd *cobra.Command, args []string) error { return sh.importKey(cmd.Context(), args[0], args[1], o) },
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().BoolVar(&o.Replace, "replace", false, "replace what is under KEY")
	cmd.Flags().BoolVar(&o.Merge, "merge", false, "add it to the filter under KEY, which must have been made alike")
	cmd.Flags().Var(&o.from, "from", "the `LIBRARY` that has written FILE: guava, bits-and-blooms or redisson")
	cliflags.RangeVar(cmd.Flags(), &o.bits, "bits", 1, 1<<32, "for --from redisson: the `NUMBER` that its config has as size")
	cliflags.RangeVar(cmd.Flags(), &o.hashes, "hashes", 1, 1100, "for --from redisson: the `NUMBER` that its config has as hashIterations")
	return cmd
}

const importHelp = `import makes KEY of a file that export has written: FILE, or standard input for -. All of it is checked first. KEY
appears as a whole or, if the file is cut or damaged, not at all. It does not expire. If KEY exists, that is an error
without --replace or --merge.

--merge adds what the file has to the filter under KEY, as BF.MERGE and CBF.MERGE do. Both must have been made with the same
parameters, and with the same secret of the hash: one is a copy of the other, or both were made by runs with the same
--seed. Cuckoo filters, bitmaps and strings cannot be merged.

--from guava takes a file of BloomFilter.writeTo of Guava for Java, --from bits-and-blooms one of WriteTo of
github.com/bits-and-blooms/bloom/v3 for Go, and --from redisson the string that a RBloomFilter of Redisson keeps in Redis, with
the --bits and --hashes of its config. KEY becomes a Bloom filter that answers as that one, also with the same false
positives, and takes more items. It does not grow and is never full, and cannot be merged. An item is what the hash got there:
see docs/MIGRATING.md.

  kvshell -d OTHER import seen seen.svkf
  kvshell -d DIR export seen - | ssh HOST kvshell -d DIR import seen - --replace
  kvshell -d ALL --seed 17 import seen monday.svkf --merge
  kvshell -d DIR import users users.bloom --from guava
`

func (sh *shell) importKey(ctx context.Context, key, file string, o importFlags) (err error) {
	switch {
	case o.Replace && o.Merge:
		return exit.Usagef("import: --replace and --merge exclude each other")
	case o.from == 0 && (o.bits != 0 || o.hashes != 0):
		return exit.Usagef("import: --bits and --hashes need --from redisson")
	case o.Merge && o.from != 0:
		return exit.Usagef("import: --merge and --from exclude each other: filters of other libraries cannot be merged")
	}
	if err := sh.refuseInput("import", file); err != nil {
		return err
	}
	in := sh.stdin
	switch {
	case file == "":
		return exit.Usagef(`import: FILE is "", want a file, or - for standard input`)
	case file == "-" && tty.IsTerminal(in):
		return exit.Usagef("import %s -: standard input is a terminal: give the file, as in import KEY - <FILE", key)
	case file != "-":
		if in, err = openFile(ctx, file); err != nil {
			return err
		}
		defer func() { err = exit.JoinLocal(err, in.Close()) }()
	}
	if o.from != 0 {
		how := bloomext.ForeignFile{Format: bloomext.ForeignFormat(o.from), Bits: o.bits, Hashes: o.hashes, Replace: o.Replace}
		err = sh.importForeign(ctx, key, in, how)
	} else {
		err = sh.importPortable(ctx, key, in, o.ImportOptions)
	}
	switch {
	case errors.Is(err, scalableext.ErrConfig):
		return exit.WithCode(exit.Usage, fmt.Errorf("import: %w", err))
	case errors.Is(err, kv.ErrExists) && o.from != 0:
		return exit.Refusef("import: the key %q exists: --replace replaces it", key)
	case errors.Is(err, kv.ErrExists):
		return exit.Refusef("import: the key %q exists: --replace replaces it, --merge adds to it", key)
	case err != nil:
		return fileError(file, err)
	}
	return sh.write(fmt.Sprintf("imported %s\n", key))
}

// importPortable imports a file that export has written.
func (sh *shell) importPortable(ctx context.Context, key string, in *os.File, o portable.ImportOptions) (err error) {
	db, err := sh.openForFile(func() error {
		start, err := in.Seek(0, io.SeekCurrent)
		if err != nil {
			return nil // a pipe cannot be read twice
		}
		if _, err := portable.Describe(ctx, in); err != nil {
			return err
		}
		_, err = in.Seek(start, io.SeekStart)
		return err
	})
	if err != nil {
		return err
	}
	defer sh.closeStore(db, &err)
	return portable.Import(ctx, db, kv.DurabilityDefault, []byte(key), reading(ctx, in), o)
}

// importForeign imports a file that another library has written.
func (sh *shell) importForeign(ctx context.Context, key string, in *os.File, how bloomext.ForeignFile) (err error) {
	regular, err := wholeForeign(ctx, in, how)
	if err != nil {
		return exit.WithCode(exit.Local, err)
	}
	defer func() { err = exit.JoinLocal(err, removeCopy(regular, in)) }()
	db, err := sh.openForFile(func() error { return how.Check(regular) })
	if err != nil {
		return err
	}
	defer sh.closeStore(db, &err)
	return bloomext.New(db, key).ImportForeign(ctx, regular, how)
}

// wholeForeign returns a file of another library as one that can be read anywhere: itself, or a copy in the directory for
// temporary files. Of a pipe that may never end, no more is copied than tells that something is wrong with it.
func wholeForeign(ctx context.Context, in *os.File, how bloomext.ForeignFile) (*os.File, error) {
	if regular, err := isRegular(in); err != nil || regular {
		return in, err
	}
	from := bufio.NewReader(reading(ctx, in))
	return temporary(func(to io.Writer) error {
		first, err := from.Peek(bloomext.ForeignHead)
		if err != nil && err != io.EOF {
			return err
		}
		size, err := how.Size(first)
		if err != nil {
			size = int64(len(first)) // reading these bytes tells the error
		}
		_, err = io.CopyN(to, from, size+1)
		if err == io.EOF {
			return nil
		}
		return err
	})
}

// openForFile opens the store, and makes it if it is missing, unless check returns an error for the file to be imported.
func (sh *shell) openForFile(check func() error) (*kv.DB, error) {
	db, err := sh.openExisting()
	if !errors.Is(err, kv.ErrNotExist) {
		return db, err
	}
	if err := check(); err != nil {
		return nil, err
	}
	return sh.openOrCreate()
}

// fileError gives an error that may be about an imported file its code, and the name of the file.
func fileError(file string, err error) error {
	if file == "-" {
		file = "standard input"
	}
	switch {
	case errors.Is(err, kv.ErrNoModule), errors.Is(err, kv.ErrUnsupportedVersion):
		return fmt.Errorf("%s: %w", file, err)
	case errors.Is(err, portable.ErrDamaged):
		return exit.WithCode(exit.Corrupt, fmt.Errorf("%s: %w", file, err))
	case errors.Is(err, scalableext.ErrUnequal), errors.Is(err, scalableext.ErrRate):
		return exit.WithCode(exit.Refused, fmt.Errorf("%s: %w", file, err))
	}
	return err
}
