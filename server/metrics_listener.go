package server

import (
	"container/list"
	"context"
	"net"
	"sync"
	"time"
)

// MetricsListener returns l limited to 16 connections at a time, or fewer if the limit of open files is below 256. When
// there are more, it closes the connection that has been idle, without a request, for longest, but for at least a tenth
// of a second. It closes connections that have received metrics, such as a Prometheus between two scrapes, only if they
// are more than half. While no connection can be closed, the next one is accepted and waits.
//
// The http.Server needs MetricsConnContext, so that the listener knows which connections are idle.
func (s *Server) MetricsListener(l net.Listener) net.Listener {
	return &boundedListener{
		Listener: l, places: s.room.metrics, grace: s.limits.grace, left: make(chan struct{}, 1), closed: make(chan struct{}),
	}
}

// MetricsConnContext is the ConnContext of the http.Server that serves MetricsHandler on a MetricsListener, with TLS
// or without. It tells the listener which connections have requests. Without it, the listener closes no connection to
// make room.
func (s *Server) MetricsConnContext(ctx context.Context, c net.Conn) context.Context {
	if wrapped, ok := c.(interface{ NetConn() net.Conn }); ok { // with TLS
		c = wrapped.NetConn()
	}
	if h, ok := c.(*handshaking); ok {
		c = h.Conn
	}
	if c, ok := c.(*boundedConn); ok {
		c.change(0)
		return context.WithValue(ctx, placeKey{}, c)
	}
	return ctx
}

// placeKey is the key of the connection in a request's context.
type placeKey struct{}

// connOf returns the connection of a request, nil if the http.Server has no MetricsConnContext.
func connOf(ctx context.Context) *boundedConn {
	c, _ := ctx.Value(placeKey{}).(*boundedConn)
	return c
}

// boundedListener bounds the number of connections.
type boundedListener struct {
	net.Listener
	places int
	grace  time.Duration // how long a connection is idle before it may be closed to make room
	left   chan struct{} // has an element if a connection may have ended or become idle since awaitChange last looked
	closed chan struct{}
	once   sync.Once

	// The fields below are guarded by mu.
	mu    sync.Mutex
	taken int // places
	known int // places of connections that have received metrics

	// The idle connections, *boundedConn, the longest idle in front: connections that have received metrics, and the
	// others.
	idleKnown, idle list.List
}

// Accept implements net.Listener.
func (l *boundedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if !l.awaitPlace() {
		_ = c.Close() // nothing is lost
		return nil, net.ErrClosed
	}
	return &boundedConn{Conn: c, of: l}, nil
}

// awaitPlace waits for a free place and takes it. It is not ok if the listener was closed.
func (l *boundedListener) awaitPlace() (ok bool) {
	for {
		oldest, wait, ok := l.takePlace(time.Now())
		switch {
		case ok:
			return true
		case oldest == nil:
			wait = time.Hour // or until a connection ends or becomes idle
		case wait <= 0:
			_ = oldest.Close() // its client gets no reply
			continue
		}
		if !l.awaitChange(wait) {
			return false
		}
	}
}

// awaitChange waits until a connection ends or becomes idle, or until the time is over. It is not ok if the listener
// was closed.
func (l *boundedListener) awaitChange(most time.Duration) (ok bool) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.left:
	case <-l.closed:
		return false
	}
	return true
}

// takePlace takes a place if one is free. Otherwise it returns the connection to close, nil if there is none, and how
// long to wait before closing it.
func (l *boundedListener) takePlace(now time.Time) (oldest *boundedConn, wait time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.taken < l.places {
		l.taken++
		return nil, 0, true
	}
	first := l.idle.Front()
	if first == nil && l.known > l.places/2 {
		first = l.idleKnown.Front()
	}
	if first == nil {
		return nil, 0, false
	}
	oldest = first.Value.(*boundedConn)
	return oldest, l.grace - now.Sub(oldest.since), false
}

// tell wakes a connection that waits for a place.
func (l *boundedListener) tell() {
	select {
	case l.left <- struct{}{}:
	default:
	}
}

// Close implements net.Listener.
func (l *boundedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// boundedConn is a connection that holds a place until it is closed. Its methods for requests do nothing on nil.
type boundedConn struct {
	net.Conn
	of *boundedListener

	// The fields below are guarded by of.mu.
	requests int
	known    bool          // it has received metrics
	place    *list.Element // in its list of idle connections, nil while it has a request
	since    time.Time     // when it became idle
	gone     bool          // its place is free again
}

// begin and end mark the begin and the end of a request.
func (c *boundedConn) begin() { c.change(1) }
func (c *boundedConn) end()   { c.change(-1) }

// change adds to the number of requests.
func (c *boundedConn) change(requests int) {
	if c == nil {
		return
	}
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.requests += requests
	c.leaveIdle()
	if c.requests == 0 && !c.gone {
		c.place, c.since = c.idle().PushBack(c), time.Now()
		c.of.tell()
	}
}

// know notes that the connection has received metrics.
func (c *boundedConn) know() {
	if c == nil {
		return
	}
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if !c.known && !c.gone {
		c.known = true
		c.of.known++
	}
}

// idle returns the list of idle connections that this one belongs to. The caller holds of.mu.
func (c *boundedConn) idle() *list.List {
	if c.known {
		return &c.of.idleKnown
	}
	return &c.of.idle
}

// leaveIdle removes the connection from its list of idle connections. The caller holds of.mu.
func (c *boundedConn) leaveIdle() {
	if c.place != nil {
		c.idle().Remove(c.place)
		c.place = nil
	}
}

// Close implements net.Conn.
func (c *boundedConn) Close() error {
	err := c.Conn.Close()
	c.leave()
	return err
}

// leave frees the place.
func (c *boundedConn) leave() {
	l := c.of
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.gone {
		return
	}
	c.gone = true
	c.leaveIdle()
	l.taken--
	if c.known {
		l.known--
	}
	l.tell()
}
