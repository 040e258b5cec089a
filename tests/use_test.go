package tests_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/internal/use"
	"github.com/sievekv/sievekv/module"
)

// user gives commands to a store, and asks how its filters were used.
type user struct {
	t *testing.T
	*module.Session
}

func newUser(t *testing.T, o *sievekv.Options) (*sievekv.DB, user) {
	t.Helper()
	o.InMemory, o.Durability = true, sievekv.NoSync
	db, err := sievekv.Open("", o)
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	return db, user{t, module.NewSession(db.Store())}
}

func (u user) do(words ...string) {
	u.t.Helper()
	if r := u.Do(context.Background(), wordsOf(words)); r.IsError() {
		u.t.Fatalf("%q: %s", words, r)
	}
}

// used returns what SIEVE.STATS tells of the use of a filter.
func (u user) used(key string) (n use.Totals) {
	u.t.Helper()
	stats := u.Do(context.Background(), wordsOf([]string{"SIEVE.STATS", key})).Elems()[0].Elems()
	for i := 0; i+1 < len(stats); i += 2 {
		to := map[string]*uint64{"lookups_yes": &n.Yes, "lookups_no": &n.No, "adds_new": &n.New, "adds_known": &n.Known}[string(stats[i].Bytes())]
		if to != nil {
			*to = uint64(stats[i+1].Int())
		}
	}
	return n
}

func (u user) wantUse(key, when string, want use.Totals) {
	u.t.Helper()
	if got := u.used(key); got != want {
		u.t.Errorf("%s %s: used %+v, want %+v", key, when, got, want)
	}
}

// Every command that looks up or adds items is counted exactly, whatever the layout, growth, or transaction.
func TestUse_commands(t *testing.T) {
	for _, layout := range []string{"native", "compatible"} {
		for _, inside := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/exec=%v", layout, inside), func(t *testing.T) {
				_, u := newUser(t, &sievekv.Options{})
				u.do("CONFIG", "SET", "bf-layout", layout, "cf-layout", layout)
				u.do("BF.RESERVE", "bf", "0.0001", "10")
				u.do("CF.RESERVE", "cf", "1000")
				u.do("CBF.RESERVE", "cbf", "0.0001", "100")
				if inside {
					u.do("MULTI")
				}
				for _, line := range [][]string{
					{"BF.ADD", "bf", "a"}, {"BF.ADD", "bf", "a"}, {"BF.MADD", "bf", "a", "b", "c"}, {"BF.INSERT", "bf", "NOCREATE", "ITEMS", "c", "d"},
					{"BF.EXISTS", "bf", "a"}, {"BF.EXISTS", "bf", "zz"}, {"BF.MEXISTS", "bf", "a", "b", "yy"},
					{"CF.ADD", "cf", "a"}, {"CF.ADD", "cf", "a"}, {"CF.ADDNX", "cf", "a"}, {"CF.ADDNX", "cf", "b"},
					{"CF.INSERT", "cf", "ITEMS", "a", "c"}, {"CF.INSERTNX", "cf", "ITEMS", "a", "d"},
					{"CF.EXISTS", "cf", "a"}, {"CF.MEXISTS", "cf", "a", "zz"}, {"CF.COUNT", "cf", "a"}, {"CF.COUNT", "cf", "zz"},
					{"CBF.ADD", "cbf", "a"}, {"CBF.ADD", "cbf", "a"}, {"CBF.MADD", "cbf", "a", "b"}, {"CBF.INSERT", "cbf", "ITEMS", "c"},
					{"CBF.EXISTS", "cbf", "a"}, {"CBF.MEXISTS", "cbf", "a", "zz"}, {"CBF.COUNT", "cbf", "b"},
				} {
					u.do(line...)
				}
				if inside {
					u.do("EXEC")
				}
				u.wantUse("bf", "after commands", use.Totals{Yes: 3, No: 2, New: 4, Known: 3})
				u.wantUse("cf", "after commands", use.Totals{Yes: 3, No: 2, New: 6, Known: 2})
				u.wantUse("cbf", "after commands", use.Totals{Yes: 3, No: 1, New: 3, Known: 2})
			})
		}
	}
}

