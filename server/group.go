package server

import (
	"bytes"
	"context"
	"errors"
	"os"
	"time"

	"github.com/sievekv/sievekv/internal/cluster"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/txn"
)

// A store that belongs to a group (Options.Group) is served as a node of a Redis Cluster with one shard. This file decides
// where a command runs; all of it is behind one test for nil.
//
//   - The leader runs every command. At level always the reply to a read waits, like the reply to a write, until
//     everything in memory is committed: see settlesInGroup.
//   - Another member sends commands with keys to the leader, by MOVED. It runs reads itself if the client asked for that: by
//     READONLY for the connection, or by SIEVE.READ for the next command.
//   - While no leader is known, commands that need one wait for the next one, because an election is short. If there
//     has been none for longer than an election takes, the answer is CLUSTERDOWN.
//   - Commands without keys run where they are sent, as in Redis, except writes such as FLUSHALL: Redis refuses these
//     on a replica with READONLY, after which clients try other replicas; MOVED with slot 0 leads them to the leader.
//   - MULTI queues commands that run here, and refuses others. EXEC is decided again as a whole: by its first key, and
//     as a write if one of its commands writes.
//
// The lead may be lost between this decision and the commit. Then the store says so (kv.ErrNotLeader), and the reply is the
// one that a follower would have given; or it does not know the outcome (kv.ErrOutcomeUnknown), which clients are told by a
// word that they do not know, so that none of them repeats the command by itself.
//
// Clients repeat by themselves a command that was answered MOVED or CLUSTERDOWN, so neither may be the answer to a
// command that was done. That is not enough for CLUSTERDOWN: if the first command of a pipeline gets it, go-redis
// repeats the whole pipeline (9.23.0, ClusterClient.pipelineReadCmds), also commands that were done, and commands
// answered MOVED twice. So after CLUSTERDOWN a connection answers CLUSTERDOWN to every further command of the pipeline
// that needs a leader. The end of a pipeline cannot be seen; it counts as ended when the client has sent nothing for
// limits.gap. For a client that never pauses that ends after limits.down.

// grouped is the state of a connection for the commands of a group.
type grouped struct {
	readOnly bool    // READONLY was given
	next     reading // what SIEVE.READ asks of the next command

	cmd      *module.Command // the last command that refer has seen
	args     [][]byte        // of cmd; valid while it runs
	execSlot int             // the slot of the transaction, if cmd is its EXEC

	answering bool   // a command of the batch has run
	begun     uint64 // from BeginAnswer, before the first one

	down time.Time // when the pipeline was first answered CLUSTERDOWN; zero if it was not
}

// reading says what a read must see.
type reading struct {
	asked        bool
	linearizable bool
	after        uint64 // otherwise: the index that must be applied
}

