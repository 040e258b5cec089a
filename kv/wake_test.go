package kv_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
)

var errAsleep = errors.New("asleep")

// sleepers are objects that are to be called at a time, which is their parameters, and then never again.
type sleepers struct {
	module.Module
	woken []string // keys in order
	fails func(key string) bool
}

func newSleepers() *sleepers {
	s := &sleepers{fails: func(string) bool { return false }}
	at := func(o *kv.Object) int64 { return int64(binary.LittleEndian.Uint64(o.Params())) }
	s.Module = module.Module{Name: "sleepers", Types: []*kv.Type{{
		Name: "sleeper", Version: 1, Wake: at,
		Open: func(*kv.Object) (any, error) { return "sleeper", nil },
		Compact: func(w *kv.Writer, o *kv.Object, _ int) (bool, error) {
			switch s.woken = append(s.woken, o.Key()); {
			case s.fails(o.Key()):
				return false, errAsleep
			case at(o) > w.Now():
				return false, nil
			}
			_, err := w.ReplaceLayers(o, make([]byte, 8), func(int) bool { return true })
			return false, err
		},
	}}}
	return s
}

// wakeStore is a store whose clock only a test sets.
type wakeStore struct {
	*kv.DB
	t    *testing.T
	fs   vfs.FS
	time atomic.Int64
}

// written returns the bytes that commits have written to the log.
func (s *wakeStore) written() uint64 {
	s.t.Helper()
	m, err := s.Metrics()
	s.must(err)
	return m.LogBytesIn
}

