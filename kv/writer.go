package kv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sievekv/sievekv/kv/block"
)

// Writer stages changes, which are committed as one: all of them or none, within one
// Pebble batch. It reads its own changes. DB.Write, Transaction.Write and Call.Write lend
// one to a function, until that returns; it holds the write locks of its keys
// meanwhile, so keep it short. It is for one goroutine.
//
// A Writer touches only the keys it was lent for.
type Writer struct {
	db    *DB
	level Durability
	keys  []uint8 // indices of the key locks held, ascending
	gate  gateHold

	batch *pebble.Batch
	changes
	copied []*slotBlock // blocks of slots there are copies of, and perhaps some more
	spare  [][]uint64   // memory for blocks of slots

	// The last block read from disk: a batch sorted by block reads each once,
	// also when the cache does not keep it.
	lastLayer *Layer
	lastBlk   uint64
	lastFirst *Line

	builds     []uint64 // ids of objects this writer has begun to build
	nest       nesting  // of a transaction's writer
	uses       uint64   // of it, so far
	unmeasured int      // bytes staged since it was last looked whether they fit into a commit
	unsifted   int      // and since it was looked what of them is gone
	tooLarge   error    // they do not fit
	steps      int      // things staged that were looked at in search of one, ever, for tests

	moment int64 // see now; meaningful if timed
	timed  bool

	sequence bool // has to be applied under the sequence lock
	unseen   bool // nothing changes for lookups: what is changed does not exist for them, or only moves
	groups   []groupDelta

	patcher   patcher
	scratch   []byte
	positions []uint16
}

// gateHold is how a writer holds the gate: shared beside its key locks, or
// exclusively, which makes every key its own.
type gateHold uint8

const (
	gateNone gateHold = iota
	gateShared
	gateExclusive
)

// keyView is what a key maps to inside a writer.
type keyView struct {
	key     string
	object  *Object // nil: no live object
	stored  *Object // as the store has it, also if expired
	changed bool    // object is not as the store has it: made, moved here, or removed

	damage error    // stored is a stand-in for an object that cannot be opened
	notes  [][]byte // those of its expiry, which it does not tell
}

// groupDelta is the change of the number of keys of a group.
type groupDelta struct {
	group uint8
	delta int
}

// stagedAttribute is an attribute of an object; a nil value removes it.
type stagedAttribute struct {
	object uint64
	name   string
	value  []byte
}

var writers = sync.Pool{New: func() any { return new(Writer) }}

// Write runs change with a writer to the given keys, and commits what it staged. If
// change returns an error or panics, nothing is written; the error is returned, and the
// panic goes on. Either way the keys' locks are free when Write returns.
//
// Under Always, Write returns when what it wrote is on stable storage, and when
// everything is that its answer was based on: with an error or a panic, too, which may say
// that a key is there, or missing, or full. The errors are change's, or in its place ErrFailed,
// and ErrClosed, ErrNoSpace, ErrBusy, ErrNested and ErrTooLarge: for a key above MaxKeyLen, or for more than a
// commit takes, MaxCommit. After ErrFailed the outcome is unknown; after any other error
// nothing was written.
//
// Change must not write to the store but by the writer: it would wait for itself.
func (db *DB) Write(level Durability, keys [][]byte, change func(*Writer) error) error {
	w, err := db.begin(level, keys...)
	if err != nil {
		return err
	}
	return w.run(change)
}

// run has change stage what is committed then, and ends the writer, however change ends.
func (w *Writer) run(change func(*Writer) error) error {
	returned := false
	defer func() {
		if !returned { // change panicked, or ended its goroutine, which may be an answer as any
			_ = w.refuse(nil)
		}
	}()
	err := change(w)
	returned = true
	if err != nil {
		return w.refuse(err)
	}
	return w.commit()
}

// begin starts a write to the given keys. The writer must be ended by commit, refuse or
// release.
func (db *DB) begin(level Durability, keys ...[]byte) (*Writer, error) {
	if db.inside() {
		return nil, fmt.Errorf("%w: write by the transaction, or by a handle that is bound to it", ErrNested)
	}
	w, err := db.newWriter(level)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		w.keys = append(w.keys, db.keyLockIndex(key))
	}
	slices.Sort(w.keys)
	w.keys = slices.Compact(w.keys)
	for _, i := range w.keys {
		db.keyLocks[i].Lock()
	}
	if err := db.passGate(context.Background(), false); err != nil {
		w.release()
		return nil, err
	}
	w.gate = gateShared
	return w, nil
}

