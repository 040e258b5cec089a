package cuckooext_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/compaction"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/hash"
	_ "github.com/sievekv/sievekv/internal/kvtest/seeded"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

const raceEnabled = cuckooext.RaceEnabled

func open(t testing.TB, o kv.Options) *kv.DB {
	t.Helper()
	o.BallastSize, o.MinFreeSpace = -1, -1
	if o.FS == nil {
		o.FS = vfs.NewMem()
	}
	o.Modules = coreext.Add(o.Modules, cuckooext.Module())
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

func check(t testing.TB, db *kv.DB) {
	t.Helper()
	report, err := db.Check(t.Context())
	must(t, err)
	for _, p := range report.Problems {
		t.Error(p)
	}
}

// multiset is what a goroutine has added to a filter, of items that no other goroutine uses.
type multiset struct {
	g      int
	rng    *rand.Rand
	copies map[int]int
}

func (m *multiset) item(i int) []byte { return fmt.Appendf(nil, "%d/%d", m.g, i) }

// step makes a change, and checks the answer: no false negative, and, at a rate so low that there are no false
// positives, the right count.
func (m *multiset) step(f *cuckooext.Filter) error {
	i := m.rng.IntN(3000)
	item, have := m.item(i), m.copies[i]
	switch r := m.rng.IntN(100); {
	case r < 30 && have < 3:
		m.copies[i]++
		_, err := f.Add(item)
		return err
	case r < 35:
		added, err := f.AddIfAbsent(item)
		if err == nil && added != (have == 0) {
			return fmt.Errorf("AddIfAbsent of an item there %d times = %t", have, added)
		}
		m.copies[i] = max(have, 1)
		return err
	case r < 60:
		deleted, err := f.Delete(item)
		if err == nil && deleted != (have > 0) {
			return fmt.Errorf("Delete of an item there %d times = %t", have, deleted)
		}
		m.copies[i] = max(have-1, 0)
		return err
	case r < 80:
		present, err := f.MayContain(item)
		if err == nil && present != (have > 0) {
			return fmt.Errorf("MayContain of an item there %d times = %t", have, present)
		}
		return err
	case m.rng.IntN(1000) == 0:
		return f.Compact()
	default:
		n, err := f.Count(item)
		if err == nil && n != have {
			return fmt.Errorf("Count of an item there %d times = %d", have, n)
		}
		return err
	}
}

// Several goroutines add, delete, look up and count in a chain that grows and is compacted, with a cache of a few
// blocks. Each finds what it has left there.
func TestFilter_multiset(t *testing.T) {
	steps := 300_000
	if raceEnabled {
		steps = 6_000
	}
	const goroutines = 4
	for _, small := range []bool{true, false} {
		t.Run(fmt.Sprint("small cache ", small), func(t *testing.T) {
			o := kv.Options{Durability: kv.NoSync, MemTableSize: 1 << 20, Modules: coreext.With(compaction.Module())}
			if small {
				o.CacheSize = 64 << 10
			}
			db := open(t, o)
			f := cuckooext.New(db, "f")
			must(t, f.Reserve(cuckooext.Config{Capacity: 1500, ErrorRate: 1e-8, Expansion: 2}))
			var wg sync.WaitGroup
			var layers atomic.Int64
			sets := make([]*multiset, goroutines)
			for g := range goroutines {
				m := &multiset{g: g, rng: rand.New(rand.NewPCG(rand.Uint64(), uint64(g))), copies: make(map[int]int)}
				sets[g] = m
				wg.Go(func() {
					for n := range steps / goroutines / 2 {
						if err := m.step(f); err != nil {
							t.Error(err)
							return
						}
						if n%1000 == 0 {
							if i, err := f.Info(); err == nil {
								layers.Store(max(layers.Load(), int64(len(i.Layers))))
							}
						}
					}
				})
			}
			wg.Wait()
			check(t, db)
			total := 0
			for _, m := range sets {
				for i, have := range m.copies {
					total += have
					if n, err := f.Count(m.item(i)); err != nil || n != have {
						t.Fatalf("at the end an item is there %d times, not %d (%v)", n, have, err)
					}
				}
			}
			info, err := f.Info()
			must(t, err)
			if info.Items != uint64(total) {
				t.Errorf("%d items, want %d", info.Items, total)
			}
			stats, err := db.Metrics()
			must(t, err)
			t.Logf("%d items, up to %d layers, now %d, %d commits of compaction", total, layers.Load(), len(info.Layers), stats.Compactions)
			for _, m := range sets {
				for i, have := range m.copies {
					for range have {
						if ok, err := f.Delete(m.item(i)); !ok || err != nil {
							t.Fatalf("Delete = %t, %v", ok, err)
						}
					}
				}
			}
			must(t, f.Compact())
			if info, err = f.Info(); err != nil || info.Items != 0 || len(info.Layers) != 1 {
				t.Errorf("after all is deleted: %d items in %d layers, %v", info.Items, len(info.Layers), err)
			}
			check(t, db)
		})
	}
}

// AddIfAbsentStaged stops at the first item without room. The items before it are part of the writer's commit.
func TestFilter_AddIfAbsentStaged(t *testing.T) {
	db := open(t, kv.Options{MaxFilterBytes: 8192})
	f := cuckooext.New(db, "f")
	must(t, f.Reserve(cuckooext.Config{Capacity: 1024, ErrorRate: 1e-8, NonScaling: true}))
	stage := func(items [][]byte) (n int, added []bool, full error) {
		t.Helper()
		added = make([]bool, len(items))
		must(t, db.Write(kv.NoSync, [][]byte{[]byte("f")}, func(w *kv.Writer) error {
			n, full = f.AddIfAbsentStaged(w, items, added)
			return nil
		}))
		return n, added, full
	}
	n, added, err := stage([][]byte{[]byte("a"), []byte("b"), []byte("a")})
	if n != 3 || err != nil || fmt.Sprint(added) != "[true true false]" {
		t.Errorf("AddIfAbsentStaged = %d, %v, %v, want 3 with two new", n, err, added)
	}
	room := int(infoOf(t, f).Capacity) - 2
	items := append([][]byte{[]byte("b")}, numbered(0, room+5)...)
	n, added, err = stage(items)
	if n != room+1 || !errors.Is(err, scalableext.ErrFull) || added[0] || !added[room] || added[room+1] {
		t.Errorf("AddIfAbsentStaged = %d, %v, want %d, %v", n, err, room+1, scalableext.ErrFull)
	}
	for i, item := range items {
		if ok, err := f.MayContain(item); ok != (i < n) || err != nil {
			t.Fatalf("item %d: MayContain = %t, %v", i, ok, err)
		}
	}
	err = db.Write(kv.NoSync, [][]byte{[]byte("f")}, func(w *kv.Writer) error {
		_, err := f.AddIfAbsentStaged(w, items, added[1:])
		return err
	})
	if err == nil || errors.Is(err, scalableext.ErrFull) {
		t.Errorf("with an answer too few: %v", err)
	}
	check(t, db)
}

// Layers that do not nest are refused: an entry of a newer layer would be elsewhere in an older one.
func TestFilter_nested(t *testing.T) {
	db := open(t, kv.Options{})
	f := cuckooext.New(db, "f")
	must(t, f.Reserve(cuckooext.Config{Capacity: 100_000}))
	o, err := db.Lookup([]byte("f"))
	must(t, err)
	first := o.Layers()[0].Spec()
	for _, tt := range []struct {
		blocks uint64
		want   error
	}{{2 * first.Blocks, nil}, {first.Blocks, nil}, {first.Blocks + 1, kv.ErrCorrupt}} {
		second := first
		second.Number, second.Blocks = first.Number+1, tt.blocks
		err := db.Write(kv.NoSync, [][]byte{[]byte("g")}, func(w *kv.Writer) error {
			_, err := w.Create([]byte("g"), kv.Spec{
				Type: cuckooext.Module().Types[0], Family: o.Family(), Params: o.Params(), Layers: []kv.LayerSpec{first, second},
			})
			return err
		})
		if !errors.Is(err, tt.want) {
			t.Errorf("a layer of %d blocks after one of %d: %v, want %v", tt.blocks, first.Blocks, err, tt.want)
		}
	}
}

// A layer has at most as many blocks as an add makes after the older one. More are refused: a compaction would look at each.
func TestOpen_grown(t *testing.T) {
	for _, tt := range []struct {
		capacity  uint64
		expansion uint32
		blocks    uint64 // of the layer after the first one, the most that there may be
		more      uint64 // the next number that nests in the first layer
	}{
		{3000, 1, 1, 2},
		{3000, 2, 2, 3},
		{10_000, 1, 3, 6},
		{10_000, 2, 6, 9},
		{10_000, 32768, 3 << 15, 3<<15 + 3},
		{100_000, 4, 84, 105},
		{10, 2, 1, 2}, // from a short block
		{10, 128, 2, 3},
	} {
		t.Run(fmt.Sprint(tt), func(t *testing.T) {
			db := open(t, kv.Options{})
			f := cuckooext.New(db, "f")
			must(t, f.Reserve(cuckooext.Config{Capacity: tt.capacity, Expansion: tt.expansion}))
			o, err := db.Lookup([]byte("f"))
			must(t, err)
			first := o.Layers()[0].Spec()
			second := first
			second.Number, second.Blocks = 1, tt.more
			if first.Params[0] == 2 { // a short block
				second.Lines, second.Params = block.MaxLines, bytes.Clone(first.Params)
				second.Params[0] = 1
			}
			if err := createLike(db, o, first, second); !errors.Is(err, kv.ErrCorrupt) {
				t.Errorf("%d blocks after %d: %v, want %v", tt.more, first.Blocks, err, kv.ErrCorrupt)
			}
			second.Blocks = tt.blocks
			if err := createLike(db, o, first, second); err != nil {
				t.Errorf("%d blocks after %d: %v", tt.blocks, first.Blocks, err)
			}
		})
	}
}

// Only the oldest layer may have a short block, and one of a length that there is.
func TestOpen_shortBlock(t *testing.T) {
	db := open(t, kv.Options{})
	f := cuckooext.New(db, "f")
	must(t, f.Reserve(cuckooext.Config{Capacity: 10}))
	o, err := db.Lookup([]byte("f"))
	must(t, err)
	layer := func(number, blocks uint64, lines uint32) kv.LayerSpec {
		l := o.Layers()[0].Spec()
		l.Number, l.Blocks, l.Lines = number, blocks, lines
		if l.Params = bytes.Clone(l.Params); lines == block.MaxLines {
			l.Params[0] = 1 // of a layer of whole blocks
		}
		return l
	}
	mixed := func(lines uint32) kv.LayerSpec { // the parameters of the other length
		l, other := layer(0, 1, lines), layer(0, 1, 2+block.MaxLines-lines)
		l.Params = other.Params
		return l
	}
	for _, tt := range []struct {
		layers []kv.LayerSpec
		want   error
	}{
		{[]kv.LayerSpec{layer(0, 1, 2)}, nil},
		{[]kv.LayerSpec{layer(0, 1, 2), layer(1, 1, 128)}, nil},
		{[]kv.LayerSpec{mixed(2)}, kv.ErrCorrupt},
		{[]kv.LayerSpec{mixed(128)}, kv.ErrCorrupt},
		{[]kv.LayerSpec{layer(0, 1, 3)}, kv.ErrCorrupt},
		{[]kv.LayerSpec{layer(0, 1, 127)}, kv.ErrCorrupt},
		{[]kv.LayerSpec{layer(0, 2, 2)}, kv.ErrCorrupt},
		{[]kv.LayerSpec{layer(0, 1, 2), layer(1, 1, 2)}, kv.ErrCorrupt},
		{[]kv.LayerSpec{layer(0, 1, 128), layer(1, 1, 2)}, kv.ErrCorrupt},
	} {
		if err := createLike(db, o, tt.layers...); !errors.Is(err, tt.want) {
			t.Errorf("%+v: %v, want %v", tt.layers, err, tt.want)
		}
	}
}

// createLike makes the filter "g" with the parameters of an object, and other layers.
func createLike(db *kv.DB, o *kv.Object, layers ...kv.LayerSpec) error {
	return db.Write(kv.NoSync, [][]byte{[]byte("g")}, func(w *kv.Writer) error {
		_, err := w.Create([]byte("g"), kv.Spec{
			Type: cuckooext.Module().Types[0], Family: o.Family(), Params: o.Params(), Layers: layers,
		})
		return err
	})
}

// Blocks that are cut have the same lines in all layers, and a version of their own.
func TestOpen_cutBlocks(t *testing.T) {
	db := open(t, kv.Options{})
	f := cuckooext.New(db, "f")
	must(t, f.Reserve(cuckooext.Config{Capacity: 10_000}))
	o, err := db.Lookup([]byte("f"))
	must(t, err)
	if s := o.Layers()[0].Spec(); s.Blocks != 3 || s.Lines != 87 || s.Params[0] != 3 {
		t.Fatalf("%d blocks of %d lines with parameters %x, want 3 of 87 and version 3", s.Blocks, s.Lines, s.Params)
	}
	layer := func(number, blocks uint64, lines uint32, version byte) kv.LayerSpec {
		l := o.Layers()[0].Spec()
		l.Number, l.Blocks, l.Lines, l.Params = number, blocks, lines, bytes.Clone(l.Params)
		l.Params[0] = version
		return l
	}
	layers := func(l ...kv.LayerSpec) []kv.LayerSpec { return l }
	for _, tt := range []struct {
		layers []kv.LayerSpec
		want   error
	}{
		{layers(layer(0, 3, 87, 3)), nil},
		{layers(layer(0, 1, 1, 3)), nil},
		{layers(layer(0, 3, 127, 3)), nil},
		{layers(layer(0, 3, 87, 3), layer(1, 3, 87, 3)), nil},
		{layers(layer(0, 3, 87, 3), layer(1, 6, 87, 3), layer(2, 12, 87, 3)), nil},
		{layers(layer(0, 3, 87, 3), layer(1, 6, 87, 3), layer(2, 15, 87, 3)), kv.ErrCorrupt},
		{layers(layer(0, 3, 87, 1)), kv.ErrCorrupt},
		{layers(layer(0, 3, 87, 2)), kv.ErrCorrupt},
		{layers(layer(0, 1, 87, 2)), kv.ErrCorrupt},
		{layers(layer(0, 3, 87, 4)), kv.ErrUnsupportedVersion},
		{layers(layer(0, 3, 128, 3)), kv.ErrCorrupt},
		{layers(layer(0, 3, 87, 3), layer(1, 7, 87, 3)), kv.ErrCorrupt},
		{layers(layer(0, 3, 87, 3), layer(1, 1, 87, 3)), kv.ErrCorrupt},
		{layers(layer(0, 3, 87, 3), layer(1, 6, 86, 3)), kv.ErrCorrupt},
		{layers(layer(0, 3, 30, 3), layer(1, 6, 60, 3)), kv.ErrCorrupt}, // though a block has twice the buckets
		{layers(layer(0, 3, 87, 3), layer(1, 6, 128, 1)), kv.ErrCorrupt},
		{layers(layer(0, 3, 128, 1), layer(1, 6, 87, 3)), kv.ErrCorrupt},
		{layers(layer(0, 1, 43, 2), layer(1, 3, 43, 3)), kv.ErrCorrupt},
		{layers(layer(0, 3, 43, 3), layer(1, 1, 43, 2)), kv.ErrCorrupt},
	} {
		if err := createLike(db, o, tt.layers...); !errors.Is(err, tt.want) {
			t.Errorf("%+v: %v, want %v", tt.layers, err, tt.want)
		}
	}
	if err := db.Write(kv.NoSync, [][]byte{[]byte("g")}, func(w *kv.Writer) error { // of buckets so large that a block has too few
		wide := layer(0, 3, 87, 3)
		wide.Params[1] = 255
		_, err := w.Create([]byte("g"), kv.Spec{Type: cuckooext.Module().Types[0], Family: block.FamilySlots32, Params: o.Params(), Layers: layers(wide)})
		return err
	}); !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("5 buckets of a block: %v, want %v", err, kv.ErrCorrupt)
	}
}

