package kv

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sievekv/sievekv/kv/hash"
)

// readMeta reads the store's metadata, checks that the log is whole, and sets
// the store's own state from it. Fresh means there is none yet.
func (db *DB) readMeta() (fresh bool, err error) {
	value, err := db.readMetaKey(metaStore)
	if err != nil {
		return false, err
	}
	if value == nil {
		return true, db.checkEmpty()
	}
	if db.meta, err = decodeStoreMeta(value); err != nil {
		return false, fmt.Errorf("%s: %w", db.dir, err)
	}
	if db.opts.Seed != 0 {
		db.meta.seed = db.opts.Seed
	}
	if err := db.readSecret(); err != nil {
		return false, err
	}
	if db.nextID, err = db.readMetaNumber(metaNextID, 1); err != nil {
		return false, err
	}
	db.leasedID = db.nextID
	if err := db.readKeyCounts(); err != nil {
		return false, err
	}
	return false, db.findSequence()
}

func (db *DB) readKeyCounts() error {
	for i := range db.groups {
		value, err := db.readRaw(appendKeyCountKey(nil, uint8(i)))
		if err != nil || value == nil {
			if err != nil {
				return err
			}
			continue
		}
		n, err := decodeMetaNumber(value)
		if err != nil {
			return fmt.Errorf("number of keys of group %d: %w", i, err)
		}
		db.groups[i].Store(n)
		db.keys.Add(n)
	}
	return nil
}

// checkEmpty refuses a directory that holds a database of somebody else's.
func (db *DB) checkEmpty() error {
	it, err := db.disk.NewIter(nil)
	if err != nil {
		return fmt.Errorf("kv: open %s: %w", db.dir, err)
	}
	some := it.First()
	if err := it.Close(); err != nil {
		return fmt.Errorf("kv: open %s: %w", db.dir, err)
	}
	if some {
		return corruptf("%s holds a database without a store's metadata", db.dir)
	}
	return nil
}

func (db *DB) readMetaKey(which byte) ([]byte, error) { return db.readRaw(appendMetaKey(nil, which)) }

// readRaw returns a copy of what is stored under a key of metadata, nil if nothing is.
func (db *DB) readRaw(key []byte) ([]byte, error) {
	value, closer, err := db.disk.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, db.readError(err, "store metadata %x", key)
	}
	value = append([]byte{}, value...)
	return value, closer.Close()
}

func (db *DB) readMetaNumber(which byte, missing uint64) (uint64, error) {
	value, err := db.readMetaKey(which)
	if err != nil || value == nil {
		return missing, err
	}
	v, err := decodeMetaNumber(value)
	if err != nil {
		return 0, fmt.Errorf("store metadata %d: %w", which, err)
	}
	return v, nil
}

func decodeMetaNumber(value []byte) (uint64, error) {
	v, n := binary.Uvarint(value)
	if n != len(value) {
		return 0, corruptf("number %x", value)
	}
	return v, nil
}

func (db *DB) writeMeta() error {
	m := storeMeta{seed: db.opts.Seed}
	if _, err := io.ReadFull(rand.Reader, m.id[:]); err != nil {
		return fmt.Errorf("kv: store id: %w", err)
	}
	var random [8]byte
	if _, err := io.ReadFull(rand.Reader, random[:]); err != nil {
		return fmt.Errorf("kv: seed: %w", err)
	}
	if m.seed == 0 {
		m.seed = binary.LittleEndian.Uint64(random[:])
	}
	if err := db.disk.Set(appendMetaKey(nil, metaStore), appendStoreMeta(nil, m), pebble.Sync); err != nil {
		return fmt.Errorf("kv: create %s: %w", db.dir, err)
	}
	return db.failure()
}

// findSequence learns where the log ends. What recovery found is what is on
// stable storage, once the new log is synced.
func (db *DB) findSequence() error {
	b := db.disk.NewBatch()
	defer func() { _ = b.Close() }() // releases memory, cannot fail
	if err := b.LogData(nil, nil); err != nil {
		return fmt.Errorf("kv: open %s: %w", db.dir, err)
	}
	if err := db.disk.Apply(b, pebble.Sync); err != nil {
		return fmt.Errorf("kv: open %s: %w", db.dir, err)
	}
	if err := db.failure(); err != nil {
		return err
	}
	next := uint64(b.SeqNum())
	if err := db.checkSidecar(next); err != nil {
		return err
	}
	db.lastSeq.Store(next - 1)
	db.durable.Store(next - 1)
	return nil
}

// readSecret reads the secret of keyed hashes, if the store has one.
func (db *DB) readSecret() error {
	value, err := db.readMetaKey(metaSecret)
	if err != nil || value == nil {
		return err
	}
	if len(value) != hash.SecretLen {
		return corruptf("secret of hashes: %d bytes, want %d", len(value), hash.SecretLen)
	}
	f := hash.NewKeyed(hash.Secret(value))
	db.keyed = &f
	return nil
}

// keyedHash returns the keyed hash of the store's own secret. A store that has none, as no object
// needed it yet, gets one in a commit of its own, which is in the log before any object that uses it.
func (db *DB) keyedHash() (hash.Function, error) {
	db.keyedMu.Lock()
	defer db.keyedMu.Unlock()
	if db.keyed != nil {
		return *db.keyed, nil
	}
	secret, err := hash.NewSecret()
	if err != nil {
		return hash.Function{}, fmt.Errorf("kv: secret of hashes: %w", err)
	}
	if err := db.disk.Set(appendMetaKey(nil, metaSecret), secret[:], pebble.NoSync); err != nil {
		return hash.Function{}, db.fail(fmt.Errorf("kv: secret of hashes: %w", err))
	}
	f := hash.NewKeyed(secret)
	db.keyed = &f
	return f, nil
}

// newObjectID returns an id no object had. Ids are leased in a commit of their
// own, which is in the log before any object that uses one of them.
func (db *DB) newObjectID() (uint64, error) {
	const lease = 4096
	db.idMu.Lock()
	defer db.idMu.Unlock()
	if db.nextID == db.leasedID {
		end := binary.AppendUvarint(nil, db.leasedID+lease)
		if err := db.disk.Set(appendMetaKey(nil, metaNextID), end, pebble.NoSync); err != nil {
			return 0, db.fail(fmt.Errorf("kv: lease of object ids: %w", err))
		}
		db.leasedID += lease
	}
	id := db.nextID
	db.nextID++
	return id, nil
}

// ItemHash returns the hash for the items of a new object. That of a kind is the same for all
// objects of the store, so that they can be merged, unless the store is opened with another
// Options.Seed.
func (db *DB) ItemHash(kind hash.Kind) (hash.Function, error) {
	if kind == hash.XXH64 {
		return hash.NewXXH64(db.meta.seed), nil
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
