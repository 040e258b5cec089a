package report

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sort"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/filters"
	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/internal/probe"
	"github.com/sievekv/sievekv/scalableext"
)

// grownBy is how many times its capacity a filter holds when a plan shows it grown.
const grownBy = 10

// Plan returns the plan of a filter of a type. A Bloom filter's Config has all parameters that a plan may have. No
// store is needed: the sizes are computed by the formulas, and with the limits, that filters are made with. maxBytes is
// as in filters.PlannedBloom.
func Plan(kind string, c bloomext.Config, maxBytes uint64) (Result, error) {
	switch kind {
	case filters.Cuckoo:
		return planCuckoo(cuckooext.Config{
			Capacity: c.Capacity, ErrorRate: c.ErrorRate, Expansion: c.Expansion, NonScaling: c.NonScaling, Layout: c.Layout,
		}, maxBytes)
	case filters.Counting:
		return planCounting(countingext.Config{
			Capacity: c.Capacity, ErrorRate: c.ErrorRate, Expansion: c.Expansion, NonScaling: c.NonScaling,
		}, maxBytes)
	}
	if c.Window != 0 || c.Last != 0 || c.Slices != 0 {
		return planWindow(c, maxBytes)
	}
	return planBloom(c, maxBytes)
}

// filterPlan is what plan prints about a Bloom filter, counting or not, when it is new and when it has grown.
type filterPlan struct {
	Type      string  `json:"type"`
	Layout    string  `json:"layout,omitempty"` // if it is not the native one
	Expansion uint32  `json:"expansion"`        // 0: does not grow
	ErrorRate float64 `json:"error_rate"`
	layerPlan
	MaxLayers int        `json:"max_layers"`
	GrowthLog uint64     `json:"growth_log,omitempty"` // the most bytes of the log that it grows from; 0: it grows by layers
	Grown     *grownPlan `json:"grown,omitempty"`

	asked float64 // the rate asked for; ErrorRate is lower if no filter has so high a rate
}

// layerPlan is one layer.
type layerPlan struct {
	Capacity     uint64  `json:"capacity"`
	Bits         uint64  `json:"bits"`
	Counters     uint64  `json:"counters,omitempty"` // of a counting filter; its bits are the counters'
	Bytes        uint64  `json:"bytes"`
	BitsPerItem  float64 `json:"bits_per_item"` // at its capacity
	Hashes       int     `json:"hashes"`
	LinesPerItem int     `json:"lines_per_item,omitempty"` // 0, as the next two, with the compatible layout
	Blocks       uint64  `json:"blocks,omitempty"`
	BlockBits    uint64  `json:"block_bits,omitempty"`
	ExpectedRate float64 `json:"expected_rate"` // at its capacity

	layout probe.Layout
}

// grownPlan is a filter of several layers that holds a number of items.
type grownPlan struct {
	Items        uint64      `json:"items"`
	Bytes        uint64      `json:"bytes"`
	BitsPerItem  float64     `json:"bits_per_item"`
	ExpectedRate float64     `json:"expected_rate"`
	LogBytes     uint64      `json:"log_bytes,omitempty"` // of the log that it grows from, on disk
	Layers       []layerPlan `json:"layers"`
}

// planned is what the Infos of Bloom filters, counting or not, have in common.
type planned struct {
	rate      float64
	expansion uint32
	bytes     uint64
	expected  float64 // rate
	log       uint64  // the most bytes of its log
	logBytes  uint64
	layers    []plannedLayer
}

type plannedLayer struct {
	capacity uint64
	rate     float64
	bits     uint64 // with the compatible layout, as the hashes
	hashes   int
}

// planBloom describes the filter of a Config.
func planBloom(c bloomext.Config, maxBytes uint64) (*filterPlan, error) {
	of := func(info bloomext.Info) planned {
		p := planned{
			rate: info.ErrorRate, expansion: info.Expansion, bytes: info.Bytes, expected: info.ExpectedRate,
			log: info.GrowthLog, logBytes: info.LogBytes,
		}
		for _, l := range info.Layers {
			one := plannedLayer{capacity: l.Capacity, rate: l.ErrorRate}
			if c.Layout == scalableext.LayoutCompatible {
				one.bits, one.hashes = l.Bits, l.Hashes
			}
			p.layers = append(p.layers, one)
		}
		return p
	}
	info, err := filters.PlannedBloom(c, maxBytes)
	if err != nil {
		return nil, err
	}
	p := &filterPlan{Type: filters.Bloom, asked: c.ErrorRate}
	if c.Layout != scalableext.LayoutNative {
		p.Layout = c.Layout.String()
		p.MaxLayers = mostLayers(c, info.Expansion)
	}
	return planFilter(p, probe.Size, of(info), maxBytes, func(items uint64) (planned, error) {
		info, err := c.Planned(items)
		return of(info), err
	})
}

