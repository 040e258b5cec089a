package freeze_test

import (
	"errors"
	"io"
	"path"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/freeze"
)

// hookFS calls a function before each write to a file of a name.
type hookFS struct {
	vfs.FS
	name   string
	before func()
	writes atomic.Int32
}

func (h *hookFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := h.FS.Create(name, c)
	if err != nil || path.Base(name) != h.name {
		return f, err
	}
	return &hookFile{f, h}, nil
}

type hookFile struct {
	vfs.File
	fs *hookFS
}

func (f *hookFile) Write(p []byte) (int, error) {
	f.fs.writes.Add(1)
	f.fs.before()
	return f.File.Write(p)
}

// The callback runs when no change of the directory is under way any more. So what the store sees on the disk then
// stays as it is.
func TestFS_callback_changeUnderWay(t *testing.T) {
	writing, written := make(chan struct{}), make(chan struct{})
	hooked := &hookFS{FS: newDir(), name: "000002.log", before: func() {
		close(writing)
		<-written
	}}
	var called atomic.Bool
	frozen := freeze.New(hooked, dir, func(error) { called.Store(true) })
	log := must(frozen.Create("db/000002.log", category))
	var others sync.WaitGroup
	others.Go(func() { must(log.Write([]byte("x"))) })
	<-writing
	others.Go(func() { frozen.Freeze(errTest) })
	for !frozen.WaitsForChanges() && !called.Load() {
		runtime.Gosched()
	}
	if called.Load() {
		t.Error("the callback was called while a write was under way")
	}
	close(written)
	others.Wait()
	if !called.Load() || frozen.Failed() != errTest {
		t.Errorf("the callback was called: %t, Failed returned %v", called.Load(), frozen.Failed())
	}
}

// A crash never leaves a marker without the file that it names.
func TestFS_Create_marker(t *testing.T) {
	const manifest, marker = "db/MANIFEST-000001", "db/marker.manifest.000001.MANIFEST-000001"
	disk := newDir()
	f := &fault{}
	frozen := freeze.New(&faultFS{FS: disk, dir: dir, fault: f}, dir, nil)
	writeFile(frozen, manifest, "x")
	f.arm(site{"opendir", "dir"}) // nothing is lost by trying that again
	must(frozen.Create(marker, category))
	check(t, frozen.Failed())
	if !f.hasFired() {
		t.Error("the directory was not opened")
	}
	if crash := disk.CrashClone(vfs.CrashCloneCfg{}); !exists(crash, manifest) {
		t.Error("a crash when the marker was made leaves no file that it names")
	}
	f.arm(site{"sync", "dir"})
	must(frozen.Create("db/marker.manifest.000002.MANIFEST-000002", category))
	if !errors.Is(frozen.Failed(), syscall.EIO) {
		t.Errorf("Failed returned %v", frozen.Failed())
	}
	if exists(disk, "db/marker.manifest.000002.MANIFEST-000002") {
		t.Error("the marker was made when the directory could not be synced")
	}
}

// A log that was written only in part has failed, though no error was reported.
func TestFS_short(t *testing.T) {
	f := &fault{site: site{"write", "log"}, nth: 2, short: true}
	frozen := freeze.New(&faultFS{FS: newDir(), dir: dir, fault: f}, dir, nil)
	log := must(frozen.Create("db/000002.log", category))
	must(log.Write([]byte("whole")))
	check(t, frozen.Failed())
	if n := must(log.Write([]byte("half"))); n != len("half") || !errors.Is(frozen.Failed(), io.ErrShortWrite) {
		t.Errorf("Write returned %d, Failed returned %v", n, frozen.Failed())
	}
}

// A table that was written only in part has failed, and Pebble is told so.
func TestFS_short_table(t *testing.T) {
	f := &fault{site: site{"write", "sst"}, nth: 1, short: true}
	frozen := freeze.New(&faultFS{FS: newDir(), dir: dir, fault: f}, dir, nil)
	if _, err := must(frozen.Create("db/000002.sst", category)).Write([]byte("half")); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("Write returned %v", err)
	}
}

