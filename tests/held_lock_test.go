package tests_test

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"testing"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/internal/probe"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/scalableext"
)

// keyLocks tells which of a store's 256 write locks a key has: by the upper eight bits of its hash, whose seed is the
// beginning of the store's id. Two keys of one lock wait for each other, as one key does for itself.
type keyLocks struct{ seed uint64 }

func keyLocksOf(t *testing.T, db *kv.DB) keyLocks {
	t.Helper()
	info := reply.AppendText(nil, module.NewSession(db).Do(context.Background(), [][]byte{[]byte("INFO")}))
	found := regexp.MustCompile(`store_id:([0-9a-f]{32})`).FindSubmatch(info)
	if found == nil {
		t.Fatalf("INFO does not tell the store's id: %s", info)
	}
	id, err := hex.DecodeString(string(found[1]))
	must(t, err)
	return keyLocks{binary.LittleEndian.Uint64(id)}
}

func (l keyLocks) of(key string) uint8 { return uint8(probe.Sum64SeedString(key, l.seed) >> 56) }

// others returns n keys that share a lock neither with each other nor with those given.
func (l keyLocks) others(n int, given ...string) []string {
	taken := make(map[uint8]bool)
	for _, key := range given {
		taken[l.of(key)] = true
	}
	var keys []string
	for i := 0; len(keys) < n; i++ {
		if key := fmt.Sprint("other ", i); !taken[l.of(key)] {
			taken[l.of(key)] = true
			keys = append(keys, key)
		}
	}
	return keys
}

// below returns a key whose lock is taken before the given key's, and is not one of the others'.
func (l keyLocks) below(t *testing.T, given string, others []string) string {
	t.Helper()
	if l.of(given) == 0 {
		t.Fatalf("no lock is taken before that of %q", given)
	}
	for i := 0; ; i++ {
		key := fmt.Sprint("below ", i)
		taken := l.of(key) >= l.of(given)
		for _, other := range others {
			taken = taken || l.of(key) == l.of(other)
		}
		if !taken {
			return key
		}
	}
}

// bystanders are what goes on beside a writer that is held up: filters and strings under keys of locks of their own.
type bystanders struct{ filter, large, made, moved, number, a, b string }

func (s bystanders) setUp() []action {
	return []action{
		reserve(s.filter, 100), add(s.filter, "before", true), reserve(s.large, manyBlocks), add(s.large, "before", true),
		command("OK", "SET", s.number, "0"), command("OK", "MSET", s.a, "a", s.b, "b"),
	}
}

type namedAction struct {
	name string
	do   action
}

// writes are writes that answer so if none was made with this tag before.
func (s bystanders) writes(tag string) []namedAction {
	return []namedAction{
		{"add", add(s.filter, tag, true)},
		{"add of a known item", add(s.filter, "before", false)},
		{"add of several", addMany(s.filter, true, tag+" 1", tag+" 2")},
		{"add to a block read from disk", add(s.large, tag, true)},
		{"reserve", reserve(s.made, 100)},
		{"rename", rename(s.made, s.moved)},
		{"delete", deleteKey(s.moved, 1)},
		{"delete of nothing", deleteKey(s.moved, 0)},
		{"MSET", command("OK", "MSET", s.a, "a", s.b, "b")},
		{"SET", command("OK", "SET", s.number, "7")},
		{"INCR", command("(integer) 8", "INCR", s.number)},
		{"SETNX of a known key", command("(integer) 0", "SETNX", s.number, "1")},
	}
}

// lookups look at the key of the writer that is held up, too: a filter with item before.
func (s bystanders) lookups(held string) []namedAction {
	return []namedAction{
		{"lookup of the key's item", present(held, "before")},
		{"lookup of an absent item", absent(held, "never")},
		{"lookup of several", func(db *kv.DB, _ kv.Durability) error {
			found := make([]bool, 2)
			err := bloomext.New(db, held).MayContainMany(scalableext.BytesOfAll([]string{"before", "never"}), found)
			return errors.Join(err, expect(found[0] && !found[1], fmt.Sprint("before and never are there: ", found)))
		}},
		{"info", there(held)},
		{"lookup in another filter", present(s.filter, "before")},
		{"lookup in another filter, from disk", present(s.large, "before")},
		{"GET", command(`"b"`, "GET", s.b)},
		{"EXISTS", command("(integer) 3", "EXISTS", held, s.a, s.filter)},
		{"MGET", command("1) \"a\"\n2) \"b\"\n3) (nil)", "MGET", s.a, s.b, held)},
		{"scan", func(db *kv.DB, _ kv.Durability) error {
			seen := make(map[string]bool)
			for key, err := range db.Scan(context.Background(), kv.ScanOptions{}) {
				if err != nil {
					return err
				}
				seen[key] = true
			}
			return expect(seen[held] && seen[s.filter], fmt.Sprint("keys are ", seen))
		}},
		{"view", func(db *kv.DB, _ kv.Durability) error {
			view, err := db.NewView(context.Background())
			if err != nil {
				return err
			}
			defer view.Rollback()
			found, err := bloomext.New(db, held).In(view).MayContain([]byte("before"))
			return errors.Join(err, expect(found, "before is not in the view"))
		}},
	}
}

// goOn wants each of the actions to return, one after the other.
func goOn(t *testing.T, db *kv.DB, level kv.Durability, actions []namedAction) {
	t.Helper()
	for _, a := range actions {
		c := begin(func() error { return a.do(db, level) })
		if c.waits() {
			t.Errorf("%s at level %s waits at\n%s", a.name, level, c.parkedAt())
			return // the next would find what this one may yet do
		}
		if c.err != nil {
			t.Errorf("%s at level %s: %v", a.name, level, c.err)
		}
	}
}

