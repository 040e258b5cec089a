package member

import (
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// refused is a leader whose messages are not taken, in one term.
type refused struct{ id, term uint64 }

// Step takes a message of another member.
func (m *Member) Step(msg *pb.Message) {
	m.guard(func() error {
		if m.suspect(msg) || m.Failed() != nil {
			return nil
		}
		return m.step(msg)
	})
}

// step gives raft a message. Raft takes no answers of members that are gone, which may be this one, and no messages
// that a member never sends.
func (m *Member) step(msg *pb.Message) error {
	err := m.node.Step(msg)
	if errors.Is(err, raft.ErrStepPeerNotFound) || errors.Is(err, raft.ErrProposalDropped) || errors.Is(err, raft.ErrStepLocalMsg) {
		return nil
	}
	return err
}

// suspect reports whether a message is not to be taken, because the sender's log has lost entries that this member has applied. If
// the message shows that this member's own log has lost something, the member fails.
func (m *Member) suspect(msg *pb.Message) bool {
	if m.refused.id == msg.GetFrom() && m.refused.term == msg.GetTerm() {
		return true
	}
	switch msg.GetType() {
	case pb.MsgApp:
		return m.suspectLeader(msg)
	case pb.MsgReadIndex:
		return m.answersTooEarly()
	case pb.MsgVote, pb.MsgPreVote:
		// A member does not vote before it has its first snapshot, and nobody asks it. A member that is asked had data,
		// and a vote: its directory was emptied. It may have acknowledged entries that the candidate lacks.
		if m.State().Index == 0 {
			if m.alarm != nil {
				m.alarm(refusedf("member %x is asked for a vote, and has nothing: it has lost its log and its store; remove it, and let another join", m.id))
			}
			return true
		}
	case pb.MsgHeartbeat:
		// A leader tells a commit index only up to what this member has acknowledged in this term.
		if last, err := m.log.LastIndex(); err != nil {
			m.Fail(err)
		} else if msg.GetCommit() > last && msg.GetTerm() == m.node.BasicStatus().GetTerm() {
			m.Fail(refusedf("member %x has answered for the log up to index %d, but its log ends at %d: it has lost entries", m.id, msg.GetCommit(), last))
		}
	case pb.MsgAppResp:
		// A member has acknowledged more than it was sent: it has applied entries that this leader's log lacks.
		if m.leading == msg.GetTerm() && m.leading != 0 && !msg.GetReject() && msg.GetIndex() > m.sent {
			m.Fail(refusedf("member %x has the log up to index %d, the leader %x only up to %d: the leader's log has lost entries", msg.GetFrom(), msg.GetIndex(), m.id, m.sent))
		}
	}
	return false
}

// suspectLeader reports whether a leader would replace entries that this member has applied. A leader has every entry that was ever
// committed, so it has lost some. Raft itself would answer to it that all is well.
func (m *Member) suspectLeader(msg *pb.Message) bool {
	if msg.GetTerm() < m.node.BasicStatus().GetTerm() {
		return false // raft does not take it
	}
	if m.differs(msg.GetIndex(), msg.GetLogTerm(), msg) {
		return true
	}
	for _, e := range msg.GetEntries() {
		if e.GetIndex() > m.State().Index {
			break
		}
		if m.differs(e.GetIndex(), e.GetTerm(), msg) {
			return true
		}
	}
	return false
}

// differs reports whether this member has applied an index in another term than a leader says, and refuses the leader if so.
func (m *Member) differs(index, term uint64, msg *pb.Message) bool {
	if index > m.State().Index {
		return false
	}
	own, err := m.log.Term(index)
	if errors.Is(err, raft.ErrCompacted) || err == nil && own == term {
		return false
	}
	if err != nil {
		m.Fail(err)
		return true
	}
	m.refused = refused{msg.GetFrom(), msg.GetTerm()}
	if m.alarm != nil {
		m.alarm(refusedf("leader %x has term %d at index %d, where this member has applied an entry of term %d: the leader's log has lost entries",
			msg.GetFrom(), term, index, own))
	}
	return true
}

// Change proposes a change of the members, with what it says besides. The error is ErrNotLeader, or says why the change is not
// proposed. That it is proposed does not mean that it is made: State tells.
//
// A leader does not remove itself. It would step down when it has applied that, before it has told the others that the entry is
// committed. If they are a majority only together with it, nobody could be elected any more.
func (m *Member) Change(change *pb.ConfChangeV2) (err error) {
	m.guard(func() error {
		switch {
		case m.leadingTerm() == 0:
			err = ErrNotLeader
		case slices.ContainsFunc(change.GetChanges(), func(c *pb.ConfChangeSingle) bool {
			return c.GetNodeId() == m.id && c.GetType() != pb.ConfChangeAddNode
		}):
			err = fmt.Errorf("change of the members: member %x leads, and cannot remove itself: transfer the leadership first", m.id)
		default:
			if e := m.node.ProposeConfChange(change); e != nil {
				err = fmt.Errorf("change of the members: %w", e)
			}
		}
		return nil
	})
	return errors.Join(err, m.Failed())
}
