package kv_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sievekv/sievekv/kv"
)

// bitAt is a bit of a block of an object of bitsSpec.
type bitAt struct {
	block    uint64
	position uint16
}

// SetNewBits tells which bits neither a commit nor the writer had, and of equal ones the first. What a use of a
// transaction staged that was refused is new again.
func TestSetNewBits(t *testing.T) {
	s := openStore(t, inMemory())
	s.create("k")
	rng := rand.New(rand.NewPCG(5, 6))
	has := make(map[bitAt]bool)

	// stage sets random bits, few or many, in any order. It adds them to those that there are.
	stage := func(w *kv.Writer, o *kv.Object, has map[bitAt]bool) {
		blk := rng.Uint64N(3)
		positions := make([]uint16, 1+rng.IntN(1+rng.IntN(300)))
		isNew, want, changed := make([]bool, len(positions)), make([]bool, len(positions)), 0
		for i := range positions {
			positions[i] = uint16(rng.IntN(1 << (4 + rng.IntN(12)))) // some come again soon
			isNew[i] = rng.IntN(2) == 0                              // it need not be cleared
			if at := (bitAt{blk, positions[i]}); !has[at] {
				has[at], want[i] = true, true
				changed++
			}
		}
		if rng.IntN(4) == 0 {
			isNew = nil
		}
		got, err := w.SetNewBits(o, o.Layers()[0], blk, positions, isNew)
		s.must(err)
		if got != changed || isNew != nil && !slices.Equal(isNew, want) {
			t.Errorf("%d of %d are new: %v, want %d: %v", got, positions, isNew, changed, want)
		}
	}
	for i := 0; i < 60 && !t.Failed(); i++ {
		if rng.IntN(2) == 0 {
			w, err := s.Begin(kv.NoSync, []byte("k"))
			s.must(err)
			o, err := w.Object([]byte("k"))
			s.must(err)
			for range 1 + rng.IntN(3) {
				stage(w, o, has)
			}
			s.must(w.Commit())
			continue
		}
		tx := s.exclusive()
		for range 1 + rng.IntN(5) {
			after, fails := maps.Clone(has), rng.IntN(3) == 0
			s.use(tx, "k", func(w *kv.Writer, o *kv.Object) error {
				if stage(w, o, after); fails {
					return errRefused
				}
				return nil
			})
			if !fails {
				has = after
			}
		}
		s.must(tx.Commit())
	}
	s.wantConsistent()
}
