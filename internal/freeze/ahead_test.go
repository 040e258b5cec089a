package freeze_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/freeze"
)

// blocksFS remembers how far a log was given blocks.
type blocksFS struct {
	vfs.FS
	end   int64 // no block beyond was asked for
	asked int
	t     *testing.T
}

func (f *blocksFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.Create(name, c)
	return &blocksFile{file, f}, err
}

type blocksFile struct {
	vfs.File
	fs *blocksFS
}

func (f *blocksFile) Preallocate(offset, length int64) error {
	if offset != f.fs.end || length <= 0 {
		f.fs.t.Errorf("blocks for %d bytes from %d on, there are %d", length, offset, f.fs.end)
	}
	f.fs.end = offset + length
	f.fs.asked++
	return nil
}

// A log gets its blocks as it grows, not all that Pebble asks for at the beginning. It always has them before it is
// written there.
func TestFS_log_blocks(t *testing.T) {
	disk := &blocksFS{FS: newDir(), t: t}
	file := must(freeze.New(disk, dir, nil).Create("db/000002.log", category))
	const whole = 36 << 20
	check(t, file.Preallocate(0, whole))
	must(file.Write(make([]byte, 100)))
	if disk.end > 128<<10 {
		t.Errorf("a log of 100 bytes has blocks for %d", disk.end)
	}
	chunk := make([]byte, 32<<10)
	for written := int64(100); written < whole+1<<20; {
		must(file.Write(chunk))
		written += int64(len(chunk))
		if least := min(written, whole); disk.end < least {
			t.Fatalf("%d bytes written, blocks for %d", written, disk.end)
		}
		if most := min(2*written+64<<10, written+4<<20, whole); disk.end > max(most, 1) {
			t.Fatalf("%d bytes written, blocks for %d", written, disk.end)
		}
	}
	if disk.end != whole || disk.asked > 24 {
		t.Errorf("blocks for %d bytes in %d steps", disk.end, disk.asked)
	}
	check(t, file.Close())
}
