package tests_test

import (
	"errors"
	"io"
	"path"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/tests/faultfs"
)

// handles is a file system that knows which of its files and locks are open.
type handles struct {
	vfs.FS
	mu   sync.Mutex
	open map[io.Closer]string // their names
}

func (h *handles) file(name string, f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	one := &openFile{f, h}
	h.note(one, name)
	return one, nil
}

// note notes that a file or lock is open, or with an empty name that it is closed.
func (h *handles) note(c io.Closer, name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open[c] = name; name == "" {
		delete(h.open, c)
	}
}

func (h *handles) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := h.FS.Create(name, c)
	return h.file(name, f, err)
}

func (h *handles) Open(name string, o ...vfs.OpenOption) (vfs.File, error) {
	f, err := h.FS.Open(name, o...)
	return h.file(name, f, err)
}

func (h *handles) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	f, err := h.FS.OpenReadWrite(name, c, o...)
	return h.file(name, f, err)
}

func (h *handles) OpenDir(name string) (vfs.File, error) {
	f, err := h.FS.OpenDir(name)
	return h.file(name, f, err)
}

func (h *handles) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := h.FS.ReuseForWrite(old, name, c)
	return h.file(name, f, err)
}

func (h *handles) Lock(name string) (io.Closer, error) {
	lock, err := h.FS.Lock(name)
	if err != nil {
		return nil, err
	}
	one := &openLock{lock, h}
	h.note(one, name)
	return one, nil
}

type openFile struct {
	vfs.File
	of *handles
}

func (f *openFile) Close() error {
	f.of.note(f, "")
	return f.File.Close()
}

type openLock struct {
	io.Closer
	of *handles
}

func (l *openLock) Close() error {
	l.of.note(l, "")
	return l.Closer.Close()
}

// An Open that fails leaves no goroutine, no lock and no file open, whichever call to the disk failed. Two kinds of
// files are Pebble's, whose Open leaves them open.
func TestFault_openLeavesNothing(t *testing.T) {
	errDisk := errors.New("the disk fails")
	before := goleak.IgnoreCurrent()
	for _, exists := range []bool{false, true} {
		failures, calls := 0, 0
		for failing := 1; calls == 0 || failing <= calls; failing++ {
			disk := vfs.NewMem()
			if exists {
				db := open(t, storeDir, tinyOptions(disk))
				must(t, reserve("k", 100)(db, kv.Always))
				must(t, db.Close())
			}
			var mu sync.Mutex
			var failed faultfs.Site
			all := &handles{FS: disk, open: make(map[io.Closer]string)}
			n := 0
			o := tinyOptions(&faultfs.FS{FS: all, Before: func(s faultfs.Site, _ string) error {
				mu.Lock()
				defer mu.Unlock()
				if n++; n == failing {
					failed = s
					return errDisk
				}
				return nil
			}})
			o.BallastSize = 10_000
			db, err := kv.Open(storeDir, o)
			mu.Lock()
			calls = max(calls, n)
			mu.Unlock()
			if err == nil {
				_ = db.Close() // its error may be the disk's
				continue
			}
			failures++
			for _, name := range all.open {
				if base := path.Base(name); !strings.HasPrefix(base, "MANIFEST-") && path.Ext(base) != ".sst" {
					t.Errorf("exists %t: after call %d, %v, failed, %s is open: %v", exists, failing, failed, name, err)
				}
			}
			if leak := goleak.Find(before); leak != nil {
				t.Fatalf("exists %t: after call %d, %v, failed: %v", exists, failing, failed, leak)
			}
		}
		if t.Logf("exists %t: %d of %d calls", exists, failures, calls); failures < 20 {
			t.Errorf("exists %t: only %d calls failed Open", exists, failures)
		}
	}
}
