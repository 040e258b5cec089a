package server

import (
	"time"

	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/server/resp"
)

// limits are what clients may take that is no setting. Those that are settings, read by
// CONFIG GET, are in settings.go.
type limits struct {
	// batch is how many bytes of replies are collected before they are settled and sent,
	// and so what a client that does not read costs.
	batch int

	// small is what a connection may hold whatever others do; above it, it is closed if all
	// together hold more than maxmemory-clients allows.
	small int

	// A command of so many words or bytes is large: it takes many times that in memory
	// while it runs, and only so many run at once. Of those that are huge one runs at a time.
	largeWords, largeBytes, largeCommands int
	hugeWords, hugeBytes                  int

	// half is the time a command may take to arrive once it has begun, and rate the bytes a
	// second that add to it; login what a client has to authenticate itself; write what
	// may pass without progress in sending.
	half, login, write time.Duration
	watchAfter         time.Duration // that a command takes, after which it is looked whether its client has gone
	linger             time.Duration // for which what a client sends is dropped after it was told why its connection ends
	giveUp             time.Duration // that Shutdown waits for commands it has given up, and then for the disk
	rest               time.Duration // without a word, after which a connection leaves its buffers
	burst              time.Duration // of the processor, above which a connection waits for its turn
	rate               int64         // bytes per second
	first              time.Duration // what a stranger has for its first command
	handshake          time.Duration // and, before that, for the handshake of TLS

	strangers int64         // how many there may be; 0 for a share of the connections
	grace     time.Duration // what the oldest stranger has before it is closed in favour of another

	metricsEvery time.Duration // between two requests for metrics

	// What the answer to a password takes at least and at most once it is delayed.
	shortestGuess, longestGuess time.Duration
}

func defaultLimits() limits {
	return limits{
		batch: 16 << 10, small: 32 << 10,
		largeWords: 4096, largeBytes: 256 << 10, largeCommands: 4,
		hugeWords: 64 << 10, hugeBytes: 4 << 20,
		half: 30 * time.Second, login: 30 * time.Second, write: 30 * time.Second, rate: 16 << 10,
		watchAfter: 100 * time.Millisecond, linger: time.Second, giveUp: 1500 * time.Millisecond,
		first: 10 * time.Second, handshake: 10 * time.Second, grace: 100 * time.Millisecond,
		metricsEvery:  20 * time.Millisecond,
		shortestGuess: 50 * time.Millisecond, longestGuess: 2 * time.Second,
		rest: 2 * time.Second, burst: 5 * time.Millisecond,
	}
}

// maxWords is the most words a command may have, as in Redis, and decodedBytes about what one takes when it was
// read. There may be memory for less.
const (
	maxWords     = 1 << 20
	decodedBytes = 32
)

// commandLimits are what a command may be made of.
func (c *conn) commandLimits() resp.Limits {
	if !c.authenticated {
		return resp.UnauthenticatedLimits
	}
	return resp.Limits{
		Args:    int(min(maxWords, module.Of(c.server.db).SettingInt(clientsMemorySetting)/(decodedBytes+runningBytes))),
		Bulk:    module.Of(c.server.db).SettingInt(bulkSetting),
		Command: module.Of(c.server.db).SettingInt(querySetting),
	}
}

// gate returns what a command has to pass while it runs, if it is large: a channel with room for as many as
// run at once. Nil for most.
func (c *conn) gate(cmd *module.Command, words [][]byte) chan struct{} {
	l := &c.server.limits
	bytes := 0
	if c.in.Size() > l.largeBytes { // else it is not large
		bytes = bytesOf(words, wordBytes)
	}
	if cmd != nil && cmd.Name == "EXEC" {
		bytes = c.queuedBytes
	}
	switch {
	case len(words) > l.hugeWords || bytes > l.hugeBytes:
		return c.server.huge
	case len(words) > l.largeWords || bytes > l.largeBytes:
		return c.server.large
	}
	return nil
}

// chargeWords counts, before a large command runs, what it and its reply take for each word.
func (c *conn) chargeWords(words [][]byte) error {
	if len(words) <= c.server.limits.largeWords {
		return nil
	}
	return c.charge(len(words) * runningBytes)
}

// mayWatch reports whether there is memory for keys that are to be watched. It is asked before: with more than may
// be, the connection would end without a word.
func (c *conn) mayWatch(keys [][]byte) bool {
	n := bytesOf(keys, watchBytes)
	return c.queuedBytes+n <= c.server.limits.small ||
		c.server.held.Load()+int64(n) <= module.Of(c.server.db).SettingInt(clientsMemorySetting)
}

// runningBytes is about what a command takes for a word while it runs, the element of its reply included.
const runningBytes = 96

// enterGate waits until a command may run, if it is large. It is not ok if commands are given up.
func (c *conn) enterGate(cmd *module.Command, words [][]byte) (ok bool) {
	if c.entered = c.gate(cmd, words); c.entered == nil {
		return true
	}
	c.giveTurn() // for those that wait for nothing else
	select {
	case c.entered <- struct{}{}:
	case <-c.server.ctx.Done():
		c.entered = nil
		return false
	}
	if !c.takeTurn() {
		c.leaveGate()
		return false
	}
	return true
}

