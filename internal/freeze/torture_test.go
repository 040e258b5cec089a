package freeze_test

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/freeze"
	"github.com/sievekv/sievekv/internal/kvtest"
)

const dir = "db"

// listener collects the calls that Pebble must never make.
type listener struct {
	mu   sync.Mutex
	errs []error
}

func (l *listener) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errs = append(l.errs, err)
}

func (l *listener) Infof(string, ...any)         {}
func (l *listener) Errorf(string, ...any)        {}
func (l *listener) Fatalf(f string, args ...any) { l.fail(fmt.Errorf("Fatalf: "+f, args...)) }

func (l *listener) err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(l.errs...)
}

// smallOptions make a few writes reach everything that Pebble does with files. Every 14 writes a memtable is flushed
// and a log recycled, every flush begins a new MANIFEST, and two tables are compacted.
func smallOptions(fs vfs.FS, l *listener) *pebble.Options {
	opts := &pebble.Options{
		FS:                          fs,
		FormatMajorVersion:          pebble.FormatNewest,
		Logger:                      l,
		MemTableSize:                16 << 10,
		MemTableStopWritesThreshold: 2,
		L0CompactionThreshold:       2,
		MaxManifestFileSize:         1,
		BytesPerSync:                4 << 10,
		EventListener: &pebble.EventListener{
			BackgroundError: func(error) {},
			DataCorruption:  func(i pebble.DataCorruptionInfo) { l.fail(fmt.Errorf("corruption: %w", i.Details)) },
		},
	}
	opts.CacheSize = 64 << 10
	return opts
}

// A run writes to one store in several sessions and remembers what was promised.
type run struct {
	disk *kvtest.Disk // what the store lives on
	next int          // number of the next write

	acked map[int]bool // writes that were acknowledged
	onAck func()       // is called after each of them, if not nil
	wild  bool         // go on writing when the store has failed

	// These are of the session under way, or of the last one:

	told     atomic.Bool       // the callback has run
	atFreeze map[string]string // the directory when it ran
	failed   error             // what Failed returned at the end
}

func newRun() *run {
	return &run{disk: kvtest.NewDisk(), acked: make(map[int]bool)}
}

// A write sets two keys in one batch, so that half a batch would be seen.
func keysOf(i int) [2][]byte {
	return [2][]byte{fmt.Appendf(nil, "a%06d", i), fmt.Appendf(nil, "b%06d", i)}
}

func valueOf(i int) []byte {
	v := make([]byte, 400)
	src := rand.NewChaCha8([32]byte{byte(i), byte(i >> 8)})
	src.Read(v)
	return v
}

// session opens the store on top of fs, writes n times, and closes the store. It returns an error of Open as err. It
// returns every other error, which is a broken promise, as broken.
func (r *run) session(fs vfs.FS, opened *atomic.Bool, n int) (openErr, broken error) {
	l := &listener{}
	r.told.Store(false)
	frozen := freeze.New(fs, dir, func(error) {
		if r.told.Swap(true) {
			l.fail(errors.New("called back twice"))
		}
		r.atFreeze = contents(r.disk, dir)
	})
	frozen.KeepCompactions(func() bool { return true }) // writers go on and wait for them
	db, openErr := openVerified(frozen, l)
	if openErr == nil {
		opened.Store(true)
		r.work(db, frozen, l, n)
		opened.Store(false)
	}
	r.failed = frozen.Failed()
	switch told := r.told.Load(); {
	case told != (r.failed != nil):
		l.fail(fmt.Errorf("called back: %t, but Failed returned %w", told, r.failed))
	case told && !maps.Equal(r.atFreeze, contents(r.disk, dir)):
		l.fail(errors.New("the frozen directory has changed"))
	}
	return openErr, l.err()
}

func openVerified(frozen *freeze.FS, l *listener) (*pebble.DB, error) {
	if err := frozen.Verify(); err != nil {
		return nil, err
	}
	return pebble.Open(dir, smallOptions(frozen, l))
}

