package kv_test

import (
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/kv"
)

// build begins to build an object of plain bits with one bit set, which the writer then commits.
func (s *store) build(key string, blk uint64, bit uint16) *kv.Writer {
	s.t.Helper()
	w, err := s.Begin(kv.NoSync, []byte(key))
	s.must(err)
	_, err = w.Build(s.t.Context(), []byte(key), bitsSpec(), func(b *kv.Builder) error {
		words := make([]uint64, block.MaxWords)
		words[bit/64] = 1 << (bit % 64)
		return b.Put(b.Object().Layers()[0], blk, words)
	})
	s.must(err)
	return w
}

// reclaim has everything reclaimed, and reports whether there was something.
func (s *store) reclaim() (some bool) {
	s.t.Helper()
	for {
		found, err := s.Reclaim(s.t.Context())
		s.must(err)
		if !found {
			return some
		}
		some = true
	}
}

// What is being built is not taken for what was given up.
func TestReclaim_building(t *testing.T) {
	s := openStore(t, inMemory())
	w := s.build("k", 1, 7)
	if s.reclaim() {
		t.Error("something was reclaimed while an object is built")
	}
	s.must(w.Commit())
	if s.reclaim() {
		t.Error("something was reclaimed when the object was built")
	}
	if !s.has("k", 1, 7) {
		t.Error("a bit of an object that was built is lost")
	}
	s.wantConsistent()
}

// An object that is committed while its note is looked at stays.
func TestReclaim_builtMeanwhile(t *testing.T) {
	s := openStore(t, inMemory())
	w := s.build("k", 1, 7)
	reading := s.next("reclaim: reading")
	reclaiming := s.begin(func() error {
		_, err := s.Reclaim(t.Context())
		return err
	})
	reclaiming.reaches(reading)
	s.must(w.Commit())
	reading.release()
	reclaiming.wait()
	if !s.has("k", 1, 7) {
		t.Error("a bit of an object that was built is lost")
	}
	s.wantConsistent()
}

// Of what was built and given up nothing is left.
func TestReclaim_givenUp(t *testing.T) {
	s := openStore(t, inMemory())
	w := s.build("k", 1, 7)
	w.Discard()
	if !s.reclaim() {
		t.Error("nothing was reclaimed of an object that was given up")
	}
	if _, _, n := s.MaintenanceStats(); n != 1 {
		t.Errorf("%d objects were reclaimed, want 1", n)
	}
	s.wantConsistent()
}

// gauge is a file system that tells how much space is free.
type gauge struct {
	vfs.FS
	free atomic.Uint64
}

func (g *gauge) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: g.free.Load(), TotalBytes: 1 << 40}, nil
}

// A build ends when the disk is full: it may write more than is left.
func TestBuild_fullDisk(t *testing.T) {
	disk := &gauge{FS: vfs.NewMem()}
	disk.free.Store(1 << 30)
	s := &store{t: t, stops: newStops()}
	o := eitherWay(&kv.Options{FS: disk, BallastSize: -1, MinFreeSpace: 1 << 20, Durability: kv.NoSync, Modules: coreext.With(bitsModule)})
	var err error
	s.DB, err = kv.Open("store", o)
	s.must(err)
	w, err := s.Begin(kv.NoSync, []byte("k"))
	s.must(err)
	_, err = w.Build(t.Context(), []byte("k"), bitsSpec(), func(b *kv.Builder) error {
		words := make([]uint64, block.MaxWords)
		words[0] = 1
		disk.free.Store(0)
		for !errors.Is(s.Health(), kv.ErrNoSpace) {
			time.Sleep(time.Millisecond)
		}
		return b.Put(b.Object().Layers()[0], 1, words)
	})
	if !errors.Is(err, kv.ErrNoSpace) {
		t.Errorf("Build = %v, want %v", err, kv.ErrNoSpace)
	}
	w.Discard()
	s.must(s.Close())
}

// Close does not wait until an object has been built.
func TestBuild_closing(t *testing.T) {
	s := openStore(t, inMemory())
	tx, err := s.NewView(t.Context()) // which Close ends
	s.must(err)
	var closing *task
	err = s.DB.Write(kv.NoSync, [][]byte{[]byte("k")}, func(w *kv.Writer) error {
		_, err := w.Build(t.Context(), []byte("k"), bitsSpec(), func(b *kv.Builder) error {
			closing = s.begin(s.DB.Close)
			for tx.Read(func(kv.Reader) error { return nil }) == nil {
				runtime.Gosched()
			}
			return b.Put(b.Object().Layers()[0], 0, []uint64{1})
		})
		return err
	})
	if !errors.Is(err, kv.ErrClosed) {
		t.Errorf("Build = %v, want ErrClosed", err)
	}
	closing.wait()
}
