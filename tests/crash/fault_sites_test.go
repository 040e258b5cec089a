package crash

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/internal/kvtest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/tests/faultfs"
	"github.com/sievekv/sievekv/txn"
)

// faultKind is a way in which calls fail.
type faultKind struct {
	name   string
	err    error
	sticky bool // all later calls at the site fail too,
	all    bool // and those at all other sites,
	heal   int  // until this number has failed, if not 0

	delay time.Duration // they only take so long, if err is nil
}

var faultKinds = []faultKind{
	{name: "EIO once", err: syscall.EIO},
	{name: "EIO from then on", err: syscall.EIO, sticky: true},
	{name: "EIO everywhere from then on", err: syscall.EIO, sticky: true, all: true},
	{name: "ENOSPC once", err: syscall.ENOSPC},
	// Without a watch over the free space, which these disks do not offer, writers wait for space to come back.
	{name: "ENOSPC for a while", err: syscall.ENOSPC, sticky: true, heal: 300},
	{name: "slow once", delay: 20 * time.Millisecond},
	{name: "slow from then on", delay: time.Millisecond, sticky: true},
	{name: "short write once", err: faultfs.ErrShort},
	{name: "short writes for a while", err: faultfs.ErrShort, sticky: true, heal: 300},
}

// fault makes calls fail. The zero value makes none fail and counts them.
type fault struct {
	site faultfs.Site
	nth  int // which call at the site fails first, from 1; 0 is none
	kind faultKind

	opened atomic.Bool // the store is open

	mu       sync.Mutex
	count    map[faultfs.Site]int // guarded by mu
	failed   int                  // guarded by mu
	atOpen   bool                 // the first call failed before the store was open; guarded by mu
	repaired bool                 // guarded by mu
}

func (f *fault) before(s faultfs.Site, _ string) error {
	failed, err := f.next(s)
	if failed {
		time.Sleep(f.kind.delay)
	}
	return err
}

// next counts a call, and returns whether it fails and how.
func (f *fault) next(s faultfs.Site) (failed bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count == nil {
		f.count = make(map[faultfs.Site]int)
	}
	f.count[s]++
	switch first := s == f.site && f.count[s] == f.nth; {
	case f.repaired:
		return false, nil
	case first:
		f.atOpen = !f.opened.Load()
	case f.failed == 0, !f.kind.sticky, f.kind.heal > 0 && f.failed >= f.kind.heal, !f.kind.all && s != f.site:
		return false, nil
	}
	f.failed++
	return true, f.kind.err
}

func (f *fault) fired() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed > 0
}

func (f *fault) repair() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.repaired = true
}

// options make a store with a ballast and without a service, so that all calls are the workload's.
func (r *faultRun) options(fs vfs.FS) *kv.Options {
	opts := r.w.options(fs)
	opts.Modules = coreext.With(bloomext.Module(), countingext.Module(), cuckooext.Module(), txn.Module())
	opts.CacheSize = 8 << 10
	opts.BallastSize = 4 << 10
	return opts
}

// faultRun is a store used in several sessions on a disk that fails.
type faultRun struct {
	*fault
	disk   *kvtest.Disk
	w      *workload
	failed bool // the store has
}

func newFaultRun(f *fault) *faultRun {
	r := &faultRun{fault: f, disk: kvtest.NewDisk()}
	r.w = newWorkload(rand.New(rand.NewPCG(1, 1)), 1, nil, firstMoment)
	r.w.workers[0].sync = 60
	r.w.workers[0].pad = 48 << 10
	r.w.workers[0].words = false
	r.w.tolerates = func(err error) bool {
		r.failed = r.failed || errors.Is(err, kv.ErrFailed)
		return f.fired() && typed(err)
	}
	return r
}

// work does n things: enough for flushes, logs that are used again, and compactions.
func (r *faultRun) work(n int) {
	w := r.w.workers[0]
	for i := 0; i < n && !r.failed && r.w.err() == nil; i++ {
		key := w.own.keys[i/2%keysPerWorker]
		have, exists := r.w.held(w.own)[key]
		switch {
		case !exists:
			w.createWithItems(key)
		case i%8 == 3:
			w.look()
			w.maintain()
		case i%12 == 4, i%12 == 7, i%12 == 10:
			w.transact()
		case i%6 == 1:
			w.operateAny()
		case have.Type == "bloom" && have.room() >= manyItems:
			w.addWithPosition(key, have)
		default:
			w.operateAny()
		}
	}
}

