package kv_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/compaction"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/kv"
)

var lookupsWanted = flag.Int64("lookups", 400_000, "lookups of TestLookups_noFalseNegative, with each kind of store")

// phases are run one after the other on the same store, which is closed and opened with another cache budget in
// between. Most lookups are made where they are cheapest; the small budgets have all the races.
var phases = []struct {
	cache int64
	share float64 // of the lookups
}{
	{8 << 10, 0.02}, // one block
	{64 << 10, 0.04},
	{1 << 20, 0.13},
	{256 << 20, 0.31}, // all
	{1 << 20, 0.13},
	{64 << 10, 0.04},
	{8 << 10, 0.02},
	{256 << 20, 0.31},
}

// subjects are filters of each layout, size and way of life.
func subjects(small bool) []*subject {
	limit := func(n int) int {
		if small {
			return n/10 + 100
		}
		return n
	}
	var list []*subject
	for _, layout := range []struct {
		name string
		rate float64
	}{{"one line", 1e-2}, {"two lines", 1e-4}, {"three lines", 1e-6}} {
		add := func(name string, capacity uint64, limit int, grow func(*trial, *subject, int) error) {
			list = append(list, &subject{
				key: name + ", " + layout.name, limit: limit, grow: grow,
				config: bloomext.Config{Capacity: capacity, ErrorRate: layout.rate, NonScaling: true},
			})
		}
		add("one short block", 200, 200, growByAdding)
		add("few dense blocks", 20_000, limit(10_000), growByAdding)
		add("many sparse blocks", 1_000_000, limit(4000), growByAdding)
		add("renamed over", 20_000, limit(500), growByRename)
		add("replaced", 5000, maxCommit, growByReplacing)
		add("short and replaced", 200, maxCommit, growByReplacing)
		add("deleted", 20_000, limit(500), growByDeleting)

		// Chains: layers are added while others look.
		add("chain", 100, limit(8000), growByAdding)
		add("chain renamed over", 50, limit(500), growByRename)
		add("chain deleted", 20, limit(500), growByDeleting)
		for _, s := range list[len(list)-3:] {
			s.config.NonScaling = false
		}
	}
	return list
}

// trial is a run of the lookups test.
type trial struct {
	t        *testing.T
	fs       vfs.FS
	db       *kv.DB
	items    *items
	subjects []*subject

	// Of the phase: lookups made, and wanted; writers that have more to do. Writers take a turn whenever another
	// tenth of the lookups is made, so that they are at work all the time, and lookups go on until they are done.
	looked  atomic.Int64
	target  int64
	writing atomic.Int64
	turns   [10]turn
	failed  atomic.Bool
}

