package txn

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// Module returns a module with MULTI, EXEC, DISCARD, WATCH and UNWATCH, with Redis' replies.
func Module() module.Module { return moduleWith(systemClock) }

func moduleWith(after clock) module.Module {
	row := func(name string, arity int, syntax, summary, complexity, example string, f func(*module.Call) reply.Reply) module.Command {
		return module.Command{
			Name: name, Arity: arity, Flags: module.Fast | module.ModuleFlag, Group: "transactions",
			Summary: summary, Syntax: syntax, Complexity: complexity, Example: example, Handler: f,
		}
	}
	watch := row("WATCH", -2, "key [key ...]", "Makes the next EXEC answer nil and do nothing if one of the keys changes before it.",
		"O(N) for N keys", "WATCH stock", watchCommand)
	watch.FirstKey, watch.LastKey, watch.KeyStep, watch.KeyFlags = 1, -1, 1, []string{"RO"}
	execute := row("EXEC", 1, "", "Runs the queued commands as one commit, and answers an array of their replies.",
		"the time of the commands", "MULTI\nSET stock 10\nBF.ADD seen a\nEXEC",
		func(c *module.Call) reply.Reply { return exec(c, after) })
	execute.Refusal, execute.Refused = "EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command", endTransaction
	execute.Flags = module.ModuleFlag
	return module.Module{Name: "txn", Settings: settings(), Commands: []module.Command{
		row("MULTI", 1, "", "Begins a transaction: commands are queued until EXEC.", "O(1)", "MULTI", multi),
		execute,
		row("DISCARD", 1, "", "Ends a transaction without running the queued commands.", "O(N) for N commands", "MULTI\nSET stock 10\nDISCARD", discard),
		watch,
		row(onErrorCommand, 2, "CONTINUE | ROLLBACK | DEFAULT", "Chooses what EXEC does when a command answers an error, also in an array: "+
			"goes on, or undoes all. After MULTI that holds for this transaction, otherwise for the connection.",
			"O(1)", "MULTI\nSIEVE.ONERROR ROLLBACK", onError),
		row("UNWATCH", 1, "", "Stops watching all keys.", "O(N) for N keys", "WATCH stock\nUNWATCH", unwatch),
	}}
}

// session is the transaction state of a session.
type session struct {
	queued  []queued
	words   int // in queued, with the names of the commands
	bytes   int // of these words, without the names
	multi   bool
	aborted bool
	watch   *kv.Watch

	onError            string // what SIEVE.ONERROR has chosen for the connection; "" for the setting's
	transactionOnError string // likewise for the transaction, if chosen is set
	chosen             bool
}

type queued struct {
	cmd  *module.Command
	args [][]byte
}

// of returns the transaction state of a call's session.
func of(c *module.Call) *session {
	s, ok := c.Session.Transactions.(*session)
	if !ok {
		s = &session{}
		c.Session.Transactions = s
	}
	return s
}

// Queued returns how many commands a session has queued, and whether it is inside MULTI.
func Queued(s *module.Session) (n int, multi bool) {
	if st, ok := s.Transactions.(*session); ok {
		return len(st.queued), st.multi
	}
	return 0, false
}

// QueuedLong reports whether a session has queued a command that may take long, and whether it has queued one that writes.
func QueuedLong(s *module.Session, mayTakeLong func(*module.Command) bool) (long, writes bool) {
	st, ok := s.Transactions.(*session)
	if !ok {
		return false, false
	}
	return slices.ContainsFunc(st.queued, func(q queued) bool { return mayTakeLong(q.cmd) }), st.writes()
}

// QueuedKey returns the first key of the commands that a session has queued, and whether one of them writes. It is not ok if
// none of them has a key.
func QueuedKey(s *module.Session) (key []byte, writes, ok bool) {
	st, isOurs := s.Transactions.(*session)
	if !isOurs {
		return nil, false, false
	}
	for _, q := range st.queued {
		if key, ok = q.cmd.FirstKeyOf(q.args); ok {
			break
		}
	}
	return key, st.writes(), ok
}

// Held returns what a session holds since MULTI and WATCH: the words of queued commands, the watched keys, and the
// bytes of both.
func Held(s *module.Session) (words, keys, bytes int) {
	st, ok := s.Transactions.(*session)
	if !ok {
		return 0, 0, 0
	}
	if st.watch != nil {
		keys, bytes = st.watch.Size()
	}
	return st.words, keys, st.bytes + bytes
}

// Leave ends MULTI and WATCH of a session, if any. It is for the owner of a session that ends: unlike DISCARD and
// UNWATCH, it asks for no permission.
func Leave(s *module.Session) {
	if st, ok := s.Transactions.(*session); ok {
		st.end(s)
	}
}

func multi(c *module.Call) reply.Reply {
	s := of(c)
	s.multi = true
	c.Session.Refused = func() { s.aborted = true }
	c.Session.Intercept = s.intercept
	return reply.OK
}

