// Package member is one member of a group of stores: raft (go.etcd.io/raft/v3), its log, and the machine that the log is applied
// to. It has no goroutine, no clock, no network and no disk of its own, so that a simulation can take each of its steps in any
// order, and crash between any two (tests/cluster).
//
// # Terms
//
//   - entry: one element of raft's log. Most are messages (package entry), each of them one commit.
//   - applied: the machine has the entry. It may lose it again when the power fails: the log has it.
//   - leading: raft has elected this member in a term. The machine leads from when it has applied the empty entry by which the
//     term begins, until it is told that the term is over.
//
// # Three goroutines
//
// Raft runs with AsyncStorageWrites: it hands out work, and hears later that the work is done. Each part of the work has a
// goroutine of its own, which takes it in order:
//
//   - raft's calls Tick, Step, Propose, Ready, Deliver and all other methods that do not say otherwise;
//   - the log's calls Persist;
//   - the applier's calls Apply.
//
// # Why an acknowledged commit is never lost
//
// A member acknowledges an entry, or a vote, only with messages that raft attaches to the writing of it. They are
// delivered after Persist has returned, so after a sync. The first error of the log ends the member: no write is tried
// again, and nothing is acknowledged after it. An entry is committed when a majority has acknowledged it, and every
// later leader has it.
//
// The machine is not synced. After a crash it is older than the log, and applies again what it lost. It has the applied
// index in the same batch as the entry's changes, so it applies each entry once. The log is cut only below the index
// that the machine has synced.
//
// # What a member refuses
//
// Raft trusts the disks. A member does not: any sign that a log has lost what it had acknowledged ends the member, or
// makes it refuse a leader, so that no two stores differ. The checks are in checkStart (a store and a log that do not
// belong together), suspect (another member whose log lost something) and apply (stores that differ).
package member

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"

	"github.com/sievekv/sievekv/internal/entry"
)

// Log is where a member keeps raft's entries. Its methods are as in raft.Storage where they have the same names. Raft's
// goroutine reads while the log's writes. After an error of a write the log accepts no other.
type Log interface {
	HardState() *pb.HardState
	FirstIndex() (uint64, error)
	LastIndex() (uint64, error)
	Term(index uint64) (uint64, error)
	Entries(lo, hi, maxSize uint64) ([]*pb.Entry, error)

	// Append adds entries, and replaces the hard state unless it is nil, both or neither. Entries at and above the first of them
	// are gone. If sync is set they are on stable storage when Append returns, and so is everything appended before.
	Append(entries []*pb.Entry, hs *pb.HardState, sync bool) error

	// Truncate removes the entries up to an index. The log still knows the term of the last one.
	Truncate(index uint64) error

	// Installing notes that a snapshot up to an index is about to replace the machine's state. Reset ends that: the log is empty
	// and goes on after an index, which is committed; the hard state stays as it is if it is nil. Both are on stable storage when they
	// return. Installed returns what was noted, 0 if nothing.
	Installing(index uint64) error
	Reset(index, term uint64, hs *pb.HardState) error
	Installed() uint64
}

// State is the place up to which a machine has applied the log, and the members at that place. Its holders must not
// change it.
type State struct {
	entry.Applied
	Members *pb.ConfState
}

// Machine is what the log is applied to. One goroutine at a time calls it.
type Machine interface {
	// Apply makes the change of an entry, and stores the state after it, in one batch.
	Apply(e *Entry) error

	// Install replaces everything by a snapshot that was received before, with the state that it has.
	Install(*pb.SnapshotMetadata) (State, error)

	// Lead says that this member leads, and has applied everything of earlier leaderships: proposals may be made.
	// Follow says that it no longer does: the machine forgets what was not applied.
	Lead(Leadership) error
	Follow() error
}

// Leadership is the time between a call of Lead and one of Follow. Most terms of a leader have one.
type Leadership struct {
	Term   uint64
	Number uint64 // among the leaderships of this process
}

// Entry is an entry to be applied.
type Entry struct {
	State   State          // after it
	Message *entry.Message // nil for an entry of raft itself
	Own     bool           // this member has proposed it while it leads in the present term
	Changes bool           // it changes the members
	Change  []byte         // what a change of the members says besides
}

