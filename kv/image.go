package kv

import (
	"context"
	"crypto/sha256"
	"io"

	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/storage"
	"github.com/sievekv/sievekv/internal/storage/image"
)

// Image is everything that a member of a group has, as of one message of the log.
type Image struct {
	Applied format.Applied
	Members []byte // the members of the group at that moment

	db   *DB
	snap *storage.Snapshot
}

// Image returns an image of the store as it is, without pending commits. The caller closes it.
func (db *DB) Image() (*Image, error) {
	if err := db.enter(); err != nil {
		return nil, err
	}
	i := &Image{db: db, snap: storage.DiskSnapshot(db.store)}
	var err error
	if i.Applied, i.Members, err = storage.ReadApplied(i.snap); err != nil {
		i.Close()
		return nil, err
	}
	return i, nil
}

// Write writes the image, for ReceiveImage of another member.
func (i *Image) Write(ctx context.Context, w io.Writer) error {
	return storage.WriteImage(ctx, i.snap, w)
}

// Digest returns a digest of one of 256 parts of the image. Equal members have equal digests, see package image.
func (i *Image) Digest(ctx context.Context, part uint8) ([sha256.Size]byte, error) {
	return storage.DigestImage(ctx, i.snap, part)
}

// Close ends the use of the image. Only then does the disk get back the space of data that the image has and the store
// no longer needs.
func (i *Image) Close() {
	_ = i.snap.Close() // it fails only for a snapshot closed before
	i.db.exit()
}

// ReceiveImage reads an image into files of a directory, which must be empty, on the store's file system. The store goes on
// meanwhile. The error wraps ErrCorrupt if the image is not as it was written.
func (db *DB) ReceiveImage(ctx context.Context, dir string, r io.Reader) (image.Tables, error) {
	if err := db.enter(); err != nil {
		return image.Tables{}, err
	}
	defer db.exit()
	return db.store.ReceiveImage(ctx, dir, r)
}

// Install replaces everything that this member has by an image, at once and durably: a crash leaves the old content or
// the new. The apply loop calls it, on a store that does not lead. Snapshots that are open return ErrReplaced from then
// on.
func (db *DB) Install(ctx context.Context, t image.Tables) error {
	g, err := db.enterMember()
	if err != nil {
		return err
	}
	defer db.exit()
	db.applying.Lock()
	defer db.applying.Unlock()
	db.idMu.Lock() // before apply, as in readMetaAgain
	defer db.idMu.Unlock()
	db.secretMu.Lock()
	defer db.secretMu.Unlock()
	db.lockApply()
	defer db.apply.Unlock()
	db.word.Add(seqOdd)
	defer db.word.Add(seqStep - seqOdd)
	if err := db.store.Replace(ctx, t); err != nil {
		return err
	}
	db.millis.Store(g.Applied().Millis)
	db.expiry.Lower([]byte{format.TagExpiry})
	return g.Forget(func() error {
		if err := db.forget(); err != nil {
			return err
		}
		return db.readMeta()
	})
}
