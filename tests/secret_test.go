package tests_test

import (
	"fmt"
	"testing"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// asking is a session over a store, with the commands of all filters.
type asking struct {
	t *testing.T
	s *module.Session
}

func askStore(t *testing.T, settings ...string) asking {
	t.Helper()
	db, err := kv.Open("", &kv.Options{
		InMemory: true, Durability: kv.NoSync, Modules: coreext.With(bloomext.Module(), cuckooext.Module(), countingext.Module()),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t, db.Close()) })
	a := asking{t, module.NewSession(db)}
	for i := 0; i < len(settings); i += 2 {
		a.do("CONFIG", "SET", settings[i], settings[i+1])
	}
	return a
}

func (a asking) do(words ...string) reply.Reply {
	a.t.Helper()
	list := make([][]byte, len(words))
	for i, w := range words {
		list[i] = []byte(w)
	}
	r := a.s.Do(a.t.Context(), list)
	if r.IsError() {
		a.t.Fatalf("%q: %v", words, r)
	}
	return r
}

// copyTo copies a filter to another store by its dump, as any user can who may read the key.
func (a asking) copyTo(b asking, family, key string) {
	a.t.Helper()
	for at := "0"; ; {
		chunk := a.do(family+".SCANDUMP", key, at).Elems()
		if at = fmt.Sprint(chunk[0].Int()); at == "0" {
			return
		}
		b.do(family+".LOADCHUNK", key, at, string(chunk[1].Bytes()))
	}
}

// A person who has the dump of a filter finds its false positives. They are no more often false positives of another
// filter that was made alike and holds the same items than items chosen at random, unless both belong to one group.
func TestSecret_dump(t *testing.T) {
	const items, wanted = 1000, 200
	for _, tt := range []struct {
		name, family string
		reserve      []string
		shared       bool
	}{
		{"Bloom", "BF", []string{"0.01", "1000"}, false},
		{"Bloom, one group", "BF", []string{"0.01", "1000", "GROUP", "g"}, true},
		{"cuckoo", "CF", []string{"1000", "ERROR", "0.01"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, b := askStore(t), askStore(t)
			for _, key := range []string{"own", "other"} {
				a.do(append([]string{tt.family + ".RESERVE", key}, tt.reserve...)...)
				for i := range items {
					a.do(tt.family+".ADD", key, fmt.Sprint("item ", i))
				}
			}
			a.copyTo(b, tt.family, "own")
			found, hits := 0, 0
			for i := 0; found < wanted; i++ {
				item := fmt.Sprint("chosen ", i)
				if b.do(tt.family+".EXISTS", "own", item).Int() == 1 {
					found++
					hits += int(a.do(tt.family+".EXISTS", "other", item).Int())
				}
			}
			// One in 100 at most is expected of another secret: 20 have a chance of below 10^-13.
			if tt.shared != (hits == wanted) || !tt.shared && hits > 20 {
				t.Errorf("of %d chosen items %d are in the other filter", wanted, hits)
			}
		})
	}
}

// With the settings, filters that are made without being given a group can be merged.
func TestSecret_groupSetting(t *testing.T) {
	a := askStore(t, "bf-group", "g", "cbf-group", "g")
	for _, family := range []string{"BF", "CBF"} {
		a.do(family+".ADD", family+"a", "x")
		a.do(family+".INSERT", family+"b", "ITEMS", "y")
		a.do(family+".RESERVE", family+"c", "0.01", "100")
		a.do(family+".MERGE", family+"d", family+"a", family+"b", family+"c")
		a.do(family+".RESERVE", family+"xxh", "0.01", "100", "HASH", "xxh64")
		a.do(family+".RESERVE", family+"other", "0.01", "100", "GROUP", "other")
		if r := a.s.Do(a.t.Context(), [][]byte{[]byte(family + ".MERGE"), []byte(family + "d"), []byte(family + "other")}); !r.IsError() {
			t.Errorf("%s.MERGE of filters of two groups: %v", family, r)
		}
	}
}
