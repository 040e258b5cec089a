package storage

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/storage/image"
	"github.com/sievekv/sievekv/internal/text"
)

// ErrReplaced is returned by a snapshot that was made before an image replaced everything in the store.
var ErrReplaced = errors.New("kv: the store has got the content of the group's leader since the snapshot was made")

// Snapshot reads the store as of one commit. Once an image has replaced everything, the store would look empty to
// earlier snapshots, so they return ErrReplaced. Iterators that were made before go on.
type Snapshot struct {
	snap     *pebble.Snapshot
	store    *Store
	replaced uint64
}

// DiskSnapshot returns a snapshot without pending commits. The caller closes it.
func DiskSnapshot(s *Store) *Snapshot {
	replaced := s.replaced.Load()
	return &Snapshot{s.disk.NewSnapshot(), s, replaced}
}

// Get implements Reader.
func (s *Snapshot) Get(key []byte) ([]byte, io.Closer, error) {
	value, closer, err := s.snap.Get(key)
	if s.store.replaced.Load() == s.replaced { // after the read
		return value, closer, err
	}
	if err == nil {
		_ = closer.Close() // gives memory back, cannot fail
	}
	return nil, nil, ErrReplaced
}

// NewIterWithContext implements Reader.
func (s *Snapshot) NewIterWithContext(ctx context.Context, o *IterOptions) (*Iterator, error) {
	it, err := s.snap.NewIterWithContext(ctx, o)
	if s.store.replaced.Load() == s.replaced {
		return it, err
	}
	if err == nil {
		err = it.Close()
	}
	return nil, errors.Join(ErrReplaced, err)
}

// Close implements io.Closer.
func (s *Snapshot) Close() error { return s.snap.Close() }

// WriteImage writes the whole content of a snapshot, for ReceiveImage.
func WriteImage(ctx context.Context, snap *Snapshot, w io.Writer) (err error) {
	it, err := snap.NewIterWithContext(ctx, &IterOptions{})
	if err != nil {
		return ReadError(err, "image of the store")
	}
	_, err = image.Write(ctx, it, w)
	return errors.Join(err, it.Close())
}

// DigestImage returns the digest of a part of a snapshot's content.
func DigestImage(ctx context.Context, snap *Snapshot, part uint8) ([sha256.Size]byte, error) {
	sum, err := image.Digest(ctx, func(start, end []byte) (*pebble.Iterator, error) {
		return snap.NewIterWithContext(ctx, &IterOptions{LowerBound: start, UpperBound: end})
	}, part)
	if err != nil {
		err = ReadError(err, "digest of part %d", part)
	}
	return sum, err
}

// ReceiveImage reads an image of another store into a directory, which must be empty, on the file system of the store.
func (s *Store) ReceiveImage(ctx context.Context, dir string, r io.Reader) (image.Tables, error) {
	return image.Receive(ctx, s.Files, dir, r)
}

// Replace replaces the whole content of the store by an image, at once and durably: a crash leaves the old content or
// the new. Nothing may be pending, and nobody may write meanwhile. Earlier snapshots lose their content, and their
// readers must be told. The tables' directory is no longer needed afterwards. The image must come from a store with the
// same identity: hashes of items and keys, and other things that the store keeps in files of its own, rest on that.
func (s *Store) Replace(ctx context.Context, t image.Tables) error {
	if s.opts.ReadOnly {
		return ErrReadOnly
	}
	if of, err := format.DecodeStoreMeta(t.Meta[string(format.AppendMetaKey(nil, format.MetaStore))]); err != nil {
		return err
	} else if of != s.Meta {
		return format.Corruptf("the image is of store %x with seed %x, this is %x with %x", of.ID, of.Seed, s.Meta.ID, s.Meta.Seed)
	}
	everything := pebble.KeyRange{Start: []byte{0}, End: []byte{0xff}}
	s.replaced.Add(1) // before: a snapshot that sees something of it knows
	if _, err := s.disk.IngestAndExcise(ctx, t.Paths, nil, nil, everything); err != nil {
		return text.After(err, "kv: replacement of the store by an image")
	}
	if err := s.commitBehind(); err != nil {
		return err
	}
	s.last.Add(1)
	if s.Group == nil {
		return nil
	}
	applied, _, err := ReadApplied(s.disk)
	if err == nil {
		s.Group.applied.Store(&applied)
	}
	return err
}

// commitBehind makes one commit, which writes the identity again. The tables of an image take numbers of commits that
// no log has: without a commit behind them, the log would seem to have lost its end once the sidecar says that they are
// durable.
func (s *Store) commitBehind() error {
	b := s.disk.NewBatch()
	defer func() { _ = b.Close() }() // releases memory, cannot fail
	identity, err := s.readIdentity()
	if err == nil {
		must(b.Set(format.AppendMetaKey(nil, format.MetaStore), identity, nil))
		err = s.disk.Apply(b, pebble.NoSync)
	}
	if err != nil {
		return text.After(err, "kv: replacement of the store by an image")
	}
	Raise(&s.lastSeq, lastSequence(b))
	return s.failure()
}
