package main

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/bits"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sievekv/sievekv"
)

// key16 is an item: 16 bytes that no other number has, in random order. It is not inlined: where the compiler knows
// that a number is small it stores it byte by byte, and loading the 8 bytes at once then waits for all of these stores.
//
//go:noinline
func key16(b *[16]byte, n uint64) []byte {
	binary.LittleEndian.PutUint64(b[:], n*0x9E3779B97F4A7C15)
	binary.LittleEndian.PutUint64(b[8:], n)
	return b[:]
}

// next returns a random number below n.
func next(x *uint64, n uint64) uint64 {
	*x = *x*0x5851f42d4c957f2d + 0x14057b7ef767814f
	hi, _ := bits.Mul64(*x, n)
	return hi
}

// absent is added to the numbers of items that are in no filter.
const absent = uint64(1) << 40

// store is a store on disk that is removed at its end.
type store struct {
	*sievekv.DB
	dir string
}

// openStore opens a new store on disk. Nil options mean that writes are not synced.
func (b *bench) openStore(o *sievekv.Options) (*store, error) {
	dir, err := b.temp("store")
	if err != nil {
		return nil, err
	}
	db, err := sievekv.Open(dir, quiet(o))
	if err != nil {
		return nil, err
	}
	return &store{db, dir}, nil
}

func quiet(o *sievekv.Options) *sievekv.Options {
	if o == nil {
		o = &sievekv.Options{Durability: sievekv.NoSync}
	}
	o.BallastSize, o.Logger = -1, slog.New(slog.DiscardHandler)
	return o
}

// reopen closes the store and opens it with other options.
func (s *store) reopen(o *sievekv.Options) (err error) {
	if err := s.Close(); err != nil {
		return err
	}
	s.DB, err = sievekv.Open(s.dir, quiet(o))
	return err
}

// end closes the store and removes it. What is measured is over: errors would not change it.
func (s *store) end() {
	_ = s.Close()
	_ = os.RemoveAll(s.dir)
}

// fill adds the items from first on, key16 of numbers, a batch at a time.
func fill(f sievekv.Filter, first, n uint64) error {
	const batch = 16384
	bufs, items := make([][16]byte, batch), make([][]byte, batch)
	for at := uint64(0); at < n; at += batch {
		m := min(batch, n-at)
		for i := range m {
			items[i] = key16(&bufs[i], first+at+i)
		}
		if _, err := f.AddMany(items[:m], nil); err != nil {
			return err
		}
	}
	return nil
}

// rawStore is a Pebble with the options that a store uses.
type rawStore struct {
	*pebble.DB
	dir string
}

func (b *bench) openPebble(o *pebble.Options) (*rawStore, error) {
	dir, err := b.temp("pebble")
	if err != nil {
		return nil, err
	}
	db, err := pebble.Open(dir, o)
	return &rawStore{db, dir}, err
}

func pebbleOptions() *pebble.Options {
	o := &pebble.Options{FormatMajorVersion: pebble.FormatNewest, MemTableSize: 32 << 20, CacheSize: 8 << 20, Logger: silent{}}
	for i := range o.Levels {
		o.Levels[i].BlockSize = 16 << 10
	}
	o.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionNone })
	return o
}

func (s *rawStore) end() {
	_ = s.Close()
	_ = os.RemoveAll(s.dir)
}

type silent struct{}

func (silent) Infof(string, ...any)         {}
func (silent) Errorf(string, ...any)        {}
func (silent) Fatalf(text string, a ...any) { panic(fmt.Sprintf(text, a...)) }

// inGoroutines runs op in goroutines for a time, and returns how many a second there were. Each goroutine has a state of
// its own for random numbers.
func inGoroutines(goroutines int, during time.Duration, op func(g int, x *uint64) error) (perSec float64, err error) {
	var done atomic.Uint64
	var stop atomic.Bool
	errs := make(chan error, goroutines)
	var all sync.WaitGroup
	begin := time.Now()
	timer := time.AfterFunc(during, func() { stop.Store(true) })
	defer timer.Stop()
	for g := range goroutines {
		all.Go(func() {
			x := uint64(g)*0x9e3779b97f4a7c15 + uint64(begin.UnixNano())
			n := uint64(0)
			for !stop.Load() {
				if err := op(g, &x); err != nil {
					errs <- err
					return
				}
				n++
			}
			done.Add(n)
		})
	}
	all.Wait()
	took := time.Since(begin)
	close(errs)
	return float64(done.Load()) / took.Seconds(), <-errs
}

// ascendingKey is a key above the keys of all lower numbers.
func ascendingKey(b *[16]byte, n uint64) []byte {
	binary.BigEndian.PutUint64(b[:], n)
	binary.LittleEndian.PutUint64(b[8:], n)
	return b[:]
}
