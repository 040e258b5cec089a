package server

import (
	"net"
	"net/netip"
	"runtime"
	"time"

	"github.com/sievekv/sievekv/module/reply"
)

// WithTimes returns options with other times for clients: for half a command, for the password, and to take a reply.
func (o Options) WithTimes(half, login, write time.Duration) *Options {
	l := o.own()
	l.half, l.login, l.write = half, login, write
	l.first, l.handshake = login, login
	l.shortestGuess, l.longestGuess = 0, 0
	return &o
}

// WithHugeRest returns options with another wait after a huge write.
func (o Options) WithHugeRest(times int, longest time.Duration) *Options {
	l := o.own()
	l.hugeRest, l.longestRest = times, longest
	return &o
}

// WithFirst returns options with another time for a stranger's first command.
func (o Options) WithFirst(d time.Duration) *Options {
	o.own().first = d
	return &o
}

// WithStrangers returns options with another bound on strangers, and another time before the oldest is closed.
func (o Options) WithStrangers(n int64, grace time.Duration) *Options {
	l := o.own()
	l.strangers, l.grace = n, grace
	return &o
}

// WithGuesses returns options with other delays of answers to passwords.
func (o Options) WithGuesses(shortest, longest time.Duration) *Options {
	l := o.own()
	l.shortestGuess, l.longestGuess = shortest, longest
	return &o
}

// WithMetricsEvery returns options with another time between two requests for metrics.
func (o Options) WithMetricsEvery(d time.Duration) *Options {
	o.own().metricsEvery = d
	return &o
}

// FreeGuesses is how many wrong passwords cause no delay.
const FreeGuesses = freeGuesses

// HeldByStrangers returns the bytes that strangers hold.
func (s *Server) HeldByStrangers() int64 { return s.strangers.held.Load() }

// Strangers returns the number of strangers.
func (s *Server) Strangers() int { return s.countStrangers() }

// UntilRoom returns how long a new stranger from an address has to wait.
func (s *Server) UntilRoom(from net.Addr) time.Duration {
	return s.untilRoom(networkOf(from), time.Now())
}

// AwaitingAnswers returns how many strangers keep their places because they wait for a delayed answer.
func (s *Server) AwaitingAnswers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.strangers.answered.Len()
}

// HandshakeOrder begins handshakes from addresses, one after the other, while the only place is taken, and returns the
// order in which they get it.
func HandshakeOrder(from ...string) (order []string) {
	h := newHandshakes(1)
	first := h.places.await(use{}, nil)
	got := make(chan string)
	for i, ip := range from {
		network := networkOfIP(netip.MustParseAddr(ip))
		h.begin(network)
		go func() {
			one := h.await(network, nil)
			got <- ip
			one.end()
		}()
		for h.places.wanted() != i+1 {
			runtime.Gosched()
		}
	}
	first.end()
	for range from {
		order = append(order, <-got)
	}
	return order
}

// HandshakePlaces is how many handshakes use the processor at a time.
func HandshakePlaces() int { return handshakePlaces() }

// WithRest returns options with another time before a silent connection gives back its buffers.
func (o Options) WithRest(d time.Duration) *Options {
	o.own().rest = d
	return &o
}

// WithGiveUp returns options with another time that Shutdown waits for commands that were given up, and for the disk.
func (o Options) WithGiveUp(d time.Duration) *Options {
	o.own().giveUp = d
	return &o
}

// WithLinger returns options with another time that a client may send after it was told why its connection ends.
func (o Options) WithLinger(d time.Duration) *Options {
	o.own().linger = d
	return &o
}

// WithBurst returns options in which connections that have used the processor for longer need a turn.
func (o Options) WithBurst(d time.Duration) *Options {
	o.own().burst = d
	return &o
}

// LongTurn and LongBytes say which turns are expected to be long. CommandTime is what each command counts, at least.
const (
	LongTurn    = longTurn
	LongBytes   = longBytes
	CommandTime = commandTime
)

// Places is the number of short turns at a time.
func Places() int { return places() }

// TurnsHeld returns how many connections have a turn.
func (s *Server) TurnsHeld() (n int) {
	for _, a := range []*admission{s.admission, s.longAdmission} {
		a.mu.Lock()
		n += len(a.turns)
		a.mu.Unlock()
	}
	return n
}

// HoldHandshakes takes all places of handshakes until release is called.
func (s *Server) HoldHandshakes() (release func()) { return s.handshakes.places.hold() }

// HandshakesWanted returns how many handshakes wait for a place.
func (s *Server) HandshakesWanted() int { return s.handshakes.places.wanted() }

// HoldLongTurns takes all places of long turns until release is called.
func (s *Server) HoldLongTurns() (release func()) { return s.longAdmission.hold() }

