package cuckooext

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sync/atomic"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/dump"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/memory"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// The compatible layout: a filter has the bytes that RedisBloom's has after the same commands.
//
// The hash of an item is MurmurHash64A with seed 0. A layer is one array of buckets of b slots of one byte; the number
// of buckets is a power of two, and in each layer the same multiple of the one before. Byte j of the array is byte
// j%8192 of block j/8192, so a bucket may lie in two blocks, and the two buckets of an item mostly lie in different ones.
// An operation searches, adds and deletes exactly in RedisBloom's order.
//
// Lookups while entries move. An insert that finds no empty slot moves entries of the newest layer to their other
// buckets, in any blocks. All its moves are one commit, which notes all blocks that it changes from before Pebble has it
// until memory has all of it. A lookup is valid if none of the blocks that it has read, in all layers, was changing or has
// changed (memory.SlotSection). So it has read all buckets of its item as they were at one moment, and at that moment an item that
// was added had its entry in one of them. Which other blocks the commit changed does not matter. A lookup that is not valid
// is repeated, unless it has found the item.
//
// A compaction moves an entry to a bucket of an older layer, which is one of the two that a lookup of the entry's item
// reads there. So the lookup is not valid. Besides, the commit is applied as a whole (kv.Writer.TogetherOnly).

const (
	// blockSlots is the number of slots of a block, except in a layer that has one block only.
	blockSlots = block.MaxLines * lineSlots
	lineSlots  = block.LineBits / 8

	// alternate times a fingerprint is the difference (xor) between its two buckets.
	alternate = 0x5bd1e995

	compatibleFamily       = block.FamilySlots8
	compatibleBucketSize   = 2 // unless one is asked for
	compatibleExpansion    = 1
	compatibleMaxCapacity  = 1 << 30
	compatibleFingerprints = 255

	// slotsLimit is above the slots of any layer: RedisBloom computes the place of a bucket with 32 bits.
	slotsLimit = 1 << 32
)

// spot is where an item may be in a layer: its fingerprint is in a slot of the bucket of h1 or of h2.
type spot struct {
	h1, h2 uint64
	fp     byte // 1 to 255; 0 is an empty slot
}

func spotOf(h uint64) spot {
	fp := h%compatibleFingerprints + 1
	return spot{h1: h, h2: h ^ fp*alternate, fp: byte(fp)}
}

// bucket returns the first slot of the bucket of a hash.
func (l *layer) bucket(h uint64) uint64 { return h & (l.buckets - 1) * uint64(l.bucketSize) }

// both returns the first slots of the two buckets of a spot, which may be the same.
func (l *layer) both(s spot) [2]uint64 { return [2]uint64{l.bucket(s.h1), l.bucket(s.h2)} }

// compatibleSpec returns a layer of a number of buckets.
func compatibleSpec(bucketSize, iterations int, buckets uint64) kv.LayerSpec {
	slots := buckets * uint64(bucketSize)
	s := kv.LayerSpec{
		Layout: kv.LayoutCompatible, Blocks: (slots + blockSlots - 1) / blockSlots, Lines: block.MaxLines,
		Params: layerParams{wholeBlocks, uint8(bucketSize), uint16(iterations), slots}.append(nil),
	}
	if s.Blocks == 1 {
		s.Lines = uint32((slots + lineSlots - 1) / lineSlots)
	}
	return s
}

// openCompatible opens a layer whose parameters are p.
func openCompatible(l *kv.Layer, p layerParams) (layer, error) {
	s, b := l.Spec(), uint64(p.bucketSize)
	buckets := p.capacity / b
	want := compatibleSpec(int(b), int(p.maxIterations), buckets)
	if p.form != wholeBlocks || buckets&(buckets-1) != 0 || p.capacity%b != 0 || p.capacity >= slotsLimit || s.Blocks != want.Blocks || s.Lines != want.Lines {
		return layer{}, fmt.Errorf("%w: compatible cuckoo layer of %d slots and bucket size %d, in %d blocks of %d lines", kv.ErrCorrupt,
			p.capacity, b, s.Blocks, s.Lines)
	}
	return layer{
		table: l, blocks: s.Blocks, buckets: buckets, capacity: p.capacity, bucketSize: int(b), maxIterations: int(p.maxIterations),
	}, nil
}

