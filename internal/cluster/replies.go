package cluster

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/sievekv/sievekv/module/reply"
)

// Moved returns the redirection of a command to a member. As in Redis, an address of IPv6 has no brackets: clients cut at the
// last colon.
func Moved(slot int, to *Member) reply.Reply {
	host, port := HostPort(to.Client)
	return reply.Errorf("MOVED %d %s:%d", slot, host, port)
}

// Down is the reply to a command that needs the leader, while none is known.
var Down = reply.Error("CLUSTERDOWN The cluster is down")

// Slots returns the reply of CLUSTER SLOTS: the range of slots, the leader first, and the other members that can be read.
// Until another leader is known, the last one has the first place, as in Redis. If none has been known, nobody has the
// slots.
func Slots(s *Status) reply.Reply {
	first := s.Member(s.LastLeader)
	if first == nil {
		return reply.Array()
	}
	list := []reply.Reply{reply.Int(0), reply.Int(NumSlots - 1), slotsNode(first)}
	for i := range s.Members {
		if m := &s.Members[i]; m != first && m.readable() {
			list = append(list, slotsNode(m))
		}
	}
	return reply.Array(reply.Array(list...))
}

// readable reports whether clients are sent to the member for reads.
func (m *Member) readable() bool { return m.Healthy && !m.Learner }

func slotsNode(m *Member) reply.Reply {
	host, port := HostPort(m.Client)
	return reply.Array(reply.BulkString(host), reply.Int(int64(port)), reply.BulkString(m.ID), reply.Map())
}

// Shards returns the reply of CLUSTER SHARDS: one shard.
func Shards(s *Status) reply.Reply {
	nodes := make([]reply.Reply, len(s.Members))
	for i := range s.Members {
		nodes[i] = s.shardNode(&s.Members[i])
	}
	return reply.Array(reply.Map(
		reply.Field("slots", reply.Array(reply.Int(0), reply.Int(NumSlots-1))),
		reply.Field("nodes", reply.Array(nodes...)),
	))
}

func (s *Status) shardNode(m *Member) reply.Reply {
	host, port := HostPort(m.Client)
	role, health := "replica", "online"
	switch {
	case m.ID == s.LastLeader:
		role = "master"
	case m.Learner:
		health = "loading"
	}
	if !m.Healthy {
		health = "fail"
	}
	return reply.Map(
		reply.Field("id", reply.BulkString(m.ID)),
		reply.Field("port", reply.Int(int64(port))),
		reply.Field("ip", reply.BulkString(host)),
		reply.Field("endpoint", reply.BulkString(host)),
		reply.Field("role", reply.BulkString(role)),
		reply.Field("replication-offset", reply.Int(int64(m.Applied))),
		reply.Field("health", reply.BulkString(health)),
	)
}

// Nodes returns the text of CLUSTER NODES: a line for each member.
func Nodes(s *Status) string {
	var b strings.Builder
	for i := range s.Members {
		b.WriteString(s.line(&s.Members[i]))
		b.WriteByte('\n')
	}
	return b.String()
}

// line returns a member's line of CLUSTER NODES: id, address, flags, the leader that it follows, when it was asked and
// when it answered (not kept: 0), term, link, slots.
func (s *Status) line(m *Member) string {
	host, port := HostPort(m.Client)
	_, peer := HostPort(m.Peer)
	var flags []string
	if m.ID == s.Self {
		flags = append(flags, "myself")
	}
	follows, slots := "-", ""
	if m.ID == s.LastLeader {
		flags, slots = append(flags, "master"), " 0-"+strconv.Itoa(NumSlots-1)
	} else {
		flags = append(flags, "slave")
		if s.LastLeader != "" {
			follows = s.LastLeader
		}
	}
	link := "connected"
	if !m.Healthy {
		flags, link = append(flags, "fail"), "disconnected"
	}
	return fmt.Sprintf("%s %s:%d@%d %s %s 0 0 %d %s%s", m.ID, host, port, peer, strings.Join(flags, ","), follows, s.Term, link, slots)
}

// Replicas returns the reply of CLUSTER REPLICAS: the lines of the members that follow the one that id names.
func Replicas(s *Status, id string) reply.Reply {
	of := s.Member(id)
	switch {
	case of == nil:
		return reply.Errorf("ERR Unknown node %s", id)
	case of.ID != s.LastLeader:
		return reply.Error("ERR The specified node is not a master")
	}
	var lines []reply.Reply
	for i := range s.Members {
		if m := &s.Members[i]; m != of {
			lines = append(lines, reply.BulkString(s.line(m)))
		}
	}
	return reply.Array(lines...)
}

// Info returns the text of CLUSTER INFO. The state is ok while a leader is known.
func Info(s *Status) string {
	state, ok, failed := "ok", NumSlots, 0
	if s.Leading() == nil {
		state, ok, failed = "fail", 0, NumSlots
	}
	var b strings.Builder
	field := func(name string, value any) { fmt.Fprintf(&b, "cluster_%s:%v\r\n", name, value) }
	field("state", state)
	field("slots_assigned", NumSlots)
	field("slots_ok", ok)
	field("slots_pfail", 0)
	field("slots_fail", failed)
	field("known_nodes", len(s.Members))
	field("size", 1)
	field("current_epoch", s.Term)
	field("my_epoch", s.Term)
	return b.String()
}

// Role returns the reply of ROLE. applied is the exact index of the member itself.
func Role(s *Status, applied uint64) reply.Reply {
	if !s.Leads() {
		host, port, state := "", 0, "connect"
		if leader := s.Leading(); leader != nil {
			host, port = HostPort(leader.Client)
			state = "connected"
		}
		return reply.Array(reply.BulkString("slave"), reply.BulkString(host), reply.Int(int64(port)), reply.BulkString(state), reply.Int(int64(applied)))
	}
	var followers []reply.Reply
	for i := range s.Members {
		if m := &s.Members[i]; m.ID != s.Self && m.Healthy {
			host, port := HostPort(m.Client)
			followers = append(followers, reply.Array(
				reply.BulkString(host), reply.BulkString(strconv.Itoa(port)), reply.BulkString(strconv.FormatUint(m.Applied, 10))))
		}
	}
	return reply.Array(reply.BulkString("master"), reply.Int(int64(applied)), reply.Array(followers...))
}
