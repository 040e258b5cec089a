package countingext_test

import (
	"errors"
	"testing"

	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// Chains are merged layer by layer, and the union can be deleted from like any other filter. A snapshot still sees
// the filters as they were.
func TestMerge_chains(t *testing.T) {
	db := open(t, kv.Options{Seed: 1, Durability: kv.NoSync})
	c := countingext.Config{Group: "g", Capacity: 1000, ErrorRate: 0.01}
	a, b, d := countingext.New(db, "a"), countingext.New(db, "b"), countingext.New(db, "d")
	must(t, a.Reserve(c))
	must(t, b.Reserve(c))
	// The first layer of b is full, and has the items of a's first layer.
	both, ofB := itemsFrom("both/", 0, 900), itemsFrom("b/", 0, 4000)
	ofA := ofB[:50]
	for _, f := range []*countingext.Filter{a, b} {
		addMany(t, f, both)
	}
	addMany(t, a, ofA)
	addMany(t, b, ofB)
	view, err := db.NewView(t.Context())
	must(t, err)
	defer view.Rollback()
	must(t, d.Merge(t.Context(), a, b))
	must(t, a.Merge(t.Context(), b))
	if info := infoOf(t, a.In(view)); info.Items != 950 || len(info.Layers) != 1 {
		t.Errorf("before the merge: %+v", info)
	}
	for _, f := range []*countingext.Filter{a, d} {
		info := infoOf(t, f)
		if info.Items != 950+4900 || len(info.Layers) != len(infoOf(t, b).Layers) || info.ExpectedRate > 0.01 {
			t.Errorf("union: %+v", info)
		}
		mustContain(t, f, ofA)
		mustContain(t, f, ofB)
		for _, item := range both {
			if n, err := f.Count(item); n < 2 || err != nil {
				t.Fatalf("Count of an item of both = %d, %v", n, err)
			}
		}
		deleteMany(t, f, both)
		mustContain(t, f, both)
		deleteMany(t, f, both)
		deleteMany(t, f, ofB)
		mustContain(t, f, ofA)
		if info := infoOf(t, f); info.Items != 50 || info.Distinct > 50+info.DeletesKept+10 {
			t.Errorf("after deletions: %+v", info)
		}
	}
	check(t, db)
	reopened := countingext.Config{Group: "g", Capacity: 1000, ErrorRate: 0.01}
	must(t, d.OpenOrReserve(reopened))
}

func TestMerge_ofAnotherStore(t *testing.T) {
	c := countingext.Config{Group: "g", Capacity: 100, ErrorRate: 0.01}
	d, s := countingext.New(open(t, kv.Options{}), "f"), countingext.New(open(t, kv.Options{}), "f")
	must(t, d.Reserve(c))
	must(t, s.Reserve(c))
	if err := d.Merge(t.Context(), s); !errors.Is(err, scalableext.ErrUnequal) {
		t.Errorf("Merge = %v, want scalableext.ErrUnequal", err)
	}
}