// compatibleLayers returns the most layers of a filter whose first layer has a number of slots.
func compatibleLayers(slots uint64, expansion uint32) (n int) {
	for n = 1; expansion > 0 && n < format.MaxLayers && slots*uint64(expansion) < slotsLimit; n++ {
		slots *= uint64(expansion)
	}
	return n
}

// compatibleItems returns how many items a layer takes, about, before one finds no room.
func compatibleItems(slots uint64, bucketSize int) uint64 {
	return max(1, uint64(float64(slots)*compatibleLoads[min(bucketSize, len(compatibleLoads)-1)]))
}

// compatibleLoads are the loads, by bucket size, at which an insert with 20 iterations first finds no room. Larger buckets
// are like the last. Measured on 2^20 slots; smaller layers get fuller.
var compatibleLoads = [...]float64{0.29, 0.29, 0.45, 0.72, 0.77, 0.81, 0.83, 0.85, 0.87}

// follows reports whether a layer may come after an older one.
func (l *layer) follows(older *layer, expansion uint32) bool {
	return l.buckets == older.buckets*uint64(expansion) && l.bucketSize == older.bucketSize
}

// lanes has the lowest bit of each byte of a word.
const lanes = 0x0101010101010101

// matches returns the highest bit of each byte of a word that is equal to value. Only slots from to to-1 of the block
// count; slot k is the lowest byte of the word.
func matches(words []uint64, k, from, to uint64, value byte) uint64 {
	const lows = lanes * 0x7f
	x := atomic.LoadUint64(&words[k>>3]) ^ uint64(value)*lanes
	found := ^(x&lows + lows | x | lows)
	if k < from {
		found &= ^uint64(0) << ((from - k) * 8)
	}
	if k+8 > to {
		found &= ^uint64(0) >> ((k + 8 - to) * 8)
	}
	return found
}

// findSlot returns the first of the slots from to to-1 of a block that has a value.
func findSlot(words []uint64, from, to uint64, value byte) (slot uint64, ok bool) {
	for k := from &^ 7; k < to; k += 8 {
		if found := matches(words, k, from, to, value); found != 0 {
			return k + uint64(bits.TrailingZeros64(found))>>3, true
		}
	}
	return 0, false
}

// countSlots returns how many of the slots from to to-1 of a block have a value.
func countSlots(words []uint64, from, to uint64, value byte) (n int) {
	for k := from &^ 7; k < to; k += 8 {
		n += bits.OnesCount64(matches(words, k, from, to, value))
	}
	return n
}

// slotOf returns the value of a slot of a block.
func slotOf(words []uint64, slot uint64) byte {
	return byte(atomic.LoadUint64(&words[slot>>3]) >> (slot & 7 * 8))
}

// compatibleInMemory is inMemory for the compatible layout.
func (f *filter) compatibleInMemory(in *memory.SlotSection, h uint64) (present, known bool) {
	s := spotOf(h)
	known = true
	for i := range f.layers {
		l := &f.layers[i]
		for _, start := range l.both(s) {
			for at, end := start, start+uint64(l.bucketSize); at < end; {
				p := dump.StretchAt(at, end)
				first := in.Block(l.table, p.Block)
				if first == nil {
					known = false
				} else if _, found := findSlot(l.table.Words(first), p.From, p.To, s.fp); found {
					return true, true
				}
				at += p.Len()
			}
		}
	}
	return false, known
}

