package freeze

import (
	"fmt"
	"io"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// vitalFile is a handle of a vital file, opened for writing. None of its operations returns an error.
type vitalFile struct {
	vfs.File
	fs   *FS
	name string

	// These are of a log: how far it is written, how far it has blocks, and how far Pebble wants it to have blocks.
	// Only the log's only writer changes them.
	written        atomic.Int64
	blocks, wanted int64
}

// A log is given blocks ahead of what is written: as many again as it has, within these limits.
const (
	minAhead = 64 << 10
	maxAhead = 4 << 20
)

// allocate gives a log blocks for n more bytes, and some ahead. This is for speed alone. An error is ignored here: if
// there is no space, the write will say so.
func (f *vitalFile) allocate(n int) {
	need := f.written.Load() + int64(n)
	if need <= f.blocks || f.blocks >= f.wanted {
		return
	}
	ahead := min(max(need, minAhead), maxAhead)
	from := f.blocks
	f.blocks = min(need+ahead, f.wanted)
	_, _ = f.fs.change(func() error { return f.File.Preallocate(from, f.blocks-from) })
}

// Write implements vfs.File. It turns a short write into an error, since Pebble's log looks at nothing but the error.
func (f *vitalFile) Write(p []byte) (int, error) {
	f.allocate(len(p))
	f.fs.vital("write", f.name, func() error {
		n, err := f.File.Write(p)
		return shortWrite(n, len(p), err)
	})
	f.written.Add(int64(len(p)))
	return len(p), nil
}

// WriteAt implements vfs.File.
func (f *vitalFile) WriteAt(p []byte, off int64) (int, error) {
	f.fs.vital("write", f.name, func() error {
		n, err := f.File.WriteAt(p, off)
		return shortWrite(n, len(p), err)
	})
	return len(p), nil
}

func shortWrite(n, want int, err error) error {
	if err == nil && n < want {
		return io.ErrShortWrite
	}
	return err
}

// Sync implements vfs.File.
func (f *vitalFile) Sync() error {
	f.fs.vital("sync", f.name, f.File.Sync)
	return nil
}

// SyncData implements vfs.File.
func (f *vitalFile) SyncData() error {
	f.fs.vital("sync", f.name, f.File.SyncData)
	return nil
}

// SyncTo implements vfs.File.
func (f *vitalFile) SyncTo(length int64) (fullSync bool, err error) {
	f.fs.vital("sync", f.name, func() (err error) {
		fullSync, err = f.File.SyncTo(length)
		return err
	})
	return fullSync, nil
}

// Preallocate implements vfs.File. When a log is empty, Pebble asks for the blocks of a whole one, a tenth more than
// a memtable. So a store of a few keys would take 35 MiB. Here the log gets its blocks as it grows.
func (f *vitalFile) Preallocate(offset, length int64) error {
	f.wanted = max(f.wanted, offset+length)
	return nil
}

// Stat implements vfs.File.
func (f *vitalFile) Stat() (vfs.FileInfo, error) {
	info, err := f.File.Stat()
	if err != nil {
		f.fs.Freeze(fmt.Errorf("freeze: stat %s: %w", f.name, err))
		return vfs.NewMemFile(nil).Stat()
	}
	return info, nil
}

// Close implements vfs.File. It closes the handle in a frozen directory too.
func (f *vitalFile) Close() error {
	f.fs.logs.CompareAndDelete(f.name, f)
	if err := f.File.Close(); err != nil {
		f.fs.Freeze(fmt.Errorf("freeze: close %s: %w", f.name, err))
	}
	return nil
}

// logPrefix is a log that is read while it is written. It ends where the log was written to when it was opened. The
// rest may be an older log's, or be half written. A reader that went on could also miss a part of the log, and then
// read a later part, which says that the missed part was synced.
type logPrefix struct {
	vfs.File
	prefix io.LimitedReader
}

// Read implements vfs.File.
func (f *logPrefix) Read(p []byte) (int, error) { return f.prefix.Read(p) }

// sink is a vital file opened in a frozen directory: an empty file that accepts every write.
type sink struct{ vfs.File }

func newSink() sink { return sink{vfs.NewMemFile(nil)} }

// Write implements vfs.File.
func (sink) Write(p []byte) (int, error) { return len(p), nil }

// WriteAt implements vfs.File.
func (sink) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }

// dirFile is a handle of the store's directory. Pebble has several, and panics when a sync of one of them fails.
type dirFile struct {
	vfs.File
	fs *FS
}

// Sync implements vfs.File.
func (f *dirFile) Sync() error {
	f.fs.vital("sync", f.fs.dir, f.File.Sync)
	return nil
}

// SyncData implements vfs.File.
func (f *dirFile) SyncData() error {
	f.fs.vital("sync", f.fs.dir, f.File.SyncData)
	return nil
}

// SyncTo implements vfs.File. On some systems it syncs completely, directories too.
func (f *dirFile) SyncTo(length int64) (fullSync bool, err error) {
	f.fs.vital("sync", f.fs.dir, func() (err error) {
		fullSync, err = f.File.SyncTo(length)
		return err
	})
	return fullSync, nil
}

// otherFile is a handle of a file that is not vital, opened for writing before the freeze. Its errors are passed on.
type otherFile struct {
	vfs.File
	fs   *FS
	name string
}

// Write implements vfs.File. In a frozen directory it fails: Pebble would want to read again what it had written. A short
// write is an error, since Pebble looks at nothing but the error.
func (f *otherFile) Write(p []byte) (n int, err error) {
	done, err := f.fs.other("write", f.name, func() (err error) {
		n, err = f.File.Write(p)
		return shortWrite(n, len(p), err)
	})
	if !done {
		return 0, ErrFrozen
	}
	return n, err
}

// WriteAt implements vfs.File. It fails like Write.
func (f *otherFile) WriteAt(p []byte, off int64) (n int, err error) {
	done, err := f.fs.other("write", f.name, func() (err error) {
		n, err = f.File.WriteAt(p, off)
		return shortWrite(n, len(p), err)
	})
	if !done {
		return 0, ErrFrozen
	}
	return n, err
}

// Sync implements vfs.File.
func (f *otherFile) Sync() error {
	return f.fs.completed(f.fs.other("sync", f.name, f.File.Sync))
}

// SyncData implements vfs.File.
func (f *otherFile) SyncData() error {
	return f.fs.completed(f.fs.other("sync", f.name, f.File.SyncData))
}

// SyncTo implements vfs.File.
func (f *otherFile) SyncTo(length int64) (fullSync bool, err error) {
	_, err = f.fs.other("sync", f.name, func() (err error) {
		fullSync, err = f.File.SyncTo(length)
		return err
	})
	return fullSync, err
}

// Preallocate implements vfs.File.
func (f *otherFile) Preallocate(offset, length int64) error {
	_, err := f.fs.change(func() error { return f.File.Preallocate(offset, length) })
	return err
}

// Close implements vfs.File. It closes the handle in a frozen directory too, but returns no error then.
func (f *otherFile) Close() error {
	closed := f.File.Close()
	_, err := f.fs.other("close", f.name, func() error { return closed })
	return err
}
