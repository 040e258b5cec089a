package expiry

import (
	"sync"
	"sync/atomic"
)

// Count is the number of keys with an expiry. Commits change it by Add. The notes that were stored before are counted
// once, by a counting that begins with Begin.
type Count struct {
	// n is changed by commits, which hold apply, and by the counting. While the counting goes on, n lacks the notes
	// that are not counted yet, and is negative if commits delete some of them.
	n atomic.Int64

	mu    sync.Mutex
	state countState // guarded by mu, like a change of n that no commit makes
}

type countState uint8

const (
	notCounted countState = iota // n is only what commits have changed
	counting
	counted
)

// Add is called by a commit that has written so many notes, or deleted them.
func (c *Count) Add(notes int64) { c.n.Add(notes) }

// None is called by a commit that removes every key: nothing is left to count.
func (c *Count) None() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n.Store(0)
	c.state = counted
}

// Mend is called by a commit that mends notes, of which there are n then, that many more than before.
func (c *Count) Mend(n uint64, more int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == counted {
		c.n.Store(int64(n))
	} else {
		c.n.Add(more)
	}
}

// Known returns the number, and whether all notes are counted.
func (c *Count) Known() (n uint64, all bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return uint64(max(0, c.n.Load())), c.state == counted
}

// Begun reports whether the counting has begun.
func (c *Count) Begun() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state != notCounted
}

// Begin begins the counting, unless it has begun: then it reports false. No commit may be under way. If begin returns an
// error, the counting has not begun.
func (c *Count) Begin(begin func() error) (begun bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != notCounted {
		return false, nil
	}
	if err := begin(); err != nil {
		return false, err
	}
	c.n.Store(0)
	c.state = counting
	return true, nil
}

// Read counts the notes that Begin found, until on returns false or a commit removes every key. If it returns an error, the
// notes have to be counted anew.
func (c *Count) Read(from Notes, on func() bool) error {
	const few = 1024
	notes := int64(0)
	for ok := from.First(); ok; ok = from.Next() {
		if notes++; notes < few {
			continue
		}
		if !on() || !c.found(notes) {
			return nil
		}
		notes = 0
	}
	err := from.Error()
	if err == nil {
		c.found(notes)
	}
	c.end(err == nil)
	return err
}

// found adds counted notes, and reports whether the counting goes on.
func (c *Count) found(notes int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != counting {
		return false // meanwhile every key was removed
	}
	c.n.Add(notes)
	return true
}

// end ends the counting, unless a commit removed every key meanwhile. If it is not whole, the next one begins anew.
func (c *Count) end(whole bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != counting {
		return
	}
	if c.state = notCounted; whole {
		c.state = counted
	}
}