// beginAll starts a write to any keys, alone. Waiting for that ends with the context.
func (db *DB) beginAll(ctx context.Context, level Durability) (*Writer, error) {
	if db.inside() {
		return nil, fmt.Errorf("%w: write by the transaction", ErrNested)
	}
	w, err := db.newWriter(level)
	if err != nil {
		return nil, err
	}
	if err := db.passGate(ctx, true); err != nil {
		w.release()
		return nil, err
	}
	w.gate = gateExclusive
	return w, nil
}

func (db *DB) newWriter(level Durability) (*Writer, error) {
	if err := db.enter(); err != nil {
		return nil, err
	}
	if db.space.Exhausted() {
		db.exit()
		return nil, db.noSpace()
	}
	w := writers.Get().(*Writer)
	w.db, w.level = db, db.level(level)
	w.batch = db.disk.NewBatch()
	return w, nil
}

func (db *DB) noSpace() error {
	also := ", only deletions are accepted"
	if db.space.Exhausted() {
		also = ", and the reserve is used up"
	}
	return fmt.Errorf("%w: less than %d bytes free in %s%s", ErrNoSpace, db.opts.MinFreeSpace, db.dir, also)
}

// unlock lets other writers at the keys.
func (w *Writer) unlock() {
	switch w.gate {
	case gateShared:
		w.db.gate.RUnlock()
	case gateExclusive:
		w.db.gate.Unlock()
	}
	w.gate = gateNone
	for _, i := range w.keys {
		w.db.keyLocks[i].Unlock()
	}
	w.keys = w.keys[:0]
}

// release returns everything the writer holds.
func (w *Writer) release() {
	w.unlock()
	_ = w.batch.Close() // releases memory, cannot fail
	w.db.exit()
	w.nest = nesting{}
	clear(w.patcher.layers)
	w.patcher = patcher{layers: w.patcher.layers[:0]}
	w.releaseChanges()
	w.groups = w.groups[:0]
	for _, id := range w.builds {
		w.db.building.Delete(id)
	}
	w.builds = w.builds[:0]
	w.db, w.batch, w.lastLayer, w.lastFirst = nil, nil, nil, nil
	w.sequence, w.unseen, w.uses, w.timed = false, false, 0, false
	w.unmeasured, w.unsifted, w.tooLarge = 0, 0, nil
	writers.Put(w)
}

// refuse ends the writer without a change and returns err, the answer it came
// to: a key that is there, or missing, or full. Under Always it returns when
// everything that answer was based on is on stable storage, as commit does;
// ErrFailed takes the place of err if that fails.
func (w *Writer) refuse(err error) error {
	defer w.release()
	return w.answer(err)
}

// answer is refuse for a writer that is released elsewhere.
func (w *Writer) answer(err error) error {
	if serr := w.settleAnswer(); serr != nil {
		return serr
	}
	return err
}

// settleAnswer lets go of the keys and waits until what was read of them is as
// durable as the level asks for. Everything committed to these keys has raised
// lastSeq, or is gathered, by now.
func (w *Writer) settleAnswer() error {
	w.unlock()
	if w.level != Always {
		return nil
	}
	return w.db.awaitAll()
}

// DB returns the store that is written to.
func (w *Writer) DB() *DB { return w.db }

// Now returns the time by which keys have expired for the writer, in Unix milliseconds. It is
// one moment, that of the first question: keys that expire together are all there, or all
// missing, in all that a transaction does.
func (w *Writer) Now() int64 {
	if !w.timed {
		w.moment, w.timed = w.db.Now(), true
	}
	return w.moment
}

func (w *Writer) expired(o *Object) bool { return o.header.expiry != 0 && o.expiredBy(w.Now()) }

func (w *Writer) view(key []byte) *keyView {
	if w.index != nil {
		if i, ok := w.index[string(key)]; ok {
			return &w.views[i]
		}
		return nil
	}
	for i := range w.views {
		w.steps++
		if w.views[i].key == string(key) {
			return &w.views[i]
		}
	}
	return nil
}

// setView notes what this writer puts under a key it has looked at, nil for nothing.
func (w *Writer) setView(key []byte, o *Object) {
	v := w.view(key)
	w.journalView(v)
	v.object, v.changed = o, true
	const perKey = 300
	w.grow(perKey + 2*len(key))
	if o != nil {
		w.grow(len(o.header.params))
	}
}

