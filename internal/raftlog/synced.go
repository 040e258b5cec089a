package raftlog

import (
	"errors"
	"io"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/dirsync"
	"github.com/sievekv/sievekv/internal/text"
)

// The file SYNCED tells Open that the log has lost its end. Pebble takes a damaged end of its log for one that a crash tore,
// and goes on without it. Here that would be an entry, or a vote, that the member has acknowledged.
//
// So after each sync the number of the last synced batch is written into the file, in place. It is not synced: that
// would double the price of an append, and the file is for damage, not for a loss of power. A process that is killed
// leaves it up to date, for the operating system has it; after a loss of power it may be older, so that damage which
// comes together with a loss of power may go unnoticed for the last batches. It never says more than what is on stable
// storage, because it is written after the sync. The number lies in one sector, so no crash tears it.
//
// The file is made before the log, so a log without it has lost it. It also has the id of the log, so that files of
// another log, copied into the directory, are noticed: Pebble would read them as its own.
const syncedName = "SYNCED"

type synced struct {
	file vfs.File
	name string
	id   uint64
	buf  []byte
}

// createSynced makes the file for a log that has no batch yet.
func createSynced(fsys vfs.FS, dir string, id uint64) error {
	name := fsys.PathJoin(dir, syncedName)
	f, err := fsys.Create(name+".tmp", vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(appendSynced(nil, id, 0))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := fsys.Rename(name+".tmp", name); err != nil {
		return err
	}
	return dirsync.Strict(fsys, dir)
}

// read reads the file. Missing is true if there is none.
func (s *synced) read(fsys vfs.FS, dir string) (batch uint64, missing bool, err error) {
	name := fsys.PathJoin(dir, syncedName)
	info, err := fsys.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, true, nil
	}
	if err == nil && !info.Mode().IsRegular() { // opening a pipe would wait for a writer
		err = damagef("%s is not a regular file", name)
	}
	if err != nil {
		return 0, false, err
	}
	f, err := fsys.Open(name)
	if err != nil {
		return 0, false, err
	}
	b, err := io.ReadAll(io.LimitReader(f, 4<<10))
	if err = errors.Join(err, f.Close()); err != nil {
		return 0, false, text.After(err, "read %s", name)
	}
	s.id, batch, err = decodeSynced(b)
	return batch, false, err
}

// open opens the file for writing. It exists.
func (s *synced) open(fsys vfs.FS, dir string) (err error) {
	s.name = fsys.PathJoin(dir, syncedName)
	s.file, err = fsys.OpenReadWrite(s.name, vfs.WriteCategoryUnspecified)
	return err
}

// set writes the number of a batch that is on stable storage.
func (s *synced) set(batch uint64) error {
	s.buf = appendSynced(s.buf[:0], s.id, batch)
	n, err := s.file.WriteAt(s.buf, 0)
	if err == nil && n < len(s.buf) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return text.After(err, "write %s", s.name)
	}
	return nil
}

// close closes the file, and syncs it first if sync is true.
func (s *synced) close(sync bool) error {
	if s.file == nil {
		return nil
	}
	var err error
	if sync {
		err = s.file.Sync()
	}
	return errors.Join(err, s.file.Close())
}
