package format

import (
	"errors"
	"fmt"
)

// What is wrong with stored bytes.
var (
	// ErrCorrupt is returned when stored bytes do not decode, or the store's log lost its end.
	ErrCorrupt = errors.New("kv: corrupt data")

	// ErrUnsupportedVersion is returned for bytes written by a newer version of this package or of a module.
	ErrUnsupportedVersion = errors.New("kv: unsupported format version")
)

func Corruptf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}
