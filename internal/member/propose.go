package member

import (
	"slices"
	"sync"

	"go.etcd.io/raft/v3"

	"github.com/sievekv/sievekv/internal/entry"
)

// Proposal is a record that is to become a message.
type Proposal struct {
	Leadership // in which the record was made
	Flags      entry.Flags
	Record     []byte

	// Done is called once: with nil when this machine has applied the record, with ErrNotLeader if it is not in the log and never
	// will be, else with ErrOutcomeUnknown. It must return at once. Any of the three goroutines may call it.
	Done func(error)
}

// Propose puts a record into the log, if the leadership in which it was made goes on. It refuses a record that a
// machine made from an earlier state, even if the member leads again.
//
// Raft drops proposals while the leadership is handed over, and may take them again. A record may rest on the one before. So with
// the first that is dropped the leadership is over for the machine, and a new one begins when raft takes proposals again: see resume.
func (m *Member) Propose(p Proposal) {
	if m.Failed() != nil {
		p.Done(ErrNotLeader)
		return
	}
	m.guard(func() error {
		if p.Term == 0 || m.leadingTerm() != p.Term || p.Number != m.leadership.Load() || p.Number == m.paused {
			p.Done(ErrNotLeader)
			return nil
		}
		if id := m.tickets.add(p.Term, p.Done); m.changing == 0 {
			m.propose(id, p)
		} else {
			m.held = append(m.held, held{id, p})
		}
		return nil
	})
}

// propose gives a proposal to raft. If raft drops it, the leadership is over for the machine.
func (m *Member) propose(id uint64, p Proposal) {
	if !m.give(id, p) {
		m.paused, m.pausedTerm = p.Number, p.Term
	}
}

// give gives a proposal to raft, and reports whether raft took it.
func (m *Member) give(id uint64, p Proposal) bool {
	state := m.State()
	msg := entry.Message{Flags: p.Flags, Millis: m.now(), Level: entry.LevelFor(p.Flags, p.Record), Base: entry.At(state.Applied), Record: p.Record, Proposal: id}
	if err := m.node.Propose(msg.Append(make([]byte, 0, msg.Size()))); err != nil {
		m.tickets.end(id, ErrNotLeader)
		return false
	}
	return true
}

// held is a proposal that waits, because a change of the members is under way. With entries behind the change a member that it
// removes could have a longer log than the others: a leader sends its entries before it has synced them. Such a member does not vote
// for the others and cannot lead. A group of two would have no leader any more.
type held struct {
	id uint64
	Proposal
}

// release proposes what was held, once raft has taken over a change of the members.
func (m *Member) release(index uint64) {
	if m.changing == 0 || index < m.changing {
		return
	}
	waiting := m.held
	m.changing, m.held = 0, nil
	for _, h := range waiting {
		if h.Number == m.paused {
			m.tickets.end(h.id, ErrNotLeader)
		} else {
			m.propose(h.id, h.Proposal)
		}
	}
}

// resume begins another leadership of the same term, if raft takes proposals again. The machine is told when the
// message that says so is applied: then it has applied all of the leadership before. In a later term another leadership
// begins anyway, with the empty entry, and a message of that leadership could be behind the resuming one.
func (m *Member) resume() {
	status := m.node.BasicStatus()
	if m.paused == m.resuming || m.paused != m.leadership.Load() || status.RaftState != raft.StateLeader || status.GetTerm() != m.pausedTerm ||
		status.LeadTransferee != 0 || m.changing != 0 {
		return
	}
	p := Proposal{Leadership: Leadership{Term: status.GetTerm()}, Flags: entry.Control, Done: func(error) {}}
	if m.give(m.tickets.add(p.Term, p.Done), p) {
		m.resuming = m.paused
	}
}

// tickets are the proposals whose outcome is open. Any goroutine may use them.
type tickets struct {
	mu   sync.Mutex
	last uint64
	open map[uint64]ticket // by the proposal's id
}

type ticket struct {
	term uint64
	done func(error)
}

// add returns the id of a new proposal. The first comes from Config.Proposals.
func (t *tickets) add(term uint64, done func(error)) (id uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open == nil {
		t.open = make(map[uint64]ticket)
	}
	t.last++
	t.open[t.last] = ticket{term, done}
	return t.last
}

// has reports whether a proposal of a term is open.
func (t *tickets) has(id, term uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	open, ok := t.open[id]
	return ok && open.term == term
}

// end tells the outcome of a proposal.
func (t *tickets) end(id uint64, err error) {
	t.mu.Lock()
	ticket, ok := t.open[id]
	delete(t.open, id)
	t.mu.Unlock()
	if ok {
		ticket.done(err)
	}
}

// failBefore ends all proposals of terms before one, in the order in which they were made.
func (t *tickets) failBefore(term uint64, err error) {
	t.mu.Lock()
	var failed []uint64
	for id, ticket := range t.open {
		if ticket.term < term {
			failed = append(failed, id)
		}
	}
	t.mu.Unlock()
	slices.Sort(failed)
	for _, id := range failed {
		t.end(id, err)
	}
}

func (t *tickets) failAll(err error) { t.failBefore(^uint64(0), err) }
