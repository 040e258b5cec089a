package files

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	// mostNumber is the greatest number that a file of a store can have. Pebble would take years to reach it.
	mostNumber = 1 << 48

	// farAhead is how far the number of a file can be ahead of the MANIFEST, if it is no table. While a disk is full,
	// Pebble uses a number for each attempt to write a table. No log begins meanwhile, as writes are refused.
	farAhead = 1 << 24
)

// Known is what the MANIFEST of a store says. The zero value means that it cannot be read. Then files are judged by
// their names alone: any of them may be a part of the store that is damaged.
type Known struct {
	Next     uint64                   // the number of the next file
	Manifest uint64                   // the number of the MANIFEST in use
	Table    func(number uint64) bool // whether a table belongs to the store
}

// Stray is a file that the store did not write.
type Stray struct{ Name, Why string }

// String returns both.
func (s Stray) String() string { return s.Name + ": " + s.Why }

// Strays returns the stray files among names, which are the files of a store's directory, in order. The caller has
// locked the store, or is the store. The error is one of reading.
func Strays(fsys vfs.FS, dir string, names []string, known Known) (strays []Stray, err error) {
	names = slices.Sorted(slices.Values(names))
	for _, name := range names {
		why := strangeName(name)
		if why == "" {
			if why, err = strangeFile(fsys, fsys.PathJoin(dir, name), name, known); err != nil {
				return nil, fmt.Errorf("kv: look at %s: %w", fsys.PathJoin(dir, name), err)
			}
		}
		if why != "" {
			strays = append(strays, Stray{name, why})
		}
	}
	return strays, nil
}

// StrayMarkers returns the stray files among names whose names begin as a marker's. With such a file Pebble does not
// even tell whether there is a store.
func StrayMarkers(names []string) (strays []Stray) {
	for _, name := range names {
		if why := strangeName(name); isMarker(name) && why != "" {
			strays = append(strays, Stray{name, why})
		}
	}
	return strays
}

// strangeName returns why the store did not give a name to a file, "" if it may have.
func strangeName(name string) string {
	if isMarker(name) {
		if !marker.MatchString(name) {
			return "it has the name of a marker, but no marker of a store is called so"
		}
		return ""
	}
	switch k, number := parse(name); {
	case k == nil:
		return ""
	case k.never:
		return "it has the name of a " + k.what + ", but a store has none"
	case number == 0 || number > mostNumber:
		return fmt.Sprintf("it has the name of a %s, but a store does not use this number", k.what)
	case name != k.name(number):
		return fmt.Sprintf("it has the name of a %s, but a store would call that %s", k.what, k.name(number))
	}
	return ""
}

// strangeFile returns why the store did not write a file whose name it may have given, "" if it may have written it.
func strangeFile(fsys vfs.FS, path, name string, known Known) (string, error) {
	k, number := parse(name)
	if k == nil && !isMarker(name) && !slices.Contains(own, name) {
		return "", nil
	}
	info, err := fsys.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil // it has been removed meanwhile
	}
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "it has the name of a file of a store, but is not a regular file", nil
	}
	if k == nil || known.Next == 0 || k.prefix == "MANIFEST-" && number == known.Manifest {
		return "", nil
	}
	if k.suffix == ".sst" && known.Table != nil && known.Table(number) {
		return "", nil
	}
	head, err := readHead(fsys, path)
	if err != nil {
		return "", err
	}
	return k.strangeHead(head, number, known.Next), nil
}

// strangeHead returns why no store can have written a file that begins like this.
func (k *kind) strangeHead(head []byte, number, next uint64) string {
	v := unknown
	if len(bytes.Trim(head, "\x00")) > 0 {
		v = k.begins(head, number)
	}
	switch {
	case v == strangers:
		return fmt.Sprintf("it has the name of a %s, but does not begin as one", k.what)
	case v == unknown && k.suffix != ".sst" && number > next+farAhead:
		return fmt.Sprintf("it has the name of a %s, but the store has not come further than %06d", k.what, next)
	}
	return ""
}

func readHead(fsys vfs.FS, path string) (head []byte, err error) {
	f, err := fsys.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // it has been removed meanwhile
	}
	if err != nil {
		return nil, err
	}
	head = make([]byte, headLen)
	n, err := f.ReadAt(head, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return head[:n], errors.Join(err, f.Close())
}
