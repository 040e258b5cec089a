package countingext

import (
	"math"
	"time"

	"github.com/sievekv/sievekv/internal/hash"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// Info describes a filter.
type Info struct {
	Capacity  uint64  // items that the existing layers were made for
	ErrorRate float64 // the highest false-positive rate asked for
	Expansion uint32  // 0 for a filter that does not grow

	Items uint64 // adds minus deletions of items that were present

	// DeletesKept is the number of deletions of present items that counted nothing down: several layers of a filter
	// that is not Ordered seemed to have the item, or all its counters stick. The item still seems to be present.
	// Leftover is the number of adds that are still counted, but whose items are gone: Leftover/Items for each
	// present item. Stuck is the number of counters that stick. If they are many, make the filter again.
	DeletesKept uint64
	Leftover    uint64
	Stuck       uint64

	// Ordered says whether the layer that has an item can be told from layers that only seem to have it, so that a
	// deletion is kept only if the item's counters stick.
	Ordered bool

	// Distinct is the number of distinct items, estimated from the counters above 0.
	Distinct uint64

	ExpectedRate float64 // the present false-positive rate, from the counters above 0

	// DeletedRate is the share of deleted items that still seem to be present. If a deletion was kept, it is the
	// share of the last few thousand deletions after which the item seemed to be present. (An item that was added
	// several times and deleted less often counts too.) Otherwise it is ExpectedRate.
	DeletedRate float64
	Fill        float64 // share of the counters that are above 0, 0 to 1, exact

	Bytes         uint64 // of the counters; only used blocks take space on disk and in memory
	DiskBytes     uint64 // an estimate, without the last writes
	ResidentBytes uint64 // of blocks in memory

	Lossy     bool        // it was salvaged without all of its blocks, and may miss items
	Hash      hash.Kind   // of the items: hash.Keyed or hash.XXH64
	ExpiresAt time.Time   // to the millisecond; zero for never
	Layers    []LayerInfo // oldest first
}

// LayerInfo describes a layer of a filter.
type LayerInfo struct {
	Capacity  uint64
	ErrorRate float64 // its part of the filter's error rate
	Adds      uint64  // adds that counted up in it, minus deletions that counted down
	Above     uint64  // counters above 0
	Stuck     uint64  // counters at 15
	Counters  uint64
	Hashes    int // probes of an item
	Lines     int // lines of 128 counters with an item's probes
}

// Info returns facts about the filter, without reading its blocks.
func (f *Filter) Info() (info Info, err error) {
	err = f.h.Look(func(r kv.Reader, c *filter) (err error) {
		info = c.info(r)
		info.DiskBytes, info.ResidentBytes, err = f.h.DB.ObjectBytes(c.object)
		return err
	})
	return info, err
}

// items returns adds minus deletions.
func (f *filter) items(r kv.Reader) uint64 { return r.Counter(f.oldest().table, itemsCounter) }

// info is Info without the bytes on disk and in memory.
func (f *filter) info(r kv.Reader) Info {
	p := f.chain.Params
	i := Info{
		ErrorRate: p.ErrorRate, Expansion: p.Expansion, ExpiresAt: scalableext.ExpiresAt(f.object), Hash: f.hash.Kind(), Lossy: f.object.Lossy(),
		Items: f.items(r), DeletesKept: r.Counter(f.oldest().table, keptCounter), Ordered: f.ordered(r),
	}
	var rates []float64
	var above, counters, adds uint64
	for n := len(f.layers) - 1; n >= 0; n-- {
		l := &f.layers[n]
		li := LayerInfo{
			Capacity: l.capacity, ErrorRate: l.rate, Counters: l.layout.Cells(),
			Adds: r.Counter(l.table, fillCounter), Above: r.Counter(l.table, aboveCounter),
			Stuck: r.Counter(l.table, stuckCounter), Hashes: int(l.layout.Hashes), Lines: int(l.layout.LinesPerItem),
		}
		i.Layers = append(i.Layers, li)
		i.Capacity += li.Capacity
		i.Stuck += li.Stuck
		i.Bytes += l.layout.Bits() / 8
		i.Distinct += uint64(math.Round(l.layout.DistinctItems(li.Above)))
		rates = append(rates, l.layout.SetRate(li.Above))
		above += li.Above
		adds += li.Adds
		counters += li.Counters
	}
	i.ExpectedRate = scalableext.ChainRate(rates)
	i.DeletedRate = i.ExpectedRate
	if late := r.Counter(f.oldest().table, deletedLatelyCounter); late > 0 {
		i.DeletedRate = float64(r.Counter(f.oldest().table, foundLatelyCounter)) / float64(late)
	}
	i.Leftover = max(adds, i.Items) - i.Items // adds may be fewer than items if all counters of an item stick
	i.Fill = float64(above) / float64(counters)
	return i
}

// Planned returns what Info would say of a filter made with the Config that holds a number of distinct items, each added
// once, if each layer is filled before the next is added. Of the sizes it sets only Bytes. It needs no store, and
// ignores Options.MaxFilterBytes. The errors are ErrConfig, and ErrFull or ErrCannotGrow if the filter cannot hold so
// many.
func (c Config) Planned(items uint64) (Info, error) {
	p, err := cells.Planned(c.asked(), c.Counters, c.Hashes, items)
	if err != nil {
		return Info{}, err
	}
	i := Info{
		Capacity: p.Room, ErrorRate: p.ErrorRate, ExpectedRate: p.ExpectedRate, DeletedRate: p.ExpectedRate, Expansion: p.Expansion,
		Items: items, Distinct: items, Ordered: true, Bytes: p.Bytes, Fill: float64(p.Set) / float64(p.Cells),
	}
	for _, l := range p.Layers {
		i.Layers = append(i.Layers, LayerInfo{
			Capacity: l.Capacity, ErrorRate: l.Rate, Adds: l.Items, Above: l.Set, Counters: l.Layout.Cells(),
			Hashes: int(l.Layout.Hashes), Lines: int(l.Layout.LinesPerItem),
		})
	}
	return i, nil
}

// describe returns what SIEVE.STATS shows of a filter.
func (f *filter) describe(r kv.Reader) kv.Description {
	info := f.info(r)
	layers := make([]kv.FactList, len(info.Layers))
	for i, l := range info.Layers {
		layers[i] = kv.FactList{
			kv.IntFact("capacity", l.Capacity), kv.IntFact("items", l.Adds),
			kv.NewFact("fill", float64(l.Above)/float64(l.Counters)), kv.IntFact("stuck", l.Stuck),
			kv.IntFact("counters", l.Counters), kv.IntFact("hashes", l.Hashes),
			kv.NewFact("error_rate", l.ErrorRate),
		}
	}
	return kv.Description{Bytes: info.Bytes, Facts: kv.FactList{
		kv.IntFact("items", info.Items), kv.IntFact("deletes_kept", info.DeletesKept),
		kv.IntFact("leftover", info.Leftover), kv.NewFact("ordered", info.Ordered),
		kv.IntFact("stuck", info.Stuck), kv.IntFact("distinct", info.Distinct),
		kv.IntFact("capacity", info.Capacity), kv.NewFact("fill", info.Fill),
		kv.NewFact("expected_rate", info.ExpectedRate), kv.NewFact("deleted_rate", info.DeletedRate),
		kv.NewFact("error_rate", info.ErrorRate),
		kv.IntFact("expansion", info.Expansion), kv.NewFact("hash", info.Hash.String()),
		kv.NewFact("layers", layers),
	}}
}
