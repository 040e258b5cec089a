package server

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"runtime"
	"time"
)

// handshakeTime is about what a handshake takes of the processor.
const handshakeTime = time.Millisecond

// handshakePlaces is how many handshakes use the processor at a time: half of the processors are left to commands.
func handshakePlaces() int { return max(runtime.GOMAXPROCS(0)/2, 1) }

// maxHandshake is the most bytes that a client may send in its handshake. A hello with the keys of today has 2 KiB.
const maxHandshake = 16 << 10

// ServeTLS is Serve for clients that speak TLS. Their handshakes have 10 seconds, and only some use the
// processor at a time, behind clients that have used it less; those who have not ended theirs are strangers, as are
// clients that have not given the password. Connections that somebody else made tls.Conns of, Serve serves too, but
// bounds the number of their handshakes as that of strangers alone.
func (s *Server) ServeTLS(l net.Listener, config *tls.Config) error {
	return s.serve(l, func(nc net.Conn) net.Conn {
		return tls.Server(&handshaking{Conn: nc}, config)
	})
}

// handshaking is a connection below TLS. While the handshake lasts, a client that is waited for keeps no place and no
// turn from others: both are taken when its bytes are there, and given back when it is waited for again.
type handshaking struct {
	net.Conn
	owner *conn // nil before the handshake and after it
	read  int
	holds bool // a place
}

var errHandshake = errors.New("handshake of more than 16 KiB")

func (h *handshaking) Read(p []byte) (int, error) {
	if h.owner == nil {
		return h.Conn.Read(p)
	}
	h.leave()
	n, err := h.Conn.Read(p)
	if err != nil {
		return n, err
	}
	if h.read += n; h.read > maxHandshake {
		return 0, errHandshake
	}
	if !h.enter() {
		return 0, os.ErrDeadlineExceeded
	}
	return n, nil
}

// CloseWrite is for closeTold.
func (h *handshaking) CloseWrite() error {
	half, ok := h.Conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}

func (h *handshaking) enter() (ok bool) {
	s := h.owner.server
	select {
	case s.handshakes <- struct{}{}:
	case <-h.owner.wake:
		return false
	}
	h.holds = true
	h.owner.use.add(time.Now(), 0)
	h.owner.turn = s.turns.take(h.owner.use, h.owner.wake)
	return h.owner.turn != nil
}

func (h *handshaking) leave() {
	if h.holds {
		h.owner.giveTurn()
		<-h.owner.server.handshakes
		h.holds = false
	}
}

// shakeHands does the handshake of a TLS connection. It is not ok if that failed.
func (c *conn) shakeHands() (ok bool) {
	t, ok := c.net.(*tls.Conn)
	if !ok {
		return true
	}
	if h, ok := t.NetConn().(*handshaking); ok {
		h.owner = c
		defer func() {
			h.leave()
			h.owner = nil
		}()
	}
	expire := time.AfterFunc(c.server.limits.handshake, func() { c.kill() })
	defer expire.Stop()
	c.use.add(time.Now(), handshakeTime)
	if err := t.Handshake(); err != nil {
		c.server.stats.handshakes.Add(1)
		c.server.warnings.warn("sievekv: a TLS handshake failed", "client", c.net.RemoteAddr(), "error", err)
		return false
	}
	c.strangerSince = time.Now()
	c.setStranger(!c.authenticated)
	return !c.closing.Load()
}
