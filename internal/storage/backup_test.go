package storage

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/kvtest"
	"github.com/sievekv/sievekv/tests/faultfs"
)

// numbered is a store in which commit n sets a key to n. So a backup of it must have the keys 0 to n-1, for some n.
type numbered struct {
	*Store
	t    *testing.T
	next uint64
}

func openNumbered(t *testing.T, fsys vfs.FS, dir string) *numbered {
	t.Helper()
	s, err := Open(dir, Options{
		FS: fsys, TableCacheSize: 1 << 20, MemTableSize: 256 << 10,
		Logger: slog.New(slog.DiscardHandler), Failed: func(error) {},
	})
	if err != nil {
		t.Fatalf("opening %s: %v", dir, err)
	}
	return &numbered{Store: s, t: t}
}

func (s *numbered) close() {
	s.t.Helper()
	s.End(func() bool { return false })
	if err := s.Close(); err != nil && !errors.Is(err, ErrFailed) {
		s.t.Error(err)
	}
}

func numberedKey(n uint64) []byte { return binary.BigEndian.AppendUint64([]byte{format.TagHeader}, n) }

// commit makes n commits that do not wait for the disk.
func (s *numbered) commit(n int) error {
	for range n {
		var b Batch
		b.Set(numberedKey(s.next), make([]byte, 100))
		if _, err := s.Commit(&b, Now); err != nil {
			return err
		}
		s.next++
	}
	return nil
}

// length opens the store in a directory and returns how many numbers it has. They must be the numbers of the first
// commits.
func length(t *testing.T, fsys vfs.FS, dir string) uint64 {
	t.Helper()
	s := openNumbered(t, fsys, dir)
	defer s.close()
	it, err := s.NewIterWithContext(t.Context(), &IterOptions{LowerBound: numberedKey(0), UpperBound: []byte{format.TagHeader + 1}})
	if err != nil {
		t.Fatal(err)
	}
	n := uint64(0)
	for ok := it.First(); ok; ok = it.Next() {
		if got := binary.BigEndian.Uint64(it.Key()[1:]); got != n {
			t.Fatalf("%s: commit %d follows commit %d", dir, got, n)
		}
		n++
	}
	if err := it.Close(); err != nil {
		t.Fatal(err)
	}
	return n
}

func unverified(string) error { return nil }

// wantNoBackup checks that nothing of a backup is there.
func wantNoBackup(t *testing.T, fsys vfs.FS, dir string) {
	t.Helper()
	names, err := fsys.List("")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, dir) {
			t.Errorf("%s is there", name)
		}
	}
}

// A backup has every commit made before it, and is a store that no longer depends on the other.
func TestBackup(t *testing.T) {
	for _, o := range []BackupOptions{{}, {Copy: true}} {
		t.Run(fmt.Sprintf("copy=%t", o.Copy), func(t *testing.T) {
			mem, links := kvtest.NewDisk(), 0
			s := openNumbered(t, &faultfs.FS{FS: mem, Before: func(at faultfs.Site, _ string) error {
				if at.Op == "link" {
					links++
				}
				return nil
			}}, "store")
			for range 3 { // tables
				if err := s.commit(3000); err != nil {
					t.Fatal(err)
				}
			}
			var last, whole uint64
			o.Progress = func(done, total uint64) {
				if done < last || done > total || whole != 0 && total != whole {
					t.Errorf("progress %d of %d, after %d of %d", done, total, last, whole)
				}
				last, whole = done, total
			}
			var made string
			err := Backup(t.Context(), s.Store, "copy", o, func(dir string) error {
				made = dir
				if _, err := mem.Stat("copy"); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("the backup has its name before it is verified: %v", err)
				}
				if n := length(t, mem, dir); n != 9000 {
					t.Errorf("%d commits are in the backup, want 9000", n)
				}
				return nil
			})
			if err != nil || made == "" {
				t.Fatalf("backup: %v, verified in %q", err, made)
			}
			if (links == 0) != o.Copy {
				t.Errorf("%d tables are linked", links)
			}
			if last < 500_000 {
				t.Errorf("%d bytes were told of", last)
			}
			if err := s.commit(1); err != nil {
				t.Fatal(err)
			}
			wantNoBackup(t, mem, made)
			if err := Backup(t.Context(), s.Store, "copy", o, unverified); !errors.Is(err, fs.ErrExist) || !errors.Is(err, ErrUnfinishedBackup) {
				t.Errorf("a backup over another: %v", err)
			}
			s.close()
			if err := mem.RemoveAll("store"); err != nil {
				t.Fatal(err)
			}
			if n := length(t, mem, "copy"); n != 9000 {
				t.Errorf("%d commits are in the backup, want 9000", n)
			}
		})
	}
}

