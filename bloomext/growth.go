package bloomext

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sync/atomic"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/memory"
	"github.com/sievekv/sievekv/internal/probe"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// A filter that grows from a log of its items: see scalableext.Log for how. Layers has neither the log nor the layer that is
// being filled.

// grown reports whether the filter grows from a log, or did until the log was dropped.
func (f *filter) grown() bool { return f.chain.Params.Growth == scalableext.Logged }

// covered returns the number of layers, newest first, that the log covers, 0 if there is none.
func (f *filter) covered() int {
	if f.chain.Log == nil {
		return 0
	}
	return len(f.layers) - f.chain.Base
}

// sure remembers hashes that need not be logged again: they were added to the log since the filter was opened, or a
// layer that the log does not cover has them. Each hash has one place in it.
type sure struct {
	hashes atomic.Pointer[[]atomic.Uint64] // made when the first is added; its length is a power of two
}

// The number of hashes that a filter remembers: two for each item that it is made for, in these bounds.
const (
	leastSure = 64
	mostSure  = 4096
)

func (s *sure) has(h uint64) bool {
	hashes := s.hashes.Load()
	return hashes != nil && h != 0 && (*hashes)[h&uint64(len(*hashes)-1)].Load() == h
}

// add remembers a hash of a filter for the given number of items. The commit that added the hash to the log must have
// been applied.
func (s *sure) add(h, capacity uint64) {
	hashes := s.hashes.Load()
	if hashes == nil {
		made := make([]atomic.Uint64, 1<<bits.Len64(min(max(2*capacity, leastSure), mostSure)-1))
		s.hashes.CompareAndSwap(nil, &made)
		hashes = s.hashes.Load()
	}
	(*hashes)[h&uint64(len(*hashes)-1)].Store(h)
}

// capacity returns the number of items that the layers were made for.
func (f *filter) capacity() (sum uint64) {
	for i := range f.layers {
		sum += f.layers[i].capacity
	}
	return sum
}

// logging returns the filter that is open under the key if it has a log, otherwise nil.
func (f *Filter) logging() *filter {
	if f.h.Tx != nil {
		return nil
	}
	if o := f.h.DB.Opened(f.h.Key); o != nil {
		if c, ok := o.Body().(*filter); ok && c.chain.Log != nil {
			return c
		}
	}
	return nil
}

// made reports whether a hash was added. As long as no item comes again, hashes are not remembered.
func (s *sure) made() bool { return s.hashes.Load() != nil }

// remember notes that the log of a filter has a hash, or need not have it. Before is what logging returned before the
// commit: if logging still returns it, the hash was added to that filter and to its log.
func (f *Filter) remember(before *filter, h uint64) {
	if before == f.logging() {
		before.sure.add(h, before.capacity())
	}
}

// noted is seen for an add: known means that the answer is sure, and present that the filter has the item and its hash
// need not be logged again.
func (f *filter) noted(db *kv.DB, s memory.Section, h uint64) (present, known bool) {
	n := f.covered()
	if present, known = f.seen(db, s, h, f.layers); !present || n == 0 || f.sure.has(h) {
		return present, known
	}
	present, _ = f.inMemory(s, h, f.layers[n:])
	return present, true
}

// addLogged is add for a filter that grows from a log.
func (s *stager) addLogged(h uint64) (bool, error) {
	if err := widen(s, []uint64{h}); err != nil {
		return false, err
	}
	added, err := s.add(h)
	if err != nil {
		return false, err
	}
	return added, s.log([]uint64{h}, []bool{added})
}

// logStaged appends the hashes of staged items to the log, if there is one. It returns the number of items, and staged,
// the error of staging the items behind them, which may have had no room. The log may have begun or ended while items
// were staged: the earlier items are then in layers that the log does not cover, or need no log.
func logStaged(s *stager, hashes []uint64, added []bool, staged error) (int, error) {
	if err := s.log(hashes, added); err != nil {
		return 0, err
	}
	return len(hashes), staged
}

// log appends the hashes of staged items to the log. It leaves out an item that was not new if the log surely has it.
func (s *stager) log(hashes []uint64, added []bool) error {
	f := s.c
	if f.chain.Log == nil {
		return nil
	}
	missing, err := s.unlogged(hashes, added)
	if err != nil || len(missing) == 0 {
		return err
	}
	length := s.w.Counter(f.chain.Log, scalableext.LogLengthCounter)
	if !f.chain.Params.Log.LogRoom(length, uint64(len(missing)), s.items(f.covered())) {
		return s.endLog()
	}
	if f.chain.Filling == nil && f.chain.Params.Log.Long(length+uint64(len(missing)), s.items(f.covered())) {
		s.w.DB().QueueCompact([]byte(f.object.Key()))
	}
	s.w.SetCounter(f.chain.Log, scalableext.LogLengthCounter, length+uint64(len(missing)))
	return s.w.AddWords(f.object, f.chain.Log, length, missing)
}

