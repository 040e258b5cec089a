package portable_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/sievekv/sievekv"
)

func large(b *testing.B) (*sievekv.DB, []byte) {
	db := open(b, 1)
	must(b, db.Bloom("k").Reserve(sievekv.Capacity(10_000_000, 0.01), nil))
	fill(b, db.Bloom("k"), 5_000_000)
	return db, export(b, db, "k")
}

func BenchmarkExport(b *testing.B) {
	db, file := large(b)
	b.SetBytes(int64(len(file)))
	for b.Loop() {
		must(b, db.Export(b.Context(), "k", io.Discard))
	}
}

func BenchmarkImport(b *testing.B) {
	db, file := large(b)
	b.SetBytes(int64(len(file)))
	for b.Loop() {
		must(b, db.ImportWith(b.Context(), "k", bytes.NewReader(file), sievekv.ImportOptions{Replace: true}))
	}
}

func BenchmarkReadFilter(b *testing.B) {
	_, file := large(b)
	b.SetBytes(int64(len(file)))
	for b.Loop() {
		_, err := sievekv.ReadFilter(bytes.NewReader(file))
		must(b, err)
	}
}

// A lookup without a store, beside one in a store that has all blocks in memory.
func BenchmarkFilter_MayContain(b *testing.B) {
	db, file := large(b)
	f, err := sievekv.ReadFilter(bytes.NewReader(file))
	must(b, err)
	stored := db.Bloom("k")
	b.Run("file", func(b *testing.B) {
		i := uint64(0)
		for b.Loop() {
			f.MayContain(sievekv.Uint64(i))
			i++
		}
	})
	b.Run("store", func(b *testing.B) {
		i := uint64(0)
		for b.Loop() {
			_, err := stored.MayContain(sievekv.Uint64(i))
			must(b, err)
			i++
		}
	})
}
