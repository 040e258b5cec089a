package group_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/backup"
	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/storage"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
)

func key(k string) []byte { return []byte(k) }

func set(db *kv.DB, level kv.Durability, k, v string) error {
	return db.Write(level, [][]byte{key(k)}, func(w *kv.Writer) error { return put(w, k, v) })
}

func put(w *kv.Writer, k, v string) error {
	_, err := w.Set(key(k), key(v), kv.SetOptions{})
	return err
}

// get returns the string under a key as lookups of the Go API see it.
func get(t *testing.T, db *kv.DB, k string) string {
	t.Helper()
	var value []byte
	must(t, db.Read(func(r kv.Reader) (err error) { value, _, err = r.String(key(k)); return err }))
	return string(value)
}

// eventually waits until something holds, which other goroutines see to.
func eventually(holds func() bool) {
	for !holds() {
		runtime.Gosched()
	}
}

// A store that does not lead refuses every write, before it calls the function that would stage it.
func TestFollower_refuses(t *testing.T) {
	c := newCluster(t, 2, 1)
	defer c.stop()
	must(t, set(c.Leader(), kv.Always, "k", "v"))
	must(t, c.Settle())
	db := c.Members()[1].DB
	never := func(*kv.Writer) error { t.Error("the function was called"); return nil }
	f := bloomext.New(db, "f")
	_, added := f.Add([]byte("x"))
	for what, err := range map[string]error{
		"Write":     db.Write(kv.NoSync, [][]byte{key("k")}, never),
		"Update":    db.Update(t.Context(), kv.NoSync, func(tx *kv.Transaction) error { return tx.Write(never) }),
		"DeleteAll": db.DeleteAll(kv.Always),
		"AddString": added,
		"Reserve":   f.Reserve(bloomext.Config{Capacity: 10, ErrorRate: 0.1}),
	} {
		if !errors.Is(err, kv.ErrNotLeader) {
			t.Errorf("%s = %v, want ErrNotLeader", what, err)
		}
	}
	if v := get(t, db, "k"); v != "v" {
		t.Errorf("k is %q on the store that does not lead, want v", v)
	}
	if err := errors.Join(db.Sync(), db.Health()); err != nil {
		t.Error(err)
	}
}

// Many writers at Always share a message: those that come while one is in flight are all in the next.
func TestSmall_together(t *testing.T) {
	c := newCluster(t, 3, 1)
	defer c.stop()
	db := c.Leader()
	must(t, set(db, kv.Always, "first", "v"))
	before := len(c.Log(0))
	c.Hold()
	const writers = 50
	var running sync.WaitGroup
	for i := range writers {
		running.Go(func() {
			if err := set(db, kv.Always, fmt.Sprint("k", i), "v"); err != nil {
				t.Error(err)
			}
		})
	}
	for i := range writers {
		eventually(func() bool { return get(t, db, fmt.Sprint("k", i)) == "v" })
	}
	c.Asked(1)
	c.Release()
	running.Wait()
	if n := len(c.Log(0)) - before; n > 2 {
		t.Errorf("%d writers took %d messages, want 2 at most", writers, n)
	}
}

