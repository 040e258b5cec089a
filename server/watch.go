package server

import (
	"errors"
	"os"
	"time"

	"github.com/sievekv/sievekv/module"
)

// mayTakeLong reports whether a command may take longer than the bytes of its words do. Then it ends when its client is
// gone, and the time that it takes counts.
func mayTakeLong(cmd *module.Command) bool {
	return cmd != nil && cmd.Flags&(module.Fast|module.Brief) == 0
}

// aheadBytes is how much the server reads from a client while one of its commands runs.
const aheadBytes = 4 << 10

// watch notices that the client of a connection is gone while the connection runs commands, or waits to run one, and
// does not read. It begins to look after limits.watchAfter.
type watch struct {
	timer *time.Timer
	ended chan struct{} // closed when it looks no more
	stop  chan struct{} // closed when it has to end
}

// beginWatch makes the connection's context end when the client is gone, until endWatch.
func (c *conn) beginWatch() {
	if c.watch != nil || c.net.SetReadDeadline(time.Time{}) != nil || c.closing.Load() {
		return
	}
	w := &watch{ended: make(chan struct{}), stop: make(chan struct{})}
	w.timer = time.AfterFunc(c.server.limits.watchAfter, func() {
		defer close(w.ended)
		if c.readAhead() && c.hangsUp(w.stop) {
			c.cancel()
		}
	})
	c.watch = w
	c.server.watched.Add(1)
}

func (c *conn) endWatch() {
	w := c.watch
	if w == nil {
		return
	}
	c.watch = nil
	c.server.watched.Add(-1)
	if !w.timer.Stop() {
		close(w.stop)
		_ = c.net.SetReadDeadline(time.Unix(1, 0)) // fails if the client is gone; then readAhead returns anyway
		<-w.ended
	}
}

// readAhead reads what the client sends, at most aheadBytes, to notice its end, at which the connection's context ends.
// It returns true if there may be more.
func (c *conn) readAhead() (more bool) {
	for len(c.ahead) < aheadBytes {
		next := make([]byte, aheadBytes-len(c.ahead))
		n, err := c.net.Read(next)
		c.ahead = append(c.ahead, next[:n]...)
		if err != nil {
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				c.cancel()
			}
			return false
		}
	}
	return true
}

// hangsUp waits until the client has closed its side of the connection behind what it has sent, and returns true; false if
// stop is closed first, or if the system does not tell.
func (c *conn) hangsUp(stop <-chan struct{}) bool {
	for tick := time.NewTicker(c.server.limits.watchAfter); ; {
		hungUp, known := hungUp(c.net)
		if hungUp || !known {
			tick.Stop()
			return hungUp
		}
		select {
		case <-tick.C:
		case <-stop:
			tick.Stop()
			return false
		}
	}
}

// source is where a connection reads from: first the bytes that readAhead has read, then the socket.
type source conn

func (s *source) Read(p []byte) (int, error) {
	if n := copy(p, s.ahead); n > 0 {
		s.ahead = s.ahead[n:]
		if len(s.ahead) == 0 {
			s.ahead = nil
		}
		return n, nil
	}
	return s.net.Read(p)
}
