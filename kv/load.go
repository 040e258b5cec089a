package kv

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/sievekv/sievekv/kv/block"
	"github.com/sievekv/sievekv/kv/storage"
)

// How a lookup that finds its block not resident gets it without waiting for a
// writer, and without ever putting a block into the table that lacks a commit.
//
// Blocks are dealt to stripes by hash. A writer, for each stripe it touches, counts started up before its batch goes
// to Pebble, and finished up after the commit is applied to the resident blocks. A loader remembers started, then
// finished, both before it reads from Pebble, and installs only if those two remembered values were equal and started
// is still the same. Then no commit to the stripe was between Pebble and the cache when the loader read, and none
// began since: the block read has every commit, and the next writer finds it in the table and changes it. If finished
// were read at install time, a block read before a commit could get in after that commit had found nothing in the
// table to change: lost.
//
// Nor is anything installed that was read while, or after, a commit under the sequence lock dropped or replaced the
// object: what was read then may be what is left of it, which is nothing, and a lookup that began before that commit,
// and looks at memory alone, would take it for an answer.
//
// A block not installed still answers the lookup that read it: the read came after the lookup began. It need not hold
// a commit that came later, unless the table meanwhile holds a block, which is then the one to ask.

const numStripes = 64

type stripe struct {
	mu       sync.Mutex // guards started going up, flights, and installs
	started  atomic.Uint64
	finished atomic.Uint64
	flights  map[flightKey]*flight
	_        [64]byte // keeps neighbours' counters off this cache line
}

type flightKey struct {
	layer *Layer
	blk   uint64
}

// flight is a load that others may share.
type flight struct {
	started uint64
	done    chan struct{}
	first   *Line // set before done is closed; nil with err
	err     error
}

func stripeOf(l *Layer, blk uint64) uint64 { return blockKey(l, blk) % numStripes }

// foldThreshold is the number of operands merged into a block since it was last
// written whole from which a reader has it folded.
const foldThreshold = 64

// load returns a block for an answer about now: the resident one, or one read from disk, never nil without an error.
// It may lack commits that were applied after load began. Steady says that the caller holds apply: it must then not
// wait for a load slot, nor for another's load, which may be waiting for one.
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
	// Another's load will do if nothing was committed to the stripe between
	// that load's reading of the counters and this lookup's beginning.
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
		db.residency.loads <- struct{}{}
	}
	first, err := db.readAndInstall(o, l, blk, st, started, quiet)
	if !steady {
		<-db.residency.loads
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

// latest prefers a block that has appeared in the table to one loaded: it has commits the loaded one may lack.
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
		db.residency.drain()
	}
	return first, nil
}

// install puts a block into the table, making its chunk if there is none, and
// under ristretto's rule. The stripe's mutex is held.
func (db *DB) install(o *Object, l *Layer, blk uint64, first *Line) bool {
	if l.dir == nil {
		// The block of a one-block layer was counted with its object, if that is open.
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
			db.residency.put(chunkKey(l, blk), residentChunk{d, c}, chunkSlots*8)
		} else if c = d.Load(); c == nil {
			return false
		}
	}
	s := &c[blk&(chunkSlots-1)]
	if !s.CompareAndSwap(nil, first) {
		return false
	}
	if first != zeroLine {
		db.residency.put(blockKey(l, blk), residentBlock{s, first}, l.blockBytes())
	}
	return true
}

// readBlock reads a block from Pebble, and has it folded if that was laborious.
func (db *DB) readBlock(o *Object, l *Layer, blk uint64) (*Line, error) {
	value, closer, pending, err := db.store.Block(l.stored(), blk)
	if errors.Is(err, storage.ErrNotFound) {
		if len(pending) == 0 {
			return zeroLine, nil
		}
		first, words := l.newBlock()
		setPositions(words, pending)
		return first, nil
	}
	if err != nil {
		return nil, storage.ReadError(err, "key %q: block %d of layer %d", o.key, blk, l.spec.Number)
	}
	first, words := l.newBlock()
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
	setPositions(words, pending)
	return first, nil
}

// setPositions sets bits in a block that nobody else sees yet.
func setPositions(words []uint64, positions []uint16) {
	for _, p := range positions {
		words[p>>6] |= 1 << (p & 63)
	}
}
