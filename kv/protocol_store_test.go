package kv_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
)

// The tests of the protocols between lookups, writers, loaders and evictions force one order of steps that only
// chance would bring about: a goroutine is held at a named point of a slow path while others run. Each fails if the
// protection it is about is taken out.

// stops holds goroutines at named points.
type stops struct {
	mu    sync.Mutex
	armed map[string][]*stop // guarded by mu
	all   []*stop            // guarded by mu
	calls map[string]func()  // guarded by mu
}

func newStops() *stops {
	return &stops{armed: make(map[string][]*stop), calls: make(map[string]func())}
}

// stop is one goroutine to be held.
type stop struct {
	point   string
	reached chan struct{} // closed when a goroutine is there
	resume  chan struct{}
	once    sync.Once
}

// release lets the goroutine go on, also one that has yet to come.
func (s *stop) release() { s.once.Do(func() { close(s.resume) }) }

func (s *stop) wasReached() bool {
	select {
	case <-s.reached:
		return true
	default:
		return false
	}
}

func (s *stops) at(point string) {
	s.mu.Lock()
	list, call := s.armed[point], s.calls[point]
	if len(list) > 0 {
		s.armed[point] = list[1:]
	}
	s.mu.Unlock()
	if call != nil {
		call()
	}
	if len(list) == 0 {
		return
	}
	close(list[0].reached)
	<-list[0].resume
}

// each has every goroutine that comes to a point call f.
func (s *stops) each(point string, f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[point] = f
}

// next holds the next goroutine that comes to a point.
func (s *stops) next(point string) *stop {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := &stop{point: point, reached: make(chan struct{}), resume: make(chan struct{})}
	s.armed[point] = append(s.armed[point], st)
	s.all = append(s.all, st)
	return st
}

func (s *stops) releaseAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.armed)
	for _, st := range s.all {
		st.release()
	}
}

// store is an open store whose goroutines can be held.
type store struct {
	*kv.DB
	*stops
	t  *testing.T
	wg sync.WaitGroup
}

// openStore opens a store and closes it at the end of the test.
func openStore(t *testing.T, o *kv.Options) *store {
	t.Helper()
	return openStoreWith(t, o, newStops())
}

func openStoreWith(t *testing.T, o *kv.Options, held *stops) *store {
	t.Helper()
	return openGathering(t, eitherWay(o), held)
}

// openGathering opens a store that gathers commits, also when the others do not.
func openGathering(t *testing.T, o *kv.Options, held *stops) *store {
	t.Helper()
	s := &store{t: t, stops: held}
	o.Logger = slog.New(slog.DiscardHandler)
	o.BallastSize, o.MinFreeSpace = -1, -1
	if o.MaxIdleTransaction == 0 {
		o.MaxIdleTransaction = -1 // nothing depends on how long something takes
	}
	o.Modules = coreext.Add(o.Modules, bloomext.Module(), cuckooext.Module(), bitsModule, slotsModule)
	db, err := kv.Open("store", kv.WithPause(o, s.at))
	if err != nil {
		t.Fatal(err)
	}
	s.DB = db
	t.Cleanup(func() {
		s.releaseAll()
		s.wg.Wait()
		if err := db.Close(); err != nil && !errors.Is(err, kv.ErrClosed) {
			t.Error(err)
		}
	})
	return s
}

// inMemory are the options of most tests: nothing waits for a disk, and nothing is evicted unless the test does it.
func inMemory() *kv.Options { return &kv.Options{InMemory: true, Durability: kv.NoSync} }

// openInterrupted opens a store in which a function runs once when a point is reached: the one that during has then.
func openInterrupted(t *testing.T, at string) (db *kv.DB, during *func()) {
	t.Helper()
	during = new(func())
	o := kv.WithPause(&kv.Options{
		FS: vfs.NewMem(), BallastSize: -1, Durability: kv.NoSync, Modules: coreext.With(bloomext.Module()),
	}, func(point string) {
		if f := *during; f != nil && point == at {
			*during = nil
			f()
		}
	})
	db, err := kv.Open("store", eitherWay(o))
	if err != nil {
		t.Fatal(err)
	}
	return db, during
}

// task is something under way in a goroutine.
type task struct {
	t    *testing.T
	done chan struct{} // closed when err is set
	err  error
}

// begin runs f in a goroutine that the test waits for before it closes the store.
func (s *store) begin(f func() error) *task {
	t := &task{t: s.t, done: make(chan struct{})}
	s.wg.Go(func() {
		defer close(t.done)
		t.err = f()
	})
	return t
}

