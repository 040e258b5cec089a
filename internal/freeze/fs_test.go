package freeze_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/freeze"
)

// operations are all operations of handles that change a file, or serve that.
var operations = []struct {
	site string
	do   func(vfs.File) error
}{
	{"write", func(f vfs.File) error { _, err := f.Write([]byte("new")); return err }},
	{"write", func(f vfs.File) error { _, err := f.WriteAt([]byte("new"), 1); return err }},
	{"sync", func(f vfs.File) error { return f.Sync() }},
	{"sync", func(f vfs.File) error { return f.SyncData() }},
	{"sync", func(f vfs.File) error { _, err := f.SyncTo(1); return err }},
	{"stat", func(f vfs.File) error { _, err := f.Stat(); return err }},
	{"preallocate", func(f vfs.File) error { return f.Preallocate(0, 1) }},
	{"close", func(f vfs.File) error { return f.Close() }},
}

var vitalNames = []string{
	"db/000002.log", "db/MANIFEST-000001", "db/OPTIONS-000003", "db/marker.manifest.000001.MANIFEST-000001",
	"db/000003.dbtmp",
}

func TestFS_files(t *testing.T) {
	creations := map[string]func(fs vfs.FS, name string) (vfs.File, error){
		"Create": func(fs vfs.FS, name string) (vfs.File, error) { return fs.Create(name, category) },
		"OpenReadWrite": func(fs vfs.FS, name string) (vfs.File, error) {
			return fs.OpenReadWrite(name, category)
		},
		"ReuseForWrite": func(fs vfs.FS, name string) (vfs.File, error) {
			return fs.ReuseForWrite("db/old", name, category)
		},
	}
	for creation, create := range creations {
		for i, op := range operations {
			for _, name := range append(vitalNames, "db/000004.sst", "db/BALLAST", "db/a/000002.log", "000002.log") {
				if op.site == "preallocate" && slices.Contains(vitalNames, name) {
					continue // a log gets blocks as it grows: see TestFS_log_blocks
				}
				t.Run(fmt.Sprintf("%s/%s%d/%s", creation, op.site, i, name), func(t *testing.T) {
					disk := newDir()
					check(t, disk.MkdirAll("db/a", 0o755))
					writeFile(disk, "db/old", "")
					f := &fault{}
					frozen := freeze.New(&faultFS{FS: disk, dir: dir, fault: f}, dir, nil)
					finishOpen(t, frozen)
					file, err := create(frozen, name)
					check(t, err)
					f.arm(site{op.site, classOf(dir, name)})
					err = op.do(file)
					freezes := f.site.freezes()
					if got := err == nil; got != freezes {
						t.Errorf("operation returned %v", err)
					}
					if !errors.Is(err, syscall.EIO) && !freezes {
						t.Errorf("operation returned %v", err)
					}
					if got := frozen.Failed() != nil; got != freezes {
						t.Errorf("Failed returned %v", frozen.Failed())
					}
					if freezes && !errors.Is(frozen.Failed(), syscall.EIO) {
						t.Errorf("Failed returned %v", frozen.Failed())
					}
				})
			}
		}
	}
}

func TestFS_OpenDir(t *testing.T) {
	for i, op := range operations[2:] { // three kinds of sync, and what else a directory has
		for _, spelling := range []string{"db", "db/", "./db", "db/../db"} {
			f := &fault{site: site{op.site, "dir"}, nth: 1}
			frozen := freeze.New(&faultFS{FS: newDir(), dir: dir, fault: f}, spelling, nil)
			err := op.do(must(frozen.OpenDir(dir)))
			if freezes := i < 3; (err == nil) != freezes || (frozen.Failed() != nil) != freezes {
				t.Errorf("%s of %s returned %v, Failed %v", op.site, spelling, err, frozen.Failed())
			}
		}
	}
	other := newDir()
	check(t, other.MkdirAll("backup", 0o755))
	f := &fault{site: site{"sync", "outside"}, nth: 1}
	frozen := freeze.New(&faultFS{FS: other, dir: dir, fault: f}, dir, nil)
	if err := must(frozen.OpenDir("backup")).Sync(); !errors.Is(err, syscall.EIO) || frozen.Failed() != nil {
		t.Errorf("sync of another directory returned %v, Failed %v", err, frozen.Failed())
	}
}

