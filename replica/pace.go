package replica

import (
	"sync"
	"time"
)

// pace measures how fast the log is written, with its syncs. One goroutine at a time writes; any may ask.
type pace struct {
	mu      sync.Mutex
	began   time.Time             // of the write under way, else zero; guarded by mu
	now     spread                // since the last look; guarded by mu
	before  [paceLooks - 1]spread // of the looks before; guarded by mu
	slowFor int                   // looks in a row that found slow writes; guarded by mu
}

// spread counts writes, by how long they took: each in the first of the steps that it did not exceed, or behind the last.
type spread [len(paceSteps) + 1]int

var paceSteps = [...]time.Duration{
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond, slowWrite,
	2 * slowWrite, 5 * slowWrite, 10 * slowWrite, 20 * slowWrite, 50 * slowWrite, 100 * slowWrite,
}

const (
	slowWrite = 100 * time.Millisecond // a disk is slow if one of 100 writes takes longer
	paceLooks = 10                     // the number of looks in a row, one a second
)

// begin notes that a write begins. Ended says that it has ended.
func (p *pace) begin() (ended func()) {
	began := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.began = began
	return func() { p.note(time.Since(began)) }
}

// note notes a write.
func (p *pace) note(took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.began = time.Time{}
	p.now[stepOf(took)]++
}

func stepOf(took time.Duration) (step int) {
	for step < len(paceSteps) && took > paceSteps[step] {
		step++
	}
	return step
}

// look is called once a second. It reports whether the log has been slow for paceLooks seconds. A second without a
// write tells nothing, and a long write counts in each second that it takes.
func (p *pace) look(now time.Time) (slow bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.began.IsZero() && now.Sub(p.began) > slowWrite {
		p.now[stepOf(now.Sub(p.began))]++
	}
	switch p99 := p.now.p99(); {
	case p99 > slowWrite:
		p.slowFor++
	case p99 > 0:
		p.slowFor = 0
	}
	copy(p.before[1:], p.before[:])
	p.before[0], p.now = p.now, spread{}
	return p.slowFor >= paceLooks
}

// p99 returns a time that 99 of 100 writes of the last seconds did not exceed, 0 if there was none.
func (p *pace) p99() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.now
	for _, s := range p.before {
		for i, n := range s {
			all[i] += n
		}
	}
	return all.p99()
}

func (s *spread) p99() time.Duration {
	total := 0
	for _, n := range s {
		total += n
	}
	longer := 0
	for i := len(s) - 1; i >= 0; i-- {
		if longer += s[i]; longer > total/100 {
			return paceSteps[min(i, len(paceSteps)-1)]
		}
	}
	return 0
}

// lookAtPace makes a leader whose log is slow hand over to a member whose log is at least twice as fast.
func (n *Node) lookAtPace() {
	slow := n.run.pace.look(time.Now())
	if slow != n.slow {
		n.slow = slow
		n.logger.Warn("sievekv: whether the disk of the member's log is slow has changed", "dir", n.dir, "slow", slow, "p99", n.run.pace.p99())
	}
	if own := n.run.pace.p99(); slow {
		n.handOverFor("the disk of the log is slow", func(m *MemberStatus) bool { return m.LogTimeKnown && m.LogTime <= own/2 })
	}
}
