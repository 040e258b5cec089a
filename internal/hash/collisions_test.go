package hash_test

import (
	"math/rand/v2"
	"testing"

	"github.com/sievekv/sievekv/internal/hash"
	"github.com/sievekv/sievekv/internal/kvtest"
)

// Items that collide under every seed of XXH64 do not collide under the keyed hash.
func TestKeyed_Sum_chosen(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{16, 24, 31, 32*3 + 16, 1024 + 20, 4096 + 31} {
		item := make([]byte, n)
		for i := range item {
			item[i] = byte(random.Uint32())
		}
		other := kvtest.Collide(item)
		for range 1000 {
			seed := random.Uint64()
			if f := hash.NewXXH64(seed); f.Sum(item) != f.Sum(other) {
				t.Fatalf("%d bytes: XXH64 of seed %d tells the two items apart: they were chosen wrongly", n, seed)
			}
			if f := hash.NewKeyed(hash.SecretOf(seed)); f.Sum(item) == f.Sum(other) {
				t.Fatalf("%d bytes: the two items collide under the secret of seed %d", n, seed)
			}
		}
	}
}

func TestKeyed_Sum_chosenOften(t *testing.T) {
	item := make([]byte, 320)
	others := kvtest.CollideOften(item, 2)
	random := rand.New(rand.NewPCG(5, 6))
	for range 100 {
		seed := random.Uint64()
		var xxh64, keyed int
		f, g := hash.NewXXH64(seed), hash.NewKeyed(hash.SecretOf(seed))
		for _, other := range others {
			if f.Sum(other) == f.Sum(item) {
				xxh64++
			}
			if g.Sum(other) == g.Sum(item) {
				keyed++
			}
		}
		if xxh64 != len(others)/4 || keyed != 0 {
			t.Errorf("seed %d: %d items collide with one under XXH64, want %d, and %d under the keyed hash, want 0",
				seed, xxh64, len(others)/4, keyed)
		}
	}
}
