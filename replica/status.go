package replica

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/sievekv/sievekv/internal/member"
	"github.com/sievekv/sievekv/kv"
)

// Status is a group as one of its members knows it. It does not change.
type Status struct {
	Group   [16]byte
	Self    uint64
	Leader  uint64 // 0 if none is known, also while one that was elected does not take writes yet
	Leads   bool   // the member's own store takes writes
	Term    uint64
	Applied uint64 // index up to which the member has applied the log
	Commit  uint64 // index up to which it knows that the log is committed
	Level   byte   // the highest format level of the messages of the group's log, as far as the member has heard
	Members []MemberStatus
	Alarm   error // the last reason since the start to refuse a leader or a vote, or why the member has ended; nil if all is well

	LogBytes uint64 // of the entries in the member's log
}

// errRemoved is the alarm of a member that was removed.
var errRemoved = errors.New("this member was removed from its group: its content is that of the moment before")

// MemberStatus is a member as another knows it.
type MemberStatus struct {
	Info
	Learner bool
	Healthy bool   // the leader has heard of it within an election timeout; on other members: they know no better
	Log     uint64 // index up to which its log is known to be on stable storage; 0 if it is not known

	// Clock is by how much its clock is ahead of the time that the clocks of a majority have reached, if both are known.
	Clock      time.Duration
	ClockKnown bool

	// LogTime is a time that 99 of 100 writes of its log, with their syncs, did not exceed in the last 10 seconds, if that is known. It
	// is 0 if there was none.
	LogTime      time.Duration
	LogTimeKnown bool
}

// Status returns the group as this member knows it. It costs an atomic load. Callers must not change it.
func (n *Node) Status() *Status { return n.status.Load() }

// Applied returns the index up to which this member has applied the log. It costs an atomic load.
func (n *Node) Applied() uint64 { return n.m.State().Index }

// MostAdvanced returns the other voter whose log is longest, 0 if there is none that is healthy.
func (s *Status) MostAdvanced() (id uint64) {
	return s.mostAdvanced(func(*MemberStatus) bool { return true })
}

// mostAdvanced is MostAdvanced among the members that are fit.
func (s *Status) mostAdvanced(fit func(*MemberStatus) bool) (id uint64) {
	best := uint64(0)
	for i := range s.Members {
		if m := &s.Members[i]; m.ID != s.Self && !m.Learner && m.Healthy && m.Log >= best && fit(m) {
			id, best = m.ID, m.Log
		}
	}
	return id
}

// member returns a member, nil if there is none.
func (s *Status) member(id uint64) *MemberStatus {
	for i := range s.Members {
		if s.Members[i].ID == id {
			return &s.Members[i]
		}
	}
	return nil
}

// seen is what raft's goroutine has published last.
type seen struct {
	basic   raft.BasicStatus
	leads   uint64
	members *members
	at      time.Time
	alarm   error
}

// publish makes another Status if something has changed, or the last one is old.
func (n *Node) publish() {
	basic := n.m.BasicStatus()
	leads, who, now := n.machine.leads.Load(), n.machine.members.Load(), time.Now()
	s := &n.seen
	role := basic.Lead != s.basic.Lead || basic.RaftState != s.basic.RaftState || basic.GetTerm() != s.basic.GetTerm() || leads != s.leads
	if !role && who == s.members && now.Sub(s.at) < member.TickMillis*time.Millisecond && n.m.Failed() == nil {
		return
	}
	if who != s.members && n.wire != nil {
		if err := n.setPeers(); err != nil {
			n.logger.Error("sievekv: the other members cannot be reached", "dir", n.dir, "error", err)
		}
	}
	if role {
		n.logger.Info("sievekv: the role of the member has changed", "dir", n.dir, "member", hexID(n.id), "state", basic.RaftState.String(), "term", basic.GetTerm(), "leader", hexID(basic.Lead), "writes", leads != 0)
	}
	s.basic, s.leads, s.members, s.at = basic, leads, who, now
	n.status.Store(n.makeStatus(basic, leads, who))
}

