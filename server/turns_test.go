package server

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Of those that wait the one that used least goes first, and as many go at once as there are places.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(places())
		var taken []*turn
		for range places() {
			taken = append(taken, turns.take(use{}, nil))
		}
		closed := make(chan struct{})
		var mu sync.Mutex
		var order []int
		var group sync.WaitGroup
		for _, used := range []int{5, 3, 9, 1, 7} {
			group.Go(func() {
				one := turns.take(use{time: time.Duration(used)}, closed)
				mu.Lock()
				defer mu.Unlock()
				if one == nil {
					used = -used
				} else {
					taken = append(taken, one)
				}
				order = append(order, used)
			})
		}
		for range 3 {
			synctest.Wait()
			one := taken[0]
			taken = taken[1:]
			one.give()
		}
		synctest.Wait()
		if want := []int{1, 3, 5}; !slices.Equal(order, want) {
			t.Errorf("turns of those that used %v, want %v", order, want)
		}
		close(closed)
		group.Wait()
		slices.Sort(order[3:])
		if want := []int{1, 3, 5, -9, -7}; !slices.Equal(order, want) {
			t.Errorf("after the end %v, want %v", order, want)
		}
		for _, one := range taken {
			one.give()
		}
		turns.wantIdle(t)
	})
}

func (t *turns) wantIdle(test *testing.T) {
	test.Helper()
	if t.free != places() || len(t.waiting) != 0 || len(t.taken) != 0 {
		test.Errorf("%d of %d places are free, %d wait, %d turns are taken", t.free, places(), len(t.waiting), len(t.taken))
	}
}

// The places of turns that take long are lent, and no more than these.
func TestTurns_lent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(places())
		var taken []*turn
		for range places() {
			taken = append(taken, turns.take(use{}, nil))
		}
		time.Sleep(long / 2)
		taken[0].give()
		taken[0] = turns.take(use{}, nil) // a short one among long ones
		got := make(chan *turn, 2*places())
		for range cap(got) {
			go func() { got <- turns.take(use{}, nil) }()
		}
		time.Sleep(long * 3 / 4)
		synctest.Wait()
		if n := len(got); n != places()-1 {
			t.Errorf("%d places are lent, want %d", n, places()-1)
		}
		time.Sleep(long / 2) // the short one is long by then, and those that borrowed are not
		synctest.Wait()
		if n := len(got); n != places() {
			t.Errorf("%d places are lent, want all of %d, once", n, places())
		}
		for _, one := range taken {
			one.give() // those that are lent come back with those who borrowed them
		}
		for range cap(got) {
			(<-got).give()
		}
		synctest.Wait()
		time.Sleep(long)
		turns.wantIdle(t)
	})
}

// What was used runs out with time.
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
