package bloomext_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/internal/hash"
	"github.com/sievekv/sievekv/internal/txntest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/portable"
	"github.com/sievekv/sievekv/scalableext"
	"github.com/sievekv/sievekv/tests/redisbloom"
)

var compatibleConfig = bloomext.Config{Capacity: 1000, ErrorRate: 0.01, Layout: scalableext.LayoutCompatible}

func TestCompatible_config(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(c *bloomext.Config)
		want   string // "" for none
	}{
		{"defaults", func(*bloomext.Config) {}, ""},
		{"most", func(c *bloomext.Config) { c.Capacity, c.Expansion = 1<<30, 32768 }, ""},
		{"capacity 0", func(c *bloomext.Config) { c.Capacity = 0 }, "capacity is 0 in a filter with the compatible layout, want 1 to 1073741824"},
		{"capacity too high", func(c *bloomext.Config) { c.Capacity = 1<<30 + 1 }, "want 1 to 1073741824"},
		{"error rate", func(c *bloomext.Config) { c.ErrorRate = 1 }, "error rate is 1, want above 0 and below 1"},
		{"hash", func(c *bloomext.Config) { c.Hash = hash.Keyed }, "hash is keyed in a filter with the compatible layout"},
		{"bits", func(c *bloomext.Config) { c.Bits, c.Hashes = 100, 1 }, "bits are 100 and hashes 1 in a filter with the compatible layout"},
		{"expansion", func(c *bloomext.Config) { c.Expansion, c.NonScaling = 2, true }, "expansion is 2"},
		{"TTL", func(c *bloomext.Config) { c.TTL = 1 }, "TTL is 1ns"},
		{"layout", func(c *bloomext.Config) { c.Layout = 3 }, "layout is Layout(3), want native or compatible"},
		{"foreign", func(c *bloomext.Config) { c.Layout = scalableext.LayoutForeign }, "layout is foreign, want native or compatible"},
	} {
		c := compatibleConfig
		tt.change(&c)
		_, planned := c.Planned(1)
		reserved := bloomext.New(newWorld(t, kv.Options{}).DB, "f").Reserve(c)
		for _, err := range []error{planned, reserved} {
			if tt.want == "" && err != nil || tt.want != "" && (!errors.Is(err, scalableext.ErrConfig) || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
			}
		}
	}
}

func TestCompatible_planned(t *testing.T) {
	c := compatibleConfig
	c.Capacity, c.NonScaling = 1e6, true
	info, err := c.Planned(1e6)
	if err != nil || info.Bytes != 1_198_136 || info.Layers[0].Hashes != 7 || math.Abs(info.ExpectedRate-0.01) > 1e-4 || math.Abs(info.Fill-0.5) > 0.02 {
		t.Errorf("%+v, %v", info, err)
	}
	if _, err := c.Planned(1e6 + 1); !errors.Is(err, scalableext.ErrFull) {
		t.Errorf("an item too many: %v", err)
	}
	c.NonScaling, c.Capacity = false, 100
	if info, err := c.Planned(1e6); err != nil || len(info.Layers) != 14 || info.Capacity != 1638300 {
		t.Errorf("%+v, %v", info, err)
	}
	c.Expansion = 1
	if info, err := c.Planned(106_700); err != nil || len(info.Layers) != 1067 { // 0.01*0.5^1067 is about the least float64
		t.Errorf("%d layers of 100: %v", len(info.Layers), err)
	}
	if _, err := c.Planned(106_701); !errors.Is(err, scalableext.ErrCannotGrow) {
		t.Errorf("1068 layers: %v", err)
	}
}