func (n *Node) makeStatus(basic raft.BasicStatus, leads uint64, who *members) *Status {
	s := &Status{
		Group: n.group, Self: n.id, Leader: basic.Lead, Leads: leads != 0 && leads == basic.GetTerm() && basic.RaftState == raft.StateLeader,
		Term: basic.GetTerm(), Applied: n.m.State().Index, Commit: basic.GetCommit(), Level: byte(n.level.Load()), Alarm: n.seen.alarm,
	}
	if err := n.m.Failed(); err != nil {
		s.Alarm, s.Leads, s.Leader = err, false, 0
	}
	if _, is := who.infos[n.id]; !is && s.Applied > 0 {
		s.Alarm, s.Leads, s.Leader = errRemoved, false, 0
	}
	if s.Leader == n.id && !s.Leads {
		s.Leader = 0
	}
	s.LogBytes, _ = n.log.Size() // 0 for one that has failed, as Alarm tells
	progress := n.m.Status().Progress
	right, known := n.reached()
	for id, info := range who.infos {
		p, tracked := progress[id]
		clock, told := n.says(id)
		m := MemberStatus{
			Info: info, Learner: slices.Contains(who.state.GetLearners(), id) || slices.Contains(who.state.GetLearnersNext(), id),
			Healthy: id == n.id || !tracked || p.RecentActive, Log: p.Match, ClockKnown: known && told,
		}
		if m.ClockKnown {
			m.Clock = time.Duration(clock-right) * time.Millisecond
		}
		m.LogTime, m.LogTimeKnown = n.logTime(id)
		s.Members = append(s.Members, m)
	}
	slices.SortFunc(s.Members, func(a, b MemberStatus) int { return cmp.Compare(a.ID, b.ID) })
	return s
}

// Transfer hands the leadership to another member, and returns when it leads. The error is kv.ErrNotLeader, ctx's, or
// says that the member does not vote, that another leads now, or that this one goes on leading because the other has
// not taken over.
func (n *Node) Transfer(ctx context.Context, to uint64) error {
	s := n.Status()
	if !s.Leads {
		return kv.ErrNotLeader
	}
	if !slices.ContainsFunc(s.Members, func(m MemberStatus) bool { return m.ID == to && !m.Learner }) { // raft would ignore it
		return fmt.Errorf("member %x does not vote, so it cannot lead", to)
	}
	n.settle(ctx)
	n.run.do(func() { n.m.Transfer(to) })
	var leader uint64
	asked := time.Now()
	err := n.until(ctx, func(s *Status) bool {
		leader = s.Leader
		return leader != 0 && leader != n.id || leader == n.id && time.Since(asked) > 2*electionTimeout // raft gives up after one
	})
	switch {
	case err != nil:
		return err
	case leader == n.id:
		return fmt.Errorf("member %x has not taken over within %v: this one goes on leading", to, 2*electionTimeout)
	case leader != to:
		return fmt.Errorf("member %x leads now, in place of %x", leader, to)
	}
	return nil
}

// until waits for a status.
func (n *Node) until(ctx context.Context, is func(*Status) bool) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !is(n.Status()) {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-n.ctx.Done():
			return ErrClosed
		case <-tick.C:
		}
	}
	return nil
}

// change makes a change of the members, and returns when this member has applied it. The error is kv.ErrOutcomeUnknown if this member
// ceases to lead before that. Raft drops a change while it has not heard yet that the one before is applied, so it is proposed again.
func (n *Node) change(ctx context.Context, c *pb.ConfChangeSingle, info []byte, made func(*members) bool) error {
	is := func() bool { return made(n.machine.members.Load()) }
	for {
		if err := n.proposeChange(ctx, c, info); err != nil {
			return err
		}
		asked := time.Now()
		err := n.until(ctx, func(s *Status) bool { return is() || !s.Leads || time.Since(asked) > changeAgain })
		switch {
		case err != nil || is():
			return err
		case !n.Status().Leads:
			return kv.ErrOutcomeUnknown
		}
	}
}

// changeAgain is after how long a change that is not made is proposed again.
const changeAgain = 200 * time.Millisecond

func (n *Node) proposeChange(ctx context.Context, c *pb.ConfChangeSingle, info []byte) error {
	proposed := make(chan error, 1)
	n.run.do(func() {
		proposed <- n.m.Change(&pb.ConfChangeV2{Changes: []*pb.ConfChangeSingle{c}, Context: info})
	})
	select {
	case err := <-proposed:
		return outcome(err)
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-n.ctx.Done():
		return ErrClosed
	}
}

