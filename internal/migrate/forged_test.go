package migrate

import (
	"bytes"
	"testing"

	_ "github.com/sievekv/sievekv/internal/kvtest/seeded"
	"github.com/sievekv/sievekv/internal/migrate/rdb"
	"github.com/sievekv/sievekv/internal/migrate/rdb/rdbtest"
	"github.com/sievekv/sievekv/tests/forge"
	"github.com/sievekv/sievekv/tests/redisbloom"
)

// forgedFilters are RedisBloom's filters, by the name of their type.
func forgedFilters(f *testing.F) map[string][]redisbloom.Chunk {
	f.Helper()
	bloom, err := redisbloom.NewBloom(20, 0.01, 2, false)
	if err != nil {
		f.Fatal(err)
	}
	cuckoo, err := redisbloom.NewCuckoo(16, 2, 20, 2)
	if err != nil {
		f.Fatal(err)
	}
	for i := range 100 {
		item := []byte{byte(i), 'x'}
		if _, err := bloom.Add(item); err != nil {
			f.Fatal(err)
		}
		if err := cuckoo.Add(item); err != nil {
			f.Fatal(err)
		}
	}
	return map[string][]redisbloom.Chunk{rdb.Bloom: bloom.Dump(), rdb.Cuckoo: cuckoo.Dump()}
}

// Whatever numbers the filters of an RDB file have, with a right checksum around them: what is imported can be used, in a store
// that is opened once more, and a check finds nothing.
func FuzzForgedFile(f *testing.F) {
	filters := forgedFilters(f)
	forge.AddSeeds(f)
	s := forge.Open(f)
	f.Cleanup(s.Close)
	f.Fuzz(func(t *testing.T, which uint8, seed uint64) {
		name := []string{rdb.Bloom, rdb.Cuckoo}[which%2]
		file := rdbtest.New(12).Forge(forge.New(seed<<8|uint64(which)).Words(12)).Filter("f", name, filters[name]).Bytes()
		s.Case(t, func() {
			_, _ = Import(t.Context(), bytes.NewReader(file), forge.Conn{Store: s}, Options{OnConflict: Replace}) // it may be refused
			s.Use()
		})
	})
}
