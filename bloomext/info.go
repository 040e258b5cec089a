package bloomext

import (
	"math"
	"time"

	"github.com/sievekv/sievekv/internal/hash"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// Info describes a filter.
type Info struct {
	Asked     uint64  // the capacity that it was made with
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

	// Of a filter that forgets, see Config.Window. Then Capacity, Items, Distinct, ExpectedRate and Fill are of the slices
	// that have not expired. An item that was added again counts in each slice that has it.
	Window time.Duration
	Last   uint64
	Slices []SliceInfo // that have not expired, oldest first

	// GrowthLog is the most bytes of the log that the filter grows from, 0 if it has none and will have none, see
	// Config.GrowthLog. LogBytes is what the log of a filter takes on disk that gets larger without more layers, before it is compressed; it is
	// no part of Bytes. Filling is the capacity of the layer that is filled from it, 0 if there is none, and Filled how much of
	// the log it has, 0 to 1.
	GrowthLog uint64
	LogBytes  uint64
	Filling   uint64
	Filled    float64
}

// SliceInfo describes a slice of a filter that forgets, see Config.Window.
type SliceInfo struct {
	Begun     time.Time // zero with Last
	ExpiresAt time.Time // zero with Last
	Capacity  uint64
	Items     uint64
	Fill      float64 // share of its bits that are set, 0 to 1
	Layers    int
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
	info := Info{Asked: p.Capacity, ErrorRate: p.ErrorRate, Expansion: p.Expansion, ExpiresAt: scalableext.ExpiresAt(f.object), Hash: f.hash.Kind(), Layout: f.layout(), Lossy: f.object.Lossy()}
	if f.flat {
		info.Scheme = f.newest.flat.scheme.String()
	}
	info.Window, info.Last, info.GrowthLog = f.window.Span, f.window.Last, p.Log.Limit
	var ones, bits, distinct float64
	var rates []float64
	for i := f.alive(r.Now()) - 1; i >= 0; i-- {
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
		if f.windowed {
			info.addSlice(f, i, li)
		}
	}
	if log, filling := f.chain.Log, f.chain.Filling; log != nil {
		length := r.Counter(log, scalableext.LogLengthCounter)
		if info.LogBytes = 8 * length; filling != nil {
			info.Filling = filling.capacity
			filled := max(r.Counter(filling.table, scalableext.FilledCounter), min(length, r.Counter(filling.table, itemsCounter)))
			info.Filled = float64(filled) / float64(max(1, length))
		}
	}
	if bits == 0 { // all slices have expired
		bits = 1
	}
	info.Distinct = uint64(math.Round(distinct))
	info.ExpectedRate = scalableext.ChainRate(rates)
	info.Fill = ones / bits
	return info
}

// addSlice adds layer i, the newest being 0, to its slice. Older layers come first.
func (i *Info) addSlice(f *filter, at int, l LayerInfo) {
	if start := f.layers[at].start; at+1 == len(f.layers) || len(i.Slices) == 0 || start != f.layers[at+1].start {
		var s SliceInfo
		if f.window.Span != 0 {
			s.Begun, s.ExpiresAt = time.UnixMilli(start), time.UnixMilli(f.window.Ends(start))
		}
		i.Slices = append(i.Slices, s)
	}
	s := &i.Slices[len(i.Slices)-1]
	bits := float64(l.Bits)
	for j := range s.Layers {
		bits += float64(i.Layers[len(i.Layers)-2-j].Bits)
	}
	s.Fill = (s.Fill*(bits-float64(l.Bits)) + float64(l.Ones)) / bits
	s.Capacity, s.Items, s.Layers = s.Capacity+l.Capacity, s.Items+l.Items, s.Layers+1
}

// plannedWindow is Planned for a filter that forgets.
func (c Config) plannedWindow(items uint64, err error) (Info, error) {
	if err != nil {
		return Info{}, err
	}
	params, plan, slices, err := cells.PlannedWindow(c.asked(), items)
	if err != nil {
		return Info{}, err
	}
	n := uint64(slices)
	info := Info{
		Asked: params.Capacity, ErrorRate: params.ErrorRate, Expansion: params.Expansion, Window: params.Window.Span, Last: params.Window.Last,
		Capacity: n * plan.Room, Bytes: n * plan.Bytes, Fill: float64(plan.Set) / float64(plan.Cells),
	}
	rates := make([]float64, slices)
	held := uint64(0)
	for i := range rates {
		rates[i] = plan.ExpectedRate
		held = 0
		for _, l := range plan.Layers {
			info.Layers = append(info.Layers, plannedLayer(l))
			held += l.Items
		}
		info.Slices = append(info.Slices, SliceInfo{Capacity: plan.Room, Items: held, Fill: info.Fill, Layers: len(plan.Layers)})
	}
	info.Items, info.Distinct, info.ExpectedRate = n*held, n*held, scalableext.ChainRate(rates)
	return info, nil
}

func plannedLayer(l scalableext.PlannedLayer) LayerInfo {
	return LayerInfo{
		Capacity: l.Capacity, ErrorRate: l.Rate, Items: l.Items, Ones: l.Set,
		Bits: l.Layout.Bits(), Hashes: int(l.Layout.Hashes), Lines: int(l.Layout.LinesPerItem),
	}
}

// Planned returns what Info would say of a filter made with the Config that holds a number of distinct items, if each
// layer is filled before the next is added. Of the sizes it sets only Bytes. It needs no store, and ignores
// Options.MaxFilterBytes. A filter that grows from a log, see Config.GrowthLog, is planned as it is once a growth has ended:
// meanwhile a small layer more takes adds, and another as large as this one is filled. The errors are ErrConfig, and ErrFull or ErrCannotGrow if the filter cannot hold them.
//
// A Config with a window is planned as one that is full: items is the number in one window, and the slices that are there
// at the same time have an equal share each, and have had it for a window. When a window begins to get more than its capacity,
// its slices first grow by layers, and take more bytes than planned until these have expired.
func (c Config) Planned(items uint64) (Info, error) {
	if windowed, err := c.windowed(); windowed || err != nil {
		return c.plannedWindow(items, err)
	}
	switch c.Layout {
	case scalableext.LayoutNative:
	case scalableext.LayoutCompatible:
		return c.plannedCompatible(items)
	default:
		return Info{}, badLayout(c.Layout)
	}
	asked := c.asked()
	asked.GrowthLog = c.growthLog(scalableext.DefaultGrowthLog)
	p, err := cells.Planned(asked, c.Bits, c.Hashes, items)
	if err != nil {
		return Info{}, err
	}
	info := Info{
		Asked: p.Capacity, Capacity: p.Room, ErrorRate: p.ErrorRate, Expansion: p.Expansion, Items: items, Distinct: items, Bytes: p.Bytes,
		ExpectedRate: p.ExpectedRate, Fill: float64(p.Set) / float64(p.Cells), GrowthLog: p.Log.Limit, LogBytes: p.LogBytes,
	}
	for _, l := range p.Layers {
		info.Layers = append(info.Layers, plannedLayer(l))
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
	if f.windowed {
		facts = append(facts, windowFacts(info, r.Now())...)
	}
	if f.chain.Log != nil {
		facts = append(facts, kv.IntFact("log_bytes", info.LogBytes))
	}
	if f.chain.Filling != nil {
		facts = append(facts, kv.IntFact("filling", info.Filling), kv.NewFact("filled", info.Filled))
	}
	if f.flat {
		facts = append(facts, kv.NewFact("layout", info.Layout.String()))
	}
	if info.Scheme != "" {
		facts = append(facts, kv.NewFact("scheme", info.Scheme))
	}
	return kv.Description{Bytes: info.Bytes, Facts: facts}
}

// windowFacts returns what SIEVE.STATS shows of a filter that forgets. Times are in seconds. Of a filter in a file, where it is
// always time 0, it returns when slices began and expire, in Unix time, in place of how long ago and how soon that is.
func windowFacts(info Info, now int64) kv.FactList {
	slices := make([]kv.FactList, len(info.Slices))
	for i, s := range info.Slices {
		slices[i] = kv.FactList{
			kv.IntFact("items", s.Items), kv.IntFact("capacity", s.Capacity), kv.NewFact("fill", s.Fill), kv.IntFact("layers", s.Layers),
		}
		switch {
		case info.Window != 0 && now == 0:
			slices[i] = append(slices[i], kv.NewFact("begun", unixSeconds(s.Begun)), kv.NewFact("expires_at", unixSeconds(s.ExpiresAt)))
		case info.Window != 0:
			slices[i] = append(slices[i], kv.NewFact("age", s.age(now)), kv.NewFact("ttl", s.left(now)))
		}
	}
	fact := kv.NewFact("window", info.Window.Seconds())
	if info.Last != 0 {
		fact = kv.IntFact("last", info.Last)
	}
	return kv.FactList{fact, kv.NewFact("slices", slices)}
}

func unixSeconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// age returns how long ago the slice began, in seconds, 0 if the clock was set back since.
func (s SliceInfo) age(now int64) float64 { return float64(max(0, now-s.Begun.UnixMilli())) / 1000 }

// left returns the seconds until the slice expires.
func (s SliceInfo) left(now int64) float64 { return float64(s.ExpiresAt.UnixMilli()-now) / 1000 }
