package kv_test

import (
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/kv"
)

// A lookup has read one layer of a filter when the filter is closed to save memory. Then a commit moves the item from
// the layer that the lookup has yet to read to the one that it has read. The item was in the filter at every moment.
func TestRead_movedAfterClosing(t *testing.T) {
	o := inMemory()
	o.Modules = coreext.With(countingext.Module())
	s := openStore(t, o)
	f := countingext.New(s.DB, "f")
	s.must(f.Reserve(countingext.Config{Capacity: 4000, ErrorRate: 1e-9}))
	_, err := f.AddMany(numbered(4500), nil)
	s.must(err)
	s.wantLayers("f", 2)
	s.forget("f")

	newest := s.next("load: begun")
	looking := s.begin(func() error { return wantPresent(f.MayContain([]byte("0"))) })
	looking.reaches(newest)
	older := s.next("load: begun")
	newest.release()
	looking.reaches(older)
	s.closeObject("f")
	s.must(s.Write(kv.NoSync, [][]byte{[]byte("f")}, func(w *kv.Writer) error {
		item, done := [][]byte{[]byte("0")}, make([]bool, 1)
		if err := f.DeleteStaged(w, item, done); err != nil {
			return err
		}
		_, err := f.AddStaged(w, item, done)
		return err
	}))
	older.release()
	looking.wait()
}

// A cuckoo filter is closed between two blocks of a lookup that does not find its item. The lookup runs again: the two
// blocks need not be of one moment.
func TestRead_closedBetweenBlocks(t *testing.T) {
	s := openStore(t, inMemory())
	f := cuckooext.New(s.DB, "f")
	s.must(f.Reserve(cuckooext.Config{Capacity: 6000, Expansion: 1}))
	_, err := f.AddMany(numbered(11_000), nil)
	s.must(err)
	s.wantLayers("f", 2)
	absent := "absent"
	for n := 1; ; n++ { // a lookup that finds something ends at the first block
		if found, err := f.MayContain([]byte(absent)); err != nil || !found {
			s.must(err)
			break
		}
		absent = strconv.Itoa(-n)
	}
	s.forget("f")
	var lookups atomic.Int64
	s.each("read: again", func() { lookups.Add(1) })
	begun := s.next("load: begun")
	looking := s.begin(func() error {
		_, err := f.MayContain([]byte(absent))
		return err
	})
	looking.reaches(begun)
	s.closeObject("f")
	lookups.Store(0)
	begun.release()
	looking.wait()
	if lookups.Load() == 0 {
		t.Error("the lookup rests on blocks of different moments")
	}
}

func numbered(n int) [][]byte {
	items := make([][]byte, n)
	for i := range items {
		items[i] = strconv.AppendInt(nil, int64(i), 10)
	}
	return items
}

func (s *store) wantLayers(key string, n int) {
	s.t.Helper()
	if layers := s.object(key).Layers(); len(layers) != n {
		s.t.Fatalf("%q has %d layers, want %d", key, len(layers), n)
	}
}
