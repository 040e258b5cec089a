package bitmapext

import (
	"context"
	"errors"
	"fmt"
	"math/bits"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/sievekv/sievekv/kv"
)

// Op combines bitmaps bit by bit. A bitmap that is shorter than others, or missing, counts as zeros there.
type Op uint8

// The operations, with the names that BITOP has for them.
const (
	And   Op = iota // the bits set in all
	Or              // the bits set in any
	Xor             // the bits set in an odd number of them
	Not             // the bits not set in the only one, up to the end of its last byte
	Diff            // the bits set in the first and in none of the others
	Diff1           // the bits set in some of the others and not in the first
	AndOr           // the bits set in the first and in some of the others
	One             // the bits set in exactly one
)

var opNames = [...]string{"AND", "OR", "XOR", "NOT", "DIFF", "DIFF1", "ANDOR", "ONE"}

// String returns the name that BITOP has for the operation.
func (op Op) String() string {
	if int(op) < len(opNames) {
		return opNames[op]
	}
	return fmt.Sprintf("operation %d", uint8(op))
}

// ErrOp is returned for an operation that does not exist, or that takes another number of bitmaps.
var ErrOp = errors.New("bitmapext: bad operation")

// check returns an error if the operation does not take n bitmaps.
func (op Op) check(n int) error {
	least := 1
	switch op {
	case Not:
		if n != 1 {
			return fmt.Errorf("%w: NOT of %d bitmaps, want 1", ErrOp, n)
		}
	case Diff, Diff1, AndOr:
		least = 2
	case And, Or, Xor, One:
	default:
		return fmt.Errorf("%w: %v, want And to One", ErrOp, op)
	}
	if n < least {
		return fmt.Errorf("%w: %v of %d bitmaps, want at least %d", ErrOp, op, n, least)
	}
	return nil
}

// combination is the result of an operation, made block by block.
type combination struct {
	op      Op
	sources []*String
	length  uint64    // of the result, in bytes
	words   words     // the block that block made
	more    words     // for block
	found   []*words  // for and: the blocks of the sources, nil for one that load has to load
	spare   *[4]words // for blocks that have to be copied, nil while there were none
}

// combine returns the combination of bitmaps. Find returns the one under a key, which takes memory that charge counts.
func combine(ctx context.Context, op Op, keys [][]byte, charge func(bytes int) error, find func(key []byte) (*String, error)) (*combination, error) {
	if err := op.check(len(keys)); err != nil {
		return nil, err
	}
	c := &combination{op: op}
	for i, from := range op.sourcesOf(keys) {
		if err := kv.GivenUp(ctx, i); err != nil {
			return nil, err
		}
		s, err := find(from.key)
		if err != nil {
			return nil, err
		}
		if err := charge(s.memory()); err != nil {
			return nil, err
		}
		c.length = max(c.length, s.Len())
		for range from.times {
			c.sources = append(c.sources, s)
		}
	}
	return c, nil
}

// block computes block blk of the result, and reports whether a bit of it is set. If so, the block is in c.words.
func (c *combination) block(ctx context.Context, blk uint64) (some bool, err error) {
	if len(c.sources) == 0 { // each counts as none
		return false, ctx.Err()
	}
	switch first, others := c.sources[0], c.sources[1:]; c.op {
	case And:
		return c.and(ctx, blk)
	case Or, Xor, Diff:
		return c.fold(ctx, c.op, &c.words, blk, c.sources, nil)
	case Not:
		w, err := c.load(first, blk, 0)
		if err != nil {
			return false, err
		}
		c.words = *w
		c.words.flip(min(blockBytes, c.length-blk*blockBytes))
		return c.words.some(), nil
	case One:
		c.words, c.more = words{}, words{} // more is what several have
		for i, s := range c.sources {
			if err := kv.GivenUp(ctx, i); err != nil {
				return false, err
			}
			w, err := c.load(s, blk, 0)
			if err != nil {
				return false, err
			}
			c.words.orTwice(w, &c.more)
		}
		return c.words.andNot(&c.words, &c.more, &zeros, &zeros), nil
	default:
		if _, err := c.fold(ctx, Or, &c.more, blk, others, nil); err != nil {
			return false, err
		}
		w, err := c.load(first, blk, 0)
		switch {
		case err != nil:
			return false, err
		case c.op == AndOr:
			return c.words.and(w, &c.more, w, w), nil
		}
		return c.words.andNot(&c.more, w, &zeros, &zeros), nil // Diff1
	}
}

