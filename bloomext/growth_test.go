package bloomext_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/internal/txntest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/scalableext"
)

// logBytes sets the most bytes of the logs of filters that are made from now on.
func logBytes(t testing.TB, db *kv.DB, n int) {
	t.Helper()
	if err := module.Of(db).SetSetting("growth-log-bytes", fmt.Sprint(n)); err != nil {
		t.Fatal(err)
	}
}

// reserveLogged makes the filter f, with a log of at most so many bytes.
func reserveLogged(t testing.TB, db *kv.DB, limit int, capacity uint64, rate float64) *bloomext.Filter {
	t.Helper()
	logBytes(t, db, limit)
	f := bloomext.New(db, "f").With(kv.NoSync)
	if err := f.Reserve(bloomext.Config{Capacity: capacity, ErrorRate: rate}); err != nil {
		t.Fatal(err)
	}
	return f
}

// mostRate returns the highest rate that a filter may have. The first layer of one for few items is no larger than the rate needs, so
// that chance comes on top, until the layer is replaced.
func mostRate(info bloomext.Info) float64 {
	if info.Layers[0].Capacity == info.Asked && info.Asked <= 1024 {
		return 1.6 * info.ErrorRate
	}
	return info.ErrorRate
}

// compacts makes commits of Compact until there is nothing to do, or so many.
func compacts(t testing.TB, db *kv.DB, most int) {
	t.Helper()
	for range most {
		more, err := db.CompactQueued(context.Background(), 1)
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			return
		}
	}
}

// finds fails the test unless all items below n are found, one by one or many at a time.
func finds(t testing.TB, f *bloomext.Filter, n uint64) {
	t.Helper()
	items, present := make([]uint64, n), make([]bool, n)
	for i := range items {
		items[i] = uint64(i)
	}
	if err := f.MayContainMany(scalableext.Uint64s(items...), present); err != nil {
		t.Fatal(err)
	}
	for i, found := range present {
		one, err := f.MayContain(scalableext.Uint64(uint64(i)))
		if !found || !one || err != nil {
			t.Fatalf("item %d of %d: found %t and %t: %v", i, n, found, one, err)
		}
	}
}

// A filter that grows from a log has all items at every moment, also those that seemed known when they were added, keeps its
// rate, and has few layers.
func TestGrowth(t *testing.T) {
	for _, rate := range []float64{0.2, 0.01} {
		for _, steps := range []int{1, 3, 1000} { // of filling between two batches
			t.Run(fmt.Sprint(rate, " ", steps), func(t *testing.T) {
				db := open(t, "", nil)
				defer db.Close()
				f := reserveLogged(t, db, 64<<20, 100, rate)
				random := rand.New(rand.NewPCG(1, 2))
				most, n := 0, uint64(0)
				for next := uint64(100); n < 40_000; {
					batch := make([]uint64, 1+random.IntN(1+int(n)/20))
					for i := range batch {
						batch[i] = n + uint64(i)
					}
					n += uint64(len(batch))
					if random.IntN(2) == 0 {
						if _, err := f.AddMany(scalableext.Uint64s(batch...), nil); err != nil {
							t.Fatal(err)
						}
					} else {
						for _, item := range batch {
							if _, err := f.Add(scalableext.Uint64(item)); err != nil {
								t.Fatal(err)
							}
						}
					}
					for range len(batch) / 10 {
						if _, err := f.Add(scalableext.Uint64(random.Uint64N(n))); err != nil {
							t.Fatal(err)
						}
					}
					compacts(t, db, steps)
					if n < next {
						continue
					}
					next += next / 10
					finds(t, f, n)
					info, err := f.Info()
					if err != nil {
						t.Fatal(err)
					}
					most = max(most, len(info.Layers))
					measured := rate*1.1 + 0.002
					if mostRate(info) > info.ErrorRate { // by chance one line of the first layer has many more items than the other
						measured *= 3
					}
					if got := measuredRate(t, f, 20_000); got > measured || info.ExpectedRate > mostRate(info) {
						t.Errorf("%d items: measured rate %v, expected %v, asked for %v", n, got, info.ExpectedRate, rate)
					}
				}
				info, err := f.Info()
				if err != nil {
					t.Fatal(err)
				}
				compacts(t, db, 1000)
				after, err := f.Info()
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("%d items: %d layers, at most %d, %d when filled; %.1f bits an item", n, len(info.Layers), most, len(after.Layers), float64(after.Bytes)*8/float64(n))
				if len(after.Layers) > 2 || steps > 100 && most > 3 {
					t.Errorf("%d layers, at most %d, want fewer", len(after.Layers), most)
				}
				finds(t, f, n)
				report, err := db.Check(t.Context())
				if err != nil || len(report.Problems) > 0 {
					t.Errorf("check: %v, %v", report, err)
				}
			})
		}
	}
}