// Object returns the live object under a key, as this writer has left it; nil,
// nil if there is none.
func (w *Writer) Object(key []byte) (*Object, error) {
	v, err := w.look(key)
	if err != nil {
		return nil, err
	}
	return v.object, nil
}

// Standing reports whether an object this writer was given is, as it is, what the key maps
// to for everybody.
func (w *Writer) Standing(o *Object) bool {
	v := w.view([]byte(o.key))
	return v != nil && v.stored == o && !v.changed
}

// look returns the view of a key, valid until the next one is added.
func (w *Writer) look(key []byte) (*keyView, error) { return w.lookFor(key, nil) }

// lookFor is look for one who may not need a large string; see access.
func (w *Writer) lookFor(key []byte, large func(value []byte) error) (*keyView, error) {
	v, err := w.lookAt(key, large)
	if err == nil && v.damage != nil && !v.changed {
		return nil, v.damage
	}
	return v, err
}

// lookAt is lookFor for one who does not need what is there to be whole.
func (w *Writer) lookAt(key []byte, large func(value []byte) error) (*keyView, error) {
	if v := w.view(key); v != nil {
		return v, w.renew(v)
	}
	if len(key) > MaxKeyLen {
		return nil, keyTooLong(key) // nothing is staged for a key that was not looked at
	}
	var o *Object
	var broken *damaged
	if !w.flush { // else there is nothing
		var err error
		if o, err = w.db.find(key, access{large: large}); errors.As(err, &broken) {
			return w.addView(keyView{key: string(key), stored: broken.stand(w.db, key), damage: err}), nil
		} else if err != nil {
			return nil, err
		}
	}
	v := keyView{object: o, stored: o}
	if o == nil {
		v.key = string(key)
	} else {
		v.key = o.key // saves a copy
		if w.expired(o) {
			v.object = nil
		}
	}
	return w.addView(v), nil
}

// renew has a view of a key that is not changed be of the object that is open now. The one
// before may have been closed, which in a transaction happens at any time: see evictObject.
func (w *Writer) renew(v *keyView) error {
	if v.changed || v.object == nil || !v.object.Ended() {
		return nil
	}
	o, err := w.db.find([]byte(v.key), access{})
	if err == nil {
		v.object, v.stored = o, o
	}
	return err
}

// find is Object for a lookup inside of a transaction. It is not remembered: what a transaction
// keeps of keys is of those it changes, however many it looks at.
func (w *Writer) find(key []byte, large func(value []byte) error) (*Object, error) {
	switch v := w.view(key); {
	case v != nil && v.damage != nil && !v.changed:
		return nil, v.damage
	case v != nil:
		err := w.renew(v)
		return v.object, err
	case w.flush:
		return nil, nil
	}
	o, err := w.db.find(key, access{large: large})
	if err != nil || o == nil || w.expired(o) {
		return nil, err
	}
	return o, nil
}

// forgetUnchanged forgets the keys from the n-th on of which nothing is staged.
func (w *Writer) forgetUnchanged(n int) {
	kept := min(n, len(w.views)) // fewer are left after the removal of every key
	for i := kept; i < len(w.views); i++ {
		v := &w.views[i]
		if !v.changed && !w.hasStaged(v.object) {
			delete(w.index, v.key)
			continue
		}
		if i != kept {
			w.views[kept] = *v
			if w.index != nil {
				w.index[v.key] = kept
			}
		}
		kept++
	}
	clear(w.views[kept:])
	w.views = w.views[:kept]
}

// hasStaged reports whether something is staged of the layers of an object.
func (w *Writer) hasStaged(o *Object) bool {
	return o != nil && slices.ContainsFunc(o.layers, func(l *Layer) bool { return w.ordinal(l) >= 0 })
}

// addView adds the view of a key that has none.
func (w *Writer) addView(v keyView) *keyView {
	w.views = append(w.views, v)
	switch n := len(w.views); {
	case w.index != nil:
		w.index[v.key] = n - 1
	case n > fewStaged:
		w.index = make(map[string]int)
		for i := range w.views {
			w.index[w.views[i].key] = i
		}
	}
	return &w.views[len(w.views)-1]
}

// Spec describes an object to be created.
type Spec struct {
	Type   *Type
	Family block.Family
	Layers []LayerSpec // at most 64
	Params []byte
	// Expiry is when the object ceases to exist, in Unix milliseconds; 0 means never.
	Expiry int64
}

