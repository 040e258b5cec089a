package server

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// MONITOR sends a client the commands of all others, a line each. It sends a command once it has run or was queued,
// before its client gets the reply. It leaves out passwords as SLOWLOG does, and administrators' commands as a whole. A
// client that reads too slowly is told so and closed: commands do not wait for it, and the waiting lines are bounded.

// monitors are the clients that monitor.
type monitors struct {
	some atomic.Bool // there are any: most commands look no further

	mu  sync.Mutex
	all map[*monitor]struct{} // guarded by mu
}

// maxMonitored is how many bytes may wait to be sent to a client that monitors.
const maxMonitored = 1 << 20

// monitor has the lines that a connection must send to a client that monitors.
type monitor struct {
	conn *conn
	cmd  *module.Command // MONITOR

	mu      sync.Mutex
	pending []byte // lines; guarded by mu
	failure string // why it is to end, "" if it is not; guarded by mu
	reading bool   // the connection waits for its client; guarded by mu
}

// add and remove enter a client, and take it out.
func (m *monitors) add(x *monitor) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil {
		m.all = make(map[*monitor]struct{})
	}
	m.all[x] = struct{}{}
	m.some.Store(true)
}

func (m *monitors) remove(x *monitor) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.all, x)
	m.some.Store(len(m.all) > 0)
}

// monitored tells the monitoring clients of a command of this connection that has run or was queued.
func (c *conn) monitored(words [][]byte, at time.Time) {
	m := &c.server.monitors
	if !m.some.Load() {
		return
	}
	cmd, args := c.server.host.Resolve(words)
	if cmd == nil || cmd.Flags&module.Admin != 0 {
		return
	}
	line := monitorLine(c.address(), slowCopy(c.server.host.Command(words[0]), words), at)
	hidden := monitorLine(c.address(), []string{string(words[0]), "(hidden)"}, at)
	m.mu.Lock()
	defer m.mu.Unlock()
	for x := range m.all {
		switch user := x.conn.about.user.Load(); {
		case x.conn == c:
		case user.Removed() || user.Check(x.cmd, nil) != nil:
			x.end("NOPERM the user may not use MONITOR any more")
		case user.MaySee(cmd, args):
			x.tell(line)
		default:
			x.tell(hidden)
		}
	}
}

// monitorLine returns a line as Redis has it.
func monitorLine(from string, words []string, at time.Time) []byte {
	line := fmt.Appendf(nil, "+%d.%06d [0 %s]", at.Unix(), at.Nanosecond()/1000, from)
	for _, word := range words {
		line = strconv.AppendQuoteToASCII(append(line, ' '), word)
	}
	return append(line, "\r\n"...)
}

// tell adds a line to the waiting ones, and wakes the connection if it waits for its client.
func (x *monitor) tell(line []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.failure != "" {
		return
	}
	if x.pending = append(x.pending, line...); len(x.pending) > maxMonitored {
		x.pending, x.failure = nil, fmt.Sprintf("ERR MONITOR fell behind: more than %d bytes wait to be read", maxMonitored)
	}
	x.wake()
}

// end makes the connection end with an error.
func (x *monitor) end(failure string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.pending, x.failure = nil, failure
	x.wake()
}

// wake makes the connection's read return. The caller holds mu.
func (x *monitor) wake() {
	if x.reading {
		_ = x.conn.net.SetReadDeadline(time.Unix(1, 0)) // fails if the client is gone
	}
}

// beginRead, endRead and appendPending implement teller.
func (x *monitor) beginRead() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.reading = len(x.pending) == 0 && x.failure == ""
	return x.reading
}

func (x *monitor) endRead() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.reading = false
	return len(x.pending) > 0 || x.failure != ""
}

func (x *monitor) appendPending(dst []byte) []byte {
	x.mu.Lock()
	defer x.mu.Unlock()
	dst = append(dst, x.pending...)
	x.pending = nil
	if x.failure != "" {
		dst = append(append(append(dst, '-'), x.failure...), "\r\n"...)
		x.conn.ended, x.conn.told = true, true
	}
	return dst
}

// startMonitoring runs MONITOR.
func startMonitoring(c *conn, call *module.Call) reply.Reply {
	if c.tracker != nil {
		return reply.Error("ERR MONITOR and CLIENT TRACKING exclude each other on one connection")
	}
	if c.monitor == nil {
		c.monitor = &monitor{conn: c, cmd: call.Command}
		c.server.monitors.add(c.monitor)
	}
	return reply.OK
}

func (c *conn) stopMonitoring() {
	if c.monitor != nil {
		c.server.monitors.remove(c.monitor)
		c.monitor = nil
	}
}
