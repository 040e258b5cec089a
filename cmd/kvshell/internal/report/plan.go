package report

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/filters"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/scratch"
	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/kv/probe"
	"github.com/sievekv/sievekv/scalableext"
)

// grownBy is how many times its capacity the filter that grows holds in a plan.
const grownBy = 10

// Plan returns the plan of a filter of a type, which has the parameters of a Bloom filter. It makes the filter in a scratch
// store in memory, where a filter of any size takes no room: so a plan has the defaults and the limits of the filter.
func Plan(kind string, c bloomext.Config) (p Result, err error) {
	db, err := scratch.Open()
	if err != nil {
		return nil, err
	}
	defer scratch.Close(db, &err)
	switch kind {
	case filters.Cuckoo:
		return planCuckoo(db, cuckooext.Config{
			Capacity: c.Capacity, ErrorRate: c.ErrorRate, Expansion: c.Expansion, NonScaling: c.NonScaling,
		})
	case filters.Counting:
		return planCounting(db, countingext.Config{
			Capacity: c.Capacity, ErrorRate: c.ErrorRate, Expansion: c.Expansion, NonScaling: c.NonScaling,
		})
	}
	return planFilter(db, c)
}

// Sizes returns the sizes of filters of many capacities and rates, beside those of others.
func Sizes() (t Result, err error) {
	db, err := scratch.Open()
	if err != nil {
		return nil, err
	}
	defer scratch.Close(db, &err)
	return makeSizeTable(db)
}

// filterPlan is what plan prints of a Bloom filter, counting or not: as it is made, and as it is when it has grown.
type filterPlan struct {
	Type      string  `json:"type"`
	Expansion uint32  `json:"expansion"` // 0: does not grow
	ErrorRate float64 `json:"error_rate"`
	layerPlan
	MaxLayers int        `json:"max_layers"`
	Grown     *grownPlan `json:"grown,omitempty"`

	asked float64 // the rate asked for, above ErrorRate if that was lowered
}

// layerPlan is one layer.
type layerPlan struct {
	Capacity     uint64  `json:"capacity"`
	Bits         uint64  `json:"bits"`
	Counters     uint64  `json:"counters,omitempty"` // of a counting filter, which the bits are of
	Bytes        uint64  `json:"bytes"`
	BitsPerItem  float64 `json:"bits_per_item"` // at its capacity
	Hashes       int     `json:"hashes"`
	LinesPerItem int     `json:"lines_per_item"`
	Blocks       uint64  `json:"blocks"`
	BlockBits    uint64  `json:"block_bits"`
	ExpectedRate float64 `json:"expected_rate"` // at its capacity

	layout probe.Layout
}

// grownPlan is a filter of several layers that holds a number of items.
type grownPlan struct {
	Items        uint64      `json:"items"`
	Bytes        uint64      `json:"bytes"`
	BitsPerItem  float64     `json:"bits_per_item"`
	ExpectedRate float64     `json:"expected_rate"`
	Layers       []layerPlan `json:"layers"`
}

// planFilter describes the filter of a Config. The layers that it would grow by are computed from its parameters.
func planFilter(db *kv.DB, c bloomext.Config) (*filterPlan, error) {
	info, err := filters.TryBloom(db, c)
	if err != nil {
		return nil, err
	}
	return planChain(filters.Bloom, chainOf(info), c.ErrorRate)
}

// planCounting is planFilter for a counting Bloom filter.
func planCounting(db *kv.DB, c countingext.Config) (*filterPlan, error) {
	info, err := filters.TryCounting(db, c)
	if err != nil {
		return nil, err
	}
	return planChain(filters.Counting, chainPlan{probe.SizeCounters, scalableext.Params{
		Capacity: info.Layers[0].Capacity, ErrorRate: info.ErrorRate, Expansion: info.Expansion,
	}}, c.ErrorRate)
}

// chainPlan are the parameters that a new filter grows by, and how its layers are sized.
type chainPlan struct {
	size func(capacity uint64, rate float64) (probe.Layout, error)
	scalableext.Params
}

