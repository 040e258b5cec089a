package bloomext

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/kv/block"
	"github.com/sievekv/sievekv/kv/hash"
	"github.com/sievekv/sievekv/kv/probe"
	"github.com/sievekv/sievekv/scalableext"
)

// Config says what a new filter is for: a capacity and an error rate, or, for one
// that is to be laid out by hand, bits and hashes.
type Config struct {
	// Capacity is the number of distinct items expected, 1 to 2^40. A filter
	// that grows takes more, at the same error rate but with more bits per item
	// and a lookup in every layer; one that does not returns ErrFull. A layer is
	// full when so many items were new, or when so many bits are set as that many
	// distinct items set: those have room, with a chance of 1 in 3,000,000 that
	// one does not.
	Capacity uint64

	// ErrorRate is the highest false-positive rate, above 0 and below 1, at any
	// number of items. Rates above 0.25 are lowered to that.
	ErrorRate float64

	// Expansion is the capacity of each new layer as a multiple of the one
	// before, 1 to 32768; 0 means 2.
	Expansion uint32

	// NonScaling makes a filter that never grows. Expansion must be 0 then.
	NonScaling bool

	// Hash is the hash of the items; hash.Default is hash.Keyed. hash.XXH64 is for filters that
	// are to be built alike elsewhere, with Options.Seed: whoever chooses items can make them collide.
	Hash hash.Kind

	// TTL is how long the filter lives from its creation, at least a
	// millisecond; 0 means for ever.
	TTL time.Duration

	// Bits, 1 to 2^46, and Hashes, 1 to 64, give the filter's size and number of
	// probes. Bits are rounded up to whole 512-bit lines. The filter does not
	// grow and ErrorRate must be 0: it follows from the capacity, which if it
	// is 0 becomes the number of items that set half of the bits, Bits*ln2/Hashes.
	Bits   uint64
	Hashes int
}

const (
	defaultExpansion = 2
	maxRate          = 0.25
)

// plan is a Config made definite.
type plan struct {
	params scalableext.Params
	first  kv.LayerSpec
}

// plan checks the Config. Its error wraps ErrConfig, and names the parameter,
// its value and what is allowed.
func (c Config) plan(f hash.Function) (plan, error) {
	bad := func(format string, args ...any) (plan, error) {
		return plan{}, fmt.Errorf("bloomext: %w: %s", probe.ErrParams, fmt.Sprintf(format, args...))
	}
	if c.TTL != 0 && c.TTL < time.Millisecond {
		return bad("TTL is %v, want at least 1ms, or 0 for none", c.TTL)
	}
	if !c.Hash.Valid() {
		return bad("hash is %v, want keyed or xxh64", c.Hash)
	}
	if c.Bits != 0 || c.Hashes != 0 {
		return c.planBits(f)
	}
	p := scalableext.Params{Capacity: c.Capacity, ErrorRate: min(c.ErrorRate, maxRate), Expansion: c.Expansion, Hash: f}
	switch {
	case !(c.ErrorRate > 0 && c.ErrorRate < 1):
		return bad("error rate is %v, want above 0 and below 1", c.ErrorRate)
	case c.Capacity < 1 || c.Capacity > probe.MaxCapacity:
		return bad("capacity is %d, want 1 to %d", c.Capacity, uint64(probe.MaxCapacity))
	case c.Expansion > scalableext.MaxExpansion:
		return bad("expansion is %d, want 1 to %d, or 0 for %d", c.Expansion, scalableext.MaxExpansion, defaultExpansion)
	case c.NonScaling && c.Expansion != 0:
		return bad("expansion is %d in a filter that does not grow, want 0", c.Expansion)
	case !c.NonScaling && c.Expansion == 0:
		p.Expansion = defaultExpansion
	}
	capacity, rate, err := p.Layer(0)
	if err != nil {
		return plan{}, err
	}
	first, err := layerSpec(capacity, rate)
	if err != nil {
		return plan{}, fmt.Errorf("bloomext: %w", err)
	}
	return plan{p, first}, nil
}

