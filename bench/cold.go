package main

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sievekv/sievekv"
)

const coldAbout = `The time of a lookup in a Bloom filter that is ten times as large as the cache, so that most lookups read a
block of 8 KiB, beside a Get of a value of 8 KiB in a Pebble with as many of them and a cache as small. The files are in the
memory of the operating system: the disk itself is not measured. The last row is how many lookups a second two goroutines
have, beside one.`

// cold compares lookups that read a block.
func cold(b *bench) error {
	n := pick(b, uint64(3e6), 1e7, 1e8)
	s, err := b.openStore(nil)
	if err != nil {
		return err
	}
	defer s.end()
	if err := s.Bloom("f").Reserve(sievekv.Capacity(n, 0.01), &sievekv.BloomConfig{NonScaling: true}); err != nil {
		return err
	}
	if err := fill(s.Bloom("f"), 0, n); err != nil {
		return err
	}
	info, err := s.Bloom("f").Info()
	if err != nil {
		return err
	}
	size := info.Bytes
	if err := s.Store().CompactTables(b.ctx); err != nil { // as a filter at rest is
		return err
	}
	if err := s.reopen(&sievekv.Options{Durability: sievekv.NoSync, CacheSize: int64(size / 10), TableCacheSize: tableCache}); err != nil {
		return err
	}
	f := s.Bloom("f")
	blocks := size/(8<<10) + 1
	raw, err := b.openValues(blocks)
	if err != nil {
		return err
	}
	defer raw.end()
	lookup := func(_ int, x *uint64) error {
		var buf [16]byte
		_, err := f.MayContain(key16(&buf, next(x, n)))
		return err
	}
	get := func(_ int, x *uint64) error {
		var key [8]byte
		binary.BigEndian.PutUint64(key[:], next(x, blocks))
		_, closer, err := raw.Get(key[:])
		if err != nil {
			return err
		}
		return closer.Close()
	}
	const slice = 200 * time.Millisecond
	perSec := func(goroutines int, op func(int, *uint64) error) func() (float64, error) {
		return func() (float64, error) { return inGoroutines(goroutines, slice, op) }
	}
	figures, err := b.interleave(pick(b, 7, 15, 31),
		side{"sievekv, one goroutine", perSec(1, lookup)}, side{"Pebble, one goroutine", perSec(1, get)},
		side{"sievekv, two goroutines", perSec(2, lookup)}, side{"Pebble, two goroutines", perSec(2, get)})
	if err != nil {
		return err
	}
	what, reduced := fmt.Sprintf("filter of %s, ", format(float64(n))), n < 10_000_000
	b.row(row{
		what: what + "one goroutine", unit: "ns", ours: figures[0].inverse(), peer: "Pebble Get of 8 KiB", theirs: figures[1].inverse(),
		must: ratioAtMost(1.25), reduced: reduced,
	})
	b.row(row{
		what: what + "two goroutines", unit: "lookups/s", ours: figures[2], peer: "Pebble Get of 8 KiB", theirs: figures[3],
	})
	b.row(row{
		what: what + "two against one", unit: "lookups/s", ours: figures[2], peer: "one goroutine", theirs: figures[0],
		must: ratioAtLeast(1.3), reduced: reduced,
	})
	return nil
}

// inverse turns operations a second into ns.
func (s series) inverse() (ns series) {
	for _, x := range s {
		ns = append(ns, 1e9/x)
	}
	return ns
}

// tableCache is the least that sievekv has for what was read from tables. Pebble has as much more, too.
const tableCache = 1 << 20

// openValues opens a Pebble with values of 8 KiB, and a cache for a tenth of them.
func (b *bench) openValues(n uint64) (*rawStore, error) {
	o := pebbleOptions()
	o.CacheSize = int64(n)*(8<<10)/10 + tableCache
	raw, err := b.openPebble(o)
	if err != nil {
		return nil, err
	}
	value := make([]byte, 8<<10)
	random := rand.NewChaCha8([32]byte{1})
	for i := range n {
		_, _ = random.Read(value) // never an error
		if err := raw.Set(binary.BigEndian.AppendUint64(nil, i), value, pebble.NoSync); err != nil {
			return nil, err
		}
	}
	if err := raw.Flush(); err != nil {
		return nil, err
	}
	return raw, raw.Compact(b.ctx, nil, []byte{0xff}, false)
}
