package bloomext_test

import (
	"fmt"
	"testing"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// BenchmarkAddMany fills filters by AddMany at level No, in slices of 16,384 items, and prints what an item costs.
func BenchmarkAddMany(b *testing.B) {
	const slice = 16384
	for _, c := range []bloomext.Config{
		{Capacity: 1e6, ErrorRate: 0.01, NonScaling: true},
		{Capacity: 3e7, ErrorRate: 0.01, NonScaling: true},
		{Capacity: 1e7, ErrorRate: 1e-6, NonScaling: true},
		{Capacity: 100, ErrorRate: 0.01}, // grows from 100
	} {
		b.Run(fmt.Sprintf("capacity=%d/rate=%g", c.Capacity, c.ErrorRate), func(b *testing.B) {
			db := open(b, b.TempDir(), &kv.Options{Durability: kv.NoSync, CacheSize: 256 << 20})
			defer func() { _ = db.Close() }()
			items := make([]uint64, slice)
			added, n := 0, uint64(0)
			before, _ := db.LogBytesWritten()
			for b.Loop() {
				f := bloomext.New(db, fmt.Sprint(added))
				if err := f.Reserve(c); err != nil {
					b.Fatal(err)
				}
				for total := 0; total < int(max(c.Capacity, 1e6))*9/10; total += slice {
					for i := range items {
						n++
						items[i] = n
					}
					if _, err := f.AddMany(scalableext.Uint64s(items...), nil); err != nil {
						b.Fatal(err)
					}
					added += slice
				}
				if _, err := f.Drop(); err != nil {
					b.Fatal(err)
				}
			}
			after, _ := db.LogBytesWritten()
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(added), "ns/item")
			b.ReportMetric(float64(after-before)/float64(added), "logB/item")
		})
	}
}
