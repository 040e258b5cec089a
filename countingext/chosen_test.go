package countingext_test

import (
	"testing"

	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/internal/kvtest"
	"github.com/sievekv/sievekv/kv"
)

// A new filter counts and deletes items with equal XXH64 under every seed independently.
func TestFilter_Delete_chosen(t *testing.T) {
	f := countingext.New(open(t, kv.Options{Durability: kv.NoSync}), "f")
	if err := f.Reserve(countingext.Config{Capacity: 1e5, ErrorRate: 1e-6}); err != nil {
		t.Fatal(err)
	}
	items, others := kvtest.CollidingPairs(100)
	answers := make([]bool, len(items))
	if _, err := f.AddMany(items, answers); err != nil {
		t.Fatal(err)
	}
	if _, err := f.DeleteMany(others, answers); err != nil {
		t.Fatal(err)
	}
	var deleted, lost int
	for i, item := range items {
		if answers[i] {
			deleted++
		}
		if n, err := f.Count(item); n != 1 || err != nil {
			lost++
		}
	}
	if deleted+lost > 0 {
		t.Errorf("of 100 items never added %d were deleted, and of those added %d are lost", deleted, lost)
	}
}
