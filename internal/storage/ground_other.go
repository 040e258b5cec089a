//go:build !linux

package storage

import (
	"os"
	"path/filepath"
)

// removeIn removes a file of an open directory, by its path: a directory that takes its place at that moment loses the
// file.
func removeIn(dir *os.File, name string) error { return os.Remove(filepath.Join(dir.Name(), name)) }

// renameIn renames a file of an open directory, by its path.
func renameIn(dir *os.File, oldname, newname string) error {
	return os.Rename(filepath.Join(dir.Name(), oldname), filepath.Join(dir.Name(), newname))
}
