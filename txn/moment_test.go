package txn_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sievekv/sievekv/internal/txntest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// ticking is a clock that advances by a millisecond each time it is read.
type ticking struct{ now atomic.Int64 }

func (c *ticking) time() time.Time { return time.UnixMilli(c.now.Add(1)) }

// Keys that expire in the same millisecond either all exist or are all missing for one command, transaction, snapshot
// or commit, however the clock advances meanwhile.
func TestMoment(t *testing.T) {
	clock := new(ticking)
	clock.now.Store(1_000_000)
	db := open(t, kv.Options{Clock: clock.time})
	user := module.NewSession(db)
	do := func(line string) string {
		var words [][]byte
		for _, word := range strings.Fields(line) {
			words = append(words, []byte(word))
		}
		return string(bytes.TrimSpace(reply.AppendJSON(nil, user.Do(context.Background(), words))))
	}
	keys := [][]byte{[]byte("a"), []byte("filter"), []byte("c")}
	// Each returns what it saw of the keys: "1" for an existing key, "0" for a missing one.
	ways := map[string]func(t *testing.T) string{
		"EXISTS": func(*testing.T) string { return share(do("EXISTS a filter c")) },
		"DEL":    func(*testing.T) string { return share(do("DEL a filter c")) },
		"MGET": func(*testing.T) string {
			return strings.NewReplacer(`["v","v"]`, "1", "[null,null]", "0").Replace(do("MGET a c"))
		},
		"SCAN": func(t *testing.T) string {
			found, _, err := db.ScanFrom(context.Background(), 0, 1000, kv.ScanOptions{})
			must(t, err)
			return share(fmt.Sprint(len(found)))
		},
		"EXEC": func(*testing.T) string {
			do("MULTI")
			for _, line := range []string{"EXISTS a", "EXISTS filter", "EXISTS c", "DEL a", "DEL filter", "DEL c"} {
				do(line)
			}
			return strings.NewReplacer("[1,1,1,1,1,1]", "1", "[0,0,0,0,0,0]", "0").Replace(do("EXEC"))
		},
		"EXEC that reads": func(*testing.T) string {
			do("MULTI")
			for _, line := range []string{"EXISTS a", "EXISTS filter", "EXISTS c"} {
				do(line)
			}
			return strings.NewReplacer("[1,1,1]", "1", "[0,0,0]", "0").Replace(do("EXEC"))
		},
		"Read": func(t *testing.T) (told string) {
			must(t, db.Read(func(r kv.Reader) error {
				told = "" // it may run again
				return lookups(r.Lookup, keys, &told)
			}))
			return told
		},
		"Write": func(t *testing.T) (told string) {
			must(t, db.Write(kv.NoSync, keys, func(w *kv.Writer) error { return lookups(w.Object, keys, &told) }))
			return told
		},
		"Update": func(t *testing.T) (told string) {
			must(t, txntest.Update(context.Background(), db, kv.NoSync, func(tx *txntest.Tx) error {
				return errors.Join(
					tx.Scope().Read(func(r kv.Reader) error { return lookups(r.Lookup, keys, &told) }),
					tx.Scope().Write(func(w *kv.Writer) error { return lookups(w.Object, keys, &told) }))
			}))
			return told
		},
		"View": func(t *testing.T) (told string) {
			must(t, db.View(context.Background(), func(tx *kv.Transaction) error {
				return errors.Join(
					tx.Read(func(r kv.Reader) error { return lookups(r.Lookup, keys, &told) }),
					tx.Read(func(r kv.Reader) error { return lookups(r.Lookup, keys, &told) }))
			}))
			return told
		},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			seen := make(map[string]bool)
			for before := range int64(40) {
				do("DEL a filter c")
				at := clock.now.Load() + 1_000_000
				for _, line := range []string{"SET a v", "SET c v", "BF.RESERVE filter 0.01 10"} {
					if got := do(line); got != `"OK"` {
						t.Fatalf("%s: %s", line, got)
					}
				}
				for _, key := range keys {
					do(fmt.Sprintf("PEXPIREAT %s %d", key, at))
				}
				clock.now.Store(at - before)
				told := way(t)
				if len(told) == 0 || strings.Trim(told, told[:1]) != "" || !strings.Contains("01", told[:1]) {
					t.Errorf("%d ms before they expire: %q", before, told)
				}
				seen[told[:1]] = true
			}
			if !seen["0"] || !seen["1"] {
				t.Errorf("only seen: %v", seen)
			}
		})
	}
}

// share returns "0" if none of the three keys exists, and "1" if all do.
func share(n string) string { return strings.NewReplacer("3", "1").Replace(n) }

func lookups(look func([]byte) (*kv.Object, error), keys [][]byte, told *string) error {
	for _, key := range keys {
		o, err := look(key)
		if err != nil {
			return err
		}
		*told += map[bool]string{true: "0", false: "1"}[o == nil]
	}
	return nil
}

// The time to live of an expiry set in the same transaction is the whole time.
func TestMoment_left(t *testing.T) {
	clock := new(ticking)
	clock.now.Store(1_000_000)
	db := open(t, kv.Options{Clock: clock.time})
	user := module.NewSession(db)
	var got reply.Reply
	for _, line := range []string{"MULTI", "SET a v PX 100", "PTTL a", "GETEX a PX 200", "PTTL a", "PEXPIRE a 300", "PTTL a", "EXEC"} {
		var words [][]byte
		for _, word := range strings.Fields(line) {
			words = append(words, []byte(word))
		}
		got = user.Do(context.Background(), words)
	}
	if text := string(bytes.TrimSpace(reply.AppendJSON(nil, got))); text != `["OK",100,"v",200,1,300]` {
		t.Errorf("EXEC: %s", text)
	}
}