func (c *conn) leaveGate() {
	if c.entered != nil {
		<-c.entered
		c.entered = nil
	}
}

// takeTurn waits for the connection's turn, if it is one that has to. It is not ok if commands are given up.
func (c *conn) takeTurn() (ok bool) {
	if c.turn != nil || c.use.time <= c.server.limits.burst {
		return true
	}
	began := time.Now()
	turns := c.server.turns
	if c.takesLong() {
		turns = c.server.longTurns
	}
	c.turn = turns.take(c.use, c.server.ctx.Done())
	if !c.partialSince.IsZero() {
		c.partialSince = c.partialSince.Add(time.Since(began)) // which is not the client's fault
	}
	return c.turn != nil
}

// takesLong reports whether the connection's next turn is likely to take long.
func (c *conn) takesLong() bool {
	return c.entered != nil || c.lastTurn > longTurn || c.in.Buffered() > longBytes
}

func (c *conn) giveTurn() {
	if c.turn != nil {
		c.lastTurn = time.Since(c.turn.since)
		c.turn.give()
		c.turn = nil
	}
}

// timeOf is about what so many words and bytes take of the processor.
func timeOf(words, bytes int) time.Duration {
	return time.Duration(words)*wordTime + time.Duration(bytes)*time.Microsecond/bytesInMicro
}

// noteUse counts what a command took of the processor. Of those that may look at all keys that is the time they
// took. That of others is left out: it may have been waiting, for the disk or for the processor.
func (c *conn) noteUse(now time.Time, cmd *module.Command, words, replied int, took time.Duration) {
	d := commandTime + timeOf(words, replied)
	if cmd != nil && looksAtAllKeys(cmd) {
		d = max(d, took)
	}
	c.use.add(now, d)
}

// account tells the server what the connection holds now, and reports whether it may.
func (c *conn) account() bool {
	size := c.in.Size() + cap(c.out) + c.queuedBytes
	total := c.holds().Add(int64(size - c.heldBytes))
	c.heldBytes = size
	if c.stranger || size <= c.server.limits.small {
		return true
	}
	return total <= module.Of(c.server.db).SettingInt(clientsMemorySetting)
}

// errReplies is the answer to a command whose reply there is no memory for.
var errReplies = reply.TextError("ERR the reply takes more memory than " + clientsMemorySetting +
	" leaves: ask for less at a time")

// charge counts what the reply under way takes.
func (c *conn) charge(bytes int) error {
	c.replyBytes += bytes
	total := c.server.held.Add(int64(bytes))
	if c.replyBytes <= c.server.limits.small || total <= module.Of(c.server.db).SettingInt(clientsMemorySetting) {
		return nil
	}
	return errReplies
}

// chargeWhole counts a reply that is there whole, and the copy of it that is to be sent, before that is made:
// many connections may be at this point at once. It returns the reply, or the one that there is no memory
// for it. What a write answers is not replaced, as it is done: the connection ends, if it has to.
func (c *conn) chargeWhole(cmd *module.Command, r reply.Reply) reply.Reply {
	size := r.Size()
	if size <= c.server.limits.small {
		return r
	}
	if err := c.charge(2*size - c.replyBytes); err != nil && (cmd == nil || !writes(cmd)) {
		return module.ErrorReply(err)
	}
	return r
}

// discharge forgets what the reply took, which is in out now, or was dropped.
func (c *conn) discharge() {
	c.server.held.Add(-int64(c.replyBytes))
	c.replyBytes = 0
}

// readDeadline is until when bytes have to come; zero for any time.
func (c *conn) readDeadline(now time.Time) time.Time {
	deadline := c.commandDeadline(now)
	if c.authenticated {
		return deadline
	}
	// Whatever a stranger sends, its time for the password goes on.
	login := c.strangerSince.Add(c.server.limits.login)
	if first := c.strangerSince.Add(c.server.limits.first); !c.spoke && first.Before(login) {
		login = first
	}
	if deadline.IsZero() || login.Before(deadline) {
		return login
	}
	return deadline
}

// writeDeadline is until when some of a reply has to go.
func (c *conn) writeDeadline(now time.Time) time.Time {
	deadline := now.Add(c.server.limits.write)
	if login := c.strangerSince.Add(c.server.limits.login); c.stranger && login.Before(deadline) {
		return login
	}
	return deadline
}

// batch is how many bytes of replies are collected.
func (c *conn) batch() int {
	if c.stranger {
		return min(strangerBatch, c.server.limits.batch)
	}
	return c.server.limits.batch
}

// commandDeadline is until when a command has to come, or to go on.
func (c *conn) commandDeadline(now time.Time) time.Time {
	l := &c.server.limits
	if c.in.Partial() {
		// What came counts, so that a large command may take its time, but no single byte
		// puts the end off.
		if c.partialSince.IsZero() {
			c.partialSince = now
		}
		allowed := l.half + time.Duration(int64(c.in.Buffered())*int64(time.Second)/l.rate)
		return c.partialSince.Add(allowed)
	}
	c.partialSince = time.Time{}
	if idle := module.Of(c.server.db).SettingInt(timeoutSetting); idle > 0 {
		return now.Add(time.Duration(idle) * time.Second)
	}
	return time.Time{}
}
