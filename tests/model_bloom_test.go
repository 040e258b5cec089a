package tests_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/compaction"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// modelWorker runs random commands on keys of its own, and foretells the replies.
type modelWorker struct {
	rng  *rand.Rand
	db   *kv.DB
	s    *module.Session
	name string
	keys map[string]*shadow
	done map[string]int // commands run, by name
}

func (w *modelWorker) key() string  { return fmt.Sprint(w.name, w.rng.IntN(6)) }
func (w *modelWorker) item() string { return strconv.Itoa(w.rng.IntN(4000)) }

func (w *modelWorker) itemList() []string {
	list := make([]string, 1+w.rng.IntN(12))
	for i := range list {
		list[i] = w.item()
	}
	return list
}

func (w *modelWorker) do(words ...string) reply.Reply {
	line := make([][]byte, len(words))
	for i, word := range words {
		line[i] = []byte(word)
	}
	w.done[words[0]]++
	return w.s.Do(context.Background(), line)
}

// expect runs a command and compares.
func (w *modelWorker) expect(want reply.Reply, words ...string) error {
	if got := w.do(words...); got.String() != want.String() {
		return fmt.Errorf("%q answers %v, want %v", words, got, want)
	}
	return nil
}

func (w *modelWorker) step() error {
	key := w.key()
	have := w.keys[key]
	made := func() *shadow {
		if have == nil {
			have = newShadow(100, 0.01, 2)
			w.keys[key] = have
		}
		return have
	}
	switch r := w.rng.IntN(100); {
	case r < 4:
		return w.reserve(key, have)
	case r < 25:
		item := w.item()
		return w.expect(made().add(item), "BF.ADD", key, item)
	case r < 35:
		items := w.itemList()
		return w.expect(addAll(made(), items), append([]string{"BF.MADD", key}, items...)...)
	case r < 42:
		items := w.itemList()
		if have == nil {
			have = newShadow(30, 0.02, 3)
			w.keys[key] = have
		}
		return w.expect(addAll(have, items), append([]string{"BF.INSERT", key, "CAPACITY", "30", "ERROR", "0.02", "EXPANSION", "3", "ITEMS"}, items...)...)
	case r < 70:
		item := w.item()
		return w.expect(reply.Bool(have != nil && have.has(item)), "BF.EXISTS", key, item)
	case r < 85:
		items := w.itemList()
		list := make([]reply.Reply, len(items))
		for i, item := range items {
			list[i] = reply.Bool(have != nil && have.has(item))
		}
		return w.expect(reply.Array(list...), append([]string{"BF.MEXISTS", key}, items...)...)
	case r < 90:
		n := uint64(0)
		if have != nil {
			n = have.items()
		}
		return w.expect(reply.Int(int64(n)), "BF.CARD", key)
	case r < 92:
		want := reply.Error("ERR not found")
		if have != nil {
			want = reply.Array(reply.Int(int64(len(have.layers))))
		}
		return w.expect(want, "BF.INFO", key, "FILTERS")
	case r < 94:
		n := int64(0)
		if have != nil {
			n = 1
		}
		delete(w.keys, key)
		return w.expect(reply.Int(n), "DEL", key)
	case r < 97:
		return w.rename(key, have)
	default:
		return w.merge(key)
	}
}

func (w *modelWorker) reserve(key string, have *shadow) error {
	capacity, rate, expansion := 10+w.rng.Uint64N(300), []float64{0.2, 0.01, 1e-3, 1e-7}[w.rng.IntN(4)], w.rng.Uint32N(5)
	want := reply.OK
	if have != nil {
		want = reply.Error("ERR item exists")
	} else {
		w.keys[key] = newShadow(capacity, rate, expansion)
	}
	return w.expect(want, "BF.RESERVE", key, fmt.Sprint(rate), fmt.Sprint(capacity), "EXPANSION", fmt.Sprint(expansion))
}

func (w *modelWorker) rename(key string, have *shadow) error {
	to := w.key()
	if have == nil {
		return w.expect(reply.Error("ERR no such key"), "RENAME", key, to)
	}
	delete(w.keys, key)
	w.keys[to] = have
	return w.expect(reply.OK, "RENAME", key, to)
}

func (w *modelWorker) merge(key string) error {
	other := w.key()
	have, from := w.keys[key], w.keys[other]
	if from == nil {
		return w.expect(reply.Error("ERR not found"), "BF.MERGE", key, other)
	}
	names, parts := []string{other}, []*shadow{from}
	if have != nil && key != other {
		names, parts = []string{key, other}, []*shadow{have, from}
	}
	union, want := unite(names, parts)
	if union != nil {
		w.keys[key] = union
	}
	return w.expect(want, "BF.MERGE", key, other)
}

// TestModel_bloom runs random commands of the Bloom family from many goroutines, over a cache of a few blocks, with
// folding and reclaiming beside them and the store closed and opened in between. Every reply is the one foretold: there
// is no false negative, and no false positive that the same bits in memory do not have.
func TestModel_bloom(t *testing.T) {
	t.Parallel()
	const goroutines, sessions = 8, 4
	commands := 40_000
	if raceEnabled {
		commands = 8_000
	}
	opts := &kv.Options{
		FS: vfs.NewMem(), CacheSize: 64 << 10, MemTableSize: 512 << 10, BallastSize: -1, MinFreeSpace: -1, Seed: modelSeed,
		Durability: kv.NoSync, Logger: slog.New(slog.DiscardHandler),
	}
	seed := uint64(time.Now().UnixNano())
	workers := make([]*modelWorker, goroutines)
	for i := range workers {
		workers[i] = &modelWorker{
			rng: rand.New(rand.NewPCG(seed, uint64(i))), name: fmt.Sprintf("w%d/", i),
			keys: make(map[string]*shadow), done: make(map[string]int),
		}
	}
	for range sessions {
		opts.Modules = coreext.With(bloomext.ModuleWith(bloomext.Options{GrowthLog: -1}), compaction.Module())
		db := open(t, storeDir, opts)
		errs := make([]error, goroutines)
		var wg sync.WaitGroup
		for i, w := range workers {
			wg.Go(func() {
				w.db, w.s = db, module.NewSession(db)
				for n := 0; n < commands/goroutines/sessions && errs[i] == nil; n++ {
					errs[i] = w.step()
				}
			})
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		must(t, errors.Join(checkStore(db), db.Close()))
	}
	total := make(map[string]int)
	for _, w := range workers {
		for name, n := range w.done {
			total[name] += n
		}
	}
	t.Logf("%d commands: %v", commands, total)
}
