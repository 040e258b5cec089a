package sim

import (
	crand "crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/sievekv/sievekv/internal/entry"
	"github.com/sievekv/sievekv/internal/member"
)

// truth is what the group has promised so far.
type truth struct {
	leaders map[uint64]uint64            // the member that led in a term, by its machine
	entries map[uint64][]entry.Hash      // of each index, the hashes with which it was applied: one, unless a disk lost something
	at      map[string]uint64            // of each record, the index at which it was applied
	outcome map[string]outcome           // of each proposal
	made    map[string]member.Leadership // in which each was made
	acked   []string
	last    uint64 // the highest index of an acknowledged proposal
	asked   map[string]uint64
	number  int
}

type outcome int

const (
	open outcome = iota
	acked
	refused
	unknown
)

func newTruth() *truth {
	return &truth{
		leaders: make(map[uint64]uint64), entries: make(map[uint64][]entry.Hash), at: make(map[string]uint64),
		outcome: make(map[string]outcome), made: make(map[string]member.Leadership), asked: make(map[string]uint64),
	}
}

// machine is what a node's log is applied to. It keeps nothing but the state: the hash stands for the content.
type machine struct {
	n      *node
	leads  uint64
	staged []member.State // snapshots that were received

	leadership member.Leadership // the last one
	refusedAt  int               // number of the first record of it that was refused, 0 for none
}

func (x *machine) State() member.State { return x.n.disk.machine[len(x.n.disk.machine)-1] }

// Apply implements member.Machine.
func (x *machine) Apply(e *member.Entry) error {
	s := x.n.s
	if now := x.State(); e.State.Index != now.Index+1 {
		s.fail("node %d applies index %d after %d", x.n.id, e.State.Index, now.Index)
	}
	if x.leads != 0 && e.Message != nil && !e.Own {
		s.fail("node %d leads in term %d, and is to apply a message of another at %d", x.n.id, x.leads, e.State.Index)
	}
	if e.Own && len(e.Message.Record) > 0 && s.truth.made[string(e.Message.Record)] != x.leadership {
		s.fail("node %d is in leadership %+v, and takes record %s of another for its own", x.n.id, x.leadership, e.Message.Record)
	}
	s.truth.applied(s, x.n, e)
	return x.n.disk.write(func() { x.n.disk.machine = append(x.n.disk.machine, e.State) })
}

// applied compares an entry that a node applies with what others have applied.
func (t *truth) applied(s *sim, n *node, e *member.Entry) {
	i := e.State.Index
	if known := t.entries[i]; !slices.Contains(known, e.State.Hash) {
		if len(known) > 0 && !s.o.Damage {
			s.fail("node %d applies another entry at index %d than others", n.id, i)
		}
		t.entries[i] = append(known, e.State.Hash)
	}
	if e.Message == nil || e.Message.Flags&entry.Control != 0 {
		return
	}
	record := string(e.Message.Record)
	if before, ok := t.at[record]; ok && before != i && !s.o.Damage {
		s.fail("record %s is applied at %d and at %d", record, before, i)
	}
	t.at[record] = i
	if t.outcome[record] == refused {
		s.fail("record %s was refused, and is applied at %d", record, i)
	}
}

// Install implements member.Machine.
func (x *machine) Install(meta *pb.SnapshotMetadata) (member.State, error) {
	for _, state := range x.staged {
		if state.Index == meta.GetIndex() && state.Term == meta.GetTerm() {
			d := x.n.disk
			err := d.write(func() { d.machine = append(d.machine, state) })
			if err == nil {
				err = d.write(d.syncMachine)
			}
			return state, err
		}
	}
	return member.State{}, fmt.Errorf("no snapshot of index %d", meta.GetIndex())
}

