package bloomext

import (
	"cmp"
	"slices"

	"github.com/sievekv/sievekv/internal/memory"
	"github.com/sievekv/sievekv/internal/probe"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/scalableext"
)

// Filter is a handle on the Bloom filter under a key. It holds no resources, and follows the key: if the key is
// deleted, renamed or replaced, the next use of the handle sees what is there then. A missing or expired key is
// kv.ErrNotFound, a key of another type kv.ErrWrongType.
type Filter struct {
	h     *handle
	level kv.Durability
}

type handle = scalableext.Handle[filter]

// noFilter is the filter of a new handle.
var noFilter = &filter{object: kv.EndedObject()}

// New returns a handle on a key. It reads nothing: the filter may be made later.
func New(db *kv.DB, key string) *Filter {
	return &Filter{h: scalableext.NewHandle(db, []byte(key), nil, noFilter)}
}

// With returns a handle on the same filter that writes at another level of durability, see sievekv.Bloom.
func (f *Filter) With(level kv.Durability) *Filter { return &Filter{h: f.h, level: level} }

// In returns a handle on the same key in a transaction or snapshot. If that is nil or of another store, every use is an error.
func (f *Filter) In(s kv.Scope) *Filter {
	return &Filter{h: f.h.In(s, noFilter), level: f.level}
}

// Reserve makes an empty filter, see sievekv.Bloom.
func (f *Filter) Reserve(c Config) error { return f.h.Reserve(f.level, c.spec) }

// ReserveStaged is Reserve in a commit of w, which must have been begun with the key.
func (f *Filter) ReserveStaged(w *kv.Writer, c Config) error { return f.h.ReserveStaged(w, c.spec) }

// OpenOrReserve makes a missing filter, or compares, see sievekv.Bloom.
func (f *Filter) OpenOrReserve(c Config) error { return f.h.OpenOrReserve(f.level, c.spec, c.mismatch) }

// Drop removes the whole filter, see sievekv.Bloom.
func (f *Filter) Drop() (bool, error) { return f.h.Drop(f.level) }

// MayContain reports whether the item may have been added: false means that it was not. With an error it is true.
func (f *Filter) MayContain(item []byte) (bool, error) {
	h := f.h
	c := h.Current.Load()
	s := c.object.Memory().Begin()
	if !s.Usable() {
		return lookup(h, item)
	}
	if c.flat {
		return mayContainPair(h, c, s, c.pair(item), item)
	}
	if c.windowed {
		return mayContainRecent(h, c, s, item)
	}
	hash := c.hash.Sum(item)
	if h.DB.Counted(hash) {
		return mayContainCounted(h, c, s, hash, item)
	}
	// The fast path: the block of the newest layer is in memory. It makes no calls except to hash and test, because
	// each call costs as much as two probes.
	blk, rest := c.newest.layout.Block(hash)
	if first := s.Block(c.newest.table, blk); first != nil {
		if c.newest.layout.Test(first, rest, hash) {
			return true, nil
		}
		if len(c.layers) == 1 && s.Valid() {
			return false, nil
		}
	}
	if present, known := c.inMemory(s, hash, c.layers); known {
		return present, nil
	}
	return lookup(h, item)
}

// mayContainCounted is MayContain for a lookup that is counted.
func mayContainCounted(h *handle, c *filter, s memory.Section, hash uint64, item []byte) (bool, error) {
	if present, known := c.seen(h.DB, s, hash, c.layers); known {
		h.CountInMemory(c.object, present)
		return present, nil
	}
	return lookup(h, item)
}

// residentSeries answers calls from resident blocks, up to the first that they do not decide, and returns how many it
// answered. With known, it also stops at the first item that is absent, and answers 0 for those before it: they are not
// new. It does for each item what MayContain does, but loads the memory of all first.
func (f *Filter) residentSeries(calls *module.Series, known bool) (n int) {
	h := f.h
	c := h.Current.Load()
	var hashes [module.MaxSeries]uint64
	if c == noFilter {
		return 0
	}
	if !c.flat {
		for i := range calls.Len() {
			hashes[i] = c.hash.Sum(calls.Args(i)[1])
		}
		c.touchMemory(hashes[:calls.Len()])
	}
	for ; n < calls.Len(); n++ {
		s := c.object.Memory().Begin()
		if !s.Usable() {
			return n
		}
		var present, decided bool
		if c.flat {
			present, decided = c.seenPair(h.DB, s, c.pair(calls.Args(n)[1]))
		} else if known && c.grown() {
			present, decided = c.noted(h.DB, s, hashes[n])
		} else {
			present, decided = c.seen(h.DB, s, hashes[n], c.asked(s, known))
		}
		if !decided || known && !(present && s.Valid()) { // see add
			return n
		}
		calls.Replies[n] = reply.Bool(present && !known)
	}
	return n
}

