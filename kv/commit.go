package kv

import (
	"slices"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/hot"
	"github.com/sievekv/sievekv/internal/storage"
)

// The crash argument.
//
// What is written. Each commit is in one Pebble batch, alone or with others that were pending (storage/pending.go). A
// batch is one record of the log. It has the headers, operands, counters and attributes that the commit changes.
// Blocks of an object being built (MERGE, COPY) are in earlier records, under an id that no header has yet
// (build.go). What was pending before a commit is in an earlier record, or in the same one if the commit was pending too.
// Pebble writes records in the order of their sequences. After a crash it replays the log up to the first record that
// is not whole. So a crash leaves a prefix of the log, each commit whole or not at all: no filter without its
// counter, no half of a MADD, no RENAME with two keys or none. The commit point: the record is in the surviving log.
//
// What is acknowledged. A commit under Always is reported only after a sync that covered its record. That sync also
// covered every earlier record, and so everything that the commit's answer was based on. An answer that wrote nothing
// waits until the durable watermark has passed what it read (storage/durable.go). So every prefix that a crash can
// leave has every reported commit.
//
// What a failing disk leaves. A failed write or sync of the log or the MANIFEST freezes the directory before Pebble
// sees the error (package freeze). For the disk this is a crash at that instant, and the paragraphs above apply. Each
// commit looks whether the directory is frozen between its sync and its acknowledgement: none rests on a failed sync.
//
// What opening repairs. Nothing: Pebble replays its log, and reading needs no state outside Pebble. Object ids are
// leased in a record that is earlier in the log than any object with one of them. The sidecar is only compared.
//
// What is assumed. Pebble's log keeps its order, and its checksums find a torn record. After a sync has returned, the
// bytes are on stable storage. A rename followed by a sync of the directory is atomic and durable. Bits that rot are
// found: in tables by Pebble's checksums, in the MANIFEST by its seal (freeze/seal.go), in the middle of the log by
// later records, which say how much was synced (freeze/log.go). At the end of the log, rot looks like a torn write:
// the log ends at the first record that it has reached. The sidecar finds a log that was cut, except for what was
// written in its last seconds or before a memtable was flushed; then the MANIFEST has the sequence.
//
// Locks, in this order: key locks (by index), the gate, apply, stripe mutexes. A commit holds apply from before the
// batch goes to Pebble until it is applied to the cache: shared if lookups may see the commit item by item,
// exclusively if it is under the sequence lock. No lock is held while a goroutine waits for a sync.

// commit applies everything that is staged as one commit, and ends the writer. It returns when the commit is as
// durable as the level says. After ErrFailed the outcome is unknown. After any other error, such as ErrNoSpace and
// ErrTooLarge, nothing was written. Under Always a writer without changes waits until everything that its answers
// were based on is on stable storage.
func (w *Writer) commit() error {
	db := w.db
	defer w.release()
	full := db.store.Space.Full()
	if err := w.build(); err != nil {
		return w.answer(err) // the caller knows what else the function found
	}
	if w.batch.Empty() {
		return w.settleAnswer()
	}
	if full && !w.batch.OnlyRemoves() {
		return w.answer(db.noSpace())
	}
	whole := w.countsAndWhole()
	if db.store.Group != nil {
		return w.commitInGroup(whole)
	}
	when := storage.Later
	if w.level == Always {
		// A commit that waits for the disk alone asks for its own sync when it is applied; several share one.
		if when = storage.Now; db.syncing.Add(1) == 1 {
			when = storage.Synced
		}
		defer db.syncing.Add(-1)
	}
	receipt, err := w.apply(when, whole)
	w.unlock()
	if err != nil {
		return err
	}
	db.store.FlushIfMany(receipt)
	switch {
	case w.level == Always:
		return db.store.Await(receipt)
	case w.level == EverySec:
		db.everySec.Store(true)
	}
	return db.failure()
}

// build moves the staged changes into the batch and checks its size.
func (w *Writer) build() error {
	if w.tooLarge != nil {
		return w.tooLarge
	}
	w.forgetGone()
	w.stageDrops()
	w.stageKeys()
	w.stageSlots()
	for i := range w.layers {
		if s := &w.layers[i]; s.counted {
			w.batch.SetCounters(s.layer.Object(), s.layer.Number(), s.counters)
		}
	}
	w.stageBits() // last, see mayPend
	return storage.RefuseSize(storage.CommitSize(&w.batch), w.db.MaxCommit())
}

// stageBits adds the operand of each block that has staged bits to the batch.
func (w *Writer) stageBits() {
	w.bitIndex = nil
	if w.shuffled {
		slices.SortFunc(w.bits, func(a, b bitBlock) int { return a.compare(b.stagedPlace) })
	}
	joined := w.mayPend()
	for i := range w.bits {
		if b := &w.bits[i]; b.Len() > 0 {
			l := w.layers[b.ordinal].layer
			w.batch.SetBits(l.Object(), l.Number(), b.blk, &b.BitSet, joined, &w.positions)
		}
	}
}

// mayPend reports whether the commit will probably be pending, and surely fits into a commit, by an upper bound of what
// its bits take. Everything else is in the batch.
func (w *Writer) mayPend() bool {
	if w.level == Always && w.db.store.Group == nil || w.gate != gateShared || w.sequence {
		return false
	}
	const key = 40 // bytes of the key of a block, and of lengths, at most
	most := storage.CommitSize(&w.batch)
	for i := range w.bits {
		most += storage.PerEntry + key + block.MaxHeader + w.bits[i].ChangeSize()
	}
	return most <= w.db.MaxCommit()
}

