package kv

import (
	"cmp"
	"slices"
	"unsafe"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/probe"
)

// bitBlock is the bits that are staged for one block.
type bitBlock struct {
	stagedPlace
	before int // the block of the same layer before it, plus 1
	block.BitSet
}

// addedBit is a bit that was staged since the savepoint.
type addedBit struct {
	block    int // index in changes.bits
	position uint16
}

// SetBits stages the setting of bits of one block, given as ascending positions without repeats, below 512 for each
// line of the block. It returns how many of them no earlier commit and no earlier call of this writer has set.
func (w *Writer) SetBits(o *Object, l *Layer, blk uint64, positions []uint16) (changed int, err error) {
	return w.SetNewBits(o, l, blk, positions, nil)
}

// SetNewBits is SetBits, and sets isNew[i] to whether positions[i] was not set. Of equal positions only the first is new.
// It is fastest if the positions ascend. isNew may be nil.
func (w *Writer) SetNewBits(o *Object, l *Layer, blk uint64, positions []uint16, isNew []bool) (changed int, err error) {
	clear(isNew)
	first, err := w.block(o, l, blk)
	if err != nil {
		return 0, err
	}
	words, staged := l.Words(first), w.findBits(l, blk)
	if staged >= 0 {
		w.bits[staged].Expand(words)
	}
	for i, p := range positions {
		if block.IsSet(words, p) {
			continue
		}
		if staged < 0 {
			staged = w.addBitBlock(l, blk)
		}
		if w.bits[staged].Add(p) {
			changed++
			if isNew != nil {
				isNew[i] = true
			}
			w.grow(4)
			w.bitCount++
			if w.savepoint.id != 0 {
				w.added = append(w.added, addedBit{staged, p})
			}
		}
	}
	return changed, w.fits()
}

// HasBits reports whether all of the bits are set, by a commit or this writer.
func (w *Writer) HasBits(o *Object, l *Layer, blk uint64, positions []uint16) (bool, error) {
	first, err := w.block(o, l, blk)
	if err != nil {
		return false, err
	}
	words, staged := l.Words(first), w.findBits(l, blk)
	if staged >= 0 {
		w.bits[staged].Expand(words)
	}
	for _, p := range positions {
		if !block.IsSet(words, p) && (staged < 0 || !w.bits[staged].Has(p)) {
			return false, nil
		}
	}
	return true, nil
}

// HasItems sets found[i] to whether all bits of the item with hash hashes[i] are set, by a commit or this writer. It is
// fastest if items of one block follow each other.
func (w *Writer) HasItems(o *Object, l *Layer, layout *probe.Layout, hashes []uint64, found []bool) error {
	var buf [probe.MaxHashes]uint16
	for len(hashes) > 0 {
		blk, n := layout.SameBlock(hashes)
		first, err := w.block(o, l, blk)
		if err != nil {
			return err
		}
		layout.TestAll(first, hashes[:n], found)
		for i := 0; i < n && w.findBits(l, blk) >= 0; i++ {
			if found[i] {
				continue
			}
			if found[i], err = w.HasBits(o, l, blk, layout.AppendPositions(buf[:0], hashes[i])); err != nil {
				return err
			}
		}
		hashes, found = hashes[n:], found[n:]
	}
	return nil
}

// SetItems stages the setting of the bits of items of one block, given by their hashes, one after the other. It sets
// added[i] to whether item i set a bit that was not set before. It returns how many items did, and how many bits they
// set. It works as SetBits, for many items of a block at a time.
func (w *Writer) SetItems(o *Object, l *Layer, layout *probe.Layout, blk uint64, hashes []uint64, added []bool) (items, ones int, err error) {
	first, err := w.block(o, l, blk)
	if err != nil {
		return 0, 0, err
	}
	d, staged := probe.NewDraft(first), w.findBits(l, blk)
	defer d.Release()
	if layout.Prepare(d, hashes); staged >= 0 {
		w.bits[staged].AddTo(d, &w.positions)
	}
	for i, h := range hashes {
		n := layout.Add(d, h)
		if added[i] = n > 0; added[i] {
			items++
			ones += n
		}
	}
	if ones == 0 {
		return 0, 0, nil
	}
	if staged < 0 {
		staged = w.addBitBlock(l, blk)
	}
	w.bitCount += ones
	b := &w.bits[staged]
	if w.savepoint.id == 0 && b.AddItems(layout, hashes, added, items, ones) { // items cannot be taken back
		w.grow(8 * items)
		return items, ones, w.fits()
	}
	w.grow(4 * ones)
	b.Expand(l.Words(first))
	w.positions = d.AppendNew(w.positions[:0])
	for _, p := range w.positions {
		if b.Add(p) && w.savepoint.id != 0 {
			w.added = append(w.added, addedBit{staged, p})
		}
	}
	return items, ones, w.fits()
}

