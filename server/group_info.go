package server

import (
	"fmt"

	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/server/cluster"
)

// mode returns what HELLO and INFO say of the server.
func (s *Server) mode() string {
	if s.group == nil {
		return "standalone"
	}
	return "cluster"
}

// role returns "master" if the store takes writes, otherwise the word that the reply has for the others.
func (s *Server) role(follower string) string {
	if s.group == nil || s.group.Status().Leads() {
		return "master"
	}
	return follower
}

// replicationInfo has the fields of Redis. Offsets are indexes of the group's log.
func replicationInfo(s *Server) []module.InfoField {
	if s.group == nil {
		return []module.InfoField{{Name: "role", Value: "master"}, {Name: "connected_slaves", Value: 0}}
	}
	status, applied := s.group.Status(), s.group.AppliedIndex()
	if status.Leads() {
		return leaderInfo(status, applied)
	}
	return followerInfo(status, applied)
}

func leaderInfo(status *cluster.Status, applied uint64) []module.InfoField {
	var lines []module.InfoField
	for i := range status.Members {
		m := &status.Members[i]
		if m.ID == status.Self || !m.Healthy {
			continue
		}
		host, port := cluster.HostPort(m.Client)
		lines = append(lines, module.InfoField{Name: fmt.Sprintf("slave%d", len(lines)), Value: fmt.Sprintf(
			"ip=%s,port=%d,state=online,offset=%d,lag=0", host, port, m.Applied)}) // in seconds: it is healthy
	}
	fields := append([]module.InfoField{{Name: "role", Value: "master"}, {Name: "connected_slaves", Value: len(lines)}}, lines...)
	return append(fields, module.InfoField{Name: "master_repl_offset", Value: applied})
}

func followerInfo(status *cluster.Status, applied uint64) []module.InfoField {
	host, port, link := "", 0, "down"
	if leader := status.Leading(); leader != nil {
		host, port = cluster.HostPort(leader.Client)
		link = "up"
	}
	return []module.InfoField{
		{Name: "role", Value: "slave"},
		{Name: "master_host", Value: host},
		{Name: "master_port", Value: port},
		{Name: "master_link_status", Value: link},
		{Name: "slave_repl_offset", Value: applied},
		{Name: "slave_read_only", Value: 1},
		{Name: "connected_slaves", Value: 0},
		{Name: "master_repl_offset", Value: applied},
	}
}

// clusterInfo shows the group as this member knows it. The lag counts messages that are known to be committed and are not
// applied here yet.
func clusterInfo(s *Server) []module.InfoField {
	if s.group == nil {
		return []module.InfoField{{Name: "cluster_enabled", Value: 0}}
	}
	status := s.group.Status()
	applied := s.group.AppliedIndex()
	committed := max(s.group.CommittedIndex(), applied) // asked later, so never below
	voters, healthy := status.Others()
	self := status.Member(status.Self)
	role := "follower"
	switch {
	case status.Leads():
		role = "leader"
	case self != nil && self.Learner:
		role = "learner"
	}
	if self != nil && !self.Learner {
		voters++
	}
	return []module.InfoField{
		{Name: "cluster_enabled", Value: 1},
		{Name: "cluster_role", Value: role},
		{Name: "cluster_node_id", Value: status.Self},
		{Name: "cluster_leader_id", Value: status.Leader},
		{Name: "cluster_term", Value: status.Term},
		{Name: "cluster_members", Value: len(status.Members)},
		{Name: "cluster_voters", Value: voters},
		{Name: "cluster_healthy_members", Value: healthy + 1},
		{Name: "cluster_applied_index", Value: applied},
		{Name: "cluster_committed_index", Value: committed},
		{Name: "cluster_lag", Value: committed - applied},
	}
}
