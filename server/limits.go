package server

import (
	"time"

	"github.com/sievekv/sievekv/internal/resp"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// limits are the bounds on clients that are not settings. The settings, which CONFIG GET shows, are in settings.go.
type limits struct {
	// batch is how many bytes of replies the server collects before it settles and sends them. A client that does not
	// read its replies costs that much memory.
	batch int

	// small is the memory that every connection may hold. A connection that holds more is closed if all connections
	// together hold more than maxmemory-clients allows.
	small int

	// A command with more words or bytes is large: while it runs it takes many times that in memory, so only
	// largeCommands run at a time. Huge commands run one at a time.
	largeWords, largeBytes, largeCommands int
	hugeWords, hugeBytes                  int

	// After a huge write beside commands of others, the next huge command waits hugeRest times as long as the write
	// took, at most longestRest. Its record of the log holds up other writes meanwhile.
	hugeRest    int
	longestRest time.Duration

	// half is the time in which a command must be complete after its first byte, with one second more for each rate
	// bytes of it. login is the time in which a client must authenticate itself. write is the time in which the
	// client must take a part of the replies.
	half, login, write time.Duration
	watchAfter         time.Duration // how long a connection runs commands before it looks whether its client is gone
	linger             time.Duration // how long closeTold reads from a client that was told why its connection ends
	giveUp             time.Duration // how long Shutdown waits for commands that it has given up, and then for the disk
	rest               time.Duration // how long a client sends nothing before its connection gives back its buffers
	burst              time.Duration // how much processor time a connection may use before it needs a turn
	rate               int64         // bytes per second
	first              time.Duration // the time in which a stranger must send its first command
	handshake          time.Duration // the time for a TLS handshake, before that

	strangers int64         // the most strangers; 0 for a share of maxclients
	grace     time.Duration // the least time before a stranger is closed to make room for another

	// In a group.
	reading time.Duration // how long a read waits until it sees what SIEVE.READ asks
	leader  time.Duration // how long after the last leader was lost commands wait for the next one
	gap     time.Duration // when a client has sent nothing for so long, its pipeline has ended
	down    time.Duration // how long everything of a pipeline is answered CLUSTERDOWN

	metricsEvery time.Duration // the time between two requests for metrics

	// The least and the most by which the answer to a password is delayed, once it is delayed at all.
	shortestGuess, longestGuess time.Duration
}

func defaultLimits() limits {
	return limits{
		batch: 16 << 10, small: 32 << 10,
		largeWords: 4096, largeBytes: 256 << 10, largeCommands: 4,
		hugeWords: 64 << 10, hugeBytes: 4 << 20,
		hugeRest: 4, longestRest: 500 * time.Millisecond,
		half: 30 * time.Second, login: 30 * time.Second, write: 30 * time.Second, rate: 16 << 10,
		watchAfter: 100 * time.Millisecond, linger: time.Second, giveUp: 1500 * time.Millisecond,
		first: 10 * time.Second, handshake: 10 * time.Second, grace: 100 * time.Millisecond,
		reading: 1500 * time.Millisecond, leader: 1500 * time.Millisecond, // less than clients wait for a reply
		gap: 10 * time.Millisecond, down: time.Second,
		metricsEvery:  20 * time.Millisecond,
		shortestGuess: 50 * time.Millisecond, longestGuess: 2 * time.Second,
		rest: 2 * time.Second, burst: 5 * time.Millisecond,
	}
}

// maxWords is the most words of a command, as in Redis. The limit is lower if maxmemory-clients leaves no room for that
// number. decodedBytes is roughly the memory of a word after it was read.
const (
	maxWords     = 1 << 20
	decodedBytes = 32
)

// commandLimits returns the bounds on one command.
func (c *conn) commandLimits() resp.Limits {
	if !c.authenticated {
		return resp.UnauthenticatedLimits
	}
	return resp.Limits{
		Args:    int(min(maxWords, c.server.host.SettingInt(clientsMemorySetting)/(decodedBytes+runningBytes))),
		Bulk:    c.server.host.SettingInt(bulkSetting),
		Command: c.server.host.SettingInt(querySetting),
	}
}

// semaphore returns the semaphore that a command must hold while it runs: server.large or server.huge, nil if the
// command is small.
func (c *conn) semaphore(cmd *module.Command, words [][]byte) chan struct{} {
	l := &c.server.limits
	bytes := 0
	if c.in.Size() > l.largeBytes { // a smaller buffer cannot hold a large command
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

// chargeWords counts the memory that a command and its reply take for each word, if that is more than every connection
// may hold. It does so before the command runs.
func (c *conn) chargeWords(words [][]byte) error {
	n := len(words) * runningBytes
	if n <= c.server.limits.small {
		return nil
	}
	return c.charge(n)
}

// mayWatch reports whether there is memory for watching more keys. WATCH asks before it runs: if the keys were too
// many, account would end the connection without an error.
func (c *conn) mayWatch(keys [][]byte) bool {
	n := bytesOf(keys, watchBytes)
	return c.queuedBytes+n <= c.server.limits.small ||
		c.server.held.Load()+int64(n) <= c.server.host.SettingInt(clientsMemorySetting)
}

// runningBytes is roughly the memory of a word of a running command, with the element of the reply.
const runningBytes = 96

// acquireLarge waits until a command may run, if it is large. It is not ok if the client is gone, or if the server has
// given up commands.
func (c *conn) acquireLarge(cmd *module.Command, words [][]byte) (ok bool) {
	if c.acquired = c.semaphore(cmd, words); c.acquired == nil {
		return true
	}
	c.endTurn() // other connections need not wait for the semaphore
	c.beginWatch()
	select {
	case c.acquired <- struct{}{}:
	case <-c.ctx.Done():
		c.acquired = nil
		return false
	}
	if !c.awaitTurn() {
		c.releaseLarge(nil)
		return false
	}
	if c.acquired == c.server.huge {
		c.hugeBegan, c.ranBefore = time.Now(), c.server.stats.total()
	}
	return true
}

// releaseLarge ends a large command, and lets the next one run. After a huge write beside commands of others, the next
// huge command waits, see limits.hugeRest.
func (c *conn) releaseLarge(cmd *module.Command) {
	place := c.acquired
	if place == nil {
		return
	}
	c.acquired = nil
	if place == c.server.huge && cmd != nil && writes(cmd) && c.server.stats.total() > c.ranBefore {
		l := &c.server.limits
		time.AfterFunc(min(time.Duration(l.hugeRest)*time.Since(c.hugeBegan), l.longestRest), func() { <-place })
		return
	}
	<-place
}

// awaitTurn waits for a turn if the connection needs one. It is not ok if the server has given up commands.
func (c *conn) awaitTurn() (ok bool) {
	switch {
	case c.turn != nil && c.turn.isOver(c.clock):
		c.endTurn()
	case c.turn != nil || c.use.time <= c.server.limits.burst:
		return true
	}
	if c.takesLong() {
		return c.awaitTurnOf(c.server.longAdmission)
	}
	return c.awaitTurnOf(c.server.admission)
}

// awaitLongTurn waits for a long turn, if the command is expected to take long. It needs one whatever the connection
// has used: otherwise clients that connect for one command each would all run at the same time. Commands of
// administrators, which may take minutes, run without a turn.
func (c *conn) awaitLongTurn(cmd *module.Command) (ok bool) {
	if !c.runsLong(cmd) || cmd.Flags&module.Admin != 0 || c.alone != nil || c.turn != nil && c.turn.of == c.server.longAdmission {
		return true
	}
	c.endTurn()
	c.beginWatch()
	return c.awaitTurnOf(c.server.longAdmission)
}

func (c *conn) awaitTurnOf(a *admission) (ok bool) {
	began := time.Now()
	c.clock, c.turnUsed = time.Time{}, 0
	c.turn = a.await(c.use, c.ctx.Done())
	if c.turn == nil && c.acquired == nil && !c.killed.Load() {
		// The client may have closed its side only, and commands that it sent before must run.
		c.turn = a.await(c.use, c.server.ctx.Done())
	}
	if !c.partialSince.IsZero() {
		c.partialSince = c.partialSince.Add(time.Since(began)) // waiting for a turn is not the client's fault
	}
	return c.turn != nil
}

// takesLong reports whether the connection's next turn is expected to be long.
func (c *conn) takesLong() bool {
	return c.acquired != nil || c.turnUsed > longTurn || c.in.Buffered() > longBytes
}

func (c *conn) endTurn() {
	if c.turn != nil {
		c.turn.end()
		c.turn = nil
	}
}

// timeOf estimates the processor time of words and bytes.
func timeOf(words, bytes int) time.Duration {
	return time.Duration(words)*wordTime + time.Duration(bytes)*time.Microsecond/bytesInMicro
}

// noteUse counts the processor time of a command. For one that may take long that is the time it took. For other commands
// it is an estimate: the time they took may be time they waited for the disk or the processor.
func (c *conn) noteUse(now time.Time, cmd *module.Command, words, replied int, took time.Duration) {
	d := commandTime + timeOf(words, replied)
	if mayTakeLong(cmd) {
		d = max(d, took)
	}
	c.addUse(now, cmd, d)
}

// addUse counts the processor time of a command, also for its turn, which tells the expected length of the next one.
// The duration of the turn would not do: it may have waited for a key, and a client that waited would be taken for a
// busy one. Commands that always take a long turn do not count for it.
func (c *conn) addUse(now time.Time, cmd *module.Command, d time.Duration) {
	c.use.add(now, d)
	if c.turn != nil && !c.server.stats.isLong(cmd) {
		c.turnUsed += d
	}
}

// account counts the memory that the connection holds now, and reports whether that is within the limits.
func (c *conn) account() bool {
	size := c.in.Size() + cap(c.out) + c.queuedBytes
	total := c.holds().Add(int64(size - c.heldBytes))
	c.heldBytes = size
	if c.stranger || size <= c.server.limits.small {
		return true
	}
	return total <= c.server.host.SettingInt(clientsMemorySetting)
}

// errReplies is the error of a command if there is no memory for its reply.
var errReplies = reply.TextError("ERR the reply takes more memory than " + clientsMemorySetting +
	" leaves: ask for less at a time")

// charge counts memory of the reply that is being made.
func (c *conn) charge(bytes int) error {
	c.replyBytes += bytes
	total := c.server.held.Add(int64(bytes))
	if c.replyBytes <= c.server.limits.small || total <= c.server.host.SettingInt(clientsMemorySetting) {
		return nil
	}
	return errReplies
}

// chargeWhole counts a complete reply and the copy of it in out, before it makes the copy: many connections may do so
// at the same time. It returns the reply, or an error if there is no memory. The reply to a write stays, because the
// write is done: flush ends the connection if it must.
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

// discharge counts the reply no more: it is in out now, or was dropped.
func (c *conn) discharge() {
	c.server.held.Add(-int64(c.replyBytes))
	c.replyBytes = 0
}

// readDeadline returns when the next bytes must have come; zero for no limit.
func (c *conn) readDeadline(now time.Time) time.Time {
	deadline := c.commandDeadline(now)
	if c.authenticated {
		return deadline
	}
	// Bytes that a stranger sends do not extend its time for the password.
	login := c.strangerSince.Add(c.server.limits.login)
	if first := c.strangerSince.Add(c.server.limits.first); !c.spoke && first.Before(login) {
		login = first
	}
	if deadline.IsZero() || login.Before(deadline) {
		return login
	}
	return deadline
}

// writeDeadline returns when the client must have taken some of the replies.
func (c *conn) writeDeadline(now time.Time) time.Time {
	deadline := now.Add(c.server.limits.write)
	if login := c.strangerSince.Add(c.server.limits.login); c.stranger && login.Before(deadline) {
		return login
	}
	return deadline
}

// batch returns how many bytes of replies the connection collects before it sends them.
func (c *conn) batch() int {
	if c.stranger {
		return min(strangerBatch, c.server.limits.batch)
	}
	return c.server.limits.batch
}

// commandDeadline returns when a command must have begun, or must be complete.
func (c *conn) commandDeadline(now time.Time) time.Time {
	l := &c.server.limits
	if c.in.Partial() {
		// A large command gets more time as more of it comes, but single bytes do not extend the deadline for ever.
		if c.partialSince.IsZero() {
			c.partialSince = now
		}
		allowed := l.half + time.Duration(int64(c.in.Buffered())*int64(time.Second)/l.rate)
		return c.partialSince.Add(allowed)
	}
	c.partialSince = time.Time{}
	if idle := c.server.host.SettingInt(timeoutSetting); idle > 0 {
		return now.Add(time.Duration(idle) * time.Second)
	}
	return time.Time{}
}
