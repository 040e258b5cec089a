package kv

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/memory"
	"github.com/sievekv/sievekv/internal/storage"
)

// A type makes an object smaller by compacting it: it moves, for example, the entries of a nearly empty layer to other
// layers, in commits of bounded size. Lookups see each commit as a whole. See Type.Compact.

// compactRequest is the key of an object to be compacted.
type compactRequest string

func (r compactRequest) About() string { return string(r) }

// QueueCompact asks for a compaction of the object under a key at some later time. If too many requests wait, this
// one is dropped, and the caller asks again later.
func (db *DB) QueueCompact(key []byte) { db.compacts.Add(compactRequest(key)) }

// CompactQueued, for services, makes one commit, of at most about budget bytes, for each object that was queued when
// CompactQueued was called. It reports whether there is more to do.
func (db *DB) CompactQueued(ctx context.Context, budget int) (more bool, err error) {
	if db.follows() { // the store that leads does it
		return false, nil
	}
	db.compactingQueued.Lock() // Compact waits for what another call has taken, and does what that call leaves
	defer db.compactingQueued.Unlock()
	keys := slices.Collect(maps.Keys(db.compacts.TakeAll()))
	for i, key := range keys {
		again, err := false, ctx.Err()
		if err == nil {
			again, err = db.CompactKey([]byte(key), budget, true)
		}
		if err != nil {
			for _, left := range keys[i+1:] { // an object that cannot be compacted holds up no other
				db.QueueCompact([]byte(left))
			}
			return true, err
		}
		if again {
			db.QueueCompact([]byte(key))
			more = true
		}
	}
	return more, nil
}

// CompactKey makes one commit as CompactQueued does, for the object under a key. While another goroutine compacts an object,
// CompactKey waits, or does nothing if wait is false.
func (db *DB) CompactKey(key []byte, budget int, wait bool) (more bool, err error) {
	if wait {
		db.compacting.Lock()
	} else if !db.compacting.TryLock() {
		return false, nil
	}
	defer db.compacting.Unlock()
	if db.store.Space.Full() {
		return false, db.noSpace()
	}
	budget = min(budget, db.MaxCommit()/2)
	epoch, err := db.leads()
	if err != nil {
		return false, err
	}
	if db.prepared.epoch != epoch {
		db.prepared = prepared{epoch: epoch}
	}
	if db.prepared.step == nil {
		if err := db.prepare(key, budget); err != nil {
			return false, err
		}
	}
	if p := &db.prepared; p.step != nil { // it may be of another key, which comes first
		more, err := db.compact([]byte(p.key), epoch, p.step)
		if !more {
			*p = prepared{epoch: epoch}
		}
		return err == nil, err
	}
	return db.compact(key, epoch, func(w *Writer, o *Object) (bool, error) { return o.typ.Compact(w, o, budget) })
}

// prepared is the rest of the work that Type.Prepare has prepared for a key; there is none if step is nil.
type prepared struct {
	epoch uint64 // see storage.Group: it rests on what may have been forgotten since
	key   string
	step  func(w *Writer, o *Object) (more bool, err error)
}

func (db *DB) prepare(key []byte, budget int) error {
	var o *Object
	err := db.Read(func(r Reader) (err error) { o, err = r.Lookup(key); return err })
	if err != nil || o == nil || o.typ == nil || o.typ.Prepare == nil {
		return err
	}
	epoch := db.prepared.epoch
	step, err := o.typ.Prepare(db, o, budget)
	if err != nil {
		return fmt.Errorf("compact %q: %w", key, err)
	}
	db.prepared = prepared{epoch, string(key), step}
	return nil
}

// compact commits what change stages for the object under a key, if the epoch is still the one in which it was
// prepared.
func (db *DB) compact(key []byte, epoch uint64, change func(*Writer, *Object) (more bool, err error)) (more bool, err error) {
	err = db.Write(NoSync, [][]byte{key}, func(w *Writer) error {
		if w.epoch != epoch {
			return ErrNotLeader
		}
		o, err := w.Object(key)
		if err != nil || o == nil || o.typ == nil || o.typ.Compact == nil {
			return err
		}
		// A lookup that sees the whole commit answers as before, so watches are not told. If no entries move and the
		// layers stay, a lookup may see a part of the commit.
		w.unseen = true
		if more, err = change(w, o); err != nil {
			return fmt.Errorf("compact %q: %w", key, err)
		}
		w.sequence = w.sequence || w.changesSlots()
		db.stats.compactions.Add(1)
		return nil
	})
	return more && err == nil, err
}