// A filter of blocks that are forged to be short takes items or is full, and loses none.
func TestOpen_tinyBlocks(t *testing.T) {
	db := open(t, kv.Options{Durability: kv.NoSync, Seed: 1})
	f := cuckooext.New(db, "f")
	must(t, f.Reserve(cuckooext.Config{Capacity: 10_000, Expansion: 1}))
	o, err := db.Lookup([]byte("f"))
	must(t, err)
	tiny := o.Layers()[0].Spec()
	tiny.Lines = 1
	must(t, createLike(db, o, tiny))
	g := cuckooext.New(db, "g")
	var added [][]byte
	for _, item := range numbered(0, 2000) {
		switch _, err := g.Add(item); {
		case err == nil:
			added = append(added, item)
		case !errors.Is(err, scalableext.ErrCannotGrow) && !errors.Is(err, scalableext.ErrFull):
			t.Fatal(err)
		}
	}
	if len(added) < 100 {
		t.Errorf("%d items were added, want 100 at least", len(added))
	}
	must(t, g.Compact())
	for _, item := range added {
		if ok, err := g.Delete(item); !ok || err != nil {
			t.Fatalf("Delete = %t, %v", ok, err)
		}
	}
	check(t, db)
}

// Deleting items that were added never removes others, in a chain with fingerprints so short that hundreds of items
// are found in place of others, even after entries were moved to older layers.
func TestFilter_deleteKeepsOthers(t *testing.T) {
	for _, capacity := range []uint64{5000, 10, 9700} { // with blocks that are cut, a short block, and whole blocks
		t.Run(fmt.Sprint(capacity), func(t *testing.T) { testDeleteKeepsOthers(t, capacity) })
	}
}

