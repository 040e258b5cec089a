package storage

import (
	"os"
	"syscall"
)

// removeIn removes a file of an open directory, wherever its path leads by now.
func removeIn(dir *os.File, name string) error {
	if err := syscall.Unlinkat(int(dir.Fd()), name); err != nil {
		return &os.PathError{Op: "unlinkat", Path: name, Err: err}
	}
	return nil
}

// renameIn renames a file of an open directory, wherever its path leads by now.
func renameIn(dir *os.File, oldname, newname string) error {
	fd := int(dir.Fd())
	if err := syscall.Renameat(fd, oldname, fd, newname); err != nil {
		return &os.LinkError{Op: "renameat", Old: oldname, New: newname, Err: err}
	}
	return nil
}
