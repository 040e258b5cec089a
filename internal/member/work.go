package member

import (
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/sievekv/sievekv/internal/entry"
)

// Work is what raft wants done. The parts may be done at the same time, each of them in the order in which Ready returned it.
type Work struct {
	Send   []*pb.Message // to other members, at once. They may be lost, doubled, or come in another order
	Append []*pb.Message // for Persist
	Apply  []*Task       // for Apply
	Reads  []raft.ReadState
}

// Task is work for Apply.
type Task struct {
	Message *pb.Message // nil if only the role has changed
	leading uint64      // the term in which raft leads, else 0
	changes []madeChange
}

// madeChange is a change of the members that was applied.
type madeChange struct {
	index  uint64
	change *pb.ConfChangeV2
}

// Tick says that TickMillis have passed.
func (m *Member) Tick() {
	m.guard(func() error {
		m.node.Tick()
		m.resume()
		return nil
	})
}

// Campaign makes the member begin an election now.
func (m *Member) Campaign() { m.guard(m.node.Campaign) }

// Transfer makes the member hand its leadership to another, if it leads.
func (m *Member) Transfer(to uint64) {
	m.guard(func() error { m.node.TransferLeader(to); return nil })
}

// ReportUnreachable says that messages to a member were lost, and ReportSnapshot how the sending of a snapshot has ended.
func (m *Member) ReportUnreachable(id uint64) {
	m.guard(func() error { m.node.ReportUnreachable(id); return nil })
}

// ReportSnapshot says how the sending of a snapshot has ended.
func (m *Member) ReportSnapshot(id uint64, status raft.SnapshotStatus) {
	m.guard(func() error { m.node.ReportSnapshot(id, status); return nil })
}

// ReadIndex asks for an index that is as new as the present moment: a Work has it later among its Reads, with the same key. It
// never does if the question or the answer is lost, or nobody leads yet.
func (m *Member) ReadIndex(key []byte) {
	m.guard(func() error {
		if !m.answersTooEarly() {
			m.node.ReadIndex(key)
		}
		return nil
	})
}

// answersTooEarly reports whether raft would answer for an index that is too old. A leader without other voters answers at once,
// with the index that it knows to be committed. After a crash that may be older than what it has acknowledged, until an entry of
// its own term is committed.
func (m *Member) answersTooEarly() bool {
	leading := m.leadingTerm()
	return leading != 0 && m.State().Term != leading
}

// Ready returns the work that there is now, and false if there is none. It is called after every other method.
func (m *Member) Ready() (w Work, ok bool) {
	m.guard(func() error {
		if ok = m.node.HasReady(); ok {
			w = m.ready()
		}
		return nil
	})
	return w, ok && m.Failed() == nil
}

func (m *Member) ready() (w Work) {
	rd := m.node.Ready()
	leading := m.leadingTerm()
	changed := leading != m.leading
	if changed {
		m.leading, m.sent, m.changing, m.held = leading, 0, 0, nil // what was held ends with the leadership
		m.leadsNow.Store(leading)
	}
	for _, msg := range rd.Messages {
		switch msg.GetTo() {
		case raft.LocalAppendThread:
			w.Append = append(w.Append, msg)
			m.restored = max(m.restored, msg.GetSnapshot().GetMetadata().GetIndex()) // raft has it only if it has taken over the members
			m.noteChanges(msg)
		case raft.LocalApplyThread:
			w.Apply, changed = append(w.Apply, &Task{Message: msg, leading: leading}), false
		default:
			w.Send = append(w.Send, msg)
			m.noteSent(msg)
		}
	}
	if changed {
		w.Apply = append(w.Apply, &Task{leading: leading})
	}
	w.Reads = rd.ReadStates
	return w
}

// noteChanges notes that a leader has put a change of the members into its log.
func (m *Member) noteChanges(msg *pb.Message) {
	for _, e := range msg.GetEntries() {
		if m.leading != 0 && e.GetTerm() == m.leading && e.GetType() != pb.EntryNormal {
			m.changing = e.GetIndex()
		}
	}
}

// leadingTerm returns the term in which raft leads, else 0.
func (m *Member) leadingTerm() uint64 {
	if s := m.node.BasicStatus(); s.RaftState == raft.StateLeader {
		return s.GetTerm()
	}
	return 0
}

