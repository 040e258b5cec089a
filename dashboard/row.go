package dashboard

import (
	"time"

	"github.com/sievekv/sievekv/internal/use"
	"github.com/sievekv/sievekv/kv"
)

// row is a filter in the listing: the facts of SIEVE.STATS that the pages need.
type row struct {
	key, kind               string
	items, capacity         uint64
	fill                    float64 // share of the bits, counters or slots that are taken
	rate, asked             float64 // the expected error rate now, and the one asked for; 0 for none
	yes, no, added, known   uint64  // lookups and adds since the store was opened
	bytes, memory, disk     uint64  // room of all layers; what of it is in memory, and on disk
	expiry                  int64   // Unix milliseconds, 0 for never
	window                  float64 // seconds after which an item is forgotten, 0 for never
	last                    uint64  // of how many items it keeps the last, 0 for all
	layers                  int
	grows, estimated, lossy bool

	// By comparison with earlier passes. Rates are by second, -1 if they are not known yet.
	lookupRate, newRate, knownRate float64
	base                           uint64 // items at baseAt
	baseAt                         int64  // Unix milliseconds
}

// rowOf returns the row of a key. It is not ok for a key that is no filter: a bitmap has no capacity. A filter that forgets has none
// while it has no slice.
func rowOf(s *kv.KeyStats) (r row, ok bool) {
	r = row{
		key: s.Key, kind: s.Type, bytes: s.Bytes, memory: s.Resident, disk: s.Disk, expiry: s.Expiry,
		lookupRate: -1, newRate: -1, knownRate: -1,
	}
	for _, f := range s.Facts {
		r.set(f)
	}
	return r, r.capacity > 0 || r.forgets()
}

func (r *row) set(f kv.Fact) {
	switch v := f.Value.(type) {
	case uint64:
		if to := r.count(f.Name); to != nil {
			*to = v
		}
		if f.Name == "expansion" {
			r.grows = v > 0
		}
	case float64:
		if to := r.share(f.Name); to != nil {
			*to = v
		}
	case bool:
		switch f.Name {
		case "items_estimated":
			r.estimated = v
		case "lossy":
			r.lossy = v
		}
	case []kv.FactList:
		if f.Name == "layers" {
			r.layers = len(v)
		}
	}
}

func (r *row) count(name string) *uint64 {
	switch name {
	case "items":
		return &r.items
	case "capacity":
		return &r.capacity
	case "last":
		return &r.last
	case "lookups_yes":
		return &r.yes
	case "lookups_no":
		return &r.no
	case "adds_new":
		return &r.added
	case "adds_known":
		return &r.known
	}
	return nil
}

func (r *row) share(name string) *float64 {
	switch name {
	case "fill", "load":
		return &r.fill
	case "expected_rate":
		return &r.rate
	case "error_rate":
		return &r.asked
	case "window":
		return &r.window
	}
	return nil
}

// used returns the share of the capacity that is used.
func (r *row) used() float64 { return float64(r.items) / float64(max(1, r.capacity)) }

// excess returns how many times the rate asked for the expected one is, 0 if none was asked for.
func (r *row) excess() float64 {
	if r.asked <= 0 {
		return 0
	}
	return r.rate / r.asked
}

func (r *row) lookups() uint64 { return r.yes + r.no }

// uses returns how often the filter was used.
func (r *row) uses() uint64 { return r.yes + r.no + r.added + r.known }

// forgets reports whether items leave the filter by themselves.
func (r *row) forgets() bool { return r.window > 0 || r.last > 0 }

// state is what an operator should know of a filter.
type state int

const (
	stateFine state = iota
	stateUnasked
	stateGrowing
	stateNearlyFull
	stateFull
	stateAboveRate
	stateLossy
	states
)

// is reports whether a filter is in a state. It may be in several, but fine only if in no other.
func (r *row) is(s state) bool {
	keepsAll := !r.grows && !r.forgets()
	switch s {
	case stateLossy:
		return r.lossy
	case stateAboveRate:
		return use.IsAboveRate(r.rate, r.asked, r.capacity)
	case stateFull:
		return keepsAll && r.used() >= 1
	case stateNearlyFull:
		return keepsAll && r.used() >= use.NearlyFull && r.used() < 1
	case stateGrowing:
		return r.layers > 1 && !r.forgets()
	case stateUnasked:
		return r.lookups() == 0 && r.items > 0
	}
	return r.worst() == stateFine
}

// worst returns the state that matters most.
func (r *row) worst() state {
	for s := states - 1; s > stateFine; s-- {
		if r.is(s) {
			return s
		}
	}
	return stateFine
}

// leastPace is the least time for which a pace is told.
const leastPace = 10 * time.Second

// pace returns by how many items a second the filter has grown since base, at most a day; 0 if it has not, or if it is not known yet.
func (r *row) pace(now time.Time) float64 {
	span := time.Duration(now.UnixMilli()-r.baseAt) * time.Millisecond
	if r.baseAt == 0 || span < leastPace || r.items <= r.base {
		return 0
	}
	return float64(r.items-r.base) / span.Seconds()
}

// toFull returns how long the filter takes to its capacity at its pace. It is not ok if it has no pace, or is full.
func (r *row) toFull(now time.Time) (d time.Duration, ok bool) {
	pace := r.pace(now)
	if pace == 0 || r.items >= r.capacity || r.forgets() {
		return 0, false
	}
	seconds := float64(r.capacity-r.items) / pace
	return time.Duration(min(seconds, 1e9) * float64(time.Second)), true
}

// compare takes over what the row before says of earlier times. elapsed is the time between the two passes.
func (r *row) compare(before *row, elapsed time.Duration, now time.Time) {
	r.base, r.baseAt = before.base, before.baseAt
	if now.UnixMilli()-r.baseAt > (24 * time.Hour).Milliseconds() {
		// A day is over. What the filter had then is not kept, so the base moves on by what the pace says of half a day.
		r.base, r.baseAt = r.base+uint64(float64(r.items-min(r.items, r.base))/2), r.baseAt+(now.UnixMilli()-r.baseAt)/2
	}
	if r.items < r.base { // items were deleted, or the filter was made again
		r.base, r.baseAt = r.items, now.UnixMilli()
	}
	seconds := elapsed.Seconds()
	if seconds <= 0 || r.uses() < before.uses() || r.lookups() < before.lookups() {
		return
	}
	r.lookupRate = float64(r.lookups()-before.lookups()) / seconds
	r.newRate = float64(r.added-min(r.added, before.added)) / seconds
	r.knownRate = float64(r.known-min(r.known, before.known)) / seconds
}
