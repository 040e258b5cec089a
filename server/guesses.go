package server

import (
	"container/list"
	"net"
	"net/netip"
	"sync"
	"time"
)

// guesses delays answers to passwords from addresses that have sent wrong ones. It delays the answer to a right
// password likewise: otherwise an attacker could take a missing answer for "wrong" and go on at once.
//
// A client at the same address as an attacker gets its answer after limits.longestGuess at most.
type guesses struct {
	mu        sync.Mutex
	byAddress map[netip.Prefix]*list.Element // of *guess
	recent    list.List                      // the most recently seen in front
}

// guess is an address that has sent wrong passwords.
type guess struct {
	from  netip.Prefix
	user  string // the user they were for, "" for several
	wrong int    // wrong passwords since a right one of that user
	last  time.Time
}

const (
	// maxGuesses is how many addresses are remembered: the most recently seen.
	maxGuesses = 4096
	// freeGuesses is how many wrong passwords cause no delay.
	freeGuesses = 5
	// forgetGuesses is how long an address is remembered after its last wrong password.
	forgetGuesses = 10 * time.Minute
)

// given notes a password from an address. It returns how long to delay the answer, from shortest to longest, 0 for no
// delay, and how many wrong passwords have come from the address.
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
		// A right password clears only wrong ones of the same user: an attacker with an account of its own must not
		// be able to guess other passwords without delay by giving its own now and then.
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

// delayAfter returns the delay after some wrong passwords. It doubles with each one.
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

// networkOf returns what counts as one address: an IPv4 address, a /64 of IPv6, because its owner chooses the other
// 64 bits freely, or one prefix for everything else, such as Unix sockets.
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
	network, _ := ip.Prefix(bits) // never fails for these sizes
	return network
}

// delayAnswer delays the answer to a password, without a turn. It is not ok if the connection is to end, or a
// stranger's time is over.
func (c *conn) delayAnswer(wait time.Duration) (ok bool) {
	if wait <= 0 {
		return true
	}
	c.endTurn()
	c.server.awaitAnswer(c, true)
	defer c.server.awaitAnswer(c, false)
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
