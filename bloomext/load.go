package bloomext

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/dump"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/text"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/scalableext"
)

// dumped is what the header of a dump says.
type dumped struct {
	layers []flatParams
	items  []uint64
}

// decodeDump decodes the header of a dump, which may be anything. It takes what RedisBloom takes, except filters of more
// than format.MaxLayers layers, and parameters that no filter of RedisBloom has: see flatParams.valid.
func decodeDump(b []byte) (d dumped, ok bool) {
	if len(b) < dumpHeaderLen {
		return d, false
	}
	items, layers := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint32(b[8:])
	options, expansion := binary.LittleEndian.Uint32(b[12:]), binary.LittleEndian.Uint32(b[16:])
	b = b[dumpHeaderLen:]
	if layers < 1 || layers > format.MaxLayers || len(b) != int(layers)*dumpLayerLen {
		return d, false
	}
	var sum uint64
	for ; len(b) > 0; b = b[dumpLayerLen:] {
		wide := func(at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }
		p := flatParams{
			bits: wide(8), rate: math.Float64frombits(wide(24)), perItem: math.Float64frombits(wide(32)),
			hashes: binary.LittleEndian.Uint32(b[40:]), capacity: wide(44), n2: b[52], options: options, expansion: expansion,
		}
		if !p.valid() || p.bits/8 != wide(0) {
			return d, false
		}
		d.layers, d.items = append(d.layers, p), append(d.items, wide(16))
		if sum += wide(16); sum < wide(16) {
			return d, false
		}
	}
	return d, sum == items
}

// spec returns what is stored for the filter of a dump.
func (d dumped) spec() kv.Spec {
	first := d.layers[0]
	p := scalableext.Params{Capacity: first.capacity, ErrorRate: first.rate, Growth: scalableext.Halving, Hash: compatibleHash()}
	if first.options&optionNonScaling == 0 {
		p.ErrorRate, p.Expansion = min(2*first.rate, math.Nextafter(1, 0)), first.expansion
	}
	s := kv.Spec{Type: bloomType, Family: block.FamilyBits, Params: p.Append(nil)}
	for i := range d.layers {
		l := d.layers[i].spec()
		l.Number = uint64(i)
		s.Layers = append(s.Layers, l)
	}
	return s
}

// loading says how the bytes of a dump become a filter.
var loading = dump.Loading[filter]{
	Native:  func(f *filter) bool { return f.layout() != scalableext.LayoutCompatible },
	Counted: onesCounter,
	Bytes: func(f *filter, i int) uint64 {
		switch {
		case i >= len(f.layers):
			return 0
		case f.layout() != scalableext.LayoutCompatible:
			return dump.LayerLen(f.layer(i).table)
		}
		return f.layer(i).numBits() / 8
	},
	Put: putBytes, PutWhole: sameBytes, Done: countLoaded,
}

// countLoaded estimates the number of items of a layer with the native layout if its header counts another than its bits can
// have: items may have been added while it was dumped.
func countLoaded(w *kv.Writer, f *filter) error {
	for i := range f.layers {
		l := &f.layers[i]
		ones, estimated := w.Counter(l.table, onesCounter), w.Counter(l.table, flagsCounter)&flagEstimated != 0
		if l.flat == nil && !estimated && l.checkItems(w.Counter(l.table, itemsCounter), ones) != nil {
			w.SetCounter(l.table, itemsCounter, uint64(math.Round(l.distinctItems(ones))))
			w.SetCounter(l.table, flagsCounter, flagEstimated)
		}
	}
	return nil
}

// errOther is the error of data that differs from what came before for the same place.
var errOther = errors.New("other data has come for this place before: load the filter anew, from its header on")

// putBytes stages bytes of a layer, and counts the bits that are set.
func putBytes(w *kv.Writer, f *filter, i int, at uint64, data []byte) error {
	l := f.layer(i)
	var positions []uint16
	return dump.EachStretch(w, f.object, l.table, at, data, func(p dump.Stretch, was, is []byte) error {
		positions = positions[:0]
		for j, b := range is {
			if was[j]&^b != 0 {
				return errOther // bits are never cleared
			}
			for bit, set := uint64(0), b&^was[j]; set != 0; bit, set = bit+1, set>>1 {
				if set&1 != 0 {
					positions = append(positions, uint16((p.From+uint64(j))*8+bit))
				}
			}
		}
		if len(positions) == 0 {
			return nil
		}
		ones, err := w.SetBits(f.object, l.table, p.Block, positions)
		w.SetCounter(l.table, onesCounter, w.Counter(l.table, onesCounter)+uint64(ones))
		return err
	})
}

// sameBytes returns errOther unless the bytes of a layer are these. Bytes of a complete filter are not overwritten: items
// could get lost. But a client that repeats what it has sent last is told that it is there.
func sameBytes(w *kv.Writer, f *filter, i int, at uint64, data []byte) error {
	return dump.EachStretch(w, f.object, f.layer(i).table, at, data, func(_ dump.Stretch, was, is []byte) error {
		if string(was) != string(is) {
			return errOther
		}
		return nil
	})
}

func loadChunk(c *module.Call) reply.Reply {
	iter, ok := text.ParseInt(c.Args[1])
	if !ok {
		return reply.Error("ERR Second argument must be numeric")
	}
	f, data := handleOf(c), c.Args[2]
	if iter == 1 {
		err := f.beginLoad(data)
		switch {
		case err == nil:
			return reply.OK
		case errors.Is(err, kv.ErrTooLarge):
			return errNoMemory
		case !errors.Is(err, kv.ErrExists): // a key of another type is refused below
			return dump.LoadReply(err)
		}
	}
	switch err := loading.Load(f.h, f.level, iter, data); {
	case err == nil:
		return reply.OK
	default:
		return dump.LoadReply(err)
	}
}

// beginLoad makes a half-loaded filter of a header.
func (f *Filter) beginLoad(header []byte) error {
	if dump.IsNativeDump(header) {
		return loading.BeginNative(f.h, f.level, header, bloomType, false)
	}
	var d dumped
	spec := func(*kv.DB) (kv.Spec, error) {
		var ok bool
		if d, ok = decodeDump(header); !ok {
			return kv.Spec{}, dump.ErrBadData
		}
		return d.spec(), nil
	}
	return dump.BeginLoad(f.h, f.level, spec, func(w *kv.Writer, c *filter) error {
		for i, items := range d.items {
			if items > 0 {
				w.SetCounter(c.layer(i).table, itemsCounter, items)
			}
		}
		return nil
	})
}

// loadExample loads the header of a filter of 8 bytes, and then these.
const loadExample = `BF.LOADCHUNK seen 1 "\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x05\x00\x00\x00\x02\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00\x40\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xd0\x3f\x04\x83\x2b\x65\x47\x15\x07\x40\x03\x00\x00\x00\x0a\x00\x00\x00\x00\x00\x00\x00\x00"
BF.LOADCHUNK seen 9 "\x01\x02\x04\x00\x00\x00\x00\x00"`
