package bloomext

import (
	"fmt"
	"math"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/kv/block"
	"github.com/sievekv/sievekv/kv/probe"
	"github.com/sievekv/sievekv/scalableext"
)

// bloomType is the stored type. Its name is RedisBloom's.
var bloomType = &kv.Type{Name: "MBbloom--", Version: 1, Open: openFilter, Verify: verify}

// filter is what an open object of the type is to this package. It never changes.
type filter struct {
	object *kv.Object
	seed   uint64
	newest layer   // layers[0], one dereference nearer
	layers []layer // newest first
	chain  *scalableext.Chain[layer]
}

// layer is one filter of fixed size.
type layer struct {
	layout   probe.Layout
	table    *kv.Layer
	capacity uint64
	rate     float64
}

func openFilter(o *kv.Object) (any, error) {
	chain, err := scalableext.Open(o, openLayer)
	if err != nil {
		return nil, err
	}
	return &filter{object: o, seed: chain.Params.Seed, newest: *chain.Newest(), layers: chain.NewestFirst(), chain: chain}, nil
}

func openLayer(_ scalableext.Params, l *kv.Layer) (layer, error) {
	s := l.Spec()
	if s.Layout != kv.LayoutNative {
		return layer{}, fmt.Errorf("%w: Bloom layout %d", kv.ErrUnsupportedVersion, s.Layout)
	}
	p, err := decodeLayerParams(s.Params)
	if err != nil {
		return layer{}, err
	}
	layout, err := probe.NewLayout(s.Blocks, uint64(s.Lines), uint64(p.hashes), uint64(p.linesPerItem))
	if err != nil {
		return layer{}, fmt.Errorf("%w: %w", kv.ErrCorrupt, err)
	}
	return layer{layout: layout, table: l, capacity: p.capacity, rate: p.rate}, nil
}

// resident answers from resident blocks alone; known is false if that does not
// decide it.
func (f *filter) resident(h uint64) (present, known bool) {
	known = true
	for i := range f.layers {
		l := &f.layers[i]
		blk, rest := l.layout.Block(h)
		switch first := l.table.Resident(blk); {
		case first == nil:
			known = false
		case l.layout.Test(first, rest, h):
			return true, true
		}
	}
	return false, known
}

// stage stages the adding of an item and reports whether it is new. A new item
// for a full filter is ErrFull.
func (f *filter) stage(w *kv.Writer, h uint64) (bool, error) {
	var buf [probe.MaxHashes]uint16
	newest := f.chain.Newest()
	for i := range f.layers {
		l := &f.layers[i]
		items := w.Counter(l.table, itemsCounter)
		if l == newest && items < l.capacity {
			continue // SetBits below finds out
		}
		blk, _ := l.layout.Block(h)
		present, err := w.HasBits(f.object, l.table, blk, l.layout.AppendPositions(buf[:0], h))
		if present || err != nil {
			return false, err
		}
		if l == newest {
			return false, ErrFull
		}
	}
	blk, _ := newest.layout.Block(h)
	added, err := w.SetBits(f.object, newest.table, blk, newest.layout.AppendPositions(buf[:0], h))
	if added {
		w.SetCounter(newest.table, itemsCounter, w.Counter(newest.table, itemsCounter)+1)
	}
	return added, err
}

// items returns the number of items added, those that were new.
func (f *filter) items() (n uint64) {
	for i := range f.layers {
		n += f.layers[i].table.Counter(itemsCounter)
	}
	return n
}

// capacity returns the number of items the layers there are were made for.
func (f *filter) capacity() (n uint64) {
	for i := range f.layers {
		n += f.layers[i].capacity
	}
	return n
}

// verifier checks a filter's bits against its counters.
type verifier struct {
	f    *filter
	ones map[*kv.Layer]uint64
}

func verify(o *kv.Object) kv.Verifier {
	f, _ := o.Body().(*filter)
	return &verifier{f: f, ones: make(map[*kv.Layer]uint64)}
}

func (v *verifier) Block(l *kv.Layer, _ uint64, words []uint64) error {
	v.ones[l] += uint64(block.Count(words))
	return nil
}

// Done checks exactly that no layer took more than its capacity, that no more
// bits are set than its items can have set, and at least one for each item, as
// an item is only counted if it set one. The share of set bits is compared
// with what that many random items set: a statistical check, with a note at six
// standard deviations.
func (v *verifier) Done() (note string, err error) {
	for i := range v.f.layers {
		l := &v.f.layers[i]
		items, ones := l.table.Counter(itemsCounter), v.ones[l.table]
		number := l.table.Spec().Number
		if items > l.capacity {
			return "", fmt.Errorf("%w: layer %d counts %d items, its capacity is %d", kv.ErrCorrupt, number, items, l.capacity)
		}
		if ones > items*uint64(l.layout.Hashes) || ones < items {
			return "", fmt.Errorf("%w: layer %d has %d bits set by %d items of %d hashes", kv.ErrCorrupt, number, ones, items, l.layout.Hashes)
		}
		want, deviation := expectedOnes(l, items)
		if math.Abs(float64(ones)-want) > 6*deviation+1 {
			note = fmt.Sprintf("layer %d has %d bits set where random items set %.0f, give or take %.0f (statistical: chosen items, or items added under another seed, do that)", number, ones, want, deviation)
		}
	}
	return note, nil
}

// expectedOnes returns the mean and an upper estimate of the standard deviation
// of the set bits after a number of random items: m(1 - (1-1/m)^(kn)) for k*n
// throws into m bits. The throws of an item crowd into its lines, which makes
// the mean a little less and the deviation more; both are allowed for.
func expectedOnes(l *layer, items uint64) (mean, deviation float64) {
	m := float64(l.layout.Bits())
	throws := float64(items) * float64(l.layout.Hashes)
	mean = m * -math.Expm1(throws*math.Log1p(-1/m))
	perLine := float64(l.layout.Hashes) / float64(l.layout.LinesPerItem)
	crowding := throws * perLine / (2 * 512) // bits an item's probes share in a line
	return mean - crowding/2, crowding/2 + math.Sqrt(mean*perLine)
}