// mostLayers returns how many layers a filter with the compatible layout and the given expansion has at most. Each
// layer has half the rate of the one before, so there are fewer than tooMany.
func mostLayers(c bloomext.Config, expansion uint32) int {
	const tooMany = 1100
	return sort.Search(tooMany, func(n int) bool {
		items, capacity := uint64(1), c.Capacity // one item in the layer behind n layers, which is too large before items overflows
		for range n {
			items += capacity
			high, low := bits.Mul64(capacity, uint64(max(1, expansion)))
			if high > 0 || items > math.MaxUint64/2 {
				return true
			}
			capacity = low
		}
		_, err := c.Planned(items)
		return err != nil
	})
}

// planCounting is planBloom for a counting Bloom filter.
func planCounting(c countingext.Config, maxBytes uint64) (*filterPlan, error) {
	of := func(info countingext.Info) planned {
		p := planned{rate: info.ErrorRate, expansion: info.Expansion, bytes: info.Bytes, expected: info.ExpectedRate}
		for _, l := range info.Layers {
			p.layers = append(p.layers, plannedLayer{capacity: l.Capacity, rate: l.ErrorRate})
		}
		return p
	}
	info, err := filters.PlannedCounting(c, maxBytes)
	if err != nil {
		return nil, err
	}
	return planFilter(&filterPlan{Type: filters.Counting, asked: c.ErrorRate}, probe.SizeCounters, of(info), maxBytes, func(items uint64) (planned, error) {
		info, err := c.Planned(items)
		return of(info), err
	})
}

// sizeLayer returns the layout of a layer.
type sizeLayer func(capacity uint64, rate float64) (probe.Layout, error)

// planFilter completes the plan of a filter that begins as first, and is what grow returns when it holds more items.
func planFilter(p *filterPlan, size sizeLayer, first planned, maxBytes uint64, grow func(items uint64) (planned, error)) (*filterPlan, error) {
	var err error
	if p.layerPlan, err = planLayer(size, first.layers[0]); err != nil {
		return nil, err
	}
	p.ErrorRate, p.Expansion, p.GrowthLog = first.rate, first.expansion, first.log
	if p.MaxLayers == 0 {
		p.MaxLayers = scalableext.Params{Capacity: p.Capacity, Expansion: p.Expansion}.MaxLayers()
	}
	if p.Expansion == 0 {
		return p, nil
	}
	items := grownBy * p.Capacity
	switch grown, err := grow(items); {
	case growsNoFurther(grown.bytes, maxBytes, err):
		return p, nil
	case err != nil:
		return nil, err
	default:
		p.Grown = &grownPlan{
			Items: items, Bytes: grown.bytes, BitsPerItem: 8 * float64(grown.bytes) / float64(items), ExpectedRate: grown.expected,
			LogBytes: grown.logBytes,
		}
		for _, l := range grown.layers {
			one, err := planLayer(size, l)
			if err != nil {
				return nil, err
			}
			p.Grown.Layers = append(p.Grown.Layers, one)
		}
	}
	return p, nil
}

// growsNoFurther reports whether a filter cannot grow to the planned size in bytes.
func growsNoFurther(bytes, maxBytes uint64, err error) bool {
	return errors.Is(err, scalableext.ErrCannotGrow) || err == nil && filters.IsTooLarge(bytes, maxBytes)
}

func planLayer(size sizeLayer, l plannedLayer) (layerPlan, error) {
	if l.bits != 0 {
		hashes := float64(l.hashes)
		return layerPlan{
			Capacity: l.capacity, Bits: l.bits, Bytes: l.bits / 8, BitsPerItem: float64(l.bits) / float64(l.capacity), Hashes: l.hashes,
			ExpectedRate: math.Pow(-math.Expm1(hashes*float64(l.capacity)*math.Log1p(-1/float64(l.bits))), hashes),
		}, nil
	}
	layout, err := size(l.capacity, l.rate)
	if err != nil {
		return layerPlan{}, err
	}
	p := layerPlan{
		Capacity: l.capacity, Bits: layout.Bits(), Bytes: layout.Bits() / 8, BitsPerItem: float64(layout.Bits()) / float64(l.capacity),
		Hashes: int(layout.Hashes), LinesPerItem: int(layout.LinesPerItem), Blocks: layout.Blocks, BlockBits: layout.Bits() / layout.Blocks,
		ExpectedRate: layout.ExpectedRate(l.capacity), layout: layout,
	}
	if layout.Cells() != layout.Bits() {
		p.Counters = layout.Cells()
	}
	return p, nil
}

