package freeze_test

import (
	"errors"
	"io/fs"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/freeze"
)

const ballastPath = "db/BALLAST"

// logLines collects a log.
type logLines struct {
	mu    sync.Mutex
	lines []string
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(p))
	return len(p), nil
}

func (l *logLines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// expect fails the test unless there is one line with each of the texts, and no other.
func (l *logLines) expect(t *testing.T, texts ...string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	ok := len(l.lines) == len(texts)
	for i := 0; ok && i < len(texts); i++ {
		ok = strings.Contains(l.lines[i], texts[i])
	}
	if !ok {
		t.Errorf("log is %q", l.lines)
	}
}

// gauge is a file system with as much free space as it is told to have. It can hold a goroutine that looks.
type gauge struct {
	vfs.FS
	free   atomic.Int64  // negative: the free space cannot be read
	held   atomic.Bool   // every look waits to be let
	let    chan struct{} // lets one look go on, or all when it is closed
	closed atomic.Bool   // looking is a mistake from now on
}

func newGauge(disk vfs.FS, free int64) *gauge {
	g := &gauge{FS: disk, let: make(chan struct{})}
	g.free.Store(free)
	return g
}

func (g *gauge) GetDiskUsage(string) (vfs.DiskUsage, error) {
	if g.closed.Load() {
		panic("looked at the free space after Close")
	}
	if g.held.Load() {
		<-g.let
	}
	free := g.free.Load()
	if free < 0 {
		return vfs.DiskUsage{}, syscall.EIO
	}
	return vfs.DiskUsage{AvailBytes: uint64(free), TotalBytes: 1 << 40}, nil
}

// hold makes the watcher wait at each look. Looks that began before may still be under way.
func (g *gauge) hold() {
	g.held.Store(true)
	g.looks(2)
}

// looks lets n looks begin. When it returns, all looks before them have had their effect.
func (g *gauge) looks(n int) {
	for range n {
		g.let <- struct{}{}
	}
}

// set sets the free space, and returns when the watcher has acted on it. After an ENOSPC it acts in its second look.
func (g *gauge) set(free int64) {
	g.free.Store(free)
	g.looks(3)
}

// stop closes s. A look after that panics.
func (g *gauge) stop(s *freeze.Space) {
	close(g.let)
	s.Close()
	g.closed.Store(true)
}

func exists(fs vfs.FS, name string) bool {
	_, err := fs.Stat(name)
	return err == nil
}

func TestSpace_Full(t *testing.T) {
	g, log := newGauge(newDir(), 100), &logLines{}
	s := freeze.NewSpace(g, dir, freeze.Options{Low: 50, High: 80, Interval: time.Microsecond, Logger: log.logger()})
	s.Start()
	g.hold()
	for _, step := range []struct {
		free int64
		full bool
	}{
		{100, false}, {60, false}, {50, false}, // down to the low mark
		{49, true}, {10, true}, {0, true},
		{60, true}, {79, true}, {80, true}, // up to the high mark
		{-1, true}, // unknown
		{81, false}, {70, false}, {-1, false}, {70, false},
		{49, true},
	} {
		g.set(step.free)
		if s.Full() != step.full {
			t.Errorf("with %d free, Full returned %t", step.free, s.Full())
		}
	}
	g.stop(s)
	s.Close()
	if !s.Full() {
		t.Error("Close changed Full")
	}
	log.expect(t, "almost full", "cannot be read", "room again", "cannot be read", "almost full")
}

func TestSpace_Full_atStart(t *testing.T) {
	g := newGauge(newDir(), 10)
	s := freeze.NewSpace(g, dir, freeze.Options{Low: 50})
	if s.Full() {
		t.Error("looked before Start")
	}
	s.Start()
	if !s.Full() {
		t.Error("Start returned before the first look")
	}
	g.stop(s)
}

func TestSpace_nothing(t *testing.T) {
	g := newGauge(newDir(), 0)
	g.closed.Store(true) // a look panics
	s := freeze.NewSpace(g, dir, freeze.Options{Interval: time.Microsecond})
	s.Start()
	s.Close()
	if s.Full() {
		t.Error("full of nothing")
	}
}

func TestSpace_unsupported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, log := newDir(), &logLines{} // tells no free space
		s := freeze.NewSpace(disk, dir, freeze.Options{Ballast: 1000, Low: 50, Interval: time.Second, Logger: log.logger()})
		s.Start()
		time.Sleep(time.Minute) // a look would be logged
		if s.Full() {
			t.Error("full of what is not known")
		}
		if !exists(disk, ballastPath) {
			t.Error("no ballast")
		}
		s.Close()
		log.expect(t)
	})
}

