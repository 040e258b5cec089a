package kv

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/hot"
	"github.com/sievekv/sievekv/internal/memory"
	"github.com/sievekv/sievekv/internal/storage"
)

// Begin and what ends a writer are for tests that force an order of steps.
func (db *DB) Begin(level Durability, keys ...[]byte) (*Writer, error) {
	return db.begin(level, keys...)
}

// NoCommit reports whether some goroutine holds apply exclusively, so that no commit comes now.
func (db *DB) NoCommit() bool {
	if db.apply.TryRLock() {
		db.apply.RUnlock()
		return false
	}
	return true
}

func (w *Writer) Commit() error { return w.commit() }

func (w *Writer) Discard() { w.release() }

// RangeDeletions builds the writer's batch, and returns how many range deletions it has.
func (w *Writer) RangeDeletions() (n int, err error) {
	err = w.build()
	for i := range w.batch.Count() {
		if w.batch.Change(i).Kind == storage.KindRangeDelete {
			n++
		}
	}
	return n, err
}

// WithPause sets what is called at the named points of slow paths.
func WithPause(o *Options, pause func(point string)) *Options {
	o.pause = pause
	return o
}

// EvictBlock takes a block out of memory as the cache does when it needs room. The cache
// has counted the block by then: else it may count it after the next one with that number,
// and refuse that one, which takes it out of memory at a moment of the cache's own.
func (db *DB) EvictBlock(l *Layer, blk uint64) {
	db.AwaitCache()
	l.Evict(blk)()
}

// EvictObject asks for an object to be closed as the cache does when it needs room.
func (db *DB) EvictObject(o *Object) { residentObject{o}.Drop() }

// BlockEviction returns what the cache would call to evict the block that is
// resident now, and has been counted, see EvictBlock.
func (db *DB) BlockEviction(l *Layer, blk uint64) (drop func()) {
	db.AwaitCache()
	return l.Evict(blk)
}

// ChunkEviction returns what the cache would call to evict the part of a block
// table that holds a block, and has been counted, see EvictBlock.
func (db *DB) ChunkEviction(l *Layer, blk uint64) (drop func()) {
	db.AwaitCache()
	return l.EvictChunk(blk)
}

// Direct has every commit applied to Pebble at once.
func Direct(o *Options) *Options {
	o.flushAfter = -1
	return o
}

// Gathering has commits stay gathered until something drains them, however long that takes.
func Gathering(o *Options) *Options {
	o.flushAfter = 1 << 62
	return o
}

// Follows reports whether a member of a group does not lead.
func (db *DB) Follows() bool { return db.follows() }

// ApplyFree reports whether nobody holds what the apply loop of a member takes.
func (db *DB) ApplyFree() bool {
	if !db.applying.TryLock() {
		return false
	}
	defer db.applying.Unlock()
	if !db.apply.TryLock() {
		return false
	}
	db.apply.Unlock()
	return true
}

// Drain puts what is gathered into Pebble.
func (db *DB) Drain() { db.store.Flush() }

// Gathered returns the number of commits gathered that are not in Pebble.
func (db *DB) Gathered() uint64 { return storage.Pending(db.store) }

// MaxGathered is the most commits that are gathered, and again that are being put into Pebble.
const MaxGathered = storage.MaxPending

// ManyGathered is how many are put into Pebble by the last.
const ManyGathered = storage.ManyPending

// Changes returns a number that grows with each commit applied, or gathered.
func (db *DB) Changes() uint64 {
	last, _ := db.store.Numbers()
	return last
}

// BlocksRead returns the number of blocks read from Pebble.
func (db *DB) BlocksRead() uint64 { return db.stats.blocksRead.Load() }

// OpenObject returns the object that is open under a key, nil if none is.
func (db *DB) OpenObject(key string) *Object { return db.Opened([]byte(key)) }

// OpenBytes returns what the open objects and their blocks take, as the cache counts it.
func (db *DB) OpenBytes() (n int64) {
	for i := range db.shards {
		sh := &db.shards[i]
		sh.mu.RLock()
		for _, o := range sh.objects {
			n += o.bytes()
			for _, l := range o.layers {
				if !l.KeepsOne() {
					n += int64(l.Blocks()) * l.BlockBytes()
				}
			}
		}
		sh.mu.RUnlock()
	}
	return n
}

// GateFixed reports whether nobody can come to hold the gate now, or cease to.
func (db *DB) GateFixed() bool {
	return db.gate.Locked()
}

// BorrowedBlocks returns how many blocks in memory the lookup of a view that is under way has read.
func (tx *Transaction) BorrowedBlocks() int { return len(tx.snapshot.borrowed) }

// SnapshotBlocks returns how many blocks a view has read and keeps.
func (tx *Transaction) SnapshotBlocks() int { return len(tx.snapshot.blocks) }

// SnapshotBytes returns what the keys and objects take that a view keeps.
func (tx *Transaction) SnapshotBytes() (n int64) {
	for key, o := range tx.snapshot.objects {
		n += int64(len(key))
		if o != nil {
			n += o.bytes()
		}
	}
	return n
}