// unlogged returns the hashes that the log needs.
func (s *stager) unlogged(hashes []uint64, added []bool) ([]uint64, error) {
	f := s.c
	missing := make([]uint64, 0, len(hashes))
	var again map[uint64]bool // those that are not new
	for i, h := range hashes {
		if !added[i] || s.begun {
			if f.sure.has(h) || again[h] {
				continue
			}
			if again == nil {
				again = make(map[uint64]bool)
			}
			again[h] = true
			found, err := s.baseHas(h)
			if err != nil {
				return nil, err
			}
			if found {
				continue
			}
		}
		missing = append(missing, h)
	}
	return missing, nil
}

// baseHas reports whether a layer that the log does not cover has an item.
func (s *stager) baseHas(h uint64) (bool, error) {
	found := [1]bool{}
	for i := s.c.covered(); i < len(s.c.layers) && !found[0]; i++ {
		l := &s.c.layers[i]
		if err := s.w.HasItems(s.c.object, l.table, &l.layout, []uint64{h}, found[:]); err != nil {
			return false, err
		}
	}
	return found[0], nil
}

// items returns the number of items in the n newest layers, with what is staged.
func (s *stager) items(n int) (sum uint64) {
	for i := range s.c.layers[:n] {
		sum += s.w.Counter(s.c.layers[i].table, itemsCounter)
	}
	return sum
}

// rates returns the rates of the layers that the log does not cover, or of all.
func (f *filter) rates(all bool) (rates []float64) {
	from := f.covered()
	if all {
		from = 0
	}
	for i := range f.layers[from:] {
		rates = append(rates, f.layers[from+i].rate)
	}
	return rates
}

// growLogged stages a layer that takes adds and, if no layer is being filled, one that is filled from the log. Both
// have room for all that addFull will add, unless the filter would be too large then.
func (s *stager) growLogged() error {
	ahead, logged := s.newAhead(), uint64(0)
	if log := s.c.chain.Log; log != nil {
		logged = s.w.Counter(log, scalableext.LogLengthCounter)
	}
	err := s.growFor(ahead)
	if errors.Is(err, kv.ErrTooLarge) {
		err = s.growFor(0)
	}
	if err == nil {
		s.c.before = logged
	}
	return err
}

// growFor is growLogged with room for ahead items of the same commit.
func (s *stager) growFor(ahead uint64) error {
	f, p := s.c, s.c.chain.Params
	keep := all
	if log := f.chain.Log; log != nil && f.chain.Filling == nil && !p.Log.LastsFor(s.w.Counter(log, scalableext.LogLengthCounter), s.items(f.covered())) {
		p.Log = scalableext.Log{}
		keep = func(l *kv.Layer) bool { return l != log }
	}
	capacity, rate, err := p.SmallLayer(f.rates(true), s.items(len(f.layers)), ahead, f.covered())
	if err != nil {
		return fmt.Errorf("key %q: %w", f.object.Key(), err)
	}
	old, tooSmall := f.chain.Filling, false
	if old != nil { // it must have room for the items that the next layer takes
		room := old.capacity - min(old.capacity, s.items(f.covered()))
		room -= room / 16 // for items that seem known, whose hashes are filled in, too
		if tooSmall = room < max(ahead, capacity/2); !tooSmall {
			capacity = min(capacity, room)
		}
	}
	small, err := layerSpec(capacity, rate)
	if err != nil {
		return fmt.Errorf("%w: key %q: %w", scalableext.ErrCannotGrow, f.object.Key(), err)
	}
	added := []kv.LayerSpec{small}
	switch {
	case p.Log.Limit == 0 || old != nil && !tooSmall:
	case f.chain.Log == nil:
		p.Log.Limit = min(p.Log.Limit, uint64(mostLog(s.w.DB()))) // which may be less than when the filter was made
		s.begun, added = true, []kv.LayerSpec{p.LogSpec(), small}
	default:
		var gone []*kv.Layer
		if old != nil {
			gone = append(gone, old.table)
		}
		if err := s.beginFilling(s.items(f.covered())+ahead, gone, small); !errors.Is(err, kv.ErrTooLarge) {
			return err
		}
	}
	return s.replaceLayers(p, keep, added...)
}

