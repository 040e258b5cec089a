package group_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/compaction"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/internal/kvtest"
	_ "github.com/sievekv/sievekv/internal/kvtest/seeded"
	"github.com/sievekv/sievekv/internal/storage"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/tests/group"
	"github.com/sievekv/sievekv/txn"
)

const dir = "store"

var seeds, _ = strconv.Atoi(cmp.Or(os.Getenv("SEEDS"), "3"))

// cluster is a group of stores, each on a disk of its own.
type cluster struct {
	*group.Group
	t     *testing.T
	now   atomic.Int64
	disks []*kvtest.Disk
}

func options(disk vfs.FS, log storage.Log, now *atomic.Int64, more ...module.Module) *kv.Options {
	return &kv.Options{
		FS: disk, Log: log, CacheSize: 1 << 20, MemTableSize: 2 << 20, BallastSize: -1, MinFreeSpace: -1, Logger: slog.New(slog.DiscardHandler),
		Clock:   func() time.Time { return time.UnixMilli(now.Load()) },
		Modules: coreext.With(append(more, bloomext.Module(), countingext.Module(), cuckooext.Module(), txn.Module())...),
	}
}

// newCluster returns a group of equal stores. The first leads.
func newCluster(t *testing.T, members int, seed uint64) *cluster {
	t.Helper()
	c := &cluster{Group: group.New(seed), t: t}
	c.now.Store(1_700_000_000_000)
	c.Millis = c.now.Load
	first := kvtest.NewDisk()
	db, err := kv.Open(dir, options(first, nil, &c.now))
	must(t, err)
	must(t, db.Close())
	for range members {
		disk := first.CrashClone(vfs.CrashCloneCfg{})
		m := c.Join()
		db, err := kv.Open(dir, options(disk, m, &c.now, compaction.Module()))
		must(t, err)
		c.disks = append(c.disks, disk)
		must(t, m.Run(db))
	}
	c.Move(c.Members()[0])
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// stop ends the group, and closes the stores.
func (c *cluster) stop() {
	c.t.Helper()
	must(c.t, c.Settle())
	must(c.t, c.Stop())
	for _, m := range c.Members() {
		must(c.t, m.DB.Close())
	}
}

// do runs a command on the leader, and returns its reply.
func do(s *module.Session, words ...string) string {
	var b [][]byte
	for _, word := range words {
		b = append(b, []byte(word))
	}
	return s.Do(context.Background(), b).String()
}

// client writes at Always, and remembers what was acknowledged, and what may have been written.
type client struct {
	id           int
	acked, tried []int
}

// run writes n rows, each with an entry of a filter, in one transaction, and an item and a string in two small commits.
func (c *client) run(g *group.Group, n int) {
	for i := range n {
		row, item, small := fmt.Sprintf("row-%d-%d", c.id, i), fmt.Sprintf("item-%d-%d", c.id, i), fmt.Sprintf("small-%d-%d", c.id, i)
		ok := c.write(g, []string{"MULTI"}, []string{"SET", row, "v"}, []string{"CF.ADD", "rows", item}, []string{"EXEC"})
		ok = ok && c.write(g, []string{"BF.ADD", "smalls", small})
		ok = ok && c.write(g, []string{"SET", small, "v"})
		if ok {
			c.acked = append(c.acked, i)
		} else {
			c.tried = append(c.tried, i)
		}
	}
}

// write runs commands on the leader, again if nothing was written, and reports whether they were acknowledged.
func (c *client) write(g *group.Group, commands ...[]string) bool {
	for ; ; runtime.Gosched() {
		s := module.NewSession(g.Leader())
		s.Durability = kv.Always
		all := ""
		for _, words := range commands {
			all += do(s, words...) + "\n"
		}
		if !strings.Contains(all, "NOTLEADER") {
			return !strings.Contains(all, "(error)")
		}
	}
}

// check reports rows that were acknowledged and are not there, and halves of transactions.
func (c *client) check(t *testing.T, db *kv.DB) {
	t.Helper()
	s := module.NewSession(db)
	there := func(words ...string) bool { return strings.Contains(do(s, words...), "1") }
	for _, i := range append(slices.Clone(c.acked), c.tried...) {
		row, item, small := fmt.Sprintf("row-%d-%d", c.id, i), fmt.Sprintf("item-%d-%d", c.id, i), fmt.Sprintf("small-%d-%d", c.id, i)
		hasRow, hasItem := there("EXISTS", row), there("CF.EXISTS", "rows", item)
		acked := slices.Contains(c.acked, i)
		if hasRow != hasItem {
			t.Errorf("client %d, transaction %d: the row is there: %t, its entry: %t", c.id, i, hasRow, hasItem)
		}
		if acked && !(hasRow && there("EXISTS", small) && there("BF.EXISTS", "smalls", small)) {
			t.Errorf("client %d, write %d was acknowledged, and is lost", c.id, i)
		}
	}
}

// Commands of all kinds go on while the leadership moves. Afterwards every store has all that was acknowledged, nothing is there by
// half, and all stores are equal, also those that begin with what a crash has left of one.
func TestGroup(t *testing.T) {
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { testGroup(t, seed) })
	}
}

