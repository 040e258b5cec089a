package cuckooext_test

import (
	"testing"

	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/internal/kvtest"
	"github.com/sievekv/sievekv/kv"
)

// Items with equal XXH64 under every seed do not fill two buckets of a new filter.
func TestFilter_chosenFull(t *testing.T) {
	f := cuckooext.New(open(t, kv.Options{Durability: kv.NoSync}), "f")
	if err := f.Reserve(cuckooext.Config{Capacity: 1e6, ErrorRate: 1e-6}); err != nil {
		t.Fatal(err)
	}
	items := append([][]byte{make([]byte, 320)}, kvtest.CollideOften(make([]byte, 320), 1)...)
	if n, err := addMany(f, items); n != len(items) || err != nil {
		t.Errorf("of %d items a filter for a million took %d: %v", len(items), n, err)
	}
}

// Deleting one does not remove the other.
func TestFilter_Delete_chosen(t *testing.T) {
	f := cuckooext.New(open(t, kv.Options{Durability: kv.NoSync}), "f")
	if err := f.Reserve(cuckooext.Config{Capacity: 1e6, ErrorRate: 1e-8}); err != nil {
		t.Fatal(err)
	}
	items, others := kvtest.CollidingPairs(100)
	if n, err := addMany(f, items); n != len(items) || err != nil {
		t.Fatal(n, err)
	}
	var deleted, lost int
	for _, other := range others {
		if ok, err := f.Delete(other); ok || err != nil {
			deleted++
		}
	}
	for _, item := range items {
		if ok, err := f.MayContain(item); !ok || err != nil {
			lost++
		}
	}
	if deleted+lost > 0 {
		t.Errorf("of 100 items never added %d were deleted, and of those added %d are lost", deleted, lost)
	}
}
