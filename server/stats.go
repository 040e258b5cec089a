package server

import (
	"math/bits"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sievekv/sievekv/internal/acl"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// stats counts events since the server started, or since CONFIG RESETSTAT.
type stats struct {
	accepted        atomic.Uint64 // connections
	refused         atomic.Uint64 // connections
	limited         atomic.Uint64 // connections closed for exceeding a limit
	protocolErrors  atomic.Uint64
	deniedCommands  atomic.Uint64 // to users that may not run them
	deniedKeys      atomic.Uint64 // commands with keys that their users may not use
	wrongPasswords  atomic.Uint64
	handshakes      atomic.Uint64 // TLS handshakes that failed
	closedStrangers atomic.Uint64 // to make room for other connections
	unknown         atomic.Uint64 // commands with unknown names
	bytesIn         atomic.Uint64
	bytesOut        atomic.Uint64
	keysFound       atomic.Uint64 // by commands of category read
	keysMissing     atomic.Uint64
	rate            rate

	commands []*commandStats // by module.Command.Number; the slice never changes
	errors   errorStats      // of no command: unknown ones, and malformed input
}

// latencyBuckets is the number of buckets of latencies. Bucket i counts calls that took less than 2^i microseconds
// and at least half of that; the last bucket also counts all slower calls.
const latencyBuckets = 26 // up to half a minute

// commandStats counts the calls of one command.
type commandStats struct {
	calls    atomic.Uint64
	failed   atomic.Uint64 // with an error, or with one among its elements
	nanos    atomic.Uint64
	lately   atomic.Int64 // about how many nanoseconds the last few calls took, of a command that may take long
	latency  [latencyBuckets]atomic.Uint64
	rejected atomic.Uint64 // refused before they ran
	errors   errorStats    // of calls that ran and of those that were refused
}

func newStats(commands int) *stats {
	s := &stats{commands: make([]*commandStats, commands)}
	for i := range s.commands {
		s.commands[i] = &commandStats{}
		s.commands[i].lately.Store(int64(longTurn) + 1) // until it is known
	}
	return s
}

// of returns the counts of a command.
func (s *stats) of(cmd *module.Command) *commandStats { return s.commands[cmd.Number()] }

// count counts a command, nil for an unknown one, and the errors in its reply.
func (s *stats) count(cmd *module.Command, took time.Duration, outcome module.Outcome, r reply.Reply) {
	switch {
	case cmd == nil:
		s.unknown.Add(1)
		s.refuse(nil, r)
	case outcome == module.Refused:
		s.refuse(cmd, r)
	case outcome == module.Done:
		s.countSeries(cmd, 1, took, s.countErrors(cmd, r))
		if mayTakeLong(cmd) {
			s.of(cmd).noteTime(took)
		}
	}
}

// noteTime changes lately by an eighth of the difference. Of two calls that end at once, one may not count.
func (c *commandStats) noteTime(took time.Duration) {
	was := c.lately.Load()
	c.lately.Store(was + (int64(took)-was)/8)
}

// isLong reports whether a command is expected to take longer than longTurn.
func (s *stats) isLong(cmd *module.Command) bool {
	return mayTakeLong(cmd) && s.of(cmd).lately.Load() > int64(longTurn)
}

// countDenial counts a command that a user may not run, as in Redis: by the reason.
func (s *stats) countDenial(d *acl.Denial) {
	if d.Reason() == "key" {
		s.deniedKeys.Add(1)
		return
	}
	s.deniedCommands.Add(1)
}

// refuse counts the error for a command that was not run, or, with nil, for an unknown one or malformed input.
func (s *stats) refuse(cmd *module.Command, failure reply.Reply) {
	if cmd == nil {
		s.errors.countIn(failure)
		return
	}
	s.of(cmd).rejected.Add(1)
	s.of(cmd).errors.countIn(failure)
}

// countErrors counts the errors in the reply of a command that ran, and returns 1 if it has failed. Errors of the
// commands that EXEC runs were counted for these commands.
func (s *stats) countErrors(cmd *module.Command, r reply.Reply) (failed int) {
	if cmd.Name == "EXEC" && !r.IsError() || !s.of(cmd).errors.countIn(r) {
		return 0
	}
	return 1
}

// countSeries counts calls of a command that took the given time together.
func (s *stats) countSeries(cmd *module.Command, calls int, took time.Duration, failed int) {
	c, n := s.of(cmd), uint64(calls)
	c.calls.Add(n)
	c.nanos.Add(uint64(took))
	each := took / time.Duration(calls)
	c.latency[min(bits.Len64(uint64(each/time.Microsecond)), latencyBuckets-1)].Add(n)
	if failed > 0 {
		c.failed.Add(uint64(failed))
	}
}

// countKeys adds the counts of a session, and sets them back.
func (s *stats) countKeys(session *module.Session) {
	if k := session.Keys; k.Found+k.Missing > 0 {
		s.keysFound.Add(k.Found)
		s.keysMissing.Add(k.Missing)
		session.Keys = module.KeyCounts{}
	}
}

// reset sets all counts to 0, at a time after the start of the server.
func (s *stats) reset(now time.Duration) {
	for _, n := range []*atomic.Uint64{&s.accepted, &s.refused, &s.limited, &s.protocolErrors, &s.deniedCommands, &s.deniedKeys, &s.wrongPasswords, &s.handshakes, &s.closedStrangers, &s.unknown, &s.bytesIn, &s.bytesOut, &s.keysFound, &s.keysMissing} {
		n.Store(0)
	}
	for _, c := range s.commands {
		c.calls.Store(0)
		c.failed.Store(0)
		c.nanos.Store(0)
		c.rejected.Store(0)
		c.errors.reset()
		for i := range c.latency {
			c.latency[i].Store(0)
		}
	}
	s.errors.reset()
	s.rate.restart(now)
}

// total returns how many commands ran.
func (s *stats) total() (n uint64) {
	for _, c := range s.commands {
		n += c.calls.Load()
	}
	return n
}

// errorKinds are the kinds of errors: their first words, except for fullKind. All others count as "other", so that
// clients cannot make the list longer.
var errorKinds = [...]string{
	"ERR", "WRONGTYPE", "MISCONF", "CORRUPT", "READONLY", "NOAUTH", "NOPERM", "WRONGPASS", "NOPROTO", "EXECABORT",
	"MOVED", "CLUSTERDOWN", "UNKNOWN", "BEHIND", fullKind, "other",
}

// fullKind is the kind of answers that an item had no room in a filter. Their words differ, and some are numbers.
const fullKind = "FULL"

// errorStats counts errors by their kind, in the order of errorKinds.
type errorStats [len(errorKinds)]atomic.Uint64

// countIn counts the errors in a reply, and reports whether there were any.
func (e *errorStats) countIn(r reply.Reply) (any bool) {
	switch r.Kind() {
	case reply.KindError:
		e[kindOf(r)].Add(1)
		return true
	case reply.KindArray, reply.KindSet, reply.KindMap, reply.KindEither:
		for failure := range r.Errors() {
			e[kindOf(failure)].Add(1)
			any = true
		}
	}
	return any
}

// kindOf returns the place of an error's kind in errorKinds.
func kindOf(failure reply.Reply) int {
	text := failure.Bytes()
	word, _, _ := strings.Cut(string(text[:min(len(text), 16)]), " ")
	if failure.IsFull() {
		word = fullKind
	}
	if i := slices.Index(errorKinds[:], word); i >= 0 {
		return i
	}
	return len(errorKinds) - 1
}

func (e *errorStats) reset() {
	for i := range e {
		e[i].Store(0)
	}
}

// failures returns how many errors of a kind there were.
func (s *stats) failures(kind int) uint64 {
	n := s.errors[kind].Load()
	for _, c := range s.commands {
		n += c.errors[kind].Load()
	}
	return n
}

// tick does periodic work while commands run.
func (s *Server) tick(now time.Time) {
	if s.stats.rate.note(now.Sub(s.started), s.stats.total) {
		s.filters.tick(s)
	}
}
