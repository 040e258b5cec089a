// Package sim runs a group of members (internal/member) on virtual disks, clocks and a virtual network, one step at a time, in an
// order that a seed decides. After each step it looks whether the group kept its promises.
//
// What may happen at any step: a message is lost, doubled, late, or in another order; a link works one way or not at all; a node
// crashes, also in the middle of a write, and keeps any part of what was not synced; a disk fails; a clock is wrong; leadership is
// handed over; members come and go; the log is cut, so that a member needs a snapshot.
package sim

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log"
	"math/rand/v2"
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/sievekv/sievekv/internal/entry"
	"github.com/sievekv/sievekv/internal/member"
)

// Options say what a run does.
type Options struct {
	Members int  // of the group at first: 1 to 7
	Steps   int  // before everything is healed
	Damage  bool // logs and machines of a minority are lost, or replaced by older ones
}

// Result is what a run has found.
type Result struct {
	Steps, Crashes, Elections, Commits, Unknown, Snapshots, Changes, Reads, Refusals int
	Violation                                                                        error
	Trace                                                                            uint64 // equal runs have equal traces
}

// Choose returns what a seed is run with.
func Choose(seed uint64, damage bool) Options {
	rng := rand.New(rand.NewPCG(seed, 0xc0))
	return Options{Members: []int{1, 2, 3, 3, 3, 3, 5, 5}[rng.IntN(8)], Steps: 1000 + rng.IntN(4000), Damage: damage}
}

// Add adds what another run has found.
func (r *Result) Add(other Result) {
	r.Steps += other.Steps
	r.Crashes += other.Crashes
	r.Elections += other.Elections
	r.Commits += other.Commits
	r.Unknown += other.Unknown
	r.Snapshots += other.Snapshots
	r.Changes += other.Changes
	r.Reads += other.Reads
	r.Refusals += other.Refusals
}

func (r Result) String() string {
	return fmt.Sprintf("steps %d, crashes %d, elections %d, commits %d, unknown outcomes %d, snapshots %d, changes of members %d, reads %d, refusals %d",
		r.Steps, r.Crashes, r.Elections, r.Commits, r.Unknown, r.Snapshots, r.Changes, r.Reads, r.Refusals)
}

// maxHealing is the number of rounds in which a healed group must have a leader, and all members everything.
const maxHealing = 3000

// Run runs one seed. Only one goroutine of a process may run seeds: all of a process share the source that raft draws from.
func Run(seed uint64, o Options) Result {
	s := newSim(seed, o)
	for s.result.Steps = 0; s.result.Steps < o.Steps && s.err == nil; s.result.Steps++ {
		s.step()
	}
	if s.err == nil {
		s.heal()
	}
	s.result.Violation = s.err
	s.result.Trace = s.trace()
	s.result.Commits = len(s.truth.acked)
	s.result.Elections = len(s.truth.leaders)
	return s.result
}

type sim struct {
	rng   *rand.Rand
	o     Options
	now   int64
	nodes map[uint64]*node
	ids   []uint64 // of nodes, in the order in which they came
	air   []flight
	cut   map[[2]uint64]bool // links that lose everything, by sender and receiver
	truth *truth
	reads uint64
	quiet bool // nothing bad happens any more

	trouble int // percent of the steps that may be trouble that are
	result  Result
	err     error
}

// flight is a message on its way.
type flight struct {
	msg   *pb.Message
	state member.State // that a snapshot has
}

func newSim(seed uint64, o Options) *sim {
	s := &sim{
		rng: rand.New(rand.NewPCG(seed, 0x5e1e)), o: o, now: 1_700_000_000_000, truth: newTruth(),
		nodes: make(map[uint64]*node), cut: make(map[[2]uint64]bool),
	}
	setSource(s.rng)
	s.trouble = 10 + s.rng.IntN(90)
	first := member.State{Applied: entry.Applied{Index: 1, Term: 1, Hash: entry.First([16]byte{}), Millis: s.now}, Members: &pb.ConfState{}}
	for id := uint64(1); id <= uint64(o.Members); id++ {
		first.Members.Voters = append(first.Members.Voters, id)
	}
	for _, id := range first.Members.Voters {
		s.addNode(id, first)
	}
	return s
}