// intercept queues all commands except those that end the transaction.
func (s *session) intercept(cmd *module.Command, args [][]byte) (reply.Reply, bool) {
	switch cmd.Name {
	case "EXEC", "DISCARD":
		return reply.Nil, false
	case "MULTI":
		return reply.Error("ERR MULTI calls can not be nested"), true
	case "WATCH":
		return reply.Error("ERR WATCH inside MULTI is not allowed"), true
	}
	if cmd.Flags&module.NoMulti != 0 {
		s.aborted = true
		return reply.Error("ERR Command not allowed inside a transaction"), true
	}
	if cmd.Name == onErrorCommand && !s.chooseOnError(args[0]) {
		s.aborted = true
		return notOnError(args[0]), true
	}
	own := make([][]byte, len(args))
	for i, arg := range args {
		own[i] = append([]byte{}, arg...)
		s.bytes += len(arg)
	}
	s.words += 1 + len(args)
	s.queued = append(s.queued, queued{cmd, own})
	return reply.Status("QUEUED"), true
}

// end ends MULTI and WATCH.
func (s *session) end(owner *module.Session) {
	owner.Intercept, owner.Refused = nil, nil
	s.transactionOnError, s.chosen = "", false
	s.queued, s.words, s.bytes, s.multi, s.aborted = nil, 0, 0, false, false
	s.stopWatch()
}

func (s *session) stopWatch() {
	if s.watch != nil {
		s.watch.Stop()
		s.watch = nil
	}
}

func discard(c *module.Call) reply.Reply {
	s := of(c)
	if !s.multi {
		return reply.Error("ERR DISCARD without MULTI")
	}
	s.end(c.Session)
	return reply.OK
}

func watchCommand(c *module.Call) reply.Reply {
	s := of(c)
	if s.watch == nil {
		s.watch = c.DB.NewWatch()
	}
	for _, key := range c.Args {
		if err := s.watch.Add(key); err != nil {
			return module.ErrorReply(err)
		}
	}
	return reply.OK
}

func unwatch(c *module.Call) reply.Reply {
	of(c).stopWatch()
	return reply.OK
}

// errChanged says that a watched key has changed.
var errChanged = errors.New("txn: a watched key was changed")

func exec(c *module.Call, after clock) reply.Reply {
	s := of(c)
	if !s.multi {
		return reply.Error("ERR EXEC without MULTI")
	}
	defer s.end(c.Session)
	if s.aborted {
		return reply.Error("EXECABORT Transaction discarded because of previous errors.")
	}
	list, err := s.run(c, after)
	switch {
	case errors.Is(err, errChanged):
		return reply.Nil
	case err != nil:
		return module.ErrorReply(err)
	}
	return reply.Array(list...)
}

// endTransaction ends the transaction, if there is one: EXEC with further words cannot run it.
func endTransaction(c *module.Call) { of(c).end(c.Session) }

// run runs the queued commands as one commit. An error of a command becomes its reply in the list.
func (s *session) run(c *module.Call, after clock) (list []reply.Reply, err error) {
	ctx, done := c.Context, func() {}
	if s.writes() {
		ctx, done = after.limit(c)
	}
	defer done()
	err = s.transact(ctx, c, func(tx *kv.Transaction) (err error) {
		list, err = s.runIn(c, tx)
		return err
	})
	if err != nil && ctx.Err() != nil && (errors.Is(err, kv.ErrEnded) || errors.Is(err, ctx.Err())) {
		err = context.Cause(ctx) // rather than that the transaction has ended
	}
	if err != nil {
		return nil, err
	}
	return list, nil
}

// transact runs f in a transaction for the queued commands. If none of them writes, it uses a snapshot, which works
// on a full disk and makes no writer wait. If the watch has seen no change once the snapshot is taken, the snapshot
// has none.
func (s *session) transact(ctx context.Context, c *module.Call, f func(*kv.Transaction) error) error {
	if s.writes() {
		return c.DB.Update(ctx, c.Level(), f)
	}
	err := c.DB.View(ctx, f)
	if errors.Is(err, errChanged) { // the answer must be as durable as any other
		if serr := c.DB.Settle(c.Level()); serr != nil {
			return serr
		}
	}
	return err
}

// writes reports whether a queued command may write.
func (s *session) writes() bool {
	return slices.ContainsFunc(s.queued, func(q queued) bool { return q.cmd.Flags&module.Write != 0 })
}

func (s *session) runIn(c *module.Call, tx *kv.Transaction) ([]reply.Reply, error) {
	if s.watch != nil {
		err := tx.Read(func(r kv.Reader) error {
			changed, err := s.watch.Changed(r)
			if err == nil && changed {
				err = errChanged
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	undoes := s.undoes(c)
	if undoes {
		if err := s.undoable(); err != nil {
			return nil, err
		}
	}
	list := make([]reply.Reply, 0, len(s.queued))
	for _, q := range s.queued {
		r := c.Session.Run(tx.Context(), tx, q.cmd, q.args)
		// If the end of the context stopped a command, none may take effect: a DEL must not be done without the COPY
		// before it.
		if err := tx.Context().Err(); err != nil {
			return nil, context.Cause(tx.Context())
		}
		if err := c.Charge(r.Size()); err != nil {
			return nil, err // the transaction writes nothing
		}
		// The same holds if a full disk stopped a command.
		if r.IsError() && strings.HasPrefix(string(r.Bytes()), "MISCONF ") {
			return nil, r.Err()
		}
		if undoes {
			if err := firstFailure(r); err != nil {
				return nil, err
			}
		}
		list = append(list, r)
	}
	return list, nil
}
