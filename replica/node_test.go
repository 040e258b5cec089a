package replica

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/internal/format"
	_ "github.com/sievekv/sievekv/internal/kvtest/seeded"
	"github.com/sievekv/sievekv/internal/member"
	"github.com/sievekv/sievekv/kv"
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
	o := Options{
		Name: name, Logger: logger,
		Store: &sievekv.Options{Logger: slog.New(slog.DiscardHandler), Durability: sievekv.Always, CacheSize: 1 << 20, MemTableSize: 2 << 20, BallastSize: -1, MinFreeSpace: -1},
	}
	if l != nil {
		o.Peer, o.Listener = l.Addr().String(), l
	}
	return o
}

// trio is a group of three.
type trio struct {
	t     *testing.T
	dirs  []string
	peers []string
	nodes []*Node // nil while it is down
}

func newTrio(t *testing.T) *trio { return newTrioWith(t, func(int, *Options) {}) }

// newTrioWith makes a group whose members have other options.
func newTrioWith(t *testing.T, change func(i int, o *Options)) *trio {
	g := &trio{t: t}
	l := peer(t)
	g.dirs, g.peers = append(g.dirs, t.TempDir()), append(g.peers, l.Addr().String())
	o := options(t, "0", l)
	change(0, &o)
	n, err := Init(g.dirs[0], o, false)
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
		token, err := ParseToken(g.addMember(fmt.Sprint(i), l.Addr().String()).String())
		if err != nil {
			t.Fatal(err)
		}
		g.dirs, g.peers = append(g.dirs, t.TempDir()), append(g.peers, l.Addr().String())
		o := options(t, fmt.Sprint(i), l)
		change(i, &o)
		n, err := Join(g.dirs[i], o, token)
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
	for end := time.Now().Add(4 * time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
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

// asLeader does something that only a leader can, until it was done by one: on a machine that is busy the leadership may end at any
// time. It returns an error of another kind.
func (g *trio) asLeader(do func(leader *Node) error) error {
	g.t.Helper()
	for {
		if err := do(g.leader()); !errors.Is(err, kv.ErrNotLeader) && !errors.Is(err, kv.ErrOutcomeUnknown) {
			return err
		}
	}
}

// addMember adds a member. Where it is not known whether it was added, it is taken away again.
func (g *trio) addMember(name, peer string) (token Token) {
	g.t.Helper()
	err := g.asLeader(func(leader *Node) (err error) {
		for _, m := range leader.Status().Members {
			if m.Peer == peer {
				if err := leader.RemoveMember(g.t.Context(), m.ID); err != nil {
					return err
				}
			}
		}
		token, err = leader.AddMember(g.t.Context(), name, peer, "")
		return err
	})
	if err != nil {
		g.t.Fatal(err)
	}
	return token
}

// transfer has a member lead, for a moment at least.
func (g *trio) transfer(to uint64) {
	g.t.Helper()
	var err error
	for end := time.Now().Add(4 * time.Minute); time.Now().Before(end); {
		leader := g.leader()
		if leader.id == to {
			return
		}
		if err = leader.Transfer(g.t.Context(), to); err == nil {
			return
		}
	}
	g.t.Fatal(err)
}

// follower returns a node that does not lead now.
func (g *trio) follower() *Node {
	g.t.Helper()
	leader := g.leader()
	return g.nodes[slices.IndexFunc(g.nodes, func(n *Node) bool { return n != nil && n != leader })]
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

// listen listens where others reach a member.
func (g *trio) listen(i int) net.Listener {
	g.t.Helper()
	l, err := net.Listen("tcp", g.peers[i])
	if err != nil {
		g.t.Fatal(err)
	}
	return l
}

func (g *trio) restart(i int) {
	g.t.Helper()
	n, err := Open(g.dirs[i], options(g.t, fmt.Sprint(i), g.listen(i)))
	if err != nil {
		g.t.Fatal(err)
	}
	g.nodes[i] = n
}

// write sets a key on whoever leads, until that is acknowledged.
func (g *trio) write(key string) {
	g.t.Helper()
	for {
		err := g.leader().DB.Set(key, value(key))
		if err == nil {
			return
		}
		if !errors.Is(err, kv.ErrNotLeader) && !errors.Is(err, kv.ErrOutcomeUnknown) && !errors.Is(err, kv.ErrNoSpace) {
			g.t.Fatalf("%s: %v", key, err)
		}
	}
}

func value(key string) []byte { return []byte("value of " + key) }

// have expects all nodes to have keys, as of now.
func (g *trio) have(keys ...string) {
	g.t.Helper()
	index, err := g.leader().ReadIndex(g.t.Context())
	if err != nil {
		g.t.Fatal(err)
	}
	for _, n := range g.nodes {
		if n == nil {
			continue
		}
		if err := n.AwaitApplied(g.t.Context(), index); err != nil {
			g.t.Fatal(err)
		}
		for _, key := range keys {
			if got, err := n.DB.Get(key); err != nil || string(got) != string(value(key)) {
				g.t.Errorf("member %x: %s: %q %v", n.id, key, got, err)
			}
		}
	}
}

// names returns names of keys.
func names(start string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint(start, i))
	}
	return names
}

func (g *trio) writeAll(keys []string) {
	g.t.Helper()
	for _, key := range keys {
		g.write(key)
	}
}

func TestNode(t *testing.T) {
	t.Parallel()
	g := newTrio(t)
	a, b, c := names("a", 20), names("b", 20), names("c", 20)
	g.writeAll(a)
	i := g.kill(g.leader())
	g.writeAll(b)
	g.restart(i)
	g.writeAll(c)
	g.have(slices.Concat(a, b, c)...)
	for _, n := range g.nodes {
		g.transfer(n.id)
		g.write("d")
		g.have("d")
	}
}

// A member that is further behind than the log reaches gets a snapshot, and then its open filters and strings equal the
// group's.
func TestNode_snapshot(t *testing.T) {
	t.Parallel()
	g := newTrioWith(t, func(_ int, o *Options) { o.LogKeep = 1 })
	g.writeAll(names("before", 5))
	add := func(item string) {
		t.Helper()
		if err := g.asLeader(func(leader *Node) error {
			_, err := leader.DB.Bloom("filter").Add([]byte(item))
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.asLeader(func(leader *Node) error {
		err := leader.DB.Bloom("filter").Reserve(sievekv.Capacity(1000, 0.01), nil)
		if errors.Is(err, kv.ErrExists) { // what was not known to be done was
			return nil
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	add("first")
	behind := g.follower()
	g.have("before0")
	if has, err := behind.DB.Bloom("filter").MayContain([]byte("first")); !has || err != nil {
		t.Fatalf("first: %t %v", has, err)
	}
	i := g.kill(behind)
	g.writeAll(names("meanwhile", 50))
	add("second")
	g.have("meanwhile49")
	for _, n := range g.nodes {
		if n != nil {
			g.await("the log is cut", func() bool {
				if err := n.cut(); err != nil {
					t.Fatal(err)
				}
				first, err := n.log.FirstIndex()
				return err == nil && first >= 50
			})
		}
	}
	g.restart(i)
	g.writeAll(names("after", 5))
	g.have(slices.Concat(names("before", 5), names("meanwhile", 50), names("after", 5))...)
	if got := g.nodes[i].images.Load(); got == 0 {
		t.Error("no snapshot was sent")
	}
	for _, item := range []string{"first", "second"} {
		if has, err := g.nodes[i].DB.Bloom("filter").MayContain([]byte(item)); !has || err != nil {
			t.Errorf("%s: %t %v", item, has, err)
		}
	}
	// It can lead with what it got.
	g.transfer(g.nodes[i].id)
	add("third")
	g.write("last")
	g.have("last")
}

// A new member of a group of one gets a snapshot that is newer than raft has asked for. The leader knows that it has sent it.
func TestNode_newerSnapshot(t *testing.T) {
	t.Parallel()
	l := peer(t)
	n, err := Init(t.TempDir(), options(t, "0", l), false)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	}()
	g := &trio{t: t, nodes: []*Node{n}}
	n = g.leader()
	n.run.do(func() {
		n.run.send = func(messages []*pb.Message) {
			if !slices.ContainsFunc(messages, func(m *pb.Message) bool { return m.GetType() == pb.MsgSnap }) {
				n.send(messages)
				return
			}
			n.others.Go(func() { // which Close waits for: it is later than what the snapshot is asked for
				if err := n.DB.Set("meanwhile", nil); err != nil {
					t.Error(err)
				}
				n.run.do(func() { n.send(messages) })
			})
		}
	})
	l = peer(t)
	token, err := n.AddMember(t.Context(), "1", l.Addr().String(), "")
	if err != nil {
		t.Fatal(err)
	}
	other, err := Join(t.TempDir(), options(t, "1", l), token)
	if err != nil {
		t.Fatal(err)
	}
	g.await("it votes", func() bool {
		s := n.Status()
		return s.Alarm != nil || other.Applied() > 0 && !slices.ContainsFunc(s.Members, func(m MemberStatus) bool { return m.Learner })
	})
	if err := errors.Join(n.Status().Alarm, other.Status().Alarm, other.Close()); err != nil {
		t.Error(err)
	}
}

// fullable is a file system that can be full.
type fullable struct {
	vfs.FS
	full atomic.Bool
}

func (f *fullable) GetDiskUsage(string) (vfs.DiskUsage, error) {
	free := uint64(1 << 30)
	if f.full.Load() {
		free = 1 << 10
	}
	return vfs.DiskUsage{AvailBytes: free, TotalBytes: 2 << 30, UsedBytes: 2<<30 - free}, nil
}

// A leader whose disk is full hands over, and takes no entries until there is room again. Then it has everything.
func TestNode_fullDisk(t *testing.T) {
	t.Parallel()
	disks := make([]*fullable, 3)
	g := newTrioWith(t, func(i int, o *Options) {
		disks[i] = &fullable{FS: vfs.Default}
		o.Store.FS, o.Store.MinFreeSpace = disks[i], 1<<20
	})
	g.write("before")
	g.have("before")
	leader := g.leader()
	i := slices.Index(g.nodes, leader)
	disks[i].full.Store(true)
	g.await("another leads", func() bool { return g.leader() != leader })
	g.await("it knows", leader.full.Load)
	meanwhile := names("meanwhile", 10)
	g.writeAll(meanwhile)
	disks[i].full.Store(false)
	g.have(append(meanwhile, "before")...)
}

// All are killed at once, and come back with everything that was acknowledged.
func TestNode_allKilled(t *testing.T) {
	t.Parallel()
	g := newTrio(t)
	keys := names("key", 30)
	g.writeAll(keys)
	for _, n := range slices.Clone(g.nodes) {
		g.kill(n)
	}
	for i := range g.nodes {
		g.restart(i)
	}
	g.have(keys...)
}

// What a member must not go on with is refused by name.
func TestNode_refuses(t *testing.T) {
	t.Parallel()
	g := newTrio(t)
	g.writeAll(names("key", 10))
	var n *Node
	for refused := false; !refused; { // unless it has become the leader
		n = g.follower()
		_, err := n.AddMember(t.Context(), "d", "127.0.0.1:1", "")
		refused = errors.Is(err, kv.ErrNotLeader) && errors.Is(n.DB.Set("key", nil), kv.ErrNotLeader)
	}
	if err := g.asLeader(func(leader *Node) error {
		_, err := leader.AddMember(t.Context(), "0", "127.0.0.1:1", "")
		return err
	}); err == nil || !strings.Contains(err.Error(), `has the name "0"`) {
		t.Errorf("a second member of the name: %v", err)
	}
	if err := g.asLeader(func(leader *Node) error { return leader.RemoveMember(t.Context(), leader.id) }); err == nil || !strings.Contains(err.Error(), "transfer the leadership first") {
		t.Errorf("the leader removes itself: %v", err)
	}
	i := g.kill(n)
	dir := g.dirs[i]
	if _, err := Init(dir, options(t, "x", peer(t)), true); !errors.Is(err, ErrMember) {
		t.Errorf("init over a member: %v", err)
	}
	token := g.addMember("d", "127.0.0.1:1")
	if err := g.asLeader(func(leader *Node) error { return leader.Transfer(t.Context(), token.Self().ID) }); err == nil || !strings.Contains(err.Error(), "does not vote") {
		t.Errorf("the leadership is handed to a member that does not vote: %v", err)
	}
	if _, err := Join(dir, options(t, "x", peer(t)), token); !errors.Is(err, ErrMember) {
		t.Errorf("join over a member: %v", err)
	}
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "something"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Join(full, options(t, "x", peer(t)), token); err == nil || !strings.Contains(err.Error(), "is not empty: it has something") {
		t.Errorf("join into a directory that is not empty: %v", err)
	}
	if _, err := Open(t.TempDir(), options(t, "x", peer(t))); !errors.Is(err, ErrNoMember) {
		t.Errorf("an empty directory: %v", err)
	}
	if _, err := sievekv.Open(dir, options(t, "x", peer(t)).Store); !errors.Is(err, kv.ErrMember) {
		t.Errorf("opened alone: %v", err)
	}
	// The log is gone.
	if err := os.RemoveAll(filepath.Join(dir, logDir)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, options(t, "x", peer(t))); !errors.Is(err, member.ErrRefused) {
		t.Errorf("without its log: %v", err)
	}
	if err := Leave(dir, options(t, "x", peer(t))); !errors.Is(err, member.ErrRefused) {
		t.Errorf("it leaves its group without its log: %v", err)
	}
	for _, text := range []string{"", "sievekv-member-1-", token.String()[:30], token.String() + "A"} {
		if _, err := ParseToken(text); !errors.Is(err, errToken) {
			t.Errorf("token %q: %v", text, err)
		}
	}
}

// A store that leaves its group has everything that was acknowledged, also what its own disk did not have yet.
func TestLeave(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n, err := Init(dir, options(t, "a", peer(t)), false)
	if err != nil {
		t.Fatal(err)
	}
	g := &trio{t: t, nodes: []*Node{n}}
	keys := names("key", 50)
	g.writeAll(keys)
	crashed := t.TempDir()
	if err := os.CopyFS(crashed, os.DirFS(dir)); err != nil { // as a kill -9 leaves it, or older
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(crashed, "LOCK")); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	o := options(t, "a", peer(t))
	if err := Leave(crashed, o); err != nil {
		t.Fatal(err)
	}
	db, err := sievekv.Open(crashed, o.Store)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, key := range keys {
		if got, err := db.Get(key); err != nil || string(got) != string(value(key)) {
			t.Errorf("%s: %q %v", key, got, err)
		}
	}
	if err := Leave(crashed, o); !errors.Is(err, ErrNoMember) {
		t.Errorf("once more: %v", err)
	}
}

// Init that was cut after the store's first entry goes on with the same member.
func TestInit_cut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := options(t, "a", peer(t))
	n, err := o.begin(dir, begunInit, true)
	if err != nil {
		t.Fatal(err)
	}
	self := Info{ID: randomID(), Name: "a", Peer: o.Peer}
	err = n.mark(map[string][]byte{markBegun: []byte(begunInit), markID: idBytes(self.ID), markGroup: make([]byte, 16), markSelf: appendInfo(nil, self)})
	if err == nil {
		err = n.openStore(format.StoreMeta{})
	}
	if err == nil {
		err = n.found(self)
	}
	if err == nil {
		err = n.log.SetMark(markBegun, []byte(begunInit))
	}
	if err := errors.Join(err, n.closeFiles()); err != nil {
		t.Fatal(err)
	}
	if n, err = Init(dir, o, false); err != nil {
		t.Fatal(err)
	}
	g := &trio{t: t, nodes: []*Node{n}}
	g.write("key")
	if n.id != self.ID {
		t.Errorf("member %x, want %x", n.id, self.ID)
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
}

// A name and addresses may have as many bytes as are allowed.
func TestMembers_long(t *testing.T) {
	long := strings.Repeat("x", maxText)
	i := Info{1, long, long, long}
	if got, rest, err := decodeInfo(appendInfo(nil, i)); err != nil || got != i || len(rest) != 0 {
		t.Errorf("%v, %d bytes left, %v", got, len(rest), err)
	}
}

// What Join has left that was cut is not for Init, nor the other way round: the stores have other identities.
func TestInit_afterJoin(t *testing.T) {
	t.Parallel()
	for how, other := range map[string]string{begunInit: begunJoin, begunJoin: begunInit} {
		dir := t.TempDir()
		o := options(t, "a", peer(t))
		n, err := o.begin(dir, how, true)
		if err == nil {
			err = errors.Join(n.mark(map[string][]byte{markBegun: []byte(how), markID: idBytes(1), markGroup: make([]byte, 16)}), n.closeFiles())
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := o.begin(dir, other, true); err == nil || !strings.Contains(err.Error(), "has what a "+how+" has left that was cut") {
			t.Errorf("%s after %s: %v", other, how, err)
		}
	}
	// A directory that is not empty is refused before anything is made in it.
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "something"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Init(dir, options(t, "a", peer(t)), false); err == nil || !strings.Contains(err.Error(), "is not empty: it has something") {
		t.Errorf("init: %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("it has %v, %v", entries, err)
	}
}
