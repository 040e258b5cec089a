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
