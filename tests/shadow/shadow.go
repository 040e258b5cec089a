// Package shadow compares the answers that filters give from memory with the answers of snapshots, while the store
// changes in every way.
//
// A section of memory (package internal/memory) promises that what it has read was true at one moment after it began.
// So a test takes a snapshot inside the section before it asks, and another one after that. An answer about slots
// equals the second snapshot's. Bits may be set meanwhile: what the first snapshot has, memory has, and what memory
// has, the second snapshot has.
//
// An answer can also be known though the section is not valid at the end, so some items are in every filter, from the commit that
// makes it: no lookup may say that they are absent. Of a filter that forgets, or whose items are deleted, this does not hold.
//
// The tests of the filters run a few answers. Run with -shadow.answers 10000000, they take some minutes each:
//
//	go test ./bloomext ./cuckooext ./countingext -run TestShadow -shadow.answers 10000000
package shadow

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/internal/memory"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
)

var answers = flag.Int64("shadow.answers", 20_000, "how many answers from memory a test compares with snapshots")

// Filter is a handle on a filter that is made by a config. If it has AddIfAbsent, that is used in place of Add; and if it has
// Delete, items are deleted.
type Filter[F, C any] interface {
	In(s kv.Scope) F
	With(level kv.Durability) F
	Reserve(c C) error
	Add(item []byte) (bool, error)
	MayContain(item []byte) (bool, error)
}

// Filters are what is asked.
type Filters[F Filter[F, C], C any] struct {
	Module module.Module
	New    func(db *kv.DB, key string) F
	Config C
	Slots  bool    // a section notices each change of what it has read; else bits may be set meanwhile
	Keeps  bool    // the filter does not forget, and no item is to be deleted
	Full   []error // of an add for which there is no room

	// Begin begins a section of the filter of a handle that has found it, nil if it cannot be used.
	Begin func(f F) Section
}

// Section is a lookup in memory.
type Section interface {
	Ask(item []byte) (present, known bool)
	Valid() bool
}

// Slots returns a section of an object as a lookup of slots begins it, nil if it cannot be used. Ask is what the lookup asks.
func Slots(o *kv.Object, ask func(s *memory.SlotSection, item []byte) (present, known bool)) Section {
	if s := o.Memory().BeginSlots(); s.Usable() {
		return &slots{s, ask}
	}
	return nil
}

type slots struct {
	memory.SlotSection
	ask func(s *memory.SlotSection, item []byte) (present, known bool)
}

func (s *slots) Ask(item []byte) (present, known bool) { return s.ask(&s.SlotSection, item) }

// Bits is Slots for a lookup of bits.
func Bits(o *kv.Object, ask func(s memory.Section, item []byte) (present, known bool)) Section {
	if s := o.Memory().Begin(); s.Usable() {
		return bits{s, ask}
	}
	return nil
}

type bits struct {
	memory.Section
	ask func(s memory.Section, item []byte) (present, known bool)
}

func (s bits) Ask(item []byte) (present, known bool) { return s.ask(s.Section, item) }

const (
	keys    = 2
	items   = 4000
	hot     = 20 // of these items, half of all that happens is about one
	askers  = 2
	changes = 2  // goroutines that change the store
	asked   = 24 // items of one section
	second  = 1000
)

// run is one run.
type run[F Filter[F, C], C any] struct {
	Filters[F, C]
	t       *testing.T
	db      *kv.DB
	clock   atomic.Int64  // Unix milliseconds
	change  chan struct{} // one for each section that was begun, if somebody waits
	answers atomic.Int64
	absent  atomic.Int64
}

