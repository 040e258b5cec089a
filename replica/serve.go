package replica

import (
	"context"
	"encoding/hex"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sievekv/sievekv/internal/cluster"
)

// Group returns the group for a server of the member's store (server.Options.Group). The store must be opened with
// server.Module and server.GroupModule in Options.Store.Modules.
func (n *Node) Group() cluster.Group { return &served{Node: n} }

// served is a group as a server knows it.
type served struct {
	*Node

	mu   sync.Mutex // held while the next one is made
	last atomic.Pointer[translated]
}

// translated is a Status in the words of the server.
type translated struct {
	from *Status
	to   *cluster.Status
}

// Status implements cluster.Group. It translates each Status once.
func (s *served) Status() *cluster.Status {
	from := s.Node.Status()
	if last := s.last.Load(); last != nil && last.from == from {
		return last.to
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	from = s.Node.Status()
	last := s.last.Load()
	if last == nil || last.from != from {
		last = &translated{from, translate(from, last)}
		s.last.Store(last)
	}
	return last.to
}

// AppliedIndex implements cluster.Group.
func (s *served) AppliedIndex() uint64 { return s.waiting.applied() }

// CommittedIndex implements cluster.Group.
func (s *served) CommittedIndex() uint64 { return s.Node.Status().Commit }

// Replicated implements cluster.Group.
func (s *served) Replicated(ctx context.Context, wanted int) int {
	return s.Node.Replicated(ctx, wanted)
}

// translate returns a Status in the words of the server. before is the last one, nil for the first.
func translate(from *Status, before *translated) *cluster.Status {
	to := &cluster.Status{
		Shard: hex.EncodeToString(from.Group[:]) + "00000000", Self: nodeID(from.Self), Leader: nodeID(from.Leader), Term: from.Term, Since: time.Now(),
		Alarm: from.Alarm != nil, LogBytes: from.LogBytes,
	}
	to.LastLeader = to.Leader
	if before != nil && to.Leader == "" {
		to.LastLeader = before.to.LastLeader
	}
	if before != nil && to.Leader == before.to.Leader {
		to.Since = before.to.Since
	}
	for _, m := range from.Members {
		applied := m.Log
		if m.ID == from.Self {
			applied, to.ClockAhead, to.ClockKnown, to.LogTime = from.Applied, m.Clock, m.ClockKnown, m.LogTime
		}
		to.Members = append(to.Members, cluster.Member{
			ID: nodeID(m.ID), Name: m.Name, Client: m.Client, Peer: m.Peer, Learner: m.Learner, Healthy: m.Healthy, Applied: applied,
		})
	}
	return to
}

// nodeID returns the ID of a member as Redis shows it, with 40 hexadecimal digits: the digits of the number, and zeros.
// It is "" for 0, which is no member.
func nodeID(id uint64) string {
	if id == 0 {
		return ""
	}
	return fmt.Sprintf("%016x%024d", id, 0)
}
