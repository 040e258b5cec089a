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
		turns := newTurns()
		for range places() {
			if !turns.take(use{}, nil) {
				t.Fatal("there is a place, and no turn")
			}
		}
		closed := make(chan struct{})
		var mu sync.Mutex
		var order []int
		var group sync.WaitGroup
		for _, used := range []int{5, 3, 9, 1, 7} {
			group.Go(func() {
				if !turns.take(use{time: time.Duration(used)}, closed) {
					used = -used
				}
				mu.Lock()
				order = append(order, used)
				mu.Unlock()
			})
		}
		for range 3 {
			synctest.Wait()
			turns.give()
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
		for range places() {
			turns.give()
		}
		if turns.free != places() || len(turns.waiting) != 0 {
			t.Errorf("%d of %d places are free, %d wait", turns.free, places(), len(turns.waiting))
		}
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
