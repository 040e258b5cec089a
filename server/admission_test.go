package server

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
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
				one := admission.await(use{time: time.Duration(used)}, closed)
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
