package gate

import "testing"

// A goroutine that waits to have the gate alone keeps others out for a fifth of the time, while one that came before has
// its share for long. Then it gets in.
func TestGate_recess(t *testing.T) {
	var g Gate
	g.TryRLock() // takes long
	alone, later := g.Join(true), g.Join(true)
	waiting := g.Join(false)
	out, ticks := 0, 0
	for range 400 {
		if g.TryRLock() {
			g.RUnlock()
		} else {
			out++
		}
		ticks++
		g.ticked(later) // it is not the first
		g.ticked(alone)
	}
	<-waiting.done
	g.RUnlock()
	if out == 0 || out > ticks/5+80 {
		t.Errorf("others were kept out for %d of %d ticks", out, ticks)
	}
	for !g.press.recess {
		g.ticked(alone)
	}
	last := g.Join(false)
	<-last.done
	g.RUnlock() // the long one, in a recess
	select {
	case <-alone.done:
		t.Fatal("two goroutines have the gate, one of them alone")
	default:
	}
	g.RUnlock()
	<-alone.done // no tick was needed
	g.Unlock()
	<-later.done
	if g.press != (press{}) {
		t.Errorf("the next one begins with %+v", g.press)
	}
	g.Unlock()
	if !g.Free() {
		t.Errorf("in the end the gate has state %x", g.state.Load())
	}
}

// When the first that waits to have the gate alone gives up, in a press or a recess, the next one begins anew; after the
// last the gate is open.
func TestGate_recessGivenUp(t *testing.T) {
	for ticks := range 12 {
		var g Gate
		g.TryRLock()
		first, second := g.Join(true), g.Join(true)
		for range ticks {
			g.ticked(first)
		}
		if !g.GiveUp(first) {
			t.Fatal("it has the gate, though another shares it")
		}
		if g.TryRLock() || g.press != (press{}) {
			t.Errorf("after %d ticks: the next one begins with %+v", ticks, g.press)
		}
		for range ticks {
			g.ticked(second)
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