func planChain(kind string, chain chainPlan, asked float64) (p *filterPlan, err error) {
	p = &filterPlan{asked: asked, Type: kind, Expansion: chain.Expansion, ErrorRate: chain.ErrorRate, MaxLayers: chain.MaxLayers()}
	if p.layerPlan, err = planLayer(chain, 0); err != nil {
		return nil, err
	}
	if p.Expansion != 0 {
		p.Grown, err = planGrown(chain, grownBy*chain.Capacity)
	}
	return p, err
}

// askedRate tells the rate that was asked for, and the one of the filter if that was lowered.
func askedRate(asked, rate float64) string {
	if asked > rate {
		return fmt.Sprintf("%g asked for, lowered to %g", asked, rate)
	}
	return fmt.Sprintf("%g asked for", rate)
}

// chainOf returns how a new Bloom filter grows.
func chainOf(info bloomext.Info) chainPlan {
	return chainPlan{probe.Size, scalableext.Params{
		Capacity: info.Layers[0].Capacity, ErrorRate: info.ErrorRate, Expansion: info.Expansion,
	}}
}

func planLayer(chain chainPlan, i int) (layerPlan, error) {
	capacity, rate, err := chain.Layer(i)
	if err != nil {
		return layerPlan{}, err
	}
	l, err := chain.size(capacity, rate)
	if err != nil {
		return layerPlan{}, err
	}
	var counters uint64
	if l.Cells() != l.Bits() {
		counters = l.Cells()
	}
	return layerPlan{
		Counters: counters,
		Capacity: capacity, Bits: l.Bits(), Bytes: l.Bits() / 8, BitsPerItem: float64(l.Bits()) / float64(capacity),
		Hashes: int(l.Hashes), LinesPerItem: int(l.LinesPerItem), Blocks: l.Blocks, BlockBits: l.Bits() / l.Blocks,
		ExpectedRate: l.ExpectedRate(capacity), layout: l,
	}, nil
}

// planGrown adds layers until there is room for a number of items; nil if there can never be.
func planGrown(chain chainPlan, items uint64) (*grownPlan, error) {
	g := &grownPlan{Items: items}
	var rates []float64
	for left := items; left > 0; {
		l, err := planLayer(chain, len(g.Layers))
		g.Bytes += l.Bytes
		switch {
		case errors.Is(err, scalableext.ErrCannotGrow), errors.Is(err, probe.ErrParams), g.Bytes > kv.DefaultMaxFilterBytes:
			return nil, nil
		case err != nil:
			return nil, err
		}
		held := min(left, l.Capacity)
		left -= held
		rates = append(rates, l.layout.ExpectedRate(held))
		g.Layers = append(g.Layers, l)
	}
	g.ExpectedRate = scalableext.ChainRate(rates)
	g.BitsPerItem = 8 * float64(g.Bytes) / float64(items)
	return g, nil
}

func (p *filterPlan) Text() string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-14s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("type", "%s", p.Type)
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
	line("lines per item", "%d", p.LinesPerItem)
	if p.Counters != 0 {
		line("blocks", "%d of %d counters", p.Blocks, p.Counters/p.Blocks)
	} else {
		line("blocks", "%d of %d bits", p.Blocks, p.BlockBits)
	}
	layers := fmt.Sprintf("1, growing to at most %d, each for %d times the items of the one before",
		p.MaxLayers, p.Expansion)
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
	fmt.Fprintf(&b, "\ngrown to %d items: %d bytes, %.2f bits per item, rate %.3g\n",
		g.Items, g.Bytes, g.BitsPerItem, g.ExpectedRate)
	rows := [][]string{
		{"layer", "capacity", "bytes", "bits per item", "hashes", "lines per item", "blocks", "rate at capacity"},
	}
	for i, l := range g.Layers {
		rows = append(rows, []string{
			fmt.Sprint(i), fmt.Sprint(l.Capacity), fmt.Sprint(l.Bytes), fmt.Sprintf("%.2f", l.BitsPerItem),
			fmt.Sprint(l.Hashes), fmt.Sprint(l.LinesPerItem), fmt.Sprint(l.Blocks), fmt.Sprintf("%.3g", l.ExpectedRate),
		})
	}
	return b.String() + columns(rows)
}