// mayContainPair is MayContain for a filter that was found, with another layout than the native one.
func mayContainPair(h *handle, c *filter, s memory.Section, p pair, item []byte) (bool, error) {
	if present, known := c.seenPair(h.DB, s, p); known {
		if h.DB.Counted(p.a) {
			h.CountInMemory(c.object, present)
		}
		return present, nil
	}
	return lookup(h, item)
}

// Add adds an item, and reports whether it is new. false means that it may have been added before: at the
// false-positive rate a new item seems known, and then Add changes nothing. If a new item has no room, the error is
// ErrFull or wraps ErrCannotGrow.
func (f *Filter) Add(item []byte) (bool, error) { return f.add(item, nil) }

// add is Add, but makes a missing filter as spec says.
func (f *Filter) add(item []byte, spec scalableext.Spec) (bool, error) {
	h := f.h
	c := h.Current.Load()
	if s := c.object.Memory().Begin(); s.Usable() {
		present, known, hash := c.has(h.DB, s, item)
		if present && s.Valid() { // else the bits may be those of the key that it was renamed to
			h.CountKnown(c.object, hash)
			return false, h.DB.Acknowledge(c.object, f.level)
		}
		if !known { // blocks are read into memory before the key is locked, so that other adds need not wait meanwhile
			_, _, _ = read(h, item) // an error comes again below
		}
	}
	return f.stage(item, spec)
}

// has looks for an item that is to be added in resident blocks, and returns a hash of it.
func (f *filter) has(db *kv.DB, s memory.Section, item []byte) (present, known bool, hash uint64) {
	if f.flat {
		p := f.pair(item)
		present, known = f.seenPair(db, s, p)
		return present, known, p.a
	}
	if hash = f.hash.Sum(item); f.grown() {
		present, known = f.noted(db, s, hash)
	} else {
		present, known = f.seen(db, s, hash, f.asked(s, true))
	}
	return present, known, hash
}

// seen is inMemory, and counts the lookup for the cache.
func (f *filter) seen(db *kv.DB, s memory.Section, hash uint64, layers []layer) (present, known bool) {
	if db.Sampled(hash) {
		f.touch(db, hash)
	}
	return f.inMemory(s, hash, layers)
}

// seenPair is seen for the layouts other than the native one.
func (f *filter) seenPair(db *kv.DB, s memory.Section, p pair) (present, known bool) {
	if db.Sampled(p.a) {
		f.touchPair(db, p)
	}
	return f.pairInMemory(s, p)
}

// touch counts a lookup for the cache.
func (f *filter) touch(db *kv.DB, hash uint64) {
	for i := range f.layers {
		l := &f.layers[i]
		blk, _ := l.layout.Block(hash)
		db.Touch(f.object, l.table, blk)
	}
}

// lookup is the slow path: a block is not resident, or the key must be resolved again.
func lookup(h *handle, item []byte) (bool, error) {
	present, c, err := read(h, item)
	if err != nil {
		return true, err
	}
	h.CountRead(c.object, present)
	return present, nil
}

// read is lookup without a count. It also returns the filter.
func read(h *handle, item []byte) (present bool, found *filter, err error) {
	err = h.Look(func(r kv.Reader, c *filter) (err error) {
		found = c
		present, err = c.look(r, item)
		return err
	})
	return present, found, err
}

// look answers from resident blocks where it can, and reads the others.
func (f *filter) look(r kv.Reader, item []byte) (bool, error) {
	if f.flat {
		return f.loadPair(r, f.pair(item))
	}
	return f.load(r, f.hash.Sum(item), nil)
}

// loaded is a block that a lookup of many items has read.
type loaded struct {
	blk   uint64
	first *kv.Line
}

