package countingext_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/compaction"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/internal/block"
	_ "github.com/sievekv/sievekv/internal/kvtest/seeded"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

func open(t testing.TB, o kv.Options) *kv.DB {
	t.Helper()
	o.BallastSize, o.MinFreeSpace = -1, -1
	if o.FS == nil {
		o.FS = vfs.NewMem()
	}
	o.Modules = coreext.Add(o.Modules, countingext.Module())
	db, err := kv.Open("store", &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil && !errors.Is(err, kv.ErrClosed) {
			t.Error(err)
		}
	})
	return db
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// check compares every counter of the store with the layers' own numbers.
func check(t testing.TB, db *kv.DB) {
	t.Helper()
	report, err := db.Check(t.Context())
	must(t, err)
	for _, p := range report.Problems {
		t.Error(p)
	}
	for _, n := range report.Notes {
		t.Errorf("note: %s", n)
	}
}

func infoOf(t testing.TB, f *countingext.Filter) countingext.Info {
	t.Helper()
	i, err := f.Info()
	must(t, err)
	return i
}

func itemsFrom(prefix string, from, to int) [][]byte {
	items := make([][]byte, 0, to-from)
	for i := from; i < to; i++ {
		items = append(items, fmt.Appendf(nil, "%s%d", prefix, i))
	}
	return items
}

func addMany(t testing.TB, f *countingext.Filter, items [][]byte) (known int) {
	t.Helper()
	added := make([]bool, len(items))
	n, err := f.AddMany(items, added)
	for _, absent := range added {
		if !absent {
			known++
		}
	}
	if err != nil || n != len(items)-known {
		t.Fatalf("AddMany = %d, %v, want %d", n, err, len(items)-known)
	}
	return known
}

func deleteMany(t testing.TB, f *countingext.Filter, items [][]byte) {
	t.Helper()
	deleted := make([]bool, len(items))
	n, err := f.DeleteMany(items, deleted)
	if err != nil || n != len(items) {
		t.Fatalf("DeleteMany = %d, %v, want %d", n, err, len(items))
	}
	for i, there := range deleted {
		if !there {
			t.Fatalf("item %q, added before, is not there to delete", items[i])
		}
	}
}

func mustContain(t testing.TB, f *countingext.Filter, items [][]byte) {
	t.Helper()
	present := make([]bool, len(items))
	must(t, f.MayContainMany(items, present))
	for i, there := range present {
		if !there {
			t.Fatalf("item %q was added and is not found", items[i])
		}
	}
}

// rateOf returns the share of absent items that seem to be present.
func rateOf(t testing.TB, f *countingext.Filter, asked int) float64 {
	t.Helper()
	items, present := itemsFrom("absent/", 0, asked), make([]bool, asked)
	must(t, f.MayContainMany(items, present))
	n := 0
	for _, p := range present {
		if p {
			n++
		}
	}
	return float64(n) / float64(asked)
}

// multiset is what a goroutine has added to a filter, of items that no other goroutine uses, some of them many times.
type multiset struct {
	g      int
	rng    *rand.Rand
	copies map[int]int
	total  int // adds less deletes
}

const (
	ownItems = 6000
	hotItems = 10 // of those, added up to 100 times
)

func (m *multiset) item(i int) []byte { return fmt.Appendf(nil, "%d/%d", m.g, i) }

func (m *multiset) any() int {
	if m.rng.IntN(10) == 0 {
		return m.rng.IntN(hotItems)
	}
	return m.rng.IntN(ownItems)
}

