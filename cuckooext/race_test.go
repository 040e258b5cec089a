//go:build race

package cuckooext

// Most of what is tested here is arithmetic, ten times slower with the race detector.
const raceEnabled = true