func (s *wakeStore) open(modules ...module.Module) {
	s.t.Helper()
	o := &kv.Options{FS: s.fs, BallastSize: -1, Durability: kv.NoSync, Clock: func() time.Time { return time.UnixMilli(s.time.Load()) }}
	if len(modules) > 0 {
		o.Modules = coreext.With(modules...)
	}
	var err error
	if s.DB, err = kv.Open("store", eitherWay(o)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *wakeStore) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func newWakeStore(t *testing.T, modules ...module.Module) *wakeStore {
	s := &wakeStore{t: t, fs: vfs.NewMem()}
	s.time.Store(1000)
	s.open(modules...)
	t.Cleanup(func() { s.must(s.Close()) })
	return s
}

// sleep makes a key that is to be called at a time.
func (s *wakeStore) sleep(of *sleepers, key string, until int64) {
	s.t.Helper()
	spec := kv.Spec{Type: of.Types[0], Family: block.FamilyBits, Layers: []kv.LayerSpec{{Blocks: 1, Lines: 1}}, Params: binary.LittleEndian.AppendUint64(nil, uint64(until))}
	s.must(s.Write(kv.NoSync, [][]byte{[]byte(key)}, func(w *kv.Writer) error { _, err := w.Create([]byte(key), spec); return err }))
}

// wake calls Wake until all is done that is due, and returns the number of calls and the first error.
func (s *wakeStore) wake() (calls int, first error) {
	var next []byte
	for more := true; more; calls++ {
		var err error
		if next, err = s.Wake(s.t.Context(), next, 1<<20); first == nil {
			first = err
		}
		more = next != nil
	}
	return calls, first
}

// sound checks that nothing is wrong with the store, and no note is there that is not needed.
func (s *wakeStore) sound() {
	s.t.Helper()
	if report, err := s.Check(s.t.Context()); err != nil || len(report.Problems)+len(report.Notes) > 0 {
		s.t.Errorf("check: %v, %q, %v", report.Problems, report.Notes, err)
	}
}

// Objects that cannot be compacted keep no other from being called, however many they are, and each call of Wake ends.
func TestWake_failing(t *testing.T) {
	types := newSleepers()
	types.fails = func(key string) bool { return key != "late" }
	s := newWakeStore(t, types.Module)
	for i := range 40 {
		s.sleep(types, fmt.Sprint("failing ", i), 1)
	}
	s.sleep(types, "late", 2000)
	s.time.Store(2000)
	calls, err := s.wake()
	if !errors.Is(err, errAsleep) || !slices.Contains(types.woken, "late") {
		t.Errorf("%d calls woke %q: %v", calls, types.woken, err)
	}
	if len(types.woken) != 41 || calls > 4 {
		t.Errorf("%d calls woke %d objects, want 41", calls, len(types.woken))
	}
}

// Objects that have nothing to do yet, though they are due, do not keep the service busy.
func TestWake_idle(t *testing.T) {
	types := newSleepers()
	types.Types[0].Compact = nil
	s := newWakeStore(t, types.Module)
	for i := range 40 {
		s.sleep(types, fmt.Sprint("idle ", i), 1)
	}
	if calls, err := s.wake(); calls > 3 || err != nil {
		t.Errorf("%d calls, %v", calls, err)
	}
	before := s.written()
	if _, err := s.wake(); err != nil || s.written() != before {
		t.Errorf("%d bytes were written: %v", s.written()-before, err)
	}
}

// A program without the module of an object does not know when it is to be called. It keeps what is noted, also if the key
// is renamed or copied, and the object is called when the module is there again.
func TestWake_unknownModule(t *testing.T) {
	types := newSleepers()
	s := newWakeStore(t, types.Module)
	problems := func(when string) {
		t.Helper()
		if report, err := s.Check(t.Context()); err != nil || len(report.Problems) > 0 {
			t.Errorf("%s: %v, %v", when, report.Problems, err)
		}
	}
	const keys = 20
	for i := range keys {
		s.sleep(types, fmt.Sprint("due ", i), 2000)
		s.sleep(types, fmt.Sprint("later ", i), 5000)
	}
	s.sleep(types, "replaced", 5000)
	s.must(s.Close())

	s.open()
	s.time.Store(3000)
	before := s.written()
	if calls, err := s.wake(); calls > 3 || err != nil || s.written() != before {
		t.Errorf("without the module: %d calls, %d bytes written, %v", calls, s.written()-before, err)
	}
	s.must(s.Rename(kv.NoSync, []byte("due 0"), []byte("renamed due")))
	s.must(s.Rename(kv.NoSync, []byte("later 0"), []byte("replaced")))
	_, err := s.Copy(t.Context(), kv.NoSync, []byte("later 1"), []byte("copied"), false)
	s.must(err)
	_, err = s.Expire(kv.NoSync, []byte("later 2"), 9000, kv.ExpireAlways)
	s.must(err)
	_, err = s.wake()
	s.must(err)
	problems("without the module")
	s.must(s.Close())

	s.open(types.Module)
	problems("before anything is called")
	_, err = s.wake()
	s.must(err)
	if len(types.woken) < keys || !slices.Contains(types.woken, "renamed due") {
		t.Errorf("woken: %q", types.woken)
	}
	types.woken = nil
	s.time.Store(5000)
	_, err = s.wake()
	s.must(err)
	slices.Sort(types.woken)
	var want []string
	for i := 1; i < keys; i++ {
		want = append(want, fmt.Sprint("later ", i))
	}
	want = append(want, "copied", "replaced")
	slices.Sort(want)
	if !slices.Equal(types.woken, want) {
		t.Errorf("woken at the time: %q, want %q", types.woken, want)
	}
	s.sound()
}

// An object that has more to do is queued, so that it does not wait for the next round.
func TestWake_more(t *testing.T) {
	types := newSleepers()
	types.Types[0].Compact = func(*kv.Writer, *kv.Object, int) (bool, error) { return true, nil }
	s := newWakeStore(t, types.Module)
	s.sleep(types, "large", 1)
	_, err := s.wake()
	s.must(err)
	if n := s.CompactBacklog(); n != 1 {
		t.Errorf("%d objects are queued, want 1", n)
	}
}

// If the clock is set back between two calls, nothing is due for the second.
func TestWake_clockBack(t *testing.T) {
	types := newSleepers()
	s := newWakeStore(t, types.Module)
	for i := range 20 {
		s.sleep(types, fmt.Sprint("k", i), 2000)
	}
	s.time.Store(2000)
	next, err := s.Wake(t.Context(), nil, 1<<20)
	if s.must(err); next == nil || len(types.woken) != 16 {
		t.Fatalf("%d objects, next %q", len(types.woken), next)
	}
	s.time.Store(1000)
	if next, err = s.Wake(t.Context(), next, 1<<20); next != nil || err != nil || len(types.woken) != 16 {
		t.Errorf("%d objects, next %q, %v", len(types.woken), next, err)
	}
	s.time.Store(2000)
	_, err = s.wake()
	if s.must(err); len(types.woken) != 20 {
		t.Errorf("%d objects", len(types.woken))
	}
	s.sound()
}
