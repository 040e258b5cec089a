//go:build race

package cuckooext

// Most of these tests are arithmetic, ten times slower with the race detector.
const raceEnabled = true
