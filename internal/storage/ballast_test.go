package storage

import (
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/sievekv/sievekv/internal/freeze"
	"github.com/sievekv/sievekv/internal/kvtest"
	"github.com/sievekv/sievekv/tests/faultfs"
)

// A small store writes a small ballast when it is opened, and not first the largest that is allowed.
func TestOpen_ballast(t *testing.T) {
	disk := kvtest.NewDisk()
	for _, when := range []string{"new", "opened again without a ballast"} {
		var most int64
		fs := &faultfs.FS{FS: disk, Before: func(_ faultfs.Site, name string) error {
			if filepath.Base(name) != freeze.BallastName {
				return nil
			}
			if info, err := disk.Stat(name); err == nil {
				most = max(most, info.Size())
			}
			return nil
		}}
		s, err := Open("store", Options{
			FS: fs, TableCacheSize: 1 << 20, MemTableSize: 256 << 10, BallastSize: 16 << 20,
			Logger: slog.New(slog.DiscardHandler), Failed: func(error) {},
		})
		if err != nil {
			t.Fatal(err)
		}
		(&numbered{Store: s, t: t}).close()
		if size := s.Space.Ballast(); size != minBallast || most > minBallast {
			t.Errorf("%s: a ballast of %d bytes, and of %d before, want %d", when, size, most, minBallast)
		}
		if err := disk.Remove(disk.PathJoin("store", freeze.BallastName)); err != nil {
			t.Fatal(err)
		}
	}
}
