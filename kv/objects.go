package kv

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/memory"
	"github.com/sievekv/sievekv/internal/storage"
)

// Spec describes an object to be created.
type Spec struct {
	Type   *Type
	Family Family
	Layers []LayerSpec // at most format.MaxLayers
	Params []byte
	// Expiry is when the object ceases to exist, in Unix milliseconds; 0 means never.
	Expiry int64
	// Lossy marks the object as one that misses what it should have, see Object.Lossy.
	Lossy bool
	// Hidden makes an object that every lookup finds missing, see Writer.Hidden. It must have an expiry.
	Hidden bool
}

// Create stages a new object under a key, and replaces what is there. The errors are ErrTooLarge (more bytes than
// Options.MaxFilterBytes), ErrNoSpace, and the errors of the type's Open.
func (w *Writer) Create(key []byte, s Spec) (*Object, error) {
	o, err := w.newOf(key, s)
	if err != nil {
		return nil, err
	}
	for _, l := range o.layers {
		w.makeFresh(o, l)
	}
	return o, w.put(key, o)
}

// makeFresh stages zeros for all blocks of a new layer.
func (w *Writer) makeFresh(o *Object, l *Layer) {
	n := w.addLayer(l)
	w.layers[n].madeFor = o
}

// newOf returns a new object of a registered type, not staged yet.
func (w *Writer) newOf(key []byte, s Spec) (*Object, error) {
	module, known := w.db.registry.moduleOf[s.Type.Name]
	if !known {
		return nil, fmt.Errorf("%w: of type %q", ErrNoModule, s.Type.Name)
	}
	return w.make(key, format.Header{
		TypeName: s.Type.Name, Module: module, TypeVersion: s.Type.Version,
		Expiry: s.Expiry, Family: s.Family, Layers: s.Layers, Params: s.Params, Lossy: s.Lossy, Hidden: s.Hidden,
	})
}

// make returns a new object with the given header and a new id.
func (w *Writer) make(key []byte, h format.Header) (*Object, error) {
	if err := w.db.checkSpec(&h); err != nil {
		return nil, err
	}
	if w.db.store.Space.Full() {
		return nil, w.db.noSpace() // before much is written ahead
	}
	var err error
	if h.ID, err = w.db.newObjectID(); err != nil {
		return nil, err
	}
	layers := make([]*Layer, len(h.Layers))
	for i, spec := range h.Layers {
		layers[i] = memory.NewLayer(h.ID, spec)
	}
	o, err := newObject(w.db, string(key), &h, layers)
	if err == nil {
		w.db.uses.Keep(h.ID, o.uses)
	}
	return o, err
}

// put stages an object under a key, and replaces what is there.
func (w *Writer) put(key []byte, o *Object) error {
	old, err := w.stored(key)
	if err != nil {
		return err
	}
	if old != nil {
		w.dropObject(old)
	}
	w.setKey(key, o)
	return w.fits()
}

// Grow stages one more layer for an object, and returns the object with it. The writer must not use the old object any
// more. Grow chooses the number of the layer. The errors are ErrTooLarge (format.MaxLayers layers, or more bytes than
// Options.MaxFilterBytes) and the errors of the type's Open.
func (w *Writer) Grow(o *Object, spec LayerSpec) (*Object, error) {
	return w.Turn(o, 0, spec)
}

func (db *DB) checkSpec(h *format.Header) error {
	if n := len(h.Layers); n > format.MaxLayers {
		return fmt.Errorf("%w: %d layers, at most %d", ErrTooLarge, n, format.MaxLayers)
	}
	var total uint64
	for _, l := range h.Layers {
		if err := l.Check(); err != nil {
			return fmt.Errorf("%w: %w", ErrTooLarge, err)
		}
		total += l.Bytes()
	}
	if total > db.opts.MaxFilterBytes && h.TypeName != format.StringType { // few of a string's blocks may be stored
		return fmt.Errorf("%w: filter of %d bytes, at most %d (max-filter-bytes)", ErrTooLarge, total, db.opts.MaxFilterBytes)
	}
	return nil
}

// Delete stages the removal of a key and reports whether it was there.
func (w *Writer) Delete(key []byte) (bool, error) {
	// Undoing the staged key undoes this too.
	old, err := w.stored(key)
	if err != nil || old == nil {
		return false, err
	}
	w.dropObject(old)
	w.setKey(key, nil)
	return !w.expired(old), w.fits()
}

