package cuckooext

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// While filters are changed, renamed, grown, dropped, made again and closed, each answer from memory that is valid is what a
// snapshot says that was taken inside the section.
func TestInMemory_snapshots(t *testing.T) {
	for _, layout := range []scalableext.Layout{scalableext.LayoutNative, scalableext.LayoutCompatible} {
		db, err := kv.Open("", &kv.Options{InMemory: true, CacheSize: 256 << 10, Modules: coreext.With(Module())})
		if err != nil {
			t.Fatal(err)
		}
		s := &shadow{t: t, db: db, config: Config{Capacity: 2000, Expansion: 1, Layout: layout}}
		s.run()
		t.Logf("layout %v: %d answers were valid, %d of them absent", layout, s.valid.Load(), s.absent.Load())
		if s.valid.Load() == 0 || s.absent.Load() == 0 {
			t.Errorf("layout %v: %d answers were valid, %d of them absent", layout, s.valid.Load(), s.absent.Load())
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

// shadow asks a store twice while it changes.
type shadow struct {
	t             *testing.T
	db            *kv.DB
	config        Config
	valid, absent atomic.Int64
}

const (
	shadowKeys  = 2
	shadowItems = 4000
	shadowHot   = 20 // of these items, half of all that happens is about one
	shadowAsks  = 6000
)

func (s *shadow) run() {
	var asking, changing sync.WaitGroup
	done := make(chan struct{})
	for i := range 2 {
		asking.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(i)))
			for range shadowAsks {
				s.ask(rng)
			}
		})
		changing.Go(func() {
			rng := rand.New(rand.NewPCG(2, uint64(i)))
			for {
				select {
				case <-done:
					return
				default:
					s.change(rng)
				}
			}
		})
	}
	asking.Wait()
	close(done)
	changing.Wait()
	for i := range shadowKeys { // so that some answers are valid, however the goroutines took turns
		s.pass(New(s.db, strconv.Itoa(i)).Reserve(s.config))
	}
	rng := rand.New(rand.NewPCG(3, 0))
	for range shadowHot {
		s.ask(rng)
	}
}

func shadowKey(rng *rand.Rand) string { return strconv.Itoa(rng.IntN(shadowKeys)) }

func shadowItem(rng *rand.Rand) []byte {
	n := rng.IntN(shadowItems)
	if rng.IntN(2) == 0 {
		n %= shadowHot
	}
	return strconv.AppendInt(nil, int64(n), 10)
}

// ask compares an answer from memory with that of a snapshot.
func (s *shadow) ask(rng *rand.Rand) {
	key, item := shadowKey(rng), shadowItem(rng)
	f := New(s.db, key)
	if _, err := f.MayContain(item); err != nil { // finds the filter
		s.pass(err)
		return
	}
	c := f.h.Current.Load()
	h := c.hash.Sum(item)
	in := c.object.Memory().BeginSlots()
	if !in.Usable() {
		return
	}
	present, known := c.inMemory(&in, h)
	then := false
	err := s.db.ReadWith(kv.ReadOptions{Long: true}, func(r kv.Reader) error {
		o, err := r.Lookup([]byte(key))
		if err != nil || o == nil {
			return errors.Join(err, kv.ErrNotFound)
		}
		at, ok := o.Body().(*filter)
		if !ok {
			return kv.ErrWrongType
		}
		then, err = at.Load(r, h)
		return err
	})
	if !known || !in.Valid() {
		s.pass(err)
		return
	}
	s.valid.Add(1)
	if !present {
		s.absent.Add(1)
	}
	if err != nil || present != then {
		s.t.Errorf("key %s, item %s: %t in memory, and %t in a snapshot: %v", key, item, present, then, err)
	}
}

// change changes the store in one of many ways.
func (s *shadow) change(rng *rand.Rand) {
	key := shadowKey(rng)
	f := New(s.db, key).With(kv.NoSync)
	var err error
	switch n := rng.IntN(1000); {
	case n < 10:
		_, err = s.db.Delete(kv.NoSync, []byte(key))
	case n < 20:
		err = s.db.Rename(kv.NoSync, []byte(key), []byte(shadowKey(rng)))
	case n < 40:
		_, err = s.db.Expire(kv.NoSync, []byte(key), s.db.Now()+1_000_000, kv.ExpireAlways)
	case n < 50:
		err = s.db.Update(context.Background(), kv.NoSync, func(tx *kv.Transaction) error {
			in := f.In(tx)
			_, err := in.Add(shadowItem(rng))
			_, err2 := in.Delete(shadowItem(rng))
			return errors.Join(err, err2)
		})
	case n < 60:
		_, err = s.db.CompactQueued(context.Background(), 1<<20)
	case n < 400:
		_, err = f.Delete(shadowItem(rng))
	default:
		if _, err = f.AddIfAbsent(shadowItem(rng)); errors.Is(err, kv.ErrNotFound) {
			err = f.Reserve(s.config)
		}
	}
	s.pass(err)
}

// pass reports errors but those that come of what others do meanwhile.
func (s *shadow) pass(err error) {
	if err != nil && !errors.Is(err, kv.ErrNotFound) && !errors.Is(err, kv.ErrExists) && !errors.Is(err, ErrFull) {
		s.t.Error(err)
	}
}
