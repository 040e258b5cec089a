package server

import (
	"container/list"
	"net"
	"net/netip"
	"sync/atomic"
	"time"
)

// strangers are the connections whose clients have not given the password yet, or have not finished the TLS
// handshake. Their number bounds the memory they hold together, because each holds little: a goroutine, a buffer of
// resp.UnauthenticatedLimits, and replies of strangerBatch.
//
// At the most strangers, a new one replaces the oldest of the address that has most of them. Attackers can take all
// places, and if the server refused new strangers then, no client could log in any more. A client that gives its
// password at once has logged in before it is the oldest of its address, and one whose address has few strangers is not
// replaced at all.
//
// A stranger that waits for a delayed answer to a password keeps its place meanwhile, and is then the newest of its
// address: otherwise a client that shares its address with an attacker would be replaced before it has its answer.
// Half of the strangers can wait like this. The others can be replaced, so that attackers who give wrong passwords do
// not keep the places.
//
// All fields but held and left are guarded by Server.mu.
type strangers struct {
	total    int
	origins  map[netip.Prefix]*origin
	answered list.List     // of *conn: those that wait for a delayed answer, the longest in front
	held     atomic.Int64  // bytes; not counted in Server.held
	left     chan struct{} // has an element if a stranger may have left since awaitRoom last looked
}

// origin is an address that has strangers, see networkOf.
type origin struct {
	network netip.Prefix
	total   int       // its strangers
	list    list.List // of *conn: those that can be replaced, the oldest in front
}

// strangerBatch is limits.batch for strangers.
const strangerBatch = 1 << 10

// maxStrangers returns a tenth of maxclients, but at least 128, so that all clients of a small server can connect at
// once.
func (s *Server) maxStrangers() int64 {
	if n := s.limits.strangers; n > 0 {
		return n
	}
	return max(s.maxClients()/10, 128)
}

// isFull reports whether a new connection, a stranger or not, must replace another one. The caller holds mu.
func (s *Server) isFull(stranger bool) bool {
	return int64(len(s.conns)) >= s.maxClients() || stranger && int64(s.strangers.total) >= s.maxStrangers()
}

// next returns the stranger that a new connection replaces, nil if there is none: the oldest one of the address that
// has most. Among addresses with equally many it is the oldest one of all.
func (l *strangers) next() *conn {
	var next *conn
	for _, a := range l.origins {
		front := a.list.Front()
		if front == nil {
			continue
		}
		c := front.Value.(*conn)
		if next == nil || a.total > next.origin.total || a.total == next.origin.total && c.joined.Before(next.joined) {
			next = c
		}
	}
	if front := l.answered.Front(); next == nil && front != nil {
		next = front.Value.(*conn)
	}
	return next
}

// makeRoom removes strangers until there is room for a connection. The caller holds mu, and closes them after it has
// released mu. It is not ok if only users are left.
func (s *Server) makeRoom(stranger bool) (replaced []*conn, ok bool) {
	for s.isFull(stranger) {
		c := s.strangers.next()
		if c == nil {
			return replaced, false
		}
		s.leaveStrangers(c)
		delete(s.conns, c)
		s.stats.closedStrangers.Add(1)
		replaced = append(replaced, c)
	}
	return replaced, true
}

// awaitRoom runs before the server adds an accepted connection. It waits until there is room for a stranger, or until
// the stranger that the connection is to replace has had limits.grace, or is of another address, with more strangers.
// So each client of a crowd that connects at once has this time to log in, and an attacker that only connects is
// accepted no faster.
func (s *Server) awaitRoom(from net.Addr) {
	for {
		wait := s.untilRoom(networkOf(from), time.Now())
		if wait <= 0 {
			return
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-s.strangers.left:
		case <-s.ctx.Done():
		}
		timer.Stop()
	}
}

func (s *Server) untilRoom(from netip.Prefix, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shuttingDown || s.ctx.Err() != nil || !s.isFull(true) {
		return 0
	}
	c := s.strangers.next()
	if c == nil {
		return 0
	}
	own := 1
	if a := s.strangers.origins[from]; a != nil {
		own += a.total
	}
	if c.origin.total > own {
		return 0
	}
	return s.limits.grace - now.Sub(c.joined)
}

// joinStrangers makes a connection the newest stranger of its address. The caller holds mu.
func (s *Server) joinStrangers(c *conn) {
	l, network := &s.strangers, networkOf(c.net.RemoteAddr())
	a := l.origins[network]
	if a == nil {
		a = &origin{network: network}
		l.origins[network] = a
	}
	l.total++
	a.total++
	c.origin = a
	c.joined, c.place = time.Now(), a.list.PushBack(c)
}

// leaveStrangers removes a connection that becomes a user, or ends, from the strangers. The caller holds mu.
func (s *Server) leaveStrangers(c *conn) {
	a := c.origin
	if a == nil {
		return
	}
	s.leavePlace(c)
	c.origin = nil
	s.strangers.total--
	if a.total--; a.total == 0 {
		delete(s.strangers.origins, a.network)
	}
	select {
	case s.strangers.left <- struct{}{}:
	default:
	}
}

// leavePlace removes a stranger from the list that it is in. The caller holds mu.
func (s *Server) leavePlace(c *conn) {
	if c.answered {
		s.strangers.answered.Remove(c.place)
	} else {
		c.origin.list.Remove(c.place)
	}
	c.place, c.answered = nil, false
}

// awaitAnswer notes whether a stranger waits for a delayed answer from now on.
func (s *Server) awaitAnswer(c *conn, waits bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &s.strangers
	switch {
	case c.origin == nil || c.answered == waits: // it is none, or was replaced; or too many wait
	case !waits:
		s.leavePlace(c)
		c.joined, c.place = time.Now(), c.origin.list.PushBack(c)
	case int64(l.answered.Len()) < max(s.maxStrangers()/2, 1):
		s.leavePlace(c)
		c.place, c.answered = l.answered.PushBack(c), true
	}
}

// countStrangers returns the number of strangers.
func (s *Server) countStrangers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.strangers.total
}

// setStranger notes whether the connection is a stranger from now on.
func (c *conn) setStranger(stranger bool) {
	if stranger == c.stranger {
		return
	}
	s := c.server
	c.holds().Add(-int64(c.heldBytes))
	c.stranger = stranger
	c.holds().Add(int64(c.heldBytes))
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, open := s.conns[c]; stranger && open {
		s.joinStrangers(c)
	} else {
		s.leaveStrangers(c)
	}
}

// holds returns the counter for the memory of the connection. Strangers take no memory from users.
func (c *conn) holds() *atomic.Int64 {
	if c.stranger {
		return &c.server.strangers.held
	}
	return &c.server.held
}
