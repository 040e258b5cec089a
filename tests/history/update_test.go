package history

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/internal/txntest"
	"github.com/sievekv/sievekv/kv"
)

// Adds to one filter by a transaction, too, are seen all or none.
func TestUpdate_oneFilter(t *testing.T) {
	db := openStore(t, 2)
	const rounds, items = 300, 64
	seen := bloomext.New(db, "seen")
	if err := seen.Reserve(bloomext.Config{Capacity: rounds * items, ErrorRate: bloomRate}); err != nil {
		t.Fatal(err)
	}
	var round atomic.Int64
	var wg sync.WaitGroup
	item := func(round, i int) string { return strconv.Itoa(round) + "/" + strconv.Itoa(i) }
	wg.Go(func() {
		for r := range rounds {
			round.Store(int64(r))
			err := txntest.Update(t.Context(), db, kv.NoSync, func(tx *txntest.Tx) error {
				for i := range items {
					if _, err := seen.In(tx).Add([]byte(item(r, i))); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}
		round.Store(rounds)
	})
	halves := 0
	for {
		r := int(round.Load())
		if r == rounds {
			break
		}
		for i := range items {
			first, err := seen.MayContain([]byte(item(r, i)))
			if err != nil {
				t.Error(err)
			}
			if !first {
				continue
			}
			for j := range items {
				if second, err := seen.MayContain([]byte(item(r, j))); err != nil || !second {
					halves++
				}
			}
			break
		}
	}
	wg.Wait()
	if halves > 0 {
		t.Errorf("%d lookups found one item of a transaction, and then not another", halves)
	}
}
