package cuckooext

import (
	"errors"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// A filter grows until a layer would be made for more than 2^40 items. Then it is full, not corrupt, even if its
// error rate and Options.MaxFilterBytes allow more.
func TestStager_grow_last(t *testing.T) {
	db, err := kv.Open("store", &kv.Options{
		FS: vfs.NewMem(), BallastSize: -1, MinFreeSpace: -1, MaxFilterBytes: 1 << 50, Modules: coreext.With(Module()),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	f := New(db, "f")
	if err := f.Reserve(Config{Capacity: 1 << 38}); err != nil {
		t.Fatal(err)
	}
	_, err = f.h.Change(kv.NoSync, nil, func(w *kv.Writer, c *filter) (bool, error) {
		s := newStager(w, c)
		for range 2 {
			if err := s.grow(); err != nil {
				t.Error(err)
			}
		}
		return true, s.grow()
	})
	if !errors.Is(err, scalableext.ErrCannotGrow) || errors.Is(err, kv.ErrCorrupt) || !strings.Contains(err.Error(), `"f" has 3 layers`) {
		t.Errorf("grow to a fourth layer: %v, want %v", err, scalableext.ErrCannotGrow)
	}
}
