// Package bench is one run of the word bench: it measures adds and lookups in stores of its own.
package bench

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// A Run measures in new stores in a directory, which the caller makes and removes.
type Run struct {
	Dir    string
	During time.Duration // of all parts together, without what is filled before them

	// Open opens a store in a directory. With a cache size, in bytes, the cache is that large.
	Open func(dir string, cacheSize int64) (*kv.DB, error)

	Tell func(what string) // says what is measured now
}

// Line is the figures of one part.
type Line struct {
	What      string  `json:"what"`            // add, lookup in memory, or lookup from files
	Level     string  `json:"level,omitempty"` // of durability, for adds
	Clients   int     `json:"clients"`         // how many goroutines
	PerSecond float64 `json:"per_second"`      // of all clients together
	P50       int64   `json:"p50_ns"`
	P99       int64   `json:"p99_ns"`
	P999      int64   `json:"p999_ns"`
	Longest   int64   `json:"longest_ns"`
}

// What a Line is about.
const (
	Add      = "add"
	InMemory = "lookup in memory"
	FromFile = "lookup from files"
)

// addClients are how many goroutines add, in turn.
var addClients = []int{1, 16}

// parts is how many parts share the time: adds at each level with few and with many clients, and two kinds of lookups.
const parts = 3*2 + 2

const (
	// adds is the capacity of the filter to which items are added. It grows.
	adds = 10_000_000

	// mostItems is how many items the filter for lookups has. Short runs have fewer: a fixed number for each second.
	mostItems, itemsPerSecond, leastItems = 8_000_000, 100_000, 400_000

	batch = 16384

	// timedLookups is one of how many lookups in memory is timed: reading the clock takes longer than a lookup.
	timedLookups = 32
)

// Do measures all parts. If ctx ends, it returns the error of ctx.
func (r *Run) Do(ctx context.Context) (*Result, error) {
	result := &Result{Seconds: r.During.Seconds()}
	for _, part := range []func(context.Context, *Result) error{r.adds, r.lookups} {
		if err := part(ctx, result); err != nil {
			return nil, err
		}
	}
	return result, nil
}

// adds measures adds of new items.
func (r *Run) adds(ctx context.Context, result *Result) error {
	return r.withStore("adds", 0, func(db *kv.DB) error {
		f := bloomext.New(db, "f")
		if err := f.Reserve(bloomext.Config{Capacity: adds, ErrorRate: 0.01}); err != nil {
			return err
		}
		for _, level := range []kv.Durability{kv.Always, kv.EverySec, kv.NoSync} {
			f := f.With(level)
			for _, clients := range addClients {
				r.Tell("adds at level " + level.String())
				line, err := r.measure(ctx, clients, 1, func(random *rand.Rand) error {
					_, err := f.Add(scalableext.Uint64(random.Uint64()))
					return err
				})
				if err != nil {
					return err
				}
				line.What, line.Level = Add, level.String()
				result.Lines = append(result.Lines, line)
			}
		}
		return nil
	})
}

// lookups measures lookups in a filter that is in memory, and in one behind a cache of a tenth of its size.
func (r *Run) lookups(ctx context.Context, result *Result) error {
	items := min(mostItems, max(leastItems, uint64(r.During.Seconds()*itemsPerSecond)))
	result.Items = items
	size := int64(0)
	measure := func(db *kv.DB, what string, every int) error {
		f := bloomext.New(db, "f")
		r.Tell(what)
		line, err := r.measure(ctx, 1, every, func(random *rand.Rand) error {
			_, err := f.MayContain(scalableext.Uint64(random.Uint64N(items)))
			return err
		})
		line.What = what
		result.Lines = append(result.Lines, line)
		return err
	}
	err := r.withStore("lookups", 0, func(db *kv.DB) error {
		r.Tell("filling a filter")
		f := bloomext.New(db, "f").With(kv.NoSync)
		if err := f.Reserve(bloomext.Config{Capacity: items, ErrorRate: 0.01}); err != nil {
			return err
		}
		if err := fill(ctx, f, items); err != nil {
			return err
		}
		info, err := f.Info()
		if err != nil {
			return err
		}
		size = int64(info.Bytes)
		if err := measure(db, InMemory, timedLookups); err != nil {
			return err
		}
		return db.CompactTables(ctx) // as a filter at rest is
	})
	if err != nil {
		return err
	}
	return r.withStore("lookups", max(8<<10, size/10), func(db *kv.DB) error { return measure(db, FromFile, 1) })
}

// fill adds the items below n, and looks up each, so that all blocks are in memory.
func fill(ctx context.Context, f *bloomext.Filter, n uint64) error {
	items, present := make([]uint64, 0, batch), make([]bool, batch)
	for at := uint64(0); at < n; {
		items = items[:0]
		for ; at < n && len(items) < batch; at++ {
			items = append(items, at)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := f.AddMany(scalableext.Uint64s(items...), nil); err != nil {
			return err
		}
		if err := f.MayContainMany(scalableext.Uint64s(items...), present[:len(items)]); err != nil {
			return err
		}
	}
	return nil
}

// withStore opens a store, and closes it after f. An error of closing counts only if f has none.
func (r *Run) withStore(name string, cacheSize int64, f func(db *kv.DB) error) error {
	db, err := r.Open(filepath.Join(r.Dir, name), cacheSize)
	if err != nil {
		return err
	}
	err = f(db)
	if closed := db.Close(); err == nil {
		err = closed
	}
	return err
}

// measure makes clients run op for their part of the time, and times one of `every` calls.
func (r *Run) measure(ctx context.Context, clients, every int, op func(random *rand.Rand) error) (line Line, err error) {
	var over atomic.Bool
	ended, end := context.WithTimeout(ctx, r.During/parts)
	defer end()
	defer context.AfterFunc(ended, func() { over.Store(true) })()
	times := make([]histogram, clients)
	errs := make(chan error, clients)
	var all sync.WaitGroup
	begin := time.Now()
	for i := range clients {
		all.Go(func() {
			random := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
			for {
				for range every - 1 {
					if err := op(random); err != nil {
						errs <- err
						return
					}
				}
				begin := time.Now()
				if err := op(random); err != nil {
					errs <- err
					return
				}
				times[i].add(time.Since(begin))
				if over.Load() {
					return
				}
			}
		})
	}
	all.Wait()
	took := time.Since(begin)
	close(errs)
	if err := <-errs; err != nil {
		return line, err
	}
	if err := ctx.Err(); err != nil {
		return line, err
	}
	var sum histogram
	for i := range times {
		sum.merge(&times[i])
	}
	return Line{
		Clients: clients, PerSecond: float64(sum.n) * float64(every) / took.Seconds(), Longest: int64(sum.longest),
		P50: int64(sum.share(0.5)), P99: int64(sum.share(0.99)), P999: int64(sum.share(0.999)),
	}, nil
}
