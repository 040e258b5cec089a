package bloomext

import (
	"math"
	"time"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/kv/hash"
	"github.com/sievekv/sievekv/scalableext"
)

// Info describes a filter.
type Info struct {
	Capacity  uint64  // distinct items that the existing layers were made for
	ErrorRate float64 // the highest false-positive rate asked for
	Expansion uint32  // 0 for a filter that does not grow

	// Items is the number of items that were new when added. After a merge, and in an imported filter, it is an estimate, and
	// ItemsEstimated is true.
	Items          uint64
	ItemsEstimated bool

	// Distinct is the number of distinct items, estimated from the set bits. It is a little above Items, because it
	// includes items that seemed known when they were added.
	Distinct uint64

	ExpectedRate float64 // the present false-positive rate, from the set bits
	Fill         float64 // share of the bits that are set, 0 to 1, exact

	Bytes         uint64 // of the bit arrays; only used blocks take space on disk and in memory
	DiskBytes     uint64 // an estimate, without the last writes
	ResidentBytes uint64 // of blocks in memory

	Lossy     bool // it was salvaged without all of its blocks, and may miss items
	Layout    scalableext.Layout
	Scheme    string      // with scalableext.LayoutForeign how an item chooses its bits, otherwise ""
	Hash      hash.Kind   // of the items: hash.Keyed, hash.XXH64, in the compatible layout hash.Murmur64A, in the foreign one hash.Murmur3 or hash.Highway
	ExpiresAt time.Time   // to the millisecond; zero for never
	Layers    []LayerInfo // oldest first
}

// LayerInfo describes a layer of a filter.
type LayerInfo struct {
	Capacity  uint64
	ErrorRate float64 // its part of the filter's error rate
	Items     uint64
	Ones      uint64 // bits set
	Bits      uint64
	Hashes    int // probes of an item
	Lines     int // 512-bit lines with an item's probes; 0 unless the layout is native: they may be anywhere then
}

// Info returns facts about the filter, without reading its blocks.
func (f *Filter) Info() (Info, error) {
	var info Info
	err := f.h.Look(func(r kv.Reader, c *filter) (err error) {
		info = c.info(r)
		info.DiskBytes, info.ResidentBytes, err = f.h.DB.ObjectBytes(c.object)
		return err
	})
	return info, err
}

// info is Info without the bytes on disk and in memory.
func (f *filter) info(r kv.Reader) Info {
	p := f.chain.Params
	info := Info{ErrorRate: p.ErrorRate, Expansion: p.Expansion, ExpiresAt: scalableext.ExpiresAt(f.object), Hash: f.hash.Kind(), Layout: f.layout(), Lossy: f.object.Lossy()}
	if f.flat {
		info.Scheme = f.newest.flat.scheme.String()
	}
	var ones, bits, distinct float64
	var rates []float64
	for i := len(f.layers) - 1; i >= 0; i-- {
		l := &f.layers[i]
		li := LayerInfo{
			Capacity: l.capacity, ErrorRate: l.rate,
			Items: r.Counter(l.table, itemsCounter), Ones: r.Counter(l.table, onesCounter),
			Bits: l.numBits(), Hashes: l.hashes(), Lines: int(l.layout.LinesPerItem),
		}
		info.Layers = append(info.Layers, li)
		info.Capacity += li.Capacity
		info.Items += li.Items
		info.ItemsEstimated = info.ItemsEstimated || r.Counter(l.table, flagsCounter)&flagEstimated != 0
		info.Bytes += (li.Bits + 7) / 8
		bits += float64(li.Bits)
		rates = append(rates, l.setRate(li.Ones))
		ones += float64(li.Ones)
		distinct += l.distinctItems(li.Ones)
	}
	info.Distinct = uint64(math.Round(distinct))
	info.ExpectedRate = scalableext.ChainRate(rates)
	info.Fill = ones / bits
	return info
}

// Planned returns what Info would say of a filter made with the Config that holds so many distinct items, if each
// layer is filled before the next is added. Of the sizes it sets only Bytes. It needs no store, and ignores
// Options.MaxFilterBytes. The errors are ErrConfig, and ErrFull or ErrCannotGrow if the filter cannot hold so many.
func (c Config) Planned(items uint64) (Info, error) {
	switch c.Layout {
	case scalableext.LayoutNative:
	case scalableext.LayoutCompatible:
		return c.plannedCompatible(items)
	default:
		return Info{}, badLayout(c.Layout)
	}
	p, err := cells.Planned(c.asked(), c.Bits, c.Hashes, items)
	if err != nil {
		return Info{}, err
	}
	info := Info{
		Capacity: p.Room, ErrorRate: p.ErrorRate, Expansion: p.Expansion, Items: items, Distinct: items, Bytes: p.Bytes,
		ExpectedRate: p.ExpectedRate, Fill: float64(p.Set) / float64(p.Cells),
	}
	for _, l := range p.Layers {
		info.Layers = append(info.Layers, LayerInfo{
			Capacity: l.Capacity, ErrorRate: l.Rate, Items: l.Items, Ones: l.Set,
			Bits: l.Layout.Bits(), Hashes: int(l.Layout.Hashes), Lines: int(l.Layout.LinesPerItem),
		})
	}
	return info, nil
}

// describe returns what SIEVE.STATS shows of a filter.
func (f *filter) describe(r kv.Reader) kv.Description {
	info := f.info(r)
	layers := make([]kv.FactList, len(info.Layers))
	for i, l := range info.Layers {
		layers[i] = kv.FactList{
			kv.IntFact("capacity", l.Capacity), kv.IntFact("items", l.Items),
			kv.NewFact("fill", float64(l.Ones)/float64(l.Bits)), kv.IntFact("bits", l.Bits),
			kv.IntFact("hashes", l.Hashes), kv.NewFact("error_rate", l.ErrorRate),
		}
	}
	facts := kv.FactList{
		kv.IntFact("items", info.Items), kv.NewFact("items_estimated", info.ItemsEstimated),
		kv.IntFact("distinct", info.Distinct), kv.IntFact("capacity", info.Capacity),
		kv.NewFact("fill", info.Fill),
		kv.NewFact("expected_rate", info.ExpectedRate), kv.NewFact("error_rate", info.ErrorRate),
		kv.IntFact("expansion", info.Expansion), kv.NewFact("hash", info.Hash.String()),
		kv.NewFact("layers", layers),
	}
	if f.flat {
		facts = append(facts, kv.NewFact("layout", info.Layout.String()))
	}
	if info.Scheme != "" {
		facts = append(facts, kv.NewFact("scheme", info.Scheme))
	}
	return kv.Description{Bytes: info.Bytes, Facts: facts}
}