// No lookup of an item whose add had returned before the lookup began answers "absent": in any layout, block state
// and cache budget, during adds, evictions, flushes, compactions, folds, renames, replacements and deletions, and
// after the store was opened again.
func TestLookups_noFalseNegative(t *testing.T) {
	items := 10_000
	if raceEnabled {
		items = 3_000
	}
	tr := &trial{t: t, fs: vfs.NewMem(), items: makeItems(items), subjects: subjects(raceEnabled)}
	phases, wanted, total := phases, *lookupsWanted, int64(0)
	if raceEnabled {
		phases, wanted = phases[:4], wanted/12 // each budget once
	}
	for i, phase := range phases {
		tr.open(phase.cache)
		if i == 0 {
			tr.reserve()
		}
		total += tr.verify() + tr.run(float64(i+1)/float64(len(phases)), int64(phase.share*float64(wanted)))
		tr.checkStore()
		if err := tr.db.Close(); err != nil {
			t.Fatal(err)
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	t.Logf("%d lookups checked", total)
	if total < wanted/2 {
		t.Errorf("only %d lookups were checked", total)
	}
}

func (tr *trial) open(cache int64) {
	tr.t.Helper()
	db, err := kv.Open("", eitherWay(&kv.Options{
		InMemory: true, FS: tr.fs, CacheSize: cache, MemTableSize: 256 << 10,
		Logger:  slog.New(slog.DiscardHandler),
		Modules: coreext.With(bloomext.Module(), compaction.Module()),
	}))
	if err != nil {
		tr.t.Fatal(err)
	}
	tr.db = db
}

func (tr *trial) reserve() {
	tr.t.Helper()
	for _, s := range tr.subjects {
		if err := bloomext.New(tr.db, s.key).Reserve(s.config); err != nil {
			tr.t.Fatal(err)
		}
	}
}

// level returns a level for a write: one in eight waits for the disk.
func (tr *trial) level() kv.Durability {
	if rand.IntN(8) == 0 {
		return kv.Always
	}
	return kv.NoSync
}

func (tr *trial) fail(err error) {
	tr.t.Error(err)
	tr.failed.Store(true)
}

// verify looks every item up once, and returns how many there are.
func (tr *trial) verify() (lookups int64) {
	for _, s := range tr.subjects {
		f := bloomext.New(tr.db, s.key)
		_, n := s.count()
		for kind := range numKinds {
			var chosen []int
			for i := kind; i < n; i += numKinds {
				chosen = append(chosen, i)
			}
			if len(chosen) == 0 {
				continue
			}
			present := make([]bool, len(chosen))
			err := tr.items.lookupMany(f, chosen, present)
			for i, p := range present {
				if err == nil && !p {
					err = fmt.Errorf("item %d is absent", chosen[i])
				}
			}
			if err != nil {
				tr.t.Errorf("%s, opened again: %v", s.key, err)
			}
			lookups += int64(len(chosen))
		}
	}
	return lookups
}

// run looks items up while every subject grows to a share of its limit, and returns the number of lookups checked.
func (tr *trial) run(share float64, target int64) int64 {
	tr.looked.Store(0)
	tr.target = target
	for i := range tr.turns {
		tr.turns[i].comes, tr.turns[i].once = make(chan struct{}), new(sync.Once)
	}
	var readers, writers sync.WaitGroup
	tr.writing.Store(int64(len(tr.subjects)))
	for _, s := range tr.subjects {
		writers.Go(func() {
			defer tr.writing.Add(-1)
			tr.grow(s, int(share*float64(s.limit)))
		})
	}
	for range max(2, runtime.GOMAXPROCS(0)) {
		readers.Go(tr.read)
	}
	readers.Wait()
	for i := range tr.turns {
		tr.turns[i].come() // those a failure left out
	}
	writers.Wait()
	return tr.looked.Load()
}

// turn is a moment to write.
type turn struct {
	comes chan struct{}
	once  *sync.Once
}

func (t *turn) come() { t.once.Do(func() { close(t.comes) }) }

func (tr *trial) grow(s *subject, end int) {
	_, start := s.count()
	for i := range tr.turns {
		<-tr.turns[i].comes
		if tr.failed.Load() {
			return
		}
		n := start + (end-start)*(i+1)/len(tr.turns)
		if err := s.grow(tr, s, n); err != nil {
			tr.fail(err)
			return
		}
	}
}

// read looks items up until there were enough.
func (tr *trial) read() {
	handles := make([]*bloomext.Filter, len(tr.subjects))
	for i, s := range tr.subjects {
		handles[i] = bloomext.New(tr.db, s.key)
	}
	rng := rand.New(rand.NewPCG(rand.Uint64(), 0))
	for !tr.failed.Load() && (tr.looked.Load() < tr.target || tr.writing.Load() > 0) {
		i := rng.IntN(len(handles))
		n, err := tr.readSome(handles[i], tr.subjects[i], rng)
		if err != nil {
			tr.fail(fmt.Errorf("%s: %w", tr.subjects[i].key, err))
		}
		tr.count(n)
		if tr.looked.Load() >= tr.target {
			time.Sleep(200 * time.Microsecond) // leaves the processors to the writers
		}
	}
}

// count counts lookups and lets writers go on.
func (tr *trial) count(lookups int64) {
	after := tr.looked.Add(lookups)
	for i := range tr.turns {
		if after >= tr.target*int64(i)/int64(len(tr.turns)) {
			tr.turns[i].come()
		}
	}
}

// readSome makes a few lookups of one subject, single or as a batch. Those that
// the deleting of the filter ran into do not count.
func (tr *trial) readSome(f *bloomext.Filter, s *subject, rng *rand.Rand) (lookups int64, err error) {
	const some = 64
	generation, n := s.count()
	if n < numKinds {
		return 0, nil
	}
	if rng.IntN(2) == 0 {
		chosen := make([]int, some)
		kind := rng.IntN(numKinds)
		for i := range chosen {
			chosen[i] = rng.IntN(n/numKinds)*numKinds + kind
		}
		present := make([]bool, some)
		err = tr.items.lookupMany(f, chosen, present)
		for i, p := range present {
			if err == nil && !p {
				err = fmt.Errorf("item %d of %d, asked for in a batch, is absent", chosen[i], n)
			}
		}
		lookups = some
	} else {
		for err == nil && lookups < some {
			i := rng.IntN(n)
			var present bool
			if present, err = tr.items.lookup(f, i); err == nil && !present {
				err = fmt.Errorf("item %d of %d is absent", i, n)
			}
			lookups++
		}
	}
	if now, _ := s.count(); now != generation {
		return 0, nil
	}
	return lookups, err
}

// checkStore compares memory and disk, while nobody writes: services go on with what grows.
func (tr *trial) checkStore() {
	tr.t.Helper()
	tx, err := tr.db.BeginExclusive(context.Background(), kv.NoSync)
	if err != nil {
		tr.t.Fatal(err)
	}
	blocks, err := tr.db.CompareResident()
	if err != nil {
		tr.t.Error(err)
	}
	tx.Rollback()
	report, err := tr.db.Check(context.Background())
	if err != nil {
		tr.t.Fatal(err)
	}
	if err := errors.Join(report.Problems...); err != nil {
		tr.t.Error(err)
	}
	folds, _, reclaimed := tr.db.MaintenanceStats()
	tr.t.Logf("%d lookups; %d blocks in memory are as stored; %d folds, %d objects reclaimed", tr.looked.Load(), blocks, folds, reclaimed)
}
