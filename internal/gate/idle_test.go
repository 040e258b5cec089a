package gate

import (
	"testing"
	"time"
)

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
	holder.Begin()
	holder.End()
	if !look(idleLooks) {
		t.Error("the holder is not idle after a use")
	}
	i := watch()
	for range idleLooks - 1 {
		i.TooLong()
	}
	was := holder
	if holder = nil; i.TooLong() {
		t.Error("a gate that became free is idle")
	}
	if holder = was; i.TooLong() {
		t.Error("the time before the gate was free counts")
	}
	i = watch()
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

// Start looks for the first time, so that seven ticks of a seventh of the limit are enough. With the limit 0 nobody looks.
func TestIdle_start(t *testing.T) {
	holder := new(Uses)
	i := &Idle{Holder: func() *Uses { return holder }}
	ticks, stop := i.Start(0)
	if stop(); ticks != nil || i.seen != 0 {
		t.Errorf("without a limit there are ticks, or %d looks", i.seen)
	}
	ticks, stop = i.Start(time.Hour)
	if stop(); ticks == nil || i.seen != 1 {
		t.Errorf("with a limit there are no ticks, or %d looks at the start", i.seen)
	}
}
