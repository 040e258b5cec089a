package storage

import (
	"github.com/sievekv/sievekv/kv/block"
	"github.com/sievekv/sievekv/kv/format"
)

// runIndex has the words that pending commits add to lists of words, see block.BitSet.AddWord. A layer with a list has
// block.MaxWords of them in a block, so what follows the last word of a block is in the next.
type runIndex struct {
	runs  []pendingRun
	spare []uint64 // memory for the first run
}

// pendingRun are words of a layer, one behind the other.
type pendingRun struct {
	layer Layer
	first uint64 // number of the first word among those of the layer
	words []uint64
}

// runOf returns the words of a block that are a run, and the number of the first among those of the layer; none if its
// bits are no run.
func (b *BlockBits) runOf() (first uint64, words []uint64) {
	n, words := b.Bits.Run()
	return b.Block*block.MaxWords + uint64(n), words
}

// follows returns the run of a layer that goes on with word n, nil if there is none.
func (x *runIndex) follows(l Layer, n uint64) *pendingRun {
	for i := range x.runs {
		if r := &x.runs[i]; r.layer == l && r.first+uint64(len(r.words)) == n {
			return r
		}
	}
	return nil
}

// add adds words of a block.
func (x *runIndex) add(l Layer, first uint64, words []uint64) {
	r := x.follows(l, first)
	if r == nil {
		x.runs = append(x.runs, pendingRun{layer: l, first: first, words: x.spare})
		x.spare = nil
		r = &x.runs[len(x.runs)-1]
	}
	r.words = append(r.words, words...)
}

// sizeOf returns an upper bound of what a commit's runs add to a batch, as CommitSize counts it. Each block has one
// operand.
func (x *runIndex) sizeOf(c *SmallCommit) (size int) {
	for i := range c.Blocks {
		first, words := c.Blocks[i].runOf()
		if size += 8 * len(words); len(words) > 0 && (first%block.MaxWords == 0 || x.follows(c.Blocks[i].Layer, first) == nil) {
			size += perSmall
		}
	}
	return size
}

// appendBits appends the positions of the bits of a block.
func (x *runIndex) appendBits(positions []uint16, l Layer, blk uint64) []uint16 {
	from, to := blk*block.MaxWords, (blk+1)*block.MaxWords
	for i := range x.runs {
		r := &x.runs[i]
		end := r.first + uint64(len(r.words))
		if r.layer != l || end <= from || r.first >= to {
			continue
		}
		at := max(from, r.first)
		positions = block.AppendWordBits(positions, int(at-from), r.words[at-r.first:min(end, to)-r.first])
	}
	return positions
}

// reset removes all words. It keeps the memory of one run.
func (x *runIndex) reset() {
	if x.runs = x.runs[:min(1, len(x.runs))]; len(x.runs) > 0 {
		x.spare = x.runs[0].words[:0]
	}
	if cap(x.spare) > keptItems {
		x.spare = nil
	}
	clear(x.runs)
	x.runs = x.runs[:0]
}

// buildRuns adds the words to a batch, one operand for each block.
func (s *flushScratch) buildRuns(batch *Batch, from *runIndex) {
	for _, r := range from.runs {
		for len(r.words) > 0 {
			blk, first := r.first/block.MaxWords, int(r.first%block.MaxWords)
			words := r.words[:min(len(r.words), block.MaxWords-first)]
			key := format.AppendBlockKey(s.record[:0], r.layer.Object, r.layer.Number, blk)
			n := len(key)
			s.record = block.AppendRunOperand(key, first, words)
			must(batch.Merge(s.record[:n], s.record[n:], nil))
			r.words, r.first = r.words[len(words):], r.first+uint64(len(words))
		}
	}
}
