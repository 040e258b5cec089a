//go:build unix

package kvtest

import (
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"
	"testing"
)

// DiskUse returns how many bytes a directory takes on the disk, as du tells it. A store may be open in it: a file that is
// removed meanwhile does not count.
func DiskUse(t *testing.T, dir string) (bytes int64) {
	t.Helper()
	syscall.Sync() // file systems that allocate late show no blocks before
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		var info fs.FileInfo
		if err == nil {
			info, err = e.Info()
		}
		if err == nil {
			bytes += info.Sys().(*syscall.Stat_t).Blocks * 512
		} else if path != dir && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}
