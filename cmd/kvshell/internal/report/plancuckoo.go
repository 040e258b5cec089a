package report

import (
	"fmt"
	"strings"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/filters"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/scalableext"
)

// cuckooPlan is what plan prints about a cuckoo filter, when it is new and when it has grown.
type cuckooPlan struct {
	Type            string  `json:"type"`
	Layout          string  `json:"layout,omitempty"` // if it is not the native one
	Capacity        uint64  `json:"capacity"`
	Expansion       uint32  `json:"expansion"`  // 0: does not grow
	ErrorRate       float64 `json:"error_rate"` // the highest that the filter may come to
	FingerprintBits int     `json:"fingerprint_bits"`
	BucketSize      int     `json:"bucket_size"`
	Buckets         uint64  `json:"buckets"`
	cuckooSize
	MaxLayers int          `json:"max_layers"`
	Grown     *cuckooGrown `json:"grown,omitempty"`

	rateAsked float64 // 0 for none
}

// cuckooSize is a filter that holds a number of items.
type cuckooSize struct {
	Room         uint64  `json:"room"` // for items; with the compatible layout the slots, and it may fill only a part of them
	Bytes        uint64  `json:"bytes"`
	BitsPerItem  float64 `json:"bits_per_item"` // at the capacity, or the items it has grown to
	ExpectedRate float64 `json:"expected_rate"` // with the compatible layout, when all slots are taken
}

// cuckooGrown is a filter of several layers.
type cuckooGrown struct {
	Items uint64 `json:"items"`
	cuckooSize
	Layers []cuckooLayerStats `json:"layers"`
}

// planCuckoo is planBloom for a cuckoo filter.
func planCuckoo(c cuckooext.Config, maxBytes uint64) (*cuckooPlan, error) {
	info, err := filters.PlannedCuckoo(c, maxBytes)
	if err != nil {
		return nil, err
	}
	p := &cuckooPlan{
		Type: filters.Cuckoo, Capacity: c.Capacity, Expansion: info.Expansion, ErrorRate: info.ErrorRate, FingerprintBits: info.FingerprintBits,
		BucketSize: info.BucketSize, Buckets: info.Buckets, cuckooSize: cuckooSizeOf(info), MaxLayers: min(info.MaxLayers, cuckooext.DefaultMaxLayers),
		rateAsked: c.ErrorRate,
	}
	if c.Layout == scalableext.LayoutCompatible {
		return p, p.planCompatible(c)
	}
	if p.Expansion == 0 {
		return p, nil
	}
	items := grownBy * c.Capacity
	switch info, err = c.Planned(items); {
	case growsNoFurther(info.Bytes, maxBytes, err):
		return p, nil
	case err != nil:
		return nil, err
	}
	p.Grown = &cuckooGrown{Items: items, cuckooSize: cuckooSizeOf(info), Layers: cuckooStatsOf(info).Layers}
	return p, nil
}

// planCompatible completes the plan of a filter with the compatible layout, as it is made. RedisBloom's inserts find no room for
// some item long before all slots are taken, or hardly before, which depends on the items; later items still get free slots of
// older layers. So when it grows, and what it is then, is not planned.
func (p *cuckooPlan) planCompatible(c cuckooext.Config) error {
	c.Expansion, c.NonScaling = 0, true
	full, err := c.Planned(1)
	if err != nil {
		return err
	}
	p.Layout, p.ExpectedRate, p.BitsPerItem = c.Layout.String(), full.ErrorRate, 8*float64(p.Bytes)/float64(p.Capacity)
	return nil
}

// compatibleText is Text for a filter with the compatible layout.
func (p *cuckooPlan) compatibleText() string {
	layers := "1, and no more; the filter may be full before its capacity, which depends on the items, and is not planned"
	if p.Expansion != 0 {
		layers = fmt.Sprintf("1, growing to at most %d, each of %d times the slots of the one before; when it grows, which may be before its capacity, depends on the items, and is not planned",
			p.MaxLayers, p.Expansion)
	}
	return facts([][2]string{
		{"type", p.Type},
		{"layout", p.Layout},
		{"capacity", fmt.Sprintf("%d items, with %d slots", p.Capacity, p.Room)},
		{"error rate", fmt.Sprintf("%.3g of a layer whose slots are all taken", p.ExpectedRate)},
		{"bytes", fmt.Sprint(p.Bytes)},
		{"bits per item", fmt.Sprintf("%.2f", p.BitsPerItem)},
		{"fingerprints", fmt.Sprintf("%d bits", p.FingerprintBits)},
		{"buckets", fmt.Sprintf("%d of %d slots", p.Buckets, p.BucketSize)},
		{"layers", layers},
	})
}

func cuckooSizeOf(info cuckooext.Info) cuckooSize {
	return cuckooSize{
		Room: info.Capacity, Bytes: info.Bytes, BitsPerItem: 8 * float64(info.Bytes) / float64(info.Items),
		ExpectedRate: info.ExpectedRate,
	}
}

func (p *cuckooPlan) Text() string {
	if p.Layout != "" {
		return p.compatibleText()
	}
	rate := fmt.Sprintf("%g asked for, %.3g expected at capacity", p.rateAsked, p.ExpectedRate)
	if p.rateAsked == 0 {
		rate = fmt.Sprintf("%.3g expected at capacity, at most %.3g when grown", p.ExpectedRate, p.ErrorRate)
	}
	layers := fmt.Sprintf("1, growing to at most %d, each of at least %d times the size of the one before", p.MaxLayers, p.Expansion)
	switch {
	case p.Expansion == 0:
		layers = "1, and no more"
	case p.Grown == nil:
		layers += fmt.Sprintf("; too few for %d times the capacity", grownBy)
	}
	var b strings.Builder
	b.WriteString(facts([][2]string{
		{"type", p.Type},
		{"capacity", fmt.Sprintf("%d items, with room for %d", p.Capacity, p.Room)},
		{"error rate", rate},
		{"bytes", fmt.Sprint(p.Bytes)},
		{"bits per item", fmt.Sprintf("%.2f", p.BitsPerItem)},
		{"fingerprints", fmt.Sprintf("%d bits", p.FingerprintBits)},
		{"buckets", fmt.Sprintf("%d of %d slots", p.Buckets, p.BucketSize)},
		{"layers", layers},
	}))
	if g := p.Grown; g != nil {
		fmt.Fprintf(&b, "\ngrown to %d items: %d bytes, %.2f bits per item, rate %.3g\n",
			g.Items, g.Bytes, g.BitsPerItem, g.ExpectedRate)
		b.WriteString((&cuckooStats{Layers: g.Layers}).layerTable())
	}
	return b.String()
}
