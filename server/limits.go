package server

import (
	"time"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/kv/reply"
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
	rate               int64 // bytes per second
}

func defaultLimits() limits {
	return limits{
		batch: 16 << 10, small: 64 << 10,
		largeWords: 4096, largeBytes: 256 << 10, largeCommands: 4,
		hugeWords: 64 << 10, hugeBytes: 4 << 20,
		half: 30 * time.Second, login: 30 * time.Second, write: 30 * time.Second, rate: 16 << 10,
	}
}

// commandLimits are what a command may be made of.
func (c *conn) commandLimits() resp.Limits {
	if !c.authenticated {
		return resp.UnauthenticatedLimits
	}
	return resp.Limits{
		Bulk:    c.server.db.SettingInt(bulkSetting),
		Command: c.server.db.SettingInt(querySetting),
	}
}

// gate returns what a command has to pass while it runs, if it is large: a channel with room for as many as
// run at once. Nil for most.
func (c *conn) gate(cmd *kv.Command, words [][]byte) chan struct{} {
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

// account tells the server what the connection holds now, and reports whether it may.
func (c *conn) account() bool {
	size := c.in.Size() + cap(c.out) + c.queuedBytes
	total := c.server.held.Add(int64(size - c.heldBytes))
	c.heldBytes = size
	if size <= c.server.limits.small {
		return true
	}
	return total <= c.server.db.SettingInt(clientsMemorySetting)
}

// errReplies is the answer to a command whose reply there is no memory for.
var errReplies = reply.TextError("ERR the reply takes more memory than " + clientsMemorySetting +
	" leaves: ask for less at a time")

// charge counts what the reply under way takes.
func (c *conn) charge(bytes int) error {
	c.replyBytes += bytes
	total := c.server.held.Add(int64(bytes))
	if c.replyBytes <= c.server.limits.small || total <= c.server.db.SettingInt(clientsMemorySetting) {
		return nil
	}
	return errReplies
}

// chargeWhole counts a reply that is there whole, and the copy of it that is to be sent, before that is made:
// many connections may be at this point at once. It returns the reply, or the one that there is no memory
// for it. What a write answers is not replaced, as it is done: the connection ends, if it has to.
func (c *conn) chargeWhole(cmd *kv.Command, r reply.Reply) reply.Reply {
	size := r.Size()
	if size <= c.server.limits.small {
		return r
	}
	if err := c.charge(2*size - c.replyBytes); err != nil && (cmd == nil || !writes(cmd)) {
		return kv.ErrorReply(err)
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
	if deadline.IsZero() || login.Before(deadline) {
		return login
	}
	return deadline
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
	if idle := c.server.db.SettingInt(timeoutSetting); idle > 0 {
		return now.Add(time.Duration(idle) * time.Second)
	}
	return time.Time{}
}
