package crash

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/kvtest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/tests/faultfs"
)

// Failures works on stores whose disks fail or fill, compacts them all the while, and verifies what each holds
// afterwards: opened again in the same process, and after a crash.
type Failures struct {
	rng                    *rand.Rand
	rounds, failed, filled int
}

// NewFailures returns Failures that have not begun.
func NewFailures(rng *rand.Rand) *Failures { return &Failures{rng: rng} }

// Count returns how many disks there were, how many of them made a store fail, and how many were full for a while.
func (f *Failures) Count() (rounds, failed, filled int) { return f.rounds, f.failed, f.filled }

// Round works on one store. It returns all that is wrong.
func (f *Failures) Round() error {
	f.rounds++
	if f.rng.IntN(4) == 0 {
		f.filled++
		return f.fill()
	}
	return f.breakDisk()
}

// failing is one store on a disk that fails.
type failing struct {
	w      *workload
	disk   *kvtest.Disk
	failed atomic.Bool  // the store has
	full   atomic.Int64 // writes refused as the disk was full
}

func (f *Failures) newFailing() *failing {
	r := &failing{disk: kvtest.NewDisk(), w: newWorkload(f.rng, workers, nil, firstMoment)}
	return r
}

// typed reports whether an error says what it is: that the store has failed, or what the file system said. No error
// of these says that data is corrupt.
func typed(err error) bool {
	for _, known := range []error{kv.ErrFailed, kv.ErrNoSpace, syscall.EIO, syscall.ENOSPC, io.ErrShortWrite} {
		if errors.Is(err, known) {
			return !errors.Is(err, kv.ErrCorrupt)
		}
	}
	return false
}

// breakDisk has the disk fail at a random call, once or for good.
func (f *Failures) breakDisk() error {
	r := f.newFailing()
	at, sticky := int64(1+f.rng.IntN(1+f.rng.IntN(4000))), f.rng.IntN(3) == 0
	fault := []error{syscall.EIO, syscall.ENOSPC, faultfs.ErrShort}[f.rng.IntN(3)]
	sticky = sticky && fault == syscall.EIO // Pebble repeats others without pause
	class := []string{"", "log", "MANIFEST", "sst"}[f.rng.IntN(4)]
	var calls atomic.Int64
	var fired, repaired atomic.Bool
	fs := &faultfs.FS{FS: r.disk, Before: func(s faultfs.Site, _ string) error {
		// An error of reading belongs to one command, and says nothing about the store.
		reads := s.Op == "read" || s.Op == "open" || s.Op == "stat" || s.Op == "list"
		if reads || class != "" && s.Class != class || fault == faultfs.ErrShort && s.Op != "write" || repaired.Load() {
			return nil
		}
		if n := calls.Add(1); n == at || sticky && n > at {
			fired.Store(true)
			return fault
		}
		return nil
	}}
	what := fmt.Sprintf("%v at call %d to files %q, for good %t", fault, at, class, sticky)
	r.w.tolerates = func(err error) bool {
		if errors.Is(err, kv.ErrFailed) {
			r.failed.Store(true)
			r.w.over.Store(true)
		}
		return fired.Load() && typed(err)
	}
	db, err := kv.Open(faultfs.StoreDir, r.w.options(fs))
	if err != nil {
		if fired.Load() && typed(err) {
			return nil
		}
		return fmt.Errorf("%s: open: %w", what, err)
	}
	r.w.use(db)
	stop := r.compact()
	r.w.run(actions)
	errs := []error{stop(), r.w.err()}
	if r.failed.Load() {
		f.failed++
		errs = append(errs, RefusesAll(db))
	}
	errs = append(errs, r.close())
	repaired.Store(true)
	if err := errors.Join(append(errs, r.verify(nil))...); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// compact compacts the whole store again and again, until stop, which returns what went wrong, is called.
func (r *failing) compact() (stop func() error) {
	ctx, cancel := context.WithCancel(background)
	var compacting sync.WaitGroup
	var failed error
	compacting.Go(func() {
		for ctx.Err() == nil {
			if err := r.w.db.CompactTables(ctx); err != nil && ctx.Err() == nil {
				if !r.w.tolerates(err) {
					failed = fmt.Errorf("compaction: %w", err)
				}
				return
			}
			runtime.Gosched()
		}
	})
	return func() error {
		cancel()
		compacting.Wait()
		return failed
	}
}

// close closes the store. All that it holds is acknowledged then, unless it has failed.
func (r *failing) close() error {
	switch err := r.w.db.Close(); {
	case err == nil && !r.failed.Load():
		for _, h := range r.w.histories() {
			r.w.acknowledge(h, h.len())
		}
	case err != nil && !typed(err):
		return fmt.Errorf("close: %w", err)
	}
	return nil
}

// verify opens the store in this process, on what a crash leaves now, and on a shot, which may be nil.
func (r *failing) verify(taken *shot) error {
	var must span
	for _, h := range r.w.histories() {
		must.least, must.most = append(must.least, int(h.acked.Load())), append(must.most, h.len())
	}
	now := r.w.now.Load()
	list := []*shot{
		{span: must, disk: r.disk.CrashClone(vfs.CrashCloneCfg{}), now: now, taken: "a crash at the end"},
		{span: must, disk: r.disk, now: now, taken: "the same process"},
	}
	if taken != nil {
		list = append(list, taken)
	}
	var errs []error
	for _, s := range list {
		r.w.now.Store(s.now)
		db, err := kv.Open(faultfs.StoreDir, r.w.options(s.disk))
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w: %w", s.taken, ErrRefused, err))
			continue
		}
		_, err = r.w.verify(db, s.span)
		if err := errors.Join(err, WriteAndForget(db), db.Close()); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.taken, err))
		}
	}
	return errors.Join(errs...)
}

