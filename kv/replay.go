package kv

import (
	"context"
	"encoding/binary"

	"github.com/sievekv/sievekv/kv/format"
	"github.com/sievekv/sievekv/kv/hot"
	"github.com/sievekv/sievekv/kv/storage"
)

// Replay makes a record of another store's log, as its Options.Log was given it, a commit of this one. A store that began as a
// backup of the other and replays all later records in their order has the same keys, blocks and counters. Nothing else may
// write to it meanwhile, and no service may run that does. Watches are not told. The errors are ErrCorrupt for what is no such record, and those of
// Write.
func (db *DB) Replay(ctx context.Context, record []byte) error {
	w, err := db.beginAll(ctx, NoSync)
	if err != nil {
		return err
	}
	defer w.release()
	if err := w.batch.Load(record); err != nil {
		return err
	}
	if w.batch.Empty() {
		return nil
	}
	w.sequence = true // nobody knows which part of it lookups may see alone
	defer db.forgetStrings(&w.batch)()
	if _, err := w.apply(storage.Now); err != nil {
		return err
	}
	if err := db.readAgain(&w.batch); err != nil {
		return err
	}
	return db.failure()
}

// forgetStrings has the strings in memory forget, when a commit is applied, the keys whose headers it changes.
func (db *DB) forgetStrings(b *storage.Batch) (applied func()) {
	var keys [][]byte
	all := false
	for i := range b.Count() {
		switch c := b.Change(i); {
		case c.Key[0] != format.TagHeader:
		case c.Kind == storage.KindRangeDelete:
			all = true
			db.strings.BeginAll()
		default:
			key := c.Key[format.HeaderKeyPrefix:]
			keys = append(keys, key)
			db.strings.Begin(db.hash(key), key)
		}
	}
	return func() {
		if all {
			db.strings.EndAll(false)
		}
		for _, key := range keys {
			db.strings.End(db.hash(key), key, hot.Change{}, false)
		}
	}
}

// readAgain takes over what the other store knows in memory besides: the ids that it has leased, so that objects made here have
// others, and the secret of its hashes.
func (db *DB) readAgain(b *storage.Batch) error {
	for i := range b.Count() {
		c := b.Change(i)
		switch {
		case c.Key[0] != format.TagMeta || c.Kind != storage.KindSet:
		case c.Key[1] == format.MetaNextID:
			next, _ := binary.Uvarint(c.Value)
			db.idMu.Lock()
			db.nextID, db.leasedID = max(db.nextID, next), max(db.leasedID, next)
			db.idMu.Unlock()
		case c.Key[1] == format.MetaSecret:
			db.secretMu.Lock()
			err := db.readSecret()
			db.secretMu.Unlock()
			if err != nil {
				return err
			}
		}
	}
	return nil
}
