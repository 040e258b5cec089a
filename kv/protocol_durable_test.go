package kv_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/internal/kvtest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// logFS is a file system on which syncs of the log can be held, at "log: sync"
// before they do anything and at "log: synced" before they return.
type logFS struct {
	vfs.FS
	held *stops
}

func (fs logFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.Create(name, category)
	return fs.wrap(name, f), err
}

func (fs logFS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.ReuseForWrite(oldname, newname, category)
	return fs.wrap(newname, f), err
}

func (fs logFS) wrap(name string, f vfs.File) vfs.File {
	if f == nil || !strings.HasSuffix(name, ".log") {
		return f
	}
	return logFile{f, fs.held}
}

type logFile struct {
	vfs.File
	held *stops
}

func (f logFile) Sync() error     { return f.sync(f.File.Sync) }
func (f logFile) SyncData() error { return f.sync(f.File.SyncData) }

func (f logFile) sync(sync func() error) error {
	f.held.at("log: sync")
	err := sync()
	f.held.at("log: synced")
	return err
}

// crashStore is a store whose machine can crash.
type crashStore struct {
	*store
	mem *kvtest.Disk
}

func openCrashStore(t *testing.T) *crashStore {
	t.Helper()
	held, mem := newStops(), kvtest.NewDisk()
	return &crashStore{openStoreWith(t, &kv.Options{FS: logFS{mem, held}}, held), mem}
}

// crash returns the store as a crash at this moment leaves it: with nothing that was not synced.
func (s *crashStore) crash() *store {
	s.t.Helper()
	return openStore(s.t, &kv.Options{FS: s.mem.CrashClone(vfs.CrashCloneCfg{})})
}

// repeated are writes that change nothing when done a second time. Done reports
// whether the first time's outcome is there.
var repeated = map[string]struct {
	key   string
	write func(s *store) error
	done  func(s *store) (bool, error)
}{
	"BF add": {
		"f",
		func(s *store) error {
			// A handle that knows the filter answers from memory.
			f := bloomext.New(s.DB, "f")
			if _, err := f.MayContain([]byte("x")); err != nil {
				return err
			}
			_, err := f.Add([]byte("x"))
			return err
		},
		func(s *store) (bool, error) { return bloomext.New(s.DB, "f").MayContain([]byte("x")) },
	},
	"BF batch": {
		"f",
		func(s *store) error {
			_, err := bloomext.New(s.DB, "f").AddMany(scalableext.BytesOfAll([]string{"x", "y"}), make([]bool, 2))
			return err
		},
		func(s *store) (bool, error) { return bloomext.New(s.DB, "f").MayContain([]byte("y")) },
	},
	"BF reserve": {
		"g",
		func(s *store) error {
			err := bloomext.New(s.DB, "g").Reserve(handleConfig)
			return passOver(err, kv.ErrExists)
		},
		func(s *store) (bool, error) {
			n, err := s.Exists([]byte("g"))
			return n == 1, err
		},
	},
	"RENAME": {
		"k",
		func(s *store) error {
			return passOver(s.Rename(kv.Always, []byte("k"), []byte("l")), kv.ErrNotFound)
		},
		func(s *store) (bool, error) {
			n, err := s.Exists([]byte("l"))
			return n == 1, err
		},
	},
	"DEL": {
		"k",
		func(s *store) error {
			_, err := s.Delete(kv.Always, []byte("k"))
			return err
		},
		func(s *store) (bool, error) {
			n, err := s.Exists([]byte("k"))
			return n == 0, err
		},
	},
}

// passOver returns err, or nil if it is the error expected.
func passOver(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}

// The answer to a write that finds its work done already is given only when the
// commit that did it is on stable storage.
func TestAcknowledge_firstNotSynced(t *testing.T) {
	for name, r := range repeated {
		t.Run(name, func(t *testing.T) {
			s := openCrashStore(t)
			s.makeFilter("f", []string{"before"})
			s.create("k")
			s.must(s.Sync())
			first := s.beginUnsynced(r.key, func() error { return r.write(s.store) })
			s.wantAcknowledged(func() error { return r.write(s.store) }, r.done)
			first.wait()
		})
	}
}

