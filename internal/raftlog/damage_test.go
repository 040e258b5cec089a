package raftlog_test

import (
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/sievekv/sievekv/internal/kvtest"
	"github.com/sievekv/sievekv/internal/raftlog"
)

// written returns disks with a log that has tables, entries that were truncated, and marks: one that was closed, and one whose
// process was killed. All was synced. Both have the digest that it returns.
func written(t *testing.T) (map[string]*kvtest.Disk, digest) {
	t.Helper()
	disk := kvtest.NewDisk()
	m := newModel(42)
	m.big = 600
	l := open(t, smallOptions(disk))
	for range 150 {
		must(t, m.next().do(l))
	}
	must(t, l.SetMark("node", []byte("x")))
	_, last := m.bounds()
	must(t, l.Append([]*pb.Entry{entry(last+1, l.HardState().GetTerm(), "the last")}, nil, true))
	want, err := digestOf(l)
	must(t, err)
	killed := copyOf(disk)
	must(t, l.Close())
	return map[string]*kvtest.Disk{"closed": disk, "killed": killed}, want
}

// copyOf returns a disk with the same files.
func copyOf(disk *kvtest.Disk) *kvtest.Disk {
	return disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(0, 0))})
}

func readFile(t *testing.T, disk vfs.FS, name string) []byte {
	t.Helper()
	f, err := disk.Open(name)
	must(t, err)
	b, err := io.ReadAll(f)
	must(t, errors.Join(err, f.Close()))
	return b
}

func writeFile(t *testing.T, disk vfs.FS, name string, b []byte) {
	t.Helper()
	f, err := disk.Create(name, vfs.WriteCategoryUnspecified)
	must(t, err)
	_, err = f.Write(b)
	must(t, errors.Join(err, f.Sync(), f.Close()))
}

// verify opens a log that is damaged. Noticed is the error of opening, reading or closing it. Same says that it is the one that
// is wanted.
func verify(t *testing.T, disk *kvtest.Disk, want digest) (same bool, noticed error) {
	t.Helper()
	l, err := raftlog.Open(dir, smallOptions(disk))
	if err != nil {
		return false, err
	}
	got, err := digestOf(l)
	if err != nil {
		_ = l.Close()
		return false, err
	}
	return got == want, l.Close() // a compaction may have met the damage
}

// A log with a flipped bit, in any file, is an error or the same log.
func TestLog_flipped(t *testing.T) {
	disks, want := written(t)
	rng := rand.New(rand.NewPCG(rand.Uint64(), 0))
	for name, disk := range disks {
		files, err := disk.List(dir)
		must(t, err)
		noticed := map[string]int{}
		for _, file := range files {
			b := readFile(t, disk, dir+"/"+file)
			for range min(40, 8*len(b)) {
				bit := rng.IntN(8 * len(b))
				flipped := slices.Clone(b)
				flipped[bit/8] ^= 1 << (bit % 8)
				damaged := copyOf(disk)
				writeFile(t, damaged, dir+"/"+file, flipped)
				same, err := verify(t, damaged, want)
				if err == nil && !same {
					t.Errorf("%s, bit %d of %s: another log", name, bit, file)
				}
				if err != nil {
					noticed[file]++
				}
			}
		}
		if noticed["SYNCED"] == 0 || len(noticed) < 3 {
			t.Errorf("%s: noticed in %v only", name, noticed)
		}
	}
}

// A log with a removed, emptied or truncated file is an error or the same log.
func TestLog_lost(t *testing.T) {
	disks, want := written(t)
	for name, disk := range disks {
		files, err := disk.List(dir)
		must(t, err)
		noticed := 0
		for _, file := range files {
			path := dir + "/" + file
			b := readFile(t, disk, path)
			for how, lose := range map[string]func(disk *kvtest.Disk){
				"removed": func(disk *kvtest.Disk) { must(t, disk.Remove(path)) },
				"emptied": func(disk *kvtest.Disk) { writeFile(t, disk, path, nil) },
				"halved":  func(disk *kvtest.Disk) { writeFile(t, disk, path, b[:len(b)/2]) },
				"zeroed":  func(disk *kvtest.Disk) { writeFile(t, disk, path, make([]byte, len(b))) },
			} {
				damaged := copyOf(disk)
				lose(damaged)
				same, err := verify(t, damaged, want)
				if err == nil && !same {
					t.Errorf("%s, %s %s: another log", name, file, how)
				}
				if err != nil {
					noticed++
				}
			}
		}
		if noticed < 8 {
			t.Errorf("%s: %d noticed", name, noticed)
		}
	}
}

