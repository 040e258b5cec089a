package main

import (
	"testing"
	"time"
)

func TestSoak(t *testing.T) {
	good, err := soak(t.Context(), settings{dir: t.TempDir(), every: time.Hour, keys: 60, seed: 1, rounds: 1500})
	if err != nil || !good {
		t.Errorf("not as it must be: %v", err)
	}
}