// So it is when the filter was closed, and opened again, in between.
func TestAcknowledge_openedAgain(t *testing.T) {
	s := openCrashStore(t)
	s.makeFilter("f", []string{"before"})
	s.must(s.Sync())
	add := repeated["BF add"]
	first := s.beginUnsynced("f", func() error { return add.write(s.store) })
	s.closeObject("f")
	if present, err := add.done(s.store); !present || err != nil { // brings the block into memory
		t.Fatalf("an added item is present: %t, %v", present, err)
	}
	s.wantAcknowledged(func() error { return add.write(s.store) }, add.done)
	first.wait()
}

// So it is when a lookup has read the commit from Pebble before memory has any of it.
func TestAcknowledge_onlyInPebble(t *testing.T) {
	s := openCrashStore(t)
	s.create("k")
	s.must(s.Sync())
	w := s.stage(kv.Always, "k", 1, 5)
	s.EvictBlock(s.layer("k"), 1)
	applied, syncing := s.next("commit: applied"), s.next("log: sync")
	committing := s.begin(w.Commit)
	committing.reaches(applied)
	if !s.has("k", 1, 5) {
		t.Fatal("a bit that Pebble has is not found")
	}
	acknowledging := s.begin(func() error { return s.Acknowledge(s.object("k"), kv.Always) })
	until(func() bool { return acknowledging.ended() || syncing.wasReached() })
	if !acknowledging.ended() {
		syncing.release()
	}
	acknowledging.wait()
	s.wantAfterCrash(func(s *store) (bool, error) { return s.find("k", 1, 5) })
	s.releaseAll()
	committing.wait()
}

// So it is when the filter was not under this key when the item was added to it.
func TestAcknowledge_renamed(t *testing.T) {
	s := openCrashStore(t)
	s.makeFilter("old", []string{"x"})
	s.must(s.Sync())
	first := s.beginUnsynced("f", func() error { return s.Rename(kv.Always, []byte("old"), []byte("f")) })
	add := repeated["BF add"]
	s.wantAcknowledged(func() error { return add.write(s.store) }, add.done)
	first.wait()
}

// beginUnsynced begins a write to a key and returns when it is applied, patched,
// and its sync has reached the disk, where it is held.
func (s *crashStore) beginUnsynced(key string, write func() error) *task {
	s.t.Helper()
	syncing := s.next("log: sync")
	first := s.begin(write)
	first.reaches(syncing)
	until(func() bool { return s.KeyFree(key) })
	return first
}

// wantAcknowledged makes a write and checks that what it reports as done there
// and then is there after a crash. Everything held is released.
func (s *crashStore) wantAcknowledged(write func() error, done func(*store) (bool, error)) {
	s.t.Helper()
	waiting := s.next("durable: waiting")
	writing := s.begin(write)
	until(func() bool { return writing.ended() || waiting.wasReached() })
	if !writing.ended() {
		s.releaseAll()
		writing.wait()
	}
	s.wantAfterCrash(done)
	s.releaseAll()
	writing.wait()
}

func (s *crashStore) wantAfterCrash(done func(*store) (bool, error)) {
	s.t.Helper()
	crashed := s.crash()
	there, err := done(crashed)
	crashed.must(err)
	if !there {
		s.t.Error("a write was acknowledged as done before and is lost in a crash")
	}
	crashed.wantConsistent()
}

// wantDurableOnceAcknowledged acknowledges an object under Always, and checks that a bit of it is there after a crash then.
func (s *crashStore) wantDurableOnceAcknowledged(key string, blk uint64, position uint16) {
	s.t.Helper()
	again := s.next("log: sync")
	acknowledging := s.begin(func() error { return s.Acknowledge(s.object(key), kv.Always) })
	until(func() bool { return acknowledging.ended() || again.wasReached() })
	s.releaseAll()
	acknowledging.wait()
	s.wantAfterCrash(func(s *store) (bool, error) { return s.find(key, blk, position) })
}

