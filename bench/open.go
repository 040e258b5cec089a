package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sievekv/sievekv"
)

const openAbout = `The time to open a store: after a crash with 64 MiB of log (with --quick 16), from a copy of the directory of an open store,
and after it was closed. Pebble has the same bytes of log, from Sets of 24 bytes.`

// opening measures how long stores take to open.
func opening(b *bench) error {
	mib := pick[uint64](b, 16, 64, 64)
	target := mib << 20
	b.progress("writing logs")
	// A memtable that takes all of the log: nothing was flushed when the crash came.
	options := func() *sievekv.Options {
		return quiet(&sievekv.Options{Durability: sievekv.NoSync, MemTableSize: 512 << 20})
	}
	s, err := b.openStore(options())
	if err != nil {
		return err
	}
	defer s.end()
	if err := s.Bloom("f").Reserve(sievekv.BloomConfig{Capacity: 10_000_000, ErrorRate: 0.01}); err != nil {
		return err
	}
	adds, logged := uint64(0), uint64(0)
	for ; logged < target; adds += 10_000 {
		for i := range uint64(10_000) {
			if _, err := s.Bloom("f").AddUint64(adds + i); err != nil {
				return err
			}
		}
		if logged, err = s.Store().LogBytesWritten(); err != nil {
			return err
		}
	}
	if err := s.Sync(); err != nil {
		return err
	}
	rawOptions := pebbleOptions()
	rawOptions.MemTableSize = 512 << 20
	raw, err := b.openPebble(rawOptions)
	if err != nil {
		return err
	}
	defer raw.end()
	var key [16]byte
	for i := uint64(0); raw.Metrics().WAL.BytesWritten < target; i++ {
		if err := raw.Set(key16(&key, i), key[:8], pebble.NoSync); err != nil {
			return err
		}
	}
	if err := raw.LogData(nil, pebble.Sync); err != nil {
		return err
	}
	figures, err := b.interleave(pick(b, 1, 5, 9),
		side{"sievekv after a crash", func() (float64, error) {
			return b.openCopy(s.dir, func(dir string) (func() error, error) {
				db, err := sievekv.Open(dir, options())
				if err != nil {
					return nil, err
				}
				_, err = db.Bloom("f").MayContainUint64(1)
				return db.Close, err
			})
		}},
		side{"Pebble after a crash", func() (float64, error) {
			return b.openCopy(raw.dir, func(dir string) (func() error, error) {
				o := pebbleOptions()
				o.MemTableSize = 512 << 20
				db, err := pebble.Open(dir, o)
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
		return err
	}
	b.row(row{
		what: fmt.Sprintf("after a crash with %d MiB of log, and one lookup", mib), unit: "ms", ours: figures[0], peer: "Pebble", theirs: figures[1],
	})
	b.note("The log of sievekv had %s adds, one at a time.", format(float64(adds)))
	return b.openClosed(s, options)
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
		_, err = db.Bloom("f").MayContainUint64(1)
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
