// Package storage is Pebble made safe and shared. It has one log, in which a commit is whole or not there at all.
// Commits that need not be there at once go to the log many at a time (pending.go). Acknowledgements rest on a sync (durable.go). A failing or
// full disk cannot damage the directory (package freeze).
//
// The package knows keys, batches and the numbers of commits. It knows two things about the meaning of keys: which keys
// hold the blocks and counters of a layer, because pending commits change these, and which key holds the store's
// identity.
package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/freeze"
	"github.com/sievekv/sievekv/internal/text"
)

// Options configure a store. Every field but LockTimeout, Identity, FlushAfter and Pause has to be set; kv.Options says what the fields mean.
type Options struct {
	FS                vfs.FS
	InMemory          bool
	MustExist         bool
	ReadOnly          bool // see readonly.go
	LockTimeout       time.Duration
	TableCacheSize    int64
	MemTableSize      int
	Seed              uint64
	Identity          format.StoreMeta // of a new store; zero draws one
	BallastSize       int64
	MinFreeSpace      int64
	FreeSpaceInterval time.Duration
	Logger            *slog.Logger

	// FlushAfter is how long a pending commit stays out of Pebble if no other follows. 0 means 50 milliseconds.
	FlushAfter time.Duration

	// Log orders the messages of a store of a group; nil for a store that is alone. See group.go.
	Log Log

	// LeaveGroup lets a store of a group that is opened without a Log be alone from now on.
	LeaveGroup bool

	// Failed is called once, with ErrFailed and its cause, when the store fails.
	Failed func(error)

	// Pause is called at named points of slow paths. Tests set it to hold a goroutine there.
	Pause func(point string)
}

// Store is an open store. Any goroutine may call its methods, but none once Close has begun.
type Store struct {
	// Meta is the store's identity.
	Meta format.StoreMeta
	// Fresh is true if Open has made the store.
	Fresh bool

	// Dir is the store's directory.
	Dir string

	// Space tells how much of the disk is free. Files is the file system that Pebble uses.
	Space *freeze.Space
	Files *freeze.FS

	// Group is nil for a store that is alone.
	Group *Group

	// Damage is a file system above Files that remembers damage of tables.
	Damage badBlocks

	backups backups // Pebble's file system, above Damage

	// DescriptorLimit is how many descriptors the process might have when the store was opened, 0 if there is no
	// limit or it is not known. DescriptorNeed is the most that the store takes; with a lower limit it may have to
	// wait for descriptors.
	DescriptorLimit, DescriptorNeed int

	opts      Options
	disk      *pebble.DB
	ground    *ground
	scheduler *scheduler

	last     atomic.Uint64 // number of the last commit
	replaced atomic.Uint64 // how often an image has taken the place of everything
	durable  atomic.Uint64 // all commits up to this number are on stable storage
	pending  pending
	syncer   syncer

	lastSeq    atomic.Uint64 // Pebble's sequence of the last commit in Pebble
	durableSeq atomic.Uint64 // everything up to this sequence is on stable storage

	failed  atomic.Pointer[error]
	ending  context.Context // ends when the store fails, or is being closed
	end     context.CancelFunc
	closing atomic.Bool
	gaveUp  atomic.Bool  // see givenUp
	stalled atomic.Int32 // whether Pebble makes a commit wait, see pebble.go
	stall   sync.RWMutex // held while stalled is set

	descriptors descriptors  // see descriptors.go
	ballast     atomic.Int64 // the size it is to have by now, see sizeBallast

	sidecarMu      sync.Mutex // guards sidecarWritten and the file
	sidecarWritten uint64
	reached        uint64 // see measureLog; 0 if Pebble's next sequence is right

	stats stats

	working     atomic.Int64  // how many loops are using Pebble
	stop        chan struct{} // ends the loops
	loops       sync.WaitGroup
	relief      chan struct{} // ends relieve
	reliefEnded chan struct{}
}

// Types of Pebble that callers get as they are: nothing in them gets around the rules that Store keeps.
type (
	// IterOptions are the bounds of an Iterator.
	IterOptions = pebble.IterOptions
	// Iterator visits keys in order.
	Iterator = pebble.Iterator
)

// The errors of this package, for errors.Is. Package kv has them under the same names.
var (
	ErrClosed   = errors.New("kv: store is closed")
	ErrLocked   = errors.New("kv: store is open already")
	ErrNotExist = errors.New("kv: no store here")
	ErrFailed   = errors.New("kv: store has failed, outcome of unfinished commits unknown; close it and open it again")
	ErrTooLarge = errors.New("kv: too large")

	ErrNotLeader      = errors.New("kv: this store does not lead its group, nothing was written")
	ErrOutcomeUnknown = errors.New("kv: this store ceased to lead its group, the outcome is unknown: the write may or may not have been made")

	// ErrNotFound is returned for a key under which nothing is stored.
	ErrNotFound = pebble.ErrNotFound
)

