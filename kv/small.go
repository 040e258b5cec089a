package kv

import "github.com/sievekv/sievekv/kv/storage"

// Small commits only set a few bits of one object, and do not wait for the disk. They are pending at first, and go to
// Pebble many at a time: see package storage. A small commit is applied to the cache like any other.

// small reports whether the commit is small.
func (w *Writer) small() bool {
	return w.level != Always && w.gate == gateShared && 0 < w.bitCount && w.bitCount <= storage.MaxSmallBits &&
		len(w.staged) == 1 && w.staged[0].object != nil && !w.staged[0].changed && w.batch.Empty() &&
		!w.sequence && !w.unseen && !w.flush && w.db.opts.flushAfter >= 0 &&
		len(w.slots)+len(w.builds)+len(w.built)+len(w.drops)+len(w.attributes)+len(w.layerDrops)+len(w.groups) == 0
}

// commitSmall makes a small commit pending and applies it to the cache. It reports false if there was no room; then
// the caller commits in the ordinary way.
func (w *Writer) commitSmall() bool {
	db := w.db
	appended, full := w.appendSmall(w.staged[0].object)
	if !appended {
		return false
	}
	w.unlock()
	db.stats.commits.Add(1)
	if w.level == EverySec {
		db.everySec.Store(true)
	}
	if full {
		db.store.FlushSome()
	}
	return true
}

func (w *Writer) appendSmall(o *Object) (appended, full bool) {
	db := w.db
	db.apply.RLock()
	defer db.apply.RUnlock()
	touched := w.stripes()
	db.startStripes(touched)
	defer db.finishStripes(touched)
	db.pauseAt("commit: started")
	appended, full = db.store.Append(w.smallCommit(), &o.changed)
	if !appended {
		return false, false
	}
	db.pauseAt("commit: applied")
	p := &w.applier
	p.db, p.last = db, o.changed.Load()
	p.add(o)
	for _, b := range w.little.Blocks {
		p.patch(b.Layer.Object, b.Layer.Number, b.Block, func(_ *Object, words []uint64) error { return b.Bits.Patch(words) })
	}
	for i := range w.layers {
		if s := &w.layers[i]; s.counted {
			s.layer.setCounters(s.counters)
		}
	}
	w.tellWatches()
	return true, full
}

// smallCommit returns what is staged, in memory that the writer keeps.
func (w *Writer) smallCommit() *storage.SmallCommit {
	c := &w.little
	c.Blocks, c.Counters = c.Blocks[:0], c.Counters[:0]
	for i := range w.bits {
		b := &w.bits[i]
		c.Blocks = append(c.Blocks, storage.BlockBits{Layer: w.layers[b.ordinal].layer.stored(), Block: b.blk, Bits: &b.BitSet})
	}
	for i := range w.layers {
		if s := &w.layers[i]; s.counted {
			c.Counters = append(c.Counters, storage.LayerCounters{Layer: s.layer.stored(), Values: s.counters})
		}
	}
	return c
}

// stored returns the layer's name in storage.
func (l *Layer) stored() storage.Layer { return storage.Layer{Object: l.object, Number: l.spec.Number} }
