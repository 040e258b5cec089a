package storage

import (
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// schedulable stands for a Pebble that has compactions waiting.
type schedulable struct {
	t                *testing.T
	allowed, waiting int
	schedule         func() bool
	scheduled        int
}

func (p *schedulable) GetAllowedWithoutPermission() int { return p.allowed }

func (p *schedulable) GetWaitingCompaction() (bool, pebble.WaitingCompaction) {
	return p.waiting > 0, pebble.WaitingCompaction{}
}

func (p *schedulable) Schedule(pebble.CompactionGrantHandle) bool {
	if p.scheduled++; p.scheduled > 10 {
		p.t.Fatal("a place is offered without end")
	}
	if p.schedule != nil && !p.schedule() {
		return false
	}
	p.waiting--
	return true
}

func newScheduler(p pebble.DBForCompaction) (s *scheduler, may *bool) {
	ok := true
	s = &scheduler{may: func() bool { return ok }, full: func() bool { return false }, hurried: func() bool { return false }, now: time.Now}
	s.Register(0, p)
	return s, &ok
}

func (s *scheduler) wantRunning(t *testing.T, n int, when string) {
	t.Helper()
	if s.running != n {
		t.Errorf("%s: %d compactions run, want %d", when, s.running, n)
	}
}

// Compactions begin once the store is open, as many at once as are allowed, and the next when one has ended.
func TestScheduler(t *testing.T) {
	p := &schedulable{t: t, allowed: 2, waiting: 3}
	s, may := newScheduler(p)
	if granted, _ := s.TrySchedule(); granted {
		t.Error("a compaction begins before the store is open")
	}
	s.grant()
	s.wantRunning(t, 0, "before the store is open")
	s.start()
	s.wantRunning(t, 2, "opened")
	if granted, _ := s.TrySchedule(); granted {
		t.Error("more compactions begin than are allowed")
	}
	s.Done()
	s.wantRunning(t, 2, "one has ended, and one waited")
	s.Done()
	s.wantRunning(t, 1, "two have ended")
	granted, handle := s.TrySchedule()
	if !granted {
		t.Fatal("a compaction is refused that is allowed")
	}
	s.wantRunning(t, 2, "one more was asked for")
	handle.Done()
	*may = false
	if granted, _ := s.TrySchedule(); granted {
		t.Error("a compaction begins in a store that has failed")
	}
	p.waiting = 1
	s.grant()
	s.wantRunning(t, 1, "failed")
	*may = true
	s.Unregister()
	if granted, _ := s.TrySchedule(); granted {
		t.Error("a compaction begins in a store that is closed")
	}
	s.grant()
	s.wantRunning(t, 1, "closed")
}

// An offer that Pebble does not take leaves the room free. It is repeated if Pebble was refused a compaction
// meanwhile, but not for ever.
func TestScheduler_notTaken(t *testing.T) {
	p := &schedulable{t: t, allowed: 1, waiting: 1}
	s, _ := newScheduler(p)
	p.schedule = func() bool {
		if granted, _ := s.TrySchedule(); granted {
			t.Error("a place that is offered is given to another")
		}
		return p.scheduled == 3
	}
	s.start()
	s.wantRunning(t, 1, "taken the third time")
	if p.scheduled != 3 {
		t.Errorf("the place was offered %d times, want 3", p.scheduled)
	}
	s.Done()
	p.waiting, p.schedule = 1, func() bool { return false }
	s.grant()
	s.wantRunning(t, 0, "not taken")
	if p.scheduled != 4 {
		t.Errorf("the place was offered %d times, want once more", p.scheduled)
	}
}

// The panic about a compaction that was given up is recovered; every other panic of Pebble's goes on.
func TestScheduler_panics(t *testing.T) {
	p := &schedulable{t: t, allowed: 1, waiting: 1}
	s, _ := newScheduler(p)
	p.schedule = func() bool {
		if p.scheduled == 1 {
			panic("did not find manual compaction 7")
		}
		return true
	}
	s.start()
	s.wantRunning(t, 1, "after a pick that was given up")
	s.Done()
	p.waiting, p.schedule = 1, func() bool { panic("another") }
	defer func() {
		if r := recover(); r != "another" {
			t.Errorf("recovered %v, want Pebble's own panic", r)
		}
		if !s.mu.TryLock() {
			t.Error("the mutex is held after a panic")
		}
	}()
	s.grant()
}

// After a compaction that has failed on damage none begins for a while, and the while doubles. It is short if somebody waits.
func TestScheduler_damage(t *testing.T) {
	p := &schedulable{t: t, allowed: 1}
	s, _ := newScheduler(p)
	now, hurried := time.Unix(1, 0), false
	s.now, s.hurried = func() time.Time { return now }, func() bool { return hurried }
	s.start()
	begins := func() bool {
		granted, handle := s.TrySchedule()
		if granted {
			handle.Done()
		}
		return granted
	}
	if !begins() {
		t.Fatal("a compaction is refused, and none has failed")
	}
	for i, rest := range []time.Duration{1, 2, 4, 8, 16, 32, 64, 64, 64} {
		s.metDamage()
		now = now.Add(rest*time.Second - 1)
		if begins() {
			t.Errorf("after failure %d a compaction begins within %d seconds", i+1, rest)
		}
		hurried = true
		if i > 0 && !begins() {
			t.Errorf("after failure %d no compaction begins, and a commit waits for it", i+1)
		}
		hurried = false
		s.ask(1)
		if i > 0 && !begins() {
			t.Errorf("after failure %d no compaction begins, and Compact waits for it", i+1)
		}
		s.ask(-1)
		now = now.Add(1)
		if !begins() {
			t.Errorf("after failure %d no compaction begins in %d seconds", i+1, rest)
		}
	}
	s.metDamage()
	s.ask(1)
	if hurried = true; begins() {
		t.Error("a compaction is repeated at once because somebody waits")
	}
}
