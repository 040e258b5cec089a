package kv

import (
	"slices"

	"github.com/sievekv/sievekv/kv/format"
	"github.com/sievekv/sievekv/kv/storage"
)

// A small commit sets bits of one object or changes its slots, or sets a short string that does not expire, and does not
// wait for the disk. It is pending at first, and goes to Pebble together with others: see package storage. It is applied
// to the cache like any other.

// small reports whether the commit is small.
func (w *Writer) small() bool {
	if w.level == Always || w.gate != gateShared || len(w.staged) != 1 || w.staged[0].object == nil || !w.batch.Empty() ||
		w.sequence || w.flush || w.db.opts.flushAfter < 0 ||
		len(w.builds)+len(w.built)+len(w.drops)+len(w.attributes)+len(w.layerDrops)+len(w.groups) > 0 {
		return false
	}
	if v := &w.staged[0]; v.changed {
		h := v.object.header
		return format.KeepsString(h) && h.Expiry == 0 && len(v.key)+len(h.Params) <= maxSmallString && len(w.layers) == 0 &&
			(v.stored == nil || v.stored.header.Expiry == 0) && v.damage == nil
	}
	// smallCommit lists the blocks in memory that the writer keeps.
	return len(w.bits) <= maxKeptBlocks && (w.bitCount > 0 || w.changesSlots())
}

// changesSlots reports whether slots have staged values.
func (w *Writer) changesSlots() bool {
	return slices.ContainsFunc(w.slots, func(b *slotBlock) bool { return len(b.log) > 0 })
}

// maxSmallString is the most bytes of a string that is pending, with its key.
const maxSmallString = 1 << 10

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
	db, c := w.db, w.smallCommit()
	db.apply.RLock()
	defer db.apply.RUnlock()
	p := &w.applier
	p.db = db
	p.add(o)
	started := w.startSlots(p)
	defer func() { p.endSlots(started) }()
	w.beginStrings()
	defer func() { w.endStrings(true, appended) }()
	before := o.changed.Load()
	p.setChanged(changing)
	db.pauseAt("commit: started")
	p.number.Store(0)
	appended, full = db.store.Append(c, &p.number)
	if !appended {
		p.setChanged(before)
		return false, false
	}
	db.pauseAt("commit: applied")
	p.last = p.number.Load()
	p.large = len(c.Blocks) >= largeCommit
	for _, b := range c.Blocks {
		p.change(blockChange{target: p.find(b.Layer.Object, b.Layer.Number), blk: b.Block, bits: b.Bits})
	}
	for _, b := range c.Slots {
		p.change(blockChange{target: p.find(b.Layer.Object, b.Layer.Number), blk: b.Block, slots: b.Slots})
	}
	p.finish()
	p.setChanged(p.last)
	for i := range w.layers {
		if s := &w.layers[i]; s.counted {
			s.layer.SetCounters(s.counters)
		}
	}
	if len(c.Records) > 1 {
		p.keyCount(c.Records[1].Key, c.Records[1].Value, storage.KindSet)
	}
	w.tellWatches()
	return true, full
}

// smallCommit returns what is staged, in memory that the writer keeps. Records are the header of a string, and the
// number of keys if its key is new.
func (w *Writer) smallCommit() *storage.SmallCommit {
	c := &w.little
	c.Blocks, c.Slots, c.Counters, c.Records = c.Blocks[:0], c.Slots[:0], c.Counters[:0], c.Records[:0]
	for i := range w.bits {
		b := &w.bits[i]
		c.Blocks = append(c.Blocks, storage.BlockBits{Layer: stored(w.layers[b.ordinal].layer), Block: b.blk, Bits: &b.BitSet})
	}
	for _, b := range w.slots {
		if len(b.log) > 0 {
			c.Slots = append(c.Slots, storage.BlockSlots{Layer: stored(b.layer), Block: b.blk, Family: b.object.header.Family, Slots: b.log})
		}
	}
	for i := range w.layers {
		if s := &w.layers[i]; s.counted {
			c.Counters = append(c.Counters, storage.LayerCounters{Layer: stored(s.layer), Values: s.counters})
		}
	}
	if v := &w.staged[0]; v.changed {
		key := w.db.headerKey(w.scratch[:0], []byte(v.key))
		w.scratch = format.AppendHeader(key, v.object.header)
		c.Records = append(c.Records, storage.Record{Key: w.scratch[:len(key)], Value: w.scratch[len(key):]})
		if v.stored == nil {
			group := w.db.keyLockIndex([]byte(v.key))
			n := format.AppendKeyCounts(nil, w.db.groups[group].Plus(1, 0))
			c.Records = append(c.Records, storage.Record{Key: format.AppendKeyCountKey(nil, group), Value: n})
		}
	}
	return c
}