// SendsSnapshot says that a snapshot is about to be sent, which may be newer than the one that a Work has. It is called before the
// member that gets it can answer.
func (m *Member) SendsSnapshot(msg *pb.Message) {
	m.guard(func() error {
		if msg.GetTerm() == m.leading {
			m.noteSent(msg)
		}
		return nil
	})
}

// noteSent notes how far a leader has sent its log.
func (m *Member) noteSent(msg *pb.Message) {
	if msg.GetType() == pb.MsgApp {
		m.sent = max(m.sent, msg.GetIndex()+uint64(len(msg.GetEntries())))
	} else if msg.GetType() == pb.MsgSnap {
		m.sent = max(m.sent, msg.GetSnapshot().GetMetadata().GetIndex())
	}
}

// Persist does the writing of one or more Works, with one sync. The log's goroutine calls it. When it has returned without an
// error, Done is called for each message, in order. After an error the member has failed.
func (m *Member) Persist(work []*pb.Message) error {
	answers := false
	for i, w := range work {
		answers = answers || len(w.GetResponses()) > 0
		hs := hardState(w)
		if s := w.GetSnapshot(); !raft.IsEmptySnap(s) {
			if err := m.install(s.GetMetadata(), hs); err != nil {
				m.Fail(err)
				return err
			}
		}
		// A commit index alone, which nobody waits for, need not be synced.
		if err := m.log.Append(w.GetEntries(), hs, answers && i == len(work)-1); err != nil {
			m.Fail(err)
			return err
		}
	}
	return nil
}

// hardState returns the hard state that a message has, nil if it has none.
func hardState(w *pb.Message) *pb.HardState {
	hs := &pb.HardState{Term: new(w.GetTerm()), Vote: new(w.GetVote()), Commit: new(w.GetCommit())}
	if raft.IsEmptyHardState(hs) {
		return nil
	}
	return hs
}

// install makes the machine take over a snapshot, and makes the log begin behind it. The mark tells Start that a crash
// came between.
func (m *Member) install(s *pb.SnapshotMetadata, hs *pb.HardState) error {
	m.applying.Lock()
	defer m.applying.Unlock()
	if s.GetIndex() <= m.State().Index {
		return nil // the applier was faster
	}
	if err := m.follow(0); err != nil { // the applier may not have heard yet that a leadership is over
		return err
	}
	if err := m.log.Installing(s.GetIndex()); err != nil {
		return err
	}
	state, err := m.machine.Install(s)
	if err != nil {
		return err
	}
	if state.Index != s.GetIndex() || state.Term != s.GetTerm() {
		return refusedf("the snapshot is of index %d in term %d, its state of %d in %d", s.GetIndex(), s.GetTerm(), state.Index, state.Term)
	}
	if err := m.log.Reset(state.Index, state.Term, hs); err != nil {
		return err
	}
	m.hashes.add(entry.At(state.Applied))
	m.setState(state)
	return nil
}

// Deliver gives raft the answers to work that is done: the Responses of a message that Persist or Apply was given. It returns those
// that are for other members.
func (m *Member) Deliver(answers []*pb.Message) (send []*pb.Message) {
	m.guard(func() error {
		for _, a := range answers {
			if a.GetTo() != m.id {
				send = append(send, a)
			} else if err := m.step(a); err != nil {
				return err
			}
		}
		return nil
	})
	if m.Failed() != nil {
		return nil
	}
	return send
}

// DeliverApplied is Deliver for a task of Apply.
func (m *Member) DeliverApplied(t *Task) {
	m.guard(func() error {
		for _, c := range t.changes {
			if c.index > m.restored { // otherwise raft has the members of a later index from a snapshot
				m.node.ApplyConfChange(c.change)
			}
			m.release(c.index)
		}
		return nil
	})
	m.Deliver(t.Message.GetResponses())
}

// Truncatable returns the index up to which the log may be cut, at most the index that the machine has synced: raft
// still reads entries until it hears that they are applied.
func (m *Member) Truncatable(synced uint64) (index uint64) {
	m.guard(func() error { index = min(synced, m.node.BasicStatus().Applied); return nil })
	return index
}

// Truncate removes the entries up to an index that Truncatable has returned. The log's goroutine calls it.
func (m *Member) Truncate(index uint64) error {
	err := m.Failed()
	if err == nil {
		if err = m.log.Truncate(index); err != nil {
			m.Fail(err)
		}
	}
	return err
}