// askedRate tells the rate that was asked for, and the filter's rate if that is lower.
func askedRate(asked, rate float64) string {
	if asked > rate {
		return fmt.Sprintf("%g asked for, lowered to %g", asked, rate)
	}
	return fmt.Sprintf("%g asked for", rate)
}

func (p *filterPlan) Text() string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-14s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("type", "%s", p.Type)
	if p.Layout != "" {
		line("layout", "%s", p.Layout)
	}
	line("capacity", "%d items", p.Capacity)
	line("error rate", "%s, %.3g expected at capacity", askedRate(p.asked, p.ErrorRate), p.ExpectedRate)
	if p.Counters != 0 {
		line("counters", "%d", p.Counters)
	} else {
		line("bits", "%d", p.Bits)
	}
	line("bytes", "%d", p.Bytes)
	line("bits per item", "%.2f", p.BitsPerItem)
	line("hashes", "%d", p.Hashes)
	switch {
	case p.Blocks == 0:
	case p.Counters != 0:
		line("lines per item", "%d", p.LinesPerItem)
		line("blocks", "%d of %d counters", p.Blocks, p.Counters/p.Blocks)
	default:
		line("lines per item", "%d", p.LinesPerItem)
		line("blocks", "%d of %d bits", p.Blocks, p.BlockBits)
	}
	layers := fmt.Sprintf("1, growing to at most %d, each for %d times the items of the one before",
		p.MaxLayers, p.Expansion)
	if p.GrowthLog != 0 {
		layers = fmt.Sprintf("1, built anew for more items from a log of at most %d bytes, then growing", p.GrowthLog)
	}
	switch {
	case p.Expansion == 0:
		line("layers", "1, and no more")
		return b.String()
	case p.Grown == nil:
		line("layers", "%s; too few for %d times the capacity", layers, grownBy)
		return b.String()
	}
	line("layers", "%s", layers)
	g := p.Grown
	log, about := "", ""
	if p.GrowthLog != 0 { // its layers are made for as many items as are estimated when they are filled
		about = "about "
	}
	if g.LogBytes != 0 {
		log = fmt.Sprintf(", and a log of %d bytes on disk", g.LogBytes)
	}
	fmt.Fprintf(&b, "\ngrown to %d items: %s%d bytes, %.2f bits per item, rate %.3g%s\n",
		g.Items, about, g.Bytes, g.BitsPerItem, g.ExpectedRate, log)
	rows := [][]string{
		{"layer", "capacity", "bytes", "bits per item", "hashes", "lines per item", "blocks", "rate at capacity"},
	}
	if p.Blocks == 0 {
		rows[0] = slices.Delete(rows[0], 5, 7)
	}
	for i, l := range g.Layers {
		row := []string{
			fmt.Sprint(i), fmt.Sprint(l.Capacity), fmt.Sprint(l.Bytes), fmt.Sprintf("%.2f", l.BitsPerItem),
			fmt.Sprint(l.Hashes), fmt.Sprint(l.LinesPerItem), fmt.Sprint(l.Blocks), fmt.Sprintf("%.3g", l.ExpectedRate),
		}
		if p.Blocks == 0 {
			row = slices.Delete(row, 5, 7)
		}
		rows = append(rows, row)
	}
	return b.String() + columns(rows)
}

// columns lays rows out in columns that are aligned on the right.
func columns(rows [][]string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t")+"\t")
	}
	w.Flush() // to a strings.Builder, which cannot fail
	return b.String()
}

// sizeTable is what plan --table prints: bytes of bit arrays.
type sizeTable struct {
	Sized []sizeRow `json:"sized"` // for filters made for their items
	Grown []sizeRow `json:"grown"` // for those made for smallest items and grown
}

// smallest is the capacity of the filters that grow in the second table. A filter that BF.ADD makes has it.
const smallest = 100

// sizeRow is a line of the table. 0 and "" stand for unknown.
type sizeRow struct {
	Items                uint64  `json:"items"`
	ErrorRate            float64 `json:"error_rate"`
	Growing              uint64  `json:"growing"`
	Log                  uint64  `json:"growth_log,omitempty"` // bytes on disk of the log that it grows from
	Layered              uint64  `json:"layered,omitempty"`    // growing without a log
	NonScaling           uint64  `json:"non_scaling,omitempty"`
	RedisBloom           uint64  `json:"redisbloom"`
	RedisBloomNonScaling uint64  `json:"redisbloom_non_scaling,omitempty"`
	TairBloom            string  `json:"tairbloom,omitempty"`
}

