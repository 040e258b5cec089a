package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/kvtest"
	"github.com/sievekv/sievekv/internal/storage/image"
)

// openImage opens a store of the identity that the images of these tests have.
func openImage(t *testing.T, disk vfs.FS) *Store {
	t.Helper()
	o := optionsOn(disk, false)
	o.Identity = format.StoreMeta{ID: [16]byte{1, 2, 3}, Seed: 4}
	s, err := Open("store", o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// fill makes records, a large one among them, and blocks with several operands.
func fill(t *testing.T, s *Store, name string, n int) {
	t.Helper()
	for i := range n {
		var b Batch
		b.Set(fmt.Appendf([]byte{format.TagHeader}, "%s %d", name, i), bytes.Repeat([]byte{byte(i)}, i%300))
		b.Merge(format.AppendBlockKey(nil, 7, 0, uint64(i%5)), block.AppendSlotsOperand(nil, block.FamilySlots8, []block.Slot{{Index: uint16(i % 100), Value: uint32(1 + i%200)}}))
		if _, err := s.Commit(&b, Now); err != nil {
			t.Fatal(err)
		}
	}
	var b Batch
	b.Set(fmt.Appendf([]byte{format.TagHeader}, "%s large", name), make([]byte, 300<<10))
	if _, err := s.Commit(&b, Now); err != nil {
		t.Fatal(err)
	}
}

// all returns everything that a store has.
func all(t *testing.T, s *Store) map[string]string {
	t.Helper()
	it, err := s.NewIterWithContext(t.Context(), &IterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]string)
	for ok := it.First(); ok; ok = it.Next() {
		found[string(it.Key())] = string(it.Value())
	}
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		t.Fatal(err)
	}
	return found
}

// imageOf returns the image of a store that has what fill makes, and what that is.
func imageOf(t *testing.T) ([]byte, map[string]string) {
	t.Helper()
	s := openImage(t, kvtest.NewDisk())
	defer closeStore(t, s)
	fill(t, s, "source", 1000)
	snap, _ := s.Snapshot()
	fill(t, s, "later", 10)
	var out bytes.Buffer
	if err := errors.Join(WriteImage(t.Context(), snap, &out), snap.Close()); err != nil {
		t.Fatal(err)
	}
	want := all(t, s)
	maps.DeleteFunc(want, func(key, _ string) bool { return len(key) > 6 && key[1:6] == "later" })
	return out.Bytes(), want
}

func TestImage(t *testing.T) {
	data, want := imageOf(t)
	disk := kvtest.NewDisk()
	s := openImage(t, disk)
	fill(t, s, "target", 100)
	if err := disk.MkdirAll("store/log/incoming", 0o755); err != nil {
		t.Fatal(err)
	}
	tables, err := s.ReceiveImage(t.Context(), "store/log/incoming", bytes.NewReader(data))
	if err != nil || len(tables.Paths) == 0 {
		t.Fatalf("%d tables, %v", len(tables.Paths), err)
	}
	if err := s.Replace(t.Context(), tables); err != nil {
		t.Fatal(err)
	}
	blocks := func(m map[string]string) { // the later ones of the source are merged into them
		maps.DeleteFunc(m, func(key, _ string) bool { return key[0] == format.TagObject })
	}
	for name, open := range map[string]func() *Store{"at once": func() *Store { return s }, "again": func() *Store {
		closeStore(t, s)
		s = openImage(t, disk.CrashClone(vfs.CrashCloneCfg{}))
		return s
	}} {
		got := all(t, open())
		blocks(got)
		blocks(want)
		if !maps.Equal(got, want) {
			t.Errorf("%s: %d keys, want %d", name, len(got), len(want))
		}
	}
	write(t, s, "after")
	closeStore(t, s)
}

// An image of another store is refused: its hashes are others.
func TestImage_other(t *testing.T) {
	data, _ := imageOf(t)
	disk := kvtest.NewDisk()
	s := openOn(t, disk, false)
	defer closeStore(t, s)
	if err := disk.MkdirAll("in", 0o755); err != nil {
		t.Fatal(err)
	}
	tables, err := s.ReceiveImage(t.Context(), "in", bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	before := len(all(t, s))
	if err := s.Replace(t.Context(), tables); !errors.Is(err, format.ErrCorrupt) || len(all(t, s)) != before {
		t.Errorf("an image of another store: %v", err)
	}
}

// A crash at any operation of the disk leaves the old or the new.
func TestImage_crash(t *testing.T) {
	data, _ := imageOf(t)
	rng := rand.New(rand.NewPCG(1, 1))
	for at := 0; ; at++ {
		disk := kvtest.NewDisk()
		var clone *kvtest.Disk
		n := -1
		fsys := errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if n >= 0 && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
				if n == at && clone == nil {
					clone = disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rng})
				}
				n++
			}
			return nil
		}))
		s := openImage(t, fsys)
		fill(t, s, "target", 20)
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
		old := len(all(t, s))
		if err := disk.MkdirAll("store/log/incoming", 0o755); err != nil {
			t.Fatal(err)
		}
		tables, err := s.ReceiveImage(t.Context(), "store/log/incoming", bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		n = 0
		if err := s.Replace(t.Context(), tables); err != nil {
			t.Fatal(err)
		}
		now := len(all(t, s))
		closeStore(t, s)
		if clone == nil {
			if at < 5 {
				t.Fatalf("only %d operations", at)
			}
			return
		}
		s = openImage(t, clone)
		if got := len(all(t, s)); got != old && got != now {
			t.Errorf("operation %d: %d keys, want %d or %d", at, got, old, now)
		}
		closeStore(t, s)
	}
}

// Whatever is cut or changed in an image is found before anything is replaced.
func TestImage_damaged(t *testing.T) {
	data, _ := imageOf(t)
	rng := rand.New(rand.NewPCG(2, 2))
	receive := func(data []byte) error {
		fs := vfs.NewMem()
		if err := fs.MkdirAll("in", 0o755); err != nil {
			t.Fatal(err)
		}
		_, err := image.Receive(t.Context(), fs, "in", bytes.NewReader(data))
		return err
	}
	if err := receive(data); err != nil {
		t.Fatal(err)
	}
	for range 200 {
		if err := receive(data[:rng.IntN(len(data))]); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("cut: %v", err)
		}
		changed := bytes.Clone(data)
		i := rng.IntN(len(changed))
		changed[i] ^= 1 << rng.IntN(8)
		if err := receive(changed); !errors.Is(err, format.ErrCorrupt) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("bit of byte %d changed: %v", i, err)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := image.Receive(ended, vfs.NewMem(), "in", bytes.NewReader(data)); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// A store that has nothing but an image opens again: no log has what the image's tables have as numbers of commits.
func TestImage_alone(t *testing.T) {
	data, _ := imageOf(t)
	disk := kvtest.NewDisk()
	s := openImage(t, disk)
	if err := disk.MkdirAll("store/incoming", 0o755); err != nil {
		t.Fatal(err)
	}
	tables, err := s.ReceiveImage(t.Context(), "store/incoming", bytes.NewReader(data))
	if err == nil {
		err = s.Replace(t.Context(), tables)
	}
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := s.syncLog(); err != nil {
			t.Fatal(err)
		}
		closeStore(t, s)
		s = openImage(t, disk.CrashClone(vfs.CrashCloneCfg{}))
	}
	closeStore(t, s)
}
