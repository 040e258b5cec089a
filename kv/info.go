package kv

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sievekv/sievekv/kv/reply"
)

// stats are the counts INFO shows, since Open.
type stats struct {
	commits          atomic.Uint64
	commitBytes      atomic.Uint64 // of batches, before the log's framing
	syncs            atomic.Uint64
	blocksRead       atomic.Uint64 // from Pebble, absent ones not counted
	folds            atomic.Uint64
	foldsDropped     atomic.Uint64
	reclaimed        atomic.Uint64
	expired          atomic.Uint64 // keys swept
	compactions      atomic.Uint64 // commits of types' Compact
	backgroundErrors atomic.Uint64
}

func isNotFound(err error) bool  { return errors.Is(err, ErrNotFound) }
func isWrongType(err error) bool { return errors.Is(err, ErrWrongType) }

// infoSection is a section of INFO.
type infoSection struct {
	name   string
	fields []InfoField
}

// info answers the sections named, all if none is, as lines "name:value" under
// "# Section" titles. A name that is none gives nothing.
func info(c *Call) reply.Reply {
	sections, err := c.DB.infoSections()
	if err != nil {
		return ErrorReply(err)
	}
	wanted := make(map[string]bool)
	for _, arg := range c.Args {
		wanted[Fold(arg)] = true
	}
	all := len(c.Args) == 0 || wanted["ALL"] || wanted["EVERYTHING"] || wanted["DEFAULT"]
	var b strings.Builder
	for _, s := range sections {
		if !all && !wanted[fold(s.name)] {
			continue
		}
		if b.Len() > 0 {
			b.WriteString("\r\n")
		}
		fmt.Fprintf(&b, "# %s\r\n", s.name)
		for _, f := range s.fields {
			fmt.Fprintf(&b, "%s:%v\r\n", f.Name, f.Value)
		}
	}
	return reply.Verbatim(b.String())
}

// addSection adds fields to the section of the name, which is made if there is none.
func addSection(sections []infoSection, name string, fields []InfoField) []infoSection {
	if len(fields) == 0 {
		return sections
	}
	i := slices.IndexFunc(sections, func(s infoSection) bool { return fold(s.name) == fold(name) })
	if i < 0 {
		return append(sections, infoSection{name, fields})
	}
	sections[i].fields = slices.Concat(sections[i].fields, fields)
	return sections
}

// infoSections returns the store's own sections and those of the services. Of a store that has failed there are these,
// which need nothing of it, and why it failed.
func (db *DB) infoSections() ([]infoSection, error) {
	sections, err := db.storeSections()
	if errors.Is(err, ErrFailed) {
		sections, err = []infoSection{versionSection(), {"Store", []InfoField{{"directory", db.dir}, {"failed", err}, {"tables_in_memory_bytes", db.fs.Kept()}}}}, nil
	}
	if err != nil {
		return nil, err
	}
	for _, s := range db.registry.started {
		name, fields := s.Info()
		sections = addSection(sections, name, fields)
	}
	return sections, nil
}

// versionSection begins the section that a server says more in.
func versionSection() infoSection {
	return infoSection{"Server", []InfoField{{"sievekv_version", Version()}}}
}

func (db *DB) storeSections() ([]infoSection, error) {
	if err := db.enter(); err != nil {
		return nil, err
	}
	defer db.exit()
	m := db.disk.Metrics()
	cache := db.residency.cache
	return []infoSection{
		versionSection(),
		{"Store", []InfoField{
			{"directory", db.dir},
			{"store_id", fmt.Sprintf("%x", db.meta.id)},
			{"format_version", storeVersion},
			{"uptime_in_seconds", int64(db.opts.Clock().Sub(db.opened).Seconds())},
			{"durability", db.opts.Durability},
			{"disk_full", db.space.Full()},
			{"keys", db.keys.Load()},
			{"open_objects", db.openObjects()},
		}},
		{"Cache", []InfoField{
			{"cache_budget_bytes", cache.MaxCost()},
			{"cache_used_bytes", cache.MaxCost() - cache.RemainingCost()},
			{"cache_evictions", db.residency.evicted.Load()},
			{"blocks_read", db.stats.blocksRead.Load()},
		}},
		{"Durability", []InfoField{
			{"last_sequence", db.lastSeq.Load()},
			{"durable_sequence", db.durable.Load()},
			{"commits", db.stats.commits.Load()},
			{"commit_bytes", db.stats.commitBytes.Load()},
			{"syncs", db.stats.syncs.Load()},
		}},
		{"Pebble", []InfoField{
			{"disk_bytes", diskUsage(m)},
			{"table_bytes", m.Table.Local.LiveSize},
			{"log_bytes", logSize(m)},
			{"reserve_bytes", db.space.Ballast()},
			{"log_bytes_in", m.WAL.BytesIn},
			{"log_bytes_written", m.WAL.BytesWritten},
			{"memtable_bytes", m.MemTable.Size},
			{"flushes", m.Flush.Count},
			{"compactions", m.Compact.Count},
			{"read_amplification", m.ReadAmp()},
			{"background_errors", db.stats.backgroundErrors.Load()},
		}},
	}, nil
}

func (db *DB) openObjects() int {
	n := 0
	for i := range db.shards {
		sh := &db.shards[i]
		sh.mu.RLock()
		n += len(sh.objects)
		sh.mu.RUnlock()
	}
	return n
}

// DiskBytes returns what the store takes on disk, its log included, in bytes. Tables that
// nothing needs any more, which go in their own time, and the ballast are not counted.
func (db *DB) DiskBytes() (uint64, error) {
	if err := db.enter(); err != nil {
		return 0, err
	}
	defer db.exit()
	return diskUsage(db.disk.Metrics()), nil
}

// diskUsage is what all files take but tables that are obsolete.
func diskUsage(m *pebble.Metrics) uint64 {
	all := m.DiskSpaceUsage() - m.WAL.PhysicalSize - m.WAL.ObsoletePhysicalSize + logSize(m)
	return all - min(all, m.Table.Local.ObsoleteSize+m.Table.Local.ZombieSize)
}

// logSize is what logs take, with those that are kept to be used again. Pebble counts the
// physical size of one only once it is closed.
func logSize(m *pebble.Metrics) uint64 {
	return max(m.WAL.Size, m.WAL.PhysicalSize) + m.WAL.ObsoletePhysicalSize
}

// minBallast is the least that a ballast has, if there is to be one of that size.
const minBallast = 1 << 20

// sizeBallast has the ballast grow with the store.
func (db *DB) sizeBallast() {
	if db.enter() != nil {
		return
	}
	defer db.exit()
	m := db.disk.Metrics()
	size := int64(minBallast)
	for need := int64(m.Table.Local.LiveSize + m.WAL.Size); size < need && size < db.opts.BallastSize; {
		size *= 2
	}
	if size > db.ballast.Load() {
		db.ballast.Store(size)
	}
}

// LogBytes returns the bytes of write-ahead log this DB has written.
func (db *DB) LogBytes() (uint64, error) {
	if err := db.enter(); err != nil {
		return 0, err
	}
	defer db.exit()
	return db.pebble().Metrics().WAL.BytesWritten, nil
}
