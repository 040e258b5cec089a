// Package system has what differs from one operating system to another: the umask, the identity of a file, and the owner of
// a lock. It also finds the one name of a file.
package system

import "path/filepath"

// FileID is the device and the inode of a file; zero if they are unknown.
type FileID struct{ Device, Inode uint64 }

// RealPath returns the one name of a file, which need not exist.
func RealPath(name string) string {
	abs, err := filepath.Abs(name)
	if err != nil {
		return name // no working directory: the name is all there is
	}
	if path, err := filepath.EvalSymlinks(abs); err == nil {
		return path
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(abs)); err == nil {
		return filepath.Join(dir, filepath.Base(abs))
	}
	return abs
}
