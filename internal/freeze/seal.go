package freeze

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
)

// The seal says how much of the MANIFEST was synced, and the checksum of that part.
//
// The MANIFEST says which tables and logs the store consists of. Pebble reads it up to the first record that is not
// whole, and takes the rest for an interrupted write. So one flipped bit can take away a flushed table, with all that
// is in it, and no error says so. The log that held the same commits is gone by then.
//
// The seal is replaced after every sync of a MANIFEST, before Pebble is told that the sync succeeded. It is written
// to a temporary file, which is synced and renamed; then the directory is synced. It names the MANIFEST that was
// synced and the one before.
//
// What a crash leaves:
//
//   - The marker names one of the two MANIFESTs. Pebble moves the marker to a new MANIFEST only after the first sync
//     of that MANIFEST. So the seal names the new MANIFEST before the marker does.
//   - What is sealed was synced before, and a MANIFEST only grows. So the sealed part is there, unchanged; if it is
//     not, the disk has changed it. A crash alone is never taken for damage.
//   - Records behind the sealed part may be there or not, torn or damaged. The store needs none of them. Pebble removes
//     and reuses a file only after the sync of the record that no longer names the file has returned. So without these
//     records the store is as it was before them, and its logs and tables are all there.
//   - If Pebble reads such records when it opens the store, it acts on them. So Verify seals them first.
//
// A MANIFEST with a greater number than any in the seal is not checked: a program that knows no seals has written it.
//
//	offset  size  field
//	0       4     magic "SVSL"
//	4       1     version, 1
//	5       1     n, the number of MANIFESTs, 1 or 2
//	6       20n   of each, oldest first: its number, 8 bytes, how much of it is sealed, 8 bytes, and the CRC-32C of
//	              that, 4 bytes; all little-endian
//	6+20n   4     CRC-32C of all before, little-endian
//
// In every version the magic and the version come first, and the last 4 bytes are the CRC-32C of all before. So a
// flipped bit in the version is not taken for a newer version: that would have kept everybody from reading a store
// whose seal alone is damaged.
const (
	maxSealed    = 2
	sealHeadLen  = 6
	sealedLen    = 20
	maxSealLen   = 64 << 10 // also of a newer version
	manifestName = "MANIFEST-"
)

// SealVersion is the version in the seal, and of the whole store: it is raised with format.StoreVersion. The seal is
// read before Pebble opens the store. So a store of a newer version is refused before Pebble can merge and rewrite
// values of a form that this program does not know.
const SealVersion = 1

// SealName is the name of the file that holds the seal, in the store's directory. The file begins with SealMagic.
const (
	SealName  = "SEAL"
	SealMagic = "SVSL"
)

