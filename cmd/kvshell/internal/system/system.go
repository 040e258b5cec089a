// Package system has what differs from one operating system to another: the umask, the identity of a file, and the
// owner of a lock. It also resolves the path of a file.
package system

import (
	"os"
	"path/filepath"
)

// FileID is the device and the inode of a file; zero if they are unknown.
type FileID struct{ Device, Inode uint64 }

// RealPath returns the absolute path of a file without symbolic links. The file need not exist.
func RealPath(name string) string {
	abs, err := filepath.Abs(name)
	if err != nil {
		return name // without a working directory no better name is known
	}
	if path, err := filepath.EvalSymlinks(abs); err == nil {
		return path
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(abs)); err == nil {
		return filepath.Join(dir, filepath.Base(abs))
	}
	return abs
}

// Target returns the real path that a write to a path goes to, also by a symbolic link to what does not exist yet.
func Target(path string) string {
	for range 40 { // as many as Linux follows
		link, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(link) {
			link = filepath.Join(filepath.Dir(path), link)
		}
		path = link
	}
	return RealPath(path)
}
