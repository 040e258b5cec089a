package sievekv

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"sync/atomic"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/sievekv/sievekv/bitmapext"
	"github.com/sievekv/sievekv/kv"
)

// Bitmap is a handle on the bitmap under a key: an exact set of numbers from 0 to 4,294,967,295, such as the ids of the
// users who signed in today. It takes about as much space as a roaring bitmap; a single number takes one block, however
// large it is. A handle holds no resources, and may be used by any number of goroutines.
//
// A bitmap is a string: DB.Get returns its bytes, where number 0 is the highest bit of the first byte, and DB.Set makes
// a bitmap of any string, as in Redis. A missing key is an empty bitmap. With a key of another type methods return
// ErrWrongType.
type Bitmap struct {
	store *kv.DB
	level Durability
	key   []byte
	found *atomic.Pointer[kv.Object] // what Test found last, if the string is in blocks
	tx    *kv.Transaction            // nil outside of a transaction or snapshot
}

// BitOp combines bitmaps. A missing bitmap counts as an empty one.
type BitOp = bitmapext.Op

// The operations of Bitmap.Store, Combined and CountCombined, with the words of BITOP.
const (
	BitAnd   = bitmapext.And   // AND: the numbers in all
	BitOr    = bitmapext.Or    // OR: the numbers in any
	BitXor   = bitmapext.Xor   // XOR: the numbers in an odd number of bitmaps
	BitNot   = bitmapext.Not   // NOT: the numbers not in the only one, up to the end of its last byte
	BitDiff  = bitmapext.Diff  // DIFF: the numbers in the first and in none of the others
	BitDiff1 = bitmapext.Diff1 // DIFF1: the numbers in some of the others and not in the first
	BitAndOr = bitmapext.AndOr // ANDOR: the numbers in the first and in some of the others
	BitOne   = bitmapext.One   // ONE: the numbers in exactly one
)

// ErrBitOp is returned for a BitOp that does not exist, or that takes another number of bitmaps.
var ErrBitOp = bitmapext.ErrOp

// Bitmap returns a handle on the bitmap under a key. It reads nothing.
func (db *DB) Bitmap(key string) *Bitmap {
	b := &Bitmap{store: db.store, level: db.level, key: []byte(key), found: new(atomic.Pointer[kv.Object])}
	b.found.Store(noString)
	return b
}

// noString is what a new handle has found.
var noString = kv.EndedObject()

// Bitmap returns a handle on the bitmap under a key, in the transaction.
func (tx *Tx) Bitmap(key string) *Bitmap {
	return &Bitmap{store: tx.tx.DB(), key: []byte(key), tx: tx.tx}
}

// Bitmap returns a handle on the bitmap under a key, as it was.
func (s *Snapshot) Bitmap(key string) *Bitmap {
	return &Bitmap{store: s.tx.DB(), key: []byte(key), tx: s.tx}
}

// With returns a handle on the same bitmap whose writes have another level of durability: Always, EverySec or NoSync,
// or 0 for Options.Durability. With another value every write returns ErrOptions.
func (b *Bitmap) With(level Durability) *Bitmap {
	c := *b
	c.level = level
	return &c
}

// Drop removes the whole bitmap, and reports whether there was one. If the key holds another type, it changes nothing and returns
// ErrWrongType.
func (b *Bitmap) Drop() (found bool, err error) {
	err = b.write(func(w *kv.Writer) error {
		if _, _, err := w.String(b.key); err != nil {
			return err
		}
		found, err = w.Delete(b.key)
		return err
	})
	return found && err == nil, err
}

func (b *Bitmap) write(change func(*kv.Writer) error, others ...[]byte) error {
	if b.tx != nil {
		return b.tx.Write(change)
	}
	return b.store.Write(b.level, append(others, b.key), change)
}

func (b *Bitmap) read(o kv.ReadOptions, look func(kv.Reader) error) error {
	if b.tx != nil {
		return b.tx.Read(look)
	}
	return b.store.ReadWith(o, look)
}

