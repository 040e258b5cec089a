package cuckooext

import (
	"encoding/binary"
	"errors"
	"math/bits"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/dump"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/text"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/scalableext"
)

const dumpHeaderLen = 38

// decodeDumpHeader decodes a header of dumpHeaderLen bytes, which may hold anything.
func decodeDumpHeader(b []byte) dumpHeader {
	wide := func(at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }
	short := func(at int) uint16 { return binary.LittleEndian.Uint16(b[at:]) }
	return dumpHeader{
		items: wide(0), buckets: wide(8), deletes: wide(16), layers: wide(24),
		bucketSize: short(32), maxIterations: short(34), expansion: short(36),
	}
}

var errDumpHeader = errors.New("cuckooext: header of a dump is out of range")

// fewLayers is the number of layers that a dump may always have. More take much more memory than the 40 bytes of a header, so
// a dump may have more only as far as the setting cf-max-expansions allows them.
const fewLayers = 1024

// spec returns what is stored for the filter of a dump, in a store whose filters may have a number of layers.
func (h dumpHeader) spec(most int64) (kv.Spec, error) {
	none := kv.Spec{}
	pow2 := func(n uint64) bool { return n&(n-1) == 0 }
	switch {
	case h.bucketSize < 1 || h.bucketSize > maxBucketSize, h.maxIterations < 1,
		h.buckets < 1 || !pow2(h.buckets), h.layers < 1 || h.layers > uint64(min(max(fewLayers, most), format.MaxLayers)),
		h.expansion > scalableext.MaxExpansion || !pow2(uint64(h.expansion)), h.expansion == 0 && h.layers > 1:
		return none, errDumpHeader
	}
	g, err := newGeometry(compatibleFamily, int(h.bucketSize))
	if err != nil {
		return none, err
	}
	s := kv.Spec{Type: cuckooType, Family: compatibleFamily}
	buckets := h.buckets
	for range h.layers {
		if high, slots := bits.Mul64(buckets, uint64(h.bucketSize)); high > 0 || slots >= slotsLimit {
			return none, errDumpHeader
		}
		l := compatibleSpec(int(h.bucketSize), int(h.maxIterations), buckets)
		l.Number = uint64(len(s.Layers))
		s.Layers = append(s.Layers, l)
		buckets *= uint64(h.expansion)
	}
	s.Params = scalableext.Params{
		Capacity: h.buckets * uint64(h.bucketSize), ErrorRate: g.compatibleRate(uint32(h.expansion)), Expansion: uint32(h.expansion),
		Hash: compatibleHash(),
	}.Append(nil)
	return s, nil
}

// loading says how the slots of a dump become a filter.
var loading = dump.Loading[filter]{
	Native:  func(f *filter) bool { return !f.compatible },
	Counted: entriesCounter,
	Bytes: func(f *filter, i int) uint64 {
		switch {
		case i >= len(f.layers):
			return 0
		case !f.compatible:
			return dump.LayerLen(f.layers[len(f.layers)-1-i].table)
		}
		return f.layers[len(f.layers)-1-i].capacity
	},
	Put: putSlots, PutWhole: sameSlots,
}

// putSlots stages slots of a layer, and counts the entries among them.
func putSlots(w *kv.Writer, f *filter, i int, at uint64, data []byte) error {
	if !f.compatible {
		return putNative(w, f, i, at, data)
	}
	l := &f.layers[len(f.layers)-1-i]
	entries := w.Counter(l.table, entriesCounter)
	var changed []block.Slot
	err := dump.EachStretch(w, f.object, l.table, at, data, func(p dump.Stretch, was, is []byte) error {
		changed = changed[:0]
		for j := range is {
			if was[j] == is[j] {
				continue
			}
			changed = append(changed, block.Slot{Index: uint16(p.From + uint64(j)), Value: uint32(is[j])})
			switch {
			case was[j] == 0:
				entries++
			case is[j] == 0:
				entries--
			}
		}
		if len(changed) == 0 {
			return nil
		}
		return w.SetSlots(f.object, l.table, p.Block, changed)
	})
	if err == nil {
		w.SetCounter(l.table, entriesCounter, entries)
	}
	return err
}

