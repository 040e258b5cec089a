package module

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/sievekv/sievekv/internal/text"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module/reply"
)

// WrongArity returns the error for a wrong number of words.
func WrongArity(cmd *Command) reply.Reply {
	return reply.Errorf("ERR wrong number of arguments for '%s' command", cmd.LowerName())
}

func unknownCommand(words [][]byte) reply.Reply {
	// As in Redis: at most 128 bytes of the name and of the arguments.
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

// notLeader is the reply for kv.ErrNotLeader. A server that knows the leader replaces it.
var notLeader = reply.Error("NOTLEADER this store does not lead its group: nothing was written")

// IsNotLeader reports whether a reply is ErrorReply's for kv.ErrNotLeader.
func IsNotLeader(r reply.Reply) bool {
	return r.IsError() && bytes.Equal(r.Bytes(), notLeader.Bytes())
}

// OutcomeUnknown is the reply for kv.ErrOutcomeUnknown. Its first word is not one that makes clients repeat a command
// by themselves: TRYAGAIN, READONLY, LOADING, MASTERDOWN, CLUSTERDOWN.
var OutcomeUnknown = reply.Error("UNKNOWN the outcome of this command is unknown, because the node ceased to lead its group meanwhile: " +
	"look whether it was done before you repeat it")

// readOnly is the reply for a write to a store that is open read-only, with the words of Redis for a replica.
var readOnly = reply.Error("READONLY You can't write against a read only store.")

// ErrorReply turns an error of the engine or of a module into an error reply with the words that clients know. It
// cuts names of Go packages from the start of the text: they mean nothing to clients.
func ErrorReply(err error) reply.Reply {
	var text reply.TextError
	switch {
	case errors.As(err, &text):
		return reply.Error(string(text))
	case errors.Is(err, kv.ErrWrongType):
		return WrongType
	case errors.Is(err, kv.ErrOutcomeUnknown):
		return OutcomeUnknown
	case errors.Is(err, kv.ErrNotLeader):
		return notLeader
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

// plainText is text.Plain, and also cuts names of packages of other modules from the start: words of letters and
// digits with a colon.
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

// sameInRedis are the errors that Redis has with the same text. They are replied without a prefix.
var sameInRedis = []error{kv.ErrNotInteger, kv.ErrNotFloat, kv.ErrOverflow, kv.ErrNotFinite, kv.ErrStringTooLong}
