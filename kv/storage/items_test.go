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
	"github.com/sievekv/sievekv/kv/probe"
)

// commitOf returns a small commit that adds random items of some blocks of a layer, and sets a bit of a block in which
// it adds none. It sets the same bits in want.
func commitOf(rng *rand.Rand, l Layer, layout *probe.Layout, blocks int, want map[uint64][]uint64) *SmallCommit {
	c := &SmallCommit{}
	words := func(blk uint64) []uint64 {
		if want[blk] == nil {
			want[blk] = make([]uint64, layout.BlockWords())
		}
		return want[blk]
	}
	for range blocks {
		blk := rng.Uint64N(layout.Blocks)
		if slices.ContainsFunc(c.Blocks, func(b BlockBits) bool { return b.Block == blk }) {
			continue
		}
		bits := new(block.BitSet)
		if len(c.Blocks) == blocks/2 {
			if p := uint16(rng.IntN(layout.BlockWords() * 64)); !block.IsSet(words(blk), p) {
				bits.Add(p)
			}
		} else {
			hashes := hashesOf(rng, layout, blk, 1+rng.IntN(3))
			bits.AddItems(layout, hashes, []bool{true, true, true}, len(hashes), len(hashes))
		}
		bits.Set(words(blk))
		c.Blocks = append(c.Blocks, BlockBits{Layer: l, Block: blk, Bits: bits})
	}
	return c
}

// hashesOf returns the hashes of n random items of a block.
func hashesOf(rng *rand.Rand, layout *probe.Layout, blk uint64, n int) (hashes []uint64) {
	first := sortedSearch(func(h uint64) bool { of, _ := layout.Block(h); return of >= blk })
	for len(hashes) < n {
		h := first + rng.Uint64()/layout.Blocks
		if of, _ := layout.Block(h); of == blk {
			hashes = append(hashes, h)
		}
	}
	return hashes
}

// sortedSearch returns the lowest number for which f is true.
func sortedSearch(f func(uint64) bool) (n uint64) {
	for bit := uint64(1) << 63; bit > 0; bit >>= 1 {
		if !f(n | bit - 1) {
			n |= bit
		}
	}
	return n
}

// A group has the bits of every item that is pending, and of no other. Its batch has each block's operand of items once,
// and is not larger than was estimated.
func TestGroup_items(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	for _, shape := range []struct{ blocks, lines, hashes, perItem uint64 }{
		{1, 128, 6, 1}, {1, 1, 1, 1}, {3, 128, 6, 1}, {700, 128, 6, 1}, {1023, 16, 18, 2}, {1024, 128, 10, 2},
		{1500, 128, 6, 1}, {5000, 128, 20, 3}, {1 << 30, 128, 6, 1},
	} {
		t.Run(fmt.Sprint(shape.blocks, "x", shape.lines, "x", shape.hashes), func(t *testing.T) {
			layout, err := probe.NewLayout(shape.blocks, shape.lines, shape.hashes, shape.perItem)
			if err != nil {
				t.Fatal(err)
			}
			var g group
			for range 2 { // an index that was emptied is as good as a new one
				layers := []Layer{{Object: 7, Number: 1}, {Object: 7, Number: 2}, {Object: 9, Number: 1}}
				want := make(map[Layer]map[uint64][]uint64)
				built := func() *pebble.Batch {
					batch := new(pebble.Batch)
					new(flushScratch).build(batch, &g)
					if size, most := CommitSize(batch), g.size+g.items.size; size > most && !batch.Empty() {
						t.Errorf("the batch takes %d bytes, estimated were %d at most", size, most)
					}
					return batch
				}
				for i := range 60 {
					l := layers[i%len(layers)]
					if want[l] == nil {
						want[l] = make(map[uint64][]uint64)
					}
					c := commitOf(rng, l, &layout, 20, want[l])
					if i%5 == 0 { // of two layers
						other := layers[(i+1)%len(layers)]
						if want[other] == nil {
							want[other] = make(map[uint64][]uint64)
						}
						c.Blocks = append(c.Blocks, commitOf(rng, other, &layout, 20, want[other]).Blocks...)
					}
					g.size += c.measure()
					g.items.size = g.items.sizeWith(c)
					g.add(c)
					if i == 0 {
						built()
					}
				}
				for l, blocks := range want {
					for blk, words := range blocks {
						got := make([]uint64, layout.BlockWords())
						p := pending{filling: g}
						p.added.Store(1)
						changes := p.changes(l, blk)
						block.SetBits(got, changes.Bits)
						if !slices.Equal(got, words) {
							t.Fatalf("block %d of layer %v has other bits pending", blk, l)
						}
					}
				}
				operands, stored := make(map[string]int), make(map[Layer]map[uint64][]uint64)
				EachChange(built(), func(_ Kind, key, value []byte) bool {
					k, err := format.DecodeObjectKey(key)
					if err != nil {
						t.Fatal(err)
					}
					l := Layer{k.Object, k.Part - format.PartLayers}
					words := make([]uint64, layout.BlockWords())
					if _, err := block.Decode(words, block.FamilyBits, value); err != nil {
						t.Fatalf("block %d: %v", k.Rest, err)
					}
					if stored[l] == nil {
						stored[l] = make(map[uint64][]uint64)
					}
					for i, before := range stored[l][k.Rest] {
						words[i] |= before
					}
					stored[l][k.Rest] = words
					if operands[string(key)]++; operands[string(key)] > 2 {
						t.Errorf("block %d has %d operands, want one of bits and one of items at most", k.Rest, operands[string(key)])
					}
					return true
				})
				for l, blocks := range want {
					for blk, words := range blocks {
						if got := stored[l][blk]; !slices.Equal(got, words) && (got != nil || slices.Max(words) > 0) {
							t.Fatalf("block %d of layer %v is stored with other bits", blk, l)
						}
					}
				}
				g.reset()
			}
		})
	}
}

