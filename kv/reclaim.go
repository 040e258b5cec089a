package kv

import (
	"context"
	"errors"
	"math"

	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/storage"
	"github.com/sievekv/sievekv/internal/text"
)

// Dropping an object deletes a range of keys, see storage.DeleteAll. The disk gets the space back when Pebble compacts the range. A note in
// the same commit makes Reclaim see to that, also after a restart. An object that is being built has a note from
// before its first block. If Reclaim finds such a note and no build is under way, it deletes the range first.

// smallRange is the size, in bytes, below which Pebble's own compactions are left to reclaim a dropped range.
const smallRange = 1 << 20

// maxNotes is how many notes of small objects one call of Reclaim handles.
const maxNotes = 4096

// Reclaim, for services, gives the disk the space of dropped objects back, and reports whether there were any. One
// call handles many small objects, which Pebble reclaims by itself, or one large one; the objects of a FLUSHALL count
// as one. On a full disk nothing is written, so Pebble reclaims nothing by itself: then Reclaim compacts for small
// objects and removed keys too.
func (db *DB) Reclaim(ctx context.Context) (bool, error) {
	if err := db.enter(); err != nil {
		return false, err
	}
	defer db.exit()
	if more, err := db.reclaimHere(ctx); more || err != nil {
		return more, err
	}
	epoch, err := db.leads()
	if err != nil {
		return false, nil // the store that leads sees to the notes
	}
	d, err := db.findDropped()
	switch {
	case err != nil:
		return false, err
	case d.unwritten != 0:
		return db.dropUnwritten(d.unwritten, epoch)
	case d.large != nil:
		start, end := droppedRange(*d.large)
		if err := db.store.Compact(ctx, start, end); err != nil {
			return false, text.After(err, "kv: reclaim object %d", *d.large)
		}
		d.done = append(d.done, *d.large)
	}
	if db.store.Space.Full() {
		if err := db.reclaimSmall(ctx); err != nil {
			return false, text.After(err, "kv: reclaim of small objects and keys")
		}
	}
	if len(d.done) == 0 {
		return false, nil
	}
	var b storage.Batch
	for _, object := range d.done {
		b.Delete(format.AppendDroppedKey(nil, object))
	}
	if db.store.Group == nil {
		db.apply.RLock()
		defer db.apply.RUnlock()
	}
	if err := db.commitBatch(&b, epoch); err != nil {
		return false, err
	}
	db.stats.reclaimed.Add(uint64(len(d.done)))
	return true, db.failure()
}

// droppedObject is an object whose note another store of the group has removed, when it had reclaimed its space there.
type droppedObject uint64

func (droppedObject) About() string { return "" }

// noteReclaimed has Reclaim give the space of objects back here, too.
func (db *DB) noteReclaimed(b *storage.Batch) {
	for i := range b.Count() {
		if c := b.Change(i); c.Kind == storage.KindDelete && c.Key[0] == format.TagDropped {
			if id, n := format.DecodeOrdered(c.Key[1:]); n > 0 {
				db.dropped.Add(droppedObject(id))
			}
		}
	}
}

// reclaimHere compacts the range of one object that noteReclaimed has noted, if it is large, and reports whether there was one.
func (db *DB) reclaimHere(ctx context.Context) (bool, error) {
	id, noted := db.dropped.Take()
	if !noted {
		return false, nil
	}
	start, end := droppedRange(uint64(id))
	size, err := db.store.Size(start, end)
	if err == nil && size >= smallRange {
		err = db.store.Compact(ctx, start, end)
	}
	if err != nil {
		return false, text.After(err, "kv: reclaim object %d", id)
	}
	return true, nil
}

