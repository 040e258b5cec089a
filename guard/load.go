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
)

// One load of an id runs at a time, and its callers share it. Package singleflight could not give one call of LoadMany to
// many ids. It also does not know of Puts, and what a load may remember depends on them:
//
//   - A load must not put what it has read into the cache if a Put or Remove of the id has ended since the load began: the
//     cache would hide the newer row. So each id has a count of the writes that have ended. A load compares it before it
//     writes its entry, with idState.writing held, which a Put holds from before its first step to its end.
//   - A Get that begins after a Put has ended must not join a load that began before. So the end of a Put takes the load
//     off the id, and later Gets start another.
//   - A Get that begins while a Put goes on may join a load that read the source before the Put's row was there. If such a
//     load finds the id absent, the Get loads again: its row may have been there during the whole call.
//
// All of this is in memory: only this process writes through the guard, and a crash ends every load.
//
// The store's clock can be set while a load goes on. It tells the age of an entry when that is read from the cache, and
// no other age: the monotonic clock measures the time from then on, as Guard.elapsed.

// idState is what is known of an id while a load or a write of it is under way.
type idState struct {
	writing chan struct{} // of capacity 1; full while somebody changes the id's entry
	begun   atomic.Uint64 // Puts and Removes of the id that have begun
	writes  atomic.Uint64 // those that have ended
	refs    int           // loads and writes that use it; guarded by Guard.mu
	load    *load         // what a Get joins, nil for none; guarded by Guard.mu
}

// load is one load of one id. Its result may be read after done is closed.
type load struct {
	id     string
	state  *idState
	number uint64 // loads are numbered as they begin
	born   int64  // before the source is read, in Unix milliseconds, for the entry
	writes uint64 // of the id that had ended when the load began
	many   bool   // it may be one of a call of LoadMany
	done   chan struct{}

	old    entry         // what the cache had when the load began
	looked time.Duration // when old was read from the cache, as elapsed
	mayUse bool          // old may be served if the source cannot be asked

	value []byte
	stale bool // value is old
	err   error
	from  time.Duration // as elapsed: what the load has found is no older

	sawNone atomic.Bool // the source said that the id is absent, and no caller has counted it yet
}

// stateOf returns the state of an id, for a load or write, which calls leave later. The caller holds mu.
func (g *Guard) stateOf(id string) *idState {
	s := g.ids[id]
	if s == nil {
		s = &idState{writing: make(chan struct{}, 1)}
		g.ids[id] = s
	}
	s.refs++
	return s
}

// leave ends a use of the state of an id. The caller holds mu.
func (g *Guard) leave(id string, s *idState) {
	if s.refs--; s.refs == 0 {
		delete(g.ids, id)
	}
}

// join returns the load of an id that is under way, or a new one, which the caller runs. The new load may be one of
// many.
func (g *Guard) join(id string, many bool) (l *load, isNew bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, false, ErrClosed
	}
	if s := g.ids[id]; s != nil && s.load != nil {
		return s.load, false, nil
	}
	s := g.stateOf(id)
	g.uses.Add(1)
	s.load = &load{
		id: id, state: s, number: g.begun.Add(1), born: g.store.Now(), writes: s.writes.Load(), many: many, done: make(chan struct{}),
		from: g.elapsed(),
	}
	return s.load, true, nil
}

// moment is when a caller came.
type moment struct {
	at    time.Duration // as elapsed
	begun uint64        // the number of loads that had begun
}

func (g *Guard) moment() moment { return moment{at: g.elapsed(), begun: g.begun.Load()} }

// elapsed returns the time since New by the monotonic clock, which nobody can set.
func (g *Guard) elapsed() time.Duration { return time.Since(g.began) }

// isLoading reports whether a load of an id is under way, and whether that is one of many.
func (g *Guard) isLoading(id string) (loading, many bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.ids[id]
	if s == nil || s.load == nil {
		return false, false
	}
	return true, s.load.many
}

// isLoadingMany reports whether a load of an id is under way that is one of many. It may take as long as its slowest id,
// and waits for its turn if one of them has no value. So a caller that has a stale value does not wait for it.
func (g *Guard) isLoadingMany(id string) bool {
	_, many := g.isLoading(id)
	return many
}

