package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/kv"
	_ "github.com/sievekv/sievekv/kv/kvtest/seeded"
)

// peer returns a listener, which is where another member can reach it.
func peer(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func options(t *testing.T, name string, l net.Listener) Options {
	logger := slog.New(slog.DiscardHandler)
	if testing.Verbose() {
		logger = slog.New(slog.NewTextHandler(os.Stderr, nil)).With("node", name)
	}
	return Options{
		Name: name, Peer: l.Addr().String(), Listener: l, Logger: logger,
		Store: &sievekv.Options{Logger: slog.New(slog.DiscardHandler), Durability: sievekv.Always, CacheSize: 1 << 20, MemTableSize: 2 << 20, BallastSize: -1, MinFreeSpace: -1},
	}
}

// trio is a group of three.
type trio struct {
	t     *testing.T
	dirs  []string
	nodes []*Node // nil while it is down
}

func newTrio(t *testing.T) *trio {
	g := &trio{t: t}
	l := peer(t)
	g.dirs = append(g.dirs, t.TempDir())
	n, err := Init(g.dirs[0], options(t, "0", l), false)
	if err != nil {
		t.Fatal(err)
	}
	g.nodes = append(g.nodes, n)
	t.Cleanup(func() {
		for _, n := range g.nodes {
			if n != nil {
				if err := n.Close(); err != nil {
					t.Error(err)
				}
			}
		}
	})
	for i := 1; i < 3; i++ {
		l := peer(t)
		token, err := g.leader().AddMember(t.Context(), fmt.Sprint(i), l.Addr().String(), "")
		if err != nil {
			t.Fatal(err)
		}
		if token, err = ParseToken(token.String()); err != nil {
			t.Fatal(err)
		}
		g.dirs = append(g.dirs, t.TempDir())
		n, err := Join(g.dirs[i], options(t, fmt.Sprint(i), l), token)
		if err != nil {
			t.Fatal(err)
		}
		g.nodes = append(g.nodes, n)
		g.await("member votes", func() bool {
			for _, m := range g.leader().Status().Members {
				if m.ID == n.id {
					return !m.Learner
				}
			}
			return false
		})
	}
	return g
}

func (g *trio) await(what string, is func() bool) {
	g.t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			for _, n := range g.nodes {
				if n != nil {
					g.t.Logf("%+v", n.Status())
				}
			}
			g.t.Fatalf("%s: not yet", what)
		}
	}
}

// leader waits for a leader.
func (g *trio) leader() (leader *Node) {
	g.t.Helper()
	g.await("leader", func() bool {
		for _, n := range g.nodes {
			if n != nil && n.Status().Leads {
				leader = n
				return true
			}
		}
		return false
	})
	return leader
}

// kill ends a node as a crash does: nothing is handed over, and nothing written.
func (g *trio) kill(n *Node) (i int) {
	g.t.Helper()
	for i := range g.nodes {
		if g.nodes[i] == n {
			n.m.Fail(ErrClosed)
			if err := n.Close(); err != nil && !errors.Is(err, kv.ErrFailed) {
				g.t.Error(err)
			}
			g.nodes[i] = nil
			return i
		}
	}
	return -1
}

func (g *trio) restart(i int) {
	g.t.Helper()
	peer := ""
	for _, n := range g.nodes {
		if n != nil {
			for _, m := range n.Status().Members {
				if m.Name == fmt.Sprint(i) {
					peer = m.Peer
				}
			}
		}
	}
	l, err := net.Listen("tcp", peer)
	if err != nil {
		g.t.Fatal(err)
	}
	n, err := Open(g.dirs[i], options(g.t, fmt.Sprint(i), l))
	if err != nil {
		g.t.Fatal(err)
	}
	g.nodes[i] = n
}

func TestNode(t *testing.T) {
	g := newTrio(t)
	ctx := t.Context()
	write := func(key string) {
		t.Helper()
		for {
			n := g.leader()
			err := n.DB.Set(key, []byte("value of "+key))
			if err == nil {
				return
			}
			if !errors.Is(err, kv.ErrNotLeader) {
				t.Fatalf("%s: %v", key, err)
			}
		}
	}
	has := func(n *Node, key string) {
		t.Helper()
		if value, err := n.DB.Get(key); err != nil || string(value) != "value of "+key {
			t.Errorf("member %x: %s: %q %v", n.id, key, value, err)
		}
	}
	for i := range 20 {
		write(fmt.Sprint("a", i))
	}
	i := g.kill(g.leader())
	for i := range 20 {
		write(fmt.Sprint("b", i))
	}
	g.restart(i)
	for i := range 20 {
		write(fmt.Sprint("c", i))
	}
	index, err := g.nodes[i].ReadIndex(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range g.nodes {
		if err := n.AwaitApplied(ctx, index); err != nil {
			t.Fatal(err)
		}
		for _, what := range []string{"a", "b", "c"} {
			for i := range 20 {
				has(n, fmt.Sprint(what, i))
			}
		}
	}
	n := g.leader()
	to := n.Status().MostAdvanced()
	handing, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := n.Transfer(handing, to); err != nil {
		t.Error(err)
	}
	if got := g.leader().id; got != to {
		t.Errorf("%x leads, want %x", got, to)
	}
	write("d")
}
