package server

import (
	"bytes"
	"sync"
	"time"

	"github.com/sievekv/sievekv/module"
)

// A pipeline often has many commands of one kind: a client adds items to one filter. Each of them would take the lock
// of the key, and make a commit. So commands that follow each other, and are calls of one command with one key, run
// together if the command has a way to do so (module.Command.Series). Nothing else changes for the client: the replies
// are the same as for the commands one after the other, each is counted, and each needs the user's permission. A crash
// leaves all of them or none, or a prefix, as it may without this. A client that is killed meanwhile gets no reply, and
// all commands of the series may have run, as one command may have without a series.

// next returns the next command, as the Decoder does. It is after if there is one.
func (c *conn) next() (words [][]byte, ok bool, err error) {
	if words = c.after; words != nil {
		c.after = nil
		return words, true, nil
	}
	return c.in.Next()
}

// mayJoin reports whether a command may be part of a series.
func (c *conn) mayJoin(cmd *module.Command, words [][]byte) bool {
	return c.authenticated && c.session.InSeries(c.server.ctx, cmd, words) && c.runsHere(cmd) && c.semaphore(cmd, words) == nil &&
		!c.user.Removed() && c.user.Check(cmd, words[1:]) == nil
}

// manySeries has memory for series. A connection has one only while it runs commands.
var manySeries = sync.Pool{New: func() any { return new(module.Series) }}

// executeNext runs a command, together with the commands that follow it in the buffer if they are a series.
func (c *conn) executeNext(words [][]byte) {
	cmd := c.server.host.Command(words[0])
	if cmd == nil || cmd.Series == nil || c.in.Buffered() == 0 || !c.mayJoin(cmd, words) {
		c.execute(cmd, words)
		return
	}
	s, _ := manySeries.Get().(*module.Series)
	defer func() {
		s.Reset()
		manySeries.Put(s)
	}()
	if c.gather(s, cmd, words); s.Len() > 1 {
		c.executeSeries(cmd, s)
		return
	}
	c.execute(cmd, s.Words(0)) // words is no longer valid
}

// gather puts a command that may be part of a series, and the commands that follow it in the buffer, into s. It leaves
// the first command that does not belong to the series in c.after.
func (c *conn) gather(s *module.Series, cmd *module.Command, words [][]byte) {
	s.Add(words)
	key := s.Words(0)[cmd.FirstKey]
	for s.Len() < module.MaxSeries {
		next, ok, err := c.in.Next()
		if !ok || err != nil { // Next will answer the same again
			return
		}
		if c.server.host.Command(next[0]) != cmd || len(next) != len(s.Words(0)) || !bytes.Equal(next[cmd.FirstKey], key) || !c.mayJoin(cmd, next) {
			c.after = next
			return
		}
		s.Add(next)
	}
}

// executeSeries runs a series, and appends its replies to the batch, as execute does for one command.
func (c *conn) executeSeries(cmd *module.Command, s *module.Series) {
	n, words := s.Len(), len(s.Words(0))
	c.spoke = true
	begin := c.clock
	if begin.IsZero() {
		begin = time.Now()
	}
	c.noteCommand(cmd, s.Words(0), begin)
	c.chooseLevel(cmd, true)
	c.track(cmd, s.Words(0)[1:])
	if c.server.group != nil {
		c.grouped.cmd, c.grouped.args = cmd, s.Args(0)
		c.beginAnswers()
	}
	c.session.DoSeries(c.server.ctx, cmd, s)
	before, failed := len(c.out), 0
	for i := range s.Replies {
		start := len(c.out)
		if c.server.group != nil {
			s.Replies[i] = c.replaceNotLeader(s.Replies[i])
		}
		s.Replies[i] = c.chargeWhole(cmd, s.Replies[i])
		c.answer(s.Replies[i])
		failed += c.server.stats.countErrors(cmd, s.Replies[i])
		if c.settles(cmd, s.Replies[i]) {
			c.writes = append(c.writes, span{start, len(c.out), cmd})
		}
	}
	if c.replyBytes > 0 {
		c.account()
		c.discharge()
	}
	now := time.Now()
	took := now.Sub(begin)
	c.addUse(now, cmd, time.Duration(n)*commandTime+timeOf(n*words, len(c.out)-before))
	c.server.stats.countSeries(cmd, n, took, failed)
	c.server.stats.countKeys(c.session)
	c.ranTracked(cmd)
	c.server.tick(now)
	c.noteSlow(cmd, s, begin, took)
	for i := range n {
		c.monitored(s.Words(i), begin)
	}
	c.clock = now
}

// noteSlow puts the commands of a series into the slow log: all if each was slow on average, or else the first one, if
// all together were slow, because that one may have waited and the others not.
func (c *conn) noteSlow(cmd *module.Command, s *module.Series, begin time.Time, took time.Duration) {
	log := &c.server.slow
	each := took / time.Duration(s.Len())
	if !log.keeps(c.server, each) {
		log.add(c, cmd, s.Words(0), begin, took)
		return
	}
	for i := range s.Len() {
		log.add(c, cmd, s.Words(i), begin, each)
	}
}
