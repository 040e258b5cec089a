package kv_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/storage"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/scalableext"
)

// member is a store of a group, whose log the test works by hand. What is pending stays so until somebody flushes.
type member struct {
	*store
	proposed chan proposed
	at       uint64
	term     uint64
}

// proposed is a message that the store has proposed.
type proposed struct {
	storage.Proposal
	ticket chan error
}

func (m *member) Propose(p storage.Proposal) <-chan error {
	p.Record = bytes.Clone(p.Record)
	ticket := make(chan error, 1)
	m.proposed <- proposed{p, ticket}
	return ticket
}

func openMember(t *testing.T) *member {
	t.Helper()
	m := &member{proposed: make(chan proposed, 100)}
	o := inMemory()
	o.Log = m
	m.store = openGathering(t, kv.Gathering(o), newStops())
	return m
}

// entry applies an entry of the log's own, or a message.
func (m *member) entry(message storage.Message) {
	m.t.Helper()
	m.at++
	message.Index, message.Term = m.at, m.term
	m.must(m.ApplyMessage(&message))
}

// lead begins a term.
func (m *member) lead() {
	m.t.Helper()
	m.term++
	m.entry(storage.Message{})
	m.must(m.Lead(m.term))
}

// commit puts a message into the log, and applies it.
func (m *member) commit(p proposed) {
	m.t.Helper()
	m.entry(storage.Message{Record: p.Record, Whole: p.Whole, Group: p.Group})
	p.ticket <- nil
}

// run runs f, and commits all that it proposes.
func (m *member) run(f func() error) {
	m.t.Helper()
	task := m.begin(f)
	for {
		select {
		case p := <-m.proposed:
			m.commit(p)
		case <-task.done:
			task.wait()
			return
		}
	}
}

// next returns what a task proposes next.
func (m *member) asks(task *task) proposed {
	m.t.Helper()
	select {
	case p := <-m.proposed:
		return p
	case <-task.done:
		m.t.Fatalf("ended without a message, error %v", task.err)
	}
	return proposed{}
}

func putString(key, value string) func(*kv.Writer) error {
	return func(w *kv.Writer) error {
		_, err := w.Set([]byte(key), []byte(value), kv.SetOptions{})
		return err
	}
}

// answers are all that tells what was read, of a key or a filter that has something pending.
func answers(m *member) map[string]func() error {
	key := [][]byte{[]byte("k")}
	session := func(words ...string) func() error {
		return func() error {
			var b [][]byte
			for _, word := range words {
				b = append(b, []byte(word))
			}
			return module.NewSession(m.DB).Do(context.Background(), b).Err()
		}
	}
	return map[string]func() error{
		"EndAnswer": func() error { return m.EndAnswer(m.BeginAnswer()) },
		"Settle":    func() error { return m.Settle(kv.NoSync) },
		"Sync":      func() error { return m.Sync() },
		"duplicate": func() error { _, err := bloomext.New(m.DB, "f").With(kv.NoSync).Add([]byte("x")); return err },
		"no change": func() error { return m.Write(kv.NoSync, key, func(*kv.Writer) error { return nil }) },
		"a refusal": func() error { return expect(m.Write(kv.NoSync, key, func(*kv.Writer) error { return kv.ErrExists })) },
		"a rollback": func() error {
			return expect(m.Update(context.Background(), kv.NoSync, func(*kv.Transaction) error { return kv.ErrExists }))
		},
		"GET":       session("GET", "k"),
		"MGET":      session("MGET", "k", "l"),
		"BF.EXISTS": session("BF.EXISTS", "f", "x"),
		"always":    func() error { return m.Write(kv.Always, key, putString("k", "other")) },
		"a view":    func() error { return m.View(context.Background(), func(*kv.Transaction) error { return nil }) },
	}
}

// expect returns nil for the error that a function of a test has returned.
func expect(err error) error {
	if err == kv.ErrExists {
		return nil
	}
	return err
}

// No answer is given before what it may rest on is applied, at any level. If the store forgets that, the outcome is unknown.
func TestGroup_answers(t *testing.T) {
	for what := range answers(nil) {
		for _, lost := range []bool{false, true} {
			m := openMember(t)
			m.lead()
			m.run(func() error {
				return bloomext.New(m.DB, "f").Reserve(bloomext.Config{Capacity: 100, ErrorRate: 0.01, NonScaling: true})
			})
			m.must(m.Write(kv.NoSync, [][]byte{[]byte("k")}, putString("k", "v")))
			if isNew, err := bloomext.New(m.DB, "f").Add([]byte("x")); !isNew || err != nil {
				t.Fatal(isNew, err)
			}
			task := m.begin(answers(m)[what])
			p := m.asks(task)
			if !p.Group {
				t.Errorf("%s: a message of its own, want that of what is pending", what)
			}
			if task.ended() {
				t.Errorf("%s: answered before anything is applied", what)
			}
			if !lost {
				m.commit(p)
				task.wait()
				continue
			}
			m.must(m.Follow())
			m.lead()
			<-task.done
			if known := what == "a view" || what == "MGET"; !known && task.err == nil {
				t.Errorf("%s: answered with what is forgotten", what)
			}
		}
	}
}

