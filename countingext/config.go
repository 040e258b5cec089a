package countingext

import (
	"time"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/hash"
	"github.com/sievekv/sievekv/internal/probe"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// Config says how a new filter is made: for a capacity and an error rate, or with given Counters and Hashes.
type Config struct {
	// Capacity is the number of items expected to be present at the same time, 1 to 2^40; an item counts as often as
	// it is added. A filter that grows takes more at the same error rate, but with more counters for each item and a
	// lookup in every layer. A filter that does not grow returns ErrFull.
	Capacity uint64

	// ErrorRate is the highest false-positive rate at any number of items, below 1. Rates above 0.25 are lowered to
	// that. It must be at least 1.8e-19 times the Capacity, or 1.3e-19 times if the filter does not grow.
	ErrorRate float64

	// Expansion is the factor between the capacities of a layer and the next, 1 to 32768; 0 means 2. With 1,
	// deletions leave something behind: see the package comment.
	Expansion uint32

	// NonScaling makes a filter that never grows. Expansion must then be 0.
	NonScaling bool

	// Hash is the hash of the items; hash.Default means hash.Keyed. hash.XXH64 is for filters that must be equal to
	// filters built elsewhere, with Options.Seed: an attacker can choose items that collide.
	Hash hash.Kind

	// Group is the name of filters that are to be merged, 1 to 255 bytes: the filters of one group in one store have the
	// same secret of their keyed hash. Without a Group a filter has a secret of its own, so that nobody learns from a dump of
	// one filter which items collide in another. Whoever may make filters of a group and dump them learns its secret.
	// The name is not stored: for a filter that exists the Group does not matter.
	Group string

	// TTL is the time to live from the filter's creation, at least a millisecond; 0 means for ever.
	TTL time.Duration

	// Counters, 1 to 2^44, and Hashes, 1 to 64, set the filter's size and its probes for each item, which others call
	// vector size and number of hashes. Counters are rounded up to whole lines of 128. Such a filter does not grow,
	// and ErrorRate must be 0: it follows from the capacity. A capacity of 0 becomes the number of items that set
	// half of the counters, Counters*ln2/Hashes.
	Counters uint64
	Hashes   int
}

// cells describes the counters of a filter.
var cells = scalableext.Cells{
	Package: "countingext", Name: "counters", Count: (*probe.Layout).Cells, Size: probe.SizeCounters, From: probe.FromCounters,
	Layer: func(l probe.Layout, capacity uint64, rate float64) kv.LayerSpec {
		return specOf(l, capacity, rate, false)
	},
}

func (c Config) asked() scalableext.Asked {
	return scalableext.Asked{
		Capacity: c.Capacity, ErrorRate: c.ErrorRate, Expansion: c.Expansion, NonScaling: c.NonScaling, TTL: c.TTL, Hash: c.Hash, Group: c.Group,
	}
}

// spec returns what is stored for a new filter. Its error wraps ErrConfig if a value is out of range.
func (c Config) spec(db *kv.DB) (kv.Spec, error) {
	return cells.Spec(db, c.asked(), c.Counters, c.Hashes, kv.Spec{Type: countingType, Family: block.FamilySlots4})
}

// mismatch returns an error if a filter differs from one made with the Config.
func (c Config) mismatch(f *filter) error {
	return cells.Mismatch(c.asked(), c.Counters, c.Hashes, f.object.Key(), f.chain.Params, f.layer(0).layout)
}

// nextLayerSpec returns a layer that is added to others.
func nextLayerSpec(capacity uint64, rate float64) (kv.LayerSpec, error) {
	layout, err := probe.SizeCounters(capacity, rate)
	return specOf(layout, capacity, rate, true), err
}

func specOf(l probe.Layout, capacity uint64, rate float64, ordered bool) kv.LayerSpec {
	p := layerParams{hashes: l.Hashes, linesPerItem: l.LinesPerItem, capacity: capacity, rate: rate, ordered: ordered}
	return kv.LayerSpec{Layout: kv.LayoutNative, Blocks: l.Blocks, Lines: l.Lines, Params: p.append(nil)}
}
