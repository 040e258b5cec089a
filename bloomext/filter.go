package bloomext

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/hash"
	"github.com/sievekv/sievekv/internal/memory"
	"github.com/sievekv/sievekv/internal/probe"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// bloomType is the stored type. Its name is RedisBloom's.
var bloomType = &kv.Type{Name: "MBbloom--", Version: 1, Open: openFilter, BodyBytes: hash.TableBytes, Check: scalableext.Check((*filter).checkCounters), Verify: verify, Describe: scalableext.Describe((*filter).describe), Compact: compact, Prepare: prepare, Wake: wake}

// filter is the Go value of an open object of the type. It never changes, but for what it remembers in sure and left, and for before.
type filter struct {
	object *kv.Object
	hash   hash.Function
	newest layer   // layers[0], saves a dereference
	layers []layer // newest first
	chain  *scalableext.Chain[layer]

	flat bool // its layout is compatible or foreign; in this file, inMemory, load, add, addAll and addFull are for the native one

	// own is the number of layers, from the first on, that take adds: the layers of the newest slice if the filter is windowed,
	// otherwise all.
	own      int
	windowed bool
	window   scalableext.Window

	sure sure // with a log

	// before is how many hashes of the log come before the hashes of the newest layer. Only the writer that has made this layer knows
	// it, as long as it changes nothing else of the object; otherwise it is 0.
	before uint64

	// left is set when fill leaves a layer to prepare, which had looked before the filter began to grow. It does so once: if prepare
	// cannot do it, fill has to.
	left atomic.Bool
}

// layer is one filter of fixed size.
type layer struct {
	layout   probe.Layout // zero unless the filter's layout is native
	table    *kv.Layer
	capacity uint64
	rate     float64
	fullSet  uint64 // the number of set bits that makes it full; 0 unless its layout is native
	start    int64  // of the layer's slice, see scalableext.Window; 0 unless the filter is windowed

	flat *flat // nil if the filter's layout is native
}

// numBits returns the bits of the layer.
func (l *layer) numBits() uint64 {
	if l.flat != nil {
		return l.flat.bits
	}
	return l.layout.Bits()
}

// setRate returns the false-positive rate of a layer with a number of bits set.
func (l *layer) setRate(ones uint64) float64 {
	if l.flat != nil {
		return l.flat.setRate(ones)
	}
	return l.layout.SetRate(ones)
}

// distinctItems estimates how many items set a number of bits.
func (l *layer) distinctItems(ones uint64) float64 {
	if l.flat != nil {
		return l.flat.distinctItems(ones, l.flat.length)
	}
	return l.layout.DistinctItems(ones)
}

// hashes returns how many bits of the layer an item has.
func (l *layer) hashes() int {
	if l.flat != nil {
		return int(l.flat.hashes)
	}
	return int(l.layout.Hashes)
}

// estimated reports whether the count of items is an estimate.
func (l *layer) estimated() bool { return l.table.Counter(flagsCounter)&flagEstimated != 0 }

func openFilter(o *kv.Object) (any, error) {
	chain, err := scalableext.Open(o, openLayer)
	if err != nil {
		return nil, err
	}
	if o.Family() != block.FamilyBits {
		return nil, fmt.Errorf("%w: Bloom filter of %v, want %v", kv.ErrCorrupt, o.Family(), block.FamilyBits)
	}
	f := &filter{object: o, hash: chain.Params.Hash, newest: *chain.Newest(), layers: chain.NewestFirst(), chain: chain}
	f.flat, f.own = f.newest.flat != nil, len(f.layers)
	if err := chain.Params.CheckGrowth(rulesOf[f.layout()]...); err != nil {
		return nil, err
	}
	if f.window = chain.Params.Window; f.window.Is() {
		f.windowed = true
		o.Memory().SetTimed()
		if err := f.openSlices(); err != nil {
			return nil, err
		}
	}
	if filling := chain.Filling; filling != nil && filling.flat != nil {
		return nil, fmt.Errorf("%w: Bloom filter with a log, and another layout than the native one", kv.ErrCorrupt)
	}
	for i := range f.layers {
		l := f.layers[i].flat
		if (l != nil) != f.flat {
			return nil, fmt.Errorf("%w: Bloom filter with layers of several layouts", kv.ErrCorrupt)
		}
		if f.flat && (l.options != f.newest.flat.options || l.expansion != f.newest.flat.expansion) {
			return nil, fmt.Errorf("%w: compatible Bloom filter with layers of options %d and %d, expansion %d and %d", kv.ErrCorrupt,
				l.options, f.newest.flat.options, l.expansion, f.newest.flat.expansion)
		}
	}
	return f, nil
}

