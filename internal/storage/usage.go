package storage

import (
	"context"
	"errors"

	"github.com/sievekv/sievekv/internal/format"
)

// MeasureEntries returns the bytes of the keys and values of an iterator. It stops after most entries, which are blocks
// of a layer, and then also returns the number of the layer's blocks up to there.
func MeasureEntries(ctx context.Context, it *Iterator, most int64) (n, blocks uint64, err error) {
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err = errors.Join(err, ctx.Err()); err != nil {
			return 0, 0, err
		}
		n += uint64(len(it.Key()) + len(value))
		if most--; most == 0 {
			k, err := format.DecodeObjectKey(it.Key())
			return n, k.Rest + 1, err
		}
	}
	return n, 0, nil
}