// finish ends loads, whatever their outcome.
func (g *Guard) finish(loads []*load) {
	g.mu.Lock()
	for _, l := range loads {
		if l.state.load == l {
			l.state.load = nil
		}
		g.leave(l.id, l.state)
	}
	g.mu.Unlock()
	for _, l := range loads {
		close(l.done)
		g.uses.Done()
	}
}

// load joins or starts the load of an id.
func (g *Guard) load(ctx context.Context, id string) (l *load, isNew bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	if l, isNew, err = g.join(id, false); isNew {
		go g.run(context.WithoutCancel(ctx), []*load{l}, false)
	}
	return l, isNew, err
}

// loadMany joins or starts the loads of ids. Those that are new are one call of LoadMany, if there is one.
func (g *Guard) loadMany(ctx context.Context, ids []string) ([]*load, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	all, own, err := g.joinMany(ids)
	if err == nil {
		g.counts.shared.Add(uint64(len(all) - len(own)))
	}
	g.runMany(ctx, own, false)
	return all, err
}

// joinMany joins the loads of ids, and returns all of them and the new ones, which the caller runs. After an error some
// are missing.
func (g *Guard) joinMany(ids []string) (all, own []*load, err error) {
	all = make([]*load, len(ids))
	for i, id := range ids {
		l, isNew, jerr := g.join(id, g.opts.LoadMany != nil)
		switch {
		case jerr != nil:
			err = jerr
			continue
		case isNew:
			own = append(own, l)
		}
		all[i] = l
	}
	return all, own, err
}

// runMany runs loads, by one call of LoadMany if there is one. entered says that the caller has entered for that call.
func (g *Guard) runMany(ctx context.Context, loads []*load, entered bool) {
	ctx = context.WithoutCancel(ctx)
	if g.opts.LoadMany != nil && len(loads) > 0 {
		go g.run(ctx, loads, entered)
		return
	}
	for i := range loads {
		go g.run(ctx, loads[i:i+1], entered)
	}
}

// refresh starts a load of an id whose value is soft, unless one is under way or the source cannot be asked now.
func (g *Guard) refresh(ctx context.Context, id string) {
	if loading, _ := g.isLoading(id); loading || g.isOpen() || !g.enterNow() { // a load under way must not cost one of LoadsPerSecond
		return
	}
	l, isNew, err := g.join(id, false)
	if err != nil || !isNew {
		g.atOnce.Release(1)
		return
	}
	go g.run(context.WithoutCancel(ctx), []*load{l}, true)
}

// wait waits for a load, or returns the context's error if that ends before. A load that began before the caller came,
// which is the moment since, may have read the source too early. Then wait returns another load, which began after, so
// that its result counts whatever it is.
func (g *Guard) wait(ctx context.Context, l *load, since moment) (*load, error) {
	if err := l.await(ctx); err != nil {
		return nil, err
	}
	if l.number > since.begun || !l.tooOld(since.at, &g.opts) && !l.mayMissPut() {
		return l, nil
	}
	l, _, err := g.load(ctx, l.id)
	if err != nil {
		return nil, err
	}
	return l, l.await(ctx)
}

