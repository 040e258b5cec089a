package kv

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sievekv/sievekv/kv/block"
)

// Commits that do not wait for the disk and do no more than set a few bits of one
// object are gathered, and put into Pebble many at a time: one Pebble batch, one
// record of the counters, the operands sorted by block and of each block one. That
// costs a fraction of a batch for each.
//
// What is stored is Pebble and what is gathered, and being gathered takes the place
// of being applied, in everything that is said elsewhere of the order of things: it
// comes after the stripes' started and before the patch. So that this holds,
//
//   - who reads blocks or counters from Pebble, without holding off writers of them,
//     first takes what is gathered of them, and then adds it to what Pebble has. In
//     this order: what has gone from the gathered by then is in Pebble.
//   - who does anything else with Pebble that has to do with blocks or counters does it by
//     db.pebble(), which first puts in what is gathered; so does every commit. So what was
//     gathered before a commit is in the log before it, and a crash leaves a prefix of the
//     commits as ever; and the snapshot of a view, made while nobody gathers, has all of
//     it.
//   - who is about to acknowledge more than was written at his own level puts in what
//     is gathered before he looks at the sequence to wait for: see Acknowledge.
//
// A crash loses what is gathered, of commits that were not to survive one: maxGathered of
// them at most and as many that are being put into Pebble, all of about the last gatherFor.

const (
	// manyGathered is how many commits are gathered before the one that came last puts
	// them into Pebble, unless somebody is about that; maxGathered is how many there
	// are at most before one waits for it.
	manyGathered = 256
	maxGathered  = 1024

	// gatherFor is how long a commit that no other follows stays out of Pebble.
	gatherFor = 50 * time.Millisecond

	// maxCommitBits is the most bits that a commit may set to be gathered, maxGatheredBits
	// how many are at once, which a lookup that reads a block looks through, and
	// maxGatheredLayers of how many layers they are.
	maxCommitBits     = 64
	maxGatheredBits   = 16384
	maxGatheredLayers = 32
)

// gathered are the commits that are not in Pebble yet. Their numbers count the commits
// gathered since the store was opened.
type gathered struct {
	last    atomic.Uint64 // number of the last commit gathered; written with mu held
	applied atomic.Uint64 // number of the last one that is in Pebble; written with drains held
	durable atomic.Uint64 // number of one that is on stable storage, as are all before it

	mu       sync.Mutex
	filling  gathering // guarded by mu
	draining gathering // what is being put into Pebble; written with drains and mu held, read with either

	drains  sync.Mutex    // held while a gathering is put into Pebble
	scratch gatherScratch // guarded by drains
	begun   chan struct{} // tells the drainer of a gathering begun; of capacity 1
}

// gathering is what some commits set. No bit is in it twice for the same layer: who writes
// to a block that has it finds it, in memory or as any lookup does.
type gathering struct {
	commits int
	size    int                // at most, of the batch it becomes, counted as by Writer.build
	bits    []uint64           // ordinal of the layer<<ordinalShift | block<<16 | position
	layers  []*Layer           // those with bits
	counts  []gatheredCounters // the newest, once for each layer
}

// ordinalShift makes room for a block and a position.
const ordinalShift = blockBits + 16

type gatheredCounters struct {
	layer  *Layer
	values [numCounters]uint64
}

// gathers reports whether the commit is of the kind that is gathered.
func (w *Writer) gathers() bool {
	return !w.db.opts.direct && w.level != Always && w.gate == gateShared && 0 < w.bitCount && w.bitCount <= maxCommitBits &&
		len(w.views) == 1 && w.views[0].object != nil && !w.views[0].changed && w.batch.Empty() &&
		!w.sequence && !w.unseen && !w.flush &&
		len(w.slots)+len(w.builds)+len(w.built)+len(w.drops)+len(w.attributes)+len(w.layerDrops)+len(w.groups) == 0
}

// gather gathers the commit and patches memory, and reports whether there was room: if
// not it is left to be applied.
func (w *Writer) gather() bool {
	db, o := w.db, w.views[0].object
	taken, full := w.gatherAndPatch(o)
	if !taken {
		return false
	}
	w.unlock()
	db.stats.commits.Add(1)
	if w.level == EverySec {
		db.everySec.Store(true)
	}
	if full && db.gathered.drains.TryLock() {
		db.drainLocked()
		db.gathered.drains.Unlock()
	}
	return true
}