// work writes n times, compacts, and closes the store.
func (r *run) work(db *pebble.DB, frozen *freeze.FS, l *listener, n int) {
	for range n {
		if frozen.Failed() != nil && !r.wild {
			break
		}
		if err := r.write(db); err != nil {
			l.fail(err)
		}
	}
	// An error on a table may reach a compaction that was asked for. The error of closing a directory may reach the
	// end.
	if err := db.Compact(tctx, []byte("a"), []byte("c"), false); !isInjected(err) {
		l.fail(fmt.Errorf("compact: %w", err))
	}
	if err := db.Close(); !isInjected(err) {
		l.fail(fmt.Errorf("close: %w", err))
	}
}

// isInjected reports whether err is nil or comes from a fault.
func isInjected(err error) bool {
	for _, target := range []error{nil, syscall.EIO, syscall.ENOSPC, io.ErrShortWrite, freeze.ErrFrozen} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// write commits once. It acknowledges the commit unless the callback has run, which happens later than Failed tells
// of the freeze.
func (r *run) write(db *pebble.DB) error {
	i := r.next
	r.next++
	b := db.NewBatch()
	defer b.Close()
	for _, k := range keysOf(i) {
		if err := b.Set(k, valueOf(i), nil); err != nil {
			return err
		}
	}
	if err := db.Apply(b, pebble.Sync); err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	if !r.told.Load() {
		r.acked[i] = true
		if r.onAck != nil {
			r.onAck()
		}
	}
	return nil
}

// verify opens the store on fs, which no longer fails, and compares the contents with what was promised.
func (r *run) verify(fs vfs.FS) error {
	l := &listener{}
	frozen := freeze.New(fs, dir, nil)
	db, err := openVerified(frozen, l)
	if err != nil {
		return fmt.Errorf("reopen: %w", err)
	}
	if err := r.verifyWrites(db); err != nil {
		l.fail(err)
	}
	if err := db.Set([]byte("z"), nil, pebble.Sync); err != nil {
		l.fail(err)
	}
	if err := db.Close(); err != nil {
		l.fail(err)
	}
	return errors.Join(l.err(), frozen.Failed())
}

// verifyWrites checks that every acknowledged write is there, and that every other write is there whole or not at
// all.
func (r *run) verifyWrites(db *pebble.DB) error {
	found := make(map[string]string)
	iter, err := db.NewIter(nil)
	if err != nil {
		return err
	}
	for iter.First(); iter.Valid(); iter.Next() {
		found[string(iter.Key())] = string(iter.Value())
	}
	if err := iter.Close(); err != nil {
		return err
	}
	for i := range r.next {
		want := string(valueOf(i))
		keys := keysOf(i)
		a, okA := found[string(keys[0])]
		b, okB := found[string(keys[1])]
		switch {
		case okA != okB:
			return fmt.Errorf("write %d is there by half", i)
		case !okA && r.acked[i]:
			return fmt.Errorf("write %d was acknowledged and is lost", i)
		case okA && (a != want || b != want):
			return fmt.Errorf("write %d has another value", i)
		}
	}
	return nil
}

// contents returns all files of a directory.
func contents(fs vfs.FS, dir string) map[string]string {
	m := make(map[string]string)
	names, err := fs.List(dir)
	if err != nil {
		return m // not created yet
	}
	for _, name := range names {
		f, err := fs.Open(fs.PathJoin(dir, name))
		if err != nil {
			panic(err)
		}
		data, err := io.ReadAll(f)
		if err != nil {
			panic(err)
		}
		m[name] = string(data)
		f.Close()
	}
	return m
}

// sessions are what a run with faults does. They include the creation of a store, a reopening with a log to replay,
// and a reopening after a clean close, so that all of their sites are counted.
var sessions = []int{45, 20, 10}

// torture runs the sessions with f and returns the first broken promise.
func torture(f *fault, stack func(vfs.FS) vfs.FS, freezes, wild bool) error {
	r := newRun()
	r.wild = wild
	for _, n := range sessions {
		openErr, broken := r.session(stack(&faultFS{FS: r.disk, dir: dir, fault: f}), &f.opened, n)
		if broken != nil {
			return broken
		}
		switch fired := f.hasFired(); {
		case openErr != nil && !fired:
			return openErr
		case r.failed != nil && !fired:
			return fmt.Errorf("frozen for nothing: %w", r.failed)
		case r.failed == nil && fired && freezes:
			return errors.New("not frozen")
		case r.failed != nil && !freezes && !f.after && !f.mayFreeze():
			return fmt.Errorf("frozen by an error that Pebble survives: %w", r.failed)
		}
		if openErr != nil || r.failed != nil {
			break
		}
	}
	crashed := r.disk.CrashClone(vfs.CrashCloneCfg{})
	if err := r.verify(r.disk); err != nil {
		return fmt.Errorf("same process: %w", err)
	}
	if err := r.verify(crashed); err != nil {
		return fmt.Errorf("after a crash: %w", err)
	}
	return nil
}

func bare(fs vfs.FS) vfs.FS { return fs }

func onSpace(fs vfs.FS) vfs.FS { return freeze.NewSpace(fs, dir, freeze.Options{}).FS() }

// retried reports whether vfs.OnDiskFull repeats a call that met ENOSPC.
func retried(s site) bool {
	switch s.op {
	case "create", "reuse", "rename", "write", "remove", "mkdir", "lock":
		return true
	}
	return false
}

func isWrite(s site) bool { return s.op == "write" }
func anySite(site) bool   { return true }

// TestTorture has every call by which Pebble writes fail, one in each run, and some of them in several ways. The
// functions session and torture check the promises: Pebble sees no error that it would not survive. Close returns.
// The directory is frozen exactly if the error was one that freezes, and does not change afterwards. All that was
// acknowledged is there when the store is opened again: in the same process, and after a crash that takes away what
// was not synced. If something hung, the test would not end.
func TestTorture(t *testing.T) {
	reference := &fault{}
	if err := torture(reference, bare, false, false); err != nil {
		t.Fatal(err)
	}
	modes := []struct {
		name    string
		fault   func() *fault
		stack   func(vfs.FS) vfs.FS
		wild    bool
		step    int // 1: every call of a site; n: the first, the last, and every nth
		applies func(site) bool
		freezes func(site) bool
	}{
		{
			"one call fails",
			func() *fault { return &fault{} },
			bare, false, 1, anySite, site.freezes,
		},
		{
			"one call does its work and fails",
			func() *fault { return &fault{late: true} },
			bare, true, 4, anySite, site.freezes,
		},
		{
			"one write is short",
			func() *fault { return &fault{short: true} },
			bare, false, 1, isWrite, site.freezes,
		},
		{
			"all calls fail from one on",
			func() *fault { return &fault{after: true} },
			bare, true, 3, anySite, site.freezes,
		},
		{
			"one call finds no space",
			func() *fault { return &fault{err: syscall.ENOSPC} },
			onSpace, false, 4, anySite, func(s site) bool { return s.freezes() && !retried(s) },
		},
		{
			"no call finds space for a while",
			func() *fault { return &fault{err: syscall.ENOSPC, after: true, heal: 300} },
			onSpace, true, 6, anySite, site.freezes,
		},
	}
	for _, m := range modes {
		for s, count := range reference.count {
			if !m.applies(s) {
				continue
			}
			t.Run(m.name+"/"+s.String(), func(t *testing.T) {
				t.Parallel()
				for nth := 1; nth <= count; nth++ {
					if step := m.step * thinning; nth%step != 1%step && nth != count {
						continue
					}
					f := m.fault()
					f.site, f.nth = s, nth
					if err := torture(f, m.stack, m.freezes(s), m.wild); err != nil {
						t.Errorf("call %d of %d: %v", nth, count, err)
					}
					// What compactions find varies a little, and so does the number of calls. But with the compaction
					// that ends a session each kind of call is made.
					if nth == 1 && !f.after && !f.hasFired() {
						t.Errorf("no such call was made")
					}
				}
			})
		}
	}
}
