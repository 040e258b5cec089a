package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"time"
)

// handshakeTime is roughly the processor time of a handshake.
const handshakeTime = time.Millisecond

// handshakePlaces is how many handshakes use the processor at a time. Half of the processors are left to commands.
func handshakePlaces() int { return max(runtime.GOMAXPROCS(0)/2, 1) }

// maxHandshake is the most bytes that a client may send in its handshake. A typical hello has 2 KiB.
const maxHandshake = 16 << 10

// handshakes bounds how many TLS handshakes, of clients and for metrics together, use the processor at the same time.
// The next place goes to the address that has used least time for handshakes lately: a client waits for few handshakes
// of an address that begins a thousand a second.
type handshakes struct {
	places *admission

	mu   sync.Mutex
	used map[netip.Prefix]*handshakeUse // of addresses that have a handshake; guarded by mu
}

// handshakeUse is the processor time that an address has used.
type handshakeUse struct {
	use
	running int // handshakes that have begun and not ended
}

func newHandshakes(places int) *handshakes {
	h := &handshakes{places: newAdmission(places), used: make(map[netip.Prefix]*handshakeUse)}
	h.places.overdue = 0 // a handshake that has a place does not wait
	return h
}

// begin counts a handshake of an address, which end ends.
func (h *handshakes) begin(from netip.Prefix) {
	h.mu.Lock()
	defer h.mu.Unlock()
	u := h.used[from]
	if u == nil {
		u = new(handshakeUse)
		h.used[from] = u
	}
	u.running++
	u.add(time.Now(), handshakeTime)
}

func (h *handshakes) end(from netip.Prefix) {
	h.mu.Lock()
	defer h.mu.Unlock()
	u := h.used[from]
	if u.running--; u.running == 0 {
		delete(h.used, from)
	}
}

// await waits for a place, for a handshake of an address that has begun. It returns nil if closed was closed first.
func (h *handshakes) await(from netip.Prefix, closed <-chan struct{}) *turn {
	h.mu.Lock()
	u := h.used[from].use
	h.mu.Unlock()
	return h.places.await(u, closed)
}

// ServeTLS is Serve for clients that speak TLS. A handshake may take 10 seconds. Few handshakes use the processor at
// a time, in turn between the addresses of clients, and they need turns as busy connections do. Until the handshake is
// finished a client is a stranger, as is a client that has not given the password.
//
// Serve also serves connections that the caller has wrapped in a tls.Conn, but bounds their handshakes only by the
// number of strangers.
func (s *Server) ServeTLS(l net.Listener, config *tls.Config) error {
	return s.serve(l, func(nc net.Conn) net.Conn {
		return tls.Server(&handshaking{Conn: nc, server: s}, config)
	})
}

// handshaking is the connection below TLS. During the handshake it holds a place in Server.handshakes and a turn,
// except while it waits for bytes from the client.
type handshaking struct {
	net.Conn
	server *Server
	from   netip.Prefix
	closed <-chan struct{} // nil before the handshake and after it
	use    use
	read   int
	place  *turn // in Server.handshakes, nil if it has none
	turn   *turn
}

var errHandshake = errors.New("handshake of more than 16 KiB")

func (h *handshaking) Read(p []byte) (int, error) {
	if h.closed == nil {
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
	if h.place = h.server.handshakes.await(h.from, h.closed); h.place == nil {
		return false
	}
	h.use.add(time.Now(), 0)
	h.turn = h.server.admission.await(h.use, h.closed)
	return h.turn != nil
}

func (h *handshaking) leave() {
	for _, held := range []**turn{&h.turn, &h.place} {
		if *held != nil {
			(*held).end()
			*held = nil
		}
	}
}

// shake does the handshake of t, which is above h. It ends when closed is closed, and when the time for a handshake
// is over: then it calls expire, which closes the connection.
func (h *handshaking) shake(t *tls.Conn, closed <-chan struct{}, expire func()) error {
	h.from, h.closed = networkOf(h.RemoteAddr()), closed
	h.use.add(time.Now(), h.server.limits.burst+handshakeTime)
	h.server.handshakes.begin(h.from)
	defer func() {
		h.leave()
		h.server.handshakes.end(h.from)
		h.closed = nil
	}()
	return handshake(t, h.server.limits.handshake, expire)
}

func handshake(t *tls.Conn, most time.Duration, expire func()) error {
	timer := time.AfterFunc(most, expire)
	defer timer.Stop()
	return t.Handshake()
}

// shakeHands does the TLS handshake, if the connection has TLS. It is not ok if the handshake failed.
func (c *conn) shakeHands() (ok bool) {
	t, ok := c.net.(*tls.Conn)
	if !ok {
		return true
	}
	var err error
	expire := func() { c.kill() }
	if h, ok := t.NetConn().(*handshaking); ok {
		err = h.shake(t, c.wake, expire)
	} else {
		err = handshake(t, c.server.limits.handshake, expire)
	}
	c.use.add(time.Now(), handshakeTime)
	if err != nil {
		c.server.stats.handshakes.Add(1)
		c.server.warnings.warn("sievekv: a TLS handshake failed", "client", c.net.RemoteAddr(), "error", err)
		return false
	}
	c.strangerSince = time.Now()
	c.setStranger(!c.authenticated)
	return !c.closing.Load()
}

// MetricsTLS returns a listener for the http.Server of MetricsHandler whose clients speak TLS. l is a MetricsListener.
// The handshakes are bounded as for ServeTLS, and together with its. The config must not ask for HTTP/2.
func (s *Server) MetricsTLS(l net.Listener, config *tls.Config) net.Listener {
	return &metricsTLS{l, s, config}
}

type metricsTLS struct {
	net.Listener
	server *Server
	config *tls.Config
}

// Accept implements net.Listener.
func (l *metricsTLS) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	h := &handshaking{Conn: nc, server: l.server}
	return &metricsConn{Conn: tls.Server(h, l.config), below: h, closed: make(chan struct{})}, nil
}

// metricsConn is a connection for metrics that does its handshake when it is first read.
type metricsConn struct {
	*tls.Conn
	below  *handshaking
	shaken bool
	err    error // of the handshake
	closed chan struct{}
	once   sync.Once
}

// Read implements net.Conn. The http.Server reads before it writes, and in one goroutine at a time.
func (c *metricsConn) Read(p []byte) (int, error) {
	if !c.shaken {
		c.shaken = true
		if c.err = c.below.shake(c.Conn, c.closed, func() { _ = c.Close() }); c.err != nil {
			c.below.server.warnings.warn("sievekv: a client of the metrics failed", "error", fmt.Errorf("TLS handshake error from %s: %w", c.RemoteAddr(), c.err))
		}
	}
	if c.err != nil {
		return 0, c.err
	}
	return c.Conn.Read(p)
}

// Close implements net.Conn.
func (c *metricsConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
