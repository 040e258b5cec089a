package kv

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/kv/freeze"
)

var anID = [16]byte{1, 2, 3}

// A sidecar is what was written, or it is refused.
func TestSidecar_decode(t *testing.T) {
	whole := appendSidecar(nil, anID, 1234)
	if id, next, err := decodeSidecar(whole); id != anID || next != 1234 || err != nil {
		t.Errorf("a sidecar of %x and 1234 is %x and %d, %v", anID, id, next, err)
	}
	for bit := range 8 * len(whole) {
		flipped := append([]byte{}, whole...)
		flipped[bit/8] ^= 1 << (bit % 8)
		if _, _, err := decodeSidecar(flipped); !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrUnsupportedVersion) {
			t.Errorf("with bit %d flipped: %v", bit, err)
		}
	}
	for n := range whole {
		if _, _, err := decodeSidecar(whole[:n]); !errors.Is(err, ErrCorrupt) {
			t.Errorf("of %d bytes: %v, want ErrCorrupt", n, err)
		}
	}
	if _, _, err := decodeSidecar(append(whole, 0)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("with a byte too many: %v, want ErrCorrupt", err)
	}
	whole[4]++
	if _, _, err := decodeSidecar(whole); !errors.Is(err, ErrUnsupportedVersion) {
		t.Errorf("of another version: %v, want ErrUnsupportedVersion", err)
	}
}

// sidecarFS is a file system on which one step of writing the sidecar fails.
type sidecarFS struct {
	vfs.FS
	fail string // create, write, short, sync, rename
	made int
}

var errStep = errors.New("a step fails")

func (f *sidecarFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.Create(name, c)
	if err != nil || !strings.HasSuffix(name, sidecarName+".tmp") {
		return file, err
	}
	f.made++
	if f.fail == "create" {
		return nil, errors.Join(errStep, file.Close())
	}
	return &sidecarFile{file, f}, nil
}

func (f *sidecarFS) Rename(from, to string) error {
	if f.fail == "rename" && strings.HasSuffix(to, sidecarName) {
		return errStep
	}
	return f.FS.Rename(from, to)
}

type sidecarFile struct {
	vfs.File
	fs *sidecarFS
}

func (f *sidecarFile) Write(p []byte) (int, error) {
	switch f.fs.fail {
	case "write":
		return 0, errStep
	case "short":
		return f.File.Write(p[:len(p)/2])
	}
	return f.File.Write(p)
}

func (f *sidecarFile) Sync() error {
	if f.fs.fail == "sync" {
		return errStep
	}
	return f.File.Sync()
}

// withSidecar returns as much of a store as its sidecar is about, in a directory that is there.
func withSidecar(t *testing.T, fs vfs.FS) *DB {
	t.Helper()
	if err := makeDir(fs, "store"); err != nil {
		t.Fatal(err)
	}
	db := &DB{dir: "store", fs: freeze.New(fs, "store", nil)}
	db.meta.id = [16]byte{9}
	// The last that Pebble does as it opens: what fails from now on does not freeze the directory.
	err := writeFileSync(db.fs, "store/000001.dbtmp", nil)
	if err = errors.Join(err, db.fs.Rename("store/000001.dbtmp", "store/OPTIONS-000001")); err != nil {
		t.Fatal(err)
	}
	return db
}

// sidecarOn returns what a disk's sidecar says.
func sidecarOn(t *testing.T, disk vfs.FS) (id [16]byte, next uint64) {
	t.Helper()
	f, err := disk.Open("store/" + sidecarName)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(f)
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	if id, next, err = decodeSidecar(b); err != nil {
		t.Fatal(err)
	}
	return id, next
}

// What a sidecar says survives a crash when it counts as written, and is that everything up to the watermark has to be
// there.
func TestSidecar_store(t *testing.T) {
	disk := vfs.NewCrashableMem()
	fs := &sidecarFS{FS: disk}
	db := withSidecar(t, fs)
	for range 3 {
		db.durable.Add(7)
		if err := db.storeSidecar(); err != nil {
			t.Fatal(err)
		}
		made := fs.made
		if err := db.storeSidecar(); err != nil || fs.made > made {
			t.Errorf("a sidecar is written, %v, when there is nothing new", err)
		}
		id, next := sidecarOn(t, disk.CrashClone(vfs.CrashCloneCfg{}))
		if durable := db.durable.Load(); id != db.meta.id || next != durable+1 {
			t.Errorf("the sidecar says %x and %d, want %x and %d", id, next, db.meta.id, durable+1)
		}
		if err := db.checkSidecar(next); err != nil {
			t.Errorf("a log that ends where the sidecar says: %v", err)
		}
		if err := db.checkSidecar(next - 1); !errors.Is(err, ErrCorrupt) {
			t.Errorf("a log that has lost its last record: %v, want ErrCorrupt", err)
		}
	}
	db.meta.id = anID
	if err := db.checkSidecar(1 << 40); !errors.Is(err, ErrCorrupt) {
		t.Errorf("the sidecar of another store: %v, want ErrCorrupt", err)
	}
}

// A sidecar that could not be written leaves the one before, and is written the next time.
func TestSidecar_fails(t *testing.T) {
	for _, step := range []string{"create", "write", "short", "sync", "rename"} {
		t.Run(step, func(t *testing.T) {
			disk := vfs.NewCrashableMem()
			fs := &sidecarFS{FS: disk}
			db := withSidecar(t, fs)
			write := func() error {
				db.durable.Add(7)
				return db.storeSidecar()
			}
			if err := write(); err != nil {
				t.Fatal(err)
			}
			_, before := sidecarOn(t, disk)
			fs.fail = step
			if err := write(); !errors.Is(err, errStep) && !errors.Is(err, io.ErrShortWrite) {
				t.Errorf("writing the sidecar = %v, want the error of the step", err)
			}
			if _, next := sidecarOn(t, disk); next != before {
				t.Errorf("a sidecar that could not be written says %d, want %d as before", next, before)
			}
			fs.fail = ""
			if err := db.storeSidecar(); err != nil {
				t.Fatal(err)
			}
			if _, next := sidecarOn(t, disk); next != db.durable.Load()+1 {
				t.Errorf("the sidecar written after that says %d, want %d", next, db.durable.Load()+1)
			}
		})
	}
}

// A store without a sidecar has none yet; one that cannot be read is an error.
func TestSidecar_missing(t *testing.T) {
	disk := vfs.NewMem()
	db := withSidecar(t, disk)
	if err := db.checkSidecar(1); err != nil {
		t.Errorf("no sidecar: %v", err)
	}
	if err := disk.MkdirAll("store/"+sidecarName, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := db.checkSidecar(1); err == nil {
		t.Error("a sidecar that cannot be read counts as none")
	}
}
