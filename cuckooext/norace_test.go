//go:build !race

package cuckooext

const raceEnabled = false