// refer returns the reply to a command that does not run here: a redirection, or an error if a read would see too
// little. It waits as SIEVE.READ has asked.
func (c *conn) refer(cmd *module.Command, args [][]byte) (elsewhere reply.Reply, refused bool) {
	g := &c.grouped
	g.cmd, g.args = cmd, args
	if cmd.Name == "EXEC" {
		key, _, _ := c.keyOf(cmd, args)
		g.execSlot = cluster.Slot(key)
	}
	s := c.server.group.Status()
	if s.Leads() && !g.next.asked && g.down.IsZero() {
		return reply.Reply{}, false
	}
	_, writes, keyed := c.keyOf(cmd, args)
	if writes || keyed && !g.readOnly && !g.next.asked {
		if s = c.awaitLeader(); !s.Leads() || c.isDown() {
			elsewhere, refused = c.moved(s), true
		}
	}
	if !refused && g.next.asked && !writes && (keyed || cmd.Flags&module.ReadOnly != 0) && !c.queues(cmd) {
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
	return g == nil || !c.grouped.next.asked && c.grouped.down.IsZero() && (g.Status().Leads() || c.grouped.readOnly && cmd.Flags&module.Write == 0)
}

// moved returns the reply to the last command, which did not run because only the leader may run it. A member that leads
// again by now names itself.
func (c *conn) moved(s *cluster.Status) reply.Reply {
	leader := s.Leading()
	if leader == nil || c.isDown() {
		if c.grouped.down.IsZero() {
			c.grouped.down = time.Now()
		}
		return cluster.Down
	}
	slot := c.grouped.execSlot
	if cmd := c.grouped.cmd; cmd.Name != "EXEC" {
		key, _, _ := c.keyOf(cmd, c.grouped.args)
		slot = cluster.Slot(key) // 0 if there is no key
	}
	return cluster.Moved(slot, leader)
}

// isDown reports whether a command of the pipeline was answered CLUSTERDOWN, so that none of it may run any more.
func (c *conn) isDown() bool {
	g := &c.grouped
	if !g.down.IsZero() && time.Since(g.down) > c.server.limits.down {
		g.down = time.Time{}
	}
	return !g.down.IsZero()
}

// readAfterDown reads once. If the client sends nothing for a while, its pipeline has ended.
func (c *conn) readAfterDown() (n int, err error) {
	n, err = c.readUntil(time.Now().Add(c.server.limits.gap))
	if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && !c.in.Partial() {
		c.grouped.down = time.Time{}
	}
	return n, err
}

// awaitLeader returns the group once it has a leader, or as it is when there has been none for limits.leader.
func (c *conn) awaitLeader() *cluster.Status {
	s := c.server.group.Status()
	if c.isDown() {
		return s
	}
	return c.awaitStatus(s, s.Since.Add(c.server.limits.leader), func(s *cluster.Status) bool { return s.Leading() != nil })
}

// awaitStatus returns the group, which is s now, once a condition holds, or as it is at a time.
func (c *conn) awaitStatus(s *cluster.Status, until time.Time, is func(*cluster.Status) bool) *cluster.Status {
	if is(s) {
		return s
	}
	c.endTurn()
	ctx, end := c.waiting(max(time.Until(until), 1))
	defer end()
	for tick := time.NewTicker(leaderEvery); ; s = c.server.group.Status() {
		if is(s) || ctx.Err() != nil {
			tick.Stop()
			return s
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// leaderEvery is how often a command that needs a leader looks for one.
const leaderEvery = 5 * time.Millisecond

// replaceNotLeader replaces the reply of a store that does not lead by a redirection. The store may know that before the Status
// says it.
func (c *conn) replaceNotLeader(r reply.Reply) reply.Reply {
	if !module.IsNotLeader(r) {
		return r
	}
	if was := c.server.group.Status(); was.Leads() {
		c.awaitStatus(was, time.Now().Add(c.server.limits.leader), func(s *cluster.Status) bool { return !s.Leads() || s.Term != was.Term })
	}
	return c.moved(c.awaitLeader())
}

// isElsewhere reports whether a reply says that a command did not run, and which member may run it.
func isElsewhere(r reply.Reply) bool {
	return r.IsError() && (bytes.HasPrefix(r.Bytes(), []byte("MOVED ")) || bytes.Equal(r.Bytes(), cluster.Down.Bytes()))
}

// ranGrouped notes that a command has run. SIEVE.READ applies to the next command alone or, if that is MULTI, to the
// transaction.
func (c *conn) ranGrouped(cmd *module.Command) {
	g := &c.grouped
	g.cmd, g.args = nil, nil
	if _, queued := txn.Queued(c.session); g.next.asked && !queued && (cmd == nil || cmd.Name != sieveRead) {
		g.next = reading{}
	}
}

// settlesInGroup is settles for a store of a group. A leader promises that no acknowledged write is lost, and the same
// of data that was read: the reply to a read waits until everything in memory is committed.
func (c *conn) settlesInGroup(cmd *module.Command, r reply.Reply) bool {
	if isElsewhere(r) {
		return false
	}
	if cmd.Flags&module.ReadOnly != 0 && c.server.db.Durability() == kv.Always {
		c.unsettled = true
		return true
	}
	return c.unsettled && writes(cmd)
}

// beginAnswers is called before a command runs, so that settle can tell if memory has meanwhile forgotten data that the
// replies may rest on.
func (c *conn) beginAnswers() {
	if g := &c.grouped; !g.answering {
		g.answering, g.begun = true, c.server.db.BeginAnswer()
	}
}

// settleInGroup waits until everything that the batch has written, and has read, is committed.
func (c *conn) settleInGroup() error {
	if err := c.server.db.EndAnswer(c.grouped.begun); err != nil {
		return err
	}
	return c.server.db.Sync()
}

// unsettledReply returns the replacement for the replies of a batch that could not be settled. A write may have been
// done. A read could be repeated, but not by a client that repeats the whole pipeline.
func unsettledReply(err error) reply.Reply {
	if errors.Is(err, kv.ErrNotLeader) {
		return module.OutcomeUnknown
	}
	return module.ErrorReply(err)
}

// unconfirmed is the reply to a linearizable read that is not known to be one.
var unconfirmed = reply.Error("BEHIND no majority has confirmed that a read here would see the newest writes: read later")

// awaitReading waits until a read here sees what was asked of it, but at most limits.reading. Its error is not one that
// makes clients repeat a command by themselves: they would not repeat SIEVE.READ, and would read old data.
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
	ctx, cancel := c.ctx, context.CancelFunc(nil)
	if most > 0 {
		ctx, cancel = context.WithTimeout(ctx, most)
	} else {
		ctx, cancel = context.WithCancel(ctx)
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
		if len(c.writes) == 0 { // nothing was read before
			c.grouped.begun = c.server.db.BeginAnswer()
		}
	}
}
