package kv

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/sievekv/sievekv/kv/format"
	"github.com/sievekv/sievekv/kv/storage"
)

// The errors of a store. All are meant for errors.Is; what was being done, and
// to which key or path, is added around them with %w.
var (
	// ErrClosed is returned by every operation on a store after Close began.
	ErrClosed = storage.ErrClosed

	// ErrLocked is returned by Open when another process, or another DB of this process, has the directory open. The
	// message says which of the two, and names the path.
	ErrLocked = storage.ErrLocked

	// ErrNotExist is returned by Open with Options.MustExist when the directory holds no store.
	ErrNotExist = storage.ErrNotExist

	// ErrFailed is returned by every operation after a write or sync of the log, the manifest or the directory
	// failed. The outcome of a commit that was waiting for the disk at that moment is unknown: it may or may not be
	// there after the store is opened again. Nothing acknowledged is lost.
	ErrFailed = storage.ErrFailed

	// ErrCorrupt is returned when stored bytes do not decode, or the store's log lost its end.
	ErrCorrupt = format.ErrCorrupt

	// ErrUnsupportedVersion is returned for bytes written by a newer version of this package or of a module.
	ErrUnsupportedVersion = format.ErrUnsupportedVersion

	// ErrNoSpace is returned by writes while the file system has less free space than Options.MinFreeSpace. Reads go
	// on, and writes are accepted again when space is back. What only removes keys, be it a DEL, a FLUSHALL, an
	// Update or an expiry, is accepted all the same, until the reserve (see Options.BallastSize) is used up: so space
	// can be freed from inside.
	ErrNoSpace = errors.New("kv: disk is full, writes are refused")

	// ErrBusy is returned by a write that has waited for a transaction in which nothing
	// was done for Options.MaxIdleTransaction. Nothing was written.
	ErrBusy = errors.New("kv: a transaction keeps all other writes waiting")

	// ErrNested is returned by a write, or the beginning of a transaction, that is made inside of a transaction's
	// function, or with its context, and is not part of it: it would wait for itself. Nothing was written.
	ErrNested = errors.New("kv: inside of a transaction, and not part of it")

	// ErrOtherStore is returned by the use of a handle that was bound to a transaction of another store than its own.
	ErrOtherStore = errors.New("kv: of another store")

	// ErrNotFound is returned when a key is missing or has expired.
	ErrNotFound = errors.New("kv: key not found")

	// ErrExists is returned when a key that must be absent is there.
	ErrExists = errors.New("kv: key exists")

	// ErrWrongType is returned when a key holds a value of another type.
	ErrWrongType = errors.New("kv: key holds another type")

	// ErrNoModule is returned when a key holds a type of a module this program
	// did not register. TYPE, RENAME and DEL work on such a key all the same.
	ErrNoModule = errors.New("kv: module not registered")

	// ErrTooLarge is returned when a key, a commit or a filter is larger than its limit. The message names both.
	ErrTooLarge = storage.ErrTooLarge

	// ErrNotInteger is returned when a value that is to be counted with is not an integer of 64 bits in decimal.
	ErrNotInteger = errors.New("kv: value is not an integer or out of range")

	// ErrNotFloat is returned when a value that is to be counted with is no number.
	ErrNotFloat = errors.New("kv: value is not a valid float")

	// ErrOverflow is returned when a sum does not fit into 64 bits.
	ErrOverflow = errors.New("kv: increment or decrement would overflow")

	// ErrNotFinite is returned when a sum is no finite number.
	ErrNotFinite = errors.New("kv: increment would produce NaN or Infinity")

	// ErrStringTooLong is returned for strings above 512 MiB.
	ErrStringTooLong = errors.New("kv: string exceeds maximum allowed size (proto-max-bulk-len)")

	// ErrOptions is returned by Open for options that cannot hold. The message lists every problem found.
	ErrOptions = errors.New("kv: bad options")
)

func notFound(key []byte) error { return fmt.Errorf("%w: %q", ErrNotFound, key) }

func keyTooLong(key []byte) error {
	return fmt.Errorf("%w: key of %d bytes, at most %d", ErrTooLarge, len(key), MaxKeyLen)
}

// PlainText returns the text of an error for people who use a program: without the names of Go packages, except in
// double quotes, and without what Pebble puts into its errors for itself.
func PlainText(err error) string {
	text := strings.ReplaceAll(err.Error(), storage.DetailCarrier, "")
	return packageNames.ReplaceAllStringFunc(text, func(found string) string {
		if found[0] == '"' {
			return found
		}
		return packageNames.FindStringSubmatch(found)[1]
	})
}

// packageNames matches a text in double quotes, or names of packages where an error's text begins, or that of one that
// it wraps, with what is before them as its group.
var packageNames = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|(^|: |; |\n)(?:(?:` +
	`sievekv|kv|block|probe|freeze|storage|module|resp|server|txn|scalableext|bloomext|cuckooext|countingext|compaction|pebble|strconv` +
	`): )+`)
