package bloomext

import (
	"testing"
	"time"

	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// An item that is not found in memory is not known to be absent if the filter's key was taken away meanwhile: its blocks may have
// been read again, without what was added.
func TestSection_absent(t *testing.T) {
	for name, config := range map[string]Config{
		"native":     {ErrorRate: 0.01, Capacity: 100},
		"compatible": {ErrorRate: 0.01, Capacity: 100, Layout: scalableext.LayoutCompatible},
		"window":     {ErrorRate: 0.01, Capacity: 100, Window: time.Hour, Slices: 2},
		"layers":     {ErrorRate: 0.01, Capacity: 100, GrowthLog: -1},
	} {
		t.Run(name, func(t *testing.T) {
			db, err := kv.Open("", &kv.Options{InMemory: true, Modules: coreext.With(Module())})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			}()
			f := New(db, "f")
			if err := f.Reserve(config); err != nil {
				t.Fatal(err)
			}
			item := []byte("an item that was not added")
			if present, err := f.MayContain(item); present || err != nil {
				t.Fatal(present, err)
			}
			c := f.h.Current.Load()
			s := c.object.Memory().Begin()
			ask := func() bool {
				present, known, _ := c.has(db, s, item)
				return known && !present
			}
			if !s.Usable() || !ask() {
				t.Fatal("it is not known to be absent")
			}
			if _, err := f.Drop(); err != nil {
				t.Fatal(err)
			}
			if ask() {
				t.Error("it is known to be absent from a filter that was removed")
			}
		})
	}
}