// MaxSnapshotObjects is about the most of that.
const MaxSnapshotObjects = maxSnapshotObjects

// Views returns how many keys the transaction remembers.
func (tx *Transaction) StagedKeys() int { return len(tx.w.staged) }

// AwaitCache waits until the residency has counted what it was given.
func (db *DB) AwaitCache() { db.residency.Wait() }

// ReleaseEnded does at once what the background loop does with objects.
func (db *DB) ReleaseEnded() { db.releaseEnded() }

// KeyFree reports whether nobody holds the write lock of a key.
func (db *DB) KeyFree(key string) bool { return db.isKeyFree([]byte(key)) }

// GateFree reports whether nobody holds the gate, or waits for it.
func (db *DB) GateFree() bool {
	return db.gate.Free()
}

// GateWaiters returns how many wait at the gate.
func (db *DB) GateWaiters() int {
	return db.gate.Waiting()
}

// Free reports whether nobody uses the transaction.
func (tx *Transaction) Free() bool {
	if !tx.mu.TryLock() {
		return false
	}
	tx.mu.Unlock()
	return true
}

// ApplyContended reports whether somebody holds apply exclusively, or waits to.
func (db *DB) ApplyContended() bool {
	if !db.apply.TryRLock() {
		return true
	}
	db.apply.RUnlock()
	return false
}

// CompareResident compares every resident block and counter with what Pebble
// has, and returns the number of blocks compared. Nobody may be writing.
func (db *DB) CompareResident() (blocks int, err error) {
	var errs []error
	for i := range db.shards {
		sh := &db.shards[i]
		sh.mu.RLock()
		for key, o := range sh.objects {
			if o.key != key || o.memory.Ended() {
				errs = append(errs, fmt.Errorf("key %q maps to an object of key %q, ended: %t", key, o.key, o.memory.Ended()))
			}
			for _, l := range o.layers {
				n, err := db.compareLayer(o, l)
				blocks += n
				errs = append(errs, err)
			}
		}
		sh.mu.RUnlock()
	}
	return blocks, errors.Join(errs...)
}

func (db *DB) compareLayer(o *Object, l *Layer) (blocks int, err error) {
	var errs []error
	for blk := range l.Spec().Blocks {
		first := l.InMemory(blk)
		if first == nil {
			continue
		}
		blocks++
		_, want := l.NewBlock()
		value, closer, err := db.store.Get(format.AppendBlockKey(nil, l.Object(), l.Number(), blk))
		if !errors.Is(err, storage.ErrNotFound) {
			if err == nil {
				_, err = block.Decode(want, o.header.Family, value)
				err = errors.Join(err, closer.Close())
			}
			if err != nil {
				return blocks, err
			}
		}
		if !slices.Equal(want, l.Words(first)) {
			errs = append(errs, fmt.Errorf("key %q: block %d of layer %d in memory is not the one stored", o.key, blk, l.Number()))
		}
	}
	stored := memory.NewLayer(l.Object(), l.Spec())
	errs = append(errs, db.readCounters(db.store, stored))
	for i := range format.NumCounters {
		if l.Counter(i) != stored.Counter(i) {
			errs = append(errs, fmt.Errorf("key %q: counter %d of layer %d is %d in memory, %d stored", o.key, i, l.Number(), l.Counter(i), stored.Counter(i)))
		}
	}
	return blocks, errors.Join(errs...)
}

// BlockCopies returns how many blocks of slots the writer has a copy of.
func (w *Writer) BlockCopies() (n int) {
	for _, b := range w.slots {
		if b.words != nil {
			n++
		}
	}
	return n
}

// Steps returns how many of the things staged in the transaction were looked at in search of
// one. It may be asked after the end, if nobody else writes.
func (tx *Transaction) Steps() int { return tx.w.steps }

// DeleteEverything stages the removal of every key.
func (w *Writer) DeleteEverything() {
	if err := w.DeleteAll(); err != nil {
		panic(err)
	}
}

// LongestLog returns how many values of slots the writer notes of a block at most.
func (w *Writer) LongestLog() (n int) {
	for _, b := range w.slots {
		n = max(n, len(b.log))
	}
	return n
}

// MaxBlockCopies is the most of them.
const MaxBlockCopies = maxCopies

// WriteOlderKeyCounts writes the numbers of keys as older programs do, which leave out how many expire.
func (db *DB) WriteOlderKeyCounts() (err error) {
	for i, n := range db.groups {
		if n.Keys > 0 {
			err = errors.Join(err, db.set(format.AppendKeyCountKey(nil, uint8(i)), binary.AppendUvarint(nil, n.Keys)))
		}
	}
	return err
}

// StoredExpiring goes through all keys, and returns how many have an expiry.
func (db *DB) StoredExpiring(ctx context.Context) (n uint64, err error) {
	err = Reader{db: db, source: db.live()}.eachHeader(ctx, 0, func(_ uint64, _ []byte, h *format.Header, _ bool) bool {
		if h.Expiry != 0 {
			n++
		}
		return true
	}, func() {})
	return n, err
}

