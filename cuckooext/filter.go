package cuckooext

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/hash"
	"github.com/sievekv/sievekv/internal/memory"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// cuckooType is the stored type. Its name is RedisBloom's.
var cuckooType = &kv.Type{
	Name: "MBbloomCF", Version: 1, Open: openFilter, BodyBytes: hash.TableBytes, Check: scalableext.Check((*filter).checkCounters), Verify: verify, Compact: compact, Describe: scalableext.Describe((*filter).describe),
}

// errNoMemory is ErrCannotGrow for a filter with the compatible layout whose next layer would be too large.
var errNoMemory = &roomError{scalableext.ErrCannotGrow, func() string { return "too large" }}

// roomError is ErrFull or ErrCannotGrow with the reason. It makes its text only when asked, because making text takes
// ten times as long as finding that there is no room, and a batch keeps only one error.
type roomError struct {
	kind error
	why  func() string
}

func (e *roomError) Error() string { return e.kind.Error() + ": " + e.why() }

func (e *roomError) Unwrap() error { return e.kind }

// filter is the Go value of an open object of the type. It never changes.
type filter struct {
	object *kv.Object
	hash   hash.Function
	g      geometry // of whole blocks
	layers []layer  // newest first
	chain  *scalableext.Chain[layer]

	compatible bool // it has the compatible layout, and of g only the rates count
}

// layer is one filter of fixed size.
type layer struct {
	table         *kv.Layer
	g             *geometry // in the compatible layout nil
	form          blockForm
	blocks        uint64
	buckets       uint64 // in the compatible layout; otherwise 0
	capacity      uint64 // in the compatible layout the number of slots
	bucketSize    int
	maxIterations int
}

func openFilter(o *kv.Object) (any, error) {
	chain, err := scalableext.Open(o, openLayer)
	if err != nil {
		return nil, err
	}
	if err := chain.Params.CheckGrowth(scalableext.Native); err != nil {
		return nil, err
	}
	f := &filter{object: o, hash: chain.Params.Hash, layers: chain.NewestFirst(), chain: chain}
	if f.g, err = newGeometry(o.Family(), f.layers[0].bucketSize); err != nil {
		return nil, fmt.Errorf("%w: %w", kv.ErrCorrupt, err)
	}
	if f.compatible = f.layers[0].buckets > 0; f.compatible {
		return f, f.checkCompatible()
	}
	f.g = f.g.forParams(chain.Params)
	return f, f.setGeometries()
}

// checkCompatible checks that the layers belong to a filter with the compatible layout.
func (f *filter) checkCompatible() error {
	expansion := f.chain.Params.Expansion
	for i := range f.layers[1:] {
		if newer, l := &f.layers[i], &f.layers[i+1]; !newer.follows(l, expansion) {
			return fmt.Errorf("%w: compatible cuckoo layer of %d buckets of %d after one of %d buckets of %d, with expansion %d",
				kv.ErrCorrupt, newer.buckets, newer.bucketSize, l.buckets, l.bucketSize, expansion)
		}
	}
	return nil
}

// setGeometries sets the geometry of each layer, and checks that each may come after the older one. A short block may only be
// the oldest layer.
func (f *filter) setGeometries() error {
	for i := range f.layers {
		l := &f.layers[i]
		g, ok := f.g.formed(l.form, int(l.table.Spec().Lines))
		l.g = &g
		if !ok || l.buckets > 0 || l.bucketSize != int(g.bucketSize) ||
			l.form == shortBlock && (l.blocks != 1 || i != len(f.layers)-1) || i > 0 && !f.layers[i-1].nestedIn(l) {
			return fmt.Errorf("%w: cuckoo layer %d of %d blocks of %d lines and bucket size %d, version %d, with fingerprints of %d bits, the newest bucket size %d",
				kv.ErrCorrupt, l.table.Spec().Number, l.blocks, l.table.Spec().Lines, l.bucketSize, l.form, f.g.width, f.g.bucketSize)
		}
		if i > 0 && !f.layers[i-1].grownFrom(l, f.chain.Params.Expansion) {
			return fmt.Errorf("%w: cuckoo layer of %d blocks after one of %d, with expansion %d",
				kv.ErrCorrupt, f.layers[i-1].blocks, l.blocks, f.chain.Params.Expansion)
		}
	}
	return nil
}