// However many items come while a flush is under way, few are pending, and none is lost. The commit that completes a
// group asks for a flush.
func TestAppend_manyItems(t *testing.T) {
	s, err := Open("store", Options{
		FS: vfs.NewMem(), InMemory: true, TableCacheSize: 1 << 20, MemTableSize: 256 << 20,
		Logger: slog.New(slog.DiscardHandler), Failed: func(error) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	layout, err := probe.NewLayout(50, 128, 6, 1)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(13, 14))
	l, want, changed := Layer{Object: 1}, make(map[uint64][]uint64), new(atomic.Uint64)
	s.pending.flushes.Lock() // as if a flush were under way
	items := 0
	for {
		c := commitOf(rng, l, &layout, 40, want)
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
		items += c.items
		if want := items >= manyPendingItems || Pending(s) >= ManyPending; full != want {
			t.Fatalf("with %d items in %d commits, a flush is asked for: %t", items, Pending(s), full)
		}
	}
	if items > maxPendingItems || items < maxPendingItems-200 {
		t.Errorf("%d items were pending, want %d at most", items, maxPendingItems)
	}
	check := func() {
		t.Helper()
		for blk := range layout.Blocks {
			value, closer, changes, err := s.Block(l, blk)
			words := make([]uint64, layout.BlockWords())
			if err == nil {
				_, err = block.Decode(words, block.FamilyBits, value)
				_ = closer.Close()
			}
			if err != nil && err != ErrNotFound {
				t.Fatal(err)
			}
			block.SetBits(words, changes.Bits)
			for i, w := range words {
				if w != want[blk][i] {
					t.Fatalf("block %d has other bits", blk)
				}
			}
		}
	}
	check()
	s.Flush()
	check()
	s.End(func() bool { return false })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// A commit that sets many bits of one block is not pending, be they kept as positions or not.
func TestAppend_manyBits(t *testing.T) {
	s, err := Open("store", Options{
		FS: vfs.NewMem(), InMemory: true, TableCacheSize: 1 << 20, MemTableSize: 32 << 20,
		Logger: slog.New(slog.DiscardHandler), Failed: func(error) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, MaxSmallBits, MaxSmallBits + 1, 3 * MaxSmallBits} {
		var bits block.BitSet
		for p := range n {
			bits.Add(uint16(p))
		}
		c := SmallCommit{Blocks: []BlockBits{{Layer: Layer{Object: 1}, Bits: &bits}}}
		if appended, _ := s.Append(&c, new(atomic.Uint64)); appended != (n <= MaxSmallBits) {
			t.Errorf("a commit of %d bits is pending: %t", n, appended)
		}
	}
	s.End(func() bool { return false })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// A lookup that began with a larger layer of the same number finds no items in blocks that the layer has no more.
func TestGroup_largerLayer(t *testing.T) {
	layout, err := probe.NewLayout(4, 16, 6, 1)
	if err != nil {
		t.Fatal(err)
	}
	rng, l := rand.New(rand.NewPCG(1, 2)), Layer{Object: 7, Number: 1}
	var g group
	g.add(commitOf(rng, l, &layout, 4, make(map[uint64][]uint64)))
	for _, blk := range []uint64{4, 5, 999, 1 << 29} {
		if found := g.items.appendBits(nil, l, blk); found != nil {
			t.Errorf("block %d has bits %d", blk, found)
		}
	}
}
