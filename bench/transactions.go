package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/cockroachdb/pebble/v2"
	bolt "go.etcd.io/bbolt"

	"github.com/sievekv/sievekv"
)

const transactionsAbout = `Transactions a second that add an item to a Bloom filter and set a string of 100 bytes, both or
neither. bbolt writes two keys in a transaction, and Pebble two keys in a batch, which has no reads and no conflicts.`

// transactions compares transactions of two writes.
func transactions(b *bench) error {
	s, err := b.openStore(nil)
	if err != nil {
		return err
	}
	defer s.end()
	if err := s.Bloom("f").Reserve(sievekv.Capacity(10*million, 0.01), &sievekv.BloomConfig{NonScaling: true}); err != nil {
		return err
	}
	raw, err := b.openPebble(pebbleOptions())
	if err != nil {
		return err
	}
	defer raw.end()
	dir, err := b.temp("bbolt")
	if err != nil {
		return err
	}
	tree, err := bolt.Open(filepath.Join(dir, "db"), 0o600, nil)
	if err != nil {
		return err
	}
	defer func() { _, _ = tree.Close(), os.RemoveAll(dir) }()
	bucket := []byte("bucket")
	if err := tree.Update(func(tx *bolt.Tx) error { _, err := tx.CreateBucket(bucket); return err }); err != nil {
		return err
	}
	value := make([]byte, 100)
	during, reps := pick(b, 200*time.Millisecond, time.Second, 2*time.Second), pick(b, 1, 3, 5)
	for _, synced := range []bool{true, false} {
		level, sync := sievekv.NoSync, pebble.NoSync
		if synced {
			level, sync = sievekv.Always, pebble.Sync
		}
		tree.NoSync = !synced
		for _, goroutines := range []int{1, 16} {
			run := func(op func(item uint64, key []byte) error) func() (float64, error) {
				return func() (float64, error) {
					return inGoroutines(goroutines, during, func(_ int, x *uint64) error {
						var key [16]byte
						item := next(x, 1<<62)
						return op(item, key16(&key, item))
					})
				}
			}
			figures, err := b.interleave(reps,
				side{"sievekv", run(func(item uint64, key []byte) error {
					return s.With(level).Update(b.ctx, func(tx *sievekv.Tx) error {
						if _, err := tx.Bloom("f").Add(sievekv.Uint64(item)); err != nil {
							return err
						}
						return tx.Set(string(key), value)
					})
				})},
				side{"bbolt", run(func(_ uint64, key []byte) error {
					return tree.Update(func(tx *bolt.Tx) error {
						if err := tx.Bucket(bucket).Put(key[8:], key[:8]); err != nil {
							return err
						}
						return tx.Bucket(bucket).Put(key, value)
					})
				})},
				side{"Pebble", run(func(_ uint64, key []byte) error {
					w := raw.NewBatch()
					if err := w.Set(key[8:], key[:8], nil); err != nil {
						return err
					}
					if err := w.Set(key, value, nil); err != nil {
						return err
					}
					return w.Commit(sync)
				})})
			if err != nil {
				return err
			}
			what := fmt.Sprintf("%s, %d goroutines", level, goroutines)
			b.row(row{what: what, unit: "transactions/s", ours: figures[0], peer: "bbolt", theirs: figures[1]})
			b.row(row{what: what, unit: "transactions/s", ours: figures[0], peer: "Pebble batch", theirs: figures[2]})
		}
	}
	return nil
}
