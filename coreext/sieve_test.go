package coreext_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/internal/coretest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/txn"
)

func sieveWorld(t *testing.T) *coretest.World {
	t.Helper()
	return coretest.NewWorld(t, kv.Options{Modules: coreext.With(
		bloomext.Module(), cuckooext.Module(), countingext.Module(), txn.Module(), coretest.OtherModule(),
	)})
}

func TestSieveStats(t *testing.T) {
	w := sieveWorld(t)
	w.Script(`
SET text hello EX 60 => +OK
OTHER.NEW other => +OK
BF.RESERVE seen 0.01 3 GROWTHLOG 0 => +OK
BF.MADD seen a b c d => [4*:1] | [4*#t]
CF.RESERVE cart 1000 ERROR 0.001 => +OK
CF.INSERT cart ITEMS a b b => [:1 :1 :1] | [#t #t #t]
CF.DEL cart b => :1 | #t
CBF.RESERVE online 0.001 10 NONSCALING => +OK
CBF.ADD online a => :1 | #t
SIEVE.STATS text missing other
  => [["key" "text" "type" "string" "bytes" :5 "disk_bytes" :0 "resident_bytes" :0 "expires_at_ms" :1000000060000] _
  ["key" "other" "type" "other" "bytes" :0 "disk_bytes" :... "resident_bytes" :0 "expires_at_ms" :0]]
  | [{"key" "text" "type" "string" "bytes" :5 "disk_bytes" :0 "resident_bytes" :0 "expires_at_ms" :1000000060000} _
  {"key" "other" "type" "other" "bytes" :0 "disk_bytes" :... "resident_bytes" :0 "expires_at_ms" :0}]
SIEVE.STATS seen
  => [["key" "seen" "type" "MBbloom--" "bytes" :128 "disk_bytes" :... "resident_bytes" :... "expires_at_ms" :0 "items" :4 "items_estimated" :0
  "distinct" :4 "capacity" :9 "fill" "0..." "expected_rate" "..." "error_rate" "0.01" "expansion" :2 "hash" "keyed"
  "layers" [["capacity" :3 "items" :3 "fill" "0..." "bits" :512 "hashes" :... "error_rate" "0.00..."]
  ["capacity" :6 "items" :1 "fill" "0..." "bits" :512 "hashes" :... "error_rate" "..."]]
  "lookups_yes" :0 "lookups_no" :0 "adds_new" :4 "adds_known" :0]]
  | [{"key" "seen" ... "items" :4 "items_estimated" #f "distinct" :4 "capacity" :9 "fill" ,0... "error_rate" ,0.01 "expansion" :2 "hash" "keyed"
  "layers" [{"capacity" :3 "items" :3 ...} {"capacity" :6 "items" :1 ...}] "lookups_yes" :0 "lookups_no" :0 "adds_new" :4 "adds_known" :0}]
SIEVE.STATS cart
  => [["key" "cart" "type" "MBbloomCF" "bytes" :2047 "disk_bytes" :... "resident_bytes" :... "expires_at_ms" :0 "items" :2 "deletes" :1
  "capacity" :1009 "load" "0.0017..." "expected_rate" "..." "error_rate" "0.001" "fingerprint_bits" :14 "bucket_size" :2 "max_iterations" :20
  "expansion" :2 "max_layers" :4 "hash" "keyed" "layers" [["blocks" :1 "block_bytes" :2048 "capacity" :1009 "items" :2 "load" "0.0017..."]] "lookups_yes" :0 "lookups_no" :0 "adds_new" :3 "adds_known" :0]]
  | [{"key" "cart" ... "layers" [{"blocks" :1 ...}] "lookups_yes" :0 "lookups_no" :0 "adds_new" :3 "adds_known" :0}]
SIEVE.STATS online
  => [["key" "online" "type" "CBloom---" "bytes" :128 "disk_bytes" :... "resident_bytes" :... "expires_at_ms" :0 "items" :1 "deletes_kept" :0
  "leftover" :0 "ordered" :1 "stuck" :0 "distinct" :1 "capacity" :10 "fill" "0..." "expected_rate" "..." "deleted_rate" "..."
  "error_rate" "0.001" "expansion" :0 "hash" "keyed"
  "layers" [["capacity" :10 "items" :1 "fill" "0..." "stuck" :0 "counters" :256 "hashes" :... "error_rate" "0.001"]] "lookups_yes" :0 "lookups_no" :0 "adds_new" :1 "adds_known" :0]]
  | [{"key" "online" ... "layers" [{"capacity" :10 ...}] "lookups_yes" :0 "lookups_no" :0 "adds_new" :1 "adds_known" :0}]
SIEVE.STATS
  => ["directory" "memory" "keys" :5 "disk_bytes" :... "table_bytes" :... "log_bytes" :... "reserve_bytes" :0 "durability" "always" "commits" :... "syncs" :...
  "cache" ["used_bytes" :... "budget_bytes" :268435456 "evictions" :0 "blocks_read" :...]
  "pebble" ["memtable_bytes" :... "log_bytes_written" :... "flushes" :... "compactions" :... "read_amplification" :...]
  "compaction" ["folds" :0 "fold_backlog" :0 "reclaimed" :0 "reclaim_backlog" :0 "compaction_backlog" :0 "expiry_backlog" :0]]
  | {"directory" "memory" ... "cache" {"used_bytes" ...} "pebble" {...} "compaction" {"folds" :0 "fold_backlog" :0 "reclaimed" :0 "reclaim_backlog" :0 "compaction_backlog" :0 "expiry_backlog" :0}}
SIEVE.STATS LIMIT => [_]
SIEVE.STATS LIMIT x => -ERR LIMIT is 'x', want an integer between 1 and 1000000
SIEVE.STATS LIMIT 0 => -ERR LIMIT is '0', want an integer between 1 and 1000000
SIEVE.STATS LIMIT 1000001 => -ERR LIMIT is '1000001', want an integer between 1 and 1000000
SIEVE.STATS 5 LIMIT => [_ _]
BF.ADD LIMIT x => :1 | #t
SIEVE.STATS x limit LIMIT => [_ _ ["key" "LIMIT" ...]] | [_ _ {"key" "LIMIT" ...}]
DEL LIMIT => :1
MULTI => +OK
BF.ADD new x => +QUEUED
DEL seen => +QUEUED
SIEVE.STATS new seen => +QUEUED
SIEVE.STATS LIMIT 9 => +QUEUED
EXEC => [:1 :1 [["key" "new" ... "items" :1 ...] _] ...] | [#t :1 [{"key" "new" ...} _] ...]`)
	var keys []string
	for _, figures := range w.Do("SIEVE.STATS", "LIMIT", "9").Elems() {
		keys = append(keys, string(fieldsOf(figures)["key"].Bytes()))
	}
	if len(keys) != 4 || strings.Contains(strings.Join(keys, " "), "text") {
		t.Errorf("SIEVE.STATS LIMIT 9 is about %q, want the four keys that are no strings", keys)
	}
	if n := len(w.Do("SIEVE.STATS", "LIMIT", "3").Elems()); n != 3 {
		t.Errorf("SIEVE.STATS LIMIT 3 is about %d keys, want 3", n)
	}
}

