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
	size int64 // 0 if there is to be no ballast

	// giveUp asks create to stop at the next chunk.
	giveUp atomic.Bool
	// mu protects the file; complete may be read without it.
	mu sync.Mutex
	// complete is set while the whole ballast is on the disk.
	complete atomic.Bool
}

// missing reports whether there is to be a ballast and it is not there.
func (b *ballast) missing() bool { return b.size > 0 && !b.complete.Load() }

// adopt looks at what an earlier process left behind. A file of another size, whose creation was cut short by a crash
// or which was made under other options, is removed.
func (b *ballast) adopt() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	info, err := b.fs.Stat(b.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && b.size > 0 && info.Size() == b.size {
		b.complete.Store(true)
		return nil
	}
	return b.fs.Remove(b.path)
}

// create makes the ballast. On an error nothing is left of it. It stops early with errInterrupted if release is called
// or stop is closed.
func (b *ballast) create(stop <-chan struct{}) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	f, err := b.fs.Create(b.path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	err = b.fill(f, stop)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return errors.Join(err, b.fs.Remove(b.path))
	}
	b.complete.Store(true)
	return nil
}

// fill writes random bytes: reserving the blocks (fallocate) is not to be had everywhere and does not say so, a
// sparse file has none, and a file system that compresses makes none of zeros. There is no sync: file systems set the
// blocks aside when the write is accepted, and a ballast lost in a crash is made anew.
func (b *ballast) fill(f vfs.File, stop <-chan struct{}) error {
	src := rand.NewChaCha8([32]byte{})
	for left := b.size; left > 0; {
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

// release removes the ballast and reports whether there was one.
func (b *ballast) release() (bool, error) {
	b.giveUp.Store(true)
	defer b.giveUp.Store(false)
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.complete.Load() {
		return false, nil
	}
	if err := b.fs.Remove(b.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	b.complete.Store(false)
	return true, nil
}