// Counts belong to the filter, not to its key: they go on when it grows, is renamed or gets an expiry, and they begin
// again with another filter.
func TestUse_filters(t *testing.T) {
	db, u := newUser(t, &sievekv.Options{})
	for _, how := range [][]string{{"10", "EXPANSION", "2"}, {"10", "GROWTHLOG", "1000000"}, {"1000", "LAST", "1000"}, {"10", "WINDOW", "1000"}} {
		u.do(append([]string{"BF.RESERVE", "bf", "0.0001"}, how...)...)
		for i := range 500 {
			u.do("BF.ADD", "bf", fmt.Sprint("item", i))
		}
		u.do("BF.EXISTS", "bf", "item0")
		want := use.Totals{Yes: 1, New: 500}
		u.wantUse("bf", "grown", want)
		u.do("SIEVE.COMPACT")
		u.wantUse("bf", "filled", want)
		u.do("EXPIRE", "bf", "1000")
		u.wantUse("bf", "with an expiry", want)
		u.do("COPY", "bf", "copy")
		u.wantUse("copy", "of bf", use.Totals{})
		u.do("BF.ADD", "copy", "item0")
		u.wantUse("copy", "used", use.Totals{Known: 1})
		u.do("RENAME", "bf", "copy")
		u.wantUse("copy", "renamed from bf", want)
		u.do("MULTI")
		u.do("RENAME", "copy", "bf")
		u.do("PERSIST", "bf")
		u.do("BF.EXISTS", "bf", "item1")
		u.do("EXEC")
		want.Yes++
		u.wantUse("bf", "renamed in a transaction", want)
		must(t, db.View(t.Context(), func(s *sievekv.Snapshot) error {
			return s.Bloom("bf").MayContainManyString(make([]string, 100), make([]bool, 100))
		}))
		want.No += 100
		u.wantUse("bf", "in a snapshot", want)
		u.do("DEL", "bf")
		u.do("BF.ADD", "bf", "item0")
		u.wantUse("bf", "made again", use.Totals{New: 1})
		u.do("FLUSHALL")
	}
}

// A merge may rebuild the filter that it adds to. The counts go on all the same.
func TestUse_merged(t *testing.T) {
	_, u := newUser(t, &sievekv.Options{})
	for _, key := range []string{"bf", "other"} {
		u.do("BF.RESERVE", key, "0.0001", "10", "GROUP", "g")
		for i := range 300 {
			u.do("BF.ADD", key, fmt.Sprint(key, i))
		}
	}
	before := u.used("bf")
	u.do("BF.MERGE", "bf", "other")
	u.wantUse("bf", "merged", before)
	u.do("BF.EXISTS", "bf", "other7")
	before.Yes++
	u.wantUse("bf", "asked", before)
}

// Many clients of one filter lose no count.
func TestUse_together(t *testing.T) {
	const clients, each = 4, 500
	db, u := newUser(t, &sievekv.Options{})
	u.do("BF.RESERVE", "bf", "0.0001", "10")
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			s := module.NewSession(db.Store())
			for i := range each {
				s.Do(context.Background(), wordsOf([]string{"BF.ADD", "bf", fmt.Sprintf("%d-%d", c, i)}))
				s.Do(context.Background(), wordsOf([]string{"BF.EXISTS", "bf", fmt.Sprintf("%d-%d", c, i)}))
			}
		})
	}
	all.Wait()
	if n := u.used("bf"); n.New+n.Known != clients*each || n.Yes != clients*each || n.No != 0 {
		t.Errorf("used %+v after %d adds and as many lookups", n, clients*each)
	}
}

// Lookups of a program are counted by samples: of 65,536 items, give or take 12,000, which is six standard deviations, whatever
// hashes are chosen meanwhile. Lookups of many items are counted exactly, and so are adds of new items.
func TestUse_programs(t *testing.T) {
	const n = 1 << 16
	type filter interface {
		AddMany(items [][]byte, added []bool) (int, error)
		MayContain(item []byte) (bool, error)
		MayContainMany(items [][]byte, present []bool) error
	}
	db, u := newUser(t, &sievekv.Options{})
	must(t, db.Bloom("bf").Reserve(sievekv.Capacity(n, 0.0001), nil))
	must(t, db.Cuckoo("cf").Reserve(sievekv.Capacity(2*n, 0), nil))
	must(t, db.Counting("cbf").Reserve(sievekv.Capacity(n, 0.0001), nil))
	items, present := make([][]byte, n), make([]bool, n)
	for i := range items {
		items[i] = sievekv.Uint64(uint64(i))
	}
	for key, f := range map[string]filter{"bf": db.Bloom("bf"), "cf": db.Cuckoo("cf"), "cbf": db.Counting("cbf")} {
		_, err := f.AddMany(items, nil)
		must(t, err)
		must(t, f.MayContainMany(items, present))
		exact := u.used(key)
		if exact.Yes != n || exact.New+exact.Known != n {
			t.Errorf("%s: used %+v after so many adds and lookups of %d items", key, exact, n)
		}
		for _, item := range items {
			_, err := f.MayContain(item)
			must(t, err)
		}
		if got := u.used(key).Yes - n; got < n-12000 || got > n+12000 {
			t.Errorf("%s: %d lookups are counted, of %d", key, got, n)
		}
	}
}
