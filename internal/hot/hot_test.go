package hot_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sievekv/sievekv/internal/hot"
	"github.com/sievekv/sievekv/internal/probe"
)

func hashOf(key string) uint64 { return probe.Sum64Seed([]byte(key), 1) }

// tested is a cache in a test, with keys as strings.
type tested struct{ *hot.Cache }

func (c tested) get(key string) (hot.Found, string, int64, hot.Token) {
	found, value, expiry, t := c.Get(hashOf(key), []byte(key), nil)
	return found, string(value), expiry, t
}

func (c tested) fill(t hot.Token, key, value string) {
	c.Fill(t, hashOf(key), []byte(key), []byte(value), 0, true)
}

func (c tested) begin(key string) { c.Begin(hashOf(key), []byte(key)) }

func (c tested) end(key string, now hot.Change, known bool) {
	c.End(hashOf(key), []byte(key), now, known)
}

// set is a commit that sets a key that was missing.
func (c tested) set(key, value string) {
	c.begin(key)
	c.end(key, hot.Change{Has: true, Value: []byte(value), Keep: true}, true)
}

func (c tested) want(t *testing.T, key string, found hot.Found, value string) {
	t.Helper()
	if f, v, _, _ := c.get(key); f != found || v != value {
		t.Errorf("%s: %d %q, want %d %q", key, f, v, found, value)
	}
}

func TestCache_commit(t *testing.T) {
	c := tested{hot.New(1<<20, true)}
	c.want(t, "k", hot.Nothing, "")
	c.begin("k")
	c.want(t, "k", hot.Unknown, "")
	c.end("k", hot.Change{Has: true, Value: []byte("one"), Expiry: 7, Keep: true}, true)
	if found, value, expiry, _ := c.get("k"); found != hot.String || value != "one" || expiry != 7 {
		t.Errorf("%d %q %d", found, value, expiry)
	}
	for _, value := range []string{"two", "a value of another length", ""} {
		c.begin("k")
		c.want(t, "k", hot.Unknown, "") // the store may have the new value
		c.end("k", hot.Change{Had: true, Has: true, Value: []byte(value), Keep: true}, true)
		c.want(t, "k", hot.String, value)
	}
	c.begin("k")
	c.end("k", hot.Change{Had: true, Has: true}, true) // no string any more
	c.want(t, "k", hot.Unknown, "")
	c.want(t, "other", hot.Nothing, "")
	c.begin("k")
	c.end("k", hot.Change{Had: true}, true)
	c.want(t, "k", hot.Nothing, "")
}

func TestCache_failedCommit(t *testing.T) {
	c := tested{hot.New(1<<20, true)}
	c.set("k", "one")
	c.begin("k")
	c.end("k", hot.Change{Had: true, Has: true, Value: []byte("two"), Keep: true}, false)
	c.want(t, "k", hot.Unknown, "")
	c.begin("new")
	c.end("new", hot.Change{Has: true, Value: []byte("v"), Keep: true}, false)
	c.want(t, "new", hot.Unknown, "")
	if _, _, _, token := c.get("k"); token == 0 {
		t.Error("nothing can be filled any more")
	}
}

func TestCache_fill(t *testing.T) {
	c := tested{hot.New(4<<10, true)} // one shard
	c.Stored(0, 3)
	_, _, _, token := c.get("k")
	c.fill(token, "k", "one")
	c.want(t, "k", hot.String, "one")
	c.fill(token, "k", "two") // another lookup was faster
	c.want(t, "k", hot.String, "one")

	_, _, _, before := c.get("b")
	c.begin("other")
	_, _, _, during := c.get("b")
	c.fill(before, "b", "old")
	c.fill(during, "b", "old")
	c.want(t, "b", hot.Unknown, "")
	c.end("other", hot.Change{Had: true, Has: true, Value: []byte("v"), Keep: true}, true)
	c.fill(before, "b", "old")
	c.fill(during, "b", "old")
	c.want(t, "b", hot.Unknown, "")

	_, _, _, before = c.get("b")
	c.BeginAll()
	c.fill(before, "b", "old")
	c.want(t, "k", hot.Unknown, "")
	c.EndAll(true)
	c.fill(before, "b", "old")
	c.want(t, "b", hot.Nothing, "")
	c.want(t, "k", hot.Nothing, "")
}

// A key that is missing is known to be missing only if every key has an entry.
func TestCache_missing(t *testing.T) {
	c := tested{hot.New(4<<10, true)}
	c.Stored(0, 2)
	c.want(t, "missing", hot.Unknown, "")
	_, _, _, token := c.get("a")
	c.fill(token, "a", "v")
	c.want(t, "missing", hot.Unknown, "")
	c.Fill(token, hashOf("b"), []byte("b"), nil, 0, false)
	c.want(t, "missing", hot.Nothing, "")
	c.want(t, "b", hot.Unknown, "")
	c.begin("missing")
	c.want(t, "another", hot.Unknown, "") // the commit may change it, too
	c.end("missing", hot.Change{Has: true, Value: make([]byte, 1<<20), Keep: true}, true)
	c.want(t, "missing", hot.Unknown, "") // too large
	c.want(t, "another", hot.Nothing, "")
	c.begin("x")
	c.end(string(make([]byte, 1<<10)), hot.Change{Has: true, Keep: true}, true) // a key that has no entry
	c.want(t, "another", hot.Unknown, "")
}

