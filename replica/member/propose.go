package member

import (
	"slices"
	"sync"

	"github.com/sievekv/sievekv/replica/entry"
)

// Proposal is a record that is to become a message.
type Proposal struct {
	Term   uint64 // the term in which the machine led when the record was made
	Flags  entry.Flags
	Record []byte

	// Done is called once: with nil when this machine has applied the record, with ErrNotLeader if it is not in the log and never
	// will be, else with ErrOutcomeUnknown. It must return at once. Any of the three goroutines may call it.
	Done func(error)
}

// Propose puts a record into the log, if this member leads in the proposal's term: what a machine made of an earlier term's state is
// refused, even if the member leads again.
func (m *Member) Propose(p Proposal) {
	if m.Failed() != nil {
		p.Done(ErrNotLeader)
		return
	}
	m.guard(func() error {
		if p.Term == 0 || m.leadingTerm() != p.Term {
			p.Done(ErrNotLeader)
			return nil
		}
		state := m.State()
		msg := entry.Message{
			Flags: p.Flags, Millis: m.now(), Level: m.level, Base: state.Hashed(), Record: p.Record,
			Proposal: m.tickets.add(p.Term, p.Done),
		}
		if err := m.node.Propose(msg.Append(make([]byte, 0, msg.Size()))); err != nil { // a transfer is under way
			m.tickets.end(msg.Proposal, ErrNotLeader)
		}
		return nil
	})
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
