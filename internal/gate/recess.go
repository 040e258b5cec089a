package gate

import "time"

// tick is the time of the shortest press.
const tick = 5 * time.Millisecond

// recessTicks is how many times longer than a press the recess after it is.
const recessTicks = 4

// press is how the first goroutine that waits to have the gate alone waits. While it presses, no other gets in. But
// goroutines that share the gate may take long, and later ones need not wait for them. So after a press there is a
// recess, in which all goroutines that want to share the gate pass, and once none of them has it, the waiting one. The
// first press is a tick long at most, and each is twice as long as the one before. So the goroutine gets in at last,
// however long the others share the gate, and keeps them out for a fifth of the time.
type press struct {
	round int // presses and recesses before
	ticks int // since the press began; the recess follows it
}

// recess reports whether all goroutines that want to share the gate pass.
func (p press) recess() bool { return p.ticks >= 1<<p.round }

// Press makes presses and recesses follow each other while goroutines wait to have the gate alone. It is called when
// one has begun to wait.
func (g *Gate) Press() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.ticking {
		g.ticking = true
		time.AfterFunc(tick, g.tick)
	}
}

func (g *Gate) tick() {
	if g.ticked() {
		time.AfterFunc(tick, g.tick)
	}
}

// ticked tells that a tick has passed, and reports whether a goroutine waits to have the gate alone. If none does, there are
// no ticks until the next Press.
func (g *Gate) ticked() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ticking = g.firstAlone() != nil
	if g.alone || !g.ticking {
		return g.ticking
	}
	g.press.ticks++
	if round := g.press.round; g.press.ticks == (1+recessTicks)<<round {
		g.press = press{round: round + 1}
		g.mark(shut)
	}
	g.letIn()
	return true
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
