package replica

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Keys expire by the time of the group, not by the clock of a machine, which may be wrong or jump.
//
// The group's time is the time that the clocks of a majority have reached, as far as the leader knows: it asks the
// others every second, and puts the time into its messages. Between two looks, and on a member that hears nothing, the
// time goes on by the monotonic clock, which nobody can set. It never goes back: where it is ahead it goes at half of
// the speed. So no key expires because of one clock that is wrong, whoever leads. A member whose clock is off does not
// lead all the same: its monotonic clock may be wrong, too.

// clock is the group's time as a member has it, in milliseconds since 1970. Any goroutine may use it.
type clock struct {
	mono func() int64 // milliseconds since some moment, whatever is done to the clock of the machine

	mu     sync.Mutex // held while the course is replaced
	course atomic.Pointer[course]
}

// course is how a time goes on: it was at when the monotonic clock said since, and is ahead by the last field.
type course struct{ since, at, ahead int64 }

func newClock(at int64) *clock {
	began := time.Now()
	c := &clock{mono: func() int64 { return time.Since(began).Milliseconds() }}
	c.begin(at)
	return c
}

// begin sets the time, also back.
func (c *clock) begin(at int64) { c.course.Store(&course{c.mono(), at, 0}) }

func (c *clock) now() int64 { return c.course.Load().when(c.mono()) }

// when returns the time at a moment of the monotonic clock.
func (c *course) when(mono int64) int64 {
	passed := max(0, mono-c.since)
	return c.at + passed - min(c.ahead, passed/2)
}

// set says what the time is.
func (c *clock) set(to int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	mono := c.mono()
	now := c.course.Load().when(mono)
	c.course.Store(&course{mono, max(now, to), max(0, now-to)})
}

// quiet reports whether no member has told the time for long.
func (c *clock) quiet() bool { return c.mono()-c.course.Load().since >= lastHeard }

const (
	maxOff    = 500    // milliseconds by which a clock may differ from the time that a majority has reached
	maxTook   = 500    // milliseconds after which the answer of another member says too little of its clock
	lastHeard = 10_000 // milliseconds for which an answer is of use
	keptHeard = 8      // answers of each member; the fastest of them counts

	clockPatience = time.Second
)

// clocks has the clocks of other members, as far as they are known.
type clocks struct {
	mu    sync.Mutex
	heard map[uint64][]heard // the last answers of each that came fast, the oldest first; guarded by mu
	last  map[uint64]said    // the last answer of each; guarded by mu
}

// heard is an answer of another member: by how much its clock is ahead of the monotonic one here.
type heard struct{ ahead, at, took int64 }

// said is what a member said, and when.
type said struct {
	probe
	at int64
}

// hear notes what a clock said at a moment of the monotonic clock, or half of took before.
func (c *clocks) hear(id uint64, p probe, mono, took int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.heard == nil {
		c.heard, c.last = make(map[uint64][]heard), make(map[uint64]said)
	}
	c.last[id] = said{p, mono}
	if took <= maxTook {
		all := append(c.heard[id], heard{p.clock + took/2 - mono, mono, took})
		c.heard[id] = all[max(0, len(all)-keptHeard):]
	}
}

// say returns the clock of a member at a moment of the monotonic clock, if it is known.
func (c *clocks) say(id uint64, mono int64) (clock int64, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.heard[id]
	if len(all) == 0 || mono-all[len(all)-1].at >= lastHeard {
		return 0, false
	}
	best := slices.MinFunc(all, func(a, b heard) int { return cmp.Compare(a.took, b.took) })
	return best.ahead + mono, true
}

// logTime returns the time that a member tells of its log.
func (c *clocks) logTime(id uint64, mono int64) (took time.Duration, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, known := c.last[id]
	return last.logTime, known && mono-last.at < lastHeard
}

// level returns the highest format level that a member has said to know, 0 for one that never answered.
func (c *clocks) level(id uint64) byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last[id].knows
}

// reached returns the time that a majority of n clocks has reached, if enough of them are known.
func reached(clocks []int64, voters int) (at int64, known bool) {
	majority := voters/2 + 1
	if voters == 0 || len(clocks) < majority {
		return 0, false
	}
	slices.Sort(clocks)
	return clocks[len(clocks)-majority], true
}