func (b *Bitmap) look(look func(*bitmapext.String) error) error {
	return b.read(kv.ReadOptions{}, func(r kv.Reader) error { return bitmapext.Look(r, b.key, look) })
}

// Set adds a number, and reports whether it is new.
func (b *Bitmap) Set(n uint32) (isNew bool, err error) {
	was, err := b.change(n, true)
	return err == nil && !was, err
}

// Clear removes a number, and reports whether it was there.
func (b *Bitmap) Clear(n uint32) (was bool, err error) { return b.change(n, false) }

func (b *Bitmap) change(n uint32, on bool) (was bool, err error) {
	err = b.write(func(w *kv.Writer) (err error) {
		was, err = bitmapext.SetBit(context.Background(), w, b.key, uint64(n), on)
		return err
	})
	return was && err == nil, err
}

// Test reports whether a number is there.
func (b *Bitmap) Test(n uint32) (on bool, err error) {
	if b.tx == nil {
		if on, known := bitmapext.InMemory(b.store, b.found.Load(), uint64(n)); known {
			return on, nil
		}
	}
	return b.find(n)
}

// find is Test that looks the key up.
func (b *Bitmap) find(n uint32) (on bool, err error) {
	err = b.look(func(s *bitmapext.String) (err error) {
		if o := s.Object(); o != nil && b.tx == nil {
			b.found.Store(o)
		}
		on, err = s.Bit(uint64(n))
		return err
	})
	return on && err == nil, err
}

// Count returns how many numbers there are.
func (b *Bitmap) Count() (uint64, error) { return b.CountRange(0, math.MaxUint32) }

// CountRange returns how many numbers there are from first to last, both included.
func (b *Bitmap) CountRange(first, last uint32) (n uint64, err error) {
	err = b.look(func(s *bitmapext.String) (err error) {
		n, err = s.Count(uint64(first), uint64(last)+1)
		return err
	})
	return n, err
}

// First returns the lowest number; false if there is none.
func (b *Bitmap) First() (n uint32, ok bool, err error) { return b.Next(0) }

// Next returns the lowest number that is not below from; false if there is none.
func (b *Bitmap) Next(from uint32) (n uint32, ok bool, err error) {
	err = b.look(func(s *bitmapext.String) error {
		at, found, err := s.Find(true, uint64(from), math.MaxUint32+1)
		n, ok = uint32(at), found
		return err
	})
	return n, ok && err == nil, err
}

// Streak returns how many numbers without a gap there are up to last, itself included: 0 if last is not there. If each
// number is a day, it is for how many days in a row somebody came.
func (b *Bitmap) Streak(last uint32) (n uint64, err error) {
	err = b.look(func(s *bitmapext.String) (err error) {
		n, err = s.Streak(uint64(last))
		return err
	})
	return n, err
}

// All returns an iterator over the numbers, the lowest first. A number that is there all the time is returned; one that
// is added or removed meanwhile may be. An error ends the iteration; it comes with the number 0. In a snapshot
// everything is as of one commit.
func (b *Bitmap) All() iter.Seq2[uint32, error] {
	return func(yield func(uint32, error) bool) {
		const most = 1024 // numbers that one look at the store finds
		numbers := make([]uint32, 0, most)
		for from := uint64(0); from <= math.MaxUint32; {
			err := b.look(func(s *bitmapext.String) error {
				numbers = numbers[:0]
				for at := from; len(numbers) < most; at++ {
					n, ok, err := s.Find(true, at, math.MaxUint32+1)
					if err != nil || !ok {
						return err
					}
					numbers, at = append(numbers, uint32(n)), n
				}
				return nil
			})
			if err != nil {
				yield(0, err)
				return
			}
			for _, n := range numbers {
				if !yield(n, nil) {
					return
				}
				from = uint64(n) + 1
			}
			if len(numbers) < most {
				return
			}
		}
	}
}