// An answer that was read before the store forgot is none afterwards, even if nothing is pending any more.
func TestGroup_forgotten(t *testing.T) {
	m := openMember(t)
	m.lead()
	f := bloomext.New(m.DB, "f")
	m.run(func() error { return f.Reserve(bloomext.Config{Capacity: 100, ErrorRate: 0.01, NonScaling: true}) })
	if _, err := f.Add([]byte("x")); err != nil {
		t.Fatal(err)
	}
	begun, o := m.BeginAnswer(), m.OpenObject("f")
	m.must(m.Follow())
	m.lead()
	for what, err := range map[string]error{"EndAnswer": m.EndAnswer(begun), "Acknowledge": m.Acknowledge(o, kv.NoSync)} {
		if !errors.Is(err, kv.ErrOutcomeUnknown) {
			t.Errorf("%s = %v, want ErrOutcomeUnknown", what, err)
		}
	}
	if there, err := f.MayContain([]byte("x")); there || err != nil {
		t.Errorf("the filter still has the item: %t, %v", there, err)
	}
	if err := m.EndAnswer(m.BeginAnswer()); err != nil {
		t.Error(err)
	}
}

// A writer that is between its function and its commit when the leadership is lost writes nothing, and what it staged goes nowhere.
func TestGroup_fence(t *testing.T) {
	for _, point := range []string{"commit: started", "commit: applied"} {
		m := openMember(t)
		m.lead()
		st := m.stops.next(point)
		write := m.begin(func() error { return m.Write(kv.NoSync, [][]byte{[]byte("k")}, putString("k", "v")) })
		write.reaches(st)
		follow := m.begin(m.Follow) // it waits for the writer, which holds apply
		until(m.Follows)
		st.release()
		follow.wait()
		<-write.done
		m.lead()
		if n, err := m.Exists([]byte("k")); n != 0 || err != nil {
			t.Errorf("%s: the key is there: %d, %v; the write = %v", point, n, err, write.err)
		}
	}
}

// A snapshot does not take from memory what was made pending after its flush.
func TestGroup_snapshot(t *testing.T) {
	m := openMember(t)
	m.lead()
	f := bloomext.New(m.DB, "f")
	m.run(func() error { return f.Reserve(bloomext.Config{Capacity: 100, ErrorRate: 0.01, NonScaling: true}) })
	add := func(item string) {
		if isNew, err := f.Add([]byte(item)); !isNew || err != nil {
			t.Fatal(item, isNew, err)
		}
	}
	add("before")
	st := m.stops.next("apply: wanted")
	var before, after bool
	view := m.begin(func() error {
		return m.View(context.Background(), func(tx *kv.Transaction) (err error) {
			in := f.In(tx)
			if before, err = in.MayContain([]byte("before")); err == nil {
				after, err = in.MayContain([]byte("after"))
			}
			return err
		})
	})
	m.commit(m.asks(view))
	// The apply loop has taken apply, and the snapshot is about to.
	view.reaches(st)
	add("after")
	st.release()
	view.wait()
	if !before || after {
		t.Errorf("the snapshot has the item before: %t, the one that came after its flush: %t", before, after)
	}
}

// An object that is opened while a message changes it has the counters of the message, also on a store that does not lead, where no
// writer holds the lock of its key.
func TestGroup_opening(t *testing.T) {
	leader, m := openMember(t), openMember(t)
	leader.lead()
	follow(leader, m)
	f := bloomext.New(leader.DB, "f")
	both(leader, m, func() error { return f.Reserve(bloomext.Config{Capacity: 100, ErrorRate: 0.01, NonScaling: true}) })
	if _, err := f.Add([]byte("x")); err != nil {
		t.Fatal(err)
	}
	sync := leader.begin(leader.Sync)
	p := leader.asks(sync)
	leader.commit(p)
	sync.wait()

	opens := m.stops.next("open: read")
	open := m.begin(func() error { _, err := bloomext.New(m.DB, "f").MayContain([]byte("x")); return err })
	open.reaches(opens)
	wanted := m.stops.next("apply: wanted")
	apply := m.begin(func() error {
		m.at++
		return m.ApplyMessage(&storage.Message{Applied: format.Applied{Index: m.at, Term: 1}, Record: p.Record, Group: true})
	})
	select {
	case <-wanted.reached: // it waits for the lookup
	case <-apply.done:
	}
	wanted.release()
	opens.release()
	open.wait()
	apply.wait()
	if info, err := bloomext.New(m.DB, "f").Info(); info.Items != 1 || err != nil {
		t.Errorf("the filter has %d items, %v, want 1", info.Items, err)
	}
}

// follow has a store apply what another, which leads, has applied: the entry of its term.
func follow(leader, m *member) {
	m.term = leader.term
	m.entry(storage.Message{})
}

// both runs f on a store that leads, and has another apply the same messages.
func both(leader, m *member, f func() error) {
	leader.t.Helper()
	task := leader.begin(f)
	for {
		select {
		case p := <-leader.proposed:
			leader.commit(p)
			m.entry(storage.Message{Record: p.Record, Whole: p.Whole, Group: p.Group})
		case <-task.done:
			task.wait()
			return
		}
	}
}