// CloseObjects closes all open objects.
func (db *DB) CloseObjects() {
	for i := range db.shards {
		sh := &db.shards[i]
		sh.mu.RLock()
		list := slices.Collect(maps.Values(sh.objects))
		sh.mu.RUnlock()
		for _, o := range list {
			db.tryEvict(o)
		}
	}
}

// ChangeHeader changes what is stored as the header of a key.
func (db *DB) ChangeHeader(key string, f func([]byte) []byte) error {
	stored := db.headerKey(nil, []byte(key))
	value, err := storage.ReadMeta(db.store, stored)
	if err == nil {
		err = db.set(stored, f(value))
	}
	return err
}

// HoldCompactions has Pebble begin no compaction until ReleaseCompactions.
func (db *DB) HoldCompactions() { storage.HoldCompactions(db.store) }

// ReleaseCompactions ends HoldCompactions.
func (db *DB) ReleaseCompactions() { storage.ReleaseCompactions(db.store) }

// Compactions is Metrics.Compactions.
func (db *DB) Compactions() uint64 { return db.stats.compactions.Load() }

// CompactionWaits reports whether Pebble was refused one that it has not been granted since.
func (db *DB) CompactionWaits() bool { return storage.CompactionWaits(db.store) }

// CompactionAsked reports whether somebody waits for a compaction that was asked for.
func (db *DB) CompactionAsked() bool { return storage.CompactionAsked(db.store) }

// KeyBeside returns a key that begins with name and does not share its lock with another.
func (db *DB) KeyBeside(other, name string) []byte {
	for i := 0; ; i++ {
		if key := fmt.Append(nil, name, i); db.keyLockIndex(key) != db.keyLockIndex([]byte(other)) {
			return key
		}
	}
}

// ApplyWanted reports whether somebody holds apply exclusively, or waits to.
func (db *DB) ApplyWanted() bool {
	if !db.apply.TryRLock() {
		return true
	}
	db.apply.RUnlock()
	return false
}

// GivenUp reports whether compactions have been given up, and are yet to end.
func (db *DB) GivenUp() bool { return storage.GivenUp(db.store) }

// AwaitCompactions begins compactions as long as one may begin, and waits until all have ended.
func (db *DB) AwaitCompactions() { storage.AwaitCompactions(db.store) }

// StalledByLevel0 reports whether a commit waits for level 0 to shrink.
func (db *DB) StalledByLevel0() bool { return storage.StalledByLevel0(db.store) }

// Frozen reports whether the store's directory is frozen, or about to be.
func (db *DB) Frozen() bool { return db.store.Files.Failed() != nil }

// KeptInMemory returns the bytes of tables that are kept in memory, as the directory is frozen.
func (db *DB) KeptInMemory() int64 { return db.store.Files.Kept() }

// PutStored changes what is stored of a block.
func (db *DB) PutStored(l *Layer, blk uint64, value []byte) error {
	return db.set(format.AppendBlockKey(nil, l.Object(), l.Number(), blk), value)
}

// Stored returns what is stored of a block.
func (db *DB) Stored(l *Layer, blk uint64) ([]byte, error) {
	return storage.ReadMeta(db.store, format.AppendBlockKey(nil, l.Object(), l.Number(), blk))
}

// MaxNotes is how many notes one call of Reclaim deals with.
const MaxNotes = maxNotes

// BuildBatch is about how many bytes a Builder has in memory, at most.
const BuildBatch = buildBatch

// Staged returns how many bytes a Builder has in memory.
func (b *Builder) Staged() int { return b.batch.Len() }

// AskFold has a block queued to be folded.
func (db *DB) AskFold(key string, l *Layer, blk uint64) {
	db.queueFold(key, l.Object(), l.Number(), blk)
}

// Ended reports whether this incarnation has ended, other than by its expiry.
func (o *Object) Ended() bool { return o.memory.Ended() }

// ForgetString takes a string out of the cache.
func (db *DB) ForgetString(key []byte) {
	db.strings.Begin(db.hash(key), key)
	db.strings.End(db.hash(key), key, hot.Change{}, false)
}

// MaintenanceStats returns, as Metrics does, how many blocks were folded, how many fold requests were dropped because
// the queue was full, and how many dropped objects were reclaimed.
func (db *DB) MaintenanceStats() (folds, dropped, reclaimed uint64) {
	return db.stats.folds.Load(), db.stats.foldsDropped.Load(), db.stats.reclaimed.Load()
}

// Ready reports whether lookups go on in memory.
func (db *DB) Ready() bool { return db.ready() }

// ChangeAt returns what tells of changes of a block, see lastchange.Numbers.At.
func (o *Object) ChangeAt(l *Layer, blk uint64) uint64 {
	return o.memory.Changes().At(o.memory.PlaceOf(l, blk))
}

// PauseAt is a point of a test's own at which a test can hold a goroutine.
func (db *DB) PauseAt(point string) { db.pauseAt(point) }
