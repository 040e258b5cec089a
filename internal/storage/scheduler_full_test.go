package storage

import (
	"testing"

	"github.com/cockroachdb/pebble/v2"
)

// oneAtATime stands for a Pebble that may run one compaction at a time, and has none waiting.
type oneAtATime struct{}

func (oneAtATime) GetAllowedWithoutPermission() int { return 1 }

func (oneAtATime) GetWaitingCompaction() (bool, pebble.WaitingCompaction) {
	return false, pebble.WaitingCompaction{}
}

func (oneAtATime) Schedule(pebble.CompactionGrantHandle) bool { return false }

// On a full disk only a call of Compact may compact.
func TestScheduler_full(t *testing.T) {
	full := true
	s, _ := newScheduler(oneAtATime{})
	s.full = func() bool { return full }
	s.start()
	try := func(want bool, when string) {
		t.Helper()
		granted, handle := s.TrySchedule()
		if granted {
			handle.Done()
		}
		if granted != want {
			t.Errorf("%s: granted %t, want %t", when, granted, want)
		}
	}
	try(false, "on a full disk")
	s.ask(1)
	try(true, "to reclaim")
	s.ask(-1)
	try(false, "after reclaiming")
	full = false
	try(true, "with room")
}
