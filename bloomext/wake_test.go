package bloomext_test

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// objectOf returns the object under the key f.
func objectOf(t *testing.T, db *kv.DB) (o *kv.Object) {
	t.Helper()
	if err := db.Read(func(r kv.Reader) (err error) {
		o, err = r.Lookup([]byte("f"))
		return err
	}); err != nil || o == nil {
		t.Fatalf("%v, %v", o, err)
	}
	return o
}

// Only a filter that forgets with time, or that is filled, is to be called. A call changes no other.
func TestWake(t *testing.T) {
	s := openTimed(t, kv.Options{})
	now := s.clock.Load()
	for name, tt := range map[string]struct {
		config  bloomext.Config
		items   int
		at      int64
		changes bool
	}{
		"not growing":      {bloomext.Config{Capacity: 1000, ErrorRate: 0.01, NonScaling: true}, 10, 0, false},
		"growing":          {bloomext.Config{Capacity: 100, ErrorRate: 0.01}, 10, 0, false},
		"last":             {bloomext.Config{Capacity: 100, ErrorRate: 0.01, Last: 100}, 500, 0, false},
		"unused window":    {bloomext.Config{Capacity: 100, ErrorRate: 0.01, Window: time.Hour, Slices: 4}, 0, 0, false},
		"window":           {bloomext.Config{Capacity: 100, ErrorRate: 0.01, Window: time.Hour, Slices: 4}, 10, now + (75 * time.Minute).Milliseconds(), false},
		"filled, of a log": {bloomext.Config{Capacity: 100, ErrorRate: 0.01}, 2000, 1, true},
	} {
		f := s.reserve(tt.config)
		for i := range tt.items {
			if _, err := f.Add(scalableext.Uint64(uint64(i))); err != nil {
				t.Fatal(err)
			}
			if tt.at == 1 && bloomext.Wake(objectOf(t, s.DB)) == 1 {
				break
			}
		}
		before := objectOf(t, s.DB)
		if got := bloomext.Wake(before); got != tt.at {
			t.Errorf("%s: %d, want %d", name, got, tt.at)
		}
		if _, err := s.CompactKey([]byte("f"), 1<<20, true); err != nil {
			t.Error(err)
		}
		if (objectOf(t, s.DB) != before) != tt.changes {
			t.Errorf("%s: changed %t", name, !tt.changes)
		}
		if _, err := f.Drop(); err != nil {
			t.Fatal(err)
		}
	}
}

// What was prepared for a filter is not made for what has taken its key by then.
func TestPrepare_replaced(t *testing.T) {
	db := open(t, "", nil)
	defer closeDB(t, db)
	const capacity = 4000 // so many that it is made in memory
	grown := func() *kv.Object {
		f := reserveLogged(t, db, 1<<20, capacity, 0.01)
		for i := 0; ; i++ {
			if o := objectOf(t, db); bloomext.Wake(o) == 1 {
				return o
			}
			addRange(t, f, i*500, (i+1)*500, 0.01)
		}
	}
	if step, err := bloomext.Prepare(db, grown()); step == nil || err != nil {
		t.Fatalf("of a filter to be filled: %t, %v", step != nil, err)
	}
	remove := func() error { _, err := bloomext.New(db, "f").Drop(); return err }
	for name, replace := range map[string]func() error{
		"nothing":        func() error { return nil },
		"a string":       func() error { _, err := db.Set(kv.NoSync, []byte("f"), []byte("x"), kv.SetOptions{}); return err },
		"another filter": func() error { return bloomext.New(db, "f").Reserve(bloomext.Config{Capacity: 100, ErrorRate: 0.01}) },
	} {
		if err := remove(); err != nil {
			t.Fatal(err)
		}
		o := grown()
		if err := remove(); err != nil {
			t.Fatal(err)
		}
		if err := replace(); err != nil {
			t.Fatal(err)
		}
		if step, err := bloomext.Prepare(db, o); step != nil || err != nil {
			t.Errorf("of %s: %t, %v", name, step != nil, err)
		}
		if _, err := db.Delete(kv.NoSync, []byte("f")); err != nil {
			t.Fatal(err)
		}
		if err := bloomext.New(db, "f").Reserve(bloomext.Config{Capacity: 100, ErrorRate: 0.01}); err != nil {
			t.Fatal(err)
		}
	}
}

