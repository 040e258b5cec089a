package storage

import (
	"runtime"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/kv/freeze"
)

// What a store takes of the descriptors that its process may have. A limit of 64 leaves it 28, one of 1024 156.
const (
	// fixedDescriptors are always open: the lock, six handles of the directory, the log and the MANIFEST. The rest is
	// for what is opened and closed again beside those of the reserve.
	fixedDescriptors = 12

	// mostTables is how many tables are kept open at most, as Pebble does by default. A small limit gives them an
	// eighth of it: fewer of them are opened again and again, which is slow and nothing else.
	mostTables = 990

	// mostReserve is the reserve, see freeze.GuardDescriptors. A flush that begins a new log and a new MANIFEST opens
	// six files at a time: the table, the log, the MANIFEST, its seal, the marker and the directory. A compaction
	// opens a table, and reads those that are open. 16 are enough for two flushes and some reads of tables; a small
	// limit gives an eighth of it.
	mostReserve = 16
)

// descriptors are how many descriptors the store may take.
type descriptors struct {
	limit           int // of the process, 0 for none
	tables, reserve int
}

// shareOf returns a store's share under a limit of the process, 0 for none.
func shareOf(limit int) descriptors {
	d := descriptors{limit: limit, tables: mostTables, reserve: mostReserve}
	if limit > 0 {
		d.tables, d.reserve = min(mostTables, max(4, limit/8)), min(mostReserve, max(4, limit/8))
	}
	return d
}

// need is how many descriptors the store takes at most without waiting for them.
func (d descriptors) need() int { return fixedDescriptors + d.tables + d.reserve }

// guardDescriptors is called before Pebble is opened.
func (s *Store) guardDescriptors() {
	reserve := s.descriptors.reserve
	if s.opts.FS != vfs.Default || runtime.GOOS == "windows" { // which has no such limit
		reserve = 0
	}
	s.Files.GuardDescriptors(freeze.DescriptorOptions{Reserve: reserve, Closing: s.closing.Load, Logger: s.opts.Logger})
}

// newFileCache returns the cache of open tables. Its owner releases it when Pebble has been opened.
func (s *Store) newFileCache() *pebble.FileCache {
	tables := s.descriptors.tables
	return pebble.NewFileCache(min(runtime.GOMAXPROCS(0), max(1, tables/4)), tables)
}
