package cuckooext

import "github.com/sievekv/sievekv/kv/probe"

// RaceEnabled is raceEnabled for the tests from outside.
const RaceEnabled = raceEnabled

// BlockOf is blockOf for an item.
func BlockOf(item []byte, seed, blocks uint64) uint64 {
	return blockOf(probe.Sum64Seed(item, seed), blocks)
}
