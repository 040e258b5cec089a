package countingext

import (
	"fmt"
	"slices"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/hash"
	"github.com/sievekv/sievekv/internal/memory"
	"github.com/sievekv/sievekv/internal/probe"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// countingType is the stored type.
var countingType = &kv.Type{Name: "CBloom---", Version: 1, Open: openFilter, BodyBytes: hash.TableBytes, Check: scalableext.Check((*filter).checkCounters), Verify: verify, Describe: scalableext.Describe((*filter).describe)}

// MaxCount is the highest value of a counter and of Count. It means that the true count is not known any more.
const MaxCount = 1<<probe.CounterBits - 1

// filter is the Go value of an open object of the type. It never changes.
type filter struct {
	object *kv.Object
	hash   hash.Function
	layers []layer // newest first
	chain  *scalableext.Chain[layer]

	// inOrder says whether all layers except the oldest were added under the rules of an ordered filter, see ordered.
	inOrder bool
}

// layer is one filter of fixed size.
type layer struct {
	layout   probe.Layout
	table    *kv.Layer
	capacity uint64
	rate     float64
	fullSet  uint64 // the number of counters above 0 that makes it full
	ordered  bool   // see layerParams
}

func openFilter(o *kv.Object) (any, error) {
	chain, err := scalableext.Open(o, openLayer)
	if err != nil {
		return nil, err
	}
	if o.Family() != block.FamilySlots4 {
		return nil, fmt.Errorf("%w: counting filter of %v, want %v", kv.ErrCorrupt, o.Family(), block.FamilySlots4)
	}
	if err := chain.Params.CheckGrowth(scalableext.Native); err != nil {
		return nil, err
	}
	f := &filter{object: o, hash: chain.Params.Hash, layers: chain.NewestFirst(), chain: chain, inOrder: true}
	for i := range f.layers[:len(f.layers)-1] {
		f.inOrder = f.inOrder && f.layers[i].ordered
	}
	return f, nil
}

func openLayer(_ scalableext.Params, l *kv.Layer) (layer, error) {
	s := l.Spec()
	if s.Layout != kv.LayoutNative {
		return layer{}, fmt.Errorf("%w: counting layout %d", kv.ErrUnsupportedVersion, s.Layout)
	}
	p, err := decodeLayerParams(s.Params)
	if err != nil {
		return layer{}, err
	}
	layout, err := probe.NewCounterLayout(s.Blocks, uint64(s.Lines), uint64(p.hashes), uint64(p.linesPerItem))
	if err != nil {
		return layer{}, fmt.Errorf("%w: %w", kv.ErrCorrupt, err)
	}
	return layer{layout: layout, table: l, capacity: p.capacity, rate: p.rate, fullSet: layout.FullSet(p.capacity), ordered: p.ordered}, nil
}

// oldest returns the oldest layer, which has the counters of the whole filter.
func (f *filter) oldest() *layer { return &f.layers[len(f.layers)-1] }

// An answer "present" is not checked: at worst it is one more false positive. A lookup that does not find the item,
// or counts it, must have seen all blocks as they were at one moment: otherwise a commit may have deleted the item
// from one layer and added it to another.

// InMemory answers from memory alone. known is false if it does not decide, or if blocks changed meanwhile.
func (f *filter) InMemory(h uint64) (present, known bool) {
	s := f.object.Memory().BeginSlots()
	if !s.Usable() {
		return false, false
	}
	present, known = f.inMemory(&s, h)
	return present, known && (present || s.Valid())
}

// inMemory is InMemory, but leaves it to the caller to ask whether the section is valid.
func (f *filter) inMemory(s *memory.SlotSection, h uint64) (present, known bool) {
	known = true
	for i := range f.layers {
		l := &f.layers[i]
		blk, rest := l.layout.Block(h)
		switch first := s.Block(l.table, blk); {
		case first == nil:
			known = false
		case l.layout.Least(first, rest, h) > 0:
			return true, true
		}
	}
	return false, known
}

// count returns how often an item was added, at most enough: the sum over the layers of the item's smallest counter
// in each. If enough is 1, it stops at the first layer that has the item.
func (f *filter) count(r kv.Reader, h uint64, enough uint64) (n uint64, err error) {
	for i := range f.layers {
		l := &f.layers[i]
		blk, rest := l.layout.Block(h)
		first, err := r.Load(f.object, l.table, blk)
		if err != nil {
			return n, err
		}
		if n += l.layout.Least(first, rest, h); n >= enough && enough == 1 {
			return 1, nil
		}
	}
	return min(n, enough), nil
}

// Load reports whether an item may be present, and reads the blocks that are not resident.
func (f *filter) Load(r kv.Reader, h uint64) (bool, error) {
	n, err := f.count(r, h, 1)
	return n > 0, err
}

// Copies returns how often an item seems to have been added, at most MaxCount, and reads the blocks that are not
// resident.
func (f *filter) Copies(r kv.Reader, item []byte) (uint64, error) {
	return f.count(r, f.hash.Sum(item), MaxCount)
}

// Block returns the item's block of the newest layer.
func (f *filter) Block(h uint64) uint64 {
	blk, _ := f.layers[0].layout.Block(h)
	return blk
}

// stager changes a filter inside a writer's commit.
type stager struct {
	w         *kv.Writer
	c         *filter // as the writer has left it
	slots     []block.Slot
	positions [probe.MaxHashes]uint16
}

func newStager(w *kv.Writer, c *filter) *stager { return &stager{w: w, c: c} }

// bump adds to one of a layer's own numbers. If by is negative it subtracts, but not below 0.
func (s *stager) bump(l *layer, counter int, by int) {
	v := int64(s.w.Counter(l.table, counter))
	s.w.SetCounter(l.table, counter, uint64(min(max(0, v+int64(by)), scalableext.MaxCount)))
}

// load returns how much of a layer's capacity is taken by its fill and by counters that stick. Stuck counters stay
// for ever, even if the items that caused them are gone. For the rate, k of them are as bad as one item, so they
// count as one.
func (s *stager) load(l *layer) uint64 {
	k := uint64(l.layout.Hashes)
	return s.w.Counter(l.table, fillCounter) + (s.w.Counter(l.table, stuckCounter)+k-1)/k
}

// full reports whether a layer takes no more new items. The fill alone is not enough: an item that AddIfAbsent does
// not add, because it seems to be present, is not in the fill, so a layer can be full before its fill reaches the
// capacity.
func (s *stager) full(l *layer) bool {
	return s.load(l) >= l.capacity || s.w.Counter(l.table, aboveCounter) >= l.fullSet
}

// mayFill reports whether a layer may become full while a number of items is added; then their order matters. An add
// takes one of the capacity, and one more if all its counters come to stick.
func (s *stager) mayFill(l *layer, items uint64) bool {
	return s.load(l)+2*items >= l.capacity ||
		s.w.Counter(l.table, aboveCounter)+uint64(l.layout.Hashes)*items >= l.fullSet
}

// ordered reports whether the oldest layer that seems to have an item is the one that has it. That holds as long as
// new items were added only to the newest layer, adds and deletions of an item that seemed to be present changed the
// oldest layer that seemed to have it, and only items were deleted that had been added. Then in a layer other than
// the newest no counter rises from 0. An item is added to the newest layer only if each older one has a counter of
// the item at 0; that counter stays 0. If an older layer seems to have the item, the item is counted there, and no
// layer older than that will ever seem to have it.
func (f *filter) ordered(r counters) bool {
	return f.inOrder && (len(f.layers) == 1 || r.Counter(f.secondOldest().table, mixedCounter) == 0)
}

// counters gives the counters of a layer as a reader or a writer sees them.
type counters interface {
	Counter(l *kv.Layer, i int) uint64
}

// secondOldest returns the layer that stores whether the filter is mixed. There must be at least two layers.
func (f *filter) secondOldest() *layer { return &f.layers[len(f.layers)-2] }

// matching returns the layer in which adds and deletions of an item are made, and the number of layers that seem to
// have the item, at most 2, or 1 if the filter is ordered. If the filter is not ordered, it is the newest layer that
// seems to have the item; nobody knows which one has it.
func (s *stager) matching(h uint64) (l *layer, n int, err error) {
	ordered := s.c.ordered(s.w)
	for i := range s.c.layers {
		at := &s.c.layers[i]
		if ordered {
			at = &s.c.layers[len(s.c.layers)-1-i]
		}
		blk, rest := at.layout.Block(h)
		first, err := s.w.Load(s.c.object, at.table, blk)
		if err != nil {
			return nil, 0, err
		}
		if at.layout.Least(first, rest, h) == 0 {
			continue
		}
		if n++; n == 2 {
			break
		}
		if l = at; ordered {
			break
		}
	}
	return l, n, nil
}

// add stages an item, and reports whether it was absent. If an absent item has no room, the error is ErrFull or wraps
// ErrCannotGrow.
func (s *stager) add(h uint64) (bool, error) {
	l, _, err := s.matching(h)
	if err != nil {
		return false, err
	}
	absent := l == nil
	if absent {
		if l, err = s.withRoom(); err != nil {
			return false, err
		}
	}
	// If all counters stick, the fill does not change: no deletion will count them down.
	changed, err := s.change(l, h, 1)
	if err != nil {
		return false, err
	}
	if changed {
		s.bump(l, fillCounter, 1)
	}
	s.bump(s.c.oldest(), itemsCounter, 1)
	s.c.object.Uses().Add(absent)
	return absent, nil
}

// addIfAbsent is add, but changes nothing if the item is present.
func (s *stager) addIfAbsent(h uint64) (bool, error) {
	l, _, err := s.matching(h)
	if err != nil {
		return false, err
	}
	if l != nil {
		s.c.object.Uses().Add(false)
		return false, nil
	}
	return s.add(h)
}

// withRoom returns the layer that takes a new item: the newest, or, if that is full, a new one. In three cases it is
// the newest older layer that has room: if there can be no new layer; if the expansion is 1, because layers would be
// added for ever while older ones empty; and if the filter is not ordered any more. Afterwards it is not ordered.
func (s *stager) withRoom() (*layer, error) {
	newest := &s.c.layers[0]
	if !s.full(newest) {
		return newest, nil
	}
	older := s.olderWithRoom()
	if older == nil || s.c.chain.Params.Expansion > 1 && s.c.ordered(s.w) {
		err := s.grow()
		if err == nil {
			return &s.c.layers[0], nil
		}
		if older == nil || !scalableext.NoRoom(err) {
			return nil, err
		}
	}
	s.w.SetCounter(s.c.secondOldest().table, mixedCounter, 1)
	return older, nil
}

// olderWithRoom returns the newest layer, other than the newest of all, that takes new items, nil if there is none.
func (s *stager) olderWithRoom() *layer {
	for i := range s.c.layers[1:] {
		if l := &s.c.layers[1+i]; !s.full(l) {
			return l
		}
	}
	return nil
}

// remove stages the deletion of an item, and reports whether it seemed to be present.
func (s *stager) remove(h uint64) (bool, error) {
	l, n, err := s.matching(h)
	if err != nil || n == 0 {
		return false, err
	}
	changed := false
	if n == 1 {
		if changed, err = s.change(l, h, -1); err != nil {
			return false, err
		}
	}
	if changed {
		s.bump(l, fillCounter, -1)
	} else {
		s.bump(s.c.oldest(), keptCounter, 1)
	}
	s.bump(s.c.oldest(), itemsCounter, -1)
	return true, s.watchKept(h)
}

// watchKept counts, after the first kept deletion, the deletions after which the item still seems to be present.
func (s *stager) watchKept(h uint64) error {
	oldest := s.c.oldest()
	if s.w.Counter(oldest.table, keptCounter) == 0 {
		return nil
	}
	_, n, err := s.matching(h)
	if err != nil {
		return err
	}
	if s.w.Counter(oldest.table, deletedLatelyCounter) >= lateDeletions {
		for _, c := range []int{deletedLatelyCounter, foundLatelyCounter} {
			s.w.SetCounter(oldest.table, c, s.w.Counter(oldest.table, c)/2)
		}
	}
	s.bump(oldest, deletedLatelyCounter, 1)
	if n > 0 {
		s.bump(oldest, foundLatelyCounter, 1)
	}
	return nil
}

// change stages counting up or down an item's counters in a layer by 1 or -1, each once. It reports whether one of
// them was counted; those that stick are not.
func (s *stager) change(l *layer, h uint64, by int) (bool, error) {
	blk, _ := l.layout.Block(h)
	first, err := s.w.Load(s.c.object, l.table, blk)
	if err != nil {
		return false, err
	}
	words := l.table.Words(first)
	s.slots = s.slots[:0]
	above, stuck := 0, 0
	for _, p := range l.layout.AppendPositions(s.positions[:0], h) {
		was := block.SlotAt(words, block.FamilySlots4, int(p))
		if was == MaxCount {
			continue
		}
		now := uint32(int(was) + by)
		switch {
		case was == 0:
			above++
		case now == 0:
			above--
		case now == MaxCount:
			stuck++
		}
		s.slots = append(s.slots, block.Slot{Index: p, Value: now})
	}
	if len(s.slots) == 0 {
		return false, nil
	}
	s.bump(l, aboveCounter, above)
	s.bump(l, stuckCounter, stuck)
	s.bump(l, sumCounter, by*len(s.slots))
	return true, s.w.SetSlots(s.c.object, l.table, blk, s.slots)
}

// grow stages another layer.
func (s *stager) grow() error {
	if s.c.chain.Params.Expansion == 0 {
		return fmt.Errorf("%w: key %q, made for %d items, and does not grow", scalableext.ErrFull, s.c.object.Key(), s.c.chain.Newest().capacity)
	}
	o, err := s.c.chain.Grow(s.w, s.c.object, nextLayerSpec)
	if err != nil {
		return fmt.Errorf("key %q: %w", s.c.object.Key(), err)
	}
	s.c, err = kv.As[*filter]([]byte(o.Key()), o)
	return err
}

// tally has sums over the counters of a layer or a block.
type tally struct {
	above, stuck uint64 // counters above 0, and at 15
	sum          uint64 // the sum of all counters
}

func (t *tally) add(words []uint64) {
	for _, w := range words {
		for ; w != 0; w >>= probe.CounterBits {
			v := w & MaxCount
			t.sum += v
			if v > 0 {
				t.above++
			}
			if v == MaxCount {
				t.stuck++
			}
		}
	}
}

// verifier compares a filter's counters with the layers' own numbers.
type verifier struct {
	f     *filter
	found map[*kv.Layer]*tally
}

func verify(o *kv.Object) kv.Verifier {
	f, _ := o.Body().(*filter)
	v := &verifier{f: f, found: make(map[*kv.Layer]*tally)}
	for _, l := range o.Layers() {
		v.found[l] = new(tally)
	}
	return v
}

func (v *verifier) Block(l *kv.Layer, _ uint64, words []uint64) error {
	v.found[l].add(words)
	return nil
}

// Done checks exactly that as many counters are above 0, and as many stick, as were counted, and that their sum is
// the one counted. It also compares the sum of the counters that do not stick with the layer's fill. More than k for
// each add comes from deleting items that were never added, and gives a note.
func (v *verifier) Done() (note string, err error) {
	for i := range slices.Backward(v.f.layers) {
		l := &v.f.layers[i]
		found, number := v.found[l.table], l.table.Spec().Number
		counted := tally{l.table.Counter(aboveCounter), l.table.Counter(stuckCounter), l.table.Counter(sumCounter)}
		if *found != counted {
			return "", fmt.Errorf("%w: counting layer %d has %d counters above 0, %d stuck, that sum up to %d: "+
				"counted were %d, %d and %d", kv.ErrCorrupt, number, found.above, found.stuck, found.sum,
				counted.above, counted.stuck, counted.sum)
		}
		fill := l.table.Counter(fillCounter)
		if loose := found.sum - MaxCount*found.stuck; loose > fill*uint64(l.layout.Hashes) {
			note = fmt.Sprintf("counting layer %d: counters sum up to %d, %d adds of %d hashes "+
				"(items were deleted that had not been added)", number, loose, fill, l.layout.Hashes)
		}
	}
	return note, nil
}