func TestSpace_Start_ballast(t *testing.T) {
	g := newGauge(newDir(), 1<<30)
	f := &fault{}
	start := func(size int64) {
		s := freeze.NewSpace(&faultFS{FS: g, dir: dir, fault: f}, dir, freeze.Options{Ballast: size})
		s.Start()
		s.Close()
	}
	created := site{"create", "BALLAST"}
	const size = 3<<20 + 7
	for _, c := range []struct {
		name    string
		size    int64
		created int // in all
	}{
		{"made", size, 1},
		{"found", size, 1},
		{"made anew in another size", 100, 2},
		{"removed", 0, 2},
	} {
		start(c.size)
		data, err := readFile(g, ballastPath)
		if int64(len(data)) != c.size || errors.Is(err, fs.ErrNotExist) != (c.size == 0) || f.count[created] != c.created {
			t.Errorf("%s: %d bytes, %v; created %d times", c.name, len(data), err, f.count[created])
		}
	}
}

func TestSpace_ballast_room(t *testing.T) {
	g, log := newGauge(newDir(), 180), &logLines{}
	f := &fault{site: site{"write", "x"}, nth: 1, err: syscall.ENOSPC}
	s := freeze.NewSpace(&faultFS{FS: g, dir: dir, fault: f}, dir,
		freeze.Options{Ballast: 100, Low: 50, High: 80, Interval: time.Microsecond, Logger: log.logger()})
	s.Start()
	g.hold()
	expect := func(ballast, full bool) {
		t.Helper()
		if exists(g, ballastPath) != ballast || s.Full() != full {
			t.Errorf("ballast: %t, full: %t", exists(g, ballastPath), s.Full())
		}
	}
	expect(false, false) // it would leave less than the high mark
	g.set(49)
	g.set(180)
	expect(false, true)
	g.set(181)
	expect(true, false)

	g.set(49)
	writeFile(s.FS(), "db/x", "meets ENOSPC")
	g.set(180)
	expect(false, true)
	g.set(181)
	expect(true, false)
	g.stop(s)
	log.expect(t, "almost full", "room again", "almost full", "was removed", "room again")
}

func TestSpace_ballast_failing(t *testing.T) {
	for _, c := range []struct {
		err  error
		full bool // without the ballast
	}{{syscall.EACCES, false}, {syscall.ENOSPC, true}} {
		g, log := newGauge(newDir(), 10), &logLines{}
		f := &fault{site: site{"write", "BALLAST"}, nth: 2, err: c.err}
		s := freeze.NewSpace(&faultFS{FS: g, dir: dir, fault: f}, dir,
			freeze.Options{Ballast: 3 << 20, Low: 50, Interval: time.Microsecond, Logger: log.logger()})
		s.Start()
		g.hold()
		g.set(1 << 30)
		if !f.hasFired() || exists(g, ballastPath) || s.Full() != c.full {
			t.Errorf("%v: fired %t, something is left %t, full %t", c.err, f.hasFired(), exists(g, ballastPath), s.Full())
		}
		g.looks(50)
		if f.count[site{"create", "BALLAST"}] != 1 {
			t.Errorf("%v: tried again without pause", c.err)
		}
		g.looks(20)
		if !exists(g, ballastPath) || s.Full() {
			t.Errorf("%v: ballast %t, full %t", c.err, exists(g, ballastPath), s.Full())
		}
		g.stop(s)
		log.expect(t, "almost full", "cannot be made", "room again")
	}
}

