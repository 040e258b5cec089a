package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/client"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/filters"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/serve"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/system"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/replica"
	"github.com/sievekv/sievekv/replica/admin"
	"github.com/sievekv/sievekv/server"
)

// client returns a client of the server that the flags name. It speaks RESP3 for JSON, as RESP3 has more types of
// replies.
func (sh *shell) client() *client.Client {
	return client.New(sh.address, func() bool { return sh.show.json }, sh.stderr)
}

// dir returns the directory of the store: the one that -d or $SIEVEKV_DIR names, or the prompt's store's.
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

// maxBytes returns the most bytes of a filter, 0 for the default. A server has its own limit, and checks it.
func (sh *shell) maxBytes() uint64 {
	if sh.address != nil {
		return math.MaxUint64
	}
	return uint64(sh.maxFilterBytes)
}

// openExisting opens the store. It does not make one.
func (sh *shell) openExisting() (*kv.DB, error) {
	dir, err := sh.dir()
	if err != nil || sh.lent != nil {
		return sh.lent, err
	}
	db, err := sh.open(dir, true)
	return db, sh.openError(dir, err)
}

// openError is openError for the flags of this run. If the store is damaged, it names the words that open it all the same.
func (sh *shell) openError(dir string, err error) error {
	if err = openError(dir, err); errors.Is(err, kv.ErrCorrupt) && !errors.Is(err, kv.ErrStray) {
		return fmt.Errorf("%w; kvshell -d %s check tells what is damaged, kvshell salvage %s NEWDIR recovers what is whole", err, dir, dir)
	}
	if sh.readOnly {
		return withoutWrites(err)
	}
	return err
}

// openOrCreate opens the store, and makes it if it is missing.
func (sh *shell) openOrCreate() (*kv.DB, error) {
	dir, err := sh.dir()
	if err != nil || sh.lent != nil {
		return sh.lent, err
	}
	db, err := sh.open(dir, true)
	if errors.Is(err, kv.ErrNotExist) && !sh.readOnly {
		return sh.create(dir)
	}
	return db, sh.openError(dir, err)
}

// create makes a store in a directory that has none.
func (sh *shell) create(dir string) (*kv.DB, error) {
	db, err := sh.open(dir, false)
	switch {
	case err != nil:
	case sh.serveLog != nil:
		sh.logger().Info("sievekv: created store", "dir", dir)
	default:
		fmt.Fprintln(sh.stderr, "created store", dir)
	}
	return db, openError(dir, err)
}

// openFor returns an executor for a command. If there is no store, a write makes one, and a read gets an error. A
// command that every new store refuses makes none: its executor is storeless, and only says what is wrong.
//
// A client of a server connects when the first command runs.
func (sh *shell) openFor(ctx context.Context, words [][]byte) (exec executor, storeless bool, err error) {
	if sh.address != nil {
		return sh.client(), false, nil
	}
	dir, err := sh.dir()
	if err != nil {
		return nil, false, err
	}
	db, err := sh.open(dir, true)
	if err = sh.openError(dir, err); errors.Is(err, kv.ErrNotExist) {
		table := sh.table()
		refusal, refused := table.Refuse(words)
		if cmd, _ := table.Resolve(words); !refused && cmd.Flags&module.Write != 0 && !sh.readOnly {
			if refusal, err = sh.tryNew(ctx, words); err != nil {
				return nil, false, err
			}
			if refused = refusal.IsError(); !refused {
				db, err = sh.create(dir)
			}
		}
		if refused {
			return &storelessExecutor{table, refusal}, true, nil
		}
	}
	if err != nil {
		return nil, false, err
	}
	return sh.storeExecutor(db), false, nil
}

// tryNew returns the reply of a new store to a write. The store is in memory, and goes again.
func (sh *shell) tryNew(ctx context.Context, words [][]byte) (r reply.Reply, err error) {
	db, err := sh.open("", false)
	if err != nil {
		return r, openError("", err)
	}
	return module.NewSession(db).Do(ctx, words), db.Close()
}

