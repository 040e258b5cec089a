package resp

import "math"

// Limits bound what a Decoder accepts. A field that is zero or less means the default, which is Redis' limit.
type Limits struct {
	Args    int   // most words of a command, at most 64 Mi; default 1,048,576
	Bulk    int64 // most bytes of one word; default 512 MiB
	Command int64 // most bytes of all words of a command, at most 2 GiB; default 1 GiB
	Inline  int   // most bytes of an inline command's line, and of a line with a length; default 64 KiB

	// Buffer is the most bytes of a Decoder's buffer, and so of a whole command with the lengths of its words;
	// default no limit.
	Buffer int

	// Unauthenticated makes the errors for Args and Bulk say that the client has not given the password.
	Unauthenticated bool
}

// UnauthenticatedLimits are the limits for clients that have not given the password yet. They are large enough for AUTH
// and HELLO. Redis allows words of 16 KiB; here they are smaller, so that strangers hold little memory together.
var UnauthenticatedLimits = Limits{Args: 10, Bulk: 2 << 10, Inline: 2 << 10, Buffer: 4 << 10, Unauthenticated: true}

// Larger values of Args and Command are lowered to these. Then a command, with 15 bytes more for each word, has less
// than 4 GiB, and 32 bits can say where a word is.
const (
	maxArgs    = 64 << 20
	maxCommand = 2 << 30
)

// orDefaults returns the limits with the defaults filled in. It bounds Bulk so that a word's length plus its line end
// does not overflow.
func (l Limits) orDefaults() Limits {
	return Limits{
		Args:            min(orDefault(l.Args, 1<<20), maxArgs),
		Bulk:            min(orDefault(l.Bulk, 512<<20), math.MaxInt-2),
		Command:         min(orDefault(l.Command, 1<<30), maxCommand),
		Inline:          orDefault(l.Inline, 64<<10),
		Buffer:          orDefault(l.Buffer, math.MaxInt),
		Unauthenticated: l.Unauthenticated,
	}
}

func orDefault[T int | int64](value, otherwise T) T {
	if value <= 0 {
		return otherwise
	}
	return value
}

// checkArgs returns the error for a command of n words, nil if n is allowed.
func (l *Limits) checkArgs(n int64) error {
	switch {
	case n <= int64(l.Args):
		return nil
	case l.Unauthenticated:
		return errArgsAnonymous
	default:
		return errArgs
	}
}

// checkBulk returns the error for a word of n bytes after size bytes of other words, nil if it is allowed.
func (l *Limits) checkBulk(n, size int64) error {
	switch {
	case n < 0:
		return errBulk
	case n > l.Bulk && l.Unauthenticated:
		return errBulkAnonymous
	case n > l.Bulk:
		return errBulk
	case n > l.Command-size:
		return errCommand(size+n, l.Command)
	default:
		return nil
	}
}
