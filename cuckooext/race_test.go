//go:build race

package cuckooext_test

const raceEnabled = true