// and is block for AND.
func (c *combination) and(ctx context.Context, blk uint64) (some bool, err error) {
	const (
		mostScans = 2  // as many blocks as are read if the lines of none are known
		fewLines  = 32 // this number is combined faster one by one
	)
	common, scans := everyLine, 0
	c.found = c.found[:0]
	for i, s := range c.sources {
		if err := kv.GivenUp(ctx, i); err != nil {
			return false, err
		}
		w, lines, scanned, err := s.lines(blk, scans < mostScans)
		if err != nil {
			return false, err
		}
		if scanned {
			scans++
		}
		if common = common.and(lines); common.empty() {
			return false, nil
		}
		c.found = append(c.found, w)
	}
	if common.len() > fewLines {
		return c.fold(ctx, And, &c.words, blk, c.sources, c.found)
	}
	c.words = words{}
	for i, s := range c.sources {
		w := c.found[i]
		if w == nil {
			if w, err = c.load(s, blk, 0); err != nil {
				return false, err
			}
		}
		for l := range common.all() {
			to, from := c.words.line(l), w.line(l)
			if i == 0 {
				*to = *from
				continue
			}
			for j := range to {
				to[j] &= from[j]
			}
		}
	}
	return c.words.some(), nil
}

// fold sets a block to the AND, OR, XOR or DIFF of sources, and reports whether a bit of it is set. After AND and DIFF
// it may be any block if none is. Found has the blocks of the sources that need not be loaded.
func (c *combination) fold(ctx context.Context, op Op, into *words, blk uint64, sources []*String, found []*words) (some bool, err error) {
	step, rest := into.or, &zeros
	switch op {
	case And:
		step = into.and
	case Xor:
		step = into.xor
	case Diff:
		step = into.andNot
	}
	var blocks [4]*words
	n := 0
	for i, s := range sources {
		if err := kv.GivenUp(ctx, i); err != nil {
			return false, err
		}
		var w *words
		if found != nil {
			w = found[i]
		}
		if w == nil {
			if w, err = c.load(s, blk, n); err != nil {
				return false, err
			}
		}
		if w == &zeros {
			if op == And || op == Diff && i == 0 {
				return false, nil
			}
			continue
		}
		blocks[n] = w
		if n++; n == len(blocks) {
			some = step(blocks[0], blocks[1], blocks[2], blocks[3])
			if !some && (op == And || op == Diff) {
				return false, nil
			}
			blocks[0], n = into, 1
		}
	}
	if n == 1 && blocks[0] == into {
		return some, nil
	}
	if op == And {
		rest = blocks[n-1]
	}
	for ; n < len(blocks); n++ {
		blocks[n] = rest
	}
	return step(blocks[0], blocks[1], blocks[2], blocks[3]), nil
}

// load returns block blk of a source, which no commit changes, and is &zeros if nothing is in it. If the block has to be
// copied, it is then in a spare block.
func (c *combination) load(s *String, blk uint64, spare int) (*words, error) {
	reads := false
	if s.object != nil {
		_, reads = s.from.(kv.Reader)
	}
	if c.spare == nil && (reads || s.object == nil) {
		c.spare = new([4]words)
	}
	var own *words
	if c.spare != nil {
		own = &c.spare[spare]
	}
	w, err := s.wordsOf(blk, own)
	switch {
	case err != nil:
		return nil, err
	case w == nil:
		return &zeros, nil
	case reads: // a commit may be changing it, if the reader is of a snapshot
		own.set(w)
		return own, nil
	}
	return w, nil
}

// next returns the first block from blk on, below end, that may have a set bit; end if there is none.
func (c *combination) next(blk, end uint64) uint64 {
	if c.op == Not {
		return blk
	}
	sources := c.sources
	if c.op == And || c.op == Diff || c.op == AndOr {
		sources = sources[:1] // the result has no bit that the first has not
	}
	first := end
	for _, s := range sources {
		first = min(first, s.next(blk, min(end, blocksOf(s.Len()))))
		if first == blk {
			break
		}
	}
	return max(blk, first)
}

