package storage

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sievekv/sievekv/kv/block"
	"github.com/sievekv/sievekv/kv/format"
	"github.com/sievekv/sievekv/kv/radix"
	"github.com/sievekv/sievekv/kv/text"
)

// Group commit. A small commit changes one object: it sets bits, those of items or a few, or gives slots new values. Or
// it sets a few records. It does not wait for the disk. It is pending at first: it is kept in memory, and flushed to
// Pebble together with others. A group of commits becomes one Pebble batch, with one operand for each block and one
// record for each layer's counters, in the order of their keys. That costs a fraction of a batch for each commit: most of
// the time of a batch is that Pebble looks for the places of its keys in the memtable, and they are near each other if
// there are many.
//
// The store is what Pebble has and what is pending. Wherever another comment says that a commit is applied, a pending
// commit counts as applied. Seen from the engine, a commit becomes pending after the stripes' started went up, and
// before it is applied to the cache. For this to hold, every reader and writer follows a rule:
//
//   - Block and Get look at what is pending first, and read from Pebble then. If a commit has been flushed by the
//     first step, the second step finds it in Pebble. If commits are made and flushed between the steps, Block may put
//     the older value of a slot over a newer one. The block is not put into the cache then (kv/load.go); a lookup that
//     needs a whole state finds that the block's version has changed; and writers hold the lock of the key.
//   - Every other read of what may be pending flushes first.
//   - Every commit flushes first. So what was pending before a commit is in the log before it, and a crash leaves a
//     prefix of the commits, as it does without group commit.
//   - A snapshot flushes first. If it is made while no commit is under way, it has every commit.
//   - A sync flushes before it syncs Pebble's log.
//
// A crash loses what is pending. All of that are commits that were not promised to survive a crash. They are at most
// MaxPending pending commits, and as many that are being flushed, all made within about the last FlushAfter.

const (
	// When ManyPending commits are pending, the last of them asks its caller to flush, unless a flush is under way.
	// MaxPending is the most that can be pending: then a commit is not made pending, but goes to Pebble by itself.
	ManyPending = 1 << 14
	MaxPending  = 1 << 15

	// defaultFlushAfter is the default of Options.FlushAfter.
	defaultFlushAfter = 50 * time.Millisecond

	// MaxSmallBits is the most bits that a small commit may set. maxPendingBits is the most that are pending one by
	// one, and manyPendingBits is when a flush is asked for. maxPendingLayers is the most layers that they belong
	// to. When manyPendingItems items are pending, the commit that added the last of them asks for a flush;
	// maxPendingItems is the most.
	MaxSmallBits     = block.MaxFew
	maxPendingBits   = 1 << 18
	manyPendingBits  = 1 << 17
	maxPendingLayers = 32
	manyPendingItems = 1 << 17
	maxPendingItems  = 1 << 18

	// MaxSmallSlots is the most slots that a small commit may change. maxPendingSlots is the most new values of slots
	// that are pending, and manyPendingSlots is when a flush is asked for.
	MaxSmallSlots    = 256
	maxPendingSlots  = 1 << 17
	manyPendingSlots = 1 << 16
)

// pending holds the commits that are not in Pebble yet. They are counted from the opening of the store.
type pending struct {
	added   atomic.Uint64 // how many commits have become pending; written with mu held
	flushed atomic.Uint64 // how many of them are in Pebble; written with flushes held

	recorded atomic.Int64 // how many records are pending; written with mu held

	mu       sync.Mutex
	filling  group // guarded by mu
	flushing group // what is being flushed; written with both flushes and mu held, read with either held

	flushes sync.Mutex    // held while a group is flushed
	scratch flushScratch  // guarded by flushes
	begun   chan struct{} // tells the flush loop that a group has begun; of capacity 1
}

// group is what some commits set together. Bits has no bit of a layer twice, see SmallCommit.
type group struct {
	commits int
	size    int             // upper bound of the size of its batch, as CommitSize counts it, without items and entries
	entries int             // upper bound of the entries for blocks with bits
	bits    []uint64        // ordinal of the layer<<ordinalShift | block<<16 | position
	before  []int32         // of each bit, the one before in its bucket, counted from 1; 0 for none
	last    []int32         // of each bucket, the last bit, counted from 1; 0 for none. Nil while there are no bits
	layers  []Layer         // the layers with bits; an index here is the layer's ordinal
	blocks  []layerBlocks   // of each of them
	items   itemIndex       // items that set bits
	runs    runIndex        // words of lists
	slots   slotIndex       // new values of slots
	counts  []LayerCounters // the newest of each layer
	records recordIndex
}

// ordinalShift leaves room for a block and a position below the ordinal.
const ordinalShift = format.BlockBits + 16

