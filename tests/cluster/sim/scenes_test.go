package sim

import (
	"errors"
	"slices"
	"strings"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/sievekv/sievekv/internal/entry"
	"github.com/sievekv/sievekv/internal/member"
)

// scene is a healthy group of three that has committed some records, with a disk that is synced, and what it was before.
func scene(t *testing.T) *sim {
	t.Helper()
	s := newSim(1, Options{Members: 3, Damage: true})
	s.quiet = true
	s.commit(t, 10)
	for _, id := range s.ids {
		s.nodes[id].disk.syncMachine()
		s.nodes[id].older = []older{{s.nodes[id].disk.now(), s.nodes[id].disk.synced()}}
	}
	s.commit(t, 10)
	return s
}

// commit commits records.
func (s *sim) commit(t *testing.T, records int) {
	t.Helper()
	done := len(s.truth.acked) + records
	for i := 0; len(s.truth.acked) < done; i++ {
		if s.propose(); i > 1000 || s.err != nil {
			t.Fatalf("%d of %d records committed: %v", len(s.truth.acked), done, s.err)
		}
		s.round()
	}
	for !s.equal() {
		s.round()
	}
}

// leader returns the node that leads, and another.
func (s *sim) leader() (leads, follows *node) {
	for _, id := range s.ids {
		if n := s.nodes[id]; n.m != nil && n.machine.leads != 0 {
			leads = n
		} else {
			follows = n
		}
	}
	return leads, follows
}

// refuses expects that a node does not go on, and says so in these words.
func (n *node) refuses(t *testing.T, words string) {
	t.Helper()
	if n.broken == nil || !strings.Contains(n.broken.Error(), words) {
		t.Errorf("node %d: %v, want an error with: %s", n.id, n.broken, words)
	}
}

func TestScene_logLost(t *testing.T) {
	s := scene(t)
	_, n := s.leader()
	n.disk.syncMachine()
	n.crash()
	n.disk.log = []logState{n.older[0].log}
	n.restart()
	n.refuses(t, "the store has applied the log up to index 22, but the log ends at 12: the log has lost entries, or is another's")
}

func TestScene_oldStore(t *testing.T) {
	s := scene(t)
	_, n := s.leader()
	n.disk.syncMachine()
	n.truncate()
	n.crash()
	n.disk.machine = []member.State{n.older[0].machine}
	n.restart()
	n.refuses(t, "the store has applied the log up to index 12, but the log begins at 23: the store is an older one")
}

func TestScene_anotherTerm(t *testing.T) {
	s := scene(t)
	_, n := s.leader()
	n.disk.syncMachine()
	n.crash()
	log := n.disk.now()
	last := log.entries[len(log.entries)-1]
	log.entries = append(log.entries[:len(log.entries)-1:len(log.entries)-1], &pb.Entry{Index: last.Index, Term: new(last.GetTerm() + 1)})
	n.disk.log = []logState{log}
	n.restart()
	n.refuses(t, "has applied index 22 in term 2, but the log has term 3 there")
}

func TestScene_commitLost(t *testing.T) {
	s := scene(t)
	_, n := s.leader()
	n.crash()
	log := n.older[0].log
	log.hs = &pb.HardState{Term: new(uint64(1)), Vote: log.hs.Vote, Commit: new(uint64(20))}
	n.disk.log, n.disk.machine = []logState{log}, []member.State{n.older[0].machine}
	n.restart()
	n.refuses(t, "the log says that index 20 is committed, but ends at 12")
}

// A whole directory is put back: the log and the store fit, and the member has answered for more.
func TestScene_oldDirectory(t *testing.T) {
	s := scene(t)
	_, n := s.leader()
	n.crash()
	n.disk.log, n.disk.machine = []logState{n.older[0].log}, []member.State{n.older[0].machine}
	n.restart()
	for range 5 {
		s.round()
	}
	n.refuses(t, "has answered for the log up to index 22, but its log ends at 12: it has lost entries")
}

// Two whole directories are put back. The two can elect one of them, and the third must not follow it, nor be counted.
func TestScene_oldMajority(t *testing.T) {
	s := scene(t)
	leads, third := s.leader()
	for _, id := range s.ids {
		if n := s.nodes[id]; n != third {
			n.crash()
			n.disk.log, n.disk.machine = []logState{n.older[0].log}, []member.State{n.older[0].machine}
			n.restart()
		}
	}
	third.crash()
	for range 100 { // the third is away meanwhile
		s.round()
	}
	if leads, _ := s.leader(); leads == nil {
		t.Fatal("nobody leads")
	}
	third.restart()
	for range 100 {
		s.propose()
		s.round()
	}
	if !third.alarmed {
		t.Error("the third node says nothing")
	}
	if at := third.m.State(); at.Index != 22 {
		t.Errorf("the third node has applied %d", at.Index)
	}
	_ = leads
}

// A member whose directory was emptied is asked for a vote. It has forgotten what it had answered for, and gives none.
func TestScene_emptied(t *testing.T) {
	s := scene(t)
	candidate, n := s.leader()
	n.crash()
	n.disk.log = []logState{{hs: &pb.HardState{Term: new(uint64(0)), Vote: new(uint64(0)), Commit: new(uint64(0))}}}
	n.disk.machine = []member.State{{Members: &pb.ConfState{}}}
	n.restart()
	n.do(func() {
		n.m.Step(&pb.Message{Type: pb.MsgVote.Enum(), From: new(candidate.id), To: new(n.id), Term: new(uint64(9)), LogTerm: new(uint64(2)), Index: new(uint64(22))})
	})
	for range 5 {
		n.work()
	}
	if hs := n.disk.now().hs; hs.GetVote() != 0 || !n.alarmed {
		t.Errorf("it has voted for %d, alarmed %t", hs.GetVote(), n.alarmed)
	}
}