// table returns the table of modules that this run opens stores with.
func (sh *shell) table() *module.Table { return module.New(sh.modules()...) }

// ballastSize is kv.Options.BallastSize. Tests open many stores, and set it to -1: no ballast.
var ballastSize int64

// adjust, if set, changes the options of each store before it is opened. Tests add disks and commands that hang.
var adjust func(*kv.Options)

// open opens the store in a directory, or a new one in memory if dir is "".
func (sh *shell) open(dir string, mustExist bool) (*kv.DB, error) {
	return sh.openChanged(dir, mustExist, func(*kv.Options) {})
}

// openChanged is open with other options.
func (sh *shell) openChanged(dir string, mustExist bool, change func(*kv.Options)) (*kv.DB, error) {
	o := sh.options(dir, mustExist)
	change(o)
	if o.LeaveGroup {
		member := *o
		member.LeaveGroup = false
		if err := replica.Leave(dir, replica.Options{Store: &member, Logger: sh.logger()}); err != nil && !errors.Is(err, replica.ErrNoMember) {
			return nil, err
		}
	}
	db, err := sh.awaitStore(dir, o)
	if err != nil {
		return nil, err
	}
	sh.noteSmallDisk(db)
	for name, l := range map[string]layout{filters.BloomLayoutFlag: sh.bloomLayout, filters.CuckooLayoutFlag: sh.cuckooLayout} {
		if l == 0 {
			continue
		}
		if err := module.Of(db).SetSetting(name, l.String()); err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	return db, nil
}

// noteSmallDisk says what helps if the store's whole file system has less space than has to be free for writes.
func (sh *shell) noteSmallDisk(db *kv.DB) {
	const text = "the whole file system is smaller than the free space that the store keeps, so it takes no writes: " +
		"with --memtable 256KiB --ballast 16KiB it keeps 65MiB"
	switch about := db.About(); {
	case !about.DiskTooSmall:
	case sh.serveLog != nil:
		sh.logger().Warn("sievekv: "+text, "dir", about.Directory)
	default:
		fmt.Fprintf(sh.stderr, "note: %s: %s\n", about.Directory, text)
	}
}

// awaitStore opens the store, which it awaits for as long as --wait says, or until Ctrl-C.
func (sh *shell) awaitStore(dir string, o *kv.Options) (*kv.DB, error) {
	for left := sh.wait; ; left -= o.LockTimeout {
		o.LockTimeout = min(left, 200*time.Millisecond)
		db, err := kv.Open(dir, o)
		if !errors.Is(err, kv.ErrLocked) || left <= 0 {
			return db, err
		}
		if sh.interrupted != nil && sh.interrupted.Err() != nil {
			return nil, sh.interrupted.Err()
		}
	}
}

// options returns the options that the flags ask for.
func (sh *shell) options(dir string, mustExist bool) *kv.Options {
	o := &kv.Options{
		InMemory:        dir == "",
		MustExist:       mustExist,
		ReadOnly:        sh.readOnly && dir != "",
		LeaveGroup:      sh.leaveCluster && !sh.member,
		Memory:          sharesOf(int64(sh.memory)).store,
		CacheSize:       int64(sh.cache),
		StringCacheSize: int64(sh.stringCache),
		MaxFilterBytes:  uint64(sh.maxFilterBytes),
		Durability:      kv.Durability(sh.sync),
		Seed:            sh.seed,
		MemTableSize:    int(min(int64(sh.memtable), math.MaxInt32)),
		BallastSize:     cmp.Or(int64(sh.ballast), ballastSize),
		Logger:          sh.logger(),
		Modules:         module.New(sh.modules()...),
	}
	if adjust != nil {
		adjust(o)
	}
	return o
}

// modules returns the modules of the table: a store that is served has the server's, too.
func (sh *shell) modules() []module.Module {
	switch {
	case sh.member:
		return append(sievekv.Modules(), server.Module(), server.GroupModule(), admin.Module(sh.operated))
	case sh.serveLog != nil:
		return append(sievekv.Modules(), server.Module())
	}
	return sievekv.Modules()
}

// operated returns the member of a group whose store is served, nil while it is being opened.
func (sh *shell) operated() admin.Node {
	if n := sh.node.Load(); n != nil {
		return n
	}
	return nil
}

// logger returns the log, on standard error. If the word is serve, lines begin with the time in RFC 3339 with
// milliseconds. Otherwise somebody waits for the program to end, and lines have no time.
func (sh *shell) logger() *slog.Logger {
	if sh.serveLog != nil {
		return slog.New(sh.serveLog)
	}
	return slog.New(slog.NewTextHandler(sh.stderr, &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: timeless}))
}