// A block is folded without a flush, which would wait for the apply loop, and without what is pending.
func TestGroup_fold(t *testing.T) {
	m := openMember(t)
	m.lead()
	f := bloomext.New(m.DB, "f")
	m.run(func() error { return f.Reserve(bloomext.Config{Capacity: 1000, ErrorRate: 0.01, NonScaling: true}) })
	for i := range uint64(80) {
		if _, err := f.Add(scalableext.Uint64(i)); err != nil {
			t.Fatal(err)
		}
		m.run(m.Sync)
	}
	l := m.OpenObject("f").Layers()[0]
	m.EvictBlock(l, 0)
	if there, err := f.MayContain(scalableext.Uint64(1)); !there || err != nil || m.FoldBacklog() != 1 {
		t.Fatalf("%t, %v, %d blocks wait to be folded, want 1", there, err, m.FoldBacklog())
	}
	if _, err := f.Add(scalableext.Uint64(1000)); err != nil { // pending
		t.Fatal(err)
	}
	folded := 0
	fold := m.begin(func() (err error) { folded, err = m.Fold(context.Background(), 1<<20); return err })
	select {
	case <-m.proposed:
		t.Fatal("folding has flushed")
	case <-fold.done:
	}
	if fold.wait(); folded == 0 {
		t.Error("nothing was folded")
	}
	m.must(m.Follow())
	m.lead()
	for i := range uint64(80) {
		if there, err := f.MayContain(scalableext.Uint64(i)); !there || err != nil {
			t.Errorf("item %d: %t, %v", i, there, err)
		}
	}
	if there, err := f.MayContain(scalableext.Uint64(1000)); there || err != nil {
		t.Errorf("what was pending and is forgotten: %t, %v", there, err)
	}
}

// When the store that leads has reclaimed an object, the others do so, too.
func TestGroup_reclaim(t *testing.T) {
	leader, m := openMember(t), openMember(t)
	leader.lead()
	follow(leader, m)
	both(leader, m, func() error {
		return bloomext.New(leader.DB, "f").Reserve(bloomext.Config{Capacity: 100, ErrorRate: 0.01})
	})
	both(leader, m, func() error { _, err := bloomext.New(leader.DB, "f").Drop(); return err })
	if more, err := m.Reclaim(context.Background()); more || err != nil {
		t.Errorf("a store that does not lead, and was told nothing, reclaims: %t, %v", more, err)
	}
	both(leader, m, func() error { _, err := leader.Reclaim(context.Background()); return err })
	if more, err := m.Reclaim(context.Background()); !more || err != nil {
		t.Errorf("Reclaim of the other store = %t, %v, want true", more, err)
	}
}

// A goroutine that holds a lock of the apply loop never flushes: a flush waits for the loop.
func TestGroup_flushes(t *testing.T) {
	m := openMember(t)
	m.lead()
	f := bloomext.New(m.DB, "f").With(kv.NoSync)
	m.run(func() error { return f.Reserve(bloomext.Config{Capacity: 1000, ErrorRate: 0.01}) })
	flushed := 0
	m.each("group: flush", func() {
		if flushed++; !m.ApplyFree() {
			t.Error("a lock that the apply loop takes is held")
		}
	})
	ctx := context.Background()
	session := module.NewSession(m.DB)
	session.Durability = kv.NoSync
	for what, f := range map[string]func() error{
		"view":    func() error { return m.View(ctx, func(*kv.Transaction) error { return nil }) },
		"long":    func() error { return m.ReadWith(kv.ReadOptions{Long: true}, func(kv.Reader) error { return nil }) },
		"keys":    func() error { return m.ReadWith(kv.ReadOptions{Keys: true}, func(kv.Reader) error { return nil }) },
		"check":   func() error { _, err := m.CheckWith(ctx, kv.CheckOptions{Deep: true}); return err },
		"compact": func() error { return m.Compact(ctx) },
		"reclaim": func() error { _, err := m.Reclaim(ctx); return err },
		"sync":    m.Sync,
		"copy":    func() error { return session.Do(ctx, [][]byte{[]byte("COPY"), []byte("f"), []byte("g")}).Err() },
		"scan":    func() error { return session.Do(ctx, [][]byte{[]byte("SCAN"), []byte("0")}).Err() },
		"chunk":   func() error { return session.Do(ctx, [][]byte{[]byte("BF.SCANDUMP"), []byte("f"), []byte("0")}).Err() },
		"drop":    func() error { _, err := bloomext.New(m.DB, "g").Drop(); return err },
		"rename":  func() error { return session.Do(ctx, [][]byte{[]byte("RENAME"), []byte("f"), []byte("f")}).Err() },
	} {
		m.must(m.Write(kv.NoSync, [][]byte{[]byte("k")}, putString("k", what)))
		before := flushed
		m.run(f)
		if flushed == before && (what == "view" || what == "check" || what == "sync") {
			t.Errorf("%s: nothing was flushed", what)
		}
	}
}