// fail notes the first violation.
func (s *sim) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf("step %d: "+format, append([]any{s.result.Steps}, args...)...)
	}
}

// trace returns a number that depends on everything that was applied where.
func (s *sim) trace() uint64 {
	h := fnv.New64a()
	for _, id := range s.ids {
		n := s.nodes[id]
		fmt.Fprint(h, id, n.m == nil, n.disk.machine[len(n.disk.machine)-1].Applied, len(s.air), s.result.Crashes)
	}
	return h.Sum64()
}

// node is a machine with a disk, on which a member runs or not.
type node struct {
	s       *sim
	id      uint64
	disk    *disk
	m       *member.Member // nil while it is down
	machine *machine
	clock   int64 // how far its clock is off, in milliseconds
	broken  error // why it must not start again
	damaged bool

	appends []*pb.Message // for Persist
	written []*pb.Message // their answers are to be delivered
	applies []*member.Task
	applied []*member.Task
	older   []older // earlier contents of its disk
	alarmed bool
}

type older struct {
	log     logState
	machine member.State
}

func (s *sim) addNode(id uint64, first member.State) *node {
	d := &disk{rng: s.rng, crashIn: -1, failIn: -1, machine: []member.State{first},
		log: []logState{{hs: &pb.HardState{Term: new(first.Term), Vote: new(uint64(0)), Commit: new(first.Index)}, before: first.Index, beforeTerm: first.Term}}}
	n := &node{s: s, id: id, disk: d}
	s.nodes[id] = n
	s.ids = append(s.ids, id)
	n.keepOlder()
	n.start()
	return n
}

var quietLogger = &raft.DefaultLogger{Logger: log.New(io.Discard, "", 0)}

// start starts the node's member. That may end in a crash, or with a failed disk.
func (n *node) start() {
	defer n.recover()
	n.machine = &machine{n: n}
	m, err := member.Start(member.Config{
		ID: n.id, Log: n.disk, Machine: n.machine, Panics: true, State: n.machine.State(), Level: 1, Logger: quietLogger, Proposals: n.s.rng.Uint64(),
		Now:   func() int64 { return n.s.now + n.clock },
		Alarm: func(err error) { n.alarm(err) },
	})
	switch {
	case errors.As(err, new(diskError)):
		n.crash()
	case err != nil:
		n.refuse(err)
	default:
		n.m = m
	}
}

// recover ends the member if a write of its disk has crashed.
func (n *node) recover() {
	if p := recover(); p != nil {
		if _, ok := p.(crash); !ok {
			panic(p)
		}
		n.crash()
	}
}

// alarm notes that the node refuses a leader.
func (n *node) alarm(err error) {
	n.alarmed = true
	n.s.result.Refusals++
	if !n.s.o.Damage {
		n.s.fail("node %d alarms though nothing was lost: %v", n.id, err)
	}
}

// refuse notes that a node does not go on.
func (n *node) refuse(err error) {
	n.broken = err
	n.s.result.Refusals++
	if !n.s.o.Damage {
		n.s.fail("node %d refuses though nothing was lost: %v", n.id, err)
	}
}

// crash ends the node's member. What it had not synced may be lost.
func (n *node) crash() {
	if n.m != nil {
		n.m.Fail(errors.New("crash"))
	}
	n.m, n.appends, n.written, n.applies, n.applied = nil, nil, nil, nil, nil
	n.disk.cut()
	n.s.result.Crashes++
}

// do does a step of the node's member, which may end in a crash, and takes over the work that comes of it.
func (n *node) do(step func()) {
	if n.m == nil {
		return
	}
	defer n.recover()
	step()
	for n.m != nil {
		w, ok := n.m.Ready()
		if !ok {
			break
		}
		n.appends = append(n.appends, w.Append...)
		n.applies = append(n.applies, w.Apply...)
		n.send(w.Send)
		n.tookReads(w.Reads)
	}
	n.lookWhetherFailed()
}

