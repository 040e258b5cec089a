package tests_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/internal/kvtest"
	"github.com/sievekv/sievekv/internal/txntest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/scalableext"
	"github.com/sievekv/sievekv/tests/faultfs"
	"github.com/sievekv/sievekv/txn"
)

// slowLog is a disk whose log can be kept from being synced.
type slowLog struct {
	disk  *kvtest.Disk
	syncs atomic.Int64 // of the log

	mu   sync.Mutex
	held chan struct{} // closed to let the log be synced, nil if nobody holds it; guarded by mu
}

func newSlowLog(t *testing.T) *slowLog {
	l := &slowLog{disk: kvtest.NewDisk()}
	must(t, faultfs.MakeDir(l.disk))
	return l
}

func (l *slowLog) fs() vfs.FS {
	return &faultfs.FS{FS: l.disk, Before: func(s faultfs.Site, _ string) error {
		if s == (faultfs.Site{Op: "sync", Class: "log"}) {
			l.syncs.Add(1)
			l.mu.Lock()
			held := l.held
			l.mu.Unlock()
			if held != nil {
				<-held
			}
		}
		return nil
	}}
}

// hold lets no sync of the log begin before release is called, which may be more than once.
func (l *slowLog) hold() (release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := make(chan struct{})
	l.held = held
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.held = nil
		close(held)
	})
}

// call is a function under way in a goroutine of its own.
type call struct {
	id   string // of the goroutine
	done chan struct{}
	err  error // set before done is closed
}

func begin(f func() error) *call {
	c := &call{done: make(chan struct{})}
	id := make(chan string)
	go func() {
		defer close(c.done)
		var buf [64]byte
		header := string(buf[:runtime.Stack(buf[:], false)])
		id <- strings.Join(strings.Fields(header)[:2], " ") // goroutine 42
		c.err = f()
	}()
	c.id = <-id
	return c
}

func (c *call) returned() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// waits returns true when the call waits for something, and false when it has returned. A call that waits for a moment
// only, as for a lock, waits for a goroutine that goes on: the answer is not given before all of the process wait, so
// that nothing but the test or a timer can wake one. Stores are in memory, so no goroutine is in a system call meanwhile.
func (c *call) waits() bool {
	for !c.returned() {
		if c.parkedAt() != "" {
			return true
		}
		time.Sleep(time.Millisecond)
	}
	return false
}

// parkedAt returns where the call waits, or "" if it does not, or if another goroutine goes on.
func (c *call) parkedAt() (place string) {
	for _, stack := range goroutines()[1:] { // the first is the one that asks
		header, frames, _ := strings.Cut(stack, "\n")
		id, state, _ := strings.Cut(header, " [")
		if !isParked(state) && !strings.Contains(frames, "os/signal.signal_recv") {
			return ""
		}
		if id == c.id {
			place = frames
		}
	}
	return place
}

// isParked returns true for the state of a goroutine that waits until another one wakes it, or a timer or the network.
func isParked(state string) bool {
	for _, parked := range []string{"select", "chan ", "sync.", "semacquire", "IO wait"} {
		if strings.HasPrefix(state, parked) {
			return true
		}
	}
	return false
}

// action is something done to a store, at a level if it writes.
type action func(db *kv.DB, level kv.Durability) error

func small(capacity uint64) bloomext.Config {
	return bloomext.Config{Capacity: capacity, ErrorRate: rate, NonScaling: true}
}

func reserve(key string, capacity uint64) action {
	return func(db *kv.DB, level kv.Durability) error {
		return bloomext.New(db, key).With(level).Reserve(small(capacity))
	}
}

func add(key, item string, isNew bool) action {
	return func(db *kv.DB, level kv.Durability) error {
		added, err := bloomext.New(db, key).With(level).Add([]byte(item))
		return errors.Join(err, expect(added == isNew, fmt.Sprintf("add of %s to %s: new is %t", item, key, added)))
	}
}

