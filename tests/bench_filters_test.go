package tests_test

import (
	"context"
	"encoding/binary"
	"testing"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
)

const benchItems = 100_000

// filtersForBench returns a store with a filter of each type, of benchItems items, all in memory.
func filtersForBench(b *testing.B) (*sievekv.DB, map[string]sievekv.Filter) {
	b.Helper()
	db, err := sievekv.Open("", &kv.Options{InMemory: true, Durability: kv.NoSync})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	bloom, cuckoo, counting := db.Bloom("bf"), db.Cuckoo("cf"), db.Counting("cbf")
	for _, err := range []error{
		bloom.Reserve(sievekv.Capacity(1<<22, 0.01), nil),
		cuckoo.Reserve(sievekv.Capacity(1<<22, 0), nil),
		counting.Reserve(sievekv.Capacity(1<<22, 0.01), nil),
	} {
		if err != nil {
			b.Fatal(err)
		}
	}
	filters := map[string]sievekv.Filter{"bf": bloom, "cf": cuckoo, "cbf": counting}
	items := make([]uint64, benchItems)
	for i := range items {
		items[i] = uint64(i)
	}
	for _, f := range filters {
		if _, err := f.AddMany(sievekv.Uint64s(items...), nil); err != nil {
			b.Fatal(err)
		}
		if err := f.MayContainMany(sievekv.Uint64s(items...), make([]bool, len(items))); err != nil {
			b.Fatal(err)
		}
	}
	return db, filters
}

// BenchmarkFilters measures what handles of each type do.
func BenchmarkFilters(b *testing.B) {
	_, filters := filtersForBench(b)
	for _, name := range []string{"bf", "cf", "cbf"} {
		f := filters[name]
		each := func(what string, batch int, do func(i uint64, items []uint64) error) {
			b.Run(name+"/"+what, func(b *testing.B) {
				b.ReportAllocs()
				items, i := make([]uint64, batch), uint64(0)
				for b.Loop() {
					i++
					for j := range items {
						items[j] = (i*uint64(batch) + uint64(j)) * 0x9e3779b97f4a7c15 % benchItems
					}
					if err := do(i, items); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		present, fresh := make([]bool, 64), uint64(benchItems)
		each("hit", 1, func(_ uint64, items []uint64) error { _, err := f.MayContain(sievekv.Uint64(items[0])); return err })
		each("miss", 1, func(_ uint64, items []uint64) error { _, err := f.MayContain(sievekv.Uint64(^items[0])); return err })
		each("hit64", 64, func(_ uint64, items []uint64) error { return f.MayContainMany(sievekv.Uint64s(items...), present) })
		each("add64", 64, func(_ uint64, items []uint64) error { _, err := f.AddMany(sievekv.Uint64s(items...), nil); return err })
		each("add", 1, func(_ uint64, items []uint64) error { _, err := f.Add(sievekv.Uint64(items[0])); return err })
		each("addnew", 1, func(uint64, []uint64) error { fresh++; _, err := f.Add(sievekv.Uint64(fresh)); return err })
	}
}

// BenchmarkCommands measures the commands of filters that hold an item, and add one.
func BenchmarkCommands(b *testing.B) {
	db, _ := filtersForBench(b)
	session := module.NewSession(db.Store())
	for _, name := range []string{
		"BF.EXISTS", "BF.ADD", "BF.MEXISTS", "BF.MADD", "CF.EXISTS", "CF.ADDNX", "CF.ADD", "CF.COUNT", "CBF.EXISTS", "CBF.ADD", "CBF.COUNT",
	} {
		key := map[byte]string{'F': "bf", 'B': "cbf"}[name[1]]
		if name[0] == 'C' && name[1] == 'F' {
			key = "cf"
		}
		for _, kind := range []struct {
			name  string
			first uint64
		}{{"known", 0}, {"other", 1 << 40}} {
			b.Run(name+"/"+kind.name, func(b *testing.B) {
				b.ReportAllocs()
				var item [8]byte
				words := [][]byte{[]byte(name), []byte(key), item[:]}
				i := uint64(0)
				for b.Loop() {
					i++
					n := i * 0x9e3779b97f4a7c15 % benchItems
					if kind.first != 0 {
						n = kind.first + i
					}
					binary.LittleEndian.PutUint64(item[:], n)
					if r := session.Do(context.Background(), words); r.IsError() {
						b.Fatal(r)
					}
				}
			})
		}
	}
	b.Run("BF.ADD/missing", func(b *testing.B) {
		b.ReportAllocs()
		words := [][]byte{[]byte("BF.ADD"), []byte("a key"), []byte("an item")}
		for b.Loop() {
			session.Do(context.Background(), words)
			session.Do(context.Background(), [][]byte{[]byte("DEL"), []byte("a key")})
		}
	})
}
