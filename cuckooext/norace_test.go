//go:build !race

package cuckooext_test

const raceEnabled = false
