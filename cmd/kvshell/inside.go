package main

import (
	"os"
	"path/filepath"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/system"
)

// The store's directory is for the store's files alone. Other files there go with the store, and if their names look
// like the store's, the store does not open. So no word reads or writes files there, as no backup is made there.

// refuseOutput refuses to write a file, or to make a directory, at or below the store's directory.
func (sh *shell) refuseOutput(word, path string) error {
	dir, local := sh.localDir()
	if local && isBelow(path, dir) {
		return exit.Usagef("%s: %s is inside the directory of the store, %s, which is for the store's files alone: name a file elsewhere", word, path, dir)
	}
	return nil
}

// refuseInput refuses to read a file in the store's directory. One in a directory below is no part of the store.
func (sh *shell) refuseInput(word, path string) error {
	dir, local := sh.localDir()
	if local && path != "-" && isSameDir(filepath.Dir(system.RealPath(path)), dir) {
		return exit.Usagef("%s: %s is in the directory of the store, %s, which is for the store's files alone: move it elsewhere", word, path, dir)
	}
	return nil
}

// refuseStream refuses standard input or output that somebody has directed to a file in the store's directory.
func (sh *shell) refuseStream(word, name string, stream *os.File) error {
	dir, local := sh.localDir()
	if !local || stream == nil {
		return nil
	}
	info, err := stream.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	entries, _ := os.ReadDir(dir) // if it cannot be read, opening the store tells why
	for _, e := range entries {
		if other, err := e.Info(); err == nil && os.SameFile(info, other) {
			return exit.Usagef("%s: %s is %s in the directory of the store, %s, which is for the store's files alone: name a file elsewhere", word, name, e.Name(), dir)
		}
	}
	return nil
}

// localDir returns the directory of the store, if it is one of this machine.
func (sh *shell) localDir() (dir string, local bool) {
	if sh.address != nil {
		return "", false
	}
	dir, err := sh.dir()
	return dir, err == nil
}

// isBelow reports whether a path leads to a directory, or below it. Neither need exist.
func isBelow(path, dir string) bool {
	for up := system.Target(path); ; up = filepath.Dir(up) {
		if isSameDir(up, dir) {
			return true
		}
		if filepath.Dir(up) == up {
			return false
		}
	}
}

// isSameDir reports whether two paths lead to one directory, also if it does not exist yet.
func isSameDir(a, b string) bool {
	if system.RealPath(a) == system.RealPath(b) {
		return true
	}
	first, err := os.Stat(a)
	if err != nil {
		return false
	}
	second, err := os.Stat(b)
	return err == nil && os.SameFile(first, second)
}
