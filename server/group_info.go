package server

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sievekv/sievekv/internal/cluster"
	"github.com/sievekv/sievekv/module"
)

// mode returns the mode of the server for HELLO and INFO.
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

// indexes returns the index that a member has applied, and the one that it knows to be committed, which is at least
// that.
func indexes(g cluster.Group) (applied, committed uint64) {
	applied = g.AppliedIndex()
	return applied, max(g.CommittedIndex(), applied)
}

// clusterInfo shows the group as this member knows it. The lag counts messages that this member knows to be committed
// and has not applied yet.
func clusterInfo(s *Server) []module.InfoField {
	if s.group == nil {
		return []module.InfoField{{Name: "cluster_enabled", Value: 0}}
	}
	status := s.group.Status()
	applied, committed := indexes(s.group)
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
	fields := []module.InfoField{
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
		{Name: "cluster_log_p99_ms", Value: status.LogTime.Milliseconds()},
	}
	if status.ClockKnown {
		fields = append(fields, module.InfoField{Name: "cluster_clock_ahead_ms", Value: status.ClockAhead.Milliseconds()})
	}
	return fields
}

// groupMetric is a metric of a group as a member knows it.
type groupMetric struct {
	desc  *prometheus.Desc
	value func(s *cluster.Status, applied, committed uint64) float64
}

func is(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

var groupMetrics = []groupMetric{
	{desc("cluster_leads", "1 on the member that takes writes, otherwise 0."),
		func(s *cluster.Status, _, _ uint64) float64 { return is(s.Leads()) }},
	{desc("cluster_leader_known", "1 while the member knows who takes writes, otherwise 0."),
		func(s *cluster.Status, _, _ uint64) float64 { return is(s.Leading() != nil) }},
	{desc("cluster_alarm", "1 if the member has refused a leader or a vote since it was started, or has ended."),
		func(s *cluster.Status, _, _ uint64) float64 { return is(s.Alarm) }},
	{desc("cluster_term", "The term that the member is in: it grows with each election."),
		func(s *cluster.Status, _, _ uint64) float64 { return float64(s.Term) }},
	{desc("cluster_healthy_members", "Members that this one knows to be healthy, itself included."),
		func(s *cluster.Status, _, _ uint64) float64 { _, healthy := s.Others(); return float64(healthy + 1) }},
	{desc("cluster_members", "Members of the group."),
		func(s *cluster.Status, _, _ uint64) float64 { return float64(len(s.Members)) }},
	{desc("cluster_applied_index", "The index of the last message of the group's log that the member has applied."),
		func(_ *cluster.Status, applied, _ uint64) float64 { return float64(applied) }},
	{desc("cluster_lag", "Messages that the member knows to be committed and has not applied."),
		func(_ *cluster.Status, applied, committed uint64) float64 { return float64(committed - applied) }},
	{desc("cluster_log_bytes", "Entries in the member's log."),
		func(s *cluster.Status, _, _ uint64) float64 { return float64(s.LogBytes) }},
	{desc("cluster_log_p99_seconds", "A time that 99 of 100 writes of the member's log, with their syncs, did not exceed in the last 10 seconds."),
		func(s *cluster.Status, _, _ uint64) float64 { return s.LogTime.Seconds() }},
}

var (
	clockDesc  = desc("cluster_clock_ahead_seconds", "By how much the member's clock is ahead of the time that the clocks of a majority have reached; missing while that is not known.")
	behindDesc = desc("cluster_member_lag", "Messages of the leader's log that another member is not known to have. Only the leader knows.", "member", "name")
)

// collectGroup sends the metrics of a group as this member knows it.
func collectGroup(g cluster.Group, out chan<- prometheus.Metric) {
	s := g.Status()
	applied, committed := indexes(g)
	for i := range groupMetrics {
		m := &groupMetrics[i]
		out <- prometheus.MustNewConstMetric(m.desc, prometheus.GaugeValue, m.value(s, applied, committed))
	}
	if s.ClockKnown {
		out <- prometheus.MustNewConstMetric(clockDesc, prometheus.GaugeValue, s.ClockAhead.Seconds())
	}
	if !s.Leads() {
		return
	}
	for i := range s.Members {
		if m := &s.Members[i]; m.ID != s.Self {
			out <- prometheus.MustNewConstMetric(behindDesc, prometheus.GaugeValue, float64(committed-min(m.Applied, committed)), m.ID, label(m.Name))
		}
	}
}
