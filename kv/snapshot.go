package kv

import (
	"errors"
	"math/rand/v2"
	"slices"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/memory"
	"github.com/sievekv/sievekv/internal/storage"
)

// A snapshot reads the store as of one commit. It takes Pebble's snapshot, and the number of its last commit, while
// no commit is between Pebble and the cache. Keys, layers and counters come from Pebble's snapshot, never from the
// open objects. A lookup may use a resident block if no commit has changed it since. To find out, the snapshot looks at
// the number of the last commit that may have changed the block, when the lookup has ended. A commit raises it before it
// changes the block. If the snapshot looked only before, it could miss the commit whose bits the lookup has seen. All
// other blocks are read from Pebble's snapshot.

// A snapshot keeps up to this many blocks, of 8 KiB at most each, and up to this many bytes of keys and objects,
// except that one object may be larger. A lookup borrows up to 16 times as many blocks.
const (
	maxSnapshotBlocks  = 512
	maxSnapshotObjects = 4 << 20 // bytes
)

type snapshot struct {
	db      *DB
	snap    *storage.Snapshot
	last    uint64 // number of the last commit in snap
	now     int64  // Unix milliseconds: keys that have expired by then are missing
	objects map[string]*Object
	kept    int64 // bytes of objects, about
	blocks  map[snapshotBlock]*Line
	loaded  []snapshotBlock // the keys of blocks

	borrows  bool    // a lookup runs that lookup can run again
	borrowed []place // of the blocks in memory that it has used
}

type snapshotBlock struct {
	layerID
	blk uint64
}

func (db *DB) newSnapshot() (*snapshot, error) {
	if err := db.enter(); err != nil {
		return nil, err
	}
	db.store.Flush() // most of it, before take holds up commits
	v := &snapshot{db: db, objects: make(map[string]*Object), blocks: make(map[snapshotBlock]*Line)}
	timed := false
	defer func() {
		if !timed { // the clock panicked
			v.close()
		}
	}()
	v.take()
	timed = true
	return v, nil
}

// take takes Pebble's snapshot, and the time. Everything in the snapshot was written by then. No commit comes between: it
// might give a key that the snapshot has another expiry, before the one in the snapshot.
func (v *snapshot) take() {
	db := v.db
	db.lockApply()
	defer db.apply.Unlock()
	v.snap, v.last = db.store.Snapshot()
	v.now = db.Now()
}

func (v *snapshot) close() {
	_ = v.snap.Close() // it fails only for a snapshot closed before
	v.db.exit()
}

// find returns the object under a key, nil for none.
func (v *snapshot) find(key []byte, large func(value []byte) error, now int64) (*Object, error) {
	if o, known := v.objects[string(key)]; known {
		return o, nil
	}
	o, err := v.db.readObject(v.snap, key, large)
	if err != nil {
		return nil, err
	}
	if o != nil && o.expiredBy(now) {
		o = nil
	}
	if o == nil || !o.inline() {
		v.keep(key, o)
	}
	return o, nil
}

// keep remembers what was found under a key. A key takes up to 64 KiB, and the table of an object as much as it has
// blocks.
func (v *snapshot) keep(key []byte, o *Object) {
	const perKey = 100
	cost := int64(perKey + len(key))
	if o != nil {
		cost += o.bytes()
	}
	if v.kept+cost > maxSnapshotObjects {
		v.objects, v.kept = make(map[string]*Object), 0
	}
	v.objects[string(key)] = o
	v.kept += cost
}

// load returns a block as of the snapshot. While the snapshot borrows, it may be a block that commits change.
func (v *snapshot) load(o *Object, l *Layer, blk uint64) (*Line, error) {
	key := snapshotBlock{idOf(l), blk}
	if first := v.blocks[key]; first != nil {
		return first, nil
	}
	if v.borrows {
		if first := v.borrow(o, l, blk); first != nil {
			return first, nil
		}
	}
	first, err := v.read(o, l, blk)
	if err != nil {
		return nil, err
	}
	if len(v.loaded) < maxSnapshotBlocks {
		v.loaded = append(v.loaded, key)
	} else {
		i := rand.IntN(len(v.loaded))
		delete(v.blocks, v.loaded[i])
		v.loaded[i] = key
	}
	v.blocks[key] = first
	return first, nil
}

// lookup runs a lookup, which may borrow blocks. If a commit may have changed one of them meanwhile, the lookup runs
// again, and finally without borrowing.
func (v *snapshot) lookup(look func() error) (err error) {
	for range 3 {
		if kept, err := v.borrowing(look); kept {
			return err
		}
	}
	return look()
}

// borrowing runs a lookup, and reports whether no commit has changed a block that it has borrowed.
func (v *snapshot) borrowing(look func() error) (kept bool, err error) {
	v.borrows = true
	defer func() { // look is a caller's code, and may panic
		clear(v.borrowed)
		v.borrows, v.borrowed = false, v.borrowed[:0]
	}()
	err = look()
	return !slices.ContainsFunc(v.borrowed, v.mayHaveChanged), err
}

// mayHaveChanged reports whether blocks of a place in memory may have a commit that is not in the snapshot. It asks first whether a
// commit is under way: a load can read a commit from Pebble before the commit has noted the place.
func (v *snapshot) mayHaveChanged(b place) bool {
	return b.o.changed.Load() == changing || b.o.memory.Changes().After(b.i, v.last) || b.o.memory.Ended()
}

// borrow returns a block in memory if no commit has changed it since the snapshot; else nil.
func (v *snapshot) borrow(o *Object, l *Layer, blk uint64) *Line {
	live := v.db.Opened([]byte(o.key))
	if live == nil || live.header.ID != o.header.ID {
		return nil
	}
	now := live.layer(l.Number())
	if now == nil { // or a smaller layer has the number now: then it has changed since
		return nil
	}
	b := place{live, live.memory.PlaceOf(now, blk)}
	if v.mayHaveChanged(b) {
		return nil
	}
	first := now.InMemory(blk)
	switch n := len(v.borrowed); {
	case first == nil || n == 16*maxSnapshotBlocks:
		return nil
	case n == 0 || v.borrowed[n-1] != b:
		v.borrowed = append(v.borrowed, b)
	}
	v.db.pauseAt("view: found")
	return first
}

func (v *snapshot) read(o *Object, l *Layer, blk uint64) (*Line, error) {
	value, closer, err := v.snap.Get(format.AppendBlockKey(nil, l.Object(), l.Number(), blk))
	if errors.Is(err, storage.ErrNotFound) {
		return memory.ZeroLine, nil
	}
	if err != nil {
		return nil, storage.ReadError(err, "key %q: block %d of layer %d", o.key, blk, l.Number())
	}
	first, words := l.NewBlock()
	_, err = block.Decode(words, o.header.Family, value)
	if err = errors.Join(err, closer.Close()); err != nil {
		return nil, storage.ReadError(err, "key %q: block %d of layer %d", o.key, blk, l.Number())
	}
	return first, nil
}

func (*snapshot) counter(l *Layer, i int) uint64 { return l.Counter(i) }

func (v *snapshot) size() (n uint64, err error) {
	for i := range v.db.groups {
		of, _, err := readCounts(v.snap, i)
		if err != nil {
			return 0, err
		}
		n += of.Keys
	}
	return n, nil
}

func (v *snapshot) disk() storage.Reader { return v.snap }

func (*snapshot) writer() *Writer { return nil }

func (*snapshot) fixed() bool { return true }
