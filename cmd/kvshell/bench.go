package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/bench"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/kv"
)

func (sh *shell) benchCommand() *cobra.Command {
	var during time.Duration
	var asJSON bool
	cmd := &cobra.Command{
		Use:                   "bench [flags]",
		Short:                 "Measures adds and lookups on this machine and disk",
		Long:                  benchHelp,
		Args:                  exactArgs(0),
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if during <= 0 {
				return exit.Usagef("--duration %v: must be above 0", during)
			}
			return sh.bench(cmd.Context(), during, asJSON)
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().DurationVar(&during, "duration", 2*time.Minute, "the `TIME` that all parts take together, such as 30s or 5m")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print it as JSON, on one line")
	return cmd
}

const benchHelp = `bench measures how many adds a second this machine and disk take at each level of durability, how many lookups of
items in memory, and how many lookups that read a file. For each it prints how long single calls took, and what the line
means. The output of two runs can only be compared if nothing else kept the machine busy.

It makes stores of its own in a new directory, kvshell-bench- and a number, and removes it at the end, also after Ctrl-C.
That directory is in DIR if DIR is empty, otherwise beside DIR. Stores that exist are neither read nor changed. The new
directory takes up to some hundred MiB; if kvshell is killed, remove it.

With --json it prints one object on one line. Times are in nanoseconds.
`

// bench measures in stores of its own, and prints the result.
func (sh *shell) bench(ctx context.Context, during time.Duration, asJSON bool) (err error) {
	parent, err := sh.benchParent()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(parent, "kvshell-bench-")
	if err != nil {
		return exit.WithCode(exit.Local, err)
	}
	defer func() { err = exit.JoinLocal(err, os.RemoveAll(dir)) }()
	run := bench.Run{Dir: dir, During: during, Tell: func(what string) {
		if sh.stderr.IsTerminal() {
			fmt.Fprintln(sh.stderr, "measuring:", what)
		}
	}}
	run.Open = func(dir string, cacheSize int64) (*kv.DB, error) {
		db, err := sh.openChanged(dir, false, func(o *kv.Options) {
			if cacheSize > 0 { // the cache of tables must not take over
				o.CacheSize, o.TableCacheSize = cacheSize, 1<<20
			}
		})
		return db, openError(dir, err)
	}
	result, err := run.Do(ctx)
	if err != nil {
		return err
	}
	result.Directory = parent
	return sh.printResult(result, asJSON)
}

// benchParent returns the directory in which bench makes its own: the directory of the flags if it is empty, otherwise
// its parent.
func (sh *shell) benchParent() (string, error) {
	dir, err := sh.dir()
	if err != nil {
		return "", err
	}
	if dir == "" {
		return "", exit.Usagef("bench needs a directory, and the store of this prompt is in memory: run kvshell -d DIR bench")
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", exit.WithCode(exit.Local, err)
	}
	if target, err := filepath.EvalSymlinks(dir); err == nil {
		dir = target
	}
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && len(entries) > 0:
		return filepath.Dir(dir), nil
	case err != nil:
		return "", exit.WithCode(exit.Local, err)
	}
	return dir, nil
}
