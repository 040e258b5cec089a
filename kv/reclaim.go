package kv

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// Dropping an object is one range deletion; the disk gets its space back when
// Pebble compacts the range. A note left in the same commit has that done, also
// after a restart. An object being built has a note from before its first block:
// if that is found and nobody is building, the range is deleted first.

// smallRange is the size, in bytes, below which a dropped range is left to
// Pebble's own compactions.
const smallRange = 1 << 20

// Reclaim has the space of one dropped object given back, and reports whether
// there was one. The objects behind a FLUSHALL count as one.
func (db *DB) Reclaim(ctx context.Context) (bool, error) {
	if err := db.enter(); err != nil {
		return false, err
	}
	defer db.exit()
	object, unwritten, found, err := db.firstDropped()
	if err != nil || !found {
		return false, err
	}
	if unwritten {
		return db.dropUnwritten(object)
	}
	start, end := appendObjectKey(nil, object), appendObjectKey(nil, object+1)
	if object == 0 {
		start, end = []byte{tagHeader}, []byte{tagObject + 1}
	}
	size, err := db.pebble.EstimateDiskUsage(start, end)
	if err != nil {
		return false, db.readError(err, "size of dropped object %d", object)
	}
	if size >= smallRange {
		if err := db.pebble.Compact(ctx, start, end, false); err != nil {
			return false, fmt.Errorf("kv: reclaim object %d: %w", object, err)
		}
	}
	db.apply.RLock()
	defer db.apply.RUnlock()
	if err := db.pebble.Delete(appendDroppedKey(nil, object), pebble.NoSync); err != nil {
		return false, db.fail(fmt.Errorf("kv: reclaim object %d: %w", object, err))
	}
	db.stats.reclaimed.Add(1)
	return true, db.failure()
}

// firstDropped finds a note; unwritten says that it is of a build.
func (db *DB) firstDropped() (object uint64, unwritten, found bool, err error) {
	it, err := db.pebble.NewIter(&pebble.IterOptions{LowerBound: []byte{tagDropped}, UpperBound: []byte{tagEnd}})
	if err != nil {
		return 0, false, false, db.readError(err, "dropped objects")
	}
	for ok := it.First(); ok; ok = it.Next() {
		object, n := decodeOrdered(it.Key()[1:])
		if n != len(it.Key())-1 {
			return 0, false, false, fmt.Errorf("%w (%w)", corruptf("dropped object key %x", it.Key()), it.Close())
		}
		if _, building := db.building.Load(object); building {
			continue
		}
		unwritten = len(it.Value()) > 0 && it.Value()[0] == droppedUnwritten
		return object, unwritten, true, it.Close()
	}
	return 0, false, false, it.Close()
}

// dropUnwritten deletes what a build that was never committed has written. The
// note is looked at again while no commit can take it away: one that has, since
// it was found, put the object under its key.
func (db *DB) dropUnwritten(object uint64) (bool, error) {
	db.apply.RLock()
	defer db.apply.RUnlock()
	if _, building := db.building.Load(object); building {
		return false, nil
	}
	note := appendDroppedKey(nil, object)
	_, closer, err := db.pebble.Get(note)
	if errors.Is(err, pebble.ErrNotFound) {
		return true, nil
	}
	if err != nil {
		return false, db.readError(err, "note of object %d", object)
	}
	if err := closer.Close(); err != nil {
		return false, err
	}
	b := db.pebble.NewBatch()
	defer func() { _ = b.Close() }() // releases memory, cannot fail
	must(b.DeleteRange(appendObjectKey(nil, object), appendObjectKey(nil, object+1), nil))
	must(b.Set(note, nil, nil))
	if err := db.pebble.Apply(b, pebble.NoSync); err != nil {
		return false, db.fail(fmt.Errorf("kv: reclaim object %d: %w", object, err))
	}
	return true, db.failure()
}

// MaintenanceStats returns how many blocks were folded, how many requests for it
// a full queue dropped, and how many dropped objects were reclaimed, since Open.
func (db *DB) MaintenanceStats() (folds, dropped, reclaimed uint64) {
	return db.stats.folds.Load(), db.stats.foldsDropped.Load(), db.stats.reclaimed.Load()
}

// CompactAll folds what waits to be folded and has Pebble compact the whole
// store: the state a store comes to by itself when nothing is written. It takes
// as long as reading and writing all of it.
func (db *DB) CompactAll(ctx context.Context) error {
	if err := db.enter(); err != nil {
		return err
	}
	defer db.exit()
	if err := db.pebble.Compact(ctx, []byte{tagMeta}, []byte{tagEnd}, false); err != nil {
		return fmt.Errorf("kv: compact %s: %w", db.dir, err)
	}
	for db.FoldBacklog() > 0 {
		if _, err := db.Fold(ctx, 64<<20); err != nil {
			return err
		}
	}
	return db.failure()
}