// reclaimSmall makes Pebble compact the store, one part after the other, if many keys were removed while the disk was
// full, and there is room for the result of a part.
func (db *DB) reclaimSmall(ctx context.Context) error {
	const (
		many = 16        // many keys are one in this number
		part = 128 << 20 // bytes, the size of Pebble's largest tables
	)
	keys, removed := db.keys.Load(), db.removed.Load()
	if removed == 0 || removed*many < keys+removed {
		return nil
	}
	size, err := db.store.Size([]byte{format.TagHeader}, []byte{format.TagObject + 1})
	if err != nil {
		return err
	}
	left := float64(keys) / float64(keys+removed)
	if float64(min(size, part))*left > float64(db.store.Space.Free()/2) {
		return nil
	}
	// Headers are sorted by a hash, and objects in the order in which they were made.
	parts := min(size/part+1, 1<<16)
	for i := range parts {
		from, to := format.AppendHeaderKey(nil, i*(math.MaxUint64/parts), nil), []byte{format.TagHeader + 1}
		if i+1 < parts {
			to = format.AppendHeaderKey(nil, (i+1)*(math.MaxUint64/parts), nil)
		}
		if err := db.store.Compact(ctx, from, to); err != nil {
			return err
		}
	}
	db.idMu.Lock()
	ids := db.nextID
	db.idMu.Unlock()
	for from, step := uint64(0), ids/parts+1; from < ids; from += step {
		if err := db.store.Compact(ctx, format.AppendObjectKey(nil, from), format.AppendObjectKey(nil, from+step)); err != nil {
			return err
		}
	}
	db.removed.Add(-removed) // the next call sees to those removed since
	return nil
}

// dropped is what the notes list: small objects, which need no more work, up to the first object that needs work of its
// own.
type dropped struct {
	done      []uint64
	large     *uint64
	unwritten uint64 // 0 for none, as no object has that id
}

func (db *DB) findDropped() (d dropped, err error) {
	it, err := db.iterate(context.Background(), []byte{format.TagDropped}, []byte{format.TagDropped + 1})
	if err != nil {
		return d, storage.ReadError(err, "dropped objects")
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	db.pauseAt("reclaim: reading")
	for ok := it.First(); ok && len(d.done) < maxNotes; ok = it.Next() {
		object, n := format.DecodeOrdered(it.Key()[1:])
		if n != len(it.Key())-1 {
			return d, format.Corruptf("dropped object key %x", it.Key())
		}
		if _, building := db.building.Load(object); building {
			continue
		}
		if len(it.Value()) > 0 && it.Value()[0] == format.DroppedUnwritten {
			d.unwritten = object
			return d, nil
		}
		start, end := droppedRange(object)
		size, err := db.store.Size(start, end)
		if err != nil {
			return d, storage.ReadError(err, "size of dropped object %d", object)
		}
		if size >= smallRange {
			d.large = &object
			return d, nil
		}
		d.done = append(d.done, object)
	}
	return d, nil
}

// droppedRange returns the range of keys of a dropped object; 0 stands for all objects.
func droppedRange(object uint64) (start, end []byte) {
	if object == 0 {
		return []byte{format.TagHeader}, []byte{format.TagObject + 1}
	}
	return format.AppendObjectKey(nil, object), format.AppendObjectKey(nil, object+1)
}

// dropUnwritten deletes what a build that was never committed has written. It reads the note again while no commit
// can delete it: if a commit has deleted it meanwhile, the object is under its key now. In a group it cannot keep such a commit
// from being applied, but none is under way: the builder stays in DB.building until its commit is applied, or the epoch has ended.
func (db *DB) dropUnwritten(object, epoch uint64) (bool, error) {
	if db.store.Group == nil {
		db.apply.RLock()
		defer db.apply.RUnlock()
	}
	if _, building := db.building.Load(object); building {
		return false, nil
	}
	note := format.AppendDroppedKey(nil, object)
	_, closer, err := db.store.Get(note)
	if errors.Is(err, storage.ErrNotFound) {
		return true, nil
	}
	if err != nil {
		return false, storage.ReadError(err, "note of object %d", object)
	}
	if err := closer.Close(); err != nil {
		return false, err
	}
	var b storage.Batch
	b.DeleteRange(format.AppendObjectKey(nil, object), format.AppendObjectKey(nil, object+1))
	b.Set(note, nil)
	if err := db.commitBatch(&b, epoch); err != nil {
		return false, err
	}
	return true, db.failure()
}

// CompactTables makes Pebble compact all tables, and folds the queued blocks. It takes as long as reading and writing
// all of the store.
func (db *DB) CompactTables(ctx context.Context) error {
	if err := db.enter(); err != nil {
		return err
	}
	defer db.exit()
	db.store.Flush()
	if err := db.store.Compact(ctx, []byte{format.TagMeta}, []byte{format.TagEnd}); err != nil {
		return text.After(err, "kv: compact %s", db.dir)
	}
	for db.FoldBacklog() > 0 {
		if _, err := db.Fold(ctx, 64<<20); err != nil {
			return err
		}
	}
	return db.failure()
}
