package tests_test

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/internal/txntest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
	"github.com/sievekv/sievekv/txn"
)

// BenchmarkUpdate_staged prints what an add followed by a lookup takes in a transaction in which
// 100,000 items are staged, and how much more that is than with 1,000: x/item of about 1 says
// that it does not matter how much is staged already.
func BenchmarkUpdate_staged(b *testing.B) {
	const few, many = 1_000, 100_000
	for _, kind := range []struct {
		name string
		add  func(db *kv.DB) func(tx *txntest.Tx, item uint64) error
	}{
		{"one Bloom filter", func(db *kv.DB) func(*txntest.Tx, uint64) error {
			f := bloomext.New(db, "f")
			orFail(b, f.Reserve(bloomext.Config{Capacity: 10 * many, ErrorRate: 0.01}))
			return func(tx *txntest.Tx, item uint64) error {
				if _, err := f.In(tx).Add(scalableext.Uint64(item)); err != nil {
					return err
				}
				_, err := f.In(tx).MayContain(scalableext.Uint64(item + 1<<40))
				return err
			}
		}},
		{"one cuckoo filter", func(db *kv.DB) func(*txntest.Tx, uint64) error {
			f := cuckooext.New(db, "f")
			orFail(b, f.Reserve(cuckooext.Config{Capacity: 10 * many}))
			return func(tx *txntest.Tx, item uint64) error {
				if _, err := f.In(tx).Add([]byte(strconv.FormatUint(item, 10))); err != nil {
					return err
				}
				_, err := f.In(tx).MayContain([]byte(strconv.FormatUint(item+1<<40, 10)))
				return err
			}
		}},
		{"one counting filter", func(db *kv.DB) func(*txntest.Tx, uint64) error {
			f := countingext.New(db, "f")
			orFail(b, f.Reserve(countingext.Config{Capacity: 10 * many, ErrorRate: 0.01}))
			return func(tx *txntest.Tx, item uint64) error {
				if _, err := f.In(tx).Add([]byte(strconv.FormatUint(item, 10))); err != nil {
					return err
				}
				_, err := f.In(tx).MayContain([]byte(strconv.FormatUint(item+1<<40, 10)))
				return err
			}
		}},
		{"a small filter an item", func(db *kv.DB) func(*txntest.Tx, uint64) error {
			return func(tx *txntest.Tx, item uint64) error {
				f := bloomext.New(db, fmt.Sprint("f", item)).In(tx)
				if err := f.Reserve(bloomext.Config{Capacity: 10, ErrorRate: 0.01}); err != nil {
					return err
				}
				if _, err := f.Add(scalableext.Uint64(item)); err != nil {
					return err
				}
				_, err := f.MayContain(scalableext.Uint64(item + 1<<40))
				return err
			}
		}},
		{"strings deleted", func(*kv.DB) func(*txntest.Tx, uint64) error {
			return func(tx *txntest.Tx, item uint64) error {
				key := fmt.Sprint("k", item)
				if err := tx.Set(key, nil); err != nil {
					return err
				}
				_, err := tx.Delete(key)
				return err
			}
		}},
	} {
		b.Run(kind.name, func(b *testing.B) {
			for b.Loop() {
				db := openBench(b)
				add := kind.add(db)
				// Of ten parts the fastest: the others were waiting for something else.
				least := map[uint64]float64{few: math.Inf(1), many: math.Inf(1)}
				orFail(b, txntest.Update(context.Background(), db, kv.NoSync, func(tx *txntest.Tx) error {
					for _, staged := range []uint64{few, many} {
						const part = few / 10
						start := time.Now()
						for item := range staged {
							if item%part == 0 {
								start = time.Now()
							}
							if err := add(tx, staged<<32+item); err != nil {
								return err
							}
							if item%part == part-1 && item >= staged-few {
								least[staged] = min(least[staged], float64(time.Since(start).Nanoseconds())/part)
							}
						}
					}
					return nil
				}))
				orFail(b, db.Close())
				b.ReportMetric(least[many], "ns/item")
				b.ReportMetric(least[many]/least[few], "x/item")
			}
		})
	}
}

func openBench(b *testing.B) *kv.DB {
	b.Helper()
	db, err := kv.Open("", &kv.Options{
		InMemory: true, MemTableSize: 1 << 30, CacheSize: 64 << 20, Durability: kv.NoSync,
		Modules: coreext.With(bloomext.Module(), cuckooext.Module(), countingext.Module(), txn.Module()),
	})
	orFail(b, err)
	return db
}

func orFail(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
