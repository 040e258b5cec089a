package tests_test

import (
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/txn"
)

// Filters that a transaction builds after it has removed everything are whole, and nothing else is left.
func TestExec_flushAllBeforeBuilds(t *testing.T) {
	for name, script := range map[string]string{
		"BF.MERGE":     "BF.MADD a x y\nBF.MERGE b a\nBF.MERGE c a b\nDEL b",
		"BF copied":    "BF.MADD a x y\nCOPY a b\nCOPY b c\nDEL b",
		"CF copied":    "CF.INSERT a ITEMS x y\nCOPY a b\nCOPY b c\nDEL b",
		"CBF.MERGE":    "CBF.MADD a x y\nCBF.MERGE b a\nCBF.MERGE c a b\nDEL b",
		"CBF copied":   "CBF.MADD a x y\nCOPY a b\nCOPY b c\nDEL b",
		"built before": "BF.MADD a z\nCOPY a c\nFLUSHALL\nBF.MADD a x y\nCOPY a c",
	} {
		t.Run(name, func(t *testing.T) {
			opts := tinyOptions(vfs.NewMem())
			opts.Modules = coreext.With(bloomext.Module(), countingext.Module(), cuckooext.Module(), txn.Module())
			db := open(t, storeDir, opts)
			s := module.NewSession(db)
			family, _, _ := strings.Cut(script, ".")
			for _, line := range strings.Split("BF.MADD old x y\nSET text v\nMULTI\nFLUSHALL\n"+script+"\nEXEC", "\n") {
				if r := s.Do(t.Context(), wordsOf(strings.Fields(line))); r.IsError() {
					t.Fatalf("%s: %v", line, r)
				}
			}
			// The first look is at blocks in memory, the other at what is stored.
			for range 2 {
				must(t, checkStore(db))
				for _, key := range []string{"a", "c"} {
					want := reply.Array(reply.Bool(true), reply.Bool(true), reply.Bool(false))
					got := module.NewSession(db).Do(t.Context(), wordsOf([]string{family + ".MEXISTS", key, "x", "y", "z"}))
					if got.String() != want.String() {
						t.Errorf("key %s: %v, want %v", key, got, want)
					}
				}
				if n, err := db.Size(); n != 2 || err != nil {
					t.Errorf("%d keys, %v, want 2", n, err)
				}
				must(t, db.Close())
				db = open(t, storeDir, opts)
			}
			must(t, db.Close())
		})
	}
}