// Statistics are of as many keys as asked for, whatever else the store has.
func TestSieveStats_many(t *testing.T) {
	w := sieveWorld(t)
	for i := range 250 {
		w.Do("SET", fmt.Sprintf("s%d", i), "v")
		w.Do("OTHER.NEW", fmt.Sprintf("o%d", i))
	}
	for limit, want := range map[string]int{"1": 1, "120": 120, "250": 250, "1000": 250} {
		seen := make(map[string]bool)
		for _, figures := range w.Do("SIEVE.STATS", "LIMIT", limit).Elems() {
			seen[string(fieldsOf(figures)["key"].Bytes())] = true
		}
		if len(seen) != want {
			t.Errorf("SIEVE.STATS LIMIT %s is about %d keys, want %d", limit, len(seen), want)
		}
	}
}

// interrupted is a store in which a commit is made while a lookup is under way, so that the lookup runs again.
type interrupted struct {
	db      *kv.DB
	session *module.Session
	asked   int // the commit is made when the time is asked for so often; 0 for none
	names   [2]string
}

func openInterrupted(t *testing.T) *interrupted {
	t.Helper()
	i := &interrupted{names: [2]string{"moves", "moved"}}
	var err error
	i.db, err = kv.Open("", &kv.Options{
		InMemory: true, Modules: coreext.Add(coreext.With(bloomext.Module(), coretest.OtherModule())),
		Clock: func() time.Time {
			if i.asked--; i.asked == 0 { // lookups cannot run beside a commit that renames a key
				if err := i.db.Rename(kv.NoSync, []byte(i.names[0]), []byte(i.names[1])); err != nil {
					t.Error(err)
				}
				i.names[0], i.names[1] = i.names[1], i.names[0]
			}
			return time.Unix(1_000_000_000, 0)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := i.db.Close(); err != nil {
			t.Error(err)
		}
	})
	i.session = module.NewSession(i.db)
	i.do("OTHER.NEW", i.names[0])
	return i
}

func (i *interrupted) do(words ...string) reply.Reply {
	args := make([][]byte, len(words))
	for j, word := range words {
		args[j] = []byte(word)
	}
	return i.session.Do(context.Background(), args)
}

// Each key is listed once, whenever a commit makes the lookup of the next keys run again.
func TestSieveStats_commitMeanwhile(t *testing.T) {
	const keys = 249
	i := openInterrupted(t)
	for n := range keys {
		i.do("OTHER.NEW", fmt.Sprint("o", n))
	}
	for asked, ended := 1, false; !ended; asked++ {
		i.asked = asked
		seen := make(map[string]int)
		for _, figures := range i.do("SIEVE.STATS", "LIMIT", "1000").Elems() {
			seen[string(fieldsOf(figures)["key"].Bytes())]++
		}
		ended = i.asked > 0 // no commit was made: it would be after the last key
		for n := range keys {
			if times := seen[fmt.Sprint("o", n)]; times != 1 {
				t.Fatalf("with a commit when the time was asked for the %d. time, a key is listed %d times", asked, times)
			}
		}
	}
}

// A lookup that runs again does not charge its reply again.
func TestCharge_again(t *testing.T) {
	i := openInterrupted(t)
	i.do("SET", "large", strings.Repeat("x", 100_000))
	i.do("SETRANGE", "blocks", "200000", "y")
	var charged, most int
	i.session.Charge = func(n int) error {
		charged += n
		most = max(most, charged)
		return nil
	}
	charge := func(asked int, words ...string) int {
		charged, most, i.asked = 0, 0, asked
		if r := i.do(words...); r.IsError() {
			t.Errorf("%q: %s", words, r)
		}
		if asked > 0 && i.asked > 0 {
			t.Errorf("%q: the time was not asked for", words)
		}
		return most
	}
	for _, words := range [][]string{
		{"GET", "large"}, {"GET", "blocks"}, {"GETRANGE", "blocks", "0", "-1"}, {"KEYS", "*"}, {"MGET", "large", "blocks"}, {"SCAN", "0"},
	} {
		if again, once := charge(1, words...), charge(0, words...); again != once {
			t.Errorf("%q: %d bytes were counted with a commit meanwhile, %d without", words, again, once)
		}
	}
	if n := charge(0, "MGET", "blocks", "large"); n > 2*300_000+1000 {
		t.Errorf("MGET of 300,000 bytes: %d were counted", n)
	}
}

func TestSieveCheck(t *testing.T) {
	sieveWorld(t).Script(`
SIEVE.CHECK x => -ERR syntax error: "x" is neither DEEP nor REPAIR
SIEVE.CHECK deep REPAIR => ["keys" :0 "blocks" :0 "bytes" :0 "notes" [] "problems" [] "repaired" []] | {"keys" :0 "blocks" :0 ...}
SIEVE.CHECK => ["keys" :0 "blocks" :0 "bytes" :0 "notes" [] "problems" []] | {"keys" :0 "blocks" :0 "bytes" :0 "notes" [] "problems" []}
BF.RESERVE f 0.01 100 => +OK
BF.ADD f a => :1 | #t
SET k v => +OK
SIEVE.CHECK => ["keys" :2 "blocks" :2 "bytes" :... "notes" [] "problems" []] | {"keys" :2 "blocks" :2 ...}
MULTI => +OK
SIEVE.CHECK => -ERR Command not allowed inside a transaction
EXEC => -EXECABORT Transaction discarded because of previous errors.`)
}

// liar is a type whose check always finds a problem.
type liar struct{}

func (liar) Block(*kv.Layer, uint64, []uint64) error { return nil }
func (liar) Done() (string, error)                   { return "unlikely", fmt.Errorf("%w: cannot be", kv.ErrCorrupt) }

func TestSieveCheck_problems(t *testing.T) {
	typ := &kv.Type{
		Name: "liar", Version: 1, Open: func(*kv.Object) (any, error) { return nil, nil },
		Verify: func(*kv.Object) kv.Verifier { return liar{} },
	}
	db := openWith(t, module.Module{Name: "liars", Types: []*kv.Type{typ}})
	err := db.Write(kv.Always, [][]byte{[]byte("k")}, func(w *kv.Writer) error {
		_, err := w.Create([]byte("k"), kv.Spec{Type: typ})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	r := module.NewSession(db).Do(t.Context(), toWords("SIEVE.CHECK"))
	want := `{"keys" :1 "blocks" :0 "bytes" :0 "notes" ["key \"k\": unlikely"] "problems" ["key \"k\": corrupt data: cannot be"] "damaged" [{"key" "k" "type" "liar" "lost" ["what its counters count"]}]}`
	if got := coretest.Wire(r, reply.Reply.RESP3); got != want {
		t.Errorf("SIEVE.CHECK = %s, want %s", got, want)
	}
}

// SIEVE.COMPACT folds what was written and reclaims what was dropped, and changes nothing else.
func TestSieveCompact(t *testing.T) {
	w := sieveWorld(t)
	w.Script(`
SIEVE.COMPACT x => -ERR wrong number of arguments for 'sieve.compact' command
MULTI => +OK
SIEVE.COMPACT => -ERR Command not allowed inside a transaction
EXEC => -EXECABORT Transaction discarded because of previous errors.
BF.RESERVE gone 0.01 100000 => +OK
BF.MADD gone item:{1..1000} => [1000*:1] | [1000*#t]
BF.RESERVE kept 0.01 100000 => +OK
BF.MADD kept item:{1..1000} => [1000*:1] | [1000*#t]
DEL gone => :1
SIEVE.STATS kept => [["key" "kept" ... "disk_bytes" :0 ...]] | ...
SIEVE.COMPACT => ["disk_bytes_before" :... "disk_bytes" :...] | {"disk_bytes_before" :... "disk_bytes" :...}
BF.MEXISTS kept item:{1..1000} => [1000*:1] | [1000*#t]`)
	if n := fieldsOf(w.Do("SIEVE.STATS", "kept").Elems()[0])["disk_bytes"].Int(); n == 0 {
		t.Error("after SIEVE.COMPACT a filter takes nothing on disk")
	}
	if m, err := w.DB.Metrics(); err != nil || m.Reclaimed != 1 {
		t.Errorf("%d objects reclaimed, want the one deleted: %v", m.Reclaimed, err)
	}
}

// Long commands end with their context.
func TestSieve_canceled(t *testing.T) {
	w := sieveWorld(t)
	w.Do("BF.MADD", "f", "a")
	for _, line := range []string{"SIEVE.CHECK", "SIEVE.COMPACT", "SIEVE.STATS f", "SIEVE.STATS LIMIT 5"} {
		words := strings.Fields(line)
		r := module.NewSession(w.DB).Do(&late{Context: t.Context()}, toWords(words[0], words[1:]...))
		if !r.IsError() || !strings.Contains(r.String(), context.Canceled.Error()) {
			t.Errorf("%s = %v, want that it was canceled", line, r)
		}
	}
}