// lookWhetherFailed ends a member that has failed. A failed disk is repaired when the node starts again.
func (n *node) lookWhetherFailed() {
	if n.m == nil || n.m.Failed() == nil {
		return
	}
	err := n.m.Failed()
	if !errors.As(err, new(diskError)) {
		n.refuse(err)
	}
	n.crash()
}

func (n *node) send(messages []*pb.Message) {
	for _, msg := range messages {
		f := flight{msg: msg}
		if msg.GetType() == pb.MsgSnap { // it is made now
			f.state = n.m.State()
			f.msg = &pb.Message{Type: msg.Type, To: msg.To, From: msg.From, Term: msg.Term, Snapshot: &pb.Snapshot{
				Metadata: &pb.SnapshotMetadata{Index: new(f.state.Index), Term: new(f.state.Term), ConfState: f.state.Members}}}
			n.s.result.Snapshots++
		}
		n.s.air = append(n.s.air, f)
	}
}

// persist does the first few of the log's writes.
func (n *node) persist() {
	if len(n.appends) == 0 {
		return
	}
	k := 1 + n.s.rng.IntN(len(n.appends))
	work := n.appends[:k]
	n.keepOlder()
	n.do(func() {
		if n.m.Persist(work) == nil {
			n.appends, n.written = n.appends[k:], append(n.written, work...)
		}
	})
}

// deliver delivers the answers of a write that is done.
func (n *node) deliver() {
	if len(n.written) > 0 {
		n.do(func() {
			done := n.written[0]
			n.written = n.written[1:]
			n.send(n.m.Deliver(done.GetResponses()))
		})
	}
}

func (n *node) apply() {
	if len(n.applies) > 0 {
		n.do(func() {
			t := n.applies[0]
			if n.m.Apply(t) == nil {
				n.applies, n.applied = n.applies[1:], append(n.applied, t)
			}
		})
	}
}

func (n *node) deliverApplied() {
	if len(n.applied) > 0 {
		n.do(func() {
			t := n.applied[0]
			n.applied = n.applied[1:]
			n.m.DeliverApplied(t)
		})
	}
}

// receive takes a message out of the air, and loses it or not.
func (s *sim) receive(i int) {
	f := s.air[i]
	if !s.quiet && s.rng.IntN(50) == 0 {
		s.air = append(s.air, f) // twice
	}
	s.air[i] = s.air[len(s.air)-1]
	s.air = s.air[:len(s.air)-1]
	from, to := s.nodes[f.msg.GetFrom()], s.nodes[f.msg.GetTo()]
	lost := to == nil || to.m == nil || s.cut[[2]uint64{f.msg.GetFrom(), f.msg.GetTo()}] || !s.quiet && s.rng.IntN(20) == 0
	if f.msg.GetType() == pb.MsgSnap && from != nil && from.m != nil {
		status := raft.SnapshotFinish
		if lost {
			status = raft.SnapshotFailure
		}
		from.do(func() { from.m.ReportSnapshot(f.msg.GetTo(), status) })
	}
	if lost {
		return
	}
	if f.msg.GetType() == pb.MsgSnap {
		to.machine.staged = append(to.machine.staged, f.state)
	}
	to.do(func() { to.m.Step(f.msg) })
}

// pick returns a random node.
func (s *sim) pick() *node { return s.nodes[s.ids[s.rng.IntN(len(s.ids))]] }

// step does something.
func (s *sim) step() {
	n := s.pick()
	switch k := s.rng.IntN(1000); {
	case k < 90:
		s.now += member.TickMillis / int64(len(s.ids))
		n.do(func() { n.m.Tick() })
	case k < 400:
		for range 1 + s.rng.IntN(3) {
			if len(s.air) > 0 {
				s.receive(s.rng.IntN(len(s.air)))
			}
		}
	case k < 560:
		n.persist()
	case k < 720:
		n.deliver()
	case k < 830:
		n.apply()
	case k < 910:
		n.deliverApplied()
	case k < 960:
		s.propose()
	case k < 970:
		s.read(n)
	case k < 975:
		n.truncate()
	case k < 980:
		n.disk.syncMachine()
	default:
		if s.rng.IntN(100) < s.trouble {
			s.makeTrouble(n)
		}
	}
}

