package storage

import (
	"errors"
	"io"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/dirsync"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/storage/remains"
	"github.com/sievekv/sievekv/internal/text"
)

// The sidecar tells Open that the log has lost its end. If a log stops early, Pebble assumes that a crash interrupted a
// write. That is right for a torn end, and wrong for a log file that was removed or cut. So every few seconds, and at
// Close, the store writes into the sidecar how far the log is known to be on stable storage. An Open that finds a
// shorter log reports corruption. Writes after the last sidecar are not covered.
//
// A store has a sidecar before it has an identity (writeMeta). So a store without a sidecar has lost it, and nothing
// tells how far the log must reach. Opening such a store writes a new one. Before that, a salvage takes the log's end
// for lost.

// storeSidecar writes the watermark into the sidecar, if the watermark has moved.
func (s *Store) storeSidecar() error {
	s.sidecarMu.Lock()
	defer s.sidecarMu.Unlock()
	durable := s.durableSeq.Load()
	if durable == s.sidecarWritten {
		return nil
	}
	if err := s.writeSidecar(s.Meta.ID, durable+1); err != nil {
		return err
	}
	s.sidecarWritten = durable
	return nil
}

// writeSidecar writes a temporary file, syncs it, renames it and syncs the directory, so that a crash leaves the old
// sidecar or the new one.
func (s *Store) writeSidecar(id [16]byte, next uint64) error {
	path := s.Files.PathJoin(s.Dir, format.SidecarName)
	if err := writeFileSync(s.Files, path+".tmp", format.AppendSidecar(nil, id, next)); err != nil {
		return text.After(err, "kv: write %s", path)
	}
	if err := s.Files.Rename(path+".tmp", path); err != nil {
		return text.After(err, "kv: write %s", path)
	}
	if err := dirsync.Strict(s.Files, s.Dir); err != nil {
		return text.After(err, "kv: write %s", path)
	}
	return nil
}

func writeFileSync(fsys vfs.FS, path string, data []byte) error {
	f, err := fsys.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	n, err := f.Write(data)
	if err == nil && n < len(data) {
		err = io.ErrShortWrite
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// errNoSidecar is returned if there is no sidecar.
var errNoSidecar = errors.New("kv: no sidecar")

func (s *Store) readSidecar() (id [16]byte, least uint64, err error) {
	path := s.Files.PathJoin(s.Dir, format.SidecarName)
	f, err := s.Files.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return id, 0, errNoSidecar
	}
	if err != nil {
		return id, 0, text.After(err, "kv: open %s", path)
	}
	b, err := io.ReadAll(io.LimitReader(f, 64<<10))
	if err = errors.Join(err, f.Close()); err != nil {
		return id, 0, text.After(err, "kv: read %s", path)
	}
	return format.DecodeSidecar(b)
}

// measureLog finds out how far the logs reach, before Pebble opens the store. Afterwards the logs may be gone, and
// Pebble's next sequence may come from the MANIFEST: an edit of a compaction has the last sequence of its time. So that
// sequence does not prove that the log had the commits up to it.
func (s *Store) measureLog() error {
	_, least, err := s.readSidecar()
	if err != nil {
		return nil // checkSidecar says so
	}
	if s.reached, err = remains.Reached(s.ending, s.Files, s.Dir, least); err != nil {
		return openError(s.Dir, err)
	}
	return nil
}

// checkSidecar compares the sidecar with the next sequence after recovery. Missing means that there is none.
func (s *Store) checkSidecar(next uint64) (missing bool, err error) {
	if s.reached > 0 {
		next = min(next, s.reached)
	}
	const fresh = remains.FirstSequence + 1 // the next sequence of a store that has its identity and no more
	path := s.Files.PathJoin(s.Dir, format.SidecarName)
	id, least, err := s.readSidecar()
	switch {
	case errors.Is(err, errNoSidecar):
		s.opts.Logger.Warn("sievekv: the file that says how far the log has to reach is missing, so whether the log has lost its end is not known", "file", path)
		return true, nil
	case err != nil:
		return false, err
	case id != s.Meta.ID:
		return false, format.Corruptf("file %s is of store %x, this is %x", path, id, s.Meta.ID)
	case next < least:
		return false, format.Corruptf("the log of %s ends at sequence %d, but everything up to %d was on stable storage: the end of the log is lost", s.Dir, next-1, least-1)
	case next > max(least, fresh):
		s.opts.Logger.Info("sievekv: the store was not closed; all that was on stable storage is there", "dir", s.Dir, "recovered", next-max(least, fresh))
	}
	return false, nil
}
