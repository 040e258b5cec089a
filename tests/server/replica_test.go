package server_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/replica"
	"github.com/sievekv/sievekv/server"
)

// served is a member of a real group, with its server.
type served struct {
	node    *replica.Node
	address string
}

// serveMember opens a member by one of the functions of package replica, and serves it until the test ends.
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
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(serveAt(t, n.DB, client, &server.Options{Group: n.Group()}))
	return &served{n, client.Addr().String()}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// serveGroup serves a real group of three. All vote.
func serveGroup(t *testing.T) (members []*served) {
	t.Helper()
	members = append(members, serveMember(t, "0", listen(t), listen(t), func(o replica.Options) (*replica.Node, error) {
		return replica.Init(t.TempDir(), o, false)
	}))
	await(t, "the first member leads", func() bool { return members[0].node.Status().Leads })
	for i := 1; i < 3; i++ {
		client, peer := listen(t), listen(t)
		token, err := members[0].node.AddMember(t.Context(), fmt.Sprint(i), peer.Addr().String(), client.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		members = append(members, serveMember(t, fmt.Sprint(i), client, peer, func(o replica.Options) (*replica.Node, error) {
			return replica.Join(t.TempDir(), o, token)
		}))
	}
	await(t, "all members vote", func() bool {
		s := members[0].node.Status()
		voters := 0
		for _, m := range s.Members {
			if !m.Learner {
				voters++
			}
		}
		return voters == 3
	})
	return members
}

// await waits until something is true, as long as the test may take.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for !is() {
		time.Sleep(5 * time.Millisecond)
	}
}

// Through transfers of the lead of a real group, a cluster client sees no error but UNKNOWN, and no count is too high or too low:
// INCR is done once for each answer. Reads that ask for it see everything that was acknowledged, on each member.
func TestCluster_replica(t *testing.T) {
	members := serveGroup(t)
	o := redis.ClusterOptions{MaxRedirects: 20}
	for _, m := range members {
		o.Addrs = append(o.Addrs, m.address)
	}
	client := redis.NewClusterClient(&o)
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	ctx := t.Context()
	var users sync.WaitGroup
	var done atomic.Bool
	var counts [4]struct{ least, unknown int64 }
	for user := range counts {
		users.Go(func() {
			c, key := &counts[user], fmt.Sprint("user:", user)
			for !done.Load() {
				n, err := client.Incr(ctx, key).Result()
				switch {
				case err == nil && n > c.least && n <= c.least+c.unknown+1:
					c.least, c.unknown = n, 0
				case err != nil && strings.HasPrefix(err.Error(), "UNKNOWN "):
					c.unknown++
				default:
					t.Errorf("%s: %d, %v, after %d and %d unknown", key, n, err, c.least, c.unknown)
					return
				}
			}
		})
	}
	for i := range 6 {
		to := members[(i+1)%3].node
		for _, m := range members {
			if m.node.Status().Leads && m.node != to {
				within, end := context.WithTimeout(ctx, time.Minute)
				if err := m.node.Transfer(within, to.Status().Self); err != nil {
					t.Errorf("transfer: %v", err)
				}
				end()
			}
		}
		await(t, "the next leads", func() bool { return to.Status().Leads || done.Load() })
		time.Sleep(20 * time.Millisecond) // some commands between
	}
	done.Store(true)
	users.Wait()
	total := int64(0)
	for user, c := range counts {
		key := fmt.Sprint("user:", user)
		total += c.least
		for i, m := range members {
			var got *redis.StringCmd
			one := connect(t, m.address, redis.Options{})
			if _, err := one.Pipelined(ctx, func(p redis.Pipeliner) error {
				p.Do(ctx, "SIEVE.READ", "LINEARIZABLE")
				got = p.Get(ctx, key)
				return nil
			}); err != nil {
				t.Errorf("member %d: %v", i, err)
				continue
			}
			if n, _ := got.Int64(); n < c.least || n > c.least+c.unknown {
				t.Errorf("member %d: %s is %d, want %d to %d", i, key, n, c.least, c.least+c.unknown)
			}
		}
	}
	if total < 50 {
		t.Errorf("only %d commands were acknowledged", total)
	}
	t.Logf("%d acknowledged", total)
}