func openLayer(chain scalableext.Params, l *kv.Layer) (layer, error) {
	s := l.Spec()
	switch s.Layout {
	case kv.LayoutNative:
	case kv.LayoutCompatible:
		return openFlat(l, decodeFlatParams)
	case uint8(scalableext.LayoutForeign):
		return openForeign(chain, l)
	default:
		return layer{}, fmt.Errorf("%w: Bloom layout %d", kv.ErrUnsupportedVersion, s.Layout)
	}
	stored, start := s.Params, int64(0)
	if chain.Window.Is() {
		var err error
		if start, stored, err = scalableext.DecodeStart(stored); err != nil {
			return layer{}, err
		}
	}
	p, err := decodeLayerParams(stored)
	if err != nil {
		return layer{}, err
	}
	layout, err := probe.NewLayout(s.Blocks, uint64(s.Lines), uint64(p.hashes), uint64(p.linesPerItem))
	if err != nil {
		return layer{}, fmt.Errorf("%w: %w", kv.ErrCorrupt, err)
	}
	return layer{layout: layout, table: l, capacity: p.capacity, rate: p.rate, fullSet: layout.FullSet(p.capacity), start: start}, nil
}

// inMemory answers for some of the layers, from memory alone. If it does not decide, or the answer is "absent" and the section
// is not valid, known is false. An add that writes nothing because the item is present asks whether the section is valid.
func (f *filter) inMemory(s memory.Section, h uint64, layers []layer) (present, known bool) {
	known = true
	for i := range layers {
		l := &layers[i]
		blk, rest := l.layout.Block(h)
		switch first := s.Block(l.table, blk); {
		case first == nil:
			known = false
		case l.layout.Test(first, rest, h):
			return true, true
		}
	}
	return false, known && s.Valid()
}

// Copies returns 1 if an item may be present, else 0, and reads the blocks that are not resident.
func (f *filter) Copies(r kv.Reader, item []byte) (n uint64, err error) {
	present, err := f.look(r, item)
	if present {
		n = 1
	}
	return n, err
}

// stager adds items to a filter inside a writer's commit.
type stager struct {
	w *kv.Writer
	c *filter // as the writer has left it

	hashes []uint64 // memory for absent and addAll
	found  []bool
	added  []bool

	begun bool // the log of the filter began after some items

	// ahead has the items that addFull will add, from the next one on. No layer has them. It counts only while addFull adds them:
	// nothing else in a batch makes the filter grow.
	ahead []scalableext.BatchItem

	spent int // unless the layout is native, bytes of the commit, at most, of the bits that were set
}

