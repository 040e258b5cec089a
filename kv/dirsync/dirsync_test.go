package dirsync_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/kv/dirsync"
)

func TestSync(t *testing.T) {
	if err := dirsync.Sync(t.TempDir()); err != nil {
		t.Error(err)
	}
	if err := dirsync.Sync(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) && runtime.GOOS != "windows" {
		t.Errorf("of no directory: %v", err)
	}
	if runtime.GOOS != "linux" {
		return
	}
	// The file system /proc answers EINVAL.
	if err := dirsync.Strict(vfs.Default, "/proc"); !dirsync.Unsupported(err) {
		t.Errorf("strictly of /proc: %v", err)
	}
	if err := dirsync.Sync("/proc"); err != nil {
		t.Errorf("of /proc: %v", err)
	}
}

func TestIfSupported(t *testing.T) {
	for _, err := range []error{syscall.EINVAL, syscall.ENOTSUP, &os.PathError{Op: "sync", Path: "d", Err: syscall.EINVAL}} {
		if dirsync.IfSupported(err) != nil {
			t.Errorf("%v counts", err)
		}
	}
	for _, err := range []error{syscall.EIO, syscall.ENOSPC, syscall.EROFS, fs.ErrClosed} {
		if dirsync.IfSupported(err) != err {
			t.Errorf("%v does not count", err)
		}
	}
}
