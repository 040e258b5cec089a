package cuckooext_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/kv"
)

// Deleting items that were added takes no other away, in a chain of layers whose
// fingerprints are so short that hundreds of items are found in place of others: also
// after entries were moved to older layers.
func TestFilter_deleteKeepsOthers(t *testing.T) {
	const n = 40_000
	items := make([][]byte, n)
	for i := range items {
		items[i] = fmt.Append(nil, i)
	}
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	db := open(t, kv.Options{Durability: kv.NoSync})
	f := cuckooext.New(db, "f")
	must(t, f.Reserve(cuckooext.Config{Capacity: 5000, ErrorRate: 0.2}))
	if added, err := addMany(f, items); added != n || err != nil {
		t.Fatalf("AddMany = %d, %v", added, err)
	}
	info, err := f.Info()
	must(t, err)
	if len(info.Layers) < 3 || info.FingerprintBits != 8 {
		t.Fatalf("%d layers of %d-bit fingerprints, want at least 3 of 8", len(info.Layers), info.FingerprintBits)
	}
	// Not the newest first: then hardly any would be found in place of another.
	rng.Shuffle(n, func(i, j int) { items[i], items[j] = items[j], items[i] })
	present := make([]bool, n)
	for left := n; left > 0; {
		some := min(left, 8000)
		for range some {
			left--
			if ok, err := f.Delete(items[left]); !ok || err != nil {
				t.Fatalf("seed %d: Delete with %d left = %t, %v", seed, left, ok, err)
			}
		}
		must(t, f.Compact())
		must(t, f.MayContainMany(items[:left], present[:left]))
		lost := 0
		for _, there := range present[:left] {
			if !there {
				lost++
			}
		}
		if lost > 0 {
			t.Fatalf("seed %d: of %d items that were not deleted %d are not found", seed, left, lost)
		}
	}
	if info, err = f.Info(); err != nil || info.Items != 0 || len(info.Layers) != 1 {
		t.Errorf("after all is deleted: %d items in %d layers, %v", info.Items, len(info.Layers), err)
	}
	check(t, db)
}