// AddWords stages words at the end of a list, see LayoutLog. The first gets number i of the list.
func (w *Writer) AddWords(o *Object, l *Layer, i uint64, words []uint64) (err error) {
	if l.Spec().Layout == LayoutLog {
		w.db.stats.loggedBytes.Add(8 * uint64(len(words)))
	}
	for j, word := range words {
		blk, at := (i+uint64(j))/block.MaxWords, int((i+uint64(j))%block.MaxWords)
		if w.savepoint.id != 0 { // words cannot be taken back
			_, err = w.SetBits(o, l, blk, block.AppendWordBits(nil, at, words[j:j+1]))
		} else {
			n := w.findBits(l, blk)
			if n < 0 {
				n = w.addBitBlock(l, blk)
			}
			w.bitCount -= w.bits[n].Len()
			w.bits[n].AddWord(at, word)
			w.bitCount += w.bits[n].Len()
			w.grow(8)
			err = w.fits()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ItemBytes returns how many bytes of the commit an item of SetItems takes at most, besides the block's operand.
func (w *Writer) ItemBytes(layout *probe.Layout) int {
	if w.savepoint.id != 0 || w.bitCount > 0 { // what is staged of the block may keep items from being stored as such
		return 2 * int(layout.Hashes)
	}
	return block.ItemBytes(layout)
}

// findBits returns the index of a block in w.bits, -1 if none of its bits are staged.
func (w *Writer) findBits(l *Layer, blk uint64) int {
	n := w.ordinal(l)
	if n < 0 || len(w.bits) == 0 {
		return -1
	}
	place := stagedPlace{n, blk}
	if !w.shuffled && w.bits[len(w.bits)-1].compare(place) < 0 {
		return -1
	}
	if w.bitIndex == nil && len(w.bits) > fewStaged {
		w.bitIndex = make(map[stagedPlace]int)
		for i := range w.bits {
			w.bitIndex[w.bits[i].stagedPlace] = i
		}
	}
	if w.bitIndex != nil {
		if i, ok := w.bitIndex[place]; ok {
			return i
		}
		return -1
	}
	for i := len(w.bits) - 1; i >= 0; i-- {
		w.steps++
		if w.bits[i].stagedPlace == place {
			return i
		}
	}
	return -1
}

// compare compares places: by their layers first, then by their blocks.
func (p stagedPlace) compare(other stagedPlace) int {
	return cmp.Or(cmp.Compare(p.ordinal, other.ordinal), cmp.Compare(p.blk, other.blk))
}

// addBitBlock adds a block to w.bits that is not there.
func (w *Writer) addBitBlock(l *Layer, blk uint64) int {
	n, i := w.addLayer(l), len(w.bits)
	w.grow(2 * int(unsafe.Sizeof(bitBlock{})))
	s := &w.layers[n]
	if i < cap(w.bits) {
		w.bits = w.bits[:i+1] // its positions keep their memory
	} else {
		w.bits = append(w.bits, bitBlock{})
	}
	b := &w.bits[i]
	b.stagedPlace, b.before = stagedPlace{n, blk}, s.bits
	b.Reset(maxKept)
	s.bits = i + 1
	if w.bitIndex != nil {
		w.bitIndex[b.stagedPlace] = i
	}
	w.shuffled = w.shuffled || i > 0 && w.bits[i-1].compare(b.stagedPlace) > 0
	return i
}

// takeBackBits takes back the bits staged since the savepoint, when w.bits had n blocks.
func (w *Writer) takeBackBits(n int) {
	for _, bit := range slices.Backward(w.added) {
		w.bits[bit.block].Remove(bit.position)
		w.bitCount--
	}
	for i := len(w.bits) - 1; i >= n; i-- {
		b := &w.bits[i]
		w.layers[b.ordinal].bits = b.before
		delete(w.bitIndex, b.stagedPlace)
		b.Reset(maxKeptPositions)
	}
	w.bits = w.bits[:n]
}