// step makes a change, and checks the answer: an item added and not deleted is present, at least as often.
func (m *multiset) step(f *countingext.Filter) error {
	i := m.any()
	item, have := m.item(i), m.copies[i]
	most := 1
	switch {
	case i < hotItems:
		most = 100
	case i%8 == 0:
		most = 5
	}
	switch r := m.rng.IntN(100); {
	case r < 30 && have < most:
		m.copies[i]++
		m.total++
		absent, err := f.Add(item)
		if err == nil && absent && have > 0 {
			return fmt.Errorf("Add of an item there %d times says it was absent", have)
		}
		return err
	case r < 50 && have > 0:
		m.copies[i]--
		m.total--
		deleted, err := f.Delete(item)
		if err == nil && !deleted {
			return fmt.Errorf("Delete of an item there %d times = false", have)
		}
		return err
	case r < 52:
		return m.batch(f)
	case r < 80:
		present, err := f.MayContain(item)
		if err == nil && !present && have > 0 {
			return fmt.Errorf("an item there %d times is not found", have)
		}
		return err
	default:
		n, err := f.Count(item)
		if err == nil && n < min(have, countingext.MaxCount) {
			return fmt.Errorf("Count of an item there %d times = %d", have, n)
		}
		return err
	}
}

// batch deletes some items, adds them again, and looks them up.
func (m *multiset) batch(f *countingext.Filter) error {
	var items [][]byte
	for range 20 {
		if i := m.any(); m.copies[i] > 0 && !contains(items, m.item(i)) {
			items = append(items, m.item(i))
		}
	}
	answers := make([]bool, len(items))
	if _, err := f.DeleteMany(items, answers); err != nil {
		return err
	}
	for i, there := range answers {
		if !there {
			return fmt.Errorf("DeleteMany of %q = false", items[i])
		}
	}
	if _, err := f.AddMany(items, answers); err != nil {
		return err
	}
	if err := f.MayContainMany(items, answers); err != nil {
		return err
	}
	for i, there := range answers {
		if !there {
			return fmt.Errorf("%q is not found", items[i])
		}
	}
	return nil
}

func contains(items [][]byte, item []byte) bool {
	for _, other := range items {
		if string(other) == string(item) {
			return true
		}
	}
	return false
}

