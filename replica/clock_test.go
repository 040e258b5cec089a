package replica

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sievekv/sievekv"
)

// The time follows what it is told, jumps only ahead, and goes at half of the speed where it is ahead.
func TestClock_set(t *testing.T) {
	mono := int64(0)
	c := &clock{mono: func() int64 { return mono }}
	c.begin(1000)
	for _, tt := range []struct{ pass, set, want int64 }{
		{0, 0, 1000},
		{500, 0, 1500}, // nobody says anything
		{0, 4000, 4000},
		{100, 4100, 4100},
		{100, 4000, 4200}, // 200 ahead
		{0, 0, 4200},
		{100, 0, 4250},
		{300, 0, 4400}, // right again
		{100, 0, 4500},
		{0, 1500, 4500}, // by 3 seconds
		{1000, 2500, 5000},
		{100, 5200, 5200},
	} {
		mono += tt.pass
		if tt.set != 0 {
			c.set(tt.set)
		}
		if got := c.now(); got != tt.want {
			t.Errorf("%+v: %d", tt, got)
		}
	}
}

// The time is what a majority has reached, also if the clocks of a minority are wrong, or do not answer.
func TestReached(t *testing.T) {
	for _, tt := range []struct {
		voters int
		clocks []int64
		want   int64 // -1 if it is not known
	}{
		{1, []int64{7}, 7},
		{2, []int64{7}, -1},
		{2, []int64{9, 7}, 7},
		{3, []int64{9}, -1},
		{3, []int64{1000, 7}, 7},
		{3, []int64{1000, 9, 7}, 9},
		{3, []int64{-1000, 9, 7}, 7},
		{4, []int64{9, 1000}, -1},
		{4, []int64{9, 1000, 8}, 8},
		{5, []int64{2000, 1000, 9, 8, 7}, 9},
		{5, []int64{2000, -1000, 9}, -1000},
		{0, nil, -1},
	} {
		if got, known := reached(slices.Clone(tt.clocks), tt.voters); known != (tt.want != -1) || known && got != tt.want {
			t.Errorf("%d voters, clocks %v: %d %t, want %d", tt.voters, tt.clocks, got, known, tt.want)
		}
	}
}

// The fastest of the last answers counts, while there are new ones.
func TestClocks_say(t *testing.T) {
	var c clocks
	for _, tt := range []struct{ clock, mono, took, want int64 }{
		{1000, 100, maxTook + 1, -1},
		{1000, 100, 300, 1150},
		{2000, 1100, 10, 2005},
		{3900, 2100, 400, 3005},
		{0, 12_099, -1, 13_004},
		{0, 12_100, -1, -1},
		{13_100, 12_200, 30, 13_105},
	} {
		if tt.took >= 0 {
			c.hear(7, probe{clock: tt.clock}, tt.mono, tt.took)
		}
		if got, known := c.say(7, tt.mono); known != (tt.want != -1) || known && got != tt.want {
			t.Errorf("%+v: %d %t", tt, got, known)
		}
	}
	for i := range int64(keptHeard) { // its clock was set
		c.hear(7, probe{clock: i, logTime: time.Duration(i)}, i, 20)
	}
	if got, _ := c.say(7, 100); got != 110 {
		t.Errorf("after its clock was set: %d, want 110", got)
	}
	if got, known := c.logTime(7, 100); got != keptHeard-1 || !known {
		t.Errorf("the last it said of its log: %d %t", got, known)
	}
	if got, known := c.logTime(7, 100_000); known {
		t.Errorf("long after it said something of its log: %d", got)
	}
}

// skewed is a group whose members have wrong clocks.
type skewed struct {
	*trio
	off []atomic.Int64 // milliseconds
}

func newSkewed(t *testing.T) *skewed {
	g := &skewed{off: make([]atomic.Int64, 3)}
	g.trio = newTrioWith(t, func(i int, o *Options) {
		o.probeEvery, o.handOverEvery = 10*time.Millisecond, time.Millisecond
		o.Store.Clock = func() time.Time { return time.Now().Add(time.Duration(g.off[i].Load()) * time.Millisecond) }
	})
	return g
}