// wait waits for a task that nothing holds any more, and fails the test with its error.
func (t *task) wait() {
	t.t.Helper()
	<-t.done
	if t.err != nil {
		t.t.Fatal(t.err)
	}
}

// reaches waits for the task to be held.
func (t *task) reaches(st *stop) {
	t.t.Helper()
	select {
	case <-st.reached:
	case <-t.done:
		t.t.Fatalf("ended without coming to %q, error %v", st.point, t.err)
	}
}

func (t *task) ended() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// until waits for something to become true.
func until(condition func() bool) {
	for !condition() {
		runtime.Gosched()
	}
}

func (s *store) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// A type of plain bits, so that a test says which bits of which blocks it means.
var (
	bitsType   = &kv.Type{Name: "test-bits", Version: 1, Open: func(o *kv.Object) (any, error) { return o, nil }}
	bitsModule = module.Module{Name: "test", Types: []*kv.Type{bitsType}}
)

// bitsSpec describes an object of three blocks.
func bitsSpec() kv.Spec {
	return kv.Spec{Type: bitsType, Family: block.FamilyBits, Layers: []kv.LayerSpec{{Blocks: 3, Lines: 128}}}
}

// create makes an object of plain bits under a key.
func (s *store) create(key string) {
	s.t.Helper()
	w, err := s.Begin(kv.NoSync, []byte(key))
	s.must(err)
	_, err = w.Create([]byte(key), bitsSpec())
	s.must(err)
	s.must(w.Commit())
}

// object returns the open object under a key.
func (s *store) object(key string) *kv.Object {
	s.t.Helper()
	o, err := s.Lookup([]byte(key))
	s.must(err)
	if o == nil {
		s.t.Fatalf("key %q is missing", key)
	}
	return o
}

func (s *store) layer(key string) *kv.Layer {
	s.t.Helper()
	return s.object(key).Layers()[0]
}

// stage begins a write that sets a bit of a block. Its block is in memory.
func (s *store) stage(level kv.Durability, key string, blk uint64, bit uint16) *kv.Writer {
	s.t.Helper()
	w, err := s.Begin(level, []byte(key))
	s.must(err)
	o, err := w.Object([]byte(key))
	s.must(err)
	_, err = w.SetBits(o, o.Layers()[0], blk, []uint16{bit})
	s.must(err)
	return w
}

// set sets a bit of a block.
func (s *store) set(key string, blk uint64, bit uint16) {
	s.t.Helper()
	s.must(s.stage(kv.NoSync, key, blk, bit).Commit())
}

// find looks a bit up; bit is below 512.
func (s *store) find(key string, blk uint64, bit uint16) (set bool, err error) {
	err = s.Read(func(r kv.Reader) error {
		o, err := r.Lookup([]byte(key))
		if err != nil || o == nil {
			return errors.Join(err, fmt.Errorf("key %q: object %v", key, o))
		}
		first, err := r.Load(o, o.Layers()[0], blk)
		if err == nil {
			set = atomic.LoadUint64(&first[bit/64])>>(bit%64)&1 != 0
		}
		return err
	})
	return set, err
}

// has is find for the test's own goroutine.
func (s *store) has(key string, blk uint64, bit uint16) bool {
	s.t.Helper()
	set, err := s.find(key, blk, bit)
	s.must(err)
	return set
}

// beginFind looks a bit up in a goroutine; the task fails if it is not set.
func (s *store) beginFind(key string, blk uint64, bit uint16) *task {
	return s.begin(func() error {
		set, err := s.find(key, blk, bit)
		if err == nil && !set {
			err = fmt.Errorf("bit %d, set before the lookup, is not seen by it", bit)
		}
		return err
	})
}

// forget takes every block of an object out of memory.
func (s *store) forget(key string) {
	s.t.Helper()
	for _, l := range s.object(key).Layers() {
		for blk := range l.Spec().Blocks {
			s.EvictBlock(l, blk)
		}
	}
}

// closeObject closes an open object as the cache does when it needs room. The cache has counted the object by then:
// else it may count it after the next one under the key, and refuse that one, which closes it.
func (s *store) closeObject(key string) {
	s.t.Helper()
	o := s.object(key)
	s.AwaitCache()
	s.EvictObject(o)
	if !o.Ended() {
		s.t.Fatalf("object %q was not closed", key)
	}
}

// wantConsistent checks that what is in memory is what is stored, and that what is stored is whole.
func (s *store) wantConsistent() {
	s.t.Helper()
	if _, err := s.CompareResident(); err != nil {
		s.t.Error(err)
	}
	report, err := s.Check(context.Background())
	s.must(err)
	for _, problem := range report.Problems {
		s.t.Errorf("check: %v", problem)
	}
}