// copiesIn returns how many slots of the buckets of a spot have its fingerprint. If both buckets are the same, each slot
// counts twice, as in RedisBloom.
func (f *filter) copiesIn(r dump.Loader, l *layer, s spot) (n int, err error) {
	for _, start := range l.both(s) {
		for at, end := start, start+uint64(l.bucketSize); at < end; {
			p := dump.StretchAt(at, end)
			first, err := r.Load(f.object, l.table, p.Block)
			if err != nil {
				return n, err
			}
			n += countSlots(l.table.Words(first), p.From, p.To, s.fp)
			at += p.Len()
		}
	}
	return n, nil
}

// findIn returns the first slot of a bucket that has a value.
func (f *filter) findIn(r dump.Loader, l *layer, start uint64, value byte) (slot uint64, ok bool, err error) {
	for at, end := start, start+uint64(l.bucketSize); at < end; {
		p := dump.StretchAt(at, end)
		first, err := r.Load(f.object, l.table, p.Block)
		if err != nil {
			return 0, false, err
		}
		if slot, ok := findSlot(l.table.Words(first), p.From, p.To, value); ok {
			return p.Block*blockSlots + slot, true, nil
		}
		at += p.Len()
	}
	return 0, false, nil
}

// find returns the first slot that has a value in the buckets of a spot, the bucket of h1 first.
func (f *filter) find(r dump.Loader, l *layer, s spot, value byte) (slot uint64, ok bool, err error) {
	for _, start := range l.both(s) {
		if slot, ok, err = f.findIn(r, l, start, value); ok || err != nil {
			return slot, ok, err
		}
	}
	return 0, false, nil
}

// compatibleStager is what a stager needs for filters with the compatible layout.
type compatibleStager struct {
	kicked  map[uint64]byte // new values of slots of the newest layer, by slot
	changed []uint64        // their keys, in order
	spent   int             // bytes of the commit, at most, of the slots that were set
	room    int             // bytes that were left of the commit when spent was 0; -1 if not known
	recent  [4]blockOfLayer // blocks that were set last
	turn    int             // the next of them to be replaced
}

type blockOfLayer struct {
	table *kv.Layer
	blk   uint64
}

// mayAdd refuses to add to a filter that has as many layers as the setting allows. RedisBloom asks before a command, and
// not before each item.
func (s *stager) mayAdd() error {
	if !s.c.compatible {
		return nil
	}
	return s.mayGrow()
}

// mayGrow returns an error if the filter has as many layers as the setting allows.
func (s *stager) mayGrow() error {
	if most := maxLayers(s.w.DB()); int64(len(s.c.layers)) >= most {
		return layersError(s.c.object.Key(), len(s.c.layers), most)
	}
	return nil
}

// enough returns a function that tells whether a batch of adds has spent so much of the commit that the next item may not
// fit: it may move entries in many blocks.
func (s *stager) enough(h *handle) func() bool {
	if !s.c.compatible {
		return func() bool { return false }
	}
	most := h.Room(s.w) / 2
	return func() bool { return s.spent > most }
}

// addCompatible is add for the compatible layout: into the first empty slot, from the newest layer to the oldest,
// otherwise into the newest layer by moving others, otherwise into a new one.
func (s *stager) addCompatible(h uint64) error {
	p := spotOf(h)
	for i := range s.c.layers {
		l := &s.c.layers[i]
		if s.entries(l) == l.capacity {
			continue
		}
		slot, free, err := s.c.find(s.w, l, p, 0)
		if err != nil {
			return err
		}
		if free {
			return s.fill(l, slot, p.fp)
		}
	}
	if newest := &s.c.layers[0]; s.entries(newest) < newest.capacity {
		if kicked, err := s.kick(newest, p); kicked || err != nil {
			return err
		}
	}
	if err := s.growCompatible(); err != nil {
		return err
	}
	l := &s.c.layers[0]
	return s.fill(l, l.bucket(p.h1), p.fp)
}

