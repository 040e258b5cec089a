package storage

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A file is removed and renamed in the locked directory, also if another comes into its place after a look at it.
func TestGround_replacedMeanwhile(t *testing.T) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(t.TempDir(), "store")
	must(os.Mkdir(dir, 0o700))
	g, err := takeGround(vfs.Default, dir, true)
	must(err)
	put := func(names ...string) {
		for _, name := range names {
			must(os.WriteFile(filepath.Join(dir, name), nil, 0o600))
		}
	}
	put("1", "2")
	if f := (groundFS{vfs.Default, g}); !f.has(filepath.Join(dir, "1")) || f.has(filepath.Join(dir, "a", "1")) || f.has(dir) {
		t.Error("what is a file of the directory is not known")
	}
	must(os.Rename(dir, dir+".old"))
	must(os.Mkdir(dir, 0o700))
	put("1", "2", "3")
	must(removeIn(g.file, "1"))
	must(renameIn(g.file, "2", "3"))
	if err := removeIn(g.file, "1"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("removed twice: %v", err)
	}
	for where, want := range map[string]int{dir: 3, dir + ".old": 2} { // LOCK and 3
		if list, err := os.ReadDir(where); err != nil || len(list) != want {
			t.Errorf("%s: %v, %v, want %d files", where, list, err, want)
		}
	}
	must(g.Close())
}
