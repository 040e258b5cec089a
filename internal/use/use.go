// Package use counts how a filter is used, and says when it is used beyond what it was made for.
package use

import (
	"sync"
	"sync/atomic"
)

// Counts counts the lookups and adds of a filter, from its first use since the store was opened. Any goroutine may call
// its methods. A nil *Counts counts nothing.
type Counts struct {
	yes, no, added, known atomic.Uint64
}

// Totals are what Counts has counted.
type Totals struct {
	Yes, No uint64 // lookups, by their answers: an item may be there, or is not
	New     uint64 // adds of items that seemed absent, or whose presence was not asked
	Known   uint64 // adds of items that may have been there before
}

// Lookups counts lookups by their answers.
func (c *Counts) Lookups(yes, no uint64) { c.add(yes, no, 0, 0) }

// Lookup counts n lookups with one answer.
func (c *Counts) Lookup(yes bool, n uint64) {
	if yes {
		c.Lookups(n, 0)
		return
	}
	c.Lookups(0, n)
}

// Adds counts adds of new and of known items.
func (c *Counts) Adds(added, known uint64) { c.add(0, 0, added, known) }

// Add counts an add of a new or of a known item.
func (c *Counts) Add(added bool) {
	if added {
		c.Adds(1, 0)
		return
	}
	c.Adds(0, 1)
}

// Of returns how many answers are true, and how many are false.
func Of(answers []bool) (yes, no uint64) {
	for _, answer := range answers {
		one := uint64(0)
		if answer { // no branch, which would be taken at random: the compiler widens the bool
			one = 1
		}
		yes += one
	}
	return yes, uint64(len(answers)) - yes
}

func (c *Counts) add(yes, no, added, known uint64) {
	if c == nil {
		return
	}
	raise(&c.yes, yes)
	raise(&c.no, no)
	raise(&c.added, added)
	raise(&c.known, known)
}

// raise adds n to a count. A count that stays as it is costs other processors nothing.
func raise(count *atomic.Uint64, n uint64) {
	if n > 0 {
		count.Add(n)
	}
}

// Totals returns what was counted until now, zeros for a nil *Counts.
func (c *Counts) Totals() Totals {
	if c == nil {
		return Totals{}
	}
	return Totals{c.yes.Load(), c.no.Load(), c.added.Load(), c.known.Load()}
}

// MaxFilters is how many filters a Table has.
const MaxFilters = 1 << 17

// Table has the counts of filters that are open, or were, by the ids of their objects. If they are too many, it forgets
// any. The zero value is empty. Any goroutine may call its methods.
type Table struct {
	mu     sync.Mutex
	counts map[uint64]*Counts // guarded by mu
}

// Of returns the counts of a filter, new ones if the table has none.
func (t *Table) Of(id uint64) *Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.counts[id]; c != nil {
		return c
	}
	return new(Counts)
}

// Keep makes the table remember the counts of a filter.
func (t *Table) Keep(id uint64, c *Counts) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.counts = make(map[uint64]*Counts)
	}
	if len(t.counts) >= MaxFilters && t.counts[id] == nil {
		for other := range t.counts {
			delete(t.counts, other)
			break
		}
	}
	t.counts[id] = c
}
