package main

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/bits-and-blooms/bloom/v3"

	"github.com/sievekv/sievekv"
)

// A file that bits-and-blooms writes is imported, and answers as that library, also after more items were added.
func TestImportForeign_bitsAndBlooms(t *testing.T) {
	db, err := sievekv.Open("", &sievekv.Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, tt := range []struct{ m, k, items uint }{{1, 1, 1}, {100, 3, 20}, {9586, 7, 1000}, {65_536, 4, 10_000}, {1_000_003, 5, 150_000}} {
		want := bloom.New(tt.m, tt.k)
		item := func(i uint) []byte { return fmt.Appendf(nil, "%d is an item of a length that varies", i)[:8+i%25] }
		for i := range tt.items {
			want.Add(item(i))
		}
		var file bytes.Buffer
		if _, err := want.WriteTo(&file); err != nil {
			t.Fatal(err)
		}
		f := db.Bloom(fmt.Sprint(tt.m))
		if err := f.ImportForeign(t.Context(), bytes.NewReader(file.Bytes()), sievekv.ForeignFile{Format: sievekv.ForeignBitsAndBlooms}); err != nil {
			t.Fatal(err)
		}
		compare := func(from, to uint) {
			t.Helper()
			for i := from; i < to; i++ {
				if got, err := f.MayContain(item(i)); got != want.Test(item(i)) || err != nil {
					t.Fatalf("%d bits: item %d: %t, %v", tt.m, i, got, err)
				}
			}
		}
		compare(0, 2*tt.items+2000)
		for i := 3 * tt.items; i < 3*tt.items+500; i++ {
			if isNew, err := f.Add(item(i)); isNew == want.TestOrAdd(item(i)) || err != nil {
				t.Fatalf("%d bits: new item %d: %t, %v", tt.m, i, isNew, err)
			}
		}
		compare(0, 4*tt.items+2000)
		info, err := f.Info()
		if set := uint64(want.BitSet().Count()); err != nil || info.Layers[0].Ones != set {
			t.Errorf("%d bits: %d are set, %v, want %d", tt.m, info.Layers[0].Ones, err, set)
		}
	}
}
