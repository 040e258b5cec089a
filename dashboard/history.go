package dashboard

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/sievekv/sievekv/internal/live"
)

// history keeps earlier states: of the store, and of the most used filters. It has two spans, each a ring of points.
// Its memory is allocated when something is first kept and does not grow beyond the budget, which decides how many
// filters have a history.
type history struct {
	mu      sync.Mutex
	spans   [2]span
	filters map[string]*filterPast
	most    int       // filters
	chosen  time.Time // when the pass ended whose filters choose has seen

	lookups, adds uint64 // of filters while there is a history of them
}

const (
	finePeriod, fineLength     = 5 * time.Second, 720 // an hour
	coarsePeriod, coarseLength = time.Minute, 1440    // a day
	points                     = fineLength + coarseLength
)

// span is the past of the store at one resolution.
type span struct {
	period time.Duration
	times  ring[int64] // Unix milliseconds
	store  [columns]ring[float32]
	before totals
}

// The columns of the store's past. Those that count are by second.
const (
	colCommands = iota
	colFailed
	colHalf    // microseconds that half of the commands took at most
	colSlow    // and 99 of 100
	colLookups // of the filters that there is a history of
	colAdds
	colCommits
	colMemory // bytes
	colDisk
	colLog
	colDebt
	columns
)

// The columns of a filter's past, by second.
const (
	colYes = iota
	colNo
	colNew
	colKnown
	filterColumns
)

// totals are what rates are computed from.
type totals struct {
	at              time.Time // zero if there was none before
	calls, failed   uint64
	latency         live.Latency
	lookups, adds   uint64
	commits         uint64
	memory          int64
	disk, log, debt uint64
}

// filterPast is the past of one filter.
type filterPast struct {
	kind  string
	items [2]ring[uint64]
	rates [2][filterColumns]ring[float32]
	last  [2]row  // as of the last point, without a key before the first
	used  float64 // by second, of late
}

// The memory of a filter's past and of the store's, without keys.
const (
	filterBytes = points*(8+4*filterColumns) + 1200
	storeBytes  = points*(8+4*columns) + 4096
)

func newHistory(budget int64) *history {
	h := &history{filters: make(map[string]*filterPast), most: int((budget - storeBytes) / filterBytes)}
	h.spans[0].period, h.spans[1].period = finePeriod, coarsePeriod
	return h
}

// length returns how many points a span has.
func length(i int) int { return [2]int{fineLength, coarseLength}[i] }

// maxPastKey is the most bytes of the key of a filter that there is a history of. Their memory is small beside the rest.
const maxPastKey = 1024

// ring keeps the last values. Its memory is allocated at the first.
type ring[T any] struct {
	values []T
	next   int
	full   bool
}

func (r *ring[T]) add(v T, size int) {
	if r.values == nil {
		r.values = make([]T, size)
	}
	r.values[r.next] = v
	if r.next++; r.next == size {
		r.next, r.full = 0, true
	}
}

// all returns the values, the oldest first.
func (r *ring[T]) all() []T {
	if !r.full {
		return slices.Clone(r.values[:r.next])
	}
	return slices.Concat(r.values[r.next:], r.values[:r.next])
}

// sample adds a point to the history.
func (d *Dashboard) sample(now time.Time) {
	m, err := d.db.Metrics()
	if err != nil {
		return // the pages say that the store has failed
	}
	t := totals{
		at: now, commits: m.Commits, memory: m.CacheUsed + m.Strings.Used + int64(m.MemTableBytes),
		disk: m.DiskBytes, log: m.LogBytes, debt: m.CompactionDebt,
	}
	if d.o.Server != nil {
		c := d.o.Server.Counts()
		t.calls, t.failed, t.latency = c.Calls, c.Failed+c.Refused, c.Latency
	}
	h := d.history
	for _, key := range h.keys() {
		r, ok := d.rowFor(key)
		h.addFilter(key, r, ok, now)
	}
	h.addStore(t)
	d.listing.mu.Lock()
	last := d.listing.last
	d.listing.mu.Unlock()
	h.choose(last)
}

func (h *history) keys() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	keys := make([]string, 0, len(h.filters))
	for key := range h.filters {
		keys = append(keys, key)
	}
	return keys
}

// addFilter adds a point to a filter's past. A filter that is gone has none any more.
func (h *history) addFilter(key string, r row, ok bool, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.filters[key]
	switch {
	case f == nil:
	case !ok || r.kind != f.kind:
		delete(h.filters, key)
	default:
		h.count(f, r)
		f.add(0, r, h.spans[0].elapsed(now))
		if h.spans[1].isDue(now) {
			f.add(1, r, h.spans[1].elapsed(now))
		}
	}
}