// AddMember adds a member, which does not vote until it has everything, and returns the token with which it joins. The
// store of this member must lead. The error is kv.ErrNotLeader, one that says what is wrong with the info, or
// kv.ErrOutcomeUnknown or ctx's: in the last two cases the member may have been added.
func (n *Node) AddMember(ctx context.Context, name, peer, client string) (Token, error) {
	info := Info{ID: randomID(), Name: name, Peer: peer, Client: client}
	if err := errors.Join(checkInfo(info), n.checkPeer(peer)); err != nil {
		return Token{}, err
	}
	for _, other := range n.machine.members.Load().infos {
		if other.Peer == peer || name != "" && other.Name == name {
			return Token{}, fmt.Errorf("member %x has the name %q and the peer address %s: another must have others", other.ID, other.Name, other.Peer)
		}
	}
	err := n.change(ctx, &pb.ConfChangeSingle{Type: pb.ConfChangeAddLearnerNode.Enum(), NodeId: new(info.ID)}, appendInfo(nil, info), func(m *members) bool {
		_, is := m.infos[info.ID]
		return is
	})
	if err != nil {
		return Token{}, err
	}
	t := Token{group: n.group, identity: n.DB.Store().Identity(), self: info, level: byte(n.level.Load())}
	for id, other := range n.machine.members.Load().infos {
		if id != info.ID {
			t.peers = append(t.peers, other)
		}
	}
	return t, nil
}

// ReplaceMember removes a member that has lost something, and adds another with its name and addresses, as AddMember
// does. A change that is interrupted after the first half leaves no member of the name: AddMember does the rest.
func (n *Node) ReplaceMember(ctx context.Context, id uint64) (Token, error) {
	old, is := n.machine.members.Load().infos[id]
	if !is {
		return Token{}, fmt.Errorf("no member %x", id)
	}
	if err := n.RemoveMember(ctx, id); err != nil {
		return Token{}, err
	}
	t, err := n.AddMember(ctx, old.Name, old.Peer, old.Client)
	if err != nil {
		err = fmt.Errorf("member %x was removed, and the one in its place, of name %q, peer address %s and client address %s, may not be added: %w", id, old.Name, old.Peer, old.Client, err)
	}
	return t, err
}

// RemoveMember removes a member. It cannot come back: its id is never used again. A leader does not remove itself.
func (n *Node) RemoveMember(ctx context.Context, id uint64) error {
	if _, is := n.machine.members.Load().infos[id]; !is {
		return fmt.Errorf("no member %x", id)
	}
	return n.change(ctx, &pb.ConfChangeSingle{Type: pb.ConfChangeRemoveNode.Enum(), NodeId: new(id)}, nil, func(m *members) bool {
		_, is := m.infos[id]
		return !is
	})
}

// reads are open questions for an index.
type reads struct {
	mu   sync.Mutex
	last uint64
	open map[string]chan uint64 // guarded by mu
}

func (r *reads) ask(id uint64) (key string, answer chan uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open == nil {
		r.open, r.last = make(map[string]chan uint64), randomID()
	}
	r.last++
	key = string(binary.LittleEndian.AppendUint64(idBytes(id), r.last))
	answer = make(chan uint64, 1)
	r.open[key] = answer
	return key, answer
}

func (r *reads) answer(key string, index uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if to := r.open[key]; to != nil {
		to <- index
		delete(r.open, key)
	}
}

func (r *reads) forget(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, key)
}

// ReadIndex returns an index so that a lookup on a member that has applied it sees every write that was acknowledged anywhere
// before the call. It asks a majority, again and again until ctx ends.
func (n *Node) ReadIndex(ctx context.Context) (uint64, error) {
	for {
		key, answer := n.reads.ask(n.id)
		n.run.do(func() { n.m.ReadIndex([]byte(key)) })
		again := time.NewTimer(electionTimeout)
		select {
		case index := <-answer:
			again.Stop()
			return index, nil
		case <-again.C:
			n.reads.forget(key)
		case <-ctx.Done():
			n.reads.forget(key)
			return 0, context.Cause(ctx)
		case <-n.ctx.Done():
			n.reads.forget(key)
			return 0, ErrClosed
		}
	}
}

// waiting are the callers that wait until an index is applied.
type waiting struct {
	applied func() uint64

	mu   sync.Mutex
	wait chan struct{} // closed when something more is applied; nil if nobody waits; guarded by mu
}

func (w *waiting) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wait != nil {
		close(w.wait)
		w.wait = nil
	}
}

// AwaitApplied returns when this member has applied an index, or with the error of ctx.
func (n *Node) AwaitApplied(ctx context.Context, index uint64) error {
	w := &n.waiting
	for w.applied() < index {
		w.mu.Lock()
		if w.wait == nil {
			w.wait = make(chan struct{})
		}
		wait := w.wait
		w.mu.Unlock()
		if w.applied() >= index {
			break
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-n.ctx.Done():
			return ErrClosed
		}
	}
	return nil
}

