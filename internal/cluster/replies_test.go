package cluster_test

import (
	"strings"
	"testing"

	"github.com/sievekv/sievekv/internal/cluster"
	"github.com/sievekv/sievekv/internal/resp"
	"github.com/sievekv/sievekv/module/reply"
)

// id returns an ID of forty equal digits.
func id(digit string) string { return strings.Repeat(digit, 40) }

// group returns a group as its member a knows it, which leads: b follows, c has failed, and d is a learner.
func group() *cluster.Status {
	return &cluster.Status{
		Shard: id("f"), Self: id("a"), Leader: id("a"), LastLeader: id("a"), Term: 7,
		Members: []cluster.Member{
			{ID: id("a"), Name: "a", Client: "10.0.0.1:6380", Peer: "10.0.0.1:7380", Healthy: true, Applied: 100},
			{ID: id("b"), Name: "b", Client: "b.example:6380", Peer: "b.example:7380", Healthy: true, Applied: 98},
			{ID: id("c"), Name: "c", Client: "[::1]:6380", Peer: "[::1]:7380", Applied: 50},
			{ID: id("d"), Name: "d", Client: "10.0.0.4:6380", Peer: "10.0.0.4:7380", Healthy: true, Learner: true, Applied: 3},
		},
	}
}

// seenBy returns a group as another member knows it, with another leader, "" for none, that led last.
func seenBy(self, leader, last string) *cluster.Status {
	s := group()
	s.Self, s.Leader, s.LastLeader = self, leader, last
	return s
}

// wire returns a reply in RESP2, with spaces for the ends of lines.
func wire(r reply.Reply, protocol int) string {
	return strings.ReplaceAll(string(resp.Append(nil, r, protocol)), "\r\n", " ")
}

func TestReplies(t *testing.T) {
	a, b := id("a"), id("b")
	node := func(host, id, empty string) string {
		return "*4 $" + map[string]string{"10.0.0.1": "8", "b.example": "9"}[host] + " " + host + " :6380 $40 " + id + " " + empty + "0 "
	}
	followsA := " slave " + a + " 0 0 7 connected"
	for name, test := range map[string]struct {
		got  reply.Reply
		want string
	}{
		"SLOTS":           {cluster.Slots(group()), "*1 *4 :0 :16383 " + node("10.0.0.1", a, "*") + node("b.example", b, "*")},
		"SLOTS, follower": {cluster.Slots(seenBy(b, a, a)), "*1 *4 :0 :16383 " + node("10.0.0.1", a, "*") + node("b.example", b, "*")},
		"SLOTS, no leader any more": {
			cluster.Slots(seenBy(b, "", a)), "*1 *4 :0 :16383 " + node("10.0.0.1", a, "*") + node("b.example", b, "*")},
		"SLOTS, no leader yet": {cluster.Slots(seenBy(b, "", "")), "*0 "},
		"REPLICAS": {cluster.Replicas(group(), a), "*3 $123 " + b + " b.example:6380@7380" + followsA +
			" $125 " + id("c") + " ::1:6380@7380 slave,fail " + a + " 0 0 7 disconnected $122 " + id("d") + " 10.0.0.4:6380@7380" + followsA + " "},
		"REPLICAS of a follower": {cluster.Replicas(group(), b), "-ERR The specified node is not a master "},
		"REPLICAS of nobody":     {cluster.Replicas(group(), "x"), "-ERR Unknown node x "},
		"ROLE of the leader": {cluster.Role(group(), 101),
			"*3 $6 master :101 *2 *3 $9 b.example $4 6380 $2 98 *3 $8 10.0.0.4 $4 6380 $1 3 "},
		"ROLE of a follower":        {cluster.Role(seenBy(b, a, a), 98), "*5 $5 slave $8 10.0.0.1 :6380 $9 connected :98 "},
		"ROLE, no leader any more":  {cluster.Role(seenBy(b, "", a), 98), "*5 $5 slave $0  :0 $7 connect :98 "},
		"MOVED":                     {cluster.Moved(12182, &group().Members[0]), "-MOVED 12182 10.0.0.1:6380 "},
		"MOVED to a name":           {cluster.Moved(0, &group().Members[1]), "-MOVED 0 b.example:6380 "},
		"MOVED to an address of v6": {cluster.Moved(1, &group().Members[2]), "-MOVED 1 ::1:6380 "},
		"CLUSTERDOWN":               {cluster.Down, "-CLUSTERDOWN The cluster is down "},
	} {
		if got := wire(test.got, 2); got != test.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, test.want)
		}
	}
	if got, want := wire(cluster.Slots(group()), 3), node("10.0.0.1", a, "%"); !strings.Contains(got, want) {
		t.Errorf("SLOTS in RESP3: %q has no %q", got, want)
	}
}