// While the ballast is being made, a write that needs its room waits for the current chunk at most. So does Close.
func TestSpace_ballast_interrupted(t *testing.T) {
	const pieces = 4
	for name, interrupt := range map[string]func(s *freeze.Space, others *sync.WaitGroup){
		"ENOSPC": func(s *freeze.Space, others *sync.WaitGroup) {
			log := must(s.FS().Create("db/000002.log", category))
			others.Go(func() { must(log.Write([]byte("x"))) }) // the first time it meets ENOSPC
			for !s.BallastGivenUp() {
				runtime.Gosched()
			}
		},
		"Close": func(s *freeze.Space, _ *sync.WaitGroup) { s.Close() },
	} {
		g := newGauge(newDir(), 1<<30)
		f := &fault{site: site{"write", "log"}, nth: 1, err: syscall.ENOSPC}
		var s *freeze.Space
		var others sync.WaitGroup
		hooked := &hookFS{FS: &faultFS{FS: g, dir: dir, fault: f}, name: "BALLAST"}
		hooked.before = func() {
			if hooked.writes.Load() == 1 {
				interrupt(s, &others)
			}
		}
		s = freeze.NewSpace(hooked, dir, freeze.Options{Ballast: pieces << 20, Interval: time.Hour})
		s.Start()
		others.Wait()
		s.Close()
		if n := hooked.writes.Load(); n != 1 || exists(g, ballastPath) {
			t.Errorf("%s: %d pieces of the ballast were written, and it is there: %t", name, n, exists(g, ballastPath))
		}
	}
}

// The room that a write was just given is not used for a new ballast before the next look, even if it is enough.
func TestSpace_ballast_freed(t *testing.T) {
	g := newGauge(newDir(), 1<<30)
	f := &fault{site: site{"write", "log"}, nth: 1, err: syscall.ENOSPC}
	s := freeze.NewSpace(&faultFS{FS: g, dir: dir, fault: f}, dir, freeze.Options{Ballast: 1000, Interval: time.Hour})
	s.Start()
	if !exists(g, ballastPath) {
		t.Fatal("there is no ballast")
	}
	g.held.Store(true)
	log := must(s.FS().Create("db/000002.log", category))
	must(log.Write([]byte("x")))
	g.looks(1)
	f.arm(f.site)
	must(log.Write([]byte("x")))
	g.looks(1) // the one before was acted on
	if n := f.count[site{"create", "BALLAST"}]; n != 1 || exists(g, ballastPath) {
		t.Errorf("the ballast was made %d times, and is there: %t", n, exists(g, ballastPath))
	}
	g.stop(s)
}

// If the ballast cannot be made again and again, one line says so, and a disk that has room takes writes.
func TestSpace_ballast_failingAgain(t *testing.T) {
	g, log := newGauge(newDir(), 1<<30), &logLines{}
	f := &fault{site: site{"create", "BALLAST"}, nth: 1, after: true, err: syscall.EACCES}
	s := freeze.NewSpace(&faultFS{FS: g, dir: dir, fault: f}, dir,
		freeze.Options{Ballast: 1000, Low: 50, Interval: time.Microsecond, Logger: log.logger()})
	s.Start()
	g.hold()
	for _, free := range []int64{10, 1 << 30} {
		g.set(free)
		if s.Full() != (free == 10) {
			t.Errorf("with %d free, Full returned %t", free, s.Full())
		}
	}
	g.looks(150)
	g.stop(s)
	if n := f.count[site{"create", "BALLAST"}]; n < 2 {
		t.Errorf("the ballast was tried %d times", n)
	}
	log.expect(t, "cannot be made", "almost full", "room again")
}

// lookFS has a function called at each look at the free space.
type lookFS struct {
	vfs.FS
	look func()
}

func (f lookFS) GetDiskUsage(string) (vfs.DiskUsage, error) {
	f.look()
	return vfs.DiskUsage{AvailBytes: 1 << 30}, nil
}

// After Close has returned, nothing looks at the disk any more.
func TestSpace_Close(t *testing.T) {
	var s *freeze.Space
	var watched, closed atomic.Bool
	looking, looked := make(chan struct{}), make(chan struct{})
	s = freeze.NewSpace(lookFS{newDir(), func() {
		if !watched.Load() || s.Stopping() {
			return
		}
		close(looking)
		defer close(looked)
		for !s.Stopping() {
			runtime.Gosched()
		}
		for range 1000 {
			runtime.Gosched()
		}
		if closed.Load() {
			t.Error("Close returned during a look")
		}
	}}, dir, freeze.Options{Low: 50, Interval: time.Microsecond})
	s.Start()
	watched.Store(true)
	<-looking
	s.Close()
	closed.Store(true)
	<-looked
}
