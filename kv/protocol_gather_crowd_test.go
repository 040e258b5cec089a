package kv_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/internal/kvtest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// crowd are writers that each add the items 1, 2, 3 and so on to a filter of its own, and goroutines that look at it,
// evict it, view it and crash the store meanwhile.
type crowd struct {
	*store
	mem     *kvtest.Disk
	adds    uint64 // of each writer
	writers []*crowdWriter
	done    atomic.Bool // the writers have ended
}

type crowdWriter struct {
	key, row string
	added    atomic.Uint64 // items
	durable  atomic.Uint64 // items that were reported to survive a crash
}

// Everything that a filter with gathered commits promises, at once.
func TestGather_crowd(t *testing.T) {
	c := &crowd{mem: kvtest.NewDisk(), adds: 8000}
	if raceEnabled {
		c.adds = 1500
	}
	c.store = openGathering(t, &kv.Options{FS: c.mem, Durability: kv.NoSync, MemTableSize: 256 << 10}, newStops())
	for i := range 4 {
		w := &crowdWriter{key: fmt.Sprint("f", i), row: fmt.Sprint("row", i)}
		// Layers of 2000 items, so low a rate that no item seems known.
		c.must(bloomext.New(c.DB, w.key).Reserve(bloomext.Config{Capacity: 2000, ErrorRate: 1e-12}))
		c.writers = append(c.writers, w)
	}
	c.must(c.Sync())
	var writing, others sync.WaitGroup
	for i, w := range c.writers {
		writing.Go(func() { c.write(w, rand.New(rand.NewPCG(1, uint64(i)))) })
	}
	for _, f := range []func(*rand.Rand){c.evict, c.look, c.view, c.crash} {
		others.Go(func() {
			random := rand.New(rand.NewPCG(2, 0))
			for !c.done.Load() && !t.Failed() {
				f(random)
			}
		})
	}
	writing.Wait()
	c.done.Store(true)
	others.Wait()
	c.wantConsistent()
}

func (c *crowd) write(w *crowdWriter, random *rand.Rand) {
	f := bloomext.New(c.DB, w.key)
	for n := uint64(1); n <= c.adds && !c.t.Failed(); n++ {
		level := kv.NoSync
		switch random.IntN(200) {
		case 0:
			level = kv.Always
		case 1:
			level = kv.EverySec
		}
		if added, err := f.With(level).Add(scalableext.Uint64(n)); err != nil || !added {
			c.t.Errorf("%s: adding %d: %t, %v", w.key, n, added, err)
			return
		}
		w.added.Store(n)
		if level == kv.Always {
			w.durable.Store(n)
		}
		var err error
		switch random.IntN(400) {
		case 0, 1, 2, 3: // that it is known, told under Always, survives a crash
			known := 1 + random.Uint64N(n)
			added, aerr := f.With(kv.Always).Add(scalableext.Uint64(known))
			if err = aerr; added {
				err = errors.Join(err, fmt.Errorf("item %d of %d is new", known, n))
			}
			raiseTo(&w.durable, known)
		case 4: // what is written after an add survives no crash without it
			_, err = c.Set(kv.NoSync, []byte(w.row), strconv.AppendUint(nil, n, 10), kv.SetOptions{})
		case 5:
			f = bloomext.New(c.DB, w.key)
		case 6:
			other := []byte(w.key + " renamed")
			err = errors.Join(c.Rename(kv.NoSync, []byte(w.key), other), c.Rename(kv.NoSync, other, []byte(w.key)))
		case 7:
			c.Drain()
		}
		if err != nil {
			c.t.Errorf("%s, at %d: %v", w.key, n, err)
			return
		}
	}
}

func raiseTo(word *atomic.Uint64, n uint64) { word.Store(max(word.Load(), n)) }

func (c *crowd) evict(random *rand.Rand) {
	o, err := c.Lookup([]byte(c.any(random).key))
	if err != nil || o == nil {
		return // renamed
	}
	if random.IntN(3) == 0 {
		c.EvictObject(o)
		return
	}
	for _, l := range o.Layers() {
		for blk := range l.Spec().Blocks {
			c.EvictBlock(l, blk)
		}
	}
}

func (c *crowd) any(random *rand.Rand) *crowdWriter { return c.writers[random.IntN(len(c.writers))] }

func (c *crowd) look(random *rand.Rand) {
	w := c.any(random)
	n := w.added.Load()
	if n == 0 {
		return
	}
	item := n - random.Uint64N(min(n, 40))
	if there, err := bloomext.New(c.DB, w.key).MayContain(scalableext.Uint64(item)); !there {
		c.t.Errorf("%s: item %d of %d is lost: %v", w.key, item, n, err)
	}
}

// view looks at all filters as of one moment.
func (c *crowd) view(*rand.Rand) {
	var before, after []uint64
	for _, w := range c.writers {
		before = append(before, w.added.Load())
	}
	view, err := c.NewView(c.t.Context())
	if err != nil {
		c.t.Error(err)
		return
	}
	defer view.Rollback()
	for _, w := range c.writers {
		after = append(after, w.added.Load()+1)
	}
	for i, w := range c.writers {
		n, err := countTo(bloomext.New(c.DB, w.key).In(view), 20)
		if errors.Is(err, kv.ErrNotFound) {
			continue // renamed
		}
		if err != nil || n < before[i] || n > after[i] {
			c.t.Errorf("a view of %s has %d items, want %d to %d: %v", w.key, n, before[i], after[i], err)
		}
	}
}

// countTo returns how many items a filter counts, and an error unless it has just those, of
// as many before the last and after it as are to be looked at.
func countTo(f *bloomext.Filter, around uint64) (n uint64, err error) {
	info, err := f.Info()
	if err != nil {
		return 0, err
	}
	n = info.Items
	for item := max(1, n-min(n, around)); item <= n+around; item++ {
		there, err := f.MayContain(scalableext.Uint64(item))
		if err == nil && there != (item <= n) {
			err = fmt.Errorf("of %d items, %d is there: %t", n, item, there)
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// crash looks at what a crash would leave, with some of what was not synced.
func (c *crowd) crash(random *rand.Rand) {
	var durable []uint64
	for _, w := range c.writers {
		durable = append(durable, w.durable.Load())
	}
	left := openGathering(c.t, &kv.Options{FS: c.mem.CrashClone(vfs.CrashCloneCfg{
		UnsyncedDataPercent: random.IntN(101), RNG: rand.New(rand.NewPCG(random.Uint64(), 0)),
	})}, newStops())
	for i, w := range c.writers {
		n, err := countTo(bloomext.New(left.DB, w.key), c.adds)
		if errors.Is(err, kv.ErrNotFound) {
			n, err = countTo(bloomext.New(left.DB, w.key+" renamed"), c.adds)
		}
		if err != nil || n < durable[i] {
			c.t.Errorf("after a crash %s has %d items, want at least %d: %v", w.key, n, durable[i], err)
		}
		row, err := left.Get([]byte(w.row))
		if errors.Is(err, kv.ErrNotFound) {
			continue
		}
		written, perr := strconv.ParseUint(string(row), 10, 64)
		if err := errors.Join(err, perr); err != nil || written > n {
			c.t.Errorf("after a crash %s says %d, %s has %d items: %v", w.row, written, w.key, n, err)
		}
	}
	report, err := left.Check(c.t.Context())
	if err != nil || len(report.Problems) > 0 {
		c.t.Errorf("after a crash: %+v, %v", report, err)
	}
	if err := left.Close(); err != nil {
		c.t.Error(err)
	}
}
