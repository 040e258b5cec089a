package kv

import (
	"context"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/storage"
)

// BackupOptions say how a backup is made.
type BackupOptions = storage.BackupOptions

// ArchiveSums is the name of the last entry of an archive. It has the SHA-256 of every other, as sha256sum prints it.
const ArchiveSums = storage.ArchiveSums

// Backup makes a second store in dir, for package backup, which says what it promises. Before the store gets its name,
// verify is given the directory that it has until then.
func (db *DB) Backup(ctx context.Context, dir string, o BackupOptions, verify func(dir string) error) error {
	if err := db.readOnly(); err != nil {
		return err // its files can be copied: nothing changes them
	}
	if err := db.enter(); err != nil {
		return err
	}
	defer db.exit()
	return storage.Backup(ctx, db.store, dir, o, verify)
}

// Unfinished marks a store that is about to be made in dir, which exists on the file system of the operating system.
// Until done is called, only this process can open it, so that a directory left by a killed process is not taken for a
// store.
func Unfinished(dir string) (done func() error, err error) {
	return storage.Unfinished(vfs.Default, dir)
}

// FreeSpace returns how many bytes are free on the disk that has dir, or the error of a file system that cannot tell.
func FreeSpace(dir string) (uint64, error) {
	usage, err := vfs.Default.GetDiskUsage(dir)
	return usage.AvailBytes, err
}

// Archive writes such a store to w as a tar archive.
func (db *DB) Archive(ctx context.Context, w io.Writer, o BackupOptions, verify func(dir string) error) error {
	if err := db.readOnly(); err != nil {
		return err // its files can be copied: nothing changes them
	}
	if err := db.enter(); err != nil {
		return err
	}
	defer db.exit()
	return storage.Archive(ctx, db.store, w, o, verify)
}