// Lead implements member.Machine.
func (x *machine) Lead(l member.Leadership) error {
	s, t, term := x.n.s, x.n.s.truth, l.Term
	if x.leads != 0 {
		s.fail("node %d is told twice that it leads", x.n.id)
	}
	if who, ok := t.leaders[term]; ok && who != x.n.id && !s.o.Damage {
		s.fail("nodes %d and %d lead in term %d", who, x.n.id, term)
	}
	t.leaders[term] = x.n.id
	if at := x.State().Index; at < t.last && !s.o.Damage {
		s.fail("node %d leads in term %d with index %d, but index %d was acknowledged", x.n.id, term, at, t.last)
	}
	x.leads, x.leadership, x.refusedAt = term, l, 0
	return nil
}

// Follow implements member.Machine.
func (x *machine) Follow() error {
	if x.leads == 0 {
		x.n.s.fail("node %d is told twice that it does not lead", x.n.id)
	}
	x.leads = 0
	return nil
}

// propose has one that leads, or believes so, propose something. It returns the record, "" if nobody leads.
func (s *sim) propose() (record string) {
	start := s.rng.IntN(len(s.ids))
	for i := range s.ids {
		n := s.nodes[s.ids[(start+i)%len(s.ids)]]
		if n.m == nil || n.machine.leads == 0 {
			continue
		}
		s.truth.number++
		record = fmt.Sprint(s.truth.number)
		made, machine, number := n.machine.leadership, n.machine, s.truth.number
		s.truth.made[record] = made
		if s.rng.IntN(20) == 0 { // made of an earlier state
			made.Term -= uint64(s.rng.IntN(2))
			made.Number--
		}
		n.do(func() {
			n.m.Propose(member.Proposal{Leadership: made, Flags: entry.Group, Record: []byte(record), Done: func(err error) {
				s.ended(record, err)
				if errors.Is(err, member.ErrNotLeader) && made == machine.leadership && machine.refusedAt == 0 {
					machine.refusedAt = number
				}
				if err == nil && made == machine.leadership && machine.refusedAt != 0 && machine.refusedAt < number {
					s.fail("record %d is committed, though record %d of the same leadership, which it may rest on, was refused", number, machine.refusedAt)
				}
			}})
		})
		return record
	}
	return ""
}

// ended notes the outcome of a proposal.
func (s *sim) ended(record string, err error) {
	t := s.truth
	if t.outcome[record] != open {
		s.fail("record %s has two outcomes", record)
	}
	switch {
	case err == nil:
		t.outcome[record] = acked
		t.acked = append(t.acked, record)
		at, ok := t.at[record]
		if !ok {
			s.fail("record %s is acknowledged, and was not applied", record)
		}
		t.last = max(t.last, at)
	case errors.Is(err, member.ErrNotLeader):
		t.outcome[record] = refused
		if at, ok := t.at[record]; ok {
			s.fail("record %s is refused, and was applied at %d", record, at)
		}
	case errors.Is(err, member.ErrOutcomeUnknown):
		t.outcome[record] = unknown
		s.result.Unknown++
	default:
		s.fail("record %s has the outcome %v", record, err)
	}
}

// read asks a node for an index that is as new as now.
func (s *sim) read(n *node) {
	s.reads++
	key := binary.BigEndian.AppendUint64(nil, s.reads)
	s.truth.asked[string(key)] = s.truth.last
	n.do(func() { n.m.ReadIndex(key) })
}

func (n *node) tookReads(reads []raft.ReadState) {
	for _, r := range reads {
		want, ok := n.s.truth.asked[string(r.RequestCtx)]
		if !ok {
			n.s.fail("node %d is told of a read that nobody asked for", n.id)
		}
		if r.Index < want && !n.s.o.Damage {
			n.s.fail("node %d may read at index %d, but index %d was acknowledged before it asked", n.id, r.Index, want)
		}
		n.s.result.Reads++
	}
}

// setSource has raft draw its election timeouts from a seed: it takes them from crypto/rand.
func setSource(rng *rand.Rand) { crand.Reader = source{rng} }

type source struct{ rng *rand.Rand }

func (s source) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(s.rng.Uint32())
	}
	return len(b), nil
}
