package bloomext

import (
	"errors"
	"fmt"

	"github.com/sievekv/sievekv/internal/memory"
	"github.com/sievekv/sievekv/internal/probe"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// A windowed filter: see scalableext.Window for how it forgets. Its layers, newest first, are the layers of the newest slice,
// filter.own of them, and then the layers of the older slices. As slices expire in their order, those that have not
// expired are the first ones.

// openSlices checks the slices, and sets own.
func (f *filter) openSlices() error {
	bad := func(why string) error {
		return fmt.Errorf("%w: Bloom filter with a window: %s", kv.ErrCorrupt, why)
	}
	slices, least := 1, int64(1)
	if f.window.Span != 0 {
		least = f.window.Turn()
	}
	for i := range f.layers {
		l := &f.layers[i]
		if i == 0 || l.start == f.layers[i-1].start {
			continue
		}
		if l.start == 0 || f.layers[i-1].start-l.start < least {
			return bad(fmt.Sprintf("slices begin at %d and %d", l.start, f.layers[i-1].start))
		}
		if slices++; slices == 2 {
			f.own = i
		}
	}
	if slices > f.window.Slices+1 || f.window.Last != 0 && f.newest.start == 0 {
		return bad(fmt.Sprintf("%d slices, want at most %d", slices, f.window.Slices+1))
	}
	return nil
}

// alive returns the number of layers that lookups ask, from the newest on, at a time in Unix milliseconds. It is all of
// them unless the filter is windowed.
func (f *filter) alive(now int64) int {
	n := len(f.layers)
	if f.window.Span == 0 {
		return n
	}
	for n > 0 && f.window.Ends(f.layers[n-1].start) <= now {
		n--
	}
	return n
}

// taking returns the number of layers that keep an item long enough if they have it: the layers of the newest slice, none if
// the next add begins another slice.
func (f *filter) taking(now int64) int {
	if f.window.Span != 0 && !f.window.Takes(f.newest.start, now) {
		return 0
	}
	return f.own
}

// asked returns the layers that decide an answer: the layers alive, or taking for the answer of an add.
func (f *filter) asked(s memory.Section, add bool) []layer {
	switch {
	case !f.windowed:
		return f.layers
	case add:
		return f.layers[:f.taking(s.Now())]
	}
	return f.layers[:f.alive(s.Now())]
}

// mayContainRecent is MayContain for a windowed filter that was found.
func mayContainRecent(h *handle, c *filter, s memory.Section, item []byte) (bool, error) {
	hash := c.hash.Sum(item)
	if present, known := c.seen(h.DB, s, hash, c.asked(s, false)); known {
		if h.DB.Counted(hash) {
			h.CountInMemory(c.object, present)
		}
		return present, nil
	}
	return lookup(h, item)
}

// addRecent is add for a windowed filter: an item that only older slices have is written to the newest one, and is not
// new.
func (s *stager) addRecent(h uint64) (bool, error) {
	if err := s.begin(); err != nil {
		return false, err
	}
	older := [1]bool{}
	if err := s.olderHave([]uint64{h}, older[:]); err != nil {
		return false, err
	}
	added, err := s.add(h)
	return added && !older[0], err
}

// stageRecent is stageMany for a windowed filter. With a window of time no slice begins within the commit, so all items are
// added to the newest slice first. Then the older slices are asked for those that it did not have.
func stageRecent(h *handle, s *stager, hashes []uint64, added []bool) (int, error) {
	if s.c.window.Last != 0 {
		for i, itemHash := range hashes {
			err := h.GivenUp(i)
			if err == nil {
				added[i], err = s.addRecent(itemHash)
			}
			if err != nil {
				return i, err
			}
		}
		return len(hashes), nil
	}
	if err := s.begin(); err != nil {
		return 0, err
	}
	n, err := stageAll(h, s, hashes, added)
	newest, at := make([]uint64, 0, n), make([]int, 0, n)
	for _, item := range scalableext.Sorted(hashes[:n], s.c.block) {
		if added[item.I] {
			newest, at = append(newest, item.Hash), append(at, item.I)
		}
	}
	older := make([]bool, len(newest))
	if oerr := s.olderHave(newest, older); oerr != nil {
		return 0, oerr
	}
	for i, found := range older {
		added[at[i]] = !found
	}
	return n, err
}

// olderHave sets found[i] if a slice but the newest has the item with hash hashes[i], and has not expired.
func (s *stager) olderHave(hashes []uint64, found []bool) error {
	f := s.c
	in := make([]bool, len(hashes))
	for i := f.own; i < f.alive(s.w.Now()); i++ {
		l := &f.layers[i]
		if err := s.w.HasItems(f.object, l.table, &l.layout, hashes, in); err != nil {
			return err
		}
		for j, yes := range in {
			found[j] = found[j] || yes
		}
	}
	return nil
}

// begin begins a slice if the newest one takes no more adds by the clock.
func (s *stager) begin() error {
	if s.c.taking(s.w.Now()) > 0 { // always, with Last
		return nil
	}
	return s.turn(max(1, s.w.Now()))
}

// turn stages a new slice, and the removal of those that have expired. start is when it begins, or its number.
func (s *stager) turn(start int64) error {
	f := s.c
	held := uint64(0)
	for i := range f.layers[:f.own] {
		held += s.w.Counter(f.layers[i].table, itemsCounter)
	}
	gone := len(f.layers) - f.alive(s.w.Now())
	if f.window.Last != 0 {
		gone = f.beyond()
	}
	begin := func(held uint64) error {
		spec, err := sliceSpec(f.chain.Params, start, held)
		if err == nil {
			err = s.replace(gone, spec)
		}
		if errors.Is(err, kv.ErrTooLarge) || errors.Is(err, probe.ErrParams) {
			return fmt.Errorf("%w: key %q: %w", scalableext.ErrCannotGrow, f.object.Key(), err)
		}
		return err
	}
	err := begin(held)
	if errors.Is(err, scalableext.ErrCannotGrow) { // with the room of the slice before it; the layers of the others leave too little
		err = begin(0)
	}
	return err
}

// beyond returns the number of layers, with Last, that are to be removed when another slice begins.
func (f *filter) beyond() int {
	return max(0, len(f.layers)-f.window.Slices) // each slice is one layer
}

// growSlice stages another layer for the newest slice or, with Last, another slice.
func (s *stager) growSlice() error {
	f := s.c
	if f.window.Last != 0 {
		return s.turn(f.newest.start + 1)
	}
	capacity, rate, err := f.chain.Params.Of(f.layers[f.own-1].capacity).Layer(f.own)
	if err != nil {
		return fmt.Errorf("key %q: %w", f.object.Key(), err)
	}
	spec, err := startedSpec(capacity, rate, f.newest.start)
	if err == nil {
		err = s.replace(0, spec)
	}
	if errors.Is(err, kv.ErrTooLarge) || errors.Is(err, probe.ErrParams) {
		return fmt.Errorf("%w: key %q: %w", scalableext.ErrCannotGrow, f.object.Key(), err)
	}
	return err
}

// replace stages the removal of the n oldest layers, and another layer.
func (s *stager) replace(n int, spec kv.LayerSpec) error {
	o, err := s.w.Turn(s.c.object, n, spec)
	if err != nil {
		return err
	}
	s.c, err = kv.As[*filter]([]byte(o.Key()), o)
	return err
}

// sliceSpec returns the first layer of a slice that follows one with a number of items.
func sliceSpec(p scalableext.Params, start int64, held uint64) (kv.LayerSpec, error) {
	capacity, rate, err := p.Slice(start, held).Layer(0)
	if err != nil {
		return kv.LayerSpec{}, err
	}
	return startedSpec(capacity, rate, start)
}

// startedSpec returns a layer of a slice.
func startedSpec(capacity uint64, rate float64, start int64) (kv.LayerSpec, error) {
	spec, err := layerSpec(capacity, rate)
	spec.Params = append(scalableext.AppendStart(nil, start), spec.Params...)
	return spec, err
}

// wake is when the oldest slice expires, and at once if a layer is to be filled from the log, see kv.Type.Wake.
func wake(o *kv.Object) int64 {
	f := o.Body().(*filter)
	switch {
	case f.chain.Filling != nil:
		return 1 // at once
	case f.window.Span == 0:
		return 0
	}
	return f.window.Ends(f.layers[len(f.layers)-1].start)
}

// compact is what kv.Type.Compact calls.
func compact(w *kv.Writer, o *kv.Object, budget int) (more bool, err error) {
	f := o.Body().(*filter)
	switch {
	case f.chain.Filling != nil:
		return fill(w, o, f, budget)
	case f.chain.Log != nil:
		return false, shorten(w, o, f)
	}
	return false, forget(w, o, f)
}

// forget stages the removal of the slices that have expired. If all have, one that never began is left.
func forget(w *kv.Writer, o *kv.Object, f *filter) error {
	gone := len(f.layers) - f.alive(w.Now())
	switch {
	case gone == 0 || f.newest.start == 0:
		return nil
	case gone < len(f.layers):
		_, err := w.Turn(o, gone)
		return err
	}
	spec, err := sliceSpec(f.chain.Params, 0, 0)
	if err == nil {
		_, err = w.Turn(o, gone, spec)
	}
	return err
}
