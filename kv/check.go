package kv

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/sievekv/sievekv/kv/block"
	"github.com/sievekv/sievekv/kv/format"
	"github.com/sievekv/sievekv/kv/storage"
)

// CheckReport is what Check found.
type CheckReport struct {
	Keys   uint64
	Blocks uint64 // stored blocks; absent ones are zeros and take no space
	Bytes  uint64 // of the stored blocks' values

	Problems []error  // what cannot be true of a sound store: corruption, or a mistake of this program
	Notes    []string // what is unlikely, or could not be checked
}

// Check reads every header, counter and block of the store as of one commit, decodes all of it, and has each type
// verify its objects. It checks that everything decodes; that every block lies inside its layer and belongs to an
// object that a key maps to; that no two keys share an object; that each key with an expiry is noted under that expiry,
// and no other key is; and that the numbers of keys are right. Types check more; what is unlikely, but not impossible,
// is in the Notes.
func (db *DB) Check(ctx context.Context) (*CheckReport, error) {
	if err := db.enter(); err != nil {
		return nil, err
	}
	defer db.exit()
	db.store.Flush() // most of it, before take holds up commits
	c := &checker{db: db, owners: make(map[uint64]string)}
	c.take()
	defer func() { _ = c.snap.Close() }() // it fails only for a snapshot that was closed before
	err := c.run(ctx)
	return &c.report, err
}

// take takes the snapshot, and the key counts that belong to it.
func (c *checker) take() {
	db := c.db
	db.lockApply()
	defer db.apply.Unlock()
	c.snap, _ = db.store.Snapshot()
	for i := range db.groups {
		c.want[i] = db.groups[i].Load()
	}
	c.wantExpiring, c.counted = db.expiring.known()
}

type checker struct {
	db       *DB
	snap     *storage.Snapshot
	owners   map[uint64]string   // by object id
	want     [numKeyLocks]uint64 // keys by group, as commits counted them
	expiring uint64              // keys with an expiry
	report   CheckReport

	wantExpiring uint64 // as commits counted them, if the keys stored before Open are counted yet
	counted      bool
}

func (c *checker) problem(format string, args ...any) {
	c.report.Problems = append(c.report.Problems, fmt.Errorf(format, args...))
}

func (c *checker) run(ctx context.Context) error {
	var groups [numKeyLocks]uint64
	err := c.each(ctx, []byte{format.TagHeader}, []byte{format.TagHeader + 1}, func(key, value []byte) error {
		c.report.Keys++
		c.header(key, value, &groups)
		return nil
	})
	if err != nil {
		return err
	}
	for i, n := range groups {
		if n != c.want[i] {
			c.problem("%w: %d keys in group %d, but the count says %d", ErrCorrupt, n, i, c.want[i])
		}
	}
	if err := c.expiries(ctx); err != nil {
		return err
	}
	return c.objects(ctx)
}

func (c *checker) header(stored, value []byte, groups *[numKeyLocks]uint64) {
	hash, key, err := format.DecodeHeaderKey(stored)
	if err != nil {
		c.problem("%w", err)
		return
	}
	groups[hash>>(64-keyLockBits)]++
	if want := c.db.hash(key); hash != want {
		c.problem("%w: key %q: stored at hash %x, has hash %x", ErrCorrupt, key, hash, want)
	}
	h, err := format.DecodeHeader(value)
	if err != nil {
		c.problem("key %q: %w", key, err)
		return
	}
	if at := h.Expiry; at != 0 {
		c.expiring++
		if noted, err := c.noted(format.AppendExpiryKey(nil, at, key), h); err != nil || !noted {
			c.problem("%w: key %q expires at %d, which is not noted", errors.Join(ErrCorrupt, err), key, at)
		}
	}
	if h.ID == 0 {
		if _, err := format.StringOf(h); err != nil {
			c.problem("key %q: %w", key, err)
		}
		return
	}
	if other, taken := c.owners[h.ID]; taken {
		c.problem("%w: keys %q and %q share object %d", ErrCorrupt, other, key, h.ID)
	}
	c.owners[h.ID] = string(key)
}

// expiries finds notes of keys that are missing or do not expire then. Each key that expires has one note, so it is
// enough to count them.
func (c *checker) expiries(ctx context.Context) error {
	notes := uint64(0)
	err := c.each(ctx, []byte{format.TagExpiry}, []byte{format.TagExpiry + 1}, func(key, _ []byte) error {
		if _, _, err := format.DecodeExpiryKey(key); err != nil {
			c.problem("%w", err)
		}
		notes++
		return nil
	})
	if err == nil && notes != c.expiring {
		c.problem("%w: %d keys expire, but %d are noted to", ErrCorrupt, c.expiring, notes)
	}
	if err == nil && c.counted && c.wantExpiring != c.expiring {
		c.problem("%w: %d keys expire, but the count says %d", ErrCorrupt, c.expiring, c.wantExpiring)
	}
	return err
}

// noted reports whether a note is stored if the header needs it, and not stored if it does not.
func (c *checker) noted(note []byte, h *format.Header) (bool, error) {
	value, found, err := c.get(note)
	return found && bytes.Equal(value, format.ExpiryNoteValue(h)), err
}

// get returns a copy of what is stored under a key, and whether anything is.
func (c *checker) get(key []byte) (value []byte, found bool, err error) {
	stored, closer, err := c.snap.Get(key)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	return bytes.Clone(stored), true, closer.Close()
}