// each calls f for every block of the result with a set bit. The block is in c.words.
func (c *combination) each(ctx context.Context, f func(blk uint64) error) error {
	last := blocksOf(c.length)
	for blk := c.next(0, last); blk < last; blk = c.next(blk+1, last) {
		if err := ctx.Err(); err != nil {
			return err
		}
		some, err := c.block(ctx, blk)
		if err == nil && some {
			err = f(blk)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Store stages the result of an operation on the bitmaps under sources under the key dst, in place of what is there,
// and returns the length of the result in bytes. If it is 0, dst is removed. The errors are ErrOp, kv.ErrWrongType for
// a source that is no string, and errors of reading and writing.
func Store(ctx context.Context, w *kv.Writer, op Op, dst []byte, sources ...[]byte) (length uint64, err error) {
	return store(ctx, w, op, dst, sources, func(int) error { return nil })
}

// store is Store. It calls charge with the bytes of memory that each source takes.
func store(ctx context.Context, w *kv.Writer, op Op, dst []byte, sources [][]byte, charge func(bytes int) error) (length uint64, err error) {
	c, err := combine(ctx, op, sources, charge, func(key []byte) (*String, error) { return Staged(w, key) })
	if err != nil {
		return 0, err
	}
	switch {
	case c.length == 0:
		_, err := w.Delete(dst)
		return 0, err
	case c.length <= MaxInline:
		some, err := c.block(ctx, 0)
		if err != nil {
			return 0, err
		}
		value := make([]byte, c.length)
		if some {
			value = c.words.appendBytes(value[:0], c.length)
		}
		_, err = w.Set(dst, value, kv.SetOptions{})
		return c.length, err
	}
	var s String
	return c.length, s.rebuild(ctx, w, dst, c.length, 0, func(blk uint64) (*words, error) {
		if c.next(blk, blk+1) != blk {
			return nil, kv.GivenUp(ctx, int(blk))
		}
		if some, err := c.block(ctx, blk); err != nil || !some {
			return nil, err
		}
		return &c.words, nil
	})
}

// memory returns about how many bytes of memory a string takes while it is read block by block.
func (s *String) memory() int { return 512 + len(s.inline) }

// with calls f with the result of an operation on the bitmaps under keys. It calls charge as store does.
func with(ctx context.Context, r kv.Reader, op Op, keys [][]byte, charge func(bytes int) error, f func(*combination) error) error {
	if err := r.AsOfOneCommit(); err != nil { // strings in headers are read one after the other
		return err
	}
	c, err := combine(ctx, op, keys, charge, func(key []byte) (*String, error) {
		value, o, err := r.String(key)
		return &String{from: r, object: o, inline: value}, err
	})
	if err != nil {
		return err
	}
	return f(c)
}

// CountOf returns how many bits the result of an operation on the bitmaps under keys has set, all as of one commit, see
// kv.Reader.AsOfOneCommit.
func CountOf(ctx context.Context, r kv.Reader, op Op, keys ...[]byte) (uint64, error) {
	return countOf(ctx, r, op, keys, func(int) error { return nil })
}

func countOf(ctx context.Context, r kv.Reader, op Op, keys [][]byte, charge func(bytes int) error) (n uint64, err error) {
	err = with(ctx, r, op, keys, charge, func(c *combination) error {
		n = 0
		return c.each(ctx, func(uint64) error {
			for _, w := range c.words {
				n += uint64(bits.OnesCount64(w))
			}
			return nil
		})
	})
	return n, err
}

// Roaring returns the result of an operation on the bitmaps under keys as the set of the numbers of its set bits, all as
// of one commit, see kv.Reader.AsOfOneCommit.
func Roaring(ctx context.Context, r kv.Reader, op Op, keys ...[]byte) (set *roaring.Bitmap, err error) {
	err = with(ctx, r, op, keys, func(int) error { return nil }, func(c *combination) error {
		set = roaring.New()
		var numbers []uint32
		return c.each(ctx, func(blk uint64) error {
			numbers = numbers[:0]
			for i, w := range c.words {
				for w = bits.ReverseBytes64(bits.Reverse64(w)); w != 0; w &= w - 1 {
					numbers = append(numbers, uint32(blk*blockBytes*8)+uint32(64*i+bits.TrailingZeros64(w)))
				}
			}
			set.AddMany(numbers)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	set.RunOptimize()
	return set, nil
}

// StoreRoaring stages a bitmap under a key, in place of what is there, whose set bits are the members of a set. The
// bitmap ends with the byte of the last one; for an empty set the key is removed.
func StoreRoaring(ctx context.Context, w *kv.Writer, key []byte, set *roaring.Bitmap) error {
	if set.IsEmpty() {
		_, err := w.Delete(key)
		return err
	}
	length := uint64(set.Maximum())/8 + 1
	members := set.Iterator()
	var b words
	content := func(blk uint64) (*words, error) {
		if err := kv.GivenUp(ctx, int(blk)); err != nil {
			return nil, err
		}
		if !members.HasNext() || uint64(members.PeekNext())/8/blockBytes > blk {
			return nil, nil
		}
		b = words{}
		for members.HasNext() && uint64(members.PeekNext())/8/blockBytes == blk {
			n := members.Next() % (8 * blockBytes)
			b[n/64] |= 1 << (n%64 ^ 7)
		}
		return &b, nil
	}
	if length <= MaxInline {
		if _, err := content(0); err != nil {
			return err
		}
		_, err := w.Set(key, b.appendBytes(nil, length), kv.SetOptions{})
		return err
	}
	var s String
	return s.rebuild(ctx, w, key, length, 0, content)
}