// putNative is putSlots for a filter with the native layout. Its slots may lie in parts of bytes, so data that is not whole
// blocks, as those of a dump are, is refused.
func putNative(w *kv.Writer, f *filter, i int, at uint64, data []byte) error {
	to, family := &f.layers[len(f.layers)-1-i], f.object.Family()
	l := to.table
	entries := w.Counter(l, entriesCounter)
	words := make([]uint64, int(l.Spec().Lines)*block.LineWords)
	if size := 8 * len(words); at%uint64(size) != 0 || len(data)%size != 0 {
		return dump.ErrBadData
	}
	now := make([]uint64, len(words))
	var changed []block.Slot
	err := dump.EachStretch(w, f.object, l, at, data, func(p dump.Stretch, was, is []byte) error {
		if string(was) == string(is) {
			return nil
		}
		if err := w.ReadBlock(f.object, l, p.Block, words); err != nil {
			return err
		}
		for j := range now {
			now[j] = binary.LittleEndian.Uint64(is[8*j:])
		}
		changed = changed[:0]
		for j := range family.Slots(int(l.Spec().Lines)) {
			old, v := block.SlotAt(words, family, j), block.SlotAt(now, family, j)
			if old == v {
				continue
			}
			if j >= to.g.slots() { // of no bucket
				return dump.ErrBadData
			}
			changed = append(changed, block.Slot{Index: uint16(j), Value: v})
			switch {
			case old == 0:
				entries++
			case v == 0:
				entries--
			}
		}
		if len(changed) == 0 {
			return nil
		}
		return w.SetSlots(f.object, l, p.Block, changed)
	})
	if err == nil && entries > to.capacity {
		return dump.ErrBadData
	}
	if err == nil {
		w.SetCounter(l, entriesCounter, entries)
	}
	return err
}

// sameSlots returns ErrChunk unless the slots of a layer have these values. Slots of a complete filter are not overwritten:
// items could get lost. But a client that repeats what it has sent last is told that it is there.
func sameSlots(w *kv.Writer, f *filter, i int, at uint64, data []byte) error {
	l := &f.layers[len(f.layers)-1-i]
	return dump.EachStretch(w, f.object, l.table, at, data, func(_ dump.Stretch, was, is []byte) error {
		if string(was) != string(is) {
			return dump.ErrChunk
		}
		return nil
	})
}

func loadChunk(c *module.Call) reply.Reply {
	iter, ok := text.ParseInt(c.Args[1])
	if !ok || iter == 0 {
		return errPosition
	}
	f, data := handleOf(c), c.Args[2]
	var err error
	if iter == 1 {
		err = f.beginLoad(data)
	} else {
		err = f.loadSlots(iter, data)
	}
	switch {
	case err == nil:
		return reply.OK
	case errors.Is(err, errHeaderLength):
		return reply.Error("Invalid header")
	case errors.Is(err, errDumpHeader), iter == 1 && errors.Is(err, kv.ErrTooLarge):
		return reply.Error("Couldn't create filter!")
	case errors.Is(err, dump.ErrBadData), errors.Is(err, dump.ErrOffset), errors.Is(err, dump.ErrChunk),
		errors.Is(err, dump.ErrGaps):
		return reply.Error("Couldn't load chunk!")
	}
	return errorReply(err)
}

var errHeaderLength = errors.New("cuckooext: header of a dump has another length")

// loadSlots takes data of a dump.
func (f *Filter) loadSlots(iter int64, data []byte) error {
	if len(data) == 0 { // RedisBloom refuses it, if there is a filter
		iter = 0
	}
	return loading.Load(f.h, f.level, iter, data)
}

// beginLoad makes a half-loaded filter of a header.
func (f *Filter) beginLoad(header []byte) error {
	if dump.IsNativeDump(header) {
		return loading.BeginNative(f.h, f.level, header, cuckooType, true)
	}
	var h dumpHeader
	spec := func(db *kv.DB) (kv.Spec, error) {
		if len(header) != dumpHeaderLen {
			return kv.Spec{}, errHeaderLength
		}
		h = decodeDumpHeader(header)
		return h.spec(maxLayers(db))
	}
	return dump.BeginLoad(f.h, f.level, spec, func(w *kv.Writer, c *filter) error {
		w.SetCounter(c.layers[len(c.layers)-1].table, deletesCounter, h.deletes)
		return nil
	})
}

// loadExample loads the header of a filter of 4 slots, and then the slots.
const loadExample = `CF.LOADCHUNK sessions 1 "\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x14\x00\x01\x00"
CF.LOADCHUNK sessions 5 "\x00\x07\x00\x00"`
