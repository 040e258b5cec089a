package cluster

import (
	"context"
	"net"
	"strconv"
	"time"
)

// Group is the group that a store belongs to, for the server of that store. All methods may be called by any goroutine,
// several at a time, from before the first connection until the server's Shutdown has returned.
type Group interface {
	// Status returns the group as this member knows it. Connections call it for every command, so it must not block, and
	// must cost no more than an atomic load. It is never nil, and neither side changes what it points to: a member that
	// learns something new makes another one.
	//
	// A member makes a new Status at once when it gains or loses the lead, learns of another leader, of another term, or of
	// a change among the members. Healthy and Applied of the members may be a second old.
	Status() *Status

	// AppliedIndex returns the index of the last message that this member has applied. Lookups that begin afterwards see
	// that message. It must not block. It never falls.
	AppliedIndex() uint64

	// CommittedIndex returns the last index that this member knows to be committed: at least AppliedIndex, and on a member
	// that is cut off possibly long past. It must not block.
	CommittedIndex() uint64

	// ReadIndex returns an index so that a lookup on any member that has applied it sees every write that was
	// acknowledged anywhere before the call. It asks a majority, and so may block until ctx ends. Its error says why
	// there is no answer: ctx has ended, or no leader is known.
	ReadIndex(ctx context.Context) (uint64, error)

	// AwaitApplied returns nil once AppliedIndex is at least index, or the error of ctx when that ends first.
	AwaitApplied(ctx context.Context, index uint64) error

	// Replicated returns how many other members have on stable storage everything that this member, which leads, had in
	// memory at the call, also what it had not proposed yet. It waits until at least the wanted number have it, or ctx
	// ends; if ctx has ended, it answers at once. A member that does not lead answers 0.
	Replicated(ctx context.Context, wanted int) int
}

// Status is a group at one moment, as a member knows it.
type Status struct {
	// Shard names the group: 40 lower-case hexadecimal digits that no other group has.
	Shard string

	// Self is the ID of the member that knows this.
	Self string

	// Leader is the ID of the member that takes writes, "" if none is known. It is Self only while the store takes writes: a
	// member that was elected and has not applied the first entry of its term yet knows no leader.
	Leader string

	// LastLeader is the ID of the last leader that was known, Leader if there is one; "" if none has been known.
	LastLeader string

	// Since is when this member learned of Leader, or of there being none.
	Since time.Time

	// Term is the term that the member is in.
	Term uint64

	// ClockAhead is by how much the clock of this member is ahead of the time that the clocks of a majority have reached, if ClockKnown.
	ClockAhead time.Duration
	ClockKnown bool

	// LogTime is a time that 99 of 100 writes of this member's log, with their syncs, did not exceed in the last 10 seconds; 0 if there
	// was none.
	LogTime time.Duration

	// Members are all members, Self among them, in an order that is the same on each of them.
	Members []Member

	// Alarm says that this member has refused a leader or a vote since it was started, or has ended.
	Alarm bool

	// LogBytes is the size of the entries in this member's log. It may be a second old.
	LogBytes uint64
}

// Member is a member of a group.
type Member struct {
	// ID has 40 lower-case hexadecimal digits, and belongs to this member for ever.
	ID string

	// Name is what people call it.
	Name string

	// Client is where clients reach the member's server, host:port, in a form that is right for clients on other machines.
	// Peer is where other members reach it.
	Client, Peer string

	// Learner says that the member does not vote.
	Learner bool

	// Healthy says that the leader has heard from the member within an election timeout. On other members it only says
	// that this one knows nothing else. Self is always healthy.
	Healthy bool

	// Applied is the last index that it is known to have, 0 if none is known: a leader knows what is in the others' logs, a
	// follower knows only itself.
	Applied uint64
}

// Leads reports whether the member itself takes writes.
func (s *Status) Leads() bool { return s.Leader == s.Self }

// Member returns the member with an ID, nil if there is none.
func (s *Status) Member(id string) *Member {
	for i := range s.Members {
		if s.Members[i].ID == id {
			return &s.Members[i]
		}
	}
	return nil
}

// Leading returns the member that leads, nil if none is known.
func (s *Status) Leading() *Member {
	if s.Leader == "" {
		return nil
	}
	return s.Member(s.Leader)
}

// Others counts the voters among the members besides Self, and the healthy ones among all of these members.
func (s *Status) Others() (voters, healthy int) {
	for i := range s.Members {
		m := &s.Members[i]
		if m.ID == s.Self {
			continue
		}
		if !m.Learner {
			voters++
		}
		if m.Healthy {
			healthy++
		}
	}
	return voters, healthy
}

// HostPort returns the two parts of an address, as clients are told them: an address of IPv6 without brackets. The port is
// 0 if there is none.
func HostPort(address string) (host string, port int) {
	host, digits, err := net.SplitHostPort(address)
	if err != nil {
		return address, 0
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil {
		return host, 0
	}
	return host, int(n)
}