// Config is what a member is made of.
type Config struct {
	ID      uint64 // random, never used again; not 0
	Log     Log
	Machine Machine
	State   State        // what the machine has stored
	Level   byte         // the highest format level that this program understands
	Now     func() int64 // milliseconds since 1970
	Logger  raft.Logger

	// Proposals is random. The ids of this member's proposals count up from it, so that proposals of other members, and
	// of earlier processes, have other ids.
	Proposals uint64

	Panics bool        // a panic of the machine goes on; otherwise it ends the member
	Alarm  func(error) // is told of leaders that are refused; called by raft's goroutine
}

// Tick must be called every TickMillis milliseconds. A member that hears of no leader for electionTicks to twice that
// begins an election.
const (
	TickMillis     = 50
	electionTicks  = 10
	heartbeatTicks = 1
)

const (
	maxMessageSize = 1 << 20  // of the entries in a message to another member, unless it is a single one
	maxInFlight    = 64       // messages to a member that it has not answered yet
	maxApplying    = 64 << 20 // bytes of entries that are being applied
)

// Member is a member of a group.
type Member struct {
	id       uint64
	level    byte
	recovers bool // a panic of the machine is an error
	log      Log
	machine  Machine
	now      func() int64
	alarm    func(error)

	failed  atomic.Pointer[error]
	state   atomic.Pointer[State] // of the machine; written with applying held
	tickets tickets

	// Raft's goroutine only.
	node       *raft.RawNode
	leading    uint64  // the term in which raft leads, as the applier is told; else 0
	paused     uint64  // number of the leadership that is over because raft dropped a proposal
	restored   uint64  // index of the last snapshot whose members raft has taken over
	resuming   uint64  // number of the leadership that resume has ended
	pausedTerm uint64  // of the leadership that is paused
	sent       uint64  // the last index that was sent to any member in that term
	changing   uint64  // index of a change of the members that this leader has put into the log, and raft has not taken over yet; else 0
	held       []held  // proposals that wait for it
	refused    refused // the leader that is refused

	leadership atomic.Uint64 // number of the last one; written by the applier
	leadsNow   atomic.Uint64 // leading, for the applier, which may be far behind

	applying sync.Mutex // guards the machine, and what follows
	leads    uint64     // the term in which the machine leads, else 0
	hashes   hashes
}

