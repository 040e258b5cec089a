package bloomext_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/internal/probe"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// mergeStore is a store that is checked when the test ends.
func mergeStore(t *testing.T, o *kv.Options) *kv.DB {
	t.Helper()
	if o == nil {
		o = &kv.Options{}
	}
	o.InMemory, o.Durability, o.Modules = true, kv.NoSync, coreext.With(bloomext.Module())
	db := open(t, "", o)
	t.Cleanup(func() {
		checkWhole(t, db)
		closeDB(t, db)
	})
	return db
}

func reserved(t *testing.T, db *kv.DB, key string, c bloomext.Config) *bloomext.Filter {
	t.Helper()
	f := bloomext.New(db, key)
	if err := f.Reserve(c); err != nil {
		t.Fatal(err)
	}
	return f
}

func mustContainRange(t *testing.T, f *bloomext.Filter, from, to int) {
	t.Helper()
	missing := 0
	for i := from; i < to; i++ {
		if ok, err := f.MayContain(scalableext.Uint64(uint64(i))); err != nil {
			t.Fatal(err)
		} else if !ok {
			missing++
		}
	}
	if missing > 0 {
		t.Errorf("%d of %d items are missing", missing, to-from)
	}
}

// A refused union leaves the filter unchanged, even if the writer commits other changes.
func TestMergeStaged_refused(t *testing.T) {
	for _, capacity := range []int{1000, 100_000} { // one block, several
		db := mergeStore(t, nil)
		c := bloomext.Config{Group: "g", Capacity: uint64(capacity), ErrorRate: 0.01, NonScaling: true}
		d, s := reserved(t, db, "d", c), reserved(t, db, "s", c)
		most := capacity * 9 / 10
		addRange(t, d, 0, most, 0.01)
		addRange(t, s, most, 2*most, 0.01)
		err := db.Write(kv.NoSync, [][]byte{[]byte("d"), []byte("s")}, func(w *kv.Writer) error {
			if err := d.MergeStaged(t.Context(), w, s); !errors.Is(err, scalableext.ErrRate) {
				t.Errorf("MergeStaged = %v, want scalableext.ErrRate", err)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for {
			more, err := db.Reclaim(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if !more {
				break
			}
		}
		mustContainRange(t, d, 0, most)
	}
}

// The union has what the same writer added before.
func TestMergeStaged_afterAdd(t *testing.T) {
	db := mergeStore(t, nil)
	c := bloomext.Config{Group: "g", Capacity: 1000, ErrorRate: 0.01}
	d, s := reserved(t, db, "d", c), reserved(t, db, "s", c)
	err := db.Write(kv.NoSync, [][]byte{[]byte("d"), []byte("s")}, func(w *kv.Writer) error {
		added := make([]bool, 1)
		if _, err := d.AddStaged(w, [][]byte{[]byte("x")}, added); err != nil || !added[0] {
			t.Errorf("AddStaged = %v, %v, want true", added, err)
		}
		return d.MergeStaged(t.Context(), w, s)
	})
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := d.MayContain([]byte("x")); !ok || err != nil {
		t.Errorf("MayContain = %v, %v, want true", ok, err)
	}
}

func TestMerge_ofAnotherStore(t *testing.T) {
	c := bloomext.Config{Group: "g", Capacity: 1000, ErrorRate: 0.01}
	d := reserved(t, mergeStore(t, &kv.Options{Seed: 7}), "seen", c)
	s := reserved(t, mergeStore(t, &kv.Options{Seed: 7}), "seen", c)
	if err := d.Merge(t.Context(), s); !errors.Is(err, scalableext.ErrUnequal) {
		t.Errorf("Merge = %v, want scalableext.ErrUnequal", err)
	}
}

// Attributes of a filter survive a merge into it.
func TestMerge_keepsAttributes(t *testing.T) {
	db := mergeStore(t, nil)
	c := bloomext.Config{Group: "g", Capacity: 1000, ErrorRate: 0.01}
	d, s := reserved(t, db, "d", c), reserved(t, db, "s", c)
	err := db.Write(kv.NoSync, [][]byte{[]byte("d")}, func(w *kv.Writer) error {
		o, err := w.Object([]byte("d"))
		if err == nil {
			w.SetAttribute(o, "a", []byte("v"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Merge(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	o, err := db.Lookup([]byte("d"))
	if err != nil {
		t.Fatal(err)
	}
	if v, err := db.Attribute(o, "a"); string(v) != "v" || err != nil {
		t.Errorf("Attribute = %q, %v, want v", v, err)
	}
}

// A chain keeps its error rate when it grows after a merge: a union that leaves no rate for further layers is
// refused.
func TestMerge_thenGrowth(t *testing.T) {
	db := mergeStore(t, nil)
	c := bloomext.Config{Group: "g", Capacity: 10_000, ErrorRate: 0.01, Expansion: 1}
	d, s := reserved(t, db, "d", c), reserved(t, db, "s", c)
	addRange(t, d, 0, 5430, 0.01)
	addRange(t, s, 100_000, 105_430, 0.01)
	if err := d.Merge(t.Context(), s); !errors.Is(err, scalableext.ErrRate) {
		t.Fatalf("Merge = %v, want scalableext.ErrRate", err)
	}
	small := reserved(t, db, "small", c)
	addRange(t, small, 200_000, 204_000, 0.01)
	if err := d.Merge(t.Context(), small); err != nil {
		t.Fatal(err)
	}
	addRange(t, d, 1_000_000, 1_500_000, 0.01)
	info, err := d.Info()
	if err != nil {
		t.Fatal(err)
	}
	if info.ExpectedRate > 0.01 {
		t.Errorf("expected rate is %g after growth, want at most 0.01", info.ExpectedRate)
	}
	mustContainRange(t, d, 0, 5430)
	mustContainRange(t, d, 200_000, 204_000)
}

// Copying a full filter by merging it into a missing one is allowed.
func TestMerge_copiesFull(t *testing.T) {
	for i := range 40 {
		db := mergeStore(t, nil)
		s := reserved(t, db, "s", bloomext.Config{Bits: uint64(512 * (i + 1)), Hashes: 5, Capacity: 50})
		for n := uint64(0); ; n++ {
			if _, err := s.Add(scalableext.Uint64(n)); errors.Is(err, scalableext.ErrFull) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		d := bloomext.New(db, "d")
		if err := d.Merge(t.Context(), s, s); err != nil {
			t.Fatalf("%d lines: Merge = %v", i+1, err)
		}
		a, err := s.Info()
		if err != nil {
			t.Fatal(err)
		}
		if b, err := d.Info(); err != nil || b.Items != a.Items || b.ItemsEstimated {
			t.Errorf("copy has %d items (estimated: %v), %v, want %d", b.Items, b.ItemsEstimated, err, a.Items)
		}
	}
}

// A missing filter that is one of its own sources is missing, in any position.
func TestMerge_missingAmongSources(t *testing.T) {
	db := mergeStore(t, nil)
	s := reserved(t, db, "s", bloomext.Config{Group: "g", Capacity: 100, ErrorRate: 0.01})
	d := bloomext.New(db, "d")
	for _, sources := range [][]*bloomext.Filter{{d, s}, {s, d}} {
		if err := d.Merge(t.Context(), sources...); !errors.Is(err, kv.ErrNotFound) {
			t.Errorf("Merge = %v, want ErrNotFound", err)
		}
	}
}

// Blocks without set bits are not stored, and a merge of only such blocks can be cancelled.
func TestMerge_sparse(t *testing.T) {
	db := mergeStore(t, nil)
	s := reserved(t, db, "s", bloomext.Config{Group: "g", Capacity: 1e7, ErrorRate: 0.01})
	if _, err := s.Add([]byte("x")); err != nil {
		t.Fatal(err)
	}
	d := bloomext.New(db, "d")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.Merge(cancelled, s); !errors.Is(err, context.Canceled) {
		t.Fatalf("Merge = %v, want context.Canceled", err)
	}
	if err := d.Merge(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	report, err := db.Check(t.Context())
	if err != nil || report.Blocks != 2 {
		t.Errorf("%d blocks stored, %v, want one of each filter", report.Blocks, err)
	}
}

// A batch that makes a filter grow by many layers is one commit, even if commits are small.
func TestAddMany_manyLayers(t *testing.T) {
	db := mergeStore(t, &kv.Options{MemTableSize: 256 << 10})
	f := reserved(t, db, "f", bloomext.Config{Group: "g", Capacity: 1, ErrorRate: 0.01, Expansion: 1})
	items := make([]uint64, 60)
	for i := range items {
		items[i] = uint64(i)
	}
	if _, err := f.AddMany(scalableext.Uint64s(items...), nil); err != nil {
		t.Errorf("AddMany = %v", err)
	}
}

// A union that is no fuller than one of its filters equals that filter: its answers and counts stay. By chance half
// of the filters at their capacity are fuller than average.
func TestMerge_changesNothing(t *testing.T) {
	for _, tt := range []struct {
		name   string
		config bloomext.Config
		items  int
	}{
		{"holds its capacity", bloomext.Config{Group: "g", Capacity: 100, ErrorRate: 0.01, NonScaling: true}, 100},
		{"holds its capacity, one layer", bloomext.Config{Group: "g", Capacity: 1000, ErrorRate: 0.01}, 1000},
		{"is full", bloomext.Config{Group: "g", Capacity: 200, ErrorRate: 0.1, NonScaling: true}, 250},
		{"has grown", bloomext.Config{Group: "g", Capacity: 100, ErrorRate: 0.01}, 350},
	} {
		t.Run(tt.name, func(t *testing.T) {
			db := mergeStore(t, nil)
			logBytes(t, db, 0)
			empty := reserved(t, db, "empty", tt.config)
			part := reserved(t, db, "part", tt.config)
			for i := range 60 {
				d := reserved(t, db, fmt.Sprint("d", i), tt.config)
				items := make([]uint64, tt.items)
				for j := range items {
					items[j] = uint64(i)<<32 + uint64(j)
				}
				if _, err := d.AddMany(scalableext.Uint64s(items...), make([]bool, len(items))); err != nil && !errors.Is(err, scalableext.ErrFull) {
					t.Fatal(err)
				}
				if i == 0 {
					if _, err := part.AddMany(scalableext.Uint64s(items[:tt.items/2]...), make([]bool, tt.items/2)); err != nil {
						t.Fatal(err)
					}
				}
				before, err := d.Info()
				if err != nil {
					t.Fatal(err)
				}
				sources := []*bloomext.Filter{empty}
				if i == 0 {
					sources = append(sources, part)
				}
				if err := d.Merge(t.Context(), sources...); err != nil {
					t.Fatalf("filter %d: Merge = %v", i, err)
				}
				after, err := d.Info()
				after.DiskBytes, after.ResidentBytes = before.DiskBytes, before.ResidentBytes
				if err != nil || !reflect.DeepEqual(after, before) {
					t.Fatalf("filter %d: Info = %+v, %v, before it was %+v", i, after, err, before)
				}
			}
		})
	}
}

// Filters that together hold three quarters of the items each was made for can be merged, whatever chance does. For 10,000
// items so can those that hold nineteen of twenty, and a union with a twentieth more than the capacity is refused: a rate
// of 0.01 is then 1.3 times what the layer has room for, and the standard deviation is 2 % of it.
func TestMerge_parts(t *testing.T) {
	for _, capacity := range []int{tightest(t), 1000, 10_000} {
		for _, config := range []bloomext.Config{
			{Group: "g", Capacity: uint64(capacity), ErrorRate: 0.01, NonScaling: true},
			{Group: "g", Capacity: uint64(capacity), ErrorRate: 0.01},
			{Group: "g", Capacity: uint64(capacity), ErrorRate: 0.25, NonScaling: true},
		} {
			db := mergeStore(t, nil)
			for i := range 20 {
				c, d := reserved(t, db, fmt.Sprint("c", i), config), reserved(t, db, fmt.Sprint("d", i), config)
				first, most := i<<32, capacity*3/4
				if capacity == 10_000 {
					most = capacity * 19 / 20
				}
				addRange(t, c, first, first+capacity/2, config.ErrorRate)
				addRange(t, d, first+capacity/2, first+most, config.ErrorRate)
				if err := c.Merge(t.Context(), d); err != nil {
					t.Fatalf("%+v: Merge = %v", config, err)
				}
				if capacity == 10_000 && config.ErrorRate == 0.01 {
					more := reserved(t, db, fmt.Sprint("e", i), config)
					addRange(t, more, first+most, first+capacity*21/20, config.ErrorRate)
					if err := c.Merge(t.Context(), more); !errors.Is(err, scalableext.ErrRate) {
						t.Fatalf("%+v: Merge of a twentieth more than the capacity = %v, want scalableext.ErrRate", config, err)
					}
				}
			}
		}
	}
}

// tightest returns the most items that two lines hold at 0.01: a layer made for them has no bits to spare.
func tightest(t *testing.T) (capacity int) {
	for capacity = 100; ; capacity++ {
		layout, err := probe.Size(uint64(capacity)+1, 0.01)
		if err != nil {
			t.Fatal(err)
		}
		if layout.Lines > 2 {
			return capacity
		}
	}
}

// Filters whose logs are together longer than a log may be are united without one, layer by layer, or refused for their rate.
func TestMerge_longLogs(t *testing.T) {
	db := open(t, "", nil)
	defer closeDB(t, db)
	const n = 6000 // of at most 8,192 hashes
	var fs []*bloomext.Filter
	for i, key := range []string{"a", "b"} {
		f := bloomext.New(db, key).With(kv.NoSync)
		if err := f.Reserve(bloomext.Config{Group: "g", Capacity: 100, ErrorRate: 0.01, GrowthLog: 64 << 10}); err != nil {
			t.Fatal(err)
		}
		addRange(t, f, i*n, (i+1)*n, 0.01)
		if info, err := f.Info(); err != nil || info.LogBytes == 0 {
			t.Fatalf("%+v, %v", info, err)
		}
		fs = append(fs, f)
	}
	err := fs[0].Merge(t.Context(), fs[1])
	if err != nil && !errors.Is(err, scalableext.ErrRate) && !errors.Is(err, scalableext.ErrUnequal) {
		t.Errorf("Merge = %v", err)
	}
	if err == nil {
		finds(t, fs[0], 2*n)
	}
	finds(t, fs[0], n)
	checkWhole(t, db)
}

// The log of a lossy filter may lack items, so no union is made from it. The union is lossy.
func TestMerge_lossyLog(t *testing.T) {
	db := open(t, "", nil)
	defer closeDB(t, db)
	f := reserveLogged(t, db, 1<<20, 100, 0.05)
	addRange(t, f, 0, 99, 0.05)
	g := copyTo(t, db, "g", true, true, func(l *kv.Layer, _ int, n uint64) uint64 {
		if l.Spec().Layout == kv.LayoutLog {
			return min(n, 1)
		}
		return n
	})
	if _, err := f.Drop(); err != nil {
		t.Fatal(err)
	}
	h := bloomext.New(db, "h").With(kv.NoSync)
	if err := h.Merge(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	finds(t, h, 99)
	if info, err := h.Info(); err != nil || info.LogBytes > 0 || !info.Lossy {
		t.Errorf("%+v, %v", info, err)
	}
}
