package backup

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/dirsync"
	"github.com/sievekv/sievekv/internal/storage/files"
	"github.com/sievekv/sievekv/kv"
)

// ErrArchive is returned by Restore for an archive that is not whole, or is none that WriteTo has written.
var ErrArchive = errors.New("backup: bad archive")

// Restore makes a store in dir from an archive. Dir must not exist; missing parents are made. The store is opened
// before it gets its name: after an error there is nothing in dir. A process that is killed may leave a directory whose
// name is dir's with ".partial-" and more behind it. The errors are ErrArchive, fs.ErrExist for a dir that exists, also
// if it came meanwhile, the errors of kv.Open, and errors of reading the archive and of the file system.
func Restore(ctx context.Context, archive io.Reader, dir string) (err error) {
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("backup: restore: %w", dirsync.Taken(vfs.Default, dir, cmp.Or(err, fs.ErrExist)))
	}
	parent := filepath.Dir(filepath.Clean(dir))
	if err := dirsync.Make(vfs.Default, parent, dirsync.Tolerant); err != nil {
		return err
	}
	part, err := os.MkdirTemp(parent, filepath.Base(dir)+".partial-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(part))
		}
	}()
	finished, err := kv.Unfinished(part)
	if err != nil {
		return err
	}
	defer func() {
		if finished != nil {
			err = errors.Join(err, finished())
		}
	}()
	if err := extract(ctx, archive, part); err != nil {
		return err
	}
	db, err := kv.Open(part, &kv.Options{MustExist: true, LeaveGroup: true, BallastSize: -1, MinFreeSpace: -1})
	if errors.Is(err, kv.ErrNotExist) {
		return fmt.Errorf("%w: it has no store", ErrArchive)
	}
	if err != nil {
		return err
	}
	if err := errors.Join(db.Close(), ctx.Err()); err != nil {
		return err
	}
	err, finished = finished(), nil
	if err != nil {
		return err
	}
	if err := os.Rename(part, dir); err != nil {
		return fmt.Errorf("backup: restore: %w", dirsync.Taken(vfs.Default, dir, err))
	}
	return dirsync.Sync(parent)
}

// isPlain reports whether a name leads to no other directory.
func isPlain(name string) bool {
	const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
	return name != "" && len(name) <= 100 && name[0] != '.' && strings.Trim(name, allowed) == ""
}

// extract writes the files of an archive to a directory, in the order of the archive, in which the file comes last that
// makes the directory a store.
func extract(ctx context.Context, archive io.Reader, dir string) error {
	var sums bytes.Buffer // what the last entry must be
	r := &room{dir: dir, written: askEvery}
	from := tar.NewReader(archive)
	for {
		entry, err := from.Next()
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("%w: it ends before %s, its last entry", ErrArchive, kv.ArchiveSums)
		}
		if err != nil {
			return archiveError(err)
		}
		if entry.Name == kv.ArchiveSums {
			got, err := io.ReadAll(io.LimitReader(from, int64(sums.Len())+1))
			if err != nil {
				return archiveError(err)
			}
			if !bytes.Equal(got, sums.Bytes()) {
				return fmt.Errorf("%w: the checksums of its files are not those of %s", ErrArchive, kv.ArchiveSums)
			}
			if _, err := from.Next(); !errors.Is(err, io.EOF) { // this also reads the rest of a pipe
				return fmt.Errorf("%w: there is more behind %s, its last entry", ErrArchive, kv.ArchiveSums)
			}
			return dirsync.Sync(dir)
		}
		if entry.Typeflag != tar.TypeReg || isSparse(entry) || !isPlain(entry.Name) || !files.LooksLikePart(entry.Name) {
			return fmt.Errorf("%w: entry %q is no file of a store", ErrArchive, entry.Name)
		}
		sum, err := extractFile(ctx, from, r, filepath.Join(dir, entry.Name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sum, entry.Name)
	}
}

// isSparse reports whether an entry has holes: a few bytes of an archive may be terabytes of them.
func isSparse(entry *tar.Header) bool {
	for key := range entry.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return false
}

func archiveError(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, tar.ErrHeader) {
		return fmt.Errorf("%w: %w", ErrArchive, err)
	}
	return fmt.Errorf("backup: read the archive: %w", err)
}

// askEvery is after how many bytes a restore asks the disk whether there is room for more, and reserve is what it leaves
// free: as much as a backup does, so that other stores on the disk go on.
const (
	askEvery = 4 << 20
	reserve  = 288 << 20
)

// freeSpace tells how much of a disk is free. Tests replace it.
var freeSpace = kv.FreeSpace

// room looks that a restore leaves room on its disk.
type room struct {
	dir     string
	written int // since the disk was asked
}

// take returns an error if there is no room for n more bytes.
func (r *room) take(n int) error {
	if r.written += n; r.written < askEvery {
		return nil
	}
	r.written = 0
	free, err := freeSpace(r.dir)
	if err == nil && free < reserve+askEvery {
		return fmt.Errorf("backup: no space left: %d bytes are free, and a restore leaves %d for stores", free, reserve)
	}
	return nil // a file system that cannot tell says ErrUnsupported
}

// extractFile writes a file and returns the SHA-256 of it.
func extractFile(ctx context.Context, from io.Reader, r *room, path string) (sum []byte, err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("%w: entry %q is there twice", ErrArchive, filepath.Base(path))
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	hash := sha256.New()
	buf := make([]byte, 1<<20)
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n, err := from.Read(buf)
		hash.Write(buf[:n])
		if rerr := r.take(n); rerr != nil {
			return nil, rerr
		}
		if _, werr := f.Write(buf[:n]); werr != nil {
			return nil, werr
		}
		if errors.Is(err, io.EOF) {
			return hash.Sum(nil), f.Sync()
		}
		if err != nil {
			return nil, archiveError(err)
		}
	}
}
