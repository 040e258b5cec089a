package server_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/internal/cluster"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/server"
)

// trio is three servers of a group without consensus: the test decides which leads. They share content, as a real group
// does, only for the command COUNT.
type trio struct {
	addresses [3]string

	mu     sync.Mutex // guards the fields below
	random *rand.Rand
	leader int // its place among addresses; -1 for none
	last   int // the last leader
	term   uint64
	since  time.Time
	asked  int            // how often a client asked for the leader while there was none
	counts map[string]int // how often COUNT was done, by key
	ids    map[string]bool
	twice  []string // IDs of commands that were done twice
	lost   int      // how often the lead was lost
}

// member is the group as one of the servers knows it. For a while after each change it knows the leader before, and
// sends clients there.
type member struct {
	*trio
	own   int
	stale int // how often it still names the leader before; guarded by trio.mu
}

func idOf(i int) string { return strings.Repeat(strconv.Itoa(i+1), 40) }

// Status implements cluster.Group.
func (m *member) Status() *cluster.Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.leader < 0 {
		if m.asked++; m.asked > 3 {
			m.elect(m.random.IntN(3))
		}
	}
	s := &cluster.Status{Shard: strings.Repeat("f", 40), Self: idOf(m.own), LastLeader: idOf(m.last), Since: m.since, Term: m.term}
	switch {
	case m.stale > 0 && m.last != m.own:
		m.stale--
		s.Leader = idOf(m.last)
	case m.leader >= 0:
		s.Leader, s.LastLeader = idOf(m.leader), idOf(m.leader)
	}
	for i, address := range m.addresses {
		s.Members = append(s.Members, cluster.Member{ID: idOf(i), Name: fmt.Sprint(i), Client: address, Peer: "127.0.0.1:1", Healthy: true, Applied: 10})
	}
	return s
}

// elect makes a member the leader. The caller holds mu.
func (c *trio) elect(i int) {
	c.leader, c.last, c.term, c.asked, c.since = i, i, c.term+1, 0, time.Now()
}

// lose ends the lead. The caller holds mu. Commands wait for the next leader, however busy the machine is: from then on.
func (c *trio) lose() { c.leader, c.lost, c.since = -1, c.lost+1, time.Now().Add(time.Hour) }

func (*member) AppliedIndex() uint64                         { return 10 }
func (*member) CommittedIndex() uint64                       { return 10 }
func (*member) ReadIndex(context.Context) (uint64, error)    { return 10, nil }
func (*member) AwaitApplied(context.Context, uint64) error   { return nil }
func (*member) Replicated(_ context.Context, wanted int) int { return min(wanted, 2) }

// module returns the commands COUNT key id, which a loss of the lead may meet, and WHERE key, which reads and answers which
// server ran it.
func (m *member) module() module.Module {
	row := func(name string, arity int, flags module.Flags, f func(*module.Call) reply.Reply) module.Command {
		return module.Command{
			Name: name, Arity: arity, Flags: flags | module.Fast, FirstKey: 1, LastKey: 1, KeyStep: 1, Group: "generic",
			Summary: "For tests.", Complexity: "O(1)", Example: name, Handler: f,
		}
	}
	return module.Module{Name: "trio", Commands: []module.Command{
		row("COUNT", 3, module.Write, func(c *module.Call) reply.Reply {
			n, err := m.count(string(c.Args[0]), string(c.Args[1]))
			if err != nil {
				return module.ErrorReply(err)
			}
			return reply.Int(int64(n))
		}),
		row("WHERE", 2, module.ReadOnly, func(*module.Call) reply.Reply { return reply.Int(int64(m.own)) }),
	}}
}

// count adds 1 to a count. One in eight times the lead is lost, before it is done, or after it, or nobody knows which.
func (m *member) count(key, id string) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.leader != m.own {
		return 0, kv.ErrNotLeader
	}
	event := m.random.IntN(24)
	if event < 3 {
		m.lose()
		m.stale = m.random.IntN(3)
	}
	switch event {
	case 0:
		return 0, kv.ErrNotLeader
	case 1:
		return 0, kv.ErrOutcomeUnknown
	}
	if m.ids[id] {
		m.twice = append(m.twice, id)
	}
	m.ids[id] = true
	m.counts[key]++
	if event == 2 {
		return 0, kv.ErrOutcomeUnknown
	}
	return m.counts[key], nil
}