func (a *admission) hold() (release func()) {
	var held []*turn
	for range a.places {
		one := a.await(use{}, nil)
		a.mu.Lock()
		one.passedOn = true // so that passOn leaves it alone, however long it lasts
		a.mu.Unlock()
		held = append(held, one)
	}
	return func() {
		for _, one := range held {
			a.mu.Lock()
			one.passedOn = false
			a.mu.Unlock()
			one.end()
		}
	}
}

// LongTurnsWanted returns how many connections wait for a long turn.
func (s *Server) LongTurnsWanted() int { return s.longAdmission.wanted() }

func (a *admission) wanted() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.waiting)
}

// WithBatch returns options with another size of a batch of replies.
func (o Options) WithBatch(bytes int) *Options {
	o.own().batch = bytes
	return &o
}

// own returns the limits of the options, which it may change.
func (o *Options) own() *limits {
	l := defaultLimits()
	if o.limits != nil {
		l = *o.limits
	}
	o.limits = &l
	return o.limits
}

// Connections returns the number of connections, without those that are being refused.
func (s *Server) Connections() int { return len(s.connections()) }

// Held returns the bytes that connections hold, without strangers.
func (s *Server) Held() int64 { return s.held.Load() }

// LargeWords and HugeWords are the most words of a command that is not large, and not huge.
var LargeWords, HugeWords = defaultLimits().largeWords, defaultLimits().hugeWords

// LargeCommands returns how many large and huge commands run.
func (s *Server) LargeCommands() (large, huge int) { return len(s.large), len(s.huge) }

// Guesses returns how many wrong passwords are remembered, for all addresses.
func (s *Server) Guesses() int { return s.guesses.count() }

// MetricsGuesses is Guesses for the metrics.
func (s *Server) MetricsGuesses() int { return s.metricsGuesses.count() }

func (g *guesses) count() (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for e := g.recent.Front(); e != nil; e = e.Next() {
		n += e.Value.(*guess).wrong
	}
	return n
}

// MetricsDelayed returns how many requests for metrics wait.
func (s *Server) MetricsDelayed() int { return int(s.metricsDelayed.Load()) }

// HaveRoom makes the server behave as if the limit of descriptors left room for n connections.
func (s *Server) HaveRoom(clients, refused, metrics int) {
	s.room = room{clients, refused, metrics}
	s.refusing = make(chan struct{}, refused)
}

// RefuseOne takes the place of a connection that is being refused, until done is called.
func (s *Server) RefuseOne() (done func()) {
	s.refusing <- struct{}{}
	return func() { <-s.refusing }
}

// RoomUnder returns the room under a limit of descriptors, besides a store.
func RoomUnder(limit, store int) (clients, refused, metrics int) {
	r := roomUnder(limit, store)
	return r.clients, r.refused, r.metrics
}

// RemoveUser removes a user, whose connections stay as they are: as of one that has logged in at the same time.
func (s *Server) RemoveUser(name string) bool { return s.users.Remove(name) }

// HookSyncDirectory replaces the function that syncs directories, until undo is called.
func HookSyncDirectory(f func(dir string) error) (undo func()) {
	before := syncDirectory
	syncDirectory = f
	return func() { syncDirectory = before }
}

// SavesACL reports whether the ACL file is being written.
func (s *Server) SavesACL() bool {
	if s.savingACL.TryLock() {
		s.savingACL.Unlock()
		return false
	}
	return true
}

// Rate is rate for tests.
type Rate struct{ rate }

// Note is note.
func (r *Rate) Note(at time.Duration, total func() uint64) { r.note(at, total) }

// PerSecond is perSecond.
func (r *Rate) PerSecond(now time.Duration, total uint64) uint64 { return r.perSecond(now, total) }

// awaitPass waits until the pass that is under way has ended.
func (s *Server) awaitPass() {
	s.filters.mu.Lock()
	done := s.filters.done
	s.filters.mu.Unlock()
	if done != nil {
		<-done
	}
}

// Watched returns how many connections run, or wait to run, what is given up when their clients are gone.
func (s *Server) Watched() int { return int(s.watched.Load()) }

// Hold counts n bytes as held by clients until give is called.
func (s *Server) Hold(bytes int64) (give func()) {
	s.held.Add(bytes)
	return func() { s.held.Add(-bytes) }
}

// WithReading returns options with another time that a read waits until it sees what SIEVE.READ asks.
func (o Options) WithReading(d time.Duration) *Options {
	o.own().reading = d
	return &o
}

// UnsettledReply returns what takes the place of the replies whose batch could not be settled.
func UnsettledReply(err error) reply.Reply { return unsettledReply(err) }

// WithLeader returns options with other times for a group without a leader: how long commands wait for the next one, after
// which silence a pipeline has ended, and how long one is answered CLUSTERDOWN at most.
func (o Options) WithLeader(wait, gap, down time.Duration) *Options {
	l := o.own()
	l.leader, l.gap, l.down = wait, gap, down
	return &o
}