// session opens the store, works, and closes it. It reports whether there can be another on the failing disk.
func (r *faultRun) session(n int) (more bool, err error) {
	db, err := kv.Open(faultfs.StoreDir, r.options(&faultfs.FS{FS: r.disk, Before: r.before}))
	if err != nil {
		if r.fired() && typed(err) {
			return false, nil
		}
		return false, fmt.Errorf("open: %w", err)
	}
	r.opened.Store(true)
	defer r.opened.Store(false)
	r.w.use(db)
	r.work(n)
	errs := []error{r.w.err()}
	if r.failed {
		errs = append(errs, RefusesAll(db))
	}
	switch err := db.Close(); {
	case err == nil && !r.failed:
		// Nobody was told of a failure, so there is none: all is on the disk, whatever its level.
		for _, h := range r.w.histories() {
			r.w.acknowledge(h, h.len())
		}
	case err != nil && !(r.fired() && typed(err)):
		errs = append(errs, fmt.Errorf("close: %w", err))
	default:
		r.failed = r.failed || errors.Is(err, kv.ErrFailed)
	}
	if err := db.Close(); !errors.Is(err, kv.ErrClosed) {
		errs = append(errs, fmt.Errorf("second close: %w", err))
	}
	return !r.failed, errors.Join(errs...)
}

// verify opens the store on a disk that is whole again and compares.
func (r *faultRun) verify(disk *kvtest.Disk) error {
	db, err := kv.Open(faultfs.StoreDir, r.options(disk))
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	var must span
	for _, h := range r.w.histories() {
		must.least, must.most = append(must.least, int(h.acked.Load())), append(must.most, h.len())
	}
	_, err = r.w.verify(db, must)
	return errors.Join(err, WriteAndForget(db), db.Close())
}

// run makes a store fail and checks what it promises: the process lives, nothing hangs, errors say what they are, and
// the store can be opened again, in the same process as after a crash, with all that was acknowledged.
func (r *faultRun) run() error {
	for _, n := range []int{40, 25, 10} {
		more, err := r.session(n)
		if err != nil {
			return err
		}
		if !more {
			break
		}
	}
	if r.failed && r.survives() {
		return fmt.Errorf("the store failed by an error that it survives")
	}
	r.repair()
	crashed := r.disk.CrashClone(vfs.CrashCloneCfg{})
	if err := r.verify(r.disk); err != nil {
		return fmt.Errorf("same process: %w", err)
	}
	if err := r.verify(crashed); err != nil {
		return fmt.Errorf("after a crash: %w", err)
	}
	return nil
}

// survives reports whether the store must go on after the fault: one that is not to last, and not in a file without
// which no commit is possible.
func (r *faultRun) survives() bool {
	if r.kind.err == nil {
		return true
	}
	if r.kind.all || r.kind.sticky && r.kind.heal == 0 || r.atOpen {
		return false
	}
	switch r.site.Class {
	case "sst", "BALLAST", "DURABLE", "LOCK":
		return true
	}
	return r.site.Op == "read" || r.site.Op == "remove"
}

// calls returns which of the given number of calls at a site are made to fail.
func calls(count int) []int {
	most := 2 // the first and the last
	if *everyCall {
		most = count
	}
	if count <= most {
		most = count
	}
	var list []int
	for i := range most {
		list = append(list, 1+i*(count-1)/max(1, most-1))
	}
	return slices.Compact(list)
}

var everyCall = flag.Bool("everycall", false, "make every call to the file system fail, not two of each kind")

// TestFaultSites makes calls of every kind to the file system fail, at creation, opening, work and closing.
func TestFaultSites(t *testing.T) {
	reference := &fault{}
	if err := newFaultRun(reference).run(); err != nil {
		t.Fatal(err)
	}
	sites := slices.SortedFunc(maps.Keys(reference.count), func(a, b faultfs.Site) int {
		return strings.Compare(a.String(), b.String())
	})
	var runs, fired atomic.Int64
	t.Run("site", func(t *testing.T) {
		for _, s := range sites {
			t.Run(s.String(), func(t *testing.T) {
				t.Parallel()
				for _, nth := range calls(reference.count[s]) {
					for _, kind := range faultKinds {
						if kind.err == faultfs.ErrShort && s.Op != "write" {
							continue
						}
						if (kind.err == nil || kind.heal > 0) && nth > 1 && !*everyCall {
							continue // the first is slow or fails, and all that follow
						}
						f := &fault{site: s, nth: nth, kind: kind}
						if err := newFaultRun(f).run(); err != nil {
							t.Errorf("%s, call %d of %d: %v", kind.name, nth, reference.count[s], err)
						}
						runs.Add(1)
						if f.fired() {
							fired.Add(1)
						}
					}
				}
			})
		}
	})
	total := 0
	for _, n := range reference.count {
		total += n
	}
	t.Logf("%d sites with %d calls, %d runs, a call failed in %d", len(sites), total, runs.Load(), fired.Load())
	for _, s := range sites {
		t.Logf("%5d  %s", reference.count[s], s)
	}
}
