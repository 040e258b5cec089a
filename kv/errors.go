package kv

import (
	"errors"
	"fmt"

	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/storage"
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
	// there after the store is opened again. Nothing that was reported at level Always is lost.
	ErrFailed = storage.ErrFailed

	// ErrUnfinishedBackup is returned when a backup could not be made, with the cause.
	ErrUnfinishedBackup = storage.ErrUnfinishedBackup
	// ErrUnfinished is returned by Open for a store that another process is making, or was making when it was killed.
	ErrUnfinished = storage.ErrUnfinished
	ErrStray      = storage.ErrStray // an ErrCorrupt of Open: the directory has files that look like the store's, and are not

	// ErrCorrupt is returned when stored bytes do not decode, when the store's log lost its end, and by Open when the
	// directory has files of a database, but no whole store.
	ErrCorrupt = format.ErrCorrupt

	// ErrUnsupportedVersion is returned for bytes written by a newer version of this package or of a module.
	ErrUnsupportedVersion = format.ErrUnsupportedVersion

	// ErrNoSpace is returned by writes while the file system has less free space than Options.MinFreeSpace. Reads go
	// on, and writes are accepted again when there is space. Meanwhile commits that only remove keys are accepted, such
	// as DEL, FLUSHALL, or an Update that only deletes, so that the user can free space. Once the reserve
	// (Options.BallastSize) is used up, they are refused too.
	ErrNoSpace = errors.New("kv: disk is full, writes are refused")

	// ErrBusy is returned by a write that has waited for Options.MaxIdleTransaction while a
	// transaction that was not used kept it waiting. Nothing was written.
	ErrBusy = errors.New("kv: a transaction keeps all other writes waiting")

	// ErrReplaced is returned by an open snapshot of a member of a group when the member has got the leader's content since.
	ErrReplaced = storage.ErrReplaced

	// ErrMember is returned by Open for a store that was a member of a group, see Options.LeaveGroup.
	ErrMember = storage.ErrMember

	// ErrNotLeader is returned by every write on a store of a group that does not lead the group. Nothing was written.
	ErrNotLeader = storage.ErrNotLeader

	// ErrOutcomeUnknown is returned by a write on a store that ceased to lead its group meanwhile, and for an answer that rests on
	// such a write: the group may have the write, now or later, or may never have it.
	ErrOutcomeUnknown = storage.ErrOutcomeUnknown

	// ErrNested is returned by a write that is made inside a transaction's function, or with the transaction's
	// context, and is not part of the transaction: it would wait for itself. Nothing was written.
	ErrNested = errors.New("kv: inside of a transaction, and not part of it")

	// ErrOtherStore is returned when a handle is used that was bound to a transaction of a store other than its own.
	ErrOtherStore = errors.New("kv: of another store")

	// errMoved is returned by a lookup, to Read, because what it has read may not be of one moment.
	errMoved = errors.New("kv: blocks changed during a lookup")

	// ErrNotFound is returned when a key is missing or has expired.
	ErrNotFound = errors.New("kv: key not found")

	// ErrExists is returned when a key that must be absent is there.
	ErrExists = errors.New("kv: key exists")

	// ErrWrongType is returned when a key holds a value of another type.
	ErrWrongType = errors.New("kv: key holds another type")

	// ErrNoModule is returned when a key holds a type of a module that Options.Modules does not have. TypeOf, Rename
	// and Delete work on such a key all the same.
	ErrNoModule = errors.New("kv: module not registered")

	// ErrTooLarge is returned when a key, a commit or a filter is larger than its limit. The message names both.
	ErrTooLarge = storage.ErrTooLarge

	// ErrNotInteger is returned when a value to be incremented is not a decimal integer of 64 bits.
	ErrNotInteger = errors.New("kv: value is not an integer or out of range")

	// ErrNotFloat is returned when a value to be incremented is not a number.
	ErrNotFloat = errors.New("kv: value is not a valid float")

	// ErrOverflow is returned when a sum does not fit into 64 bits.
	ErrOverflow = errors.New("kv: increment or decrement would overflow")

	// ErrNotFinite is returned when a sum is no finite number.
	ErrNotFinite = errors.New("kv: increment would produce NaN or Infinity")

	// ErrStringTooLong is returned for strings above 512 MiB.
	ErrStringTooLong = errors.New("kv: string exceeds maximum allowed size (proto-max-bulk-len)")

	// ErrNotDirectory is returned by Open for a path that is no directory, such as a file.
	ErrNotDirectory = errors.New("kv: not a directory")

	// ErrOptions is returned for options that are out of range or exclude each other. The message lists them all.
	ErrOptions = errors.New("kv: bad options")
)

func notFound(key []byte) error { return fmt.Errorf("%w: %q", ErrNotFound, key) }

func keyTooLong(key []byte) error {
	return fmt.Errorf("%w: key of %d bytes, at most %d", ErrTooLarge, len(key), MaxKeyLen)
}
