// Package seeded, when a test imports it, gives all stores that the test makes the same seeds. An item that seems to be
// in a filter by chance, and two keys that share a lock by chance, do so in every run or in none. A person who knows
// the seeds can choose items that collide, so no other program may import it.
package seeded

import (
	"testing"

	"github.com/sievekv/sievekv/internal/seeds"
)

func init() {
	if !testing.Testing() {
		panic("internal/kvtest/seeded: imported by a program that is no test")
	}
	seeds.Fix(true)
}

// Not lets stores have random seeds until the end of a test, which is not parallel.
func Not(t *testing.T) {
	seeds.Fix(false)
	t.Cleanup(func() { seeds.Fix(true) })
}