// fill stages an entry in an empty slot.
func (s *stager) fill(l *layer, slot uint64, fp byte) error {
	s.w.SetCounter(l.table, entriesCounter, s.entries(l)+1)
	return s.setSlot(l, slot, fp)
}

// clear stages the removal of an entry.
func (s *stager) clear(l *layer, slot uint64) error {
	s.w.SetCounter(l.table, entriesCounter, s.entries(l)-1)
	return s.setSlot(l, slot, 0)
}

func (s *stager) setSlot(l *layer, slot uint64, value byte) error {
	s.slots = append(s.slots[:0], block.Slot{Index: uint16(slot % blockSlots), Value: uint32(value)})
	return s.setSlots(l, slot/blockSlots)
}

// setSlots stages new values of slots of a block.
func (s *stager) setSlots(l *layer, blk uint64) error {
	s.spent += slotBytes * len(s.slots)
	if b := (blockOfLayer{l.table, blk}); !slices.Contains(s.recent[:], b) {
		s.recent[s.turn], s.turn = b, (s.turn+1)%len(s.recent)
		s.spent += operandBytes
	}
	return s.w.SetSlots(s.c.object, l.table, blk, s.slots)
}

// kick makes room for an item in a layer whose buckets for it are full, and reports whether it could. It puts the item's
// fingerprint into a slot of the bucket of h1, the fingerprint that was there into the other bucket of that one, and so
// on until there is an empty slot. It takes the slots of the buckets in turn. If there is no empty slot after the most
// iterations, it stages nothing.
func (s *stager) kick(l *layer, p spot) (bool, error) {
	if s.kicked == nil {
		s.kicked = make(map[uint64]byte)
	}
	clear(s.kicked)
	start, fp, turn := l.bucket(p.h1), p.fp, uint64(0)
	for range l.maxIterations {
		victim, known := s.kicked[start+turn]
		if !known {
			var err error
			if victim, err = s.slotAt(l, start+turn); err != nil {
				return false, err
			}
		}
		s.kicked[start+turn], fp = fp, victim
		start = l.bucket(start/uint64(l.bucketSize) ^ uint64(fp)*alternate)
		free, ok, err := s.c.findIn(s.w, l, start, 0) // a slot that was kicked is not empty
		if err != nil {
			return false, err
		}
		if ok {
			s.kicked[free] = fp
			return true, s.stageKicked(l)
		}
		turn = (turn + 1) % uint64(l.bucketSize)
	}
	return false, nil
}

func (s *stager) slotAt(l *layer, slot uint64) (byte, error) {
	first, err := s.w.Load(s.c.object, l.table, slot/blockSlots)
	if err != nil {
		return 0, err
	}
	return slotOf(l.table.Words(first), slot%blockSlots), nil
}

// stageKicked stages what kick has changed, block by block.
func (s *stager) stageKicked(l *layer) error {
	s.changed = s.changed[:0]
	for slot := range s.kicked {
		s.changed = append(s.changed, slot)
	}
	slices.Sort(s.changed)
	for rest := s.changed; len(rest) > 0; {
		blk := rest[0] / blockSlots
		s.slots = s.slots[:0]
		for len(rest) > 0 && rest[0]/blockSlots == blk {
			s.slots = append(s.slots, block.Slot{Index: uint16(rest[0] % blockSlots), Value: uint32(s.kicked[rest[0]])})
			rest = rest[1:]
		}
		if err := s.setSlots(l, blk); err != nil {
			return err
		}
	}
	s.w.SetCounter(l.table, entriesCounter, s.entries(l)+1)
	return nil
}