// makeTrouble does something that a group has to stand.
func (s *sim) makeTrouble(n *node) {
	if s.o.Damage && s.rng.IntN(3) == 0 {
		s.damage(n)
		return
	}
	switch k := s.rng.IntN(100); {
	case k < 14:
		s.partition()
	case k < 30:
		clear(s.cut)
	case k < 40:
		n.crash()
	case k < 52:
		n.disk.crashIn = s.rng.IntN(8)
	case k < 56:
		n.disk.failIn = s.rng.IntN(8)
	case k < 82:
		for _, id := range s.ids {
			if s.rng.IntN(2) == 0 {
				s.nodes[id].restart()
			}
		}
	case k < 85:
		n.clock = s.rng.Int64N(172_800_000) - 86_400_000
	case k < 92:
		s.change()
	case k < 96:
		to := s.pick()
		for _, id := range s.ids {
			from := s.nodes[id]
			from.do(func() { from.m.Transfer(to.id) })
		}
	default:
		n.do(func() { n.m.Campaign() })
	}
}

// restart starts a node that is down.
func (n *node) restart() {
	if n.m == nil && n.broken == nil {
		n.start()
		n.do(func() {})
	}
}

// partition cuts links: around one node, in halves, one way, or between two.
func (s *sim) partition() {
	one := s.pick().id
	way := s.rng.IntN(4)
	for _, a := range s.ids {
		for _, b := range s.ids {
			cut := false
			switch way {
			case 0:
				cut = a == one || b == one
			case 1:
				cut = a == one
			case 2:
				cut = b == one
			case 3:
				cut = s.rng.IntN(3) == 0
			}
			if cut {
				s.cut[[2]uint64{a, b}] = true
			}
		}
	}
}

// keepOlder keeps what the disk has, for damage.
func (n *node) keepOlder() {
	if n.s.o.Damage && (len(n.older) == 0 || n.s.rng.IntN(30) == 0) {
		n.older = append(n.older, older{n.disk.log[0], n.disk.machine[0]})
	}
}

// truncate cuts the log as far as the machine is synced.
func (n *node) truncate() {
	n.do(func() { _ = n.m.Truncate(n.m.Truncatable(n.disk.synced().Index)) }) // the member fails on an error
}

// change proposes a change of the members to whoever leads: a learner is added, one becomes a voter, or a member is removed.
func (s *sim) change() {
	for _, id := range s.ids {
		n := s.nodes[id]
		if n.m == nil || n.machine.leads == 0 {
			continue
		}
		now := n.m.State().Members
		var c pb.ConfChangeSingle
		switch {
		case len(now.GetLearners()) > 0:
			c = pb.ConfChangeSingle{Type: pb.ConfChangeAddNode.Enum(), NodeId: new(now.GetLearners()[0])}
		case len(now.GetVoters()) > 3 || s.rng.IntN(3) == 0 && len(now.GetVoters()) > 1:
			c = pb.ConfChangeSingle{Type: pb.ConfChangeRemoveNode.Enum(), NodeId: new(now.GetVoters()[s.rng.IntN(len(now.GetVoters()))])}
		case len(s.ids) < 9 && !s.o.Damage:
			// It starts from a snapshot of the leader, as a new member does.
			added := s.addNode(uint64(len(s.ids)+1), n.m.State())
			c = pb.ConfChangeSingle{Type: pb.ConfChangeAddLearnerNode.Enum(), NodeId: new(added.id)}
		default:
			return
		}
		n.do(func() {
			if n.m.Change(&pb.ConfChangeV2{Changes: []*pb.ConfChangeSingle{&c}}) == nil {
				s.result.Changes++
			}
		})
		return
	}
}