// load answers from resident blocks where it can, and reads the others. kept, if not nil, has for each layer the
// block of the previous item, so that load need not read it again even if the cache has dropped it.
func (f *filter) load(r kv.Reader, hash uint64, kept []loaded) (bool, error) {
	for i := range f.layers[:f.alive(r.Now())] {
		l := &f.layers[i]
		blk, rest := l.layout.Block(hash)
		var first *kv.Line
		if kept != nil && kept[i].first != nil && kept[i].blk == blk {
			first = kept[i].first
		} else {
			var err error
			if first, err = r.Load(f.object, l.table, blk); err != nil {
				return true, err
			}
			if kept != nil {
				kept[i] = loaded{blk, first}
			}
		}
		if l.layout.Test(first, rest, hash) {
			return true, nil
		}
	}
	return false, nil
}

func (f *Filter) stage(item []byte, spec scalableext.Spec) (bool, error) {
	var logged *filter
	var hash uint64
	added, err := f.h.Change(f.level, spec, func(w *kv.Writer, c *filter) (added bool, err error) {
		defer func() {
			if err == nil {
				c.object.Uses().Add(added)
			}
		}()
		s := stager{w: w, c: c}
		if c.flat {
			return s.addPair(c.pair(item))
		}
		hash = c.hash.Sum(item)
		switch {
		case c.windowed:
			return s.addRecent(hash)
		case !c.grown():
			return s.add(hash)
		}
		if added, err = s.addLogged(hash); s.c == c && c.chain.Log != nil {
			logged = c // the filter that other adds find: its log goes on
		}
		return added, err
	})
	if err == nil && logged != nil && f.h.Tx == nil && (!added || logged.sure.made()) {
		logged.sure.add(hash, logged.capacity())
	}
	if added || logged != nil {
		f.Added(1)
	}
	return added, err
}

// What items take of a commit at most: bytes for each block that they change, and for each bit that they set.
const (
	blockBytes  = 256 + 32
	bitBytes    = 2
	callerBytes = 4   // for what the caller stages of an item
	logBytes    = 9   // for its hash in the log, with a part of the operand
	logTxBytes  = 160 // in a transaction
)

// group is the number of lookups that wait for memory at the same time.
const group = 64

// AddMany adds items, and sets added[i] to whether items[i] is new; a repeated item is new once. It returns how many
// are new. added may be nil; otherwise it must be as long as items. Up to 65,536 items are one commit, fewer if so
// many do not fit (BatchSize); more items are several commits. An error is an *scalableext.ItemError for the first
// item that was not added: all items before it were added, and none after it. After kv.ErrFailed the outcome of that
// item and of up to 65,535 after it is unknown.
func (f *Filter) AddMany(items [][]byte, added []bool) (n int, err error) {
	defer func() {
		if n > 0 || err == nil { // otherwise this may be part of another commit, and nothing may wait here
			f.Added(n)
		}
	}()
	return scalableext.EachBatch(items, added, manyItems, func(items [][]byte, added []bool) (int, error) {
		f.adding(len(items))
		return f.h.WriteItems(f.level, func(w *kv.Writer) (int, error) { return addBatch(f, w, items, added) })
	})
}

// addBatch stages as many of the items, from the first on, as surely fit into the commit, at least one. It returns their number.
func addBatch(f *Filter, w *kv.Writer, items [][]byte, added []bool) (n int, err error) {
	defer func() { f.h.CountStaged(w, added, n, err) }()
	c, err := f.h.Staged(w)
	if err != nil {
		return 0, err
	}
	if c.flat {
		return stageFitting(f.h, w, items, added, 1)
	}
	size, err := f.BatchSize(w)
	if err != nil {
		return 0, err
	}
	size = min(max(size, 1), len(items))
	return stageMany(f.h, w, items[:size], added[:size])
}

// manyItems is the most items in one commit of AddMany: other writers of the filter wait for it. maxBatch is the most
// that BatchSize returns.
const (
	manyItems = 1 << 16
	maxBatch  = 1 << 18
)