// countsAndWhole stages the numbers of keys, and reports whether the commit must be applied under the sequence lock.
func (w *Writer) countsAndWhole() bool {
	if w.db.store.Group != nil { // the apply loop changes the numbers, too, but not while this store leads
		w.db.apply.RLock()
		defer w.db.apply.RUnlock()
	}
	w.setKeyCounts()
	return w.needsSequence()
}

// apply gives the batch to storage and applies it to the cache. Whole means that the sequence lock is held. In a group the batch
// becomes pending, or nothing is done.
func (w *Writer) apply(when storage.When, whole bool) (storage.Receipt, error) {
	db := w.db
	if whole {
		when = max(when, storage.Now)
		db.store.Flush() // most of it, before apply holds up others
		db.lockApply()
		defer db.apply.Unlock()
		db.word.Add(seqOdd)
		defer db.word.Add(seqStep - seqOdd)
	} else {
		db.apply.RLock()
		defer db.apply.RUnlock()
	}
	p := &w.applier
	if p.db, p.whole = db, whole; len(w.staged) == 1 && w.staged[0].stored != nil && !w.staged[0].stored.inline() {
		p.object = w.staged[0].stored // most likely it is the one
	}
	p.begin(&w.batch)
	defer p.end()
	w.beginStrings()
	kept := false
	defer func() { w.endStrings(kept) }()
	db.pauseAt("commit: started")

	receipt, err := w.give(when)
	if err != nil {
		if db.store.Group != nil { // else the store has failed
			p.number, _ = db.store.Numbers()
		}
		return receipt, err
	}
	db.pauseAt("commit: applied")
	p.number = receipt.Number
	p.apply(&w.batch)
	kept = true
	w.committed()
	db.stats.commits.Add(1)
	db.stats.commitBytes.Add(uint64(receipt.Bytes))
	return receipt, nil
}

// give gives the batch to storage.
func (w *Writer) give(when storage.When) (storage.Receipt, error) {
	if g := w.db.store.Group; g != nil {
		return g.Pend(&w.batch, w.epoch)
	}
	return w.db.store.Commit(&w.batch, when)
}

// committed does what remains once memory has the commit.
func (w *Writer) committed() {
	db := w.db
	if db.store.Space.Full() {
		db.removed.Add(uint64(w.removals()))
	}
	w.tellWatches() // not earlier: a watch that began before would see blocks without the commit
	for _, v := range w.staged {
		if v.object != nil && v.changed {
			v.object.memory.End() // it was only staged; the live one was made from the batch
		}
	}
}

// beginStrings tells the strings in memory what the commit changes, and endStrings what Pebble has now. Known is false
// if the commit failed.
func (w *Writer) beginStrings() {
	if w.flush {
		w.db.strings.BeginAll()
	}
	for i := range w.staged {
		if v := &w.staged[i]; v.changed {
			key := []byte(v.key)
			w.db.strings.Begin(w.db.hash(key), key)
		}
	}
}

func (w *Writer) endStrings(known bool) {
	if w.flush {
		w.db.strings.EndAll(known)
	}
	for i := range w.staged {
		if v := &w.staged[i]; v.changed {
			o := v.object
			now := hot.Change{Had: v.stored != nil, Has: o != nil}
			if now.Has {
				now.Value, now.Expiry, now.Keep = o.header.Params, o.header.Expiry, format.KeepsString(o.header)
			}
			key := []byte(v.key)
			w.db.strings.End(w.db.hash(key), key, now, known)
		}
	}
}

// lockApply takes apply exclusively. While it waits for apply or holds it, no other commit and no repeated lookup goes
// on. A commit that waits for room in Pebble holds apply shared. So lockApply first waits until Pebble has room.
func (db *DB) lockApply() {
	db.pauseAt("apply: wanted")
	db.store.AwaitRoom()
	db.apply.Lock()
}

// setKeyCounts stages the numbers of keys after this commit. Only the holder of a group's key lock writes the number
// of the group, so these commits are in order.
func (w *Writer) setKeyCounts() {
	for _, g := range w.groups {
		if g.keys == 0 && g.expiring == 0 {
			continue
		}
		var n format.KeyCounts
		if !w.flush {
			n = w.db.groups[g.group]
		}
		key := format.AppendKeyCountKey(w.scratch[:0], g.group)
		w.set(key, format.AppendKeyCounts(key[len(key):], n.Plus(g.keys, g.expiring)))
	}
}

// needsSequence reports whether the commit has to be applied under the sequence lock: it changes several keys, which
// object is under a key, or an object's header, such as its layers; it moves entries between layers (TogetherOnly); or
// it is a transaction that changes a filter. Lookups may see any other commit while it is applied: a change of a
// string, or of bits, slots and counters of a key.
func (w *Writer) needsSequence() bool {
	if w.sequence || w.unseen {
		return w.sequence
	}
	counts := slices.ContainsFunc(w.layers, func(s stagedLayer) bool { return s.counted })
	if w.gate == gateExclusive && (w.bitCount > 0 || w.changesSlots() || counts) {
		return true // no lookup sees part of a transaction, not even of one filter; and see evictObject
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
			object = l.Object()
		}
		return object != l.Object() || strings > 0
	}
	return strings > 1 ||
		slices.ContainsFunc(w.bits, func(b bitBlock) bool { return more(w.layers[b.ordinal].layer) }) ||
		slices.ContainsFunc(w.slots, func(b *slotBlock) bool { return len(b.log) > 0 && more(b.layer) }) ||
		slices.ContainsFunc(w.layers, func(s stagedLayer) bool { return s.counted && more(s.layer) })
}