// count counts how a filter was used since the last point.
func (h *history) count(f *filterPast, r row) {
	before := &f.last[0]
	if before.key == "" || r.lookups() < before.lookups() || r.uses() < before.uses() {
		return
	}
	h.lookups += r.lookups() - before.lookups()
	h.adds += r.added + r.known - min(r.added+r.known, before.added+before.known)
	f.used = float64(r.uses()-before.uses()) / finePeriod.Seconds()
}

func (f *filterPast) add(i int, r row, seconds float64) {
	before := f.last[i]
	if before.key == "" {
		before = r
	}
	f.last[i] = r
	f.items[i].add(r.items, length(i))
	for column, n := range [filterColumns][2]uint64{{r.yes, before.yes}, {r.no, before.no}, {r.added, before.added}, {r.known, before.known}} {
		f.rates[i][column].add(rateOf(n[0], n[1], seconds), length(i))
	}
}

// rateOf returns how much a count has risen by second, 0 if it was set back.
func rateOf(now, before uint64, seconds float64) float32 {
	if now < before || seconds <= 0 {
		return 0
	}
	return float32(float64(now-before) / seconds)
}

// isDue reports whether a span gets a point. Ticks may be a little early.
func (s *span) isDue(now time.Time) bool {
	return s.before.at.IsZero() || now.Sub(s.before.at) >= s.period-finePeriod/2
}

func (s *span) elapsed(now time.Time) float64 {
	if s.before.at.IsZero() {
		return 0
	}
	return now.Sub(s.before.at).Seconds()
}

// addStore adds a point to the store's past.
func (h *history) addStore(t totals) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t.lookups, t.adds = h.lookups, h.adds
	for i := range h.spans {
		if s := &h.spans[i]; i == 0 || s.isDue(t.at) {
			s.add(t, length(i))
		}
	}
}

func (s *span) add(t totals, size int) {
	b := &s.before
	seconds := s.elapsed(t.at)
	took := t.latency.Since(&b.latency)
	s.times.add(t.at.UnixMilli(), size)
	for column, v := range [columns]float32{
		colCommands: rateOf(t.calls, b.calls, seconds), colFailed: rateOf(t.failed, b.failed, seconds),
		colHalf: micros(&took, 0.5), colSlow: micros(&took, 0.99),
		colLookups: rateOf(t.lookups, b.lookups, seconds), colAdds: rateOf(t.adds, b.adds, seconds), colCommits: rateOf(t.commits, b.commits, seconds),
		colMemory: float32(t.memory), colDisk: float32(t.disk), colLog: float32(t.log), colDebt: float32(t.debt),
	} {
		s.store[column].add(v, size)
	}
	s.before = t
}

// micros returns a quantile in microseconds, and no number, which is a gap in a chart, without calls.
func micros(l *live.Latency, share float64) float32 {
	if l.Total() == 0 {
		return float32(math.NaN())
	}
	return float32(l.Quantile(share).Microseconds())
}

// choose begins to keep the past of filters that are used more than others, when a pass has ended. A filter that has a past loses it
// only to one that is used twice as much, so that two filters do not take turns.
func (h *history) choose(p *pass) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p == nil || p.at.Equal(h.chosen) {
		return
	}
	h.chosen = p.at
	least, used := h.leastUsed()
	for i := range p.rows {
		r := &p.rows[i]
		if h.filters[r.key] != nil || len(r.key) > maxPastKey {
			continue
		}
		if len(h.filters) >= h.most {
			if r.usesLately() <= 2*used {
				continue
			}
			delete(h.filters, least)
		}
		h.filters[r.key] = &filterPast{kind: r.kind, used: r.usesLately()}
		least, used = h.leastUsed()
	}
}

// leastUsed returns the filter with a past that is used least.
func (h *history) leastUsed() (key string, used float64) {
	used = math.Inf(1)
	if len(h.filters) < h.most {
		return "", used // nobody asks
	}
	for k, f := range h.filters {
		if f.used < used {
			key, used = k, f.used
		}
	}
	return key, used
}

// usesLately returns how often the filter was used by second between the last two passes.
func (r *row) usesLately() float64 {
	return max(0, r.lookupRate) + max(0, r.newRate) + max(0, r.knownRate)
}
