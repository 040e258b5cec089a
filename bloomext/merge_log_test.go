package bloomext_test

import (
	"errors"
	"math"
	"testing"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// withoutLog makes a filter without a log.
func withoutLog(t *testing.T, db *kv.DB, key string, capacity uint64) *bloomext.Filter {
	t.Helper()
	logBytes(t, db, 0)
	f := bloomext.New(db, key).With(kv.NoSync)
	if err := f.Reserve(bloomext.Config{Group: "g", Capacity: capacity, ErrorRate: 0.01}); err != nil {
		t.Fatal(err)
	}
	return f
}

// withLog makes the filter f with a log.
func withLog(t *testing.T, db *kv.DB, capacity uint64) *bloomext.Filter {
	t.Helper()
	f := bloomext.New(db, "f").With(kv.NoSync)
	if err := f.Reserve(bloomext.Config{Group: "g", Capacity: capacity, ErrorRate: 0.01, GrowthLog: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	return f
}

// The items of a log are put into all blocks of a layer.
func TestMerge_logIntoBlocks(t *testing.T) {
	db := open(t, "", nil)
	defer closeDB(t, db)
	f, to := withLog(t, db, 100), withoutLog(t, db, "to", 100)
	addRange(t, f, 0, 500, 0.01)
	for from := 1000; ; from += 100 { // until the newest layer has room, and several blocks
		addRange(t, to, from, from+100, 0.01)
		info, err := to.Info()
		if err != nil {
			t.Fatal(err)
		}
		if newest := info.Layers[len(info.Layers)-1]; newest.Bits > 3*64<<10 && newest.Items < newest.Capacity/2 {
			break
		}
	}
	if err := to.Merge(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	finds(t, to, 500)
	checkWhole(t, db)
}

// A log that lacks items is not taken for a filter: one of a lossy filter, and one that does not cover the first layer.
func TestMerge_logLacksItems(t *testing.T) {
	for name, tt := range map[string]struct {
		capacity, items uint64
		lossy           bool
		want            error
	}{"lossy": {100, 99, true, scalableext.ErrUnequal}, "first layer": {2000, 2500, false, nil}} { // layers for few items differ
		t.Run(name, func(t *testing.T) {
			db := open(t, "", nil)
			defer closeDB(t, db)
			f, to := withLog(t, db, tt.capacity), withoutLog(t, db, "to", tt.capacity)
			addRange(t, f, 0, int(tt.items), 0.01)
			g := copyTo(t, db, "g", tt.lossy, true, func(l *kv.Layer, _ int, n uint64) uint64 {
				if tt.lossy && l.Spec().Layout == kv.LayoutLog {
					return min(n, 1)
				}
				return n
			})
			if err := to.Merge(t.Context(), g); !errors.Is(err, tt.want) {
				t.Errorf("Merge = %v, want %v", err, tt.want)
			}
			if tt.want == nil {
				finds(t, to, tt.items)
			}
		})
	}
}

// A union has its rate from where its bits are, too: if they are all in half of the lines, every other item seems known.
func TestMerge_places(t *testing.T) {
	db := open(t, "", nil)
	defer closeDB(t, db)
	f := bloomext.New(db, "f").With(kv.NoSync)
	if err := f.Reserve(bloomext.Config{Group: "g", Capacity: 20_000, ErrorRate: 0.01, NonScaling: true}); err != nil {
		t.Fatal(err)
	}
	part := func(key string, which uint64) *bloomext.Filter {
		o := objectOf(t, db)
		s := kv.Spec{Type: bloomext.Module().Types[0], Family: o.Header().Family, Layers: o.Header().Layers, Params: o.Header().Params}
		err := db.Write(kv.NoSync, [][]byte{[]byte(key)}, func(w *kv.Writer) error {
			_, err := w.Build(t.Context(), []byte(key), s, func(b *kv.Builder) error {
				l, ones := b.Object().Layers()[0], uint64(0)
				for blk := range l.Spec().Blocks {
					words := make([]uint64, l.Spec().Lines*8)
					for i := range words {
						if uint64(i/8)%5 == which { // the line
							words[i], ones = math.MaxUint64, ones+64
						}
					}
					if err := b.Put(l, blk, words); err != nil {
						return err
					}
				}
				w.SetCounter(l, 0, 4000) // items
				w.SetCounter(l, 1, ones)
				return nil
			})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return bloomext.New(db, key).With(kv.NoSync)
	}
	if err := part("one", 0).Merge(t.Context(), part("other", 1)); !errors.Is(err, scalableext.ErrRate) {
		t.Errorf("Merge = %v, want %v", err, scalableext.ErrRate)
	}
}