// serveTrio serves a group of three until the test ends.
func serveTrio(t *testing.T) *trio {
	t.Helper()
	c := &trio{random: rand.New(rand.NewPCG(1, 2)), counts: make(map[string]int), ids: make(map[string]bool)}
	var listeners [3]net.Listener
	for i := range listeners {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners[i], c.addresses[i] = l, l.Addr().String()
	}
	c.elect(0)
	for i, l := range listeners {
		m := &member{trio: c, own: i}
		db := open(t, kv.Options{Modules: coreext.With(server.GroupModule(), m.module())})
		t.Cleanup(func() {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
		t.Cleanup(serveAt(t, db, l, &server.Options{Group: m}))
	}
	return c
}

// connectTrio returns a client of the whole group, with the default options, except the given ones. It has all the time
// there is.
func connectTrio(t *testing.T, group *trio, o redis.ClusterOptions) *redis.ClusterClient {
	t.Helper()
	o.Addrs = group.addresses[:]
	o.DialTimeout, o.PoolTimeout, o.ReadTimeout, o.WriteTimeout = time.Hour, time.Hour, -1, -1
	c := redis.NewClusterClient(&o)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// A cluster client goes on while leaders change: it sees no error but UNKNOWN, and no command is done twice. What it was
// answered has been done, once.
func TestCluster_failover(t *testing.T) {
	for _, protocol := range []int{2, 3} {
		t.Run(fmt.Sprint("RESP", protocol), func(t *testing.T) {
			group := serveTrio(t)
			// The lead is lost so often that a command meets it several times.
			client := connectTrio(t, group, redis.ClusterOptions{
				Protocol: protocol, MaxRedirects: 100, MinRetryBackoff: time.Millisecond, MaxRetryBackoff: 2 * time.Millisecond,
			})
			var users sync.WaitGroup
			for user := range 4 {
				users.Go(func() { countAlong(t, client, fmt.Sprint("user:", user)) })
			}
			users.Go(func() { transactAlong(t, client) })
			users.Go(func() { pipelineAlong(t, client) })
			users.Wait()
			if len(group.twice) > 0 {
				t.Errorf("done twice: %q", group.twice)
			}
			if group.lost < 30 {
				t.Errorf("the lead was lost only %d times", group.lost)
			}
		})
	}
}

// countAlong counts by one command after the other, and checks each answer: only this user counts by this key.
func countAlong(t *testing.T, client *redis.ClusterClient, key string) {
	least, most := 0, 0 // what the count may be
	for i := range 150 {
		n, err := client.Do(t.Context(), "COUNT", key, fmt.Sprint(key, "/", i)).Int()
		switch {
		case err == nil && (n <= least || n > most+1):
			t.Errorf("%s: the count is %d, after %d to %d", key, n, least, most)
		case err == nil:
			least, most = n, n
		case strings.HasPrefix(err.Error(), "UNKNOWN "):
			most++
		default:
			t.Errorf("%s: %v", key, err)
			return
		}
	}
}

// transactAlong runs transactions. They are not replicated here, but each is run as a whole by one server.
func transactAlong(t *testing.T, client *redis.ClusterClient) {
	for i := range 100 {
		var got *redis.StringCmd
		_, err := client.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
			p.Set(t.Context(), "{tx}a", i, 0)
			got = p.Get(t.Context(), "{tx}a")
			return nil
		})
		if err != nil || got.Val() != fmt.Sprint(i) {
			t.Errorf("transaction %d: %q, %v", i, got.Val(), err)
		}
	}
}

// pipelineAlong counts by pipelines of several commands.
func pipelineAlong(t *testing.T, client *redis.ClusterClient) {
	for i := range 40 {
		cmds, _ := client.Pipelined(t.Context(), func(p redis.Pipeliner) error {
			for j := range 5 {
				p.Do(t.Context(), "COUNT", "pipes", fmt.Sprint("pipes/", i, "/", j))
			}
			return nil
		})
		for _, cmd := range cmds {
			if err := cmd.Err(); err != nil && !strings.HasPrefix(err.Error(), "UNKNOWN ") {
				t.Errorf("in a pipeline: %v", err)
			}
		}
	}
}

// With ReadOnly a cluster client reads from all servers; SIEVE.READ does so once, in a pipeline to one server.
func TestCluster_reads(t *testing.T) {
	group := serveTrio(t)
	ctx := t.Context()
	where := func(client *redis.ClusterClient) (servers []int) {
		for range 60 {
			if n := result(t, client.Do(ctx, "WHERE", "k")); !slices.Contains(servers, int(n.(int64))) {
				servers = append(servers, int(n.(int64)))
			}
		}
		slices.Sort(servers)
		return servers
	}
	if got := where(connectTrio(t, group, redis.ClusterOptions{})); !slices.Equal(got, []int{0}) {
		t.Errorf("servers %v answer reads, want the leader", got)
	}
	client := connectTrio(t, group, redis.ClusterOptions{ReadOnly: true, RouteRandomly: true})
	if got := where(client); !slices.Equal(got, []int{0, 1, 2}) {
		t.Errorf("with ReadOnly servers %v answer reads, want all", got)
	}
	strict := connectTrio(t, group, redis.ClusterOptions{})
	err := strict.ForEachSlave(ctx, func(ctx context.Context, follower *redis.Client) error {
		for _, words := range [][]any{{"SIEVE.READ", "LINEARIZABLE"}, {"SIEVE.READ", "AFTER", 10}} {
			var got, again *redis.Cmd
			_, err := follower.Pipelined(ctx, func(p redis.Pipeliner) error {
				p.Do(ctx, words...)
				got, again = p.Do(ctx, "WHERE", "k"), p.Do(ctx, "WHERE", "k")
				return nil
			})
			if got.Val() == int64(0) || got.Err() != nil || again.Err() == nil || !strings.HasPrefix(err.Error(), "MOVED ") {
				return fmt.Errorf("%v: answered by %v, %w; then %w", words, got.Val(), got.Err(), again.Err())
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// What go-redis reads of the commands of Redis Cluster.
func TestCluster_commands(t *testing.T) {
	for _, protocol := range []int{2, 3} {
		t.Run(fmt.Sprint("RESP", protocol), func(t *testing.T) {
			group := serveTrio(t)
			ctx, c := t.Context(), connect(t, group.addresses[0], redis.Options{Protocol: protocol})
			is(t, c.MSet(ctx, "foo", 1, "{foo}2", 2, "bar", 3), "OK")
			is(t, c.ClusterKeySlot(ctx, "foo"), 12182)
			is(t, c.ClusterCountKeysInSlot(ctx, 12182), 2)
			is(t, c.ClusterGetKeysInSlot(ctx, 5061, 10), []string{"bar"})
			is(t, c.ClusterMyID(ctx), idOf(0))
			is(t, c.ClusterMyShardID(ctx), strings.Repeat("f", 40))
			is(t, c.ReadOnly(ctx), "OK")
			is(t, c.ReadWrite(ctx), "OK")
			is(t, c.Wait(ctx, 2, time.Second), 2)
			var nodes []redis.ClusterNode
			for i, address := range group.addresses {
				nodes = append(nodes, redis.ClusterNode{ID: idOf(i), Addr: address, NetworkingMetadata: map[string]string{}})
			}
			//lint:ignore SA1019 cluster clients use it
			is(t, c.ClusterSlots(ctx), []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: nodes}})
			shards := result(t, c.ClusterShards(ctx))
			if len(shards) != 1 || !slices.Equal(shards[0].Slots, []redis.SlotRange{{Start: 0, End: 16383}}) || len(shards[0].Nodes) != 3 {
				t.Fatalf("CLUSTER SHARDS = %+v", shards)
			}
			_, port, _ := net.SplitHostPort(group.addresses[0])
			number, _ := strconv.ParseInt(port, 10, 64)
			want := redis.Node{ID: idOf(0), Endpoint: "127.0.0.1", IP: "127.0.0.1", Port: number, Role: "master", ReplicationOffset: 10, Health: "online"}
			if shards[0].Nodes[0] != want || shards[0].Nodes[1].Role != "replica" {
				t.Errorf("CLUSTER SHARDS has the nodes %+v, want first %+v", shards[0].Nodes, want)
			}
			if got := result(t, c.ClusterNodes(ctx)); strings.Count(got, "\n") != 3 || !strings.Contains(got, "@1 myself,master - 0 0 1 connected 0-16383\n") {
				t.Errorf("CLUSTER NODES = %q", got)
			}
			if got := result(t, c.ClusterInfo(ctx)); !strings.HasPrefix(got, "cluster_state:ok\r\n") {
				t.Errorf("CLUSTER INFO = %q", got)
			}
			if got := result(t, c.Do(ctx, "CLUSTER", "REPLICAS", idOf(0))); len(got.([]any)) != 2 {
				t.Errorf("CLUSTER REPLICAS = %q", got)
			}
			var moved redis.Error
			if err := connect(t, group.addresses[1], redis.Options{}).Set(ctx, "foo", 1, 0).Err(); !errors.As(err, &moved) || err.Error() != "MOVED 12182 "+group.addresses[0] {
				t.Errorf("a write to a follower: %v", err)
			}
		})
	}
}

// A cluster client sends a command with keys of several slots to the leader, as one, and one without keys there in the end.
func TestCluster_severalSlots(t *testing.T) {
	group := serveTrio(t)
	ctx, client := t.Context(), connectTrio(t, group, redis.ClusterOptions{})
	is(t, client.MSet(ctx, "foo", 1, "bar", 2), "OK")
	is(t, client.MGet(ctx, "bar", "foo", "none"), []any{"2", "1", nil})
	is(t, client.Exists(ctx, "foo", "bar"), 2)
	is(t, client.BFMAdd(ctx, "f", "a", "b"), []bool{true, true})
	is(t, client.BFMExists(ctx, "f", "a", "c"), []bool{true, false})
	is(t, client.Rename(ctx, "foo", "baz"), "OK")
	is(t, client.DBSize(ctx), 3)
	for range 20 { // to a server by chance
		is(t, client.FlushAll(ctx), "OK")
	}
	is(t, client.DBSize(ctx), 0)
	_, err := client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, "foo", 1, 0)
		p.Set(ctx, "bar", 1, 0)
		return nil
	})
	if !errors.Is(err, redis.ErrCrossSlot) {
		t.Errorf("a transaction over slots: %v, want %v", err, redis.ErrCrossSlot)
	}
}
