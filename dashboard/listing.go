package dashboard

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sievekv/sievekv/kv"
)

// listing has a row for each filter of the store, as the last pass over its keys has found them. A pass reads the headers of keys and the
// counters of filters, never a block. It begins when a page asks and the last one is too old, and goes on in the background, a few keys
// at a time with pauses between, so that pages about a store of 100,000 filters cost the store little more than those about a small
// one. All pages are made of rows in memory.
type listing struct {
	wake chan struct{} // has an element when a page has begun a pass

	mu   sync.Mutex
	last *pass // the last one that has ended, nil before; it does not change any more; guarded by mu
	now  *pass // under way, nil if none is; its fields are guarded by mu
	read int   // rows, by all passes; guarded by mu
}

const (
	// perStep is how many keys a step of a pass looks at, in some 5 ms. The first step of a pass that a page begins looks at more, so that
	// pages about small stores show them as they are.
	perStep, perFirst = 100, 500

	// A pass that takes more than one step uses a tenth of a processor. The next begins when the time since is this
	// multiple of the processor time that the pass has used.
	pausePerStep = 9
	agePerWork   = 20
	freshFor     = 2 * time.Second
	everyPass    = time.Minute // when nobody asks, for the history

	// maxRows and maxKeyBytes bound the memory: of more filters there are only counts.
	maxRows     = 200_000
	maxKeyBytes = 64 << 20
)

// pass is a pass over all keys.
type pass struct {
	cursor   uint64
	began    time.Time
	at       time.Time // when it ended, zero before
	work     time.Duration
	rows     []row // by key, once the pass has ended
	keyBytes int
	unlisted int // filters without a row
	err      error
}

// rowsSeen is what a page shows of.
type rowsSeen struct {
	rows     []row
	at       time.Time // when the pass ended, zero for one that is under way
	unlisted int
	err      error
}

// see returns the rows of the last pass, or of the first one as far as it has come. It begins a pass if the last is too old.
func (l *listing) see(d *Dashboard, now time.Time) rowsSeen {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isDue(now, freshFor) {
		l.begin(d, now)
	}
	p := l.last
	if p == nil {
		p = l.now
	}
	return rowsSeen{p.rows, p.at, p.unlisted, p.err}
}

// isDue reports whether a pass may begin. The caller holds mu.
func (l *listing) isDue(now time.Time, every time.Duration) bool {
	return l.now == nil && (l.last == nil || now.Sub(l.last.at) >= max(every, agePerWork*l.last.work))
}

// begin begins a pass by its first step. If that is all, the page shows the store as it is. The caller holds mu.
func (l *listing) begin(d *Dashboard, now time.Time) {
	l.now = &pass{began: now}
	if l.step(d, perFirst) {
		return
	}
	select {
	case l.wake <- struct{}{}:
	default: // a wake-up is on its way
	}
}

// goOn does the next step of a pass, or begins one if it is time, and returns when to call it again.
func (l *listing) goOn(d *Dashboard) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := d.clock(); l.now == nil {
		if !l.isDue(now, everyPass) {
			return everyPass
		}
		l.now = &pass{began: now}
	}
	work := l.now.work
	if l.step(d, perStep) {
		return everyPass
	}
	return pausePerStep * (l.now.work - work)
}

// step looks at keys for the pass under way, and reports whether they were the last. The caller holds mu.
func (l *listing) step(d *Dashboard, most int) (end bool) {
	p, began := l.now, time.Now()
	keys, next, err := d.db.ScanFrom(d.ctx, p.cursor, most, kv.ScanOptions{NoStrings: true})
	for _, key := range keys {
		if r, ok := d.rowFor(key); ok {
			p.add(r)
		}
	}
	l.read += len(keys)
	p.cursor, p.err = next, err
	p.work += time.Since(began)
	if next != 0 && err == nil {
		return false
	}
	p.end(l.last, d.clock())
	l.last, l.now = p, nil
	return true
}

// rowFor returns the row of a key. It is not ok if the key is no filter, was removed, or cannot be read.
func (d *Dashboard) rowFor(key string) (r row, ok bool) {
	err := d.db.Read(func(reader kv.Reader) error {
		s, err := reader.Stats([]byte(key))
		if err != nil || s == nil {
			ok = false
			return err
		}
		r, ok = rowOf(s)
		return nil
	})
	return r, ok && err == nil
}

func (p *pass) add(r row) {
	if len(p.rows) >= maxRows || p.keyBytes+len(r.key) > maxKeyBytes {
		p.unlisted++
		return
	}
	p.keyBytes += len(r.key)
	p.rows = append(p.rows, r) // pages that have seen fewer rows are not concerned
}

// end sorts the rows into new memory, since pages may be reading the old, and compares them with the rows of the pass
// before.
func (p *pass) end(before *pass, now time.Time) {
	p.at = now
	p.rows = slices.Clone(p.rows)
	slices.SortFunc(p.rows, func(a, b row) int { return strings.Compare(a.key, b.key) })
	for i := range p.rows {
		p.rows[i].base, p.rows[i].baseAt = p.rows[i].items, now.UnixMilli()
	}
	if before == nil {
		return
	}
	elapsed, i := now.Sub(before.at), 0
	for j := range p.rows {
		r := &p.rows[j]
		for i < len(before.rows) && before.rows[i].key < r.key {
			i++
		}
		if i < len(before.rows) && before.rows[i].key == r.key && before.rows[i].kind == r.kind {
			r.compare(&before.rows[i], elapsed, now)
		}
	}
}
