//go:build unix

package dirsync_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/dirsync"
)

func TestTaken(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", link); err != nil {
		t.Fatal(err)
	}
	other := errors.New("other")
	for _, tt := range []struct {
		path string
		err  error
		want string
	}{
		{dir, fs.ErrExist, dir + " is a directory already: want a name that nothing has"},
		{dir, syscall.ENOTEMPTY, dir + " is a directory already: want a name that nothing has"},
		{file, syscall.ENOTDIR, file + " is a file already: want a name that nothing has"},
		{link, syscall.ENOTDIR, link + " is a link that leads nowhere already: want a name that nothing has"},
		{filepath.Join(file, "below"), syscall.ENOTDIR, syscall.ENOTDIR.Error()},
		{dir, other, "other"},
	} {
		err := dirsync.Taken(vfs.Default, tt.path, tt.err)
		if err.Error() != tt.want || tt.err != other && tt.err != syscall.ENOTDIR && !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s, %v: %v, want %s", tt.path, tt.err, err, tt.want)
		}
	}
	if err := dirsync.Taken(vfs.Default, dir, nil); err != nil {
		t.Error(err)
	}
}