// CompactBacklog returns the number of objects waiting to be compacted.
func (db *DB) CompactBacklog() int { return db.compacts.Len() }

// layerDrop names a layer to be dropped.
type layerDrop struct{ object, layer uint64 }

// Shrink drops the newest layer of an object that has others, with its content, and returns the object without it. The
// writer must not use the old object any more.
func (w *Writer) Shrink(o *Object) (*Object, error) {
	last := len(o.layers) - 1
	if last < 1 {
		return nil, fmt.Errorf("kv: key %q: %d layers, the last cannot be removed", o.key, len(o.layers))
	}
	return w.ReplaceLayers(o, nil, func(i int) bool { return i < last })
}

// Turn drops the n oldest layers of an object, appends new layers as Grow does, and returns the changed object. The
// writer must not use the old one any more. At least one layer must be left.
func (w *Writer) Turn(o *Object, n int, added ...LayerSpec) (*Object, error) {
	if n > len(o.layers) || n == len(o.layers) && len(added) == 0 {
		return nil, fmt.Errorf("kv: key %q: %d layers, cannot remove %d", o.key, len(o.layers), n)
	}
	return w.ReplaceLayers(o, nil, func(i int) bool { return i >= n }, added...)
}

// ReplaceLayers keeps the layers for which keep(i) is true (0 is the oldest), drops the rest, and appends added as Grow does.
// It replaces the object's parameters unless params is nil. It returns the changed object, as Turn does.
func (w *Writer) ReplaceLayers(o *Object, params []byte, keep func(i int) bool, added ...LayerSpec) (*Object, error) {
	h := *o.header
	h.Layers = nil
	var layers, gone []*Layer
	for i, l := range o.layers {
		if !keep(i) {
			gone = append(gone, l)
			continue
		}
		h.Layers, layers = append(h.Layers, o.header.Layers[i]), append(layers, l)
	}
	kept := len(layers)
	for i, next := range added {
		if n := len(o.layers); n > 0 {
			next.Number = o.header.Layers[n-1].Number + 1 + uint64(i)
		}
		h.Layers = append(h.Layers, next)
	}
	if params != nil {
		h.Params = params
	}
	if err := w.db.checkSpec(&h); err != nil && len(added) > 0 { // what only loses layers may be from when more were allowed
		return nil, err
	}
	for _, next := range h.Layers[kept:] { // a layer takes memory for its table, so not before it was checked
		layers = append(layers, memory.NewLayer(h.ID, next))
	}
	is, err := newObject(w.db, o.key, &h, layers)
	if err != nil {
		return nil, err
	}
	for _, l := range gone {
		w.dropLayer(l)
		w.layerDrops = append(w.layerDrops, layerDrop{h.ID, l.Number()})
	}
	for _, l := range layers[kept:] {
		w.makeFresh(is, l)
	}
	w.setKey([]byte(o.key), is)
	return is, nil
}

// stageLayerDrops stages the removal of layers. A later layer may reuse the number of a removed one: its records come
// later in the batch, and stay. The layers of a dropped object go with the object.
func (w *Writer) stageLayerDrops(dropped map[uint64]bool) {
	for _, d := range w.layerDrops {
		if dropped[d.object] {
			continue
		}
		from := format.AppendOrdered(format.AppendObjectKey(nil, d.object), d.layer+format.PartLayers)
		to := format.AppendOrdered(format.AppendObjectKey(nil, d.object), d.layer+format.PartLayers+1)
		storage.DeleteAll(w.db.store, &w.batch, from, to)
		w.delete(format.AppendCountersKey(w.scratch[:0], d.object, d.layer))
	}
}

// Compact does at once what services do over time: it compacts the queued objects and reclaims the dropped ones. Then
// it calls CompactTables.
func (db *DB) Compact(ctx context.Context) error {
	if err := db.readOnly(); err != nil {
		return err
	}
	steps := []func(context.Context) (more bool, err error){
		func(ctx context.Context) (bool, error) { return db.CompactQueued(ctx, db.MaxCommit()/2) },
		db.Reclaim,
	}
	for _, step := range steps {
		for more := true; more; {
			var err error
			if more, err = step(ctx); err != nil {
				return err
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
	}
	return db.CompactTables(ctx)
}
