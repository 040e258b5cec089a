package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
)

// outFile is OUT.
type outFile struct {
	file   *os.File
	path   string // absolute
	length int64
	synced int64 // what of length no crash takes back
	dirty  bool  // something was written or cut off since the last sync
}

// openOut opens OUT, or makes it, durably: a record that names it must not outlive it.
func openOut(name string) (*outFile, error) {
	_, err := os.Lstat(name)
	isNew := errors.Is(err, os.ErrNotExist)
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	o := &outFile{file: f, path: realPath(name)}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if !info.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("%s is not a regular file; without -o the lines go to standard output", name), f.Close())
	}
	o.length, o.dirty = info.Size(), true // whoever wrote it need not have synced it
	if isNew {
		if err := syncDir(filepath.Dir(o.path)); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	return o, nil
}

// syncDir makes names in a directory durable. Windows has no such thing: NTFS does it by itself.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// isFile reports whether OUT is the same file as f.
func (o *outFile) isFile(f *os.File) (bool, error) {
	mine, err := o.file.Stat()
	if err != nil {
		return false, err
	}
	theirs, err := f.Stat()
	if err != nil {
		return false, err
	}
	return os.SameFile(mine, theirs), nil
}

// has returns an error if OUT is shorter than an unfinished run left it.
func (o *outFile) has(length int64) error {
	if o.length < length {
		return fmt.Errorf("%s has %d bytes, but the unfinished run had written %d: it is not what it was; with --restart a new run appends to it",
			o.path, o.length, length)
	}
	return nil
}

// truncate cuts off what is behind length. What is before was synced by the run that wrote it.
func (o *outFile) truncate(length int64) error {
	o.length, o.synced, o.dirty = length, length, true
	return o.file.Truncate(length)
}

// endLine completes a last line that has no line break, so that none is joined to it.
func (o *outFile) endLine() error {
	if o.length == 0 {
		return nil
	}
	var last [1]byte
	if _, err := o.file.ReadAt(last[:], o.length-1); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if last[0] == '\n' {
		return nil
	}
	return o.write([]byte("\n"))
}

// write appends whole lines.
func (o *outFile) write(lines []byte) error {
	if len(lines) == 0 {
		return nil
	}
	o.dirty = true
	n, err := o.file.WriteAt(lines, o.length)
	o.length += int64(n)
	return err
}

// sync brings what was written to stable storage.
func (o *outFile) sync() error {
	if !o.dirty {
		return nil
	}
	if err := o.file.Sync(); err != nil {
		return err
	}
	o.synced, o.dirty = o.length, false
	return nil
}

func (o *outFile) close() error { return o.file.Close() }