// objects checks the objects in the order in which they are stored.
func (c *checker) objects(ctx context.Context) error {
	var at *objectCheck
	finish := func() {
		if at != nil {
			at.done()
		}
		at = nil
	}
	seen := make(map[uint64]bool)
	err := c.each(ctx, []byte{format.TagObject}, []byte{format.TagObject + 1}, func(key, value []byte) error {
		k, err := format.DecodeObjectKey(key)
		if err != nil {
			c.problem("%w", err)
			return nil
		}
		if at == nil || at.id != k.Object {
			finish()
			at = c.object(k.Object)
			seen[k.Object] = true
		}
		at.entry(k, value)
		return nil
	})
	finish()
	// The module also verifies objects that have nothing stored.
	for id := range c.owners {
		if !seen[id] {
			c.object(id).done()
		}
	}
	return err
}

func (c *checker) each(ctx context.Context, from, to []byte, f func(key, value []byte) error) (err error) {
	it, err := c.snap.NewIterWithContext(ctx, &storage.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		return storage.ReadError(err, "check")
	}
	defer func() { // a type's verifier may panic in f
		if cerr := it.Close(); err == nil && cerr != nil {
			err = storage.ReadError(cerr, "check")
		}
	}()
	for ok := it.First(); ok; ok = it.Next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		value, err := it.ValueAndErr()
		if err == nil {
			err = f(it.Key(), value)
		}
		if err != nil {
			return storage.ReadError(err, "check: key %x", it.Key())
		}
	}
	return nil
}

// objectCheck checks one object.
type objectCheck struct {
	c        *checker
	id       uint64
	o        *Object // nil if it cannot be opened, which has been reported
	verifier Verifier
}

func (c *checker) object(id uint64) *objectCheck {
	oc := &objectCheck{c: c, id: id}
	key, owned := c.owners[id]
	if !owned {
		if unwritten, err := c.unwritten(id); err != nil || !unwritten {
			c.problem("%w: object %d belongs to no key", errors.Join(ErrCorrupt, err), id)
		}
		return oc
	}
	value, closer, err := c.snap.Get(c.db.headerKey(nil, []byte(key)))
	if err != nil {
		c.problem("key %q: %w", key, storage.ReadError(err, "header"))
		return oc
	}
	h, err := format.DecodeHeader(bytes.Clone(value))
	if err = errors.Join(err, closer.Close()); err != nil {
		c.problem("key %q: %w", key, err)
		return oc
	}
	layers := make([]*Layer, len(h.Layers))
	for i, spec := range h.Layers {
		layers[i] = newLayer(h, spec)
	}
	if oc.o, err = newObject(c.db, key, h, layers); err != nil {
		c.problem("%w", err)
		return oc
	}
	switch {
	case oc.o.typ == nil && h.Module != format.BuiltInModule:
		c.report.Notes = append(c.report.Notes, fmt.Sprintf("key %q: module %q is not registered, what it alone knows was not checked", key, h.Module))
	case oc.o.typ != nil && oc.o.typ.Verify != nil:
		oc.verifier = oc.o.typ.Verify(oc.o)
	}
	return oc
}

// unwritten reports whether an object belongs to a build that has not ended, or was ended by a crash: see build.go.
func (c *checker) unwritten(id uint64) (bool, error) {
	value, _, err := c.get(format.AppendDroppedKey(nil, id))
	return len(value) > 0 && value[0] == format.DroppedUnwritten, err
}

func (oc *objectCheck) entry(k format.ObjectKey, value []byte) {
	if oc.o == nil || k.Part == format.PartAttributes {
		return
	}
	number := k.Rest
	if k.Part != format.PartCounters {
		number = k.Part - format.PartLayers
	}
	var layer *Layer
	for _, l := range oc.o.layers {
		if l.spec.Number == number {
			layer = l
		}
	}
	switch {
	case layer == nil:
		oc.c.problem("%w: key %q: entry of layer %d, which it does not have", ErrCorrupt, oc.o.key, number)
	case k.Part == format.PartCounters:
		oc.counters(layer, value)
	default:
		oc.block(layer, k.Rest, value)
	}
}

func (oc *objectCheck) counters(l *Layer, value []byte) {
	counters, err := format.DecodeCounters(value)
	if err != nil {
		oc.c.problem("key %q: layer %d: %w", oc.o.key, l.spec.Number, err)
		return
	}
	for i, v := range counters {
		l.counters[i].Store(v)
	}
}

func (oc *objectCheck) block(l *Layer, blk uint64, value []byte) {
	oc.c.report.Blocks++
	oc.c.report.Bytes += uint64(len(value))
	if blk >= l.spec.Blocks {
		oc.c.problem("%w: key %q: block %d of layer %d, which has %d", ErrCorrupt, oc.o.key, blk, l.spec.Number, l.spec.Blocks)
		return
	}
	_, words := l.newBlock()
	if _, err := block.Decode(words, oc.o.header.Family, value); err != nil {
		oc.c.problem("%w", storage.ReadError(err, "key %q: block %d of layer %d", oc.o.key, blk, l.spec.Number))
		return
	}
	if oc.verifier == nil {
		return
	}
	if err := oc.verifier.Block(l, blk, words); err != nil {
		oc.c.problem("key %q: block %d of layer %d: %w", oc.o.key, blk, l.spec.Number, err)
	}
}

func (oc *objectCheck) done() {
	if oc.verifier == nil {
		return
	}
	note, err := oc.verifier.Done()
	if err != nil {
		oc.c.problem("key %q: %w", oc.o.key, err)
	}
	if note != "" {
		oc.c.report.Notes = append(oc.c.report.Notes, fmt.Sprintf("key %q: %s", oc.o.key, note))
	}
}
