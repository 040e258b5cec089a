package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/guard"
)

// sizes say how much load there is.
type sizes struct {
	users   int           // rows in the database
	lookups int           // of ids that are not there
	callers int           // of one id at once
	keys    int           // that are written in one second
	second  time.Duration // of an avalanche; tests have shorter ones
	ttl     time.Duration // of these keys
	outage  time.Duration
	pause   time.Duration // of the breaker
}

var (
	fullSize  = sizes{users: 1_000_000, lookups: 1_000_000, callers: 1000, keys: 100_000, second: time.Second, ttl: 30 * time.Second, outage: 10 * time.Second, pause: time.Second}
	quickSize = sizes{users: 50_000, lookups: 50_000, callers: 1000, keys: 10_000, second: time.Second, ttl: 6 * time.Second, outage: 3 * time.Second, pause: time.Second}
)

// row is a row of the table: one scene, without and with the guard.
type row struct {
	scene    string
	what     string // how the guard's figure is meant
	off, on  *figures
	figure   float64 // of the guard
	atLeast  float64 // that it must be
	atMost   float64 // that it may be
	plotted  bool
	measured string // the figure, as it is shown
}

// met reports whether the guard does what is asked of it: it answers all requests, too.
func (r *row) met() bool { return r.on.failed == 0 && r.atLeast <= r.figure && r.figure <= r.atMost }

// asked says what the figure may be.
func (r *row) asked() string {
	if r.atLeast == r.atMost {
		return fmt.Sprintf("exactly %.4g", r.atMost)
	}
	return fmt.Sprintf("at most %.4g", r.atMost)
}

// workers is the number of clients that ask at the same time. maxLoads is the guard's limit.
const (
	workers  = 32
	maxLoads = 4
	rate     = 0.01

	// Of breakdown:
	slowQuery = 100 * time.Millisecond
	hotTTL    = 5 * time.Minute
)

// scene runs a load twice, on a new store without a guard and with one.
type scene struct {
	options func(z sizes) guard.Options
	run     func(ctx context.Context, s *service, z sizes) (*figures, error)
	row     func(z sizes, off, on *figures) row
}

var scenes = []scene{
	{
		options: func(sizes) guard.Options { return guard.Options{} },
		run:     penetration,
		row: func(z sizes, off, on *figures) row {
			share := float64(on.queries) / float64(on.requests)
			return row{
				scene: fmt.Sprintf("penetration: %s lookups of ids that are not there", count(z.lookups)), what: "share that reaches the database",
				figure: share, atMost: 1.1 * rate, measured: fmt.Sprintf("%.2f %%, asked for %v %%", 100*share, 100*rate),
			}
		},
	},
	{
		options: func(sizes) guard.Options {
			return guard.Options{TTL: hotTTL, SoftTTL: hotTTL, MaxStale: -1, Jitter: -1}
		},
		run: breakdown,
		row: func(z sizes, off, on *figures) row {
			return row{
				scene: fmt.Sprintf("breakdown: %s callers on one expired key, whose query takes %v", count(z.callers), slowQuery), what: "queries",
				figure: float64(on.queries), atLeast: 1, atMost: 1, measured: fmt.Sprint(on.queries),
			}
		},
	},
	{
		options: func(z sizes) guard.Options {
			// Only jitter flattens the load: a value is refreshed after 0.4 to 0.8 of the TTL, because the soft TTL is
			// 0.8 of it, and half of that is random. No limit of loads is ever reached.
			return guard.Options{TTL: z.ttl, MaxLoads: z.keys}
		},
		run: avalanche,
		row: func(z sizes, off, on *figures) row {
			ratio := peak(on.seconds)
			return row{
				scene: fmt.Sprintf("avalanche: %s keys written in one second, read for %v", count(z.keys), 3*z.ttl), what: "most queries in a second to their mean",
				figure: ratio, atMost: 2, measured: fmt.Sprintf("%.2f", ratio), plotted: true,
			}
		},
	},
	{
		options: func(z sizes) guard.Options {
			return guard.Options{TTL: z.outage / 10, MaxStale: time.Hour, BreakerPause: z.pause, BreakerFailures: 5}
		},
		run: outage,
		row: func(z sizes, off, on *figures) row {
			// Five failures open the breaker, while others may be under way; then one probe at a time.
			probes := float64(5 + maxLoads - 1 + int(z.outage/z.pause))
			return row{
				scene: fmt.Sprintf("the database is down for %v", z.outage), what: "queries that reach it, and requests that fail",
				figure: float64(on.queries), atMost: probes, measured: fmt.Sprintf("%d, %d", on.queries, on.failed),
			}
		},
	},
}

// peak returns the highest of the numbers, as a multiple of their mean.
func peak(seconds []int64) float64 {
	var sum int64
	for _, n := range seconds {
		sum += n
	}
	if sum == 0 {
		return 0
	}
	return float64(slices.Max(seconds)) * float64(len(seconds)) / float64(sum)
}