// add stages an item, and reports whether it is new. If a new item has no room, the error is ErrFull or wraps
// ErrCannotGrow.
func (s *stager) add(h uint64) (bool, error) {
	var buf [probe.MaxHashes]uint16
	hashes, found := [1]uint64{h}, [1]bool{}
	w, newest := s.w, &s.c.layers[0]
	full := s.full(newest)
	for i := range s.c.layers[:s.c.own] {
		l := &s.c.layers[i]
		if i == 0 && !full {
			continue // it is found out below
		}
		if err := w.HasItems(s.c.object, l.table, &l.layout, hashes[:], found[:]); found[0] || err != nil {
			return false, err
		}
	}
	if full {
		if err := s.grow(); err != nil {
			return false, err
		}
		newest = &s.c.layers[0]
	}
	var ones int
	var err error
	blk, _ := newest.layout.Block(h)
	if w.Counter(newest.table, onesCounter) == newest.table.Counter(onesCounter) {
		_, ones, err = w.SetItems(s.c.object, newest.table, &newest.layout, blk, hashes[:], found[:])
	} else { // not the writer's first item: SetItems would go through all that is staged of the block
		ones, err = w.SetBits(s.c.object, newest.table, blk, newest.layout.AppendPositions(buf[:0], h))
	}
	if err != nil || ones == 0 {
		return false, err
	}
	w.SetCounter(newest.table, itemsCounter, w.Counter(newest.table, itemsCounter)+1)
	w.SetCounter(newest.table, onesCounter, w.Counter(newest.table, onesCounter)+uint64(ones))
	return true, nil
}

// full reports whether a layer takes no more new items. The number of items is not enough: an item that sets no bit
// is not counted, which at a rate of 0.25 is one in eleven until the layer is full, and the counted items set more
// bits than average.
//
// A layer with the compatible layout is full when its number of items is, as in RedisBloom. One with the foreign layout
// never is: the other libraries refuse no item.
func (s *stager) full(l *layer) bool {
	if l.flat != nil {
		return l.flat.scheme == schemeCompatible && s.w.Counter(l.table, itemsCounter) >= l.capacity
	}
	return s.w.Counter(l.table, itemsCounter) >= l.capacity || s.w.Counter(l.table, onesCounter) >= l.fullSet
}

// room returns how many items, at most n, may be added without looking whether the newest layer is full.
func (s *stager) room(n int) int {
	l := &s.c.layers[0]
	if items := s.w.Counter(l.table, itemsCounter); l.flat != nil {
		switch {
		case l.flat.scheme != schemeCompatible:
			return n
		case items >= l.capacity:
			return 0
		}
		return int(min(uint64(n), l.capacity-items))
	}
	return int(min(uint64(n), s.roomIn(l)))
}

// roomIn returns how many items may be added to a layer with the native layout without looking whether it is full.
func (s *stager) roomIn(l *layer) uint64 {
	items, ones := s.w.Counter(l.table, itemsCounter), s.w.Counter(l.table, onesCounter)
	if items >= l.capacity || ones >= l.fullSet {
		return 0
	}
	return min(l.capacity-items, (l.fullSet-ones)/uint64(l.layout.Hashes))
}

// addAll stages items for which the newest layer has room, block by block. It sets answers[item.I] of each to whether
// it is new.
func (s *stager) addAll(h *handle, items []scalableext.BatchItem, answers []bool) error {
	newest := &s.c.layers[0]
	var newItems, newOnes uint64
	defer func() { // also after an error: what is staged is counted
		if newItems == 0 {
			return
		}
		s.w.SetCounter(newest.table, itemsCounter, s.w.Counter(newest.table, itemsCounter)+newItems)
		s.w.SetCounter(newest.table, onesCounter, s.w.Counter(newest.table, onesCounter)+newOnes)
	}()
	looked := 0  // items before which GivenUp was asked
	touched := 0 // items whose memory was touched
	for start := 0; start < len(items); {
		if start >= touched && uint64(len(items)) <= max(fewTouched, newest.layout.Blocks*fewPerBlock) {
			touched = min(start+group, len(items))
			s.touchMemory(items[start:touched])
		}
		for ; looked <= start; looked++ {
			if err := h.GivenUp(looked); err != nil {
				return err
			}
		}
		end := start + 1
		for end < len(items) && items[end].Block == items[start].Block {
			end++
		}
		absent, err := s.absent(items[start:end], 1)
		if err != nil {
			return err
		}
		if start = end; len(absent) == 0 {
			continue
		}
		s.added = slices.Grow(s.added[:0], len(s.hashes))[:len(s.hashes)]
		n, ones, err := s.w.SetItems(s.c.object, newest.table, &newest.layout, absent[0].Block, s.hashes, s.added)
		if err != nil {
			return err
		}
		for i, item := range absent {
			answers[item.I] = s.added[i]
		}
		newItems, newOnes = newItems+uint64(n), newOnes+uint64(ones)
	}
	return nil
}

