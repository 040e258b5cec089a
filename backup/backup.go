// Package backup makes a second store from an open one: in a directory, or as a tar archive.
//
// A backup has everything that was committed before it was asked for, and of what is committed meanwhile a first part,
// each transaction whole. Other operations go on. Tables, which never change, are linked where the file system can do
// it, so that a backup costs little time and no space, however large the store is. It is opened before it is called
// done. To restore a backup is to open it, or a copy of it.
package backup

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/sievekv/sievekv/internal/dirsync"
	"github.com/sievekv/sievekv/kv"
)

// Options say how a backup is made.
type Options struct {
	// Copy copies tables also where they could be linked. A linked table is one file with two names, until the store
	// no longer needs it: damage to the file is damage to both.
	Copy bool

	// Check reads and checks every key and block of the backup before it is called done.
	Check bool

	// Progress, if not nil, is called while files are linked and copied, on the caller's goroutine. Done and total
	// are bytes. Total is an estimate, and done is never more.
	Progress func(done, total uint64)
}

// Make makes a backup of an open store in dir, which must not exist; missing parents are made. Until the backup is
// whole it has another name, which begins with dir's. A process that is killed may leave such a directory; the next
// Make of the same store and dir removes it. The errors are kv.ErrUnfinishedBackup with its cause, which is fs.ErrExist
// for a dir that exists, also if it came while the backup was made, kv.ErrFailed and kv.ErrClosed; after all of them
// there is nothing in dir.
func Make(ctx context.Context, db *kv.DB, dir string, o Options) error {
	if db.Options().InMemory {
		return fromMemory(ctx, db, dir, o)
	}
	err := db.Backup(ctx, dir, kv.BackupOptions{Copy: o.Copy, Progress: o.Progress}, o.verify(ctx, db))
	var taken *dirsync.TakenError
	if errors.As(dirsync.Taken(db.Options().FS, dir, err), &taken) {
		return fmt.Errorf("%w: %w", kv.ErrUnfinishedBackup, taken)
	}
	return err
}

// fromMemory makes a backup on the disk of a store in memory: it restores an archive of it.
func fromMemory(ctx context.Context, db *kv.DB, dir string, o Options) error {
	from, to := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := WriteTo(ctx, db, to, o)
		to.CloseWithError(err)
		written <- err
	}()
	err := Restore(ctx, from, dir)
	from.CloseWithError(err) // so that WriteTo ends
	werr := <-written
	if err == nil {
		return werr
	}
	return fmt.Errorf("%w: %w", kv.ErrUnfinishedBackup, err)
}

// WriteTo writes a backup to w as a tar archive, which Restore takes. The backup is made inside the store's directory
// first, with links, and removed afterwards. The last entry of the archive has the SHA-256 of every other. It returns
// the errors of Make; the bytes written to w are then of no use.
func WriteTo(ctx context.Context, db *kv.DB, w io.Writer, o Options) error {
	return db.Archive(ctx, w, kv.BackupOptions{Copy: o.Copy, Progress: o.Progress}, o.verify(ctx, db))
}

// verify returns a function that opens the backup, and checks it if that was asked for. The backup of a store of a group is a store
// that is alone.
func (o *Options) verify(ctx context.Context, db *kv.DB) func(dir string) error {
	of := db.Options()
	return func(dir string) error {
		as := &kv.Options{
			FS: of.FS, MustExist: true, LeaveGroup: true, BallastSize: -1, MinFreeSpace: -1, Logger: of.Logger, Modules: typesOnly{of.Modules},
		}
		made, err := kv.Open(dir, as)
		if dirsync.Unsupported(err) { // no store can be written there, but the backup can be read, and copied to where one can
			as.ReadOnly = true
			made, err = kv.Open(dir, as)
		}
		if err != nil {
			return err
		}
		if o.Check {
			err = check(ctx, made)
		}
		return errors.Join(err, made.Close())
	}
}

func check(ctx context.Context, made *kv.DB) error {
	report, err := made.Check(ctx)
	if err != nil {
		return fmt.Errorf("check of the backup: %w", err)
	}
	if n := len(report.Problems); n > 0 {
		return fmt.Errorf("check of the backup found %d problems, the first: %w", n, report.Problems[0])
	}
	return nil
}

// typesOnly are modules without services: a service would begin to change the backup.
type typesOnly struct{ kv.Modules }

// Attach implements kv.Modules.
func (typesOnly) Attach(*kv.DB) kv.Running { return nil }

// Types implements kv.Modules.
func (m typesOnly) Types() (map[string][]*kv.Type, error) {
	if m.Modules == nil {
		return nil, nil
	}
	return m.Modules.Types()
}