// columns lays rows out in columns, each as wide as its widest cell, with their right ends below each other.
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

// smallest is the capacity of the filters that the second table lets grow: that of a filter made by adding to it.
const smallest = 100

// sizeRow is a line of the table; what is 0 or "" is not known.
type sizeRow struct {
	Items                uint64  `json:"items"`
	ErrorRate            float64 `json:"error_rate"`
	Growing              uint64  `json:"growing"`
	NonScaling           uint64  `json:"non_scaling,omitempty"`
	RedisBloom           uint64  `json:"redisbloom"`
	RedisBloomNonScaling uint64  `json:"redisbloom_non_scaling,omitempty"`
	TairBloom            string  `json:"tairbloom,omitempty"`
}

var (
	tableItems = []uint64{1e5, 1e6, 1e7, 1e8, 1e9}
	tableRates = []float64{0.25, 0.03, 0.01, 0.001, 0.0001}

	// TairBloom's sizes at tairRate as they are published, by the capacity of the filter, and by the items of one
	// that was made small and has grown.
	tairRate  = 0.01
	tairSized = map[uint64]string{1e5: "0.12 MB", 1e6: "2 MB", 1e7: "16 MB", 1e8: "128 MB"}
	tairGrown = map[uint64]string{1e7: "176 MB"}
)

func makeSizeTable(db *kv.DB) (*sizeTable, error) {
	var t sizeTable
	for _, items := range tableItems {
		for _, rate := range tableRates {
			growing, err := planFilter(db, bloomext.Config{Capacity: items, ErrorRate: rate})
			if err != nil {
				return nil, err
			}
			fixed, err := planFilter(db, bloomext.Config{Capacity: items, ErrorRate: rate, NonScaling: true})
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
	info, err := filters.TryBloom(db, bloomext.Config{Capacity: smallest, ErrorRate: tairRate})
	if err != nil {
		return nil, err
	}
	for _, items := range tableItems {
		grown, err := planGrown(chainOf(info), items)
		if err != nil {
			return nil, err
		}
		t.Grown = append(t.Grown, sizeRow{
			Items: items, ErrorRate: tairRate, Growing: grown.Bytes,
			RedisBloom: redisBloomGrown(smallest, items, tairRate), TairBloom: tairGrown[items],
		})
	}
	return &t, nil
}

// redisBloomBytes returns the size of a filter of RedisBloom's that does not grow, without its bookkeeping:
// ln(1/rate)/ln(2)^2 bits for each item, rounded up to 64.
func redisBloomBytes(capacity uint64, rate float64) uint64 {
	bitsPerItem := -math.Log(rate) / (math.Ln2 * math.Ln2)
	return 8 * ((uint64(float64(capacity)*bitsPerItem) + 63) / 64)
}

// redisBloomGrown returns the size of one that grows, made for capacity items, when it has room for a number of items:
// each sub-filter has twice the capacity of the one before and half its rate, the first half of that asked for.
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
	grown := [][]string{{"items", "growing", "RedisBloom", "TairBloom"}}
	for _, r := range t.Grown {
		grown = append(grown, []string{
			fmt.Sprint(r.Items), fmt.Sprint(r.Growing), fmt.Sprint(r.RedisBloom), known(r.TairBloom),
		})
	}
	const sizedTitle = "bytes of filters made for their items\n"
	const grownTitle = "\nbytes of filters made for %d items at %g and grown (TairBloom's for a small number)\n"
	return sizedTitle + columns(sized) + fmt.Sprintf(grownTitle, smallest, tairRate) + columns(grown)
}
