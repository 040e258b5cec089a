package raftlog

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// The errors of this package, for errors.Is.
var (
	// ErrFailed is the answer of every call after the first error of the log. It wraps that error.
	ErrFailed = errors.New("the log has failed")
	// ErrDamaged means that what is stored is not what was written.
	ErrDamaged = errors.New("damaged log")
	// ErrVersion means that a newer program has written the log.
	ErrVersion = errors.New("written by a newer program")
	// ErrLocked means that the log is open already, here or in another process.
	ErrLocked = errors.New("the log is open already")
	// ErrNotExist means that there is no log in the directory.
	ErrNotExist = errors.New("no log")
	// ErrForeign means that the directory has files that are not a log's.
	ErrForeign = errors.New("the directory is not that of a log")
	// ErrRule means that a call would break a rule of raft. It is an error of the program.
	ErrRule = errors.New("against the rules of raft")
	// ErrClosed is the answer of every call after Close.
	ErrClosed = errors.New("the log is closed")
)

func damagef(form string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrDamaged, fmt.Errorf(form, args...))
}

func rulef(form string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrRule, fmt.Errorf(form, args...))
}

// readError adds to an error what was read. Pebble's own error for damage becomes ErrDamaged.
func readError(err error, what string) error {
	if pebble.IsCorruptionError(err) {
		return damagef("%s: %w", what, err)
	}
	return fmt.Errorf("read %s: %w", what, err)
}
