package resp

import "math"

// Limits bound what a Decoder accepts. Fields that are zero or less stand for the values of Redis.
type Limits struct {
	Args    int   // most words of a command, at most 64 Mi; 1,048,576
	Bulk    int64 // most bytes of one word; 512 MiB
	Command int64 // most bytes of all words of a command, at most 2 GiB; 1 GiB
	Inline  int   // most bytes of an inline command's line, and of a line with a length; 64 KiB

	// Buffer is the most bytes of a Decoder's buffer, and so of a command with all that is around its words; no
	// limit if it is zero or less.
	Buffer int

	// Unauthenticated says that Args and Bulk are those for clients that still have to give a
	// password: the errors say so.
	Unauthenticated bool
}

// UnauthenticatedLimits are those for clients that have not given the password yet: enough for AUTH and HELLO. Redis
// allows them words of 16 KiB. Here the sum of what strangers hold is kept small.
var UnauthenticatedLimits = Limits{Args: 10, Bulk: 2 << 10, Inline: 2 << 10, Buffer: 4 << 10, Unauthenticated: true}

// The most that Args and Command may be; what is above stands for them. With what is around its words, 15 bytes each, a
// command then has less than 4 GiB, and 32 bits say where a word is.
const (
	maxArgs    = 64 << 20
	maxCommand = 2 << 30
)

// orDefaults returns the limits with the defaults filled in. No word may be so long that its end cannot
// be counted.
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

// checkArgs returns the error for a command of n words.
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

// checkBulk returns the error for a word of n bytes in a command of size bytes without it.
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
