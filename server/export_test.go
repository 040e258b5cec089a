package server

import "time"

// WithTimes returns options in which the times that clients are given are others: for half a command,
// for the password, and to take a reply.
func (o Options) WithTimes(half, login, write time.Duration) *Options {
	l := o.own()
	l.half, l.login, l.write = half, login, write
	l.first, l.handshake = login, login
	l.shortestGuess, l.longestGuess = 0, 0
	return &o
}

// WithFirst returns options in which strangers have so long for their first command.
func (o Options) WithFirst(d time.Duration) *Options {
	o.own().first = d
	return &o
}

// WithStrangers returns options with so many strangers at most, the oldest of whom has so long before it is closed.
func (o Options) WithStrangers(n int64, grace time.Duration) *Options {
	l := o.own()
	l.strangers, l.grace = n, grace
	return &o
}

// WithGuesses returns options in which passwords from where wrong ones come are answered after so long.
func (o Options) WithGuesses(shortest, longest time.Duration) *Options {
	l := o.own()
	l.shortestGuess, l.longestGuess = shortest, longest
	return &o
}

// WithMetricsEvery returns options in which so long passes between two requests for metrics.
func (o Options) WithMetricsEvery(d time.Duration) *Options {
	o.own().metricsEvery = d
	return &o
}

// FreeGuesses is how many wrong passwords delay nothing.
const FreeGuesses = freeGuesses

// HeldByStrangers returns the bytes that strangers are said to hold.
func (s *Server) HeldByStrangers() int64 { return s.strangers.held.Load() }

// Strangers returns how many there are.
func (s *Server) Strangers() int { return s.countStrangers() }

// UntilRoom returns how long a stranger that comes now has to wait for its place.
func (s *Server) UntilRoom() time.Duration { return s.untilRoom(time.Now()) }

// HandshakePlaces is how many handshakes use the processor at a time.
func HandshakePlaces() int { return handshakePlaces() }

// WithRest returns options in which a connection leaves its buffer after so long without a word.
func (o Options) WithRest(d time.Duration) *Options {
	o.own().rest = d
	return &o
}

// WithGiveUp returns options in which Shutdown waits so long for commands that were given up, and for the disk.
func (o Options) WithGiveUp(d time.Duration) *Options {
	o.own().giveUp = d
	return &o
}

// WithLinger returns options in which a client may send for so long after it was told why its connection ends.
func (o Options) WithLinger(d time.Duration) *Options {
	o.own().linger = d
	return &o
}

// WithBurst returns options in which connections that have used the processor for longer take turns.
func (o Options) WithBurst(d time.Duration) *Options {
	o.own().burst = d
	return &o
}

// LongTurn and LongBytes say which turns take long.
const (
	LongTurn  = longTurn
	LongBytes = longBytes
)

// Places is how many connections take their turns at a time.
func Places() int { return places() }

// TurnsTaken is how many connections have their turn.
func (s *Server) TurnsTaken() (n int) {
	for _, t := range []*turns{s.turns, s.longTurns} {
		t.mu.Lock()
		n += len(t.taken)
		t.mu.Unlock()
	}
	return n
}

// TakeLongTurns takes all places of long turns, until they are given back.
func (s *Server) TakeLongTurns() (giveBack func()) {
	var taken []*turn
	for range s.longTurns.places {
		one := s.longTurns.take(use{}, nil)
		s.longTurns.mu.Lock()
		one.lent = true // so that it is lent to nobody, however long it takes
		s.longTurns.mu.Unlock()
		taken = append(taken, one)
	}
	return func() {
		for _, one := range taken {
			s.longTurns.mu.Lock()
			one.lent = false
			s.longTurns.mu.Unlock()
			one.give()
		}
	}
}

// LongTurnsWanted is how many connections wait for a place of long turns.
func (s *Server) LongTurnsWanted() int {
	s.longTurns.mu.Lock()
	defer s.longTurns.mu.Unlock()
	return len(s.longTurns.waiting)
}

// WithBatch returns options in which replies are sent when there are so many bytes of them.
func (o Options) WithBatch(bytes int) *Options {
	o.own().batch = bytes
	return &o
}

// own returns limits that are the options' alone.
func (o *Options) own() *limits {
	l := defaultLimits()
	if o.limits != nil {
		l = *o.limits
	}
	o.limits = &l
	return o.limits
}

// Connections is how many connections there are, without those that are refused.
func (s *Server) Connections() int { return len(s.connections()) }

// Held returns the bytes that the connections are said to hold.
func (s *Server) Held() int64 { return s.held.Load() }

// LargeWords and HugeWords are how many words a command may have that is not large, and not huge.
var LargeWords, HugeWords = defaultLimits().largeWords, defaultLimits().hugeWords

// LargeCommands returns how many large commands run, and how many huge ones.
func (s *Server) LargeCommands() (large, huge int) { return len(s.large), len(s.huge) }

// Guesses returns how many wrong passwords are remembered, of all addresses.
func (s *Server) Guesses() int { return s.guesses.count() }

// MetricsGuesses is Guesses for the password of the metrics.
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

// HaveRoom has the server's limit of descriptors leave room for so many connections.
func (s *Server) HaveRoom(clients, refused, metrics int) {
	s.room = room{clients, refused, metrics}
	s.refusing = make(chan struct{}, refused)
}

// RefuseOne takes the place of one connection that is being refused, and returns what gives it back.
func (s *Server) RefuseOne() (done func()) {
	s.refusing <- struct{}{}
	return func() { <-s.refusing }
}

// RoomUnder returns the room that a limit of the process leaves beside a store.
func RoomUnder(limit, store int) (clients, refused, metrics int) {
	r := roomUnder(limit, store)
	return r.clients, r.refused, r.metrics
}

// HookSyncDirectory has another function sync directories, until undo is called.
func HookSyncDirectory(f func(dir string) error) (undo func()) {
	before := syncDirectory
	syncDirectory = f
	return func() { syncDirectory = before }
}

// SavesACL reports whether the ACL file is being written, so that nobody else writes it.
func (s *Server) SavesACL() bool {
	if s.savingACL.TryLock() {
		s.savingACL.Unlock()
		return false
	}
	return true
}
