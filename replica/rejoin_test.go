package replica

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/internal/member"
)

// replaced has the group replace a member, until it is known to be done.
func (g *trio) replaced(name, peer string) (token Token) {
	g.t.Helper()
	if err := g.asLeader(func(leader *Node) (err error) {
		for _, m := range leader.Status().Members {
			if m.Name == name {
				token, err = leader.ReplaceMember(g.t.Context(), m.ID)
				return err
			}
		}
		token, err = leader.AddMember(g.t.Context(), name, peer, "")
		return err
	}); err != nil {
		g.t.Fatal(err)
	}
	return token
}

// A member whose log was lost is replaced in its own directory, whichever step of moving its content aside is cut. All of it is there
// afterwards.
func TestRejoin(t *testing.T) {
	t.Parallel()
	g := newTrio(t)
	keys := names("key", 20)
	g.writeAll(keys)
	g.have(keys...)
	i := g.kill(g.follower())
	dir := g.dirs[i]
	old, _, err := readNote(vfs.Default, dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, logDir)); err != nil {
		t.Fatal(err)
	}
	before := list(t, dir)
	if _, err := Open(dir, options(t, "x", peer(t))); !errors.Is(err, member.ErrRefused) {
		t.Errorf("without its log: %v", err)
	}
	token := g.replaced(fmt.Sprint(i), g.peers[i])
	for step := 1; ; step++ {
		o := options(t, fmt.Sprint(i), nil)
		disk := &failing{FS: vfs.Default, left: step}
		o.Store.FS = disk
		err := o.setAside(dir, token)
		if disk.left > 0 {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		if !errors.Is(err, errCut) {
			t.Fatalf("step %d: %v", step, err)
		}
	}
	aside := filepath.Join(dir, asideName(old.id))
	if got := list(t, aside); !slices.Equal(got, before) {
		t.Errorf("moved: %q\nwant   %q", got, before)
	}
	if got, err := contents(vfs.Default, dir); err != nil || len(got) > 0 {
		t.Errorf("left: %q %v", got, err)
	}
	n, err := Rejoin(dir, options(t, fmt.Sprint(i), g.listen(i)), token)
	if err != nil {
		t.Fatal(err)
	}
	g.nodes[i] = n
	g.write("after")
	g.have(append(keys, "after")...)
	g.kill(n)
	g.restart(i)
	g.have(keys...)
}

// list lists a directory, without the file that is locked.
func list(t *testing.T, dir string) []string {
	t.Helper()
	names, err := vfs.Default.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return slices.DeleteFunc(names, func(name string) bool { return name == lockName })
}

var errCut = errors.New("cut")

// failing is a file system whose changes fail from one of them on, as if the machine had crashed.
type failing struct {
	vfs.FS
	left int
}

func (f *failing) step() error {
	if f.left--; f.left <= 0 {
		return errCut
	}
	return nil
}

func (f *failing) Rename(from, to string) error {
	if err := f.step(); err != nil {
		return err
	}
	return f.FS.Rename(from, to)
}

func (f *failing) MkdirAll(dir string, perm os.FileMode) error {
	if err := f.step(); err != nil {
		return err
	}
	return f.FS.MkdirAll(dir, perm)
}

func (f *failing) OpenDir(dir string) (vfs.File, error) {
	if err := f.step(); err != nil {
		return nil, err
	}
	return f.FS.OpenDir(dir)
}

// What Rejoin must not move aside is refused by name, and nothing is changed.
func TestRejoin_refuses(t *testing.T) {
	t.Parallel()
	g := newTrio(t)
	g.write("key")
	g.have("key")
	other := newTrio(t)
	foreign := other.kill(other.follower())
	leader := g.leader()
	running := g.dirs[slices.Index(g.nodes, leader)]
	i := g.kill(g.follower())
	healthy := g.addMember("d", "127.0.0.1:1") // of a member that is to be another
	token := g.replaced(fmt.Sprint(i), g.peers[i])
	alone := t.TempDir()
	db, err := sievekv.Open(alone, options(t, "x", peer(t)).Store)
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	files, damaged := t.TempDir(), t.TempDir()
	write := func(dir, name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(files, "letter", "dear")
	write(damaged, noteName, "sievekv member 2")
	refused := func(what, dir, want string, token Token) {
		t.Helper()
		before := list(t, dir)
		o := options(t, "x", nil)
		if err := o.setAside(dir, token); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v\nwant %q", what, err, want)
		}
		if after := list(t, dir); !slices.Equal(before, after) {
			t.Errorf("%s: it has %q, and had %q", what, after, before)
		}
	}
	refused("a member of another group", other.dirs[foreign], "and the token is of group", token)
	refused("a member that the group has", g.dirs[i], "which the group still has", healthy)
	refused("another that the group has", running, "which the group still has", token)
	refused("a store that is alone", alone, "is of no member of a group", token)
	refused("somebody's files", files, "it has letter, and is of no member of a group", token)
	refused("a damaged note", damaged, errNote.Error(), token)
	write(g.dirs[i], "letter", "dear")
	refused("somebody's file beside a member", g.dirs[i], "has letter, which is no part of a member", token)
	if err := os.Remove(filepath.Join(g.dirs[i], "letter")); err != nil {
		t.Fatal(err)
	}
	lock, err := vfs.Default.Lock(filepath.Join(g.dirs[i], lockName))
	if err != nil {
		t.Fatal(err)
	}
	refused("a member that runs", g.dirs[i], "is in use", token)
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	n, err := Rejoin(g.dirs[i], options(t, fmt.Sprint(i), g.listen(i)), token)
	if err != nil {
		t.Fatal(err)
	}
	g.nodes[i] = n
	g.have("key")
	g.kill(n)
	if _, err := Rejoin(g.dirs[i], options(t, "x", peer(t)), token); !errors.Is(err, ErrMember) {
		t.Errorf("a member that has joined with the token: %v", err)
	}
}

// The log of another member is refused: two processes would be the same member.
func TestOpen_logOfAnother(t *testing.T) {
	t.Parallel()
	g := newTrio(t)
	g.write("key")
	g.have("key")
	i := g.kill(g.follower())
	j := g.kill(g.follower())
	if err := errors.Join(os.RemoveAll(filepath.Join(g.dirs[i], logDir)),
		os.CopyFS(filepath.Join(g.dirs[i], logDir), os.DirFS(filepath.Join(g.dirs[j], logDir)))); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(g.dirs[i], options(t, "x", peer(t))); err == nil || !strings.Contains(err.Error(), "the log of another was put in its place") {
		t.Errorf("%v", err)
	}
}
