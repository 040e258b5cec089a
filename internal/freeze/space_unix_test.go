//go:build unix

package freeze_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/freeze"
)

// TestSpace_Start_blocks checks that the ballast takes up room on a real disk.
func TestSpace_Start_blocks(t *testing.T) {
	dir := t.TempDir()
	const size = 3<<20 + 7
	s := freeze.NewSpace(vfs.Default, dir, freeze.Options{Ballast: size})
	s.Start()
	defer s.Close()
	f := must(os.Open(filepath.Join(dir, "BALLAST")))
	defer f.Close()
	check(t, f.Sync()) // file systems that allocate late do not show the blocks before
	stat := must(f.Stat()).Sys().(*syscall.Stat_t)
	if got := int64(stat.Blocks) * 512; stat.Size != size || got < size {
		t.Errorf("%d bytes in blocks for %d", stat.Size, got)
	}
}
