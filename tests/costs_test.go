package tests_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv"
)

// What an operation costs, in what does not depend on how busy the machine is: entries of the log, blocks read, and
// allocations.

// costItems is how many items the filters of these tests are made for: their layers have several blocks.
const costItems = 50_000

func openCosts(t *testing.T, fs vfs.FS, o *sievekv.Options) *sievekv.DB {
	t.Helper()
	o.FS, o.BallastSize, o.MinFreeSpace, o.Seed, o.Logger = fs, -1, -1, 1, slog.New(slog.DiscardHandler)
	db, err := sievekv.Open("store", o)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// costFilters makes a filter of each type. Layers says how many layers each will have when all items were added.
func costFilters(t *testing.T, db *sievekv.DB, layers int) map[string]sievekv.Filter {
	t.Helper()
	capacity := uint64(costItems)
	if layers > 1 { // 1 + 2 + 4
		capacity = costItems / 6
	}
	bloom, cuckoo, counting := db.Bloom("bloom"), db.Cuckoo("cuckoo"), db.Counting("counting")
	must(t, errors.Join(
		bloom.Reserve(sievekv.Capacity(capacity, 1e-6), &sievekv.BloomConfig{GrowthLog: -1}),
		cuckoo.Reserve(sievekv.Capacity(capacity, 1e-6), nil),
		counting.Reserve(sievekv.Capacity(capacity, 1e-6), nil),
	))
	return filtersOf(db)
}

// filtersOf returns the filters that costFilters has made.
func filtersOf(db *sievekv.DB) map[string]sievekv.Filter {
	return map[string]sievekv.Filter{"bloom": db.Bloom("bloom"), "cuckoo": db.Cuckoo("cuckoo"), "counting": db.Counting("counting")}
}

// costOf numbers items from the first on.
func costOf(first, n uint64) (items []uint64) {
	for i := range n {
		items = append(items, first+i)
	}
	return items
}

// blocksOf returns how many blocks each layer has.
func blocksOf(t *testing.T, db *sievekv.DB, name string) (blocks []uint64) {
	t.Helper()
	const blockBytes = 8 << 10
	switch name {
	case "bloom":
		info, err := db.Bloom(name).Info()
		must(t, err)
		for _, l := range info.Layers {
			blocks = append(blocks, (l.Bits/8+blockBytes-1)/blockBytes)
		}
	case "cuckoo":
		info, err := db.Cuckoo(name).Info()
		must(t, err)
		for _, l := range info.Layers {
			blocks = append(blocks, l.Blocks)
		}
	default:
		info, err := db.Counting(name).Info()
		must(t, err)
		for _, l := range info.Layers {
			blocks = append(blocks, (l.Counters/2+blockBytes-1)/blockBytes)
		}
	}
	return blocks
}

// logEntries counts the entries of logs by their kind, for each log by its name: a log may be removed between two counts.
type logEntries map[string]*struct{ merges, sets int }

// count reads the logs that are there, and returns the entries of these and of those that were.
func (e logEntries) count(t *testing.T, fs vfs.FS) (merges, sets int) {
	t.Helper()
	names, err := fs.List("store")
	must(t, err)
	for _, name := range names {
		number, isLog := strings.CutSuffix(name, ".log")
		if !isLog {
			continue
		}
		n, err := strconv.ParseUint(number, 10, 64)
		must(t, err)
		f, err := fs.Open(fs.PathJoin("store", name))
		if errors.Is(err, os.ErrNotExist) {
			continue // it was removed a moment ago, and had been counted before
		}
		must(t, err)
		data, err := io.ReadAll(f)
		must(t, err)
		must(t, f.Close())
		of := new(struct{ merges, sets int })
		e[name] = of
		for r := logReader(record.NewReader, data, n); ; {
			rec, err := r.Next()
			if err != nil { // the end, which is torn as the log is in use
				break
			}
			batch, err := io.ReadAll(rec)
			must(t, err)
			for changes := batchrepr.Read(batch); ; {
				kind, _, _, ok, err := changes.Next()
				must(t, err)
				if !ok {
					break
				}
				switch kind.String() {
				case "MERGE":
					of.merges++
				case "SET":
					of.sets++
				}
			}
		}
	}
	for _, of := range e {
		merges, sets = merges+of.merges, sets+of.sets
	}
	return merges, sets
}

// logReader calls record.NewReader, one of whose types cannot be named here.
func logReader[N ~uint64](open func(io.Reader, N) *record.Reader, data []byte, number uint64) *record.Reader {
	return open(bytes.NewReader(data), N(number))
}

// An add or a delete is one operand of the block that it changes, and one record of the layer's counters. A batch has
// one operand for each block. An add that changes nothing writes nothing.
func TestCosts_entries(t *testing.T) {
	fs := vfs.NewMem()
	db := openCosts(t, fs, &sievekv.Options{})
	defer func() { must(t, db.Close()) }()
	filters, logs := costFilters(t, db, 1), make(logEntries)
	batch, next := costOf(1<<20, 2000), uint64(0)
	for name, f := range filters {
		blocks := int(blocksOf(t, db, name)[0])
		add := func() error { next++; _, err := f.Add(sievekv.Uint64(next)); return err }
		must(t, add())
		type costs struct {
			what         string
			op           func() error
			merges, sets int
		}
		cases := []costs{
			{"an add", add, 1, 1},
			{"an add of many", func() error { _, err := f.AddMany(sievekv.Uint64s(batch...), nil); return err }, blocks, 1},
		}
		switch f := f.(type) {
		case *sievekv.Bloom:
			cases = append(cases, costs{"an add of an item that is there", func() error { _, err := f.Add(sievekv.Uint64(next)); return err }, 0, 0})
		case interface{ DeleteUint64(uint64) (bool, error) }:
			cases = append(cases, costs{"a delete", func() error { _, err := f.DeleteUint64(next); return err }, 1, 1})
		}
		for _, c := range cases {
			merges, sets := logs.count(t, fs)
			must(t, c.op())
			nowMerges, nowSets := logs.count(t, fs)
			if nowMerges-merges != c.merges || nowSets-sets != c.sets {
				t.Errorf("%s: %s makes %d operands and %d records, want %d and %d", name, c.what,
					nowMerges-merges, nowSets-sets, c.merges, c.sets)
			}
		}
	}
}

// A lookup reads one block from disk for each layer that it looks at, and none when they are in memory. A lookup of
// many items reads each block once.
func TestCosts_blocksRead(t *testing.T) {
	for _, layers := range []int{1, 3} {
		fs := vfs.NewMem()
		db := openCosts(t, fs, &sievekv.Options{Durability: sievekv.NoSync})
		for name, f := range costFilters(t, db, layers) {
			_, err := f.AddMany(sievekv.Uint64s(costOf(0, costItems)...), nil)
			must(t, err)
			if n := len(blocksOf(t, db, name)); n != layers {
				t.Fatalf("%s has %d layers, want %d", name, n, layers)
			}
		}
		must(t, db.Close())
		db = openCosts(t, fs, &sievekv.Options{})
		for name, f := range filtersOf(db) {
			for _, want := range []int{layers, 0} {
				before := blocksRead(t, db)
				present, err := f.MayContain(sievekv.Uint64(absentItem))
				must(t, err)
				if n := blocksRead(t, db) - before; present || n != uint64(want) {
					t.Errorf("%s: a lookup in %d layers is answered by %t, and reads %d blocks, want %d", name, layers, present, n, want)
				}
			}
		}
		must(t, db.Close())
		db = openCosts(t, fs, &sievekv.Options{})
		for name, f := range filtersOf(db) {
			all := uint64(0)
			for _, n := range blocksOf(t, db, name) {
				all += n
			}
			present := make([]bool, 5000)
			before := blocksRead(t, db)
			must(t, f.MayContainMany(sievekv.Uint64s(costOf(absentItem, 5000)...), present))
			if n := blocksRead(t, db) - before; n != all {
				t.Errorf("%s: %d lookups in %d layers of %d blocks read %d", name, len(present), layers, all, n)
			}
		}
		must(t, db.Close())
	}
}

// openLarge opens a store with a Bloom filter three times the size of the cache, and returns its number of blocks.
func openLarge(t *testing.T) (db *sievekv.DB, blocks uint64) {
	t.Helper()
	const items = 200_000
	fs := vfs.NewMem()
	db = openCosts(t, fs, &sievekv.Options{Durability: sievekv.NoSync})
	must(t, db.Bloom("bloom").Reserve(sievekv.Capacity(items, 1e-6), &sievekv.BloomConfig{NonScaling: true}))
	_, err := db.Bloom("bloom").AddMany(sievekv.Uint64s(costOf(0, items)...), nil)
	must(t, err)
	must(t, db.Close())
	db = openCosts(t, fs, &sievekv.Options{CacheSize: 256 << 10})
	return db, blocksOf(t, db, "bloom")[0]
}

// blocksRead returns how many blocks were read from disk since the store was opened.
func blocksRead(t *testing.T, db *sievekv.DB) uint64 {
	t.Helper()
	m, err := db.Store().Metrics()
	must(t, err)
	return m.BlocksRead
}

// A lookup of many items in a filter larger than the cache reads each block once.
func TestCosts_blocksReadOnce(t *testing.T) {
	db, blocks := openLarge(t)
	defer func() { must(t, db.Close()) }()
	present := make([]bool, 10_000)
	must(t, db.Bloom("bloom").MayContainMany(sievekv.Uint64s(costOf(absentItem, 10_000)...), present))
	if n := blocksRead(t, db); n != blocks {
		t.Errorf("%d lookups in %d blocks read %d", len(present), blocks, n)
	}
}

// absentItem is the first of the items that are in no filter.
const absentItem = 1 << 40
