package tests_test

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/compaction"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/internal/kvtest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/tests/crash"
	"github.com/sievekv/sievekv/tests/faultfs"
)

// fullDisk is a disk with room for a number of bytes. Others can take some.
type fullDisk struct {
	vfs.FS
	mu     sync.Mutex
	room   int64 // guarded by mu
	others int64 // bytes that others have taken; guarded by mu

	looks atomic.Int64 // that the watch has begun to take at the free space, one after the other
	// blind makes it seem as if there were room for ever, until there is none.
	blind  atomic.Bool
	struck atomic.Int64 // calls that found no space
}

func newFullDisk(t *testing.T, room int64) *fullDisk {
	disk := kvtest.NewDisk()
	must(t, faultfs.MakeDir(disk))
	return &fullDisk{FS: disk, room: room}
}

// used returns the bytes in files, and those that others have taken.
func (d *fullDisk) used() int64 {
	n := d.others
	for _, dir := range []string{storeDir, d.FS.PathDir(storeDir)} {
		names, err := d.FS.List(dir)
		if err != nil {
			panic(err)
		}
		for _, name := range names {
			// A file may go in between.
			if info, err := d.FS.Stat(d.FS.PathJoin(dir, name)); err == nil && !info.IsDir() {
				n += info.Size()
			}
		}
	}
	return n
}

func (d *fullDisk) free() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.room - d.used()
}

// leave changes the size of the disk so that n bytes are free.
func (d *fullDisk) leave(n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.room = d.used() + n
}

// take has others take all but n of the bytes they leave to the store.
func (d *fullDisk) take(n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.others = 0
	d.others = max(0, d.room-d.used()-n)
}

// giveBack has others give back what they have taken.
func (d *fullDisk) giveBack() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.others = 0
}

func (d *fullDisk) GetDiskUsage(string) (vfs.DiskUsage, error) {
	if byWatch() {
		d.looks.Add(1)
	}
	free := max(0, d.free())
	if d.blind.Load() {
		free = 1 << 40
	}
	return vfs.DiskUsage{AvailBytes: uint64(free), TotalBytes: 1 << 40}, nil
}

// byWatch returns true if the free space is asked for by the watch over it. Pebble asks too, when it removes files.
func byWatch() bool {
	var callers [16]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers[:])])
	for {
		frame, more := frames.Next()
		if strings.Contains(frame.Function, "freeze.(*Space).") {
			return true
		}
		if !more {
			return false
		}
	}
}

// await returns when the watch has looked n times more and done what it does then. Looks that had begun do not count.
func (d *fullDisk) await(n int64) {
	for until := d.looks.Load() + n + 1; d.looks.Load() < until; { // a look has ended when the next one begins
		time.Sleep(time.Millisecond)
	}
}

func (d *fullDisk) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.Create(name, c)
	return d.file(f), err
}

func (d *fullDisk) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.ReuseForWrite(oldname, newname, c)
	return d.file(f), err
}

func (d *fullDisk) file(f vfs.File) vfs.File {
	if f == nil {
		return nil
	}
	return &fullDiskFile{File: f, disk: d}
}

// fullDiskFile is a file open for writing from its beginning.
type fullDiskFile struct {
	vfs.File
	disk *fullDisk
	end  int64 // of what was written
}

func (f *fullDiskFile) Write(p []byte) (int, error) {
	d := f.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	info, err := f.File.Stat()
	if err != nil {
		return 0, err
	}
	// A log that is used again has its space already.
	if grow := f.end + int64(len(p)) - info.Size(); grow > 0 && d.used()+grow > d.room {
		d.blind.Store(false)
		d.struck.Add(1)
		return 0, syscall.ENOSPC
	}
	f.end += int64(len(p))
	return f.File.Write(p)
}

// fillOptions watch over the free space.
func fillOptions(fs vfs.FS, low, ballast int64, log *logLines) *kv.Options {
	opts := tinyOptions(fs)
	opts.MinFreeSpace, opts.BallastSize, opts.FreeSpaceInterval, opts.Logger = low, ballast, 10*time.Millisecond, log.logger()
	return opts
}

// filler writes to a filter and remembers what was acknowledged.
type filler struct {
	db    *kv.DB
	key   string
	acked [][]byte
	next  int
}

func newFiller(t *testing.T, db *kv.DB, key string) *filler {
	t.Helper()
	must(t, bloomext.New(db, key).Reserve(small(10_000)))
	return &filler{db: db, key: key}
}

