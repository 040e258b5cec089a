package kv_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/txn"
)

// roomFS has as much free space as it says.
type roomFS struct {
	vfs.FS
	free, total atomic.Uint64
}

func (f *roomFS) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: f.free.Load(), TotalBytes: f.total.Load()}, nil
}

// The error of a full disk says how much is free, when writes stop, and when they go on; and what helps if the file system
// is too small for them.
func TestSpace_text(t *testing.T) {
	const low = 1 << 20
	const small = "; the whole file system has 1572864: with a smaller Options.MemTableSize and BallastSize, or MinFreeSpace, that can be enough"
	for _, c := range []struct {
		ballast int64
		total   uint64
		enough  int
		help    string
	}{
		{-1, 1 << 40, low * 3 / 2, ""},
		{64 << 10, 1 << 40, low*3/2 + 64<<10, ""}, // room for the ballast, which is not there yet
		{-1, low * 3 / 2, low * 3 / 2, small},
	} {
		fs := &roomFS{FS: vfs.NewMem()}
		fs.total.Store(c.total)
		fs.free.Store(low - 1)
		db, err := kv.Open("store", &kv.Options{FS: fs, BallastSize: c.ballast, MinFreeSpace: low, MemTableSize: 1 << 20, FreeSpaceInterval: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		full := func() string {
			_, err := db.Set(kv.NoSync, []byte("k"), []byte("v"), kv.SetOptions{})
			if health := db.Health(); !errors.Is(err, kv.ErrNoSpace) || !errors.Is(health, kv.ErrNoSpace) {
				t.Fatalf("%v, %v", err, health)
			}
			return err.Error()
		}
		text := func(free, enough int, until string) string {
			return fmt.Sprintf("kv: disk is full, writes are refused: %d bytes are free in store; writes stop below %d (Options.MinFreeSpace) and go on above %d, %s%s",
				free, low, enough, until, c.help)
		}
		const deletions = "only deletions are accepted until then"
		if got, want := full(), text(low-1, c.enough, deletions); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
		if about := db.About(); !about.DiskFull || about.DiskTooSmall != (c.help != "") {
			t.Errorf("full: %v, too small: %v", about.DiskFull, about.DiskTooSmall)
		}
		fs.free.Store(low + 1)
		for want := text(low+1, c.enough, deletions); full() != want; { // writes are still refused, and the text says why
			time.Sleep(time.Millisecond)
		}
		fs.free.Store(1)
		for want := text(1, c.enough, "the reserve is used up, so deletions are refused, too"); full() != want; {
			time.Sleep(time.Millisecond)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// On a full disk a store takes what removes keys, and answers what changes nothing. It
// refuses all else, also beside a removal, and everything when there is no reserve left.
func TestSpace_full(t *testing.T) {
	const low = 1 << 20
	fs := &roomFS{FS: vfs.NewMem()}
	fs.total.Store(1 << 40)
	d := &damageTest{t: t}
	open := func(free uint64) {
		t.Helper()
		if d.db != nil {
			if err := d.db.Close(); err != nil {
				t.Fatal(err)
			}
		}
		fs.free.Store(free)
		var err error
		d.db, err = kv.Open("store", eitherWay(&kv.Options{
			FS: fs, Durability: kv.NoSync, BallastSize: -1, MinFreeSpace: low, MemTableSize: 1 << 20,
			Modules: coreext.With(bloomext.Module(), cuckooext.Module(), txn.Module()),
		}))
		if err != nil {
			t.Fatal(err)
		}
		d.user = module.NewSession(d.db)
	}
	open(1 << 40)
	d.run(`MSET a v b v c v d v e v f v => "OK"
		BF.RESERVE bloom 0.01 100 GROWTHLOG 0 => "OK"
		BF.ADD bloom x => true
		BF.ADD other x => true
		CF.ADD cuckoo x => true`)
	open(low - 1)
	d.run(`SET a w => {"error":"MISCONF ...
		SET new v => {"error":"MISCONF ...
		BF.ADD bloom y => {"error":"MISCONF ...
		BF.ADD new y => {"error":"MISCONF ...
		BF.RESERVE new 0.01 100 => {"error":"MISCONF ...
		CF.ADD cuckoo y => {"error":"MISCONF ...
		CF.DEL cuckoo x => {"error":"MISCONF ...
		RENAME a new => {"error":"MISCONF ...
		COPY bloom new => {"error":"MISCONF ...
		EXPIRE a 100 => {"error":"MISCONF ...
		MULTI => "OK"
		DEL a => "QUEUED"
		SET b w => "QUEUED"
		EXEC => {"error":"MISCONF ...
		MULTI => "OK"
		DEL bloom => "QUEUED"
		BF.ADD other z => "QUEUED"
		EXEC => {"error":"MISCONF ...
		MULTI => "OK"
		COPY bloom new => "QUEUED"
		DEL bloom => "QUEUED"
		EXEC => {"error":"MISCONF ...
		MULTI => "OK"
		RENAME a new => "QUEUED"
		EXEC => {"error":"MISCONF ...`)
	d.run(`SET a w NX => null
		SETNX a w => 0
		BF.ADD bloom x => false
		CF.ADDNX cuckoo x => false
		DEL missing => 0
		DEL a => 1
		UNLINK b missing => 1
		GETDEL c => "v"
		EXPIRE d -1 => 1
		DEL bloom => 1
		MULTI => "OK"
		EXISTS e => "QUEUED"
		DEL e cuckoo => "QUEUED"
		EXISTS e => "QUEUED"
		EXEC => [1,2,0]
		EXISTS a b c d e f bloom cuckoo other => 2`)
	open(low/4 - 1)
	d.run(`DEL f => {"error":"MISCONF ...
		FLUSHALL => {"error":"MISCONF ...
		GET f => "v"
		MULTI => "OK"
		GET f => "QUEUED"
		EXEC => ["v"]
		WATCH f => "OK"
		MULTI => "OK"
		GET f => "QUEUED"
		EXEC => ["v"]`)
	open(low - 1)
	d.run(`FLUSHALL => "OK"
		DBSIZE => 0`)
	open(1 << 40)
	d.run(`SET a v => "OK"`)
	for _, problem := range d.problems() {
		t.Error(problem)
	}
	if err := d.db.Close(); err != nil {
		t.Error(err)
	}
}
