package server_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/replica"
	"github.com/sievekv/sievekv/server"
	"github.com/sievekv/sievekv/tests/wire"
)

// served is a member of a real group, with its server.
type served struct {
	node    *replica.Node
	address string
	end     func()
}

// serveMember opens a member by one of the functions of package replica, and serves it until the test ends, or end is called.
func serveMember(t *testing.T, name string, client, peer net.Listener, open func(o replica.Options) (*replica.Node, error)) *served {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	n, err := open(replica.Options{
		Name: name, Peer: peer.Addr().String(), Client: client.Addr().String(), Listener: peer, Logger: quiet,
		Store: &sievekv.Options{
			Durability: sievekv.Always, CacheSize: 1 << 20, MemTableSize: 2 << 20, BallastSize: -1, MinFreeSpace: -1, Logger: quiet,
			Modules: coreext.With(server.Module(), server.GroupModule()),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	stop := serveAt(t, n.DB, client, &server.Options{Group: n.Group()})
	m := &served{n, client.Addr().String(), sync.OnceFunc(func() {
		stop()
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})}
	t.Cleanup(m.end)
	return m
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// group are the members of a real group, with a cluster client.
type group struct {
	members [3]*served
	client  *redis.ClusterClient
}

// serveGroup serves a real group of three. All vote.
func serveGroup(t *testing.T) *group {
	t.Helper()
	g := &group{}
	g.members[0] = serveMember(t, "0", listen(t), listen(t), func(o replica.Options) (*replica.Node, error) {
		return replica.Init(t.TempDir(), o, false)
	})
	for i := 1; i < 3; i++ {
		client, peer := listen(t), listen(t)
		token, err := g.members[g.leader()].node.AddMember(t.Context(), fmt.Sprint(i), peer.Addr().String(), client.Addr().String())
		for errors.Is(err, kv.ErrNotLeader) { // another has been elected meanwhile
			token, err = g.members[g.leader()].node.AddMember(t.Context(), fmt.Sprint(i), peer.Addr().String(), client.Addr().String())
		}
		if err != nil {
			t.Fatal(err)
		}
		g.members[i] = serveMember(t, fmt.Sprint(i), client, peer, func(o replica.Options) (*replica.Node, error) {
			return replica.Join(t.TempDir(), o, token)
		})
	}
	await("all members vote", func() bool {
		s := g.members[g.leader()].node.Status()
		return len(s.Members) == 3 && !slices.ContainsFunc(s.Members, func(m replica.MemberStatus) bool { return m.Learner })
	})
	o := redis.ClusterOptions{MaxRedirects: 20}
	for _, m := range g.members {
		o.Addrs = append(o.Addrs, m.address)
	}
	g.client = redis.NewClusterClient(&o)
	t.Cleanup(func() {
		if err := g.client.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// await waits until something is true, as long as the test may take.
func await(_ string, is func() bool) {
	for !is() {
		time.Sleep(5 * time.Millisecond)
	}
}

// leader waits for the member that leads.
func (g *group) leader() (leader int) {
	await("somebody leads", func() bool {
		leader = slices.IndexFunc(g.members[:], func(m *served) bool { return m != nil && m.node.Status().Leads })
		return leader >= 0
	})
	return leader
}

// transfer has the next member lead. Raft gives up a transfer that takes too long: then it begins again.
func (g *group) transfer(ctx context.Context) {
	i := g.leader()
	to := g.members[(i+1)%3].node.Status().Self
	for g.leader() == i {
		within, end := context.WithTimeout(ctx, 2*time.Second)
		_ = g.members[i].node.Transfer(within, to) // leader tells which one leads then
		end()
	}
}

// linearizable returns the replies to reads of one member, which see everything that was acknowledged before.
func linearizable(t *testing.T, m *served, commands ...[]any) (replies []any) {
	t.Helper()
	c := connect(t, m.address, redis.Options{})
	for _, command := range commands {
		got, err := read(t.Context(), c, []any{"SIEVE.READ", "LINEARIZABLE"}, command)
		if err != nil {
			t.Errorf("member at %s: %v: %v", m.address, command, err)
		}
		replies = append(replies, got)
	}
	return replies
}

// read reads with SIEVE.READ, again while the member is behind: on a busy machine that may take longer than the server waits.
func read(ctx context.Context, c *redis.Client, as, command []any) (reply any, err error) {
	for {
		var got *redis.Cmd
		_, err = c.Pipelined(ctx, func(p redis.Pipeliner) error {
			p.Do(ctx, as...)
			got = p.Do(ctx, command...)
			return nil
		})
		if err == nil || !strings.HasPrefix(err.Error(), "BEHIND ") {
			return got.Val(), err
		}
	}
}

// What a cluster client of a real group sees: through transfers of the lead, on followers, and when most of the group is gone.
func TestCluster_replica(t *testing.T) {
	g := serveGroup(t)
	t.Run("transfers", func(t *testing.T) { throughTransfers(t, g) })
	t.Run("followers", func(t *testing.T) { onFollowers(t, g) })
	t.Run("minority", func(t *testing.T) { alone(t, g) })
}

// bounds are what a count must be: what was acknowledged last, and how many outcomes were unknown since.
type bounds struct{ least, unknown int64 }

// take takes the answer of an increment, and reports whether it is right. After CLUSTERDOWN nothing was done: on a busy machine an
// election may take longer than commands wait for it.
func (b *bounds) take(n int64, err error) bool {
	switch {
	case redis.IsClusterDownError(err):
	case err == nil && n > b.least && n <= b.least+b.unknown+1:
		b.least, b.unknown = n, 0
	case err != nil && strings.HasPrefix(err.Error(), "UNKNOWN "):
		b.unknown++
	default:
		return false
	}
	return true
}

func (b *bounds) has(value any) bool {
	n, err := strconv.ParseInt(fmt.Sprint(value), 10, 64)
	return err == nil && n >= b.least && n <= b.least+b.unknown
}

// throughTransfers checks that clients see no error but UNKNOWN and CLUSTERDOWN, that nothing is done twice, that transactions are whole, and that
// nothing is missing that was acknowledged, on any member.
func throughTransfers(t *testing.T, g *group) {
	ctx := t.Context()
	var users sync.WaitGroup
	var done atomic.Bool
	var acknowledged [3]atomic.Int64 // of each user
	var count, pair bounds
	var added []any // acknowledged
	users.Go(func() {
		for !done.Load() {
			if n, err := g.client.Incr(ctx, "count").Result(); !count.take(n, err) {
				t.Errorf("INCR: %d, %v after %+v", n, err, count)
				done.Store(true)
			}
			acknowledged[0].Store(count.least)
		}
	})
	users.Go(func() {
		for !done.Load() {
			var a, b *redis.IntCmd
			_, err := g.client.TxPipelined(ctx, func(p redis.Pipeliner) error {
				a, b = p.Incr(ctx, "{pair}a"), p.Incr(ctx, "{pair}b")
				return nil
			})
			if !pair.take(a.Val(), err) || err == nil && a.Val() != b.Val() {
				t.Errorf("a transaction: %d and %d, %v after %+v", a.Val(), b.Val(), err, pair)
				done.Store(true)
			}
			acknowledged[1].Store(pair.least)
		}
	})
	users.Go(func() {
		for i := 0; !done.Load(); i++ {
			cmds, _ := g.client.Pipelined(ctx, func(p redis.Pipeliner) error {
				for j := range 8 {
					p.BFAdd(ctx, "filter", fmt.Sprint(i, "/", j))
				}
				return nil
			})
			for _, cmd := range cmds {
				switch err := cmd.Err(); {
				case err == nil:
					added = append(added, cmd.Args()[2])
				case !strings.HasPrefix(err.Error(), "UNKNOWN ") && !redis.IsClusterDownError(err):
					t.Errorf("BF.ADD in a pipeline: %v", err)
				}
			}
			acknowledged[2].Store(int64(len(added)))
		}
	})
	for range 6 {
		g.transfer(ctx)
		for i := range acknowledged {
			before := acknowledged[i].Load()
			await("the user goes on", func() bool { return acknowledged[i].Load() >= before+3 || done.Load() })
		}
	}
	done.Store(true)
	users.Wait()
	for i, m := range g.members {
		got := linearizable(t, m, []any{"GET", "count"}, []any{"MGET", "{pair}a", "{pair}b"}, append([]any{"BF.MEXISTS", "filter"}, added...))
		if !count.has(got[0]) {
			t.Errorf("member %d: the count is %v, want %+v", i, got[0], count)
		}
		if two, ok := got[1].([]any); !ok || two[0] != two[1] || !pair.has(two[0]) {
			t.Errorf("member %d: the pair is %v, want %+v", i, got[1], pair)
		}
		if found, ok := got[2].([]any); !ok || len(found) != len(added) || slices.Contains(found, any(int64(0))) || slices.Contains(found, any(false)) {
			t.Errorf("member %d: of %d items added, there are %v", i, len(added), got[2])
		}
	}
}

// onFollowers checks what followers tell and answer. It does so again if the leader has changed meanwhile.
func onFollowers(t *testing.T, g *group) {
	for {
		lead := g.leader()
		term := g.members[lead].node.Status().Term
		err := onFollower(t, g.members[lead], g.members[(lead+1)%3])
		if err == nil {
			return
		}
		if now := g.members[g.leader()].node.Status().Term; now == term {
			t.Fatal(err)
		}
	}
}

func onFollower(t *testing.T, lead, follows *served) error {
	ctx := t.Context()
	leader, c := connect(t, lead.address, redis.Options{}), connect(t, follows.address, redis.Options{})
	if err := leader.Set(ctx, "k", 1, 0).Err(); err != nil {
		return err
	}
	if n, err := leader.Wait(ctx, 2, time.Minute).Result(); err != nil || n != 2 {
		return fmt.Errorf("WAIT: %d, %w", n, err)
	}
	_, index, _ := strings.Cut(result(t, leader.Info(ctx, "cluster")), "cluster_applied_index:")
	index, _, _ = strings.Cut(index, "\r\n")
	if got, err := read(ctx, c, []any{"SIEVE.READ", "AFTER", index}, []any{"GET", "k"}); err != nil || got != "1" {
		return fmt.Errorf("after %s: %v, %w", index, got, err)
	}
	if err := c.Get(ctx, "k").Err(); err == nil || !strings.HasPrefix(err.Error(), "MOVED ") {
		return fmt.Errorf("GET of a follower: %w", err)
	}
	if got := result(t, c.Info(ctx, "replication")); !strings.Contains(got, "role:slave\r\nmaster_host:127.0.0.1\r\n") {
		return fmt.Errorf("INFO of a follower: %s", got)
	}

	// It tells of what the leader has changed.
	one, err := wire.Dial("tcp", follows.address)
	if err != nil {
		return err
	}
	defer func() { _ = one.Close() }()
	for _, step := range [][2]string{{"HELLO 3", "{"}, {"CLIENT TRACKING ON", "+OK"}, {"READONLY", "+OK"}, {"GET k", `"1"`}} {
		if got, err := one.Do(strings.Fields(step[0])...); err != nil || !strings.HasPrefix(got, step[1]) {
			return fmt.Errorf("%s: %s, %w", step[0], got, err)
		}
	}
	if err := leader.Set(ctx, "k", 2, 0).Err(); err != nil {
		return err
	}
	if got, err := one.Reply(); err != nil || got != `>["invalidate" ["k"]]` {
		return fmt.Errorf("told %s, %w", got, err)
	}
	return nil
}

// alone checks what a member answers when the others are gone.
func alone(t *testing.T, g *group) {
	ctx, last := t.Context(), (g.leader()+1)%3
	linearizable(t, g.members[last], []any{"GET", "k"}) // so it has the last value
	for i, m := range g.members {
		if i != last {
			m.end()
		}
	}
	c := connect(t, g.members[last].address, redis.Options{MaxRetries: -1})
	await("it knows", func() bool {
		err := c.Set(ctx, "k", 3, 0).Err()
		return redis.IsClusterDownError(err)
	})
	fails(t, c.Get(ctx, "k"), "CLUSTERDOWN The cluster is down")
	conn := c.Conn()
	defer func() { _ = conn.Close() }()
	is(t, conn.ReadOnly(ctx), "OK")
	is(t, conn.Get(ctx, "k"), "2")
	if got := result(t, c.ClusterInfo(ctx)); !strings.HasPrefix(got, "cluster_state:fail\r\n") {
		t.Errorf("CLUSTER INFO = %q", got)
	}
	_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.Do(ctx, "SIEVE.READ", "LINEARIZABLE")
		p.Get(ctx, "k")
		return nil
	})
	if err == nil || !strings.HasPrefix(err.Error(), "BEHIND ") {
		t.Errorf("a linearizable read: %v", err)
	}
}
