//go:build race

package countingext_test

const raceEnabled = true
