package cuckooext

import "github.com/sievekv/sievekv/kv/hash"

// RaceEnabled is raceEnabled for the tests from outside.
const RaceEnabled = raceEnabled

// BlockOf is blockOf for an item in a filter of a store with a seed.
func BlockOf(item []byte, seed, blocks uint64) uint64 {
	return blockOf(hash.NewKeyed(hash.SecretOf(seed)).Sum(item), blocks)
}
