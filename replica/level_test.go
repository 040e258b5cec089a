package replica

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sievekv/sievekv/internal/entry"
)

// tooLow is what a program says that knows less than a group needs.
const tooLow = "the log of the group has messages of format level 2, this program knows up to 1: upgrade it"

// raise has the leader put a message of level 2 into the log, until it is there.
func (g *trio) raise() {
	g.t.Helper()
	g.await("the level is raised", func() bool {
		leader := g.leader()
		leader.proposeCompare(1)
		return leader.level.Load() == entry.LevelCompare
	})
}

// ended reports whether a member has ended because it knows too little.
func (n *Node) ended() bool {
	err := n.m.Failed()
	return err != nil && strings.Contains(err.Error(), "format level 2, this program knows up to 1: upgrade it")
}

// A group whose members are upgraded one by one raises its level when the last of them knows it, and not before.
func TestLevel_waits(t *testing.T) {
	t.Parallel()
	change := func(o *Options) { o.probeEvery, o.CompareEvery = 10*time.Millisecond, 10*time.Millisecond }
	g := newTrioWith(t, func(_ int, o *Options) {
		change(o)
		o.level = entry.LevelRecords
	})
	for i := range g.nodes {
		for _, n := range g.nodes { // all have heard what the others know
			g.await("members know of each other", func() bool {
				for j, other := range g.nodes {
					if want := byte(entry.LevelRecords); other != n && j >= i && n.clocks.level(other.id) != want {
						return false
					}
				}
				return true
			})
			g.transfer(n.id)
			g.write("key")
			if level := n.level.Load(); level != entry.LevelRecords || n.allKnow(n.Status(), entry.LevelCompare) {
				t.Errorf("with %d members upgraded the group's level is %d, or about to be raised", i, level)
			}
		}
		g.kill(g.nodes[i])
		o := options(t, "high", g.listen(i))
		change(&o)
		n, err := Open(g.dirs[i], o)
		if err != nil {
			t.Fatal(err)
		}
		g.nodes[i] = n
	}
	for _, n := range g.nodes {
		g.await("the level is raised", func() bool { return n.level.Load() == entry.LevelCompare })
	}
	g.have("key")
}

// A program that knows less than the group needs does not start a member, and makes none: with a snapshot it would get what it does not
// know. Nothing of its directory changes.
func TestLevel_refuses(t *testing.T) {
	t.Parallel()
	g := newTrio(t)
	before := g.addMember("before", "127.0.0.1:1")
	g.raise()
	n := g.follower()
	g.await("a follower knows", func() bool { return n.level.Load() == entry.LevelCompare })
	token, err := ParseToken(g.addMember("after", "127.0.0.1:2").String())
	if err != nil || before.level != entry.LevelRecords || token.level != entry.LevelCompare || !strings.HasPrefix(before.String(), tokenStart) {
		t.Errorf("tokens of level %d and %d, %v", before.level, token.level, err)
	}
	i := g.kill(n)
	low := options(t, "low", peer(t))
	low.level = entry.LevelRecords
	refused := func(what string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), tooLow) {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err = Open(g.dirs[i], low)
	refused("open", err)
	refused("leave", Leave(g.dirs[i], low))
	_, err = Rejoin(g.dirs[i], low, token)
	refused("rejoin", err)
	empty := t.TempDir()
	_, err = Join(empty, low, token)
	refused("join", err)
	if entries, err := os.ReadDir(empty); err != nil || len(entries) > 0 {
		t.Errorf("join has left %v, %v", entries, err)
	}
	g.restart(i)
	g.write("after")
	g.have("after")
}

// A member that runs, and knows less than a message needs, ends, and the others go on. So does one that hears it from others only, because it
// has joined with a token of before. With a program that knows more it goes on where it was.
func TestLevel_runs(t *testing.T) {
	t.Parallel()
	l := peer(t)
	low := func(o *Options) { o.level, o.probeEvery = entry.LevelRecords, 10*time.Millisecond }
	g := newTrioWith(t, func(i int, o *Options) {
		if o.probeEvery = 10 * time.Millisecond; i == 2 {
			low(o)
		}
	})
	token := g.addMember("joins", l.Addr().String())
	g.transfer(g.nodes[0].id)
	g.await("it ends", func() bool {
		g.leader().proposeCompare(1)
		return g.nodes[2].ended()
	})
	g.await("it says so", func() bool { return g.nodes[2].Status().Alarm != nil })
	g.write("meanwhile")
	o := options(t, "joins", l)
	low(&o)
	joins, err := Join(t.TempDir(), o, token)
	if err != nil {
		t.Fatal(err)
	}
	g.await("the one that joins ends", joins.ended)
	if err := joins.Close(); err != nil {
		t.Error(err)
	}
	i := g.kill(g.nodes[2])
	g.restart(i)
	g.write("after")
	g.have("meanwhile", "after")
	if err := g.asLeader(func(leader *Node) error { return leader.RemoveMember(t.Context(), token.Self().ID) }); err != nil {
		t.Error(err)
	}
}
