package tests_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/internal/kvtest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/portable"
	"github.com/sievekv/sievekv/tests/crash"
	"github.com/sievekv/sievekv/tests/faultfs"
)

// An import writes blocks ahead of its commit. A crash at any of its calls, or between two pieces of the file, leaves no
// key or the whole filter, a store that checks, and nothing of an import that was not committed once dropped objects
// have been reclaimed.
func TestCrash_import(t *testing.T) {
	t.Parallel()
	const n = 20_000
	from := open(t, storeDir, tinyOptions(vfs.NewMem()))
	f := bloomext.New(from, "k").With(kv.NoSync)
	must(t, f.Reserve(bloomext.Config{Capacity: 2_000_000, ErrorRate: rate}))
	_, err := f.AddMany(ownItems("k", n), nil)
	must(t, err)
	var file bytes.Buffer
	must(t, portable.Export(t.Context(), from, []byte("k"), &file))

	disk := kvtest.NewDisk()
	must(t, faultfs.MakeDir(disk))
	var mu sync.Mutex
	var shots []*kvtest.Disk // guarded by mu
	taking := false          // guarded by mu
	rng := rand.New(rand.NewPCG(rand.Uint64(), 0))
	take := func() {
		mu.Lock()
		defer mu.Unlock()
		if taking {
			shots = append(shots, disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng}))
		}
	}
	opts := tinyOptions(&faultfs.FS{FS: disk, Before: func(faultfs.Site, string) error {
		take()
		return nil
	}})
	opts.MemTableSize = 512 << 10
	db := open(t, storeDir, opts)
	fillFor(t, db, "other", 100)
	must(t, db.Sync())
	size := mustDisk(t, db)
	begin := func() {
		mu.Lock()
		defer mu.Unlock()
		taking = true
	}
	r := &secondReading{Reader: bytes.NewReader(file.Bytes()), begin: begin, each: take}
	must(t, portable.Import(t.Context(), db, kv.Always, []byte("k"), r, portable.ImportOptions{}))
	mu.Lock()
	taking = false
	shots = append(shots, disk.CrashClone(vfs.CrashCloneCfg{})) // acknowledged: must be whole
	mu.Unlock()
	must(t, errors.Join(reclaimAll(db), checkStore(db)))

	before, after := 0, 0
	for i, shot := range shots {
		if i%4 > 0 && i < len(shots)-1 {
			continue // to save time
		}
		db := open(t, storeDir, tinyOptions(shot))
		must(t, checkStore(db))
		there, err := db.Exists([]byte("k"))
		must(t, err)
		must(t, errors.Join(reclaimAll(db), checkStore(db)))
		switch {
		case there == 1:
			after++
			if own, err := holds(db, "k", ownItems("k", n)); own != n || err != nil {
				t.Errorf("shot %d of %d: the filter has %d items, want %d; %v", i, len(shots), own, n, err)
			}
		case i == len(shots)-1:
			t.Errorf("the import was acknowledged, but a crash has lost it")
		default:
			before++
			report, err := db.Check(t.Context())
			must(t, err)
			if left := mustDisk(t, db); left > size+size/4+64<<10 || report.Keys != 1 {
				t.Errorf("shot %d of %d: %d bytes on disk, %d before the import, and %d keys", i, len(shots), left, size, report.Keys)
			}
		}
		must(t, errors.Join(crash.WriteAndForget(db), db.Close()))
	}
	t.Logf("%d crashes, %d bytes of file: %d before the import, %d after", len(shots), file.Len(), before, after)
	if before < 3 {
		t.Errorf("%d crashes during the import, want more", before)
	}
}

// secondReading calls begin when a file is read for the second time, and each before every piece from then on.
type secondReading struct {
	*bytes.Reader
	begin, each func()
	again       bool
}

func (s *secondReading) Seek(offset int64, whence int) (int64, error) {
	if whence == io.SeekStart {
		s.again = true
		s.begin()
	}
	return s.Reader.Seek(offset, whence)
}

func (s *secondReading) Read(b []byte) (int, error) {
	if s.again {
		s.each()
	}
	return s.Reader.Read(b)
}
