package main

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sievekv/sievekv"
)

const bytesAbout = `Bytes of the log for each add of a new item, bytes on disk for each item afterwards, and the write
amplification: all bytes written to files, the log and all flushes and compactions included, for each byte of an item's 16.
It is measured while a new filter fills, and in a steady state: when a filter that has many items already gets more, in
random order, with memtables of 4 MiB on both sides. Beside it is a Pebble that stores a key of 16 bytes and a value of 8 for
each item, the least that an exact set takes. Such bytes hardly depend on how busy the machine is.`

// logBytes measures what is written for an add.
func logBytes(b *bench) error {
	if err := b.logOfAdds(); err != nil {
		return err
	}
	if err := b.filling(); err != nil {
		return err
	}
	if _, ok := written(); !ok {
		b.note("The system does not tell how many bytes a process writes: write amplification is left out.")
		return nil
	}
	return b.steady()
}

// logOfAdds measures the log of single adds, and of batches.
func (b *bench) logOfAdds() error {
	for _, c := range []struct {
		what  string
		level sievekv.Durability
		batch uint64
		n     uint64
	}{
		{"log of an add, one at a time, always", sievekv.Always, 1, 900},
		{"log of an add, one at a time, no", sievekv.NoSync, 1, 50_000},
		{"log of an add, batches of 1000, no", sievekv.NoSync, 1000, 500_000},
		{"log of an add, batches of 16,384, no", sievekv.NoSync, 16384, 16384 * 50},
	} {
		figures, err := b.interleave(1,
			side{c.what, func() (float64, error) { return b.logOfStore(c.level, c.batch, c.n) }},
			side{"Pebble", func() (float64, error) { return b.logOfPebble(c.batch, c.n) }})
		if err != nil {
			return err
		}
		b.row(row{what: c.what, unit: "bytes", ours: figures[0], peer: "Pebble Set of 24 bytes", theirs: figures[1]})
	}
	return nil
}

func (b *bench) logOfStore(level sievekv.Durability, batch, n uint64) (float64, error) {
	s, err := b.openStore(&sievekv.Options{Durability: level})
	if err != nil {
		return 0, err
	}
	defer s.end()
	f := s.Bloom("f")
	if err := f.Reserve(sievekv.Capacity(million, 0.01), &sievekv.BloomConfig{NonScaling: true}); err != nil {
		return 0, err
	}
	before, err := s.Store().LogBytesWritten()
	if err != nil {
		return 0, err
	}
	items := make([]uint64, batch)
	for at := uint64(0); at < n; at += batch {
		for i := range items {
			items[i] = at + uint64(i)
		}
		if batch == 1 {
			_, err = f.Add(sievekv.Uint64(at))
		} else {
			_, err = f.AddMany(sievekv.Uint64s(items...), nil)
		}
		if err != nil {
			return 0, err
		}
	}
	after, err := s.Store().LogBytesWritten()
	return float64(after-before) / float64(n), err
}

func (b *bench) logOfPebble(batch, n uint64) (float64, error) {
	s, err := b.openPebble(pebbleOptions())
	if err != nil {
		return 0, err
	}
	defer s.end()
	before := s.Metrics().WAL.BytesWritten
	var key [16]byte
	for at := uint64(0); at < n; at += batch {
		w := s.NewBatch()
		for i := range batch {
			if err := w.Set(key16(&key, at+i), key[:8], nil); err != nil {
				return 0, err
			}
		}
		if err := w.Commit(pebble.NoSync); err != nil {
			return 0, err
		}
	}
	// Pebble counts what it has written to the file.
	if err := s.LogData(nil, pebble.Sync); err != nil {
		return 0, err
	}
	return float64(s.Metrics().WAL.BytesWritten-before) / float64(n), nil
}

