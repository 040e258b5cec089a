package countingext_test

import (
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/kv/probe"
)

func TestConfig_refused(t *testing.T) {
	db := open(t, kv.Options{})
	f := countingext.New(db, "f")
	ok := countingext.Config{Capacity: 100, ErrorRate: 0.01}
	for _, tt := range []struct {
		want   string
		change func(*countingext.Config)
	}{
		{"capacity is 0, want 1 to 1099511627776", func(c *countingext.Config) { c.Capacity = 0 }},
		{"capacity is 1099511627777", func(c *countingext.Config) { c.Capacity = 1<<40 + 1 }},
		{"error rate is 0, want above 0 and below 1", func(c *countingext.Config) { c.ErrorRate = 0 }},
		{"error rate is 1", func(c *countingext.Config) { c.ErrorRate = 1 }},
		{"error rate is 1e-30", func(c *countingext.Config) { c.ErrorRate = 1e-30; c.NonScaling = true }},
		{"expansion is 32769, want 1 to 32768", func(c *countingext.Config) { c.Expansion = 32769 }},
		{"expansion is 2 in a filter that does not grow", func(c *countingext.Config) { c.Expansion, c.NonScaling = 2, true }},
		{"TTL is 1µs, want at least 1ms", func(c *countingext.Config) { c.TTL = time.Microsecond }},
		{"counters are 10 and hashes 0", func(c *countingext.Config) { c.Counters = 10 }},
		{"counters are 0 and hashes 3", func(c *countingext.Config) { c.Hashes = 3 }},
		{"error rate is 0.01 with counters given", func(c *countingext.Config) { c.Counters, c.Hashes = 1000, 3 }},
		{"hashes is 65, want 1 to 64", func(c *countingext.Config) { c.Counters, c.Hashes, c.ErrorRate = 1000, 65, 0 }},
		{"expansion is 1 with counters given", func(c *countingext.Config) { *c = countingext.Config{Counters: 9, Hashes: 1, Expansion: 1} }},
	} {
		c := ok
		tt.change(&c)
		if err := f.Reserve(c); !errors.Is(err, probe.ErrParams) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Reserve(%+v) = %v, want ErrParams with %q", c, err, tt.want)
		}
	}
	if found, err := f.Drop(); found || err != nil {
		t.Errorf("Drop = %t, %v", found, err)
	}
}

// Sizes given by hand are rounded up to lines; rate and capacity follow.
func TestConfig_counters(t *testing.T) {
	db := open(t, kv.Options{})
	f := countingext.New(db, "f")
	must(t, f.Reserve(countingext.Config{Counters: 10_000, Hashes: 5}))
	info := infoOf(t, f)
	l := info.Layers[0]
	if l.Counters != 10_112 || l.Hashes != 5 || info.Bytes != 5056 || info.Capacity != 1401 || info.Expansion != 0 {
		t.Errorf("Info = %+v", info)
	}
	if info.ErrorRate < 0.03 || info.ErrorRate > 0.04 { // 2^-5 in a filter that is not blocked
		t.Errorf("the rate is %g", info.ErrorRate)
	}
	must(t, f.OpenOrReserve(countingext.Config{Counters: 10_100, Hashes: 5}))
	err := f.OpenOrReserve(countingext.Config{Counters: 20_000, Hashes: 4})
	if !errors.Is(err, countingext.ErrMismatch) || !strings.Contains(err.Error(), "counters is 10112, asked for 20224; hashes is 5, asked for 4") {
		t.Errorf("OpenOrReserve = %v", err)
	}
}

func TestFilter_OpenOrReserve(t *testing.T) {
	db := open(t, kv.Options{})
	f := countingext.New(db, "f")
	c := countingext.Config{Capacity: 100, ErrorRate: 0.01}
	must(t, f.OpenOrReserve(c))
	if _, err := f.AddString("a"); err != nil {
		t.Fatal(err)
	}
	must(t, f.OpenOrReserve(c))
	c.ErrorRate, c.Expansion = 0.02, 4
	err := f.OpenOrReserve(c)
	if !errors.Is(err, countingext.ErrMismatch) ||
		!strings.HasSuffix(err.Error(), "error rate is 0.01, asked for 0.02; expansion is 2, asked for 4") {
		t.Errorf("OpenOrReserve = %v", err)
	}
	if err := f.Reserve(c); !errors.Is(err, kv.ErrExists) {
		t.Errorf("Reserve = %v, want ErrExists", err)
	}
	if ok, err := f.MayContainString("a"); !ok || err != nil {
		t.Errorf("MayContain = %t, %v", ok, err)
	}
}