// widen makes room for items if the newest layer is a small one that this writer has made, or the last small one
// allowed: a larger layer takes its place, if the commit has room for it. So the items that a transaction adds, or many
// commands in one commit, are in one small layer, and lookups ask at most scalableext.MostAsked layers. The log must
// have all items that were staged before.
func widen(s *stager, hashes []uint64) error {
	f := s.c
	if f.chain.Log == nil || len(f.layers) == 1 || s.room(len(hashes)) == len(hashes) {
		return nil
	}
	if !s.w.Made(f.newest.table) && len(f.layers) < scalableext.MostAsked {
		return nil
	}
	absent, err := s.absent(scalableext.Sorted(hashes, f.block), 0)
	if err != nil {
		return err
	}
	if n := len(absent); s.room(n) < n {
		return s.replaceNewest(uint64(n))
	}
	return nil
}

// smallFrom returns a position in the log behind which all hashes of the newest layer are.
func (s *stager) smallFrom() uint64 {
	f, log := s.c, s.c.chain.Log
	if f.before > 0 {
		return f.before
	}
	if oldest := &f.layers[len(f.layers)-1]; f.chain.Base == 0 {
		return min(s.w.Counter(oldest.table, scalableext.FilledCounter), s.w.Counter(log, scalableext.LogLengthCounter))
	}
	return 0
}

// replaceNewest stages a larger layer in place of the newest one, with room for n more items. It does nothing if the
// commit or the filter has no room for that layer: then the filter grows by another layer.
func (s *stager) replaceNewest(n uint64) error {
	f, log := s.c, s.c.chain.Log
	if f.newest.table.Counter(itemsCounter)*callerBytes > uint64(max(0, s.w.Room())) {
		return nil // the items alone are too many: they need not be read
	}
	// Some of these items are in older layers, and some only seemed known in the newest one.
	from := s.smallFrom()
	hashes, err := s.appendLog(nil, from, s.w.Counter(log, scalableext.LogLengthCounter)-from)
	if err != nil {
		return err
	}
	if _, err := s.absent(byBlock(sorted(hashes), &f.newest), 1); err != nil {
		return err
	}
	slices.Sort(s.hashes) // in the order of the blocks of any layer
	items := uint64(len(s.hashes)) + n
	spec, err := layerSpec(min(max(2*f.newest.capacity, items+items/2), probe.MaxCapacity), f.newest.rate)
	if err != nil {
		return nil
	}
	p, err := decodeLayerParams(spec.Params)
	if err != nil {
		return err
	}
	perItem := bitBytes*uint64(p.hashes) + callerBytes
	const others = 2048 // the key, and the counters of new layers
	header := uint64(f.object.Header().LayersSize())
	if spec.Blocks*blockBytes+items*perItem+n*logTxBytes+header+others > uint64(max(0, s.w.Room())) {
		return nil
	}
	gone, more := []*kv.Layer{f.newest.table}, p.capacity-f.newest.capacity // more items may come until the layer is full
	covered, filling := s.items(f.covered()), f.chain.Filling
	err = kv.ErrTooLarge
	if filling != nil && filling.capacity < covered+more {
		err = s.beginFilling(covered+more, append(gone, filling.table), spec)
	}
	if errors.Is(err, kv.ErrTooLarge) {
		err = s.replaceLayers(f.chain.Params, func(l *kv.Layer) bool { return l != f.newest.table }, spec)
	}
	switch {
	case errors.Is(err, kv.ErrTooLarge):
		return nil
	case err != nil:
		return err
	}
	s.c.before = from
	return s.addTo(&s.c.layers[0], s.hashes)
}

// newAhead returns how many different items addFull will add.
func (s *stager) newAhead() uint64 {
	hashes := make([]uint64, len(s.ahead))
	for i, item := range s.ahead {
		hashes[i] = item.Hash
	}
	return uint64(len(sorted(hashes)))
}

// all keeps every layer.
func all(*kv.Layer) bool { return true }

