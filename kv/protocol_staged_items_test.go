package kv_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/probe"
	"github.com/sievekv/sievekv/kv"
)

// itemsOf returns a layout of a layer, and the hashes of n items of one of its blocks.
func itemsOf(rng *rand.Rand, l *kv.Layer, blk uint64, n int) (*probe.Layout, []uint64) {
	layout, err := probe.NewLayout(l.Spec().Blocks, uint64(l.Spec().Lines), 9, 2)
	if err != nil {
		panic(err)
	}
	hashes := make([]uint64, 0, n)
	for len(hashes) < n {
		h := rng.Uint64()
		if of, _ := layout.Block(h); of == blk {
			hashes = append(hashes, h)
		}
	}
	return &layout, hashes
}

// A few items may come after many of the same block, whose bits take the place of the items before. What is stored is in
// memory and on the disk.
func TestStaged_fewItemsAfterMany(t *testing.T) {
	s := openStore(t, inMemory())
	s.create("k")
	rng := rand.New(rand.NewPCG(7, 8))
	spec := s.layer("k").Spec()
	layout, err := probe.NewLayout(spec.Blocks, uint64(spec.Lines), 3, 1) // three positions are shorter than an item
	s.must(err)
	var hashes []uint64
	for len(hashes) < 601 {
		if h := rng.Uint64(); h < math.MaxUint64/spec.Blocks {
			hashes = append(hashes, h)
		}
	}
	added := make([]bool, len(hashes))
	s.must(s.write("k", func(w *kv.Writer, o *kv.Object) error {
		l := o.Layers()[0]
		for _, part := range [][]uint64{hashes[:20], hashes[20:600], hashes[600:]} { // the bits of this number take less
			if _, _, err := w.SetItems(o, l, &layout, 0, part, added[:len(part)]); err != nil {
				return err
			}
		}
		return nil
	}))
	s.must(s.write("k", func(w *kv.Writer, o *kv.Object) error {
		if err := w.HasItems(o, o.Layers()[0], &layout, hashes, added); err != nil || slices.Contains(added, false) {
			return fmt.Errorf("items are missing, %w", err)
		}
		return nil
	}))
	want := make([]uint64, int(spec.Lines)*block.LineWords)
	for _, h := range hashes {
		layout.Set(want, h)
	}
	if !slices.Equal(s.storedBits("k", 0), want) {
		t.Error("the block is stored with other bits than those of its items")
	}
}

// SetItems stages what SetBits stages of the items one after the other, and answers the same, on top of what is
// committed and of what is staged. HasItems finds them while they are staged.
func TestStaged_items(t *testing.T) {
	s := openStore(t, inMemory())
	s.create("many")
	s.create("single")
	rng := rand.New(rand.NewPCG(7, 8))
	blocks := s.layer("many").Spec().Blocks
	var last []uint64
	for range 60 {
		blk := rng.Uint64N(blocks)
		layout, hashes := itemsOf(rng, s.layer("many"), blk, 1+rng.IntN(60))
		for range rng.IntN(10) {
			hashes = append(hashes, hashes[rng.IntN(len(hashes))]) // once more
		}
		cut := rng.IntN(len(hashes)) // the first ones are staged before the others
		looks := rng.IntN(2) == 0    // HasItems looks at what is staged
		_, others := itemsOf(rng, s.layer("many"), (blk+1)%blocks, 3)
		others = append(others, last...) // of the round before
		last = hashes
		var first []bool // what SetItems and HasItems answered
		var items, ones int
		s.must(s.write("many", func(w *kv.Writer, o *kv.Object) error {
			l := o.Layers()[0]
			for _, part := range [][]uint64{hashes[:cut], hashes[cut:]} {
				if looks {
					ask := slices.Concat(part, others, part)
					found := make([]bool, len(ask))
					if err := w.HasItems(o, l, layout, ask, found); err != nil {
						return err
					}
					first = append(first, found...)
				}
				added := make([]bool, len(part))
				n, bits, err := w.SetItems(o, l, layout, blk, part, added)
				if err != nil {
					return err
				}
				first, items, ones = append(first, added...), items+n, ones+bits
				if found := make([]bool, len(part)); looks {
					if err := w.HasItems(o, l, layout, part, found); err != nil || slices.Contains(found, false) {
						return fmt.Errorf("HasItems does not find an item that is staged: %w", err)
					}
				}
			}
			return nil
		}))
		var second []bool
		s.must(s.write("single", func(w *kv.Writer, o *kv.Object) error {
			l := o.Layers()[0]
			for _, part := range [][]uint64{hashes[:cut], hashes[cut:]} {
				for _, h := range slices.Concat(part, others, part) {
					if !looks {
						break
					}
					of, _ := layout.Block(h)
					found, err := w.HasBits(o, l, of, layout.AppendPositions(nil, h))
					if err != nil {
						return err
					}
					second = append(second, found)
				}
				for _, h := range part {
					n, err := w.SetBits(o, l, blk, layout.AppendPositions(nil, h))
					if err != nil {
						return err
					}
					second = append(second, n > 0)
					ones -= n
					if n > 0 {
						items--
					}
				}
			}
			return nil
		}))
		if !slices.Equal(first, second) || items != 0 || ones != 0 {
			t.Fatalf("SetItems and SetBits answer differently: %d items, %d bits", items, ones)
		}
	}
	for blk := range blocks {
		many, single := s.storedBits("many", blk), s.storedBits("single", blk)
		if !slices.Equal(many, single) {
			t.Errorf("block %d is stored with other bits by SetItems than by SetBits", blk)
		}
	}
}