func addMany(key string, isNew bool, items ...string) action {
	return func(db *kv.DB, level kv.Durability) error {
		added := make([]bool, len(items))
		_, err := bloomext.New(db, key).With(level).AddMany(scalableext.BytesOfAll(items), added)
		return errors.Join(err, expect(added[0] == isNew, fmt.Sprintf("add of %s to %s: new is %t", items, key, added)))
	}
}

func deleteKey(key string, want int) action {
	return func(db *kv.DB, level kv.Durability) error {
		n, err := db.Delete(level, []byte(key))
		return errors.Join(err, expect(n == want, fmt.Sprintf("delete of %s: %d were there", key, n)))
	}
}

func rename(from, to string) action {
	return func(db *kv.DB, level kv.Durability) error { return db.Rename(level, []byte(from), []byte(to)) }
}

func flushAll(db *kv.DB, level kv.Durability) error { return db.DeleteAll(level) }

// command runs a command and wants a reply.
func command(want string, words ...string) action {
	return func(db *kv.DB, level kv.Durability) error {
		session := module.NewSession(db)
		session.Durability = level
		args := make([][]byte, len(words))
		for i, w := range words {
			args[i] = []byte(w)
		}
		got := strings.TrimSpace(string(reply.AppendText(nil, session.Do(context.Background(), args))))
		return expect(got == want, fmt.Sprintf("%s: %s, want %s", words, got, want))
	}
}

// failing wants an action to fail.
func failing(want error, a action) action {
	return func(db *kv.DB, level kv.Durability) error {
		if err := a(db, level); !errors.Is(err, want) {
			return fmt.Errorf("error is %v, want %v", err, want)
		}
		return nil
	}
}

// absent wants an item not to be there, nor the key perhaps.
func absent(key, item string) action {
	return func(db *kv.DB, _ kv.Durability) error {
		present, err := bloomext.New(db, key).MayContain([]byte(item))
		if errors.Is(err, kv.ErrNotFound) {
			return nil
		}
		return errors.Join(err, expect(!present, fmt.Sprintf("%s is in %s", item, key)))
	}
}

func present(key, item string) action {
	return func(db *kv.DB, _ kv.Durability) error {
		present, err := bloomext.New(db, key).MayContain([]byte(item))
		return errors.Join(err, expect(present, fmt.Sprintf("%s is not in %s", item, key)))
	}
}

func missing(key string) action {
	return func(db *kv.DB, _ kv.Durability) error {
		_, err := bloomext.New(db, key).Info()
		return expect(errors.Is(err, kv.ErrNotFound), fmt.Sprintf("%s: %v", key, err))
	}
}

func there(key string) action {
	return func(db *kv.DB, _ kv.Durability) error {
		_, err := bloomext.New(db, key).Info()
		return err
	}
}

// manyBlocks is a capacity whose blocks do not stay in the smallest cache.
const manyBlocks = 100_000

