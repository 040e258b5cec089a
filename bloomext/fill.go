package bloomext

import (
	"math/bits"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// A layer that is to be filled from a long log is first made in memory, where an item takes a small part of the time
// that it takes in a commit. Its blocks are then stored, some in each commit. Nobody reads the layer before it is full,
// so adds go on meanwhile. fill puts in the hashes that these adds append to the log. If the store is closed before all
// blocks are stored, fill puts in the whole log: the stored blocks have items of the log alone. Meanwhile the layer
// takes its size in memory, which the cache does not count: at most 14 MB for a log of 64 MiB, at 1 %. One filter of a
// store is filled at a time.

const (
	// fewFilled is the length up to which a log is short: filling from it takes one commit or a few.
	fewFilled = 1024

	// mostAhead is the most bytes of a layer that is made in memory. Larger ones are filled by commits alone. A log of the
	// default length needs less, unless the error rate is below 1e-10.
	mostAhead = 64 << 20
)

// ahead is a layer made in memory from the first n hashes of a log.
type ahead struct {
	object, layer uint64 // of the filter, and the number of the layer
	n             uint64
	words         []uint64 // of all blocks
	items         []uint64 // of each block
	next          uint64   // block to be stored
	step          uint64   // blocks in one commit
}

// filledAhead returns how many hashes of a log of the given length go into a layer in memory.
func filledAhead(to *layer, length uint64) uint64 {
	n := min(length, to.capacity)
	if n <= fewFilled || to.layout.Bits()/8 > mostAhead {
		return 0
	}
	return n
}

// prepare is what kv.Type.Prepare calls.
func prepare(db *kv.DB, o *kv.Object, budget int) (step func(*kv.Writer, *kv.Object) (bool, error), err error) {
	if f := o.Body().(*filter); f.chain.Filling == nil || f.chain.Filling.table.Counter(onesCounter) > 0 {
		return nil, nil
	}
	err = db.ReadWith(kv.ReadOptions{Long: true}, func(r kv.Reader) error {
		o, err := r.Lookup([]byte(o.Key()))
		if err != nil || o == nil {
			return err
		}
		if f, ok := o.Body().(*filter); ok && f.chain.Filling != nil && !o.Lossy() {
			step, err = makeAhead(r, f, budget)
		}
		return err
	})
	return step, err
}

// makeAhead makes the layer that will be filled, if that is much work. Nothing of it is stored.
func makeAhead(r kv.Reader, f *filter, budget int) (step func(*kv.Writer, *kv.Object) (bool, error), err error) {
	to, from := f.chain.Filling, f.chain.Log
	n := filledAhead(to, r.Counter(from, scalableext.LogLengthCounter))
	if n == 0 {
		return nil, nil
	}
	a := &ahead{
		object: f.object.Header().ID, layer: to.table.Spec().Number, n: n,
		words: make([]uint64, to.layout.Bits()/64), items: make([]uint64, to.layout.Blocks),
		step: uint64(max(1, budget/(to.layout.BlockWords()*8))),
	}
	for at := uint64(0); at < n; at += block.MaxWords {
		first, err := r.Load(f.object, from, at/block.MaxWords)
		if err != nil {
			return nil, err
		}
		a.add(to, from.Words(first)[:min(block.MaxWords, n-at)])
	}
	return a.store, nil
}

// add adds hashes. It asks for the memory of all before it needs the memory of the first.
func (a *ahead) add(to *layer, hashes []uint64) {
	size := uint64(to.layout.BlockWords())
	for _, h := range hashes {
		blk, rest := to.layout.Block(h)
		to.layout.Touch((*kv.Line)(a.words[blk*size:]), rest)
	}
	for _, h := range hashes {
		blk, _ := to.layout.Block(h)
		if to.layout.Set(a.words[blk*size:][:size], h) > 0 {
			a.items[blk]++
		}
	}
}

// store stages the next blocks. It does nothing if the filter has another layer to be filled by now, or none. Nobody else has
// put anything into that layer: until store is done, it is what kv.DB.CompactKey calls in place of fill.
func (a *ahead) store(w *kv.Writer, o *kv.Object) (more bool, err error) {
	f, _ := o.Body().(*filter) // an object with the same id is one
	if o.Header().ID != a.object || f.chain.Filling == nil || f.chain.Filling.table.Spec().Number != a.layer {
		return false, nil
	}
	to := f.chain.Filling.table
	items, ones := w.Counter(to, itemsCounter), w.Counter(to, onesCounter)
	size := uint64(f.chain.Filling.layout.BlockWords())
	end := min(a.next+a.step, uint64(len(a.items)))
	for ; a.next < end; a.next++ {
		words := a.words[a.next*size:][:size]
		if a.items[a.next] == 0 {
			continue
		}
		if err := w.AddWords(o, to, a.next*block.MaxWords, words); err != nil {
			return false, err
		}
		items += a.items[a.next]
		for _, word := range words {
			ones += uint64(bits.OnesCount64(word))
		}
	}
	w.SetCounter(to, itemsCounter, items)
	w.SetCounter(to, onesCounter, ones)
	if more = end < uint64(len(a.items)); !more {
		w.SetCounter(to, scalableext.FilledCounter, a.n)
	}
	return more, nil
}
