package server

import (
	"container/list"
	"net"
	"net/netip"
	"sync"
	"time"
)

// guesses delays the answers to passwords from addresses that wrong ones have come from. A right one is delayed
// as a wrong one is: who guesses could otherwise take the lack of an answer for one, and go on at once.
//
// A client beside one that guesses, at the same address, has its answer after limits.longestGuess at most.
type guesses struct {
	mu        sync.Mutex
	byAddress map[netip.Prefix]*list.Element // of *guess
	recent    list.List                      // the last that was seen in front
}

// guess is an address that wrong passwords have come from.
type guess struct {
	from  netip.Prefix
	user  string // whom they were given for, "" for several
	wrong int    // since a right one of that user
	last  time.Time
}

const (
	// maxGuesses is how many addresses are remembered, the last that were seen.
	maxGuesses = 4096
	// freeGuesses is how many wrong passwords delay nothing.
	freeGuesses = 5
	// forgetGuesses is when an address is forgotten.
	forgetGuesses = 10 * time.Minute
)

// given notes that a password was given, and returns how long the answer is to take, between shortest and longest
// if it is delayed, and how many wrong ones have come from there.
func (g *guesses) given(from netip.Prefix, user string, right bool, now time.Time, shortest, longest time.Duration) (wait time.Duration, wrong int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.byAddress[from]
	if e != nil && now.Sub(e.Value.(*guess).last) >= forgetGuesses {
		g.drop(e)
		e = nil
	}
	if e != nil {
		wait = delayAfter(e.Value.(*guess).wrong, shortest, longest)
	}
	if right {
		// Who has a password of its own must not guess another's without end by giving it now and then.
		if e != nil && e.Value.(*guess).user == user {
			g.drop(e)
		}
		return wait, 0
	}
	if e == nil {
		if len(g.byAddress) >= maxGuesses {
			g.drop(g.recent.Back())
		}
		if g.byAddress == nil {
			g.byAddress = make(map[netip.Prefix]*list.Element)
		}
		e = g.recent.PushFront(&guess{from: from, user: user})
		g.byAddress[from] = e
	}
	g.recent.MoveToFront(e)
	one := e.Value.(*guess)
	if one.user != user {
		one.user = ""
	}
	one.wrong++
	one.last = now
	return wait, one.wrong
}

// drop forgets an address. The caller holds mu.
func (g *guesses) drop(e *list.Element) {
	delete(g.byAddress, g.recent.Remove(e).(*guess).from)
}

// delayAfter doubles with each wrong password.
func delayAfter(wrong int, shortest, longest time.Duration) time.Duration {
	if wrong < freeGuesses {
		return 0
	}
	wait := shortest
	for range wrong - freeGuesses {
		if wait >= longest {
			break
		}
		wait *= 2
	}
	return min(wait, longest)
}

// networkOf is what counts as one address: an IPv4 address, the 64 bits of an IPv6 address that one who has it
// cannot choose, or one for all others, such as those of a socket in the file system.
func networkOf(addr net.Addr) netip.Prefix {
	if tcp, ok := addr.(*net.TCPAddr); ok {
		return networkOfIP(tcp.AddrPort().Addr())
	}
	return netip.Prefix{}
}

func networkOfIP(ip netip.Addr) netip.Prefix {
	ip = ip.Unmap()
	bits := 64
	if ip.Is4() {
		bits = 32
	}
	network, _ := ip.Prefix(bits) // fails for no address of that kind
	return network
}

// delayAnswer waits as long as the answer to a password is to take, without a turn. It is not ok if the connection is
// to end, or has no more time.
func (c *conn) delayAnswer(wait time.Duration) (ok bool) {
	if wait <= 0 {
		return true
	}
	c.giveTurn()
	timely := true
	if c.stranger {
		if left := time.Until(c.strangerSince.Add(c.server.limits.login)); left < wait {
			wait, timely = left, false
		}
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return timely
	case <-c.wake:
		return false
	}
}
