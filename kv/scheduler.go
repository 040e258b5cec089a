package kv

import (
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// scheduler is Pebble's compaction scheduler: it grants as many compactions as
// Pebble would by itself, but none before Open has returned. Pebble flushes what
// recovery found while it opens, which can set off a compaction; if a later step
// of opening fails it takes away what that compaction uses, and the compaction
// panics in a goroutine of its own.
//
// On a full disk it grants none but those that reclaim: others would take what room there
// is, the reserve too, before they give some back. When the store has failed it grants
// none: see DB.mayCompact.
type scheduler struct {
	may func() bool // asked with mu held, and Pebble's mutex

	mu      sync.Mutex
	db      pebble.DBForCompaction
	started bool
	closed  bool
	full    func() bool // whether the disk is; not asked of a failed store
	asked   int         // reclaiming that is under way
	running int
	refused bool           // one that asked since grant last looked
	grants  sync.WaitGroup // calls of grant under way; added to with mu held
}

// start allows compactions.
func (s *scheduler) start() {
	s.mu.Lock()
	s.started = true
	s.mu.Unlock()
	s.grant()
}

// Register is called by Pebble as it opens.
func (s *scheduler) Register(_ int, db pebble.DBForCompaction) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.db = db
}

// Unregister is called by Pebble as it closes.
func (s *scheduler) Unregister() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.grants.Wait()
}

// TrySchedule is asked by Pebble, with its mutex held, for permission to compact.
func (s *scheduler) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.room() {
		s.refused = true
		return false, nil
	}
	s.running++
	return true, s
}

// room reports whether one more may run. The mutex is held.
func (s *scheduler) room() bool {
	return s.started && !s.closed && s.may() && (s.asked > 0 || !s.full()) && s.running < s.db.GetAllowedWithoutPermission()
}

func (s *scheduler) ask(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked += n
}

// UpdateGetAllowedWithoutPermission is called with Pebble's mutex held; the
// housekeeper's next grant takes the news in.
func (s *scheduler) UpdateGetAllowedWithoutPermission() {}

// grant starts the compactions that are waiting, as far as there is room. It is
// called when one has ended and, for those that began to wait at a bad moment,
// by the housekeeper.
func (s *scheduler) grant() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.grants.Add(1)
	defer s.grants.Done()
	for s.room() {
		s.running++
		s.refused = false
		// Both take Pebble's mutex, which comes before this one.
		s.mu.Unlock()
		accepted, _ := s.db.GetWaitingCompaction()
		accepted = accepted && s.db.Schedule(s)
		s.mu.Lock()
		if !accepted {
			s.running--
			if !s.refused { // else one asked while the place was reserved for none
				return
			}
		}
	}
}

// Started, MeasureCPU, CumulativeStats and Done are a compaction's side of the
// grant.
func (s *scheduler) Started() {}

// MeasureCPU implements pebble.CompactionGrantHandle.
func (s *scheduler) MeasureCPU(pebble.CompactionGoroutineKind) {}

// CumulativeStats implements pebble.CompactionGrantHandle.
func (s *scheduler) CumulativeStats(pebble.CompactionGrantHandleStats) {}

// Done implements pebble.CompactionGrantHandle. Pebble's mutex is not held.
func (s *scheduler) Done() {
	s.mu.Lock()
	s.running--
	s.mu.Unlock()
	s.grant()
}
