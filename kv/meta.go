package kv

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/sievekv/sievekv/internal/expiry"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/hash"
	"github.com/sievekv/sievekv/internal/storage"
	"github.com/sievekv/sievekv/internal/text"
)

// readMeta reads the next object id, the numbers of keys and the secret of hashes.
func (db *DB) readMeta() (err error) {
	if err := db.readSecret(); err != nil {
		return err
	}
	if db.nextID, err = db.readNextID(); err != nil {
		return fmt.Errorf("next object id: %w", err)
	}
	db.leasedID = db.nextID
	return db.readKeyCounts()
}

func (db *DB) readKeyCounts() error {
	var older [numKeyLocks]bool
	for i := range db.groups {
		n, is, err := readCounts(db.store, i)
		if err != nil {
			return err
		}
		db.setCounts(i, n)
		older[i] = is
	}
	if slices.Contains(older[:], true) {
		if err := db.countExpiring(&older); err != nil {
			db.opts.Logger.Warn("sievekv: keys that expire cannot be counted", "dir", db.dir, "error", err.Error())
		}
	}
	return nil
}

// readCounts returns the stored numbers of keys of a group, and whether the number of expiring keys is missing.
func readCounts(from storage.Reader, group int) (n format.KeyCounts, older bool, err error) {
	value, err := storage.ReadMeta(from, format.AppendKeyCountKey(nil, uint8(group)))
	if err == nil && value != nil {
		n, older, err = format.DecodeKeyCounts(value)
	}
	if err != nil {
		err = fmt.Errorf("numbers of keys of group %d: %w", group, err)
	}
	return n, older, err
}

// countExpiring counts the keys that expire in groups whose records leave that number out, by their notes. It writes
// nothing: each commit that changes the numbers of a group writes both of them.
func (db *DB) countExpiring(older *[numKeyLocks]bool) error {
	it, err := db.iterate(context.Background(), []byte{format.TagExpiry}, expiry.End)
	if err != nil {
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
		_, key, err := format.DecodeExpiryKey(it.Key())
		if i := db.keyLockIndex(key); err == nil && older[i] {
			db.setCounts(int(i), db.groups[i].Plus(0, 1))
		}
	}
	return errors.Join(it.Error(), it.Close())
}

// setCounts sets the numbers of keys of a group. The caller holds the group's key lock, or the gate alone; or it is the apply
// loop of a member, which holds DB.apply alone.
func (db *DB) setCounts(group int, n format.KeyCounts) {
	was := &db.groups[group]
	db.keys.Add(n.Keys - was.Keys)
	db.expiring.Add(n.Expiring - was.Expiring)
	*was = n
}

func (db *DB) readNextID() (uint64, error) {
	value, err := storage.ReadMeta(db.store, format.AppendMetaKey(nil, format.MetaNextID))
	if err != nil || value == nil {
		return 1, err
	}
	v, n := binary.Uvarint(value)
	if n != len(value) {
		return 0, format.Corruptf("number %x", value)
	}
	return v, nil
}

// readSecret reads the secret from which the secrets of keyed hashes follow, if the store has one.
func (db *DB) readSecret() error {
	value, err := storage.ReadMeta(db.store, format.AppendMetaKey(nil, format.MetaSecret))
	if err != nil || value == nil {
		return err
	}
	if len(value) != hash.SecretLen {
		return format.Corruptf("secret of hashes: %d bytes, want %d", len(value), hash.SecretLen)
	}
	db.secret = (*hash.Secret)(value)
	return nil
}

// ownSecret returns the store's own secret. The first object that needs the secret makes it, in a commit of its own,
// which is in the log before the object. Objects made by earlier versions have the secret itself.
func (db *DB) ownSecret() (hash.Secret, error) {
	db.secretMu.Lock()
	defer db.secretMu.Unlock()
	if db.secret != nil {
		return *db.secret, nil
	}
	secret, err := hash.NewSecret()
	if err != nil {
		return secret, text.After(err, "kv: secret of hashes")
	}
	if err := db.set(format.AppendMetaKey(nil, format.MetaSecret), secret[:]); err != nil {
		return secret, err
	}
	db.secret = &secret
	return secret, nil
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

// ItemHash returns the hash for the items of a new object. A keyed hash has a secret that no other object has, or, if
// group is not empty, the secret of all objects of the group, which can be merged. A person who learns the secret of
// one object, for instance from a dump, learns nothing about others. With Options.Seed all objects have one secret.
// XXH64 has one seed for all objects of the store.
func (db *DB) ItemHash(kind hash.Kind, group string) (hash.Function, error) {
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
	secret, err := db.ownSecret()
	if err != nil {
		return hash.Function{}, err
	}
	if group != "" {
		return hash.NewKeyed(secret.For("group " + group)), nil
	}
	number, err := db.newObjectID() // of no object: only a number that is not used again
	return hash.NewKeyed(secret.For(fmt.Sprint("object ", number))), err
}

// set stores a record in a commit of its own, which is in the log before any commit that begins later. It does not
// wait for the disk.
func (db *DB) set(key, value []byte) error {
	epoch, err := db.leads()
	if err != nil {
		return err
	}
	var b storage.Batch
	b.Set(key, value)
	return db.commitBatch(&b, epoch)
}

// iterate returns an iterator over the stored keys from low on, below high.
func (db *DB) iterate(ctx context.Context, low, high []byte) (*storage.Iterator, error) {
	return db.store.NewIterWithContext(ctx, &storage.IterOptions{LowerBound: low, UpperBound: high})
}