func TestScene_leaderCounts(t *testing.T) {
	s := scene(t)
	n, other := s.leader()
	n.do(func() {
		n.m.Step(&pb.Message{Type: pb.MsgAppResp.Enum(), From: new(other.id), To: new(n.id), Term: new(n.machine.leads), Index: new(uint64(23))})
	})
	n.refuses(t, "has the log up to index 23, the leader 3 only up to 22: the leader's log has lost entries")
}

func TestScene_storesDiffer(t *testing.T) {
	s := scene(t)
	_, n := s.leader()
	n.disk.syncMachine()
	n.crash()
	state := n.disk.synced()
	state.Hash = entry.Hash{1}
	n.disk.machine = []member.State{state}
	n.restart()
	s.propose()
	s.round()
	s.round()
	n.refuses(t, "its proposer had applied index 22 with hash")
}

// A leader that removed itself from a group of two could leave one behind that nobody elects.
func TestScene_removesItself(t *testing.T) {
	s := scene(t)
	n, other := s.leader()
	remove := func(id uint64) error {
		return n.m.Change(&pb.ConfChangeV2{Changes: []*pb.ConfChangeSingle{{Type: pb.ConfChangeRemoveNode.Enum(), NodeId: new(id)}}})
	}
	if err := remove(n.id); err == nil || !strings.Contains(err.Error(), "leads, and cannot remove itself: transfer the leadership first") {
		t.Errorf("a leader removes itself: %v", err)
	}
	if err := remove(other.id); err != nil {
		t.Errorf("a leader removes another: %v", err)
	}
	if err := other.m.Change(&pb.ConfChangeV2{}); !errors.Is(err, member.ErrNotLeader) {
		t.Errorf("one that does not lead removes somebody: %v", err)
	}
}

// A leader without other voters, whose commit index was lost with the power, has acknowledged more than it knows to be committed.
func TestScene_lonelyRead(t *testing.T) {
	s := newSim(1, Options{Members: 1})
	s.quiet = true
	s.commit(t, 3)
	n := s.nodes[1]
	log := n.disk.now()
	log.hs = &pb.HardState{Term: log.hs.Term, Vote: log.hs.Vote, Commit: new(uint64(1))}
	n.crash()
	n.disk.log, n.disk.machine = []logState{log}, []member.State{n.disk.machine[0]}
	n.restart()
	for range 30 {
		s.read(n)
		n.do(func() { n.m.Tick() })
		n.persist()
		n.deliver()
	}
	for range 3 {
		s.round()
	}
	s.read(n)
	if s.err != nil || s.result.Reads == 0 {
		t.Errorf("%d reads answered, %v", s.result.Reads, s.err)
	}
}

// A leader that has put the removal of a member into its log puts nothing behind it until raft has taken that over. What was proposed
// meanwhile is committed then.
func TestScene_removal(t *testing.T) {
	s := newSim(1, Options{Members: 2})
	s.quiet = true
	s.commit(t, 3)
	leads, removed := s.leader()
	before := len(s.truth.acked)
	leads.remove(t, removed)
	for range 3 {
		s.propose()
	}
	last := leads.m.State()
	for len(s.air) > 0 {
		s.receive(0)
		removed.work() // the leader does not write in this time
	}
	if end, err := removed.disk.LastIndex(); err != nil || end != last.Index+1 {
		t.Errorf("the removed member has the log up to index %d, %v, want its removal at %d and no more", end, err, last.Index+1)
	}
	s.commit(t, 1)
	if got := len(s.truth.acked) - before; got != 4 || s.err != nil {
		t.Errorf("%d records committed, want 4: %v", got, s.err)
	}
}

// A leader that finds its own removal in its log does not take writes in the moment before raft takes that over.
func TestScene_removedLeader(t *testing.T) {
	s := newSim(1, Options{Members: 3})
	s.quiet = true
	s.commit(t, 3)
	leads, removed := s.leader()
	leads.remove(t, removed)
	for len(s.air) > 0 {
		s.receive(0)
		removed.work()
	}
	leads.crash()
	removed.do(func() { removed.m.Campaign() })
	for i := 0; slices.Contains(removed.m.State().Members.GetVoters(), removed.id) && i < 200; i++ {
		removed.do(func() { removed.m.Campaign() })
		s.round()
	}
	if hs := removed.disk.HardState(); hs.GetVote() != removed.id || removed.m.State().Term != hs.GetTerm() {
		t.Fatalf("the removed member was not elected: it has the term %d and voted for %d", hs.GetTerm(), hs.GetVote())
	}
	elected := removed.m.State().Term
	leads.restart()
	s.commit(t, 3)
	if who, took := s.truth.leaders[elected]; took {
		t.Errorf("node %d took writes in term %d, when it was removed", who, elected)
	}
	if s.err != nil {
		t.Error(s.err)
	}
}

// remove has a leader propose the removal of a member.
func (n *node) remove(t *testing.T, who *node) {
	t.Helper()
	n.do(func() {
		c := pb.ConfChangeSingle{Type: pb.ConfChangeRemoveNode.Enum(), NodeId: new(who.id)}
		if err := n.m.Change(&pb.ConfChangeV2{Changes: []*pb.ConfChangeSingle{&c}}); err != nil {
			t.Fatal(err)
		}
	})
}