// beginFilling stages a layer that is to be filled from the log, with room for the given number of items and more, and
// then others. It drops the layers in gone.
func (s *stager) beginFilling(items uint64, gone []*kv.Layer, others ...kv.LayerSpec) error {
	f, p := s.c, s.c.chain.Params
	stay, length := s.items(len(f.layers))-s.items(f.covered()), s.w.Counter(f.chain.Log, scalableext.LogLengthCounter)
	capacity, rate := p.FilledLayer(f.rates(false), stay, items, length)
	spec, err := layerSpec(capacity, rate)
	if err != nil { // its rate is too low: the filter grows without it
		return kv.ErrTooLarge
	}
	layers := f.object.Layers()
	p.Log.Filling = layers[len(layers)-1].Spec().Number + 2
	keep := func(l *kv.Layer) bool { return !slices.Contains(gone, l) }
	if err := s.replaceLayers(p, keep, append([]kv.LayerSpec{spec}, others...)...); err != nil {
		return err
	}
	s.w.DB().QueueCompact([]byte(f.object.Key()))
	return nil
}

// endLog stages the removal of the log, and of the layer that is being filled.
func (s *stager) endLog() error {
	f, p := s.c, s.c.chain.Params
	p.Log = scalableext.Log{}
	return s.replaceLayers(p, func(l *kv.Layer) bool {
		return l != f.chain.Log && (f.chain.Filling == nil || l != f.chain.Filling.table)
	})
}

// replaceLayers keeps the layers for which keep is true, drops the rest, appends added, and stores the parameters.
func (s *stager) replaceLayers(p scalableext.Params, keep func(*kv.Layer) bool, added ...kv.LayerSpec) error {
	layers := s.c.object.Layers()
	return s.use(s.w.ReplaceLayers(s.c.object, p.Append(nil), func(i int) bool { return keep(layers[i]) }, added...))
}

// The number of hashes that one commit of Compact puts into the layer that is filled is its budget divided by
// filledBytes, within these bounds.
const (
	leastFilled = 64
	mostFilled  = 1 << 14
	filledBytes = 16 // of the commit for each
)

// An add helps a growth that services have not ended in time.
const (
	helpAt   = 4  // when the newest layer has room for less than this share of its items, or for fewer than the add has added
	helpMost = 64 // commits of one call, unless the next one would make a large layer
)

// Call Added after a commit of AddStaged or AddFitting, with the number of items that the commit has added. It does
// work that services should have done by now. If a layer is being filled, and the layer that takes adds or the log is
// nearly full, Added does a part of the filling, usually all of it. If repeated items have left the log nearly no room,
// Added builds the filter again.
//
// Inside a transaction, Added does so after its commit.
func (f *Filter) Added(n int) {
	if f.h.Tx != nil {
		h := f.h
		h.Tx.AfterCommit(string(h.Key), n, func(n int) { New(h.DB, string(h.Key)).Added(max(2, n)) })
		return
	}
	c := f.now(n > 1) // the commit may have made it grow
	switch {
	case c.chain == nil || c.chain.Log == nil:
		return
	case c.chain.Filling == nil:
		length, items := c.chain.Log.Counter(scalableext.LogLengthCounter), uint64(0)
		for i := range c.layers[:c.covered()] {
			items += c.layers[i].table.Counter(itemsCounter)
		}
		if c.chain.Params.Log.Overdue(length, items) {
			_, _ = f.h.DB.CompactKey(f.h.Key, mostFilled*filledBytes, true) // an error concerns what comes next
		}
		return
	case n == 0:
		return
	}
	ending := c.chain.Params.Log.Ending(c.chain.Log.Counter(scalableext.LogLengthCounter), uint64(n))
	capacity := c.newest.capacity
	room := capacity - min(capacity, c.newest.table.Counter(itemsCounter))
	if room > max(capacity/helpAt, uint64(n)) && !ending {
		return
	}
	// Two small layers exist already, and there must be no third. So this add waits for a filling by another goroutine.
	// If as many items again would need a third, it fills until the filling has ended.
	steps, wait := helpMost, ending
	if len(c.layers) >= scalableext.MostAsked {
		wait = true
		if room < uint64(n) {
			steps = math.MaxInt
		}
	}
	for range steps {
		more, err := f.h.DB.CompactKey(f.h.Key, mostFilled*filledBytes, wait)
		if !more || err != nil { // an error concerns what comes next, not the items that were added
			return
		}
	}
}

// now returns the filter that the handle has seen last or, if it may have changed, the filter that is open under the
// key.
func (f *Filter) now(changed bool) *filter {
	if changed {
		if o := f.h.DB.Opened(f.h.Key); o != nil {
			if c, ok := o.Body().(*filter); ok {
				return c
			}
		}
	}
	return f.h.Current.Load()
}