// stageAlone adds items in a commit after which nobody calls Added, which would fill a part.
func stageAlone(t *testing.T, db *kv.DB, f *bloomext.Filter, items ...uint64) bloomext.Info {
	t.Helper()
	list := make([][]byte, len(items))
	for i, item := range items {
		b := scalableext.Uint64(item)
		list[i] = b[:]
	}
	if err := db.Write(kv.NoSync, [][]byte{[]byte("f")}, func(w *kv.Writer) error {
		_, err := f.AddStaged(w, list, make([]bool, len(list)))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	info, err := f.Info()
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// A layer is not filled with more items than it is made for, also if there is time for all of them at once: a larger one is filled
// in its place. The log may have many more items than are counted: those that seemed known when they were added.
func TestGrowth_outgrown(t *testing.T) {
	db := open(t, "", nil)
	defer closeDB(t, db)
	f := reserveLogged(t, db, 1<<20, 1000, 0.05)
	stage := func(item uint64) bloomext.Info { return stageAlone(t, db, f, item) }
	n, first := uint64(0), uint64(0)
	for ; first == 0; n++ {
		first = stage(n).Filling
	}
	items := make([]uint64, 0, 400)
	for next := uint64(1 << 40); len(items) < cap(items); next++ {
		next = seems(t, f, next)
		if items = append(items, next); stage(next).Filling != first {
			t.Fatal("another layer is filled")
		}
	}
	for more := true; more; {
		var err error
		if more, err = db.CompactQueued(t.Context(), 1<<20); err != nil {
			t.Fatal(err)
		}
	}
	finds(t, f, n)
	for _, item := range items {
		findsItem(t, f, item)
	}
	info, err := f.Info()
	if err != nil || info.Filling > 0 || len(info.Layers) > 2 || info.ExpectedRate > mostRate(info) || info.Layers[0].Capacity <= first {
		t.Errorf("%d layers, the first for %d items, one for %d is filled, the rate is %v: %v", len(info.Layers), info.Layers[0].Capacity, info.Filling, info.ExpectedRate, err)
	}
	for _, l := range info.Layers {
		if l.Items > l.Capacity {
			t.Errorf("a layer for %d items has %d", l.Capacity, l.Items)
		}
	}
	checkWhole(t, db)
}

// However many items one commit adds at once, the filter has one layer more then, with room for those that are new, and so has the
// layer that is filled. If that would be too much for MaxFilterBytes, the layers are smaller.
func TestGrowth_ahead(t *testing.T) {
	for _, limit := range []int{1 << 20, 1000} { // of the log: the last one ends it
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			db := open(t, "", nil)
			defer db.Close()
			f := reserveLogged(t, db, limit, 100, 0.01)
			addRange(t, f, 0, 100, 0.01)
			const n = 20_000
			items := make([][]byte, 0, 3*n)
			for i := range uint64(n) {
				for _, item := range []uint64{i, n - 1 - i, i} {
					b := scalableext.Uint64(item)
					items = append(items, b[:])
				}
			}
			if err := db.Write(kv.NoSync, [][]byte{[]byte("f")}, func(w *kv.Writer) error { // nobody calls Added
				_, err := f.AddStaged(w, items, make([]bool, len(items)))
				return err
			}); err != nil {
				t.Fatal(err)
			}
			info, err := f.Info()
			if err != nil || len(info.Layers) != 2 || info.Layers[1].Capacity > n || info.Filling > n+n/4+100 || limit == 1<<20 && info.Filling < n {
				t.Errorf("%d layers, the last one for %d items, one for %d is filled: %v", len(info.Layers), info.Layers[len(info.Layers)-1].Capacity, info.Filling, err)
			}
			compacts(t, db, 1000)
			finds(t, f, n)
			if got := measuredRate(t, f, 20_000); got > 0.0125 {
				t.Errorf("measured rate %v", got)
			}
		})
	}
	db := open(t, "", &kv.Options{InMemory: true, MaxFilterBytes: 20_000})
	defer db.Close()
	f := bloomext.New(db, "f").With(kv.NoSync)
	if err := f.Reserve(bloomext.Config{Capacity: 100, ErrorRate: 0.01}); err != nil {
		t.Fatal(err)
	}
	items := make([]uint64, 40_000)
	for i := range items {
		items[i] = uint64(i)
	}
	n, err := f.AddMany(scalableext.Uint64s(items...), nil)
	if !errors.Is(err, kv.ErrTooLarge) || n < 4000 {
		t.Errorf("%d items were added to at most 20,000 bytes: %v", n, err)
	}
	finds(t, f, uint64(n))
}

// Batches of any size, with nobody else who fills layers, leave at most a large layer and two small ones, each of which is within
// its rate.
func TestGrowth_layers(t *testing.T) {
	for _, size := range []int{7, 100, 1000, 5000} {
		db := open(t, "", nil)
		defer db.Close()
		f := reserveLogged(t, db, 1<<20, 100, 0.01)
		n := 0
		for n < 30_000 {
			items := make([]uint64, size)
			for i := range items {
				items[i] = uint64(n + i)
			}
			if _, err := f.AddMany(scalableext.Uint64s(items...), nil); err != nil {
				t.Fatal(err)
			}
			n += size
			info, err := f.Info()
			if err != nil || len(info.Layers) > 3 || info.ExpectedRate > mostRate(info) {
				t.Fatalf("%d items by %d: %d layers, rate %v: %v", n, size, len(info.Layers), info.ExpectedRate, err)
			}
		}
		finds(t, f, uint64(n))
	}
}

// What is filled has room for what two small layers take meanwhile, and is made anew at once if a batch is larger.
func TestGrowth_room(t *testing.T) {
	db := open(t, "", &kv.Options{InMemory: true, Seed: 4}) // with other seeds a layer may have its bits before its last item
	defer closeDB(t, db)
	f := reserveLogged(t, db, 1<<20, 1000, 0.01)
	n := uint64(0)
	stage := func(items int) bloomext.Info {
		list := make([]uint64, items)
		for i := range list {
			list[i], n = n, n+1
		}
		return stageAlone(t, db, f, list...)
	}
	info := stage(1000)
	for len(info.Layers) < 3 || info.Layers[2].Items < info.Layers[2].Capacity {
		info = stage(1)
	}
	capacity := info.Filling
	var seeming []uint64
	for range 5 { // they are filled in, too
		seeming = append(seeming, seems(t, f, uint64(1+len(seeming))<<40))
		if _, err := f.Add(scalableext.Uint64(seeming[len(seeming)-1])); err != nil {
			t.Fatal(err)
		}
	}
	compacts(t, db, 1000)
	for _, item := range seeming {
		findsItem(t, f, item)
	}
	if info = stage(1); len(info.Layers) != 1 || info.Layers[0].Capacity != capacity || capacity > 1300 {
		t.Errorf("%d layers of which one is for %d items, want one for %d", len(info.Layers), info.Layers[0].Capacity, capacity)
	}
	for info.Filling == 0 {
		info = stage(1)
	}
	if info = stage(3000); info.Filling < n || len(info.Layers) > 3 {
		t.Errorf("after a batch of 3000: %d layers, one for %d items is filled, want one for %d at least", len(info.Layers), info.Filling, n)
	}
	capacity = info.Filling
	compacts(t, db, 1000)
	if info = stage(1); len(info.Layers) != 1 || info.Layers[0].Capacity != capacity {
		t.Errorf("%d layers of which one is for %d items, want one for %d", len(info.Layers), info.Layers[0].Capacity, capacity)
	}
	finds(t, f, n)
}

// What one transaction adds, or one commit of many commands, is in one small layer: until it is committed, and after it.
func TestGrowth_transaction(t *testing.T) {
	const items = 8000
	add := func(f *bloomext.Filter, from, batch int) error {
		list := make([]uint64, batch)
		for i := range list {
			list[i] = uint64(from + i)
		}
		if batch == 1 {
			_, err := f.Add(scalableext.Uint64(list[0]))
			return err
		}
		_, err := f.AddMany(scalableext.Uint64s(list...), nil)
		return err
	}
	for _, c := range []struct{ capacity, before, batch int }{
		{100, 0, 1}, {100, 0, 50}, {100, 0, 3000}, {100, 137, 1}, {100, 137, 50}, {100, 5000, 100}, {2000, 1990, 50}, {2000, 2000, 1},
	} {
		db := open(t, "", nil)
		f := reserveLogged(t, db, 1<<20, uint64(c.capacity), 0.01)
		addRange(t, f, 0, c.before, 0.01)
		var seeming []uint64
		if err := txntest.Update(t.Context(), db, kv.NoSync, func(tx *txntest.Tx) error {
			in := f.In(tx)
			for n := c.before; n < items; n += c.batch {
				if err := add(in, n, c.batch); err != nil {
					return err
				}
				if n%200 >= c.batch {
					continue
				}
				if n > 500 {
					seeming = append(seeming, seems(t, in, uint64(n+1)<<40))
					if err := add(in, int(seeming[len(seeming)-1]), 1); err != nil {
						return err
					}
				}
				info, err := in.Info()
				if err != nil || len(info.Layers) > 3 || info.ExpectedRate > mostRate(info) || int(info.Items) > n+c.batch+len(seeming) {
					t.Fatalf("%+v: %d items, %d layers, %d items, rate %v: %v", c, n, len(info.Layers), info.Items, info.ExpectedRate, err)
				}
			}
			finds(t, in, items)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		for step := range 2 {
			finds(t, f, items)
			for _, item := range seeming {
				findsItem(t, f, item)
			}
			if got := measuredRate(t, f, 20_000); got > 0.0125 {
				t.Errorf("%+v: measured rate %v", c, got)
			}
			info, err := f.Info()
			if err != nil || len(info.Layers) > 3-step || int(info.Items) < items-items/50 || step == 1 && info.Filling > 0 {
				t.Errorf("%+v: %d layers, %d items, filling %d: %v", c, len(info.Layers), info.Items, info.Filling, err)
			}
			compacts(t, db, 1000)
		}
		checkWhole(t, db)
		closeDB(t, db)
	}

	// The layer that takes the place of another has room for what only seemed known in that one, and what is filled for both.
	db := open(t, "", &kv.Options{InMemory: true, MemTableSize: 256 << 10})
	defer closeDB(t, db)
	f := reserveLogged(t, db, 1<<20, 1000, 0.05)
	addRange(t, f, 0, 1000, 0.05)
	if err := txntest.Update(t.Context(), db, kv.NoSync, func(tx *txntest.Tx) error {
		in := f.In(tx)
		for n := range 120 {
			if err := add(in, 1000+n, 1); err != nil {
				return err
			}
		}
		for next, n := uint64(1<<40), 0; n < 500; n++ {
			next = seems(t, in, next+1)
			if err := add(in, int(next), 1); err != nil {
				return err
			}
		}
		for n := range 200 {
			if err := add(in, 2000+n, 1); err != nil {
				return err
			}
		}
		info, err := in.Info()
		if last := info.Layers[len(info.Layers)-1]; err != nil || last.Items > last.Capacity || len(info.Layers) > 3 || info.Filling < info.Items+200 {
			t.Errorf("%d layers, the last one with %d items of %d, one for %d items is filled: %v", len(info.Layers), last.Items, last.Capacity, info.Filling, err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	checkWhole(t, db)

	// Towards the end of a commit no layer takes the place of another: that could be too much.
	near := open(t, "", &kv.Options{InMemory: true, MemTableSize: 256 << 10, Seed: 4})
	defer closeDB(t, near)
	f = reserveLogged(t, near, 1<<20, 100, 0.01)
	if err := txntest.Update(t.Context(), near, kv.NoSync, func(tx *txntest.Tx) error {
		for n := 0; n < 5000; n += 100 {
			if err := add(f.In(tx), n, 100); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	finds(t, f, 5000)

	// Many commands in one commit, of which some are undone if it is a transaction's.
	undone := errors.New("undone")
	for _, inTx := range []bool{true, false} {
		db := open(t, "", nil)
		f := reserveLogged(t, db, 1<<20, 100, 0.01)
		addRange(t, f, 0, 100, 0.01)
		var added []uint64
		command := func(w *kv.Writer, f *bloomext.Filter, from int, result error) error {
			list := make([][]byte, 100)
			for i := range list {
				b := scalableext.Uint64(uint64(from + i))
				list[i] = b[:]
				if result == nil {
					added = append(added, uint64(from+i))
				}
			}
			var err error
			if from%200 == 0 {
				_, err = f.AddStaged(w, list, make([]bool, len(list)))
			} else {
				_, err = f.AddFitting(w, list, make([]bool, len(list)), len(list))
			}
			if err != nil {
				return err
			}
			return result
		}
		err := db.Write(kv.NoSync, [][]byte{[]byte("f")}, func(w *kv.Writer) error { return command(w, f, 500, nil) }) // nobody calls Added
		if err != nil {
			t.Fatal(err)
		}
		if inTx {
			err = txntest.Update(t.Context(), db, kv.NoSync, func(tx *txntest.Tx) error {
				for n := 1000; n < 10_000; n += 100 {
					result := error(nil)
					if n%300 == 0 {
						result = undone
					}
					if err := tx.Write(func(w *kv.Writer) error { return command(w, f.In(tx), n, result) }); !errors.Is(err, result) {
						return err
					}
				}
				return nil
			})
		} else {
			err = db.Write(kv.NoSync, [][]byte{[]byte("f")}, func(w *kv.Writer) error {
				for n := 1000; n < 10_000; n += 100 {
					if err := command(w, f, n, nil); err != nil {
						return err
					}
				}
				return nil
			})
		}
		if err != nil {
			t.Fatal(err)
		}
		finds(t, f, 100)
		for _, item := range added {
			findsItem(t, f, item)
		}
		info, err := f.Info()
		if err != nil || len(info.Layers) > 3 || int(info.Items) < len(added)*49/50 || int(info.Items) > len(added)+100 {
			t.Errorf("in a transaction %t: %d layers, %d items of %d: %v", inTx, len(info.Layers), info.Items, len(added)+100, err)
		}
		compacts(t, db, 1000)
		for _, item := range added {
			findsItem(t, f, item)
		}
		checkWhole(t, db)
		closeDB(t, db)
	}
}

// A growth is ended before the log is, so that when the log has ended nearly all items that it had are in one layer.
func TestGrowth_ending(t *testing.T) {
	for _, size := range []int{7, 100, 600} {
		for _, limit := range []int{7000, 8000, 9000, 10_000, 11_000} { // hashes in the log
			db := open(t, "", nil)
			f := reserveLogged(t, db, 8*limit, 100, 0.01)
			for n, ended := 0, false; !ended; n += size {
				addRange(t, f, n, n+size, 0.01)
				info, err := f.Info()
				if err != nil {
					t.Fatal(err)
				}
				if ended = info.LogBytes == 0; ended && info.Layers[0].Capacity < uint64(limit)*85/100 {
					t.Errorf("a log for %d items, batches of %d: at its end the filter has %d items, and %d layers, the first for %d", limit, size, info.Items, len(info.Layers), info.Layers[0].Capacity)
				}
			}
			closeDB(t, db)
		}
	}

	// A transaction leaves a small layer with much room.
	db := open(t, "", nil)
	defer closeDB(t, db)
	f := reserveLogged(t, db, 8*7300, 100, 0.01)
	addRange(t, f, 0, 5000, 0.01)
	compacts(t, db, 1000)
	if err := txntest.Update(t.Context(), db, kv.NoSync, func(tx *txntest.Tx) error {
		for i := range uint64(2200) {
			if _, err := f.In(tx).Add(scalableext.Uint64(5000 + i)); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for n := 7200; ; n++ {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.LogBytes == 0 {
			if l := info.Layers[0]; l.Capacity < 7200 {
				t.Errorf("a log for 7300 items: at its end the filter has %d layers, the first for %d", len(info.Layers), l.Capacity)
			}
			break
		}
		addRange(t, f, n, n+1, 0.01)
	}
}

// A filter whose log ends early grows by layers that leave each other enough of the rate.
func TestGrowth_shortLog(t *testing.T) {
	db := open(t, "", nil)
	defer db.Close()
	bits := make(map[int64]float64)
	for _, log := range []int64{-1, 1000, 80_000} {
		f := bloomext.New(db, fmt.Sprint("f", log)).With(kv.NoSync)
		config := bloomext.Config{Capacity: 100, ErrorRate: 0.01, GrowthLog: log}
		if err := f.Reserve(config); err != nil {
			t.Fatal(err)
		}
		const n = 200_000
		for i := 0; i < n; i += 20 {
			addRange(t, f, i, i+20, 0.01)
		}
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		planned, err := config.Planned(n)
		if err != nil {
			t.Fatal(err)
		}
		room, plannedRoom := uint64(0), uint64(0)
		for _, l := range info.Layers {
			room += l.Capacity
		}
		for _, l := range planned.Layers {
			plannedRoom += l.Capacity
		}
		bits[log] = float64(info.Bytes) * 8 / float64(room)
		of := float64(planned.Bytes) * 8 / float64(plannedRoom)
		t.Logf("growth log %d: %.1f bits an item of the room in %d layers, %.1f planned", log, bits[log], len(info.Layers), of)
		if ratio := bits[log] / of; ratio > 1.1 || ratio < 0.9 || info.ExpectedRate > 0.0102 {
			t.Errorf("growth log %d: %.1f bits an item of the room, %.1f planned; an expected rate of %v", log, bits[log], of, info.ExpectedRate)
		}
	}
	if bits[1000] > bits[-1] || bits[80_000] > 17 {
		t.Errorf("bits an item of the room: %v", bits)
	}
}

// After the end of its log a default filter takes 20 bits for an item of 100 to 1,000 million, on average over all numbers.
func TestGrowth_afterLog(t *testing.T) {
	for _, tt := range []struct {
		from, rate    float64 // from so many items to ten times as many
		average, most float64 // bits
	}{
		{1e2, 0.01, 14, 18}, {1e3, 0.01, 12, 13.5}, {1e5, 0.01, 12, 13.5},
		{1e7, 0.01, 20, 25}, {1e8, 0.01, 20, 25}, {1e9, 0.01, 22, 28},
		{1e8, 0.1, 15, 18}, {1e8, 0.001, 27, 33}, {1e8, 1e-6, 46, 57},
	} {
		const points = 100
		sum, most := 0.0, 0.0
		for i := range points {
			items := uint64(tt.from * math.Pow(10, (float64(i)+0.5)/points))
			planned, err := bloomext.Config{Capacity: 100, ErrorRate: tt.rate}.Planned(items)
			if err != nil || planned.ExpectedRate > tt.rate {
				t.Fatalf("%d items: a rate of %v: %v", items, planned.ExpectedRate, err)
			}
			bits := float64(planned.Bytes) * 8 / float64(items)
			sum, most = sum+bits, max(most, bits)
		}
		t.Logf("from %g items on at %g: %.1f bits an item, %.1f at most", tt.from, tt.rate, sum/points, most)
		if sum/points > tt.average || most > tt.most {
			t.Errorf("from %g items on at %g: %.1f bits an item, %.1f at most, want %v and %v", tt.from, tt.rate, sum/points, most, tt.average, tt.most)
		}
	}
}

// growing is a filter with few items and a log, and an absent item that it seems to have.
func growing(t *testing.T, db *kv.DB) (f *bloomext.Filter, seeming uint64) {
	t.Helper()
	logBytes(t, db, 1<<20)
	f = bloomext.New(db, "f").With(kv.NoSync)
	if err := f.Reserve(bloomext.Config{Capacity: 100, ErrorRate: 0.2}); err != nil {
		t.Fatal(err)
	}
	addRange(t, f, 0, 100, 0.2)
	return f, seems(t, f, 1<<40)
}

// seems returns an item, none below from, that was not added and seems to be there.
func seems(t *testing.T, f *bloomext.Filter, from uint64) uint64 {
	t.Helper()
	for item := from; ; item++ {
		if found, err := f.MayContain(scalableext.Uint64(item)); err != nil {
			t.Fatal(err)
		} else if found {
			return item
		}
	}
}

// grows adds items until the layers that there are have been replaced.
func grows(t *testing.T, db *kv.DB, f *bloomext.Filter, from int) {
	t.Helper()
	addRange(t, f, from, from+1000, 0.2)
	compacts(t, db, 1000)
	info, err := f.Info()
	if err != nil || len(info.Layers) > 2 || info.LogBytes == 0 || info.Filling != 0 {
		t.Fatalf("%d layers, a log of %d bytes, filling %d: %v", len(info.Layers), info.LogBytes, info.Filling, err)
	}
}

func findsItem(t *testing.T, f *bloomext.Filter, item uint64) {
	t.Helper()
	if found, err := f.MayContain(scalableext.Uint64(item)); !found || err != nil {
		t.Fatalf("item %d is found %t: %v", item, found, err)
	}
}

// An item that seems to be known when it is added is there after the growth, however it is added.
func TestGrowth_seeming(t *testing.T) {
	for name, add := range map[string]func(*kv.DB, *bloomext.Filter, uint64) error{
		"one": func(_ *kv.DB, f *bloomext.Filter, item uint64) error {
			_, err := f.Add(scalableext.Uint64(item))
			return err
		},
		"by a command that has no handle": func(db *kv.DB, _ *bloomext.Filter, item uint64) error {
			b := scalableext.Uint64(item)
			return module.NewSession(db).Do(context.Background(), [][]byte{[]byte("BF.ADD"), []byte("f"), b[:]}).Err()
		},
		"many": func(_ *kv.DB, f *bloomext.Filter, item uint64) error {
			_, err := f.AddMany(scalableext.Uint64s([]uint64{1, item, 2}...), nil)
			return err
		},
		"series": func(db *kv.DB, _ *bloomext.Filter, item uint64) error { return addSeries(db, 1, item, 2) },
		"fitting": func(db *kv.DB, f *bloomext.Filter, item uint64) error {
			return db.Write(kv.NoSync, [][]byte{[]byte("f")}, func(w *kv.Writer) error {
				known, b := scalableext.Uint64(1), scalableext.Uint64(item)
				items := [][]byte{b[:]}
				for range 1 << 17 { // more than have room in the commit if all were new
					items = append(items, known[:])
				}
				_, err := f.AddFitting(w, items, make([]bool, len(items)), 1)
				return err
			})
		},
		"in a transaction": func(db *kv.DB, f *bloomext.Filter, item uint64) error {
			return txntest.Update(context.Background(), db, kv.NoSync, func(tx *txntest.Tx) error {
				_, err := f.In(tx).Add(scalableext.Uint64(item))
				return err
			})
		},
		"in a transaction, and again": func(db *kv.DB, f *bloomext.Filter, item uint64) error {
			undone := errors.New("undone")
			if err := txntest.Update(context.Background(), db, kv.NoSync, func(tx *txntest.Tx) error {
				if _, err := f.In(tx).Add(scalableext.Uint64(item)); err != nil {
					return err
				}
				return undone
			}); !errors.Is(err, undone) {
				return err
			}
			_, err := f.Add(scalableext.Uint64(item))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := open(t, "", nil)
			defer db.Close()
			f, item := growing(t, db)
			for range 2 { // the second time the log surely has it
				if err := add(db, f, item); err != nil {
					t.Fatal(err)
				}
			}
			grows(t, db, f, 100)
			findsItem(t, f, item)
			item = seems(t, f, item+1)
			if err := add(db, f, item); err != nil {
				t.Fatal(err)
			}
			grows(t, db, f, 1100)
			findsItem(t, f, item)
			finds(t, f, 2100)
		})
	}
}

// addSeries adds items by BF.ADDs that follow each other in a pipeline.
func addSeries(db *kv.DB, items ...uint64) error {
	session := module.NewSession(db)
	for _, cmd := range module.Of(db).Commands() {
		if cmd.Name != "BF.ADD" {
			continue
		}
		var calls module.Series
		for _, item := range items {
			b := scalableext.Uint64(item)
			calls.Add([][]byte{[]byte("BF.ADD"), []byte("f"), b[:]})
		}
		session.DoSeries(context.Background(), cmd, &calls)
		for _, r := range calls.Replies {
			if r.IsError() {
				return r.Err()
			}
		}
	}
	return nil
}

// An item that comes again and again is in the log only a few times, and an item of a layer that the log does not cover
// never.
func TestGrowth_again(t *testing.T) {
	db := open(t, "", nil)
	defer db.Close()
	f, item := growing(t, db)
	length := func() uint64 {
		t.Helper()
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		return info.LogBytes / 8
	}
	before := length()
	for range 1000 {
		if isNew, err := f.Add(scalableext.Uint64(item)); isNew || err != nil {
			t.Fatal(isNew, err)
		}
	}
	if n := length() - before; n != 1 {
		t.Errorf("an item added 1000 times is in the log %d times, want once", n)
	}
	f = bloomext.New(db, "g").With(kv.NoSync)
	if err := f.Reserve(bloomext.Config{Capacity: 2000, ErrorRate: 0.01}); err != nil {
		t.Fatal(err)
	}
	addRange(t, f, 0, 3000, 0.01)
	before = length()
	if before < 900 || before > 1100 {
		t.Errorf("the log has %d items, want about 1000, those above 2000", before)
	}
	addAll := func(from, to uint64) {
		items := make([]uint64, to-from)
		for i := range items {
			items[i] = from + uint64(i)
		}
		for range 2 {
			if n, err := f.AddMany(scalableext.Uint64s(items...), nil); n > 0 || err != nil {
				t.Fatal(n, err)
			}
		}
		for _, item := range items {
			if isNew, err := f.Add(scalableext.Uint64(item)); isNew || err != nil {
				t.Fatal(isNew, err)
			}
		}
	}
	addAll(0, 1900)
	if n := length(); n != before {
		t.Errorf("the log grows by %d items that a layer has that it does not cover", n-before)
	}
	again := make([]uint64, 900)
	for i := range again {
		again[i] = 2100 + uint64(i)
	}
	for range 12 { // a log that is much longer than the filter has items is made anew
		if n, err := f.AddMany(scalableext.Uint64s(again...), nil); n > 0 || err != nil {
			t.Fatal(n, err)
		}
	}
	if n := length(); n < before || n > 3*before+3000 {
		t.Errorf("after 10,800 adds of 900 items the log has %d, want %d to %d", n, before, 3*before+3000)
	}
	if err := txntest.Update(t.Context(), db, kv.NoSync, func(tx *txntest.Tx) error { // in which it cannot be
		for range 12 {
			if n, err := f.In(tx).AddMany(scalableext.Uint64s(again...), nil); n > 0 || err != nil {
				t.Error(n, err)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if n := length(); n != 0 {
		t.Errorf("after 10,800 adds of 900 items in a transaction the log has %d, want none", n)
	}
	addAll(2100, 3000)
	addRange(t, f, 3000, 9000, 0.01)
	compacts(t, db, 1000)
	finds(t, f, 9000)
}

// A layer with items that the log does not have stays, and what came later is built anew.
func TestGrowth_base(t *testing.T) {
	db := open(t, "", nil)
	defer db.Close()
	f := reserveLogged(t, db, 1<<20, 2000, 0.05)
	most := 0
	filled := map[uint64]bool{} // capacities of layers that were filled
	for n := 0; n < 20_000; n += 100 {
		addRange(t, f, n, n+100, 0.05)
		compacts(t, db, 1000)
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		if n >= 2200 && info.LogBytes == 0 || n < 1900 && info.LogBytes > 0 || info.Layers[0].Capacity != 2000 || info.ExpectedRate > mostRate(info) {
			t.Fatalf("%d items: a log of %d bytes, first layer for %d, rate %v", n, info.LogBytes, info.Layers[0].Capacity, info.ExpectedRate)
		}
		most = max(most, len(info.Layers))
		if len(info.Layers) == 2 {
			filled[info.Layers[1].Capacity] = true
		}
	}
	finds(t, f, 20_000)
	if most > 4 || len(filled) > 13 {
		t.Errorf("%d layers, %d of them filled one after the other, want 4 and 13 at most", most, len(filled))
	}
	for again := true; again; { // until the log has been made anew
		before, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		addRange(t, f, 2000, 20_000, 1)
		compacts(t, db, 1000)
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		again = info.LogBytes > before.LogBytes
		if covered := info.LogBytes / 8; !again && (len(info.Layers) != 2 || info.Layers[1].Capacity < covered+(2000+covered)/4-10) {
			t.Errorf("made anew of %d hashes: %d layers, the second for %d", covered, len(info.Layers), info.Layers[1].Capacity)
		}
	}
	finds(t, f, 20_000)
}

// When the log would become too long it is dropped, also while a layer is filled from it, and the filter grows by layers.
func TestGrowth_limit(t *testing.T) {
	for _, limit := range []int{1, 801, 5000, 40_000} {
		for _, steps := range []int{0, 1, 1000} {
			t.Run(fmt.Sprint(limit, " ", steps), func(t *testing.T) {
				db := open(t, "", nil)
				defer db.Close()
				f := reserveLogged(t, db, limit, 100, 0.05)
				dropped := false
				for n := 0; n < 10_000; n += 50 {
					addRange(t, f, n, n+50, 0.05)
					compacts(t, db, steps)
					info, err := f.Info()
					if err != nil {
						t.Fatal(err)
					}
					if info.LogBytes > uint64(limit) || dropped && (info.LogBytes > 0 || info.Filling != 0) || info.ExpectedRate > mostRate(info) {
						t.Fatalf("a log of %d bytes, filling %d, rate %v", info.LogBytes, info.Filling, info.ExpectedRate)
					}
					dropped = info.LogBytes == 0
				}
				finds(t, f, 10_000)
				if got := measuredRate(t, f, 20_000); got > 0.055 || !dropped {
					t.Errorf("measured rate %v, log dropped %t", got, dropped)
				}
				report, err := db.Check(t.Context())
				if err != nil || len(report.Problems) > 0 {
					t.Errorf("check: %v, %v", report, err)
				}
			})
		}
	}
}

// The log takes no memory, and the hashes of its items little of Pebble's log.
func TestGrowth_costs(t *testing.T) {
	const items = 100_000
	written := make(map[int]uint64)
	for _, limit := range []int{0, 1 << 20} {
		for _, level := range []kv.Durability{kv.NoSync, kv.Always} {
			db := open(t, t.TempDir(), &kv.Options{BallastSize: -1})
			logBytes(t, db, limit)
			f := bloomext.New(db, "f").With(level)
			if err := f.Reserve(bloomext.Config{Capacity: 1000, ErrorRate: 0.01}); err != nil {
				t.Fatal(err)
			}
			n := uint64(1000)
			if level == kv.NoSync {
				n = items
			}
			before, err := db.LogBytesWritten()
			if err != nil {
				t.Fatal(err)
			}
			for i := range n {
				if _, err := f.Add(scalableext.Uint64(i)); err != nil {
					t.Fatal(err)
				}
				if i%1000 == 999 {
					compacts(t, db, 1000)
				}
			}
			after, err := db.LogBytesWritten()
			if err != nil {
				t.Fatal(err)
			}
			info, err := f.Info()
			if err != nil {
				t.Fatal(err)
			}
			if level == kv.NoSync {
				written[limit] = after - before
			}
			m, err := db.Metrics()
			if want := info.LogBytes; err != nil || m.GrowthLogBytes != want {
				t.Errorf("%d bytes were logged in a log of %d: %v", m.GrowthLogBytes, want, err)
			}
			t.Logf("log of %d bytes, %v: %.1f bytes an add in Pebble's log, %d bytes of the filter on disk, %d in memory, of %d", info.LogBytes, level,
				float64(after-before)/float64(n), info.DiskBytes, info.ResidentBytes, info.Bytes)
			if info.ResidentBytes > info.Bytes {
				t.Errorf("%d bytes are in memory, of a filter of %d", info.ResidentBytes, info.Bytes)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// What the log takes is told apart from what the filter takes.
func TestGrowth_told(t *testing.T) {
	db := open(t, "", nil)
	defer db.Close()
	f, _ := growing(t, db)
	grows(t, db, f, 100)
	info, err := f.Info()
	if err != nil {
		t.Fatal(err)
	}
	do := func(words ...string) reply.Reply {
		t.Helper()
		args := make([][]byte, len(words))
		for i, word := range words {
			args[i] = []byte(word)
		}
		r := module.NewSession(db).Do(t.Context(), args)
		if r.IsError() {
			t.Fatal(r.Err())
		}
		return r
	}
	if n := do("MEMORY", "USAGE", "f").Int(); n < int64(info.Bytes) || n > int64(info.Bytes)+1000 {
		t.Errorf("MEMORY USAGE answers %d, want little more than %d", n, info.Bytes)
	}
	if n := len(do("BF.DEBUG", "f").Elems()) - 1; n != len(info.Layers) {
		t.Errorf("BF.DEBUG answers %d layers, want %d", n, len(info.Layers))
	}
	if err := db.View(t.Context(), func(tx *kv.Transaction) error {
		return tx.Read(func(r kv.Reader) error {
			s, err := r.Stats([]byte("f"))
			if err != nil || s.Bytes != info.Bytes {
				t.Errorf("%d bytes, want %d: %v", s.Bytes, info.Bytes, err)
			}
			for _, fact := range s.Facts {
				if fact.Name == "log_bytes" && fact.Value == info.LogBytes && info.LogBytes > 8*1000 {
					return nil
				}
			}
			t.Errorf("no log of %d bytes in %v", info.LogBytes, s.Facts)
			return nil
		})
	}); err != nil {
		t.Fatal(err)
	}
}

// A dump of a filter while it grows has no log, and all items.
func TestGrowth_dump(t *testing.T) {
	db := open(t, "", nil)
	defer db.Close()
	logBytes(t, db, 1<<20)
	session := module.NewSession(db)
	f, g := bloomext.New(db, "f").With(kv.NoSync), bloomext.New(db, "g").With(kv.NoSync)
	if err := f.Reserve(bloomext.Config{Group: "g", Capacity: 100, ErrorRate: 0.05}); err != nil {
		t.Fatal(err)
	}
	for n := 0; n < 2000; n += 37 {
		addRange(t, f, n, n+37, 0.05)
		compacts(t, db, n%2)
		if _, err := g.Drop(); err != nil {
			t.Fatal(err)
		}
		for iter := int64(0); ; {
			r := session.Do(t.Context(), [][]byte{[]byte("BF.SCANDUMP"), []byte("f"), fmt.Append(nil, iter)})
			if r.IsError() {
				t.Fatal(r.Err())
			}
			iter = r.Elems()[0].Int()
			if iter == 0 {
				break
			}
			if r := session.Do(t.Context(), [][]byte{[]byte("BF.LOADCHUNK"), []byte("g"), fmt.Append(nil, iter), r.Elems()[1].Bytes()}); r.IsError() {
				t.Fatal(r.Err())
			}
		}
		finds(t, g, uint64(n+37))
		addRange(t, g, n+37, n+300, 0.05)
		compacts(t, db, n%2)
		finds(t, g, uint64(n+300))
		info, err := g.Info()
		if err != nil || info.LogBytes != 0 || info.Filling != 0 || info.ExpectedRate > mostRate(info) {
			t.Fatalf("a log of %d bytes, filling %d, rate %v: %v", info.LogBytes, info.Filling, info.ExpectedRate, err)
		}
	}
}

// A filter that was salvaged without all of its blocks does not grow from its log, which may lack some, too. If it is older than the
// log that it was salvaged with, it is sound all the same.
func TestGrowth_lossy(t *testing.T) {
	for _, c := range []struct{ filling, older bool }{{true, false}, {false, false}, {false, true}} {
		db := open(t, "", nil)
		f := reserveLogged(t, db, 1<<20, 100, 0.05)
		addRange(t, f, 0, 99, 0.05)
		if c.filling || c.older {
			addRange(t, f, 99, 120, 0.05)
		}
		g := copyTo(t, db, "g", true, c.older, func(l *kv.Layer, _ int, n uint64) uint64 {
			if c.older && l.Spec().Layout == kv.LayoutLog {
				return min(n, 1)
			}
			return n
		})
		if report, err := db.Check(t.Context()); err != nil || len(report.Problems) > 0 {
			t.Errorf("check: %v, %v", report.Problems, err)
		}
		db.QueueCompact([]byte("g"))
		compacts(t, db, 1000)
		addRange(t, g, 120, 5000, 0.05)
		compacts(t, db, 1000)
		finds(t, g, 99)
		if info, err := g.Info(); err != nil || info.LogBytes > 0 || !info.Lossy {
			t.Errorf("a log of %d bytes, lossy %t: %v", info.LogBytes, info.Lossy, err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A filter that is made anew keeps room for as many items as were asked for.
func TestGrowth_longOfFew(t *testing.T) {
	db := open(t, "", nil)
	defer closeDB(t, db)
	f := reserveLogged(t, db, 1<<20, 1000, 0.25)
	addRange(t, f, 0, 100, 0.25)
	item, before := uint64(1<<40), objectOf(t, db).ID()
	for range 360 {
		item = seems(t, f, item+1)
		if _, err := f.Add(scalableext.Uint64(item)); err != nil {
			t.Fatal(err)
		}
	}
	compacts(t, db, 10)
	info, err := f.Info()
	if err != nil || objectOf(t, db).ID() == before || info.Layers[0].Capacity != 1000 {
		t.Errorf("%+v, %v: want one made anew for 1000 items", info, err)
	}
}

// longLogged makes the filter f with 400 items and a log that is to be made anew.
func longLogged(t *testing.T, db *kv.DB) bloomext.Info {
	t.Helper()
	f := reserveLogged(t, db, 1<<20, 100, 0.05)
	addRange(t, f, 0, 400, 0.05)
	compacts(t, db, 1000)
	again := make([]uint64, 400)
	for i := range again {
		again[i] = uint64(i)
	}
	for range 3 {
		if _, err := f.AddMany(scalableext.Uint64s(again...), nil); err != nil {
			t.Fatal(err)
		}
	}
	info, err := f.Info()
	if err != nil || info.LogBytes < 8*(2*400+256) || info.Filling > 0 {
		t.Fatalf("%+v, %v: want a long log", info, err)
	}
	return info
}

// A filter whose log may lack items is not made anew from it when the log has become long: the log ends. So does that of a filter
// with a rate that no new one has: nearly all items would seem known, and the log would be long again at once.
func TestGrowth_longEnds(t *testing.T) {
	rate := func(r float64) []byte { return binary.LittleEndian.AppendUint64(nil, math.Float64bits(r)) }
	for name, change := range map[string]func(s *kv.Spec){
		"lossy":     func(s *kv.Spec) { s.Lossy = true },
		"high rate": func(s *kv.Spec) { s.Params = bytes.Replace(s.Params, rate(0.05), rate(0.9), 1) },
	} {
		db := open(t, "", nil)
		before := longLogged(t, db)
		g := copyFrom(t, db, "f", "g", change, name == "high rate", asCounted)
		db.QueueCompact([]byte("g"))
		compacts(t, db, 1000)
		finds(t, g, 400)
		if info, err := g.Info(); err != nil || info.LogBytes > 0 || len(info.Layers) != len(before.Layers) {
			t.Errorf("%s: %+v, %v: want the layers of before, and no log", name, info, err)
		}
		isSound(t, db)
		closeDB(t, db)
	}
}

// copyTo makes a filter as the one under f is: with each counter that counter returns in place of n, and without what the log has
// unless logged.
func copyTo(t *testing.T, db *kv.DB, key string, lossy, logged bool, counter func(l *kv.Layer, i int, n uint64) uint64) *bloomext.Filter {
	t.Helper()
	return copyFrom(t, db, "f", key, func(s *kv.Spec) { s.Lossy = lossy }, logged, counter)
}

// copyFrom is copyTo for the filter under any key, and changes what the copy is made of.
func copyFrom(t *testing.T, db *kv.DB, from, key string, change func(s *kv.Spec), logged bool, counter func(l *kv.Layer, i int, n uint64) uint64) *bloomext.Filter {
	t.Helper()
	err := db.Write(kv.NoSync, [][]byte{[]byte(from), []byte(key)}, func(w *kv.Writer) error {
		o, err := w.Object([]byte(from))
		if err != nil {
			return err
		}
		h := o.Header()
		s := kv.Spec{Type: bloomext.Module().Types[0], Family: h.Family, Layers: h.Layers, Params: h.Params}
		change(&s)
		_, err = w.Build(t.Context(), []byte(key), s, func(b *kv.Builder) error {
			for i, l := range b.Object().Layers() {
				for c := range 8 {
					w.SetCounter(l, c, counter(l, c, w.Counter(o.Layers()[i], c)))
				}
				if l.Spec().Layout == kv.LayoutLog && !logged {
					continue
				}
				words := make([]uint64, int(l.Spec().Lines)*8)
				for blk := range l.Spec().Blocks {
					if err := errors.Join(w.ReadBlock(o, o.Layers()[i], blk, words), b.Put(l, blk, words)); err != nil {
						return err
					}
				}
			}
			return nil
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return bloomext.New(db, key).With(kv.NoSync)
}

// asCounted keeps the counters of copyTo.
func asCounted(_ *kv.Layer, _ int, n uint64) uint64 { return n }

// A log that has many hashes several times is made anew, in one commit, and the filter with it: it loses no item, keeps the
// layers that the log does not cover, its expiry, and what it does not know of.
func TestGrowth_long(t *testing.T) {
	for _, capacity := range []uint64{100, 2000} {
		db := open(t, "", &kv.Options{InMemory: true, Seed: 4})
		logBytes(t, db, 1<<20)
		f := bloomext.New(db, "f").With(kv.NoSync)
		if err := f.Reserve(bloomext.Config{Capacity: capacity, ErrorRate: 0.1, TTL: time.Hour}); err != nil {
			t.Fatal(err)
		}
		const items = 3000
		addRange(t, f, 0, items, 0.1)
		compacts(t, db, 1000)
		seeming := seems(t, f, 1<<40)
		if _, err := f.Add(scalableext.Uint64(seeming)); err != nil {
			t.Fatal(err)
		}
		all := make([]uint64, items)
		for i := range all {
			all[i] = uint64(i)
		}
		shorter, longest := 0, uint64(0)
		for range 30 {
			before, err := f.Info()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.AddMany(scalableext.Uint64s(all...), nil); err != nil {
				t.Fatal(err)
			}
			compacts(t, db, 1000)
			after, err := f.Info()
			if err != nil {
				t.Fatal(err)
			}
			if after.LogBytes < before.LogBytes {
				shorter++
			}
			longest = max(longest, after.LogBytes/8)
			if after.LogBytes == 0 || after.ExpectedRate > mostRate(after) || after.ExpiresAt.IsZero() || after.Layers[0].Capacity != capacity && capacity == 2000 {
				t.Fatalf("capacity %d: after adding all items again: %+v", capacity, after)
			}
			finds(t, f, items)
			findsItem(t, f, seeming)
		}
		if shorter < 5 || longest > 3*items {
			t.Errorf("capacity %d: the log got shorter %d times, and had at most %d hashes", capacity, shorter, longest)
		}
		grows(t, db, f, items)
		findsItem(t, f, seeming)
		finds(t, f, items+1000)
		if got := measuredRate(t, f, 20_000); got > 0.11 {
			t.Errorf("measured rate %v", got)
		}
		checkWhole(t, db)
		closeDB(t, db)
	}
}

// Where no service makes a log anew in time, adds do: known items that come again never end it.
func TestGrowth_longAlone(t *testing.T) {
	for _, c := range []struct {
		limit        int
		items, batch uint64
	}{{1 << 20, 90, 90}, {16 << 10, 1000, 50}} {
		db := open(t, "", &kv.Options{InMemory: true, Seed: 4})
		f := reserveLogged(t, db, c.limit, 100, 0.01)
		addRange(t, f, 0, int(c.items), 0.01)
		compacts(t, db, 1000)
		longest := uint64(0)
		for at := range 20_000 / c.batch {
			again := make([]uint64, c.batch)
			for i := range again {
				again[i] = (at*c.batch + uint64(i)) % c.items
			}
			if _, err := f.AddMany(scalableext.Uint64s(again...), nil); err != nil {
				t.Fatal(err)
			}
			info, err := f.Info()
			if err != nil {
				t.Fatal(err)
			}
			if info.LogBytes == 0 {
				t.Fatalf("%+v: the log has ended", c)
			}
			longest = max(longest, info.LogBytes/8)
		}
		if most := min(3*c.items+2048+c.batch, uint64(c.limit)/8); longest > most || longest < c.items {
			t.Errorf("%+v: the log had up to %d hashes, want %d at most", c, longest, most)
		}
		finds(t, f, c.items)
		checkWhole(t, db)
		closeDB(t, db)
	}
}

// Items that seem to be known and are all different make a filter anew a few times, each time with room for more of them.
func TestGrowth_longOfSeeming(t *testing.T) {
	db := open(t, "", nil)
	defer db.Close()
	f, item := growing(t, db)
	const n = 2000
	var items []uint64
	anew, last := -1, uint64(0)
	for item = seems(t, f, item); len(items) < n; item = seems(t, f, item+1) {
		if _, err := f.Add(scalableext.Uint64(item)); err != nil {
			t.Fatal(err)
		}
		items = append(items, item)
		compacts(t, db, 10)
		o, err := db.Lookup([]byte("f"))
		if err != nil {
			t.Fatal(err)
		}
		if o.ID() != last {
			last, anew = o.ID(), anew+1
		}
	}
	info, err := f.Info()
	if err != nil || info.LogBytes != 8*(n+100) || anew < 2 || anew > 8 || len(info.Layers) > 3 || info.Items < n/2 {
		t.Errorf("made anew %d times: %+v, %v", anew, info, err)
	}
	finds(t, f, 100)
	for _, item := range items {
		findsItem(t, f, item)
	}
	if got := measuredRate(t, f, 20_000); got > 0.21 {
		t.Errorf("measured rate %v", got)
	}
	checkWhole(t, db)
}

// Filters that have grown differently are merged by their logs.
func TestMerge_logs(t *testing.T) {
	db := open(t, "", nil)
	defer closeDB(t, db)
	logBytes(t, db, 1<<20)
	make := func(key string, from, to int) *bloomext.Filter {
		f := bloomext.New(db, key).With(kv.NoSync)
		if err := f.Reserve(bloomext.Config{Group: "g", Capacity: 100, ErrorRate: 0.05}); err != nil {
			t.Fatal(err)
		}
		addRange(t, f, from, to, 0.05)
		return f
	}
	a, b, c := make("a", 0, 150), make("b", 100, 5000), make("c", 5000, 5010) // a and b while they are filled, perhaps
	seeming := seems(t, b, 1<<40)
	if _, err := b.Add(scalableext.Uint64(seeming)); err != nil {
		t.Fatal(err)
	}
	if err := a.Merge(t.Context(), b, c, a); err != nil {
		t.Fatal(err)
	}
	finds(t, a, 5010)
	findsItem(t, a, seeming)
	info, err := a.Info()
	if err != nil || len(info.Layers) != 1 || info.Items < 4800 || info.Items > 5011 || info.LogBytes < 8*5000 || info.LogBytes > 8*5011 || info.ItemsEstimated {
		t.Errorf("the union is %+v: %v", info, err)
	}
	if got := measuredRate(t, a, 20_000); got > 0.055 {
		t.Errorf("measured rate %v", got)
	}
	grows(t, db, a, 5010)
	finds(t, a, 6010)
	findsItem(t, a, seeming)
	checkWhole(t, db)

	// In a transaction, with what it has added.
	x, y := make("x", 0, 120), make("y", 200, 700)
	if err := txntest.Update(t.Context(), db, kv.NoSync, func(tx *txntest.Tx) error {
		for i := range uint64(300) {
			if _, err := y.In(tx).Add(scalableext.Uint64(10_000 + i)); err != nil {
				return err
			}
		}
		if _, err := x.In(tx).Add(scalableext.Uint64(20_000)); err != nil {
			return err
		}
		return x.In(tx).Merge(t.Context(), y.In(tx))
	}); err != nil {
		t.Fatal(err)
	}
	grows(t, db, x, 1000)
	for item := range uint64(20_001) {
		if item < 120 || item >= 200 && item < 700 || item >= 10_000 && item < 10_300 || item == 20_000 {
			findsItem(t, x, item)
		}
	}

	// The logs do not cover the first layers, which are united. The union goes on with a log.
	large := func(key string, from, to int) *bloomext.Filter {
		f := bloomext.New(db, key).With(kv.NoSync)
		if err := f.Reserve(bloomext.Config{Group: "g", Capacity: 2000, ErrorRate: 0.05}); err != nil {
			t.Fatal(err)
		}
		addRange(t, f, from, to, 0.05)
		return f
	}
	for _, tt := range []struct {
		name          string
		a, b          [2]int // ranges of items
		items, logged int    // of the union, and those in its log, about
		layers        int
	}{
		{"h", [2]int{0, 900}, [2]int{500, 1500}, 1500, 0, 1},
		{"i", [2]int{0, 1200}, [2]int{0, 2700}, 2700, 700, 2},
		{"j", [2]int{0, 3000}, [2]int{0, 2500}, 3000, 1000, 2},
	} {
		u, other := large(tt.name, tt.a[0], tt.a[1]), large(tt.name+"2", tt.b[0], tt.b[1])
		if err := u.Merge(t.Context(), other); err != nil {
			t.Fatal(tt.name, err)
		}
		finds(t, u, uint64(tt.items))
		info, err := u.Info()
		if err != nil || len(info.Layers) != tt.layers || info.GrowthLog == 0 || int(info.LogBytes) < 8*(tt.logged-100) || int(info.LogBytes) > 8*tt.logged+800 {
			t.Errorf("%s: %+v, %v", tt.name, info, err)
		}
		if got := measuredRate(t, u, 20_000); got > 0.055 {
			t.Errorf("%s: measured rate %v", tt.name, got)
		}
		grows(t, db, u, tt.items)
		grows(t, db, u, tt.items+1000)
		finds(t, u, uint64(tt.items)+2000)
	}
	// Both have filled theirs with other items.
	if err := large("e", 0, 2100).Merge(t.Context(), large("g", 2100, 4200)); !errors.Is(err, scalableext.ErrRate) {
		t.Errorf("Merge = %v, want scalableext.ErrRate", err)
	}
	checkWhole(t, db)

	// One of them has no log: the items of the others' logs are put into its newest layer, whatever layers the others have.
	logBytes(t, db, 0)
	for _, n := range []int{50, 300, 7000} {
		d := bloomext.New(db, fmt.Sprint("d", n)).With(kv.NoSync)
		if err := d.Reserve(bloomext.Config{Group: "g", Capacity: 100, ErrorRate: 0.05}); err != nil {
			t.Fatal(err)
		}
		addRange(t, d, 0, n, 0.05)
		before, err := d.Info()
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Merge(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		finds(t, d, uint64(n))
		findsItem(t, d, 5005)
		// b has grown to some 5,000 items.
		if err := d.Merge(t.Context(), b); (err == nil) != (n == 7000) || err != nil && !errors.Is(err, scalableext.ErrRate) {
			t.Errorf("%d items: Merge = %v", n, err)
		}
		if n == 7000 {
			finds(t, d, uint64(n))
		}
		if u, err := d.Info(); err != nil || u.GrowthLog != 0 || len(u.Layers) != len(before.Layers) || u.ExpectedRate > 0.05 {
			t.Errorf("the union is %+v, %v", u, err)
		}
		if got := measuredRate(t, d, 20_000); got > 0.055 {
			t.Errorf("measured rate %v", got)
		}
	}
	checkWhole(t, db)
}

// growsAndFinds has a filter grow, which must keep items that seemed to be known when they were added.
func growsAndFinds(t *testing.T, db *kv.DB, f *bloomext.Filter, items []uint64) {
	t.Helper()
	grows(t, db, f, 100)
	for _, item := range items {
		findsItem(t, f, item)
	}
}

// What a pipeline adds is remembered for the filter to which it was added: not for another that was made under the key
// meanwhile.
func TestGrowth_remembered(t *testing.T) {
	db := open(t, "", nil)
	defer db.Close()
	f, item := growing(t, db)
	before := bloomext.Logging(f)
	if _, err := f.Drop(); err != nil {
		t.Fatal(err)
	}
	f, _ = growing(t, db)
	var seeming []uint64
	for ; len(seeming) < 30; item++ {
		item = seems(t, f, item)
		bloomext.Remember(f, before, item)
		if _, err := f.Add(scalableext.Uint64(item)); err != nil {
			t.Fatal(err)
		}
		seeming = append(seeming, item)
	}
	growsAndFinds(t, db, f, seeming)
}

// Items that have the place of others in what is remembered are not taken for these.
func TestGrowth_places(t *testing.T) {
	db := open(t, "", nil)
	defer db.Close()
	f, item := growing(t, db)
	var seeming []uint64
	for ; len(seeming) < 30; item = seems(t, f, item+1) {
		for i := range uint64(100) { // one by one, so that they are remembered
			if _, err := f.Add(scalableext.Uint64(i)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := f.Add(scalableext.Uint64(item)); err != nil {
			t.Fatal(err)
		}
		seeming = append(seeming, item)
	}
	growsAndFinds(t, db, f, seeming)
}