// BatchSize returns how many items, 0 to 262,144, AddStaged can surely add to what a writer has staged, so that all
// fit into its commit (kv.DB.MaxCommit).
func (f *Filter) BatchSize(w *kv.Writer) (int, error) {
	c, err := f.h.Staged(w)
	if f.h.Tx != nil { // room is not measured at each change of a transaction
		perItem := blockBytes + bitBytes*probe.MaxHashes
		switch {
		case err != nil:
		case c.flat:
			return c.fewItems(f.h.BatchSize(c.mostPerItem())), nil
		case c.grown():
			perItem += logTxBytes
		}
		return f.h.BatchSize(perItem), nil
	}
	if err != nil {
		return 0, err
	}
	s, newest := stager{w: w, c: c}, c.chain.Newest()
	if c.flat {
		return s.pairsFor(max(0, f.h.Room(w))), nil
	}
	room := max(0, f.h.Room(w))
	perItem := w.ItemBytes(&newest.layout) + callerBytes
	mostPerItem := blockBytes + bitBytes*probe.MaxHashes
	if c.grown() {
		perItem, mostPerItem = perItem+logBytes, mostPerItem+logBytes
	}
	size := room / mostPerItem // whatever block each item is in, and of what layer
	if c.windowed {            // the newest layer may be another one when the items are staged
		return min(size, maxBatch), nil
	}
	if blocks := blockBytes * newest.layout.Blocks; blocks < uint64(room) {
		size = max(size, s.room(min(maxBatch, (room-int(blocks))/perItem)))
	}
	return min(size, maxBatch), nil
}

// AddStaged adds items as part of a writer's commit, and sets added[i] as AddMany does. The writer must have been
// begun with the filter's key. If an item has no room, n is the number of items before it; later items are not staged
// and their answers are false.
func (f *Filter) AddStaged(w *kv.Writer, items [][]byte, added []bool) (n int, err error) {
	if err := scalableext.SameLength(len(items), added); err != nil {
		return 0, err
	}
	defer func() { f.h.CountStaged(w, added, n, err) }()
	return stageMany(f.h, w, items, added)
}

// AddFitting adds the longest prefix of items that fits into the commit, and at least `least` of them, as AddStaged does.
// Without an error, n is their number. Items that the filter has take little of the commit, so n may be much
// larger than BatchSize.
func (f *Filter) AddFitting(w *kv.Writer, items [][]byte, added []bool, least int) (n int, err error) {
	if err := scalableext.SameLength(len(items), added); err != nil {
		return 0, err
	}
	defer func() { f.h.CountStaged(w, added, n, err) }()
	size, err := f.BatchSize(w)
	if err != nil {
		return 0, err
	}
	s := stager{w: w}
	if s.c, err = f.h.Staged(w); err != nil {
		return 0, err
	}
	clear(added)
	if s.c.flat {
		return stageFitting(f.h, w, items, added, least)
	}
	if size = min(max(size, least), len(items)); size == len(items) || s.c.windowed || s.room(size) == size {
		return stageMany(f.h, w, items[:size], added[:size])
	}
	// The newest layer is almost full, and the filter may have most of the items. Half of the room is for these.
	known := callerBytes
	if s.c.chain.Log != nil { // which may need known items, too
		known += logBytes
	}
	items = items[:min(max(least, size*blockBytes/(2*known)), len(items))]
	hashes := scalableext.Hashes(items, s.c.hash)
	if err := widen(&s, hashes); err != nil {
		return 0, err
	}
	absent, err := s.absent(scalableext.Sorted(hashes, s.c.block), 0)
	if err != nil {
		return 0, err
	}
	slices.SortFunc(absent, func(a, b scalableext.BatchItem) int { return cmp.Compare(a.I, b.I) })
	end := len(items)
	if size = max(least, size-known*len(items)/blockBytes); size < len(absent) {
		absent, end = absent[:size], absent[size].I
	}
	part, answers := make([]uint64, len(absent)), make([]bool, len(absent))
	for i, item := range absent {
		part[i] = item.Hash
	}
	n, err = stageAll(f.h, &s, part, answers)
	for i, item := range absent {
		added[item.I] = answers[i]
	}
	if n < len(absent) {
		end = absent[n].I
	}
	return logStaged(&s, hashes[:end], added[:end], err)
}

// few is the number of items below which it is not worth sorting them.
const few = 32

