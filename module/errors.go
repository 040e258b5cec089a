package module

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/kv/text"
	"github.com/sievekv/sievekv/module/reply"
)

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

// ErrorReply turns an error of the engine, or of a module, into the words that clients know. The
// names of Go packages that its text begins with are left out: they say nothing to who gave
// the command.
func ErrorReply(err error) reply.Reply {
	var text reply.TextError
	switch {
	case errors.As(err, &text):
		return reply.Error(string(text))
	case errors.Is(err, kv.ErrWrongType):
		return WrongType
	case errors.Is(err, kv.ErrCorrupt):
		return reply.Error("CORRUPT " + plainText(err))
	case errors.Is(err, kv.ErrNoSpace), errors.Is(err, kv.ErrFailed):
		return reply.Error("MISCONF " + plainText(err))
	}
	for _, same := range sameInRedis {
		if errors.Is(err, same) {
			err = same
		}
	}
	return reply.Error("ERR " + plainText(err))
}

// plainText is text.Plain, and cuts the names of packages that are no part of this module, which are a word of letters
// and digits and a colon, from the beginning.
func plainText(err error) string {
	plain := text.Plain(err.Error())
	other := func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }
	for {
		word, rest, found := strings.Cut(plain, ": ")
		if !found || strings.ContainsFunc(word, other) {
			return plain
		}
		plain = rest
	}
}

// sameInRedis are the errors whose text Redis has too.
var sameInRedis = []error{kv.ErrNotInteger, kv.ErrNotFloat, kv.ErrOverflow, kv.ErrNotFinite, kv.ErrStringTooLong}