// nestedIn reports whether items that look alike in the layer look alike in an older one: see blockOf and geometry.place.
func (l *layer) nestedIn(older *layer) bool {
	return l.blocks%older.blocks == 0 && l.g.whole == older.g.whole && l.g.buckets%older.g.buckets == 0
}

// grownFrom reports whether the layer has no more blocks than the next layer after an older one gets. A compaction looks at
// every block of the newest layer, so there must not be more than adds have made.
func (l *layer) grownFrom(older *layer, expansion uint32) bool {
	next, err := extent{*older.g, older.blocks}.next(expansion)
	return err == nil && l.blocks <= next.blocks
}

func openLayer(_ scalableext.Params, l *kv.Layer) (layer, error) {
	s := l.Spec()
	if s.Layout != kv.LayoutNative && s.Layout != kv.LayoutCompatible {
		return layer{}, fmt.Errorf("%w: cuckoo layout %d", kv.ErrUnsupportedVersion, s.Layout)
	}
	p, err := decodeLayerParams(s.Params)
	if err != nil {
		return layer{}, err
	}
	if s.Layout == kv.LayoutCompatible {
		return openCompatible(l, p)
	}
	return layer{
		table: l, form: p.form, blocks: s.Blocks, capacity: p.capacity, bucketSize: int(p.bucketSize), maxIterations: int(p.maxIterations),
	}, nil
}

// words returns a block in the form that operations on buckets need.
func (l *layer) words(first *kv.Line) []uint64 { return l.table.Words(first) }

// An answer "present" is not checked: at worst it is one more false positive. A lookup that does not find the item must have seen
// all blocks as they were at one moment: otherwise an entry may have moved within a block, or to another layer.

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
	if f.compatible {
		return f.compatibleInMemory(s, h)
	}
	known = true
	for i := range f.layers {
		l := &f.layers[i]
		p := l.g.place(h, l.blocks)
		switch first := s.Block(l.table, p.blk); {
		case first == nil:
			known = false
		case l.g.mayContain(l.words(first), p):
			return true, true
		}
	}
	return false, known
}

// count returns the number of copies of an item. If enough is 1, it stops at the first layer that has one.
func (f *filter) count(r kv.Reader, h uint64, enough int) (n int, err error) {
	for i := range f.layers {
		l := &f.layers[i]
		copies, err := f.countIn(r, l, h)
		if err != nil {
			return n, err
		}
		if n += copies; n >= enough && enough == 1 {
			return n, nil
		}
	}
	return n, nil
}

// countIn returns the number of copies of an item in a layer.
func (f *filter) countIn(r kv.Reader, l *layer, h uint64) (int, error) {
	if f.compatible {
		return f.copiesIn(r, l, spotOf(h))
	}
	p := l.g.place(h, l.blocks)
	first, err := r.Load(f.object, l.table, p.blk)
	if err != nil {
		return 0, err
	}
	return l.g.count(l.words(first), p), nil
}

// layout returns the layout that a Config asks for.
func (f *filter) layout() scalableext.Layout {
	return scalableext.Layout(f.layers[0].table.Spec().Layout)
}

// Load reports whether an item may be present, and reads the blocks that are not resident.
func (f *filter) Load(r kv.Reader, h uint64) (bool, error) {
	n, err := f.count(r, h, 1)
	return n > 0, err
}

// Copies returns how many copies of an item there seem to be, and reads the blocks that are not resident.
func (f *filter) Copies(r kv.Reader, item []byte) (uint64, error) {
	n, err := f.count(r, f.hash.Sum(item), math.MaxInt)
	return uint64(n), err
}

// Block returns the item's block of the newest layer, or the first of them.
func (f *filter) Block(h uint64) uint64 { return f.layers[0].block(h) }

// block returns the item's block of a layer. In the compatible layout it may have others.
func (l *layer) block(h uint64) uint64 {
	if l.buckets > 0 {
		return l.bucket(h) / blockSlots
	}
	return blockOf(h, l.blocks)
}

// stager changes a filter inside a writer's commit.
type stager struct {
	w        *kv.Writer
	c        *filter // as the writer has left it
	inserter inserter
	slots    []block.Slot
	met      bool // add has seen the item in a layer

	*compatibleStager // nil unless the filter is compatible
}