// Append makes a small commit pending and reports whether it did. If there was no room, the caller commits it by
// itself. Changed is raised to the commit's number before any goroutine can read the commit. Full asks the caller to
// call FlushSome once it holds no lock.
func (s *Store) Append(c *SmallCommit, changed *atomic.Uint64) (appended, full bool) {
	p, size, most := &s.pending, c.measure(), MaxCommit(s.opts.MemTableSize)
	p.mu.Lock()
	defer p.mu.Unlock()
	to := &p.filling
	size += to.newCounts(c) * (perSmall + format.NumCounters*binary.MaxVarintLen64)
	size += to.runs.sizeOf(c)
	itemsSize := to.items.sizeWith(c)
	if to.commits >= MaxPending || to.size+size+(to.entries+c.blocks)*perSmall+itemsSize > most ||
		c.bits > MaxSmallBits || len(to.bits)+c.bits > maxPendingBits || len(to.layers)+c.layers > maxPendingLayers ||
		c.slots > MaxSmallSlots || len(to.slots.slots)+c.slots > maxPendingSlots ||
		len(to.slots.layers)+c.slotLayers > maxPendingLayers ||
		len(to.items.hashes)+c.items > maxPendingItems || len(to.items.layers)+c.layers > maxPendingLayers {
		return false, false
	}
	if to.commits == 0 {
		select {
		case p.begun <- struct{}{}:
		default:
		}
	}
	p.recorded.Add(int64(to.add(c)))
	to.commits++
	to.size += size
	to.items.size = itemsSize
	p.added.Add(1) // before the commit has a number: whatever reads the number then finds something to flush
	Raise(changed, s.last.Add(1))
	s.pauseAt("append: numbered")
	return true, to.commits >= ManyPending || to.size+to.entries*perSmall+itemsSize > most/2 || len(to.bits) > manyPendingBits ||
		len(to.items.hashes) >= manyPendingItems || len(to.slots.slots) > manyPendingSlots
}

// newCounts returns of how many layers the group has no counters and the commit has some.
func (g *group) newCounts(c *SmallCommit) (n int) {
	for i := range c.Counters {
		if g.indexOfCounts(c.Counters[i].Layer) < 0 {
			n++
		}
	}
	return n
}

func (g *group) indexOfCounts(l Layer) int {
	return slices.IndexFunc(g.counts, func(old LayerCounters) bool { return old.Layer == l })
}

// add adds a commit, and returns how many records have keys that the group did not have.
func (g *group) add(c *SmallCommit) (recorded int) {
	for i := range c.Blocks {
		b := &c.Blocks[i]
		if b.Bits.HasItems() {
			g.items.add(b)
			continue
		}
		if first, words := b.runOf(); len(words) > 0 {
			g.runs.add(b.Layer, first, words)
			continue
		}
		n := g.ordinal(b.Layer)
		g.addBlock(&g.blocks[n], b.Block)
		for _, p := range b.Bits.Few() {
			g.addBit(uint64(n)<<ordinalShift | b.Block<<16 | uint64(p))
		}
	}
	for i := range c.Slots {
		g.slots.add(&c.Slots[i])
	}
	for _, c := range c.Counters {
		i := g.indexOfCounts(c.Layer)
		if i < 0 {
			g.counts = append(g.counts, c)
		} else {
			g.counts[i] = c
		}
	}
	for _, r := range c.Records {
		if g.records.set(r) {
			recorded++
		}
	}
	return recorded
}

// layerBlocks counts the blocks of a layer with bits. There are at most as many as were added, and as there are up to the
// highest.
type layerBlocks struct{ added, end uint64 }

func (b layerBlocks) most() int { return int(min(b.added, b.end)) }

func (g *group) addBlock(b *layerBlocks, blk uint64) {
	g.entries -= b.most()
	b.added++
	b.end = max(b.end, blk+1)
	g.entries += b.most()
}

// bitBuckets is the number of buckets of bits. The bits of a block are in one bucket, so that a lookup that reads a block
// does not go through all bits.
const bitBuckets = 1 << 10

func bitBucket(bit uint64) uint64 { return bit >> 16 * 0x9e3779b97f4a7c15 >> 54 }

func (g *group) addBit(bit uint64) {
	if g.last == nil {
		g.last = make([]int32, bitBuckets)
	}
	last := &g.last[bitBucket(bit)]
	g.bits, g.before = append(g.bits, bit), append(g.before, *last)
	*last = int32(len(g.bits))
}

// appendBits appends the positions of the bits of a block that are given one by one.
func (g *group) appendBits(positions []uint16, l Layer, blk uint64) []uint16 {
	n := slices.Index(g.layers, l)
	if n < 0 || g.last == nil {
		return positions
	}
	first := uint64(n)<<ordinalShift | blk<<16
	for i := g.last[bitBucket(first)]; i > 0; i = g.before[i-1] {
		if bit := g.bits[i-1]; bit>>16 == first>>16 {
			positions = append(positions, uint16(bit))
		}
	}
	return positions
}