// Replicated returns how many other members have on stable storage everything that this member's store shows at the
// moment of the call. It waits until the wanted number have it, or ctx ends. A member that does not lead answers 0.
func (n *Node) Replicated(ctx context.Context, wanted int) int {
	if !n.Status().Leads || n.DB.Sync() != nil {
		return 0
	}
	index := n.m.State().Index
	count := func(s *Status) (have int) {
		for _, m := range s.Members {
			if m.ID != n.id && m.Log >= index && s.Leads {
				have++
			}
		}
		return have
	}
	_ = n.until(ctx, func(s *Status) bool { return count(s) >= wanted || !s.Leads })
	return count(n.Status())
}

const (
	keepEvery  = time.Second
	syncEvery  = 10 * time.Second
	syncAtSize = 64 << 20
)

// keep makes voters of learners, and cuts the log.
func (n *Node) keep() {
	tick := time.NewTicker(n.opts.keepEvery)
	defer tick.Stop()
	synced, size, commit := time.Now(), uint64(0), n.Status().Commit
	for {
		select {
		case <-n.ctx.Done():
			return
		case <-tick.C:
		}
		n.lookAtDisk()
		n.lookAtClock()
		n.lookAtPace()
		n.promote(commit)
		n.machine.received.drop(n.Applied())
		commit = n.Status().Commit
		now, err := n.log.Size()
		if err == nil && (time.Since(synced) >= syncEvery || now > size+syncAtSize) {
			err = n.cut()
			synced = time.Now()
			size, _ = n.log.Size()
		}
		if err != nil && !errors.Is(err, kv.ErrClosed) && n.m.Failed() == nil {
			n.logger.Error("sievekv: the log cannot be cut", "dir", n.dir, "error", err)
		}
	}
}

// lookAtDisk makes a member whose disk is full take no more entries, and hand the leadership over: the others go on
// without it. It goes on voting. A leader without others goes on, and its store refuses writes.
func (n *Node) lookAtDisk() {
	full := errors.Is(n.DB.Health(), kv.ErrNoSpace)
	if was := n.full.Swap(full); was != full {
		n.logger.Warn("sievekv: whether the disk of the member is full has changed", "dir", n.dir, "full", full)
	}
	if full {
		n.handOverFor("the disk is full", func(*MemberStatus) bool { return true })
	}
}

// handOverFor makes another member lead that is fit, if this one leads, because something is wrong here. No write is
// lost.
func (n *Node) handOverFor(why string, fit func(*MemberStatus) bool) {
	s := n.Status()
	to := s.mostAdvanced(fit)
	if !s.Leads || to == 0 || time.Since(n.handed) < n.opts.handOverEvery {
		return
	}
	n.handed = time.Now()
	n.logger.Warn("sievekv: the leadership is handed over, because "+why, "dir", n.dir, "to", hexID(to))
	ctx, cancel := context.WithTimeout(n.ctx, 3*electionTimeout)
	defer cancel()
	if err := n.Transfer(ctx, to); err != nil {
		n.logger.Warn("sievekv: the leadership was not handed over", "dir", n.dir, "to", hexID(to), "error", err)
	}
}

// handOverEvery is how often a member hands over because something is wrong with it: the same may be wrong with the next one.
const handOverEvery = time.Minute

// cut syncs the store, and cuts the log: see Status.cutAt.
func (n *Node) cut() error {
	synced, err := n.DB.Store().SyncStore()
	if err != nil {
		return err
	}
	most := make(chan uint64, 1)
	n.run.do(func() { most <- n.m.Truncatable(synced) })
	select {
	case <-n.ctx.Done():
		return nil
	case index := <-most:
		keep, err := n.log.IndexFor(n.opts.LogKeep)
		if err != nil {
			return err
		}
		twice, err := n.log.IndexFor(2 * n.opts.LogKeep)
		if err != nil {
			return err
		}
		return n.run.cut(n.Status().cutAt(index, keep, twice))
	}
}

// cutAt returns the index up to which the log may be cut, at most the synced one, so that the entries after keep stay.
// A reachable member that lacks entries holds up the cut, up to twice the size to keep: it may be receiving a snapshot,
// which would be of no use, and the next one too, if the log began above it by the time that it arrives.
func (s *Status) cutAt(synced, keep, twice uint64) uint64 {
	index := min(synced, keep)
	for _, m := range s.Members {
		if s.Leads && m.ID != s.Self && m.Healthy {
			index = min(index, m.Log)
		}
	}
	return max(index, min(synced, twice))
}