// Start makes a member of a log and a machine that belong together. It finishes the installation of a snapshot that a crash has
// cut. The error wraps ErrRefused if the log or the machine has lost something.
func Start(c Config) (*Member, error) {
	m := &Member{id: c.ID, level: c.Level, recovers: !c.Panics, log: c.Log, machine: c.Machine, now: c.Now, alarm: c.Alarm}
	state := c.State
	if err := finishInstalling(c.Log, state); err != nil {
		return nil, err
	}
	if err := checkStart(c.Log, state); err != nil {
		return nil, err
	}
	m.setState(state)
	m.hashes.add(entry.At(state.Applied))
	m.tickets.last = c.Proposals
	var err error
	m.node, err = raft.NewRawNode(&raft.Config{
		ID: c.ID, Storage: storage{c.Log, m}, Applied: state.Index, AsyncStorageWrites: true,
		ElectionTick: electionTicks, HeartbeatTick: heartbeatTicks, PreVote: true, CheckQuorum: true,
		ReadOnlyOption: raft.ReadOnlySafe, DisableProposalForwarding: true, StepDownOnRemoval: true,
		MaxSizePerMsg: maxMessageSize, MaxInflightMsgs: maxInFlight, MaxCommittedSizePerReady: maxApplying,
		Logger: c.Logger,
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// finishInstalling ends what Persist had begun when the process ended: the machine has the snapshot or not, and the log has to fit.
func finishInstalling(log Log, state State) error {
	index := log.Installed()
	if index == 0 {
		return nil
	}
	if state.Index >= index { // it has it, and the log is as it was before
		return log.Reset(state.Index, state.Term, nil)
	}
	return log.Installing(0)
}

// Check returns the error with which Start would refuse a log and a machine.
func Check(log Log, state State) error { return checkStart(log, state) }

// checkStart refuses a log and a machine that do not belong together. Raft would go on with them, and acknowledge
// entries that are gone.
func checkStart(log Log, state State) error {
	first, err := log.FirstIndex()
	if err != nil {
		return err
	}
	last, err := log.LastIndex()
	if err != nil {
		return err
	}
	if state.Index > last {
		return refusedf("the store has applied the log up to index %d, but the log ends at %d: the log has lost entries, or is another's", state.Index, last)
	}
	if state.Index+1 < first {
		return refusedf("the store has applied the log up to index %d, but the log begins at %d: the store is an older one", state.Index, first)
	}
	term, err := log.Term(state.Index)
	if err != nil {
		return err
	}
	if term != state.Term {
		return refusedf("the store has applied index %d in term %d, but the log has term %d there: the log is an older one, or another's", state.Index, state.Term, term)
	}
	if commit := log.HardState().GetCommit(); commit > last {
		return refusedf("the log says that index %d is committed, but ends at %d: it has lost entries", commit, last)
	}
	return nil
}

// Fail ends the member: it answers nothing from now on, and callers that wait hear that the outcome is unknown. Any
// goroutine may call it.
func (m *Member) Fail(err error) {
	if m.failed.CompareAndSwap(nil, &err) {
		m.tickets.failAll(ErrOutcomeUnknown)
	}
}

// Failed returns why the member has ended, nil if it has not. Any goroutine may call it.
func (m *Member) Failed() error {
	if err := m.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// guard runs a step of raft's. Raft panics when it finds that its log was lost or damaged. That ends the member, not the program.
func (m *Member) guard(step func() error) {
	if m.Failed() != nil {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			m.Fail(refusedf("raft: %v", p))
		}
	}()
	if err := step(); err != nil {
		m.Fail(err)
	}
}

// State returns what the machine has applied. Any goroutine may call it.
func (m *Member) State() State { return *m.state.Load() }

func (m *Member) setState(s State) { m.state.Store(&s) }

// ID returns the member's id.
func (m *Member) ID() uint64 { return m.id }

// CaughtUp returns the learners whose logs reach an index, if this member leads.
func (m *Member) CaughtUp(index uint64) (ids []uint64) {
	m.guard(func() error {
		if m.leadingTerm() != 0 {
			m.node.WithProgress(func(id uint64, typ raft.ProgressType, p tracker.Progress) {
				if typ == raft.ProgressTypeLearner && p.RecentActive && p.Match >= index {
					ids = append(ids, id)
				}
			})
		}
		return nil
	})
	return ids
}

// BasicStatus returns the part of Status that costs nothing.
func (m *Member) BasicStatus() raft.BasicStatus { return m.node.BasicStatus() }

// Status returns what raft knows.
func (m *Member) Status() raft.Status { return m.node.Status() }

// The errors of a member.
var (
	// ErrRefused is wrapped by every error that says that a log or a store has lost something.
	ErrRefused = errors.New("refused")
	// ErrNotLeader says that a proposal was not put into the log, and never will be.
	ErrNotLeader = errors.New("not the leader")
	// ErrOutcomeUnknown says that a proposal is in the log, and may or may not be committed.
	ErrOutcomeUnknown = errors.New("the outcome is unknown")
)

func refusedf(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrRefused}, args...)...)
}

// storage is the log and the machine as raft sees them.
type storage struct {
	Log
	m *Member
}

// InitialState implements raft.Storage. What is applied was committed, even if the log does not say so: the commit index is
// written without a sync.
func (s storage) InitialState() (*pb.HardState, *pb.ConfState, error) {
	state := s.m.State()
	hs := s.HardState()
	if hs.GetCommit() < state.Index {
		hs = &pb.HardState{Term: new(max(hs.GetTerm(), state.Term)), Vote: new(hs.GetVote()), Commit: new(state.Index)}
	}
	return hs, state.Members, nil
}

// Snapshot implements raft.Storage: a snapshot is of the machine as it is, and is made when it is sent.
func (s storage) Snapshot() (*pb.Snapshot, error) {
	state := s.m.State()
	return &pb.Snapshot{Metadata: &pb.SnapshotMetadata{Index: new(state.Index), Term: new(state.Term), ConfState: state.Members}}, nil
}
