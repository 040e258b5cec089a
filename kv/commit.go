package kv

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/sievekv/sievekv/kv/block"
	"github.com/sievekv/sievekv/kv/format"
	"github.com/sievekv/sievekv/kv/storage"
)

// The crash argument.
//
// What is written. Each commit is in one Pebble batch, alone or with other small ones (storage/pending.go): one
// record of the log, with the headers, operands, counters and attributes of everything it changes. What was pending
// before a commit is before it in the log, or in the same record. Pebble writes records in the order of their
// sequences and, after a crash, replays the log up to the first record that is not whole. So a crash leaves a prefix
// of the commits, each whole or not at all: no filter without its counter, no half MADD, no RENAME with two keys or
// none. That is the commit point: the record being in the log that survives.
//
// What is acknowledged. A commit under Always is reported only after a sync that covered its record, and so covered
// every record before it: what its answer was based on. Answers that wrote nothing wait for the watermark to pass
// what they read (see storage/durable.go). A reported commit is therefore in every prefix a crash can leave.
//
// What a failing disk leaves. A failed write or sync of the log or the manifest freezes the directory before Pebble
// sees it (package freeze): to the disk it is a crash at that instant, to which the above applies. The latch is
// looked at after the sync and before anything is acknowledged, so no acknowledgement rests on a sync that went
// nowhere.
//
// What opening repairs. Nothing: Pebble replays its log, and there is no state
// outside Pebble that reading needs. Object ids are leased in a record that is
// earlier in the log than any object using them. The sidecar is only compared.
//
// What is assumed. Pebble's log keeps its order and its checksums find a torn record; a sync that returned means
// stable storage; a rename followed by a directory sync is atomic and durable. Bits that rot in tables are found by
// Pebble's checksums; in the MANIFEST by its seal (freeze/seal.go); in the middle of the log by what later records
// say was synced (freeze/log.go). At its end a log ends at the first record that rot has reached, as it does at a
// torn write. One that was cut is found by the sidecar, but for what was written in its last seconds, or before a
// memtable was flushed: the MANIFEST then has the sequence.
//
// Locks, in this order: key locks (by index) or the gate, apply, stripe mutexes. Apply is held from before the batch
// goes to Pebble until the cache has it: shared by commits that lookups may see item by item, exclusively by those
// under the sequence lock. None is held while waiting for the disk.

// commit applies what was staged, as one, and ends the writer. It returns when the level asked for is reached. After
// ErrFailed the outcome is unknown; after any other error, as ErrNoSpace and ErrTooLarge, nothing was written. A
// writer without changes waits, under Always, until everything its answers were based on is on stable storage.
func (w *Writer) commit() error {
	db := w.db
	defer w.release()
	full := db.store.Space.Full()
	if !full && w.small() && w.commitSmall() {
		return db.failure()
	}
	if err := w.build(); err != nil {
		return w.answer(err) // what else the function found is known to its caller
	}
	if w.batch.Empty() {
		return w.settleAnswer()
	}
	if full && !onlyRemoves(w.batch) {
		return w.answer(db.noSpace())
	}
	// Alone at the disk, a commit asks for its own sync as it is applied; more than one share syncs.
	solo := w.level == Always && db.syncing.Add(1) == 1
	if w.level == Always {
		defer db.syncing.Add(-1)
	}
	receipt, err := w.apply(solo)
	w.unlock()
	if err != nil {
		return err
	}
	switch {
	case w.level == Always:
		return db.store.Await(receipt)
	case w.level == EverySec:
		db.everySec.Store(true)
	}
	return db.failure()
}

// build moves what is staged into the batch, and checks its size.
func (w *Writer) build() error {
	if w.tooLarge != nil {
		return w.tooLarge
	}
	w.forgetGone()
	w.stageDrops()
	w.stageKeys()
	w.operands(func(key, operand []byte) { must(w.batch.Merge(key, operand, nil)) })
	w.stageSlots()
	for i := range w.layers {
		if s := &w.layers[i]; s.counted {
			w.scratch = storage.SetCounters(w.batch, w.scratch, storage.LayerCounters{Layer: s.layer.stored(), Values: s.counters})
		}
	}
	return w.db.checkSize(w.batch)
}

// checkSize refuses a batch that is too large.
func (db *DB) checkSize(batch *storage.Batch) error { return db.refuseSize(storage.CommitSize(batch)) }

func (db *DB) refuseSize(size int) error { return storage.RefuseSize(size, db.MaxCommit()) }

// onlyRemoves reports whether a batch, as build left it, makes nothing but removals, and notes of them.
func onlyRemoves(b *storage.Batch) bool {
	only := true
	storage.EachChange(b, func(kind storage.Kind, key, _ []byte) bool {
		only = kind == storage.KindDelete || kind == storage.KindRangeDelete || key[0] == format.TagDropped
		return only
	})
	return only
}

// operands calls f with the key and the operand of each block in which bits are
// staged. Both are the writer's, and change with the next call.
func (w *Writer) operands(f func(key, operand []byte)) {
	w.bitIndex = nil
	slices.SortFunc(w.bits, func(a, b bitBlock) int { return cmp.Or(cmp.Compare(a.ordinal, b.ordinal), cmp.Compare(a.blk, b.blk)) })
	for i := range w.bits {
		b := &w.bits[i]
		if b.count == 0 {
			continue
		}
		w.positions = b.appendPositions(w.positions[:0])
		l := w.layers[b.ordinal].layer
		key := format.AppendBlockKey(w.scratch[:0], l.object, l.spec.Number, b.blk)
		n := len(key)
		w.scratch = block.AppendBitsOperand(key, w.positions)
		f(w.scratch[:n], w.scratch[n:])
	}
}

