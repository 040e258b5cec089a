package kv

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/sievekv/sievekv/kv/format"
	"github.com/sievekv/sievekv/kv/hash"
	"github.com/sievekv/sievekv/kv/storage"
	"github.com/sievekv/sievekv/kv/text"
)

// readMeta reads the next object id, the numbers of keys and the secret of hashes.
func (db *DB) readMeta() (err error) {
	if err := db.readSecret(); err != nil {
		return err
	}
	if db.nextID, err = db.readNumber(format.AppendMetaKey(nil, format.MetaNextID), 1); err != nil {
		return fmt.Errorf("next object id: %w", err)
	}
	db.leasedID = db.nextID
	return db.readKeyCounts()
}

func (db *DB) readKeyCounts() error {
	for i := range db.groups {
		n, err := db.readNumber(format.AppendKeyCountKey(nil, uint8(i)), 0)
		if err != nil {
			return fmt.Errorf("number of keys of group %d: %w", i, err)
		}
		db.groups[i].Store(n)
		db.keys.Add(n)
	}
	return nil
}

// readNumber reads a number of the metadata, or returns missing if there is none.
func (db *DB) readNumber(key []byte, missing uint64) (uint64, error) {
	value, err := storage.ReadMeta(db.store, key)
	if err != nil || value == nil {
		return missing, err
	}
	v, n := binary.Uvarint(value)
	if n != len(value) {
		return 0, format.Corruptf("number %x", value)
	}
	return v, nil
}

// readSecret reads the secret of keyed hashes, if the store has one.
func (db *DB) readSecret() error {
	value, err := storage.ReadMeta(db.store, format.AppendMetaKey(nil, format.MetaSecret))
	if err != nil || value == nil {
		return err
	}
	if len(value) != hash.SecretLen {
		return format.Corruptf("secret of hashes: %d bytes, want %d", len(value), hash.SecretLen)
	}
	f := hash.NewKeyed(hash.Secret(value))
	db.keyed = &f
	return nil
}

// keyedHash returns the keyed hash with the store's own secret. The first object that needs the secret makes it, in a
// commit of its own, which is in the log before the object.
func (db *DB) keyedHash() (hash.Function, error) {
	db.keyedMu.Lock()
	defer db.keyedMu.Unlock()
	if db.keyed != nil {
		return *db.keyed, nil
	}
	secret, err := hash.NewSecret()
	if err != nil {
		return hash.Function{}, text.After(err, "kv: secret of hashes")
	}
	if err := db.set(format.AppendMetaKey(nil, format.MetaSecret), secret[:]); err != nil {
		return hash.Function{}, err
	}
	f := hash.NewKeyed(secret)
	db.keyed = &f
	return f, nil
}

// newObjectID returns an id that no object has had. Ids are leased in a commit of their own, which is in the log
// before any object with one of them.
func (db *DB) newObjectID() (uint64, error) {
	const lease = 4096
	db.idMu.Lock()
	defer db.idMu.Unlock()
	if db.nextID == db.leasedID {
		end := binary.AppendUvarint(nil, db.leasedID+lease)
		if err := db.set(format.AppendMetaKey(nil, format.MetaNextID), end); err != nil {
			return 0, err
		}
		db.leasedID += lease
	}
	id := db.nextID
	db.nextID++
	return id, nil
}

// ItemHash returns the hash for the items of a new object. All objects of a store with hashes of one kind have the
// same, so that they can be merged, unless the store is opened with another Options.Seed.
func (db *DB) ItemHash(kind hash.Kind) (hash.Function, error) {
	if kind == hash.XXH64 {
		return hash.NewXXH64(db.meta.Seed), nil
	}
	if db.opts.Seed != 0 {
		return hash.NewKeyed(hash.SecretOf(db.opts.Seed)), nil
	}
	if err := db.enter(); err != nil {
		return hash.Function{}, err
	}
	defer db.exit()
	return db.keyedHash()
}

// set stores a record in a commit of its own, which is in the log before any commit that begins later. It does not
// wait for the disk.
func (db *DB) set(key, value []byte) error {
	b := db.store.NewBatch()
	defer func() { _ = b.Close() }() // releases memory, cannot fail
	must(b.Set(key, value, nil))
	_, err := db.store.Commit(b, false)
	return err
}

// iterate returns an iterator over the stored keys from low on, below high.
func (db *DB) iterate(ctx context.Context, low, high []byte) (*storage.Iterator, error) {
	return db.store.NewIterWithContext(ctx, &storage.IterOptions{LowerBound: low, UpperBound: high})
}