// smallDisk is a file system with a capacity.
type smallDisk struct {
	vfs.FS
	capacity atomic.Int64
}

func newSmallDisk(capacity int64) *smallDisk {
	d := &smallDisk{FS: newDir()}
	d.capacity.Store(capacity)
	return d
}

func (d *smallDisk) free() int64 {
	free := d.capacity.Load()
	for _, name := range must(d.List(dir)) {
		if info, err := d.Stat(dir + "/" + name); err == nil {
			free -= info.Size()
		}
	}
	return free
}

func (d *smallDisk) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: uint64(max(0, d.free()))}, nil
}

func (d *smallDisk) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.Create(name, c)
	return smallDiskFile{f, d}, err
}

type smallDiskFile struct {
	vfs.File
	disk *smallDisk
}

// Write takes what fits, as write(2) does.
func (f smallDiskFile) Write(p []byte) (int, error) {
	free := max(0, f.disk.free())
	if int64(len(p)) <= free {
		return f.File.Write(p)
	}
	n := must(f.File.Write(p[:free]))
	return n, &fs.PathError{Op: "write", Path: "small disk", Err: syscall.ENOSPC}
}

func TestSpace_FS(t *testing.T) {
	disk, log := newSmallDisk(3000), &logLines{}
	s := freeze.NewSpace(disk, dir, freeze.Options{Ballast: 1000, Low: 500, Interval: time.Hour, Logger: log.logger()})
	s.Start()
	frozen := freeze.New(s.FS(), dir, nil)
	file := must(frozen.Create("db/000002.log", category))
	chunk := strings.Repeat("0123456789", 30)
	for range 9 {
		must(file.Write([]byte(chunk))) // the seventh meets the ballast
	}
	check(t, frozen.Failed())
	if exists(disk, ballastPath) {
		t.Error("the ballast is still there")
	}
	data := must(readFile(disk, "db/000002.log"))
	if want := strings.Repeat(chunk, 9); data != want {
		t.Errorf("the file has %d bytes of %d, or others", len(data), len(want))
	}
	must(file.Write([]byte(chunk))) // 300 bytes do fit
	must(file.Write([]byte(chunk)))
	if !vfs.IsNoSpaceError(frozen.Failed()) {
		t.Errorf("Failed returned %v", frozen.Failed())
	}
	for !s.Full() { // the watcher was told twice; its clock runs once an hour
		runtime.Gosched()
	}
	s.Close()
	log.expect(t, "reserve was removed", "almost full")
}

// TestSpace_race has the ballast made while other goroutines find the disk full.
func TestSpace_race(t *testing.T) {
	const size, chunk = 3 << 20, 64 << 10
	for range 10 {
		disk := newSmallDisk(size + 4*chunk)
		s := freeze.NewSpace(disk, dir, freeze.Options{Ballast: size, Interval: time.Microsecond})
		var written atomic.Int64
		var writers sync.WaitGroup
		for w := range 4 {
			file := must(s.FS().Create("db/"+string(rune('a'+w)), category))
			writers.Go(func() {
				for range 3 { // three quarters of this needs the ballast gone
					n, err := file.Write(make([]byte, chunk))
					if err != nil && !vfs.IsNoSpaceError(err) {
						t.Error(err)
					}
					written.Add(int64(n))
				}
			})
		}
		s.Start()
		writers.Wait()
		s.Close()
		ballast := int64(0)
		if info, err := disk.Stat(ballastPath); err == nil {
			ballast = info.Size()
		}
		if ballast != 0 && ballast != size {
			t.Errorf("the ballast has %d bytes of %d", ballast, size)
		}
		if free := disk.free(); free != size+4*chunk-ballast-written.Load() {
			t.Errorf("%d bytes free, with %d written and a ballast of %d", free, written.Load(), ballast)
		}
	}
}

// ownUsage answers Pebble's own question for the free space, which would otherwise reach a gauge.
type ownUsage struct {
	vfs.FS
	disk vfs.FS
}