// Bits that are staged are found also if their blocks were staged in descending order, and are not counted again.
func TestStaged_order(t *testing.T) {
	s := openStore(t, inMemory())
	s.create("k")
	blocks := s.layer("k").Spec().Blocks
	s.must(s.write("k", func(w *kv.Writer, o *kv.Object) error {
		l := o.Layers()[0]
		for again := range 2 {
			for i := range blocks {
				n, err := w.SetBits(o, l, blocks-1-i, []uint16{7})
				if err != nil {
					return err
				}
				if n != 1-again {
					t.Errorf("block %d: %d bits are new, want %d", blocks-1-i, n, 1-again)
				}
			}
		}
		return nil
	}))
}

// Bits are looked for in an index once there are many blocks. It has the blocks of uses that stay, also after others
// were forgotten, and none of a use that was refused.
func TestStaged_bitIndex(t *testing.T) {
	o := inMemory()
	o.MemTableSize = 1 << 20
	s := openStore(t, o)
	const kept = 30 // blocks, more than are looked for one by one
	tx := s.exclusive()
	s.use(tx, "other", func(w *kv.Writer, _ *kv.Object) error {
		_, err := w.Create([]byte("k"), kv.Spec{Type: bitsType, Family: block.FamilyBits, Layers: []kv.LayerSpec{{Blocks: 64, Lines: 1}}})
		return err
	})
	set := func(w *kv.Writer, o *kv.Object, blk uint64, want int) error {
		n, err := w.SetBits(o, o.Layers()[0], blk, []uint16{7})
		if err == nil && n != want {
			err = fmt.Errorf("block %d: %d bits are new, want %d", blk, n, want)
		}
		return err
	}
	again := func(w *kv.Writer, o *kv.Object) (err error) {
		for blk := kept; blk > 0 && err == nil; blk-- {
			err = set(w, o, uint64(blk), 0)
		}
		return err
	}
	s.use(tx, "k", func(w *kv.Writer, o *kv.Object) (err error) {
		for blk := kept; blk > 0 && err == nil; blk-- { // descending, so that it is not known that a block is new
			err = set(w, o, uint64(blk), 1)
		}
		return err
	})
	s.use(tx, "k", func(w *kv.Writer, o *kv.Object) error {
		return errors.Join(again(w, o), set(w, o, kept+1, 1), errRefused)
	})
	s.use(tx, "k", func(w *kv.Writer, o *kv.Object) error { return set(w, o, kept+2, 1) })
	s.use(tx, "k", func(w *kv.Writer, o *kv.Object) error { return errors.Join(again(w, o), set(w, o, kept+1, 1)) })
	for range 40 { // what is staged of those that are gone is forgotten now and then
		s.use(tx, "other", func(w *kv.Writer, _ *kv.Object) error {
			o, err := w.Create([]byte("gone"), bitsSpec())
			if err == nil {
				_, err = w.SetBits(o, o.Layers()[0], 0, []uint16{1})
			}
			return err
		})
		s.use(tx, "other", func(w *kv.Writer, _ *kv.Object) error {
			_, err := w.Set([]byte("gone"), make([]byte, 10_000), kv.SetOptions{})
			return err
		})
		s.use(tx, "k", again)
	}
	s.must(tx.Commit())
	s.wantConsistent()
}

