package report

import (
	"fmt"
	"time"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/filters"
	"github.com/sievekv/sievekv/internal/probe"
)

// windowPlan is what plan prints about a Bloom filter that forgets, with all of its slices, each with its share of the
// items.
type windowPlan struct {
	Type         string    `json:"type"`
	Window       float64   `json:"window,omitempty"` // seconds
	Last         uint64    `json:"last,omitempty"`
	Capacity     uint64    `json:"capacity"` // of one window
	ErrorRate    float64   `json:"error_rate"`
	ExpectedRate float64   `json:"expected_rate"` // of all slices together
	Bytes        uint64    `json:"bytes"`
	BitsPerItem  float64   `json:"bits_per_item"` // of one window
	Slices       int       `json:"slices"`        // at the same time, one more than the window is divided into
	Slice        layerPlan `json:"slice"`

	Grown *windowGrown `json:"grown,omitempty"` // not with Last, which does not grow

	config bloomext.Config
}

// windowGrown is a filter with more items in a window than its capacity. All of its slices began when it already had
// this number.
type windowGrown struct {
	Items        uint64    `json:"items"` // in one window
	Bytes        uint64    `json:"bytes"`
	BitsPerItem  float64   `json:"bits_per_item"`
	ExpectedRate float64   `json:"expected_rate"`
	Slice        layerPlan `json:"slice"`
}

// planWindow is planBloom for a filter that forgets.
func planWindow(c bloomext.Config, maxBytes uint64) (*windowPlan, error) {
	info, err := filters.PlannedBloom(c, maxBytes)
	if err != nil {
		return nil, err
	}
	slice, err := planSlice(info)
	if err != nil {
		return nil, err
	}
	p := &windowPlan{
		Type: filters.Bloom, Window: info.Window.Seconds(), Last: info.Last, Capacity: info.Asked, ErrorRate: info.ErrorRate,
		ExpectedRate: info.ExpectedRate, Bytes: info.Bytes, BitsPerItem: 8 * float64(info.Bytes) / float64(info.Asked),
		Slices: len(info.Slices), Slice: slice, config: c,
	}
	if c.Last != 0 {
		return p, nil
	}
	items := grownBy * c.Capacity
	switch info, err = c.Planned(items); {
	case growsNoFurther(info.Bytes, maxBytes, err):
		return p, nil
	case err != nil:
		return nil, err
	}
	slice, err = planSlice(info)
	p.Grown = &windowGrown{
		Items: items, Bytes: info.Bytes, BitsPerItem: 8 * float64(info.Bytes) / float64(items), ExpectedRate: info.ExpectedRate, Slice: slice,
	}
	return p, err
}

// planSlice returns the plan of the first layer of a slice.
func planSlice(info bloomext.Info) (layerPlan, error) {
	return planLayer(probe.Size, plannedLayer{capacity: info.Layers[0].Capacity, rate: info.Layers[0].ErrorRate})
}

func (p *windowPlan) Text() string {
	turn := p.config.Window / time.Duration(p.Slices-1)
	forgets := fmt.Sprintf("items that were not added for %v, at most %v late", p.config.Window, turn.Round(time.Millisecond))
	turns := fmt.Sprintf("; one that gets more grows by layers, each for %d times the items of the one before, and the next slice is made for as many", max(2, p.config.Expansion))
	if p.Last != 0 {
		forgets, turns = fmt.Sprintf("all but the last %d items, and at most %d more", p.Last, p.Last/uint64(p.Slices-1)), ""
	}
	text := facts([][2]string{
		{"type", p.Type},
		{"forgets", forgets},
		{"capacity", fmt.Sprintf("%d items in one window", p.Capacity)},
		{"error rate", fmt.Sprintf("%s, %.3g expected at capacity", askedRate(p.config.ErrorRate, p.ErrorRate), p.ExpectedRate)},
		{"bytes", fmt.Sprint(p.Bytes)},
		{"bits per item", fmt.Sprintf("%.2f of one window", p.BitsPerItem)},
		{"slices", fmt.Sprintf("%d at the same time, all of which a lookup of an absent item asks", p.Slices)},
		{"a slice", fmt.Sprintf("for %d items, %d bytes, %d hashes%s", p.Slice.Capacity, p.Slice.Bytes, p.Slice.Hashes, turns)},
	})
	if g := p.Grown; g != nil {
		text += fmt.Sprintf("\nwith %d items in a window, for as long: %d bytes, %.2f bits per item of one window, rate %.3g; a slice for %d items, %d bytes, %d hashes\n",
			g.Items, g.Bytes, g.BitsPerItem, g.ExpectedRate, g.Slice.Capacity, g.Slice.Bytes, g.Slice.Hashes)
	}
	return text
}
