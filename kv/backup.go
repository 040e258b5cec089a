package kv

import (
	"context"
	"errors"
	"io"

	"github.com/sievekv/sievekv/kv/storage"
)

// BackupOptions say how a backup is made.
type BackupOptions = storage.BackupOptions

// Backup makes a store in dir, which must not exist, with everything that was committed before the call, as of one
// commit. Other operations go on meanwhile. The new store is opened, without modules' services, and given to verify,
// before it gets its name: after an error there is nothing under that name. The errors are ErrUnfinishedBackup, with
// the cause, ErrFailed and ErrClosed.
func (db *DB) Backup(ctx context.Context, dir string, o BackupOptions, verify func(copy *DB) error) error {
	if err := db.enter(); err != nil {
		return err
	}
	defer db.exit()
	return db.store.Backup(ctx, dir, o, db.opensCopy(verify))
}

// Archive writes a backup to w, as the tar archive that backup.Restore takes. See Backup.
func (db *DB) Archive(ctx context.Context, w io.Writer, o BackupOptions, verify func(copy *DB) error) error {
	if err := db.enter(); err != nil {
		return err
	}
	defer db.exit()
	return db.store.Archive(ctx, w, o, db.opensCopy(verify))
}

func (db *DB) opensCopy(verify func(copy *DB) error) func(dir string) error {
	return func(dir string) error {
		copy, err := Open(dir, &Options{
			FS: db.opts.FS, MustExist: true, BallastSize: -1, MinFreeSpace: -1, Logger: db.opts.Logger,
			Modules: typesOnly{db.opts.Modules},
		})
		if err != nil {
			return err
		}
		return errors.Join(verify(copy), copy.Close())
	}
}

// typesOnly are modules without services: those of a store that is only read.
type typesOnly struct{ Modules }

func (typesOnly) Attach(*DB) Running { return nil }

// ArchiveSums is the name of the last entry of an archive. It has the SHA-256 of every other, as sha256sum prints it.
const ArchiveSums = storage.ArchiveSums