// A large commit is applied to each of its blocks, whether the block is in memory, is zeros that all blocks share, or is
// not in memory.
func TestApply_large(t *testing.T) {
	const blocks = 2048
	for _, way := range []func(*kv.Options) *kv.Options{kv.Direct, kv.Gathering} {
		s := openStore(t, way(inMemory()))
		s.must(s.write("k", func(w *kv.Writer, _ *kv.Object) error {
			_, err := w.Create([]byte("k"), kv.Spec{Type: bitsType, Family: block.FamilyBits, Layers: []kv.LayerSpec{{Blocks: blocks, Lines: 8}}})
			return err
		}))
		layout, err := probe.NewLayout(blocks, 8, 12, 1)
		s.must(err)
		hash := func(blk, i uint64) uint64 { return blk<<53 | i<<40 }
		add := func(from, i uint64) {
			t.Helper()
			s.must(s.write("k", func(w *kv.Writer, o *kv.Object) error {
				for blk := from; blk < blocks; blk++ {
					if _, _, err := w.SetItems(o, o.Layers()[0], &layout, blk, []uint64{hash(blk, i)}, make([]bool, 1)); err != nil {
						return err
					}
				}
				return nil
			}))
		}
		add(blocks/2, 1)
		for blk := uint64(0); blk < blocks; blk += 5 {
			s.EvictBlock(s.layer("k"), blk)
		}
		add(0, 2)
		found := make([]bool, 1)
		s.must(s.write("k", func(w *kv.Writer, o *kv.Object) error {
			for blk := range uint64(blocks) {
				for i := uint64(2); i > 0 && (i == 2 || blk >= blocks/2); i-- {
					if err := w.HasItems(o, o.Layers()[0], &layout, []uint64{hash(blk, i)}, found); err != nil || !found[0] {
						return fmt.Errorf("block %d lacks item %d, %w", blk, i, err)
					}
				}
			}
			return nil
		}))
		s.wantConsistent()
		compared, err := s.CompareResident()
		if s.must(err); compared < blocks/2 {
			t.Errorf("%d blocks are in memory, want most of %d", compared, blocks)
		}
	}
}

// What Room leaves for a commit fits, at every level: items that are to be joined with others do not count for more.
func TestGather_room(t *testing.T) {
	for _, level := range []kv.Durability{kv.Always, kv.NoSync} {
		s := openGathering(t, &kv.Options{InMemory: true, Durability: kv.NoSync, MemTableSize: 256 << 10}, newStops())
		s.create("k")
		rng := rand.New(rand.NewPCG(7, 8))
		err := s.DB.Write(level, [][]byte{[]byte("k"), []byte("s")}, func(w *kv.Writer) error {
			o, err := w.Object([]byte("k"))
			if err != nil {
				return err
			}
			l := o.Layers()[0]
			for blk := range uint64(3) {
				layout, hashes := itemsOf(rng, l, 0, 0)
				for range 520 {
					part := ^uint64(0) / l.Spec().Blocks
					h := blk*part + part/4 + rng.Uint64N(part/2)
					if of, _ := layout.Block(h); of != blk {
						panic(of)
					}
					hashes = append(hashes, h)
				}
				if _, _, err := w.SetItems(o, l, layout, blk, hashes, make([]bool, len(hashes))); err != nil {
					return err
				}
			}
			if _, err = w.Set([]byte("s"), bytes.Repeat([]byte("v"), 37<<10), kv.SetOptions{}); err != nil {
				return err
			}
			if w.Room() < 0 {
				t.Error("there is no room left")
			}
			return nil
		})
		if err != nil {
			t.Errorf("level %v: %v", level, err)
		}
		s.Close()
	}
}