// Several goroutines add, some items up to 100 times, delete, look up and count in a chain that grows, with a cache
// of a few blocks. No item is lost, every deletion counts down or is counted as kept, and the rate holds.
func TestFilter_multiset(t *testing.T) {
	steps := 300_000
	if raceEnabled {
		steps = 6_000
	}
	const goroutines, rate = 4, 0.02
	for _, small := range []bool{true, false} {
		t.Run(fmt.Sprint("small cache ", small), func(t *testing.T) {
			o := kv.Options{Durability: kv.NoSync, MemTableSize: 1 << 20, Modules: coreext.With(compaction.Module())}
			if small {
				o.CacheSize = 64 << 10
			}
			db := open(t, o)
			f := countingext.New(db, "f")
			must(t, f.Reserve(countingext.Config{Capacity: 2000, ErrorRate: rate}))
			steps := steps * 9 / 10
			if small {
				steps /= 9 // each takes ten times as long
			}
			var wg sync.WaitGroup
			sets := make([]*multiset, goroutines)
			for g := range goroutines {
				m := &multiset{g: g, rng: rand.New(rand.NewPCG(rand.Uint64(), uint64(g))), copies: make(map[int]int)}
				sets[g] = m
				wg.Go(func() {
					for range steps / goroutines {
						if err := m.step(f); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			check(t, db)
			total := 0
			for _, m := range sets {
				total += m.total
				for i, have := range m.copies {
					if n, err := f.Count(m.item(i)); err != nil || n < min(have, countingext.MaxCount) {
						t.Fatalf("at the end an item is there %d times, not %d (%v)", n, have, err)
					}
				}
			}
			const asked = 100_000
			info, measured := infoOf(t, f), rateOf(t, f, asked)
			if info.Items != uint64(total) {
				t.Errorf("%d items, want %d", info.Items, total)
			}
			// Five standard deviations above the rate asked for.
			if most := rate + 5*math.Sqrt(rate/asked); measured > most || info.ExpectedRate > rate {
				t.Errorf("rate is %.4g, by formula %.4g, want at most %g", measured, info.ExpectedRate, rate)
			}
			if !raceEnabled && (info.Stuck == 0 || info.DeletesKept == 0 || len(info.Layers) < 3) {
				t.Errorf("%d counters stick, %d deletions kept, %d layers: the test does not reach them",
					info.Stuck, info.DeletesKept, len(info.Layers))
			}
			t.Logf("%d items, %d layers, %d stuck counters, %d deletions kept, rate %.4g, by formula %.4g",
				total, len(info.Layers), info.Stuck, info.DeletesKept, measured, info.ExpectedRate)
		})
	}
}

// An item that one commit deletes from an older layer and adds to the newest is always present, even if the filter is
// closed, to save memory, during the lookup.
func TestFilter_movedByOneCommit(t *testing.T) {
	t.Run("in memory", func(t *testing.T) {
		db := open(t, kv.Options{Durability: kv.NoSync})
		items := 20_000
		if raceEnabled {
			items = 500
		}
		testMovedByOneCommit(t, db, items, func(func() bool) {})
	})
	t.Run("evicted", func(t *testing.T) {
		db := open(t, kv.Options{Durability: kv.NoSync, CacheSize: 64 << 10})
		others := make([]*countingext.Filter, 100)
		for i := range others {
			others[i] = countingext.New(db, fmt.Sprint("other", i))
			must(t, others[i].Reserve(countingext.Config{Capacity: 100, ErrorRate: 0.01}))
		}
		items := 2000
		if raceEnabled {
			items = 200
		}
		testMovedByOneCommit(t, db, items, func(done func() bool) {
			for n := 0; !done(); n++ {
				if _, err := others[n%len(others)].MayContain([]byte("x")); err != nil {
					t.Error(err)
					return
				}
			}
		})
	})
}

// testMovedByOneCommit moves items while other goroutines look them up and one evicts blocks.
func testMovedByOneCommit(t *testing.T, db *kv.DB, items int, evict func(done func() bool)) {
	f := countingext.New(db, "f")
	must(t, f.Reserve(countingext.Config{Capacity: uint64(items), ErrorRate: 1e-4}))
	old := itemsFrom("old/", 0, items)
	addMany(t, f, old)
	addMany(t, f, itemsFrom("new/", 0, items/2))
	if n := len(infoOf(t, f).Layers); n != 2 {
		t.Fatalf("%d layers, want 2", n)
	}
	var at atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() { evict(func() bool { return at.Load() >= int64(items) }) })
	for range 2 {
		wg.Go(func() {
			present := make([]bool, 1)
			for n := 0; ; n++ {
				i := at.Load()
				if i >= int64(items) {
					return
				}
				ok, err := f.MayContain(old[i])
				if n%4 == 0 {
					err = f.MayContainMany(old[i:i+1], present)
					ok = present[0]
				}
				if !ok || err != nil {
					t.Errorf("item %d = %t, %v", i, ok, err)
					return
				}
			}
		})
	}
	for i := range old {
		at.Store(int64(i))
		must(t, db.Write(kv.NoSync, [][]byte{[]byte("f")}, func(w *kv.Writer) error {
			answer := make([]bool, 1)
			if err := f.DeleteStaged(w, old[i:i+1], answer); err != nil {
				return err
			}
			_, err := f.AddStaged(w, old[i:i+1], answer)
			return err
		}))
	}
	at.Store(int64(items))
	wg.Wait()
	if info := infoOf(t, f); info.Layers[1].Adds < uint64(items) {
		t.Errorf("%d items are in the newest layer, want most of %d", info.Layers[1].Adds, items+items/2)
	}
	check(t, db)
}

// If new items went to layers other than the newest, a deletion keeps an item that seems to be in several layers, and
// counts that. So it does with an item whose counters all stick.
func TestFilter_deletesKept(t *testing.T) {
	db := open(t, kv.Options{Seed: 1})
	f := countingext.New(db, "f")
	must(t, f.Reserve(countingext.Config{Capacity: 200, ErrorRate: 0.2, Expansion: 1}))
	items := itemsFrom("i", 0, 6000)
	addMany(t, f, items)
	deleteMany(t, f, items[:3000])
	if info := infoOf(t, f); !info.Ordered || info.DeletesKept != 0 || info.Leftover != 0 {
		t.Errorf("while new items go to the newest layer alone: %+v", info)
	}
	addMany(t, f, items[:3000])
	deleteMany(t, f, items)
	info := infoOf(t, f)
	if info.Ordered || info.Leftover != info.DeletesKept || info.DeletesKept == 0 || info.Items != 0 || len(info.Layers) < 2 {
		t.Errorf("%d deletions kept, %d items, %d layers", info.DeletesKept, info.Items, len(info.Layers))
	}
	rest := uint64(0)
	for _, l := range info.Layers {
		rest += l.Adds
	}
	if rest != info.DeletesKept || info.ExpectedRate > 0.2 {
		t.Errorf("layers count %d adds, %d deletions were kept; rate %g", rest, info.DeletesKept, info.ExpectedRate)
	}
	check(t, db)

	hot := countingext.New(db, "hot")
	must(t, hot.Reserve(countingext.Config{Capacity: 100, ErrorRate: 0.01}))
	item := []byte("item")
	for n := range 20 {
		if absent, err := hot.Add(item); absent != (n == 0) || err != nil {
			t.Fatalf("Add %d = %t, %v", n, absent, err)
		}
		if got, err := hot.Count(item); got != min(n+1, 15) || err != nil {
			t.Fatalf("Count after %d adds = %d, %v", n+1, got, err)
		}
	}
	for n := range 25 {
		if deleted, err := hot.Delete(item); !deleted || err != nil {
			t.Fatalf("Delete %d = %t, %v", n, deleted, err)
		}
	}
	info = infoOf(t, hot)
	if info.DeletesKept != 25 || info.Items != 0 || info.Layers[0].Adds != 15 || info.Stuck != info.Layers[0].Above {
		t.Errorf("hot item: %+v", info)
	}
	check(t, db)
}

// Counters that stick take the place of items: hot items that come and go do not raise the rate above the one asked
// for.
func TestFilter_stuckCountersGrow(t *testing.T) {
	db := open(t, kv.Options{Seed: 1, Durability: kv.NoSync})
	f := countingext.New(db, "f")
	const rate = 0.02
	must(t, f.Reserve(countingext.Config{Capacity: 200, ErrorRate: rate}))
	// 14 copies do not make counters stick, but two items that share a counter do.
	for round := range 300 {
		items := itemsFrom(fmt.Sprintf("%d/", round), 0, 25)
		for range 14 {
			addMany(t, f, items)
		}
		for range 14 {
			deleteMany(t, f, items)
		}
		if info := infoOf(t, f); info.ExpectedRate > rate {
			t.Fatalf("round %d: the rate is %.3g, above %g: %d counters stick", round, info.ExpectedRate, rate, info.Stuck)
		}
	}
	info := infoOf(t, f)
	if len(info.Layers) < 2 || info.Stuck == 0 {
		t.Errorf("%d counters stick, %d layers", info.Stuck, len(info.Layers))
	}
	fresh := itemsFrom("fresh/", 0, 400)
	addMany(t, f, fresh)
	mustContain(t, f, fresh)
	const asked = 100_000
	if measured, most := rateOf(t, f, asked), rate+5*math.Sqrt(rate/asked); measured > most {
		t.Errorf("rate is %.3g, above %g", measured, rate)
	}
	check(t, db)
}

// A check finds counters that were changed without the layer's numbers, and numbers without counters, and notes what
// deletions of absent items leave behind.
func TestVerify(t *testing.T) {
	change := func(stage func(w *kv.Writer, o *kv.Object, l *kv.Layer)) func(*testing.T, *kv.DB) {
		return func(t *testing.T, db *kv.DB) {
			must(t, db.Write(kv.NoSync, [][]byte{[]byte("f")}, func(w *kv.Writer) error {
				o, err := w.Object([]byte("f"))
				if err == nil {
					stage(w, o, o.Layers()[0])
				}
				return err
			}))
		}
	}
	set := func(from, to uint32) func(*testing.T, *kv.DB) {
		return change(func(w *kv.Writer, o *kv.Object, l *kv.Layer) {
			words, err := w.Slots(o, l, 0)
			must(t, err)
			for i := range block.FamilySlots4.Slots(int(l.Spec().Lines)) {
				if block.SlotAt(words, block.FamilySlots4, i) == from {
					must(t, w.SetSlots(o, l, 0, []block.Slot{{Index: uint16(i), Value: to}}))
					return
				}
			}
			t.Fatalf("no counter is %d", from)
		})
	}
	for _, tt := range []struct {
		name, problem, note string
		damage              func(*testing.T, *kv.DB)
	}{
		{"nothing", "", "", func(*testing.T, *kv.DB) {}},
		{"a counter lost", "counted were", "", set(1, 0)},
		{"a counter too many", "counted were", "", set(0, 1)},
		{"a counter that sticks too many", "counted were", "", set(1, 15)},
		{"a counter that sticks lost", "counted were", "", set(15, 14)},
		{"counted up once too often", "counted were", "", set(1, 2)},
		{"a fill too low", "", "had not been added", change(func(w *kv.Writer, _ *kv.Object, l *kv.Layer) {
			w.SetCounter(l, 0, 20)
		})},
	} {
		t.Run(tt.name, func(t *testing.T) {
			db := open(t, kv.Options{Seed: 1})
			f := countingext.New(db, "f")
			must(t, f.Reserve(countingext.Config{Capacity: 100, ErrorRate: 0.01}))
			addMany(t, f, itemsFrom("i", 0, 40))
			for range 15 {
				addMany(t, f, [][]byte{[]byte("hot")})
			}
			tt.damage(t, db)
			report, err := db.Check(t.Context())
			must(t, err)
			problems, notes := fmt.Sprint(report.Problems), fmt.Sprint(report.Notes)
			if (len(report.Problems) > 0) != (tt.problem != "") || !strings.Contains(problems, tt.problem) {
				t.Errorf("problems are %s, want %q", problems, tt.problem)
			}
			if (len(report.Notes) > 0) != (tt.note != "") || !strings.Contains(notes, tt.note) {
				t.Errorf("notes are %s, want %q", notes, tt.note)
			}
		})
	}
}

// Items of a batch are refused in the order given, even if stuck counters are what leaves no room.
func TestFilter_AddMany_fullByStuckCounters(t *testing.T) {
	const capacity, often = 40, 20
	f := countingext.New(open(t, kv.Options{Seed: 1}), "f")
	must(t, f.Reserve(countingext.Config{Capacity: capacity, ErrorRate: 1e-9, NonScaling: true}))
	for range often {
		addMany(t, f, itemsFrom("stuck", 0, 2))
	}
	fill, stuck := infoOf(t, f).Layers[0].Adds, 2
	room := capacity - int(fill) - stuck
	if want := capacity - 2*countingext.MaxCount - stuck; room != want {
		t.Fatalf("room for %d items, want %d", room, want)
	}
	items := itemsFrom("i", 0, room+1)
	added := make([]bool, len(items))
	n, err := f.AddMany(items, added)
	if !errors.Is(err, scalableext.ErrFull) || n != room {
		t.Errorf("AddMany = %d, %v, want %d, %v", n, err, room, scalableext.ErrFull)
	}
	for i, item := range items {
		present, err := f.MayContain(item)
		must(t, err)
		if present != (i < room) || added[i] != present {
			t.Errorf("item %d of %d with room for %d: added %v, present %v", i, len(items), room, added[i], present)
		}
	}
}
