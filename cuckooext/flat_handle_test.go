package cuckooext_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/internal/hash"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/portable"
	"github.com/sievekv/sievekv/scalableext"
	"github.com/sievekv/sievekv/tests/redisbloom"
)

var compatibleConfig = cuckooext.Config{Capacity: 1000, Layout: scalableext.LayoutCompatible}

func TestCompatible_config(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(c *cuckooext.Config)
		want   string // "" for none
	}{
		{"defaults", func(*cuckooext.Config) {}, ""},
		{"least capacity", func(c *cuckooext.Config) { c.Capacity, c.BucketSize = 510, 255 }, ""},
		{"most", func(c *cuckooext.Config) { c.Capacity, c.MaxIterations, c.Expansion = 1<<30, 65535, 32768 }, ""},
		{"capacity too low", func(c *cuckooext.Config) { c.Capacity = 3 }, "capacity is 3 in a filter with the compatible layout, want 4 to 1073741824"},
		{"capacity too high", func(c *cuckooext.Config) { c.Capacity = 1<<30 + 1 }, "want 4 to 1073741824"},
		{"error rate", func(c *cuckooext.Config) { c.ErrorRate = 0.1 }, "error rate is 0.1 in a filter with the compatible layout"},
		{"hash", func(c *cuckooext.Config) { c.Hash = hash.Keyed }, "hash is keyed in a filter with the compatible layout"},
		{"bucket size", func(c *cuckooext.Config) { c.BucketSize = 256 }, "bucket size is 256"},
		{"layout", func(c *cuckooext.Config) { c.Layout = 3 }, "layout is Layout(3), want native or compatible"},
		{"foreign layout", func(c *cuckooext.Config) { c.Layout = scalableext.LayoutForeign }, "layout is foreign, want native or compatible"},
	} {
		c := compatibleConfig
		tt.change(&c)
		_, err := c.Planned(1)
		if tt.want == "" && err != nil || tt.want != "" && (!errors.Is(err, scalableext.ErrConfig) || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

func TestCompatible_planned(t *testing.T) {
	info, err := cuckooext.Config{Capacity: 1e6, Layout: scalableext.LayoutCompatible}.Planned(1e6)
	if err != nil {
		t.Fatal(err)
	}
	if info.Bytes != 3<<20 || info.Buckets != 1<<19 || len(info.Layers) != 3 || info.Expansion != 1 || info.MaxLayers != 65535 {
		t.Errorf("%+v", info)
	}
	c := compatibleConfig
	c.NonScaling = true
	if _, err := c.Planned(1000); !errors.Is(err, scalableext.ErrFull) {
		t.Errorf("1000 items, of which 1024 slots take about a half: %v", err)
	}
	c.NonScaling, c.Expansion = false, 32768
	if info, err := c.Planned(1e6); err != nil || info.MaxLayers != 2 || len(info.Layers) != 2 {
		t.Errorf("%+v, %v", info, err)
	}
	if _, err := c.Planned(1 << 30); !errors.Is(err, scalableext.ErrCannotGrow) {
		t.Errorf("items that no layer takes: %v", err)
	}
}

func TestCompatible_openOrReserve(t *testing.T) {
	w := newWorld(t, kv.Options{})
	f := cuckooext.New(w.DB, "f")
	for range 2 {
		if err := f.OpenOrReserve(compatibleConfig); err != nil {
			t.Fatal(err)
		}
	}
	info := infoOf(t, f)
	if info.Layout != scalableext.LayoutCompatible || info.Hash != hash.Murmur64A || info.FingerprintBits != 8 || info.Bytes != 1024 ||
		info.Buckets != 512 || info.BucketSize != 2 || info.MaxIterations != 20 || info.Expansion != 1 || info.MaxLayers != 32 || info.Asked != 1000 {
		t.Errorf("%+v", info)
	}
	native := cuckooext.Config{Capacity: 1000}
	if err := f.OpenOrReserve(native); !errors.Is(err, scalableext.ErrMismatch) || !strings.Contains(err.Error(), "layout is compatible, asked for native") {
		t.Errorf("a native filter: %v", err)
	}
	if err := cuckooext.New(w.DB, "n").Reserve(native); err != nil {
		t.Fatal(err)
	}
	if err := cuckooext.New(w.DB, "n").OpenOrReserve(compatibleConfig); !errors.Is(err, scalableext.ErrMismatch) {
		t.Errorf("a compatible filter: %v", err)
	}
	for _, change := range []func(c *cuckooext.Config){
		func(c *cuckooext.Config) { c.Capacity = 1001 },
		func(c *cuckooext.Config) { c.BucketSize = 3 },
		func(c *cuckooext.Config) { c.MaxIterations = 21 },
		func(c *cuckooext.Config) { c.Expansion = 2 },
		func(c *cuckooext.Config) { c.NonScaling = true },
	} {
		c := compatibleConfig
		change(&c)
		if err := f.OpenOrReserve(c); !errors.Is(err, scalableext.ErrMismatch) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// AddMany and DeleteMany do what the same adds and deletions one after the other do, in commits that fit.
func TestCompatible_many(t *testing.T) {
	for _, memTable := range []int{0, 256 << 10} {
		p := newPair(t, kv.Options{MemTableSize: memTable}, 20_000, 2, 500, 2)
		f := cuckooext.New(p.w.DB, "f")
		items := make([][]byte, 30_000)
		for i := range items {
			items[i] = fmt.Append(nil, i%20_000)
		}
		isNew := make([]bool, len(items))
		if _, err := f.AddMany(items, isNew); err != nil {
			t.Fatal(err)
		}
		for i, item := range items {
			if want := !p.model.Exists(item); isNew[i] != want {
				t.Fatalf("item %d: new %t, want %t", i, isNew[i], want)
			}
			if err := p.model.Add(item); err != nil {
				t.Fatal(err)
			}
		}
		p.compare()
		found := make([]bool, 5000)
		if _, err := f.DeleteMany(items[:5000], found); err != nil {
			t.Fatal(err)
		}
		for i, item := range items[:5000] {
			if memTable == 0 && found[i] != p.model.Delete(item) {
				t.Fatalf("item %d: found %t", i, found[i])
			}
		}
		if memTable == 0 { // with small commits, deletions leave compactions out
			p.compare()
		}
		present := make([]bool, len(items))
		if err := f.MayContainMany(items, present); err != nil {
			t.Fatal(err)
		}
		for i := 5000; i < 20_000; i++ {
			if !present[i] {
				t.Fatalf("item %d is missing", i)
			}
		}
	}
}

// A batch for which there is no room says so for each item, and one that is refused as a whole for the first.
func TestCompatible_manyFull(t *testing.T) {
	w := newWorld(t, kv.Options{})
	f := cuckooext.New(w.DB, "f")
	if err := f.Reserve(cuckooext.Config{Capacity: 4, NonScaling: true, Layout: scalableext.LayoutCompatible}); err != nil {
		t.Fatal(err)
	}
	items := bytes.Fields([]byte("x x x x x y"))
	var full *scalableext.ItemError
	if n, err := f.AddMany(items, nil); n != 1 || !errors.As(err, &full) || full.Item != 4 || !errors.Is(err, scalableext.ErrFull) {
		t.Errorf("AddMany = %d, %v", n, err)
	}
	g := cuckooext.New(w.DB, "g")
	if err := g.Reserve(compatibleConfig); err != nil {
		t.Fatal(err)
	}
	w.Script("CONFIG SET cf-max-expansions 1 => +OK")
	if n, err := g.AddMany(items, nil); n != 0 || !errors.As(err, &full) || full.Item != 0 || !errors.Is(err, scalableext.ErrCannotGrow) {
		t.Errorf("AddMany = %d, %v", n, err)
	}
	if isNew, err := g.Add([]byte("x")); isNew || !errors.Is(err, scalableext.ErrCannotGrow) {
		t.Errorf("AddString = %t, %v", isNew, err)
	}
	err := w.DB.Write(kv.NoSync, [][]byte{[]byte("g")}, func(w *kv.Writer) error {
		_, err := g.AddIfAbsentStaged(w, items, make([]bool, len(items)))
		return err
	})
	if !errors.Is(err, scalableext.ErrCannotGrow) {
		t.Errorf("AddIfAbsentStaged: %v", err)
	}
}

// A filter is copied and exported, and answers in a transaction, on a snapshot and without a store as before.
func TestCompatible_elsewhere(t *testing.T) {
	p := newPair(t, kv.Options{}, 10_000, 3, 20, 2)
	for i := range 20_000 {
		p.do("CF.ADD", fmt.Sprint(i))
	}
	for i := range 300 {
		p.do("CF.DEL", fmt.Sprint(i))
	}
	var file bytes.Buffer
	if err := portable.Export(t.Context(), p.w.DB, []byte("f"), &file); err != nil {
		t.Fatal(err)
	}
	frozen, err := portable.ReadFilter(bytes.NewReader(file.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	wants := make([]int, 3000)
	for i := range wants {
		wants[i] = p.model.Count(fmt.Append(nil, i*7))
	}
	f := cuckooext.New(p.w.DB, "f")
	err = p.w.DB.View(t.Context(), func(tx *kv.Transaction) error {
		for i := range 100 {
			p.do("CF.ADD", fmt.Sprint("later", i))
		}
		for i, want := range wants {
			item := fmt.Append(nil, i*7)
			n, err := f.In(tx).Count(item)
			if err != nil || n != want || frozen.Count(item) != uint64(want) {
				return fmt.Errorf("item %s: %d copies on a snapshot, %v, %d without a store, want %d", item, n, err, frozen.Count(item), want)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	p.w.Script("COPY f g => :1")
	if err := portable.Import(t.Context(), p.w.DB, kv.NoSync, []byte("h"), &file, portable.ImportOptions{}); err != nil {
		t.Fatal(err)
	}
	p.w.Script(`
DEL f => :1
RENAME g f => +OK`)
	p.compare()
	p.w.Script(`
DEL f => :1
RENAME h f => +OK`)
	for i, want := range wants { // it was exported before
		p.want(reply.Int(int64(want)), "CF.COUNT", "f", fmt.Sprint(i*7))
	}
}

// What a transaction does to a filter is done in one commit or not at all.
func TestCompatible_transaction(t *testing.T) {
	p := newPair(t, kv.Options{}, 4, 2, 20, 1)
	give := errors.New("given up")
	run := func(err error) {
		t.Helper()
		got := p.w.DB.Update(t.Context(), kv.NoSync, func(tx *kv.Transaction) error {
			f := cuckooext.New(p.w.DB, "f").In(tx)
			for i := range 30 {
				if _, err := f.Add(scalableext.Uint64(uint64(i))); err != nil {
					return err
				}
			}
			for i := range 25 {
				if found, err := f.Delete(scalableext.Uint64(uint64(i))); err != nil || !found {
					return fmt.Errorf("item %d: found %t, %v", i, found, err)
				}
			}
			if err := f.Compact(); err != nil {
				return err
			}
			return err
		})
		if !errors.Is(got, err) {
			t.Fatal(got)
		}
	}
	run(give)
	p.compare()
	for i := range 30 {
		if err := p.model.Add([]byte{byte(i), 7: 0}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 25 {
		p.model.Delete([]byte{byte(i), 7: 0})
	}
	p.model.Compact()
	run(nil)
	p.compare()
}

// CF.COMPACT of much is several commits, and leaves what one would.
func TestCompatible_compactInSteps(t *testing.T) {
	p := newPair(t, kv.Options{MemTableSize: 256 << 10}, 16_000, 2, 20, 1)
	for i := range 40_000 {
		p.do("CF.ADD", fmt.Sprint(i))
	}
	for i := range 10_000 { // without the compactions that the model's deletions would do
		if _, err := cuckooext.New(p.w.DB, "f").Delete([]byte(fmt.Sprint(i * 3))); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if p.model, err = redisbloom.LoadCuckoo(p.dump()); err != nil {
		t.Fatal(err)
	}
	p.model.Bounded = true
	p.compare()
	before := commits(t, p.w.DB)
	p.compact()
	if n := commits(t, p.w.DB) - before; n < 3 {
		t.Errorf("the compaction was %d commits, want several", n)
	}
	p.compare()
}

func commits(t *testing.T, db *kv.DB) uint64 {
	t.Helper()
	m, err := db.Metrics()
	if err != nil {
		t.Fatal(err)
	}
	return m.Commits
}
