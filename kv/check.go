package kv

import (
	"context"
	"errors"
	"fmt"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/check"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/memory"
	"github.com/sievekv/sievekv/internal/storage"
	"github.com/sievekv/sievekv/internal/storage/remains"
)

// CheckReport is what a check found.
type CheckReport = check.Report

// CheckOptions say what a check does beside reading what is stored.
type CheckOptions struct {
	// Deep reads all of every table, and compares the checksum of each of its blocks, also in parts that no key needs
	// any more.
	Deep bool

	// Repair mends what needs no guessing: it removes objects that no key has, corrects the numbers of keys, and
	// writes and removes notes of expiries and of Type.Wake. It mends nothing if a part of the store cannot be read.
	// Writers wait while the store is checked.
	Repair bool
}

// Check is CheckWith without options.
func (db *DB) Check(ctx context.Context) (*CheckReport, error) {
	return db.CheckWith(ctx, CheckOptions{})
}

// CheckWith reads every header, counter and block of the store as of one commit, decodes all of it, and has each type
// verify its objects. It checks that everything decodes; that every block lies inside its layer and belongs to an
// object that a key maps to; that no two keys share an object; that each key with an expiry is noted under that expiry,
// and no other key is; that there is a note of when to call types, see Type.Wake; and that the numbers of keys are
// right. Types check more. The Notes have findings that are unlikely, but not impossible. A file of ErrStray is a
// problem. If a table has blocks that cannot be read, the check goes on behind them, and names the keys that may have
// lost something.
func (db *DB) CheckWith(ctx context.Context, o CheckOptions) (*CheckReport, error) {
	if o.Repair {
		return db.repair(ctx, o)
	}
	if err := db.enter(); err != nil {
		return nil, err
	}
	defer db.exit()
	c, err := db.check(ctx, o)
	return &c.Report, err
}

func (db *DB) check(ctx context.Context, o CheckOptions) (*check.Checker, error) {
	db.store.Flush() // most of it, before checker holds up commits
	c, snap := db.checker()
	defer func() { _ = snap.Close() }() // it fails only for a snapshot that was closed before
	c.Mend, c.Left = o.Repair, storage.Damaged(db.store)
	if o.Deep || c.Left {
		if err := c.Deep(ctx); err != nil {
			return c, err
		}
	}
	return c, c.Run(ctx, db.store)
}

// checker returns a checker of a snapshot, with the key counts that belong to it.
func (db *DB) checker() (*check.Checker, *storage.Snapshot) {
	db.lockApply()
	defer db.apply.Unlock()
	now := db.Now() // if a clock panics, no snapshot is open
	snap, _ := db.store.Snapshot()
	c := &check.Checker{Store: checked{db}, From: snap, Now: now, Counts: db.groups}
	if db.store.Group != nil { // what is pending is not in the snapshot
		for i := range c.Counts {
			c.Counts[i], _, _ = readCounts(snap, i) // what does not decode differs
		}
	}
	return c, snap
}

// checked is what a check knows of the store, as check.Store says.
type checked struct{ db *DB }

func (s checked) Hash(key []byte) uint64 { return s.db.hash(key) }

func (s checked) String(h *format.Header) error {
	_, err := format.StringOf(h)
	return err
}

func (s checked) Damage(ctx context.Context) ([]remains.Range, []string, error) {
	return storage.Damage(ctx, s.db.store)
}

func (s checked) Object(key string, h *format.Header) (check.Object, string, error) {
	layers := make([]*Layer, len(h.Layers))
	for i, spec := range h.Layers {
		layers[i] = memory.NewLayer(h.ID, spec)
	}
	o, err := newObject(s.db, key, h, layers)
	if err != nil {
		return nil, "", err
	}
	c := &checkedObject{o: o}
	if o.typ == nil && h.Module != format.BuiltInModule {
		return c, fmt.Sprintf("module %q is not registered, what it alone knows was not checked", h.Module), nil
	}
	if o.typ != nil && o.typ.Verify != nil {
		c.verifier = o.typ.Verify(o)
	}
	return c, "", nil
}

// checkedObject is an object that is checked, see check.Object.
type checkedObject struct {
	o        *Object
	verifier Verifier // nil if there is none
}

func (c *checkedObject) Wake() (at int64, known bool) {
	return wakeOf(c.o), c.o.wakeKnown()
}

func (c *checkedObject) Counters(layer uint64, counters [format.NumCounters]uint64) {
	c.o.layer(layer).SetCounters(counters)
}

func (c *checkedObject) Block(layer, blk uint64, value []byte) error {
	l := c.o.layer(layer)
	_, words := l.NewBlock()
	if _, err := block.Decode(words, c.o.header.Family, value); err != nil {
		return storage.ReadError(err, "key %q: block %d of layer %d", c.o.key, blk, layer)
	}
	if c.verifier == nil {
		return nil
	}
	if err := c.verifier.Block(l, blk, words); err != nil {
		return fmt.Errorf("key %q: block %d of layer %d: %w", c.o.key, blk, layer, err)
	}
	return nil
}

func (c *checkedObject) Usable() error { return c.o.CheckCounters((*Layer).Counter) }

func (c *checkedObject) Done() (note string, err error) {
	if c.verifier == nil {
		return "", nil
	}
	return c.verifier.Done()
}

// repair checks the store with all writers held up, and mends what needs no guessing.
func (db *DB) repair(ctx context.Context, o CheckOptions) (*CheckReport, error) {
	if db.store.Group != nil {
		return nil, errors.New("kv: a store of a group is not mended alone: take it out of the group first (Options.LeaveGroup)")
	}
	w, err := db.beginAll(ctx, Always)
	if err != nil {
		return nil, err
	}
	defer w.release()
	c, err := db.check(ctx, o)
	if err != nil {
		return &c.Report, err
	}
	if !c.Repair(&w.batch) {
		return &c.Report, nil
	}
	if err := db.commitRepair(w, c); err != nil {
		return &c.Report, err
	}
	return &c.Report, db.store.Sync()
}

func (db *DB) commitRepair(w *Writer, c *check.Checker) error {
	db.lockApply()
	defer db.apply.Unlock()
	if _, err := db.store.Commit(&w.batch, storage.Now); err != nil {
		return err
	}
	for i, n := range c.Found {
		db.setCounts(i, n)
	}
	db.expiry.Lower([]byte{format.TagExpiry})
	return nil
}
