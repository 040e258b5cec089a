package tests_test

import (
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/internal/kvtest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/tests/faultfs"
)

// A crash after any commit of a growth, or in the middle of one, loses no item that was on stable storage. The growth goes on
// after opening, without an add: at its end there is one layer, with all items.
func TestCrash_growth(t *testing.T) {
	for name, c := range map[string]crashGrowth{
		"item by item":    {adds: 700, batch: 1, rate: 0.2, during: 50},
		"blocks in a row": {adds: 80, batch: 150, rate: 0.0001, during: 8}, // layers of several blocks are made in memory first
	} {
		t.Run(name, c.run)
	}
}

// crashGrowth is a growth to adds batches of items, with at least the given number of crashes while a layer is filled.
type crashGrowth struct {
	adds, batch int
	rate        float64
	during      int
}

func (c crashGrowth) run(t *testing.T) {
	t.Parallel()
	type shot struct {
		disk    *kvtest.Disk
		durable int // items on stable storage
	}
	disk := kvtest.NewDisk()
	must(t, faultfs.MakeDir(disk))
	rng := rand.New(rand.NewPCG(rand.Uint64(), 0)) // of the crashes
	drawn := rand.New(rand.NewPCG(1, 2))
	db := open(t, storeDir, tinyOptions(disk))
	must(t, module.Of(db).SetSetting("growth-log-bytes", "100000"))
	f := bloomext.New(db, "f")
	must(t, f.Reserve(bloomext.Config{Capacity: 10, ErrorRate: c.rate}))
	var shots []shot
	durable, n, filling := 0, 0, 0
	take := func() {
		info, err := f.Info()
		must(t, err)
		if info.Filling != 0 {
			filling++
		}
		shots = append(shots, shot{disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng}), durable})
	}
	for n < c.adds*c.batch {
		level := []kv.Durability{kv.Always, kv.NoSync}[drawn.IntN(2)]
		if drawn.IntN(3) > 0 {
			items := make([][]byte, c.batch)
			for i := range items {
				items[i] = item(n + i)
			}
			_, err := f.With(level).AddMany(items, nil)
			must(t, err)
			if n += c.batch; level == kv.Always {
				must(t, db.Sync()) // the items before it, too
				durable = n
			}
		} else {
			_, err := db.CompactQueued(t.Context(), 1)
			must(t, err)
		}
		take()
	}
	if filling < c.during {
		t.Errorf("a layer was filled at %d of %d crashes, want more", filling, len(shots))
	}
	for i, s := range shots {
		if i%6 > 0 && i < len(shots)-1 {
			continue // to save time
		}
		db := open(t, storeDir, tinyOptions(s.disk))
		f := bloomext.New(db, "f")
		look := func(when string, to int) {
			t.Helper()
			items, present := make([][]byte, to), make([]bool, to)
			for i := range items {
				items[i] = item(i)
			}
			if to > 0 {
				must(t, f.MayContainMany(items, present))
			}
			for j, found := range present {
				if !found {
					t.Fatalf("crash %d, %s: item %d of %d is missing", i, when, j, to)
				}
			}
		}
		if s.durable == 0 {
			must(t, db.Close())
			continue
		}
		look("opened", s.durable)
		must(t, checkStore(db))
		if i%2 == 0 { // what was lost is added again, and more
			for j := range 40 {
				_, err := f.Add(item(s.durable + j))
				must(t, err)
			}
			s.durable += 40
		}
		for {
			_, err := db.Wake(t.Context(), nil, 1)
			must(t, err)
			more, err := db.CompactQueued(t.Context(), 1)
			must(t, err)
			info, err := f.Info()
			must(t, err)
			look("being filled", s.durable)
			if info.Filling == 0 && !more {
				break
			}
		}
		look("filled", s.durable)
		must(t, checkStore(db))
		must(t, db.Close())
	}
}
