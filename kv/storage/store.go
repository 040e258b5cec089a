// Package storage is Pebble made safe and shared: one log, in which commits are whole or not there at all; small
// commits that go to it many at a time (pending.go); acknowledgements that rest on a sync (durable.go); and a
// directory that a failing or full disk cannot hurt (package freeze).
//
// It knows keys, batches and the numbers of commits. Of what the keys mean it knows two things: which hold the bits and
// counters of a layer, as a small commit changes these, and where the identity of the store is.
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

	"github.com/sievekv/sievekv/kv/format"
	"github.com/sievekv/sievekv/kv/freeze"
)

// Options configure a store. All fields but Pause are to be set; kv.Options says what they mean.
type Options struct {
	FS                vfs.FS
	InMemory          bool
	MustExist         bool
	TableCacheSize    int64
	MemTableSize      int
	Seed              uint64
	BallastSize       int64
	MinFreeSpace      int64
	FreeSpaceInterval time.Duration
	Logger            *slog.Logger

	// Failed is called once, with ErrFailed and its cause, when the store fails.
	Failed func(error)

	// Pause is called at named points of slow paths; set by tests to hold a goroutine there.
	Pause func(point string)
}

// Store is an open store. Its methods may be called from any goroutine, but not once Close has begun.
type Store struct {
	// Meta is the store's identity.
	Meta format.StoreMeta

	// Dir is its directory.
	Dir string

	// Space tells how much of the disk is left, and Files what happens to its files.
	Space *freeze.Space
	Files *freeze.FS

	// DescriptorLimit is how many descriptors the process might have when the store was opened, 0 if there is no limit or
	// it is not known. DescriptorNeed is how many of them the store takes; above that it may have to wait for them.
	DescriptorLimit, DescriptorNeed int

	opts      Options
	disk      *pebble.DB
	dirLock   *pebble.Lock
	scheduler *scheduler

	last    atomic.Uint64 // number of the last commit
	durable atomic.Uint64 // all commits up to this number are on stable storage
	pending pending
	syncer  syncer

	lastSeq    atomic.Uint64 // Pebble's sequence of the last commit applied to it
	durableSeq atomic.Uint64 // everything up to this sequence is on stable storage

	failed  atomic.Pointer[error]
	ending  context.Context // ends when the store fails, or is being closed
	end     context.CancelFunc
	closing atomic.Bool
	gaveUp  atomic.Bool  // see givenUp
	stalled atomic.Int32 // see pebble.go
	stall   sync.RWMutex // held while stalled is set

	descriptors descriptors  // see descriptors.go
	ballast     atomic.Int64 // how large it is to be by now, see sizeBallast

	sidecarMu      sync.Mutex // guards sidecarWritten and the file
	sidecarWritten uint64

	stats struct{ syncs, flushedBytes, backgroundErrors atomic.Uint64 }

	working     atomic.Int64  // loops that use Pebble at the moment
	stop        chan struct{} // ends the loops
	loops       sync.WaitGroup
	relief      chan struct{} // ends relieve
	reliefEnded chan struct{}
}

// Types of Pebble that hold nothing which Store keeps from being used wrongly.
type (
	// Batch is a set of changes that are written as one.
	Batch = pebble.Batch
	// IterOptions are the bounds of an Iterator.
	IterOptions = pebble.IterOptions
	// Iterator goes through keys in order.
	Iterator = pebble.Iterator
	// Snapshot reads the store as of one commit.
	Snapshot = pebble.Snapshot
)

// The errors of this package are meant for errors.Is; package kv has them under the same names.
var (
	ErrClosed   = errors.New("kv: store is closed")
	ErrLocked   = errors.New("kv: store is open already")
	ErrNotExist = errors.New("kv: no store here")
	ErrFailed   = errors.New("kv: store has failed, outcome of unfinished commits unknown; close it and open it again")
	ErrTooLarge = errors.New("kv: too large")

	// ErrNotFound is returned for a key under which nothing is stored.
	ErrNotFound = pebble.ErrNotFound
)

