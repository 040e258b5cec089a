package kv_test

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/sievekv/sievekv/kv"
)

// BenchmarkMissingKey has a store of a million keys on disk. As long as the store is open that was empty at first, it is known
// of every key whether it is missing; afterwards Pebble has to be asked.
func BenchmarkMissingKey(b *testing.B) {
	const keys = 1_000_000
	dir := b.TempDir()
	var db *kv.DB
	must := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	open := func() {
		var err error
		db, err = kv.Open(dir, &kv.Options{BallastSize: -1, Durability: kv.NoSync})
		must(err)
	}
	key := make([]byte, 12)
	n := uint64(0)
	next := func() { // places of keys have no order, so neither need the keys
		n++
		binary.BigEndian.PutUint64(key[4:], n)
	}
	set := func() {
		next()
		_, err := db.Set(kv.NoSync, key, make([]byte, 8), kv.SetOptions{})
		must(err)
	}
	get := func() {
		next()
		if value, known := db.StringInMemory(key, nil); known && value == nil {
			return
		}
		if _, err := db.Get(key); !errors.Is(err, kv.ErrNotFound) {
			b.Fatal(err)
		}
	}
	open()
	for range keys {
		set()
	}
	must(db.CompactTables(b.Context()))
	for _, store := range []string{"new", "opened"} {
		n += 1 << 30 // no key of before
		b.Run("get/"+store, func(b *testing.B) {
			for b.Loop() {
				get()
			}
		})
		n += 1 << 30
		b.Run("set/"+store, func(b *testing.B) {
			for b.Loop() {
				set()
			}
		})
		must(db.Close())
		open()
	}
	must(db.Close())
}