// notEarly expects the time of no member to be ahead of this machine's, and a key, which expires later, to be there.
func (g *skewed) notEarly(what, key string) {
	g.t.Helper()
	g.have(key)
	for i, n := range g.nodes {
		if ahead := n.DB.Store().Now() - time.Now().UnixMilli(); ahead > maxOff {
			g.t.Errorf("%s: the time of member %d is ahead by %d ms", what, i, ahead)
		}
	}
}

// lifetime is how long keys live: less than any clock is off, and longer than the test takes.
const lifetime = 30 * time.Minute

// Nothing expires early because of the clock of one member, whether that leads or follows, is ahead or behind, by an hour or a
// day; and such a member does not go on leading. Keys that are written meanwhile get the right time.
func TestClock_wrong(t *testing.T) {
	t.Parallel()
	g := newSkewed(t)
	expiring := func(key string) {
		t.Helper()
		if err := g.asLeader(func(leader *Node) error {
			_, err := leader.DB.SetWith(key, value(key), sievekv.SetOptions{TTL: lifetime})
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	for i, off := range []time.Duration{time.Hour, -24 * time.Hour, 24 * time.Hour, -time.Hour} {
		wrong := g.nodes[i%3]
		what := fmt.Sprintf("member %d is off by %v", i%3, off)
		before, leading, after := what+", before", what+", leading", what+", after"
		expiring(before)
		g.transfer(wrong.id)
		g.off[i%3].Store(off.Milliseconds())
		expiring(leading)
		g.notEarly(what, before)
		g.notEarly(what, leading)
		g.await(what+": another leads", func() bool { return g.leader() != wrong })
		g.await(what+": others know", func() bool {
			m := g.leader().Status().member(wrong.id)
			return m.off() && (m.Clock-off).Abs() < lifetime
		})
		expiring(after)
		for _, key := range []string{before, leading, after} {
			g.notEarly(what, key)
			if left, err := g.leader().DB.TTL(key); err != nil || left <= 0 || left > lifetime {
				t.Errorf("%s: %v left, %v", key, left, err)
			}
		}
		g.transfer(wrong.id) // it leads for a moment
		g.write("by whoever leads")
		g.notEarly(what, after)
		g.off[i%3].Store(0)
		g.await(what+" no more", func() bool { return !g.leader().Status().member(wrong.id).off() })
	}
}

// A key expires when a majority says so, on all members, without anybody writing.
func TestClock_expires(t *testing.T) {
	t.Parallel()
	g := newSkewed(t)
	err := g.asLeader(func(leader *Node) error {
		_, err := leader.DB.SetWith("key", nil, sievekv.SetOptions{TTL: time.Hour})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		g.off[i].Store(2 * time.Hour.Milliseconds())
	}
	for _, n := range g.nodes {
		g.await("the key has expired", func() bool {
			found, err := n.DB.Exists("key")
			return err == nil && found == 0
		})
	}
}

// A leader of a group that was ended for long has the right time before it takes the first write.
func TestClock_restarted(t *testing.T) {
	t.Parallel()
	g := newSkewed(t)
	g.write("before")
	g.have("before")
	for _, n := range slices.Clone(g.nodes) {
		g.kill(n)
	}
	for i := range g.nodes {
		o := options(t, fmt.Sprint(i), g.listen(i))
		o.Store.Clock = func() time.Time { return time.Now().Add(24 * time.Hour) }
		n, err := Open(g.dirs[i], o)
		if err != nil {
			t.Fatal(err)
		}
		g.nodes[i] = n
	}
	leader := g.leader()
	if behind := time.Now().Add(24*time.Hour).UnixMilli() - leader.DB.Store().Now(); behind > time.Hour.Milliseconds() {
		t.Errorf("it leads, and its time is behind by %d ms", behind)
	}
}
