package server

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sievekv/sievekv/module"
)

// The waiting connection that used least gets the next turn, and there are as many turns at a time as places.
func TestAdmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		admission := newAdmission(places())
		var turns []*turn
		for range places() {
			turns = append(turns, admission.await(use{}, nil))
		}
		closed := make(chan struct{})
		var mu sync.Mutex
		var order []int
		var group sync.WaitGroup
		for _, used := range []int{5, 3, 9, 1, 7} {
			group.Go(func() {
				one := admission.await(use{time: time.Duration(used), at: time.Now()}, closed)
				mu.Lock()
				defer mu.Unlock()
				if one == nil {
					used = -used
				} else {
					turns = append(turns, one)
				}
				order = append(order, used)
			})
		}
		for range 3 {
			synctest.Wait()
			one := turns[0]
			turns = turns[1:]
			one.end()
		}
		synctest.Wait()
		if want := []int{1, 3, 5}; !slices.Equal(order, want) {
			t.Errorf("turns went to connections that used %v, want %v", order, want)
		}
		close(closed)
		group.Wait()
		slices.Sort(order[3:])
		if want := []int{1, 3, 5, -9, -7}; !slices.Equal(order, want) {
			t.Errorf("after the end %v, want %v", order, want)
		}
		for _, one := range turns {
			one.end()
		}
		admission.wantIdle(t)
	})
}

func (a *admission) wantIdle(t *testing.T) {
	t.Helper()
	if a.free != places() || len(a.waiting) != 0 || len(a.turns) != 0 {
		t.Errorf("%d of %d places are free, %d connections wait, %d turns have not ended", a.free, places(), len(a.waiting), len(a.turns))
	}
}

// The places of overdue turns are passed on, once each, and no others.
func TestAdmission_passedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		admission := newAdmission(places())
		var turns []*turn
		for range places() {
			turns = append(turns, admission.await(use{}, nil))
		}
		time.Sleep(overdue / 2)
		turns[0].end()
		turns[0] = admission.await(use{}, nil) // younger than the other turns
		got := make(chan *turn, 2*places())
		for range cap(got) {
			go func() { got <- admission.await(use{}, nil) }()
		}
		time.Sleep(overdue * 3 / 4)
		synctest.Wait()
		if n := len(got); n != places()-1 {
			t.Errorf("%d places are passed on, want %d", n, places()-1)
		}
		time.Sleep(overdue / 2) // now the younger turn is overdue, and those that got a place are not
		synctest.Wait()
		if n := len(got); n != places() {
			t.Errorf("%d places are passed on, want all of %d, once", n, places())
		}
		for _, one := range turns {
			one.end() // frees no place: each was passed on
		}
		for range cap(got) {
			(<-got).end()
		}
		synctest.Wait()
		time.Sleep(overdue)
		admission.wantIdle(t)
	})
}

// A connection that waits gets a turn before those that come much later, though each of them has used less.
func TestAdmission_waits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		admission := newAdmission(1)
		admission.overdue = 0
		one := admission.await(use{}, nil)
		if time.Sleep(turnTime); one.isOver(time.Now()) {
			t.Error("a turn is over, and nobody waits")
		}
		got := make(chan string)
		wait := func(name string, used time.Duration) {
			go func() {
				one := admission.await(use{time: used, at: time.Now()}, nil)
				got <- name
				one.end()
			}()
			synctest.Wait()
		}
		wait("first", 6*time.Millisecond)
		wait("at once", 5*time.Millisecond)
		time.Sleep(2 * aging * time.Millisecond)
		wait("later", 5*time.Millisecond)
		if !one.isOver(time.Now()) {
			t.Error("a turn is not over, and others wait")
		}
		one.end()
		for _, want := range []string{"at once", "first", "later"} {
			if name := <-got; name != want {
				t.Errorf("the turn is for the one that came %s, want %s", name, want)
			}
		}
	})
}

// What was used decreases with time.
func TestUse(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	var u use
	u.add(now, time.Second)
	u.add(now, 1)
	if got, want := u.time, time.Second+1; got != want {
		t.Errorf("%v at once, want %v", got, want)
	}
	u.add(now.Add(spared*time.Second/2), 0)
	if got, want := u.time, time.Second/2+1; got != want {
		t.Errorf("%v are left, want %v", got, want)
	}
	u.add(now.Add(time.Hour), 3)
	if u.time != 3 {
		t.Errorf("%v are left after an hour, want 3ns", u.time)
	}
}

// A command is expected to take long until it did not, and again when it did.
func TestStats_isLong(t *testing.T) {
	s := newStats(1)
	cmd := new(module.Command)
	for i, call := range []struct {
		took time.Duration
		long bool
	}{{0, false}, {0, false}, {time.Second, true}, {longTurn, true}} {
		if i == 0 && !s.isLong(cmd) {
			t.Error("a command that has not run is not expected to take long")
		}
		s.of(cmd).noteTime(call.took)
		if got := s.isLong(cmd); got != call.long {
			t.Errorf("after call %d, which took %v: expected to take long is %v", i, call.took, got)
		}
	}
	fast := &module.Command{Flags: module.Fast}
	if s.isLong(fast) {
		t.Error("a fast command is expected to take long")
	}
}
