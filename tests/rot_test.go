package tests_test

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/internal/kvtest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/tests/faultfs"
)

var rotFlips = flag.Int("flips", 240, "how many bits TestRot flips, one at a time")

// rotten is a store whose bits are flipped, one at a time, and what was acknowledged in it.
type rotten struct {
	disk    *kvtest.Disk
	strings map[string]string
	deleted []string // keys
	items   [][]byte // of each filter
}

// clone returns what was acknowledged up to now, on a disk that is as it is now.
func (r *rotten) clone(disk *kvtest.Disk) *rotten {
	return &rotten{disk, maps.Clone(r.strings), slices.Clone(r.deleted), slices.Clone(r.items)}
}

func rotOptions(fs vfs.FS) *kv.Options {
	opts := tinyOptions(fs)
	opts.Seed = 1
	opts.Modules = coreext.With(bloomext.Module(), countingext.Module(), cuckooext.Module())
	return opts
}

// write makes n commits of every kind, all acknowledged, with names of their own.
func (r *rotten) write(t *testing.T, db *kv.DB, name string, n int) {
	t.Helper()
	rng := rand.NewChaCha8([32]byte{byte(len(r.strings)), byte(len(r.strings) >> 8)})
	bloom, cuckoo, counting := bloomext.New(db, "bloom"), cuckooext.New(db, "cuckoo"), countingext.New(db, "counting")
	for i := range n {
		key, value := fmt.Sprint(name, " ", len(r.strings), " ", i), make([]byte, 3000)
		rng.Read(value)
		_, err := db.Set(kv.Always, []byte(key), value, kv.SetOptions{})
		must(t, err)
		r.strings[key] = string(value)
		if i%5 == 0 {
			item := []byte(key)
			_, err1 := bloom.Add(item)
			_, err2 := counting.Add(item)
			_, err3 := cuckoo.Add(item)
			_, err4 := bitmapOfItems{db, []byte("bitmap")}.Add(item)
			must(t, errors.Join(err1, err2, err3, err4))
			r.items = append(r.items, item)
		}
		if i%7 == 0 {
			_, err := db.Delete(kv.Always, []byte(key))
			must(t, err)
			delete(r.strings, key)
			r.deleted = append(r.deleted, key)
		}
	}
}

// verify returns what is missing in the store on a disk, or noticed if the store says that it is damaged.
func (r *rotten) verify(disk vfs.FS) (noticed, missing error) {
	db, err := kv.Open(storeDir, rotOptions(disk))
	if err != nil {
		return err, nil
	}
	defer func() { missing = errors.Join(missing, db.Close()) }()
	for key, want := range r.strings {
		got, err := db.Get([]byte(key))
		switch {
		case errors.Is(err, kv.ErrCorrupt):
			return err, nil
		case err != nil || string(got) != want:
			return nil, fmt.Errorf("key %q is lost: %w", key, err)
		}
	}
	for _, key := range r.deleted {
		n, err := db.Exists([]byte(key))
		switch {
		case errors.Is(err, kv.ErrCorrupt):
			return err, nil
		case err != nil || n != 0:
			return nil, fmt.Errorf("key %q is back: %w", key, err)
		}
	}
	size, err := db.Size()
	if want := uint64(len(r.strings) + 4); err != nil || size != want {
		return nil, fmt.Errorf("%d keys, want %d, %w", size, want, err)
	}
	for name, f := range map[string]interface {
		MayContainMany([][]byte, []bool) error
	}{
		"bloom": bloomext.New(db, "bloom"), "cuckoo": cuckooext.New(db, "cuckoo"), "counting": countingext.New(db, "counting"),
		"bitmap": bitmapOfItems{db, []byte("bitmap")},
	} {
		present := make([]bool, len(r.items))
		err := f.MayContainMany(r.items, present)
		switch {
		case errors.Is(err, kv.ErrCorrupt):
			return err, nil
		case err != nil:
			return nil, err
		}
		if i := slices.Index(present, false); i >= 0 {
			return nil, fmt.Errorf("%s has lost item %q", name, r.items[i])
		}
	}
	report, err := db.Check(context.Background())
	return errors.Join(err, errors.Join(report.Problems...)), nil
}

