package guard

import (
	"context"

	"github.com/sievekv/sievekv"
)

// SetRebuildBatch sets the number of ids in a commit of Rebuild, and returns a function that sets it back.
func SetRebuildBatch(n int) (reset func()) {
	before := rebuildBatch
	rebuildBatch = n
	return func() { rebuildBatch = before }
}

// DropNext is the end of a rebuild of the next filter with this number, which had no room.
func (g *Guard) DropNext(number uint64) error {
	return g.dropNext(context.Background(), number, sievekv.ErrFull)
}

// States returns the number of ids that the guard has in memory.
func (g *Guard) States() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.ids)
}

// PassRate is the measure of a guard's rate of false positives.
type PassRate struct{ r *passRate }

func NewPassRate(asked float64) PassRate { return PassRate{newPassRate(asked)} }

func (p PassRate) Refuse(id string) { p.r.refuse(id) }

// Pass reports whether it is told that the filter is above the rate.
func (p PassRate) Pass(id string) (told bool) { _, told = p.r.pass(id); return told }

// Kept returns the number of hashes in memory.
func (p PassRate) Kept() int { return len(p.r.passed) }

func (p PassRate) Read() (rate float64, above bool) { return p.r.read() }

// OnceKey returns the key of the store that has the answer under a key of Once.
func OnceKey(key string) string { return onceKey(key) }
