//go:build race

package bloomext_test

const raceEnabled = true

// Filling a filter is ten times slower with the race detector.
const sizeTestItems = 500_000
