package guard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/kv"
)

// The errors, for errors.Is. Errors of the store and of Load are returned too, as they are or wrapped.
var (
	// ErrNotFound is returned for an id that is absent. Load returns it, or wraps it, for such an id.
	ErrNotFound = errors.New("guard: not found")

	// ErrUnavailable is returned if the source was not asked, and there is no value that may be served: the breaker is
	// open, or no load was free within Options.LoadTimeout.
	ErrUnavailable = errors.New("guard: source unavailable")

	// ErrUnfiltered is returned if the filter is missing or cannot be read, and Options.RefuseUnfiltered says that lookups
	// then fail. It says nothing of the id.
	ErrUnfiltered = errors.New("guard: the filter cannot be read")

	// ErrClosed is returned after Close.
	ErrClosed = errors.New("guard: closed")

	// ErrOpen is returned by New if the store has an open guard of this name.
	ErrOpen = errors.New("guard: open already")

	// ErrRebuilding is returned by Rebuild while another Rebuild of the guard runs.
	ErrRebuilding = errors.New("guard: another rebuild is running")
)

// Guard stands before a source. New makes one, and Close ends it.
type Guard struct {
	db     *sievekv.DB
	store  *kv.DB
	name   string
	opts   Options
	keys   keys
	filter sievekv.Filter // in use

	breaker *gobreaker.TwoStepCircuitBreaker[struct{}] // nil for none
	changes breakerChanges                             // of the breaker
	atOnce  *semaphore.Weighted
	rate    *rate.Limiter

	began time.Time       // when New made it, with the monotonic clock
	ctx   context.Context // ends with Close; loads end with it
	close context.CancelFunc

	mu     sync.Mutex // taken for a few instructions
	closed bool       // guarded by mu
	uses   sync.WaitGroup
	begun  atomic.Uint64              // loads that have begun; written with mu held
	ids    map[string]*idState        // those with a load or a write under way; guarded by mu
	via    map[chan struct{}]struct{} // calls of PutVia under way, each closes its channel; guarded by mu

	rebuilding sync.Mutex    // held by Rebuild
	warmed     atomic.Uint64 // ids that Warm is done with

	counts       counts
	passing      *passRate
	filterFaults faults
	readFaults   faults // of the cache
	writeFaults  faults
}

// open has the guards that are open, so that no two have the same keys: each knows of its own Puts alone.
var open sync.Map // of opened

type opened struct {
	store *kv.DB
	name  string
}

// New opens the guard of a name, and makes it if the store does not have it. What it stores is under keys that begin with
// "guard:" and the name, which has 1 to 200 bytes and no colon. Writes have the level of durability of db, except that
// PutVia, RemoveVia and Rebuild always reach stable storage.
//
// The errors are sievekv.ErrOptions, which lists every option out of range, and is sievekv.ErrConfig too if Capacity or
// ErrorRate is, ErrOpen, and errors of sievekv.DB.Update.
func New(db *sievekv.DB, name string, o Options) (*Guard, error) {
	o, err := o.withDefaults(name)
	if err != nil {
		return nil, err
	}
	g := &Guard{
		db: db, store: db.Store(), name: name, opts: o, keys: keysOf(name),
		began: time.Now(), atOnce: semaphore.NewWeighted(int64(o.MaxLoads)), rate: rate.NewLimiter(rate.Inf, 1),
		ids: make(map[string]*idState), via: make(map[chan struct{}]struct{}), passing: newPassRate(o.ErrorRate),
	}
	g.filter = g.filterOf(db, g.keys.filter)
	if o.LoadsPerSecond > 0 {
		g.rate = rate.NewLimiter(rate.Limit(o.LoadsPerSecond), max(1, int(o.LoadsPerSecond/10)))
	}
	if o.BreakerFailures > 0 {
		g.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](g.breakerSettings())
	}
	self := opened{g.store, name}
	if _, there := open.LoadOrStore(self, g); there {
		return nil, fmt.Errorf("%w: %q", ErrOpen, name)
	}
	if err := g.prepare(); err != nil {
		open.Delete(self)
		return nil, fmt.Errorf("guard %q: %w", name, err)
	}
	g.ctx, g.close = context.WithCancel(context.Background())
	return g, nil
}

