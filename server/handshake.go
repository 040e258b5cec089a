package server

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"runtime"
	"time"
)

// handshakeTime is roughly the processor time of a handshake.
const handshakeTime = time.Millisecond

// handshakePlaces is how many handshakes use the processor at a time. Half of the processors are left to commands.
func handshakePlaces() int { return max(runtime.GOMAXPROCS(0)/2, 1) }

// maxHandshake is the most bytes that a client may send in its handshake. A typical hello has 2 KiB.
const maxHandshake = 16 << 10

// ServeTLS is Serve for clients that speak TLS. A handshake may take 10 seconds. Few handshakes use the processor at
// a time, and they need turns as busy connections do. Until the handshake is finished a client is a stranger, as is a
// client that has not given the password.
//
// Serve also serves connections that the caller has wrapped in a tls.Conn, but bounds their handshakes only by the
// number of strangers.
func (s *Server) ServeTLS(l net.Listener, config *tls.Config) error {
	return s.serve(l, func(nc net.Conn) net.Conn {
		return tls.Server(&handshaking{Conn: nc}, config)
	})
}

// handshaking is the connection below TLS. During the handshake it holds a place in Server.handshakes and a turn,
// except while it waits for bytes from the client.
type handshaking struct {
	net.Conn
	owner *conn // nil before the handshake and after it
	read  int
	holds bool // has a place in Server.handshakes
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
	h.owner.turn = s.admission.await(h.owner.use, h.owner.wake)
	return h.owner.turn != nil
}

func (h *handshaking) leave() {
	if h.holds {
		h.owner.endTurn()
		<-h.owner.server.handshakes
		h.holds = false
	}
}

// shakeHands does the TLS handshake, if the connection has TLS. It is not ok if the handshake failed.
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
