package storage

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/text"
)

// plainError is an error whose text is wrapped in another's: without names of packages, and without text.DetailCarrier.
type plainError struct{ error }

func (e plainError) Error() string {
	return text.Plain(e.error.Error())
}

func (e plainError) Unwrap() error { return e.error }

// ReadError wraps an error of reading with a text that tells what was read. Errors of Pebble's checksums and of package
// block become format.ErrCorrupt, and so does a missing file; every other error stays what it is. Pebble takes any
// error of merging operands for damage, even if the disk is full or fails.
func ReadError(err error, form string, args ...any) error {
	what := fmt.Sprintf(form, args...)
	var system syscall.Errno
	fails := errors.As(err, &system) && system != syscall.ENOENT
	if (errors.Is(err, block.ErrCorrupt) || pebble.IsCorruptionError(err)) && !fails {
		return fmt.Errorf("%w: %s: %w", format.ErrCorrupt, what, plainError{err})
	}
	return fmt.Errorf("%s: %w", what, err)
}