// Items of a window are found one by one after it was opened again, as their blocks are read.
func TestWindow_cold(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	db := open(t, dir, &kv.Options{BallastSize: -1})
	f := bloomext.New(db, "f").With(kv.NoSync)
	if err := f.Reserve(bloomext.Config{Capacity: 40_000, ErrorRate: 0.01, Window: time.Hour}); err != nil {
		t.Fatal(err)
	}
	addRange(t, f, 0, 20_000, 0.01)
	closeDB(t, db)
	db = open(t, dir, &kv.Options{BallastSize: -1})
	defer closeDB(t, db)
	f = bloomext.New(db, "f")
	for i := range uint64(1000) {
		findsItem(t, f, i)
	}
}

// Items of a batch that older slices have are not new, also if there is no room for all of the batch.
func TestWindow_noRoom(t *testing.T) {
	s := openTimed(t, kv.Options{MaxFilterBytes: 4096})
	f := s.reserve(bloomext.Config{Capacity: 100, ErrorRate: 0.01, Window: time.Hour, Slices: 4})
	items, added := make([]uint64, 10_000), make([]bool, 10_000)
	for i := range items {
		items[i] = uint64(i)
	}
	if _, err := f.AddMany(scalableext.Uint64s(items[:50]...), nil); err != nil {
		t.Fatal(err)
	}
	s.pass(20 * time.Minute)
	n, err := f.AddMany(scalableext.Uint64s(items...), added)
	if !errors.Is(err, scalableext.ErrCannotGrow) || n < 100 || n == len(items) {
		t.Fatalf("%d, %v", n, err)
	}
	for i, isNew := range added[:n] {
		if isNew && i < 50 {
			t.Errorf("item %d is new", i)
		}
	}
}

// Lookups that memory answers are counted, one in some for all, whatever the layout and the growth.
func TestUses_lookups(t *testing.T) {
	s := openTimed(t, kv.Options{})
	const lookups = 40_000
	for name, c := range map[string]bloomext.Config{
		"growing":    {Capacity: 1000, ErrorRate: 0.01},
		"window":     {Capacity: 1000, ErrorRate: 0.01, Window: time.Hour},
		"compatible": {Capacity: 1000, ErrorRate: 0.01, Layout: scalableext.LayoutCompatible},
	} {
		f := s.reserve(c)
		addRange(t, f, 0, 1000, 0.01)
		for i := range uint64(lookups) {
			if _, err := f.MayContain(scalableext.Uint64(i % (lookups / 2))); err != nil {
				t.Fatal(err)
			}
		}
		got := objectOf(t, s.DB).Uses().Totals()
		if n := got.Yes + got.No; n < lookups*3/4 || n > lookups*5/4 || got.Yes < lookups/40 || got.Yes > lookups/10 {
			t.Errorf("%s: %d and %d lookups", name, got.Yes, got.No)
		}
		if _, err := f.Drop(); err != nil {
			t.Fatal(err)
		}
	}
}

// At the lowest rate a slice has room for what it is made for alone. Then it is full, also the slice after a full one, which would
// have more room at another rate.
func TestWindow_lowestRate(t *testing.T) {
	s := openTimed(t, kv.Options{})
	f := s.reserve(bloomext.Config{Capacity: 16, ErrorRate: 9.95e-17, Window: time.Hour})
	for slice := range uint64(3) {
		for i := range uint64(64) {
			if _, err := f.Add(scalableext.Uint64(slice<<32 + i)); err != nil {
				t.Fatalf("slice %d, item %d: %v", slice, i, err)
			}
		}
		if _, err := f.Add(scalableext.Uint64(slice<<32 + 64)); !errors.Is(err, scalableext.ErrCannotGrow) {
			t.Errorf("slice %d: %v, want %v", slice, err, scalableext.ErrCannotGrow)
		}
		s.pass(10 * time.Minute)
	}
}
