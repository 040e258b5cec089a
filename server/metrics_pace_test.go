package server

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Requests for metrics go on one after the other. Those that ended while they waited cost the others no time.
func TestPace_ended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const every = 20 * time.Millisecond
		p := make(pace, 1)
		if !p.await(t.Context(), every) {
			t.Fatal("the first request may not go on")
		}
		start := time.Now()
		ended, end := context.WithCancel(t.Context())
		var group sync.WaitGroup
		for range 1000 {
			group.Go(func() {
				if p.await(ended, every) {
					t.Error("a request goes on though it has ended")
				}
			})
		}
		synctest.Wait()
		end()
		group.Wait()
		for i := range 3 {
			if !p.await(t.Context(), every) {
				t.Fatal("a request may not go on")
			}
			if waited, want := time.Since(start), time.Duration(i+1)*every; waited != want {
				t.Errorf("request %d goes on after %v, want %v", i, waited, want)
			}
		}
	})
}

// A request does not wait for many others: it is refused.
func TestPace_bounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const every = longestPace * 2 / 5
		p := make(pace, 1)
		start := time.Now()
		var ok, refused atomic.Int32
		var group sync.WaitGroup
		for range 10 {
			group.Go(func() {
				if p.await(t.Context(), every) {
					ok.Add(1)
				} else {
					refused.Add(1)
				}
			})
		}
		group.Wait()
		if ok.Load() != 3 || refused.Load() != 7 || time.Since(start) != longestPace {
			t.Errorf("%d requests go on and %d are refused after %v, want 3 and 7 after %v", ok.Load(), refused.Load(), time.Since(start), longestPace)
		}
	})
}
