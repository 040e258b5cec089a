package bloomext_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/internal/txntest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/scalableext"
)

// No hash is remembered that was not added, also not the one that stands for none.
func TestRemembered(t *testing.T) {
	for added, others := range map[uint64][]uint64{7: {0, 8, 7 + 1<<32, math.MaxUint64}, 0: {7}} {
		for _, h := range others {
			if bloomext.Remembered(added, h) {
				t.Errorf("%d was added, and %d is remembered", added, h)
			}
		}
	}
}

// A union has no more bits than its items set, in each of its blocks, also while one of the filters is being filled.
func TestMerge_logsOfBlocks(t *testing.T) {
	db := open(t, "", nil)
	defer closeDB(t, db)
	logBytes(t, db, 1<<20)
	var parts []*bloomext.Filter
	for n := range 2 {
		f := bloomext.New(db, fmt.Sprint("part ", n)).With(kv.NoSync)
		if err := f.Reserve(bloomext.Config{Group: "g", Capacity: 100, ErrorRate: 0.05}); err != nil {
			t.Fatal(err)
		}
		for from := n * 30_000; ; from += 500 {
			if info, err := f.Info(); err != nil {
				t.Fatal(err)
			} else if from >= n*30_000+20_000 && info.Filling != 0 {
				break
			}
			addRange(t, f, from, from+500, 0.05)
		}
		parts = append(parts, f)
	}
	if err := parts[0].Merge(t.Context(), parts[1]); err != nil {
		t.Fatal(err)
	}
	finds(t, parts[0], 20_000)
	info, err := parts[0].Info()
	if err != nil || len(info.Layers) != 1 || info.Filling != 0 || info.Bytes < 3*8<<10 {
		t.Errorf("%+v, %v", info, err)
	}
	if got := measuredRate(t, parts[0], 20_000); got > 0.055 {
		t.Errorf("measured rate %v", got)
	}
	checkWhole(t, db)
}

// Filters with equal parameters may have first layers of other sizes, if programs of other versions have made them. Such layers are
// not united.
func TestMerge_otherFirstLayers(t *testing.T) {
	for _, items := range []int{1500, 2500} { // without a log, and with one
		db := open(t, "", nil)
		logBytes(t, db, 1<<20)
		make := func(key string, capacity uint64, from, to int) *bloomext.Filter {
			f := bloomext.New(db, key).With(kv.NoSync)
			if err := f.Reserve(bloomext.Config{Group: "g", Capacity: capacity, ErrorRate: 0.05}); err != nil {
				t.Fatal(err)
			}
			addRange(t, f, from, to, 0.05)
			return f
		}
		f, from := make("f", 2000, 0, items), 1<<30
		make("other", 4000, from, from+items)
		o, err := db.Lookup([]byte("f"))
		if err != nil {
			t.Fatal(err)
		}
		g := copyFrom(t, db, "other", "g", func(s *kv.Spec) { s.Params = o.Params() }, true, asCounted)
		for range 2 {
			if err := f.Merge(t.Context(), g); !errors.Is(err, scalableext.ErrUnequal) {
				t.Errorf("Merge = %v, want %v", err, scalableext.ErrUnequal)
			}
			f, g = g, f
		}
		finds(t, f, uint64(items))
		checkWhole(t, db)
		closeDB(t, db)
	}
}

// A log that begins in a store that takes smaller filters than the one in which its filter was made is no longer than these.
func TestGrowth_smallerStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	db := open(t, dir, &kv.Options{BallastSize: -1})
	const capacity, most = 5000, 128 << 10
	reserveLogged(t, db, 64<<20, capacity, 0.01)
	closeDB(t, db)
	db = open(t, dir, &kv.Options{BallastSize: -1, MaxFilterBytes: most})
	defer closeDB(t, db)
	f := bloomext.New(db, "f").With(kv.NoSync)
	addRange(t, f, 0, 2*capacity, 0.01)
	if info, err := f.Info(); err != nil || info.LogBytes == 0 || info.GrowthLog != most {
		t.Errorf("%+v, %v", info, err)
	}
	finds(t, f, 2*capacity)
}

// What a pipeline adds to a filter is not remembered for the one that had the key before and was renamed.
func TestGrowth_renamed(t *testing.T) {
	db := open(t, "", nil)
	defer closeDB(t, db)
	f, item := growing(t, db)
	before := bloomext.Logging(f)
	if err := db.Rename(kv.NoSync, []byte("f"), []byte("g")); err != nil {
		t.Fatal(err)
	}
	f, _ = growing(t, db)
	g := bloomext.New(db, "g").With(kv.NoSync)
	var seeming []uint64
	for ; len(seeming) < 30; item++ {
		item = seems(t, g, item)
		bloomext.Remember(f, before, item)
		if _, err := g.Add(scalableext.Uint64(item)); err != nil {
			t.Fatal(err)
		}
		seeming = append(seeming, item)
	}
	growsAndFinds(t, db, g, seeming)
}

