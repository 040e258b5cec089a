package remains

import (
	"errors"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/storage/files"
)

// Strays returns the files in a store's directory that the store did not write, see package files. If the MANIFEST
// cannot be read, it finds only files whose names alone tell.
func Strays(fsys vfs.FS, dir string) ([]files.Stray, error) {
	names, err := fsys.List(dir)
	if err != nil {
		return nil, err
	}
	known, err := known(fsys, dir, names)
	if err != nil {
		return nil, err
	}
	return files.Strays(fsys, dir, names, known)
}

// known returns what the MANIFEST says, the zero value if it cannot be read.
func known(fsys vfs.FS, dir string, names []string) (k files.Known, err error) {
	number, ok := manifestNumber(names)
	if !ok {
		return k, nil
	}
	data, err := readFile(fsys, fsys.PathJoin(dir, manifestName(number)))
	if errors.Is(err, fs.ErrNotExist) {
		return k, nil
	}
	if err != nil {
		return k, err
	}
	v, _, err := readManifest(data)
	if err != nil || v.comparer == "" {
		return k, nil // it is damaged: the code that needs it will say so
	}
	table := func(number uint64) bool { _, ok := v.tables[number]; return ok }
	return files.Known{Next: max(v.nextFile, number), Manifest: number, Table: table}, nil
}