// A backup made while commits go on has all that were made before, and of the others the first ones.
func TestBackup_meanwhile(t *testing.T) {
	mem := kvtest.NewDisk()
	s := openNumbered(t, mem, "store")
	defer s.close()
	for i := range 20 {
		if err := s.commit(100); err != nil {
			t.Fatal(err)
		}
		before, stop, ended := s.next, make(chan struct{}), make(chan error)
		go func() {
			var err error
			for on := true; on && err == nil; {
				select {
				case <-stop:
					on = false
				default:
					err = s.commit(10)
				}
			}
			ended <- err
		}()
		dir := fmt.Sprint("copy", i)
		err := Backup(t.Context(), s.Store, dir, BackupOptions{}, unverified)
		close(stop)
		if err := errors.Join(err, <-ended); err != nil {
			t.Fatal(err)
		}
		if n := length(t, mem, dir); n < before || n > s.next {
			t.Errorf("%d commits are in the backup, want %d to %d", n, before, s.next)
		}
	}
}

// A log that is copied while it is written ends at a place that had been written when the copy began: here commits are
// made, and synced, between any two reads.
func TestBackup_logWrittenMeanwhile(t *testing.T) {
	mem := kvtest.NewDisk()
	var s *numbered
	var during atomic.Bool // the backup runs: only it opens or reads a log then
	opened, reads, inside := uint64(0), 0, false
	s = openNumbered(t, &faultfs.FS{FS: mem, Before: func(at faultfs.Site, name string) error {
		if at.Op != "open" && at.Op != "read" || !strings.HasPrefix(name, "store") || !strings.HasSuffix(name, ".log") ||
			!during.Load() || inside {
			return nil
		}
		if at.Op == "open" {
			opened = s.next
			return nil
		}
		inside = true
		defer func() { inside = false }()
		reads++
		if err := s.commit(50); err != nil {
			return err
		}
		return s.disk.LogData(nil, nil) // with a sync
	}}, "store")
	defer s.close()
	for range 2 { // the log is the second that uses its file
		if err := s.commit(3000); err != nil {
			t.Fatal(err)
		}
	}
	before := s.next
	during.Store(true)
	if err := Backup(t.Context(), s.Store, "copy", BackupOptions{}, unverified); err != nil {
		t.Fatal(err)
	}
	during.Store(false)
	if n := length(t, mem, "copy"); n < before || n > opened || reads < 2 {
		t.Errorf("%d commits are in the backup after %d reads of logs, want %d to %d", n, reads, before, opened)
	}
}

// If a call to the disk fails, there is no backup, and the store goes on.
func TestBackup_faults(t *testing.T) {
	injected := errors.New("injected")
	for _, copied := range []bool{false, true} {
		for at := 0; ; at++ {
			mem := kvtest.NewDisk()
			calls, failed := -1, ""
			disk := &faultfs.FS{FS: mem, Before: func(site faultfs.Site, name string) error {
				if !strings.HasPrefix(name, "copy") || calls < 0 { // in this order: only the backup's own calls look at calls
					return nil
				}
				if calls++; calls-1 == at {
					failed = site.Op + " " + name
					return injected
				}
				return nil
			}}
			s := openNumbered(t, disk, "store")
			if err := s.commit(3000); err != nil {
				t.Fatal(err)
			}
			calls = 0
			err := Backup(t.Context(), s.Store, "copy", BackupOptions{Copy: copied}, unverified)
			calls = -1
			switch {
			case err == nil && failed == "":
				s.close()
			case err == nil && strings.HasPrefix(failed, "sync"):
				t.Errorf("%s failed, and the backup was made", failed)
			case err == nil: // the call did not matter
				if n := length(t, mem, "copy"); n != 3000 {
					t.Errorf("%s failed: %d commits are in the backup, want 3000", failed, n)
				}
			case !errors.Is(err, ErrUnfinishedBackup):
				t.Errorf("%s failed: %v", failed, err)
			case !strings.HasPrefix(failed, "remove"):
				wantNoBackup(t, mem, "copy")
			}
			if failed == "" {
				if at < 20 {
					t.Errorf("%d calls", at)
				}
				break
			}
			if err := s.commit(1); err != nil || s.failure() != nil {
				t.Errorf("%s failed: the store: %v, %v", failed, err, s.failure())
			}
			s.close()
		}
	}
}