// Create stages a new object under a key; one that is there is replaced. The
// errors are ErrTooLarge (more bytes than Options.MaxFilterBytes) and those of
// the type's Open.
func (w *Writer) Create(key []byte, s Spec) (*Object, error) {
	o, err := w.newOf(key, s)
	if err != nil {
		return nil, err
	}
	for _, l := range o.layers {
		w.makeFresh(o, l)
	}
	return o, w.put(key, o)
}

// makeFresh makes all blocks of a layer of an object just staged zeros.
func (w *Writer) makeFresh(o *Object, l *Layer) {
	if l.dir == nil {
		l.one.Store(zeroLine)
	}
	n := w.addLayer(l)
	w.layers[n].madeFor = o
}

// newOf returns a new object of a registered type, not staged yet.
func (w *Writer) newOf(key []byte, s Spec) (*Object, error) {
	module, known := w.db.registry.moduleOf[s.Type.Name]
	if !known {
		return nil, fmt.Errorf("%w: of type %q", ErrNoModule, s.Type.Name)
	}
	return w.make(key, header{
		typeName: s.Type.Name, module: module, typeVersion: s.Type.Version,
		expiry: s.Expiry, family: s.Family, layers: s.Layers, params: s.Params,
	})
}

// make returns a new object with a header, whose id it chooses.
func (w *Writer) make(key []byte, h header) (*Object, error) {
	if err := w.db.checkSpec(h.layers); err != nil {
		return nil, err
	}
	if w.db.space.Full() {
		return nil, w.db.noSpace() // before much is written ahead
	}
	var err error
	if h.id, err = w.db.newObjectID(); err != nil {
		return nil, err
	}
	layers := make([]*Layer, len(h.layers))
	for i, spec := range h.layers {
		layers[i] = newLayer(&h, spec)
	}
	return newObject(w.db, string(key), &h, layers)
}

// put stages an object under a key, in the place of what is there.
func (w *Writer) put(key []byte, o *Object) error {
	old, err := w.stored(key)
	if err != nil {
		return err
	}
	if old != nil {
		w.dropObject(old)
	}
	w.setView(key, o)
	return w.fits()
}

// stageKeys stages the headers of the keys this writer has changed, once each, and
// what goes with them: the notes of keys that expire, and the numbers of keys.
func (w *Writer) stageKeys() {
	for i := range w.views {
		v := &w.views[i]
		if !v.changed || v.object == nil && v.stored == nil {
			continue
		}
		key := []byte(v.key)
		if v.stored != nil {
			w.sequence = w.sequence || !v.stored.inline()
		}
		if v.object != nil {
			w.sequence = w.sequence || !v.object.inline()
			w.set(w.db.headerKey(w.scratch[:0], key), appendHeader(nil, v.object.header))
		} else {
			w.delete(w.db.headerKey(w.scratch[:0], key))
		}
		for _, note := range v.notes {
			w.delete(note)
		}
		w.stageExpiry(key, v.stored, v.object)
		switch {
		case v.stored == nil:
			w.count(key, 1)
		case v.object == nil:
			w.count(key, -1)
		}
	}
}

// stageExpiry stages the note of a key that expires, and takes away that of what was
// there.
func (w *Writer) stageExpiry(key []byte, old, now *Object) {
	var was, is int64
	if old != nil {
		was = old.header.expiry
	}
	if now != nil {
		is = now.header.expiry
	}
	if was == is && (is == 0 || old.inline() == now.inline()) {
		return
	}
	// One that stays but for its value goes and comes: each Set counts as one more.
	if was != 0 {
		w.delete(appendExpiryKey(w.scratch[:0], was, key))
	}
	if is != 0 {
		w.set(appendExpiryKey(w.scratch[:0], is, key), expiryNoteValue(now.header))
	}
}

// removals returns how many keys there are less after the commit.
func (w *Writer) removals() (n int) {
	for _, g := range w.groups {
		n -= g.delta
	}
	return max(0, n)
}

// count stages a change of the number of keys.
func (w *Writer) count(key []byte, delta int) {
	group := w.db.keyLockIndex(key)
	for i := range w.groups {
		if w.groups[i].group == group {
			w.groups[i].delta += delta
			return
		}
	}
	w.groups = append(w.groups, groupDelta{group, delta})
}

