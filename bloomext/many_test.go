package bloomext_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// AddMany answers as Add does for one item after the other, in filters that grow, and in those that become full.
func TestAddMany_asAdd(t *testing.T) {
	const seed = 5
	db := open(t, "", &kv.Options{InMemory: true, Seed: seed, Durability: kv.NoSync})
	defer func() { _ = db.Close() }()
	random := rand.New(rand.NewPCG(9, 10))
	for i, c := range []bloomext.Config{
		{Capacity: 100, ErrorRate: 0.01, GrowthLog: -1}, // with a log, batches grow earlier
		{Capacity: 100, ErrorRate: 0.25, Expansion: 1, GrowthLog: -1},
		{Capacity: 20_000, ErrorRate: 1e-6},
		{Capacity: 3000, ErrorRate: 0.25, NonScaling: true},
		{Capacity: 6000, ErrorRate: 0.001, NonScaling: true},
	} {
		t.Run(fmt.Sprint(c.Capacity, c.ErrorRate, c.NonScaling), func(t *testing.T) {
			many, single := bloomext.New(db, fmt.Sprint("many", i)), bloomext.New(db, fmt.Sprint("single", i))
			for _, f := range []*bloomext.Filter{many, single} {
				if err := f.Reserve(c); err != nil {
					t.Fatal(err)
				}
			}
			full := false
			for total := 0; total < 12_000 && !full; {
				items := make([]uint64, 1+random.IntN(3000))
				for i := range items {
					items[i] = random.Uint64N(10_000) // some come again
				}
				total += len(items)
				added, want := make([]bool, len(items)), make([]bool, len(items))
				n, err := many.AddMany(scalableext.Uint64s(items...), added)
				wantN, failed := 0, -1
				for i, item := range items {
					var err error
					if want[i], err = single.Add(scalableext.Uint64(item)); err != nil {
						failed = i
						break
					}
					if want[i] {
						wantN++
					}
				}
				var item *scalableext.ItemError
				full = failed >= 0
				if full != errors.As(err, &item) || full && item.Item != failed || !full && err != nil {
					t.Fatalf("AddMany returned %v, Add fails at item %d", err, failed)
				}
				if n != wantN || !slices.Equal(added, want) {
					t.Fatalf("AddMany found %d new items, Add %d", n, wantN)
				}
			}
			a, err := many.Info()
			if err != nil {
				t.Fatal(err)
			}
			b, err := single.Info()
			if err != nil {
				t.Fatal(err)
			}
			if a.Items != b.Items || a.Fill != b.Fill || len(a.Layers) != len(b.Layers) || full != c.NonScaling {
				t.Errorf("AddMany made %+v, Add %+v", a, b)
			}
			if report, err := db.Check(t.Context()); err != nil || len(report.Problems) > 0 {
				t.Errorf("what is stored: %v, %v", report, err)
			}
		})
	}
}

