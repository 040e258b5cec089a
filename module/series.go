package module

import (
	"context"

	"github.com/sievekv/sievekv/module/reply"
)

// MaxSeries is the most calls in a Series.
const MaxSeries = 64

// Series are calls of one command with the same first key, which a client sent one after the other without waiting for
// replies. Command.Series answers them. The words are valid until it returns.
type Series struct {
	Replies []reply.Reply // one for each call

	words [][]byte // of all calls, each with the name
	each  int      // the words of a call
}

// Add adds a call by its words. The calls of a series have the same number of words.
func (s *Series) Add(words [][]byte) {
	s.words = append(s.words, words...)
	s.each = len(words)
	s.Replies = append(s.Replies, reply.Nil)
}

// Reset forgets the calls, and keeps the memory.
func (s *Series) Reset() {
	clear(s.words)
	clear(s.Replies)
	s.words, s.Replies = s.words[:0], s.Replies[:0]
}

// Len returns the number of calls.
func (s *Series) Len() int { return len(s.Replies) }

// Words returns the words of call i.
func (s *Series) Words(i int) [][]byte { return s.words[i*s.each : (i+1)*s.each : (i+1)*s.each] }

// Args returns the words of call i after the name.
func (s *Series) Args(i int) [][]byte { return s.Words(i)[1:] }

// InSeries reports whether Do would run such a command now, so that it may be part of a series. It does not ask Permit.
func (s *Session) InSeries(ctx context.Context, cmd *Command, words [][]byte) bool {
	return cmd != nil && cmd.Series != nil && cmd.Takes(len(words)) && s.Intercept == nil && ctx.Err() == nil &&
		(cmd.Flags&Write == 0 || !s.host.db.ReadOnly())
}

// DoSeries runs calls of a command. InSeries has held for each, and Permit would let each run. The replies are the same
// as for the calls one after the other, but several writes may be one commit.
func (s *Session) DoSeries(ctx context.Context, cmd *Command, calls *Series) {
	c := s.borrowCall()
	*c = Call{Context: ctx, DB: s.host.db, Host: s.host, Session: s, Command: cmd, Args: calls.Args(0)}
	begun := s.host.db.BeginAnswer()
	cmd.Series(c, calls)
	s.returnCall(c)
	if err := s.endAnswer(cmd, begun); err != nil {
		for i := range calls.Replies {
			calls.Replies[i] = ErrorReply(err)
		}
	}
	s.countKeys(cmd, calls.Args(0), calls.Len(), reply.Nil)
}
