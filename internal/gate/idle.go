package gate

import (
	"sync/atomic"
	"time"
)

// Uses counts the beginnings and ends of uses of the holder that has a gate alone, such as calls of a transaction's
// methods. Uses do not overlap.
type Uses struct{ steps atomic.Uint64 } // odd during a use

// Begin begins a use.
func (u *Uses) Begin() { u.steps.Add(1) }

// End ends a use.
func (u *Uses) End() { u.steps.Add(1) }

// Idle finds out that the holder that has the gate alone is not used. It looks several times: if the process was
// stopped for a while, it has seen one idle moment, not all of that time.
type Idle struct {
	// Holder returns the uses of the holder that has the gate alone, nil if there is none.
	Holder func() *Uses

	holder *Uses
	steps  uint64 // of the holder when seen began to count
	seen   int    // how often the holder was idle at that step
}

// idleLooks is how many idle looks are too many.
const idleLooks = 8

// Start returns a channel that tells when to call TooLong, and a function that ends it. With a limit of 0 or below the
// channel is nil.
func (i *Idle) Start(limit time.Duration) (<-chan time.Time, func()) {
	if limit <= 0 {
		return nil, func() {}
	}
	i.TooLong()
	ticker := time.NewTicker(max(1, limit/(idleLooks-1)))
	return ticker.C, ticker.Stop
}

// TooLong looks at the holder, and reports whether it was found idle eight times with no use in between.
func (i *Idle) TooLong() bool {
	holder := i.Holder()
	if holder == nil {
		i.seen = 0
		return false
	}
	steps := holder.steps.Load()
	if holder != i.holder || steps != i.steps {
		i.holder, i.steps, i.seen = holder, steps, 0
	}
	i.seen++
	used := steps%2 != 0
	return i.seen >= idleLooks && !used
}