// growCompatible stages another layer. RedisBloom counts layers before a command alone, so that one command with many
// equal items makes thousands of them, and each further item looks at all. Here a command stops at the setting, too.
func (s *stager) growCompatible() error {
	newest, key, expansion := s.c.layers[0], s.c.object.Key(), s.c.chain.Params.Expansion
	if expansion == 0 {
		return &roomError{scalableext.ErrFull, func() string {
			return fmt.Sprintf("%q has %d slots, none that the item may use, and does not grow", key, newest.capacity)
		}}
	}
	if err := s.mayGrow(); err != nil {
		return err
	}
	if newest.capacity*uint64(expansion) >= slotsLimit {
		return &roomError{errNoMemory, func() string {
			return fmt.Sprintf("%q: the next layer would have %d bytes, want less than %d", key, newest.capacity*uint64(expansion), uint64(slotsLimit))
		}}
	}
	return s.growBy(compatibleSpec(newest.bucketSize, newest.maxIterations, newest.buckets*uint64(expansion)), errNoMemory)
}

// removeCompatible is remove for the compatible layout. After many deletions it compacts the filter, as RedisBloom does.
func (s *stager) removeCompatible(h uint64) (bool, error) {
	p := spotOf(h)
	for i := range s.c.layers {
		l := &s.c.layers[i]
		slot, found, err := s.c.find(s.w, l, p, p.fp)
		if err != nil {
			return false, err
		}
		if !found {
			continue
		}
		if err := s.clear(l, slot); err != nil {
			return false, err
		}
		oldest, items := s.oldest().table, uint64(0)
		deletes := s.w.Counter(oldest, deletesCounter) + 1
		s.w.SetCounter(oldest, deletesCounter, deletes)
		for i := range s.c.layers {
			items += s.entries(&s.c.layers[i])
		}
		if len(s.c.layers) > 1 && float64(deletes) > float64(items)*0.10 && s.compactionFits() {
			_, err = s.compactFrom(&cursor{layer: math.MaxInt}, math.MaxInt, false)
		}
		return true, err
	}
	return false, nil
}

func (s *stager) oldest() *layer { return &s.c.layers[len(s.c.layers)-1] }

// A deletion that compacts leaves the compaction out if the commit may get too large by it, or if there are too many
// blocks to look at. CF.COMPACT then does it, in several commits. Each entry of the layers above the oldest one may move,
// which sets two slots, in any block of an older layer.

// compactionFits reports whether a whole compaction fits into the commit.
func (s *stager) compactionFits() bool {
	entries, from, to := uint64(0), uint64(0), uint64(0)
	for i := range s.c.layers {
		l := &s.c.layers[i]
		if i < len(s.c.layers)-1 {
			entries += s.entries(l)
			from += l.blocks
		}
		if i > 0 {
			to += l.blocks
		}
	}
	need := entries*2*slotBytes + (from+min(entries, to))*operandBytes
	if need > uint64(s.w.DB().MaxCommit()/2) {
		return false
	}
	if s.room < 0 {
		s.room = s.w.Room() + s.spent
	}
	return int(need) <= s.room-s.spent
}

// cursor is where a compaction is: at a slot of a layer. The oldest layer is 0. A layer that does not exist means the
// beginning of the newest.
type cursor struct {
	layer int
	slot  uint64
}

// compactFrom goes on with a compaction until it has spent about budget bytes of the commit, and reports whether there is
// more to do. From the newest layer to the second, it moves each entry, in the order of the slots, to the first empty slot
// that the entry may have in the oldest layer that has one, without moving others. It removes the newest layer when that is
// empty. Without all it ends at the first layer from which it cannot move all entries.
func (s *stager) compactFrom(at *cursor, budget int, all bool) (more bool, err error) {
	s.w.TogetherOnly()
	limit := math.MaxInt
	if budget < limit-s.spent {
		limit = s.spent + budget
	}
	if newest := len(s.c.layers) - 1; at.layer > newest { // at the beginning, or another writer has removed layers
		*at = cursor{layer: newest}
	}
	for ; at.layer > 0; at.layer, at.slot = at.layer-1, 0 {
		newest := len(s.c.layers) - 1
		finished, err := s.empty(at, limit)
		if err != nil || !finished {
			return !finished, err
		}
		left := s.entries(s.layerAt(at.layer))
		if left == 0 && at.layer == newest {
			if err := s.shrink(); err != nil {
				return false, err
			}
		}
		if left > 0 && !all {
			break
		}
	}
	s.w.SetCounter(s.oldest().table, deletesCounter, 0)
	return false, nil
}

