package storage

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/seeds"
	"github.com/sievekv/sievekv/internal/text"
)

// readMeta reads the store's identity, and checks that the log has not lost its end. Fresh reports that the store has
// no identity yet.
func (s *Store) readMeta() (fresh bool, err error) {
	value, err := s.readIdentity()
	if err != nil {
		return false, err
	}
	if value == nil {
		return true, s.checkEmpty()
	}
	if s.Meta, err = format.DecodeStoreMeta(value); err != nil {
		return false, fmt.Errorf("%s: %w", s.Dir, err)
	}
	if s.opts.Seed != 0 {
		s.Meta.Seed = s.opts.Seed
	}
	return false, s.findSequence()
}

// readIdentity returns a copy of the stored identity, nil if there is none.
func (s *Store) readIdentity() ([]byte, error) {
	return ReadMeta(s.disk, format.AppendMetaKey(nil, format.MetaStore))
}

// ReadMeta returns a copy of the value under a key of metadata, nil if there is none.
func ReadMeta(from Reader, key []byte) ([]byte, error) {
	value, closer, err := from.Get(key)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, ReadError(err, "store metadata %x", key)
	}
	return bytes.Clone(value), closer.Close()
}

// checkEmpty refuses a directory that holds the database of another program.
func (s *Store) checkEmpty() error {
	it, err := s.disk.NewIter(nil)
	if err != nil {
		return text.After(err, "kv: open %s", s.Dir)
	}
	some := it.First()
	if err := it.Close(); err != nil {
		return text.After(err, "kv: open %s", s.Dir)
	}
	if some {
		return format.Corruptf("%s holds a database without a store's metadata", s.Dir)
	}
	return nil
}

// newIdentity draws the identity of a new store.
func (s *Store) newIdentity() (m format.StoreMeta, err error) {
	if _, err := io.ReadFull(rand.Reader, m.ID[:]); err != nil {
		return m, text.After(err, "kv: store id")
	}
	if err := seeds.Read(m.ID[:format.KeySeedLen]); err != nil {
		return m, text.After(err, "kv: seed of keys")
	}
	var seed [8]byte
	if err := seeds.Read(seed[:]); err != nil {
		return m, text.After(err, "kv: seed of items")
	}
	m.Seed = cmp.Or(s.opts.Seed, binary.LittleEndian.Uint64(seed[:]))
	return m, nil
}

// writeMeta makes the identity of a new store.
func (s *Store) writeMeta() (err error) {
	m := s.opts.Identity
	if m == (format.StoreMeta{}) {
		if m, err = s.newIdentity(); err != nil {
			return err
		}
	}
	if err := s.writeSidecar(m.ID, format.SidecarUnknown); err != nil { // first, so that no store is without one
		return err
	}
	if err := s.disk.Set(format.AppendMetaKey(nil, format.MetaStore), format.AppendStoreMeta(nil, m), pebble.Sync); err != nil {
		return text.After(err, "kv: create %s", s.Dir)
	}
	return s.failure()
}

// findSequence finds the sequence at which the log ends, and compares it with the sidecar. It syncs the new log
// first: then everything that recovery found is on stable storage.
func (s *Store) findSequence() error {
	b := s.disk.NewBatch()
	defer func() { _ = b.Close() }() // releases memory, cannot fail
	if err := b.LogData(nil, nil); err != nil {
		return text.After(err, "kv: open %s", s.Dir)
	}
	if err := s.disk.Apply(b, pebble.Sync); err != nil {
		return text.After(err, "kv: open %s", s.Dir)
	}
	if err := s.failure(); err != nil {
		return err
	}
	next := uint64(b.SeqNum())
	missing, err := s.checkSidecar(next)
	if err != nil {
		return err
	}
	if s.reached > 0 && s.reached < next {
		if err := s.closeGap(); err != nil {
			return err
		}
		next++
	}
	s.lastSeq.Store(next - 1)
	s.durableSeq.Store(next - 1)
	if missing {
		return s.storeSidecar()
	}
	return nil
}

// closeGap makes one commit, which writes the identity again, and flushes it. The MANIFEST knew of commits that no log
// and no table has: they were never on stable storage, and a crash took them. The next commit gets a sequence behind
// theirs, so the next log would seem to lack them. Once a table has the commit of closeGap, Open expects nothing before
// it in logs.
func (s *Store) closeGap() error {
	identity, err := s.readIdentity() // Options.Seed is not in it
	if err == nil {
		err = s.disk.Set(format.AppendMetaKey(nil, format.MetaStore), identity, pebble.Sync)
	}
	if err == nil {
		err = s.disk.Flush()
	}
	if err != nil {
		return text.After(err, "kv: open %s", s.Dir)
	}
	return s.failure()
}
