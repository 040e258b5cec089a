package storage

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// An archive is a tar archive with the files of a backup. The last entry is ArchiveSums: the SHA-256 of every other
// file, as sha256sum prints it. So a truncated archive is not taken for a whole one.

// ArchiveSums is the name of the last entry of an archive.
const ArchiveSums = "SHA256SUMS"

// archiveDir is the directory, inside the store's, of the backup from which an archive is written.
const archiveDir = "archive"

// Archive makes a backup of a store and writes it to w. See Backup.
func Archive(ctx context.Context, s *Store, w io.Writer, o BackupOptions, verify func(dir string) error) error {
	dir := s.Files.PathJoin(s.Dir, archiveDir)
	written := false
	err := s.backupError("-", s.backup(ctx, dir, o, func(part string) error {
		if err := verify(part); err != nil {
			return err
		}
		if err := writeArchive(ctx, s.fileSystem(), part, w); err != nil {
			return err
		}
		written = true
		return errArchived
	}))
	if written {
		return nil
	}
	return err
}

// errArchived ends a backup whose archive is written, so that the backup is removed.
var errArchived = errors.New("kv: archived")

func writeArchive(ctx context.Context, fsys vfs.FS, dir string, w io.Writer) error {
	names, err := fsys.List(dir)
	if err != nil {
		return err
	}
	slices.Sort(names)
	var sums strings.Builder
	archive := tar.NewWriter(w)
	for _, name := range names {
		if name == "LOCK" || name == UnfinishedName {
			continue
		}
		sum, err := addFile(ctx, archive, fsys, fsys.PathJoin(dir, name), name)
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sum, name)
	}
	if err := archive.WriteHeader(entryOf(ArchiveSums, int64(sums.Len()))); err != nil {
		return err
	}
	if _, err := io.WriteString(archive, sums.String()); err != nil {
		return err
	}
	return archive.Close()
}

func entryOf(name string, size int64) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: int64(privateFile), Size: size}
}

// addFile adds a file to an archive, and returns its SHA-256.
func addFile(ctx context.Context, archive *tar.Writer, fsys vfs.FS, path, name string) (sum []byte, err error) {
	f, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := archive.WriteHeader(entryOf(name, info.Size())); err != nil {
		return nil, err
	}
	h := sha256.New()
	_, err = io.Copy(archive, &givenUpReader{ctx, f, h})
	return h.Sum(nil), err
}

// givenUpReader reads a file, and hashes it, until a context ends.
type givenUpReader struct {
	ctx  context.Context
	from io.Reader
	hash hash.Hash
}

// Read implements io.Reader.
func (r *givenUpReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := r.from.Read(p)
	r.hash.Write(p[:n])
	return n, err
}