// syncs are the ways to sync the log. Each syncs a log that has something new.
var syncs = map[string]func(s *store) error{
	"a commit's own": func(s *store) error {
		_, err := bloomext.New(s.DB, "f").Add([]byte("other"))
		return err
	},
	"shared": func(s *store) error {
		if _, err := bloomext.New(s.DB, "f").With(kv.NoSync).Add([]byte("other")); err != nil {
			return err
		}
		return s.Sync()
	},
}

// What is committed while a sync is under way is not covered by it, not even a commit of a single operation, the one
// right after the sync's.
func TestDurable_committedDuringSync(t *testing.T) {
	setDuringSync(t, "log: synced", openCrashStore, func(*crashStore, string) {})
}

// What becomes pending while a sync flushes what was pending before is not covered by it.
func TestDurable_pendingDuringFlush(t *testing.T) {
	setDuringSync(t, "flush: applied", openGatheredCrash, func(s *crashStore, key string) {
		s.set(key, 1, 6)
		s.wantGathered(1)
	})
}

// setDuringSync sets bit 7 of an object when a sync has come to a point, for each way to sync. The sync does not make
// the bit durable. What comes before the sync is done to the object's key.
func setDuringSync(t *testing.T, point string, open func(*testing.T) *crashStore, before func(s *crashStore, key string)) {
	for name, sync := range syncs {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			s.makeFilter("f", []string{"before"})
			key := string(s.KeyBeside("f", "k")) // a commit to f holds its lock while it waits
			s.create(key)
			s.must(s.Sync())
			before(s, key)

			reached := s.next(point)
			syncing := s.begin(func() error { return sync(s.store) })
			syncing.reaches(reached)
			s.set(key, 1, 7)
			reached.release()
			syncing.wait()
			s.wantDurableOnceAcknowledged(key, 1, 7)
		})
	}
}

// A commit that nobody came between is covered by its own sync: to be told that it was done waits for no other.
func TestDurable_ownSyncCounts(t *testing.T) {
	s := openCrashStore(t)
	s.makeFilter("f", []string{"before"})
	add := repeated["BF add"]
	s.must(add.write(s.store))
	syncs := func() uint64 {
		m, err := s.Metrics()
		s.must(err)
		return m.Syncs
	}
	before := syncs()
	s.must(add.write(s.store))
	if n := syncs() - before; n != 0 {
		t.Errorf("an answer that rests on a commit with a sync of its own waits for %d syncs more", n)
	}
}

// Each of many goroutines that wait for the disk gets what it waits for, whichever syncs.
func TestDurable_manyWaiting(t *testing.T) {
	s := openCrashStore(t)
	s.create("k")
	s.must(s.Sync())

	writers := make([]*task, 20)
	point := "log: sync" // the first asks for a sync of its own
	for i := range writers {
		w := s.stage(kv.Always, "k", 1, uint16(i))
		there := s.next(point)
		writers[i] = s.begin(w.Commit)
		writers[i].reaches(there)
		point = "durable: waiting"
	}
	s.releaseAll()
	for _, w := range writers {
		w.wait()
	}
	s.wantAfterCrash(func(s *store) (bool, error) {
		for i := range writers {
			if set, err := s.find("k", 1, uint16(i)); !set {
				return false, err
			}
		}
		return true, nil
	})
}

// A store that failed says so when it is closed: nobody may have asked it for anything since.
func TestClose_failedUnnoticed(t *testing.T) {
	db, err := kv.Open("", &kv.Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	db.Fail(errors.New("the disk broke"))
	if err := db.Close(); !errors.Is(err, kv.ErrFailed) {
		t.Errorf("Close returned %v, want %v", err, kv.ErrFailed)
	}
}
