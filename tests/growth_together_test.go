package tests_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/internal/kvtest"
	"github.com/sievekv/sievekv/internal/txntest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/tests/faultfs"
)

// While a filter grows from its log, and goroutines add items one by one, many at a time, in transactions and again, every
// lookup finds every item whose add was acknowledged before: through one handle or several, one by one or many at a time, in
// a view, and from a cache in which few blocks have room.
func TestGrowth_together(t *testing.T) {
	const first, adders, each = 10, 3, 2500
	disk := kvtest.NewDisk()
	must(t, faultfs.MakeDir(disk))
	o := tinyOptions(disk)
	o.CacheSize, o.Durability = 32<<10, kv.NoSync
	db := open(t, storeDir, o)
	must(t, module.Of(db).SetSetting("growth-log-bytes", "10000000"))
	shared := bloomext.New(db, "f")
	must(t, shared.Reserve(bloomext.Config{Capacity: first, ErrorRate: 0.2}))
	var acknowledged [adders]atomic.Int64
	name := func(adder, n int) []byte { return item(adder*each + n) }
	var adding, others sync.WaitGroup
	var done atomic.Bool
	for a := range adders {
		adding.Go(func() {
			f, random := shared, rand.New(rand.NewPCG(uint64(a), 5))
			if a > 0 {
				f = bloomext.New(db, "f")
			}
			for n := 0; n < each; {
				var err error
				next := n + 1
				switch k := random.IntN(100); {
				case k < 70:
					_, err = f.Add(name(a, n))
				case k < 90 && n > 0:
					next = n
					_, err = f.Add(name(a, random.IntN(n)))
				case k < 95:
					next = min(each, n+random.IntN(100))
					var items [][]byte
					for i := n; i < next; i++ {
						items = append(items, name(a, i))
					}
					_, err = f.AddMany(items, nil)
				default:
					err = txntest.Update(t.Context(), db, kv.NoSync, func(tx *txntest.Tx) error {
						_, err := f.In(tx).Add(name(a, n))
						return err
					})
				}
				if err != nil {
					t.Error(err)
					return
				}
				for more := n/400 != next/400; more && err == nil; { // some growth ends while others add
					more, err = db.CompactQueued(t.Context(), 1<<12)
				}
				if err != nil {
					t.Error(err)
					return
				}
				n = next
				acknowledged[a].Store(int64(n))
			}
		})
	}
	others.Go(func() {
		for !done.Load() {
			if _, err := db.CompactQueued(t.Context(), 1<<11); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for reader := range 3 {
		others.Go(func() {
			f, random := shared, rand.New(rand.NewPCG(uint64(reader), 6))
			for !done.Load() {
				a := random.IntN(adders)
				known := int(acknowledged[a].Load())
				if known == 0 {
					continue
				}
				var items [][]byte
				for range 1 + random.IntN(20) {
					items = append(items, name(a, known-1-random.IntN(min(known, 1+random.IntN(known)))))
				}
				var err error
				present := make([]bool, len(items))
				switch reader {
				case 0:
					for i, item := range items {
						if present[i], err = f.MayContain(item); err != nil {
							break
						}
					}
				case 1:
					err = bloomext.New(db, "f").MayContainMany(items, present)
				default:
					err = txntest.View(t.Context(), db, func(s *txntest.Snapshot) error {
						return f.In(s).MayContainMany(items, present)
					})
				}
				for i, found := range present {
					if !found || err != nil {
						t.Errorf("reader %d: item %s of %d of adder %d is missing: %v", reader, items[i], known, a, err)
						return
					}
				}
			}
		})
	}
	adding.Wait()
	done.Store(true)
	others.Wait()
	for a := range adders {
		for n := range each {
			if found, err := shared.MayContain(name(a, n)); !found || err != nil {
				t.Fatalf("item %d of adder %d is missing at the end: %v", n, a, err)
			}
		}
	}
	info, err := shared.Info()
	must(t, err)
	if info.Layers[0].Capacity == first { // adds end growths if need be
		t.Errorf("the first layer, for %d items, was not replaced while others added", first)
	}
	for more := true; more; {
		if more, err = db.CompactQueued(t.Context(), 1<<20); err != nil {
			t.Fatal(err)
		}
	}
	info, err = shared.Info()
	must(t, err)
	if len(info.Layers) > 3 || info.Layers[0].Capacity < adders*each/2 {
		t.Errorf("%d layers, the first for %d items, want at most 3, and half of %d", len(info.Layers), info.Layers[0].Capacity, adders*each)
	}
	must(t, checkStore(db))
	must(t, db.Close())
}
