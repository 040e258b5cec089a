//go:build unix

package storage

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// lockedFile is the file LOCK with a lock of the process (fcntl).
type lockedFile struct {
	name  string
	alone bool
	file  *os.File // nil for a reader if the file is missing: a reader makes no file
}

// lockFile locks a file, alone or shared. For a lock alone it makes a missing file.
func lockFile(name string, alone bool) (fileLocker, error) {
	l := &lockedFile{name: name, alone: alone}
	return l, l.take()
}

func (l *lockedFile) take() (err error) {
	if l.alone {
		l.file, err = os.OpenFile(l.name, os.O_RDWR|os.O_CREATE, privateFile)
	} else { // without O_NONBLOCK opening a pipe would wait for a writer
		l.file, err = os.OpenFile(l.name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	}
	if err != nil {
		l.file = nil
		if !l.alone && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	return l.set()
}

// set asks for the lock. It changes nothing if the process has it.
func (l *lockedFile) set() error {
	spec := syscall.Flock_t{Type: syscall.F_RDLCK, Whence: io.SeekStart}
	if l.alone {
		spec.Type = syscall.F_WRLCK
	}
	return syscall.FcntlFlock(l.file.Fd(), syscall.F_SETLK, &spec)
}

// renew implements fileLocker.
func (l *lockedFile) renew() error {
	if l.file != nil && isPathOf(l.file, l.name) {
		return l.set()
	}
	next := &lockedFile{name: l.name, alone: l.alone}
	if err := next.take(); err != nil {
		return errors.Join(err, next.Close())
	}
	err := l.Close() // of another file, so this does not give up the new lock
	l.file = next.file
	return err
}

func isPathOf(f *os.File, name string) bool {
	open, err := f.Stat()
	if err != nil {
		return true // what cannot be told is not taken for a change
	}
	now, err := os.Stat(name)
	return err != nil && !errors.Is(err, fs.ErrNotExist) || err == nil && os.SameFile(open, now)
}

// Close implements io.Closer.
func (l *lockedFile) Close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}
