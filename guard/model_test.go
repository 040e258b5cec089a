package guard_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/guard"
	"github.com/sievekv/sievekv/internal/kvtest"
)

var (
	modelRuns  = flag.Int("model.runs", defaultRuns(), "runs of TestGuardModel")
	modelSteps = flag.Int("model.steps", 250, "steps of a run")
	modelSeed  = flag.Uint64("model.seed", 0, "seed of the only run of TestGuardModel; 0 for random ones")
)

// defaultRuns is less with the race detector, which makes a run six times as long: only one goroutine at a time does much.
func defaultRuns() int {
	if raceEnabled {
		return 2
	}
	return 24
}

// Whatever happens to a guard, Get returns ErrNotFound only for an id that was absent during the call, and no value that is
// older than it may be. Each run has other options, and does random things: rows are put, removed, and changed past the
// guard, in the store or elsewhere; loads, Warms and rebuilds go on meanwhile, and some are given up; the source fails; time
// passes; the store crashes, also in the middle of a write, and is opened again.
func TestGuardModel(t *testing.T) {
	defer guard.SetRebuildBatch(3)()
	var total guard.Stats
	done := make(map[string]int)
	runs, seed := *modelRuns, *modelSeed
	if seed != 0 {
		runs = 1
	}
	for range runs {
		s := seed
		if s == 0 {
			s = rand.Uint64()
		}
		synctest.Test(t, func(t *testing.T) {
			m := newModel(t, s)
			m.open()
			for range *modelSteps {
				if m.step(); t.Failed() {
					break
				}
			}
			m.close()
			if t.Failed() {
				t.Logf("model.seed=%d, the last steps:\n%s", s, strings.Join(m.log[max(0, len(m.log)-60):], "\n"))
			}
			for name, n := range m.done {
				done[name] += n
			}
			total.Refused += m.total.Refused
			total.Hits += m.total.Hits
			total.Soft += m.total.Soft
			total.Stale += m.total.Stale
			total.Nulls += m.total.Nulls
			total.Shared += m.total.Shared
			total.Failed += m.total.Failed
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("%v %+v", done, total)
	if runs >= 20 && *modelSteps >= 250 && slices.Min([]uint64{total.Refused, total.Hits, total.Soft, total.Stale, total.Nulls, total.Shared, total.Failed}) == 0 {
		t.Errorf("some answers never came: %+v", total)
	}
}

// version is what an id had from a step on. There is no row if value is "".
type version struct {
	step  int
	at    time.Time
	value string
	past  bool // it came past the guard where no row was: until a rebuild that begins later, the filter may refuse it
}

// asked is a Get or GetMany under way.
type asked struct {
	ids    []string
	step   int
	at     time.Time
	floors []int  // for each id, the version when the last write before had ended
	unseen []bool // for each id, no rebuild had yet seen a row that came past the guard
	giveUp context.CancelFunc
	result chan []guard.Result
}

// putting is a PutVia that has written its row and goes on.
type putting struct {
	id      string
	version int
	let     chan struct{} // closed when it may end
	ended   chan error
}

type model struct {
	*testing.T
	rng  *rand.Rand
	opts guard.Options
	out  *outside // nil if the cache is in the store
	in   bool     // the rows are in the store
	lazy bool     // the store does not sync by itself

	disk *kvtest.Disk
	db   *sievekv.DB
	g    *guard.Guard

	ids      []string
	mu       sync.Mutex // held where loads in goroutines of their own read or write what follows, and when it is written
	versions map[string][]version
	failing  bool // the source is
	hold     bool // the next loads wait
	held     []chan struct{}

	floors  map[string]int // the version when the last write had ended
	putting *putting       // nil if none is under way
	next    int            // number of the next value
	now     int            // number of the step
	closed  int            // the last step in which the guard was closed
	pending []*asked
	step1   chan struct{} // lets the rebuild take an id; nil if none runs
	rebuilt chan error
	end     context.CancelFunc // ends the rebuild
	sees    int                // the rebuild sees the rows that came before this step; 0 if it does not see all of them
	unseen  map[string]int     // the step in which a row came past the guard that no rebuild has seen
	crash   *kvtest.Disk       // what a crash in the middle of the step leaves

	log   []string
	done  map[string]int
	total guard.Stats
}

func newModel(t *testing.T, seed uint64) *model {
	m := &model{
		T: t, rng: rand.New(rand.NewPCG(seed, 1)), disk: kvtest.NewDisk(), ids: make([]string, 24), done: make(map[string]int),
		versions: make(map[string][]version), floors: make(map[string]int), unseen: make(map[string]int),
	}
	m.in = m.rng.IntN(2) == 0
	m.lazy = !m.in && m.rng.IntN(2) == 0
	if m.rng.IntN(3) == 0 {
		m.out = newOutside()
		m.opts.Cache = m.out
	}
	seconds := func(most int) time.Duration { return time.Duration(1+m.rng.IntN(most)) * time.Second }
	o := &m.opts
	o.Logger, o.LoadTimeout = quiet, 5*time.Second
	o.Filter = filters[m.rng.IntN(len(filters))]
	o.Empty = m.rng.IntN(2) == 0
	o.Capacity, o.ErrorRate = 24, []float64{0.25, 0.01}[m.rng.IntN(2)]
	o.TTL, o.MaxStale, o.NullTTL = seconds(10), seconds(10), seconds(10)
	if m.rng.IntN(3) == 0 {
		o.TTL, o.MaxStale = time.Second, -1
	}
	o.SoftTTL = []time.Duration{0, o.TTL, o.TTL / 4}[m.rng.IntN(3)]
	o.RefuseUnfiltered = m.rng.IntN(4) == 0
	o.MaxLoads = []int{0, 0, 1, 3}[m.rng.IntN(4)]
	o.LoadsPerSecond = []float64{0, 0, 0.3, 20}[m.rng.IntN(4)]
	if m.rng.IntN(2) == 0 {
		o.Jitter = -1
	}
	o.BreakerFailures, o.BreakerPause = []int{-1, 3}[m.rng.IntN(2)], seconds(5)
	if m.rng.IntN(2) == 0 {
		o.LoadMany = m.loadMany
	} else {
		o.Load = m.load
	}
	begin := version{at: time.Now()}
	for i := range m.ids {
		m.ids[i] = fmt.Sprintf("id%02d", i)
		m.versions[m.ids[i]] = []version{begin}
	}
	return m
}

func (m *model) open() {
	m.Helper()
	o := &sievekv.Options{FS: m.disk, BallastSize: -1, MinFreeSpace: -1, Logger: quiet, CacheSize: 1 << 20, MemTableSize: 1 << 20}
	if m.lazy {
		o.Durability = sievekv.NoSync
	}
	db, err := sievekv.Open("/store", o)
	if err != nil {
		m.Fatal(err)
	}
	m.db = db
	if m.g, err = guard.New(db, "users", m.opts); err != nil {
		m.Fatal(err)
	}
}

// close ends all that is under way, and closes the store.
func (m *model) close() {
	m.mu.Lock()
	m.hold = false
	for _, let := range m.held {
		close(let)
	}
	m.held = nil
	m.mu.Unlock()
	m.endPut()
	synctest.Wait()
	m.settle()
	if m.step1 != nil {
		close(m.step1)
	}
	s := m.g.Stats()
	m.closed = m.now
	m.g.Close()
	if m.step1 != nil {
		<-m.rebuilt
		m.step1 = nil
		m.end()
	}
	m.total.Refused += s.Refused
	m.total.Hits += s.Hits
	m.total.Soft += s.Soft
	m.total.Stale += s.Stale
	m.total.Nulls += s.Nulls
	m.total.Shared += s.Shared
	m.total.Failed += s.Failed
	if err := m.db.Close(); err != nil {
		m.Error(err)
	}
}

func (m *model) note(format string, args ...any) {
	m.log = append(m.log, fmt.Sprintf("%d %s: ", m.now, time.Now().Format("05.000"))+fmt.Sprintf(format, args...))
}

// row returns what an id has now.
func (m *model) row(id string) string {
	all := m.versions[id]
	return all[len(all)-1].value
}

// set notes that the row of an id has changed.
func (m *model) set(id, value string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.versions[id] = append(m.versions[id], version{step: m.now, at: time.Now(), value: value})
}

func (m *model) fresh() string { m.next++; return fmt.Sprint("v", m.next) }

// id returns an id that no PutVia writes.
func (m *model) id() string {
	for {
		if id := m.ids[m.rng.IntN(len(m.ids))]; m.putting == nil || id != m.putting.id {
			return id
		}
	}
}

// load is the source.
func (m *model) load(ctx context.Context, id string) ([]byte, error) {
	values, err := m.loadMany(ctx, []string{id})
	if err == nil && values[id] == nil {
		err = guard.ErrNotFound
	}
	return values[id], err
}

func (m *model) loadMany(ctx context.Context, ids []string) (map[string][]byte, error) {
	values := make(map[string][]byte)
	var err error
	var let chan struct{}
	m.mu.Lock()
	for _, id := range ids {
		if row := m.row(id); row != "" {
			values[id] = []byte(row)
		}
	}
	if m.failing {
		err = errSource
	}
	if m.hold {
		let = make(chan struct{})
		m.held = append(m.held, let)
	}
	m.mu.Unlock()
	if let != nil {
		select {
		case <-let:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return values, err
}

// step does something. Goroutines of the bubble that are not its own only run while it waits for all of them.
func (m *model) step() {
	m.now++
	steps := []struct {
		weight int
		name   string
		do     func()
	}{
		{20, "put", m.put}, {6, "remove", m.remove}, {8, "past", m.past}, {40, "get", m.get}, {10, "time", m.time},
		{6, "fail", func() { m.turn("failing", &m.failing) }}, {6, "hold", func() { m.turn("hold", &m.hold) }}, {10, "let", m.let},
		{6, "end a put", m.endPut}, {20, "rebuild", m.rebuild}, {2, "give up", m.giveUp}, {2, "warm", m.warm}, {2, "crash", func() { m.crash = m.clone() }},
		{1, "open", func() { m.note("open again"); m.close(); m.open() }},
	}
	sum := 0
	for _, s := range steps {
		sum += s.weight
	}
	n := m.rng.IntN(sum)
	for _, s := range steps {
		if n -= s.weight; n < 0 {
			m.done[s.name]++
			s.do()
			break
		}
	}
	synctest.Wait()
	m.settle()
	if m.crash != nil {
		m.note("crash")
		m.close()
		m.disk, m.crash = m.crash, nil
		m.open()
		if m.in {
			m.checkRows()
		}
	}
}

func (m *model) turn(what string, on *bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	*on = !*on
	m.note("%s: %v", what, *on)
}

func (m *model) clone() *kvtest.Disk {
	return m.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: m.rng.IntN(101), RNG: m.rng})
}

// write does a write of an id by the guard, to a row in the store or elsewhere. Some fail, before or after the row has
// changed, and some end in a crash. A crash undoes nothing of a row elsewhere.
func (m *model) write(name, id, to string, in func(row func(*sievekv.Tx) error) error, via func(write func(context.Context) error) error) {
	fails, crashes := m.rng.IntN(8), m.rng.IntN(12)
	var err error
	if m.in {
		err = in(func(tx *sievekv.Tx) error {
			err := m.store(tx, id, to)
			if err == nil && fails == 0 {
				err = errOther
			}
			return err
		})
		if err == nil {
			m.set(id, to)
		}
	} else {
		err = via(func(context.Context) error {
			if crashes == 0 {
				m.crash = m.clone()
			}
			if fails == 0 {
				return errOther
			}
			m.set(id, to)
			if crashes == 1 {
				m.crash = m.clone()
			}
			if fails == 1 {
				return errOther
			}
			return nil
		})
	}
	if err != nil && !errors.Is(err, errOther) {
		m.Error(err)
	}
	if m.crash == nil && err == nil {
		m.floors[id] = len(m.versions[id]) - 1
	}
	m.note("%s %s %s: %v, crash %v", name, id, to, err, m.crash != nil)
}

// keys is a store or a transaction.
type keys interface {
	Set(key string, value []byte) error
	Delete(keys ...string) (int, error)
}

// store changes a row in the store.
func (m *model) store(in keys, id, to string) error {
	if to == "" {
		_, err := in.Delete("row:" + id)
		return err
	}
	return in.Set("row:"+id, []byte(to))
}

// checkRows checks that the store has the rows that were reported as written, and no others.
func (m *model) checkRows() {
	for _, id := range m.ids {
		if stored, err := m.db.MGet("row:" + id); err != nil || string(stored[0]) != m.row(id) {
			m.Errorf("the row of %s is %q, %v, want %q", id, stored, err, m.row(id))
		}
	}
}

func (m *model) put() {
	id, to := m.id(), m.fresh()
	value := []byte(to)
	if m.rng.IntN(5) == 0 {
		value = nil
	}
	if !m.in && m.putting == nil && m.rng.IntN(4) == 0 {
		if n := len(m.pending); n > 0 { // a load of it may have seen no row
			id = m.pending[m.rng.IntN(n)].ids[0]
		}
		m.beginPut(id, to, value)
		return
	}
	m.write("put", id, to,
		func(row func(*sievekv.Tx) error) error { return m.g.Put(m.Context(), id, value, row) },
		func(write func(context.Context) error) error { return m.g.PutVia(m.Context(), id, value, write) })
}

// beginPut begins a PutVia that goes on when its row is there.
func (m *model) beginPut(id, to string, value []byte) {
	p := &putting{id: id, version: len(m.versions[id]), let: make(chan struct{}), ended: make(chan error, 1)}
	m.putting = p
	m.note("begin to put %s %s", id, to)
	g := m.g
	go func() {
		p.ended <- g.PutVia(m.Context(), id, value, func(context.Context) error {
			m.set(id, to)
			<-p.let
			return nil
		})
	}()
}

// endPut lets a PutVia end.
func (m *model) endPut() {
	p := m.putting
	if p == nil {
		return
	}
	close(p.let)
	err := <-p.ended
	m.putting = nil
	if m.note("end to put %s: %v", p.id, err); err != nil {
		m.Error(err)
	}
	if m.crash == nil {
		m.floors[p.id] = p.version
	}
}

func (m *model) remove() {
	id := m.id()
	m.write("remove", id, "",
		func(row func(*sievekv.Tx) error) error { return m.g.Remove(m.Context(), id, row) },
		func(erase func(context.Context) error) error { return m.g.RemoveVia(m.Context(), id, erase) })
}

// past changes, removes or makes a row, and the guard does not know.
func (m *model) past() {
	id, to := m.id(), ""
	isNew := m.row(id) == ""
	if isNew || m.rng.IntN(2) == 0 {
		to = m.fresh()
	}
	m.set(id, to)
	if isNew {
		all := m.versions[id]
		all[len(all)-1].past, m.unseen[id] = true, m.now
	}
	if m.in {
		if err := m.store(m.db, id, to); err != nil {
			m.Error(err)
		}
	}
	m.note("past the guard %s %s", id, to)
}

func (m *model) time() {
	d := time.Duration(m.rng.IntN(4000)) * time.Millisecond
	if m.rng.IntN(5) == 0 {
		d *= 4
	}
	m.note("time %v", d)
	time.Sleep(d)
}

// asks returns an id to ask for, often one that a PutVia writes.
func (m *model) asks() string {
	if m.putting != nil && m.rng.IntN(2) == 0 {
		return m.putting.id
	}
	return m.id()
}

func (m *model) get() {
	a := &asked{ids: []string{m.asks()}, step: m.now, at: time.Now(), result: make(chan []guard.Result, 1)}
	many := m.rng.IntN(4) == 0
	if many {
		for range m.rng.IntN(5) {
			a.ids = append(a.ids, m.asks())
		}
	}
	for _, id := range a.ids {
		a.floors, a.unseen = append(a.floors, m.floors[id]), append(a.unseen, m.unseen[id] != 0)
	}
	m.pending = append(m.pending, a)
	ctx, cancel := context.WithCancel(m.Context())
	a.giveUp = cancel
	g := m.g
	go func() {
		if many {
			a.result <- g.GetMany(ctx, a.ids...)
			return
		}
		value, err := g.Get(ctx, a.ids[0])
		a.result <- []guard.Result{{Value: value, Err: err}}
	}()
}

// giveUp has a caller give up.
func (m *model) giveUp() {
	if len(m.pending) > 0 {
		a := m.pending[m.rng.IntN(len(m.pending))]
		m.note("Get %s of step %d gives up", a.ids, a.step)
		a.giveUp()
	}
}

// warm warms some ids, for a few seconds.
func (m *model) warm() {
	ids := make([]string, 1+m.rng.IntN(5))
	for i := range ids {
		ids[i] = m.id()
	}
	ctx, cancel := context.WithTimeout(m.Context(), time.Duration(1+m.rng.IntN(10))*time.Second)
	g := m.g
	m.note("Warm %s", ids)
	go func() {
		defer cancel()
		_, err := g.Warm(ctx, seqOf(ids...))
		if err != nil && !slices.ContainsFunc([]error{errSource, guard.ErrUnavailable, guard.ErrClosed, context.DeadlineExceeded},
			func(allowed error) bool { return errors.Is(err, allowed) }) {
			m.Errorf("Warm: %v", err)
		}
	}()
}

// let lets a load go on.
func (m *model) let() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.held) == 0 {
		return
	}
	i := m.rng.IntN(len(m.held))
	m.note("let a load go on")
	close(m.held[i])
	m.held = slices.Delete(m.held, i, i+1)
}

// rebuild begins a rebuild, or lets it take an id.
func (m *model) rebuild() {
	if m.step1 != nil {
		if m.rng.IntN(30) == 0 {
			m.note("the rebuild is given up")
			m.end()
		}
		select {
		case m.step1 <- struct{}{}:
		case err := <-m.rebuilt:
			m.note("rebuilt: %v", err)
			m.done["rebuilt"]++
			m.step1 = nil
			m.end()
			switch {
			case err == nil:
				maps.DeleteFunc(m.unseen, func(_ string, step int) bool { return step < m.sees })
			case !errors.Is(err, errSource) && !errors.Is(err, context.Canceled):
				m.Errorf("Rebuild: %v", err)
			default:
				m.done["ended"]++
			}
		default: // it waits for a PutVia
		}
		return
	}
	if m.rng.IntN(4) != 0 {
		return
	}
	step, rebuilt := make(chan struct{}), make(chan error, 1)
	m.step1, m.rebuilt = step, rebuilt
	ended := m.rng.IntN(4) == 0 // the ids end in an error
	from := func(after string) iter.Seq2[string, error] {
		return func(yield func(string, error) bool) {
			var ids []string
			m.mu.Lock()
			for _, id := range m.ids {
				if id > after && m.row(id) != "" {
					ids = append(ids, id)
				}
			}
			m.mu.Unlock()
			for i, id := range ids {
				<-step
				if ended && i == len(ids)/2 {
					yield("", errSource)
					return
				}
				if !yield(id, nil) {
					return
				}
			}
			<-step
		}
	}
	ordered, g := m.rng.IntN(2) == 0, m.g
	ctx, cancel := context.WithCancel(m.Context())
	m.end, m.sees = cancel, m.now
	p, err := g.Progress()
	if err != nil {
		m.Error(err)
	}
	if ordered && p.Rebuilding && p.After != "" { // it goes on behind rows that may have come since
		m.sees = 0
	}
	m.note("rebuild: ordered %v, ended %v, sees the rows before step %d", ordered, ended, m.sees)
	go func() {
		if ordered {
			rebuilt <- g.RebuildFrom(ctx, from)
		} else {
			rebuilt <- g.Rebuild(ctx, from(""))
		}
	}()
}

// settle checks the answers that have come.
func (m *model) settle() {
	m.pending = slices.DeleteFunc(m.pending, func(a *asked) bool {
		select {
		case results := <-a.result:
			for i, id := range a.ids {
				m.note("Get %s of step %d: %s %v", id, a.step, results[i].Value, results[i].Err)
				if wrong := m.wrong(a, i, results[i]); wrong != "" {
					m.Errorf("Get %s, begun in step %d, ended in %d: %q, %v: %s; versions %v, at least %d",
						id, a.step, m.now, results[i].Value, results[i].Err, wrong, m.versions[id], a.floors[i])
				}
			}
			a.giveUp()
			return true
		default:
			return false
		}
	})
}

// wrong tells what is wrong with the result for the id at a place.
func (m *model) wrong(a *asked, place int, r guard.Result) string {
	id, floor := a.ids[place], a.floors[place]
	switch {
	case errors.Is(r.Err, guard.ErrNotFound):
		for i, v := range m.versions[id] {
			until := m.until(id, i)
			remembered := a.at.Sub(until.at) <= m.opts.NullTTL
			if v.value == "" && (until.step >= a.step || until.past && floor <= i && (a.unseen[place] || remembered)) {
				return ""
			}
		}
		return "it was there all the time"
	case errors.Is(r.Err, guard.ErrUnavailable):
		if m.opts.BreakerFailures < 0 && m.opts.MaxLoads == 0 && m.opts.LoadsPerSecond == 0 {
			return "there is no breaker, and no limit"
		}
		return ""
	case errors.Is(r.Err, sievekv.ErrNotFound):
		return "it looks as if the id were not there"
	case errors.Is(r.Err, guard.ErrUnfiltered):
		if !m.opts.RefuseUnfiltered {
			return "it should go on without a filter"
		}
		return ""
	case errors.Is(r.Err, context.Canceled), errors.Is(r.Err, guard.ErrClosed) && m.closed >= a.step:
		return ""
	case errors.Is(r.Err, errSource), errors.Is(r.Err, context.DeadlineExceeded):
		return ""
	case r.Err != nil:
		return "another error"
	}
	oldest := m.opts.TTL + max(0, m.opts.MaxStale)
	for i, v := range m.versions[id] {
		if v.value != string(r.Value) {
			continue
		}
		switch until := m.until(id, i); {
		case i < floor:
			return "it is older than the last write by the guard"
		case a.at.Sub(until.at) > oldest:
			return "it is older than MaxStale"
		}
		return ""
	}
	return "it never was there"
}

// until returns the version that came after one, or what is now.
func (m *model) until(id string, i int) version {
	if all := m.versions[id]; i+1 < len(all) {
		return all[i+1]
	}
	return version{step: m.now, at: time.Now()}
}
