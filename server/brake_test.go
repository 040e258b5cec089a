package server

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// While a crowd waits and another client is served, turns begin only as long as the process uses less than its share.
func TestBrake(t *testing.T) {
	before := time.Unix(1_000_000, 0)
	now := before.Add(10 * time.Millisecond)
	for _, test := range []struct {
		name string
		used time.Duration // in 10 ms, of which 5 may be used
		do   func(b *brake)
		want time.Duration
	}{
		{"nothing", 0, nil, 0},
		{"as much as may be", 5 * time.Millisecond, nil, 0},
		{"a little more", 6 * time.Millisecond, nil, 2 * time.Millisecond},
		{"hardly more", 5*time.Millisecond + 1, nil, leastPause},
		{"much more", time.Hour, nil, mostPause},
		{"much more, after a turn", time.Hour, func(b *brake) { b.began = now.Add(-mostPause / 4) }, mostPause * 3 / 4},
		{"much more, long after a turn", time.Hour, func(b *brake) { b.began = now.Add(-mostPause) }, 0},
		{"much more, without a crowd", time.Hour, func(b *brake) { b.waiting.Add(-1) }, 0},
		{"much more, with nobody else", time.Hour, func(b *brake) { b.noteOther(7, now.Add(-brakeFor-1)) }, 0},
		{"much more, and the other is one of the crowd now", time.Hour, func(b *brake) { b.noteMuch(7) }, 0},
		{"much more, and another is", time.Hour, func(b *brake) { b.noteMuch(8) }, mostPause},
	} {
		b := newBrake(func() time.Duration { return test.used })
		b.share, b.at, b.usedAt, b.began = 0.5, before, 0, now
		b.waiting.Store(b.crowd + 1)
		b.noteOther(7, before)
		if test.do != nil {
			test.do(b)
		}
		if got := b.pause(now); got != test.want {
			t.Errorf("%s: a pause of %v, want %v", test.name, got, test.want)
		}
		if test.used == time.Hour {
			continue
		}
		if got := b.pause(now.Add(test.want)); got != 0 {
			t.Errorf("%s: a pause of %v after that of %v", test.name, got, test.want)
		}
	}
}

// With the brake on turns begin one after the other, those first that have used least, and all of them in the end.
func TestTurns_brake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const each = 10 * time.Millisecond // of the processors, for a turn
		var used atomic.Int64
		b := newBrake(func() time.Duration { return time.Duration(used.Load()) })
		b.share, b.crowd = 0.5, 0
		turns := newTurns(1, b)
		taken := turns.take(use{}, nil)
		began := time.Now()
		b.noteOther(1, began)
		type turn struct {
			use   int
			after time.Duration
		}
		order := make(chan turn, 4)
		for n := cap(order); n > 0; n-- {
			go func() {
				one := turns.take(use{time: time.Duration(n)}, nil)
				used.Add(int64(each))
				order <- turn{n, time.Since(began)}
				one.give()
			}()
		}
		synctest.Wait()
		taken.give()
		for n := range cap(order) {
			if got, want := <-order, (turn{n + 1, time.Duration(n) * 2 * each}); got != want {
				t.Errorf("turn %d is that of the one that used %d, and begins after %v, want %v", n, got.use, got.after, want)
			}
		}
		synctest.Wait()
		if turns.free != 1 || len(turns.waiting) != 0 || b.waiting.Load() != 0 {
			t.Errorf("%d places are free, %d wait; the brake counts %d that wait", turns.free, len(turns.waiting), b.waiting.Load())
		}
	})
}

// Nobody waits for ever because others come that have used less.
func TestTurns_longestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(1, newBrake(processorTime))
		taken := turns.take(use{}, nil)
		taken.lent = true // so that it is lent to nobody, however long it takes
		order := make(chan string, 3)
		wait := func(name string, u use) {
			go func() {
				one := turns.take(u, nil)
				order <- name
				one.give()
			}()
			synctest.Wait()
		}
		wait("old", use{time.Second, time.Now()})
		wait("much", use{time.Hour, time.Now()})
		time.Sleep((spared + 1) * time.Second)
		wait("new", use{time.Millisecond, time.Now()})
		turns.mu.Lock()
		taken.lent = false
		turns.mu.Unlock()
		taken.give()
		for _, want := range []string{"old", "new", "much"} {
			if got := <-order; got != want {
				t.Errorf("the turn of %q comes next, want %q", got, want)
			}
		}
	})
}
