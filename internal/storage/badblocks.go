package storage

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/text"
)

// A block of a table whose checksum is wrong stays wrong: tables never change. But Pebble forgets what it has found. At every
// read of such a block it reads the file again, tries whether one of the block's 131,072 bits was flipped, which takes 45 ms,
// and reports the damage. So badBlocks, a file system below Pebble, remembers the blocks that Pebble has reported. The next
// read of one, by a lookup, a snapshot, an iterator or a compaction, is answered with the same error, and reads nothing.
//
// badBlocks remembers places in files, not keys. So it is never wrong about a key: a lookup that need not read the
// block, because a newer table or the memtable has all of the answer, does not get the error. An entry lasts as long as
// the file. It goes when the file is written, or is removed because a compaction has replaced it, and a store that is
// opened again knows of no damage until it reads it. Until then badBlocks also remembers a read from a whole disk that
// went wrong on its way.

// maxBadBlocks is how many blocks of all tables are remembered. Each takes some 400 bytes. Further ones are read again.
const maxBadBlocks = 1 << 14

// badBlocks is a file system that remembers damaged blocks of tables.
type badBlocks struct {
	vfs.FS
	any   atomic.Bool   // some are remembered; written with mu held
	reads atomic.Uint64 // reads of tables that damage has refused

	mu    sync.Mutex
	files map[string]map[int64]error // by path and offset
	known int                        // blocks in files
}

// badBlock is the error of a remembered block, with the text of Pebble's error.
type badBlock string

func (b badBlock) Error() string { return string(b) }

// Unwrap tells Pebble what kind of error it is.
func (badBlock) Unwrap() error { return pebble.ErrCorruption }

// The offsets of damage outside of blocks with checksums.
const (
	allOfTable = -1 // the table cannot be opened, because its footer is damaged
	elsewhere  = -2 // it is met again at the next read, which costs little: the file is missing, for example
)

// Pebble's errors tell the place in their text alone.
var (
	blockError  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\bblock (\d+)/\d+: `) })
	footerError = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\binvalid table\b`) })
)

// placeOf returns the offset of the damage that an error of Pebble is about.
func placeOf(message string) int64 {
	if m := blockError().FindStringSubmatch(message); m != nil {
		if at, err := strconv.ParseInt(m[1], 10, 64); err == nil {
			return at
		}
	}
	if footerError().MatchString(message) {
		return allOfTable
	}
	return elsewhere
}

// report notes damage of a table that a read has met, for the first time or again, and reports whether to log it.
func (b *badBlocks) report(info pebble.DataCorruptionInfo) (isNew bool) {
	b.reads.Add(1)
	message := strings.ReplaceAll(info.Details.Error(), text.DetailCarrier, "")
	at := placeOf(message)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.files[info.Path][at] != nil || b.known >= maxBadBlocks {
		return false
	}
	if b.files[info.Path] == nil {
		b.files[info.Path] = make(map[int64]error)
	}
	b.files[info.Path][at] = badBlock(message)
	b.known++
	b.any.Store(true)
	return true
}

// find returns the remembered error of a place, nil if there is none.
func (b *badBlocks) find(path string, at int64) error {
	if !b.any.Load() {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.files[path][at]; err != nil {
		return err
	}
	return b.files[path][allOfTable]
}

// forget is called when a file is removed or written.
func (b *badBlocks) forget(path string) {
	if !b.any.Load() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.known -= len(b.files[path])
	delete(b.files, path)
	b.any.Store(b.known > 0)
}

// Count returns how many damaged blocks of tables reads have met since the store was opened that are still there, and
// how many reads have failed on them.
func (b *badBlocks) Count() (blocks int, reads uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.known, b.reads.Load()
}

// corruptTable is called by Pebble when a read meets damage.
func (s *Store) corruptTable(info pebble.DataCorruptionInfo) {
	if s.Damage.report(info) {
		s.opts.Logger.Error("sievekv: corrupt table; further reads of this block are not logged", "dir", s.Dir, "path", info.Path, "error", info.Details.Error())
	}
}

// Unwrap implements vfs.FS.
func (b *badBlocks) Unwrap() vfs.FS { return b.FS }

// Open implements vfs.FS.
func (b *badBlocks) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := b.FS.Open(name, opts...)
	if err != nil || !strings.HasSuffix(name, ".sst") {
		return f, err
	}
	return &badBlocksFile{f, b, name}, nil
}

// Create implements vfs.FS.
func (b *badBlocks) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	b.forget(name)
	return b.FS.Create(name, category)
}

// Remove implements vfs.FS.
func (b *badBlocks) Remove(name string) error {
	b.forget(name)
	return b.FS.Remove(name)
}

// badBlocksFile is a table that is open for reading.
type badBlocksFile struct {
	vfs.File
	fs   *badBlocks
	name string
}

// ReadAt implements vfs.File. Pebble reads a block by one call.
func (f *badBlocksFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.fs.find(f.name, off); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, off)
}
