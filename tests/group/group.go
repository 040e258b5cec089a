// Package group runs several stores as one group, in one process, with a log that stands in for consensus: it orders messages,
// gives them to each store's apply loop at some later moment, and moves leadership at any moment. What the leader had proposed by
// then is in the log up to some message, and lost from there on.
package group

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"

	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/storage"
	"github.com/sievekv/sievekv/kv"
)

// Group is stores with one log.
type Group struct {
	mu      sync.Mutex
	changed *sync.Cond
	rng     *rand.Rand        // guarded by mu
	log     []storage.Message // the committed messages; guarded by mu
	asked   []asked           // what the leader has proposed, and is not committed; guarded by mu
	tickets map[uint64]chan error
	term    uint64  // guarded by mu
	leader  *Member // guarded by mu; nil for none
	stopped bool    // guarded by mu
	held    bool    // nothing is committed; guarded by mu
	members []*Member
	done    sync.WaitGroup

	Millis func() int64 // the leader's clock
	unrest int          // see Unrest; guarded by mu
}

// asked is a proposal.
type asked struct {
	storage.Message
	ticket chan error
}

// Member is one of the stores.
type Member struct {
	g     *Group
	DB    *kv.DB
	term  uint64 // that its store leads in, 0 for none
	leads uint64 // the last term in which its store took writes; guarded by g.mu
	err   error  // guarded by g.mu
	at    uint64 // the index that it has applied; guarded by g.mu
	rng   *rand.Rand
}

// New returns a group of no stores, without a leader.
func New(seed uint64) *Group {
	g := &Group{rng: rand.New(rand.NewPCG(seed, 1)), tickets: make(map[uint64]chan error), Millis: func() int64 { return 0 }}
	g.changed = sync.NewCond(&g.mu)
	g.done.Go(g.commit)
	return g
}

// Join returns a member whose DB is not set yet. It is the Log of its store.
func (g *Group) Join() *Member {
	m := &Member{g: g, rng: rand.New(rand.NewPCG(uint64(len(g.members)), 2))}
	g.members = append(g.members, m)
	return m
}

// Run begins the apply loop of a member, whose store is open.
func (m *Member) Run(db *kv.DB) error {
	applied, _, err := db.Applied()
	if err != nil {
		return err
	}
	m.DB, m.at = db, applied.Index
	m.g.done.Go(m.apply)
	return nil
}

// Propose implements storage.Log.
func (m *Member) Propose(p storage.Proposal) <-chan error {
	g := m.g
	g.mu.Lock()
	defer g.mu.Unlock()
	ticket := make(chan error, 1)
	if g.leader != m || g.term != p.Term {
		ticket <- storage.ErrNotLeader
		return ticket
	}
	message := storage.Message{Record: slices.Clone(p.Record), Whole: p.Whole, Group: p.Group}
	message.Term, message.Millis = g.term, g.Millis()
	g.asked = append(g.asked, asked{message, ticket})
	g.changed.Broadcast()
	return ticket
}

// append puts a message into the log. The caller holds mu.
func (g *Group) append(m storage.Message, ticket chan error) {
	sum := sha256.New()
	if n := len(g.log); n > 0 {
		m.Index = g.log[n-1].Index
		sum.Write(g.log[n-1].Hash[:])
	}
	m.Index++
	sum.Write(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, m.Index), m.Term))
	sum.Write(m.Record)
	copy(m.Hash[:], sum.Sum(nil))
	g.log = append(g.log, m)
	if ticket != nil {
		g.tickets[m.Index] = ticket
	}
	g.changed.Broadcast()
}

// commit puts what is proposed into the log, some of it at a time.
func (g *Group) commit() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for !g.stopped {
		if len(g.asked) == 0 || g.held {
			g.changed.Wait()
			continue
		}
		if g.rng.IntN(4) == 0 {
			g.mu.Unlock()
			runtime.Gosched()
			g.mu.Lock()
			continue
		}
		if g.unrest > 0 && g.rng.IntN(g.unrest) == 0 {
			g.take(g.rng.IntN(len(g.asked) + 1))
			g.lose(g.members[g.rng.IntN(len(g.members))])
			continue
		}
		g.take(1 + g.rng.IntN(len(g.asked)))
	}
}

// Unrest moves the leadership to any member about once in n proposals; 0 ends that.
func (g *Group) Unrest(every int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.unrest = every
}

// take puts the first proposals into the log. The caller holds mu.
func (g *Group) take(n int) {
	for _, a := range g.asked[:n] {
		g.append(a.Message, a.ticket)
	}
	g.asked = g.asked[n:]
}

// Hold has the log commit nothing until Release.
func (g *Group) Hold() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held = true
}

