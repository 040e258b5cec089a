package storage

import "runtime"

// Hooks for the tests of this package and of the engine. Nothing else uses them.

// HoldCompactions keeps Pebble from beginning compactions until ReleaseCompactions is called.
func HoldCompactions(s *Store) {
	s.scheduler.mu.Lock()
	defer s.scheduler.mu.Unlock()
	s.scheduler.started = false
}

// ReleaseCompactions ends HoldCompactions.
func ReleaseCompactions(s *Store) { s.scheduler.start() }

// CompactionWaits reports whether Pebble was refused a compaction and has not been granted one since.
func CompactionWaits(s *Store) bool {
	s.scheduler.mu.Lock()
	defer s.scheduler.mu.Unlock()
	return s.scheduler.refused
}

// CompactionAsked reports whether a call of Compact is under way.
func CompactionAsked(s *Store) bool { return s.scheduler.reclaims() }

// GivenUp reports whether the store is closing and has given up its compactions, which may still be running.
func GivenUp(s *Store) bool { return s.givenUp() }

// AwaitCompactions begins compactions as long as one may begin, and waits until all have ended.
func AwaitCompactions(s *Store) {
	for running := 1; running > 0; runtime.Gosched() {
		s.startCompactions()
		s.scheduler.mu.Lock()
		running = s.scheduler.running
		s.scheduler.mu.Unlock()
	}
}

// StalledByLevel0 reports whether a commit waits for level 0 to shrink, in a store where no compaction runs. There,
// once level 0 is full, a commit that waits for any reason goes on waiting.
func StalledByLevel0(s *Store) bool {
	return s.disk.Metrics().Levels[0].Sublevels >= level0Stop && s.stalled.Load() != 0
}

// Pending returns the number of commits that are pending.
func Pending(s *Store) uint64 { return s.pending.added.Load() - s.pending.flushed.Load() }
