package bloomext_test

import (
	"runtime"
	"testing"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
)

// Behind two small layers there is no other: an add that leaves the second one nearly full waits for services that are compacting
// something else.
func TestAdded_waits(t *testing.T) {
	entered, leave := make(chan bool), make(chan bool)
	slow := &kv.Type{Name: "slow", Version: 1, Open: func(*kv.Object) (any, error) { return nil, nil },
		Compact: func(*kv.Writer, *kv.Object, int) (bool, error) {
			entered <- true
			<-leave
			return false, nil
		}}
	db := open(t, "", &kv.Options{InMemory: true, Modules: coreext.With(bloomext.Module(), module.Module{Name: "slow", Types: []*kv.Type{slow}})})
	defer closeDB(t, db)
	f := reserveLogged(t, db, 1<<20, 1000, 0.01)
	addStaged(t, db, f, 0, 1235)
	if info, err := f.Info(); err != nil || len(info.Layers) != 3 || info.Filling == 0 {
		t.Fatalf("%+v, %v", info, err)
	}
	if err := db.Write(kv.NoSync, [][]byte{[]byte("slow")}, func(w *kv.Writer) error {
		_, err := w.Create([]byte("slow"), kv.Spec{Type: slow, Family: block.FamilyBits, Layers: []kv.LayerSpec{{Layout: kv.LayoutNative, Blocks: 1, Lines: 1}}})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() {
		_, err := db.CompactKey([]byte("slow"), 1, true)
		ended <- err
	}()
	<-entered
	added := make(chan bool)
	go func() {
		f.Added(1)
		close(added)
	}()
	for range 1000 { // an add that did not wait would have ended by now
		runtime.Gosched()
	}
	close(leave)
	<-added
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if info, err := f.Info(); err != nil || info.Filling > 0 || len(info.Layers) != 1 {
		t.Errorf("after the add: %+v, %v", info, err)
	}
}

// Behind two small layers, an add that leaves room for as many items again makes a part of the filling, as much as another add
// would. One that does not ends it, however long the log is.
func TestAdded_ends(t *testing.T) {
	db := open(t, "", nil)
	defer closeDB(t, db)
	f := reserveLogged(t, db, 4<<20, 1000, 0.01)
	addStaged(t, db, f, 0, 1235)
	g := copyTo(t, db, "g", false, true, func(l *kv.Layer, i int, n uint64) uint64 {
		if i == 0 && l.Spec().Layout == kv.LayoutLog {
			return 1 << 18 // hashes, of which nearly all are 0
		}
		return n
	})
	for _, tt := range []struct {
		n     int
		ended bool
	}{{1, false}, {1000, true}} {
		g.Added(tt.n)
		if info, err := g.Info(); err != nil || (info.Filling == 0) != tt.ended || (len(info.Layers) == 1) != tt.ended {
			t.Errorf("after an add of %d items: %+v, %v", tt.n, info, err)
		}
	}
	finds(t, g, 1235)
}
