package guard_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/guard"
	_ "github.com/sievekv/sievekv/internal/kvtest/seeded"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	errSource = errors.New("the source is down")
	errOther  = errors.New("another error")
)

// world is a store, a guard and a source in a bubble of time: time passes only while all goroutines wait. A bubble ends only
// when all its goroutines have, so that each test also finds goroutines that are left behind.
type world struct {
	*testing.T
	db *sievekv.DB
	g  *guard.Guard

	mu    sync.Mutex
	rows  map[string]string
	err   error           // of loads
	loads map[string]int  // by id
	hold  map[string]gate // loads of these ids wait after they have read the row
}

// gate holds goroutines: each sends itself, and goes on when it was let go.
type gate chan chan struct{}

// arrive waits until somebody lets the goroutine go.
func (x gate) arrive() {
	let := make(chan struct{})
	x <- let
	<-let
}

// next returns a function that lets the next goroutine go that arrives.
func (x gate) next() (let func()) {
	arrived := <-x
	return func() { close(arrived) }
}

// inWorld runs a test in a bubble. Options may be nil.
func inWorld(t *testing.T, o *guard.Options, test func(w *world)) {
	t.Helper()
	inWorldAt(t, nil, o, test)
}

// inWorldAt is inWorld with a clock of the store, nil for the bubble's.
func inWorldAt(t *testing.T, clock func() time.Time, o *guard.Options, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		dog := time.AfterFunc(6*time.Hour, func() { panic("the test hangs") })
		defer dog.Stop()
		w := &world{T: t, rows: make(map[string]string), loads: make(map[string]int), hold: make(map[string]gate)}
		var err error
		if w.db, err = sievekv.Open("", &sievekv.Options{InMemory: true, Seed: 1, Logger: quiet, Clock: clock}); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if w.g != nil {
				w.g.Close()
			}
			if err := w.db.Close(); err != nil {
				t.Error(err)
			}
		}()
		if o == nil {
			o = &guard.Options{}
		}
		w.g = w.open("users", w.options(*o))
		test(w)
	})
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// options fills in the world's source, and Empty unless the test says Unfilled.
func (w *world) options(o guard.Options) guard.Options {
	if o.Load == nil && o.LoadMany == nil {
		o.Load = w.load
	}
	if o.Logger == nil {
		o.Logger = quiet
	}
	return o
}

func (w *world) open(name string, o guard.Options) *guard.Guard {
	w.Helper()
	g, err := guard.New(w.db, name, o)
	if err != nil {
		w.Fatal(err)
	}
	return g
}

func (w *world) load(_ context.Context, id string) ([]byte, error) {
	w.mu.Lock()
	w.loads[id]++
	row, there := w.rows[id]
	err, gate := w.err, w.hold[id]
	w.mu.Unlock()
	if gate != nil {
		gate.arrive()
	}
	switch {
	case err != nil:
		return nil, err
	case !there:
		return nil, guard.ErrNotFound
	}
	return []byte(row), nil
}

// holding makes loads of an id wait, after they have read the row.
func (w *world) holding(id string) gate {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hold[id] = make(gate)
	return w.hold[id]
}

// free ends holding.
func (w *world) free(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.hold, id)
}

func (w *world) set(id, row string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rows[id] = row
}

func (w *world) unset(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.rows, id)
}

func (w *world) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
}

func (w *world) loadsOf(id string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.loads[id]
}

// put writes a row and tells the guard.
func (w *world) put(id, row string) {
	w.Helper()
	err := w.g.PutVia(w.Context(), id, []byte(row), func(context.Context) error { w.set(id, row); return nil })
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) remove(id string) {
	w.Helper()
	if err := w.g.RemoveVia(w.Context(), id, func(context.Context) error { w.unset(id); return nil }); err != nil {
		w.Fatal(err)
	}
}

// wantLoads checks how often an id was loaded so far.
func (w *world) wantLoads(id string, n int) {
	w.Helper()
	if got := w.loadsOf(id); got != n {
		w.Errorf("%q was loaded %d times, want %d", id, got, n)
	}
}

// want checks what Get returns: a value, or an error.
func (w *world) want(id string, want any) {
	w.Helper()
	w.wantOf(w.g, id, want)
}

func (w *world) wantOf(g *guard.Guard, id string, want any) {
	w.Helper()
	value, err := g.Get(w.Context(), id)
	wantResult(w.T, id, guard.Result{Value: value, Err: err}, want)
}

func wantResult(t *testing.T, id string, got guard.Result, want any) {
	t.Helper()
	switch want := want.(type) {
	case string:
		if got.Err != nil || string(got.Value) != want || got.Value == nil {
			t.Errorf("Get %q: %q, %v, want %q", id, got.Value, got.Err, want)
		}
	case error:
		if !errors.Is(got.Err, want) || got.Value != nil {
			t.Errorf("Get %q: %q, %v, want the error %v", id, got.Value, got.Err, want)
		}
		if want != guard.ErrNotFound && errors.Is(got.Err, guard.ErrNotFound) {
			t.Errorf("Get %q: the error %v is ErrNotFound too", id, got.Err)
		}
	}
}

// get runs Get in a goroutine.
func (w *world) get(ctx context.Context, id string) <-chan guard.Result {
	result := make(chan guard.Result, 1)
	go func() {
		value, err := w.g.Get(ctx, id)
		result <- guard.Result{Value: value, Err: err}
	}()
	return result
}

// done runs a function in a goroutine.
func done(f func() error) <-chan error {
	result := make(chan error, 1)
	go func() { result <- f() }()
	return result
}

// allRows gives the ids of the rows that there are when it is ranged over, in order.
func (w *world) allRows() iter.Seq2[string, error] { return w.rowsAfter("") }

func (w *world) rowsAfter(after string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		w.mu.Lock()
		var ids []string
		for id := range w.rows {
			if id > after {
				ids = append(ids, id)
			}
		}
		w.mu.Unlock()
		slices.Sort(ids)
		for _, id := range ids {
			if !yield(id, nil) {
				return
			}
		}
	}
}

// seqOf gives ids.
func seqOf(ids ...string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for _, id := range ids {
			if !yield(id, nil) {
				return
			}
		}
	}
}

// check reports an error.
func (w *world) check(err error) {
	w.Helper()
	if err != nil {
		w.Error(err)
	}
}

// fillers are the types of filters.
var filters = []guard.Filter{guard.Bloom, guard.Cuckoo, guard.Counting}

// exact is an error rate at which no test meets a false positive.
const exact = 1e-7
