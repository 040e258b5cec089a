package bloomext_test

import (
	"errors"
	"testing"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/kv"
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
	if there, err := f.MayContainString("x"); !errors.Is(err, kv.ErrNotFound) {
		t.Errorf("MayContain of a filter that was not committed = %v, %v, want ErrNotFound", there, err)
	}

	if err := f.Reserve(bloomext.Config{Capacity: 100, ErrorRate: 1e-6}); err != nil {
		t.Fatal(err)
	}
	for i := range 2 { // the second add is answered by what the first one found
		if isNew, err := f.AddString("x"); err != nil || isNew != (i == 0) {
			t.Fatalf("Add %d = %v, %v", i, isNew, err)
		}
	}
	if _, err := f.Drop(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.AddString("x"); !errors.Is(err, kv.ErrNotFound) {
		t.Errorf("Add to a deleted filter = %v, want ErrNotFound", err)
	}
	if there, err := f.MayContainString("x"); !errors.Is(err, kv.ErrNotFound) {
		t.Errorf("MayContain of a deleted filter = %v, %v, want ErrNotFound", there, err)
	}
}
