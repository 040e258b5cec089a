package kv_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/kvtest"
	"github.com/sievekv/sievekv/kv"
)

// readsFS counts the reads of tables that have the byte in which a bit was flipped.
type readsFS struct {
	vfs.FS
	flipped int64
	reads   atomic.Int64
}

func (f *readsFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	file, err := f.FS.Open(name, opts...)
	if err != nil || !strings.HasSuffix(name, ".sst") {
		return file, err
	}
	return &readsFile{file, f}, nil
}

type readsFile struct {
	vfs.File
	fs *readsFS
}

func (f *readsFile) ReadAt(p []byte, at int64) (int, error) {
	if at <= f.fs.flipped && f.fs.flipped < at+int64(len(p)) {
		f.fs.reads.Add(1)
	}
	return f.File.ReadAt(p, at)
}

// badBlock is a store with a table in which a bit was flipped.
type badBlock struct {
	t    *testing.T
	fs   *readsFS
	log  bytes.Buffer
	db   *kv.DB
	keys [][]byte // all, of strings
	bad  [][]byte // in the damaged block
}

func openBadBlock(t *testing.T) *badBlock {
	t.Helper()
	b := &badBlock{t: t, fs: &readsFS{FS: kvtest.NewDisk()}}
	b.open()
	for i := range 500 {
		b.keys = append(b.keys, fmt.Appendf(nil, "key %d", i))
		_, err := b.db.Set(kv.NoSync, b.keys[i], bytes.Repeat([]byte{'v'}, 500), kv.SetOptions{})
		b.must(err)
	}
	b.must(b.db.CompactTables(t.Context()))
	b.must(b.db.Close())
	b.damageTable(func(table []byte) int { return len(table) / 2 })
	b.open()
	t.Cleanup(func() { b.must(b.db.Close()) })
	b.fs.reads.Store(0)
	return b
}

// damageTable flips a bit in a byte of the tables.
func (b *badBlock) damageTable(at func(table []byte) int) {
	b.t.Helper()
	names, err := b.fs.List("store")
	b.must(err)
	for _, name := range names {
		if strings.HasSuffix(name, ".sst") {
			b.change("store/"+name, func(table []byte) {
				i := at(table)
				b.fs.flipped = int64(i)
				table[i] ^= 1
			})
		}
	}
}

// change changes a file.
func (b *badBlock) change(name string, change func(data []byte)) {
	b.t.Helper()
	f, err := b.fs.FS.Open(name)
	b.must(err)
	data, err := io.ReadAll(f)
	b.must(errors.Join(err, f.Close()))
	change(data)
	f, err = b.fs.FS.Create(name, vfs.WriteCategoryUnspecified)
	b.must(err)
	_, err = f.Write(data)
	b.must(errors.Join(err, f.Sync(), f.Close()))
}

func (b *badBlock) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *badBlock) open() {
	b.t.Helper()
	var err error
	b.log.Reset()
	b.db, err = kv.Open("store", &kv.Options{FS: b.fs, BallastSize: -1, StringCacheSize: -1, Logger: slog.New(slog.NewTextHandler(&b.log, nil))})
	b.must(err)
}

// find reads every key, and notes those that cannot be read.
func (b *badBlock) find() {
	b.t.Helper()
	b.bad = nil
	for _, key := range b.keys {
		switch value, err := b.db.Get(key); {
		case errors.Is(err, kv.ErrCorrupt):
			b.bad = append(b.bad, key)
		case err != nil || len(value) != 500:
			b.t.Fatalf("%q: %d bytes, %v", key, len(value), err)
		}
	}
	if n := len(b.bad); n < 2 || n > len(b.keys)/2 {
		b.t.Fatalf("%d keys of %d cannot be read", n, len(b.keys))
	}
}

// good returns a key that can be read.
func (b *badBlock) good() []byte {
	for _, key := range b.keys {
		if !slices.ContainsFunc(b.bad, func(bad []byte) bool { return bytes.Equal(bad, key) }) {
			return key
		}
	}
	return nil
}