// await waits for the end of a load, or returns the context's error if that ends before.
func (l *load) await(ctx context.Context) error {
	select {
	case <-l.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// await returns the result of a load that a caller of Get or GetMany has waited for. See wait.
func (g *Guard) await(ctx context.Context, l *load, since moment, filtered bool) ([]byte, error) {
	l, err := g.wait(ctx, l, since)
	if err != nil {
		return nil, err
	}
	switch {
	case errors.Is(l.err, ErrNotFound):
		if filtered && l.sawNone.Swap(false) {
			g.falsePositive(l.id)
		}
		return nil, ErrNotFound
	case l.err != nil:
		return nil, l.err
	case l.stale:
		g.counts.stale.Add(1)
	}
	return append(make([]byte, 0, len(l.value)), l.value...), nil // several callers may share the load
}

// mayMissPut reports whether a finished load found the id absent while a write of the id was under way. A caller that
// joined the load may then have come after the row did. A load that begins after the caller came sees the row.
func (l *load) mayMissPut() bool {
	return errors.Is(l.err, ErrNotFound) && l.state.begun.Load() != l.writes
}

// tooOld reports whether the result of a load was too old for a caller that came at the given elapsed time.
func (l *load) tooOld(came time.Duration, o *Options) bool {
	switch age := (came - l.from).Milliseconds(); {
	case errors.Is(l.err, ErrNotFound):
		return age > o.NullTTL.Milliseconds()
	case l.err != nil:
		return false
	default:
		return age > (o.TTL + o.MaxStale).Milliseconds()
	}
}

// run does loads of different ids. entered says that the caller has entered for it.
func (g *Guard) run(ctx context.Context, loads []*load, entered bool) {
	defer g.finish(loads)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(g.ctx, cancel)()
	rest, wait := g.lookAgain(ctx, loads)
	if len(rest) == 0 {
		if entered {
			g.atOnce.Release(1)
		}
		return
	}
	err := errEnded
	defer func() { g.settleAll(ctx, rest, err) }()
	err = g.ask(ctx, rest, entered, wait)
}

// errEnded is the error of a load whose source has ended its goroutine, by runtime.Goexit.
var errEnded = errors.New("guard: the source has ended the goroutine of the load")

// lookAgain looks loads up in the cache: another load may have ended between the look of this one's caller and join. It
// returns the loads that must ask the source, and whether one of them has to wait for its turn.
func (g *Guard) lookAgain(ctx context.Context, loads []*load) (rest []*load, wait bool) {
	ctx, cancel := context.WithTimeout(ctx, g.opts.LoadTimeout)
	defer cancel()
	for _, l := range loads {
		e, is := g.read(ctx, l.id)
		l.looked = g.elapsed()
		switch is {
		case fresh:
			l.value, l.from = e.value, l.looked-inMilli(e.age)
			continue
		case absent:
			l.err, l.from = ErrNotFound, l.looked-inMilli(e.age)
			continue
		}
		l.old, l.mayUse = e, is != missing
		wait = wait || !l.mayUse
		rest = append(rest, l)
	}
	return rest, wait
}

// settleAll settles loads, one after the other.
func (g *Guard) settleAll(ctx context.Context, loads []*load, err error) {
	ctx, cancel := context.WithTimeout(ctx, g.opts.LoadTimeout)
	defer cancel()
	for _, l := range loads {
		g.settle(ctx, l, err)
	}
}

// settle remembers the result of a load, or finds a stale value instead if err says why there is no result.
func (g *Guard) settle(ctx context.Context, l *load, err error) {
	if err != nil {
		if l.mayUse && l.old.at(l.old.age+(g.elapsed()-l.looked).Milliseconds(), &g.opts) != missing {
			l.value, l.err, l.stale, l.from = l.old.value, nil, true, l.looked-inMilli(l.old.age)
			return
		}
		if l.err = err; !g.opts.FailedIsAbsent || errors.Is(err, ErrUnavailable) || errors.Is(err, ErrClosed) {
			return // or nothing has been asked
		}
		l.err = ErrNotFound
	}
	e := g.newEntry(l.value, l.born)
	if l.err != nil {
		e = g.newAbsent(l.born)
	}
	g.remember(ctx, l, &e)
}

// remember puts the entry of a load into the cache, unless the id was written since the load began, or is being written.
func (g *Guard) remember(ctx context.Context, l *load, e *entry) {
	select {
	case l.state.writing <- struct{}{}:
	default:
		return // a Put may take long, and this load's callers must not wait for it
	}
	defer func() { <-l.state.writing }()
	if l.state.writes.Load() == l.writes {
		g.write(ctx, l.id, e, l.mayUse)
	}
}

// ask asks the source for loads, when it is their turn. wait says that they wait for their turn, entered that it has come.
func (g *Guard) ask(ctx context.Context, loads []*load, entered, wait bool) error {
	if !entered {
		if err := g.enter(ctx, wait); err != nil {
			return err
		}
	}
	defer g.atOnce.Release(1)
	tell := func(error) {}
	if g.breaker != nil {
		var err error
		tell, err = g.breaker.Allow()
		g.tellBreaker()
		if err != nil {
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, g.opts.LoadTimeout)
	defer cancel()
	g.counts.loads.Add(1)
	err := errEnded
	defer func() { // also if the source ends the goroutine: a breaker that is not told lets no load try again
		if err != nil {
			g.counts.failed.Add(1)
		}
		tell(err)
		g.tellBreaker()
	}()
	if err = g.callSource(ctx, loads); err != nil && g.ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", ErrClosed, err)
	}
	return err
}

// callSource calls Load or LoadMany, and notes what each load has found. A panic is an error, as it would otherwise end the
// process: no caller of Get could recover it.
func (g *Guard) callSource(ctx context.Context, loads []*load) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("guard: the source panicked: %v", p)
		}
	}()
	if len(loads) == 1 && g.opts.Load != nil {
		l := loads[0]
		value, err := g.opts.Load(ctx, l.id)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		l.found(value, err == nil)
		return nil
	}
	ids := make([]string, len(loads))
	for i, l := range loads {
		ids[i] = l.id
	}
	values, err := g.opts.LoadMany(ctx, ids)
	if errors.Is(err, ErrNotFound) {
		return fmt.Errorf("guard: LoadMany failed: %v", err) // without ErrNotFound, which would be an answer
	}
	if err != nil {
		return err
	}
	for _, l := range loads {
		value, there := values[l.id]
		l.found(value, there)
	}
	return nil
}

