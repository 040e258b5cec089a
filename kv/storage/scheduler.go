package storage

import (
	"fmt"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// scheduler is Pebble's compaction scheduler: it grants as many compactions as Pebble would by itself, but none
// before Open has returned. Pebble flushes what recovery found while it opens, which can set off a compaction; if a
// later step of opening fails it takes away what that compaction uses, and the compaction panics in a goroutine of
// its own.
//
// On a full disk it grants none but those that reclaim: others would take what room there is, the reserve too, before
// they give some back. When the store has failed it grants none: see Store.mayCompact.
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

// reclaims reports whether somebody has asked for compactions.
func (s *scheduler) reclaims() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked > 0
}

func (s *scheduler) ask(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked += n
}

// UpdateGetAllowedWithoutPermission is called with Pebble's mutex held; the
// background loop's next grant takes the news in.
func (s *scheduler) UpdateGetAllowedWithoutPermission() {}

// grant starts the compactions that are waiting, as far as there is room. It is called when one has ended and, for
// those that began to wait at a bad moment, by the background loop.
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
		if !s.offer() {
			s.running--
			if !s.refused { // else one asked while the place was reserved for none
				return
			}
		}
	}
}

// offer offers Pebble the place of a compaction and reports whether one has begun. It is called with mu held and
// releases it meanwhile: Pebble's mutex comes first.
//
// Pebble picks a compaction when it asks for a place, and keeps the pick. If a DB.Compact that it was for has been given
// up since, Schedule panics: nothing has begun then, the pick is gone, and Pebble's mutexes are free. So the next offer
// is about something else.
func (s *scheduler) offer() (accepted bool) {
	s.mu.Unlock()
	defer func() {
		r := recover()
		s.mu.Lock()
		if r == nil {
			return
		}
		if !strings.HasPrefix(fmt.Sprint(r), "did not find manual compaction") {
			panic(r)
		}
		accepted, s.refused = false, true // there may be others that wait
	}()
	waits, _ := s.db.GetWaitingCompaction()
	return waits && s.db.Schedule(s)
}

// Started, MeasureCPU, CumulativeStats and Done are a compaction's side of the grant.
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