// filling fills a filter, and measures bytes on disk and all that was written.
func (b *bench) filling() error {
	n := pick(b, uint64(1e6), 1e7, 3e7)
	s, err := b.openStore(nil)
	if err != nil {
		return err
	}
	defer s.end()
	f := s.Bloom("f")
	if err := f.Reserve(sievekv.Capacity(n, 0.01), &sievekv.BloomConfig{NonScaling: true}); err != nil {
		return err
	}
	raw, err := b.openPebble(pebbleOptions())
	if err != nil {
		return err
	}
	defer raw.end()
	add := func(i uint64) error { _, err := f.Add(sievekv.Uint64(i)); return err }
	var key [16]byte
	put := func(i uint64) error {
		binary.LittleEndian.PutUint64(key[8:], i)
		return raw.Set(key16(&key, i), key[:8], pebble.NoSync)
	}
	amplification := func(n uint64, op func(i uint64) error, settle func() error) func() (float64, error) {
		return func() (float64, error) {
			before, _ := written()
			for i := range n {
				if err := op(i); err != nil {
					return 0, err
				}
			}
			if err := settle(); err != nil {
				return 0, err
			}
			after, _ := written()
			return (after - before) / float64(n*16), nil
		}
	}
	figures, err := b.interleave(1,
		side{"sievekv, one add at a time", amplification(n, add, s.Sync)},
		side{"Pebble, one Set at a time", amplification(n, put, func() error { return raw.LogData(nil, pebble.Sync) })})
	if err != nil {
		return err
	}
	const peer = "Pebble Set of 24 bytes"
	what := format(float64(n)) + " items, one at a time"
	if _, ok := written(); ok {
		b.row(row{what: what + ", bytes written for each of an item's 16", unit: "bytes", ours: figures[0], peer: peer, theirs: figures[1]})
	}
	if err := s.Store().CompactTables(b.ctx); err != nil {
		return err
	}
	if err := raw.Compact(b.ctx, nil, []byte{0xff, 0xff}, false); err != nil {
		return err
	}
	disk, err := s.Store().Metrics()
	if err != nil {
		return err
	}
	tables := raw.Metrics().Total().TablesSize
	b.row(row{
		what: what + ", on disk afterwards", unit: "bytes/item", ours: series{float64(disk.TableBytes) / float64(n)},
		peer: peer, theirs: series{float64(tables) / float64(n)},
	})
	return nil
}

// steady measures what is written when a large filter gets more items.
func (b *bench) steady() error {
	const memTable = 4 << 20
	n, more := pick(b, uint64(million), 10*million, 100*million), pick(b, uint64(500_000), 3*million, 10*million)
	b.progress("filling for the steady state")
	s, err := b.openStore(&sievekv.Options{Durability: sievekv.NoSync, MemTableSize: memTable})
	if err != nil {
		return err
	}
	defer s.end()
	f := s.Bloom("f")
	if err := f.Reserve(sievekv.Capacity(2*n, 0.01), &sievekv.BloomConfig{NonScaling: true}); err != nil {
		return err
	}
	if err := fill(f, 0, n); err != nil {
		return err
	}
	options := pebbleOptions()
	options.MemTableSize = memTable
	raw, err := b.openPebble(options)
	if err != nil {
		return err
	}
	defer raw.end()
	var key [16]byte
	for at := uint64(0); at < n; at += 1000 {
		w := raw.NewBatch()
		for i := range uint64(1000) {
			if err := w.Set(key16(&key, at+i), key[:8], nil); err != nil {
				return err
			}
		}
		if err := w.Commit(pebble.NoSync); err != nil {
			return err
		}
	}
	if err := b.settled(); err != nil {
		return err
	}
	amplification := func(op func(i uint64) error) func() (float64, error) {
		next := n
		return func() (float64, error) {
			before, _ := written()
			for range more {
				if err := op(next); err != nil {
					return 0, err
				}
				next++
			}
			if err := b.settled(); err != nil {
				return 0, err
			}
			after, _ := written()
			return (after - before) / float64(more*16), nil
		}
	}
	figures, err := b.interleave(1,
		side{"sievekv, steady", amplification(func(i uint64) error { _, err := f.Add(key16(&key, i)); return err })},
		side{"Pebble, steady", amplification(func(i uint64) error { return raw.Set(key16(&key, i), key[:8], pebble.NoSync) })})
	if err != nil {
		return err
	}
	b.row(row{
		what: fmt.Sprintf("%s items more after %s, one at a time, bytes written for each of an item's 16", format(float64(more)), format(float64(n))),
		unit: "bytes", ours: figures[0], peer: "Pebble Set of 24 bytes", theirs: figures[1],
	})
	return nil
}

// settled waits until this process has written nothing for a second: flushes and compactions have ended.
func (b *bench) settled() error {
	before, _ := written()
	for quiet := 0; quiet < 10; {
		select {
		case <-b.ctx.Done():
			return b.ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
		now, _ := written()
		if quiet++; now-before > 1<<10 { // notes of the store are shorter
			before, quiet = now, 0
		}
	}
	return nil
}
