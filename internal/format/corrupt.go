package format

import (
	"errors"
	"fmt"
)

// The errors for stored bytes.
var (
	// ErrCorrupt is returned when stored bytes cannot be decoded, or the store's log has lost its end.
	ErrCorrupt = errors.New("kv: corrupt data")

	// ErrUnsupportedVersion is returned for bytes that a newer version of this package or of a module has written.
	ErrUnsupportedVersion = errors.New("kv: unsupported format version")
)

// Corruptf returns an error that wraps ErrCorrupt and describes the stored bytes.
func Corruptf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}
