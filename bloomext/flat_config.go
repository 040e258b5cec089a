package bloomext

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/hash"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

func badLayout(l scalableext.Layout) error {
	return scalableext.BadConfig("layout is %v, want native or compatible", l)
}

// layout returns the layout that a Config asks for.
func (f *filter) layout() scalableext.Layout {
	return scalableext.Layout(f.newest.table.Spec().Layout)
}

// planCompatible checks a Config for the compatible layout, and computes the parameters of the filter and of its first
// layer. Its error wraps ErrConfig, or kv.ErrTooLarge if the layer would be too large.
func (c Config) planCompatible() (p scalableext.Params, first flatParams, err error) {
	a := c.asked()
	if err := cmp.Or(a.CheckLife(), a.CheckExpansion()); err != nil {
		return p, first, err
	}
	bad := func(format string, args ...any) (scalableext.Params, flatParams, error) {
		return p, first, scalableext.BadConfig(format, args...)
	}
	switch {
	case !(c.ErrorRate > 0 && c.ErrorRate < 1):
		return bad("error rate is %v, want above 0 and below 1", c.ErrorRate)
	case c.Capacity < 1 || c.Capacity > compatibleMaxCapacity:
		return bad("capacity is %d in a filter with the compatible layout, want 1 to %d", c.Capacity, compatibleMaxCapacity)
	case c.Hash != hash.Default:
		return bad("hash is %v in a filter with the compatible layout, which has its own", c.Hash)
	case c.Group != "":
		return bad("group is %q in a filter with the compatible layout, want none: all of them have one hash", c.Group)
	case c.Bits != 0 || c.Hashes != 0:
		return bad("bits are %d and hashes %d in a filter with the compatible layout, want 0: they follow from the error rate", c.Bits, c.Hashes)
	}
	p = scalableext.Params{
		Capacity: c.Capacity, ErrorRate: min(c.ErrorRate, scalableext.MaxRate), Growth: scalableext.Halving, Hash: compatibleHash(),
	}
	rate, options, expansion := p.ErrorRate, uint32(optionNoRound|optionForce64), uint32(scalableext.DefaultExpansion)
	if c.NonScaling {
		options |= optionNonScaling
		if c.unused > 0 {
			expansion = c.unused - 1
		}
	} else {
		rate /= 2
		expansion = cmp.Or(c.Expansion, expansion)
		p.Expansion = expansion
	}
	ok := rate > 0
	if ok {
		first, ok = newFlat(c.Capacity, rate, options, expansion)
	}
	if !ok {
		return p, first, fmt.Errorf("%w: compatible Bloom filter of capacity %d and error rate %v", kv.ErrTooLarge, c.Capacity, c.ErrorRate)
	}
	return p, first, nil
}

// compatibleSpec is spec for the compatible layout.
func (c Config) compatibleSpec(db *kv.DB) (kv.Spec, error) {
	p, first, err := c.planCompatible()
	if err != nil {
		return kv.Spec{}, err
	}
	s := kv.Spec{Type: bloomType, Family: block.FamilyBits, Params: p.Append(nil), Layers: []kv.LayerSpec{first.spec()}}
	if c.TTL != 0 {
		s.Expiry = db.Now() + c.TTL.Milliseconds()
	}
	return s, nil
}

// compatibleMismatch is mismatch for the compatible layout.
func (c Config) compatibleMismatch(f *filter) error {
	want, _, err := c.planCompatible()
	if err != nil {
		return err
	}
	have := f.chain.Params
	var d scalableext.Differences
	d.Add("layout", f.layout(), c.Layout)
	d.Add("error rate", have.ErrorRate, want.ErrorRate)
	d.AddParams(c.asked(), have, want)
	return d.Err(f.object.Key())
}

// plannedCompatible is Planned for the compatible layout.
func (c Config) plannedCompatible(items uint64) (Info, error) {
	p, l, err := c.planCompatible()
	if err != nil {
		return Info{}, err
	}
	info := Info{Asked: p.Capacity, ErrorRate: p.ErrorRate, Expansion: p.Expansion, Layout: c.Layout, Hash: hash.Murmur64A, Items: items, Distinct: items}
	var rates []float64
	var ones float64
	for left := items; ; {
		held := min(left, l.capacity)
		set := l.expectedSet(held)
		info.Layers = append(info.Layers, LayerInfo{
			Capacity: l.capacity, ErrorRate: l.rate, Items: held, Ones: uint64(math.Round(set)), Bits: l.bits, Hashes: int(l.hashes),
		})
		info.Capacity += l.capacity
		info.Bytes += l.bits / 8
		rates = append(rates, math.Pow(set/float64(l.bits), float64(l.hashes)))
		ones += set
		if left -= held; left == 0 {
			break
		}
		if p.Expansion == 0 {
			return Info{}, scalableext.ErrFull
		}
		high, capacity := bits.Mul64(l.capacity, uint64(p.Expansion))
		ok := high == 0 && l.rate/2 > 0
		if ok {
			l, ok = newFlat(capacity, l.rate/2, l.options, l.expansion)
		}
		if !ok {
			return Info{}, scalableext.ErrCannotGrow
		}
	}
	info.ExpectedRate = scalableext.ChainRate(rates)
	info.Fill = ones / float64(8*info.Bytes)
	return info, nil
}