func (b *badBlock) damage() (blocks int, reads uint64) {
	b.t.Helper()
	m, err := b.db.Metrics()
	b.must(err)
	if m.DamagedBlocks != b.db.DamagedBlocks() {
		b.t.Errorf("%d blocks, %d in the metrics", b.db.DamagedBlocks(), m.DamagedBlocks)
	}
	return m.DamagedBlocks, m.DamagedReads
}

// A damaged block is read once, whoever asks and however often, and logged once. Reads of it fail all the same, and are
// counted. A store that is opened again looks again.
func TestBadBlock(t *testing.T) {
	b := openBadBlock(t)
	for range 2 {
		b.fs.reads.Store(0)
		if blocks, reads := b.damage(); blocks != 0 || reads != 0 {
			t.Errorf("%d damaged blocks, %d reads before any", blocks, reads)
		}
		b.find()
		for _, key := range b.bad {
			for range 10 {
				if _, err := b.db.Get(key); !errors.Is(err, kv.ErrCorrupt) {
					t.Fatalf("%q: %v", key, err)
				}
			}
			err := b.db.View(t.Context(), func(tx *kv.Transaction) error {
				return tx.Read(func(r kv.Reader) error { _, err := r.Get(key); return err })
			})
			if !errors.Is(err, kv.ErrCorrupt) {
				t.Fatalf("%q in a snapshot: %v", key, err)
			}
		}
		for range 3 {
			err := b.db.Read(func(r kv.Reader) error {
				_, _, err := r.ScanFrom(context.Background(), 0, 1000, kv.ScanOptions{})
				return err
			})
			if !errors.Is(err, kv.ErrCorrupt) {
				t.Errorf("a scan: %v", err)
			}
		}
		if n := b.fs.reads.Load(); n != 1 {
			t.Errorf("the block was read %d times", n)
		}
		if blocks, reads := b.damage(); blocks != 1 || reads < uint64(12*len(b.bad)) {
			t.Errorf("%d damaged blocks, %d reads of it failed, want at least %d", blocks, reads, 12*len(b.bad))
		}
		if n := strings.Count(b.log.String(), "corrupt table"); n != 1 {
			t.Errorf("logged %d times:\n%s", n, &b.log)
		}
		b.must(b.db.Close())
		b.open()
	}
}

// A compaction that comes upon a block that is known to be damaged does not read it.
func TestBadBlock_compaction(t *testing.T) {
	b := openBadBlock(t)
	b.find()
	_, err := b.db.Set(kv.Always, b.good(), bytes.Repeat([]byte{'w'}, 500), kv.SetOptions{})
	b.must(err)
	if err := b.db.CompactTables(t.Context()); !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("a compaction: %v", err)
	}
	if n := b.fs.reads.Load(); n != 1 {
		t.Errorf("the block was read %d times", n)
	}
}

// What is written behind the damage is found, and what is removed is missing. What the damaged block has is never taken for
// missing.
func TestBadBlock_replaced(t *testing.T) {
	b := openBadBlock(t)
	b.find()
	b.must(b.db.DeleteAll(kv.Always))
	for i, key := range b.keys {
		if _, err := b.db.Get(key); !errors.Is(err, kv.ErrNotFound) {
			t.Fatalf("%q, which was removed: %v", key, err)
		}
		_, err := b.db.Set(kv.NoSync, key, fmt.Append(nil, i), kv.SetOptions{})
		b.must(err)
	}
	for i, key := range b.keys {
		if value, err := b.db.Get(key); err != nil || string(value) != fmt.Sprint(i) {
			t.Fatalf("%q, which was set anew: %q, %v", key, value, err)
		}
	}
	if blocks, _ := b.damage(); blocks != 1 {
		t.Errorf("%d damaged blocks are still there, want 1", blocks)
	}
}
