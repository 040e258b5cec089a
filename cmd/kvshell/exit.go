package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/kv/reply"
)

// The exit codes. Scripts rely on them: never change one.
const (
	exitOK          = 0
	exitError       = 1   // a command answered with an error, or a run was refused
	exitUsage       = 2   // the command line is wrong
	exitOpen        = 3   // the store cannot be opened, or is not there
	exitLocked      = 4   // another process has the store
	exitCorrupt     = 5   // stored bytes do not decode, or check found a problem
	exitLocal       = 6   // a local file, the disk, or a store that failed
	exitInterrupted = 130 // Ctrl-C or SIGTERM
)

// codeError is an error that says itself what the process exits with. A nil err is for what has been
// told already.
type codeError struct {
	code int
	err  error
}

func (e *codeError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *codeError) Unwrap() error { return e.err }

// withCode returns nil for a nil error.
func withCode(code int, err error) error {
	if err == nil {
		return nil
	}
	return &codeError{code, err}
}

func usagef(format string, args ...any) error {
	return &codeError{exitUsage, fmt.Errorf(format, args...)}
}

func refusef(format string, args ...any) error {
	return &codeError{exitError, fmt.Errorf(format, args...)}
}

// exitCode returns the code for an error: first what an error says of itself, then what the store's errors
// mean. Errors of the operating system are left: those of local files.
func exitCode(err error) int {
	var own *codeError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &own):
		return own.code
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case isAny(err, kv.ErrOptions):
		return exitUsage
	case isAny(err, kv.ErrLocked):
		return exitLocked
	case isAny(err, kv.ErrCorrupt):
		return exitCorrupt
	case isAny(err, kv.ErrNotExist, kv.ErrUnsupportedVersion):
		return exitOpen
	case isAny(err, kv.ErrWrongType, kv.ErrNoModule, kv.ErrNotFound, kv.ErrExists, kv.ErrTooLarge), isFull(err), isGrown(err):
		return exitError
	}
	return exitLocal
}

func isAny(err error, targets ...error) bool {
	for _, target := range targets {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// replyCode returns the code for a reply: exitOK if neither it nor anything in it is an error. Of a
// store's own failure only the words are left in a reply; they tell the two that are worth a code from the
// rest.
func replyCode(r reply.Reply) int {
	code := exitOK
	for _, elem := range r.Elems() {
		code = max(code, replyCode(elem))
	}
	if !r.IsError() {
		return code
	}
	switch text := string(r.Bytes()); {
	case strings.HasPrefix(text, "MISCONF "):
		return exitLocal
	case strings.HasPrefix(text, "CORRUPT "):
		return exitCorrupt
	}
	return max(code, exitError)
}