// Release ends Hold.
func (g *Group) Release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held = false
	g.changed.Broadcast()
}

// Asked waits until the leader has proposed n messages that are not committed.
func (g *Group) Asked(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.asked) < n {
		g.changed.Wait()
	}
}

// Move makes a member the leader of a new term. Of what the last leader has proposed, the log gets the first messages, as many as
// by chance, and the others never. Nobody knows whether a proposal is among them until it is applied.
func (g *Group) Move(to *Member) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.take(g.rng.IntN(len(g.asked) + 1))
	g.lose(to)
}

// MoveAndLose is Move, and the log gets nothing of what was proposed.
func (g *Group) MoveAndLose(to *Member) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lose(to)
}

// MoveAndKeep is Move, and the log gets all that was proposed.
func (g *Group) MoveAndKeep(to *Member) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.take(len(g.asked))
	g.lose(to)
}

// lose ends a term, without what is still asked for. The caller holds mu.
func (g *Group) lose(to *Member) {
	for _, a := range g.asked {
		switch g.rng.IntN(3) { // otherwise nothing is said
		case 0:
			a.ticket <- storage.ErrOutcomeUnknown
		case 1:
			a.ticket <- storage.ErrNotLeader
		}
	}
	g.asked = nil
	g.term++
	g.leader = to
	g.append(storage.Message{Applied: format.Applied{Term: g.term, Millis: g.Millis()}, Members: fmt.Appendf(nil, "as of term %d", g.term)}, nil)
}

// Leader returns the leader's store, once it takes writes. It may have lost that again.
func (g *Group) Leader() *kv.DB {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.leader.leads != g.term && g.leader.err == nil && !g.stopped {
		g.changed.Wait()
	}
	return g.leader.DB
}

// Members returns the members.
func (g *Group) Members() []*Member { return g.members }

// apply is the apply loop.
func (m *Member) apply() {
	for {
		e, term, stopped := m.next()
		switch {
		case stopped:
			return
		case m.term != 0 && m.term != term && (e == nil || e.Term != m.term || m.rng.IntN(2) == 0):
			m.failed(m.DB.Follow())
			m.term = 0
		case e != nil:
			m.one(e)
		}
	}
}

// next waits for something to do, and returns the next message, nil if there is none, and the term of the group.
func (m *Member) next() (e *storage.Message, term uint64, stopped bool) {
	g := m.g
	g.mu.Lock()
	defer g.mu.Unlock()
	for {
		if m.at < uint64(len(g.log)) {
			return &g.log[m.at], g.term, false
		}
		if m.term != 0 && m.term != g.term || g.stopped || m.err != nil {
			return nil, g.term, g.stopped || m.err != nil
		}
		g.changed.Wait()
	}
}

// one applies a message.
func (m *Member) one(e *storage.Message) {
	if m.rng.IntN(8) == 0 {
		runtime.Gosched()
	}
	message := *e
	m.failed(m.DB.ApplyMessage(&message))
	m.g.mu.Lock()
	m.at++
	first, ours := len(e.Record) == 0 && m.g.leader == m && e.Term == m.g.term, m.term == e.Term
	ticket := m.g.tickets[e.Index]
	if ours {
		delete(m.g.tickets, e.Index)
	}
	m.g.mu.Unlock()
	if ticket != nil && ours {
		ticket <- nil
	}
	if first {
		m.term = e.Term
		m.failed(m.DB.Lead(e.Term))
	}
	m.g.mu.Lock()
	m.leads = m.term
	m.g.changed.Broadcast()
	m.g.mu.Unlock()
	if m.rng.IntN(64) == 0 {
		_, err := m.DB.SyncStore()
		m.failed(err)
	}
}

func (m *Member) failed(err error) {
	if err == nil {
		return
	}
	m.g.mu.Lock()
	defer m.g.mu.Unlock()
	m.err = errors.Join(m.err, err)
}

// Settle waits until all members have applied all that is committed, and nothing is on its way to the log.
func (g *Group) Settle() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for {
		behind, err := len(g.asked) > 0, error(nil)
		for _, m := range g.members {
			behind = behind || m.at < uint64(len(g.log))
			err = errors.Join(err, m.err)
		}
		if !behind || err != nil {
			return err
		}
		g.changed.Wait()
	}
}

// Log returns a copy of the log from an index on, and of all that is committed by now.
func (g *Group) Log(after uint64) []storage.Message {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.log[after:])
}

// Stop ends the apply loops. The stores are left open, unless they are closed before.
func (g *Group) Stop() error {
	g.mu.Lock()
	g.stopped = true
	g.changed.Broadcast()
	g.mu.Unlock()
	g.done.Wait()
	var err error
	for _, m := range g.members {
		err = errors.Join(err, m.err)
	}
	return err
}
