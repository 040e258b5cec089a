package kv

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// The sidecar tells Open that the log lost its end. Pebble takes a log that
// stops early for a crash in the middle of a write, which is right for a torn
// tail and wrong for a log file that was removed or cut. So every few seconds,
// and at Close, the store writes down how far the log is known to be on stable
// storage; an Open that finds less reports corruption. What was written after
// the last sidecar is not covered.
//
//	offset  size  field
//	0       4     magic "SVSC"
//	4       1     version, 1
//	5       16    store id
//	21      8     durable + 1: the next sequence cannot be below it, little-endian
//	29      4     CRC-32C of bytes 0 to 28, little-endian
const (
	sidecarName    = "DURABLE"
	sidecarVersion = 1
	sidecarLen     = 33
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func appendSidecar(dst []byte, id [16]byte, next uint64) []byte {
	start := len(dst)
	dst = append(dst, "SVSC"...)
	dst = append(dst, sidecarVersion)
	dst = append(dst, id[:]...)
	dst = binary.LittleEndian.AppendUint64(dst, next)
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
}

func decodeSidecar(b []byte) (id [16]byte, next uint64, err error) {
	if len(b) < 5 || string(b[:4]) != "SVSC" {
		return id, 0, corruptf("file %s: no magic", sidecarName)
	}
	if b[4] != sidecarVersion {
		return id, 0, fmt.Errorf("%w: file %s has format %d, this program knows %d", ErrUnsupportedVersion, sidecarName, b[4], sidecarVersion)
	}
	if len(b) != sidecarLen || binary.LittleEndian.Uint32(b[29:]) != crc32.Checksum(b[:29], castagnoli) {
		return id, 0, corruptf("file %s: wrong length or checksum", sidecarName)
	}
	copy(id[:], b[5:21])
	return id, binary.LittleEndian.Uint64(b[21:29]), nil
}

// writeSidecar writes the watermark down if it has moved. Temporary file, sync,
// rename, sync of the directory: a crash leaves the old or the new one.
func (db *DB) writeSidecar() error {
	if err := db.enter(); err != nil {
		return err
	}
	defer db.exit()
	return db.storeSidecar()
}

func (db *DB) storeSidecar() error {
	db.sidecarMu.Lock()
	defer db.sidecarMu.Unlock()
	durable := db.durable.Load()
	if durable == db.sidecarWritten {
		return nil
	}
	path := db.fs.PathJoin(db.dir, sidecarName)
	if err := writeFileSync(db.fs, path+".tmp", appendSidecar(nil, db.meta.id, durable+1)); err != nil {
		return fmt.Errorf("kv: write %s: %w", path, err)
	}
	if err := db.fs.Rename(path+".tmp", path); err != nil {
		return fmt.Errorf("kv: write %s: %w", path, err)
	}
	if err := syncDir(db.fs, db.dir); err != nil {
		return fmt.Errorf("kv: write %s: %w", path, err)
	}
	db.sidecarWritten = durable
	return nil
}

func writeFileSync(fsys vfs.FS, path string, data []byte) error {
	f, err := fsys.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	n, err := f.Write(data)
	if err == nil && n < len(data) {
		err = io.ErrShortWrite
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func syncDir(fsys vfs.FS, dir string) error {
	d, err := fsys.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// checkSidecar compares the sidecar with the next sequence after recovery.
func (db *DB) checkSidecar(next uint64) error {
	path := db.fs.PathJoin(db.dir, sidecarName)
	f, err := db.fs.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // none written yet
	}
	if err != nil {
		return fmt.Errorf("kv: open %s: %w", path, err)
	}
	b, err := io.ReadAll(io.LimitReader(f, sidecarLen+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("kv: read %s: %w", path, err)
	}
	id, least, err := decodeSidecar(b)
	switch {
	case err != nil:
		return err
	case id != db.meta.id:
		return corruptf("file %s is of store %x, this is %x", path, id, db.meta.id)
	case next < least:
		return corruptf("the log of %s ends at sequence %d, but everything up to %d was on stable storage: the end of the log is lost", db.dir, next-1, least-1)
	}
	return nil
}
