package server

import (
	"container/list"
	"sync/atomic"
	"time"
)

// strangers are the connections whose clients have not given the password yet, or have not ended the handshake of
// TLS. What they may have together is bounded by their number, as each has little: a goroutine, a buffer of
// resp.UnauthenticatedLimits and replies of strangerBatch.
//
// When there are as many as there may be, the oldest is closed in favour of a new one. Attackers can fill all places,
// and if new ones were refused then, no good client could log in any more. As it is, a client that gives its password
// at once is through before it is the oldest.
type strangers struct {
	list list.List     // of *conn, those that came first in front; guarded by Server.mu
	held atomic.Int64  // bytes, which are not among Server.held
	left chan struct{} // has one when a stranger may have left since it was last empty
}

// strangerBatch is limits.batch for strangers.
const strangerBatch = 1 << 10

// maxStrangers is a tenth of all connections, and enough for the clients of a small server to come all at once.
func (s *Server) maxStrangers() int64 {
	if n := s.limits.strangers; n > 0 {
		return n
	}
	return max(s.maxClients()/10, 128)
}

// isFull reports whether a connection, a stranger or not, has to take the place of another. The caller holds mu.
func (s *Server) isFull(stranger bool) bool {
	return int64(len(s.conns)) >= s.maxClients() || stranger && int64(s.strangers.list.Len()) >= s.maxStrangers()
}

// makeRoom takes the oldest strangers out until a connection can be let in. The caller holds mu, and closes them
// when it does not. It is not ok if there are only users.
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

// awaitRoom is called before a connection that was accepted is let in. It waits until there is room for a
// stranger, or the oldest has had a little time: in a crowd that comes all at once each has that much to log
// in, and an attacker who does nothing but connect is accepted no faster.
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
	if first == nil || s.draining || s.ctx.Err() != nil || !s.isFull(true) {
		return 0
	}
	return s.limits.grace - now.Sub(first.Value.(*conn).joined)
}

// joinStrangers makes a connection the newest stranger. The caller holds mu.
func (s *Server) joinStrangers(c *conn) {
	c.joined, c.place = time.Now(), s.strangers.list.PushBack(c)
}

// leaveStrangers is for one that becomes a user, or ends. The caller holds mu.
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

// countStrangers returns how many there are.
func (s *Server) countStrangers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.strangers.list.Len()
}

// setStranger makes the connection a stranger's, or a user's.
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

// holds is where the bytes of the connection are counted. Strangers take nothing of what users may have.
func (c *conn) holds() *atomic.Int64 {
	if c.stranger {
		return &c.server.strangers.held
	}
	return &c.server.held
}