// What BatchSize says fits into a commit, whatever the size of the memtables, and many items fit into few commits.
func TestAddMany_commits(t *testing.T) {
	for _, tt := range []struct {
		memtable int
		config   bloomext.Config
		items    int
		most     int // commits, with some of upkeep
	}{
		{256 << 10, bloomext.Config{Capacity: 30_000, ErrorRate: 1e-6, NonScaling: true}, 30_000, 120},
		{1 << 20, bloomext.Config{Capacity: 1e9, ErrorRate: 1e-6, NonScaling: true}, 3000, 20}, // more blocks than items
		{8 << 20, bloomext.Config{Capacity: 100, ErrorRate: 0.01}, 60_000, 30},
		{32 << 20, bloomext.Config{Capacity: 300_000, ErrorRate: 1e-6, NonScaling: true}, 300_000, 20},
		{32 << 20, bloomext.Config{Capacity: 10, ErrorRate: 1e-9, Expansion: 1000}, 100_000, 30},
	} {
		t.Run(fmt.Sprint(tt.memtable, tt.config.Capacity), func(t *testing.T) {
			db := open(t, "", &kv.Options{InMemory: true, MemTableSize: tt.memtable, Durability: kv.NoSync})
			defer func() { _ = db.Close() }()
			f := bloomext.New(db, "f")
			if err := f.Reserve(tt.config); err != nil {
				t.Fatal(err)
			}
			items := make([]uint64, tt.items)
			for i := range items {
				items[i] = uint64(i) * 0x9e3779b97f4a7c15
			}
			before, err := db.Metrics()
			if err != nil {
				t.Fatal(err)
			}
			n, err := f.AddMany(scalableext.Uint64s(items...), nil)
			if err != nil || n < tt.items*9/10 {
				t.Fatalf("%d of %d items are new: %v", n, tt.items, err)
			}
			after, err := db.Metrics()
			if err != nil {
				t.Fatal(err)
			}
			if commits := int(after.Commits - before.Commits); commits > tt.most {
				t.Errorf("%d items took %d commits, want at most %d", tt.items, commits, tt.most)
			}
			present := make([]bool, len(items))
			if err := f.MayContainMany(scalableext.Uint64s(items...), present); err != nil || slices.Contains(present, false) {
				t.Errorf("an item that was added is missing: %v", err)
			}
		})
	}
}