// rottenStores returns a store that was closed, one whose process was killed, and one whose machine was. All had
// written and merged tables, and when the latter two ended, tables were waiting to be written. The last record of their
// MANIFEST is about a table whose log has been used again.
func rottenStores(t *testing.T) map[string]*rotten {
	t.Helper()
	disk := kvtest.NewDisk()
	must(t, faultfs.MakeDir(disk))
	var tables sync.Mutex // taken while none may be made
	var flushes, logs, reused atomic.Int64
	fs := &faultfs.FS{FS: disk, Before: func(s faultfs.Site, _ string) error {
		switch s {
		case faultfs.Site{Op: "create", Class: "sst"}:
			tables.Lock()
			defer tables.Unlock()
		case faultfs.Site{Op: "sync", Class: "MANIFEST"}:
			flushes.Add(1)
		case faultfs.Site{Op: "create", Class: "log"}:
			logs.Add(1)
		case faultfs.Site{Op: "reuse", Class: "log"}:
			logs.Add(1)
			reused.Add(1)
		}
		return nil
	}}
	r := &rotten{disk: disk, strings: make(map[string]string)}
	db := open(t, storeDir, rotOptions(fs))
	must(t, bloomext.New(db, "bloom").Reserve(bloomext.Config{Capacity: 30000, ErrorRate: 0.01}))
	must(t, cuckooext.New(db, "cuckoo").Reserve(cuckooext.Config{Capacity: 10000}))
	must(t, countingext.New(db, "counting").Reserve(countingext.Config{Capacity: 10000, ErrorRate: 0.01}))
	r.write(t, db, "merged", 60)
	must(t, db.CompactTables(context.Background()))
	for before := flushes.Load(); flushes.Load() == before; {
		r.write(t, db, "in a table", 10)
	}
	for before := reused.Load(); ; tables.Unlock() {
		// While no table may be made there is room for one more memtable, so none may be waiting to be written now.
		for memtables(t, db) > 1 {
			time.Sleep(time.Millisecond)
		}
		tables.Lock()
		for n := logs.Load(); logs.Load() == n; {
			r.write(t, db, "in the log", 10)
		}
		if reused.Load() > before {
			break
		}
	}
	r.write(t, db, "at the end of the log", 20)
	stores := map[string]*rotten{
		"killed":  r.clone(copyOf(disk)),
		"crashed": r.clone(disk.CrashClone(vfs.CrashCloneCfg{})),
	}
	tables.Unlock()
	r.write(t, db, "before the end", 20)
	must(t, db.Close())
	stores["closed"] = r
	return stores
}

// memtables returns how many memtables a store has.
func memtables(t *testing.T, db *kv.DB) uint64 {
	t.Helper()
	m, err := db.Metrics()
	must(t, err)
	return m.MemTableBytes / uint64(tinyOptions(nil).MemTableSize)
}

// TestRot flips one bit of a store that was closed, or was not, and opens it: either the damage is noticed, or nothing is
// missing. What a log loses behind a flipped bit looks like the end of a torn write, save where a later chunk says that
// it was synced: only there damage must be noticed.
func TestRot(t *testing.T) {
	shares := func(name string) int {
		switch faultfs.ClassOf(path.Join(storeDir, name)) {
		case "MANIFEST":
			return 4
		case "log":
			return 3
		case "sst":
			return 2
		}
		return 1
	}
	stores := rottenStores(t)
	for state, r := range stores {
		if noticed, missing := r.verify(copyOf(r.disk)); noticed != nil || missing != nil {
			t.Fatalf("%s, nothing flipped: %v, %v", state, noticed, missing)
		}
		found := files(t, r.disk, storeDir)
		maps.DeleteFunc(found, func(_, data string) bool { return data == "" })
		all := 0
		for name := range found {
			all += shares(name)
		}
		for name, data := range found {
			t.Run(state+" "+name, func(t *testing.T) {
				t.Parallel()
				r.rot(t, name, data, (*rotFlips*shares(name)+len(stores)*all-1)/(len(stores)*all))
			})
		}
	}
}