// TestCrash_answers has a write wait for the disk, and meanwhile another one answered that changes nothing because of
// the first: the item is known, the key is missing. Under Always that answer, too, must wait, whatever the level of the
// first write: else a crash takes back what it was based on.
func TestCrash_answers(t *testing.T) {
	tests := []struct {
		name          string
		setUp         []action
		first, second action
		before, after action // what a crash leaves before and after the sync
	}{
		{
			"add of a known item", []action{reserve("k", 100)},
			add("k", "x", true), add("k", "x", false), absent("k", "x"), present("k", "x"),
		}, {
			"add of a known item of a batch", []action{reserve("k", 100)},
			addMany("k", true, "a", "x"), add("k", "x", false), absent("k", "x"), present("k", "x"),
		}, {
			"batch of known items", []action{reserve("k", 100)},
			add("k", "x", true), addMany("k", false, "x", "x"), absent("k", "x"), present("k", "x"),
		}, {
			"add of a known item to a block read from disk", []action{reserve("k", manyBlocks)},
			add("k", "x", true), add("k", "x", false), absent("k", "x"), present("k", "x"),
		}, {
			"batch of known items in a block read from disk", []action{reserve("k", manyBlocks)},
			add("k", "x", true), addMany("k", false, "x"), absent("k", "x"), present("k", "x"),
		}, {
			"add of a known item to a renamed filter", []action{reserve("j", 100), add("j", "x", true)},
			rename("j", "k"), add("k", "x", false), missing("k"), present("k", "x"),
		}, {
			"add to a filter that is full", []action{reserve("k", 1)},
			add("k", "x", true), failing(scalableext.ErrFull, add("k", "y", false)), absent("k", "x"), present("k", "x"),
		}, {
			"batch for a filter that is full", []action{reserve("k", 1)},
			add("k", "x", true), failing(scalableext.ErrFull, addMany("k", false, "y")), absent("k", "x"), present("k", "x"),
		}, {
			"delete of a deleted key", []action{reserve("k", 100)},
			deleteKey("k", 1), deleteKey("k", 0), there("k"), missing("k"),
		}, {
			"delete after a flush", []action{reserve("k", 100)},
			flushAll, deleteKey("k", 0), there("k"), missing("k"),
		}, {
			"rename of a deleted key", []action{reserve("k", 100)},
			deleteKey("k", 1), failing(kv.ErrNotFound, rename("k", "l")), there("k"), missing("k"),
		}, {
			"rename of a renamed key", []action{reserve("k", 100)},
			rename("k", "l"), failing(kv.ErrNotFound, rename("k", "l")), there("k"), missing("k"),
		}, {
			"reserve of a key that is there", nil,
			reserve("k", 100), failing(kv.ErrExists, reserve("k", 100)), missing("k"), there("k"),
		}, {
			"add to a deleted key", []action{reserve("k", 100)},
			deleteKey("k", 1), failing(kv.ErrNotFound, add("k", "x", false)), there("k"), missing("k"),
		}, {
			"BF.ADD", []action{reserve("k", 100)},
			command("(integer) 1", "BF.ADD", "k", "x"), command("(integer) 0", "BF.ADD", "k", "x"),
			absent("k", "x"), present("k", "x"),
		}, {
			"BF.MADD", []action{reserve("k", 100)},
			command("1) (integer) 1", "BF.MADD", "k", "x"), command("1) (integer) 0", "BF.MADD", "k", "x"),
			absent("k", "x"), present("k", "x"),
		}, {
			"BF.RESERVE", nil,
			reserve("k", 100), command("(error) ERR item exists", "BF.RESERVE", "k", "0.1", "100", "NONSCALING"),
			missing("k"), there("k"),
		}, {
			"DEL", []action{reserve("k", 100)},
			command("(integer) 1", "DEL", "k"), command("(integer) 0", "DEL", "k"), there("k"), missing("k"),
		},
	}
	for _, tt := range tests {
		for _, level := range []kv.Durability{kv.Always, kv.EverySec, kv.NoSync} {
			t.Run(fmt.Sprintf("%s/first %s", tt.name, level), func(t *testing.T) {
				log := newSlowLog(t)
				opts := tinyOptions(log.fs())
				opts.CacheSize = 8 << 10
				db := open(t, storeDir, opts)
				for _, a := range tt.setUp {
					must(t, a(db, kv.Always))
				}
				release := log.hold()
				t.Cleanup(release) // before the store is closed
				first := begin(func() error { return tt.first(db, level) })
				if first.waits() != (level == kv.Always) {
					t.Errorf("the first write returned before the sync: %t", first.returned())
				}
				quick := begin(func() error { return tt.second(db, kv.NoSync) })
				if quick.waits() {
					t.Error("an answer at level no waits")
				}
				second := begin(func() error { return tt.second(db, kv.Always) })
				if !second.waits() {
					t.Errorf("the answer was given before the sync (%v)", second.err)
				}
				must(t, inCrash(t, log, tt.before))
				release()
				for _, c := range []*call{first, quick, second} {
					<-c.done
					must(t, c.err)
				}
				must(t, inCrash(t, log, tt.after))
			})
		}
	}
}