// What transactions add makes a filter grow as other adds do, if no service helps: the growth goes on after each commit.
func TestGrowth_transactions(t *testing.T) {
	db := open(t, "", nil)
	defer closeDB(t, db)
	const items = 20_000
	for _, size := range []int{10, 1000} {
		f := reserveLogged(t, db, 64<<20, 100, 0.01)
		for n := 0; n < items; n += size {
			if err := txntest.Update(t.Context(), db, kv.NoSync, func(tx *txntest.Tx) error {
				batch := make([]uint64, size)
				for i := range batch {
					batch[i] = uint64(n + i)
				}
				_, err := f.In(tx).AddMany(scalableext.Uint64s(batch...), nil)
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
		if info, err := f.Info(); err != nil || len(info.Layers) > 2 || info.Bytes*8 > 14*items {
			t.Errorf("%d items in each: %d layers, %d bytes, %v", size, len(info.Layers), info.Bytes, err)
		}
		if _, err := f.Drop(); err != nil {
			t.Fatal(err)
		}
	}
}

// A key that holds another type, or a filter without a log, has no log in which something could be remembered.
func TestLogging_none(t *testing.T) {
	db := open(t, "", nil)
	defer closeDB(t, db)
	isNone := func() {
		t.Helper()
		objectOf(t, db)
		if got := fmt.Sprint(bloomext.Logging(bloomext.New(db, "f"))); got != "<nil>" {
			t.Errorf("it has the log of %s", got)
		}
	}
	f := bloomext.New(db, "f")
	if err := f.Reserve(bloomext.Config{Capacity: 100, ErrorRate: 0.01, NonScaling: true}); err != nil {
		t.Fatal(err)
	}
	isNone()
	for _, line := range []string{"SET f x", "SETBIT f 8000000 1"} { // the last one is in blocks, and stays open
		if err := module.NewSession(db).Do(t.Context(), bytes.Fields([]byte(line))).Err(); err != nil {
			t.Fatal(err)
		}
		isNone()
	}
}

// What a transaction adds is not remembered for its filter: it may not be committed.
func TestLogging_inTransaction(t *testing.T) {
	db := open(t, "", nil)
	defer closeDB(t, db)
	f := reserveLogged(t, db, 1<<20, 100, 0.05)
	addRange(t, f, 0, 10, 0.05)
	if err := txntest.Update(t.Context(), db, kv.NoSync, func(tx *txntest.Tx) error {
		if got := fmt.Sprint(bloomext.Logging(f.In(tx))); got != "<nil>" {
			t.Errorf("it has the log of %s", got)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// An item that is remembered is not appended to the log once more, one by one and many at a time, and others that seem known are.
func TestRemember_log(t *testing.T) {
	db := open(t, "", nil)
	defer closeDB(t, db)
	f, item := growing(t, db)
	before, err := f.Info()
	if err != nil {
		t.Fatal(err)
	}
	known := make([]uint64, 8)
	for i := range known {
		item = seems(t, f, item+1)
		known[i] = item
		bloomext.Remember(f, bloomext.Logging(f), item)
	}
	fresh := seems(t, f, item+1)
	for range 2 {
		if _, err := f.Add(scalableext.Uint64(known[0])); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Add(scalableext.Uint64(fresh)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.AddMany(scalableext.Uint64s(known...), nil); err != nil {
		t.Fatal(err)
	}
	if after, err := f.Info(); err != nil || after.LogBytes != before.LogBytes+8 {
		t.Errorf("the log had %d bytes, and has %d: %v", before.LogBytes, after.LogBytes, err)
	}
}

// addStaged adds items in a commit each. Nobody does then what services should have done.
func addStaged(t *testing.T, db *kv.DB, f *bloomext.Filter, from, to uint64) {
	t.Helper()
	for i := from; i < to; i++ {
		b := scalableext.Uint64(i)
		err := db.Write(kv.NoSync, [][]byte{[]byte("f")}, func(w *kv.Writer) error {
			_, err := f.AddStaged(w, [][]byte{b[:]}, make([]bool, 1))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// An add helps a growth if it has added something, and the layer that takes adds is nearly full, or the log.
func TestAdded_helps(t *testing.T) {
	for name, tt := range map[string]struct{ capacity, items, most int }{
		"a full layer": {1000, 1110, 1 << 16}, "a full log": {1000, 1165, 1200},
	} {
		t.Run(name, func(t *testing.T) {
			db := open(t, "", nil)
			defer closeDB(t, db)
			f := bloomext.New(db, "f").With(kv.NoSync)
			if err := f.Reserve(bloomext.Config{Capacity: uint64(tt.capacity), ErrorRate: 0.01, GrowthLog: 8 * int64(tt.most)}); err != nil {
				t.Fatal(err)
			}
			addStaged(t, db, f, 0, uint64(tt.items))
			for added, filling := range []bool{true, false} {
				f.Added(added)
				if info, err := f.Info(); err != nil || (info.Filling > 0) != filling || filling && info.Filled > 0 {
					t.Errorf("after an add of %d items: %+v, %v", added, info, err)
				}
			}
			finds(t, f, uint64(tt.items))
			isSound(t, db)
		})
	}
}

// A long log is left to what makes a layer in memory once. If that makes none, commits fill the layer.
func TestFill_leftOnce(t *testing.T) {
	db := open(t, "", nil)
	defer closeDB(t, db)
	f := reserveLogged(t, db, 1<<20, 1000, 0.01)
	addStaged(t, db, f, 0, 1110)
	for _, filled := range []bool{false, true} {
		if err := db.Write(kv.NoSync, [][]byte{[]byte("f")}, func(w *kv.Writer) error {
			o, err := w.Object([]byte("f"))
			if err != nil {
				return err
			}
			more, err := bloomext.Module().Types[0].Compact(w, o, 1)
			if !more {
				t.Error("there is no more to do")
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if info, err := f.Info(); err != nil || info.Filled > 0 != filled {
			t.Errorf("%v of the log is filled in: %t, want %t; %v", info.Filled, info.Filled > 0, filled, err)
		}
	}
}

// A layer that has no room for the rest of the log is replaced by a larger one. If the filter would be too large with that, its log
// ends.
func TestFill_tooLarge(t *testing.T) {
	for _, tt := range []struct {
		most uint64 // bytes of the filter
		ends bool
	}{{20 << 10, true}, {1 << 20, false}} {
		db := open(t, "", &kv.Options{InMemory: true, MaxFilterBytes: tt.most})
		f := bloomext.New(db, "f").With(kv.NoSync)
		if err := f.Reserve(bloomext.Config{Capacity: 1000, ErrorRate: 1e-12, GrowthLog: 16 << 10}); err != nil {
			t.Fatal(err)
		}
		addStaged(t, db, f, 0, 1010)
		info, err := f.Info()
		if err != nil || info.Filling == 0 {
			t.Fatalf("%+v, %v", info, err)
		}
		g := copyTo(t, db, "g", false, true, func(l *kv.Layer, i int, n uint64) uint64 {
			if i == 0 && n == 0 && l.Spec().Layout == kv.LayoutNative {
				return info.Filling // items: the layer is full of others
			}
			return n
		})
		if _, err := db.CompactKey([]byte("g"), 1<<20, true); err != nil {
			t.Error(err)
		}
		after, err := g.Info()
		if err != nil || (after.LogBytes == 0) != tt.ends || !tt.ends && after.Filling <= info.Filling {
			t.Errorf("at most %d bytes: %+v, %v", tt.most, after, err)
		}
		finds(t, g, 1010)
		closeDB(t, db)
	}
}

// A batch ends the growth first if it has no room, but not inside a transaction: there it would wait for itself.
func TestAdding_first(t *testing.T) {
	for _, inTx := range []bool{false, true} {
		db := open(t, "", nil)
		f := reserveLogged(t, db, 1<<20, 1000, 0.01)
		addStaged(t, db, f, 0, 1110)
		batch := make([]uint64, 100)
		for i := range batch {
			batch[i] = uint64(1110 + i)
		}
		add := func(f *bloomext.Filter) error {
			_, err := f.AddMany(scalableext.Uint64s(batch...), nil)
			info, ierr := f.Info()
			if len(info.Layers) > 1 != inTx {
				t.Errorf("in a transaction: %t: %d layers", inTx, len(info.Layers))
			}
			return errors.Join(err, ierr)
		}
		var err error
		if inTx {
			err = txntest.Update(t.Context(), db, kv.NoSync, func(tx *txntest.Tx) error { return add(f.In(tx)) })
		} else {
			err = add(f)
		}
		if err != nil {
			t.Error(err)
		}
		finds(t, f, 1210)
		isSound(t, db)
		closeDB(t, db)
	}
}

// A growth that is under way goes on when the log has little room left, and no part of it is shown before its end.
func TestGrowth_littleRoom(t *testing.T) {
	db := open(t, "", nil)
	defer closeDB(t, db)
	f := bloomext.New(db, "f").With(kv.NoSync)
	const most = 1200 // hashes
	if err := f.Reserve(bloomext.Config{Capacity: 1000, ErrorRate: 0.01, GrowthLog: 8 * most}); err != nil {
		t.Fatal(err)
	}
	seen := false
	for n := uint64(0); ; n++ {
		addStaged(t, db, f, n, n+1)
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		rate := 0.0
		for _, l := range info.Layers {
			rate += l.ErrorRate
		}
		if rate > info.ErrorRate {
			t.Fatalf("%d items: the layers have %g, want %g at most", n+1, rate, info.ErrorRate)
		}
		seen = seen || info.Filling > 0 && len(info.Layers) > 2
		if info.LogBytes == 0 {
			if finds(t, f, n+1); n < most-1 {
				t.Errorf("the log ended with %d items", n+1)
			}
			break
		}
	}
	if !seen {
		t.Error("there were never two small layers")
	}
	isSound(t, db)
}

// What a transaction adds is in one small layer, whose place a larger one takes. That of a filter which it has made itself, too.
func TestGrowth_oneSmallLayer(t *testing.T) {
	db := open(t, "", nil)
	defer closeDB(t, db)
	f := reserveLogged(t, db, 1<<20, 100, 0.01)
	addRange(t, f, 0, 100, 0.01)
	if err := txntest.Update(t.Context(), db, kv.NoSync, func(tx *txntest.Tx) error {
		made := bloomext.New(db, "made").In(tx)
		if err := made.Reserve(bloomext.Config{Capacity: 100, ErrorRate: 0.01}); err != nil {
			return err
		}
		for i := range uint64(400) {
			for _, f := range []*bloomext.Filter{f.In(tx), made} {
				if _, err := f.Add(scalableext.Uint64(1000 + i)); err != nil {
					return err
				}
				if info, err := f.Info(); err != nil || len(info.Layers) > 2 {
					return fmt.Errorf("%d items: %d layers, %w", i+1, len(info.Layers), err)
				}
			}
		}
		if info, err := made.Info(); err != nil || info.Layers[0].Capacity != 100 { // the layer that it was made with stays
			return fmt.Errorf("%+v, %w", info, err)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	finds(t, f, 100)
	checkWhole(t, db)
}

// A commit may find as many small layers as there may be, with items of earlier commits in the newest. However often it puts a larger
// layer in the place of that one, these items stay, and
// also one that only seemed known.
func TestGrowth_takenOver(t *testing.T) {
	for _, c := range []struct {
		name     string
		capacity uint64 // above 1024 the log does not cover the first layer
		between  func(tx *txntest.Tx) error
	}{
		{"small", 100, nil},
		{"with a first layer", 1100, nil},
		{"expiring", 100, func(tx *txntest.Tx) error {
			_, err := tx.Expire("f", time.Now().Add(time.Hour).UnixMilli())
			return err
		}},
	} {
		db := open(t, "", nil)
		f := reserveLogged(t, db, 1<<20, c.capacity, 0.01)
		n := c.capacity
		addRange(t, f, 0, int(n), 0.01)
		next := func(count uint64) []uint64 {
			list := make([]uint64, count)
			for i := range list {
				list[i] = n
				n++
			}
			return list
		}
		info := bloomext.Info{}
		for len(info.Layers) < 3 {
			info = stageAlone(t, db, f, next(20)...)
		}
		seeming := seems(t, f, 1<<40)
		stageAlone(t, db, f, seeming)
		if err := txntest.Update(t.Context(), db, kv.NoSync, func(tx *txntest.Tx) error {
			in := f.In(tx)
			for i := range uint64(4) {
				if _, err := in.AddMany(scalableext.Uint64s(next(n+100*i)...), nil); err != nil {
					return err
				}
				finds(t, in, n)
				findsItem(t, in, seeming)
				if c.between != nil {
					if err := c.between(tx); err != nil {
						return err
					}
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		finds(t, f, n)
		compacts(t, db, 1000)
		finds(t, f, n)
		findsItem(t, f, seeming)
		checkWhole(t, db)
		closeDB(t, db)
	}
}

// A filter that may not become larger says so, also if a larger layer would take the place of a small one.
func TestGrowth_oneSmallLayerTooLarge(t *testing.T) {
	db := open(t, "", &kv.Options{InMemory: true, MaxFilterBytes: 72 << 10})
	defer closeDB(t, db)
	f := bloomext.New(db, "f").With(kv.NoSync)
	if err := f.Reserve(bloomext.Config{Capacity: 100, ErrorRate: 1e-12, GrowthLog: 64 << 10}); err != nil {
		t.Fatal(err)
	}
	addRange(t, f, 0, 100, 0.01)
	n := uint64(100)
	err := txntest.Update(t.Context(), db, kv.NoSync, func(tx *txntest.Tx) error {
		for ; ; n++ {
			if _, err := f.In(tx).Add(scalableext.Uint64(n)); err != nil {
				return err
			}
		}
	})
	if !errors.Is(err, scalableext.ErrCannotGrow) || n < 4400 {
		t.Errorf("after %d items: %v, want %v", n, err, scalableext.ErrCannotGrow)
	}
	finds(t, f, 100)
	checkWhole(t, db)
}
