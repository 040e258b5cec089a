package freeze

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// BallastName is the ballast's name in the store's directory. Pebble ignores names that it does not know.
const BallastName = "BALLAST"

// ballastChunk is how much of the ballast is written at once. A release that comes during create waits for one chunk
// at most.
const ballastChunk = 1 << 20

// errInterrupted is returned by create if it was stopped before its end.
var errInterrupted = errors.New("freeze: creation of the ballast was interrupted")

// ballast is a file of useless bytes. Removing it makes room for useful ones.
type ballast struct {
	fs   vfs.FS
	path string
	most int64 // the largest size; 0 means no ballast

	wanted func() int64 // returns how much of it is enough for now; nil means most

	// giveUp asks create to stop at the next chunk.
	giveUp atomic.Bool
	// mu protects the file. Size may be read without it.
	mu sync.Mutex
	// size is the size of the ballast on the disk, 0 while the file is not complete.
	size atomic.Int64
}

// want returns the size that the ballast should have now.
func (b *ballast) want() int64 {
	if b.wanted == nil {
		return b.most
	}
	return min(b.most, b.wanted())
}

// missing reports whether the ballast is too small, or is not there at all though there should be one.
func (b *ballast) missing() bool { return b.size.Load() < b.want() }

// adopt takes over the ballast of an earlier process. It removes a file of another size: a crash has interrupted its
// creation, or it was made under other options.
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

// create makes the ballast. After an error nothing is left of it. It stops early with errInterrupted if release is
// called or stop is closed.
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

// fill writes random bytes, so that the file really takes its size on the disk. Reserving blocks (fallocate) does not
// work everywhere and does not say so. A sparse file has no blocks. A file system that compresses stores zeros in none.
// There is no sync: file systems set the blocks aside when they accept the write, and the store makes a ballast again
// that a crash has taken.
func (b *ballast) fill(f vfs.File, size int64, stop <-chan struct{}) error {
	src := newBallast()
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

// newBallast returns a generator of a ballast's bytes, which are the same in each.
func newBallast() *rand.ChaCha8 { return rand.NewChaCha8([32]byte{}) }

// BallastStart returns the first bytes of every ballast.
func BallastStart() string {
	b := make([]byte, 16)
	newBallast().Read(b)
	return string(b)
}

// release removes the ballast and returns the size that it had. It interrupts create.
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