// ordinal returns the ordinal of a layer. It adds the layer if the group does not have it yet.
func (g *group) ordinal(l Layer) int {
	i := slices.Index(g.layers, l)
	if i < 0 {
		i = len(g.layers)
		g.layers, g.blocks = append(g.layers, l), append(g.blocks, layerBlocks{})
	}
	return i
}

func (g *group) reset() {
	g.items.reset()
	g.slots.reset()
	g.runs.reset()
	g.records.reset()
	clear(g.last)
	*g = group{
		bits: g.bits[:0], before: g.before[:0], last: g.last, layers: g.layers[:0], blocks: g.blocks[:0],
		items: g.items, runs: g.runs, slots: g.slots, counts: g.counts[:0], records: g.records,
	}
}

// none reports whether nothing is pending.
func (p *pending) none() bool { return p.added.Load() == p.flushed.Load() }

// changes returns the pending changes of a block. Some may be in Pebble already.
func (p *pending) changes(l Layer, blk uint64) (c BlockChanges) {
	if p.none() {
		return c
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, from := range []*group{&p.flushing, &p.filling} { // the later one wins
		c.Bits = from.items.appendBits(c.Bits, l, blk)
		c.Bits = from.appendBits(c.Bits, l, blk)
		c.Bits = from.runs.appendBits(c.Bits, l, blk)
		c.Slots = from.slots.appendSlots(c.Slots, l, blk)
	}
	return c
}

// counters returns the counters of a layer as the last pending commit left them. Found is false if no pending commit
// changed them.
func (p *pending) counters(l Layer) (values [format.NumCounters]uint64, found bool) {
	if p.none() {
		return values, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, from := range []*group{&p.flushing, &p.filling} { // the later one wins
		if i := from.indexOfCounts(l); i >= 0 {
			values, found = from.counts[i].Values, true
		}
	}
	return values, found
}

// Flush puts everything into Pebble that was pending before the call. If that fails, the store fails.
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

// FlushSome flushes what is pending, unless another goroutine is flushing.
func (s *Store) FlushSome() {
	if p := &s.pending; p.flushes.TryLock() {
		defer p.flushes.Unlock()
		s.flushLocked()
	}
}

// flushLocked flushes what is pending. The caller holds flushes.
func (s *Store) flushLocked() {
	p := &s.pending
	p.mu.Lock()
	p.filling, p.flushing = p.flushing, p.filling
	upTo := p.added.Load()
	p.mu.Unlock()
	s.pauseAt("flush: taken")
	if err := s.write(&p.flushing); err != nil {
		_ = s.Fail(text.After(err, "kv: commit"))
	}
	s.pauseAt("flush: applied")
	p.mu.Lock()
	p.recorded.Add(-int64(len(p.flushing.records.entries)))
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
	Raise(&s.lastSeq, lastSequence(batch))
	s.stats.flushedBytes.Add(uint64(batch.Len()))
	return nil
}

// flushScratch is memory for making a batch, kept from one flush to the next.
type flushScratch struct {
	bits      []uint64
	spare     []uint64 // for sorting bits
	hashes    []uint64
	positions []uint16
	record    []byte
	order     []int32
	slots     slotScratch
}

// build adds a group to a batch: one operand for each block with bits, with items or with slots, and the counters.
func (s *flushScratch) build(batch *pebble.Batch, from *group) {
	s.bits = append(s.bits[:0], from.bits...)
	s.bits, s.spare = radix.Sort(s.bits, s.spare, 0)
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
	s.buildItems(batch, &from.items)
	s.buildRuns(batch, &from.runs)
	s.buildSlots(batch, &from.slots)
	for i := range from.counts {
		s.record = SetCounters(batch, s.record, from.counts[i])
	}
	s.order = from.records.build(batch, s.order)
}

// SetCounters adds the record of a layer's counters to a batch. It builds the record in scratch, and returns scratch,
// which may have grown.
func SetCounters(batch *Batch, scratch []byte, c LayerCounters) []byte {
	key := format.AppendCountersKey(scratch[:0], c.Layer.Object, c.Layer.Number)
	n := len(key)
	scratch = format.AppendCounters(key, c.Values)
	must(batch.Set(scratch[:n], scratch[n:], nil))
	return scratch
}

// must panics with the error of a change to a batch in memory, which cannot fail.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// flushLoop flushes every group that has waited for FlushAfter. Most are flushed before, by a commit or a reader.
func (s *Store) flushLoop() {
	defer s.loops.Done()
	for {
		select {
		case <-s.stop:
			return
		case <-s.pending.begun:
		}
		timer := time.NewTimer(cmp.Or(s.opts.FlushAfter, defaultFlushAfter))
		select {
		case <-s.stop:
			timer.Stop()
			return // Close flushes the rest
		case <-timer.C:
		}
		s.work(s.Flush)
	}
}
