package scalableext

import (
	"errors"

	"github.com/sievekv/sievekv/internal/probe"
)

// The errors of all types of filters, for errors.Is. Package sievekv exports them under the same names, so their
// texts begin with its name. The errors that methods return wrap them, and add the key and the wrong values.
var (
	// ErrFull is returned when an item has no room: the filter is full and does not grow, or a layer of a cuckoo filter
	// has as many copies of the item as it can have.
	ErrFull = errors.New("sievekv: filter is full")

	// ErrCannotGrow is returned when an item has no room in a filter that grows, but can have no further layer: it
	// has as many as its parameters allow, or the next one would exceed the size of a layer or a filter.
	ErrCannotGrow = errors.New("sievekv: full, and cannot grow")

	// ErrMismatch is returned by OpenOrReserve if the filter was made with other parameters. The message has each of
	// them with both values.
	ErrMismatch = errors.New("sievekv: filter was made with other parameters")

	// ErrUnequal is returned by Merge for filters that cannot be merged. The message says what differs, with both
	// values.
	ErrUnequal = errors.New("sievekv: filters differ, and cannot be merged")

	// ErrRate is returned by Merge if the union would have a higher false-positive rate than its filters were made
	// for. The message has both rates.
	ErrRate = errors.New("sievekv: the union would exceed the error rate")

	// ErrDamaged is returned, with the place, for a file of a filter that is not what it should be, is damaged or cut short.
	ErrDamaged = errors.New("sievekv: damaged file")

	// ErrLength is returned by methods of many items for answers that are not as many as the items.
	ErrLength = errors.New("sievekv: the answers must be as many as the items")

	// ErrConfig is returned by Reserve, OpenOrReserve and Planned if a value of the configuration is out of range. The
	// message has the field, its value and what is allowed.
	ErrConfig = probe.ErrParams
)

// NoRoom reports whether an item was refused because the filter has no room for it.
func NoRoom(err error) bool { return errors.Is(err, ErrFull) || errors.Is(err, ErrCannotGrow) }
