package tests_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/compaction"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/internal/txntest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// viewedFilter is a filter that views are taken of, and what they have to answer.
type viewedFilter struct {
	key    string
	f      *bloomext.Filter
	first  []string // items that are in the views
	probes []string // items that are added after the views were taken

	answers  []bool // to the probes, when the views are taken; true is a false positive
	items    uint64
	layers   int
	capacity uint64
}

// newViewedFilter makes a filter, adds the first items, and notes what it answers, which is what a shadow does.
func newViewedFilter(t *testing.T, db *kv.DB, key string, c bloomext.Config, expansion uint32) *viewedFilter {
	t.Helper()
	v := &viewedFilter{key: key, f: bloomext.New(db, key)}
	c.GrowthLog = -1 // the shadow grows by layers
	must(t, v.f.Reserve(c))
	shadow := newShadow(c.Capacity, c.ErrorRate, expansion)
	for i := range 1000 {
		item := fmt.Sprint("first ", i)
		isNew, err := v.f.Add([]byte(item))
		must(t, err)
		if isNew == shadow.has(item) {
			t.Fatalf("%s: add of %q answers %t, not as the shadow does", key, item, isNew)
		}
		shadow.add(item)
		v.first = append(v.first, item)
	}
	for i := range 10_000 {
		v.probes = append(v.probes, fmt.Sprint("later ", i))
	}
	v.answers = make([]bool, len(v.probes))
	must(t, v.f.MayContainMany(scalableext.BytesOfAll(v.probes), v.answers))
	for i, item := range v.probes {
		if v.answers[i] != shadow.has(item) {
			t.Fatalf("%s: lookup of %q answers %t, not as the shadow does", key, item, v.answers[i])
		}
	}
	v.items, v.layers = shadow.items(), len(shadow.layers)
	for _, l := range shadow.layers {
		v.capacity += l.capacity
	}
	return v
}

// falsePositives is the number of probes that the filter took for known when the views were taken.
func (v *viewedFilter) falsePositives() (n int) {
	for _, known := range v.answers {
		if known {
			n++
		}
	}
	return n
}

// addLater adds the probes and then other items, n in all, and tells of each 100,000.
func (v *viewedFilter) addLater(n int, tell func()) error {
	added := make([]bool, 100_000)
	if _, err := v.f.AddMany(scalableext.BytesOfAll(v.probes), added[:len(v.probes)]); err != nil {
		return err
	}
	items := make([]uint64, 0, len(added))
	for i := len(v.probes); i < n; {
		items = items[:0]
		for ; i < n && len(items) < cap(items); i++ {
			items = append(items, uint64(i))
		}
		if _, err := v.f.AddMany(scalableext.Uint64s(items...), added[:len(items)]); err != nil {
			return err
		}
		tell()
	}
	return nil
}

// check looks at the filter in a view.
func (v *viewedFilter) check(s *txntest.Snapshot) error {
	in := v.f.In(s)
	for _, item := range v.first {
		known, err := in.MayContain([]byte(item))
		if err := errors.Join(err, expect(known, "an item is missing")); err != nil {
			return fmt.Errorf("%s: lookup of %q: %w", v.key, item, err)
		}
	}
	for i, item := range v.probes {
		known, err := in.MayContain([]byte(item))
		if err := errors.Join(err, expect(known == v.answers[i], "the answer is of another moment")); err != nil {
			return fmt.Errorf("%s: lookup of %q: %t: %w", v.key, item, known, err)
		}
	}
	together := make([]bool, len(v.probes))
	err := in.MayContainMany(scalableext.BytesOfAll(v.probes), together)
	asThen := slices.Equal(together, v.answers)
	if err := errors.Join(err, expect(asThen, "the answers are of another moment")); err != nil {
		return fmt.Errorf("%s: lookup of several: %w", v.key, err)
	}
	info, err := in.Info()
	if err != nil {
		return fmt.Errorf("%s: info: %w", v.key, err)
	}
	if info.Items != v.items || len(info.Layers) != v.layers || info.Capacity != v.capacity {
		return fmt.Errorf("%s: %d items, %d layers, capacity %d; want %d, %d, %d",
			v.key, info.Items, len(info.Layers), info.Capacity, v.items, v.layers, v.capacity)
	}
	return nil
}

// viewedKeys are the keys there are when the views are taken; "later" ones are made after that.
var viewedKeys = []string{
	"deleted", "deleted filter", "expiring", "large", "moved", "number", "overwritten", "replaced", "small",
}

// checkKeys looks in a view at strings, and at which keys there are.
func checkKeys(s *txntest.Snapshot, deletedFilter, replaced *bloomext.Filter, later ...*bloomext.Filter) error {
	for key, want := range map[string]string{
		"deleted": "before", "expiring": "before", "moved": "before", "number": "41", "overwritten": "before",
	} {
		got, err := s.Get(key)
		if err := errors.Join(err, expect(string(got) == want, "want "+want)); err != nil {
			return fmt.Errorf("string %q: %q: %w", key, got, err)
		}
	}
	for _, f := range []*bloomext.Filter{deletedFilter, replaced} {
		for item, want := range map[string]bool{"before": true, "after": false} {
			known, err := f.In(s).MayContain([]byte(item))
			if err := errors.Join(err, expect(known == want, "the answer is of another moment")); err != nil {
				return fmt.Errorf("filter that is no more: lookup of %q: %t: %w", item, known, err)
			}
		}
	}
	for _, f := range later {
		if _, err := f.In(s).MayContain([]byte("after")); !errors.Is(err, kv.ErrNotFound) {
			return fmt.Errorf("filter made later: %v, want ErrNotFound", err)
		}
	}
	if _, err := s.Get("later string"); !errors.Is(err, kv.ErrNotFound) {
		return fmt.Errorf("string made later: %v, want ErrNotFound", err)
	}
	var keys []string
	err := s.Read(func(r kv.Reader) (err error) {
		keys, _, err = r.ScanFrom(s.Context(), 0, 1000, kv.ScanOptions{})
		return err
	})
	slices.Sort(keys)
	otherwise := fmt.Sprintf("the keys are %q, want %q", keys, viewedKeys)
	return errors.Join(err, expect(slices.Equal(keys, viewedKeys), otherwise))
}

