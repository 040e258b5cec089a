package bitmapext

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/kv/block"
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

// check returns an error if the operation does not take so many bitmaps.
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
	length  uint64 // of the result, in bytes
	words   []uint64
	one     []uint64
	more    []uint64
}

func combine(op Op, sources []*String) (*combination, error) {
	if err := op.check(len(sources)); err != nil {
		return nil, err
	}
	c := &combination{op: op, sources: sources, words: make([]uint64, block.MaxWords), one: make([]uint64, block.MaxWords)}
	for _, s := range sources {
		c.length = max(c.length, s.Len())
	}
	if op == One || op == Diff || op == Diff1 || op == AndOr {
		c.more = make([]uint64, block.MaxWords)
	}
	return c, nil
}

// block computes block blk of the result, and reports whether a bit of it is set. The result is in c.words.
func (c *combination) block(blk uint64) (some bool, err error) {
	for i, s := range c.sources {
		part, err := s.part(blk)
		if err != nil {
			return false, err
		}
		if i == 0 {
			toWords(c.words, part)
			clear(c.more)
			continue
		}
		toWords(c.one, part)
		switch c.op {
		case And:
			for j, w := range c.one {
				c.words[j] &= w
			}
		case Or:
			for j, w := range c.one {
				c.words[j] |= w
			}
		case Xor:
			for j, w := range c.one {
				c.words[j] ^= w
			}
		case Diff, Diff1, AndOr: // more is the union of the others
			for j, w := range c.one {
				c.more[j] |= w
			}
		case One: // more is what is set in several
			for j, w := range c.one {
				c.more[j] |= c.words[j] & w
				c.words[j] |= w
			}
		}
	}
	some = false
	for j := range c.words {
		switch c.op {
		case Not:
			c.words[j] = ^c.words[j]
		case Diff, One:
			c.words[j] &^= c.more[j]
		case Diff1:
			c.words[j] = c.more[j] &^ c.words[j]
		case AndOr:
			c.words[j] &= c.more[j]
		}
		some = some || c.words[j] != 0
	}
	if c.op == Not && (blk+1)*blockBytes > c.length {
		b := c.bytes()[:c.length-blk*blockBytes]
		some = toWords(c.words, b)
	}
	return some, nil
}

// bytes returns the result's block as bytes.
func (c *combination) bytes() []byte {
	b := make([]byte, 0, blockBytes)
	for _, w := range c.words {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

// next returns the first block from blk on, below end, that may have a set bit; end if there is none.
func (c *combination) next(blk, end uint64) uint64 {
	if c.op == Not {
		return blk
	}
	first := end
	for _, s := range c.sources {
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
		some, err := c.block(blk)
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
// a source that is no string, and those of reading and writing.
func Store(ctx context.Context, w *kv.Writer, op Op, dst []byte, sources ...[]byte) (length uint64, err error) {
	return store(ctx, w, op, dst, sources, func(int) error { return nil })
}

// store is Store. It calls charge with the bytes of memory that each source takes.
func store(ctx context.Context, w *kv.Writer, op Op, dst []byte, sources [][]byte, charge func(bytes int) error) (length uint64, err error) {
	list := make([]*String, len(sources))
	for i, key := range sources {
		if list[i], err = Staged(w, key); err != nil {
			return 0, err
		}
		if err := charge(list[i].memory()); err != nil {
			return 0, err
		}
	}
	c, err := combine(op, list)
	if err != nil {
		return 0, err
	}
	switch {
	case c.length == 0:
		_, err := w.Delete(dst)
		return 0, err
	case c.length <= MaxInline:
		if _, err := c.block(0); err != nil {
			return 0, err
		}
		_, err := w.Set(dst, c.bytes()[:c.length], kv.SetOptions{})
		return c.length, err
	}
	var s String
	return c.length, s.rebuild(ctx, w, dst, c.length, 0, func(blk uint64) ([]byte, error) {
		if err := kv.GivenUp(ctx, int(blk)); err != nil {
			return nil, err
		}
		if c.next(blk, blk+1) != blk {
			return nil, nil
		}
		if some, err := c.block(blk); err != nil || !some {
			return nil, err
		}
		return c.bytes(), nil
	})
}

// memory returns the bytes of memory that a string takes while it is read block by block.
func (s *String) memory() int {
	if s.object != nil {
		return blockBytes
	}
	return len(s.inline)
}

// with calls f with the result of an operation on the bitmaps under keys.
func with(r kv.Reader, op Op, keys [][]byte, f func(*combination) error) error {
	list := make([]*String, 0, len(keys))
	var next func() error
	next = func() error { // each string in a header is valid during a call
		if len(list) == len(keys) {
			c, err := combine(op, list)
			if err != nil {
				return err
			}
			return f(c)
		}
		return Look(r, keys[len(list)], func(s *String) error {
			list = append(list, s)
			return next()
		})
	}
	return next()
}

// CountOf returns how many bits the result of an operation on the bitmaps under keys has set.
func CountOf(ctx context.Context, r kv.Reader, op Op, keys ...[]byte) (n uint64, err error) {
	err = with(r, op, keys, func(c *combination) error {
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

// Roaring returns the result of an operation on the bitmaps under keys as the set of the numbers of its set bits.
func Roaring(ctx context.Context, r kv.Reader, op Op, keys ...[]byte) (set *roaring.Bitmap, err error) {
	err = with(r, op, keys, func(c *combination) error {
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
	b := make([]byte, blockBytes)
	content := func(blk uint64) ([]byte, error) {
		if err := kv.GivenUp(ctx, int(blk)); err != nil {
			return nil, err
		}
		if !members.HasNext() || uint64(members.PeekNext())/8/blockBytes > blk {
			return nil, nil
		}
		clear(b)
		for members.HasNext() && uint64(members.PeekNext())/8/blockBytes == blk {
			n := members.Next() % (8 * blockBytes)
			b[n/8] |= 0x80 >> (n % 8)
		}
		return b, nil
	}
	if length <= MaxInline {
		if _, err := content(0); err != nil {
			return err
		}
		_, err := w.Set(key, b[:length], kv.SetOptions{})
		return err
	}
	var s String
	return s.rebuild(ctx, w, key, length, 0, content)
}
