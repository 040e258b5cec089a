package member

import (
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/confchange"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/proto"

	"github.com/sievekv/sievekv/internal/entry"
)

// Apply applies entries in the order of the log, and tells the machine when it leads and when it no longer does. The applier's
// goroutine calls it. When it has returned without an error, DeliverApplied is called. After an error the member has failed.
func (m *Member) Apply(t *Task) error {
	m.applying.Lock()
	defer m.applying.Unlock()
	err := m.Failed()
	if err == nil {
		err = m.tryApply(t)
	}
	if err != nil {
		m.Fail(err)
		_ = m.follow(0) // it has failed already
	}
	return err
}

// tryApply is apply, but a panic is an error. Each member would panic at the same entry, and again at each start.
func (m *Member) tryApply(t *Task) (err error) {
	defer func() {
		if p := recover(); p != nil && m.recovers {
			err = refusedf("entry after %d: %v", m.State().Index, p)
		} else if p != nil {
			panic(p)
		}
	}()
	return m.apply(t)
}

func (m *Member) apply(t *Task) error {
	if m.leads != t.leading {
		if err := m.follow(t.leading); err != nil {
			return err
		}
	}
	for _, e := range t.Message.GetEntries() {
		if e.GetIndex() <= m.State().Index {
			continue // a snapshot had it
		}
		to, change, err := m.applyEntry(e)
		if err != nil {
			return err
		}
		if change != nil {
			t.changes = append(t.changes, madeChange{e.GetIndex(), change})
		}
		begins := e.GetType() == pb.EntryNormal && len(e.GetData()) == 0 && e.GetTerm() == t.leading && m.leads != t.leading && m.leadsNow.Load() == t.leading
		resumes := to.Own && to.Message.Flags&entry.Control != 0 && len(to.Message.Record) == 0
		if (begins || resumes) && slices.Contains(to.State.Members.GetVoters(), m.id) { // an earlier leader may have removed this one
			if err := m.lead(t.leading); err != nil {
				return err
			}
		}
	}
	return nil
}

// lead begins a leadership of the machine, and ends the one before.
func (m *Member) lead(term uint64) error {
	if m.leads != 0 {
		if err := m.machine.Follow(); err != nil {
			return err
		}
	}
	m.leads = term
	return m.machine.Lead(Leadership{Term: term, Number: m.leadership.Add(1)})
}

// follow ends the leadership of the machine, if it leads. The proposers hear of no outcome: another leader may commit
// their proposals, which then come back as that leader's. The member may be leading in another term already, but
// nothing of that term is applied yet.
func (m *Member) follow(leading uint64) (err error) {
	if m.leads != 0 {
		m.leads = 0
		err = m.machine.Follow()
	}
	if leading == 0 {
		leading = ^uint64(0)
	}
	m.tickets.failBefore(leading, ErrOutcomeUnknown)
	return err
}

// applyEntry applies an entry, and returns the change of the members that it makes.
func (m *Member) applyEntry(e *pb.Entry) (to *Entry, change *pb.ConfChangeV2, err error) {
	state := m.State()
	if e.GetIndex() != state.Index+1 {
		return nil, nil, refusedf("entry %d is to be applied after %d", e.GetIndex(), state.Index)
	}
	state.Index, state.Term, state.Hash = e.GetIndex(), e.GetTerm(), entry.Hash(state.Hash).Next(e.GetIndex(), e.GetTerm(), e.GetData())
	to = &Entry{}
	switch {
	case e.GetType() != pb.EntryNormal:
		if change, err = decodeChange(e); err != nil {
			return nil, nil, refusedf("entry %d: %v", e.GetIndex(), err)
		}
		if state.Members, err = changed(state, change); err != nil {
			return nil, nil, refusedf("entry %d: %v", e.GetIndex(), err)
		}
		to.Changes, to.Change = true, change.GetContext()
	case len(e.GetData()) > 0:
		msg, err := m.message(e)
		if err != nil {
			return nil, nil, err
		}
		to.Message, to.Own = &msg, m.leads != 0 && m.tickets.has(msg.Proposal, m.leads)
		state.Millis = max(state.Millis, msg.Millis)
	}
	to.State = state
	if err := m.machine.Apply(to); err != nil {
		return nil, nil, err
	}
	m.hashes.add(entry.At(state.Applied))
	m.setState(state)
	if to.Own {
		m.tickets.end(to.Message.Proposal, nil)
	}
	return to, change, nil
}

// message returns the message of an entry, if this member can apply it, and has applied what its proposer had.
func (m *Member) message(e *pb.Entry) (entry.Message, error) {
	msg, err := entry.Decode(e.GetData())
	if err == nil && msg.Level > m.level {
		err = fmt.Errorf("message of format level %d, this program knows up to %d: upgrade it", msg.Level, m.level)
	}
	if err != nil {
		return msg, fmt.Errorf("entry %d: %w", e.GetIndex(), err)
	}
	if own, ok := m.hashes.at(msg.Base.Index); ok && own != msg.Base.Hash {
		return msg, refusedf("entry %d: its proposer had applied index %d with hash %x, this member has %x there: their stores differ",
			e.GetIndex(), msg.Base.Index, msg.Base.Hash, own)
	}
	return msg, nil
}

// hashes are the last hashes that a member has computed.
type hashes struct {
	last [1024]entry.Hashed
}

func (h *hashes) add(at entry.Hashed) { h.last[at.Index%uint64(len(h.last))] = at }

// at returns the hash at an index, if it is still known.
func (h *hashes) at(index uint64) (entry.Hash, bool) {
	at := h.last[index%uint64(len(h.last))]
	return at.Hash, at.Index == index && index != 0
}

func decodeChange(e *pb.Entry) (*pb.ConfChangeV2, error) {
	if e.GetType() == pb.EntryConfChange {
		var c pb.ConfChange
		err := proto.Unmarshal(e.GetData(), &c)
		return c.AsV2(), err
	}
	c := new(pb.ConfChangeV2)
	err := proto.Unmarshal(e.GetData(), c)
	return c, err
}

// changed returns the members after a change. Raft computes the same when it hears of the change.
func changed(state State, change *pb.ConfChangeV2) (*pb.ConfState, error) {
	c := confchange.Changer{Tracker: tracker.MakeProgressTracker(maxInFlight, 0), LastIndex: state.Index}
	cfg, progress, err := confchange.Restore(c, state.Members)
	if err != nil {
		return nil, err
	}
	c.Tracker.Config, c.Tracker.Progress = cfg, progress
	if change.LeaveJoint() {
		cfg, _, err = c.LeaveJoint()
	} else if autoLeave, joint := change.EnterJoint(); joint {
		cfg, _, err = c.EnterJoint(autoLeave, change.GetChanges()...)
	} else {
		cfg, _, err = c.Simple(change.GetChanges()...)
	}
	if err != nil {
		return nil, err
	}
	c.Tracker.Config = cfg
	return c.Tracker.ConfState(), nil
}

var _ raft.Storage = storage{}
