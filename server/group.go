package server

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/server/cluster"
	"github.com/sievekv/sievekv/txn"
)

// A store that belongs to a group (Options.Group) is served as a node of a Redis Cluster with one shard. This file decides
// where a command runs; all of it is behind one test for nil.
//
//   - The leader runs every command. A read that shares its batch with nothing else waits, like a write, until what is in
//     memory is committed: see settles.
//   - Another member sends commands with keys to the leader, by MOVED, or says CLUSTERDOWN while none is known. It runs
//     reads itself if the client asked for that: by READONLY for the connection, or by SIEVE.READ for the next command.
//   - Commands without keys run where they are sent, as in Redis, but for writes such as FLUSHALL: Redis refuses these on a
//     replica with READONLY, after which clients try other replicas; MOVED with slot 0 leads them to the leader.
//   - MULTI queues commands that run here, and refuses others. EXEC is decided again as a whole: by its first key, and as a
//     write if one of its commands is one.
//
// The lead may be lost between this decision and the commit. Then the store says so (kv.ErrNotLeader), and the reply is the
// one that a follower would have given; or it does not know the outcome (kv.ErrOutcomeUnknown), which clients are told by a
// word that they do not know, so that none of them repeats the command by itself.

// grouped is what a connection keeps for the commands of a group.
type grouped struct {
	readOnly bool    // READONLY was given
	next     reading // what SIEVE.READ asks of the next command

	cmd      *module.Command // the last command that refer has seen
	args     [][]byte        // of cmd; valid while it runs
	execSlot int             // the slot of the transaction, if cmd is its EXEC
}

// reading is what a read must see.
type reading struct {
	asked        bool
	linearizable bool
	after        uint64 // otherwise: the index that must be applied
}

// refer returns the reply to a command that does not run here: a redirection, or that a read would see too little. It waits
// for what SIEVE.READ has asked.
func (c *conn) refer(cmd *module.Command, args [][]byte) (elsewhere reply.Reply, refused bool) {
	g := &c.grouped
	g.cmd, g.args = cmd, args
	if cmd.Name == "EXEC" {
		key, _, _ := c.keyOf(cmd, args)
		g.execSlot = cluster.Slot(key)
	}
	s := c.server.group.Status()
	if s.Leads() && !g.next.asked {
		return reply.Reply{}, false
	}
	_, writes, keyed := c.keyOf(cmd, args)
	switch {
	case !s.Leads() && (writes || keyed && !g.readOnly && !g.next.asked):
		elsewhere, refused = c.moved(s), true
	case g.next.asked && !writes && (keyed || cmd.Flags&module.ReadOnly != 0) && !c.queues(cmd):
		elsewhere, refused = c.awaitReading(g.next)
	}
	if refused && cmd.Name == "EXEC" {
		c.leaveTransaction() // as Redis does
	}
	return elsewhere, refused
}

// keyOf returns the first key of a command, or of a transaction if the command is its EXEC, and whether it writes.
func (c *conn) keyOf(cmd *module.Command, args [][]byte) (key []byte, writes, ok bool) {
	if cmd.Name == "EXEC" {
		return txn.QueuedKey(c.session)
	}
	key, ok = cmd.FirstKeyOf(args)
	return key, cmd.Flags&module.Write != 0, ok
}

// queues reports whether MULTI will queue a command.
func (c *conn) queues(cmd *module.Command) bool {
	_, multi := txn.Queued(c.session)
	return multi && cmd.Name != "EXEC"
}

// runsHere reports whether refer would let a command with keys run, and without waiting, so that it can be part of a series.
func (c *conn) runsHere(cmd *module.Command) bool {
	g := c.server.group
	return g == nil || !c.grouped.next.asked && (g.Status().Leads() || c.grouped.readOnly && cmd.Flags&module.Write == 0)
}