// timeless removes the time from a line of the log. Otherwise it does what brief does.
func timeless(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return brief(groups, a)
}

// brief replaces an error by the first line of its text. Errors of Pebble would be printed with pages of stack traces.
func brief(_ []string, a slog.Attr) slog.Attr {
	if err, ok := a.Value.Any().(error); ok {
		text, _, _ := strings.Cut(err.Error(), "\n")
		a.Value = slog.StringValue(text)
	}
	return a
}

// openError adds to an error of kv.Open what the user can do about it, and the exit code. Errors without a code of
// their own get exit.Open.
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
		return exit.WithCode(exit.Open, &noStoreError{dir: dir})
	case errors.Is(err, kv.ErrOptions):
		_, problems, _ := strings.Cut(err.Error(), kv.ErrOptions.Error()+": ")
		problems = strings.NewReplacer("LockTimeout ", "--wait ", "StringCacheSize ", "--string-cache ", "CacheSize ", "--cache ", "MemTableSize ", "--memtable ", "BallastSize ", "--ballast ", "MaxFilterBytes ", "--max-filter-bytes ").Replace(problems)
		return exit.WithCode(exit.Usage, errors.New(problems))
	case errors.Is(err, kv.ErrCorrupt), errors.Is(err, kv.ErrFailed), errors.Is(err, kv.ErrNoSpace):
		return err
	}
	return exit.WithCode(exit.Open, inFlags{err})
}

// inFlags is an error of kv.Open that names what helps by the flag, in place of the option.
type inFlags struct{ error }

func (e inFlags) Error() string {
	return strings.NewReplacer("Options.ReadOnly", "--read-only", "Options.LeaveGroup", "--leave-cluster").Replace(e.error.Error())
}

func (e inFlags) Unwrap() error { return e.error }

// withoutWrites returns an error of openError for a run that makes no store.
func withoutWrites(err error) error {
	if missing := (*noStoreError)(nil); errors.As(err, &missing) {
		missing.only = true
	}
	return err
}

// noStoreError is kv.ErrNotExist, and tells what the user can do about it.
type noStoreError struct {
	dir  string
	only bool // nothing that this run can do makes one
}

func (e *noStoreError) Error() string {
	if e.only {
		return "no store in " + e.dir
	}
	return fmt.Sprintf("no store in %s: the first write, such as BF.RESERVE, makes one", e.dir)
}

func (e *noStoreError) Unwrap() error { return kv.ErrNotExist }

// closeStore closes the store at the end of a function, unless the prompt has lent it. It adds its error to the
// function's own; if both say that the store has failed, one of them is enough.
func (sh *shell) closeStore(db *kv.DB, err *error) {
	if db == sh.lent {
		return
	}
	if closed := db.Close(); closed != nil && !(errors.Is(closed, kv.ErrFailed) && errors.Is(*err, kv.ErrFailed)) {
		*err = errors.Join(*err, closed)
	}
}

// collectMore has the garbage collector run twice as often, and returns what undoes that. Most memory of a run over many
// lines has no pointers, so this takes little time, and saves a quarter of the memory. GOGC in the environment counts
// instead.
func collectMore() (undo func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	before := debug.SetGCPercent(50)
	return func() { debug.SetGCPercent(before) }
}
