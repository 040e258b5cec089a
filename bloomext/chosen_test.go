package bloomext_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/internal/hash"
	"github.com/sievekv/sievekv/internal/kvtest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// Items with equal XXH64 under every seed differ in a new filter.
func TestFilter_chosenPairs(t *testing.T) {
	db := open(t, "", &kv.Options{InMemory: true, Durability: kv.NoSync})
	defer closeDB(t, db)
	f := reserved(t, db, "seen", bloomext.Config{Capacity: 1e6, ErrorRate: 1e-6})
	items, others := kvtest.CollidingPairs(1000)
	answers := make([]bool, len(items))
	if _, err := f.AddMany(items, answers); err != nil {
		t.Fatal(err)
	}
	if err := f.MayContainMany(others, answers); err != nil {
		t.Fatal(err)
	}
	if n := count(answers); n > 0 {
		t.Errorf("of 1000 items never added %d are present", n)
	}
	if _, err := f.AddMany(others, answers); err != nil {
		t.Fatal(err)
	}
	if n := len(answers) - count(answers); n > 0 {
		t.Errorf("of 1000 new items %d are known", n)
	}
}

func TestFilter_chosenItem(t *testing.T) {
	db := open(t, "", &kv.Options{InMemory: true, Durability: kv.NoSync})
	defer closeDB(t, db)
	f := reserved(t, db, "seen", bloomext.Config{Capacity: 1e6, ErrorRate: 1e-6})
	item := make([]byte, 320)
	if _, err := f.Add(item); err != nil {
		t.Fatal(err)
	}
	others := kvtest.CollideOften(item, 3)
	present := make([]bool, len(others))
	if err := f.MayContainMany(others, present); err != nil {
		t.Fatal(err)
	}
	if n := count(present); n > 0 {
		t.Errorf("one item makes %d others of %d present", n, len(others))
	}
}

func count(answers []bool) (n int) {
	for _, yes := range answers {
		if yes {
			n++
		}
	}
	return n
}

// Filters with different seeds or hashes are not merged, and the error does not show the hash key.
func TestFilter_Merge_hash(t *testing.T) {
	fs := vfs.NewMem()
	for i, seed := range []uint64{77, 78} {
		db := open(t, "store", &kv.Options{FS: fs, Seed: seed, BallastSize: -1, MinFreeSpace: -1})
		for _, kind := range []hash.Kind{hash.Keyed, hash.XXH64} {
			reserved(t, db, fmt.Sprintf("%v%d", kind, i), bloomext.Config{Capacity: 100, ErrorRate: 0.01, Hash: kind})
		}
		closeDB(t, db)
	}
	db := open(t, "store", &kv.Options{FS: fs, BallastSize: -1, MinFreeSpace: -1})
	defer closeDB(t, db)
	for _, keys := range [][2]string{{"keyed0", "keyed1"}, {"xxh640", "xxh641"}, {"keyed0", "xxh640"}} {
		err := bloomext.New(db, keys[0]).Merge(t.Context(), bloomext.New(db, keys[1]))
		if !errors.Is(err, scalableext.ErrUnequal) || strings.Contains(err.Error(), "77") || strings.Contains(err.Error(), "78") {
			t.Errorf("Merge of %v: %v, want %v without a seed", keys, err, scalableext.ErrUnequal)
		}
	}
}