// The errors of Verify, and of opening a damaged log, for errors.Is.
var (
	// ErrDamaged means that a file of the store is not what was written to it.
	ErrDamaged = errors.New("freeze: damaged file")

	// ErrVersion means that the seal was written by a newer version of this package.
	ErrVersion = errors.New("freeze: written by a newer program")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sealed is how much of a MANIFEST is known to be on stable storage.
type sealed struct {
	number uint64 // in its name
	length uint64
	crc    uint32 // CRC-32C of the first length bytes
}

func (s *sealed) add(p []byte) {
	s.length += uint64(len(p))
	s.crc = crc32.Update(s.crc, castagnoli, p)
}

// seal is the content of the seal's file.
type seal struct {
	mu   sync.Mutex
	kept bool     // Verify was called; guarded by mu
	list []sealed // the last two MANIFESTs, oldest first; guarded by mu
}

func appendSeal(dst []byte, list []sealed) []byte {
	start := len(dst)
	dst = append(dst, SealMagic...)
	dst = append(dst, SealVersion, byte(len(list)))
	for _, s := range list {
		dst = binary.LittleEndian.AppendUint64(dst, s.number)
		dst = binary.LittleEndian.AppendUint64(dst, s.length)
		dst = binary.LittleEndian.AppendUint32(dst, s.crc)
	}
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
}

func decodeSeal(b []byte) ([]sealed, error) {
	if len(b) < sealHeadLen+4 || string(b[:4]) != SealMagic {
		return nil, fmt.Errorf("%w: %s: no magic", ErrDamaged, SealName)
	}
	end := len(b) - 4
	if binary.LittleEndian.Uint32(b[end:]) != crc32.Checksum(b[:end], castagnoli) {
		return nil, fmt.Errorf("%w: %s: wrong length or checksum", ErrDamaged, SealName)
	}
	if b[4] != SealVersion {
		return nil, fmt.Errorf("%w: %s has format %d, this program knows %d", ErrVersion, SealName, b[4], SealVersion)
	}
	n := int(b[5])
	if n < 1 || n > maxSealed || end != sealHeadLen+n*sealedLen {
		return nil, fmt.Errorf("%w: %s: wrong length or checksum", ErrDamaged, SealName)
	}
	list := make([]sealed, n)
	for i := range list {
		s := b[sealHeadLen+i*sealedLen:]
		list[i] = sealed{
			binary.LittleEndian.Uint64(s), binary.LittleEndian.Uint64(s[8:]), binary.LittleEndian.Uint32(s[16:]),
		}
	}
	return list, nil
}

// Verify compares the MANIFEST with its seal. It must be called before pebble.Open, by the process that holds the
// lock of the directory and is going to write to it. From then on FS keeps the seal up to date, and checks each log
// that Pebble replays (see log.go). A store without a seal gets one. The errors are ErrDamaged, ErrVersion and errors
// of the file system.
func (fs *FS) Verify() error {
	s := &fs.seal
	s.mu.Lock()
	defer s.mu.Unlock()
	list, err := fs.readSeal()
	if err != nil {
		return err
	}
	number, ok, err := fs.currentManifest()
	if err != nil {
		return err
	}
	s.list, s.kept = nil, true
	if !ok {
		return nil // there is no store, or one that Pebble will refuse
	}
	whole, err := fs.compare(list, number)
	if err != nil {
		return err
	}
	known := sealedOf(list, number)
	if whole != known {
		return fs.sealFound(whole)
	}
	// The seal may name a newer MANIFEST, which a crash has left and which was never in use. It is dropped here. If
	// it were kept, the next MANIFEST would push the one in use out of the seal.
	s.list = []sealed{known}
	return nil
}

// sealedOf returns how much of a MANIFEST is sealed.
func sealedOf(list []sealed, number uint64) sealed {
	if i := slices.IndexFunc(list, func(m sealed) bool { return m.number == number }); i >= 0 {
		return list[i]
	}
	return sealed{number: number}
}

// compare compares the MANIFEST that the marker names with the seal. It returns the seal of the whole file.
func (fs *FS) compare(list []sealed, number uint64) (whole sealed, err error) {
	known := sealedOf(list, number)
	if n := len(list); known.length == 0 && n > 0 && number < list[n-1].number {
		return whole, fmt.Errorf("%w: the marker names MANIFEST %d, but %d was in use", ErrDamaged, number, list[n-1].number)
	}
	return fs.measure(known)
}

func (fs *FS) readSeal() ([]sealed, error) {
	name := fs.PathJoin(fs.dir, SealName)
	if info, err := fs.FS.Stat(name); err == nil && !info.Mode().IsRegular() { // opening a pipe would wait for a writer
		return nil, fmt.Errorf("%w: %s: it is not a regular file", ErrDamaged, SealName)
	}
	f, err := fs.opened(name, func() (vfs.File, error) { return fs.FS.Open(name) })
	if isNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, maxSealLen+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("freeze: read %s: %w", SealName, err)
	}
	return decodeSeal(b)
}

func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// currentManifest returns the number of the MANIFEST that the marker names.
func (fs *FS) currentManifest() (number uint64, ok bool, err error) {
	name, err := atomicfs.ReadMarker(fs, fs.dir, "manifest")
	if isNotExist(err) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	number, ok = manifestNumber(name)
	return number, ok, nil
}