// Close ends loads, and waits for them and for every call of Put, Remove, Rebuild and Warm. Get answers from the filter and
// the cache afterwards, and otherwise returns ErrClosed, as other methods do. The store stays open, and must be closed
// later. Close must not be called by Load.
func (g *Guard) Close() {
	g.mu.Lock()
	first := !g.closed
	g.closed = true
	g.mu.Unlock()
	g.close()
	g.uses.Wait()
	if first {
		open.Delete(opened{g.store, g.name})
	}
}

// use keeps Close waiting until the caller calls g.uses.Done. The errors are ErrClosed.
func (g *Guard) use() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return ErrClosed
	}
	g.uses.Add(1)
	return nil
}

// Get returns the value of an id; the caller may change the slice. If the filter says that the id is absent, it returns
// ErrNotFound at once, itself, so that no error is made. A value past its soft TTL is returned at once, too, and is
// loaded again in the background. A stale value that a call of GetMany is loading with others is also returned at once.
//
// Otherwise Get waits for a load. If the context ends before, Get returns the context's error, and the load goes on. If the
// source fails, Get returns a stale value if there is one, or the error of Load, or ErrUnavailable. The error is
// ErrClosed after Close, if a load is needed.
func (g *Guard) Get(ctx context.Context, id string) ([]byte, error) {
	maybe, err := g.filter.MayContainString(id)
	if !maybe {
		g.refuse(id)
		return nil, ErrNotFound
	}
	filtered := err == nil
	if g.note(&g.filterFaults, "the filter", err); !filtered && g.opts.RefuseUnfiltered {
		return nil, unfiltered(err)
	}
	e, is := g.read(ctx, id)
	switch is {
	case fresh:
		g.counts.hits.Add(1)
		return e.value, nil
	case soft:
		g.counts.soft.Add(1)
		g.refresh(ctx, id)
		return e.value, nil
	case absent:
		g.counts.nulls.Add(1)
		return nil, ErrNotFound
	}
	g.counts.misses.Add(1)
	if is == stale && g.isLoadingMany(id) {
		g.counts.stale.Add(1)
		return e.value, nil
	}
	since := g.moment()
	l, isNew, err := g.load(ctx, id)
	if err != nil {
		return nil, err
	}
	if !isNew {
		g.counts.shared.Add(1)
	}
	return g.await(ctx, l, since, filtered)
}

// unfiltered returns the error of a lookup without a filter. It must not look like an answer: that the filter is missing
// does not say that the id is.
func unfiltered(err error) error {
	if errors.Is(err, sievekv.ErrNotFound) {
		return fmt.Errorf("%w: it is missing, Rebuild makes it", ErrUnfiltered)
	}
	return fmt.Errorf("%w: %w", ErrUnfiltered, err)
}

// Result is what GetMany returns for an id: a value, or an error of Get.
type Result struct {
	Value []byte
	Err   error
}

// GetMany returns the values of ids, in their order, as Get does. Ids that need a load are loaded together by one call of
// LoadMany, except those that are being loaded already. Equal ids have equal results.
func (g *Guard) GetMany(ctx context.Context, ids ...string) []Result {
	maybe := make([]bool, len(ids))
	err := g.filter.MayContainManyString(ids, maybe)
	g.note(&g.filterFaults, "the filter", err)
	results := make([]Result, len(ids))
	var rest []int // the ids that the filter lets through
	for i := range ids {
		switch {
		case err != nil && g.opts.RefuseUnfiltered:
			results[i].Err = unfiltered(err)
		case !maybe[i]:
			g.refuse(ids[i])
			results[i].Err = ErrNotFound
		default:
			rest = append(rest, i)
		}
	}
	g.getMany(ctx, ids, rest, results, err == nil)
	return results
}

