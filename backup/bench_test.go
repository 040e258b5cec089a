package backup_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/sievekv/sievekv/backup"
	"github.com/sievekv/sievekv/kv"
)

// BenchmarkMake makes backups by links of a store, and of one a hundred times as large. The cost is the same. With copies
// it is not.
func BenchmarkMake(b *testing.B) {
	const value = 64 << 10
	for _, mib := range []int{1, 100} {
		b.Run(fmt.Sprintf("size=%dMiB", mib), func(b *testing.B) {
			top := b.TempDir()
			db := open(b, filepath.Join(top, "store"), kv.Options{})
			rng := rand.NewChaCha8([32]byte{})
			for i := range mib << 20 / value {
				v := make([]byte, value)
				rng.Read(v)
				if _, err := db.Set(kv.NoSync, fmt.Appendf(nil, "key %d", i), v, kv.SetOptions{}); err != nil {
					b.Fatal(err)
				}
			}
			if err := db.CompactTables(b.Context()); err != nil {
				b.Fatal(err)
			}
			for _, o := range []backup.Options{{}, {Copy: true}} {
				b.Run(fmt.Sprintf("copy=%t", o.Copy), func(b *testing.B) {
					dir := filepath.Join(top, "copy")
					for b.Loop() {
						if err := backup.Make(b.Context(), db, dir, o); err != nil {
							b.Fatal(err)
						}
						b.StopTimer()
						if err := os.RemoveAll(dir); err != nil {
							b.Fatal(err)
						}
						b.StartTimer()
					}
				})
			}
		})
	}
}
