package scalableext

import (
	"errors"

	"github.com/sievekv/sievekv/kv/probe"
)

// The errors of all types of filters, for errors.Is. Package sievekv has the same values under the
// same names, and so their texts begin with its name. The message that a method returns adds the
// key, and the values that do not fit.
var (
	// ErrFull is returned by an add of an item for which a filter that does not grow has no
	// room, and by one of an item of which a cuckoo filter has as many copies as it can have.
	ErrFull = errors.New("sievekv: non scaling filter is full")

	// ErrCannotGrow is returned by an add of an item for which there is no room in a filter that
	// grows, but can have no further layer: it has as many as its parameters allow, or the
	// next would be larger than a layer, or a filter, may be.
	ErrCannotGrow = errors.New("sievekv: full, and cannot grow")

	// ErrMismatch is returned by OpenOrReserve for a filter that was made with other
	// parameters. The message names each of them with both values.
	ErrMismatch = errors.New("sievekv: filter was made with other parameters")

	// ErrUnequal is returned by Merge for filters that cannot be united. The message names what
	// differs, with both values.
	ErrUnequal = errors.New("sievekv: filters differ, and cannot be merged")

	// ErrRate is returned by Merge when the union would have a higher false-positive rate than
	// its filters were made for. The message names both.
	ErrRate = errors.New("sievekv: the union would exceed the error rate")

	// ErrConfig is returned by Reserve and OpenOrReserve for a configuration with a value out of
	// range. The message names the field, its value and what is allowed.
	ErrConfig = probe.ErrParams
)
