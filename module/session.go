package module

import (
	"context"
	"time"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module/reply"
)

// Session runs the commands of one connection, shell or script. It may be used by one goroutine at a time.
type Session struct {
	host *Host

	// Durability is the level of the session's writes.
	Durability kv.Durability

	// Intercept, if set, sees each command before it runs, after its name and arity were checked. It may answer
	// instead of the command: transactions queue commands with it.
	Intercept func(cmd *Command, args [][]byte) (reply.Reply, bool)

	// Permit, if set, decides about each command after a check of its name and arity: before Intercept sees it, and
	// again before it runs in a transaction. If it refuses, its reply is the answer.
	Permit func(cmd *Command, args [][]byte) (refusal reply.Reply, refused bool)

	// Refused, if set, is called for each command that is refused before it runs: because of its name, its number of
	// words, or Permit.
	Refused func()

	// Charge, if set, counts memory: of a reply as it grows, of large strings before they are copied, and other memory
	// that a command uses while it runs. A negative number gives memory back. If it fails, the command ends with that
	// error.
	Charge func(bytes int) error

	// Outcome is the outcome of the last command given to Do.
	Outcome Outcome

	// Ran, if set, is called after each command given to Run, with its duration, its outcome and its reply.
	Ran func(cmd *Command, took time.Duration, outcome Outcome, r reply.Reply)

	// Keys counts the keys of commands. The caller of Do may set it back to zero.
	Keys    KeyCounts
	missing int // keys that the present call has not found

	// ShortLived says that the caller of Do needs a reply only until the next command. The next command may then use
	// the memory of the reply.
	ShortLived bool

	memory []byte // of such a reply, see Call.Memory

	charged int                      // what Charge was called with, in all
	large   func(value []byte) error // charge for a large string
	spare   *Call                    // the memory of the last Call, nil while a handler has it

	// Transactions is the state of the module that provides transactions.
	Transactions any

	// Connection is the server's connection that the session belongs to, nil if there is none. The server's own
	// commands use it.
	Connection any
}

// Outcome says what became of a command.
type Outcome uint8

// The outcomes.
const (
	Refused Outcome = iota // it was refused before it ran
	Queued                 // Intercept answered instead of it, without an error
	Done                   // it ran, and may have failed
)

// NewSession returns a session for the commands of a store's modules, at the store's level of durability.
func NewSession(db *kv.DB) *Session {
	s := &Session{host: Of(db)}
	s.large = func(value []byte) error { return s.charge(len(value)) }
	return s
}

// charge calls Charge, and keeps the sum.
func (s *Session) charge(bytes int) error {
	if s.Charge == nil {
		return nil
	}
	s.charged += bytes
	return s.Charge(bytes)
}

// Rest gives back the memory that the session keeps for the next command.
func (s *Session) Rest() { s.memory, s.spare = nil, nil }

// Do runs one command, given as its words, and returns its reply, which is an error reply if it fails. Do does not
// keep the words.
func (s *Session) Do(ctx context.Context, words [][]byte) reply.Reply {
	if len(words) == 0 {
		return reply.Error("ERR empty command")
	}
	return s.DoNamed(ctx, s.host.Command(words[0]), words)
}

// DoNamed is Do for a caller that has looked up the command that the first word names (Table.Command).
func (s *Session) DoNamed(ctx context.Context, named *Command, words [][]byte) reply.Reply {
	s.Outcome = Refused
	cmd, args := named.resolve(words)
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
	if cmd.Flags&Write != 0 && s.host.db.ReadOnly() {
		if s.Refused != nil {
			s.Refused()
		}
		return readOnly
	}
	if s.Intercept != nil {
		if r, done := s.Intercept(cmd, args); done {
			if !r.IsError() {
				s.Outcome = Queued
			}
			return r
		}
	}
	if err := ctx.Err(); err != nil {
		return ErrorReply(err)
	}
	c := s.borrowCall()
	*c = Call{Context: ctx, DB: s.host.db, Host: s.host, Session: s, Command: cmd, Args: args}
	begun := s.host.db.BeginAnswer()
	r := cmd.Handler(c)
	s.returnCall(c)
	if err := s.endAnswer(cmd, begun); err != nil {
		r = ErrorReply(err)
	}
	s.Outcome = Done
	s.countKeys(cmd, args, 1, r)
	return r
}

// endAnswer returns when the caller may tell what a command has read: in a group, data that a lookup finds may still be
// lost. Commands that write wait by themselves, at the session's level of durability.
func (s *Session) endAnswer(cmd *Command, begun uint64) error {
	if cmd.Flags&ReadOnly == 0 {
		return nil
	}
	return s.host.db.EndAnswer(begun)
}

// borrowCall returns memory for a Call: the last one's, unless a running handler has it.
func (s *Session) borrowCall() *Call {
	c := s.spare
	if s.spare = nil; c == nil {
		c = new(Call)
	}
	return c
}

func (s *Session) returnCall(c *Call) {
	*c = Call{}
	s.spare = c
}

// Run runs a command in a transaction, without Intercept.
func (s *Session) Run(ctx context.Context, tx *kv.Transaction, cmd *Command, args [][]byte) reply.Reply {
	if s.Ran == nil {
		r, _ := s.runIn(ctx, tx, cmd, args)
		return r
	}
	begin := time.Now()
	r, outcome := s.runIn(ctx, tx, cmd, args)
	s.Ran(cmd, time.Since(begin), outcome, r)
	return r
}

func (s *Session) runIn(ctx context.Context, tx *kv.Transaction, cmd *Command, args [][]byte) (reply.Reply, Outcome) {
	if s.Permit != nil {
		if r, refused := s.Permit(cmd, args); refused {
			return r, Refused
		}
	}
	r := cmd.Handler(&Call{Context: ctx, DB: s.host.db, Host: s.host, Session: s, Command: cmd, Args: args, Transaction: tx})
	s.countKeys(cmd, args, 1, r)
	return r, Done
}
