//go:build unix

package storage

import (
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/freeze"
)

// A store that once was large has a ballast for what it has now when it is opened or compacted. A log that is closed
// takes no more blocks than it needs.
func TestStore_small(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	open := func() *numbered {
		s, err := Open(dir, Options{
			FS: vfs.Default, TableCacheSize: 1 << 20, MemTableSize: 256 << 10, BallastSize: 64 << 20,
			Logger: slog.New(slog.DiscardHandler), Failed: func(error) {},
		})
		if err != nil {
			t.Fatal(err)
		}
		return &numbered{Store: s, t: t}
	}
	open().close()
	ballast := filepath.Join(dir, freeze.BallastName)
	expect := func(s *numbered, size int64) {
		t.Helper()
		if info, err := os.Stat(ballast); err != nil || info.Size() != size || s.Space.Ballast() != size {
			t.Errorf("a ballast of %v bytes, said to be of %d, want %d: %v", info, s.Space.Ballast(), size, err)
		}
	}
	if err := os.Truncate(ballast, 8<<20); err != nil {
		t.Fatal(err)
	}
	s := open()
	expect(s, minBallast)
	s.ballast.Store(4 << 20) // as if there had been more
	s.Space.Close()
	s.Space = freeze.NewSpace(vfs.Default, dir, freeze.Options{Ballast: 64 << 20, Wanted: s.ballast.Load})
	if err := os.Truncate(ballast, 8<<20); err != nil {
		t.Fatal(err)
	}
	s.Space.Start()
	if err := s.commit(10); err != nil {
		t.Fatal(err)
	}
	if err := s.Compact(t.Context(), []byte{0}, []byte{0xff}); err != nil {
		t.Fatal(err)
	}
	expect(s, minBallast)
	s.close()
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatal(logs, err)
	}
	for _, name := range logs {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if has := info.Sys().(*syscall.Stat_t).Blocks * 512; has > info.Size()+16<<10 {
			t.Errorf("%s has %d bytes, and takes %d", name, info.Size(), has)
		}
	}
}
