package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/dirsync"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/freeze"
	"github.com/sievekv/sievekv/internal/kvtest"
)

var anID = [16]byte{1, 2, 3}

// A sidecar decodes to what was written, or is refused.
func TestSidecar_decode(t *testing.T) {
	whole := format.AppendSidecar(nil, anID, 1234)
	if id, next, err := format.DecodeSidecar(whole); id != anID || next != 1234 || err != nil {
		t.Errorf("a sidecar of %x and 1234 is %x and %d, %v", anID, id, next, err)
	}
	for bit := range 8 * len(whole) {
		flipped := append([]byte{}, whole...)
		flipped[bit/8] ^= 1 << (bit % 8)
		if _, _, err := format.DecodeSidecar(flipped); !errors.Is(err, format.ErrCorrupt) {
			t.Errorf("with bit %d flipped: %v", bit, err)
		}
	}
	for n := range whole {
		if _, _, err := format.DecodeSidecar(whole[:n]); !errors.Is(err, format.ErrCorrupt) {
			t.Errorf("of %d bytes: %v, want ErrCorrupt", n, err)
		}
	}
	sum := func(b []byte) []byte {
		b = bytes.Clone(b[:len(b)-4])
		return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
	}
	longer := append(bytes.Clone(whole), 0)
	for _, longer := range [][]byte{longer, sum(longer)} {
		if _, _, err := format.DecodeSidecar(longer); !errors.Is(err, format.ErrCorrupt) {
			t.Errorf("with a byte too many: %v, want ErrCorrupt", err)
		}
	}
	whole[4]++
	if _, _, err := format.DecodeSidecar(sum(whole)); !errors.Is(err, format.ErrUnsupportedVersion) {
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
	if err != nil || !strings.HasSuffix(name, format.SidecarName+".tmp") {
		return file, err
	}
	f.made++
	if f.fail == "create" {
		return nil, errors.Join(errStep, file.Close())
	}
	return &sidecarFile{file, f}, nil
}

func (f *sidecarFS) Rename(from, to string) error {
	if f.fail == "rename" && strings.HasSuffix(to, format.SidecarName) {
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

// withSidecar returns as much of a store as the sidecar needs, in a directory that exists.
func withSidecar(t *testing.T, fs vfs.FS) *Store {
	t.Helper()
	if err := dirsync.Make(fs, "store", dirsync.Strict); err != nil {
		t.Fatal(err)
	}
	s := &Store{Dir: "store", Files: freeze.New(fs, "store", nil)}
	s.Meta.ID = [16]byte{9}
	// This is the last file that Pebble makes as it opens. Errors after it do not freeze the directory.
	err := writeFileSync(s.Files, "store/000001.dbtmp", nil)
	if err = errors.Join(err, s.Files.Rename("store/000001.dbtmp", "store/OPTIONS-000001")); err != nil {
		t.Fatal(err)
	}
	return s
}

// sidecarOn returns what the sidecar on a disk says.
func sidecarOn(t *testing.T, disk vfs.FS) (id [16]byte, next uint64) {
	t.Helper()
	f, err := disk.Open("store/" + format.SidecarName)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(f)
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	if id, next, err = format.DecodeSidecar(b); err != nil {
		t.Fatal(err)
	}
	return id, next
}

// A sidecar that counts as written survives a crash. It says that everything up to the watermark must be there.
func TestSidecar_store(t *testing.T) {
	disk := kvtest.NewDisk()
	fs := &sidecarFS{FS: disk}
	s := withSidecar(t, fs)
	for range 3 {
		s.durableSeq.Add(7)
		if err := s.storeSidecar(); err != nil {
			t.Fatal(err)
		}
		made := fs.made
		if err := s.storeSidecar(); err != nil || fs.made > made {
			t.Errorf("a sidecar is written, %v, when there is nothing new", err)
		}
		id, next := sidecarOn(t, disk.CrashClone(vfs.CrashCloneCfg{}))
		if durable := s.durableSeq.Load(); id != s.Meta.ID || next != durable+1 {
			t.Errorf("the sidecar says %x and %d, want %x and %d", id, next, s.Meta.ID, durable+1)
		}
		if _, err := s.checkSidecar(next); err != nil {
			t.Errorf("a log that ends where the sidecar says: %v", err)
		}
		if _, err := s.checkSidecar(next - 1); !errors.Is(err, format.ErrCorrupt) {
			t.Errorf("a log that has lost its last record: %v, want ErrCorrupt", err)
		}
	}
	s.Meta.ID = anID
	if _, err := s.checkSidecar(1 << 40); !errors.Is(err, format.ErrCorrupt) {
		t.Errorf("the sidecar of another store: %v, want ErrCorrupt", err)
	}
}

// If a sidecar cannot be written, the one before stays, and the next attempt writes it.
func TestSidecar_fails(t *testing.T) {
	for _, step := range []string{"create", "write", "short", "sync", "rename"} {
		t.Run(step, func(t *testing.T) {
			disk := kvtest.NewDisk()
			fs := &sidecarFS{FS: disk}
			s := withSidecar(t, fs)
			write := func() error {
				s.durableSeq.Add(7)
				return s.storeSidecar()
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
			if err := s.storeSidecar(); err != nil {
				t.Fatal(err)
			}
			if _, next := sidecarOn(t, disk); next != s.durableSeq.Load()+1 {
				t.Errorf("the sidecar written after that says %d, want %d", next, s.durableSeq.Load()+1)
			}
		})
	}
}

// A sidecar that is missing is said to be. One that cannot be read is an error.
func TestSidecar_missing(t *testing.T) {
	disk := vfs.NewMem()
	s := withSidecar(t, disk)
	var log bytes.Buffer
	s.opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
	if missing, err := s.checkSidecar(1); !missing || err != nil || !strings.Contains(log.String(), format.SidecarName) {
		t.Errorf("no sidecar: missing %t, %v, log %q", missing, err, &log)
	}
	if err := disk.MkdirAll("store/"+format.SidecarName, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := s.checkSidecar(1); err == nil {
		t.Error("a sidecar that cannot be read counts as none")
	}
}

// An edit of a compaction has the last sequence of the time. So the MANIFEST may know of commits that the log has lost since: that
// they are lost is noticed all the same.
func TestSidecar_manifestAhead(t *testing.T) {
	for _, cut := range []bool{false, true} {
		disk := vfs.NewMem()
		s := openOn(t, disk, false)
		write(t, s, "a")
		compact(t, s)
		write(t, s, "a")
		closeStore(t, s)
		s = openOn(t, disk, false) // this flushes the second commit
		for range 20 {
			write(t, s, "z")
		}
		compact(t, s)
		if n := s.Metrics().TableCompactions; n == 0 {
			t.Fatal("nothing was compacted")
		}
		closeStore(t, s)
		if cut {
			halveLog(t, disk)
		}
		for _, readOnly := range []bool{true, false, true, false} {
			s, err := Open("store", optionsOn(disk, readOnly))
			if cut != errors.Is(err, format.ErrCorrupt) {
				t.Errorf("cut %t, read-only %t: %v", cut, readOnly, err)
			}
			if err == nil {
				closeStore(t, s)
			}
		}
	}
}

// A crash may take commits that the MANIFEST knows, and that were never reported as on stable storage. The store opens
// then, and after each of the ways in which it may end again.
func TestSidecar_gap(t *testing.T) {
	disk := vfs.NewCrashableMem()
	s := openOn(t, disk, false)
	write(t, s, "a")
	compact(t, s)
	write(t, s, "a")
	closeStore(t, s)
	s = openOn(t, disk, false) // this flushes the second commit
	write(t, s, "z")
	for range 20 {
		var b Batch
		b.Set([]byte("z"), make([]byte, 1000))
		if _, err := s.Commit(&b, Now); err != nil {
			t.Fatal(err)
		}
	}
	compact(t, s)
	crashed := disk.CrashClone(vfs.CrashCloneCfg{})
	closeStore(t, s)
	for _, way := range []struct{ writes, tells, closes bool }{
		{}, {closes: true}, {writes: true}, {writes: true, tells: true}, {writes: true, closes: true},
	} {
		disk := crashed.CrashClone(vfs.CrashCloneCfg{})
		for round := range 3 {
			s, err := Open("store", optionsOn(disk, false))
			if err != nil {
				t.Fatalf("%+v, round %d: %v", way, round, err)
			}
			if round == 0 && s.reached == 0 {
				t.Fatal("there is no gap")
			}
			if way.writes {
				write(t, s, "b")
			}
			if way.tells {
				if err := errors.Join(s.syncLog(), s.storeSidecar()); err != nil {
					t.Fatal(err)
				}
			}
			next := disk
			if !way.closes {
				next = disk.CrashClone(vfs.CrashCloneCfg{})
			}
			closeStore(t, s)
			disk = next
		}
	}
}

func optionsOn(disk vfs.FS, readOnly bool) Options {
	return Options{
		FS: disk, ReadOnly: readOnly, TableCacheSize: 1 << 20, MemTableSize: 1 << 20,
		Logger: slog.New(slog.DiscardHandler), Failed: func(error) {},
	}
}

func openOn(t *testing.T, disk vfs.FS, readOnly bool) *Store {
	t.Helper()
	s, err := Open("store", optionsOn(disk, readOnly))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closeStore(t *testing.T, s *Store) {
	t.Helper()
	s.End(func() bool { return false })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// write sets a key, and waits until that is on stable storage.
func write(t *testing.T, s *Store, key string) {
	t.Helper()
	var b Batch
	b.Set([]byte(key), make([]byte, 1000))
	r, err := s.Commit(&b, Synced)
	if err := errors.Join(err, s.Await(r)); err != nil {
		t.Fatal(err)
	}
}

// compact compacts the keys that begin with a, and flushes nothing else.
func compact(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Compact(t.Context(), []byte("a"), []byte("b")); err != nil {
		t.Fatal(err)
	}
}

// halveLog cuts the last log.
func halveLog(t *testing.T, disk vfs.FS) {
	t.Helper()
	names, err := disk.List("store")
	if err != nil {
		t.Fatal(err)
	}
	log := ""
	for _, name := range names {
		if strings.HasSuffix(name, ".log") {
			log = max(log, "store/"+name)
		}
	}
	f, err := disk.Open(log)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(f)
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	if err := writeFileSync(disk, log, data[:len(data)/2]); err != nil {
		t.Fatal(err)
	}
}

// Opening a store that was not closed tells of it, once, and not opening one that was closed.
func TestOpen_unclean(t *testing.T) {
	disk := vfs.NewCrashableMem()
	var log bytes.Buffer
	open := func(fs vfs.FS, readOnly bool) (s *Store, told int) {
		log.Reset()
		o := optionsOn(fs, readOnly)
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		s, err := Open("store", o)
		if err != nil {
			t.Fatal(err)
		}
		return s, strings.Count(log.String(), `level=INFO msg="sievekv: the store was not closed`)
	}
	for round := range 3 {
		s, told := open(disk, false)
		if told != 0 {
			t.Errorf("round %d: a new or closed store is told of %d times: %s", round, told, log.String())
		}
		write(t, s, fmt.Sprint(round))
		crashed := disk.CrashClone(vfs.CrashCloneCfg{})
		closeStore(t, s)
		for _, readOnly := range []bool{true, false} {
			s, told := open(crashed, readOnly)
			if told != 1 {
				t.Errorf("round %d, read-only %t: a store that a crash has left is told of %d times: %s", round, readOnly, told, log.String())
			}
			closeStore(t, s)
		}
		s, told = open(crashed, false)
		if told != 0 {
			t.Errorf("round %d: a store that was closed after a crash is told of %d times", round, told)
		}
		closeStore(t, s)
	}
}