// heldStore is a store with a filter under key held, which a writer is going to be held up at.
type heldStore struct {
	db    *kv.DB
	log   *slowLog
	locks keyLocks
	held  string
	by    bystanders
	keys  []string // of the bystanders
}

func openHeld(t *testing.T) heldStore {
	t.Helper()
	log := newSlowLog(t)
	opts := tinyOptions(log.fs())
	opts.CacheSize = 8 << 10 // a large filter's lookups read from disk
	opts.Seed = modelSeed    // so that items are false positives always or never
	db := open(t, storeDir, opts)
	s := heldStore{db: db, log: log, locks: keyLocksOf(t, db), held: "held"}
	for i := 0; s.locks.of(s.held) == 0; i++ {
		s.held = fmt.Sprint("held ", i)
	}
	k := s.locks.others(7, s.held)
	s.by, s.keys = bystanders{k[0], k[1], k[2], k[3], k[4], k[5], k[6]}, k
	for _, a := range append(s.by.setUp(), reserve(s.held, manyBlocks), add(s.held, "before", true)) {
		must(t, a(db, kv.Always))
	}
	return s
}

var levels = []kv.Durability{kv.NoSync, kv.EverySec, kv.Always}

// A writer that takes long over its key, and the writers that wait for it, delay only writers of keys of the same lock.
// A waiting writer may hold one other key's lock meanwhile, and no more.
func TestHeld_lock(t *testing.T) {
	s := openHeld(t)
	second := s.locks.below(t, s.held, s.keys)
	must(t, command("OK", "SET", second, "value")(s.db, kv.Always))
	staged, end, written := make(chan error, 1), make(chan struct{}), make(chan error, 1)
	release := sync.OnceFunc(func() { close(end) })
	t.Cleanup(release) // before the store is closed, which waits for writers
	go func() {
		written <- s.db.Write(kv.Always, [][]byte{[]byte(s.held)}, func(w *kv.Writer) error {
			n, err := bloomext.New(s.db, s.held).AddStaged(w, itemsOf("staged", 100), make([]bool, 100))
			staged <- errors.Join(err, expect(n == 100, fmt.Sprint("staged ", n, " of 100")))
			<-end
			return nil
		})
	}()
	must(t, <-staged)
	var waiting []*call
	for _, a := range []namedAction{
		{"add", add(s.held, "x", true)},
		{"add of several", addMany(s.held, true, "y", "z")},
		{"write to two keys", command("(integer) 0", "RENAMENX", second, s.held)},
		{"SET of the key whose lock that holds", command("OK", "SET", second, "new")},
	} {
		c := begin(func() error { return a.do(s.db, kv.NoSync) })
		if !c.waits() {
			t.Fatalf("%s does not wait for the writer of %q (%v)", a.name, s.held, c.err)
		}
		waiting = append(waiting, c)
	}
	for _, level := range levels {
		goOn(t, s.db, level, s.by.writes(level.String()))
		goOn(t, s.db, level, s.by.lookups(s.held))
		goOn(t, s.db, level, []namedAction{
			{"lookup of what is staged", absent(s.held, "staged/1")},
			{"GET of a key whose lock is held", command(`"value"`, "GET", second)},
		})
	}
	release()
	must(t, <-written)
	for _, c := range waiting {
		<-c.done
		must(t, c.err)
	}
	goOn(t, s.db, kv.Always, []namedAction{
		{"lookup of what was staged", present(s.held, "staged/1")},
		{"lookup of what waited", present(s.held, "z")},
		{"GET of what waited", command(`"new"`, "GET", second)},
	})
	must(t, checkStore(s.db))
}

// A writer that waits for the disk holds no lock: others, of its own key too, go on, unless they wait for the disk
// themselves.
func TestHeld_sync(t *testing.T) {
	s := openHeld(t)
	release := s.log.hold()
	t.Cleanup(release)
	var waiting []*call
	for _, a := range []namedAction{
		{"add", add(s.held, "first", true)},
		{"add to the same key", add(s.held, "second", true)},
		{"add of several known to the same key", addMany(s.held, false, "first", "second")},
		{"rename", rename(s.by.a, s.by.b)},
	} {
		c := begin(func() error { return a.do(s.db, kv.Always) })
		if !c.waits() {
			t.Fatalf("%s at level always does not wait for the disk (%v)", a.name, c.err)
		}
		waiting = append(waiting, c)
	}
	for _, level := range []kv.Durability{kv.NoSync, kv.EverySec} {
		goOn(t, s.db, level, append(s.by.writes(level.String()),
			namedAction{"add to the key", add(s.held, level.String(), true)},
			namedAction{"add of an item not on the disk yet", add(s.held, "first", false)},
			namedAction{"several adds to the key", addMany(s.held, true, level.String()+" 1", level.String()+" 2")},
			namedAction{"lookup of an item not on the disk yet", present(s.held, "first")},
		))
		goOn(t, s.db, level, s.by.lookups(s.held))
	}
	for i, c := range waiting {
		if c.returned() {
			t.Errorf("write %d at level always returned before the sync (%v)", i, c.err)
		}
	}
	release()
	for _, c := range waiting {
		<-c.done
		must(t, c.err)
	}
	must(t, checkStore(s.db))
}
