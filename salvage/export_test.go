package salvage

import (
	"context"

	"github.com/sievekv/sievekv/kv"
)

// Copy copies a key from a store to another as Recover does, without a check before that.
func Copy(ctx context.Context, from, to *kv.DB, key string, lossy bool) error {
	return to.Write(kv.NoSync, [][]byte{[]byte(key)}, func(w *kv.Writer) error {
		_, err := (&copying{ctx: ctx, from: from, key: []byte(key), lossy: lossy}).to(w)
		return err
	})
}
