package storage

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/freeze"
	"github.com/sievekv/sievekv/internal/storage/files"
	"github.com/sievekv/sievekv/internal/storage/remains"
	"github.com/sievekv/sievekv/internal/text"
)

// ErrStray is returned by Open for a directory with files that have names like a store's files, but that the store did
// not write, see package files. It is a kind of format.ErrCorrupt.
var ErrStray = fmt.Errorf("%w: stray files", format.ErrCorrupt)

// refuseStrayMarkers refuses a directory with a file that looks like a marker and is none. Pebble reads the markers
// first, and would not say which file is wrong.
func (s *Store) refuseStrayMarkers(fsys vfs.FS) error {
	names, err := fsys.List(s.Dir)
	if err != nil {
		return nil // there is no directory, or the next steps tell what is wrong with it
	}
	return s.strayError(files.StrayMarkers(names))
}

// refuseStrays refuses a store with stray files, before anything is written to its directory. The store is locked.
func (s *Store) refuseStrays(fsys vfs.FS) error {
	if _, ok := s.opts.FS.(*remains.FS); ok {
		return nil // it has only the store's own files
	}
	desc, err := pebble.Peek(s.Dir, fsys)
	if err != nil {
		return openError(s.Dir, err)
	}
	if !desc.Exists {
		return nil // refuseParts has looked at the files
	}
	if _, err := freeze.ReadSeal(fsys, s.Dir); errors.Is(err, freeze.ErrVersion) {
		return openError(s.Dir, err) // a newer program may write files that this one does not know
	}
	strays, err := remains.Strays(fsys, s.Dir)
	if err != nil {
		return text.After(err, "kv: open %s", s.Dir)
	}
	return s.strayError(strays)
}

// strayError returns an error that names stray files, nil if there are none.
func (s *Store) strayError(strays []files.Stray) error {
	const most = 5
	if len(strays) == 0 {
		return nil
	}
	var list []string
	for _, stray := range strays[:min(most, len(strays))] {
		list = append(list, stray.String())
	}
	if more := len(strays) - most; more > 0 {
		list = append(list, fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("%w: %s has files that the store did not write, and would remove or read as its own: %s; "+
		"nothing was changed: move these files to another directory", ErrStray, s.Dir, strings.Join(list, "; "))
}

// Strays returns the stray files in the directory of a store that is open.
func Strays(s *Store) ([]files.Stray, error) {
	if _, ok := s.opts.FS.(*remains.FS); ok {
		return nil, nil // they are among the damage
	}
	strays, err := remains.Strays(s.fileSystem(), s.Dir)
	if err != nil || len(strays) == 0 {
		return nil, err
	}
	// The store goes on writing meanwhile. A file that was not the store's is still there, and still is not the
	// store's.
	again, err := remains.Strays(s.fileSystem(), s.Dir)
	return slices.DeleteFunc(strays, func(f files.Stray) bool { return !slices.Contains(again, f) }), err
}
