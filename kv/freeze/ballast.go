package freeze

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ballastName is the ballast's name in the store's directory. Pebble leaves names that it does not know alone.
const ballastName = "BALLAST"

// ballastChunk is how much of the ballast is written at once, and so how long release can have to wait for create.
const ballastChunk = 1 << 20

// errInterrupted is returned by create when release or a stop cut it short.
var errInterrupted = errors.New("freeze: creation of the ballast was interrupted")

// ballast is a file of bytes nobody needs, which keeps room for those somebody does.
type ballast struct {
	fs   vfs.FS
	path string
	most int64 // 0 if there is to be no ballast

	wanted func() int64 // how much of it is enough; nil for all

	// giveUp asks create to stop at the next chunk.
	giveUp atomic.Bool
	// mu protects the file; size may be read without it.
	mu sync.Mutex
	// size is that of the ballast on the disk, 0 while it is not whole.
	size atomic.Int64
}

// want returns the size that the ballast is to have.
func (b *ballast) want() int64 {
	if b.wanted == nil {
		return b.most
	}
	return min(b.most, b.wanted())
}

// missing reports whether there is to be a ballast and it is not there, or too small.
func (b *ballast) missing() bool { return b.size.Load() < b.want() }

// adopt looks at what an earlier process left behind. A file of another size, whose creation was cut short by a crash
// or which was made under other options, is removed.
func (b *ballast) adopt() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	info, err := b.fs.Stat(b.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && b.most > 0 && info.Size() >= b.want() && info.Size() <= b.most {
		b.size.Store(info.Size())
		return nil
	}
	return b.fs.Remove(b.path)
}

// create makes the ballast. On an error nothing is left of it. It stops early with errInterrupted if release is called
// or stop is closed.
func (b *ballast) create(stop <-chan struct{}) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	size := b.want()
	b.size.Store(0)
	f, err := b.fs.Create(b.path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	err = b.fill(f, size, stop)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return errors.Join(err, b.fs.Remove(b.path))
	}
	b.size.Store(size)
	return nil
}

// fill writes random bytes: reserving the blocks (fallocate) is not to be had everywhere and does not say so, a
// sparse file has none, and a file system that compresses makes none of zeros. There is no sync: file systems set the
// blocks aside when the write is accepted, and a ballast lost in a crash is made anew.
func (b *ballast) fill(f vfs.File, size int64, stop <-chan struct{}) error {
	src := rand.NewChaCha8([32]byte{})
	for left := size; left > 0; {
		select {
		case <-stop:
			return errInterrupted
		default:
		}
		if b.giveUp.Load() {
			return errInterrupted
		}
		chunk := make([]byte, min(left, ballastChunk))
		src.Read(chunk)
		if _, err := f.Write(chunk); err != nil {
			return err
		}
		left -= int64(len(chunk))
	}
	return nil
}

// release removes the ballast and returns the size that it had.
func (b *ballast) release() (int64, error) {
	b.giveUp.Store(true)
	defer b.giveUp.Store(false)
	b.mu.Lock()
	defer b.mu.Unlock()
	size := b.size.Load()
	if size == 0 {
		return 0, nil
	}
	if err := b.fs.Remove(b.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	b.size.Store(0)
	return size, nil
}
