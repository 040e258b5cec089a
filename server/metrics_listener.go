package server

import (
	"container/list"
	"context"
	"net"
	"sync"
	"time"
)

// MetricsListener returns l with 16 connections at a time at most, or fewer if the limit of open files is below 256. When
// there are more, the one that has been without a request for longest is closed in favour of a new one, once it has been
// so for a tenth of a second; for that the http.Server needs MetricsConnContext. Connections that were given metrics, such as
// that of a Prometheus which asks every 15 seconds, are closed only if they are more than half. While there is none to be
// closed, one connection is accepted and waits.
func (s *Server) MetricsListener(l net.Listener) net.Listener {
	return &boundedListener{
		Listener: l, places: s.room.metrics, grace: s.limits.grace, left: make(chan struct{}, 1), closed: make(chan struct{}),
	}
}

// MetricsConnContext is for the field ConnContext of the http.Server that serves MetricsHandler on a MetricsListener, with
// TLS or without: so that the listener knows which connections have a request. Without it none is closed for another.
func (s *Server) MetricsConnContext(ctx context.Context, c net.Conn) context.Context {
	if wrapped, ok := c.(interface{ NetConn() net.Conn }); ok { // a tls.Conn
		c = wrapped.NetConn()
	}
	if c, ok := c.(*boundedConn); ok {
		c.change(0)
		return context.WithValue(ctx, placeKey{}, c)
	}
	return ctx
}

// placeKey is what the context of a request has its connection under.
type placeKey struct{}

// connOf returns the connection of a request, nil if the http.Server has no MetricsConnContext.
func connOf(ctx context.Context) *boundedConn {
	c, _ := ctx.Value(placeKey{}).(*boundedConn)
	return c
}

// boundedListener lets connections in when there is a place for them.
type boundedListener struct {
	net.Listener
	places int
	grace  time.Duration // without a request, after which a connection may be closed for another
	left   chan struct{} // has one when a connection may have ended, or have no request any more, since it was last empty
	closed chan struct{}
	once   sync.Once

	// What follows is guarded by mu.
	mu    sync.Mutex
	taken int // places
	known int // of these, of connections that were given metrics

	// Of *boundedConn, the connections without a request, those that are so for longest in front: those that were given
	// metrics, and the others.
	idleKnown, idle list.List
}

// Accept implements net.Listener.
func (l *boundedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if !l.awaitPlace() {
		_ = c.Close() // nothing was promised
		return nil, net.ErrClosed
	}
	return &boundedConn{Conn: c, of: l}, nil
}

// awaitPlace takes a place, when there is one. It is not ok if the listener was closed.
func (l *boundedListener) awaitPlace() (ok bool) {
	for {
		oldest, wait, ok := l.takePlace(time.Now())
		switch {
		case ok:
			return true
		case oldest == nil:
			wait = time.Hour // or until one is left
		case wait <= 0:
			_ = oldest.Close() // its client is told by that alone
			continue
		}
		if !l.awaitChange(wait) {
			return false
		}
	}
}

// awaitChange waits for so long at most, until a connection ends or is without a request. It is not ok if the listener was
// closed.
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

// takePlace takes a place if one is free. Otherwise it returns the connection to be closed for it, nil for none, and how
// long it has until then.
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

// tell wakes up a connection that waits for a place.
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

// boundedConn is a connection that has a place until it is closed. What is done with nil does nothing.
type boundedConn struct {
	net.Conn
	of *boundedListener

	// What follows is guarded by of.mu.
	requests int
	known    bool          // it was given metrics
	place    *list.Element // among those without a request, if it is one
	since    time.Time     // when it came there
	gone     bool          // it has given its place back
}

// begin is called when a request begins, and end when it was answered.
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

// know is called when a request is given metrics.
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

// idle returns the list that the connection is in while it has no request. The caller holds of.mu.
func (c *boundedConn) idle() *list.List {
	if c.known {
		return &c.of.idleKnown
	}
	return &c.of.idle
}

// leaveIdle takes the connection out of its list. The caller holds of.mu.
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

// leave gives the place back.
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
