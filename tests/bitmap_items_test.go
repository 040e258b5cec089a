package tests_test

import (
	"context"
	"hash/fnv"

	"github.com/sievekv/sievekv/bitmapext"
	"github.com/sievekv/sievekv/kv"
)

// bitmapOfItems is a bitmap in blocks that has a bit for each item, so that it can be filled and looked at as a filter.
type bitmapOfItems struct {
	db  *kv.DB
	key []byte
}

func (b bitmapOfItems) bitOf(item []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(item) // never fails
	return h.Sum64() % 1_000_000
}

func (b bitmapOfItems) Add(item []byte) (isNew bool, err error) {
	err = b.db.Write(kv.Always, [][]byte{b.key}, func(w *kv.Writer) error {
		was, err := bitmapext.SetBit(context.Background(), w, b.key, b.bitOf(item), true)
		isNew = !was
		return err
	})
	return isNew, err
}

// MayContain reports whether the item has its bit. The error is kv.ErrNotFound if there is no bitmap.
func (b bitmapOfItems) MayContain(item []byte) (on bool, err error) {
	err = b.db.Read(func(r kv.Reader) error {
		return bitmapext.Look(r, b.key, func(s *bitmapext.String) error {
			if !s.Exists() {
				return kv.ErrNotFound
			}
			on, err = s.Bit(b.bitOf(item))
			return err
		})
	})
	return on, err
}

func (b bitmapOfItems) MayContainMany(items [][]byte, present []bool) (err error) {
	for i, item := range items {
		if present[i], err = b.MayContain(item); err != nil {
			return err
		}
	}
	return nil
}
