//go:build race

package bloomext_test

// Filling a filter is ten times slower with the race detector.
const sizeTestItems = 500_000
