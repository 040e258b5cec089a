package cuckooext_test

import (
	"fmt"
	"testing"

	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/kv"
)

// BenchmarkLogBytes prints the log bytes of an add, one at a time, synced, and in batches of 1000, to a filter of a million
// 16-bit entries at several loads.
func BenchmarkLogBytes(b *testing.B) {
	for _, batch := range []int{1, 1000} {
		for _, load := range []float64{0.5, 0.8, 0.88} {
			b.Run(fmt.Sprintf("batch=%d/load=%.2f", batch, load), func(b *testing.B) {
				level := kv.NoSync
				if batch == 1 { // otherwise several adds go to the log together, how many depends on their times
					level = kv.Always
				}
				db := open(b, kv.Options{Durability: level, CacheSize: 64 << 20})
				f := cuckooext.New(db, "f")
				must(b, f.Reserve(cuckooext.Config{Capacity: 1e6, ErrorRate: 1e-3}))
				info, err := f.Info()
				must(b, err)
				slots := float64(info.Capacity) / 0.90
				n, err := addMany(f, numbered(0, int(load*slots)-1000))
				must(b, err)
				must(b, db.Sync())
				before, err := db.LogBytesWritten()
				must(b, err)
				const more = 2000 // around the load
				for i := 0; i < more; i += batch {
					if _, err := addMany(f, numbered(n+i, batch)); err != nil {
						b.Fatal(err)
					}
				}
				must(b, db.Sync())
				after, err := db.LogBytesWritten()
				must(b, err)
				b.ReportMetric(float64(after-before)/more, "logB/add")
			})
		}
	}
}
