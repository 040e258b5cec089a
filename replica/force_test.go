package replica

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/internal/raftlog"
	"github.com/sievekv/sievekv/kv"
)

// The longest history that is left goes on as a new group, with everything that was acknowledged. The old members are not heard there.
func TestForce(t *testing.T) {
	t.Parallel()
	g := newTrio(t)
	first, second := names("first", 10), names("second", 10)
	g.writeAll(first)
	g.have(first...)
	behind := g.kill(g.follower())
	g.writeAll(second)
	g.have(second...)
	lost := g.kill(g.follower())
	last := g.kill(g.nodes[3-behind-lost])
	o := options(t, "x", nil)
	// The log of one is damaged: it is not chosen, and does not keep others from it.
	if err := os.Remove(filepath.Join(g.dirs[lost], logDir, "SYNCED")); err != nil {
		t.Fatal(err)
	}
	found := Inspect(g.dirs, o)
	longest := Longest(found)
	if longest != found[last] {
		t.Fatalf("the longest history is %+v, want %+v", longest, found[last])
	}
	if lacks, other := found[behind].Lacks(longest); found[behind].Err != nil || lacks < uint64(len(second)) || other != 0 {
		t.Errorf("%+v lacks %d, and has %d others", found[behind], lacks, other)
	}
	if lacks, other := longest.Lacks(longest); lacks != 0 || other != 0 || longest.Info.Peer != g.peers[last] || longest.Committed < longest.Applied || longest.Applied == 0 {
		t.Errorf("%+v lacks %d, and has %d others", longest, lacks, other)
	}
	if found[lost].Err == nil || found[lost].Group != longest.Group {
		t.Errorf("a damaged log: %+v", found[lost])
	}
	if _, err := Force(g.dirs[lost], o); !errors.Is(err, raftlog.ErrForeign) {
		t.Errorf("of a damaged log: %v", err)
	}
	group, err := Force(g.dirs[last], o)
	if err != nil || group == longest.Group {
		t.Fatalf("group %x %v", group, err)
	}
	g.restart(last)
	g.write("after")
	g.have(append(append(first, second...), "after")...)
	if s := g.nodes[last].Status(); s.Group != group || len(s.Members) != 1 || s.Members[0].Name != longest.Info.Name || s.Members[0].Peer != g.peers[last] {
		t.Errorf("%+v", s)
	}
	// An old member comes back. It hears nothing of the new group.
	g.restart(behind)
	old := g.nodes[behind]
	if err := old.DB.Set("key", nil); !errors.Is(err, kv.ErrNotLeader) {
		t.Errorf("an old member takes a write: %v", err)
	}
	g.kill(old)
	if got := Inspect([]string{g.dirs[behind]}, o)[0]; got.Group != longest.Group || got.Last != found[behind].Last {
		t.Errorf("an old member has %+v, and had %+v", got, found[behind])
	}
	// A new one joins in an empty directory.
	token := g.addMember("new", g.peers[behind])
	g.dirs[behind] = t.TempDir()
	if g.nodes[behind], err = Join(g.dirs[behind], options(t, "new", g.listen(behind)), token); err != nil {
		t.Fatal(err)
	}
	g.have(first...)
}

// What is not committed on a member that was cut off is counted, and a member that runs is told.
func TestInspect(t *testing.T) {
	t.Parallel()
	a := &Remains{Last: 20, LastTerm: 5, begins: 3, terms: []run{{3, 1}, {10, 2}, {15, 5}}}
	for _, tt := range []struct {
		name         string
		r            Remains
		lacks, other uint64
	}{
		{"behind", Remains{Last: 12, LastTerm: 2, begins: 1, terms: []run{{1, 1}, {10, 2}}}, 8, 0},
		{"led without a majority", Remains{Last: 18, LastTerm: 4, begins: 5, terms: []run{{5, 1}, {10, 2}, {13, 4}}}, 8, 6},
		{"its log begins behind the other's end", Remains{Last: 9, LastTerm: 1, begins: 9, terms: []run{{9, 1}}}, 11, 0},
		{"ends before the other begins", Remains{Last: 2, LastTerm: 1, begins: 0, terms: []run{{1, 1}}}, 18, 0},
		{"equal", *a, 0, 0},
	} {
		tt.r.whole, a.whole = tt.r.agrees(a), a.Last
		if lacks, other := tt.r.Lacks(a); lacks != tt.lacks || other != tt.other {
			t.Errorf("%s: lacks %d and has %d others, want %d and %d", tt.name, lacks, other, tt.lacks, tt.other)
		}
	}
	n, err := Init(t.TempDir(), options(t, "a", peer(t)), false)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	if r := Inspect([]string{n.dir}, options(t, "a", nil))[0]; !r.InUse || r.Group != n.group {
		t.Errorf("a member that runs: %+v", r)
	}
	if _, err := Force(t.TempDir(), options(t, "a", nil)); !errors.Is(err, ErrNoMember) || !strings.Contains(err.Error(), "no member of a group") {
		t.Errorf("an empty directory: %v", err)
	}
}