// Whenever a process is killed, there is a whole backup or none, and the next backup removes what was left.
func TestBackup_crash(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for at := 0; ; at++ {
		mem := kvtest.NewDisk()
		calls := -1
		var after *kvtest.Disk
		disk := &faultfs.FS{FS: mem, Before: func(_ faultfs.Site, name string) error {
			if strings.HasPrefix(name, "copy") && calls >= 0 { // in this order: only the backup's own calls look at calls
				if calls++; calls-1 == at {
					after = mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rng})
				}
			}
			return nil
		}}
		s := openNumbered(t, disk, "store")
		if err := s.commit(3000); err != nil {
			t.Fatal(err)
		}
		calls = 0
		if err := Backup(t.Context(), s.Store, "copy", BackupOptions{Copy: at%2 == 1}, unverified); err != nil {
			t.Fatal(err)
		}
		calls = -1
		s.close()
		if after == nil {
			if at < 20 {
				t.Errorf("%d calls", at)
			}
			return
		}
		if _, err := after.Stat("copy"); err == nil {
			if n := length(t, after, "copy"); n != 3000 {
				t.Errorf("crash at call %d: %d commits are in the backup, want 3000", at, n)
			}
			continue
		}
		again := openNumbered(t, after, "store")
		if err := Backup(t.Context(), again.Store, "copy", BackupOptions{}, unverified); err != nil {
			t.Errorf("crash at call %d: the next backup: %v", at, err)
		}
		again.close()
		wantNoBackup(t, after, "copy.partial")
	}
}

// A backup that has not ended is no store: its directory gets the marker last.
func TestBackup_marker(t *testing.T) {
	mem := kvtest.NewDisk()
	last := ""
	disk := &faultfs.FS{FS: mem, Before: func(at faultfs.Site, name string) error {
		if at.Op == "create" && strings.HasPrefix(name, "copy") {
			last = name
		}
		return nil
	}}
	s := openNumbered(t, disk, "store")
	defer s.close()
	if err := s.commit(10); err != nil {
		t.Fatal(err)
	}
	if err := Backup(t.Context(), s.Store, "copy", BackupOptions{}, unverified); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(last, manifestMarker) {
		t.Errorf("the last file made is %s, want the marker", last)
	}
}

// A backup is given up when its context ends, when the store fails, and when verify says so.
func TestBackup_givenUp(t *testing.T) {
	cause := errors.New("the cause")
	for name, tt := range map[string]struct {
		want error
		do   func(s *numbered, cancel context.CancelFunc)
	}{
		"cancelled": {context.Canceled, func(_ *numbered, cancel context.CancelFunc) { cancel() }},
		"failed":    {ErrFailed, func(s *numbered, _ context.CancelFunc) { _ = s.Fail(cause) }},
	} {
		t.Run(name, func(t *testing.T) {
			mem := kvtest.NewDisk()
			s := openNumbered(t, mem, "store")
			defer s.close()
			if err := s.commit(3000); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			once := func() {}
			once = func() { once = func() {}; tt.do(s, cancel) }
			o := BackupOptions{Copy: true, Progress: func(uint64, uint64) { once() }}
			if err := Backup(ctx, s.Store, "copy", o, unverified); !errors.Is(err, tt.want) {
				t.Errorf("backup: %v, want %v", err, tt.want)
			}
			wantNoBackup(t, mem, "copy")
		})
	}
	mem := kvtest.NewDisk()
	s := openNumbered(t, mem, "store")
	defer s.close()
	if err := Backup(t.Context(), s.Store, "copy", BackupOptions{}, func(string) error { return cause }); !errors.Is(err, cause) {
		t.Errorf("backup: %v, want %v", err, cause)
	}
	wantNoBackup(t, mem, "copy")
}

// What happens after a backup was made and verified does not change whether it is there: a store that fails keeps it, and if
// its name cannot be made durable, it is removed.
func TestBackup_end(t *testing.T) {
	cause := errors.New("the cause")
	mem := kvtest.NewDisk()
	var renamed, repaired atomic.Bool // the store's own goroutines read them too
	disk := &faultfs.FS{FS: mem, Before: func(at faultfs.Site, name string) error {
		if renamed.Load() && !repaired.Load() && at.Op == "sync" && name == "." {
			return cause
		}
		if at.Op == "rename" && name == "copy" {
			renamed.Store(true)
		}
		return nil
	}}
	s := openNumbered(t, disk, "store")
	defer s.close()
	if err := s.commit(3000); err != nil {
		t.Fatal(err)
	}
	if err := Backup(t.Context(), s.Store, "copy", BackupOptions{}, unverified); !errors.Is(err, cause) || !errors.Is(err, ErrUnfinishedBackup) || !renamed.Load() {
		t.Errorf("backup: %v, want %v", err, cause)
	}
	wantNoBackup(t, mem, "copy")
	repaired.Store(true)
	if err := Backup(t.Context(), s.Store, "copy", BackupOptions{}, func(string) error { _ = s.Fail(cause); return nil }); err != nil {
		t.Errorf("backup: %v, though it is there", err)
	}
	if n := length(t, mem, "copy"); n != 3000 {
		t.Errorf("%d commits are in the backup, want 3000", n)
	}
}

// noLinks is a file system that cannot link, or a disk with little room.
type noLinks struct {
	*kvtest.Disk
	err  error
	free uint64
}