func TestFS_Create_failing(t *testing.T) {
	for _, name := range vitalNames {
		disk := newDir()
		f := &fault{site: site{"create", classOf(dir, name)}, nth: 1}
		frozen := freeze.New(&faultFS{FS: disk, dir: dir, fault: f}, dir, nil)
		file, err := frozen.Create(name, category)
		check(t, err)
		if frozen.Failed() == nil {
			t.Errorf("%s: not frozen", name)
		}
		checkSink(t, file)
		unchanged(t, disk, map[string]string{})
	}
}

// checkSink fails the test unless the file takes everything and keeps nothing.
func checkSink(t *testing.T, file vfs.File) {
	t.Helper()
	for _, op := range operations {
		if op.site != "close" {
			check(t, op.do(file))
		}
	}
	n, err := file.Write(make([]byte, 10))
	if n != 10 || err != nil {
		t.Errorf("Write returned %d, %v", n, err)
	}
	info, err := file.Stat()
	check(t, err)
	if info.Size() != 0 || info.IsDir() {
		t.Errorf("Stat returned %d bytes, directory: %t", info.Size(), info.IsDir())
	}
	if fd := file.Fd(); fd != vfs.InvalidFd {
		t.Errorf("Fd returned %d", fd)
	}
	if n, err := file.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("Read returned %d, %v", n, err)
	}
	if n, err := file.ReadAt(make([]byte, 1), 0); n != 0 || err != io.EOF {
		t.Errorf("ReadAt returned %d, %v", n, err)
	}
	check(t, file.Prefetch(0, 1))
	check(t, file.Close())
}

func TestFS_frozen(t *testing.T) {
	disk := newDir()
	calls := 0
	frozen := freeze.New(disk, dir, func(err error) {
		calls++
		if !errors.Is(err, errTest) {
			t.Errorf("callback got %v", err)
		}
	})
	for _, name := range append(vitalNames, "db/000004.sst", "db/DURABLE") {
		writeFile(frozen, name, "old")
	}
	log := must(frozen.ReuseForWrite("db/000002.log", "db/000005.log", category))
	d := must(frozen.OpenDir(dir))
	check(t, d.Sync())
	check(t, frozen.Failed())
	before := contents(disk, dir)

	frozen.Freeze(errTest)
	frozen.Freeze(errors.New("too late"))
	if calls != 1 || frozen.Failed() != errTest {
		t.Fatalf("callback was called %d times, Failed returned %v", calls, frozen.Failed())
	}

	for _, op := range operations {
		check(t, op.do(log))
	}
	for _, op := range operations[2:] {
		check(t, op.do(d))
	}
	for _, name := range append(vitalNames, "db/000006.log") {
		checkSink(t, must(frozen.Create(name, category)))
		checkSink(t, must(frozen.OpenReadWrite(name, category)))
		checkSink(t, must(frozen.ReuseForWrite("db/000005.log", name, category)))
		check(t, frozen.Rename("db/000099.dbtmp", name)) // was never created
		check(t, frozen.Rename(name, "db/000099.log"))
		check(t, frozen.Rename(name, "elsewhere"))
	}
	writeFile(frozen, "db/DURABLE.tmp", "new")
	check(t, frozen.Rename("db/DURABLE.tmp", "db/DURABLE"))
	check(t, frozen.MkdirAll("db/a", 0o755))
	for name := range before {
		check(t, frozen.Remove("db/"+name))
		check(t, frozen.RemoveAll("db/"+name))
	}
	check(t, frozen.RemoveAll(dir))
	check(t, frozen.Remove("db/never-there"))
	unchanged(t, disk, before)

	if got := must(readFile(frozen, "db/DURABLE")); got != "old" {
		t.Errorf("reading returned %q", got)
	}
	if names := must(frozen.List(dir)); len(names) != len(before) {
		t.Errorf("List returned %q", names)
	}
	if info := must(frozen.Stat("db/000005.log")); info.Size() != 3 {
		t.Errorf("Stat returned %d bytes", info.Size())
	}
}