// Store makes the bitmap the result of an operation on sources, in one commit. An empty result has no numbers, but can
// be a string of zeros. The key does not expire afterwards. The bitmap may be one of the sources. Of the sources only
// their keys matter: they are read where the bitmap is written. The errors are ErrBitOp, ErrOtherStore, and
// ErrWrongType.
func (b *Bitmap) Store(ctx context.Context, op BitOp, sources ...*Bitmap) error {
	keys, err := b.keysOf(sources)
	if err != nil {
		return err
	}
	if b.tx == nil {
		if err := b.store.Outside(ctx); err != nil {
			return err
		}
	}
	return b.write(func(w *kv.Writer) error {
		_, err := bitmapext.Store(ctx, w, op, b.key, keys...)
		return err
	}, keys...)
}

// And makes the bitmap the intersection of sources, see Store.
func (b *Bitmap) And(ctx context.Context, sources ...*Bitmap) error {
	return b.Store(ctx, BitAnd, sources...)
}

// Or makes the bitmap the union of sources, see Store.
func (b *Bitmap) Or(ctx context.Context, sources ...*Bitmap) error {
	return b.Store(ctx, BitOr, sources...)
}

// Xor makes the bitmap the numbers in an odd number of sources, see Store.
func (b *Bitmap) Xor(ctx context.Context, sources ...*Bitmap) error {
	return b.Store(ctx, BitXor, sources...)
}

// AndNot makes the bitmap the numbers of the first source that are in none of the others, see Store.
func (b *Bitmap) AndNot(ctx context.Context, sources ...*Bitmap) error {
	return b.Store(ctx, BitDiff, sources...)
}

// Combined returns the result of an operation on this bitmap and others, in this order, as of one commit. Nothing is
// stored. For the others see Store.
func (b *Bitmap) Combined(ctx context.Context, op BitOp, others ...*Bitmap) (set *roaring.Bitmap, err error) {
	keys, err := b.keysOf(append([]*Bitmap{b}, others...))
	if err != nil {
		return nil, err
	}
	err = b.read(kv.ReadOptions{Long: true}, func(r kv.Reader) (err error) {
		set, err = bitmapext.Roaring(ctx, r, op, keys...)
		return err
	})
	return set, err
}

// CountCombined returns how many numbers Combined would return.
func (b *Bitmap) CountCombined(ctx context.Context, op BitOp, others ...*Bitmap) (n uint64, err error) {
	keys, err := b.keysOf(append([]*Bitmap{b}, others...))
	if err != nil {
		return 0, err
	}
	err = b.read(kv.ReadOptions{Long: true}, func(r kv.Reader) (err error) {
		n, err = bitmapext.CountOf(ctx, r, op, keys...)
		return err
	})
	return n, err
}

// ToRoaring returns the numbers as of one commit. The method WriteTo of the result exports them in the format that
// roaring bitmaps have in all languages.
func (b *Bitmap) ToRoaring(ctx context.Context) (*roaring.Bitmap, error) {
	return b.Combined(ctx, BitOr)
}

// FromRoaring makes the bitmap the numbers of a set, in one commit, whatever is under the key. The key does not expire
// afterwards; for an empty set it is removed.
func (b *Bitmap) FromRoaring(ctx context.Context, set *roaring.Bitmap) error {
	if set == nil {
		return errors.New("sievekv: FromRoaring: the set is nil")
	}
	if b.tx == nil {
		if err := b.store.Outside(ctx); err != nil {
			return err
		}
	}
	return b.write(func(w *kv.Writer) error { return bitmapext.StoreRoaring(ctx, w, b.key, set) })
}

// keysOf returns the keys of bitmaps, which must be of one store.
func (b *Bitmap) keysOf(list []*Bitmap) ([][]byte, error) {
	keys := make([][]byte, len(list))
	for i, source := range list {
		switch {
		case source == nil:
			return nil, fmt.Errorf("sievekv: bitmap %d of %d is nil", i, len(list))
		case source.store != b.store:
			other, own := kv.StoreNames(source.store, b.store)
			return nil, fmt.Errorf("%w: the bitmap %q is of %s, %q of %s", ErrOtherStore, source.key, other, b.key, own)
		}
		keys[i] = source.key
	}
	return keys, nil
}
