package gate

import (
	"testing"
	"testing/synctest"
	"time"
)

// shareable reports whether a goroutine that comes now gets a share.
func (g *Gate) shareable() bool {
	if !g.TryRLock() {
		return false
	}
	g.RUnlock()
	return true
}

// has reports whether the waiter has been let in.
func (x *Waiter) has() bool {
	select {
	case <-x.done:
		return true
	default:
		return false
	}
}

// A goroutine that waits to have the gate alone, while one that came before has its share for long, keeps others out for a
// fifth of the time. Those that come in a press pass when the recess begins, even if one waits before them to have the gate
// alone.
func TestGate_recess(t *testing.T) {
	var g Gate
	g.TryRLock() // takes long
	alone, later := g.Join(true), g.Join(true)
	for round := range 7 {
		waiting := g.Join(false)
		for tick := range 1 << round {
			if g.shareable() || waiting.has() {
				t.Fatalf("round %d: after %d ticks of the press others get in", round, tick)
			}
			g.ticked()
		}
		if !waiting.has() {
			t.Fatalf("round %d: in the recess who came before it waits", round)
		}
		g.RUnlock()
		for tick := range 4 << round {
			x := g.Join(false)
			if !g.shareable() || !x.has() {
				t.Fatalf("round %d: after %d ticks of the recess others are kept out", round, tick)
			}
			g.RUnlock()
			g.ticked()
		}
	}
	if alone.has() || later.has() {
		t.Fatal("one has the gate alone, and another shares it")
	}
	g.RUnlock()
	if !alone.has() {
		t.Fatal("the one that took long has ended, and none gets in")
	}
	for range 3 {
		g.ticked()
	}
	if g.press != (press{}) || g.shareable() || later.has() {
		t.Errorf("while one has the gate alone there are ticks, %+v, or others get in", g.press)
	}
	g.Unlock()
	if !later.has() {
		t.Error("the next one does not get in")
	}
	g.Unlock()
	if !g.Free() {
		t.Errorf("in the end the gate has state %x", g.state.Load())
	}
}

// In a recess the goroutine that waits gets the gate as soon as none has a share: it needs no tick for that. Then others are
// kept out.
func TestGate_recessFree(t *testing.T) {
	var g Gate
	g.TryRLock()
	alone := g.Join(true)
	g.ticked()
	late := g.Join(false)
	g.RUnlock()
	if alone.has() {
		t.Fatal("two goroutines have the gate, one of them alone")
	}
	g.RUnlock()
	if !late.has() || !alone.has() || g.shareable() {
		t.Fatal("nobody shares the gate, and the one that waits does not have it alone")
	}
	g.Unlock()
	if !g.Free() || !g.shareable() {
		t.Errorf("in the end the gate has state %x", g.state.Load())
	}
}

// When the first that waits to have the gate alone gives up, in a press or a recess, the next one begins again; after
// the last the gate is open. Others that give up change nothing.
func TestGate_recessGivenUp(t *testing.T) {
	for ticks := range 12 {
		var g Gate
		g.TryRLock()
		first, second, third := g.Join(true), g.Join(true), g.Join(true)
		for range ticks {
			g.ticked()
		}
		if before := g.press; !g.GiveUp(third) || g.press != before {
			t.Errorf("after %d ticks, one gives up that is not the first: %+v, before it was %+v", ticks, g.press, before)
		}
		if !g.GiveUp(first) {
			t.Fatal("it has the gate, though another shares it")
		}
		if g.shareable() || g.press != (press{}) {
			t.Errorf("after %d ticks: the next one begins with %+v", ticks, g.press)
		}
		for range ticks {
			g.ticked()
		}
		if !g.GiveUp(second) || !g.TryRLock() {
			t.Errorf("after %d ticks the gate is shut, and nobody waits", ticks)
		}
		g.RUnlock()
		g.RUnlock()
		if !g.Free() {
			t.Errorf("after %d ticks the gate has state %x in the end", ticks, g.state.Load())
		}
	}
}

// There are ticks while goroutines wait to have the gate alone, of one clock for all of them.
func TestGate_ticks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		g.TryRLock()
		for range 2 { // the clock begins again
			waiters := []*Waiter{g.Join(true), g.Join(true)}
			for range waiters {
				g.Press()
			}
			time.Sleep(tick - 1)
			if g.shareable() {
				t.Error("before the first tick others get in")
			}
			time.Sleep(2 * time.Nanosecond)
			if !g.shareable() {
				t.Error("after the first tick others are kept out")
			}
			time.Sleep(recessTicks*tick - 2)
			if !g.shareable() {
				t.Error("the recess ends too early")
			}
			time.Sleep(2 * time.Nanosecond)
			if g.shareable() {
				t.Error("after the recess others get in")
			}
			for _, x := range waiters {
				g.GiveUp(x)
			}
			time.Sleep(tick)
			g.mu.Lock()
			if g.ticking || g.press != (press{}) {
				t.Errorf("nobody waits, and there are ticks: %v, %+v", g.ticking, g.press)
			}
			g.mu.Unlock()
		}
	})
}
