package storage

import (
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sievekv/sievekv/kv/block"
	"github.com/sievekv/sievekv/kv/format"
)

// A group has all words that commits add to lists, in each block and in one operand of its batch, which is not larger than
// was estimated. Between them the group is emptied, so that a list goes on in the middle of a block.
func TestGroup_runs(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 32))
	layers := []Layer{{Object: 9, Number: 1}, {Object: 7, Number: 1}, {Object: 7, Number: 2}}
	lists := make(map[Layer][]uint64)
	read := make(map[Layer]map[uint64][]uint64)
	var g group
	var scratch flushScratch
	for range 20 {
		size, begun := 0, make(map[Layer]uint64)
		for _, l := range layers {
			begun[l] = uint64(len(lists[l])) / block.MaxWords
		}
		for range 60 {
			l := layers[rng.IntN(len(layers))]
			c, n := new(SmallCommit), 1
			if rng.IntN(10) == 0 {
				n += rng.IntN(3 * block.MaxWords)
			}
			for range n {
				at := len(lists[l])
				if blk := uint64(at / block.MaxWords); len(c.Blocks) == 0 || c.Blocks[len(c.Blocks)-1].Block != blk {
					c.Blocks = append(c.Blocks, BlockBits{Layer: l, Block: blk, Bits: new(block.BitSet)})
				}
				word := rng.Uint64()
				c.Blocks[len(c.Blocks)-1].Bits.AddWord(at%block.MaxWords, word)
				lists[l] = append(lists[l], word)
			}
			size += c.measure() + g.runs.sizeOf(c)
			g.add(c)
		}
		p := pending{filling: g}
		p.added.Store(1)
		batch := new(pebble.Batch)
		scratch.build(batch, &g)
		if got := CommitSize(batch); got > size {
			t.Errorf("the batch takes %d bytes, estimated were %d at most", got, size)
		}
		seen := make(map[string]bool)
		EachChange(batch, func(_ Kind, key, value []byte) bool {
			k, err := format.DecodeObjectKey(key)
			if err != nil || seen[string(key)] {
				t.Fatalf("operand of key %x, seen %t: %v", key, seen[string(key)], err)
			}
			seen[string(key)] = true
			l := Layer{k.Object, k.Part - format.PartLayers}
			if read[l] == nil {
				read[l] = make(map[uint64][]uint64)
			}
			if read[l][k.Rest] == nil {
				read[l][k.Rest] = make([]uint64, block.MaxWords)
			}
			if err := block.Patch(read[l][k.Rest], block.FamilyBits, value); err != nil {
				t.Fatal(err)
			}
			return true
		})
		for l, list := range lists {
			want := append(slices.Clone(list), make([]uint64, block.MaxWords)...)
			for blk := uint64(0); blk*block.MaxWords < uint64(len(list)); blk++ {
				words := want[blk*block.MaxWords:][:block.MaxWords]
				if !slices.Equal(read[l][blk], words) {
					t.Fatalf("block %d of %v is stored with other words than were added", blk, l)
				}
				if blk < begun[l] {
					continue
				}
				got := slices.Clone(read[l][blk])
				block.SetBits(got, p.changes(l, blk).Bits)
				if blk > begun[l] { // all of it is pending
					clear(got)
					block.SetBits(got, p.changes(l, blk).Bits)
				}
				if !slices.Equal(got, words) {
					t.Fatalf("block %d of %v is pending with other words than were added", blk, l)
				}
			}
		}
		if got := p.changes(Layer{Object: 8, Number: 1}, 0); len(got.Bits)+len(got.Slots) > 0 {
			t.Error("a layer that nobody changed has changes")
		}
		g.reset()
		if left := g.runs.appendBits(nil, layers[0], 0); left != nil {
			t.Errorf("bits %v are pending after all were removed", left)
		}
	}
}

// However many words are added while a flush is under way, no more are pending than fit into a batch.
func TestAppend_manyRuns(t *testing.T) {
	s, l, changed := openPending(t), Layer{Object: 1}, new(atomic.Uint64)
	most := MaxCommit(s.opts.MemTableSize)
	s.pending.flushes.Lock() // as if a flush were under way
	n, asked := 0, false
	for {
		c := &SmallCommit{Blocks: []BlockBits{{Layer: l, Block: uint64(n) / block.MaxWords, Bits: new(block.BitSet)}}}
		for i := range block.MaxWords {
			c.Blocks[0].Bits.AddWord(i, uint64(n+i))
		}
		appended, full := s.Append(c, changed)
		if !appended {
			break
		}
		n += block.MaxWords
		if asked = asked || full; n*8 > most {
			t.Fatalf("%d words are pending, more than the %d bytes of a batch", n, most)
		}
	}
	s.pending.flushes.Unlock()
	s.Flush()
	if n*8 < most/4 || !asked {
		t.Errorf("%d words were pending, a flush asked for: %t", n, asked)
	}
	for _, blk := range []uint64{0, uint64(n)/block.MaxWords - 1} {
		value, closer, _, err := s.Block(l, blk)
		if err != nil {
			t.Fatal(err)
		}
		words := make([]uint64, block.MaxWords)
		if _, err := block.Decode(words, block.FamilyBits, value); err != nil || words[5] != blk*block.MaxWords+5 {
			t.Errorf("block %d has %d in place of %d: %v", blk, words[5], blk*block.MaxWords+5, err)
		}
		if err := closer.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
