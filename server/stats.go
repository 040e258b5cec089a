package server

import (
	"math/bits"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// stats counts events since the server started, or since CONFIG RESETSTAT.
type stats struct {
	accepted        atomic.Uint64 // connections
	refused         atomic.Uint64 // connections
	limited         atomic.Uint64 // connections closed for exceeding a limit
	protocolErrors  atomic.Uint64
	refusedCommands atomic.Uint64 // because the client was not authenticated
	wrongPasswords  atomic.Uint64
	handshakes      atomic.Uint64 // TLS handshakes that failed
	closedStrangers atomic.Uint64 // to make room for other connections
	unknown         atomic.Uint64 // commands with unknown names
	bytesOut        atomic.Uint64

	commands []*commandStats // by module.Command.Number; the slice never changes
	errors   errorStats
}

// latencyBuckets is the number of buckets of latencies. Bucket i counts calls that took less than 2^i microseconds
// and at least half of that; the last bucket also counts all slower calls.
const latencyBuckets = 26 // up to half a minute

// commandStats counts the calls of one command.
type commandStats struct {
	calls    atomic.Uint64
	failed   atomic.Uint64 // answered with an error
	nanos    atomic.Uint64
	latency  [latencyBuckets]atomic.Uint64
	rejected atomic.Uint64 // refused before they ran because of their number of words
}

func newStats(commands int) *stats {
	s := &stats{commands: make([]*commandStats, commands)}
	for i := range s.commands {
		s.commands[i] = &commandStats{}
	}
	return s
}

// of returns the counts of a command.
func (s *stats) of(cmd *module.Command) *commandStats { return s.commands[cmd.Number()] }

func (s *stats) count(cmd *module.Command, words int, took time.Duration, r reply.Reply) {
	if r.IsError() {
		s.errors.count(r.Bytes())
	}
	if cmd == nil {
		s.unknown.Add(1)
		return
	}
	if !cmd.Takes(words) {
		s.of(cmd).rejected.Add(1)
		return
	}
	failed := 0
	if r.IsError() {
		failed = 1
	}
	s.countSeries(cmd, 1, took, failed)
}

// countSeries counts calls of a command that took so long together.
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

func (s *stats) reset() {
	for _, n := range []*atomic.Uint64{&s.accepted, &s.refused, &s.limited, &s.protocolErrors, &s.refusedCommands, &s.wrongPasswords, &s.handshakes, &s.closedStrangers, &s.unknown, &s.bytesOut} {
		n.Store(0)
	}
	for _, c := range s.commands {
		c.calls.Store(0)
		c.failed.Store(0)
		c.nanos.Store(0)
		c.rejected.Store(0)
		for i := range c.latency {
			c.latency[i].Store(0)
		}
	}
	s.errors.reset()
}

// total returns how many commands ran.
func (s *stats) total() (n uint64) {
	for _, c := range s.commands {
		n += c.calls.Load()
	}
	return n
}

// errorKinds are the first words of errors that are counted apart. All others count as "other", so that clients
// cannot make the list longer.
var errorKinds = []string{"ERR", "WRONGTYPE", "MISCONF", "CORRUPT", "NOAUTH", "WRONGPASS", "NOPROTO", "EXECABORT", "other"}

// errorStats counts error replies by their first word.
type errorStats [16]atomic.Uint64

func (e *errorStats) count(text []byte) {
	word, _, _ := strings.Cut(string(text[:min(len(text), 16)]), " ")
	for i, kind := range errorKinds {
		if word == kind || i == len(errorKinds)-1 {
			e[i].Add(1)
			return
		}
	}
}

func (e *errorStats) reset() {
	for i := range e {
		e[i].Store(0)
	}
}