func (u ownUsage) GetDiskUsage(name string) (vfs.DiskUsage, error) { return u.disk.GetDiskUsage(name) }

// TestSpace_Pebble fills a disk, stops writing when Full says so, makes room, and goes on. Low leaves room for a
// compaction of everything.
func TestSpace_Pebble(t *testing.T) {
	disk, log, l := newSmallDisk(1<<20), &logLines{}, &listener{}
	g := newGauge(disk, disk.free())
	s := freeze.NewSpace(g, dir, freeze.Options{
		Ballast: 100 << 10, Low: 600 << 10, High: 700 << 10, Interval: time.Microsecond, Logger: log.logger(),
	})
	frozen := freeze.New(ownUsage{s.FS(), disk}, dir, nil)
	db, err := pebble.Open(dir, smallOptions(frozen, l))
	check(t, err)
	s.Start()
	g.hold()

	r := newRun()
	for !s.Full() {
		check(t, r.write(db))
		g.set(disk.free())
	}
	check(t, r.verifyWrites(db))
	disk.capacity.Add(1 << 20)
	g.set(disk.free())
	for range 100 {
		check(t, r.write(db))
	}
	if s.Full() {
		t.Error("writes are refused")
	}
	check(t, errors.Join(db.Close(), frozen.Failed(), l.err()))
	g.stop(s)
	log.expect(t, "almost full", "room again")
	check(t, r.verify(disk))
}

// A ballast grows as more of it is wanted, as far as there is room. The next process finds it again.
func TestSpace_ballast_grows(t *testing.T) {
	g, log := newGauge(newDir(), 1<<30), &logLines{}
	var wanted atomic.Int64
	wanted.Store(100)
	opts := freeze.Options{
		Ballast: 1000, Wanted: wanted.Load, Low: 50, High: 80, Floor: 40, Interval: time.Microsecond, Logger: log.logger(),
	}
	s := freeze.NewSpace(g, dir, opts)
	s.Start()
	g.hold()
	expect := func(size int64) {
		t.Helper()
		data, _ := readFile(g, ballastPath)
		if int64(len(data)) != size || s.Ballast() != size || s.Full() || s.Exhausted() {
			t.Errorf("a ballast of %d bytes, said to be of %d, want %d; full: %t", len(data), s.Ballast(), size, s.Full())
		}
	}
	expect(100)
	g.set(480)
	wanted.Store(400)
	g.looks(3)
	expect(100) // no room for more
	g.set(481)
	expect(400)
	wanted.Store(1 << 20)
	g.set(1 << 30)
	expect(1000)
	g.stop(s)

	wanted.Store(100)
	s = freeze.NewSpace(g, dir, opts)
	g.closed.Store(false)
	s.Start()
	expect(1000)
	s.Close()
	log.expect(t)
}

// Writes that make room are refused only if there is neither a ballast nor other room.
func TestSpace_Exhausted(t *testing.T) {
	for _, c := range []struct {
		ballast int64
		floor   int64
	}{{0, 40}, {1000, 40}, {60, 30}} {
		g := newGauge(newDir(), 1<<30)
		f := &fault{site: site{"write", "x"}, nth: 1, err: syscall.ENOSPC}
		s := freeze.NewSpace(&faultFS{FS: g, dir: dir, fault: f}, dir,
			freeze.Options{Ballast: c.ballast, Low: 50, High: 80, Floor: 40, Interval: time.Microsecond})
		s.Start()
		g.hold()
		expect := func(free int64, full, exhausted bool) {
			t.Helper()
			g.set(free)
			if s.Full() != full || s.Exhausted() != exhausted {
				t.Errorf("ballast %d, %d free: full %t, exhausted %t", s.Ballast(), free, s.Full(), s.Exhausted())
			}
		}
		expect(50, false, false)
		expect(0, true, c.ballast == 0)
		if c.ballast > 0 {
			writeFile(s.FS(), "db/x", "meets ENOSPC")
		}
		expect(c.floor, true, false)
		expect(c.floor-1, true, true)
		expect(1<<30, false, false)
		g.stop(s)
	}
}
