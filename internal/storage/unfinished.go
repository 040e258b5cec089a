package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/dirsync"
	"github.com/sievekv/sievekv/internal/storage/files"
	"github.com/sievekv/sievekv/internal/text"
)

// A store that is being made as a backup, of an archive, or by a salvage has another name until it is whole. A killed
// process leaves it under that name. It may look like a store, but may be incomplete or unchecked. So while it is being
// made it has the file UnfinishedName, and only the process that makes it can open it.

// UnfinishedName is the name of a file in the directory of a store that is being made.
const UnfinishedName = files.Unfinished

// ErrUnfinished is returned by Open for a store that a process was making when it was killed.
var ErrUnfinished = errors.New("kv: unfinished store")

// beingMade has the directories of the stores that this process is making.
var beingMade sync.Map // string

// Unfinished marks a store that is about to be made in dir, which exists. Until done is called, only this process can
// open it. Done also has to be called if the store is given up.
func Unfinished(fsys vfs.FS, dir string) (done func() error, err error) {
	s := &Store{opts: Options{FS: fsys}}
	if s.Dir, err = s.cleanDir(dir); err != nil {
		return nil, err
	}
	beingMade.Store(s.Dir, nil)
	name := fsys.PathJoin(s.Dir, UnfinishedName)
	if err := writeFileSync(s.fileSystem(), name, nil); err != nil {
		beingMade.Delete(s.Dir)
		return nil, err
	}
	return func() error {
		beingMade.Delete(s.Dir)
		if err := fsys.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return dirsync.Tolerant(s.fileSystem(), s.Dir) // so that a crash does not bring the file back
	}, nil
}

// refuseUnfinished refuses a store that is not whole, and that another process was making.
func (s *Store) refuseUnfinished(fsys vfs.FS) error {
	if _, own := beingMade.Load(s.Dir); own || s.opts.InMemory {
		return nil
	}
	_, err := fsys.Stat(fsys.PathJoin(s.Dir, UnfinishedName))
	if err == nil {
		return fmt.Errorf("%w: %s has the file %s: a process that made a backup, a restored or a salvaged store here has not ended, "+
			"or was killed; then remove the directory", ErrUnfinished, s.Dir, UnfinishedName)
	}
	return nil // there is no directory, or the next steps tell what is wrong with it
}

// leftArchive matches the name of the directory in which Archive makes a backup.
var leftArchive = regexp.MustCompile(`^` + archiveDir + `\.partial-[0-9a-f]{8}$`)

// LeftArchives returns the names of directories in a store's directory that processes killed while writing archives
// have left. The links in them keep deleted tables on the disk.
func LeftArchives(fsys vfs.FS, dir string) (names []string, err error) {
	all, err := fsys.List(dir)
	for _, name := range all {
		if leftArchive.MatchString(name) {
			names = append(names, name)
		}
	}
	return names, err
}

// removeArchives removes such directories. The store is locked.
func (s *Store) removeArchives(fsys vfs.FS) error {
	names, err := LeftArchives(fsys, s.Dir)
	for _, name := range names {
		err = errors.Join(err, fsys.RemoveAll(fsys.PathJoin(s.Dir, name)))
	}
	if err != nil {
		return text.After(err, "kv: open %s", s.Dir)
	}
	return nil
}