// What is not committed is seen by lookups of the leader at once. A command of a session waits for it, and a store that has lost
// it answers that the outcome is unknown, and then without it.
func TestAnswer_lost(t *testing.T) {
	c := newCluster(t, 2, 1)
	defer c.stop()
	db := c.Leader()
	must(t, bloomext.New(db, "f").Reserve(bloomext.Config{Capacity: 100, ErrorRate: 0.001}))
	must(t, set(db, kv.Always, "k", "old"))
	must(t, c.Settle())
	c.Hold()
	must(t, set(db, kv.EverySec, "k", "new"))
	f := bloomext.New(db, "f").With(kv.NoSync)
	if isNew, err := f.Add([]byte("x")); err != nil || !isNew {
		t.Fatal(isNew, err)
	}
	if there, err := f.MayContain([]byte("x")); err != nil || !there || get(t, db, "k") != "new" {
		t.Errorf("the leader's memory does not show what is pending: %t, %v, k is %q", there, err, get(t, db, "k"))
	}
	var asked sync.WaitGroup
	for _, tt := range []struct {
		words []string
		never string
	}{{[]string{"GET", "k"}, "new"}, {[]string{"BF.EXISTS", "f", "x"}, "1"}, {[]string{"BF.ADD", "f", "x"}, "(integer)"}} {
		asked.Go(func() {
			if r := do(module.NewSession(db), tt.words...); strings.Contains(r, tt.never) {
				t.Errorf("%q: %s, which is not committed", tt.words, r)
			}
		})
	}
	c.Asked(1)
	c.MoveAndLose(c.Members()[1])
	asked.Wait()
	c.Release()
	must(t, c.Settle())
	eventually(func() bool { return c.Leader() == c.Members()[1].DB })
	must(t, set(c.Leader(), kv.Always, "after", "v"))
	must(t, c.Settle())
	for i, m := range c.Members() {
		there, err := bloomext.New(m.DB, "f").MayContain([]byte("x"))
		if err != nil || there || get(t, m.DB, "k") != "old" || get(t, m.DB, "after") != "v" {
			t.Errorf("store %d: x is in the filter: %t, %v; k is %q, want old", i, there, err, get(t, m.DB, "k"))
		}
		if n, err := m.DB.Size(); n != 3 || err != nil {
			t.Errorf("store %d counts %d keys, %v, want 3", i, n, err)
		}
	}
}

// A writer that began in one leadership does not commit in another, though its store leads again.
func TestFence(t *testing.T) {
	c := newCluster(t, 2, 1)
	defer c.stop()
	db, other := c.Leader(), c.Members()[1]
	err := db.Write(kv.Always, [][]byte{key("k")}, func(w *kv.Writer) error {
		c.Move(other)
		if err := set(c.Leader(), kv.Always, "k", "of the other"); err != nil {
			return err
		}
		c.Move(c.Members()[0])
		if c.Leader() != db {
			return errors.New("another leads")
		}
		return put(w, "k", "of the writer")
	})
	if !errors.Is(err, kv.ErrNotLeader) {
		t.Errorf("the writer of an earlier leadership = %v, want ErrNotLeader", err)
	}
	if v := get(t, db, "k"); v != "of the other" {
		t.Errorf("k is %q", v)
	}
	err = db.Update(t.Context(), kv.NoSync, func(*kv.Transaction) error { // an answer, which rests on what was read
		c.Move(other)
		c.Leader()
		c.Move(c.Members()[0])
		c.Leader()
		return errors.New("an answer")
	})
	if !errors.Is(err, kv.ErrOutcomeUnknown) {
		t.Errorf("an answer of an earlier leadership = %v, want ErrOutcomeUnknown", err)
	}
}

// The outcome of a commit whose message is in flight when the leadership moves is unknown: it is made, or not. The store goes on.
func TestOutcome_unknown(t *testing.T) {
	for _, small := range []bool{true, false} {
		for _, lost := range []bool{true, false} {
			c := newCluster(t, 3, 1)
			db := c.Leader()
			must(t, set(db, kv.Always, "k", "old"))
			c.Hold()
			failed := make(chan error)
			go func() {
				if small {
					failed <- set(db, kv.Always, "k", "new")
					return
				}
				failed <- db.Update(t.Context(), kv.NoSync, func(tx *kv.Transaction) error {
					return tx.Write(func(w *kv.Writer) error {
						return errors.Join(put(w, "k", "new"), put(w, "other", "new"))
					})
				})
			}()
			c.Asked(1)
			want := "old"
			if lost {
				c.MoveAndLose(c.Members()[1])
			} else {
				c.MoveAndKeep(c.Members()[1])
				want = "new"
			}
			if err := <-failed; !errors.Is(err, kv.ErrOutcomeUnknown) && !(lost && errors.Is(err, kv.ErrNotLeader)) && (lost || err != nil) {
				t.Errorf("small %t, lost %t: %v, want ErrOutcomeUnknown", small, lost, err)
			}
			c.Release()
			must(t, set(c.Leader(), kv.Always, "after", "v"))
			must(t, c.Settle())
			for i, m := range c.Members() {
				if v := get(t, m.DB, "k"); v != want || m.DB.Health() != nil {
					t.Errorf("small %t, lost %t: store %d has %q, want %q; %v", small, lost, i, v, want, m.DB.Health())
				}
			}
			c.stop()
		}
	}
}

