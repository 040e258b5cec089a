//go:build race

package kv_test

// raceEnabled says that the tests run ten times slower.
const raceEnabled = true