func testDeleteKeepsOthers(t *testing.T, capacity uint64) {
	const n = 40_000
	items := make([][]byte, n)
	for i := range items {
		items[i] = fmt.Append(nil, i)
	}
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	db := open(t, kv.Options{Durability: kv.NoSync})
	f := cuckooext.New(db, "f")
	must(t, f.Reserve(cuckooext.Config{Capacity: capacity, ErrorRate: 0.2}))
	if added, err := addMany(f, items); added != n || err != nil {
		t.Fatalf("AddMany = %d, %v", added, err)
	}
	info, err := f.Info()
	must(t, err)
	if len(info.Layers) < 3 || info.FingerprintBits != 8 {
		t.Fatalf("%d layers of %d-bit fingerprints, want at least 3 of 8", len(info.Layers), info.FingerprintBits)
	}
	// Not the newest first: otherwise hardly any item would be found in place of another.
	rng.Shuffle(n, func(i, j int) { items[i], items[j] = items[j], items[i] })
	present := make([]bool, n)
	for left := n; left > 0; {
		some := min(left, 8000)
		for range some {
			left--
			if ok, err := f.Delete(items[left]); !ok || err != nil {
				t.Fatalf("seed %d: Delete with %d left = %t, %v", seed, left, ok, err)
			}
		}
		must(t, f.Compact())
		must(t, f.MayContainMany(items[:left], present[:left]))
		lost := 0
		for _, there := range present[:left] {
			if !there {
				lost++
			}
		}
		if lost > 0 {
			t.Fatalf("seed %d: of %d items that were not deleted %d are not found", seed, left, lost)
		}
	}
	if info, err = f.Info(); err != nil || info.Items != 0 || len(info.Layers) != 1 {
		t.Errorf("after all is deleted: %d items in %d layers, %v", info.Items, len(info.Layers), err)
	}
	check(t, db)
}