// moved returns the reply to the last command if only the leader may run it. A member that has just ceased to lead and does
// not know it yet does not name itself: the client would come back at once.
func (c *conn) moved(s *cluster.Status) reply.Reply {
	leader := s.Leading()
	if leader == nil || s.Leads() {
		return cluster.Down
	}
	slot := c.grouped.execSlot
	if cmd := c.grouped.cmd; cmd.Name != "EXEC" {
		key, _, _ := c.keyOf(cmd, c.grouped.args)
		slot = cluster.Slot(key) // 0 if there is no key
	}
	return cluster.Moved(slot, leader)
}

// replaceNotLeader replaces the reply of a store that does not lead by a redirection.
func (c *conn) replaceNotLeader(r reply.Reply) reply.Reply {
	if c.server.group == nil || !module.IsNotLeader(r) {
		return r
	}
	return c.moved(c.server.group.Status())
}

// isElsewhere reports whether a reply says that a command did not run, and who may run it.
func isElsewhere(r reply.Reply) bool {
	return r.IsError() && (bytes.HasPrefix(r.Bytes(), []byte("MOVED ")) || bytes.Equal(r.Bytes(), cluster.Down.Bytes()))
}

// ranGrouped notes that a command has run. What SIEVE.READ asks is for the next command alone, or, if that is MULTI, for the
// transaction.
func (c *conn) ranGrouped(cmd *module.Command) {
	g := &c.grouped
	g.cmd, g.args = nil, nil
	if _, queued := txn.Queued(c.session); g.next.asked && !queued && (cmd == nil || cmd.Name != sieveRead) {
		g.next = reading{}
	}
}

// restsOnLead reports whether the reply to a read must wait until what is in memory is committed: the store leads, and
// promises at its level that nothing is lost that was acknowledged, so neither may anything be that was read.
func (c *conn) restsOnLead(cmd *module.Command) bool {
	g := c.server.group
	return g != nil && cmd != nil && cmd.Flags&module.ReadOnly != 0 && c.server.db.Durability() == kv.Always && g.Status().Leads()
}

// unsettled returns what takes the place of the replies whose batch could not be settled. A write may have gone its way
// before. A read can be repeated, but clients would do so without SIEVE.READ.
func unsettled(err error) func(span) reply.Reply {
	lost := errors.Is(err, kv.ErrNotLeader) || errors.Is(err, kv.ErrOutcomeUnknown)
	return func(s span) reply.Reply {
		switch {
		case !lost:
			return module.ErrorReply(err)
		case writes(s.cmd):
			return module.OutcomeUnknown
		case s.asked:
			return unconfirmed
		}
		return cluster.Down
	}
}

// unconfirmed is the reply to a linearizable read that is not known to be one.
var unconfirmed = reply.Error("BEHIND no majority has confirmed that a read here would see the newest writes: read later")

// awaitReading waits until a read here sees what was asked of it, but at most limits.reading. The error is none of those
// after which clients repeat a command by themselves: they would not repeat SIEVE.READ, and read what is too old.
func (c *conn) awaitReading(want reading) (late reply.Reply, failed bool) {
	c.endTurn()
	ctx, end := c.waiting(c.server.limits.reading)
	defer end()
	g := c.server.group
	var err error
	if want.linearizable {
		want.after, err = g.ReadIndex(ctx)
	}
	if err == nil {
		err = g.AwaitApplied(ctx, want.after)
	}
	switch {
	case err == nil:
		return reply.Reply{}, false
	case want.linearizable && want.after == 0:
		return unconfirmed, true
	}
	return reply.Errorf("BEHIND this node has applied index %d, and not %d: read later, or from the leader", g.AppliedIndex(), want.after), true
}

// waiting returns a context for waiting on behalf of a client: it ends when the client is gone, when the server ends, and
// after most, unless that is 0. end frees it.
func (c *conn) waiting(most time.Duration) (ctx context.Context, end func()) {
	c.beginWatch()
	ctx, cancel := context.WithCancel(c.ctx)
	if most > 0 {
		ctx, cancel = context.WithTimeout(c.ctx, most)
	}
	stop := make(chan struct{})
	go func() {
		select {
		case <-c.wake:
			cancel()
		case <-stop:
		}
	}()
	return ctx, func() {
		close(stop)
		cancel()
	}
}