func newStager(w *kv.Writer, c *filter) *stager {
	s := &stager{w: w, c: c}
	if c.compatible {
		s.compatibleStager = &compatibleStager{room: -1}
	}
	return s
}

func (s *stager) entries(l *layer) uint64 { return s.w.Counter(l.table, entriesCounter) }

// mayContainIn reports whether the item may be in one of the layers, including this writer's changes.
func (s *stager) mayContainIn(layers []layer, h uint64) (bool, error) {
	for i := range layers {
		l := &layers[i]
		if s.c.compatible {
			if n, err := s.c.copiesIn(s.w, l, spotOf(h)); n > 0 || err != nil {
				return n > 0, err
			}
			continue
		}
		p := l.g.place(h, l.blocks)
		first, err := s.w.Load(s.c.object, l.table, p.blk)
		if err != nil {
			return false, err
		}
		if l.g.mayContain(l.words(first), p) {
			return true, nil
		}
	}
	return false, nil
}

// add stages an entry for an item: in the newest layer if it has room, otherwise in an older one, otherwise in a new
// one. The errors are ErrFull and ErrCannotGrow, and errors of reading and growing.
func (s *stager) add(h uint64) error {
	if s.c.compatible {
		return s.addCompatible(h)
	}
	for i := range s.c.layers {
		switch err := s.addTo(&s.c.layers[i], h); {
		case err == nil:
			return nil
		case i == 0 && errors.Is(err, errDuplicates):
			g := s.c.layers[0].g
			key, most := s.c.object.Key(), g.most(g.place(h, s.c.layers[0].blocks))
			return &roomError{scalableext.ErrFull, func() string {
				return fmt.Sprintf("of an item of %q there are %d copies in a layer, as many as there can be", key, most)
			}}
		case !errors.Is(err, errFull) && !errors.Is(err, errDuplicates):
			return err
		}
	}
	if err := s.grow(); err != nil {
		return err
	}
	return s.addTo(&s.c.layers[0], h)
}

// addTo stages an entry in a layer. The errors are errFull, errDuplicates and errors of reading.
func (s *stager) addTo(l *layer, h uint64) error {
	p := l.g.place(h, l.blocks)
	first, err := s.w.Load(s.c.object, l.table, p.blk)
	if err != nil {
		return err
	}
	words := l.words(first)
	if s.entries(l) >= l.capacity {
		n := l.g.count(words, p)
		s.met = s.met || n > 0
		if n >= l.g.most(p) {
			return errDuplicates
		}
		return errFull
	}
	s.met = s.met || l.g.mayContain(words, p)
	if free := l.g.findEmpty(words, p); free >= 0 { // most adds end here, and need no copy of the block
		s.slots = append(s.slots[:0], block.Slot{Index: uint16(free), Value: p.fp})
	} else {
		copied, err := s.w.Slots(s.c.object, l.table, p.blk)
		if err != nil {
			return err
		}
		s.inserter.g = l.g
		if s.slots, err = s.inserter.insert(copied, p, l.maxIterations, s.slots[:0]); err != nil {
			return err
		}
	}
	s.w.SetCounter(l.table, entriesCounter, s.entries(l)+1)
	return s.w.SetSlots(s.c.object, l.table, p.blk, s.slots)
}

// grow stages another layer.
func (s *stager) grow() error {
	newest, p, key := s.c.layers[0], s.c.chain.Params, s.c.object.Key()
	if p.Expansion == 0 {
		entries := s.entries(&newest)
		return &roomError{scalableext.ErrFull, func() string {
			return fmt.Sprintf("%q has %d entries, is made for %d and does not grow", key, entries, newest.capacity)
		}}
	}
	if err := s.mayGrow(); err != nil {
		return err
	}
	if most := s.c.g.layersOf(p); len(s.c.layers) >= most {
		return &roomError{scalableext.ErrCannotGrow, func() string {
			return fmt.Sprintf("%q has %d layers, the most for capacity %d, expansion %d and error rate %.3g",
				key, most, p.Capacity, p.Expansion, p.ErrorRate)
		}}
	}
	next, err := extent{*newest.g, newest.blocks}.next(p.Expansion)
	if err != nil {
		return fmt.Errorf("%w: %q: %w", scalableext.ErrCannotGrow, key, err)
	}
	if next.room() == 0 { // the filter was imported, with a rate that no new one may have
		return &roomError{scalableext.ErrCannotGrow, func() string {
			return fmt.Sprintf("%q has the error rate %.3g, at which a layer of %d blocks has room for no entry", key, p.ErrorRate, next.blocks)
		}}
	}
	return s.growBy(next.spec(newest.maxIterations), scalableext.ErrCannotGrow)
}

