package bloomext_test

import (
	"errors"
	"runtime"
	"testing"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// A handle used with a writer forgets what the writer does not commit, and what was under the key before.
func TestHandle_staged(t *testing.T) {
	db := open(t, "", nil)
	defer closeDB(t, db)
	f := bloomext.New(db, "f")
	refused, added := errors.New("refused"), make([]bool, 1)
	err := db.Write(kv.NoSync, [][]byte{[]byte("f")}, func(w *kv.Writer) error {
		if err := f.ReserveStaged(w, bloomext.Config{Capacity: 100, ErrorRate: 1e-6}); err != nil {
			return err
		}
		if _, err := f.AddStaged(w, [][]byte{[]byte("x")}, added); err != nil {
			return err
		}
		return refused
	})
	if !errors.Is(err, refused) || !added[0] {
		t.Fatalf("AddStaged = %v, %v, want true", added, err)
	}
	if there, err := f.MayContain([]byte("x")); !errors.Is(err, kv.ErrNotFound) {
		t.Errorf("MayContain of a filter that was not committed = %v, %v, want ErrNotFound", there, err)
	}

	if err := f.Reserve(bloomext.Config{Capacity: 100, ErrorRate: 1e-6}); err != nil {
		t.Fatal(err)
	}
	for i := range 2 { // the second add is answered by what the first one found
		if isNew, err := f.Add([]byte("x")); err != nil || isNew != (i == 0) {
			t.Fatalf("Add %d = %v, %v", i, isNew, err)
		}
	}
	if _, err := f.Drop(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Add([]byte("x")); !errors.Is(err, kv.ErrNotFound) {
		t.Errorf("Add to a deleted filter = %v, want ErrNotFound", err)
	}
	if there, err := f.MayContain([]byte("x")); !errors.Is(err, kv.ErrNotFound) {
		t.Errorf("MayContain of a deleted filter = %v, %v, want ErrNotFound", there, err)
	}
}

// An add reads blocks that are not in memory before it waits for the key, so that adds of other goroutines go on.
func TestFilter_Add_readsFirst(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir, &kv.Options{})
	f := bloomext.New(db, "f")
	items := make([]uint64, 100_000)
	for i := range items {
		items[i] = uint64(i)
	}
	if err := f.Reserve(bloomext.Config{Capacity: 200_000, ErrorRate: 0.01}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.AddMany(scalableext.Uint64s(items...), nil); err != nil {
		t.Fatal(err)
	}
	closeDB(t, db)
	db = open(t, dir, &kv.Options{})
	defer closeDB(t, db)
	f = bloomext.New(db, "f")
	if there, err := f.MayContain(scalableext.Uint64(0)); err != nil || !there { // finds the filter, and reads one of its blocks
		t.Fatal(there, err)
	}
	blocksRead := func() uint64 {
		m, err := db.Metrics()
		if err != nil {
			t.Error(err)
		}
		return m.BlocksRead
	}
	const adds = 20 // at least one of them to another block
	added := make(chan error, adds)
	err := db.Write(kv.NoSync, [][]byte{[]byte("f")}, func(*kv.Writer) error { // nobody else changes the key meanwhile
		before := blocksRead()
		for i := range uint64(adds) {
			go func() {
				_, err := f.Add(scalableext.Uint64(1<<32 + i))
				added <- err
			}()
		}
		for blocksRead() == before && !t.Failed() {
			runtime.Gosched()
		}
		return nil
	})
	for range adds {
		err = errors.Join(err, <-added)
	}
	if err != nil {
		t.Fatal(err)
	}
}