func (w *Writer) gatherAndPatch(o *Object) (taken, full bool) {
	db := w.db
	db.apply.RLock()
	defer db.apply.RUnlock()
	touched := w.stripes()
	db.startStripes(touched)
	defer db.finishStripes(touched)
	db.pauseAt("commit: started")
	taken, full = db.gathered.take(w, o)
	if !taken {
		return false, false
	}
	db.pauseAt("commit: applied")
	p := &w.patcher
	p.db = db
	p.add(o)
	w.operands(p.operand)
	for i := range w.layers {
		if s := &w.layers[i]; s.counted {
			s.layer.setCounters(s.counters)
		}
	}
	w.tellWatches()
	return true, full
}

// take adds a commit to those gathered, if there is room, and reports whether they are
// to be put into Pebble now.
func (g *gathered) take(w *Writer, o *Object) (taken, full bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	to := &g.filling
	size := w.gatheredSize()
	if to.commits >= maxGathered || to.size+size > w.db.MaxCommit() ||
		len(to.bits)+w.bitCount > maxGatheredBits || len(to.layers)+len(w.layers) > maxGatheredLayers {
		return false, false
	}
	if to.commits == 0 {
		select {
		case g.begun <- struct{}{}:
		default:
		}
	}
	to.add(w)
	to.commits++
	to.size += size
	number := g.last.Load() + 1
	raise(&o.gathered, number)
	g.last.Store(number)
	return true, to.commits >= manyGathered || to.size > w.db.MaxCommit()/2 || len(to.bits) > maxGatheredBits/4
}

// gatheredSize returns what the commit adds to a batch, at most.
func (w *Writer) gatheredSize() int {
	const perBlock = perEntry + 48 // keys and lengths
	const perBit = 4               // of an operand: see block.AppendBitsOperand
	counted := 0
	for i := range w.layers {
		if w.layers[i].counted {
			counted++
		}
	}
	return len(w.bits)*perBlock + w.bitCount*perBit + counted*(perBlock+numCounters*binary.MaxVarintLen64)
}

func (g *gathering) add(w *Writer) {
	for i := range w.bits {
		b := &w.bits[i]
		n := g.ordinal(w.layers[b.ordinal].layer)
		for _, p := range b.positions {
			g.bits = append(g.bits, uint64(n)<<ordinalShift|b.blk<<16|uint64(p))
		}
	}
	for i := range w.layers {
		s := &w.layers[i]
		if !s.counted {
			continue
		}
		c := gatheredCounters{s.layer, s.counters}
		i := slices.IndexFunc(g.counts, func(old gatheredCounters) bool { return old.layer == c.layer })
		if i < 0 {
			g.counts = append(g.counts, c)
		} else {
			g.counts[i] = c
		}
	}
}

// ordinal returns the place of a layer, which it adds if it has none.
func (g *gathering) ordinal(l *Layer) int {
	i := slices.Index(g.layers, l)
	if i < 0 {
		i = len(g.layers)
		g.layers = append(g.layers, l)
	}
	return i
}

func (g *gathering) reset() {
	clear(g.layers)
	clear(g.counts)
	*g = gathering{bits: g.bits[:0], layers: g.layers[:0], counts: g.counts[:0]}
}