// apply gives the batch to storage and applies it to the cache.
func (w *Writer) apply(ownSync bool) (storage.Receipt, error) {
	db := w.db
	w.setKeyCounts()
	if w.needsSequence() {
		db.store.Flush() // before others have to wait for it
		db.lockApply()
		defer db.apply.Unlock()
		db.word.Add(seqOdd)
		defer db.word.Add(seqStep - seqOdd)
	} else {
		db.apply.RLock()
		defer db.apply.RUnlock()
	}
	p := &w.applier
	p.db = db
	w.addObjects(p)
	touched := w.stripes()
	db.startStripes(touched)
	defer db.finishStripes(touched)
	defer finishVersions(w.startVersions(p))
	db.pauseAt("commit: started")

	receipt, err := db.store.Commit(w.batch, ownSync)
	if err != nil {
		return receipt, err
	}
	db.pauseAt("commit: applied")
	p.applied(receipt.Number)
	p.applyToCache(w.batch)
	w.steps += p.steps
	if db.store.Space.Full() {
		db.removed.Add(uint64(w.removals()))
	}
	w.tellWatches() // not before: a watch that begins after this would see blocks without the commit
	for _, v := range w.staged {
		if v.object != nil && v.changed {
			v.object.end() // staging only; the live one was made from the batch
		}
	}
	db.stats.commits.Add(1)
	db.stats.commitBytes.Add(uint64(w.batch.Len()))
	return receipt, nil
}

// lockApply takes apply, exclusively. Those who would share it wait as long as somebody waits for it exclusively, and
// a commit that Pebble has wait shares it: so this keeps out of the way until Pebble has room again.
func (db *DB) lockApply() {
	db.pauseAt("apply: wanted")
	db.store.AwaitRoom()
	db.apply.Lock()
}

// addObjects gives a applier what the commit may change. Where more than one object has a layer,
// that of the object that is open counts, unless this writer made one of the same number. Of one
// that is not open, those count that this writer has found: they may go on in what it puts
// under a key. The caller holds apply exclusively, or the locks of the keys.
func (w *Writer) addObjects(p *applier) {
	for i := range w.staged {
		if v := &w.staged[i]; v.changed {
			p.add(v.object)
		}
	}
	for i := range w.staged {
		o := w.staged[i].stored
		if o == nil || o.inline() {
			continue
		}
		if w.gate == gateExclusive {
			if open := w.db.openObject(o.key); open != nil {
				o = open
			}
		}
		p.addOpen(o)
	}
	for i := range w.layers {
		if s := &w.layers[i]; s.madeFor != nil && !s.gone {
			p.addLayer(target{o: s.madeFor, l: s.layer})
		}
	}
}

// setKeyCounts stages the number of keys after this commit. That of a group is
// written by who holds the group's lock, so those commits are in order.
func (w *Writer) setKeyCounts() {
	for _, g := range w.groups {
		if g.delta == 0 && !w.flush {
			continue
		}
		n := w.db.groups[g.group].Load()
		if w.flush {
			n = 0
		}
		n += uint64(g.delta)
		w.set(format.AppendKeyCountKey(w.scratch[:0], g.group), binary.AppendUvarint(nil, n))
	}
}

// needsSequence reports whether the commit has to be applied under the sequence lock: if it changes what is under
// more than one key, or which object is under one, or is a transaction's. What else touches a single string, or only
// changes bits, slots and counters under a single key, may be seen by lookups while it is applied.
func (w *Writer) needsSequence() bool {
	if w.sequence || w.unseen {
		return w.sequence
	}
	changesSlots := slices.ContainsFunc(w.slots, func(b *slotBlock) bool { return len(b.log) > 0 })
	counts := slices.ContainsFunc(w.layers, func(s stagedLayer) bool { return s.counted })
	if w.gate == gateExclusive && (w.bitCount > 0 || changesSlots || counts) {
		return true // of a transaction nobody sees a part, be it of one filter; and see evictObject
	}
	strings := 0
	for i := range w.staged {
		if v := &w.staged[i]; v.changed && (v.object != nil || v.stored != nil) {
			strings++
		}
	}
	object := uint64(0)
	more := func(l *Layer) bool {
		if object == 0 {
			object = l.object
		}
		return object != l.object || strings > 0
	}
	return strings > 1 ||
		slices.ContainsFunc(w.bits, func(b bitBlock) bool { return more(w.layers[b.ordinal].layer) }) ||
		slices.ContainsFunc(w.slots, func(b *slotBlock) bool { return len(b.log) > 0 && more(b.layer) }) ||
		slices.ContainsFunc(w.layers, func(s stagedLayer) bool { return s.counted && more(s.layer) })
}

// stripes returns the set of stripes whose blocks are changed.
func (w *Writer) stripes() (touched uint64) {
	for i := range w.bits {
		b := &w.bits[i]
		touched |= 1 << stripeOf(w.layers[b.ordinal].layer, b.blk)
	}
	for _, b := range w.slots {
		if len(b.log) > 0 {
			touched |= 1 << stripeOf(b.layer, b.blk)
		}
	}
	return touched
}

func (db *DB) startStripes(set uint64) {
	for ; set != 0; set &= set - 1 {
		st := &db.stripes[bits.TrailingZeros64(set)]
		st.mu.Lock()
		st.started.Add(1)
		st.mu.Unlock()
	}
}

func (db *DB) finishStripes(set uint64) {
	for ; set != 0; set &= set - 1 {
		db.stripes[bits.TrailingZeros64(set)].finished.Add(1)
	}
}
