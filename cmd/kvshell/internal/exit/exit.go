// Package exit has the exit codes of kvshell, and errors that carry one of them.
package exit

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sievekv/sievekv/internal/migrate"
	"github.com/sievekv/sievekv/internal/migrate/rdb"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/scalableext"
)

// The exit codes. Scripts rely on them: never change one.
const (
	OK          = 0
	Refused     = 1   // a command answered with an error, or a run was refused
	Usage       = 2   // the command line is wrong
	Open        = 3   // the store is missing or cannot be opened, or the server cannot be reached
	Locked      = 4   // another process has the store
	Corrupt     = 5   // stored bytes cannot be decoded, or check found a problem
	Local       = 6   // an error of a local file or the disk, or the store has failed
	Interrupted = 130 // Ctrl-C or SIGTERM
)

// Error is an error with an exit code. Err is nil if the error was printed already.
type Error struct {
	Code int
	Err  error
}

func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// WithCode gives an error a code. It returns nil for a nil error. An interrupt is no error of a local file: it keeps its own code.
func WithCode(code int, err error) error {
	if err == nil || (code == Local || code == Interrupted) && errors.Is(err, context.Canceled) {
		return err
	}
	return &Error{code, err}
}

// JoinLocal adds the error of closing a local file to another.
func JoinLocal(err, closed error) error {
	if closed == nil {
		return err
	}
	return errors.Join(err, WithCode(Local, closed))
}

// Usagef makes an error of wrong usage.
func Usagef(format string, args ...any) error {
	return &Error{Usage, fmt.Errorf(format, args...)}
}

// Refusef makes an error of a run that is refused.
func Refusef(format string, args ...any) error {
	return &Error{Refused, fmt.Errorf(format, args...)}
}

// Code returns the code for an error: the code of an Error in it, or the code for an error of the store. Any other
// error comes from the operating system and is about local files.
func Code(err error) int {
	var own *Error
	var answer *migrate.Refusal
	switch {
	case err == nil:
		return OK
	case errors.As(err, &own):
		return own.Code
	case errors.As(err, &answer):
		return ReplyCode(answer.Reply)
	case errors.Is(err, context.Canceled):
		return Interrupted
	case isAny(err, kv.ErrOptions):
		return Usage
	case isAny(err, kv.ErrLocked):
		return Locked
	case isAny(err, kv.ErrCorrupt, rdb.ErrDamaged):
		return Corrupt
	case isAny(err, kv.ErrNotExist, kv.ErrUnsupportedVersion):
		return Open
	case isAny(err, kv.ErrWrongType, kv.ErrNoModule, kv.ErrNotFound, kv.ErrExists, kv.ErrTooLarge,
		scalableext.ErrFull, scalableext.ErrCannotGrow, migrate.ErrRefused, rdb.ErrUnsupported):
		return Refused
	}
	return Local
}

func isAny(err error, targets ...error) bool {
	for _, target := range targets {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// ReplyCode returns the code for a reply: OK if neither the reply nor anything in it is an error. Error replies are
// text. The first word of the text tells the two failures of a store that have a code of their own.
func ReplyCode(r reply.Reply) int {
	code := OK
	for _, elem := range r.Elems() {
		code = max(code, ReplyCode(elem))
	}
	if !r.IsError() {
		return code
	}
	switch text := string(r.Bytes()); {
	case strings.HasPrefix(text, "MISCONF "):
		return Local
	case strings.HasPrefix(text, "CORRUPT "):
		return Corrupt
	}
	return max(code, Refused)
}