// runScenes runs all scenes, and tells what it does.
func runScenes(ctx context.Context, dir string, z sizes, tell func(string)) (rows []row, err error) {
	tell(fmt.Sprintf("filling the database with %d users", z.users))
	db, err := openDatabase(dir, z.users)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.close()) }()
	for i, sc := range scenes {
		var found [2]*figures
		for on := range found {
			tell(fmt.Sprintf("scene %d of %d, guard %s", i+1, len(scenes), []string{"off", "on"}[on]))
			if found[on], err = sc.once(ctx, dir, db, z, on == 1); err != nil {
				return nil, err
			}
		}
		r := sc.row(z, found[0], found[1])
		r.off, r.on = found[0], found[1]
		rows = append(rows, r)
	}
	return rows, nil
}

// once runs a scene on a new store.
func (sc *scene) once(ctx context.Context, dir string, db *database, z sizes, on bool) (f *figures, err error) {
	at, err := os.MkdirTemp(dir, "store")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(at)) }()
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	var ahead atomic.Int64
	clock := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	store, err := sievekv.Open(at, &sievekv.Options{Seed: 1, Logger: quiet, Clock: clock})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	o := sc.options(z)
	o.Capacity, o.ErrorRate, o.Logger = uint64(z.users), rate, quiet
	if o.MaxLoads == 0 {
		o.MaxLoads = maxLoads
	}
	given := &o
	if !on {
		given = nil
	}
	s, err := openService(store, db, given, o.TTL)
	if err != nil {
		return nil, err
	}
	s.ahead = &ahead
	if on {
		defer s.users.Close()
		if err := s.fill(ctx); err != nil {
			return nil, err
		}
	}
	return sc.run(ctx, s, z)
}

// penetration asks for different ids that are not there.
func penetration(ctx context.Context, s *service, z sizes) (*figures, error) {
	return ask(ctx, s, workers, http.StatusNotFound, upTo(z.lookups, func(i int) string { return userID(z.users + i) }))
}

// breakdown has many callers ask for one id at the same time, after its value has expired.
func breakdown(ctx context.Context, s *service, z sizes) (*figures, error) {
	if _, err := s.get(ctx, userID(7)); err != nil {
		return nil, err
	}
	s.ahead.Add(int64(hotTTL)) // it expires
	s.db.slow.Store(int64(slowQuery))
	defer s.db.slow.Store(0)
	return ask(ctx, s, z.callers, http.StatusOK, upTo(z.callers, func(int) string { return userID(7) }))
}

// avalanche puts keys into the cache, all in one second, and then reads each of them once a second, at an even pace. It calls
// the service without HTTP, which would be the bottleneck.
func avalanche(ctx context.Context, s *service, z sizes) (*figures, error) {
	if err := s.writeAll(ctx, z.keys); err != nil {
		return nil, err
	}
	f := &figures{}
	begin, first := time.Now(), s.db.queries.Load()
	rounds := int(3 * z.ttl / z.second)
	parts, errs := make([][]time.Duration, workers), make([]error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < rounds*z.keys; i += workers {
				if i/workers%16 == 0 { // not sooner than is its turn
					time.Sleep(time.Until(begin.Add(time.Duration(float64(i) / float64(z.keys) * float64(z.second)))))
				}
				from := time.Now()
				if _, err := s.get(ctx, userID(i%z.keys)); err != nil {
					errs[w] = err
					return
				}
				if i%10 == 0 {
					parts[w] = append(parts[w], time.Since(from))
				}
			}
		})
	}
	for from, last := begin, first; len(f.seconds) < rounds; {
		time.Sleep(z.second)
		now, queries := time.Now(), s.db.queries.Load()
		seconds := float64(now.Sub(from)) / float64(z.second) // on a busy machine a sleep is longer
		f.seconds, from, last = append(f.seconds, int64(float64(queries-last)/seconds)), now, queries
	}
	wg.Wait()
	f.requests, f.took, f.queries = rounds*z.keys, time.Since(begin), s.db.queries.Load()-first
	f.latencies = slices.Concat(parts...)
	slices.Sort(f.latencies)
	return f, errors.Join(errs...)
}

// writeAll puts users into the cache, as a program does that fills it at its start.
func (s *service) writeAll(ctx context.Context, n int) error {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = userID(i)
	}
	if s.users != nil {
		_, err := s.users.Warm(ctx, func(yield func(string, error) bool) {
			for _, id := range ids {
				if !yield(id, nil) {
					return
				}
			}
		})
		return err
	}
	for part := range slices.Chunk(ids, 100) {
		profiles, err := s.db.users(ctx, part)
		if err != nil {
			return err
		}
		for id, profile := range profiles {
			if _, err := s.store.With(sievekv.NoSync).SetWith("user:"+id, profile, sievekv.SetOptions{TTL: s.ttl}); err != nil {
				return err
			}
		}
	}
	return nil
}

// outage asks for warm users while the database is down, for longer than they are fresh.
func outage(ctx context.Context, s *service, z sizes) (*figures, error) {
	const warm = 1000
	if err := s.writeAll(ctx, warm); err != nil {
		return nil, err
	}
	s.db.down.Store(true)
	defer s.db.down.Store(false)
	return ask(ctx, s, workers, http.StatusOK, until(time.Now().Add(z.outage), func(int) string { return userID(rand.IntN(warm)) }))
}