// In a store that had keys at first, no key is known to be missing before all were removed.
func TestCache_uncounted(t *testing.T) {
	c := tested{hot.New(4<<10, false)}
	c.want(t, "missing", hot.Unknown, "")
	c.set("a", "v")
	c.begin("b")
	c.end("b", hot.Change{Had: true}, true)
	c.want(t, "missing", hot.Unknown, "")
	c.want(t, "a", hot.String, "v")
	c.BeginAll()
	c.EndAll(true)
	c.want(t, "missing", hot.Nothing, "")
	c.want(t, "a", hot.Nothing, "")
}

// Keys whose hashes are the same are different keys, and no more of them stay than two buckets hold.
func TestCache_sameHash(t *testing.T) {
	c := hot.New(1<<20, true)
	for i := range 100 {
		key := fmt.Append(nil, i)
		c.Begin(7, key)
		c.End(7, key, hot.Change{Has: true, Value: key, Keep: true}, true)
		if found, value, _, _ := c.Get(7, key, nil); found != hot.String || string(value) != string(key) {
			t.Errorf("%s: %d %q", key, found, value)
		}
	}
	if n := c.Stats().Keys; n < 8 || n > 16 {
		t.Errorf("%d keys of one hash", n)
	}
}

// The index grows if both buckets of a key are full: so every key stays, however few there are.
func TestCache_fullBuckets(t *testing.T) {
	c := hot.New(1<<20, true)
	n := 0
	for tag := uint32(0); n < 9; tag++ {
		if tag&1 != 0 || tag*0x9e3779b1>>24&1 != 0 { // its two buckets are the first of two
			continue
		}
		n++
		hash, key := uint64(tag)<<24, fmt.Append(nil, tag)
		c.Begin(hash, key)
		c.End(hash, key, hot.Change{Has: true, Value: key, Keep: true}, true)
	}
	if kept := c.Stats().Keys; kept != n {
		t.Errorf("%d keys of %d", kept, n)
	}
}

// As long as there is memory, every key stays: so it is known which are missing.
func TestCache_allStay(t *testing.T) {
	c := tested{hot.New(8<<20, true)}
	for i := range 100_000 {
		c.set(fmt.Sprint("a key of some length ", i), "v")
	}
	if n := c.Stats().Keys; n < 100_000 {
		t.Errorf("%d keys of 100,000", n)
	}
	c.want(t, "missing", hot.Nothing, "")
}

func TestCache_none(t *testing.T) {
	c := tested{hot.New(-1, true)}
	if c.Cache != nil {
		t.Fatal("a cache without memory")
	}
	c.Stored(0, 1)
	c.set("k", "v")
	c.want(t, "k", hot.Unknown, "")
	c.fill(1, "k", "v")
	c.BeginAll()
	c.EndAll(true)
	c.want(t, "k", hot.Unknown, "")
	c.Reset()
	if s := c.Stats(); s != (hot.Stats{}) {
		t.Error(s)
	}
}

func TestCache_stats(t *testing.T) {
	c := tested{hot.New(1<<20, true)}
	c.set("k", "v")
	c.get("k")
	c.get("other")
	c.begin("k")
	c.get("k")
	if found, _, _ := c.Try(hashOf("k"), []byte("k"), nil); found != hot.Unknown {
		t.Error(found)
	}
	if s := c.Stats(); s.Budget > 1<<20 || s.Budget < 1<<19 || s.Keys != 1 || s.Hits != 2 || s.Misses != 1 || s.Used == 0 {
		t.Errorf("%+v", s)
	}
	c.Reset()
	if s := c.Stats(); s.Hits+s.Misses != 0 {
		t.Errorf("%+v", s)
	}
}

func TestCache_try(t *testing.T) {
	c := tested{hot.New(1<<20, true)}
	c.set("k", "v")
	if found, value, expiry := c.Try(hashOf("k"), []byte("k"), []byte("before ")); found != hot.String || string(value) != "before v" || expiry != 0 {
		t.Errorf("%v, %q, %d", found, value, expiry)
	}
	if found, _, _ := c.Try(hashOf("other"), []byte("other"), nil); found != hot.Nothing {
		t.Error(found)
	}
	if s := c.Stats(); s.Hits != 2 || s.Misses != 0 {
		t.Errorf("%+v", s)
	}
	none := hot.New(0, true)
	if found, _, _ := none.Try(hashOf("k"), []byte("k"), nil); found != hot.Unknown {
		t.Error(found)
	}
}

