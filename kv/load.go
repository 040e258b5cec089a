package kv

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/sievekv/sievekv/kv/block"
	"github.com/sievekv/sievekv/kv/storage"
)

// How a lookup gets a block that is not resident, without waiting for a writer, and without ever putting a block into
// the table that lacks a commit.
//
// Each block belongs to a stripe, by hash. For each stripe that a commit touches, its writer increments started
// before the batch goes to Pebble, and finished after the commit is applied to the resident blocks. A loader reads
// started, then finished, before it reads from Pebble. It installs the block only if those two values were equal and
// started has not changed since. Then no commit to the stripe was between Pebble and the cache when the loader read,
// and none has begun since: the block has every commit, and the next writer finds it in the table and changes it. If
// finished were read at install time instead, a block read before a commit could be installed after that commit had
// found nothing in the table to change, and the commit would be lost.
//
// A block is also not installed if it was read while, or after, a commit under the sequence lock dropped or replaced
// the object. What was read then may be what is left of the object, which is nothing. A lookup that began before that
// commit, and reads memory alone, would take it for an answer.
//
// A block that is not installed still answers the lookup that read it, as the read came after the lookup began. It
// need not have commits that came later. But if the table has the block by then, that one answers.

const numStripes = 64

type stripe struct {
	mu       sync.Mutex // guards increments of started, flights, and installs
	started  atomic.Uint64
	finished atomic.Uint64
	flights  map[flightKey]*flight
	_        [64]byte // keeps the counters of neighbouring stripes off this cache line
}

type flightKey struct {
	layer *Layer
	blk   uint64
}

// flight is a load that several lookups may share.
type flight struct {
	started uint64
	done    chan struct{}
	first   *Line // set before done is closed; nil if err is set
	err     error
}

func stripeOf(l *Layer, blk uint64) uint64 { return blockKey(l, blk) % numStripes }

// foldThreshold is the number of operands, merged into a block since it was last written whole, above which a load
// has the block folded. An operand of items counts as one for each 8 items. A full block takes 0.8 us to decode when it
// was written whole, 4.2 us when one operand has to be merged first, 10.5 us with 64 operands of one item each, and
// about 15 us with one of 512 items (block.BenchmarkRead, 2 cores of an AMD EPYC, Go 1.26, 2026-11): a lookup on disk,
// which takes about 10 us in all, would take more than twice as long.
const foldThreshold = 64

// load returns a block for an answer about now: the resident one, or one read from disk, never nil without an error.
// It may lack commits that were applied after load began. steady says that the caller holds apply, shared: then load
// must not wait for a load slot, nor for the load of another goroutine, which may be waiting for a slot.
func (db *DB) load(o *Object, l *Layer, blk uint64, steady bool) (*Line, error) {
	if first := l.Resident(blk); first != nil {
		return first, nil
	}
	if err := db.enter(); err != nil {
		return nil, err
	}
	defer db.exit()

	st := &db.stripes[stripeOf(l, blk)]
	started, finished := st.started.Load(), st.finished.Load()
	quiet := started == finished

	key := flightKey{l, blk}
	st.mu.Lock()
	// The load of another goroutine will do if nothing was committed to the stripe between its reading of the
	// counters and the beginning of this lookup.
	if f := st.flights[key]; f != nil && !steady && quiet && f.started == started {
		st.mu.Unlock()
		db.pauseAt("load: shared")
		<-f.done
		return latest(l, blk, f.first), f.err
	}
	var f *flight
	if quiet && st.flights[key] == nil {
		f = &flight{started: started, done: make(chan struct{})}
		st.flights[key] = f
	}
	st.mu.Unlock()

	if !steady {
		db.residency.BeginLoad()
	}
	first, err := db.readAndInstall(o, l, blk, st, started, quiet)
	if !steady {
		db.residency.EndLoad()
	}
	if f != nil {
		f.first, f.err = first, err
		st.mu.Lock()
		delete(st.flights, key)
		st.mu.Unlock()
		close(f.done)
	}
	return latest(l, blk, first), err
}

// latest prefers a block that is in the table by now to the loaded one, which may lack commits that the other has.
func latest(l *Layer, blk uint64, loaded *Line) *Line {
	if first := l.Resident(blk); first != nil {
		return first
	}
	return loaded
}

func (db *DB) readAndInstall(o *Object, l *Layer, blk uint64, st *stripe, started uint64, quiet bool) (*Line, error) {
	word := db.word.Load()
	db.pauseAt("load: begun")
	first, err := db.readBlock(o, l, blk)
	if err != nil {
		return nil, err
	}
	db.pauseAt("load: read")
	if !quiet {
		return first, nil
	}
	st.mu.Lock()
	installed := st.started.Load() == started && word&seqOdd == 0 && db.word.Load() == word && !o.ended() &&
		db.install(o, l, blk, first)
	st.mu.Unlock()
	if installed {
		db.residency.Await()
	}
	return first, nil
}

// install puts a block into the table, under the rule of the residency, and makes its chunk if there is none. The caller holds
// the stripe's mutex.
func (db *DB) install(o *Object, l *Layer, blk uint64, first *Line) bool {
	if l.spec.Layout == LayoutLog {
		return false
	}
	if l.dir == nil {
		// The block of a one-block layer was counted with its object, if the object is open.
		installed := l.one.CompareAndSwap(nil, first)
		if installed && l.closed.Load() {
			l.one.CompareAndSwap(first, nil)
		}
		return installed
	}
	d := &l.dir[blk>>chunkBits]
	c := d.Load()
	if c == nil {
		c = new(chunk)
		if d.CompareAndSwap(nil, c) {
			db.residency.Put(chunkKey(l, blk), residentChunk{d, c}, chunkSlots*8)
		} else if c = d.Load(); c == nil {
			return false
		}
	}
	s := &c[blk&(chunkSlots-1)]
	if !s.CompareAndSwap(nil, first) {
		return false
	}
	if first != zeroLine {
		db.residency.Put(blockKey(l, blk), residentBlock{s, first}, l.blockBytes())
	}
	return true
}

// readBlock reads a block from Pebble, and has it folded if it had many operands.
func (db *DB) readBlock(o *Object, l *Layer, blk uint64) (*Line, error) {
	value, closer, pending, err := db.store.Block(l.stored(), blk)
	missing := errors.Is(err, storage.ErrNotFound)
	if missing && len(pending.Bits)+len(pending.Slots) == 0 {
		return zeroLine, nil
	}
	if err != nil && !missing {
		return nil, storage.ReadError(err, "key %q: block %d of layer %d", o.key, blk, l.spec.Number)
	}
	first, words := l.newBlock()
	if !missing {
		info, err := block.Decode(words, o.header.Family, value)
		if cerr := closer.Close(); err == nil {
			err = cerr
		}
		db.stats.blocksRead.Add(1)
		if err != nil {
			return nil, storage.ReadError(err, "key %q: block %d of layer %d", o.key, blk, l.spec.Number)
		}
		if info.Operands > foldThreshold {
			db.queueFold(o.key, l.object, l.spec.Number, blk)
		}
	}
	// The object may have lost the layer since the lookup found it, and have a larger one of the same number by now. What
	// is pending for that need not fit. The lookup is repeated, see read.
	if !block.Fits(words, o.header.Family, pending.Bits, pending.Slots) {
		return nil, ErrMoved
	}
	block.SetBits(words, pending.Bits)
	block.SetSlots(words, o.header.Family, pending.Slots)
	return first, nil
}