// Grow stages another layer for the object under a key, and returns the object
// with it; the one without must not be used any more with this writer. The
// layer's number is Grow's to choose. The errors are ErrTooLarge (64 layers, or
// more bytes than Options.MaxFilterBytes) and those of the type's Open.
func (w *Writer) Grow(o *Object, spec LayerSpec) (*Object, error) {
	h := *o.header
	if n := len(h.layers); n > 0 {
		spec.Number = h.layers[n-1].Number + 1
	}
	h.layers = append(slices.Clip(h.layers), spec)
	if err := w.db.checkSpec(h.layers); err != nil {
		return nil, err
	}
	layer := newLayer(&h, spec)
	grown, err := newObject(w.db, o.key, &h, append(slices.Clip(o.layers), layer))
	if err != nil {
		return nil, err
	}
	w.makeFresh(grown, layer)
	w.setView([]byte(o.key), grown)
	return grown, nil
}

func (db *DB) checkSpec(layers []LayerSpec) error {
	if len(layers) > maxLayers {
		return fmt.Errorf("%w: %d layers, at most %d", ErrTooLarge, len(layers), maxLayers)
	}
	var total uint64
	for _, l := range layers {
		if err := l.check(); err != nil {
			return fmt.Errorf("%w: %w", ErrTooLarge, err)
		}
		total += l.Bytes()
	}
	if total > db.opts.MaxFilterBytes {
		return fmt.Errorf("%w: filter of %d bytes, at most %d (Options.MaxFilterBytes)", ErrTooLarge, total, db.opts.MaxFilterBytes)
	}
	return nil
}

// stored returns what is under a key, also if it has expired, for one who will remove or
// replace it: of what is damaged a stand-in.
func (w *Writer) stored(key []byte) (*Object, error) {
	v, err := w.lookAt(key, withoutValue)
	switch {
	case err != nil:
		return nil, err
	case v.changed:
		return v.object, nil
	}
	if v.damage != nil && v.stored.header.id == 0 {
		if v.notes, err = w.db.notesOf(key); err != nil {
			return nil, err
		}
	}
	return v.stored, nil
}

// Delete stages the removal of a key and reports whether it was there.
func (w *Writer) Delete(key []byte) (bool, error) {
	// If this is taken back, so is the view.
	old, err := w.stored(key)
	if err != nil || old == nil {
		return false, err
	}
	w.dropObject(old)
	w.setView(key, nil)
	return !w.expired(old), w.fits()
}

// dropObject stages the removal of everything under an object's id, and a note
// for the reclaiming of its space.
func (w *Writer) dropObject(o *Object) {
	if o.inline() {
		return
	}
	for _, l := range o.layers {
		w.dropLayer(l)
	}
	w.drops = append(w.drops, o.header.id)
}

// DeleteKeys stages the removal of keys, and returns how many were there. It ends with the context.
func (w *Writer) DeleteKeys(ctx context.Context, keys [][]byte) (n int, err error) {
	for i, key := range keys {
		if err := GivenUp(ctx, i); err != nil {
			return 0, err
		}
		there, err := w.Delete(key)
		if err != nil {
			return 0, err
		}
		if there {
			n++
		}
	}
	return n, nil
}

// RenameIfFree is Rename if nothing is under dst, and reports whether that is so.
func (w *Writer) RenameIfFree(src, dst []byte) (bool, error) {
	from, err := w.Object(src)
	if err != nil {
		return false, err
	}
	if from == nil {
		return false, notFound(src)
	}
	to, err := w.Object(dst)
	if err != nil || to != nil {
		return false, err
	}
	return true, w.Rename(src, dst)
}

// Rename stages moving what is under src to dst, replacing what is there. It
// returns ErrNotFound if src is missing. Src and dst may be equal.
func (w *Writer) Rename(src, dst []byte) error {
	o, err := w.Object(src)
	if err != nil {
		return err
	}
	if o == nil {
		return notFound(src)
	}
	if string(src) == string(dst) {
		return nil
	}
	old, err := w.stored(dst)
	if err != nil {
		return err
	}
	moved, err := newObject(w.db, string(dst), o.header, o.layers)
	if err != nil {
		return err
	}
	if old != nil {
		w.dropObject(old)
	}
	w.setView(src, nil)
	w.setView(dst, moved)
	return nil
}

// DeleteAll stages the removal of every key. The writer must be one that may touch any
// key: that of a transaction. Any other gets an error.
func (w *Writer) DeleteAll() error {
	if w.gate != gateExclusive {
		return errors.New("kv: a writer of named keys cannot delete all")
	}
	before := w.changes
	w.changes = changes{flush: true}
	w.onUndo(func() { w.changes = before })
	return nil
}

