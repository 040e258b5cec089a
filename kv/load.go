package kv

import (
	"errors"
	"sync"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/memory"
	"github.com/sievekv/sievekv/internal/storage"
)

// How a lookup gets a block that is not resident, without waiting for a writer, and without ever putting a block into
// the table that lacks a commit.
//
// A loader registers its flight before it reads the block from Pebble, and installs what it has read only if the flight
// is still registered. A commit, once Pebble has it, changes each block that is in the table, and cancels the flight of
// each that is not. So if a loader may have read a block without the commit, either its flight is cancelled, or it has
// installed the block before and the commit finds and changes it: the stripe's mutex orders the two. A loader that
// registers later reads the commit from Pebble.
//
// A lookup shares a flight only while it is registered. Then no commit that was over when the lookup began is missing.
//
// A load of an object that a commit has dropped or replaced may find nothing left of it. A lookup that finds such a
// block in memory has a section that is not valid. A block of an object that has ended is not installed all the same,
// because nothing would take it out of memory.
//
// A block that is not installed still answers the lookup that read it, as the read came after the lookup began. It
// need not have commits that came later.
//
// Package tests/section explores this as a model.

const numStripes = 64

// stripe has the flights of some of the blocks, chosen by hash.
type stripe struct {
	mu      sync.Mutex
	flights map[flightKey]*flight // guarded by mu
	_       [48]byte              // keeps neighbouring stripes off this cache line
}

type flightKey struct {
	layer *Layer
	blk   uint64
}

// flight is a load that several lookups may share.
type flight struct {
	done  chan struct{}
	first *Line // set before done is closed; nil if err is set
	err   error
}

func (db *DB) stripeOf(l *Layer, blk uint64) *stripe { return &db.stripes[l.Key(blk)%numStripes] }

// foldThreshold is the number of operands, merged into a block since it was last written whole, above which a load
// has the block folded. An operand of items counts as one for each 8 items. A full block takes 0.8 us to decode when it
// was written whole, 4.2 us when one operand has to be merged first, 10.5 us with 64 operands of one item each, and
// about 15 us with one of 512 items (block.BenchmarkRead, 2 cores of an AMD EPYC, Go 1.26, 2026-11): a lookup on disk,
// which takes about 10 us in all, would take more than twice as long.
const foldThreshold = 64

// load returns a block for an answer about now: the resident one, or one read from disk, never nil without an error.
// It may lack commits that were applied after load began.
func (db *DB) load(o *Object, l *Layer, blk uint64) (*Line, error) {
	if first := l.InMemory(blk); first != nil {
		return first, nil
	}
	if err := db.enter(); err != nil {
		return nil, err
	}
	defer db.exit()

	db.pauseAt("load: missing")
	st, key := db.stripeOf(l, blk), flightKey{l, blk}
	st.mu.Lock()
	if first := l.InMemory(blk); first != nil { // a commit that finds it cancels no flight
		st.mu.Unlock()
		return first, nil
	}
	if f := st.flights[key]; f != nil {
		st.mu.Unlock()
		db.pauseAt("load: shared")
		<-f.done
		return f.first, f.err
	}
	f := &flight{done: make(chan struct{})}
	st.flights[key] = f
	st.mu.Unlock()

	db.residency.BeginLoad()
	f.first, f.err = db.readAndInstall(o, st, key, f)
	db.residency.EndLoad()
	close(f.done)
	return f.first, f.err
}

// readAndInstall reads a block, and installs it if its flight is registered. Then the flight is not registered any more.
func (db *DB) readAndInstall(o *Object, st *stripe, key flightKey, f *flight) (*Line, error) {
	db.pauseAt("load: begun")
	first, err := db.readBlock(o, key.layer, key.blk)
	db.pauseAt("load: read")
	st.mu.Lock()
	registered := st.flights[key] == f
	if registered {
		delete(st.flights, key)
	}
	installed := registered && err == nil && !o.memory.Ended() && key.layer.Install(db.residency, key.blk, first)
	st.mu.Unlock()
	if installed {
		db.residency.Await()
	}
	return first, err
}

// slotToChange returns the slot of a block that a commit changes, which Pebble has by now. It returns nil if the block is not
// resident: then its flight, if it has one, is cancelled.
func (db *DB) slotToChange(l *Layer, blk uint64) *memory.Slot {
	if s := l.Slot(blk); s != nil && s.Load() != nil {
		return s
	}
	db.pauseAt("patch: missing")
	st := db.stripeOf(l, blk)
	st.mu.Lock()
	defer st.mu.Unlock()
	if s := l.Slot(blk); s != nil && s.Load() != nil { // it was installed since
		return s
	}
	delete(st.flights, flightKey{l, blk})
	return nil
}

// readBlock reads a block from Pebble, and has it folded if it had many operands.
func (db *DB) readBlock(o *Object, l *Layer, blk uint64) (*Line, error) {
	value, closer, pending, err := db.store.Block(l.Object(), l.Number(), blk)
	missing := errors.Is(err, storage.ErrNotFound)
	if missing && len(pending) == 0 {
		return memory.ZeroLine, nil
	}
	if err != nil && !missing {
		return nil, storage.ReadError(err, "key %q: block %d of layer %d", o.key, blk, l.Number())
	}
	first, words := l.NewBlock()
	if !missing {
		info, err := block.Decode(words, o.header.Family, value)
		if cerr := closer.Close(); err == nil {
			err = cerr
		}
		db.stats.blocksRead.Add(1)
		if err != nil {
			return nil, storage.ReadError(err, "key %q: block %d of layer %d", o.key, blk, l.Number())
		}
		if info.Operands > foldThreshold {
			db.queueFold(o.key, l.Object(), l.Number(), blk)
		}
	}
	// Since the lookup found the object, it may have lost the layer and got a larger one of the same number. Pending
	// changes of that layer need not fit. The lookup is repeated, see read.
	if block.Patch(words, o.header.Family, pending) != nil {
		return nil, errMoved
	}
	return first, nil
}
