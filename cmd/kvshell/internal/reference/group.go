package reference

import (
	"context"
	"strings"
	"time"

	"github.com/sievekv/sievekv/internal/cluster"
	"github.com/sievekv/sievekv/replica"
	"github.com/sievekv/sievekv/replica/admin"
)

// groupOfOne is the group of the store in which the examples of a group's commands run: it has no other members.
type groupOfOne struct{}

const appliedIndex = 12

// Status implements cluster.Group.
func (groupOfOne) Status() *cluster.Status {
	id := strings.Repeat("a1", 20)
	return &cluster.Status{
		Shard: strings.Repeat("5e", 20), Self: id, Leader: id, LastLeader: id, Term: 1,
		Members: []cluster.Member{{
			ID: id, Name: "a", Client: "10.0.0.1:6380", Peer: "10.0.0.1:7380", Healthy: true, Applied: appliedIndex,
		}},
	}
}

// AppliedIndex implements cluster.Group.
func (groupOfOne) AppliedIndex() uint64 { return appliedIndex }

// CommittedIndex implements cluster.Group.
func (groupOfOne) CommittedIndex() uint64 { return appliedIndex }

// ReadIndex implements cluster.Group.
func (groupOfOne) ReadIndex(context.Context) (uint64, error) { return appliedIndex, nil }

// AwaitApplied implements cluster.Group.
func (groupOfOne) AwaitApplied(context.Context, uint64) error { return nil }

// Replicated implements cluster.Group.
func (groupOfOne) Replicated(context.Context, int) int { return 0 }

// member is the only member of that group, for an operator. An example that changed the group would panic.
type member struct{ admin.Node }

func nodeOfOne() admin.Node { return member{} }

// Status implements admin.Node.
func (member) Status() *replica.Status {
	return &replica.Status{
		Self: 0xa1, Leader: 0xa1, Leads: true, Term: 1, Applied: appliedIndex, Commit: appliedIndex, Level: 2,
		Members: []replica.MemberStatus{{Info: replica.Info{ID: 0xa1, Name: "a", Peer: "10.0.0.1:7380", Client: "10.0.0.1:6380"}, Healthy: true, Log: appliedIndex, ClockKnown: true, LogTime: 5 * time.Millisecond, LogTimeKnown: true}},
	}
}
