package freeze_test

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/freeze"
)

// scarceFS is the file system of a process that has no descriptor left. Each open that may fail does so as often as
// times says before it succeeds.
type scarceFS struct {
	vfs.FS
	times int
	err   error                                  // nil is EMFILE
	fails func(op, name string) bool             // nil for all
	wrap  func(name string, f vfs.File) vfs.File // of files for writing, if not nil
	asked func()                                 // is called at each failure, if not nil

	mu    sync.Mutex
	opens map[string]int // failures since the last success, by operation and name
	all   int            // failures
}

func (s *scarceFS) lacks(op, name string) error {
	if s.fails != nil && !s.fails(op, name) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opens == nil {
		s.opens = make(map[string]int)
	}
	key := op + " " + name
	if s.times == 0 || s.opens[key] == s.times {
		s.opens[key] = 0
		return nil
	}
	s.opens[key]++
	s.all++
	if s.asked != nil {
		s.asked()
	}
	err := s.err
	if err == nil {
		err = syscall.EMFILE
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

func (s *scarceFS) failures() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all
}

func (s *scarceFS) file(op, name string, open func() (vfs.File, error)) (vfs.File, error) {
	if err := s.lacks(op, name); err != nil {
		return nil, err
	}
	f, err := open()
	if err == nil && s.wrap != nil {
		f = s.wrap(name, f)
	}
	return f, err
}

func (s *scarceFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return s.file("create", name, func() (vfs.File, error) { return s.FS.Create(name, c) })
}

func (s *scarceFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return s.file("open", name, func() (vfs.File, error) { return s.FS.OpenReadWrite(name, c, o...) })
}

func (s *scarceFS) Open(name string, o ...vfs.OpenOption) (vfs.File, error) {
	return s.file("open", name, func() (vfs.File, error) { return s.FS.Open(name, o...) })
}

func (s *scarceFS) OpenDir(name string) (vfs.File, error) {
	return s.file("opendir", name, func() (vfs.File, error) { return s.FS.OpenDir(name) })
}

func (s *scarceFS) List(name string) ([]string, error) {
	if err := s.lacks("list", name); err != nil {
		return nil, err
	}
	return s.FS.List(name)
}

// ReuseForWrite renames before it finds that there is no descriptor, as vfs.Default does.
func (s *scarceFS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := s.FS.Rename(oldname, newname); err != nil {
		return nil, err
	}
	return s.OpenReadWrite(newname, c)
}

// TestDescriptors_session runs stores on systems where each open lacks a descriptor at first. The stores reuse logs,
// begin a new MANIFEST with each flush, and compact.
func TestDescriptors_session(t *testing.T) {
	for _, lack := range []error{syscall.EMFILE, syscall.ENFILE} {
		r := newRun()
		scarce := &scarceFS{FS: r.disk, times: 2, err: lack}
		opened := &atomic.Bool{}
		for range 2 {
			openErr, broken := r.session(scarce, opened, 40)
			if openErr != nil || broken != nil || r.failed != nil {
				t.Fatalf("%v: Open returned %v, Failed %v; broken: %v", lack, openErr, r.failed, broken)
			}
		}
		check(t, r.verify(r.disk))
		if scarce.failures() < 100 {
			t.Errorf("%v: %d opens failed, want many", lack, scarce.failures())
		}
	}
}

// TestDescriptors_vital has the opens of vital files fail for longer than other opens are tried again.
func TestDescriptors_vital(t *testing.T) {
	for _, name := range []string{"000009.log", "MANIFEST-000009", "marker.manifest.000009.MANIFEST-000009", "000009.dbtmp"} {
		for _, op := range []string{"create", "reuse"} {
			disk := newDir()
			writeFile(disk, "db/000003.log", "old")
			scarce := &scarceFS{FS: disk}
			frozen := freeze.New(scarce, dir, nil)
			frozen.LosePatience()
			finishOpen(t, frozen)
			scarce.times = 5
			var f vfs.File
			var err error
			if op == "create" {
				f, err = frozen.Create("db/"+name, category)
			} else {
				f, err = frozen.ReuseForWrite("db/000003.log", "db/"+name, category)
			}
			check(t, err)
			must(f.Write([]byte("new")))
			check(t, errFirst(f.Sync(), f.Close()))
			check(t, frozen.Failed())
			if got := must(readFile(disk, "db/"+name)); got != "new" {
				t.Errorf("%s %s: the file has %q", op, name, got)
			}
			if _, err := disk.Stat("db/000003.log"); (err == nil) != (op == "create") {
				t.Errorf("%s %s: the old log: %v", op, name, err)
			}
		}
	}
}

// TestDescriptors_waits ends the wait for a log: by closing the store, and by a failure of another kind.
func TestDescriptors_waits(t *testing.T) {
	for _, end := range []string{"close", "failure"} {
		closing, asked := &atomic.Bool{}, make(chan struct{}, 1)
		scarce := &scarceFS{FS: newDir()}
		after := 0 // attempts after closing
		scarce.asked = func() {
			if closing.Load() {
				if after++; after == 20 {
					scarce.times = 0 // it waits too long, but not for ever
				}
			}
			select {
			case asked <- struct{}{}:
			default:
			}
		}
		frozen := freeze.New(scarce, dir, nil)
		frozen.LosePatience()
		frozen.GuardDescriptors(freeze.DescriptorOptions{Closing: closing.Load})
		finishOpen(t, frozen)
		scarce.times = -1 // for ever
		made := make(chan error)
		go func() {
			_, err := frozen.Create("db/000009.log", category)
			made <- err
		}()
		<-asked
		<-asked // it is not the first attempt
		check(t, frozen.Failed())
		cause := error(syscall.EMFILE)
		if end == "close" {
			closing.Store(true)
		} else {
			cause = errTest
			frozen.Freeze(errTest)
		}
		if err := <-made; err != nil || !errors.Is(frozen.Failed(), cause) {
			t.Errorf("%s: Create returned %v, Failed %v, want %v", end, err, frozen.Failed(), cause)
		}
	}
}

// TestDescriptors_tables has tables and reads lack descriptors for longer than patience, and more often than any
// other error may happen.
func TestDescriptors_tables(t *testing.T) {
	scarce := &scarceFS{FS: newDir()}
	frozen := freeze.New(scarce, dir, nil)
	frozen.LosePatience()
	finishOpen(t, frozen)
	check(t, writeTable(frozen))
	scarce.times = -1
	for range 150 {
		if err := writeTable(frozen); !errors.Is(err, syscall.EMFILE) {
			t.Fatalf("writing a table returned %v", err)
		}
	}
	for name, open := range map[string]func() error{
		"Open":                   func() error { _, err := frozen.Open("db/000004.sst"); return err },
		"Open for reading ahead": func() error { _, err := frozen.Open("db/000004.sst", vfs.SequentialReadsOption); return err },
		"OpenDir":                func() error { _, err := frozen.OpenDir(dir); return err },
		"List":                   func() error { _, err := frozen.List(dir); return err },
	} {
		if err := open(); !errors.Is(err, syscall.EMFILE) {
			t.Errorf("%s returned %v", name, err)
		}
	}
	check(t, frozen.Failed())
	scarce.times = 0
	check(t, writeTable(frozen))
}

// TestDescriptors_seal has the writing of a MANIFEST's seal lack descriptors, for the file and for the directory.
func TestDescriptors_seal(t *testing.T) {
	r := sealedRun(t)
	scarce := &scarceFS{FS: r.disk, times: 3, fails: func(op, name string) bool {
		return name == "db/SEAL.tmp" || op == "opendir" && name == dir
	}}
	if openErr, broken := r.session(scarce, &atomic.Bool{}, 40); openErr != nil || broken != nil || r.failed != nil {
		t.Fatalf("Open returned %v, Failed %v; broken: %v", openErr, r.failed, broken)
	}
	check(t, r.verify(r.disk))
}

// TestDescriptors_opening opens stores where no descriptors come back. Open returns all the same.
func TestDescriptors_opening(t *testing.T) {
	for _, fails := range []string{"log", "MANIFEST", "dbtmp", "dir"} {
		scarce := &scarceFS{FS: newDir(), times: 20, fails: func(_, name string) bool { return classOf(dir, name) == fails }}
		frozen := freeze.New(scarce, dir, nil)
		frozen.LosePatience()
		db, err := pebble.Open(dir, smallOptions(frozen, &listener{}))
		if err == nil {
			check(t, db.Close())
		}
		if !errors.Is(err, syscall.EMFILE) && !errors.Is(frozen.Failed(), syscall.EMFILE) {
			t.Errorf("%s: Open returned %v, Failed %v", fails, err, frozen.Failed())
		}
	}
}

// errSync is a file whose first sync fails with an errno of opens.
type errSync struct {
	vfs.File
	failed bool
}

func (f *errSync) Sync() error {
	if f.failed {
		return f.File.Sync()
	}
	f.failed = true
	return syscall.EMFILE
}

// TestDescriptors_sync has a sync fail with an errno that opens use for lack of descriptors. The sync must not be
// repeated.
func TestDescriptors_sync(t *testing.T) {
	scarce := &scarceFS{FS: newDir()}
	frozen := freeze.New(scarce, dir, nil)
	finishOpen(t, frozen)
	scarce.wrap = func(_ string, f vfs.File) vfs.File { return &errSync{File: f} }
	f := must(frozen.Create("db/000009.log", category))
	check(t, f.Sync())
	if !errors.Is(frozen.Failed(), syscall.EMFILE) {
		t.Errorf("Failed returned %v after a sync that failed", frozen.Failed())
	}
}

// TestDescriptors_reserve checks how many descriptors are in reserve.
func TestDescriptors_reserve(t *testing.T) {
	scarce := &scarceFS{FS: newDir()}
	frozen := freeze.New(scarce, dir, nil)
	frozen.GuardDescriptors(freeze.DescriptorOptions{Reserve: 8})
	defer frozen.ReleaseDescriptors()
	finishOpen(t, frozen)
	is := func(want int) {
		t.Helper()
		if got := frozen.Reserved(); got != want {
			t.Errorf("%d descriptors in reserve, want %d", got, want)
		}
	}
	is(8)
	scarce.asked = func() { scarce.err = fmt.Errorf("with %d in reserve: %w", frozen.Reserved(), syscall.EMFILE) }
	scarce.times = 3
	f := must(frozen.Create("db/000009.log", category))
	check(t, f.Close())
	// Each attempt but the first took one more from the reserve; none waited.
	if want := "with 6 in reserve: " + syscall.EMFILE.Error(); scarce.err.Error() != want {
		t.Errorf("the last attempt that failed came %v, want %v", scarce.err, want)
	}
	for frozen.Reserved() < 8 { // it is taken back in a second
		time.Sleep(time.Millisecond)
	}
	_, err := frozen.Open("db/000009.log", vfs.SequentialReadsOption)
	if !errors.Is(err, syscall.EMFILE) {
		t.Errorf("Open for reading ahead returned %v", err)
	}
	is(8)
	frozen.ReleaseDescriptors()
	is(0)
}