// layersError says that a filter has as many layers as the setting allows.
func layersError(key string, n int, most int64) error {
	return &roomError{scalableext.ErrCannotGrow, func() string {
		return fmt.Sprintf("%q has %d layers, the setting %s is %d", key, n, maxLayersSetting, most)
	}}
}

// growBy stages a layer. If the filter would be too large, the error wraps tooLarge.
func (s *stager) growBy(spec kv.LayerSpec, tooLarge error) error {
	o, err := s.w.Grow(s.c.object, spec)
	if errors.Is(err, kv.ErrTooLarge) {
		return fmt.Errorf("%w: %q: %w", tooLarge, s.c.object.Key(), err)
	}
	if err != nil {
		return err
	}
	if s.c, err = kv.As[*filter]([]byte(o.Key()), o); err != nil {
		return err
	}
	return nil
}

// remove stages the deletion of the newest copy of an item, and reports whether there is one. Only deleting the
// newest is safe: see blockOf.
func (s *stager) remove(h uint64) (bool, error) {
	if s.c.compatible {
		return s.removeCompatible(h)
	}
	for i := range s.c.layers {
		l := &s.c.layers[i]
		p := l.g.place(h, l.blocks)
		first, err := s.w.Load(s.c.object, l.table, p.blk)
		if err != nil {
			return false, err
		}
		slot := l.g.find(l.words(first), p)
		if slot < 0 {
			continue
		}
		s.slots = append(s.slots[:0], block.Slot{Index: uint16(slot)})
		s.w.SetCounter(l.table, entriesCounter, s.entries(l)-1)
		s.countDelete()
		return true, s.w.SetSlots(s.c.object, l.table, p.blk, s.slots)
	}
	return false, nil
}

// countDelete counts a deletion, and queues the filter for compaction after many deletions.
func (s *stager) countDelete() {
	oldest := s.c.layers[len(s.c.layers)-1].table
	deletes, items := min(s.w.Counter(oldest, deletesCounter)+1, scalableext.MaxCount), uint64(0)
	s.w.SetCounter(oldest, deletesCounter, deletes)
	if len(s.c.layers) == 1 {
		return
	}
	for i := range s.c.layers {
		items += s.entries(&s.c.layers[i])
	}
	if deletes > items/10 {
		s.w.DB().QueueCompact([]byte(s.c.object.Key()))
	}
}

// layerOf returns a layer, which must be of the filter.
func (f *filter) layerOf(table *kv.Layer) *layer {
	return &f.layers[slices.IndexFunc(f.layers, func(l layer) bool { return l.table == table })]
}

// verifier compares a filter's entries with its counters.
type verifier struct {
	f       *filter
	entries map[*kv.Layer]uint64
}

func verify(o *kv.Object) kv.Verifier {
	f, _ := o.Body().(*filter)
	return &verifier{f: f, entries: make(map[*kv.Layer]uint64)}
}

func (v *verifier) Block(l *kv.Layer, blk uint64, words []uint64) error {
	if v.f.compatible {
		n, err := v.f.occupied(l, blk, words)
		v.entries[l] += n
		return err
	}
	v.entries[l] += uint64(v.f.layerOf(l).g.occupied(words))
	return nil
}

// Done checks exactly that as many slots are taken as were counted, and that no layer has more than its capacity.
func (v *verifier) Done() (note string, err error) {
	for i := range v.f.layers {
		l := &v.f.layers[i]
		entries, counted := v.entries[l.table], l.table.Counter(entriesCounter)
		switch {
		case entries != counted:
			return "", fmt.Errorf("%w: cuckoo layer %d: %d slots are taken, %d were counted", kv.ErrCorrupt, l.table.Spec().Number, entries, counted)
		case entries > l.capacity:
			return "", fmt.Errorf("%w: cuckoo layer %d: %d entries, made for %d", kv.ErrCorrupt, l.table.Spec().Number, entries, l.capacity)
		}
	}
	return "", nil
}
