package storage

import (
	"runtime"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/freeze"
)

// How many of the process's file descriptors a store takes. Under a limit of 64 it takes at most 28, under one of
// 1024 at most 156.
const (
	// fixedDescriptors counts what is always open: the lock, six handles of the directory, the log and the MANIFEST.
	// The other three are for files that are open for a moment, beside the reserve.
	fixedDescriptors = 12

	// mostTables is the most tables that are kept open, Pebble's own default. A small limit gives tables an eighth of
	// it. Pebble then reopens tables again and again, which is slow but does no other harm.
	mostTables = 990

	// mostReserve is the largest reserve, see freeze.GuardDescriptors. A flush that begins a new log and a new
	// MANIFEST opens six files at a time: the table, the log, the MANIFEST, its seal, the marker and the directory. A
	// compaction opens the table that it writes, and reads tables that are open. So 16 are enough for two flushes and
	// some reads of tables. A small limit gives the reserve an eighth of it.
	mostReserve = 16
)

// descriptors says how many descriptors the store may take.
type descriptors struct {
	limit           int // of the process; 0 means no limit
	tables, reserve int
}

// shareOf returns the share of a store in a process with the given limit; 0 means no limit.
func shareOf(limit int) descriptors {
	d := descriptors{limit: limit, tables: mostTables, reserve: mostReserve}
	if limit > 0 {
		d.tables, d.reserve = min(mostTables, max(4, limit/8)), min(mostReserve, max(4, limit/8))
	}
	return d
}

// need returns the most descriptors that the store takes without waiting for any.
func (d descriptors) need() int { return fixedDescriptors + d.tables + d.reserve }

// guardDescriptors sets up the reserve. It is called before Pebble is opened.
func (s *Store) guardDescriptors() {
	reserve := s.descriptors.reserve
	if s.opts.FS != vfs.Default || runtime.GOOS == "windows" { // Windows has no such limit
		reserve = 0
	}
	s.Files.GuardDescriptors(freeze.DescriptorOptions{Reserve: reserve, Closing: s.closing.Load, Logger: s.opts.Logger})
}

// newFileCache returns the cache of open tables. The caller releases it once Pebble is open.
func (s *Store) newFileCache() *pebble.FileCache {
	tables := s.descriptors.tables
	return pebble.NewFileCache(min(runtime.GOMAXPROCS(0), max(1, tables/4)), tables)
}