func (f *noLinks) Link(string, string) error { return f.err }

func (f *noLinks) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: f.free, TotalBytes: 1 << 40}, nil
}

// Tables are copied where they cannot be linked, and a backup does not take the last room of a disk.
func TestBackup_noLinks(t *testing.T) {
	for _, err := range []error{syscall.EPERM, syscall.EXDEV} {
		disk := &noLinks{kvtest.NewDisk(), err, 1 << 30}
		s := openNumbered(t, disk, "store")
		s.opts.MinFreeSpace = 2 << 20
		if err := s.commit(60_000); err != nil { // 6 MB
			t.Fatal(err)
		}
		if err := Backup(t.Context(), s.Store, "copy", BackupOptions{}, unverified); err != nil {
			t.Errorf("links fail with %v: %v", err, err)
		}
		disk.free = 3<<20 + 4<<20 - 1
		if err := Backup(t.Context(), s.Store, "full", BackupOptions{}, unverified); !errors.Is(err, ErrUnfinishedBackup) ||
			!strings.Contains(err.Error(), "7340031 bytes are free") {
			t.Errorf("backup to a full disk: %v", err)
		}
		wantNoBackup(t, disk, "full")
		disk.free++
		if err := Backup(t.Context(), s.Store, "room", BackupOptions{}, unverified); err != nil {
			t.Error(err)
		}
		if n := length(t, disk, "copy"); n != 60_000 {
			t.Errorf("%d commits are in the backup, want 60000", n)
		}
		s.close()
	}
}

// A backup inside the store's own directory is refused.
func TestBackup_inside(t *testing.T) {
	mem := kvtest.NewDisk()
	s := openNumbered(t, mem, "store")
	defer s.close()
	for _, dir := range []string{"store", "store/", "store/archive", "store/deep/er", "store/../store/x"} {
		if err := Backup(t.Context(), s.Store, dir, BackupOptions{}, unverified); !errors.Is(err, ErrUnfinishedBackup) || !strings.Contains(err.Error(), "inside") {
			t.Errorf("%s: %v", dir, err)
		}
	}
	if err := Backup(t.Context(), s.Store, "store2", BackupOptions{}, unverified); err != nil {
		t.Error(err)
	}
}

// What a backup leaves that is killed while it is verified is refused by name, also by a salvage. The process that makes
// it can open it.
func TestBackup_unfinished(t *testing.T) {
	mem := vfs.NewMem()
	s := openNumbered(t, mem, "store")
	defer s.close()
	if err := s.commit(10); err != nil {
		t.Fatal(err)
	}
	killed := vfs.NewMem()
	err := Backup(t.Context(), s.Store, "copy", BackupOptions{}, func(dir string) error {
		if ok, err := vfs.Clone(mem, killed, dir, "killed"); !ok || err != nil {
			t.Fatal(ok, err)
		}
		length(t, mem, dir)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := length(t, mem, "copy"); n != 10 {
		t.Errorf("%d commits", n)
	}
	for _, readOnly := range []bool{false, true} {
		_, err := Open("killed", Options{FS: killed, ReadOnly: readOnly, MemTableSize: 256 << 10, Logger: slog.New(slog.DiscardHandler), Failed: func(error) {}})
		if !errors.Is(err, ErrUnfinished) {
			t.Errorf("read-only %t: %v", readOnly, err)
		}
	}
	if _, err := Examine(Options{FS: killed}, "killed", func(vfs.FS, string) error { return nil }); !errors.Is(err, ErrUnfinished) {
		t.Error(err)
	}
}

// An open for writing removes what archives that were killed have left.
func TestArchive_killed(t *testing.T) {
	mem := vfs.NewMem()
	openNumbered(t, mem, "store").close()
	for _, name := range []string{"archive.partial-0123abcd", "archive.partial-mine"} {
		if err := mem.MkdirAll("store/"+name, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if names, err := LeftArchives(mem, "store"); err != nil || len(names) != 1 {
		t.Error(names, err)
	}
	openNumbered(t, mem, "store").close()
	_, err := mem.Stat("store/archive.partial-0123abcd")
	_, other := mem.Stat("store/archive.partial-mine")
	if !errors.Is(err, fs.ErrNotExist) || other != nil {
		t.Error(err, other)
	}
}

// A backup asks the disk for room before it writes anything.
func TestBackup_roomAtOnce(t *testing.T) {
	mem := vfs.NewMem()
	s := openNumbered(t, &noRoom{mem}, "store")
	defer s.close()
	err := Backup(t.Context(), s.Store, "copy", BackupOptions{}, unverified)
	if err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Error(err)
	}
	wantNoBackup(t, mem, "copy")
}

// noRoom is a disk that is full.
type noRoom struct{ vfs.FS }

func (noRoom) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{TotalBytes: 1 << 40}, nil
}