func TestCompatible_openOrReserve(t *testing.T) {
	w := newWorld(t, kv.Options{})
	f := bloomext.New(w.DB, "f")
	for range 2 {
		if err := f.OpenOrReserve(compatibleConfig); err != nil {
			t.Fatal(err)
		}
	}
	info, err := f.Info()
	if err != nil || info.Layout != scalableext.LayoutCompatible || info.Hash != hash.Murmur64A || info.Bytes != 1384 || info.Expansion != 2 || info.Layers[0].Hashes != 8 {
		t.Errorf("%+v, %v", info, err)
	}
	native := bloomext.Config{Capacity: 1000, ErrorRate: 0.01}
	if err := f.OpenOrReserve(native); !errors.Is(err, scalableext.ErrMismatch) || !strings.Contains(err.Error(), "layout is compatible, asked for native") {
		t.Errorf("a native filter: %v", err)
	}
	if err := bloomext.New(w.DB, "n").Reserve(native); err != nil {
		t.Fatal(err)
	}
	if err := bloomext.New(w.DB, "n").OpenOrReserve(compatibleConfig); !errors.Is(err, scalableext.ErrMismatch) {
		t.Errorf("a compatible filter: %v", err)
	}
	for _, change := range []func(c *bloomext.Config){
		func(c *bloomext.Config) { c.Capacity = 1001 },
		func(c *bloomext.Config) { c.ErrorRate = 0.02 },
		func(c *bloomext.Config) { c.Expansion = 3 },
		func(c *bloomext.Config) { c.NonScaling = true },
	} {
		c := compatibleConfig
		change(&c)
		if err := f.OpenOrReserve(c); !errors.Is(err, scalableext.ErrMismatch) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// AddMany, AddStaged and AddFitting do what the same adds one after the other do, in commits that fit.
func TestCompatible_many(t *testing.T) {
	for _, memTable := range []int{0, 256 << 10} {
		p := newPair(t, kv.Options{MemTableSize: memTable}, 40_000, 0.001, 2)
		f := bloomext.New(p.w.DB, "f")
		items := make([][]byte, 60_000)
		for i := range items {
			items[i] = fmt.Append(nil, i*2/3)
		}
		check := func(items [][]byte, isNew []bool) {
			t.Helper()
			for i, item := range items {
				if want, err := p.model.Add(item); isNew[i] != want || err != nil {
					t.Fatalf("item %d: new %t, want %t, %v", i, isNew[i], want, err)
				}
			}
		}
		isNew := make([]bool, len(items))
		if _, err := f.AddMany(items, isNew); err != nil {
			t.Fatal(err)
		}
		check(items, isNew)
		for rest := items; len(rest) > 0; {
			for i := range rest {
				rest[i] = append(rest[i], "more"...)
			}
			var n int
			err := p.w.DB.Write(kv.NoSync, [][]byte{[]byte("f")}, func(w *kv.Writer) (err error) {
				n, err = f.AddFitting(w, rest, isNew[:len(rest)], 1)
				return err
			})
			if err != nil || n < 1 {
				t.Fatalf("AddFitting = %d, %v", n, err)
			}
			check(rest[:n], isNew)
			rest = rest[n:]
			if len(rest) > 5000 {
				rest = rest[len(rest)-5000:]
			}
		}
		for range 3 {
			err := p.w.DB.Write(kv.NoSync, [][]byte{[]byte("f")}, func(w *kv.Writer) error {
				n, err := f.BatchSize(w)
				if err != nil || n < 1 {
					return fmt.Errorf("BatchSize = %d, %w", n, err)
				}
				batch := make([][]byte, min(n, 20_000))
				for i := range batch {
					batch[i] = fmt.Append(nil, "batch", i, p.model.Info().Items)
				}
				if _, err = f.AddStaged(w, batch, isNew[:len(batch)]); err == nil {
					check(batch, isNew)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		p.compare()
		present := make([]bool, len(items))
		if err := f.MayContainMany(items, present); err != nil {
			t.Fatal(err)
		}
		for i := range items {
			if present[i] != p.model.Exists(items[i]) {
				t.Fatalf("item %d: present %t", i, present[i])
			}
		}
	}
}

// A batch writes one operand for each block that it changes, and the counters. A batch of items that the filter has writes
// nothing.
func TestCompatible_batchOperands(t *testing.T) {
	const blocks, hashes = 169, 8 // of a filter for a million items at 0.005, the rate of the first layer
	p := newPair(t, kv.Options{}, 1_000_000, 0.01, 2)
	items := make([][]byte, 2000)
	for i := range items {
		items[i] = fmt.Append(nil, "item", i)
	}
	half := len(items) / 2
	for _, level := range []kv.Durability{kv.Always, kv.NoSync} {
		f := bloomext.New(p.w.DB, "f").With(level)
		for _, step := range []struct {
			name  string
			items [][]byte
			most  uint64 // operands
			bytes uint64 // of an operand, besides its bits
		}{
			{"new items", items[:half], blocks, 40},
			{"the same", items[:half], 0, 0},
			{"one new item among others", items[:half+1], hashes, 40},
			{"few new items", items[half+1:][:4], 4 * hashes, 40},
			{"many new items", items, blocks, 40},
			{"the same again", items, 0, 0},
		} {
			before, bytes := p.written()
			want := uint64(0)
			isNew := make([]bool, len(step.items))
			if _, err := f.AddMany(step.items, isNew); err != nil {
				t.Fatal(err)
			}
			for i, item := range step.items {
				yes, err := p.model.Add(item)
				if isNew[i] != yes || err != nil {
					t.Fatalf("%v, %s: item %d: new %t, want %t, %v", level, step.name, i, isNew[i], yes, err)
				}
				if yes {
					want++
				}
			}
			after, now := p.written()
			entries, most := after.LastSequence-before.LastSequence, step.most
			if most > 0 {
				most++ // counters
			}
			if commits := after.Commits - before.Commits; entries > most || commits != min(1, most) {
				t.Errorf("%v, %s: %d entries in %d commits, want %d at most in %d", level, step.name, entries, commits, most, min(1, most))
			}
			if most := 100 + step.most*step.bytes + 2*want*hashes; step.most > 0 && now-bytes > most || step.most == 0 && now != bytes {
				t.Errorf("%v, %s: %d bytes of log for %d new items, want %d at most", level, step.name, now-bytes, want, most)
			}
		}
		for i := range items {
			items[i] = append(items[i], "more"...)
		}
	}
	p.compare()
}

// written returns the store's metrics, and the bytes of its log, with what was pending.
func (p *pair) written() (kv.Metrics, uint64) {
	p.t.Helper()
	bytes, err := p.w.DB.LogBytesWritten()
	if err != nil {
		p.t.Fatal(err)
	}
	m, err := p.w.DB.Metrics()
	if err != nil {
		p.t.Fatal(err)
	}
	return m, bytes
}

// Items of very many bits, of which few fit into a commit.
func TestCompatible_manyBits(t *testing.T) {
	p := newPair(t, kv.Options{MemTableSize: 1 << 20}, 50_000, 1e-100, 2)
	items := make([][]byte, 200)
	for i := range items {
		items[i] = fmt.Append(nil, i)
		if _, err := p.model.Add(items[i]); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := bloomext.New(p.w.DB, "f").AddMany(items, nil); n != len(items) || err != nil {
		t.Fatalf("AddMany = %d, %v", n, err)
	}
	p.compare()
}

// A batch for which there is no room says so for the first item.
func TestCompatible_manyFull(t *testing.T) {
	w := newWorld(t, kv.Options{})
	f := bloomext.New(w.DB, "f")
	c := compatibleConfig
	c.Capacity, c.NonScaling = 2, true
	if err := f.Reserve(c); err != nil {
		t.Fatal(err)
	}
	var full *scalableext.ItemError
	isNew := make([]bool, 5)
	if n, err := f.AddMany(bytes.Fields([]byte("x x y z x")), isNew); n != 2 || !errors.As(err, &full) || full.Item != 3 || !errors.Is(err, scalableext.ErrFull) {
		t.Errorf("AddMany = %d, %v", n, err)
	}
	w.Script(`BF.MEXISTS f x y z => [:1 :1 :0] | [#t #t #f]`)
}

// A filter is copied and exported, and answers in a transaction, on a snapshot and without a store as before.
func TestCompatible_elsewhere(t *testing.T) {
	p := newPair(t, kv.Options{}, 10_000, 0.05, 2)
	for i := range 20_000 {
		p.do("BF.ADD", fmt.Sprint(i))
	}
	var file bytes.Buffer
	if err := portable.Export(t.Context(), p.w.DB, []byte("f"), &file); err != nil {
		t.Fatal(err)
	}
	frozen, err := portable.ReadFilter(bytes.NewReader(file.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	wants := make([]bool, 3000)
	for i := range wants {
		wants[i] = p.model.Exists(fmt.Append(nil, i*17))
	}
	same := func(name string, look func(item []byte) (bool, error)) error {
		for i, want := range wants {
			item := fmt.Append(nil, i*17)
			if got, err := look(item); got != want || err != nil {
				return fmt.Errorf("item %s %s: %t, %v, want %t", item, name, got, err, want)
			}
		}
		return nil
	}
	f := bloomext.New(p.w.DB, "f")
	err = p.w.DB.View(t.Context(), func(tx *kv.Transaction) error {
		for i := range 2000 {
			p.do("BF.ADD", fmt.Sprint("later", i))
		}
		return same("on a snapshot", f.In(tx).MayContain)
	})
	if err := errors.Join(err, same("without a store", func(item []byte) (bool, error) { return frozen.MayContain(item), nil })); err != nil {
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
	if err := same("after an import", bloomext.New(p.w.DB, "h").MayContain); err != nil {
		t.Fatal(err)
	}
}

// What a transaction does to a filter is done in one commit or not at all, and it sees what it has done.
func TestCompatible_transaction(t *testing.T) {
	p := newPair(t, kv.Options{}, 20_000, 0.01, 2)
	give := errors.New("given up")
	run := func(err error) {
		t.Helper()
		got := p.w.DB.Update(t.Context(), kv.NoSync, func(tx *kv.Transaction) error {
			f := bloomext.New(p.w.DB, "f").In(tx)
			for i := range uint64(30) {
				if isNew, err := f.Add(scalableext.Uint64(i)); err != nil || !isNew {
					return fmt.Errorf("item %d: new %t, %w", i, isNew, err)
				}
				if isNew, err := f.Add(scalableext.Uint64(i)); err != nil || isNew {
					return fmt.Errorf("item %d again: new %t, %w", i, isNew, err)
				}
			}
			items, present := make([]uint64, 40), make([]bool, 40)
			for i := range items {
				items[i] = uint64(i)
			}
			if err := f.MayContainMany(scalableext.Uint64s(items...), present); err != nil || !present[29] || present[30] {
				return fmt.Errorf("%t, %w", present, err)
			}
			if n, err := f.AddMany(scalableext.Uint64s(items...), present); err != nil || n != 10 {
				return fmt.Errorf("AddMany = %d, %w", n, err)
			}
			return err
		})
		if !errors.Is(got, err) {
			t.Fatal(got)
		}
	}
	run(give)
	p.compare()
	for i := range 40 {
		if _, err := p.model.Add([]byte{byte(i), 7: 0}); err != nil {
			t.Fatal(err)
		}
	}
	run(nil)
	p.compare()
}

// Lookups in blocks of which some are not in memory.
func TestCompatible_smallCache(t *testing.T) {
	p := newPair(t, kv.Options{CacheSize: 1 << 20}, 2_000_000, 0.01, 2)
	f := bloomext.New(p.w.DB, "f")
	items := make([]uint64, 20_000)
	for i := range items {
		items[i] = uint64(i)
		if _, err := p.model.Add(binary.LittleEndian.AppendUint64(nil, uint64(i))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.AddMany(scalableext.Uint64s(items...), nil); err != nil {
		t.Fatal(err)
	}
	for i := range uint64(5000) {
		for _, item := range []uint64{i, 1<<40 + i} {
			got, err := f.MayContain(scalableext.Uint64(item))
			if want := p.model.Exists(binary.LittleEndian.AppendUint64(nil, item)); got != want || err != nil {
				t.Fatalf("item %d: %t, %v, want %t", item, got, err, want)
			}
		}
	}
	present := make([]bool, len(items))
	if err := f.MayContainMany(scalableext.Uint64s(items...), present); err != nil {
		t.Fatal(err)
	}
	for i, yes := range present {
		if !yes {
			t.Fatalf("item %d is missing", i)
		}
	}
	p.compare()
}

// A union has the bits of its parts, layer by layer, and dumps as the model's. Filters that differ are refused, and unions
// above the rate.
func TestCompatible_merge(t *testing.T) {
	for _, tt := range []struct {
		name                 string
		capacity             uint64
		expansion            uint32
		from, from2, to, to2 int // items of both
		refused              string
	}{
		{"most of what fits", 2000, 2, 0, 1000, 1000, 1900, ""},
		{"most of what fits, no growth", 2000, 0, 0, 1000, 1000, 1900, ""},
		{"of several blocks", 30_000, 0, 0, 15_000, 15_000, 29_500, ""},
		{"one has more layers", 100, 2, 0, 0, 1500, 50, ""},
		{"the other has more layers", 100, 2, 0, 0, 50, 1500, ""},
		{"both are full", 2000, 0, 0, 2000, 2000, 4000, "layer 0 would have"},
		{"a fiftieth too many", 2000, 0, 0, 1000, 1000, 2040, "layer 0 would have"},
		{"equal", 2000, 0, 0, 0, 2000, 2000, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, kv.Options{})
			c := compatibleConfig
			c.Capacity, c.Expansion, c.NonScaling = tt.capacity, tt.expansion, tt.expansion == 0
			var filters []*bloomext.Filter
			var models []*redisbloom.Bloom
			for i, items := range [][2]int{{tt.from, tt.to}, {tt.from2, tt.to2}} {
				f := reserved(t, w.DB, string(rune('f'+i)), c)
				model, err := redisbloom.NewBloom(c.Capacity, c.ErrorRate, 2, c.NonScaling)
				if err != nil {
					t.Fatal(err)
				}
				for i := items[0]; i < items[1]; i++ {
					item := strconv.Itoa(i)
					want, err := model.Add([]byte(item))
					if added, err2 := f.Add([]byte(item)); err != nil || err2 != nil || added != want {
						t.Fatalf("item %d: %v, %v; the model: %v, %v", i, added, err2, want, err)
					}
				}
				filters, models = append(filters, f), append(models, model)
			}
			before := (&pair{t: t, w: w}).dump()
			err := filters[0].Merge(t.Context(), filters[1])
			union, want := redisbloom.Unite(models...)
			if tt.refused != "" {
				if !errors.Is(err, scalableext.ErrRate) || !strings.Contains(err.Error(), tt.refused) || want == nil {
					t.Errorf("Merge: %v, the model: %v", err, want)
				}
				if after := (&pair{t: t, w: w}).dump(); !reflect.DeepEqual(after, before) {
					t.Error("a refused union changes the filter")
				}
				return
			}
			if err != nil || want != nil {
				t.Fatalf("Merge: %v, the model: %v", err, want)
			}
			(&pair{t: t, w: w, model: union}).compareDumps()
			for _, items := range [][2]int{{tt.from, tt.to}, {tt.from2, tt.to2}} {
				for i := items[0]; i < items[1]; i++ {
					if yes, err := filters[0].MayContain([]byte(strconv.Itoa(i))); !yes || err != nil {
						t.Fatalf("item %d: %v, %v", i, yes, err)
					}
				}
			}
		})
	}
}

// Filters of other parameters are refused by name, and so are those of another layout.
func TestCompatible_mergeUnequal(t *testing.T) {
	newWorld(t, kv.Options{}).Script(`
BF.RESERVE native 0.01 100 => +OK
CONFIG SET bf-layout compatible => +OK
BF.RESERVE f 0.01 100 => +OK
BF.RESERVE capacity 0.01 200 => +OK
BF.RESERVE rate 0.02 100 => +OK
BF.RESERVE expansion 0.01 100 EXPANSION 4 => +OK
BF.RESERVE n 0.01 100 NONSCALING => +OK
BF.RESERVE zero 0.01 100 EXPANSION 0 => +OK
BF.MERGE f native => -ERR filters differ, and cannot be merged: hash of "f" is murmur64a, of "native" keyed
BF.MERGE native f => -ERR filters differ, and cannot be merged: hash of "native" is keyed, of "f" murmur64a
BF.MERGE f capacity => -ERR filters differ, and cannot be merged: capacity of "f" is 100, of "capacity" 200
BF.MERGE f rate => -ERR filters differ, and cannot be merged: error rate of "f" is 0.01, of "rate" 0.02
BF.MERGE f expansion => -ERR filters differ, and cannot be merged: expansion of "f" is 2, of "expansion" 4
BF.MERGE f n => -ERR filters differ, and cannot be merged: expansion of "f" is 2, of "n" 0
BF.MERGE n zero
  => -ERR filters differ, and cannot be merged: layout of layer 0 of "n" is 960 bits with 7 hashes, for 100 items at 0.01, expansion 2, options 13, of "zero" 960 bits with 7 hashes, for 100 items at 0.01, expansion 0, options 13
`)
}

// A filter that was loaded from a dump of very many layers answers and grows as RedisBloom's does.
func TestCompatible_manyLayers(t *testing.T) {
	model, err := redisbloom.NewBloom(1, 0.25, 1, false)
	if err != nil {
		t.Fatal(err)
	}
	p := &pair{t: t, w: newWorld(t, kv.Options{}), model: model}
	i := 0
	for ; model.Info().Filters < 300; i++ {
		if _, err := model.Add(fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	loadAll(t, p.w, model.Dump(), 1000)
	p.compare()
	for n := range 50 {
		p.do("BF.ADD", fmt.Sprint(i+n))
		p.do("BF.EXISTS", fmt.Sprint(i+n))
		p.do("BF.EXISTS", fmt.Sprint(n))
	}
	if layers := model.Info().Filters; layers < 310 {
		t.Errorf("%d layers", layers)
	}
	p.compare()
}

// As many items as BatchSize says fit into a commit, though each lies in many blocks.
func TestCompatible_batchSize(t *testing.T) {
	w := newWorld(t, kv.Options{MemTableSize: 256 << 10})
	f := bloomext.New(w.DB, "f")
	c := compatibleConfig
	c.Capacity = 1e8
	if err := f.Reserve(c); err != nil {
		t.Fatal(err)
	}
	for _, known := range []int{0, 10} {
		err := w.DB.Write(kv.NoSync, [][]byte{[]byte("f")}, func(w *kv.Writer) error {
			items := make([][]byte, known)
			for i := range items {
				items[i] = fmt.Append(nil, "known", i)
			}
			if _, err := f.AddStaged(w, items, make([]bool, known)); err != nil {
				return err
			}
			n, err := f.BatchSize(w)
			if err != nil || n < 1 || n > 100 {
				return fmt.Errorf("BatchSize = %d, %w", n, err)
			}
			items = make([][]byte, n)
			for i := range items {
				items[i] = fmt.Append(nil, known, i)
			}
			_, err = f.AddStaged(w, items, make([]bool, n))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A batch makes a filter grow by 64 layers at most.
func TestCompatible_batchLayers(t *testing.T) {
	w := newWorld(t, kv.Options{})
	size := func(f *bloomext.Filter) (sizes [2]int) {
		if err := w.DB.Write(kv.NoSync, [][]byte{[]byte("f")}, func(w *kv.Writer) (err error) { sizes[0], err = f.BatchSize(w); return err }); err != nil {
			t.Fatal(err)
		}
		if err := txntest.Update(t.Context(), w.DB, kv.NoSync, func(tx *txntest.Tx) error {
			return tx.Write(func(w *kv.Writer) (err error) { sizes[1], err = f.In(tx).BatchSize(w); return err })
		}); err != nil {
			t.Fatal(err)
		}
		return sizes
	}
	f := bloomext.New(w.DB, "f")
	for _, capacity := range []uint64{1, 100} {
		if _, err := f.Drop(); err != nil {
			t.Fatal(err)
		}
		c := compatibleConfig
		c.Capacity, c.Expansion = capacity, 1
		if err := f.Reserve(c); err != nil {
			t.Fatal(err)
		}
		for _, n := range size(f) {
			if n < 10 || n > 64*int(capacity) {
				t.Errorf("capacity %d: batches of %d", capacity, n)
			}
		}
	}
}

// An item whose add has returned is found by every lookup after that, while other items are added and blocks leave memory.
func TestCompatible_concurrent(t *testing.T) {
	w := newWorld(t, kv.Options{CacheSize: 1 << 20})
	f := bloomext.New(w.DB, "f").With(kv.NoSync)
	c := compatibleConfig
	c.Capacity = 300_000 // and several megabytes, of which the cache has one
	if err := f.Reserve(c); err != nil {
		t.Fatal(err)
	}
	var added atomic.Uint64 // items below it are added
	const items = 3000
	var lookups sync.WaitGroup
	for g := range uint64(3) {
		lookups.Go(func() {
			own := bloomext.New(w.DB, "f")
			for i := g; added.Load() < items; i += 7 {
				n := added.Load()
				if n == 0 {
					continue
				}
				if yes, err := own.MayContain(scalableext.Uint64(i % n)); !yes || err != nil {
					t.Errorf("item %d of %d: %t, %v", i%n, n, yes, err)
					return
				}
			}
		})
	}
	for i := range uint64(items) {
		if _, err := f.Add(scalableext.Uint64(i)); err != nil {
			t.Error(err)
		}
		added.Store(i + 1)
	}
	lookups.Wait()
}
