package storage

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sievekv/sievekv/kv/block"
	"github.com/sievekv/sievekv/kv/format"
	"github.com/sievekv/sievekv/kv/text"
)

// plainError is an error of Pebble's without text.DetailCarrier.
type plainError struct{ error }

func (e plainError) Error() string {
	return strings.ReplaceAll(e.error.Error(), text.DetailCarrier, "")
}

func (e plainError) Unwrap() error { return e.error }

// ReadError names what was read. Errors of Pebble's checksums and of package
// block are format.ErrCorrupt; everything else keeps its own identity.
func ReadError(err error, form string, args ...any) error {
	what := fmt.Sprintf(form, args...)
	err = plainError{err}
	if errors.Is(err, block.ErrCorrupt) || pebble.IsCorruptionError(err) {
		return fmt.Errorf("%w: %s: %w", format.ErrCorrupt, what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}
