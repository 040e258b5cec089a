package sievekv_test

import (
	"io"
	"log/slog"
	"testing"

	"github.com/sievekv/sievekv"
)

// BenchmarkFilters uses one filter of each type, with room for ten million items, in a store in memory.
func BenchmarkFilters(b *testing.B) {
	const capacity = 10_000_000
	type filter interface {
		Add(item []byte) (bool, error)
		MayContain(item []byte) (bool, error)
	}
	for name, reserve := range map[string]func(*sievekv.DB) (filter, error){
		"Bloom": func(db *sievekv.DB) (filter, error) {
			return db.Bloom("f"), db.Bloom("f").Reserve(sievekv.Capacity(capacity, 0.01), nil)
		},
		"Cuckoo": func(db *sievekv.DB) (filter, error) {
			return db.Cuckoo("f"), db.Cuckoo("f").Reserve(sievekv.Capacity(capacity, 0), nil)
		},
		"Counting": func(db *sievekv.DB) (filter, error) {
			return db.Counting("f"), db.Counting("f").Reserve(sievekv.Capacity(capacity, 0.01), nil)
		},
	} {
		b.Run(name, func(b *testing.B) {
			quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
			db, err := sievekv.Open("", &sievekv.Options{InMemory: true, Seed: 1, Durability: sievekv.NoSync, Logger: quiet})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			f, err := reserve(db)
			if err != nil {
				b.Fatal(err)
			}
			item := uint64(0)
			b.Run("Add/new", func(b *testing.B) {
				for b.Loop() {
					item++
					if _, err := f.Add(sievekv.Uint64(item)); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.Run("MayContain/hit", func(b *testing.B) {
				for b.Loop() {
					if there, err := f.MayContain(sievekv.Uint64(1)); !there || err != nil {
						b.Fatal(there, err)
					}
				}
			})
			b.Run("MayContain/miss", func(b *testing.B) {
				n := uint64(1) << 40
				for b.Loop() {
					n++
					if _, err := f.MayContain(sievekv.Uint64(n)); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}
