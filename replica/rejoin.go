package replica

import (
	"cmp"
	"errors"
	"fmt"
	iofs "io/fs"
	"path/filepath"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/dirsync"
	"github.com/sievekv/sievekv/internal/storage/files"
)

// Rejoin is Join in the directory of an earlier member of the group, or in its remains: a member that has found damage,
// differs from the others, or was removed. It moves the old files into the subdirectory "replaced-ID", with the earlier
// member's id. Only the operator removes that. An interrupted Rejoin can be repeated.
//
// It refuses a member of another group, a member that the group still has, a store that is alone, and files that are no
// part of a member. An empty or missing directory belongs to a member that lost everything.
func Rejoin(dir string, o Options, t Token) (*Node, error) {
	if err := o.checkLevel(t.level); err != nil {
		return nil, err
	}
	if err := o.setAside(dir, t); err != nil {
		return nil, err
	}
	return Join(dir, o, t)
}

// asideName is the directory for the files of an earlier member.
func asideName(id uint64) string { return "replaced-" + hexID(id) }

// setAside moves aside the files of an earlier member of the token's group.
func (o Options) setAside(dir string, t Token) error {
	fs := o.fileSystem()
	earlier, err := o.findEarlier(fs, dir, t)
	if err != nil || earlier == nil || earlier.id == t.self.ID { // Join goes on with the last, or refuses it
		return err
	}
	if earlier.group != t.group {
		return fmt.Errorf("%s is of member %x of group %x, and the token is of group %x", dir, earlier.id, earlier.group, t.group)
	}
	for _, i := range t.peers {
		if i.ID == earlier.id {
			return fmt.Errorf("%s is of member %x %q, which the group still has: the token takes the place of another, %q (%s)", dir, i.ID, i.Name, t.self.Name, t.self.Peer)
		}
	}
	lock, err := fs.Lock(fs.PathJoin(dir, lockName))
	if err != nil {
		return fmt.Errorf("member %x is in use: %s: %w", earlier.id, dir, err)
	}
	if err := errors.Join(move(fs, dir, *earlier), lock.Close()); err != nil {
		return err
	}
	o.log().Warn("sievekv: what the earlier member had was moved aside; remove it when it is not needed any more", "dir", dir, "member", hexID(earlier.id),
		"to", fs.PathJoin(dir, asideName(earlier.id)))
	return nil
}

// findEarlier returns the member whose directory it is, nil if the directory has none.
func (o Options) findEarlier(fs vfs.FS, dir string, t Token) (*who, error) {
	names, err := contents(fs, dir)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	w, there, err := readNote(fs, dir)
	if err == nil && !there {
		if !slices.Contains(names, logDir) {
			return nil, fmt.Errorf("%s is not empty: it has %s, and is of no member of a group; rejoin takes the place of an earlier member, or an empty directory", dir, names[0])
		}
		w, err = o.marked(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("which member %s is of cannot be told: %w; move what it has to another directory, and repeat", dir, err)
	}
	if w.group != t.group {
		return &w, nil // which is what matters
	}
	for _, name := range names {
		if !isMembers(name) {
			return nil, fmt.Errorf("%s has %s, which is no part of a member: move it to another directory", dir, name)
		}
	}
	return &w, nil
}

// marked returns the member that a log belongs to.
func (o Options) marked(dir string) (who, error) {
	n, err := o.open(dir, true)
	if err != nil {
		return who{}, err
	}
	err = n.readMarks()
	return who{n.group, n.id}, errors.Join(err, n.closeFiles())
}

// contents lists a directory, without the files that were moved aside before, and without the lock file.
func contents(fs vfs.FS, dir string) ([]string, error) {
	names, err := fs.List(dir)
	if errors.Is(err, iofs.ErrNotExist) {
		return nil, nil
	}
	slices.Sort(names)
	return slices.DeleteFunc(names, func(name string) bool { return isAside(name) || name == lockName }), err
}

func isAside(name string) bool { ok, _ := filepath.Match("replaced-*", name); return ok }

// isMembers reports whether a name is one that the directory of a member may have.
func isMembers(name string) bool {
	for _, pattern := range []string{logDir, noteName, noteName + ".tmp", "incoming-*", files.Unfinished, "archive*", "serve.addr"} {
		if ok, _ := filepath.Match(pattern, name); ok {
			return true
		}
	}
	return files.LooksLikePart(name)
}

// move moves the files of a member aside, the log first: without it nothing starts. The note is last; until it has been
// moved, the move can be repeated.
func move(fs vfs.FS, dir string, w who) error {
	if err := writeNote(fs, dir, w); err != nil {
		return err
	}
	aside := fs.PathJoin(dir, asideName(w.id))
	if err := dirsync.Make(fs, aside, dirsync.Strict); err != nil {
		return err
	}
	names, err := contents(fs, dir)
	if err != nil {
		return err
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(place(a), place(b)) })
	for _, name := range names {
		if name == noteName {
			if err := errors.Join(dirsync.Strict(fs, aside), dirsync.Strict(fs, dir)); err != nil {
				return err
			}
		}
		if err := fs.Rename(fs.PathJoin(dir, name), fs.PathJoin(aside, name)); err != nil {
			return err
		}
	}
	return errors.Join(dirsync.Strict(fs, aside), dirsync.Strict(fs, dir))
}

// place is the order in which move moves.
func place(name string) int {
	switch name {
	case logDir:
		return 0
	case noteName:
		return 2
	}
	return 1
}

// lockName is the lock file of an open store. It stays.
const lockName = "LOCK"