// fewTouched is the number of items, and fewPerBlock the number for each block, above which most blocks have so many that
// the memory of one item after the other need not be waited for.
const (
	fewTouched  = 4096
	fewPerBlock = 8
)

// touchMemory loads a word of each item's line, as filter.touchMemory does.
func (s *stager) touchMemory(items []scalableext.BatchItem) {
	s.hashes = s.hashes[:0]
	for _, item := range items {
		s.hashes = append(s.hashes, item.Hash)
	}
	s.c.touchMemory(s.hashes)
}

// addFull adds items while the newest layer has no room for many. It sets answers[item.I] to whether the item is new.
// It returns how many of the items it added, which are fewer if the filter has grown or with an error.
func (s *stager) addFull(h *handle, items []scalableext.BatchItem, answers []bool) (int, error) {
	const part = 1024 // as often GivenUp looks at the context
	absent := items[:0]
	for start := 0; start < len(items); start += part {
		if err := h.GivenUp(start); err != nil {
			return 0, err
		}
		more, err := s.absent(items[start:min(start+part, len(items))], 0)
		if err != nil {
			return 0, err
		}
		absent = append(absent, more...)
	}
	slices.SortFunc(absent, func(a, b scalableext.BatchItem) int { return cmp.Compare(a.I, b.I) })
	for i, item := range absent {
		s.ahead = absent[i:]
		err := h.GivenUp(i)
		if err == nil {
			answers[item.I], err = s.add(item.Hash)
		}
		if err != nil {
			return item.I, err
		}
		if s.room(few) >= few {
			return item.I + 1, nil
		}
	}
	return len(items), nil
}

// absent moves the items that no layer has, from the given one on, to the front, returns them, and sets hashes to theirs.
// Items are in the order of their blocks.
func (s *stager) absent(items []scalableext.BatchItem, from int) ([]scalableext.BatchItem, error) {
	s.hashes = s.hashes[:0]
	for _, item := range items {
		s.hashes = append(s.hashes, item.Hash)
	}
	for i := from; i < s.c.own; i++ {
		l := &s.c.layers[i]
		s.found = slices.Grow(s.found[:0], len(items))[:len(items)]
		if err := s.w.HasItems(s.c.object, l.table, &l.layout, s.hashes, s.found); err != nil {
			return nil, err
		}
		n := 0
		for j, found := range s.found {
			if !found {
				items[n], s.hashes[n] = items[j], s.hashes[j]
				n++
			}
		}
		items, s.hashes = items[:n], s.hashes[:n]
	}
	return items, nil
}

// noRoom returns the error of a filter that has no room for a new item and does not grow.
func (s *stager) noRoom(capacity uint64) error {
	return fmt.Errorf("%w: key %q, made for %d items, and does not grow", scalableext.ErrFull, s.c.object.Key(), capacity)
}

// grow stages another layer.
func (s *stager) grow() error {
	if s.c.windowed {
		return s.growSlice()
	}
	if s.c.grown() {
		return s.growLogged()
	}
	if s.c.chain.Params.Expansion == 0 {
		return s.noRoom(s.c.layers[0].capacity)
	}
	o, err := s.c.chain.Grow(s.w, s.c.object, layerSpec)
	if err != nil {
		return fmt.Errorf("key %q: %w", s.c.object.Key(), err)
	}
	s.c, err = kv.As[*filter]([]byte(o.Key()), o)
	return err
}

// growBy stages a layer.
func (s *stager) growBy(spec kv.LayerSpec) error {
	return s.use(s.w.Grow(s.c.object, spec))
}

