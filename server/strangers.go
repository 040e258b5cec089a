package server

import (
	"container/list"
	"sync/atomic"
	"time"
)

// strangers are the connections whose clients have not given the password yet, or have not finished the TLS
// handshake. Their number bounds the memory they hold together, because each holds little: a goroutine, a buffer of
// resp.UnauthenticatedLimits, and replies of strangerBatch.
//
// At that number, a new stranger replaces the oldest one. Attackers can take all places, and if the server refused
// new strangers then, no client could log in any more. A client that gives its password at once has logged in before
// it is the oldest.
type strangers struct {
	list list.List     // of *conn, the oldest in front; guarded by Server.mu
	held atomic.Int64  // bytes; not counted in Server.held
	left chan struct{} // has an element if a stranger may have left since awaitRoom last looked
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
	return int64(len(s.conns)) >= s.maxClients() || stranger && int64(s.strangers.list.Len()) >= s.maxStrangers()
}

// makeRoom removes the oldest strangers until there is room for a connection. The caller holds mu, and closes them
// after it has released mu. It is not ok if only users are left.
func (s *Server) makeRoom(stranger bool) (oldest []*conn, ok bool) {
	for s.isFull(stranger) {
		first := s.strangers.list.Front()
		if first == nil {
			return oldest, false
		}
		c := first.Value.(*conn)
		s.leaveStrangers(c)
		delete(s.conns, c)
		s.stats.closedStrangers.Add(1)
		oldest = append(oldest, c)
	}
	return oldest, true
}

// awaitRoom runs before the server adds an accepted connection. It waits until there is room for a stranger, or until
// the oldest stranger has had limits.grace. So each client of a crowd that connects at once has that much time to log
// in, and an attacker that only connects is accepted no faster.
func (s *Server) awaitRoom() {
	for {
		wait := s.untilRoom(time.Now())
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

func (s *Server) untilRoom(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.strangers.list.Front()
	if first == nil || s.shuttingDown || s.ctx.Err() != nil || !s.isFull(true) {
		return 0
	}
	return s.limits.grace - now.Sub(first.Value.(*conn).joined)
}

// joinStrangers makes a connection the newest stranger. The caller holds mu.
func (s *Server) joinStrangers(c *conn) {
	c.joined, c.place = time.Now(), s.strangers.list.PushBack(c)
}

// leaveStrangers removes a connection that becomes a user, or ends, from the strangers. The caller holds mu.
func (s *Server) leaveStrangers(c *conn) {
	if c.place == nil {
		return
	}
	s.strangers.list.Remove(c.place)
	c.place = nil
	select {
	case s.strangers.left <- struct{}{}:
	default:
	}
}

// countStrangers returns the number of strangers.
func (s *Server) countStrangers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.strangers.list.Len()
}

// setStranger says whether the connection is a stranger from now on.
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