func TestShards(t *testing.T) {
	node := func(id, host, role, offset, health string) string {
		return "%7 $2 id $40 " + id + " $4 port :6380 $2 ip " + host + " $8 endpoint " + host + " $4 role " + role +
			" $18 replication-offset " + offset + " $6 health " + health + " "
	}
	rest := node(id("b"), "$9 b.example", "$7 replica", ":98", "$6 online") + node(id("c"), "$3 ::1", "$7 replica", ":50", "$4 fail") +
		node(id("d"), "$8 10.0.0.4", "$7 replica", ":3", "$7 loading")
	for name, test := range map[string]struct {
		s     *cluster.Status
		first string
	}{
		"a leads":        {group(), "$6 master"},
		"a led":          {seenBy(id("b"), "", id("a")), "$6 master"},
		"nobody has led": {seenBy(id("b"), "", ""), "$7 replica"},
	} {
		want := "*1 %2 $5 slots *2 :0 :16383 $5 nodes *4 " + node(id("a"), "$8 10.0.0.1", test.first, ":100", "$6 online") + rest
		if got := wire(cluster.Shards(test.s), 3); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
	if got := wire(cluster.Shards(group()), 2); !strings.HasPrefix(got, "*1 *4 $5 slots *2 :0 :16383 $5 nodes *4 *14 $2 id ") {
		t.Errorf("in RESP2: %s", got)
	}
}

func TestNodes(t *testing.T) {
	a, b := id("a"), id("b")
	others := id("c") + " ::1:6380@7380 slave,fail " + a + " 0 0 7 disconnected\n" + id("d") + " 10.0.0.4:6380@7380 slave " + a + " 0 0 7 connected\n"
	for name, test := range map[string]struct {
		s    *cluster.Status
		want string
	}{
		"the leader": {group(), a + " 10.0.0.1:6380@7380 myself,master - 0 0 7 connected 0-16383\n" +
			b + " b.example:6380@7380 slave " + a + " 0 0 7 connected\n" + others},
		"a follower": {seenBy(b, a, a), a + " 10.0.0.1:6380@7380 master - 0 0 7 connected 0-16383\n" +
			b + " b.example:6380@7380 myself,slave " + a + " 0 0 7 connected\n" + others},
		"nobody has led": {seenBy(b, "", ""), a + " 10.0.0.1:6380@7380 slave - 0 0 7 connected\n" +
			b + " b.example:6380@7380 myself,slave - 0 0 7 connected\n" + strings.ReplaceAll(others, a, "-")},
	} {
		if got := cluster.Nodes(test.s); got != test.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, test.want)
		}
	}
}

func TestInfo(t *testing.T) {
	text := func(state, ok, fail string) string {
		return "cluster_state:" + state + "\r\ncluster_slots_assigned:16384\r\ncluster_slots_ok:" + ok + "\r\ncluster_slots_pfail:0\r\n" +
			"cluster_slots_fail:" + fail + "\r\ncluster_known_nodes:4\r\ncluster_size:1\r\ncluster_current_epoch:7\r\ncluster_my_epoch:7\r\n"
	}
	if got, want := cluster.Info(group()), text("ok", "16384", "0"); got != want {
		t.Errorf("with a leader:\n%s\nwant\n%s", got, want)
	}
	if got, want := cluster.Info(seenBy(id("b"), "", id("a"))), text("fail", "0", "16384"); got != want {
		t.Errorf("without:\n%s\nwant\n%s", got, want)
	}
}

func TestStatus(t *testing.T) {
	if s := group(); !s.Leads() || s.Leading() != &s.Members[0] || s.Member("x") != nil {
		t.Errorf("a: leads %v, leader %v", s.Leads(), s.Leading())
	}
	if s := seenBy(id("b"), id("a"), id("a")); s.Leads() || s.Leading() != &s.Members[0] {
		t.Errorf("b: leads %v, leader %v", s.Leads(), s.Leading())
	}
	if s := seenBy(id("b"), "", id("a")); s.Leads() || s.Leading() != nil {
		t.Errorf("b without a leader: leads %v, leader %v", s.Leads(), s.Leading())
	}
	if voters, healthy := group().Others(); voters != 2 || healthy != 2 {
		t.Errorf("besides a there are %d that vote, %d healthy, want 2 and 2", voters, healthy)
	}
	for address, want := range map[string]cluster.Member{
		"10.0.0.1:6380": {Name: "10.0.0.1", Applied: 6380}, "[::1]:1": {Name: "::1", Applied: 1},
		"host": {Name: "host"}, "host:70000": {Name: "host"}, "host:x": {Name: "host"},
	} {
		if host, port := cluster.HostPort(address); host != want.Name || port != int(want.Applied) {
			t.Errorf("HostPort(%q) = %q, %d", address, host, port)
		}
	}
}
