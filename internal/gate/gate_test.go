package gate

import (
	"context"
	"testing"
)

// A goroutine that gives up waiting keeps no other out, and no goroutine overtakes one that waits.
func TestGate_order(t *testing.T) {
	var g Gate
	if !g.TryRLock() {
		t.Fatal("a free gate is not free")
	}
	first := g.Join(true)
	if g.TryRLock() {
		t.Fatal("a goroutine that comes later goes before one that waits")
	}
	second := g.Join(false)
	if !g.GiveUp(first) {
		t.Fatal("the first waiter was let in")
	}
	<-second.done
	if !g.TryRLock() {
		t.Fatal("no goroutine waits, and the gate is shut")
	}
	third, fourth := g.Join(true), g.Join(false)
	for range 3 {
		g.RUnlock()
	}
	<-third.done
	if g.GiveUp(third) {
		t.Fatal("the waiter that has the gate alone waits for it")
	}
	fifth := g.Join(true)
	g.Refuse(context.Canceled)
	for _, x := range []*Waiter{fourth, fifth, g.Join(false)} {
		if <-x.done; x.err != context.Canceled {
			t.Errorf("a waiter that was refused got %v", x.err)
		}
	}
	g.Unlock()
	if !g.TryRLock() {
		t.Fatal("the gate stays shut")
	}
	g.RUnlock()
	if !g.Free() {
		t.Errorf("in the end the gate has state %x", g.state.Load())
	}
}

// WhileAlone calls its function while a goroutine has the gate alone, and at no other time. The gate cannot be unlocked
// meanwhile.
func TestGate_whileAlone(t *testing.T) {
	var g Gate
	called := func() (n int) {
		if g.WhileAlone(func() {
			n++
			if !g.Locked() {
				t.Error("the gate can be unlocked")
			}
		}) != (n == 1) {
			t.Errorf("a function was called %d times, and WhileAlone does not say so", n)
		}
		return n
	}
	if n := called(); n != 0 {
		t.Errorf("nobody has the gate, and the function was called %d times", n)
	}
	g.TryRLock()
	x := g.Join(true)
	if n := called(); n != 0 {
		t.Errorf("one waits to have the gate alone, and the function was called %d times", n)
	}
	g.RUnlock()
	<-x.Done()
	if n := called(); n != 1 {
		t.Errorf("one has the gate alone, and the function was called %d times", n)
	}
	g.Unlock()
	if n := called(); n != 0 || g.Locked() {
		t.Errorf("the gate was unlocked, and the function was called %d times, or the gate is locked", n)
	}
}

// When a goroutine that had the gate alone unlocks it, all that wait to share it pass, before others that wait to have it
// alone.
func TestGate_unlock(t *testing.T) {
	var g Gate
	first, second, third := g.Join(true), g.Join(true), g.Join(false)
	<-first.done
	g.Unlock()
	if !third.has() || second.has() {
		t.Fatal("one that waits to have the gate alone goes before one that waits to share it")
	}
	g.RUnlock()
	<-second.done
	g.Unlock()
}

// Refuse does nothing unless a goroutine has the gate alone.
func TestGate_refuseNone(t *testing.T) {
	var g Gate
	g.TryRLock()
	x := g.Join(true)
	g.Refuse(context.Canceled)
	y := g.Join(false)
	g.RUnlock()
	if <-x.done; x.err != nil {
		t.Errorf("while the gate was shared, one that waits was refused: %v", x.err)
	}
	g.Unlock()
	if <-y.done; y.err != nil {
		t.Errorf("while the gate was shared, one that waits to share it was refused: %v", y.err)
	}
	g.RUnlock()
}
