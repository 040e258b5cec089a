package freeze_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"runtime/debug"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/kvtest"
)

var tctx = context.Background()

func TestMain(m *testing.M) {
	// TestTorture opens Pebble some 8000 times for a few milliseconds, and every time allocates buffers that would
	// keep the collector busy.
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

const category = vfs.WriteCategoryUnspecified

var errTest = errors.New("broken by the test")

// must returns v, and panics if there is an error.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newDir returns a file system with an empty store directory that survives a crash.
func newDir() *kvtest.Disk {
	disk := kvtest.NewDisk()
	if err := errors.Join(disk.MkdirAll(dir, 0o755), must(disk.OpenDir("/")).Sync()); err != nil {
		panic(err)
	}
	return disk
}

func writeFile(fs vfs.FS, name, data string) {
	f := must(fs.Create(name, category))
	must(f.Write([]byte(data)))
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		panic(err)
	}
}

func readFile(fs vfs.FS, name string) (string, error) {
	f, err := fs.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	return string(data), err
}

// finishOpen does what pebble.Open does last.
func finishOpen(t *testing.T, fs vfs.FS) {
	t.Helper()
	writeFile(fs, "db/000001.dbtmp", "")
	check(t, fs.Rename("db/000001.dbtmp", "db/OPTIONS-000001"))
}

// unchanged fails the test if the files of the directory differ from those given.
func unchanged(t *testing.T, disk vfs.FS, before map[string]string) {
	t.Helper()
	if after := contents(disk, dir); !maps.Equal(before, after) {
		t.Errorf("directory changed from %q to %q", before, after)
	}
}

// writeTable returns the first error met in writing a table.
func writeTable(fs vfs.FS) error {
	f, err := fs.Create("db/000004.sst", category)
	if err != nil {
		return err
	}
	_, err = f.Write([]byte("data"))
	return errFirst(errFirst(err, f.Sync()), f.Close())
}