// write adds an item in a commit of some size.
func (f *filler) write(size int) error {
	item := fmt.Appendf(nil, "%s %d", f.key, f.next)
	f.next++
	err := f.db.Write(kv.Always, [][]byte{[]byte(f.key)}, func(w *kv.Writer) error {
		o, err := w.Object([]byte(f.key))
		if err == nil {
			w.SetAttribute(o, string(item), make([]byte, size))
			_, err = bloomext.New(f.db, f.key).AddStaged(w, [][]byte{item}, make([]bool, 1))
		}
		return err
	})
	if err != nil {
		return err
	}
	f.acked = append(f.acked, item)
	return nil
}

// untilRefused writes until a write is refused for lack of space. As soon as less than low bytes are free it has the
// watch see that before it writes, and writes little.
func (f *filler) untilRefused(t *testing.T, disk *fullDisk, low int64) {
	t.Helper()
	for {
		size := 8_000
		if disk.free() < low {
			size = 10
			disk.await(1)
		}
		err := f.write(size)
		if errors.Is(err, kv.ErrNoSpace) {
			return
		}
		must(t, err)
	}
}

// untilAccepted writes until a write is accepted again.
func (f *filler) untilAccepted(t *testing.T) {
	t.Helper()
	for {
		err := f.write(10)
		if err == nil {
			return
		}
		if !errors.Is(err, kv.ErrNoSpace) {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// verify looks for every acknowledged item.
func (f *filler) verify(db *kv.DB) error {
	present := make([]bool, len(f.acked))
	err := bloomext.New(db, f.key).MayContainMany(f.acked, present)
	for i, p := range present {
		if !p {
			return fmt.Errorf("%s has lost %s", f.key, f.acked[i])
		}
	}
	return err
}

// reopened closes a store and verifies what is there after opening it again.
func (f *filler) reopened(t *testing.T, opts *kv.Options) {
	t.Helper()
	if err := f.db.Close(); err != nil && !errors.Is(err, kv.ErrFailed) && !errors.Is(err, kv.ErrClosed) {
		t.Error(err)
	}
	f.db = open(t, storeDir, opts)
	must(t, errors.Join(f.verify(f.db), checkStore(f.db), f.write(10), f.db.Close()))
}

// refusesWrites checks that a store on a full disk refuses every write but deletions, and answers every lookup.
func refusesWrites(t *testing.T, f *filler) {
	t.Helper()
	for name, write := range map[string]action{
		"add": add(f.key, "new", true), "batch": addMany(f.key, true, "new"), "reserve": reserve("new", 100),
		"rename": rename(f.key, "new"), "expire": expireLater(f.key), "string": setString("new"),
	} {
		if err := write(f.db, kv.NoSync); !errors.Is(err, kv.ErrNoSpace) || errors.Is(err, kv.ErrFailed) {
			t.Errorf("%s: error is %v, want %v", name, err, kv.ErrNoSpace)
		}
	}
	must(t, errors.Join(f.verify(f.db), absent(f.key, "new")(f.db, kv.Always), checkStore(f.db)))
}

func expireLater(key string) action {
	return func(db *kv.DB, level kv.Durability) error {
		_, err := db.Expire(level, []byte(key), db.Now()+1_000_000, kv.ExpireAlways)
		return err
	}
}

func setString(key string) action {
	return func(db *kv.DB, level kv.Durability) error {
		_, err := db.Set(level, []byte(key), []byte("v"), kv.SetOptions{})
		return err
	}
}

// wants waits until n lines were logged, since things are done before they are logged, and checks that there are no
// more.
func (l *logLines) wants(t *testing.T, n int) {
	t.Helper()
	for len(l.all()) < n {
		time.Sleep(time.Millisecond)
	}
	if lines := l.all(); len(lines) != n {
		t.Errorf("%d lines were logged, want %d: %q", len(lines), n, lines)
	}
}

const mib = 1 << 20

// The watch over the free space refuses writes before there is none. Lookups go on, and so do writes when space is back.
func TestFault_diskFills(t *testing.T) {
	tests := []struct {
		name       string
		fill, free func(t *testing.T, d *fullDisk)
	}{
		{
			"by the store, then a larger disk",
			func(t *testing.T, d *fullDisk) { d.leave(4*mib + mib/8) },
			func(t *testing.T, d *fullDisk) { d.leave(7 * mib) },
		}, {
			"by another file, then that is removed",
			func(t *testing.T, d *fullDisk) { d.take(4*mib - 1) },
			func(_ *testing.T, d *fullDisk) { d.giveBack() },
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var log logLines
			disk := newFullDisk(t, 64*mib)
			opts := fillOptions(disk, 4*mib, -1, &log)
			f := newFiller(t, open(t, storeDir, opts), "k")
			// The store is so small that compactions do not take all of the room that is left.
			for range 8 {
				must(t, f.write(30_000))
			}
			tt.fill(t, disk)
			f.untilRefused(t, disk, 4*mib)
			refusesWrites(t, f)
			for until := disk.looks.Load() + 3; disk.looks.Load() < until; {
				wantError(t, f.write(10), kv.ErrNoSpace, storeDir)
			}
			if n := disk.struck.Load(); n != 0 {
				t.Errorf("the disk was full %d times", n)
			}
			tt.free(t, disk)
			f.untilAccepted(t)
			log.wants(t, 2) // refused, accepted
			f.reopened(t, opts)
		})
	}
}

// A disk that is full before the watch has seen it takes the ballast, and then refuses.
func TestFault_ballast(t *testing.T) {
	t.Parallel()
	const ballast = storeDir + "/BALLAST"
	var log logLines
	disk := newFullDisk(t, 64*mib)
	opts := fillOptions(disk, 2*mib, mib, &log)
	f := newFiller(t, open(t, storeDir, opts), "k")
	if info, err := disk.Stat(ballast); err != nil || info.Size() != mib {
		t.Fatalf("no ballast: %v", err)
	}
	disk.blind.Store(true)
	disk.leave(100_000)
	f.untilRefused(t, disk, 0)
	if disk.struck.Load() == 0 {
		t.Error("the disk was never full")
	}
	if _, err := disk.Stat(ballast); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the ballast is still there: %v", err)
	}
	refusesWrites(t, f)
	disk.leave(8 * mib)
	f.untilAccepted(t)
	if _, err := disk.Stat(ballast); err != nil {
		t.Errorf("writes are accepted without a ballast: %v", err)
	}
	log.wants(t, 3) // removed, refused, accepted
	f.reopened(t, opts)
}

// The log meets a full disk: the store fails, cannot be opened while the disk is full, and has everything afterwards.
func TestFault_logMeetsFullDisk(t *testing.T) {
	disk := newFullDisk(t, 64*mib)
	var log logLines
	opts := fillOptions(disk, -1, -1, &log)
	f := newFiller(t, open(t, storeDir, opts), "k")
	disk.leave(100_000)
	for {
		if err := f.write(8_000); err != nil {
			wantError(t, err, kv.ErrFailed, "no space left", ".log")
			break
		}
	}
	must(t, crash.RefusesAll(f.db))
	if err := f.db.Close(); err != nil && !errors.Is(err, kv.ErrFailed) {
		t.Error(err)
	}
	disk.leave(0)
	for range 3 {
		_, err := kv.Open(storeDir, opts)
		wantError(t, err, syscall.ENOSPC, storeDir)
	}
	disk.leave(mib)
	f.db = open(t, storeDir, opts)
	must(t, f.verify(f.db))
	f.reopened(t, opts)
}

// On a disk without any room left for some time, log lines are few: what fails is told once, not each time.
func TestFault_fullForLong(t *testing.T) {
	t.Parallel()
	var log logLines
	disk := newFullDisk(t, 64*mib)
	opts := fillOptions(disk, mib, -1, &log)
	f := newFiller(t, open(t, storeDir, opts), "k")
	must(t, f.write(10)) // for the sidecar to be behind
	disk.take(0)
	disk.await(300) // the sidecar is tried again each second
	refusesWrites(t, f)
	told := make(map[string]int)
	for _, line := range log.all() {
		_, message, _ := strings.Cut(line, "msg=")
		told[message]++
	}
	for message, n := range told {
		if n > 1 {
			t.Errorf("logged %d times: %s", n, message)
		}
	}
	disk.giveBack()
	f.untilAccepted(t)
	f.reopened(t, opts)
}

// Writers go on as fast as they can while the disk fills up. Each write is acknowledged or ends with an error that says
// what it is; what was acknowledged stays.
func TestFault_diskFillsFast(t *testing.T) {
	t.Parallel()
	var log logLines
	disk := newFullDisk(t, 8*mib)
	opts := fillOptions(disk, 2*mib, mib, &log)
	db := open(t, storeDir, opts)
	var writers sync.WaitGroup
	var writes, ended atomic.Int64
	fillers := make([]*filler, 4)
	errs := make([]error, len(fillers))
	for i := range fillers {
		fillers[i] = newFiller(t, db, fmt.Sprint("k", i))
		writers.Go(func() {
			defer ended.Add(1)
			for errs[i] == nil {
				errs[i] = fillers[i].write(20_000)
				writes.Add(1)
			}
		})
	}
	// A writer may wait for a flush, which waits for space. Room for it is room for others too, for a while.
	left := 0
	for before := int64(-1); ended.Load() < int64(len(fillers)); before = writes.Load() {
		if writes.Load() == before {
			disk.leave(8 * mib)
			left++
		}
		disk.await(300)
	}
	writers.Wait()
	for _, err := range errs {
		if !errors.Is(err, kv.ErrNoSpace) && !errors.Is(err, kv.ErrFailed) {
			t.Errorf("error is %v, want %v or %v", err, kv.ErrNoSpace, kv.ErrFailed)
		}
	}
	// That there is room, and is none again, is news each time.
	if n, most := len(log.all()), 30+4*left; n > most {
		t.Errorf("%d lines were logged, want %d at most: %q", n, most, log.all()[:30])
	}
	if err := db.Close(); err != nil && !errors.Is(err, kv.ErrFailed) {
		t.Error(err)
	}
	disk.leave(16 * mib)
	db = open(t, storeDir, opts)
	for _, f := range fillers {
		f.db = db
		must(t, f.verify(db))
	}
	must(t, checkStore(db))
	fillers[0].untilAccepted(t)
}

// A store whose writers, loops and services wait for a flush that finds no space can be closed all the same.
func TestFault_closeOnFullDisk(t *testing.T) {
	for name, tt := range map[string]struct {
		modules []module.Module
		waits   []string // calls of goroutines that wait for space beside the writer
	}{
		"writer":     {waits: []string{"kv.(*Writer).commit(", "pebble/v2.(*DB).makeRoomForWrite(", "sync.(*Cond).Wait("}},
		"flush loop": {waits: []string{"storage.(*Store).flushLoop(", "storage.(*Store).Flush("}}, // or for the flush of the loop that syncs
		"sync loop":  {waits: []string{"kv.(*DB).keep(", "storage.(*Store).Flush("}},
		"service": {
			modules: []module.Module{compaction.Module()},
			waits:   []string{"compaction.(*service).sweep(", "kv.(*Writer).commit("},
		},
	} {
		// One at a time: the stacks have all goroutines.
		t.Run(name, func(t *testing.T) { closeOnFullDisk(t, tt.modules, tt.waits) })
	}
}

func closeOnFullDisk(t *testing.T, modules []module.Module, waits []string) {
	var full, expired atomic.Bool
	disk := kvtest.NewDisk()
	fs := &faultfs.FS{FS: disk, Before: func(s faultfs.Site, _ string) error {
		if full.Load() && s == (faultfs.Site{Op: "write", Class: "sst"}) {
			return syscall.ENOSPC
		}
		return nil
	}}
	opts := tinyOptions(fs)
	start := time.Now()
	opts.Clock = func() time.Time {
		if expired.Load() {
			return start.Add(time.Hour)
		}
		return start
	}
	opts.Modules = coreext.Add(opts.Modules, modules...)
	db := open(t, storeDir, opts)
	f := newFiller(t, db, "k")
	gathered := keyLocksOf(t, db).others(1, f.key)[0] // the writer that waits has the lock of its key
	must(t, reserve(gathered, 100)(db, kv.Always))
	for i := range 10 { // work for the service
		_, err := db.Set(kv.NoSync, fmt.Append(nil, i), nil, kv.SetOptions{Expiry: start.UnixMilli() + 1})
		must(t, err)
	}
	full.Store(true)
	var failed error
	writer := begin(func() error {
		for failed == nil {
			failed = f.write(30_000)
		}
		return nil
	})
	awaitGoroutine("pebble/v2.(*DB).makeRoomForWrite(", "sync.(*Cond).Wait(")
	expired.Store(true)
	must(t, add(gathered, "x", true)(db, kv.EverySec))
	awaitGoroutine(waits...)
	// The disk stays full: a Close that waits for space never ends.
	if err := db.Close(); !errors.Is(err, kv.ErrFailed) {
		t.Errorf("Close = %v, want %v", err, kv.ErrFailed)
	}
	<-writer.done
	if !errors.Is(failed, kv.ErrFailed) && !errors.Is(failed, kv.ErrClosed) {
		t.Errorf("the writer ended with %v", failed)
	}
	full.Store(false)
	f.reopened(t, tinyOptions(fs))
}

// awaitGoroutine returns when there is a goroutine with all of these calls in its stack.
func awaitGoroutine(calls ...string) {
	there := func() bool {
		for _, stack := range goroutines() {
			if !slices.ContainsFunc(calls, func(c string) bool { return !strings.Contains(stack, c) }) {
				return true
			}
		}
		return false
	}
	for !there() {
		time.Sleep(time.Millisecond)
	}
}

// goroutines returns the stacks of all.
func goroutines() []string {
	buf := make([]byte, 1<<20)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) {
			return strings.Split(string(buf[:n]), "\n\n")
		}
		buf = make([]byte, 2*len(buf))
	}
}