func TestFS_frozen_tables(t *testing.T) {
	disk := newDir()
	frozen := freeze.New(disk, dir, nil)
	writeFile(frozen, "db/000004.sst", "old")
	half := must(frozen.Create("db/000005.sst", category))
	must(half.Write([]byte("half")))
	before := contents(disk, dir)
	frozen.Freeze(errTest)

	if n, err := half.Write([]byte("more")); n != 0 || !errors.Is(err, freeze.ErrFrozen) {
		t.Errorf("Write returned %d, %v", n, err)
	}
	if n, err := half.WriteAt([]byte("more"), 1); n != 0 || !errors.Is(err, freeze.ErrFrozen) {
		t.Errorf("WriteAt returned %d, %v", n, err)
	}
	for _, op := range operations[2:] {
		check(t, op.do(half))
	}

	for name, want := range map[string]string{"db/000006.sst": "new", "db/000004.sst": "again"} {
		writeFile(frozen, name, want)
		if got := must(readFile(frozen, name)); got != want {
			t.Errorf("%s reads %q", name, got)
		}
		if info := must(frozen.Stat(name)); info.Size() != int64(len(want)) {
			t.Errorf("%s: Stat returned %d bytes", name, info.Size())
		}
	}
	check(t, frozen.Remove("db/000006.sst"))
	if _, err := frozen.Open("db/000006.sst"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Open returned %v", err)
	}
	check(t, frozen.Link("db/000005.sst", "backup.sst"))
	if err := frozen.Link("backup.sst", "db/000007.sst"); !errors.Is(err, freeze.ErrFrozen) {
		t.Errorf("Link returned %v", err)
	}
	unchanged(t, disk, before)
}

// TestFS_outside checks that FS passes on paths that are not entries of the directory, frozen or not.
func TestFS_outside(t *testing.T) {
	disk := newDir()
	frozen := freeze.New(disk, dir, nil)
	for _, place := range []string{"backup", "dbx", "db/backup"} {
		check(t, disk.MkdirAll(place, 0o755))
	}
	for range 2 {
		for _, place := range []string{"backup", "dbx", "db/backup"} {
			log, sst := place+"/000002.log", place+"/000004.sst"
			writeFile(frozen, log, "data")
			check(t, frozen.Link(log, sst))
			check(t, frozen.Rename(log, place+"/000003.log"))
			writeFile(frozen, place+"/x", "")
			must(frozen.ReuseForWrite(place+"/x", log, category)).Close()
			check(t, frozen.MkdirAll(place+"/a/b", 0o755))
			if got := must(readFile(disk, sst)); got != "data" {
				t.Errorf("%s reads %q", sst, got)
			}
			for _, name := range []string{"000003.log", "000004.sst", "000002.log", "a/b"} {
				if err := frozen.Remove(place + "/" + name); err != nil {
					t.Errorf("remove %s: %v", name, err)
				}
			}
			check(t, frozen.RemoveAll(place+"/a"))
			if names := must(disk.List(place)); len(names) != 0 {
				t.Errorf("%s was left with %q", place, names)
			}
		}
		frozen.Freeze(errTest)
	}
}

func TestFS_Rename_failing(t *testing.T) {
	disk := newDir()
	f := &fault{site: site{"rename", "DURABLE.tmp"}, nth: 1}
	frozen := freeze.New(&faultFS{FS: disk, dir: dir, fault: f}, dir, nil)
	writeFile(frozen, "db/DURABLE.tmp", "")
	if err := frozen.Rename("db/DURABLE.tmp", "db/DURABLE"); !errors.Is(err, syscall.EIO) || frozen.Failed() != nil {
		t.Errorf("Rename returned %v, Failed %v", err, frozen.Failed())
	}
	check(t, frozen.Rename("db/never-there.dbtmp", "db/OPTIONS-000003"))
	if !errors.Is(frozen.Failed(), fs.ErrNotExist) {
		t.Errorf("Failed returned %v", frozen.Failed())
	}
}

// A compaction that has been given up makes no table; flushes go on.
func TestFS_GiveUpCompactions(t *testing.T) {
	mem := vfs.NewMem()
	if err := mem.MkdirAll("store", 0o755); err != nil {
		t.Fatal(err)
	}
	fs := freeze.New(mem, "store", nil)
	givenUp := false
	fs.GiveUpCompactions(func() bool { return givenUp })
	for i, tt := range []struct {
		category vfs.DiskWriteCategory
		givenUp  bool
		want     error
	}{
		{"pebble-compaction", false, nil},
		{"pebble-compaction", true, freeze.ErrGivenUp},
		{"pebble-memtable-flush", true, nil},
		{"pebble-compaction", false, nil},
	} {
		givenUp = tt.givenUp
		f, err := fs.Create(fmt.Sprintf("store/%06d.sst", i), tt.category)
		if !errors.Is(err, tt.want) {
			t.Errorf("%s, given up: %t: error is %v, want %v", tt.category, tt.givenUp, err, tt.want)
		}
		if err == nil {
			err = f.Close()
		}
		if err != nil && tt.want == nil {
			t.Error(err)
		}
	}
	if err := fs.Failed(); err != nil {
		t.Errorf("the directory is frozen: %v", err)
	}
}