func (c Config) planBits(f hash.Function) (plan, error) {
	bad := func(format string, args ...any) (plan, error) {
		return plan{}, fmt.Errorf("bloomext: %w: %s", probe.ErrParams, fmt.Sprintf(format, args...))
	}
	switch {
	case c.Bits == 0 || c.Hashes == 0:
		return bad("bits are %d and hashes %d, want both or neither", c.Bits, c.Hashes)
	case c.ErrorRate != 0:
		return bad("error rate is %v with bits given, want 0: it follows", c.ErrorRate)
	case c.Expansion != 0:
		return bad("expansion is %d with bits given, want 0: such a filter does not grow", c.Expansion)
	case c.Capacity > probe.MaxCapacity:
		return bad("capacity is %d, want at most %d", c.Capacity, uint64(probe.MaxCapacity))
	}
	layout, err := probe.FromBits(c.Bits, c.Hashes)
	if err != nil {
		return plan{}, fmt.Errorf("bloomext: %w", err)
	}
	capacity := c.Capacity
	if capacity == 0 {
		half := float64(layout.Bits()) * math.Ln2 / float64(layout.Hashes)
		capacity = uint64(min(max(1, half), probe.MaxCapacity))
	}
	rate := layout.FullRate(capacity)
	if !(rate > 0 && rate < 1) {
		return bad("capacity is %d, for which %d bits and %d hashes have an error rate of %v, want above 0 and below 1",
			capacity, c.Bits, c.Hashes, rate)
	}
	p := scalableext.Params{Capacity: capacity, ErrorRate: rate, Hash: f}
	return plan{p, specOf(layout, capacity, rate)}, nil
}

// layerSpec is a layer for a capacity and an error rate.
func layerSpec(capacity uint64, rate float64) (kv.LayerSpec, error) {
	layout, err := probe.Size(capacity, rate)
	if err != nil {
		return kv.LayerSpec{}, err
	}
	return specOf(layout, capacity, rate), nil
}

func specOf(l probe.Layout, capacity uint64, rate float64) kv.LayerSpec {
	p := layerParams{hashes: l.Hashes, linesPerItem: l.LinesPerItem, capacity: capacity, rate: rate}
	return kv.LayerSpec{Layout: kv.LayoutNative, Blocks: l.Blocks, Lines: l.Lines, Params: p.append(nil)}
}

// spec returns what is stored of a new filter.
func (c Config) spec(db *kv.DB) (kv.Spec, error) {
	f, err := db.ItemHash(c.Hash)
	if err != nil {
		return kv.Spec{}, err
	}
	p, err := c.plan(f)
	if err != nil {
		return kv.Spec{}, err
	}
	var expiry int64
	if c.TTL != 0 {
		expiry = db.Now() + c.TTL.Milliseconds()
	}
	return kv.Spec{
		Type: bloomType, Family: block.FamilyBits, Params: p.params.Append(nil),
		Layers: []kv.LayerSpec{p.first}, Expiry: expiry,
	}, nil
}

// mismatch returns how a filter differs from one made by the Config.
func (c Config) mismatch(f *filter) error {
	have := f.chain.Params
	p, err := c.plan(have.Hash)
	if err != nil {
		return err
	}
	var diffs []string
	differ := func(name string, have, want any) {
		if have != want {
			diffs = append(diffs, fmt.Sprintf("%s is %v, asked for %v", name, have, want))
		}
	}
	if c.Bits != 0 {
		l, err := probe.FromBits(c.Bits, c.Hashes)
		if err != nil {
			return fmt.Errorf("bloomext: %w", err)
		}
		oldest := f.layers[len(f.layers)-1].layout
		differ("bits", oldest.Bits(), l.Bits())
		differ("hashes", oldest.Hashes, l.Hashes)
	} else {
		differ("error rate", have.ErrorRate, p.params.ErrorRate)
	}
	if c.Hash != hash.Default {
		differ("hash", have.Hash.Kind(), c.Hash)
	}
	differ("capacity", have.Capacity, p.params.Capacity)
	differ("expansion", have.Expansion, p.params.Expansion)
	if len(diffs) == 0 {
		return nil
	}
	return fmt.Errorf("%w: key %q: %s", ErrMismatch, f.object.Key(), strings.Join(diffs, "; "))
}
