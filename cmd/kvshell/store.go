package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/client"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/serve"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/system"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/server"
)

// client returns the client of the server that the flags ask for. RESP3, which has more kinds of replies, is for JSON.
func (sh *shell) client() *client.Client {
	return client.New(sh.address, func() bool { return sh.show.json }, sh.stderr)
}

// dir returns the directory of the store that flags and environment name.
func (sh *shell) dir() (string, error) {
	if sh.address != nil {
		return "", exit.Usagef("this needs the store in a directory: give that by -d DIR in place of %s", sh.server.Given())
	}
	if sh.lent != nil {
		return sh.lent.Dir(), nil
	}
	if sh.directory != "" {
		return sh.directory, nil
	}
	if dir := os.Getenv(dirVariable); dir != "" {
		return dir, nil
	}
	return "", exit.Usagef("no store: give its directory by -d DIR or in $%s", dirVariable)
}

// openExisting opens the store and never makes one.
func (sh *shell) openExisting() (*kv.DB, error) {
	dir, err := sh.dir()
	if err != nil || sh.lent != nil {
		return sh.lent, err
	}
	db, err := sh.open(dir, true)
	return db, openError(dir, err)
}

// openOrCreate opens the store, and makes it if it is not there.
func (sh *shell) openOrCreate() (*kv.DB, error) {
	dir, err := sh.dir()
	if err != nil || sh.lent != nil {
		return sh.lent, err
	}
	db, err := sh.open(dir, true)
	if errors.Is(err, kv.ErrNotExist) {
		return sh.create(dir)
	}
	return db, openError(dir, err)
}

// create makes a store in a directory that has none.
func (sh *shell) create(dir string) (*kv.DB, error) {
	db, err := sh.open(dir, false)
	switch {
	case err != nil:
	case sh.served:
		sh.logger().Info("sievekv: created store", "dir", dir)
	default:
		fmt.Fprintln(sh.stderr, "created store", dir)
	}
	return db, openError(dir, err)
}

// openFor opens the store for a command. Where there is none, only a write makes one. A command that no store would run,
// unknown or with a wrong number of words, is then given an executor without a store that says so.
//
// A server is connected to by the first command.
func (sh *shell) openFor(words [][]byte) (exec executor, storeless bool, err error) {
	if sh.address != nil {
		return sh.client(), false, nil
	}
	dir, err := sh.dir()
	if err != nil {
		return nil, false, err
	}
	db, err := sh.open(dir, true)
	if err = openError(dir, err); errors.Is(err, kv.ErrNotExist) {
		table := sh.table()
		switch cmd := table.Command(words[0]); {
		case cmd == nil, !cmd.Takes(len(words)):
			return &storelessExecutor{table}, true, nil
		case cmd.Flags&module.Write != 0:
			db, err = sh.create(dir)
		}
	}
	if err != nil {
		return nil, false, err
	}
	return sh.storeExecutor(db), false, nil
}

// table is the command table of the stores that this run opens.
func (sh *shell) table() *module.Table { return module.New(sh.modules()...) }

// ballastSize is kv.Options.BallastSize, of which tests, with stores by the dozen, make none.
var ballastSize int64

// adjust, if set, changes what stores are opened with: tests have disks and commands that hang.
var adjust func(*kv.Options)

// open opens the store in a directory, or, for "", one in memory.
func (sh *shell) open(dir string, mustExist bool) (*kv.DB, error) {
	o := &kv.Options{
		InMemory:    dir == "",
		MustExist:   mustExist,
		CacheSize:   int64(sh.cache),
		Durability:  kv.Durability(sh.sync),
		Seed:        sh.seed,
		BallastSize: ballastSize,
		Logger:      sh.logger(),
		Modules:     module.New(sh.modules()...),
	}
	if adjust != nil {
		adjust(o)
	}
	return kv.Open(dir, o)
}

// modules are those that a store is opened with in this run.
func (sh *shell) modules() []module.Module {
	if sh.served {
		return append(sievekv.Modules(), server.Module())
	}
	return sievekv.Modules()
}

// logger returns the log, on standard error. The lines of a server have the time, in RFC 3339 with milliseconds. Those of a
// command that somebody waits for do not.
func (sh *shell) logger() *slog.Logger {
	o := &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: timeless}
	if sh.served {
		// Logins, and what administrators do, are at this level.
		o.Level, o.ReplaceAttr = slog.LevelInfo, brief
	}
	return slog.New(slog.NewTextHandler(sh.stderr, o))
}

// timeless is brief without the time.
func timeless(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return brief(groups, a)
}

// brief shows of an error its text: errors of Pebble's have pages of stack traces, which slog would print.
func brief(_ []string, a slog.Attr) slog.Attr {
	if err, ok := a.Value.Any().(error); ok {
		text, _, _ := strings.Cut(err.Error(), "\n")
		a.Value = slog.StringValue(text)
	}
	return a
}

// openError adds to an error of kv.Open what the user can do about it. What has no code of its own means
// that the store cannot be opened.
func openError(dir string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kv.ErrLocked):
		who := "another process"
		pid := system.LockOwner(dir)
		if pid > 0 {
			who = fmt.Sprintf("process %d", pid)
		}
		advice := "wait until it ends, or end it"
		if how := serve.HowToConnect(dir, pid); how != "" {
			advice = "it serves the store: connect to it by " + how
		}
		return exit.WithCode(exit.Locked, fmt.Errorf("store %s is in use by %s: %s", dir, who, advice))
	case errors.Is(err, kv.ErrNotExist):
		return exit.WithCode(exit.Open, &noStoreError{dir})
	case errors.Is(err, kv.ErrOptions):
		_, problems, _ := strings.Cut(err.Error(), kv.ErrOptions.Error()+": ")
		return exit.WithCode(exit.Usage, errors.New(strings.Replace(problems, "CacheSize ", "--cache ", 1)))
	case errors.Is(err, kv.ErrCorrupt), errors.Is(err, kv.ErrFailed), errors.Is(err, kv.ErrNoSpace):
		return err
	}
	return exit.WithCode(exit.Open, err)
}

// noStoreError is kv.ErrNotExist with what the user can do about it.
type noStoreError struct{ dir string }

func (e *noStoreError) Error() string {
	return fmt.Sprintf("no store in %s: the first write, such as BF.RESERVE, makes one", e.dir)
}

func (e *noStoreError) Unwrap() error { return kv.ErrNotExist }

// closeStore closes the store at the end of a function, unless it is lent, and keeps the function's own error. That the
// store has failed is told once.
func (sh *shell) closeStore(db *kv.DB, err *error) {
	if db == sh.lent {
		return
	}
	if closed := db.Close(); closed != nil && !(errors.Is(closed, kv.ErrFailed) && errors.Is(*err, kv.ErrFailed)) {
		*err = errors.Join(*err, closed)
	}
}
