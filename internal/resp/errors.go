package resp

import "fmt"

// ProtocolError says why input is not valid. The input after it cannot be understood, so the connection must be
// closed. A Decoder's text is what Redis sends after "ERR ".
type ProtocolError string

// Error returns the text.
func (e ProtocolError) Error() string { return string(e) }

const (
	errArgs          = ProtocolError("Protocol error: invalid multibulk length")
	errBulk          = ProtocolError("Protocol error: invalid bulk length")
	errInline        = ProtocolError("Protocol error: too big inline request")
	errArgsLine      = ProtocolError("Protocol error: too big mbulk count string")
	errBulkLine      = ProtocolError("Protocol error: too big bulk count string")
	errQuotes        = ProtocolError("Protocol error: unbalanced quotes in request")
	errArgsAnonymous = ProtocolError("Protocol error: unauthenticated multibulk length")
	errBulkAnonymous = ProtocolError("Protocol error: unauthenticated bulk length")
)

// errExpectedBulk is the error for a word that begins with c. For a line break, which would end the error's line,
// Redis shows a space.
func errExpectedBulk(c byte) ProtocolError {
	if c == '\r' || c == '\n' {
		c = ' '
	}
	return ProtocolError("Protocol error: expected '$', got '" + string([]byte{c}) + "'")
}

// errBuffer is the error for a command that fills the buffer and is still incomplete.
func errBuffer(limit int) ProtocolError {
	return ProtocolError(fmt.Sprintf("Protocol error: command of more than %d bytes with its lengths", limit))
}

func errCommand(size, limit int64) ProtocolError {
	return ProtocolError(fmt.Sprintf("Protocol error: command of %d bytes, at most %d", size, limit))
}
