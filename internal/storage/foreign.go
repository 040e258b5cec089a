package storage

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/freeze"
	"github.com/sievekv/sievekv/internal/storage/files"
	"github.com/sievekv/sievekv/internal/text"
)

// unfinished are the files that a crash can leave while a store is made: until the database has its marker there are
// no others. Each is empty, or has zeros alone, or the text given here in its first bytes. The write of a MANIFEST may
// have ended early; it begins with the name of Pebble's order of keys.
var unfinished = map[string]string{
	"LOCK":                   "",
	freeze.BallastName:       freeze.BallastStart(),
	freeze.SealName:          freeze.SealMagic,
	freeze.SealName + ".tmp": freeze.SealMagic,
	"MANIFEST-000001":        pebble.DefaultComparer.Name[:len("leveldb.")],
}

// refuseParts refuses a directory without a database that has files which look like parts of one, before anything is
// written to it: the files of a user who names the wrong directory, the rest of a store, or an incomplete copy. Files
// that a crash left while a store was made do not count.
func (s *Store) refuseParts(fsys vfs.FS) error {
	names, err := fsys.List(s.Dir) // before Peek: another process may be making the store
	if err != nil {
		return nil // there is no directory, or lockDir tells what is wrong with it
	}
	if desc, err := pebble.Peek(s.Dir, fsys); err != nil || desc.Exists {
		return nil // refuseForeign looks at the database
	}
	slices.Sort(names)
	for _, name := range names {
		if !files.LooksLikePart(name) {
			continue
		}
		left, err := isUnfinished(fsys, s.Dir, name)
		if err != nil {
			return text.After(err, "kv: open %s", s.Dir)
		}
		if !left {
			return format.Corruptf("%s has no database, but the file %s, which has the name of a part of one: "+
				"restore the whole store, or take a directory without such files", s.Dir, name)
		}
	}
	return nil
}

// isUnfinished reports whether a crash may have left a file while a store was made.
func isUnfinished(fsys vfs.FS, dir, name string) (bool, error) {
	text, ok := unfinished[name]
	if !ok {
		return false, nil
	}
	f, err := fsys.Open(fsys.PathJoin(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil // another process has removed it
	}
	if err != nil {
		return false, err
	}
	first := make([]byte, 4096)
	n, err := io.ReadFull(f, first)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	rest := bytes.Trim(first[:n], "\x00")
	return len(rest) == 0 || text != "" && bytes.Contains(rest, []byte(text)), errors.Join(err, f.Close())
}

// refuseForeign refuses the database of another program before anything is written to it. A store has a seal from its
// first moment, and a sidecar before its identity. Only a database without either is opened, read-only, to look inside.
func (s *Store) refuseForeign(fsys vfs.FS) error {
	desc, err := pebble.Peek(s.Dir, fsys)
	if err != nil {
		return openError(s.Dir, err)
	}
	if !desc.Exists {
		return nil
	}
	for _, name := range []string{freeze.SealName, format.SidecarName} {
		if _, err := fsys.Stat(fsys.PathJoin(s.Dir, name)); err == nil {
			return nil
		}
	}
	look := &Store{opts: s.opts, Dir: s.Dir, Files: freeze.New(fsys, s.Dir, func(error) {})}
	po := look.pebbleOptions()
	po.ReadOnly = true
	if look.disk, err = pebble.Open(s.Dir, po); err != nil {
		if errno := syscall.Errno(0); errors.As(err, &errno) {
			return text.After(err, "kv: open %s", s.Dir)
		}
		return fmt.Errorf("%w: %s holds a database that is not a store, or is damaged: %w", format.ErrCorrupt, s.Dir, plainError{err})
	}
	value, err := look.readIdentity()
	if err == nil && value == nil {
		err = look.checkEmpty()
	}
	return errors.Join(err, look.disk.Close())
}