func manifestNumber(name string) (uint64, bool) {
	digits, ok := strings.CutPrefix(name, manifestName)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, err == nil
}

// measure reads a MANIFEST, and checks that it begins with the part that is sealed. It returns the seal of the whole
// file.
func (fs *FS) measure(known sealed) (whole sealed, err error) {
	name := fs.manifestPath(known.number)
	f, err := fs.opened(name, func() (vfs.File, error) { return fs.FS.Open(name) })
	if err != nil {
		return whole, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	whole.number = known.number
	beginning := io.LimitReader(f, int64(min(known.length, 1<<62)))
	for _, part := range []io.Reader{beginning, f} {
		buf := make([]byte, 64<<10)
		for {
			n, err := part.Read(buf)
			whole.add(buf[:n])
			if err == io.EOF {
				break
			}
			if err != nil {
				return whole, fmt.Errorf("freeze: read %s: %w", name, err)
			}
		}
		if part == beginning && whole != known {
			return whole, fmt.Errorf("%w: %s: the first %d bytes are not those that were written", ErrDamaged, name, known.length)
		}
	}
	return whole, nil
}

func (fs *FS) manifestPath(number uint64) string {
	return fs.PathJoin(fs.dir, fmt.Sprintf("%s%06d", manifestName, number))
}

// sealFound seals a MANIFEST as it was found. It syncs the MANIFEST first: Pebble will act on everything in it, and a
// process that was killed may not have synced the end. The caller holds the seal's mutex.
func (fs *FS) sealFound(whole sealed) error {
	name := fs.manifestPath(whole.number)
	fs.vital("seal", name, func() error {
		f, err := fs.FS.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
		return fs.writeSeal(whole)
	})
	return fs.Failed()
}

// sealManifest is called after a sync of a MANIFEST.
func (fs *FS) sealManifest(m sealed) error {
	fs.seal.mu.Lock()
	defer fs.seal.mu.Unlock()
	return fs.writeSeal(m)
}

// writeSeal writes a seal in which m is added, or replaced. The caller holds the seal's mutex, and holds changes
// shared.
func (fs *FS) writeSeal(m sealed) error {
	list := []sealed{m}
	for _, old := range fs.seal.list {
		if old.number != m.number {
			list = []sealed{old, m} // of two others, this keeps the newer one
		}
	}
	path := fs.PathJoin(fs.dir, SealName)
	f, err := fs.FS.Create(path+".tmp", vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	data := appendSeal(nil, list)
	n, err := f.Write(data)
	if err = shortWrite(n, len(data), err); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := fs.FS.Rename(path+".tmp", path); err != nil {
		return err
	}
	if err := fs.syncDir(); err != nil {
		return err
	}
	fs.seal.list = list
	return nil
}

func (fs *FS) keepsSeal() bool {
	fs.seal.mu.Lock()
	defer fs.seal.mu.Unlock()
	return fs.seal.kept
}

// manifestFile is the handle of a new MANIFEST. Pebble writes to it from one goroutine at a time.
type manifestFile struct {
	*vitalFile
	written sealed
}

// Write implements vfs.File.
func (f *manifestFile) Write(p []byte) (int, error) {
	f.written.add(p)
	return f.vitalFile.Write(p)
}

// Sync implements vfs.File. It also writes the seal, on which Pebble's next steps rely.
func (f *manifestFile) Sync() error { return f.syncBy(f.File.Sync) }

// SyncData implements vfs.File.
func (f *manifestFile) SyncData() error { return f.syncBy(f.File.SyncData) }

func (f *manifestFile) syncBy(sync func() error) error {
	f.fs.vital("sync", f.name, func() error {
		if err := sync(); err != nil {
			return err
		}
		return f.fs.sealManifest(f.written)
	})
	return nil
}