// dropObject stages the removal of everything under an object's id, and a note to reclaim its space.
func (w *Writer) dropObject(o *Object) {
	if o.inline() {
		return
	}
	for _, l := range o.layers {
		w.dropLayer(l)
	}
	w.drops = append(w.drops, o.header.ID)
}

// DeleteKeys stages the removal of keys, and returns how many of them existed. It returns the context's error when
// the context ends.
func (w *Writer) DeleteKeys(ctx context.Context, keys [][]byte) (n int, err error) {
	for i, key := range keys {
		if err := GivenUp(ctx, i); err != nil {
			return 0, err
		}
		there, err := w.Delete(key)
		if err != nil {
			return 0, err
		}
		if there {
			n++
		}
	}
	return n, nil
}

// RenameIfFree is Rename unless something is under dst, and reports whether it renamed.
func (w *Writer) RenameIfFree(src, dst []byte) (bool, error) {
	from, err := w.Object(src)
	if err != nil {
		return false, err
	}
	if from == nil {
		return false, notFound(src)
	}
	to, err := w.Object(dst)
	if err != nil || to != nil {
		return false, err
	}
	return true, w.Rename(src, dst)
}

// Rename stages moving what is under src to dst, and replaces what is there. It returns ErrNotFound if src is
// missing. Src and dst may be equal.
func (w *Writer) Rename(src, dst []byte) error {
	o, err := w.Object(src)
	if err != nil {
		return err
	}
	if o == nil {
		return notFound(src)
	}
	if string(src) == string(dst) {
		return nil
	}
	old, err := w.stored(dst)
	if err != nil {
		return err
	}
	moved, err := newObject(w.db, string(dst), o.header, o.layers)
	if err != nil {
		return err
	}
	if old != nil {
		w.dropObject(old)
	}
	w.setKey(src, nil)
	w.setKey(dst, moved)
	return nil
}

// DeleteAll stages the removal of every key. It returns an error unless the writer is a transaction's, which may
// touch any key.
func (w *Writer) DeleteAll() error {
	if w.gate != gateExclusive {
		return errors.New("kv: a writer of named keys cannot delete all")
	}
	before := w.changes
	w.changes = changes{flush: true}
	w.onUndo(func() { w.changes = before })
	return nil
}

// stageDrops stages the removal of everything, or of the dropped objects, with notes to reclaim their space. It removes
// the notes of objects that were built.
func (w *Writer) stageDrops() {
	if w.flush {
		w.sequence = true
		for _, tag := range []byte{format.TagHeader, format.TagDropped, format.TagExpiry, format.TagWake} {
			w.batch.DeleteRange([]byte{tag}, []byte{tag + 1})
		}
		// Objects built since are written already, and stay.
		from := []byte{format.TagObject}
		for _, id := range slices.Sorted(slices.Values(w.built)) {
			w.batch.DeleteRange(from, format.AppendObjectKey(nil, id))
			from = format.AppendObjectKey(nil, id+1)
		}
		w.batch.DeleteRange(from, []byte{format.TagObject + 1})
		w.batch.DeleteRange(format.AppendMetaKey(nil, format.MetaKeys), format.AppendMetaKey(nil, format.MetaKeys+1))
		w.set(format.AppendDroppedKey(w.scratch[:0], 0), nil) // object 0: all ids below the next one
	}
	if len(w.drops)+len(w.layerDrops)+len(w.built)+len(w.attributes) == 0 {
		return
	}
	dropped := make(map[uint64]bool)
	for _, id := range w.drops {
		storage.DeleteAll(w.db.store, &w.batch, format.AppendObjectKey(nil, id), format.AppendObjectKey(nil, id+1))
		dropped[id] = true
	}
	w.stageLayerDrops(dropped)
	for _, id := range w.built {
		w.delete(format.AppendDroppedKey(w.scratch[:0], id))
	}
	for _, id := range w.drops {
		w.set(format.AppendDroppedKey(w.scratch[:0], id), nil)
	}
	for _, a := range w.attributes {
		if dropped[a.object] {
			continue
		}
		key := format.AppendAttributeKey(w.scratch[:0], a.object, a.name)
		if a.value == nil {
			w.delete(key)
		} else {
			w.set(key, a.value)
		}
	}
}
