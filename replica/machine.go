package replica

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/sievekv/sievekv/internal/entry"
	"github.com/sievekv/sievekv/internal/member"
	"github.com/sievekv/sievekv/internal/storage"
	"github.com/sievekv/sievekv/kv"
)

// machine applies the group's log to the store.
type machine struct {
	db      *kv.DB
	members atomic.Pointer[members] // written by the goroutine that calls the machine

	leadership atomic.Uint64 // number of the last one, for proposals
	leads      atomic.Uint64 // the term in which the store takes writes, else 0

	received received // snapshots of other members

	clock  *clock           // the group's time
	begins func()           // is called before the store leads
	level  func(level byte) // is called before a message is applied that needs it

	compare func(at entry.Applied, part uint8) // is called when a message that says to compare is applied; nil for nobody
}

func newMachine(db *kv.DB) (*machine, error) {
	x := &machine{db: db}
	_, encoded, err := db.Applied()
	if err != nil {
		return nil, err
	}
	m, err := decodeMembers(encoded)
	if err != nil {
		return nil, err
	}
	x.members.Store(m)
	return x, nil
}

// state returns the state that the store has stored.
func (x *machine) state() (member.State, error) {
	applied, encoded, err := x.db.Applied()
	if err != nil {
		return member.State{}, err
	}
	m, err := decodeMembers(encoded)
	if err != nil {
		return member.State{}, err
	}
	x.members.Store(m)
	return member.State{Applied: applied, Members: m.state}, nil
}

// Apply implements member.Machine.
func (x *machine) Apply(e *member.Entry) error {
	msg := storage.Message{Applied: e.State.Applied}
	if e.Message != nil {
		x.level(e.Message.Level)
	}
	if e.Message != nil && e.Message.Flags&entry.Control == 0 {
		msg.Record, msg.Whole, msg.Group = e.Message.Record, e.Message.Flags&entry.Whole != 0, e.Message.Flags&entry.Group != 0
	}
	if e.Changes {
		m, err := x.members.Load().with(e.State.Members, e.Change)
		if err == nil {
			msg.Members, err = m.encode()
		}
		if err != nil {
			return fmt.Errorf("entry %d: change of the members: %w", e.State.Index, err)
		}
		defer x.members.Store(m)
	}
	err := x.db.ApplyMessage(&msg)
	if err == nil && e.Message != nil && x.leads.Load() == 0 { // a leader's own time is the message's, and later
		x.clock.set(e.State.Millis)
	}
	if err == nil && e.Message != nil && x.compare != nil {
		if part, is := e.Message.Compares(); is {
			x.compare(e.State.Applied, part)
		}
	}
	return err
}

// Lead implements member.Machine.
func (x *machine) Lead(l member.Leadership) error {
	x.begins()
	x.leadership.Store(l.Number) // before the store proposes anything in it
	err := x.db.Lead(l.Term)
	if err == nil {
		x.leads.Store(l.Term)
	}
	return err
}

// Follow implements member.Machine.
func (x *machine) Follow() error {
	x.leads.Store(0)
	return x.db.Follow()
}

// Install implements member.Machine.
func (x *machine) Install(meta *pb.SnapshotMetadata) (state member.State, err error) {
	s, err := x.received.take(meta)
	if err != nil {
		return state, err
	}
	defer s.remove()
	if err := x.db.Install(context.Background(), s.tables); err != nil {
		return state, err
	}
	if state, err = x.state(); err == nil {
		x.clock.set(state.Millis)
	}
	return state, err
}

// outcome returns the answer to the store about a proposal.
func outcome(err error) error {
	switch {
	case errors.Is(err, member.ErrNotLeader):
		return kv.ErrNotLeader
	case errors.Is(err, member.ErrOutcomeUnknown):
		return kv.ErrOutcomeUnknown
	}
	return err
}
