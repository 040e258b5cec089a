package system

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteWhole makes a file, which appears, or replaces another, when write has written it and the disk has it. Only this
// user can read it. It is written under a name that nobody can have made before: where others may write too, they could
// have made a link by which something else would be overwritten.
func WriteWhole(path string, write func(*os.File) error) error {
	return writeBeside(path, write, func() error { return nil })
}

// Replace makes a file, or replaces one, as WriteWhole does. One that is there keeps its mode, and its owner as far as the system
// allows that. A symbolic link stays, and what it leads to is replaced. The name that the file has then is returned.
func Replace(path string, write func(*os.File) error) (name string, err error) {
	old, err := os.Stat(path) // also asks the system whether a link of another user may be followed
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	name = Target(path)
	return name, WriteWhole(name, func(f *os.File) error {
		if err := write(f); err != nil || old == nil {
			return err
		}
		keepOwner(f, old)
		return f.Chmod(old.Mode().Perm())
	})
}

// WriteNew is WriteWhole for a file that must not be there: then it returns an error that is fs.ErrExist, also if the file came
// while write wrote.
func WriteNew(path string, write func(*os.File) error) error {
	return writeBeside(path, write, func() error {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // of two that come here, one makes it
		if err != nil {
			return err
		}
		return f.Close()
	})
}

// writeBeside writes a file beside another, and puts it into the other's place if claim returns no error.
func writeBeside(path string, write func(*os.File) error, claim func() error) (err error) {
	to, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".partial-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(to.Name()) // the first error is returned
		}
	}()
	if err := errors.Join(write(to), to.Sync(), to.Close()); err != nil {
		return err
	}
	if err := claim(); err != nil {
		return err
	}
	return os.Rename(to.Name(), path)
}

// AppendTo opens a file whose name follows from another's, to append to it, and makes it with a mode if it is missing. It
// follows no link, as nobody has asked for that file.
func AppendTo(path string, mode fs.FileMode) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, mode)
	if !errors.Is(err, fs.ErrExist) {
		return f, err
	}
	before, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	foreign := fmt.Errorf("%s is no regular file: nothing is written to it", path)
	if !before.Mode().IsRegular() {
		return nil, foreign
	}
	if f, err = os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0); err != nil {
		return nil, err
	}
	if opened, err := f.Stat(); err != nil || !os.SameFile(before, opened) { // it became a link meanwhile
		return nil, errors.Join(foreign, f.Close())
	}
	return f, nil
}
