package server

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// brake keeps a crowd of connections that use the processor much from using all of it while a client that uses little
// is served. Few places for turns do not do that: what the crowd sends is read, what it is answered is sent, and its
// garbage is collected outside of turns, and every goroutine that is ready waits for those before it, up to 10 ms for
// each. With the brake on, no turn begins while the process uses more than a share of the processors: what is left is
// there for others at once.
//
// It is off as long as no more connections wait than there are places for short turns, and when no client that uses
// hardly anything has given a command for brakeFor.
type brake struct {
	share float64              // processors that the process may use
	used  func() time.Duration // what it has used of them
	crowd int64                // how many may wait while it is off

	waiting atomic.Int64 // connections that wait for a turn, of all kinds
	other   atomic.Int64 // the last client that used little: the number of its connection,
	otherAt atomic.Int64 // and when it gave a command, in nanoseconds since 1970

	mu     sync.Mutex // guards what follows
	at     time.Time  // when it was looked last,
	usedAt time.Duration
	left   time.Duration // and what the process might have used more; below 0 if it had used too much
	began  time.Time     // the last turn
}

// littleUse says for which clients the brake is there: those that have used one part in so many of what they may use
// without a turn. Others are about to take turns, or have just left them.
const littleUse = 10

const (
	brakeFor   = time.Second
	mostPause  = 100 * time.Millisecond // between two turns: the crowd goes on whatever others use
	leastPause = 200 * time.Microsecond
	mostLeft   = 2 * time.Millisecond
)

// brakeShare is what the process may use while the brake is on: all processors but two, or a quarter if there are few.
func brakeShare() float64 {
	n := float64(runtime.GOMAXPROCS(0))
	return max(n/4, n-2)
}

func newBrake(used func() time.Duration) *brake {
	return &brake{share: brakeShare(), used: used, crowd: int64(places()), at: time.Now(), usedAt: used()}
}

// noteOther is told of each command of a client that uses little.
func (b *brake) noteOther(id int64, now time.Time) {
	b.other.Store(id)
	b.otherAt.Store(now.UnixNano())
}

// noteMuch is told of a client that uses much. It may be one that used little when it began.
func (b *brake) noteMuch(id int64) {
	if b.other.Load() == id {
		b.otherAt.Store(0)
	}
}

// pause returns how long the next turn has to wait. If that is 0 it begins.
func (b *brake) pause(now time.Time) time.Duration {
	if b.waiting.Load() <= b.crowd || now.Sub(time.Unix(0, b.otherAt.Load())) > brakeFor {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	used := b.used()
	b.left += time.Duration(b.share*float64(now.Sub(b.at))) - (used - b.usedAt)
	b.left = min(max(b.left, -time.Duration(b.share*float64(mostPause))), mostLeft)
	b.at, b.usedAt = now, used
	wait := time.Duration(float64(-b.left) / b.share)
	if wait = min(wait, b.began.Add(mostPause).Sub(now)); wait > 0 {
		return max(wait, leastPause)
	}
	b.began = now
	return 0
}