// layerAt returns a layer by its number from the oldest, which is 0.
func (s *stager) layerAt(n int) *layer { return &s.c.layers[len(s.c.layers)-1-n] }

// empty moves the entries of the cursor's layer, from its slot on, and reports whether it has come to the end.
func (s *stager) empty(at *cursor, limit int) (finished bool, err error) {
	l := s.layerAt(at.layer)
	b := uint64(l.bucketSize)
	for at.slot < l.capacity && s.useful(at.layer) {
		if s.spent >= limit {
			return false, nil
		}
		p := dump.StretchAt(at.slot, l.capacity)
		first, err := s.w.Load(s.c.object, l.table, p.Block)
		if err != nil {
			return false, err
		}
		s.spent += lookBytes
		words := l.table.Words(first) // as they are now: what is staged here below changes only slots that were passed
		isEmpty := true
		for ; p.From < p.To && s.spent < limit; p.From++ {
			slot := p.Block*blockSlots + p.From
			if fp := slotOf(words, p.From); fp != 0 {
				isEmpty = false
				if err := s.relocate(at.layer, slot, spot{h1: slot / b, h2: slot/b ^ uint64(fp)*alternate, fp: fp}); err != nil {
					return false, err
				}
			}
			at.slot = slot + 1
		}
		if isEmpty && p.From == p.To { // pass over the blocks that have nothing
			next, err := s.w.NextBlock(s.c.object, l.table, p.Block+1)
			if err != nil {
				return false, err
			}
			at.slot = next * blockSlots
		}
	}
	return true, nil
}

// useful reports whether a layer has entries, and an older one has an empty slot.
func (s *stager) useful(layer int) bool {
	if s.entries(s.layerAt(layer)) == 0 {
		return false
	}
	for older := range layer {
		if l := s.layerAt(older); s.entries(l) < l.capacity {
			return true
		}
	}
	return false
}

// relocate moves an entry of a layer to the oldest one that has an empty slot for it. An older layer has fewer buckets, or
// as many: the number of the entry's bucket says which are its buckets there.
func (s *stager) relocate(layer int, slot uint64, p spot) error {
	for n := range layer {
		older := s.layerAt(n)
		if s.entries(older) == older.capacity {
			continue
		}
		free, ok, err := s.c.find(s.w, older, p, 0)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if err := s.fill(older, free, p.fp); err != nil {
			return err
		}
		return s.clear(s.layerAt(layer), slot)
	}
	return nil
}

// occupied returns the number of slots of a block that are not empty. The slots behind the last bucket must be.
func (f *filter) occupied(table *kv.Layer, blk uint64, words []uint64) (uint64, error) {
	for i := range f.layers {
		l := &f.layers[i]
		if l.table != table {
			continue
		}
		all := uint64(len(words)) * 8
		slots := min(l.capacity-blk*blockSlots, all)
		if countSlots(words, slots, all, 0) != int(all-slots) {
			return 0, fmt.Errorf("%w: cuckoo layer %d: slots behind the last bucket are taken", kv.ErrCorrupt, table.Spec().Number)
		}
		return slots - uint64(countSlots(words, 0, slots, 0)), nil
	}
	return 0, nil
}

// shrink stages the removal of the newest layer.
func (s *stager) shrink() error {
	left, err := s.w.Shrink(s.c.object)
	if err != nil {
		return err
	}
	s.c, err = kv.As[*filter]([]byte(left.Key()), left)
	return err
}