// BatchSize gets less when a writer has staged more, is 0 in the end, and what it says fits.
func TestFilter_batchSize(t *testing.T) {
	db := open(t, "", &kv.Options{InMemory: true, MemTableSize: 1 << 20, Durability: kv.NoSync})
	defer func() { _ = db.Close() }()
	f := bloomext.New(db, "f")
	if err := f.Reserve(bloomext.Config{Capacity: 1e6, ErrorRate: 1e-6}); err != nil {
		t.Fatal(err)
	}
	next, first := uint64(0), 0
	for round := range 4 {
		err := db.Write(kv.NoSync, [][]byte{[]byte("f")}, func(w *kv.Writer) error {
			last := 1 << 30
			for {
				size, err := f.BatchSize(w)
				if err != nil || size > last+last/2+1 { // it may be more, if the bits of items are fewer than they may be
					return fmt.Errorf("a batch of %d items fits after one of %d: %w", size, last, err)
				}
				if first = max(first, size); size == 0 {
					return nil
				}
				last = size
				staged := (size + 1) / 2
				if round == 3 {
					staged = size
				}
				items := make([][]byte, staged)
				for i := range items {
					next++
					items[i] = fmt.Append(nil, next)
				}
				if _, err := f.AddStaged(w, items, make([]bool, len(items))); err != nil {
					return err
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if first < 1000 || next < 3000 {
		t.Errorf("a commit of 256 KiB takes at most %d items at once, four took %d", first, next)
	}
}

// Adding items that are there already writes nothing.
func TestAddMany_known(t *testing.T) {
	db := open(t, "", &kv.Options{InMemory: true, Durability: kv.NoSync})
	defer func() { _ = db.Close() }()
	f := bloomext.New(db, "f")
	if err := f.Reserve(bloomext.Config{Capacity: 1000, ErrorRate: 0.01, GrowthLog: -1}); err != nil {
		t.Fatal(err)
	}
	items := make([]uint64, 5000) // in several layers
	for i := range items {
		items[i] = uint64(i)
	}
	if _, err := f.AddMany(scalableext.Uint64s(items...), nil); err != nil {
		t.Fatal(err)
	}
	wrote, err := db.LogBytesWritten()
	if err != nil {
		t.Fatal(err)
	}
	if n, err := f.AddMany(scalableext.Uint64s(items...), nil); n != 0 || err != nil {
		t.Fatalf("%d items are new, %v", n, err)
	}
	if now, err := db.LogBytesWritten(); now != wrote || err != nil {
		t.Errorf("adding known items wrote %d bytes of log, %v", now-wrote, err)
	}
}

// Items added many at a time take 8 bytes of log each at most, fewer where a bitmap is shorter.
func TestAddMany_logBytes(t *testing.T) {
	db := open(t, "", &kv.Options{InMemory: true, Seed: 3})
	defer closeDB(t, db)
	items := make([]uint64, 65_536)
	for i := range items {
		items[i] = uint64(i)
	}
	for i, c := range []struct {
		capacity   uint64
		rate, most float64
	}{
		{10_000_000, 1e-6, 8.5}, {10_000_000, 0.01, 7.7}, {1_000_000, 1e-6, 7.5}, {1_000_000, 0.01, 8.3}, // items
		{200_000, 0.01, 4.2}, {100_000, 0.01, 2.2}, {100_000, 1e-6, 6.3}, {20_000, 1e-6, 4.2}, {6000, 0.01, 1.5}, // bits
	} {
		f := bloomext.New(db, fmt.Sprint(i))
		if err := f.Reserve(bloomext.Config{Capacity: c.capacity, ErrorRate: c.rate}); err != nil {
			t.Fatal(err)
		}
		some := items[:min(uint64(len(items)), c.capacity)]
		wrote := logged(t, db, func() error {
			_, err := f.AddMany(scalableext.Uint64s(some...), nil)
			return err
		})
		perItem := float64(wrote) / float64(len(some))
		t.Logf("capacity %d, rate %g: %.2f bytes of log for each of %d items", c.capacity, c.rate, perItem, len(some))
		if perItem > c.most {
			t.Errorf("capacity %d, rate %g: an item takes %.2f bytes of log, want at most %.1f", c.capacity, c.rate, perItem, c.most)
		}
	}
}

// A filter that is almost full takes the few new items among many that it has.
func TestAddMany_almostFull(t *testing.T) {
	db := open(t, "", &kv.Options{InMemory: true, Durability: kv.NoSync, Seed: 4}) // with other seeds a new item may seem known
	defer func() { _ = db.Close() }()
	f := bloomext.New(db, "f")
	if err := f.Reserve(bloomext.Config{Capacity: 1000, ErrorRate: 0.001, NonScaling: true}); err != nil {
		t.Fatal(err)
	}
	items := make([]uint64, 980)
	for i := range items {
		items[i] = uint64(i)
	}
	if _, err := f.AddMany(scalableext.Uint64s(items...), nil); err != nil {
		t.Fatal(err)
	}
	many := make([]uint64, 10_000)
	for i := range many {
		many[i] = uint64(i % len(items))
	}
	want := make([]bool, len(many))
	for i, at := range []int{0, 100, 2100, 3500, 3501, 9000, 9999} {
		many[at], want[at] = uint64(1_000_000+i), true
	}
	added := make([]bool, len(many))
	if n, err := f.AddMany(scalableext.Uint64s(many...), added); n != 7 || err != nil || !slices.Equal(added, want) {
		t.Errorf("%d items are new, %v", n, err)
	}
	present := make([]bool, len(many))
	if err := f.MayContainMany(scalableext.Uint64s(many...), present); err != nil || slices.Contains(present, false) {
		t.Errorf("items are missing, %v", err)
	}
}

// A copy and a merge have the items that their commit has added before.
func TestAddStaged_copied(t *testing.T) {
	db := open(t, "", &kv.Options{InMemory: true, Durability: kv.NoSync})
	defer func() { _ = db.Close() }()
	f, copied, merged := bloomext.New(db, "f"), bloomext.New(db, "copied"), bloomext.New(db, "merged")
	if err := f.Reserve(bloomext.Config{Capacity: 1_000_000, ErrorRate: 0.0001}); err != nil {
		t.Fatal(err)
	}
	items := make([][]byte, 20_000)
	for i := range items {
		items[i] = fmt.Append(nil, i)
	}
	err := db.Write(kv.NoSync, [][]byte{[]byte("f"), []byte("copied"), []byte("merged")}, func(w *kv.Writer) error {
		if _, err := f.AddStaged(w, items, make([]bool, len(items))); err != nil {
			return err
		}
		if ok, err := w.Copy(t.Context(), []byte("f"), []byte("copied"), false); !ok || err != nil {
			return fmt.Errorf("copied: %v, %w", ok, err)
		}
		return merged.MergeStaged(t.Context(), w, f)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []*bloomext.Filter{f, copied, merged} {
		present := make([]bool, len(items))
		if err := x.MayContainMany(items, present); err != nil || slices.Contains(present, false) {
			t.Errorf("items are missing, %v", err)
		}
	}
	if report, err := db.Check(t.Context()); err != nil || len(report.Problems) > 0 {
		t.Errorf("%v, %v", report, err)
	}
}

// What BatchSize says fits into what is left of a commit, also while the filter grows.
func TestBatchSize_whileGrowing(t *testing.T) {
	for _, share := range []int{10, 14, 17, 18, 19, 20, 21, 22, 24, 26} {
		db := open(t, "", &kv.Options{InMemory: true, MemTableSize: 1 << 20, Durability: kv.NoSync})
		f := bloomext.New(db, "f")
		const capacity = 100_000
		if err := f.Reserve(bloomext.Config{Capacity: capacity, ErrorRate: 1e-9, Expansion: 1}); err != nil {
			t.Fatal(err)
		}
		items := make([][]byte, 3*capacity)
		for i := range items {
			items[i] = fmt.Append(nil, i)
		}
		next := capacity - 1640*share
		if _, err := f.AddMany(items[:next], nil); err != nil {
			t.Fatal(err)
		}
		batches := 0
		err := db.Write(kv.NoSync, [][]byte{[]byte("f")}, func(w *kv.Writer) error {
			for {
				size, err := f.BatchSize(w)
				if err != nil || size == 0 {
					return err
				}
				size = min(size, len(items)-next)
				if _, err := f.AddStaged(w, items[next:][:size], make([]bool, size)); err != nil {
					return err
				}
				next, batches = next+size, batches+1
			}
		})
		if err != nil {
			t.Errorf("share %d: after %d batches: %v", share, batches, err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

// AddFitting answers as Add does, and known items take no room of a commit, also in a filter that is full.
func TestAddFitting(t *testing.T) {
	for name, config := range map[string]bloomext.Config{"by layers": {Expansion: 1000}, "from a log": {}} {
		t.Run(name, func(t *testing.T) { addFitting(t, config) })
	}
}

func addFitting(t *testing.T, config bloomext.Config) {
	db := open(t, "", &kv.Options{InMemory: true, MemTableSize: 256 << 10, Durability: kv.NoSync, Seed: 6})
	defer closeDB(t, db)
	const capacity = 5000
	many, single := bloomext.New(db, "many"), bloomext.New(db, "single")
	for _, f := range []*bloomext.Filter{many, single} {
		config.Capacity, config.ErrorRate = capacity, 1e-6
		if err := f.Reserve(config); err != nil {
			t.Fatal(err)
		}
		for i := range uint64(capacity) { // makes it full
			if _, err := f.Add(scalableext.Uint64(i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	random := rand.New(rand.NewPCG(11, 12))
	for _, share := range []int{0, 100, 1} { // percent of the items that are new
		items := make([][]byte, 20_000)
		for i := range items {
			item := random.Uint64N(capacity)
			if random.IntN(100) < share {
				item = uint64(share)<<32 + random.Uint64N(20_000) // some come again
			}
			items[i] = binary.LittleEndian.AppendUint64(nil, item)
		}
		added, want := make([]bool, len(items)), make([]bool, len(items))
		calls := 0
		for next := 0; next < len(items); {
			err := db.Write(kv.NoSync, [][]byte{[]byte("many")}, func(w *kv.Writer) error {
				for least := 1; next < len(items); least = 0 {
					calls++
					n, err := many.AddFitting(w, items[next:], added[next:], least)
					if n == 0 || err != nil {
						return err
					}
					next += n
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		for i, item := range items {
			var err error
			if want[i], err = single.Add(item); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(added, want) {
			t.Errorf("%d %% new items: other answers than those of Add", share)
		}
		if share == 0 && calls > 10 {
			t.Errorf("%d known items took %d calls, want few", len(items), calls)
		}
	}
}

// If a filter has no room for an item, AddFitting returns the number of items before it, those that are known included.
func TestAddFitting_full(t *testing.T) {
	db := open(t, "", &kv.Options{InMemory: true, MemTableSize: 1 << 20, Durability: kv.NoSync, Seed: 6})
	defer closeDB(t, db)
	f := bloomext.New(db, "f")
	if err := f.Reserve(bloomext.Config{Capacity: 1000, ErrorRate: 1e-6, NonScaling: true}); err != nil {
		t.Fatal(err)
	}
	items := make([][]byte, 20_000)
	for i := range items {
		items[i] = fmt.Append(nil, i%998)
	}
	if _, err := f.AddMany(items[:998], nil); err != nil {
		t.Fatal(err)
	}
	for i, at := range []int{100, 15_000, 16_000, 17_000} { // there is room for two
		items[at] = fmt.Append(nil, 2000+i)
	}
	added := make([]bool, len(items))
	err := db.Write(kv.NoSync, [][]byte{[]byte("f")}, func(w *kv.Writer) error {
		n, err := f.AddFitting(w, items, added, 1)
		if n != 16_000 || !errors.Is(err, scalableext.ErrFull) {
			return fmt.Errorf("AddFitting = %d, %w", n, err)
		}
		return nil
	})
	for i, is := range added {
		if is != (i == 100 || i == 15_000) {
			t.Errorf("item %d is new: %v", i, is)
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// A batch of BatchSize items fits into a commit also if the blocks alone take most of it.
func TestFilter_batchSizeManyBlocks(t *testing.T) {
	db := open(t, "", &kv.Options{InMemory: true, MemTableSize: 1 << 20, Durability: kv.NoSync})
	defer func() { _ = db.Close() }()
	most := 0
	for blocks := uint64(100); blocks < 1000; blocks += 25 {
		f := bloomext.New(db, fmt.Sprint(blocks))
		if err := f.Reserve(bloomext.Config{Bits: blocks * 65536, Hashes: 2}); err != nil {
			t.Fatal(err)
		}
		err := db.Write(kv.NoSync, [][]byte{[]byte(fmt.Sprint(blocks))}, func(w *kv.Writer) error {
			size, err := f.BatchSize(w)
			if err != nil {
				return err
			}
			most = max(most, size)
			items := make([][]byte, size)
			for i := range items {
				items[i] = fmt.Append(nil, i)
			}
			_, err = f.AddStaged(w, items, make([]bool, size))
			return err
		})
		if err != nil {
			t.Errorf("%d blocks: %v", blocks, err)
		}
	}
	if most < 5000 {
		t.Errorf("batches had up to %d items", most)
	}
}

// A filter that counts more items than it is made for, as a union may, takes no batch either.
func TestAddMany_beyondCapacity(t *testing.T) {
	for _, more := range []uint64{0, 1} {
		db := open(t, "", nil)
		f := bloomext.New(db, "f").With(kv.NoSync)
		if err := f.Reserve(bloomext.Config{Capacity: 1000, ErrorRate: 0.01, NonScaling: true}); err != nil {
			t.Fatal(err)
		}
		addRange(t, f, 0, 100, 0.01)
		g := copyTo(t, db, "g", false, true, func(_ *kv.Layer, i int, n uint64) uint64 {
			if i == 0 { // items
				return 1000 + more
			}
			return n
		})
		n, err := g.AddMany(scalableext.Uint64s([]uint64{1 << 40, 1<<40 + 1, 1<<40 + 2}...), nil)
		if n != 0 || !errors.Is(err, scalableext.ErrFull) {
			t.Errorf("%d items more than the capacity: AddMany = %d, %v, want %v", more, n, err, scalableext.ErrFull)
		}
		finds(t, g, 100)
		closeDB(t, db)
	}
}