// Whatever happens, the cache answers what the store has, or Unknown, and keeps to its budget.
func TestCache_model(t *testing.T) {
	for _, budget := range []int64{4 << 10, 64 << 10, 300 << 10} {
		random := rand.New(rand.NewPCG(1, uint64(budget)))
		c := tested{hot.New(budget, true)}
		type stored struct {
			value  string
			expiry int64
			keep   bool
		}
		model := make(map[string]stored)
		for i := range 300 {
			key := fmt.Sprint("stored before ", i)
			model[key] = stored{"v", 0, true}
			c.Stored(hashOf(key), 1)
		}
		hits, missing := 0, 0
		for step := range 200_000 {
			key := fmt.Sprint("stored before ", random.IntN(400))
			if random.IntN(3) > 0 {
				key = fmt.Sprint(random.IntN(int(budget)/64), "k", string(make([]byte, random.IntN(64))))
			}
			was, had := model[key]
			switch action := random.IntN(100); {
			case action < 60:
				found, value, expiry, token := c.get(key)
				switch found {
				case hot.String:
					hits++
					if !had || value != was.value || expiry != was.expiry || !was.keep {
						t.Fatalf("step %d: %q: %q %d, want %+v (%v)", step, key, value, expiry, was, had)
					}
				case hot.Nothing:
					missing++
					if had {
						t.Fatalf("step %d: %q is there", step, key)
					}
				case hot.Unknown:
					if had {
						c.Fill(token, hashOf(key), []byte(key), []byte(was.value), was.expiry, was.keep)
					}
				}
			case action < 90:
				size := random.IntN(40)
				if random.IntN(50) == 0 {
					size = random.IntN(30_000)
				}
				now := stored{string(bytes.Repeat([]byte{byte(step)}, size)), random.Int64(), random.IntN(20) > 0}
				c.begin(key)
				c.end(key, hot.Change{Had: had, Has: true, Value: []byte(now.value), Expiry: now.expiry, Keep: now.keep}, true)
				model[key] = now
			case action < 99 || step%50 > 0:
				c.begin(key)
				c.end(key, hot.Change{Had: had}, true)
				delete(model, key)
			default:
				c.BeginAll()
				c.EndAll(true)
				clear(model)
			}
			if step%1000 == 0 {
				if s := c.Stats(); s.Used > budget || s.Used > s.Budget || s.Keys > len(model) {
					t.Fatalf("step %d: %+v, %d keys", step, s, len(model))
				}
			}
		}
		if hits < 1000 || missing < 100 {
			t.Errorf("budget %d: %d hits, %d keys known to be missing", budget, hits, missing)
		}
	}
}

// The keys that lookups find again stay when many others pass by.
func TestCache_keepsWhatIsFound(t *testing.T) {
	c := tested{hot.New(64<<10, true)}
	for i := range 100 {
		c.set(fmt.Sprint("found ", i), "v")
	}
	kept := 0
	for i := range 20_000 {
		c.set(fmt.Sprint("passing by ", i), "v")
		key := fmt.Sprint("found ", i%100)
		found, _, _, token := c.get(key)
		if found == hot.String {
			kept++
		}
		c.fill(token, key, "v")
	}
	if kept < 19_500 {
		t.Errorf("%d of 20,000 lookups found their keys", kept)
	}
}

// A lookup never finds a value that is older than one whose commit had returned when the lookup began, and never an
// older one than it has found before.
func TestCache_neverStale(t *testing.T) {
	const keys, writers, readers, commits = 16, 2, 4, 3_000
	c := tested{hot.New(4<<10, true)}
	var locks [keys]sync.Mutex
	var pebble, acknowledged [keys]atomic.Uint64
	name := func(i int) string { return fmt.Sprint("key ", i, string(make([]byte, 100))) } // too many to keep all
	c.Stored(0, keys)
	var writing, reading sync.WaitGroup
	for range writers {
		writing.Go(func() {
			for range commits {
				i := rand.IntN(keys)
				locks[i].Lock()
				c.begin(name(i))
				n := pebble[i].Add(1)
				c.end(name(i), hot.Change{Had: true, Has: true, Value: []byte(fmt.Sprint(n)), Keep: true}, true)
				locks[i].Unlock()
				for {
					old := acknowledged[i].Load()
					if old >= n || acknowledged[i].CompareAndSwap(old, n) {
						break
					}
				}
			}
		})
	}
	var stop atomic.Bool
	var hits atomic.Int64
	for range readers {
		reading.Go(func() {
			var seen [keys]uint64
			for !stop.Load() {
				i := rand.IntN(keys)
				least := max(seen[i], acknowledged[i].Load())
				found, value, _, token := c.get(name(i))
				n := uint64(0)
				switch found {
				case hot.Nothing:
					t.Errorf("%d is missing", i)
				case hot.String:
					hits.Add(1)
					if _, err := fmt.Sscan(value, &n); err != nil {
						t.Errorf("%q: %v", value, err)
					}
				default:
					n = pebble[i].Load()
					c.fill(token, name(i), fmt.Sprint(n))
				}
				if n < least {
					t.Errorf("key %d: found %d (%d), after %d", i, n, found, least)
					return
				}
				seen[i] = n
			}
		})
	}
	writing.Wait()
	stop.Store(true)
	reading.Wait()
}