// Reader reads what is stored: a Store, a Snapshot, or what Store.Keys returns.
type Reader interface {
	// Get returns the value under a key, which is valid until the Closer is closed, or ErrNotFound.
	Get(key []byte) ([]byte, io.Closer, error)
	// NewIterWithContext returns an iterator over a range of keys, which has to be closed.
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

// frozen is told by the file system of the first failure.
func (s *Store) frozen(cause error) {
	err := fmt.Errorf("%w: %s: %w", ErrFailed, s.Dir, cause)
	if s.failed.CompareAndSwap(nil, &err) {
		s.end()
		s.opts.Failed(err)
		s.opts.Logger.Error("sievekv: the store has failed; close it and open it again", "dir", s.Dir, "error", cause.Error())
	}
}

// MaxCommit returns the most bytes a commit may have, counted as CommitSize does: half of what would bypass the
// memtable.
func MaxCommit(memTableSize int) int { return memTableSize / 4 }

// CommitSize returns what counts of a batch.
func CommitSize(b *Batch) int { return b.Len() + PerEntry*int(b.Count()) }

// PerEntry is what an entry of a batch costs in the memtable, above its bytes.
const PerEntry = 256

// RefuseSize returns ErrTooLarge if a commit of so many bytes is larger than the limit.
func RefuseSize(size, limit int) error {
	if size > limit {
		return fmt.Errorf("%w: commit of %d bytes, at most %d (a quarter of Options.MemTableSize)", ErrTooLarge, size, limit)
	}
	return nil
}

// NewBatch returns an empty batch, which has to be closed.
func (s *Store) NewBatch() *Batch { return s.disk.NewBatch() }

// Receipt is what Commit tells of a commit.
type Receipt struct {
	Number  uint64
	covered uint64 // all commits up to this one are on stable storage once the batch is synced
	own     *Batch // the batch, if it asked for its own sync
	last    uint64 // its last sequence, 0 if it has none
}

// Commit gives a batch to Pebble, in one record of the log, behind everything pending. It does not wait for the disk:
// Await does. OwnSync has the sync of this batch begun at once, for a caller who will await it and finds nobody else
// at the disk. The only error is ErrFailed: then the outcome is unknown.
//
// The number is given once the batch is applied. So whoever reads a number, and syncs the log then, has all commits
// up to that number on stable storage.
func (s *Store) Commit(b *Batch, ownSync bool) (Receipt, error) {
	before := s.last.Load() // before the flush: what is pending of these is in the log before the batch
	s.Flush()
	var err error
	if ownSync {
		err = s.disk.ApplyNoSyncWait(b, pebble.Sync)
	} else {
		err = s.disk.Apply(b, pebble.NoSync)
	}
	if err != nil {
		return Receipt{}, s.Fail(fmt.Errorf("kv: commit: %w", err))
	}
	seq := lastSequence(b)
	raise(&s.lastSeq, seq)
	r := Receipt{Number: s.last.Add(1), last: seq}
	if ownSync {
		r.own, r.covered = b, before
		if r.Number == before+1 {
			r.covered = r.Number // no other commit came between
		}
	}
	return r, nil
}

// lastSequence returns the last sequence of a batch that was applied, 0 if it has none: one that is empty, or larger
// than half a memtable, as those of a build are.
func lastSequence(b *Batch) uint64 {
	first := uint64(b.SeqNum())
	if first == 0 {
		return 0
	}
	return first + uint64(b.Count()) - 1
}

// Numbers returns the number of the last commit, and of one up to which all are on stable storage.
func (s *Store) Numbers() (last, durable uint64) {
	durable = s.durable.Load() // before last, which it never exceeds
	return s.last.Load(), durable
}

// Get implements Reader. What is pending is in the answer.
func (s *Store) Get(key []byte) ([]byte, io.Closer, error) {
	if len(key) > 0 && key[0] == format.TagObject {
		k, err := format.DecodeObjectKey(key)
		switch {
		case err != nil || k.Part == format.PartAttributes:
		case k.Part == format.PartCounters:
			if values, found := s.pending.counters(Layer{k.Object, k.Rest}); found { // before Pebble is asked, see pending.go
				return format.AppendCounters(nil, values), io.NopCloser(nil), nil
			}
			s.pauseAt("open: pending")
		default:
			s.Flush()
		}
	}
	return s.disk.Get(key)
}

// Block returns what is stored of a block, as Get does, and the bits of it that are pending, perhaps with some that are
// stored.
func (s *Store) Block(l Layer, blk uint64) (value []byte, closer io.Closer, bits []uint16, err error) {
	var buf [24]byte
	bits = s.pending.positions(l, blk) // before Pebble is asked, see pending.go
	s.pauseAt("load: pending")
	value, closer, err = s.disk.Get(format.AppendBlockKey(buf[:0], l.Object, l.Number, blk))
	return value, closer, bits, err
}

// NewIterWithContext implements Reader.
func (s *Store) NewIterWithContext(ctx context.Context, o *IterOptions) (*Iterator, error) {
	if mayBePending(o) {
		s.Flush()
	}
	return s.disk.NewIterWithContext(ctx, o)
}

// mayBePending reports whether a range may have keys of which something is pending: those of objects. The range of
// headers ends where theirs begins, and has none.
func mayBePending(o *IterOptions) bool {
	low, high := o.GetLowerBound(), o.GetUpperBound()
	return (len(high) == 0 || bytes.Compare(high, []byte{format.TagObject}) > 0) && (len(low) == 0 || low[0] <= format.TagObject)
}

// Snapshot returns a snapshot that has every commit applied or pending, and the number of the last one. It has to be
// closed. A commit that is made meanwhile may be in the snapshot and have a later number.
func (s *Store) Snapshot() (*Snapshot, uint64) {
	s.Flush()
	last := s.last.Load()
	return s.disk.NewSnapshot(), last
}

// Keys returns a snapshot without what is pending, which does not wait for a commit that Pebble has wait. The bits and
// counters of layers cannot be read from it.
func (s *Store) Keys() (keys Reader, done func()) {
	snap := s.disk.NewSnapshot()
	return keysOnly{snap}, func() { _ = snap.Close() } // it fails only for one closed before
}

type keysOnly struct{ snap *pebble.Snapshot }

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

// Size returns about how many bytes the tables take that hold a range of keys.
func (s *Store) Size(start, end []byte) (uint64, error) { return s.disk.EstimateDiskUsage(start, end) }

// Compact has Pebble compact a range of keys, also on a full disk, unless the store fails or is closed.
func (s *Store) Compact(ctx context.Context, start, end []byte) error {
	s.scheduler.ask(1)
	defer s.scheduler.ask(-1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ending, cancel)()
	if s.closing.Load() { // looked at after it was asked for, as End looks for who has asked
		return ErrClosed
	}
	err := s.disk.Compact(ctx, start, end, false)
	if failure := s.failure(); failure != nil {
		return failure
	}
	if err != nil && s.closing.Load() {
		return ErrClosed
	}
	return err
}

// AwaitRoom returns when Pebble has no commit wait for room. A caller that is about to hold up others calls it first.
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

// raise sets a to v if that is larger.
func raise(a *atomic.Uint64, v uint64) {
	for {
		old := a.Load()
		if old >= v || a.CompareAndSwap(old, v) {
			return
		}
	}
}