// Reader reads what is stored. A Store and a Snapshot are Readers, and so is what Store.Keys returns.
type Reader interface {
	// Get returns the value under a key, or ErrNotFound. The value is valid until the Closer is closed.
	Get(key []byte) ([]byte, io.Closer, error)
	// NewIterWithContext returns an iterator over a range of keys. The caller closes it.
	NewIterWithContext(ctx context.Context, o *IterOptions) (*Iterator, error)
}

// failure returns nil, or ErrFailed with its cause.
func (s *Store) failure() error {
	if cause := s.failed.Load(); cause != nil {
		return *cause
	}
	return nil
}

// Fail makes the store refuse everything from now on, and freezes its directory. It returns ErrFailed with the cause
// of the first failure.
func (s *Store) Fail(cause error) error {
	s.Files.Freeze(cause)
	return s.failure()
}

// frozen is the callback of the file system: the directory was frozen for the given cause.
func (s *Store) frozen(cause error) {
	err := fmt.Errorf("%w: %s: %w", ErrFailed, s.Dir, plainError{cause})
	if s.failed.CompareAndSwap(nil, &err) {
		s.end()
		s.opts.Failed(err)
		s.opts.Logger.Error("sievekv: the store has failed; close it and open it again", "dir", s.Dir, "error", cause.Error())
	}
}

// MaxCommit returns the most bytes that a commit may have, counted as CommitSize does. Pebble puts batches of twice
// that size past the memtable.
func MaxCommit(memTableSize int) int { return memTableSize / 4 }

// CommitSize returns the size of a batch that is compared with MaxCommit.
func CommitSize(b *Batch) int { return b.Len() + PerEntry*b.Count() }

// PerEntry is what an entry of a batch costs in the memtable beside its bytes.
const PerEntry = 256

// RefuseSize returns ErrTooLarge if a commit of the given size is larger than the limit.
func RefuseSize(size, limit int) error {
	if size > limit {
		return fmt.Errorf("%w: commit of %d bytes, at most %d (a quarter of Options.MemTableSize)", ErrTooLarge, size, limit)
	}
	return nil
}

// Receipt is what Commit returns about a commit, and what Await needs.
type Receipt struct {
	Number  uint64
	Bytes   int           // of the record in the log; 0 while the commit is pending
	full    bool          // much is pending, see FlushIfMany
	covered uint64        // all commits up to this one are on stable storage once the batch is synced
	own     *pebble.Batch // the batch, if it asked for its own sync
	last    uint64        // its last sequence, 0 if it has none
}

// When says when a commit must be in the log.
type When uint8

const (
	// Later lets a commit be pending for a while, if it can be: see pending.go.
	Later When = iota
	// Now has it there before Commit returns.
	Now
	// Synced is Now, and the sync of the commit begins at once. That is for a caller that will call Await, at a time when no other
	// sync is under way.
	Synced
)

// Commit makes a batch part of a store that is alone. Everything reaches the log through it: as one record, behind
// everything that is pending, or later together with others. It does not wait for the disk: Await does. The only error
// is ErrFailed: then the outcome is unknown.
//
// A commit gets its number once its batch is applied or pending. So a goroutine that reads a number, and syncs the log
// afterwards, has all commits up to that number on stable storage.
func (s *Store) Commit(b *Batch, when When) (Receipt, error) {
	if s.opts.ReadOnly {
		return Receipt{}, ErrReadOnly
	}
	if s.Group != nil {
		panic("storage: a commit past the log of the group")
	}
	if when == Later && s.opts.FlushAfter >= 0 {
		if r, pending := s.pend(b); pending {
			return r, nil
		}
	}
	before := s.last.Load() // before the flush, which puts those that are pending into the log before the batch
	s.Flush()
	batch := s.disk.NewBatch()
	b.addTo(batch)
	if when != Synced {
		defer func() { _ = batch.Close() }() // releases memory, cannot fail
	}
	seq, err := s.apply(batch, when)
	if err != nil {
		return Receipt{}, s.Fail(text.After(err, "kv: commit"))
	}
	r := Receipt{Number: s.last.Add(1), Bytes: batch.Len(), last: seq}
	if when == Synced {
		r.own, r.covered = batch, before
		if r.Number == before+1 {
			r.covered = r.Number // no other commit came between
		}
	}
	return r, nil
}

// apply gives a batch to Pebble, and returns the last sequence of the batch.
func (s *Store) apply(batch *pebble.Batch, when When) (seq uint64, err error) {
	if when == Synced {
		err = s.disk.ApplyNoSyncWait(batch, pebble.Sync)
	} else {
		err = s.disk.Apply(batch, pebble.NoSync)
	}
	if err != nil {
		return 0, err
	}
	seq = lastSequence(batch)
	Raise(&s.lastSeq, seq)
	return seq, nil
}

// lastSequence returns the last sequence of a batch that was applied. It returns 0 for a batch without a sequence: an
// empty one, or one larger than half a memtable, as builds have.
func lastSequence(b *pebble.Batch) uint64 {
	first := uint64(b.SeqNum())
	if first == 0 {
		return 0
	}
	return first + uint64(b.Count()) - 1
}

