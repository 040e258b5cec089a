package bloomext_test

import (
	"errors"
	"testing"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// ahead is a filter that is being filled with a layer of several blocks, which is made in memory first. N is the number of
// its items, from 0 on.
func ahead(t *testing.T, db *kv.DB, key string, limit int64) (f *bloomext.Filter, n int) {
	t.Helper()
	f = bloomext.New(db, key).With(kv.NoSync)
	if err := f.Reserve(bloomext.Config{Capacity: 100, ErrorRate: 0.0001, GrowthLog: limit}); err != nil {
		t.Fatal(err)
	}
	for n = 0; n < 8000; n += 250 {
		addRange(t, f, n, n+250, 0.001)
	}
	for ; filling(t, f) == 0; n++ {
		if n == 20_000 {
			t.Fatal("no layer is filled")
		}
		if _, err := f.Add(scalableext.Uint64(uint64(n))); err != nil {
			t.Fatal(err)
		}
	}
	return f, n
}

func filling(t *testing.T, f *bloomext.Filter) uint64 {
	t.Helper()
	info, err := f.Info()
	if err != nil {
		t.Fatal(err)
	}
	return info.Filling
}

// step makes one commit of CompactQueued, and reports whether there is more to do.
func step(t *testing.T, db *kv.DB) bool {
	t.Helper()
	more, err := db.CompactQueued(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	return more
}

func isSound(t *testing.T, db *kv.DB) {
	t.Helper()
	report, err := db.Check(t.Context())
	if err != nil || len(report.Problems) > 0 || len(report.Notes) > 0 {
		t.Fatalf("check: %v, %v", report, err)
	}
}

// While the blocks of a layer that was made in memory are stored, one in each commit, the store is sound after each of them,
// the filter has all items, and those added meanwhile are in the layer at the end.
func TestFill(t *testing.T) {
	db := open(t, "", nil)
	defer db.Close()
	f, n := ahead(t, db, "f", 1<<20)
	steps, part := 0, 0
	for more := true; more; steps++ {
		more = step(t, db)
		addRange(t, f, n, n+20, 0.001)
		n += 20
		isSound(t, db)
		info, err := f.Info()
		if err != nil || info.Filled > 1 {
			t.Fatal(info.Filled, err)
		}
		if info.Filled > 0.1 && info.Filled < 0.9 {
			part++
		}
	}
	if part < 2 || steps < 5 {
		t.Errorf("%d commits, after %d of them some blocks were stored, want more", steps, part)
	}
	compacts(t, db, 1000)
	isSound(t, db)
	finds(t, f, uint64(n))
	info, err := f.Info()
	if err != nil || info.Filling > 0 || len(info.Layers) > 2 {
		t.Fatalf("%d layers, one for %d items is filled: %v", len(info.Layers), info.Filling, err)
	}
	if got := info.Layers[0].Items; got < uint64(n)*9/10 {
		t.Errorf("the layer that was filled has %d of %d items", got, n)
	}
}

// What happens to the filter while blocks of a layer that was made in memory are stored harms neither it nor another one.
func TestFill_meanwhile(t *testing.T) {
	for name, c := range map[string]struct {
		room      int64 // that the log has for more hashes
		meanwhile func(t *testing.T, db *kv.DB, f *bloomext.Filter, n int) (*bloomext.Filter, int)
	}{
		"the log ends": {2000, func(t *testing.T, db *kv.DB, f *bloomext.Filter, n int) (*bloomext.Filter, int) {
			addRange(t, f, n, n+3000, 0.001)
			if info, err := f.Info(); err != nil || info.LogBytes > 0 {
				t.Fatalf("a log of %d bytes: %v", info.LogBytes, err)
			}
			return f, n + 3000
		}},
		"the log ends in a transaction": {2000, func(t *testing.T, db *kv.DB, f *bloomext.Filter, n int) (*bloomext.Filter, int) {
			addInTransaction(t, db, n, n+3000)
			if info, err := f.Info(); err != nil || info.LogBytes > 0 {
				t.Fatalf("a log of %d bytes: %v", info.LogBytes, err)
			}
			return f, n + 3000
		}},
		"a transaction needs a larger layer": {100_000, func(t *testing.T, db *kv.DB, f *bloomext.Filter, n int) (*bloomext.Filter, int) {
			addInTransaction(t, db, n, n+6000)
			return f, n + 6000
		}},
		"the filter is replaced": {100_000, func(t *testing.T, db *kv.DB, f *bloomext.Filter, _ int) (*bloomext.Filter, int) {
			if _, err := f.Drop(); err != nil {
				t.Fatal(err)
			}
			if err := f.Reserve(bloomext.Config{Capacity: 100, ErrorRate: 0.0001}); err != nil {
				t.Fatal(err)
			}
			return f, 0
		}},
		"the filter gets another name": {100_000, func(t *testing.T, db *kv.DB, f *bloomext.Filter, n int) (*bloomext.Filter, int) {
			err := db.Write(kv.NoSync, [][]byte{[]byte("f"), []byte("g")}, func(w *kv.Writer) error {
				return w.Rename([]byte("f"), []byte("g"))
			})
			if err != nil {
				t.Fatal(err)
			}
			return bloomext.New(db, "g").With(kv.NoSync), n
		}},
		"another is filled": {100_000, func(t *testing.T, db *kv.DB, f *bloomext.Filter, n int) (*bloomext.Filter, int) {
			g, n2 := ahead(t, db, "g", 1<<20)
			compacts(t, db, 1000)
			finds(t, g, uint64(n2))
			if filling(t, g) > 0 {
				t.Error("the other filter is still being filled")
			}
			return f, n
		}},
		"the filter gets so many items that the layer is too small": {100_000, func(t *testing.T, db *kv.DB, f *bloomext.Filter, n int) (*bloomext.Filter, int) {
			for range 20 { // the log is longer than the layer has room for
				if _, err := f.Add(scalableext.Uint64(uint64(n))); err != nil {
					t.Fatal(err)
				}
				n++
			}
			return f, n
		}},
	} {
		for steps := 1; steps <= 3; steps++ {
			t.Run(name, func(t *testing.T) {
				db := open(t, "", nil)
				defer db.Close()
				other := open(t, "", nil)
				_, n := ahead(t, other, "f", 1<<20)
				if err := other.Close(); err != nil {
					t.Fatal(err)
				}
				f, n := ahead(t, db, "f", 8*(int64(n)+c.room))
				for range steps {
					step(t, db)
				}
				if filling(t, f) == 0 {
					t.Fatal("no layer is filled any more")
				}
				f, n = c.meanwhile(t, db, f, n)
				isSound(t, db)
				db.QueueCompact([]byte("f"))
				db.QueueCompact([]byte("g"))
				compacts(t, db, 1000)
				isSound(t, db)
				finds(t, f, uint64(n))
				addRange(t, f, n, n+3000, 0.001)
				compacts(t, db, 1000)
				isSound(t, db)
				finds(t, f, uint64(n)+3000)
			})
		}
	}
}

// addInTransaction adds items to f, in one transaction.
func addInTransaction(t *testing.T, db *kv.DB, from, to int) {
	t.Helper()
	items := make([]uint64, to-from)
	for i := range items {
		items[i] = uint64(from + i)
	}
	err := db.Update(t.Context(), kv.NoSync, func(tx *kv.Transaction) error {
		_, err := bloomext.New(db, "f").In(tx).AddMany(scalableext.Uint64s(items...), nil)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Blocks that were made for a filter are not stored in another one that has taken its key, and whose layers have the same
// numbers, nor when some of its blocks are stored already.
func TestFill_other(t *testing.T) {
	for _, stored := range []int{0, 2} {
		db := open(t, "", nil)
		_, _ = ahead(t, db, "f", 1<<20)
		f, n := ahead(t, db, "g", 1<<20)
		steps, err := bloomext.Module().Types[0].Prepare(db, db.Opened([]byte("f")), 1)
		if err != nil {
			t.Fatal(err)
		}
		take := func(key string) (more bool) {
			t.Helper()
			err := db.Write(kv.NoSync, [][]byte{[]byte(key)}, func(w *kv.Writer) error {
				o, err := w.Object([]byte(key))
				if err == nil {
					more, err = steps(w, o)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			return more
		}
		for range stored {
			take("f")
		}
		if stored > 0 { // another time, of the same layer
			if again, err := bloomext.Module().Types[0].Prepare(db, db.Opened([]byte("f")), 1); again != nil || err != nil {
				t.Errorf("a layer with %d blocks is made again: %v", stored, err)
			}
		}
		for range 20 {
			if take("g") {
				t.Error("another filter takes the blocks")
			}
		}
		isSound(t, db)
		db.QueueCompact([]byte("g"))
		compacts(t, db, 1000)
		finds(t, f, uint64(n))
		isSound(t, db)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A layer that claims to have more hashes than the log is not shown in place of the layers that have the items.
func TestFill_beyondLog(t *testing.T) {
	db := open(t, "", nil)
	defer db.Close()
	_, n := ahead(t, db, "f", 1<<20)
	step(t, db)
	g := copyTo(t, db, "g", false, true, func(l *kv.Layer, i int, n uint64) uint64 {
		if l.Spec().Layout != kv.LayoutLog && i == scalableext.FilledCounter {
			return 1 << 20
		}
		return n
	})
	more, err := true, error(nil)
	for more && err == nil { // f comes first, as a part of it is stored
		more, err = db.CompactKey([]byte("g"), 1<<20, true)
	}
	if !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("%v, want %v", err, kv.ErrCorrupt)
	}
	finds(t, g, uint64(n))
}

// Without services adds end a growth before the layer that takes them is full.
func TestFill_helped(t *testing.T) {
	for name, batch := range map[string]int{"one by one": 1, "many": 40} {
		t.Run(name, func(t *testing.T) {
			db := open(t, "", nil)
			defer db.Close()
			f, n := ahead(t, db, "f", 1<<20)
			most := 0
			for end := n + 8000; n < end; n += batch {
				addRange(t, f, n, n+batch, 0.001)
				info, err := f.Info()
				if err != nil {
					t.Fatal(err)
				}
				most = max(most, len(info.Layers))
			}
			if most > 2 {
				t.Errorf("%d layers, want 2 at most", most)
			}
			finds(t, f, uint64(n))
			isSound(t, db)
		})
	}
}

// A growth that a log has no room for is not begun. Then the filter grows by two small layers, and by larger ones.
func TestFill_logEnds(t *testing.T) {
	db := open(t, "", nil)
	defer db.Close()
	const limit = 8 * 4600
	f := bloomext.New(db, "f").With(kv.NoSync)
	if err := f.Reserve(bloomext.Config{Capacity: 100, ErrorRate: 0.001, GrowthLog: limit}); err != nil {
		t.Fatal(err)
	}
	ended, n, filled := 0, 0, uint64(0)
	var base uint64 // capacity of the layer that was there when the log ended
	for ; n < 11_500; n++ {
		if _, err := f.Add(scalableext.Uint64(uint64(n))); err != nil {
			t.Fatal(err)
		}
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.LogBytes > 0 {
			if info.LogBytes > limit*8/9 && info.Filling > filled {
				t.Fatalf("a layer is to be filled from a log of %d bytes", info.LogBytes)
			}
			filled = info.Filling
			continue
		}
		if ended == 0 {
			ended, base = n, info.Layers[0].Capacity
		}
		if len(info.Layers) > 1 && uint64(n) < base*8/7 && info.Capacity > base*6/5 || len(info.Layers) > 5 {
			t.Fatalf("%d items: %d layers for %d, the first for %d", n, len(info.Layers), info.Capacity, base)
		}
	}
	if ended < 4000 || ended > 4600 {
		t.Errorf("the log ended after %d items, want about 4400", ended)
	}
	finds(t, f, uint64(n))
	isSound(t, db)
}

// A short log is put in by one commit, and a layer is made in memory only if it takes little of it.
func TestFill_large(t *testing.T) {
	for _, c := range []struct{ capacity, length, want uint64 }{
		{2000, 1024, 0}, {2000, 1025, 1025}, {2000, 3000, 2000}, {10_500_000, 8_388_608, 8_388_608},
		{40_000_000, 32_000_000, 32_000_000}, {80_000_000, 64_000_000, 0}, {1 << 36, 1 << 36, 0},
	} {
		if n, err := bloomext.FilledAhead(c.capacity, 0.01, c.length); n != c.want || err != nil {
			t.Errorf("of a log of %d for a layer of %d: %d, want %d: %v", c.length, c.capacity, n, c.want, err)
		}
	}
}

// A filter that is dropped while a layer of it is made in memory, or is to be, is nobody's any more.
func TestPrepare_dropped(t *testing.T) {
	db := open(t, "", nil)
	defer closeDB(t, db)
	f, _ := ahead(t, db, "f", 1<<20)
	prepare := bloomext.Module().Types[0].Prepare
	o, err := db.Lookup([]byte("f"))
	if err != nil {
		t.Fatal(err)
	}
	if step, err := prepare(db, o, 1<<20); step == nil || err != nil {
		t.Fatalf("there: nothing to do: %t, %v", step == nil, err)
	}
	if _, err := f.Drop(); err != nil {
		t.Fatal(err)
	}
	if step, err := prepare(db, o, 1<<20); step != nil || err != nil {
		t.Errorf("dropped: nothing to do: %t, %v", step == nil, err)
	}
}
