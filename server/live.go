package server

import (
	"cmp"
	"slices"
	"time"

	"github.com/sievekv/sievekv/internal/live"
)

// Live returns the facts about the server that pages show. See package dashboard.
func (s *Server) Live() live.Server { return liveServer{s} }

type liveServer struct{ *Server }

// Counts implements live.Server.
func (s liveServer) Counts() live.Counts {
	c := live.Counts{
		Connections: len(s.connections()), ConnectionsRefused: s.stats.refused.Load(), KeysFound: s.stats.keysFound.Load(), KeysMissing: s.stats.keysMissing.Load(),
		BytesReceived: s.stats.bytesIn.Load(), BytesSent: s.stats.bytesOut.Load(), Refused: s.stats.unknown.Load(),
		WrongPasswords: s.stats.wrongPasswords.Load(), ForbiddenUse: s.stats.deniedCommands.Load() + s.stats.deniedKeys.Load(),
	}
	for _, cmd := range s.host.Commands() {
		st := s.stats.of(cmd)
		one := live.Command{Calls: st.calls.Load(), Refused: st.rejected.Load()}
		if one.Calls+one.Refused == 0 {
			continue
		}
		one.Name, one.Failed, one.Took = cmd.LowerName(), st.failed.Load(), time.Duration(st.nanos.Load())
		for i := range st.latency {
			one.Latency[i] = st.latency[i].Load()
		}
		c.Calls, c.Failed, c.Refused = c.Calls+one.Calls, c.Failed+one.Failed, c.Refused+one.Refused
		c.Latency.Add(&one.Latency)
		c.Commands = append(c.Commands, one)
	}
	for i, name := range errorKinds {
		if n := s.stats.failures(i); n > 0 {
			c.Errors = append(c.Errors, live.Kind{Name: name, N: n})
		}
	}
	return c
}

// Slow implements live.Server.
func (s liveServer) Slow(most int) (list []live.SlowCommand, all int) {
	s.slow.mu.Lock()
	defer s.slow.mu.Unlock()
	for _, e := range slices.Backward(s.slow.entries) {
		if len(list) == most {
			break
		}
		list = append(list, live.SlowCommand{At: e.at, Took: e.took, Words: e.words, Client: e.client, Name: e.name})
	}
	return list, len(s.slow.entries)
}

// Clients implements live.Server.
func (s liveServer) Clients(most int) (list []live.Client, all int) {
	open := slices.DeleteFunc(s.connections(), (*conn).isKilled)
	now := time.Now()
	for _, c := range open {
		list = append(list, c.live(now))
	}
	slices.SortFunc(list, func(a, b live.Client) int { return cmp.Or(cmp.Compare(a.Idle, b.Idle), cmp.Compare(a.ID, b.ID)) })
	return list[:min(len(list), most)], len(open)
}

// live returns the facts about a connection that CLIENT LIST shows.
func (c *conn) live(now time.Time) live.Client {
	a := &c.about
	a.mu.Lock()
	defer a.mu.Unlock()
	return live.Client{
		ID: c.id, Address: c.address(), Name: a.name, User: a.user.Load().Name(), Command: a.command, Age: now.Sub(c.began), Idle: max(0, now.Sub(a.lastActive)),
		Buffers: int64(a.in + a.out), Library: a.library, Transaction: a.queued >= 0, Reads: a.readOnly,
	}
}

// Group implements live.Server.
func (s liveServer) Group() *live.Group {
	if s.group == nil {
		return nil
	}
	status := s.group.Status()
	g := &live.Group{Term: status.Term, Alarm: status.Alarm}
	g.Applied, g.Committed = indexes(s.group)
	for _, m := range status.Members {
		one := live.Member{Name: cmp.Or(m.Name, m.ID), ID: m.ID, Client: m.Client, Role: "follower", Self: m.ID == status.Self, Healthy: m.Healthy, Applied: m.Applied}
		switch {
		case m.ID == status.Leader:
			one.Role = live.Leader
		case m.Learner:
			one.Role = "learner"
		}
		if one.Self {
			one.Applied = g.Applied
		}
		g.Members = append(g.Members, one)
	}
	return g
}