// positions returns the bits of a block that are gathered, perhaps with some that are in
// Pebble.
func (g *gathered) positions(l *Layer, blk uint64) (positions []uint16) {
	if g.last.Load() == g.applied.Load() {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, from := range []*gathering{&g.draining, &g.filling} {
		for i, layer := range from.layers {
			if !layer.same(l) {
				continue
			}
			for _, bit := range from.bits {
				if bit>>16 == uint64(i)<<blockBits|blk {
					positions = append(positions, uint16(bit))
				}
			}
		}
	}
	return positions
}

// counters returns the counters of a layer as a commit that is gathered has left them,
// if one has.
func (g *gathered) counters(l *Layer) (values [numCounters]uint64, found bool) {
	if g.last.Load() == g.applied.Load() {
		return values, false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, from := range []*gathering{&g.draining, &g.filling} {
		for _, c := range from.counts {
			if c.layer.same(l) {
				values, found = c.values, true // of two incarnations the later is behind
			}
		}
	}
	return values, found
}

// same reports whether two tables are of one layer.
func (l *Layer) same(as *Layer) bool { return l.object == as.object && l.spec.Number == as.spec.Number }

// setPositions sets bits in a block that nobody else sees yet.
func setPositions(words []uint64, positions []uint16) {
	for _, p := range positions {
		words[p>>6] |= 1 << (p & 63)
	}
}

// pebble returns Pebble with everything in it that was gathered before the call.
func (db *DB) pebble() *pebble.DB {
	db.drain()
	return db.disk
}

// drain puts everything into Pebble that was gathered before the call. An error makes the
// store fail, as that of any commit.
func (db *DB) drain() {
	g := &db.gathered
	upTo := g.last.Load()
	if g.applied.Load() >= upTo {
		return
	}
	g.drains.Lock()
	defer g.drains.Unlock()
	if g.applied.Load() < upTo {
		db.drainLocked()
	}
}

// drainLocked is drain for who holds drains.
func (db *DB) drainLocked() {
	g := &db.gathered
	g.mu.Lock()
	if g.filling.commits == 0 { // somebody has since it was looked at, and Pebble gives an empty batch no sequence
		g.mu.Unlock()
		return
	}
	g.filling, g.draining = g.draining, g.filling
	upTo := g.last.Load()
	g.mu.Unlock()
	db.pauseAt("drain: taken")
	if err := db.putGathered(&g.draining); err != nil {
		_ = db.fail(fmt.Errorf("kv: commit: %w", err))
	}
	db.pauseAt("drain: applied")
	g.mu.Lock()
	g.draining.reset()
	g.mu.Unlock()
	g.applied.Store(upTo)
}

func (db *DB) putGathered(from *gathering) error {
	batch := db.disk.NewBatch()
	defer func() { _ = batch.Close() }() // releases memory, cannot fail
	db.gathered.scratch.build(batch, from)
	if err := db.checkSize(batch); err != nil {
		return err // impossible: take keeps to the limit
	}
	if err := db.disk.Apply(batch, pebble.NoSync); err != nil {
		return err
	}
	first := uint64(batch.SeqNum())
	if first == 0 {
		return fmt.Errorf("batch of %d bytes has no sequence", batch.Len())
	}
	raise(&db.lastSeq, first+uint64(batch.Count())-1)
	db.stats.commitBytes.Add(uint64(batch.Len()))
	return nil
}

// gatherScratch is memory that making a batch takes.
type gatherScratch struct {
	bits      []uint64
	positions []uint16
	record    []byte
}

// build adds what is gathered to a batch: an operand a block, and the counters.
func (s *gatherScratch) build(batch *pebble.Batch, from *gathering) {
	s.bits = append(s.bits[:0], from.bits...)
	slices.Sort(s.bits)
	for start := 0; start < len(s.bits); {
		blk := s.bits[start] >> 16
		end := start
		s.positions = s.positions[:0]
		for ; end < len(s.bits) && s.bits[end]>>16 == blk; end++ {
			s.positions = append(s.positions, uint16(s.bits[end]))
		}
		l := from.layers[blk>>blockBits]
		key := appendBlockKey(s.record[:0], l.object, l.spec.Number, blk&(maxBlocks-1))
		n := len(key)
		s.record = block.AppendBitsOperand(key, s.positions)
		must(batch.Merge(s.record[:n], s.record[n:], nil))
		start = end
	}
	for i := range from.counts {
		s.record = setCounters(batch, s.record, from.counts[i].layer, from.counts[i].values)
	}
}

// keepDraining puts into Pebble what nobody else does.
func (db *DB) keepDraining() {
	defer close(db.drainerDone)
	for {
		select {
		case <-db.stopHousekeeper:
			return
		case <-db.gathered.begun:
		}
		timer := time.NewTimer(gatherFor)
		select {
		case <-db.stopHousekeeper:
			timer.Stop()
			return // Close does it
		case <-timer.C:
		}
		if db.enter() != nil {
			return
		}
		db.drain()
		db.exit()
	}
}