// TestRotManifest flips bits of the last record of the MANIFEST: it is of a table, which nothing else tells of.
func TestRotManifest(t *testing.T) {
	r := rottenStores(t)["killed"]
	name := newest(t, r.disk, storeDir, "MANIFEST-", "")
	data := readFile(t, r.disk, name)
	for at := len(data) - 20; at < len(data); at++ {
		b := slices.Clone(data)
		b[at] ^= 1 << (at % 8)
		disk := copyOf(r.disk)
		writeFile(t, disk, name, b)
		wantError(t, refused(t, storeDir, rotOptions(disk)), kv.ErrCorrupt, path.Base(name))
	}
}

// rot flips n bits of a file, one at a time, most of them near its beginning or its end.
func (r *rotten) rot(t *testing.T, name, data string, n int) {
	const near = 100
	rng := rand.New(rand.NewPCG(1, 2))
	noticed := 0
	vouched := vouchedFor(t, name, data)
	for i := range n {
		at := rng.IntN(len(data))
		switch i % 3 {
		case 0:
			at %= near
		case 1:
			at = len(data) - 1 - at%near
		}
		bit := rng.IntN(8)
		b := []byte(data)
		b[at] ^= 1 << bit
		disk := copyOf(r.disk)
		writeFile(t, disk, path.Join(storeDir, name), b)
		told, missing := r.verify(disk)
		if missing != nil && (path.Ext(name) != ".log" || vouched[at]) {
			t.Errorf("bit %d of byte %d of %d: %v", bit, at, len(data), missing)
		}
		if told != nil {
			noticed++
		}
	}
	t.Logf("%d bytes, %d of which are vouched for, %d flips, %d noticed", len(data), trues(vouched), n, noticed)
}

// vouchedFor returns of each byte of a log whether a change of it must be noticed: a later chunk says that it was synced.
// What tells where the next chunk begins is left out, and so are chunks with a header in two sectors.
func vouchedFor(t *testing.T, name, data string) []bool {
	t.Helper()
	digits, ok := strings.CutSuffix(name, ".log")
	if !ok {
		return nil
	}
	const block, sector, headLen = 32 << 10, 512, 19 // see package record of Pebble
	number, err := strconv.ParseUint(digits, 10, 32)
	must(t, err)
	var chunks [][2]int // from, to
	synced := 0
	for at := 0; at+headLen <= len(data); {
		if block-at%block < headLen {
			at += block - at%block
			continue
		}
		head := []byte(data[at : at+headLen])
		if uint64(binary.LittleEndian.Uint32(head[7:])) != number {
			break // the end, behind which an older log may go on
		}
		end := at + headLen + int(binary.LittleEndian.Uint16(head[4:]))
		chunks = append(chunks, [2]int{at, end})
		synced = int(binary.LittleEndian.Uint64(head[11:])) // the last one says most
		at = end
	}
	list := make([]bool, len(data))
	for i, c := range chunks {
		at, last := c[0], chunks[len(chunks)-1][0]
		ahead := at/block < last/block // the last is found from the beginning of its block
		if i == len(chunks)-1 || at >= synced || !ahead && at%sector > sector-headLen {
			continue
		}
		for b := at; b < c[1]; b++ {
			list[b] = ahead || b < at+4 || b >= at+11 // its checksum, how far the log was synced, and the record
		}
	}
	return list
}

// trues returns how many of a list are true.
func trues(list []bool) (n int) {
	for _, b := range list {
		if b {
			n++
		}
	}
	return n
}