func testGroup(t *testing.T, seed uint64) {
	const moves, commands, rows = 12, 120, 20
	c := newCluster(t, 3, seed)
	rng := rand.New(rand.NewPCG(seed, 3))
	w := group.NewWorkload(seed, &c.now)
	s := module.NewSession(c.Leader())
	if r := do(s, "CF.RESERVE", "rows", "100000"); r != "OK" {
		t.Fatal(r)
	}
	clients := make([]client, 3*(seed%2)) // which want no FLUSHALL
	w.Keep = len(clients) > 0
	var running sync.WaitGroup
	for i := range clients {
		clients[i].id = i
		running.Go(func() { clients[i].run(c.Group, rows*moves) })
	}
	var left []*kvtest.Disk
	c.Unrest(20)
	for range moves {
		for i := range commands {
			if i%8 == 0 {
				w.On(c.Leader())
			}
			w.Step()
		}
		if rng.IntN(3) == 0 {
			left = append(left, c.disks[rng.IntN(len(c.disks))].CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng}))
		}
		c.Move(c.Members()[rng.IntN(3)])
	}
	running.Wait()
	c.Unrest(0)
	must(t, c.Leader().Compact(t.Context())) // a filter that grows answers otherwise afterwards: it has fewer false positives
	must(t, c.Settle())
	must(t, w.Err)
	var before []string
	var asked [][][]byte
	for range 200 {
		asked = append(asked, w.Lookup())
	}
	acked := 0
	for i, m := range c.Members() {
		for j := range clients {
			acked += len(clients[j].acked)
			clients[j].check(t, m.DB)
		}
		session := module.NewSession(m.DB)
		for n, words := range asked {
			r := session.Do(context.Background(), words).String()
			if i == 0 {
				before = append(before, r)
			} else if r != before[n] {
				t.Errorf("%q: %s in the first store, %s in store %d", words, before[n], r, i)
			}
		}
	}
	t.Logf("acknowledged %d of %d rows, refused commands %d of %d, messages %d", acked/3, len(clients)*rows*moves, w.Refused, moves*commands, len(c.Log(0)))
	log := c.Log(0)
	c.stop()
	for i := 1; i < len(c.disks); i++ {
		compare(t, fmt.Sprintf("store %d", i), c.disks[0], c.disks[i])
	}
	for i, disk := range left {
		db, err := kv.Open(dir, options(disk, c.Members()[0], &c.now))
		must(t, err)
		applied, _, err := db.Applied()
		must(t, err)
		for _, m := range log[applied.Index:] {
			must(t, db.ApplyMessage(&m))
		}
		must(t, db.Close())
		compare(t, fmt.Sprintf("what a crash left, %d, from message %d on", i, applied.Index), c.disks[0], disk)
	}
	reopened, err := kv.Open(dir, func() *kv.Options {
		o := options(c.disks[1], nil, &c.now)
		o.LeaveGroup = true
		return o
	}())
	must(t, err)
	session := module.NewSession(reopened)
	for n, words := range asked {
		if r := session.Do(context.Background(), words).String(); r != before[n] {
			t.Errorf("%q: %s in memory, %s on disk", words, before[n], r)
		}
	}
	report, err := reopened.Check(t.Context())
	must(t, errors.Join(err, reopened.Close()))
	for _, p := range report.Problems {
		t.Error(p)
	}
}

func compare(t *testing.T, what string, one, other vfs.FS) {
	t.Helper()
	d, err := group.Compare(one, dir, other, dir)
	must(t, err)
	if d.Differ > 0 || d.Keys < 20 {
		t.Errorf("%s: %d of %d keys differ: %s", what, d.Differ, d.Keys, d.First)
	}
}
