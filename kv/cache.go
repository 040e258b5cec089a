package kv

import (
	"github.com/sievekv/sievekv/internal/residency"
)

// What stays in memory within Options.CacheSize, see package residency: blocks, chunks of block tables, and open objects.

type residentObject struct{ o *Object }

// Drop implements residency.Resident.
func (r residentObject) Drop() { r.o.db.evictObject(r.o) }

func objectCacheKey(id uint64) uint64 { return residency.Mix(id ^ 0x9e3779b97f4a7c15) }

// Sampled reports whether a lookup of an item with hash h counts as a touch of its block, see residency.Sampled.
func (db *DB) Sampled(h uint64) bool { return db.residency.Sampled(h) }

// Counted reports whether a lookup of an item with hash h counts, for 64 lookups: see residency.Counted.
func (db *DB) Counted(h uint64) bool { return db.residency.Counted(h) }

// Touch counts a lookup of a resident block. Blocks with many touches stay in memory.
func (db *DB) Touch(o *Object, l *Layer, blk uint64) {
	if db.enter() != nil {
		return
	}
	defer db.exit()
	db.pauseAt("touch: begun")
	db.residency.Touch(objectCacheKey(o.header.ID))
	l.Touch(db.residency, blk)
}