// Disk reads what Pebble has, without pending commits.
func Disk(s *Store) Reader { return s.disk }

// Numbers returns the number of the last commit, and a number up to which all commits are on stable storage.
func (s *Store) Numbers() (last, durable uint64) {
	durable = s.durable.Load() // read before last, so that it does not exceed that
	return s.last.Load(), durable
}

// Get implements Reader. The answer includes what is pending.
func (s *Store) Get(key []byte) ([]byte, io.Closer, error) {
	if isBlock(key) {
		s.Flush()
	} else if value, found := s.pending.value(key); found { // before Pebble is asked, see pending.go
		return value, io.NopCloser(nil), nil
	}
	if len(key) > 0 && key[0] == format.TagObject {
		s.pauseAt("open: pending")
	}
	return s.disk.Get(key)
}

// isBlock reports whether a key is a block's.
func isBlock(key []byte) bool {
	if len(key) == 0 || key[0] != format.TagObject {
		return false
	}
	k, err := format.DecodeObjectKey(key)
	return err == nil && k.Part >= format.PartLayers
}

// NewIterWithContext implements Reader.
func (s *Store) NewIterWithContext(ctx context.Context, o *IterOptions) (*Iterator, error) {
	if s.pending.recorded.Load() > 0 || mayBePending(o) {
		s.Flush()
	}
	return s.disk.NewIterWithContext(ctx, o)
}

// mayBePending reports whether a range contains keys of objects: only these can have something pending. The range of
// headers ends where the range of objects begins, so it contains none.
func mayBePending(o *IterOptions) bool {
	low, high := o.GetLowerBound(), o.GetUpperBound()
	return (len(high) == 0 || bytes.Compare(high, []byte{format.TagObject}) > 0) && (len(low) == 0 || low[0] <= format.TagObject)
}

// Snapshot returns a snapshot, and the number of the last commit in it. It has every commit that was applied or pending
// before the call; in a group, every commit that was flushed. The caller closes it. The number is right if no commit is
// made meanwhile; the caller makes sure of that.
func (s *Store) Snapshot() (*Snapshot, uint64) {
	if s.Group != nil { // a flush would wait for the apply loop, and that for the caller's lock
		last := s.Group.atOnce() // a snapshot with more is no harm: less is borrowed from memory then
		return DiskSnapshot(s), last
	}
	s.Flush()
	last := s.last.Load()
	return DiskSnapshot(s), last
}

// Keys returns a snapshot for readers of keys and strings: the bits and counters of layers cannot be read from it. It
// flushes only if records are pending. Otherwise it waits for no flush, and not for Pebble when that makes commits wait.
func (s *Store) Keys() (keys Reader, done func()) {
	if s.pending.recorded.Load() > 0 {
		s.Flush()
	}
	snap := DiskSnapshot(s)
	return keysOnly{snap}, func() { _ = snap.Close() } // closing fails only for a snapshot closed before
}

type keysOnly struct{ snap *Snapshot }

func (k keysOnly) Get(key []byte) ([]byte, io.Closer, error) {
	if len(key) > 0 && key[0] == format.TagObject {
		panic(fmt.Sprintf("storage: key %x is read without what is pending", key))
	}
	return k.snap.Get(key)
}

func (k keysOnly) NewIterWithContext(ctx context.Context, o *IterOptions) (*Iterator, error) {
	if mayBePending(o) {
		panic("storage: a range is read without what is pending")
	}
	return k.snap.NewIterWithContext(ctx, o)
}

// Size returns about how many bytes of the tables a range of keys takes.
func (s *Store) Size(start, end []byte) (uint64, error) { return s.disk.EstimateDiskUsage(start, end) }

// Compact makes Pebble compact a range of keys, also on a full disk. It ends early if the store fails or is closed.
func (s *Store) Compact(ctx context.Context, start, end []byte) error {
	if s.opts.ReadOnly {
		return ErrReadOnly
	}
	s.scheduler.ask(1)
	defer s.scheduler.ask(-1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ending, cancel)()
	if s.closing.Load() { // read after ask: if End began before, this sees it; else End counts this call
		return ErrClosed
	}
	err := s.disk.Compact(ctx, start, end, false)
	if failure := s.failure(); failure != nil {
		return failure
	}
	if err != nil && s.closing.Load() {
		return ErrClosed
	}
	if err != nil {
		return ReadError(err, "compaction of tables")
	}
	s.shrinkBallast()
	return nil
}

// AwaitRoom waits while Pebble makes commits wait. A caller calls it before it takes a lock that holds up others.
func (s *Store) AwaitRoom() {
	s.stall.RLock()
	//lint:ignore SA2001 having held the lock is the point
	s.stall.RUnlock()
}

func (s *Store) pauseAt(point string) {
	if s.opts.Pause != nil {
		s.opts.Pause(point)
	}
}

// Raise sets a to v if v is larger.
func Raise(a *atomic.Uint64, v uint64) {
	for {
		old := a.Load()
		if old >= v || a.CompareAndSwap(old, v) {
			return
		}
	}
}