// damage ends a node, and replaces the log or the machine of a node by an older one, or by nothing. It hits a minority.
func (s *sim) damage(n *node) {
	damaged := 0
	for _, id := range s.ids {
		if s.nodes[id].damaged {
			damaged++
		}
	}
	if n.broken != nil || !n.damaged && damaged+1 > (len(s.ids)-1)/2 {
		return
	}
	if n.m != nil {
		n.crash()
	}
	n.damaged = true
	old := n.older[0]
	if k := s.rng.IntN(2 * len(n.older)); k < len(n.older) {
		old = n.older[k]
	}
	switch s.rng.IntN(3) {
	case 0:
		n.disk.log = []logState{old.log}
	case 1:
		n.disk.machine = []member.State{old.machine}
	case 2:
		n.disk.log, n.disk.machine = []logState{old.log}, []member.State{old.machine}
	}
}

// heal ends all trouble, and then the group must have a leader, commit, and be equal everywhere.
func (s *sim) heal() {
	s.quiet = true
	clear(s.cut)
	for _, id := range s.ids {
		n := s.nodes[id]
		n.disk.crashIn, n.disk.failIn, n.clock = -1, -1, 0
		n.restart()
	}
	last := ""
	for range maxHealing {
		if s.err != nil {
			return
		}
		s.round()
		if last == "" || s.truth.outcome[last] != open && s.truth.outcome[last] != acked {
			last = s.propose()
		} else if s.truth.outcome[last] == acked && s.equal() {
			s.ask()
			return
		}
	}
	if !s.o.Damage {
		s.fail("the healed group has no leader that commits, or members that lack something")
	} else {
		s.differ()
	}
}

// round has each node tick, and do everything that it then has to do.
func (s *sim) round() {
	s.now += member.TickMillis
	for _, id := range s.ids {
		n := s.nodes[id]
		n.do(func() { n.m.Tick() })
		n.work()
	}
	for i := 0; len(s.air) > 0 && i < 1000; i++ {
		s.receive(s.rng.IntN(len(s.air)))
		for _, id := range s.ids {
			s.nodes[id].work()
		}
	}
}

// ask fails if somebody still waits for the outcome of a proposal.
func (s *sim) ask() {
	for n := range s.truth.number {
		if record := fmt.Sprint(n + 1); s.truth.outcome[record] == open {
			s.fail("nobody says what became of record %s", record)
		}
	}
}

// work does everything that a node has to do.
func (n *node) work() {
	for n.m != nil && len(n.appends)+len(n.written)+len(n.applies)+len(n.applied) > 0 {
		n.persist()
		n.deliver()
		n.apply()
		n.deliverApplied()
	}
}

// equal reports whether all members that run have applied the same.
func (s *sim) equal() bool {
	var all []entry.Applied
	for _, id := range s.members() {
		if n := s.nodes[id]; n.m != nil {
			all = append(all, n.m.State().Applied)
		} else if n.broken == nil {
			return false
		}
	}
	return len(all) > 0 && !slices.ContainsFunc(all, func(a entry.Applied) bool { return a != all[0] })
}

// members returns the members as the most advanced machine has them.
func (s *sim) members() []uint64 {
	var best member.State
	for _, id := range s.ids {
		if n := s.nodes[id]; n.m != nil && n.m.State().Index > best.Index {
			best = n.m.State()
		}
	}
	return append(slices.Clone(best.Members.GetVoters()), best.Members.GetLearners()...)
}

// differ fails if two members that run, and have not said that anything is wrong, have applied different entries at one index.
func (s *sim) differ() {
	for _, id := range s.members() {
		n := s.nodes[id]
		if n.m == nil || n.alarmed {
			continue
		}
		if at := n.m.State(); s.truth.entries[at.Index] != nil && !slices.Contains(s.truth.entries[at.Index], at.Hash) {
			s.fail("node %d has hash %x at %d, which nobody else has", id, at.Hash, at.Index)
		}
	}
}