// inViews runs f with n views, taken one after the other.
func inViews(ctx context.Context, db *kv.DB, n int, f func(views []*txntest.Snapshot) error, views ...*txntest.Snapshot) error {
	if len(views) == n {
		return f(views)
	}
	return txntest.View(ctx, db, func(s *txntest.Snapshot) error { return inViews(ctx, db, n, f, append(views, s)...) })
}

// Views answer as of when they were taken, false positives and counts too, after a million adds to a filter that the
// cache does not hold, and after everything was changed, removed and compacted. One is asked from the beginning on, and
// keeps what it read; one first after the adds; one only at the end.
func TestView_afterAMillionAdds(t *testing.T) {
	t.Parallel()
	later := 1_000_000
	if raceEnabled {
		later = 50_000
	}
	var passed atomic.Int64 // milliseconds
	opts := tinyOptions(vfs.NewMem())
	opts.CacheSize, opts.MemTableSize, opts.Durability, opts.Seed = 256<<10, 8<<20, kv.NoSync, modelSeed
	opts.Modules = coreext.Add(opts.Modules, compaction.Module())
	opts.Clock = func() time.Time { return time.UnixMilli(1_800_000_000_000 + passed.Load()) }
	db := open(t, storeDir, opts)
	run := func(a action) {
		t.Helper()
		must(t, a(db, kv.NoSync))
	}

	large := newViewedFilter(t, db, "large", bloomext.Config{Capacity: 1_048_576, ErrorRate: 0.01, NonScaling: true}, 0)
	small := newViewedFilter(t, db, "small", bloomext.Config{Capacity: 200, ErrorRate: 0.01}, 2)
	if small.falsePositives() == 0 || small.layers < 2 {
		t.Fatalf("the small filter has %d false positives, and %d layers", small.falsePositives(), small.layers)
	}
	if info, err := large.f.Info(); err != nil || info.Bytes < 4*uint64(opts.CacheSize) {
		t.Fatalf("the large filter has %d bytes, %v; want more than the cache", info.Bytes, err)
	}
	for _, key := range []string{"deleted filter", "replaced"} {
		run(reserve(key, 100))
		run(add(key, "before", true))
	}
	run(command("OK", "MSET", "deleted", "before", "moved", "before", "number", "41", "overwritten", "before"))
	run(command("OK", "SET", "expiring", "before", "PX", "1000"))
	laterFilters := []*bloomext.Filter{bloomext.New(db, "later filter"), bloomext.New(db, "later name")}
	deletedFilter, replaced := bloomext.New(db, "deleted filter"), bloomext.New(db, "replaced")
	keys := func(s *txntest.Snapshot) error { return checkKeys(s, deletedFilter, replaced, laterFilters...) }
	check := func(s *txntest.Snapshot) error { return errors.Join(large.check(s), small.check(s), keys(s)) }

	must(t, inViews(t.Context(), db, 3, func(views []*txntest.Snapshot) error {
		if err := check(views[0]); err != nil {
			return fmt.Errorf("at once: %w", err)
		}
		added := make(chan struct{}, later/100_000+2)
		var wg sync.WaitGroup
		wg.Go(func() {
			defer close(added)
			tell := func() { added <- struct{}{} }
			if err := errors.Join(small.addLater(20_000, tell), large.addLater(later, tell)); err != nil {
				t.Error(err)
			}
		})
		var errs []error
		for range added { // while the next are added
			errs = append(errs, txntest.View(t.Context(), db, keys), check(views[0]))
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			return fmt.Errorf("while items were added: %w", err)
		}

		passed.Add(1000) // what expires has expired
		for _, a := range []action{
			command("OK", "MSET", "overwritten", "after", "later string", "after"), command("(integer) 42", "INCR", "number"),
			rename("moved", "later moved"), rename("replaced", "later name"), command("OK", "SET", "replaced", "after"),
			add("deleted filter", "after", true), command("(integer) 2", "DEL", "deleted", "deleted filter"),
			reserve("later filter", 100), add("later filter", "after", true), add("later name", "after", true),
			command("(nil)", "GET", "expiring"),
		} {
			run(a)
		}
		for i, s := range views[:2] {
			if err := check(s); err != nil {
				return fmt.Errorf("view %d, after the adds: %w", i, err)
			}
		}
		for _, v := range []*viewedFilter{large, small} {
			for _, item := range append(v.first, v.probes...) {
				run(present(v.key, item))
			}
		}
		run(deleteKey("large", 1))
		run(rename("later filter", "small"))
		must(t, db.CompactTables(t.Context()))
		for i, s := range views {
			if err := check(s); err != nil {
				return fmt.Errorf("view %d, after everything was removed: %w", i, err)
			}
		}
		return nil
	}))
	run(missing("large"))
	must(t, checkStore(db))
}