func (l *load) found(value []byte, there bool) {
	if !there {
		l.err = ErrNotFound
		l.sawNone.Store(true)
		return
	}
	l.value, l.err = bytes.Clone(value), nil // the source may go on using its slice
}

// enter waits until the limits allow a load, for up to LoadTimeout if wait is set and not at all otherwise. The error is
// ErrUnavailable, or ErrClosed.
func (g *Guard) enter(ctx context.Context, wait bool) error {
	switch {
	case g.isOpen():
		return fmt.Errorf("%w: the breaker is open", ErrUnavailable)
	case !wait && g.enterNow():
		return nil
	case !wait:
		return fmt.Errorf("%w: too many loads", ErrUnavailable)
	}
	limited, cancel := context.WithTimeout(ctx, g.opts.LoadTimeout)
	defer cancel()
	err := g.turn(limited)
	switch {
	case err == nil:
		return nil
	case g.ctx.Err() != nil:
		return ErrClosed
	}
	return fmt.Errorf("%w: no load was free within %v", ErrUnavailable, g.opts.LoadTimeout)
}

// turn waits until the limits allow a load, or until the context is over, or will surely be over before.
func (g *Guard) turn(ctx context.Context) error {
	if err := g.atOnce.Acquire(ctx, 1); err != nil {
		return err
	}
	if err := g.rate.Wait(ctx); err != nil {
		g.atOnce.Release(1)
		return err
	}
	return nil
}

// enterNow is enter without waiting, and without the breaker. It reports whether the caller may load.
func (g *Guard) enterNow() bool {
	if !g.atOnce.TryAcquire(1) {
		return false
	}
	if !g.rate.Allow() {
		g.atOnce.Release(1)
		return false
	}
	return true
}

// isOpen reports whether the breaker is open.
func (g *Guard) isOpen() bool {
	return g.breaker != nil && g.breakerState() == gobreaker.StateOpen
}

// breakerState returns the state of the breaker, which may change as it is asked for.
func (g *Guard) breakerState() gobreaker.State {
	defer g.tellBreaker()
	return g.breaker.State()
}

// breakerChanges has the changes of the breaker that the log does not have yet. The breaker tells of a change while it is
// locked, when a handler of the log that calls Stats would wait for ever.
type breakerChanges struct {
	any  atomic.Bool // there are some
	mu   sync.Mutex  // guards list; taken for a few instructions
	list []breakerChange
}

type breakerChange struct{ from, to gobreaker.State }

func (c *breakerChanges) note(_ string, from, to gobreaker.State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, breakerChange{from, to})
	c.any.Store(true)
}

// take returns the changes so far, and forgets them.
func (c *breakerChanges) take() (list []breakerChange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list, c.list = c.list, nil
	c.any.Store(false)
	return list
}

// tellBreaker tells the log of changes of the breaker. It is called after each call of the breaker.
func (g *Guard) tellBreaker() {
	if !g.changes.any.Load() {
		return
	}
	for _, change := range g.changes.take() {
		g.opts.Logger.Warn("guard: breaker", "guard", g.name, "from", change.from.String(), "to", change.to.String())
	}
}

func (g *Guard) breakerSettings() gobreaker.Settings {
	return gobreaker.Settings{
		Name: g.name, Timeout: g.opts.BreakerPause,
		ReadyToTrip:   func(c gobreaker.Counts) bool { return int64(c.ConsecutiveFailures) >= int64(g.opts.BreakerFailures) },
		IsExcluded:    func(err error) bool { return errors.Is(err, ErrClosed) },
		OnStateChange: g.changes.note,
	}
}

const msec = time.Millisecond

func inMilli(n int64) time.Duration { return time.Duration(n) * msec }