// use goes on with the object that staging other layers has returned.
func (s *stager) use(o *kv.Object, err error) error {
	if errors.Is(err, kv.ErrTooLarge) {
		return fmt.Errorf("%w: key %q: %w", scalableext.ErrCannotGrow, s.c.object.Key(), err)
	}
	if err != nil {
		return err
	}
	s.c, err = kv.As[*filter]([]byte(o.Key()), o)
	return err
}

// items returns the number of items that were new when added; if the filter is windowed, the sum of those that are in each
// slice that has not expired.
func (f *filter) items(r kv.Reader) (n uint64) {
	for i := range f.layers[:f.alive(r.Now())] {
		n += r.Counter(f.layers[i].table, itemsCounter)
	}
	return n
}

// verifier compares a filter's bits with its counters.
type verifier struct {
	f    *filter
	ones map[*kv.Layer]uint64
}

func verify(o *kv.Object) kv.Verifier {
	f, _ := o.Body().(*filter)
	return &verifier{f: f, ones: make(map[*kv.Layer]uint64)}
}

func (v *verifier) Block(l *kv.Layer, blk uint64, words []uint64) error {
	if l == v.f.chain.Log {
		return v.checkLog(blk, words)
	}
	v.ones[l] += uint64(block.Count(words))
	for i := range v.f.layers {
		if in := &v.f.layers[i]; in.table == l && in.flat != nil {
			return in.flat.checkEnd(blk, words)
		}
	}
	return nil
}

// checkLog checks that a block of the log has nothing behind its end. That of a lossy filter may, as its length may be older than
// its blocks. Nobody reads it.
func (v *verifier) checkLog(blk uint64, words []uint64) error {
	if v.f.object.Lossy() {
		return nil
	}
	length := v.f.chain.Log.Counter(scalableext.LogLengthCounter)
	for i, word := range words {
		if at := blk*block.MaxWords + uint64(i); word != 0 && at >= length {
			return fmt.Errorf("%w: hash %d of a log of %d", kv.ErrCorrupt, at, length)
		}
	}
	return nil
}

// Done checks exactly that the number of set bits is the one counted, that no layer has more items than its capacity,
// and that each item set at least one bit and at most as many as it has hashes. It does not check counts that a merge
// estimated. It also compares the share of set bits with what random items set; that check is statistical, and makes
// a note at six standard deviations.
func (v *verifier) Done() (note string, err error) {
	if err := v.f.checkFilled(); err != nil {
		return "", err
	}
	layers := v.f.all()
	for i := range layers {
		l := &layers[i]
		items, ones, counted := l.table.Counter(itemsCounter), v.ones[l.table], l.table.Counter(onesCounter)
		number := l.table.Spec().Number
		if ones != counted {
			return "", fmt.Errorf("%w: layer %d has %d bits set, counted were %d", kv.ErrCorrupt, number, ones, counted)
		}
		if l.estimated() || v.f.object.Hidden() { // a half-loaded filter gets its number of items at the end
			continue
		}
		if l.flat != nil { // the items of a filter that was loaded are what the dump says
			if float64(ones) > float64(items)*float64(l.flat.hashes) {
				note = fmt.Sprintf("layer %d has %d bits set by %d items of %d hashes (a dump with a wrong number of items does that)", number, ones, items, l.flat.hashes)
			}
			continue
		}
		if err := l.checkItems(items, ones); err != nil {
			return "", err
		}
		if i == len(v.f.layers) && l.table.Counter(scalableext.FilledCounter) == 0 {
			continue // its blocks are stored one after the other
		}
		tried := l.layout.TriedItems(items)
		want, deviation := l.layout.ExpectedSet(tried)
		if math.Abs(float64(ones)-want) > 6*deviation+0.02*(tried-float64(items))+1 {
			note = fmt.Sprintf("layer %d has %d bits set where random items set %.0f, give or take %.0f (statistical: chosen items, or items added under another seed, do that)", number, ones, want, deviation)
		}
	}
	return note, nil
}
