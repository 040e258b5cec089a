package compaction

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sievekv/sievekv/kv"
)

// Work that fails on damage rests twice as long each time, up to a bound, and as long as ever once it succeeds.
func TestRestAfter(t *testing.T) {
	corrupt := fmt.Errorf("reclaim: %w", kv.ErrCorrupt)
	rest := time.Second
	for _, want := range []time.Duration{2, 4, 8, 16, 32, 64, 64} {
		if rest = restAfter(corrupt, rest, time.Second); rest != want*time.Second {
			t.Fatalf("%v, want %d seconds", rest, want)
		}
	}
	for _, err := range []error{nil, errors.New("the disk is full")} {
		if got := restAfter(err, rest, time.Second); got != time.Second {
			t.Errorf("after %v: %v, want a second", err, got)
		}
	}
}