// getMany fills in the results of some of the ids, without asking the filter.
func (g *Guard) getMany(ctx context.Context, ids []string, which []int, results []Result, filtered bool) {
	var missed []string
	var at []int
	for _, i := range which {
		e, is := g.read(ctx, ids[i])
		switch is {
		case fresh:
			g.counts.hits.Add(1)
			results[i].Value = e.value
		case soft:
			g.counts.soft.Add(1)
			g.refresh(ctx, ids[i])
			results[i].Value = e.value
		case absent:
			g.counts.nulls.Add(1)
			results[i].Err = ErrNotFound
		default:
			g.counts.misses.Add(1)
			if is == stale && g.isLoadingMany(ids[i]) {
				g.counts.stale.Add(1)
				results[i].Value = e.value
				continue
			}
			missed, at = append(missed, ids[i]), append(at, i)
		}
	}
	since := g.moment()
	loads, err := g.loadMany(ctx, missed)
	for j, i := range at {
		if err != nil {
			results[i].Err = err
			continue
		}
		results[i].Value, results[i].Err = g.await(ctx, loads[j], since, filtered)
	}
}

// isTooLong reports whether an id is too long for an entry in the store. Then it has none, which is no fault of the cache.
func (g *Guard) isTooLong(id string) bool {
	return g.opts.Cache == nil && len(g.keys.value)+len(id) > kv.MaxKeyLen
}

// read looks an id up in the cache. A cache that cannot be read has nothing.
func (g *Guard) read(ctx context.Context, id string) (entry, state) {
	if g.isTooLong(id) {
		return entry{}, missing
	}
	var stored []byte
	var now int64
	var err error
	if g.opts.Cache == nil {
		l := lookups.Get().(*lookup)
		l.key = append(append(l.key[:0], g.keys.value...), id...)
		err = g.store.Read(l.look)
		stored, now, l.stored = l.stored, l.now, nil
		lookups.Put(l)
	} else {
		stored, err = g.opts.Cache.Get(ctx, g.keys.value+id)
		stored, now = bytes.Clone(stored), g.store.Now()
	}
	if err != nil && ctx.Err() != nil {
		return entry{}, missing // the caller has given up
	}
	if g.note(&g.readFaults, "reading the cache", err); err != nil {
		return entry{}, missing
	}
	e := decodeEntry(stored)
	e.age = now - e.born
	return e, e.at(e.age, &g.opts)
}

// lookup is a lookup of an entry in the store. It is used again, as Get of a warm value would take a tenth longer otherwise.
type lookup struct {
	look   func(kv.Reader) error // the method read
	key    []byte
	stored []byte
	now    int64
}

var lookups = sync.Pool{New: func() any {
	l := new(lookup)
	l.look = l.read
	return l
}}

func (l *lookup) read(r kv.Reader) (err error) {
	l.stored, err = r.Get(l.key) // a slice of this lookup's own
	l.now = r.Now()
	return err
}

// write puts an entry into the cache. One that is good for nothing takes away the entry that is there.
func (g *Guard) write(ctx context.Context, id string, e *entry, there bool) {
	ttl := e.lifetime(&g.opts)
	if ttl < msec && !there || g.isTooLong(id) {
		return
	}
	key := g.keys.value + id
	var stored []byte
	if ttl >= msec {
		stored = e.append(make([]byte, 0, headerBytes+len(e.value)))
	}
	var err error
	switch db := g.db.With(sievekv.NoSync); { // a crash may lose the entry: then it is missing, and it is loaded again
	case g.opts.Cache != nil:
		err = g.opts.Cache.Set(ctx, key, stored, ttl)
	case stored == nil:
		_, err = db.Delete(key)
	default:
		_, err = db.SetWith(key, stored, sievekv.SetOptions{TTL: ttl})
	}
	if err == nil || !errors.Is(ctx.Err(), context.Canceled) { // Close ends loads
		g.note(&g.writeFaults, "writing the cache", err)
	}
}