// An item whose two buckets are the same one has as many copies as that has slots. One more is refused, whether the
// layer has room for other items or not: the filter does not grow for it.
func TestFilter_oneBucket(t *testing.T) {
	db := open(t, kv.Options{Durability: kv.NoSync, Seed: 1})
	f := cuckooext.New(db, "f")
	must(t, f.Reserve(cuckooext.Config{Capacity: 1000, Hash: hash.XXH64}))
	var item []byte
	for i := 0; ; i++ {
		if i == 10_000 {
			t.Fatal("no item has one bucket")
		}
		item = fmt.Append(nil, "copied ", i)
		copies := [][]byte{item, item, item, item, item}
		_, err := f.AddMany(copies, nil)
		if errors.Is(err, scalableext.ErrFull) {
			break
		}
		must(t, err)
		_, err = f.DeleteMany(copies, nil)
		must(t, err)
	}
	refused := func(when string) {
		t.Helper()
		if _, err := f.Add(item); !errors.Is(err, scalableext.ErrFull) || !strings.Contains(err.Error(), "there are 4 copies") || strings.Contains(err.Error(), "scaling") {
			t.Errorf("%s: Add of a fifth copy: %v", when, err)
		}
	}
	refused("with room")
	info, err := f.Info()
	must(t, err)
	for i := info.Items; i < info.Capacity; i++ {
		_, err := f.Add(fmt.Append(nil, i))
		must(t, err)
	}
	refused("at capacity")
	if info, err = f.Info(); err != nil || info.Items != info.Capacity || len(info.Layers) != 1 {
		t.Errorf("%d items in %d layers, made for %d, %v", info.Items, len(info.Layers), info.Capacity, err)
	}
}