// Run compares as many answers as the flag says.
func Run[F Filter[F, C], C any](t *testing.T, f Filters[F, C]) {
	t.Helper()
	r := &run[F, C]{t: t, Filters: f, change: make(chan struct{})}
	r.clock.Store(1_700_000_000_000)
	db, err := kv.Open("", &kv.Options{
		InMemory: true, CacheSize: 256 << 10, Modules: coreext.With(f.Module),
		Clock: func() time.Time { return time.UnixMilli(r.clock.Load()) },
	})
	if err != nil {
		t.Fatal(err)
	}
	r.db = db
	r.run()
	t.Logf("%d answers, %d of them absent", r.answers.Load(), r.absent.Load())
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

func (r *run[F, C]) run() {
	var asking, changing sync.WaitGroup
	for i := range changes {
		rng := rand.New(rand.NewPCG(1, uint64(i)))
		changing.Go(func() {
			for range r.change {
				r.changeOne(rng)
			}
		})
	}
	for i := range askers {
		rng := rand.New(rand.NewPCG(2, uint64(i)))
		asking.Go(func() {
			for r.answers.Load() < *answers && !r.t.Failed() {
				select {
				case r.change <- struct{}{}:
				default:
				}
				r.ask(rng)
			}
		})
	}
	asking.Wait()
	close(r.change)
	changing.Wait()
}

func someKey(rng *rand.Rand) string { return strconv.Itoa(rng.IntN(keys)) }

func someItem(rng *rand.Rand) []byte {
	n := rng.IntN(items)
	if rng.IntN(2) == 0 {
		n %= hot
	}
	return strconv.AppendInt(nil, int64(n), 10)
}

// answer is one of each.
type answer struct {
	item           []byte
	before, after  bool // in the snapshots
	present, known bool // in memory
}

// ask compares answers of one section with answers of snapshots.
func (r *run[F, C]) ask(rng *rand.Rand) {
	key, clock := someKey(rng), r.clock.Load()
	f := r.New(r.db, key)
	if _, err := f.MayContain(someItem(rng)); err != nil { // it finds the filter
		if r.pass(err); errors.Is(err, kv.ErrNotFound) {
			r.pass(r.refill(key))
		}
		return
	}
	s := r.Begin(f)
	if s == nil {
		return
	}
	list := make([]answer, 1+rng.IntN(asked))
	for i := range list {
		list[i].item = someItem(rng)
	}
	for _, a := range list {
		if rng.IntN(8) == 0 {
			present, err := r.New(r.db, key).MayContain(a.item)
			r.pass(err)
			r.always(a.item, present, err == nil)
		}
	}
	errBefore := r.snapshot(key, list, func(a *answer) *bool { return &a.before })
	for i := range list {
		a := &list[i]
		a.present, a.known = s.Ask(a.item)
		r.always(a.item, a.present, a.known)
	}
	errAfter := r.snapshot(key, list, func(a *answer) *bool { return &a.after })
	if !s.Valid() || r.clock.Load() != clock {
		return
	}
	if err := errors.Join(errBefore, errAfter); err != nil {
		r.t.Errorf("key %s has a valid section, and in a snapshot: %v", key, err)
		return
	}
	for _, a := range list {
		r.compare(key, a)
	}
}

// always checks an answer about an item that may be in every filter.
func (r *run[F, C]) always(item []byte, present, known bool) {
	if n, err := strconv.Atoi(string(item)); r.Keeps && known && !present && err == nil && n < hot/2 {
		r.t.Errorf("item %d is always there, and said to be absent", n)
	}
}

func (r *run[F, C]) compare(key string, a answer) {
	if !a.known {
		return
	}
	r.answers.Add(1)
	if !a.present {
		r.absent.Add(1)
	}
	if (r.Slots || a.present) && a.present != a.after || !r.Slots && a.before && !a.present {
		r.t.Errorf("key %s, item %s: %t in memory, %t in a snapshot before, %t after", key, a.item, a.present, a.before, a.after)
	}
}

// snapshot asks a snapshot.
func (r *run[F, C]) snapshot(key string, list []answer, where func(*answer) *bool) error {
	return r.db.ReadWith(kv.ReadOptions{Long: true}, func(at kv.Reader) error {
		o, err := at.Lookup([]byte(key))
		if err != nil || o == nil {
			return errors.Join(err, kv.ErrNotFound)
		}
		f, ok := o.Body().(interface {
			Copies(at kv.Reader, item []byte) (uint64, error)
		})
		if !ok {
			return fmt.Errorf("the object is a %T", o.Body())
		}
		for i := range list {
			n, err := f.Copies(at, list[i].item)
			if err != nil {
				return err
			}
			*where(&list[i]) = n > 0
		}
		return nil
	})
}

// changeOne changes the store in one of many ways.
func (r *run[F, C]) changeOne(rng *rand.Rand) {
	key, item := someKey(rng), someItem(rng)
	f := r.New(r.db, key).With(kv.NoSync)
	var err error
	switch n := rng.IntN(1000); {
	case n < 10:
		_, err = r.db.Delete(kv.NoSync, []byte(key))
	case n < 40:
		err = r.refill(key)
	case n < 50:
		err = r.db.Rename(kv.NoSync, []byte(key), []byte(someKey(rng)))
	case n < 60:
		_, err = r.db.Expire(kv.NoSync, []byte(key), r.db.Now()+int64(rng.IntN(10)+1)*second, kv.ExpireAlways)
	case n < 80:
		_, err = r.db.Persist(kv.NoSync, []byte(key))
	case n < 100:
		r.clock.Add(second)
	case n < 110:
		_, err = r.db.CompactQueued(context.Background(), 1<<20)
	case n < 120:
		_, err = r.db.Sweep(context.Background())
	case n < 130:
		_, err = r.db.Wake(context.Background(), nil, 1<<20)
	case n < 160:
		err = r.db.Update(context.Background(), kv.NoSync, func(tx *kv.Transaction) error {
			return errors.Join(r.allow(r.add(f.In(tx), item)), r.allow(r.add(f.In(tx), someItem(rng))))
		})
	case n < 400 && !r.Keeps:
		if deletes, ok := any(f).(interface {
			Delete(item []byte) (bool, error)
		}); ok {
			_, err = deletes.Delete(item)
		}
	default:
		err = r.add(f, item)
	}
	r.pass(err)
}

func (r *run[F, C]) add(f F, item []byte) error {
	add := f.Add
	if absent, ok := any(f).(interface {
		AddIfAbsent(item []byte) (bool, error)
	}); ok {
		add = absent.AddIfAbsent
	}
	_, err := add(item)
	return err
}

// refill replaces a filter by one with the same key that has the first items.
func (r *run[F, C]) refill(key string) error {
	return r.db.Update(context.Background(), kv.NoSync, func(tx *kv.Transaction) error {
		err := tx.Write(func(w *kv.Writer) error {
			_, err := w.Delete([]byte(key))
			return err
		})
		f := r.New(r.db, key).In(tx)
		if err = errors.Join(err, f.Reserve(r.Config)); err != nil {
			return err
		}
		for i := range hot / 2 {
			if err := r.add(f, strconv.AppendInt(nil, int64(i), 10)); err != nil {
				return err
			}
		}
		return nil
	})
}

// allow returns err, unless it comes of what others do meanwhile.
func (r *run[F, C]) allow(err error) error {
	for _, e := range append([]error{kv.ErrNotFound, kv.ErrExists}, r.Full...) {
		if errors.Is(err, e) {
			return nil
		}
	}
	return err
}

func (r *run[F, C]) pass(err error) {
	if err := r.allow(err); err != nil {
		r.t.Error(err)
	}
}