// stageMany stages items. Those for which the newest layer has room are staged in the order of their blocks, so that
// each block is looked at once: few items only if they are all that is left. Of the others, those that the filter has
// are found in this order, too. The rest are staged one by one, because their order decides which have room.
func stageMany(h *handle, w *kv.Writer, items [][]byte, added []bool) (int, error) {
	c, err := h.Staged(w)
	if err != nil {
		return 0, err
	}
	clear(added)
	if c.flat {
		return stagePairs(h, &stager{w: w, c: c}, items, added, nil)
	}
	s := stager{w: w, c: c}
	hashes := scalableext.Hashes(items, c.hash)
	if c.windowed {
		return stageRecent(h, &s, hashes, added)
	}
	if err := widen(&s, hashes); err != nil {
		return 0, err
	}
	n, err := stageAll(h, &s, hashes, added)
	return logStaged(&s, hashes[:n], added[:n], err)
}

// stageAll is stageMany for a filter with the native layout, without its log.
func stageAll(h *handle, s *stager, hashes []uint64, added []bool) (int, error) {
	for done, known := 0, few; done < len(hashes); {
		if n := s.room(len(hashes) - done); n >= few || n == len(hashes)-done && n > 1 {
			batch := scalableext.Sorted(hashes[done:][:n], s.c.block)
			if err := s.addAll(h, batch, added[done:]); err != nil {
				return done, err
			}
			done, known = done+n, few
			continue
		}
		n := min(known, len(hashes)-done)
		if s.c.grown() { // the layer that is added has room for all that are new
			n = len(hashes) - done
		}
		batch := scalableext.Sorted(hashes[done:][:n], s.c.block)
		n, err := s.addFull(h, batch, added[done:])
		if done += n; err != nil {
			return done, err
		}
		known *= 2 // until the filter grows; then what was found out of the items after that is in vain
	}
	return len(hashes), nil
}

// block returns the item's block of the newest layer.
func (f *filter) block(hash uint64) uint64 {
	blk, _ := f.layers[0].layout.Block(hash)
	return blk
}

// MayContainMany sets present[i] to whether items[i] may have been added. present must be as long as items. All
// answers are for the same filter, even if the key is deleted, renamed or replaced meanwhile. With an error all are
// true.
func (f *Filter) MayContainMany(items [][]byte, present []bool) error {
	return f.h.MayContainMany(len(items), present, func(r kv.Reader, c *filter) error {
		return askMany(f.h, c, r, items, present)
	})
}

// askMany answers groups of items from resident blocks. Before it looks at the first item of a group, it starts to
// load the memory of all. Then it reads each missing block once, in the order in which they are stored.
func askMany(h *handle, c *filter, r kv.Reader, items [][]byte, present []bool) error {
	if c.flat {
		return askPairs(h, c, r, items, present)
	}
	var cold []scalableext.BatchItem
	var hashes [group]uint64
	s := c.object.Memory().Begin()
	usable := h.Tx == nil && s.Usable() // memory lacks what the transaction has staged
	alive := c.layers[:c.alive(r.Now())]
	for start := 0; start < len(items); start += group {
		if err := h.GivenUp(start); err != nil {
			return err
		}
		part := items[start:min(start+group, len(items))]
		for i, item := range part {
			hashes[i] = c.hash.Sum(item)
		}
		if usable && h.DB.Sampled(hashes[0]) {
			c.touch(h.DB, hashes[0])
		}
		if usable {
			c.touchMemory(hashes[:len(part)])
		}
		for i := range part {
			answer, known := false, false
			if usable {
				answer, known = c.inMemory(s, hashes[i], alive)
			}
			present[start+i] = answer
			if !known && !answer {
				cold = append(cold, scalableext.BatchItem{Hash: hashes[i], Block: c.block(hashes[i]), I: start + i})
			}
		}
	}
	if len(cold) == 0 {
		return nil
	}
	kept := make([]loaded, len(c.layers))
	return scalableext.LoadMany(h, cold, present, func(hash uint64) (bool, error) { return c.load(r, hash, kept) })
}

// touchMemory loads a word of each item's line in the newest layer, so that the processor waits for all of them at
// the same time.
func (f *filter) touchMemory(hashes []uint64) {
	l := &f.layers[0]
	var sum uint64
	for _, hash := range hashes {
		blk, rest := l.layout.Block(hash)
		if first := l.table.InMemory(blk); first != nil {
			sum += l.layout.Touch(first, rest)
		}
	}
	keepAlive(sum)
}

// keepAlive makes the compiler believe that a value is used.
//
//go:noinline
func keepAlive(uint64) {}
