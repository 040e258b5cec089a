package storage

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sievekv/sievekv/kv/block"
	"github.com/sievekv/sievekv/kv/format"
)

// Group commit. Commits that do not wait for the disk and do no more than set a few bits of one object are pending at
// first, and are flushed to Pebble many at a time: one Pebble batch, one record of the counters, the bits sorted by
// block and one operand for each block. That costs a fraction of a batch for each.
//
// The store is what Pebble has and what is pending. Wherever another comment says that a commit is
// applied, a pending commit counts as applied: it is pending from after the stripes' started went up, and
// before it is applied to the cache. So that this holds,
//
//   - Block and Get look at what is pending first, and then add it to what Pebble has. In
//     this order: what has been flushed by then is in Pebble.
//   - every other use of Pebble that has to do with bits or counters flushes first; so does every
//     commit. So what was pending before a commit is in the log before it, and a crash leaves a prefix
//     of the commits as ever; and a snapshot that is made while nobody commits has all of it.
//   - a sync flushes before it looks at Pebble's log.
//
// A crash loses what is pending, of commits that were not to survive one: MaxPending of
// them at most and as many that are being flushed, all of about the last flushAfter.

const (
	// ManyPending is how many commits are pending before the one that came last flushes them, unless somebody is
	// about that; MaxPending is how many there are at most before a commit is applied by itself.
	ManyPending = 256
	MaxPending  = 1024

	// flushAfter is how long a commit that no other follows stays out of Pebble.
	flushAfter = 50 * time.Millisecond

	// MaxSmallBits is the most bits that a small commit may set, maxPendingBits how many are pending at once, which a
	// lookup that reads a block looks through, and maxPendingLayers of how many layers they are.
	MaxSmallBits     = 64
	maxPendingBits   = 16384
	maxPendingLayers = 32
)

// Layer names a layer of an object.
type Layer struct{ Object, Number uint64 }

// SmallCommit is a commit that sets a few bits of one object, and its counters. No bit of it is set already, in Pebble or
// pending: a writer finds a bit that is set, in memory or as any lookup does.
type SmallCommit struct {
	Blocks   []BlockBits
	Counters []LayerCounters

	bits, layers int // see measure
}

// BlockBits are the positions of bits in one block.
type BlockBits struct {
	Layer     Layer
	Block     uint64
	Positions []uint16
}

// LayerCounters are all the counters of a layer.
type LayerCounters struct {
	Layer  Layer
	Values [format.NumCounters]uint64
}

// pending are the commits that are not in Pebble yet, numbered from the opening of the store.
type pending struct {
	added   atomic.Uint64 // how many commits were ever pending; written with mu held
	flushed atomic.Uint64 // how many of them are in Pebble; written with flushes held

	mu       sync.Mutex
	filling  group // guarded by mu
	flushing group // what is being flushed; written with flushes and mu held, read with either

	flushes sync.Mutex    // held while a group is flushed
	scratch flushScratch  // guarded by flushes
	begun   chan struct{} // tells the flush loop of a group begun; of capacity 1
}

// group is what some commits set. No bit is in it twice for the same layer, see SmallCommit.
type group struct {
	commits int
	size    int             // at most, of the batch it becomes, counted as by CommitSize
	bits    []uint64        // ordinal of the layer<<ordinalShift | block<<16 | position
	layers  []Layer         // those with bits
	counts  []LayerCounters // the newest, once for each layer
}

// ordinalShift makes room for a block and a position.
const ordinalShift = format.BlockBits + 16

// Append makes a small commit pending, if there is room, and reports whether there was: if not the
// caller commits it by itself. Changed is raised to the commit's number before anybody can read the
// commit. Full asks the caller to call FlushSome once it holds no lock.
func (s *Store) Append(c *SmallCommit, changed *atomic.Uint64) (appended, full bool) {
	p := &s.pending
	p.mu.Lock()
	defer p.mu.Unlock()
	to := &p.filling
	most := MaxCommit(s.opts.MemTableSize)
	size := c.measure()
	if to.commits >= MaxPending || to.size+size > most ||
		len(to.bits)+c.bits > maxPendingBits || len(to.layers)+c.layers > maxPendingLayers {
		return false, false
	}
	if to.commits == 0 {
		select {
		case p.begun <- struct{}{}:
		default:
		}
	}
	to.add(c)
	to.commits++
	to.size += size
	raise(changed, s.last.Add(1))
	p.added.Add(1)
	return true, to.commits >= ManyPending || to.size > most/2 || len(to.bits) > maxPendingBits/4
}

// measure counts the bits and the layers that have some, and returns what the commit adds to a batch, at most.
func (c *SmallCommit) measure() int {
	const perBlock = PerEntry + 48 // keys and lengths
	const perBit = 4               // of an operand: see block.AppendBitsOperand
	c.bits, c.layers = 0, 0
	for i := range c.Blocks {
		c.bits += len(c.Blocks[i].Positions)
		if i == 0 || c.Blocks[i].Layer != c.Blocks[i-1].Layer {
			c.layers++
		}
	}
	return len(c.Blocks)*perBlock + c.bits*perBit + len(c.Counters)*(perBlock+format.NumCounters*binary.MaxVarintLen64)
}

func (g *group) add(c *SmallCommit) {
	for i := range c.Blocks {
		b := &c.Blocks[i]
		n := g.ordinal(b.Layer)
		for _, p := range b.Positions {
			g.bits = append(g.bits, uint64(n)<<ordinalShift|b.Block<<16|uint64(p))
		}
	}
	for _, c := range c.Counters {
		i := slices.IndexFunc(g.counts, func(old LayerCounters) bool { return old.Layer == c.Layer })
		if i < 0 {
			g.counts = append(g.counts, c)
		} else {
			g.counts[i] = c
		}
	}
}

