//go:build !race

package bloomext_test

const raceEnabled = false

// sizeTestItems is the size of the filter whose renaming and dropping is measured. Filling it takes most of the
// test's time.
const sizeTestItems = 2_000_000
