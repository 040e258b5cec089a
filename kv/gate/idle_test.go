package gate

import "testing"

// The holder is idle too long if it is found unused at the same step often enough, and never while it is used.
func TestGate_idle(t *testing.T) {
	var holder *Uses
	watch := func() *Idle { return &Idle{Holder: func() *Uses { return holder }} }
	look := func(times int) bool {
		i, idle := watch(), false
		for range times {
			idle = i.TooLong()
		}
		return idle
	}
	if look(2 * idleLooks) {
		t.Error("a free gate is idle")
	}
	holder = new(Uses)
	if look(idleLooks-1) || !look(idleLooks) {
		t.Error("the holder is idle too early, or not at all")
	}
	i := watch()
	for range 2 * idleLooks {
		holder.Begin()
		holder.End()
		if i.TooLong() {
			t.Fatal("a holder that is used from time to time is idle")
		}
	}
	for n := range 2 * idleLooks {
		if n%(idleLooks-1) == 0 {
			holder = new(Uses)
		}
		if i.TooLong() {
			t.Fatal("several holders are one that is idle")
		}
	}
	holder.Begin()
	if look(2 * idleLooks) {
		t.Error("a holder that is used is idle")
	}
}
