package bloomext

import (
	"fmt"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/kv/block"
	"github.com/sievekv/sievekv/kv/probe"
	"github.com/sievekv/sievekv/scalableext"
)

// Config says what a new filter is for.
type Config struct {
	// Capacity is the number of distinct items, 1 to 2^40. A filter takes no
	// more: adding another returns ErrFull.
	Capacity uint64

	// ErrorRate is the highest false-positive rate, above 0 and below 1. Rates
	// above 0.25 are lowered to that.
	ErrorRate float64
}

// spec returns what is stored of a new filter. Its error wraps probe.ErrParams,
// and names the parameter, its value and the range.
func (c Config) spec(seed uint64) (kv.Spec, error) {
	layout, err := probe.Size(c.Capacity, c.ErrorRate)
	if err != nil {
		return kv.Spec{}, fmt.Errorf("bloomext: %w", err)
	}
	params := scalableext.Params{Capacity: c.Capacity, ErrorRate: c.ErrorRate, Seed: seed}
	return kv.Spec{
		Type:   bloomType,
		Family: block.FamilyBits,
		Params: params.Append(nil),
		Layers: []kv.LayerSpec{{
			Layout: kv.LayoutNative,
			Blocks: layout.Blocks,
			Lines:  layout.Lines,
			Params: layerParams{
				hashes: layout.Hashes, linesPerItem: layout.LinesPerItem, capacity: c.Capacity, rate: c.ErrorRate,
			}.append(nil),
		}},
	}, nil
}