// meter is a disk that tells how much is free, whatever is in it.
type meter struct {
	vfs.FS
	free atomic.Uint64
}

// GetDiskUsage implements vfs.FS.
func (m *meter) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: m.free.Load(), TotalBytes: plenty}, nil
}

const (
	plenty   = 1 << 40
	lowSpace = 1 << 20
)

// fill has the disk almost full for a while, so that writes are refused, and takes a shot meanwhile.
func (f *Failures) fill() error {
	r := f.newFailing()
	disk := &meter{FS: r.disk}
	disk.free.Store(plenty)
	r.w.tolerates = func(err error) bool {
		if errors.Is(err, kv.ErrNoSpace) {
			r.full.Add(1)
			return !errors.Is(err, kv.ErrFailed)
		}
		return false
	}
	opts := r.w.options(disk)
	opts.MinFreeSpace = lowSpace
	db, err := kv.Open(faultfs.StoreDir, opts)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	r.w.use(db)
	cam := &camera{disk: r.disk, w: r.w, rng: rand.New(rand.NewPCG(f.rng.Uint64(), f.rng.Uint64()))}
	stop := r.compact()
	var working sync.WaitGroup
	working.Go(func() { r.w.run(1 << 30) })
	r.await(&r.w.commits, 30)
	disk.free.Store(lowSpace / 2)
	r.await(&r.full, 50)
	cam.shoot("while the disk was full")
	r.await(&r.full, 50)
	disk.free.Store(plenty)
	r.await(&r.w.commits, 30)
	r.w.over.Store(true)
	working.Wait()
	errs := []error{stop(), r.w.err(), r.close(), r.verify(cam.shots[0])}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("full disk: %w", err)
	}
	return nil
}

// await returns when a count has risen by n, or something went wrong.
func (r *failing) await(count *atomic.Int64, n int64) {
	for until := count.Load() + n; count.Load() < until && r.w.err() == nil; {
		runtime.Gosched()
	}
}

// String tells the figures.
func (f *Failures) String() string {
	return strings.TrimSpace(fmt.Sprintf("%d disks, %d stores failed, %d full for a while", f.rounds, f.failed, f.filled))
}
