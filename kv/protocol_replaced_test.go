package kv_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/internal/kvtest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
)

// heldClock is a store's clock that can hold a goroutine that looks at it: a lookup of an object with an expiry,
// between finding the object and looking at its blocks.
type heldClock struct{ hook atomic.Pointer[func()] }

func (c *heldClock) now() time.Time {
	if f := c.hook.Load(); f != nil {
		(*f)()
	}
	return time.Now()
}

// holdNext holds the next one, until resume is closed.
func (c *heldClock) holdNext() (reached, resume chan struct{}) {
	reached, resume = make(chan struct{}), make(chan struct{})
	var once atomic.Bool
	f := func() {
		if once.CompareAndSwap(false, true) {
			c.hook.Store(nil)
			close(reached)
			<-resume
		}
	}
	c.hook.Store(&f)
	return reached, resume
}

type replacedStore struct {
	t     *testing.T
	clock heldClock
	stops *stops
	*kv.DB
}

func (s *replacedStore) open(fs vfs.FS) {
	s.t.Helper()
	s.stops = newStops()
	db, err := kv.Open("store", kv.WithPause(eitherWay(&kv.Options{
		FS: fs, BallastSize: -1, MinFreeSpace: -1, Seed: 7, Clock: s.clock.now, Modules: coreext.With(bloomext.Module()),
	}), s.stops.at))
	if err != nil {
		s.t.Fatal(err)
	}
	s.DB = db
	s.t.Cleanup(func() {
		if err := db.Close(); err != nil && !errors.Is(err, kv.ErrClosed) {
			s.t.Error(err)
		}
	})
}

// make makes a filter with an expiry and an item.
func (s *replacedStore) make(key, item string) {
	s.t.Helper()
	f := bloomext.New(s.DB, key).With(kv.NoSync)
	if err := f.Reserve(bloomext.Config{Capacity: 50_000, ErrorRate: 0.01, NonScaling: true, TTL: time.Hour}); err != nil {
		s.t.Fatal(err)
	}
	if _, err := f.Add([]byte(item)); err != nil {
		s.t.Fatal(err)
	}
}

type answer struct {
	yes bool
	err error
}

func ask(f func() (bool, error)) <-chan answer {
	answered := make(chan answer, 1)
	go func() {
		yes, err := f()
		answered <- answer{yes, err}
	}()
	return answered
}

// A lookup that found an object before it was replaced does not find in its table
// what another lookup read after that, which is nothing.
func TestLoad_replacedMeanwhile(t *testing.T) {
	s := &replacedStore{t: t}
	disk := vfs.NewMem()
	s.open(disk)
	s.make("f", "x")
	s.make("new", "x")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s.open(disk) // nothing is resident
	f := bloomext.New(s.DB, "f")
	if _, err := f.Info(); err != nil { // the handle knows its object
		t.Fatal(err)
	}
	firstReached, resumeFirst := s.clock.holdNext()
	first := ask(func() (bool, error) { return f.MayContain([]byte("x")) })
	<-firstReached
	loading := s.stops.next("load: begun")
	second := ask(func() (bool, error) { return bloomext.New(s.DB, "f").MayContain([]byte("x")) })
	<-loading.reached
	if err := s.Rename(kv.NoSync, []byte("new"), []byte("f")); err != nil {
		t.Fatal(err)
	}
	loading.release()
	if got := <-second; got.err != nil || !got.yes {
		t.Errorf("the lookup that read: %v, %v", got.yes, got.err)
	}
	close(resumeFirst)
	if got := <-first; got.err != nil || !got.yes {
		t.Errorf("the lookup that looked at memory: %v, %v; x was in f at every moment", got.yes, got.err)
	}
}

// An add that found its object before a RENAME and its item there after another
// add, to what the object had become, waits for that one to be on the disk.
func TestAcknowledge_renamedMeanwhile(t *testing.T) {
	s := &replacedStore{t: t}
	disk := kvtest.NewDisk()
	s.open(disk)
	s.make("src", "other")
	f := bloomext.New(s.DB, "src")
	if ok, err := f.MayContain([]byte("other")); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	reached, resume := s.clock.holdNext()
	added := ask(func() (bool, error) { return f.Add([]byte("x")) })
	<-reached
	if err := s.Rename(kv.Always, []byte("src"), []byte("dst")); err != nil { // all that src knew is on the disk
		t.Fatal(err)
	}
	if _, err := bloomext.New(s.DB, "dst").With(kv.NoSync).Add([]byte("x")); err != nil {
		t.Fatal(err)
	}
	close(resume)
	if got := <-added; got.err != nil {
		return // nothing was acknowledged
	}
	s.open(disk.CrashClone(vfs.CrashCloneCfg{}))
	for _, key := range []string{"src", "dst"} {
		if ok, err := bloomext.New(s.DB, key).MayContain([]byte("x")); ok && err == nil {
			return
		}
	}
	t.Error("an add was acknowledged, and after a crash its item is nowhere")
}

// What a lookup concluded from half of a RENAME is no answer, be it an error.
func TestRead_errorOfHalf(t *testing.T) {
	s := openStore(t, &kv.Options{FS: vfs.NewMem()})
	s.create("a")
	passes := 0
	err := s.Read(func(r kv.Reader) error {
		passes++
		b, err := r.Lookup([]byte("b"))
		if err != nil {
			return err
		}
		if passes == 1 {
			renamed := ask(func() (bool, error) { return true, s.Rename(kv.NoSync, []byte("a"), []byte("b")) })
			if got := <-renamed; got.err != nil {
				t.Error(got.err)
			}
		}
		a, err := r.Lookup([]byte("a"))
		if err == nil && a == nil && b == nil {
			err = kv.ErrNotFound
		}
		return err
	})
	if err != nil {
		t.Errorf("Read saw neither a nor b: %v, %d passes", err, passes)
	}
}

// INFO may be asked while the store closes.
func TestClose_infoMeanwhile(t *testing.T) {
	for range 20 {
		db, err := kv.Open("", &kv.Options{InMemory: true, Modules: coreext.With(module.Module{Name: "m", Services: []module.Service{idle{}}})})
		if err != nil {
			t.Fatal(err)
		}
		asked := ask(func() (bool, error) {
			s := module.NewSession(db)
			for range 50 {
				s.Do(context.Background(), [][]byte{[]byte("INFO")})
			}
			return true, nil
		})
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		<-asked
	}
}

type idle struct{}

func (idle) Start(*kv.DB) error                 { return nil }
func (idle) Stop()                              {}
func (idle) Info() (string, []module.InfoField) { return "Idle", nil }

// Small dropped objects are reclaimed many at a time.
func TestReclaim_many(t *testing.T) {
	s := openStore(t, &kv.Options{FS: vfs.NewMem()})
	const n = 500
	for i := range n {
		key := fmt.Sprint("k", i)
		s.create(key)
		if _, err := s.Delete(kv.NoSync, []byte(key)); err != nil {
			t.Fatal(err)
		}
	}
	if found, err := s.Reclaim(t.Context()); !found || err != nil {
		t.Fatalf("Reclaim = %v, %v", found, err)
	}
	if _, _, reclaimed := s.MaintenanceStats(); reclaimed != n {
		t.Errorf("%d objects were reclaimed at once, want %d", reclaimed, n)
	}
	if found, err := s.Reclaim(t.Context()); found || err != nil {
		t.Errorf("Reclaim = %v, %v, want nothing to do", found, err)
	}
}
