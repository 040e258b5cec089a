package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sievekv/sievekv"
)

const openAbout = `The time to open a store: after a crash, from a copy of the directory of an open store, and after it was closed. The log of
64 MiB (with --quick 16) is of adds of new items: all of it is to be replayed, into a filter for 10 million; or it was
written with memtables as large as they are by default, so that the older part of it was flushed, into a filter for 100
million (with --quick a million) that has half of its items. Pebble has the same bytes of log, from Sets of 24 bytes, and
the same memtables.`

// crashed is a store with a log, as a crash leaves it.
type crashed struct {
	what             string
	capacity, filled uint64
	memTable         int
}

// opening measures how long stores take to open.
func opening(b *bench) error {
	large := pick[uint64](b, million, 100*million, 100*million)
	// A memtable that takes all of the log: nothing was flushed when the crash came.
	all := crashed{"all of it to be replayed", 10 * million, 0, 512 << 20}
	// The default of sievekv.Options.
	part := crashed{fmt.Sprintf("into a filter for %s, memtables of 32 MiB", format(float64(large))), large, large / 2, 32 << 20}
	s, err := b.afterCrash(all)
	if err != nil {
		return err
	}
	err = b.openClosed(s, all.options)
	s.end()
	if err != nil {
		return err
	}
	if s, err = b.afterCrash(part); err == nil {
		s.end()
	}
	return err
}

func (c crashed) options() *sievekv.Options {
	return quiet(&sievekv.Options{Durability: sievekv.NoSync, MemTableSize: c.memTable})
}

func (c crashed) pebbleOptions() *pebble.Options {
	o := pebbleOptions()
	o.MemTableSize = uint64(c.memTable)
	return o
}

// afterCrash measures how long a store and a Pebble take to open after a crash, and returns the store.
func (b *bench) afterCrash(c crashed) (_ *store, err error) {
	mib := pick[uint64](b, 16, 64, 64)
	target := mib << 20
	b.progress("writing logs")
	s, err := b.openStore(c.options())
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.end()
		}
	}()
	if err := s.Bloom("f").Reserve(sievekv.Capacity(c.capacity, 0.01), nil); err != nil {
		return nil, err
	}
	if c.filled > 0 {
		if err := fill(s.Bloom("f"), 0, c.filled); err != nil {
			return nil, err
		}
		if err := s.reopen(c.options()); err != nil { // with an empty log
			return nil, err
		}
	}
	adds, logged := uint64(0), uint64(0)
	var key [16]byte
	for ; logged < target; adds += 10_000 {
		for i := range uint64(10_000) {
			if _, err := s.Bloom("f").Add(key16(&key, c.filled+adds+i)); err != nil {
				return nil, err
			}
		}
		if logged, err = s.Store().LogBytesWritten(); err != nil {
			return nil, err
		}
	}
	if err := s.Sync(); err != nil {
		return nil, err
	}
	raw, err := b.openPebble(c.pebbleOptions())
	if err != nil {
		return nil, err
	}
	defer raw.end()
	for i := uint64(0); raw.Metrics().WAL.BytesWritten < target; i++ {
		if err := raw.Set(key16(&key, i), key[:8], pebble.NoSync); err != nil {
			return nil, err
		}
	}
	if err := raw.LogData(nil, pebble.Sync); err != nil {
		return nil, err
	}
	if err := b.settled(); err != nil { // nothing changes the directories while they are copied
		return nil, err
	}
	figures, err := b.interleave(pick(b, 1, 5, 9),
		side{"sievekv after a crash", func() (float64, error) {
			return b.openCopy(s.dir, func(dir string) (func() error, error) {
				db, err := sievekv.Open(dir, c.options())
				if err != nil {
					return nil, err
				}
				_, err = db.Bloom("f").MayContain(key16(&key, 1))
				return db.Close, err
			})
		}},
		side{"Pebble after a crash", func() (float64, error) {
			return b.openCopy(raw.dir, func(dir string) (func() error, error) {
				db, err := pebble.Open(dir, c.pebbleOptions())
				if err != nil {
					return nil, err
				}
				_, closer, err := db.Get(key16(&key, 1))
				if err == nil {
					err = closer.Close()
				}
				return db.Close, err
			})
		}})
	if err != nil {
		return nil, err
	}
	b.row(row{
		what: fmt.Sprintf("after a crash with %d MiB of log, %s, and one lookup", mib, c.what), unit: "ms", ours: figures[0],
		peer: "Pebble", theirs: figures[1],
	})
	b.note("The log of sievekv, %s, had %s adds, one at a time.", c.what, format(float64(adds)))
	return s, nil
}

// openClosed measures opening a store that was closed.
func (b *bench) openClosed(s *store, options func() *sievekv.Options) error {
	if err := s.reopen(options()); err != nil { // writes all of the log to tables
		return err
	}
	figures, err := b.interleave(pick(b, 3, 5, 9), side{"sievekv after it was closed", func() (float64, error) {
		if err := s.Close(); err != nil {
			return 0, err
		}
		begin := time.Now()
		db, err := sievekv.Open(s.dir, options())
		if err != nil {
			return 0, err
		}
		s.DB = db
		_, err = db.Bloom("f").MayContain(make([]byte, 16))
		return float64(time.Since(begin).Microseconds()) / 1000, err
	}})
	if err != nil {
		return err
	}
	b.row(row{what: "after it was closed, and one lookup", unit: "ms", ours: figures[0]})
	return nil
}

// openCopy opens a copy of a directory, and returns how many ms that took.
func (b *bench) openCopy(dir string, open func(dir string) (closeDB func() error, err error)) (float64, error) {
	parent, err := b.temp("copy")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(parent) }()
	to := filepath.Join(parent, "store")
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		return 0, err
	}
	begin := time.Now()
	closeDB, err := open(to)
	took := time.Since(begin)
	if err != nil {
		return 0, err
	}
	return float64(took.Microseconds()) / 1000, closeDB()
}
