package module

import (
	"context"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module/reply"
)

// Session is one user of the executor: a connection, a shell, a script. It is
// for one goroutine.
type Session struct {
	host *Host

	// Durability is the level of the session's writes.
	Durability kv.Durability

	// Intercept, if set, sees each command before it runs, after its name and
	// arity were checked, and may answer in its place: it is how transactions
	// queue commands.
	Intercept func(cmd *Command, args [][]byte) (reply.Reply, bool)

	// Permit, if set, is asked about each command after its name and arity were checked: before
	// Intercept sees it, and again before it is run as part of a transaction. If it refuses the
	// command, its reply is the answer.
	Permit func(cmd *Command, args [][]byte) (refusal reply.Reply, refused bool)

	// Refused, if set, is told of each command that is refused before it runs: for
	// its name, for its number of words, or by Permit.
	Refused func()

	// Charge, if set, is told of the bytes of memory that a reply under way takes, as it
	// grows, of large strings before they are copied, and of what a command takes while it
	// runs, less than 0 when that is given back. With an error the command ends, and answers it.
	Charge func(bytes int) error

	large func(value []byte) error // Charge for a large string

	// Transactions is the state of the module that provides them.
	Transactions any

	// Connection is what the session's words come from, if that is a connection of
	// a server: its own commands use it.
	Connection any
}

// NewSession returns a session that runs the commands of a store's modules, at the store's level of durability.
func NewSession(db *kv.DB) *Session {
	s := &Session{host: Of(db)}
	s.large = func(value []byte) error {
		if s.Charge == nil {
			return nil
		}
		return s.Charge(len(value))
	}
	return s
}

// Do runs one command, given as its words, and returns its reply; a failure is
// an error reply. The words are not kept.
func (s *Session) Do(ctx context.Context, words [][]byte) reply.Reply {
	if len(words) == 0 {
		return reply.Error("ERR empty command")
	}
	cmd, args := s.host.Resolve(words)
	if cmd == nil || !cmd.Takes(len(words)) {
		if s.Refused != nil {
			s.Refused()
		}
		if cmd != nil && cmd.Refused != nil {
			cmd.Refused(&Call{Context: ctx, DB: s.host.db, Host: s.host, Session: s, Command: cmd, Args: args})
		}
		r, _ := s.host.Refuse(words)
		return r
	}
	if s.Permit != nil {
		if r, refused := s.Permit(cmd, args); refused {
			if s.Refused != nil {
				s.Refused()
			}
			return r
		}
	}
	if s.Intercept != nil {
		if r, done := s.Intercept(cmd, args); done {
			return r
		}
	}
	if err := ctx.Err(); err != nil {
		return ErrorReply(err)
	}
	return cmd.Handler(&Call{Context: ctx, DB: s.host.db, Host: s.host, Session: s, Command: cmd, Args: args})
}

// Run runs a command as part of a transaction, past Intercept.
func (s *Session) Run(ctx context.Context, tx *kv.Transaction, cmd *Command, args [][]byte) reply.Reply {
	if s.Permit != nil {
		if r, refused := s.Permit(cmd, args); refused {
			return r
		}
	}
	return cmd.Handler(&Call{Context: ctx, DB: s.host.db, Host: s.host, Session: s, Command: cmd, Args: args, Transaction: tx})
}