// Whatever flushes does so before it takes a lock that the apply loop needs: it ends.
func TestFlush_free(t *testing.T) {
	c := newCluster(t, 2, 1)
	defer c.stop()
	db := c.Leader()
	s := module.NewSession(db)
	s.Durability = kv.NoSync
	do(s, "BF.RESERVE", "f", "0.01", "1000")
	ctx := t.Context()
	for what, f := range map[string]func() error{
		"View":    func() error { return db.View(ctx, func(*kv.Transaction) error { return nil }) },
		"Long":    func() error { return db.ReadWith(kv.ReadOptions{Long: true}, func(kv.Reader) error { return nil }) },
		"Keys":    func() error { return db.ReadWith(kv.ReadOptions{Keys: true}, func(kv.Reader) error { return nil }) },
		"Check":   func() error { _, err := db.CheckWith(ctx, kv.CheckOptions{Deep: true}); return err },
		"Backup":  func() error { return db.Backup(ctx, "backup", kv.BackupOptions{}, func(string) error { return nil }) },
		"Compact": func() error { return db.Compact(ctx) },
		"Fold":    func() error { _, err := db.Fold(ctx, 1<<20); return err },
		"Reclaim": func() error { _, err := db.Reclaim(ctx); return err },
		"Sweep":   func() error { _, err := db.Sweep(ctx); return err },
		"Wake":    func() error { _, err := db.Wake(ctx, nil, 1<<20); return err },
		"Sync":    db.Sync,
		"Store":   func() error { _, err := db.SyncStore(); return err },
		"Log":     func() error { _, err := db.LogBytesWritten(); return err },
		"Metrics": func() error { _, err := db.Metrics(); return err },
		"Delete":  func() error { return db.DeleteAll(kv.NoSync) },
	} {
		if r := do(s, "BF.ADD", "f", what); !strings.Contains(r, "1") {
			t.Fatal(r)
		}
		do(s, "SET", "k", what)
		if err := f(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, words := range [][]string{{"SCAN", "0"}, {"KEYS", "*"}, {"DBSIZE"}, {"MGET", "k", "l"}, {"MEMORY", "USAGE", "f"}, {"BF.INFO", "f"}, {"COPY", "f", "g"},
		{"BF.SCANDUMP", "f", "0"}, {"RENAME", "f", "h"}, {"DEL", "f", "g", "h", "k"}, {"INFO"}, {"SIEVE.COMPACT"}} {
		do(s, "SET", "k", "v")
		do(s, "BF.ADD", "f", "x")
		if r := do(s, words...); strings.Contains(r, "(error)") {
			t.Errorf("%q: %s", words, r)
		}
	}
}

// What was acknowledged at any level before a snapshot begins is in it.
func TestSnapshot_acknowledged(t *testing.T) {
	c := newCluster(t, 2, 1)
	defer c.stop()
	db := c.Leader()
	for i := range 50 {
		v := fmt.Sprint(i)
		must(t, set(db, kv.NoSync, "k", v))
		must(t, db.View(t.Context(), func(tx *kv.Transaction) error {
			return tx.Read(func(r kv.Reader) error {
				if got, _, err := r.String(key("k")); string(got) != v || err != nil {
					t.Errorf("the snapshot has %q, %v, want %q", got, err, v)
				}
				return nil
			})
		}))
	}
}

// The store of a member is not opened alone, unless it leaves the group. Its backup is a store that is alone.
func TestOpen_member(t *testing.T) {
	c := newCluster(t, 2, 1)
	must(t, set(c.Leader(), kv.Always, "k", "v"))
	must(t, backup.Make(t.Context(), c.Leader(), "backup", backup.Options{}))
	must(t, c.Settle())
	disk, applied := c.disks[0], uint64(len(c.Log(0)))
	c.stop()
	plain := options(disk, nil, &c.now)
	if db, err := kv.Open(dir, plain); !errors.Is(err, kv.ErrMember) || !strings.Contains(err.Error(), "Options.LeaveGroup") {
		t.Fatalf("Open = %v, %v, want ErrMember", db, err)
	}
	plain.ReadOnly = true
	db, err := kv.Open(dir, plain)
	must(t, err)
	a, members, err := db.Applied()
	if a.Index != applied || string(members) != "as of term 1" || err != nil || get(t, db, "k") != "v" {
		t.Errorf("Applied = %+v, %q, %v, want index %d; k is %q", a, members, err, applied, get(t, db, "k"))
	}
	must(t, db.Close())
	for _, name := range []string{dir, "backup"} {
		plain.ReadOnly, plain.LeaveGroup = false, name == dir
		for range 2 { // the second time without LeaveGroup
			db, err := kv.Open(name, plain)
			must(t, err)
			a, members, err := db.Applied()
			if a.Index != 0 || len(members) > 0 || err != nil || get(t, db, "k") != "v" {
				t.Errorf("%s: Applied = %+v, %q, %v, want nothing; k is %q", name, a, members, err, get(t, db, "k"))
			}
			must(t, set(db, kv.Always, "alone", "v"))
			must(t, db.Close())
			plain.LeaveGroup = false
		}
	}
}

// SyncStore says what a crash leaves.
func TestSyncStore(t *testing.T) {
	c := newCluster(t, 1, 1)
	defer c.stop()
	for i := range 20 {
		must(t, set(c.Leader(), kv.Always, fmt.Sprint(i), "v"))
	}
	index, err := c.Leader().SyncStore()
	if err != nil || index < 20 {
		t.Fatal(index, err)
	}
	must(t, set(c.Leader(), kv.Always, "after", "v"))
	db, err := kv.Open(dir, options(c.disks[0].CrashClone(vfs.CrashCloneCfg{}), c.Members()[0], &c.now))
	must(t, err)
	if a, _, err := db.Applied(); a.Index < index || err != nil {
		t.Errorf("a crash leaves %d messages, %v, and SyncStore said %d", a.Index, err, index)
	}
	must(t, db.Close())
}

// follower returns a store of a group that never leads, and applies what the caller has.
func follower(t *testing.T) *kv.DB {
	t.Helper()
	var now atomic.Int64
	now.Store(1000)
	db, err := kv.Open(dir, options(vfs.NewMem(), new(group0), &now))
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	return db
}

type group0 struct{}

func (*group0) Propose(storage.Proposal) <-chan error { panic("it does not lead") }

// record returns the record of a commit that sets a key of the metadata.
func record(value byte) []byte {
	return slices.Concat(make([]byte, 8), []byte{1, 0, 0, 0}, []byte{1, 2, format.TagMeta, format.MetaNextID, 1, value})
}

func TestMessage_refused(t *testing.T) {
	db := follower(t)
	message := func(index, term uint64, record []byte) *storage.Message {
		return &storage.Message{Applied: format.Applied{Index: index, Term: term}, Record: record}
	}
	must(t, db.ApplyMessage(message(1, 1, record(5))))
	forged := record(6)
	forged[15] = format.MetaApplied
	for what, m := range map[string]*storage.Message{
		"the same again":        message(1, 1, record(6)),
		"one too far":           message(3, 1, record(6)),
		"a record cut short":    message(2, 1, record(6)[:13]),
		"a forged index":        message(2, 1, forged),
		"a record with more":    message(2, 1, append(record(6), 1)),
		"a record of no length": message(2, 1, []byte{0}),
	} {
		if err := db.ApplyMessage(m); err == nil {
			t.Errorf("%s: applied", what)
		}
	}
	if a, _, err := db.Applied(); a.Index != 1 || err != nil {
		t.Errorf("Applied = %+v, %v, want index 1", a, err)
	}
	must(t, db.ApplyMessage(message(2, 1, nil)))
	must(t, db.Lead(2))
	if err := db.Lead(3); err == nil {
		t.Error("a store that leads was told to lead")
	}
	if err := db.ApplyMessage(message(3, 3, nil)); err == nil {
		t.Error("a store that leads in term 2 takes a message of term 3")
	}
	must(t, db.Follow())
	must(t, db.Follow())
	must(t, db.ApplyMessage(message(3, 3, nil)))
}

// Keys expire on a store that does not lead by the leader's clock, if that is ahead.
func TestFollower_clock(t *testing.T) {
	c := newCluster(t, 2, 1)
	db := c.Leader()
	s := module.NewSession(db)
	do(s, "SET", "k", "v", "PX", "1000")
	must(t, c.Settle())
	late := c.disks[1]
	at := c.now.Add(2000)
	do(s, "SET", "other", "v")
	must(t, c.Settle())
	c.stop()
	c.now.Store(at - 1_000_000)
	member, err := kv.Open(dir, options(late, c.Members()[0], &c.now))
	must(t, err)
	defer member.Close()
	if now := member.Now(); now < at {
		t.Errorf("the store's time is %d, and the last message came at %d", now, at)
	}
	if v := do(module.NewSession(member), "GET", "k"); strings.Contains(v, "v") {
		t.Errorf("a key that has expired by the leader's clock is %s", v)
	}
}

// told remembers what an observer is told.
type told struct {
	mu   sync.Mutex
	keys []string
}

func (o *told) Changed(key string) { o.mu.Lock(); defer o.mu.Unlock(); o.keys = append(o.keys, key) }

func (o *told) Flushed() { o.Changed("*") }

func (o *told) has(key string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Contains(o.keys, key)
}

// A watcher of a store that does not lead is told what the leader changes.
func TestFollower_watches(t *testing.T) {
	c := newCluster(t, 2, 1)
	defer c.stop()
	s, db := module.NewSession(c.Leader()), c.Members()[1].DB
	do(s, "BF.RESERVE", "f", "0.01", "100")
	do(s, "BF.RESERVE", "open", "0.01", "100")
	must(t, c.Settle())
	if _, err := bloomext.New(db, "open").MayContain([]byte("x")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		words []string
		key   string // "*" means everybody
	}{
		{[]string{"SET", "k", "v"}, "k"}, {[]string{"SET", "k", strings.Repeat("v", 5000), "EX", "1000"}, "k"}, {[]string{"DEL", "k"}, "k"},
		{[]string{"BF.ADD", "open", "x"}, "open"}, {[]string{"BF.ADD", "f", "x"}, "*"}, {[]string{"FLUSHALL"}, "*"},
	} {
		o := new(told)
		db.Observe(o)
		do(s, tt.words...)
		must(t, c.Settle())
		if !o.has(tt.key) {
			t.Errorf("%q: told %q, want %q", tt.words[:2], o.keys, tt.key)
		}
	}
	db.Observe(nil)
}

// Marks of WATCH are set when the store forgets: what they saw may be gone.
func TestFollow_watches(t *testing.T) {
	c := newCluster(t, 2, 1)
	defer c.stop()
	db := c.Leader()
	must(t, set(db, kv.Always, "k", "old"))
	c.Hold()
	must(t, set(db, kv.NoSync, "k", "lost"))
	x := db.NewWatch()
	defer x.Stop()
	must(t, x.Add(key("k")))
	c.MoveAndLose(c.Members()[0])
	c.Release()
	c.Leader()
	must(t, db.Read(func(r kv.Reader) error {
		if changed, err := x.Changed(r); !changed || err != nil {
			t.Errorf("a watch of what is forgotten = %t, %v, want changed", changed, err)
		}
		return nil
	}))
}

// A member gives the space of a dropped object back, too.
func TestFollower_reclaims(t *testing.T) {
	c := newCluster(t, 2, 1)
	defer c.stop()
	db, other := c.Leader(), c.Members()[1].DB
	s := module.NewSession(db)
	do(s, "SET", "k", string(bytes.Repeat([]byte("v"), 100)))
	do(s, "SETBIT", "bits", "0", "1")
	do(s, "DEL", "bits")
	for more := true; more; {
		var err error
		more, err = db.Reclaim(context.Background())
		must(t, err)
	}
	must(t, c.Settle())
	for more := true; more; {
		var err error
		more, err = other.Reclaim(context.Background())
		must(t, err)
	}
	m, err := other.Metrics()
	if err != nil || m.ReclaimBacklog != 0 {
		t.Errorf("%d objects wait to be reclaimed on the store that does not lead, %v", m.ReclaimBacklog, err)
	}
}