// A directory whose log is gone, or is older than what was synced, is damaged, and not a new log.
func TestLog_old(t *testing.T) {
	disk := kvtest.NewDisk()
	l := open(t, smallOptions(disk))
	must(t, l.Append([]*pb.Entry{entry(1, 1, "a")}, hard(1, 1, 0), true))
	old := copyOf(disk)
	must(t, l.Append(nil, hard(2, 0, 0), true))
	newer := copyOf(disk)
	must(t, l.Close())
	synced := readFile(t, newer, dir+"/SYNCED")
	writeFile(t, old, dir+"/SYNCED", synced)
	if _, err := raftlog.Open(dir, smallOptions(old)); !errors.Is(err, raftlog.ErrDamaged) {
		t.Errorf("older: %v", err)
	}
	empty := kvtest.NewDisk()
	must(t, empty.MkdirAll(dir, 0o700))
	writeFile(t, empty, dir+"/SYNCED", synced)
	for range 2 {
		if _, err := raftlog.Open(dir, smallOptions(empty)); !errors.Is(err, raftlog.ErrDamaged) {
			t.Errorf("gone: %v", err)
		}
		if names, err := empty.List(dir); err != nil || len(names) != 2 { // SYNCED and LOCK
			t.Errorf("gone: files %v, %v", names, err)
		}
	}
}

// A log into which a file of another log was copied is damaged: Pebble would read it as its own.
func TestLog_foreign(t *testing.T) {
	disks := make([]*kvtest.Disk, 2)
	for i := range disks {
		disk := kvtest.NewDisk()
		l := ready(t, disk)
		must(t, l.Append([]*pb.Entry{entry(21, 6, "x")}, hard(7+uint64(i), 0, 20), true))
		disks[i] = copyOf(disk)
		_ = l.Close()
	}
	names, err := disks[1].List(dir)
	must(t, err)
	slices.Sort(names)
	slices.Reverse(names) // the newest first
	log := slices.IndexFunc(names, func(name string) bool { return strings.HasSuffix(name, ".log") })
	writeFile(t, disks[0], dir+"/"+names[log], readFile(t, disks[1], dir+"/"+names[log]))
	if _, err := raftlog.Open(dir, smallOptions(disks[0])); !errors.Is(err, raftlog.ErrDamaged) || !strings.Contains(err.Error(), "is of log") {
		t.Error(err)
	}
}

// A record that is whole, but not the one that was written there, is noticed.
func TestLog_forged(t *testing.T) {
	get := func(db *pebble.DB, key []byte) []byte {
		value, closer, err := db.Get(key)
		must(t, err)
		defer closer.Close()
		return slices.Clone(value)
	}
	forge := func(index uint64, change func(e *pb.Entry)) func(db *pebble.DB) error {
		return func(db *pebble.DB) error {
			key := raftlog.EntryKey(index)
			return db.Set(key, raftlog.Forge(index, get(db, key), change), pebble.Sync)
		}
	}
	data := func(e *pb.Entry) { e.Data = []byte("??") }
	for name, tt := range map[string]struct {
		change func(db *pebble.DB) error
		want   string
	}{
		"nothing":      {func(*pebble.DB) error { return nil }, ""},
		"another":      {forge(15, data), "entry 16 follows another entry 15"},
		"another last": {forge(20, data), "entry 20 is another one"},
		"lower term":   {forge(17, func(e *pb.Entry) { e.Term = new(uint64(2)) }), "entry 17 has term 2"},
		"longer":       {forge(20, func(e *pb.Entry) { e.Data = []byte("longer") }), "entry 20 is another one"},
		"copied": {func(db *pebble.DB) error {
			return db.Set(raftlog.EntryKey(15), get(db, raftlog.EntryKey(14)), pebble.Sync)
		}, "entry 15 has a wrong checksum"},
		"gap":      {func(db *pebble.DB) error { return db.Delete(raftlog.EntryKey(15), pebble.Sync) }, "what is between them is missing"},
		"first":    {func(db *pebble.DB) error { return db.Delete(raftlog.EntryKey(11), pebble.Sync) }, "what is between them is missing"},
		"last":     {func(db *pebble.DB) error { return db.Delete(raftlog.EntryKey(20), pebble.Sync) }, "entry 20 is missing"},
		"all":      {func(db *pebble.DB) error { return db.DeleteRange([]byte{0}, []byte{255}, pebble.Sync) }, "the end of the log is lost"},
		"no state": {func(db *pebble.DB) error { return db.Set(raftlog.EntryKey(21), []byte("x"), pebble.Sync) }, "is not a state record"},
		"another mark": {func(db *pebble.DB) error {
			return db.Set(raftlog.MarkKey("a"), raftlog.MarkValue("a", []byte("y")), pebble.Sync)
		}, "marks"},
		"no mark": {func(db *pebble.DB) error { return db.Delete(raftlog.MarkKey("a"), pebble.Sync) }, "marks"},
		"copied mark": {func(db *pebble.DB) error {
			return db.Set(raftlog.MarkKey("b"), get(db, raftlog.MarkKey("a")), pebble.Sync)
		}, "mark \"b\" has a wrong checksum"},
	} {
		t.Run(name, func(t *testing.T) {
			disk := kvtest.NewDisk()
			l := ready(t, disk)
			must(t, l.SetMark("a", []byte("x")))
			must(t, l.Close())
			db, err := pebble.Open(dir, &pebble.Options{FS: disk, Logger: quiet{}})
			must(t, err)
			must(t, tt.change(db))
			must(t, db.Close())
			l, err = raftlog.Open(dir, smallOptions(disk))
			switch {
			case tt.want == "":
				must(t, err)
				must(t, l.Close())
			case !errors.Is(err, raftlog.ErrDamaged) || !strings.Contains(err.Error(), tt.want):
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
}