// An answer whose grounds cannot be brought to the disk is not given: the store has failed in its place.
func TestCrash_answerFails(t *testing.T) {
	duplicate := errors.New("duplicate")
	for name, answer := range map[string]func(db *kv.DB) error{
		"Update": func(db *kv.DB) error {
			return txntest.Update(t.Context(), db, kv.Always, func(tx *txntest.Tx) error {
				isNew, err := bloomext.New(db, "k").In(tx).Add([]byte("x"))
				if err == nil && !isNew {
					err = duplicate
				}
				return err
			})
		},
		"EXEC": func(db *kv.DB) error {
			session := module.NewSession(db)
			session.Charge = func(int) error { return duplicate }
			for _, words := range [][]string{{"MULTI"}, {"BF.ADD", "k", "x"}} {
				session.Do(t.Context(), wordsOf(words))
			}
			if text := string(session.Do(t.Context(), wordsOf([]string{"EXEC"})).Bytes()); !strings.HasPrefix(text, "MISCONF") {
				return errors.New(text)
			}
			return kv.ErrFailed
		},
	} {
		t.Run(name, func(t *testing.T) {
			var broken atomic.Bool
			disk := kvtest.NewDisk()
			must(t, faultfs.MakeDir(disk))
			opts := tinyOptions(&faultfs.FS{FS: disk, Before: func(s faultfs.Site, _ string) error {
				if broken.Load() && s == (faultfs.Site{Op: "sync", Class: "log"}) {
					return errors.New("broken")
				}
				return nil
			}})
			opts.Modules = coreext.Add(opts.Modules, txn.Module())
			db := open(t, storeDir, opts)
			must(t, reserve("k", 100)(db, kv.Always))
			must(t, add("k", "x", true)(db, kv.NoSync))
			broken.Store(true)
			if err := answer(db); errors.Is(err, duplicate) || !errors.Is(err, kv.ErrFailed) {
				t.Errorf("the answer is %v, want ErrFailed", err)
			}
			if err := db.Close(); !errors.Is(err, kv.ErrFailed) {
				t.Errorf("Close = %v", err)
			}
		})
	}
}

// inCrash does something to what a crash would leave that takes with it all that was not synced.
func inCrash(t *testing.T, log *slowLog, a action) error {
	t.Helper()
	db, err := kv.Open(storeDir, tinyOptions(log.disk.CrashClone(vfs.CrashCloneCfg{})))
	must(t, err)
	return errors.Join(a(db, kv.Always), checkStore(db), db.Close())
}

// Level no syncs nothing. A sync, a write under Always and Close bring it to the disk.
func TestCrash_levelNo(t *testing.T) {
	tests := []struct {
		name string
		sync func(db *kv.DB) error
	}{
		{"sync", (*kv.DB).Sync},
		{"write under always", func(db *kv.DB) error { return add("k", "y", true)(db, kv.Always) }},
		{"close", (*kv.DB).Close},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			log := newSlowLog(t)
			db := open(t, storeDir, tinyOptions(log.fs()))
			must(t, reserve("k", 100)(db, kv.Always))
			before := log.syncs.Load()
			must(t, add("k", "x", true)(db, kv.NoSync))
			must(t, inCrash(t, log, absent("k", "x")))
			if after := log.syncs.Load(); after != before {
				t.Errorf("the log was synced %d times", after-before)
			}
			must(t, tt.sync(db))
			must(t, inCrash(t, log, present("k", "x")))
		})
	}
}

// Level everysec, of the store or of a write, returns at once and reaches the disk without anybody asking for it.
func TestCrash_levelEverySec(t *testing.T) {
	for _, tt := range []struct {
		name         string
		store, write kv.Durability
	}{
		{"of the store", kv.EverySec, kv.DurabilityDefault},
		{"of the write", kv.Always, kv.EverySec},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			log := newSlowLog(t)
			opts := tinyOptions(log.fs())
			opts.Durability = tt.store
			db := open(t, storeDir, opts)
			must(t, reserve("k", 100)(db, kv.Always))
			release := log.hold()
			t.Cleanup(release)
			must(t, add("k", "x", true)(db, tt.write))
			must(t, inCrash(t, log, absent("k", "x")))
			release()
			for inCrash(t, log, present("k", "x")) != nil {
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
}