// ordinal returns the place of a layer, which it adds if it has none.
func (g *group) ordinal(l Layer) int {
	i := slices.Index(g.layers, l)
	if i < 0 {
		i = len(g.layers)
		g.layers = append(g.layers, l)
	}
	return i
}

func (g *group) reset() {
	*g = group{bits: g.bits[:0], layers: g.layers[:0], counts: g.counts[:0]}
}

// none reports whether nothing is pending.
func (p *pending) none() bool { return p.added.Load() == p.flushed.Load() }

// positions returns the bits of a block that are pending, perhaps with some that are in Pebble.
func (p *pending) positions(l Layer, blk uint64) (positions []uint16) {
	if p.none() {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, from := range []*group{&p.flushing, &p.filling} {
		i := slices.Index(from.layers, l)
		if i < 0 {
			continue
		}
		for _, bit := range from.bits {
			if bit>>16 == uint64(i)<<format.BlockBits|blk {
				positions = append(positions, uint16(bit))
			}
		}
	}
	return positions
}

// counters returns the counters of a layer as a pending commit has left them, if one has.
func (p *pending) counters(l Layer) (values [format.NumCounters]uint64, found bool) {
	if p.none() {
		return values, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, from := range []*group{&p.flushing, &p.filling} { // the later is behind
		if i := slices.IndexFunc(from.counts, func(c LayerCounters) bool { return c.Layer == l }); i >= 0 {
			values, found = from.counts[i].Values, true
		}
	}
	return values, found
}

// Flush puts everything into Pebble that was pending before the call. An error makes the
// store fail, as that of any commit.
func (s *Store) Flush() {
	p := &s.pending
	upTo := p.added.Load()
	if p.flushed.Load() >= upTo {
		return
	}
	p.flushes.Lock()
	defer p.flushes.Unlock()
	if p.flushed.Load() < upTo {
		s.flushLocked()
	}
}

// FlushSome is Flush unless somebody else flushes at the moment.
func (s *Store) FlushSome() {
	if p := &s.pending; p.flushes.TryLock() {
		defer p.flushes.Unlock()
		s.flushLocked()
	}
}

// flushLocked flushes. The caller holds flushes.
func (s *Store) flushLocked() {
	p := &s.pending
	p.mu.Lock()
	p.filling, p.flushing = p.flushing, p.filling
	upTo := p.added.Load()
	p.mu.Unlock()
	s.pauseAt("flush: taken")
	if err := s.write(&p.flushing); err != nil {
		_ = s.Fail(fmt.Errorf("kv: commit: %w", err))
	}
	s.pauseAt("flush: applied")
	p.mu.Lock()
	p.flushing.reset()
	p.mu.Unlock()
	p.flushed.Store(upTo)
}

func (s *Store) write(from *group) error {
	batch := s.disk.NewBatch()
	defer func() { _ = batch.Close() }() // releases memory, cannot fail
	s.pending.scratch.build(batch, from)
	if err := RefuseSize(CommitSize(batch), MaxCommit(s.opts.MemTableSize)); err != nil {
		return err // impossible: Append keeps to the limit
	}
	if err := s.disk.Apply(batch, pebble.NoSync); err != nil {
		return err
	}
	raise(&s.lastSeq, lastSequence(batch))
	s.stats.flushedBytes.Add(uint64(batch.Len()))
	return nil
}

// flushScratch is memory that making a batch takes.
type flushScratch struct {
	bits      []uint64
	positions []uint16
	record    []byte
}

// build adds a group to a batch: an operand a block, and the counters.
func (s *flushScratch) build(batch *pebble.Batch, from *group) {
	s.bits = append(s.bits[:0], from.bits...)
	slices.Sort(s.bits)
	for start := 0; start < len(s.bits); {
		blk := s.bits[start] >> 16
		end := start
		s.positions = s.positions[:0]
		for ; end < len(s.bits) && s.bits[end]>>16 == blk; end++ {
			s.positions = append(s.positions, uint16(s.bits[end]))
		}
		l := from.layers[blk>>format.BlockBits]
		key := format.AppendBlockKey(s.record[:0], l.Object, l.Number, blk&(format.MaxBlocks-1))
		n := len(key)
		s.record = block.AppendBitsOperand(key, s.positions)
		must(batch.Merge(s.record[:n], s.record[n:], nil))
		start = end
	}
	for i := range from.counts {
		s.record = SetCounters(batch, s.record, from.counts[i])
	}
}

// SetCounters adds a record of counters to a batch. Scratch is memory, which it returns.
func SetCounters(batch *Batch, scratch []byte, c LayerCounters) []byte {
	key := format.AppendCountersKey(scratch[:0], c.Layer.Object, c.Layer.Number)
	n := len(key)
	scratch = format.AppendCounters(key, c.Values)
	must(batch.Set(scratch[:n], scratch[n:], nil))
	return scratch
}

// must panics with the error of an operation that cannot fail: of a batch in memory.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// flushLoop flushes what nobody else does.
func (s *Store) flushLoop() {
	defer s.loops.Done()
	for {
		select {
		case <-s.stop:
			return
		case <-s.pending.begun:
		}
		timer := time.NewTimer(flushAfter)
		select {
		case <-s.stop:
			timer.Stop()
			return // Close does it
		case <-timer.C:
		}
		s.work(s.Flush)
	}
}