// stageDrops stages the removal of everything, or of what is stored under the ids of
// dropped objects, with notes for the reclaiming of the space; and takes away those of
// objects that were built.
func (w *Writer) stageDrops() {
	if w.flush {
		w.sequence = true
		for _, tag := range []byte{tagHeader, tagDropped, tagExpiry} {
			must(w.batch.DeleteRange([]byte{tag}, []byte{tag + 1}, nil))
		}
		// What was built since is written already.
		from := []byte{tagObject}
		for _, id := range slices.Sorted(slices.Values(w.built)) {
			must(w.batch.DeleteRange(from, appendObjectKey(nil, id), nil))
			from = appendObjectKey(nil, id+1)
		}
		must(w.batch.DeleteRange(from, []byte{tagObject + 1}, nil))
		must(w.batch.DeleteRange(appendMetaKey(nil, metaKeys), appendMetaKey(nil, metaKeys+1), nil))
		w.set(appendDroppedKey(w.scratch[:0], 0), nil) // object 0: all below the next id
	}
	for _, id := range w.drops {
		must(w.batch.DeleteRange(appendObjectKey(nil, id), appendObjectKey(nil, id+1), nil))
	}
	dropped := make(map[uint64]bool)
	for _, id := range w.drops {
		dropped[id] = true
	}
	w.stageLayerDrops(dropped)
	for _, id := range w.built {
		w.delete(appendDroppedKey(w.scratch[:0], id))
	}
	for _, id := range w.drops {
		w.set(appendDroppedKey(w.scratch[:0], id), nil)
	}
	for _, a := range w.attributes {
		if dropped[a.object] {
			continue
		}
		key := appendAttributeKey(w.scratch[:0], a.object, a.name)
		if a.value == nil {
			w.delete(key)
		} else {
			w.set(key, a.value)
		}
	}
}

// block returns a block as the last commit left it. The key's write lock is
// held, so nobody is changing it.
func (w *Writer) block(o *Object, l *Layer, blk uint64) (*Line, error) {
	if first := l.Resident(blk); first != nil {
		return first, nil
	}
	if s := w.stagedLayer(l); s != nil && s.madeFor != nil {
		return zeroLine, nil
	}
	if w.lastLayer == l && w.lastBlk == blk {
		return w.lastFirst, nil
	}
	first, err := w.db.load(o, l, blk, false)
	if err == nil {
		w.lastLayer, w.lastBlk, w.lastFirst = l, blk, first
	}
	return first, err
}

// Attribute returns the value of an attribute of the object as last committed,
// nil if it has none. Attributes are small values that live and die with the
// object and move with it: state of who works on it, not of its type.
func (db *DB) Attribute(o *Object, name string) ([]byte, error) {
	if err := db.enter(); err != nil {
		return nil, err
	}
	defer db.exit()
	value, closer, err := db.disk.Get(appendAttributeKey(nil, o.header.id, name))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, db.readError(err, "key %q: attribute %q", o.key, name)
	}
	value = append([]byte{}, value...)
	return value, closer.Close()
}

// SetAttribute stages an attribute of an object; nil removes it.
func (w *Writer) SetAttribute(o *Object, name string, value []byte) {
	w.attributes = append(w.attributes, stagedAttribute{o.header.id, name, value})
	w.grow(perEntry + len(value))
}

// KeepAttributes stages for one object the attributes another has, as last committed.
func (w *Writer) KeepAttributes(from, to *Object) (err error) {
	prefix := appendAttributeKey(nil, from.header.id, "")
	end := slices.Clone(prefix)
	end[len(end)-1]++
	it, err := w.db.disk.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: end})
	if err != nil {
		return w.db.readError(err, "key %q: attributes", from.key)
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return w.db.readError(err, "key %q: attributes", from.key)
		}
		w.SetAttribute(to, string(it.Key()[len(prefix):]), append([]byte{}, value...))
	}
	return nil
}

// delete stages a Delete; key was built in w.scratch.
func (w *Writer) delete(key []byte) {
	w.scratch = key
	must(w.batch.Delete(key, nil))
}

// set stages a Set; key was built in w.scratch.
func (w *Writer) set(key, value []byte) {
	w.scratch = key
	must(w.batch.Set(key, value, nil))
}

// must is for batch operations, whose errors only tell of a batch already
// committed or a value of 4 GiB: mistakes of this package.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
