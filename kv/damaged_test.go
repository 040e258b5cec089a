package kv_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/txn"
)

// damageTest is a store in memory with a clock, in which stored bytes can be damaged.
type damageTest struct {
	t    *testing.T
	db   *kv.DB
	user *module.Session
	now  int64 // Unix milliseconds
}

func newDamageTest(t *testing.T) *damageTest {
	t.Helper()
	d := &damageTest{t: t, now: 1_000}
	var err error
	d.db, err = kv.Open("", eitherWay(&kv.Options{
		InMemory: true, StringCacheSize: -1, Clock: func() time.Time { return time.UnixMilli(d.now) },
		Modules: coreext.With(bloomext.Module(), txn.Module()),
	}))
	if err != nil {
		t.Fatal(err)
	}
	d.user = module.NewSession(d.db)
	t.Cleanup(func() {
		if err := d.db.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// run gives commands and compares the replies, in JSON.
func (d *damageTest) run(script string) {
	d.t.Helper()
	for line := range strings.Lines(script) {
		command, want, _ := strings.Cut(strings.TrimSpace(line), " => ")
		if command == "" {
			continue
		}
		got := string(bytes.TrimSpace(reply.AppendJSON(nil, d.do(command))))
		if prefix, cut := strings.CutSuffix(want, "..."); got != want && !(cut && strings.HasPrefix(got, prefix)) {
			d.t.Errorf("%s: %s, want %s", command, got, want)
		}
	}
}

func (d *damageTest) do(command string) reply.Reply {
	var words [][]byte
	for _, word := range strings.Fields(command) {
		words = append(words, []byte(word))
	}
	return d.user.Do(context.Background(), words)
}

// problems returns what a check finds.
func (d *damageTest) problems() []error {
	d.t.Helper()
	report, err := d.db.Check(context.Background())
	if err != nil {
		d.t.Fatal(err)
	}
	return report.Problems
}

// damage makes the header of a key one that does not decode, or one that its type refuses.
func (d *damageTest) damage(key string, f func(header []byte) []byte) {
	d.t.Helper()
	d.db.CloseObjects()
	if err := d.db.ChangeHeader(key, f); err != nil {
		d.t.Fatal(err)
	}
}

func undecodable(h []byte) []byte   { return append(slices.Clone(h[:1]), 0, 200) }
func refusedByType(h []byte) []byte { return h[:len(h)-1] }

// A key whose header is damaged hides no other: scans go on past it and list it, so that it
// can be found, deleted and replaced. What reads it is told.
func TestDamaged_header(t *testing.T) {
	for name, test := range map[string]struct {
		make   string
		damage func([]byte) []byte
	}{
		"string":              {"SET bad v", undecodable},
		"string that expires": {"SET bad v PX 5000", undecodable},
		"filter":              {"BF.ADD bad x", undecodable},
		"filter that expires": {"BF.RESERVE bad 0.01 100\nPEXPIRE bad 5000", undecodable},
		"parameters":          {"BF.ADD bad x\nPEXPIRE bad 5000", refusedByType},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDamageTest(t)
			keys := []string{"bad"}
			for i := range 20 {
				keys = append(keys, fmt.Sprint("k", i))
				d.do("SET " + keys[len(keys)-1] + " v")
			}
			slices.Sort(keys)
			for line := range strings.Lines(test.make) {
				d.do(line)
			}
			d.damage("bad", test.damage)

			var listed []string
			for key, err := range d.db.Scan(context.Background(), kv.ScanOptions{}) {
				if err != nil {
					t.Fatal(err)
				}
				listed = append(listed, key)
			}
			if slices.Sort(listed); !slices.Equal(listed, keys) {
				t.Errorf("a scan lists %q, want %q", listed, keys)
			}
			if err := json.Unmarshal(reply.AppendJSON(nil, d.do("KEYS *")), &listed); err != nil || len(listed) != len(keys) {
				t.Errorf("KEYS lists %q, %v", listed, err)
			}
			for range 50 {
				d.run(`RANDOMKEY => "...`)
			}
			if len(d.problems()) == 0 {
				t.Error("check finds nothing")
			}
			d.run(`DBSIZE => 21
				TYPE bad => {"error":"CORRUPT ...
				GET bad => {"error":"CORRUPT ...
				EXISTS bad => {"error":"CORRUPT ...
				BF.ADD bad y => {"error":"CORRUPT ...
				INCR bad => {"error":"CORRUPT ...
				SET bad v NX => {"error":"CORRUPT ...
				MULTI => "OK"
				GET bad => "QUEUED"
				DEL bad => "QUEUED"
				GET bad => "QUEUED"
				EXEC => [{"error":"CORRUPT ...`)
			d.run(`DBSIZE => 20
				EXISTS bad => 0
				SET bad new => "OK"
				GET bad => "new"
				DBSIZE => 21`)
			// What was noted of the old one is not the new one's.
			d.now += 10_000
			sweepAll(t, d.db)
			d.run(`GET bad => "new"
				DBSIZE => 21`)
			for _, problem := range d.problems() {
				if !strings.Contains(problem.Error(), "belongs to no key") {
					t.Error(problem)
				}
			}
		})
	}
}

// A damaged key is replaced by what SET, RENAME and a transaction put there, and goes with
// FLUSHALL and when it expires.
func TestDamaged_replaced(t *testing.T) {
	for name, script := range map[string]string{
		"SET":      `SET bad new => "OK"`,
		"MSET":     `MSET bad new other v => "OK"`,
		"SET EX":   `SET bad new EX 100 => "OK"`,
		"RENAME":   "SET from new => \"OK\"\nRENAME from bad => \"OK\"",
		"UNLINK":   "UNLINK bad => 1\nSET bad new => \"OK\"",
		"FLUSHALL": "FLUSHALL => \"OK\"\nSET bad new => \"OK\"",
	} {
		t.Run(name, func(t *testing.T) {
			d := newDamageTest(t)
			d.do("SET bad v PX 5000")
			d.damage("bad", undecodable)
			d.run(script)
			d.run(`GET bad => "new"`)
			for _, problem := range d.problems() {
				t.Error(problem)
			}
			d.now += 6_000
			sweepAll(t, d.db)
			d.run(`GET bad => "new"`)
		})
	}
	t.Run("expired", func(t *testing.T) {
		d := newDamageTest(t)
		d.do("BF.RESERVE bad 0.01 100")
		d.do("PEXPIRE bad 5000")
		d.damage("bad", undecodable)
		d.now += 6_000
		sweepAll(t, d.db)
		d.run("DBSIZE => 0")
	})
}

// A deletion of a damaged key that is taken back leaves it damaged, not missing.
func TestDamaged_takenBack(t *testing.T) {
	d := newDamageTest(t)
	d.do("SET bad v")
	d.do("SET good v")
	d.do("SET worse v")
	d.damage("bad", undecodable)
	d.damage("worse", func(h []byte) []byte { h = slices.Clone(h); h[0] = 99; return h }) // of a newer version: kept
	d.run(`DEL bad worse => {"error":...
		MULTI => "OK"
		DEL bad worse => "QUEUED"
		GET bad => "QUEUED"
		SET good w => "QUEUED"
		EXEC => [{"error":...
		GET bad => {"error":"CORRUPT ...
		GET good => "w"
		DBSIZE => 3`)
}

// What a damaged header says of its object is not believed: that may be another key's.
func TestDamaged_id(t *testing.T) {
	d := newDamageTest(t)
	d.do("BF.ADD good x")
	d.do("BF.ADD bad y")
	var header []byte
	d.damage("good", func(h []byte) []byte { header = h; return h })
	d.damage("bad", func([]byte) []byte { return refusedByType(header) })
	d.run(`DEL bad => 1
		BF.EXISTS good x => true`)
}