// Call adding before a commit of n items. If the newest layer may have no room for them, adding ends the filling that
// is under way: the filled layer has room, or the next layer is small again.
func (f *Filter) adding(n int) {
	if f.h.Tx != nil || n < few {
		return
	}
	c := f.now(true)
	if c.chain == nil || c.chain.Filling == nil {
		return
	}
	room := c.newest.capacity - min(c.newest.capacity, c.newest.table.Counter(itemsCounter))
	if room >= uint64(n) {
		return
	}
	for range helpMost + 2*c.chain.Log.Counter(scalableext.LogLengthCounter)/mostFilled {
		// This does not wait: called by mistake in the function of a transaction, it would wait for itself.
		more, err := f.h.DB.CompactKey(f.h.Key, mostFilled*filledBytes, false)
		if !more || err != nil { // an error concerns what comes next, not these items
			return
		}
	}
}

// fill puts some hashes of the log into the layer that is being filled. When that layer has all hashes, it replaces the
// layers that the log covers. See kv.Type.Compact.
func fill(w *kv.Writer, o *kv.Object, f *filter, budget int) (more bool, err error) {
	s := stager{w: w, c: f}
	to, from := f.chain.Filling, f.chain.Log
	done, length := w.Counter(to.table, scalableext.FilledCounter), w.Counter(from, scalableext.LogLengthCounter)
	switch room := s.roomIn(to); {
	case o.Lossy(): // the log may lack items, too
		return false, s.endLog()
	case done > length:
		return false, fmt.Errorf("%w: key %q: %d hashes of a log of %d", kv.ErrCorrupt, o.Key(), done, length)
	case done == 0 && w.Counter(to.table, onesCounter) == 0 && filledAhead(to, length) > 0 && f.left.CompareAndSwap(false, true):
		return true, nil
	case done < length && room == 0:
		err := s.beginFilling(max(to.capacity, s.items(f.covered())), []*kv.Layer{to.table})
		if errors.Is(err, kv.ErrTooLarge) {
			return false, s.endLog()
		}
		return true, err
	case done < length:
		n := min(length-done, room, uint64(min(max(budget/filledBytes, leastFilled), mostFilled)))
		if err := s.fillFrom(done, n); err != nil {
			return false, err
		}
		if done += n; done < length {
			return true, nil
		}
	}
	p := f.chain.Params
	p.Log.Filling = 0
	return false, s.replaceLayers(p, func(l *kv.Layer) bool { return l == to.table || l.Spec().Number <= from.Spec().Number })
}

// fillFrom puts n hashes of the log, from the given one on, into the layer that is being filled.
func (s *stager) fillFrom(at, n uint64) error {
	to := s.c.chain.Filling
	hashes, err := s.appendLog(make([]uint64, 0, n), at, n)
	if err != nil {
		return err
	}
	for i, item := range byBlock(hashes, to) {
		s.hashes = append(s.hashes[:i], item.Hash)
	}
	if err := s.addTo(to, s.hashes); err != nil {
		return err
	}
	s.w.SetCounter(to.table, scalableext.FilledCounter, at+n)
	return nil
}

// appendLog appends n hashes of the log, from the given one on.
func (s *stager) appendLog(hashes []uint64, at, n uint64) ([]uint64, error) {
	words := make([]uint64, block.MaxWords)
	for end := at + n; at < end; {
		if err := s.w.ReadBlock(s.c.object, s.c.chain.Log, at/block.MaxWords, words); err != nil {
			return nil, err
		}
		part := words[at%block.MaxWords:]
		part = part[:min(uint64(len(part)), end-at)]
		hashes = append(hashes, part...)
		at += uint64(len(part))
	}
	return hashes, nil
}

// byBlock returns items in the order of their blocks in a layer.
func byBlock(hashes []uint64, l *layer) []scalableext.BatchItem {
	return scalableext.Sorted(hashes, func(h uint64) uint64 { blk, _ := l.layout.Block(h); return blk })
}

// addTo stages hashes, in the order of their blocks, in a layer, which must have room for them.
func (s *stager) addTo(to *layer, hashes []uint64) error {
	s.added = make([]bool, len(hashes))
	items, ones := s.w.Counter(to.table, itemsCounter), s.w.Counter(to.table, onesCounter)
	for len(hashes) > 0 {
		blk, n := to.layout.SameBlock(hashes)
		more, set, err := s.w.SetItems(s.c.object, to.table, &to.layout, blk, hashes[:n], s.added[:n])
		if err != nil {
			return err
		}
		items, ones, hashes = items+uint64(more), ones+uint64(set), hashes[n:]
	}
	s.w.SetCounter(to.table, itemsCounter, items)
	s.w.SetCounter(to.table, onesCounter, ones)
	return nil
}
