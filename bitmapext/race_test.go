//go:build race

package bitmapext_test

const raceEnabled = true
