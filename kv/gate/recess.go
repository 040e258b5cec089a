package gate

import (
	"slices"
	"time"
)

// tick is the time of the shortest press.
const tick = 20 * time.Millisecond

// recessTicks is how many times longer than a press the recess after it is.
const recessTicks = 4

// press is how the first goroutine that waits to have the gate alone waits. It presses: no other gets in. But what shares
// the gate may take long, and then those that come later need not wait for it. So after a press there is a recess, in which
// all that want to share the gate pass, and once none of them has it, the one that waits. The first press is a tick long, and
// each is twice as long as the one before: so it gets in at last, however long those take that share the gate, and keeps them
// out for a fifth of the time.
type press struct {
	recess bool // all that want to share the gate pass
	span   int  // how many ticks the press lasts, 0 for 1
	ticks  int  // of the present press or recess
}

// Press has presses and recesses follow each other while x waits to have the gate alone.
func (g *Gate) Press(x *Waiter) {
	if x.alone {
		time.AfterFunc(tick, func() {
			if g.ticked(x) {
				g.Press(x)
			}
		})
	}
}

// ticked tells that a tick has passed, and reports whether x still waits.
func (g *Gate) ticked(x *Waiter) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.alone || g.firstAlone() != x {
		return slices.Contains(g.queue, x)
	}
	p := &g.press
	p.ticks++
	span := max(p.span, 1)
	switch {
	case p.recess && p.ticks >= recessTicks*span:
		g.press = press{span: 2 * span}
		g.mark(shut)
	case !p.recess && p.ticks >= span:
		g.press = press{recess: true, span: span}
	}
	g.letIn()
	return slices.Contains(g.queue, x)
}

// firstAlone returns the first waiter that is to have the gate alone, nil if there is none. The caller holds mu.
func (g *Gate) firstAlone() *Waiter {
	for _, x := range g.queue {
		if x.alone {
			return x
		}
	}
	return nil
}

// letShare lets in all that wait to share the gate, and returns those that wait to have it alone. The caller holds mu.
func (g *Gate) letShare() (rest []*Waiter) {
	for _, x := range g.queue {
		if x.alone {
			rest = append(rest, x)
			continue
		}
		g.state.Add(1)
		close(x.done)
	}
	return rest
}
