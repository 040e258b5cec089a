package server

import "time"

// WithTimes returns options in which the times that clients are given are others: for half a command,
// for the password, and to take a reply.
func (o Options) WithTimes(half, login, write time.Duration) *Options {
	l := o.own()
	l.half, l.login, l.write = half, login, write
	return &o
}

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

// Places is how many connections take their turns at a time.
func Places() int { return places() }

// TurnsTaken is how many connections have their turn.
func (s *Server) TurnsTaken() int {
	s.turns.mu.Lock()
	defer s.turns.mu.Unlock()
	return len(s.turns.taken)
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
