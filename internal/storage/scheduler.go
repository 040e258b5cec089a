package storage

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// scheduler decides when Pebble may compact. It grants as many compactions as Pebble's own scheduler would, with
// these exceptions:
//
//   - It grants none before Open has returned. While Pebble opens it flushes what recovery found, which can set off a
//     compaction. If a later step of opening fails, Pebble takes away what that compaction uses, and the compaction
//     panics in a goroutine of its own.
//   - On a full disk it grants none unless a call of Compact is under way. Other compactions would use up the room
//     there is, the ballast's too, before they give any back.
//   - After a compaction that has failed on a damaged table it grants none for a while. Pebble would repeat it at once,
//     and without end, if the table is in level 0. The rest doubles from one failure to the next. It is short while a
//     commit or a call of Compact waits for compactions.
//   - It grants none once the store has failed, except as Store.mayCompact says.
type scheduler struct {
	may     func() bool      // see Store.mayCompact; called with mu held, and sometimes Pebble's mutex too
	hurried func() bool      // a commit waits for compactions; called like may
	now     func() time.Time // time.Now, except in tests

	mu      sync.Mutex
	db      pebble.DBForCompaction
	started bool
	closed  bool
	full    func() bool // see Store.mustSpare; called like may
	asked   int         // calls of Compact under way
	running int
	refused bool           // a compaction was refused since grant last looked
	rest    time.Duration  // after the last failure on damage; 0 if there was none
	since   time.Time      // of the last failure on damage
	grants  sync.WaitGroup // calls of grant under way; added to with mu held
}

func (s *Store) newScheduler() *scheduler {
	return &scheduler{may: s.mayCompact, full: s.mustSpare, hurried: func() bool { return s.stalled.Load() != 0 }, now: time.Now}
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

// TrySchedule is called by Pebble, with Pebble's mutex held, to ask for permission to compact.
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

// room reports whether one more compaction may run. The caller holds mu.
func (s *scheduler) room() bool {
	return s.started && !s.closed && s.may() && (s.asked > 0 || !s.full()) && !s.rests() && s.running < s.db.GetAllowedWithoutPermission()
}

// How long no compaction begins after one has failed on damage: after the first failure, and at most.
const (
	firstRest   = time.Second
	longestRest = 64 * time.Second
)

// metDamage is called, sometimes with Pebble's mutex held, when a compaction has failed on damage.
func (s *scheduler) metDamage() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since, s.rest = s.now(), min(max(2*s.rest, firstRest), longestRest)
}

// rests reports whether no compaction may begin yet after one that has failed on damage. The caller holds mu.
func (s *scheduler) rests() bool {
	rest := s.rest
	if s.asked > 0 || s.hurried() {
		rest = min(rest, firstRest)
	}
	return s.now().Sub(s.since) < rest
}

// reclaims reports whether a call of Compact is under way.
func (s *scheduler) reclaims() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked > 0
}

// ask counts a call of Compact that begins (1) or ends (-1).
func (s *scheduler) ask(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked += n
}

// UpdateGetAllowedWithoutPermission is called by Pebble, with its mutex held, when the number of compactions allowed
// changes. The next call of grant, by the background loop at the latest, looks at the number again.
func (s *scheduler) UpdateGetAllowedWithoutPermission() {}

// grant starts compactions that wait, as long as there is room. It is called when a compaction has ended. The
// background loop calls it too, for compactions that began to wait after such a call.
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
			if !s.refused { // else Pebble asked for one while this offer took the room: offer again
				return
			}
		}
	}
}

// offer offers Pebble to start one compaction and reports whether one has begun. The caller holds mu, which offer
// releases meanwhile, as Pebble's mutex comes before it in the lock order.
//
// Pebble picks a compaction when it asks for permission, and keeps the pick. If the pick was for a DB.Compact that
// has been given up since, Schedule panics. At that point nothing has begun, the pick is gone, and Pebble's mutexes
// are free. So offer recovers that panic, and the next offer is about another compaction.
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
		accepted, s.refused = false, true // there may be other compactions that wait
	}()
	waits, _ := s.db.GetWaitingCompaction()
	return waits && s.db.Schedule(s)
}

// Started implements pebble.CompactionGrantHandle.
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
