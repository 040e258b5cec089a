package storage

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/kv/block"
	"github.com/sievekv/sievekv/kv/format"
)

// slotBlocks has what blocks of one line of each layer should have.
type slotBlocks map[Layer]map[uint64][]uint64

// draw returns a commit that gives slots of a layer new values, some of them twice.
func (m slotBlocks) draw(rng *rand.Rand, l Layer, family block.Family, blocks, slots int) *SmallCommit {
	c := new(SmallCommit)
	for range 1 + rng.IntN(2) {
		b := BlockSlots{Layer: l, Block: uint64(rng.IntN(blocks)), Family: family}
		for range 1 + rng.IntN(slots) {
			b.Slots = append(b.Slots, block.Slot{Index: uint16(rng.IntN(family.Slots(1))), Value: rng.Uint32() & uint32(uint64(1)<<family.Width()-1)})
		}
		if m[l] == nil {
			m[l] = make(map[uint64][]uint64)
		}
		if m[l][b.Block] == nil {
			m[l][b.Block] = make([]uint64, block.LineWords)
		}
		block.SetSlots(m[l][b.Block], family, b.Slots)
		c.Slots = append(c.Slots, b)
	}
	return c
}

// A group has the last value of each slot that is pending, in a block and in one operand of its batch, which is not
// larger than was estimated.
func TestGroup_slots(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	for _, family := range []block.Family{block.FamilySlots4, block.FamilySlots8, block.FamilySlots12, block.FamilySlots16, block.FamilySlots32} {
		for _, blocks := range []int{1, 40, format.MaxBlocks} {
			t.Run(fmt.Sprint(family, " in ", blocks), func(t *testing.T) {
				var g group
				var scratch flushScratch
				for range 2 { // an index that was emptied is as good as a new one
					layers, want := []Layer{{Object: 9, Number: 1}, {Object: 7, Number: 1}, {Object: 7, Number: 2}}, make(slotBlocks)
					size := 0
					for i := range 200 {
						c := want.draw(rng, layers[i%len(layers)], family, blocks, 12)
						size += c.measure()
						g.add(c)
					}
					p := pending{filling: g}
					p.added.Store(1)
					stored := make(slotBlocks)
					batch := new(pebble.Batch)
					scratch.build(batch, &g)
					if got := CommitSize(batch); got > size {
						t.Errorf("the batch takes %d bytes, estimated were %d at most", got, size)
					}
					before := make(map[Layer]uint64)
					EachChange(batch, func(_ Kind, key, value []byte) bool {
						k, err := format.DecodeObjectKey(key)
						l := Layer{k.Object, k.Part - format.PartLayers}
						if err != nil || stored[l][k.Rest] != nil || k.Rest < before[l] {
							t.Fatalf("operand of block %d of %v, after block %d: %v", k.Rest, l, before[l], err)
						}
						before[l] = k.Rest
						words := make([]uint64, block.LineWords)
						if _, err := block.Decode(words, family, value); err != nil {
							t.Fatalf("block %d: %v", k.Rest, err)
						}
						if stored[l] == nil {
							stored[l] = make(map[uint64][]uint64)
						}
						stored[l][k.Rest] = words
						return true
					})
					for l, blocks := range want {
						if len(stored[l]) != len(blocks) {
							t.Errorf("%d blocks of %v are stored, want %d", len(stored[l]), l, len(blocks))
						}
						for blk, words := range blocks {
							got, changes := make([]uint64, block.LineWords), p.changes(l, blk)
							block.SetSlots(got, family, changes.Slots)
							if !slices.Equal(got, words) || !slices.Equal(stored[l][blk], words) {
								t.Fatalf("block %d of %v is %x, and %x is stored, want %x", blk, l, got, stored[l][blk], words)
							}
						}
					}
					other := p.changes(Layer{Object: 8, Number: 1}, 0)
					if len(other.Bits)+len(other.Slots) > 0 {
						t.Error("a layer that nobody changed has changes")
					}
					g.reset()
					if left := g.slots.appendSlots(nil, layers[0], 0); left != nil {
						t.Errorf("slots %v are pending after all were removed", left)
					}
				}
			})
		}
	}
}

func openPending(t *testing.T) *Store {
	t.Helper()
	s, err := Open("store", Options{
		FS: vfs.NewMem(), InMemory: true, TableCacheSize: 1 << 20, MemTableSize: 256 << 20,
		Logger: slog.New(slog.DiscardHandler), Failed: func(error) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.End(func() bool { return false })
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// However many slots change while a flush is under way, few are pending, and none is lost. The commit that makes them
// many asks for a flush.
func TestAppend_manySlots(t *testing.T) {
	s, rng, want := openPending(t), rand.New(rand.NewPCG(23, 24)), make(slotBlocks)
	const blocks = 50
	l, changed, slots := Layer{Object: 1}, new(atomic.Uint64), 0
	s.pending.flushes.Lock() // as if a flush were under way
	for {
		c := want.draw(rng, l, block.FamilySlots16, blocks, 100)
		c.measure()
		appended, full := s.Append(c, changed)
		if !appended {
			s.pending.flushes.Unlock()
			s.Flush()
			if appended, _ = s.Append(c, changed); !appended {
				t.Error("a commit has no room when all others are flushed")
			}
			break
		}
		slots += c.slots
		if want := slots > manyPendingSlots; full != want {
			t.Fatalf("with %d slots in %d commits, a flush is asked for: %t", slots, Pending(s), full)
		}
	}
	if slots > maxPendingSlots || slots < maxPendingSlots-200 {
		t.Errorf("%d slots were pending, want %d at most", slots, maxPendingSlots)
	}
	for range 2 {
		for blk := range uint64(blocks) {
			value, closer, changes, err := s.Block(l, blk)
			words := make([]uint64, block.LineWords)
			if err == nil {
				_, err = block.Decode(words, block.FamilySlots16, value)
				_ = closer.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
			block.SetSlots(words, block.FamilySlots16, changes.Slots)
			if !slices.Equal(words, want[l][blk]) {
				t.Fatalf("block %d is %x, want %x", blk, words, want[l][blk])
			}
		}
		s.Flush()
	}
}

// Slots of few layers are pending, and a commit that changes many is not.
func TestAppend_slotLimits(t *testing.T) {
	s := openPending(t)
	commit := func(object uint64, n int) *SmallCommit {
		return &SmallCommit{Slots: []BlockSlots{{Layer: Layer{Object: object}, Family: block.FamilySlots8, Slots: make([]block.Slot, n)}}}
	}
	for _, n := range []int{1, MaxSmallSlots, MaxSmallSlots + 1} {
		if appended, _ := s.Append(commit(1, n), new(atomic.Uint64)); appended != (n <= MaxSmallSlots) {
			t.Errorf("a commit of %d slots is pending: %t", n, appended)
		}
	}
	many := commit(1, 1)
	for blk := range uint64(2 * maxPendingLayers) {
		many.Slots = append(many.Slots, many.Slots[0])
		many.Slots[blk+1].Block = blk + 1
	}
	if appended, _ := s.Append(many, new(atomic.Uint64)); !appended {
		t.Errorf("a commit to %d blocks of a layer is not pending", len(many.Slots))
	}
	for object := uint64(2); object <= maxPendingLayers+1; object++ {
		if appended, _ := s.Append(commit(object, 1), new(atomic.Uint64)); appended != (object <= maxPendingLayers) {
			t.Errorf("a commit to layer %d of %d is pending: %t", object, maxPendingLayers, appended)
		}
	}
}
