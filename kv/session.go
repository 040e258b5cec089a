package kv

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sievekv/sievekv/kv/reply"
)

// Session is one user of the executor: a connection, a shell, a script. It is
// for one goroutine.
type Session struct {
	db *DB

	// Durability is the level of the session's writes.
	Durability Durability

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

// NewSession returns a session at the store's level of durability.
func (db *DB) NewSession() *Session {
	s := &Session{db: db}
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
	cmd, args := s.db.registry.resolve(words)
	if cmd == nil || !cmd.Takes(len(words)) {
		if s.Refused != nil {
			s.Refused()
		}
		switch {
		case cmd == nil:
			return s.db.registry.unknown(words)
		case cmd.Refuse != nil:
			return cmd.Refuse(&Call{Context: ctx, DB: s.db, Session: s, Command: cmd, Args: args})
		}
		return WrongArity(cmd)
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
	return cmd.Handler(&Call{Context: ctx, DB: s.db, Session: s, Command: cmd, Args: args})
}

// Run runs a command as part of a transaction, past Intercept.
func (s *Session) Run(ctx context.Context, tx *Transaction, cmd *Command, args [][]byte) reply.Reply {
	if s.Permit != nil {
		if r, refused := s.Permit(cmd, args); refused {
			return r
		}
	}
	return cmd.Handler(&Call{Context: ctx, DB: s.db, Session: s, Command: cmd, Args: args, Transaction: tx})
}

// LowerName is the command's name as error texts have it.
func (c *Command) LowerName() string { return strings.ToLower(c.Name) }

// Takes reports whether the command can have so many words, its name included.
func (c *Command) Takes(words int) bool {
	if c.Arity < 0 {
		return words >= -c.Arity
	}
	return words == c.Arity
}

// WrongArity is the reply to a command with too few or too many words.
func WrongArity(cmd *Command) reply.Reply {
	return reply.Errorf("ERR wrong number of arguments for '%s' command", cmd.LowerName())
}

func unknownCommand(words [][]byte) reply.Reply {
	// As Redis prints it: at most 128 bytes of name and of arguments.
	const limit = 128
	cut := func(b []byte, n int) string { return string(b[:min(len(b), max(n, 0))]) }
	var args strings.Builder
	for _, w := range words[1:] {
		if args.Len() >= limit {
			break
		}
		fmt.Fprintf(&args, "'%s' ", cut(w, limit-args.Len()))
	}
	return reply.Errorf("ERR unknown command '%s', with args beginning with: %s", cut(words[0], limit), args.String())
}

// WrongType is the reply for a key of another type.
var WrongType = reply.Error("WRONGTYPE Operation against a key holding the wrong kind of value")

// ErrorReply turns an error of this package, or a module's, into the words clients know. The
// names of Go packages that its text begins with are left out: they say nothing to who gave
// the command.
func ErrorReply(err error) reply.Reply {
	var text reply.TextError
	switch {
	case errors.As(err, &text):
		return reply.Error(string(text))
	case errors.Is(err, ErrWrongType):
		return WrongType
	case errors.Is(err, ErrCorrupt):
		return reply.Error("CORRUPT " + plainText(err))
	case errors.Is(err, ErrNoSpace), errors.Is(err, ErrFailed):
		return reply.Error("MISCONF " + plainText(err))
	}
	for _, same := range sameInRedis {
		if errors.Is(err, same) {
			err = same
		}
	}
	return reply.Error("ERR " + plainText(err))
}

// plainText is PlainText, and cuts the names of packages that are no part of this module, which are a word of letters
// and digits and a colon, from the beginning.
func plainText(err error) string {
	text := PlainText(err)
	other := func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }
	for {
		word, rest, found := strings.Cut(text, ": ")
		if !found || strings.ContainsFunc(word, other) {
			return text
		}
		text = rest
	}
}

// sameInRedis are the errors whose text Redis has too.
var sameInRedis = []error{ErrNotInteger, ErrNotFloat, ErrOverflow, ErrNotFinite, ErrStringTooLong}
