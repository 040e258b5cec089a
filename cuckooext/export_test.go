package cuckooext

import "github.com/sievekv/sievekv/internal/hash"

// RaceEnabled exports raceEnabled.
const RaceEnabled = raceEnabled

// BlockOf is blockOf for an item of a filter in a store with a seed.
func BlockOf(item []byte, seed, blocks uint64) uint64 {
	return blockOf(hash.NewKeyed(hash.SecretOf(seed)).Sum(item), blocks)
}