var (
	tableItems = []uint64{1e5, 1e6, 1e7, 1e8, 1e9}
	tableRates = []float64{0.25, 0.03, 0.01, 0.001, 0.0001}

	// The published sizes of TairBloom at the rate tairRate: of filters made for a number of items, and of small
	// filters that have grown to that number.
	tairRate  = 0.01
	tairSized = map[uint64]string{1e5: "0.12 MB", 1e6: "2 MB", 1e7: "16 MB", 1e8: "128 MB"}
	tairGrown = map[uint64]string{1e7: "176 MB"}
)

// Sizes returns the sizes of filters of many capacities and rates, beside the sizes of others.
func Sizes() (Result, error) {
	var t sizeTable
	for _, items := range tableItems {
		for _, rate := range tableRates {
			growing, err := filters.PlannedBloom(bloomext.Config{Capacity: items, ErrorRate: rate}, 0)
			if err != nil {
				return nil, err
			}
			fixed, err := filters.PlannedBloom(bloomext.Config{Capacity: items, ErrorRate: rate, NonScaling: true}, 0)
			if err != nil {
				return nil, err
			}
			row := sizeRow{
				Items: items, ErrorRate: rate, Growing: growing.Bytes, NonScaling: fixed.Bytes,
				RedisBloom: redisBloomGrown(items, items, rate), RedisBloomNonScaling: redisBloomBytes(items, rate),
			}
			if rate == tairRate {
				row.TairBloom = tairSized[items]
			}
			t.Sized = append(t.Sized, row)
		}
	}
	for _, items := range tableItems {
		grown, err := bloomext.Config{Capacity: smallest, ErrorRate: tairRate}.Planned(items)
		if err != nil {
			return nil, err
		}
		layered, err := bloomext.Config{Capacity: smallest, ErrorRate: tairRate, GrowthLog: -1}.Planned(items)
		if err != nil {
			return nil, err
		}
		t.Grown = append(t.Grown, sizeRow{
			Items: items, ErrorRate: tairRate, Growing: grown.Bytes, Log: grown.LogBytes, Layered: layered.Bytes,
			RedisBloom: redisBloomGrown(smallest, items, tairRate), TairBloom: tairGrown[items],
		})
	}
	return &t, nil
}

// redisBloomBytes returns the size of a RedisBloom filter that does not grow, without its bookkeeping:
// ln(1/rate)/ln(2)^2 bits for each item, rounded up to a multiple of 64.
func redisBloomBytes(capacity uint64, rate float64) uint64 {
	bitsPerItem := -math.Log(rate) / (math.Ln2 * math.Ln2)
	return 8 * ((uint64(float64(capacity)*bitsPerItem) + 63) / 64)
}

// redisBloomGrown returns the size of a RedisBloom filter that was made for capacity items and has grown until it has
// room for items. The first sub-filter has half of the rate; each further one has twice the capacity and half the
// rate of the one before.
func redisBloomGrown(capacity, items uint64, rate float64) (bytes uint64) {
	for room := uint64(0); room < items; capacity *= 2 {
		rate /= 2
		bytes += redisBloomBytes(capacity, rate)
		room += capacity
	}
	return bytes
}

func (t *sizeTable) Text() string {
	known := func(size string) string {
		if size == "" {
			return "-"
		}
		return size
	}
	sized := [][]string{{"items", "error", "growing", "non-scaling", "RedisBloom", "its non-scaling", "TairBloom"}}
	for _, r := range t.Sized {
		sized = append(sized, []string{
			fmt.Sprint(r.Items), strconv.FormatFloat(r.ErrorRate, 'f', -1, 64),
			fmt.Sprint(r.Growing), fmt.Sprint(r.NonScaling), fmt.Sprint(r.RedisBloom), fmt.Sprint(r.RedisBloomNonScaling), known(r.TairBloom),
		})
	}
	grown := [][]string{{"items", "growing", "its log", "by layers", "RedisBloom", "TairBloom"}}
	for _, r := range t.Grown {
		grown = append(grown, []string{
			fmt.Sprint(r.Items), fmt.Sprint(r.Growing), fmt.Sprint(r.Log), fmt.Sprint(r.Layered), fmt.Sprint(r.RedisBloom), known(r.TairBloom),
		})
	}
	const sizedTitle = "bytes of filters made for their items\n"
	const grownTitle = "\nbytes of filters made for %d items at %g and grown (TairBloom's for a small number)\n"
	return sizedTitle + columns(sized) + fmt.Sprintf(grownTitle, smallest, tairRate) + columns(grown)
}