// wall returns the clock of this machine.
func (n *Node) wall() int64 {
	if clock := n.opts.Store.Clock; clock != nil {
		return clock().UnixMilli()
	}
	return time.Now().UnixMilli()
}

// says returns the present clock of a member.
func (n *Node) says(id uint64) (clock int64, known bool) {
	if id == n.id {
		return n.wall(), true
	}
	return n.clocks.say(id, n.clock.mono())
}

// reached returns the time that the clocks of a majority of the voters have reached.
func (n *Node) reached() (at int64, known bool) {
	voters := n.machine.members.Load().state.GetVoters()
	var all []int64
	for _, id := range voters {
		if clock, known := n.says(id); known {
			all = append(all, clock)
		}
	}
	return reached(all, len(voters))
}

// steer sets the group's time to what a majority has reached, if this member leads, or hears nothing of the leader. It reports whether
// that is known.
func (n *Node) steer(leads bool) bool {
	at, known := n.reached()
	if known && (leads || n.clock.quiet()) {
		n.clock.set(at)
	}
	return known
}

// steerFirst is steer for a member that is about to lead. It waits, but not for long, until the time is known: the last message may be
// of long ago, and if the time jumped later, keys that are written meanwhile would expire at once.
func (n *Node) steerFirst() {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); !n.steer(true) && time.Since(began) < clockPatience; {
		select {
		case <-n.ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// logTime returns MemberStatus.LogTime of a member.
func (n *Node) logTime(id uint64) (took time.Duration, known bool) {
	if id == n.id {
		return n.run.pace.p99(), true
	}
	return n.clocks.logTime(id, n.clock.mono())
}

// probe is the answer of a member to a probe.
type probe struct {
	clock   int64
	logTime time.Duration
	knows   byte // the highest format level that its program knows
	level   byte // the group's, as far as it has heard
}

// An answer to a probe: version 1, the member's clock in 8 bytes, little-endian, MemberStatus.LogTime in milliseconds in 4, and the two
// levels in one byte each. More may follow.
const (
	probeVersion = 1
	probeLen     = 1 + 8 + 4 + 1 + 1
)

func (p probe) encode() []byte {
	b := binary.LittleEndian.AppendUint64([]byte{probeVersion}, uint64(p.clock))
	b = binary.LittleEndian.AppendUint32(b, uint32(p.logTime.Milliseconds()))
	return append(b, p.knows, p.level)
}

func decodeProbe(b []byte) (p probe, err error) {
	if len(b) < probeLen || b[0] != probeVersion {
		return p, fmt.Errorf("answer to a probe of %d bytes, which begins with %.1x: want at least %d bytes of version %d", len(b), b, probeLen, probeVersion)
	}
	p.clock = int64(binary.LittleEndian.Uint64(b[1:]))
	p.logTime = time.Duration(binary.LittleEndian.Uint32(b[9:])) * time.Millisecond
	p.knows, p.level = b[13], b[14]
	return p, nil
}

// probe answers another member's probe.
func (n *Node) probe() []byte {
	return probe{n.wall(), n.run.pace.p99(), n.opts.knows(), byte(n.level.Load())}.encode()
}

// probed takes another member's answer.
func (n *Node) probed(from uint64, answer []byte, took time.Duration) {
	p, err := decodeProbe(answer)
	if err != nil {
		n.logger.Debug("sievekv: a member cannot be probed", "dir", n.dir, "member", hexID(from), "error", err)
		return
	}
	n.noteLevel(p.level)
	n.clocks.hear(from, p, n.clock.mono(), took.Milliseconds())
	n.steer(n.machine.leads.Load() != 0)
}

// off reports whether the clock of a member is known to differ too much from the time that a majority has reached.
func (m *MemberStatus) off() bool { return m.ClockKnown && m.Clock.Abs() > maxOff*time.Millisecond }

// lookAtClock makes a leader whose clock is off hand over to a member whose clock is not.
func (n *Node) lookAtClock() {
	n.steer(n.machine.leads.Load() != 0)
	s := n.Status()
	self := s.member(n.id)
	if self == nil {
		return
	}
	if off := self.off(); off != n.off {
		n.off = off
		n.logger.Warn("sievekv: whether the clock of the member is off has changed", "dir", n.dir, "off", off, "ahead", self.Clock)
	}
	if n.off {
		n.handOverFor("its clock is off", func(m *MemberStatus) bool { return m.ClockKnown && !m.off() })
	}
}