// A missing filter is an error, with which items seem to be there.
func TestFilter_missing(t *testing.T) {
	db := open(t, kv.Options{})
	f := countingext.New(db, "f")
	item := [][]byte{[]byte("a")}
	answer := make([]bool, 1)
	if ok, err := f.MayContain(item[0]); !ok || !errors.Is(err, kv.ErrNotFound) {
		t.Errorf("MayContain = %t, %v", ok, err)
	}
	if err := f.MayContainMany(item, answer); !answer[0] || !errors.Is(err, kv.ErrNotFound) {
		t.Errorf("MayContainMany = %t, %v", answer, err)
	}
	for name, err := range map[string]error{
		"Add":        errorOf(f.Add(item[0])),
		"AddMany":    errorOf(f.AddMany(item, answer)),
		"Delete":     errorOf(f.Delete(item[0])),
		"DeleteMany": errorOf(f.DeleteMany(item, answer)),
		"Count":      errorOf(f.Count(item[0])),
		"Info":       errorOf(f.Info()),
		"Merge":      f.Merge(t.Context(), countingext.New(db, "g")),
	} {
		if !errors.Is(err, kv.ErrNotFound) {
			t.Errorf("%s: %v, want ErrNotFound", name, err)
		}
	}
	for name, err := range map[string]error{
		"AddMany":        errorOf(f.AddMany(item, make([]bool, 2))),
		"DeleteMany":     errorOf(f.DeleteMany(item, make([]bool, 2))),
		"MayContainMany": f.MayContainMany(item, make([]bool, 2)),
	} {
		if err == nil || !strings.Contains(err.Error(), "2 answers for 1 items") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func errorOf[T any](_ T, err error) error { return err }

// A transaction sees what it did; others see all of it, or nothing if it is rolled back.
func TestFilter_In(t *testing.T) {
	for _, commit := range []bool{true, false} {
		db := open(t, kv.Options{})
		f := countingext.New(db, "f")
		must(t, f.Reserve(countingext.Config{Capacity: 2, ErrorRate: 0.001}))
		addMany(t, f, itemsFrom("i", 0, 2))
		tx, err := db.BeginExclusive(t.Context(), kv.NoSync)
		must(t, err)
		in := f.In(tx)
		deleteMany(t, in, itemsFrom("i", 0, 1))
		addMany(t, in, itemsFrom("n", 0, 5))
		mustContain(t, in, itemsFrom("n", 0, 5))
		mustContain(t, f, itemsFrom("i", 0, 2))
		if n, err := in.CountString("i0"); n != 0 || err != nil {
			t.Errorf("Count in the transaction = %d, %v", n, err)
		}
		want := 2
		if commit {
			must(t, tx.Commit())
			mustContain(t, f, itemsFrom("n", 0, 5))
			want = 6
		} else {
			tx.Rollback()
		}
		if info := infoOf(t, f); info.Items != uint64(want) {
			t.Errorf("commit %t: %d items, want %d", commit, info.Items, want)
		}
		if n, err := f.CountString("n0"); (n == 1) != commit || err != nil {
			t.Errorf("commit %t: Count = %d, %v", commit, n, err)
		}
		check(t, db)
	}
}

// Chains are united layer by layer, and can be deleted from like any other; a view goes
// on seeing what was.
func TestMerge_chains(t *testing.T) {
	db := open(t, kv.Options{Seed: 1, Durability: kv.NoSync})
	c := countingext.Config{Capacity: 1000, ErrorRate: 0.01}
	a, b, d := countingext.New(db, "a"), countingext.New(db, "b"), countingext.New(db, "d")
	must(t, a.Reserve(c))
	must(t, b.Reserve(c))
	// The first layer of b is full, and has the items of a's.
	both, ofB := itemsFrom("both/", 0, 900), itemsFrom("b/", 0, 4000)
	ofA := ofB[:50]
	for _, f := range []*countingext.Filter{a, b} {
		addMany(t, f, both)
	}
	addMany(t, a, ofA)
	addMany(t, b, ofB)
	view, err := db.NewView(t.Context())
	must(t, err)
	defer view.Rollback()
	must(t, d.Merge(t.Context(), a, b))
	must(t, a.Merge(t.Context(), b))
	if info := infoOf(t, a.In(view)); info.Items != 950 || len(info.Layers) != 1 {
		t.Errorf("before the merge: %+v", info)
	}
	for _, f := range []*countingext.Filter{a, d} {
		info := infoOf(t, f)
		if info.Items != 950+4900 || len(info.Layers) != len(infoOf(t, b).Layers) || info.ExpectedRate > 0.01 {
			t.Errorf("union: %+v", info)
		}
		mustContain(t, f, ofA)
		mustContain(t, f, ofB)
		for _, item := range both {
			if n, err := f.Count(item); n < 2 || err != nil {
				t.Fatalf("Count of an item of both = %d, %v", n, err)
			}
		}
		deleteMany(t, f, both)
		mustContain(t, f, both)
		deleteMany(t, f, both)
		deleteMany(t, f, ofB)
		mustContain(t, f, ofA)
		if info := infoOf(t, f); info.Items != 50 || info.Distinct > 50+info.DeletesKept+10 {
			t.Errorf("after deletions: %+v", info)
		}
	}
	check(t, db)
	reopened := countingext.Config{Capacity: 1000, ErrorRate: 0.01}
	must(t, d.OpenOrReserve(reopened))
}

func TestMerge_ofAnotherStore(t *testing.T) {
	c := countingext.Config{Capacity: 100, ErrorRate: 0.01}
	d, s := countingext.New(open(t, kv.Options{}), "f"), countingext.New(open(t, kv.Options{}), "f")
	must(t, d.Reserve(c))
	must(t, s.Reserve(c))
	if err := d.Merge(t.Context(), s); !errors.Is(err, countingext.ErrUnequal) {
		t.Errorf("Merge = %v, want ErrUnequal", err)
	}
}

// AddIfAbsentStaged counts each item once, in whatever order blocks take them, and stops at the first that has no room.
func TestFilter_AddIfAbsentStaged(t *testing.T) {
	db := open(t, kv.Options{})
	f := countingext.New(db, "f")
	must(t, f.Reserve(countingext.Config{Capacity: 10, ErrorRate: 1e-9, NonScaling: true}))
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
	if n != 3 || err != nil || !added[0] || !added[1] || added[2] {
		t.Errorf("AddIfAbsentStaged = %d, %v, %v, want 3 with two new", n, err, added)
	}
	items := append([][]byte{[]byte("b")}, itemsFrom("x", 0, 12)...)
	n, added, err = stage(items)
	if n != 9 || !errors.Is(err, countingext.ErrFull) || added[0] || !added[8] || added[9] {
		t.Errorf("AddIfAbsentStaged = %d, %v, %v, want 9, %v", n, err, added, countingext.ErrFull)
	}
	for i, item := range items {
		want := 1
		if i >= n {
			want = 0
		}
		if count, err := f.Count(item); count != want || err != nil {
			t.Errorf("Count(%s) = %d, %v, want %d", item, count, err, want)
		}
	}
	err = db.Write(kv.NoSync, [][]byte{[]byte("f")}, func(w *kv.Writer) error {
		_, err := f.AddIfAbsentStaged(w, items, added[1:])
		return err
	})
	if err == nil || errors.Is(err, countingext.ErrFull) {
		t.Errorf("with an answer too few: %v", err)
	}
	check(t, db)
}

// The work and the memory of a batch of items for none of which there is room do not grow with the square of their
// number.
func TestCommands_fullBatch(t *testing.T) {
	const items = 4000
	db := open(t, kv.Options{MaxFilterBytes: 300, Durability: kv.NoSync})
	f := countingext.New(db, "f")
	must(t, f.Reserve(countingext.Config{Capacity: 4, ErrorRate: 0.0001}))
	addMany(t, f, itemsFrom("i", 0, 12))
	words := append([][]byte{[]byte("CBF.MADD"), []byte("f")}, itemsFrom("x", 0, items)...)
	least := uint64(math.MaxUint64) // what the store allocates in the background meanwhile only adds to it
	for range 3 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		answers := db.NewSession().Do(t.Context(), words).Elems()
		runtime.ReadMemStats(&after)
		if len(answers) != items || !answers[items-1].IsError() {
			t.Fatalf("%d answers, the last %v, want %d errors", len(answers), answers[len(answers)-1], items)
		}
		least = min(least, (after.TotalAlloc-before.TotalAlloc)/items)
	}
	if least > 8<<10 {
		t.Errorf("%d bytes are allocated for each of %d items, want 8 KiB at most", least, items)
	}
}

// A batch is cut into commits that hold a key of any length, which goes with each layer that is added.
func TestFilter_AddMany_longKey(t *testing.T) {
	db := open(t, kv.Options{MemTableSize: 256 << 10, Durability: kv.NoSync})
	f := countingext.New(db, strings.Repeat("k", 44_000))
	must(t, f.Reserve(countingext.Config{Capacity: 5, ErrorRate: 1e-4, Expansion: 30_000}))
	items := itemsFrom("i", 0, 2000)
	addMany(t, f, items)
	mustContain(t, f, items)
	if n := len(infoOf(t, f).Layers); n != 2 {
		t.Errorf("%d layers, want 2", n)
	}
	check(t, db)
}
