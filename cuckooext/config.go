package cuckooext

import (
	"cmp"
	"math"
	"math/bits"
	"time"

	"github.com/sievekv/sievekv/internal/hash"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// Config says how a filter is made.
type Config struct {
	// Capacity is the number of items expected, including copies, 1 to 2^40. A filter that grows takes more, as long
	// as its error rate allows another layer.
	Capacity uint64

	// ErrorRate is the highest false-positive rate of the whole filter, 0 or below 1. It must be at least 1.7e-9, or
	// 4.1e-10 if the filter does not grow, and 5.4e-20 more for each item of the capacity, as equal hashes are false positives.
	// The filter gets the fingerprints, of 8, 10, 12, 14, 16, 18, 20, 24 or 32 bits,
	// and the load with which it is smallest, if four layers (one, if it does not grow) are to fit into the rate, or fewer
	// if their equal hashes alone use it up; and it grows until the rate is used up. With 0 fingerprints have 12 bits, and the filter grows to up to 32 layers; a full layer
	// then has a rate of 0.0018 with buckets of four.
	ErrorRate float64

	// Expansion is the factor between the blocks of a layer and the next, 1 to 32768, rounded up to a power of two; 0
	// means 2.
	Expansion uint32

	// NonScaling makes a filter that never grows. Expansion must then be 0.
	NonScaling bool

	// BucketSize is the number of slots of a bucket, 1 to 255. 0 means 4, and with an ErrorRate the size of 2 to 4 with
	// which the filter is smallest. Smaller buckets have a lower false-positive rate, but a block takes fewer items before
	// it is full.
	BucketSize int

	// MaxIterations is the most entries that an add moves to make room, 1 to 65535; 0 means 20. The search for room
	// finds the fewest moves, so more are needed only if there is hardly any room.
	MaxIterations int

	// Hash is the hash of the items; hash.Default means hash.Keyed. hash.XXH64 is for filters that must be equal to
	// filters built elsewhere, with Options.Seed: an attacker can choose items that collide.
	Hash hash.Kind

	// Layout is scalableext.LayoutNative, or scalableext.LayoutCompatible for a filter that is RedisBloom's, byte for
	// byte. A compatible filter has fingerprints of 8 bits, and takes RedisBloom's parameters: a Capacity of twice
	// the bucket size to 2^30, buckets of 2 unless asked for others, an Expansion of 1 unless asked for another. It
	// has no ErrorRate: one layer has about 2*BucketSize/255, and each further layer adds as much. Its Hash is
	// MurmurHash64A, with a public seed: an attacker can choose items that collide.
	Layout scalableext.Layout

	// TTL is the time to live from the filter's creation, at least a millisecond; 0 means for ever.
	TTL time.Duration
}

const (
	defaultIterations = 20
	maxIterations     = 1<<16 - 1

	// unratedLayers is the most layers of a filter without an error rate, as in RedisBloom.
	unratedLayers = 32
)

type plan struct {
	params scalableext.Params
	g      geometry
	first  kv.LayerSpec
}

// plan checks the Config and computes the filter's parameters. Its error wraps ErrConfig, and names the parameter,
// its value and what is allowed.
func (c Config) plan(f hash.Function) (p plan, err error) {
	if err := c.asked().CheckLife(); err != nil {
		return plan{}, err
	}
	if err := c.asked().CheckExpansion(); err != nil {
		return plan{}, err
	}
	if !c.Layout.Valid() {
		return plan{}, scalableext.BadConfig("layout is %v, want native or compatible", c.Layout)
	}
	if c.MaxIterations < 0 || c.MaxIterations > maxIterations {
		return plan{}, scalableext.BadConfig("max iterations are %d, want 1 to %d, or 0 for %d",
			c.MaxIterations, maxIterations, defaultIterations)
	}
	iterations := cmp.Or(c.MaxIterations, defaultIterations)
	if c.Layout == scalableext.LayoutCompatible {
		return c.planCompatible(iterations)
	}
	p.params = scalableext.Params{Capacity: c.Capacity, ErrorRate: c.ErrorRate, Hash: f}
	switch {
	case c.NonScaling:
	case c.Expansion == 0:
		p.params.Expansion = scalableext.DefaultExpansion
	default:
		p.params.Expansion = 1 << bits.Len32(c.Expansion-1)
	}
	if c.ErrorRate == 0 {
		if p.g, err = newGeometry(defaultFamily, cmp.Or(c.BucketSize, defaultBucketSize)); err == nil {
			p.params.ErrorRate = chainRate(p.g.rate(p.g.load(1)), unratedLayers)
		}
	} else {
		p.g, err = ratedGeometry(p.params, c.BucketSize)
	}
	if err != nil {
		return plan{}, err
	}
	first, err := p.g.first(c.Capacity)
	if err != nil {
		return plan{}, err
	}
	p.first = first.spec(iterations)
	return p, nil
}

// planCompatible is plan for the compatible layout.
func (c Config) planCompatible(iterations int) (p plan, err error) {
	bucketSize := cmp.Or(c.BucketSize, compatibleBucketSize)
	if p.g, err = newGeometry(compatibleFamily, bucketSize); err != nil {
		return plan{}, err
	}
	b := uint64(bucketSize)
	switch {
	case c.ErrorRate != 0:
		return plan{}, scalableext.BadConfig("error rate is %v in a filter with the compatible layout, want 0: it follows from the bucket size", c.ErrorRate)
	case c.Hash != hash.Default:
		return plan{}, scalableext.BadConfig("hash is %v in a filter with the compatible layout, which has its own", c.Hash)
	case c.Capacity < 2*b || c.Capacity > compatibleMaxCapacity:
		return plan{}, scalableext.BadConfig("capacity is %d in a filter with the compatible layout, want %d to %d", c.Capacity, 2*b, compatibleMaxCapacity)
	}
	buckets := uint64(1) << bits.Len64(c.Capacity/b-1)
	p.params = scalableext.Params{Capacity: c.Capacity, Hash: compatibleHash()}
	if !c.NonScaling {
		p.params.Expansion = 1 << bits.Len32(cmp.Or(c.Expansion, compatibleExpansion)-1)
	}
	p.params.ErrorRate = p.g.compatibleRate(p.params.Expansion)
	p.first = compatibleSpec(bucketSize, iterations, buckets)
	return p, nil
}

// compatibleHash is the hash of the items of filters with the compatible layout.
func compatibleHash() hash.Function { return hash.NewMurmur64A(0) }

// compatibleRate returns the error rate of a filter with the compatible layout that has as many layers as RedisBloom's
// filters have by default, all full.
func (g *geometry) compatibleRate(expansion uint32) float64 {
	if expansion == 0 {
		return g.rate(1)
	}
	return min(chainRate(g.rate(1), unratedLayers), math.Nextafter(1, 0))
}

// spec returns what is stored of the layer.
func (e *extent) spec(iterations int) kv.LayerSpec {
	p := layerParams{
		bucketSize: uint8(e.bucketSize), maxIterations: uint16(iterations), capacity: e.room(), form: e.form(),
	}
	return kv.LayerSpec{Layout: kv.LayoutNative, Blocks: e.blocks, Lines: uint32(e.lines()), Params: p.append(nil)}
}

func (c Config) asked() scalableext.Asked {
	return scalableext.Asked{
		Capacity: c.Capacity, ErrorRate: c.ErrorRate, Expansion: c.Expansion, NonScaling: c.NonScaling, TTL: c.TTL, Hash: c.Hash,
	}
}

// spec returns what is stored for a new filter.
func (c Config) spec(db *kv.DB) (kv.Spec, error) {
	if c.Layout == scalableext.LayoutCompatible {
		p, err := c.plan(compatibleHash())
		s := kv.Spec{Type: cuckooType, Family: p.g.family, Params: p.params.Append(nil), Layers: []kv.LayerSpec{p.first}}
		if c.TTL != 0 {
			s.Expiry = db.Now() + c.TTL.Milliseconds()
		}
		return s, err
	}
	return c.asked().Spec(db, func(f hash.Function) (kv.Spec, error) {
		p, err := c.plan(f)
		return kv.Spec{Type: cuckooType, Family: p.g.family, Params: p.params.Append(nil), Layers: []kv.LayerSpec{p.first}}, err
	})
}

// mismatch returns an error if a filter differs from one made with the Config.
func (c Config) mismatch(f *filter) error {
	have := f.chain.Params
	p, err := c.plan(have.Hash)
	if err != nil {
		return err
	}
	want, err := decodeLayerParams(p.first.Params)
	if err != nil {
		return err
	}
	var d scalableext.Differences
	d.Add("layout", f.layout(), c.Layout)
	d.Add("error rate", have.ErrorRate, p.params.ErrorRate)
	d.AddParams(c.asked(), have, p.params)
	if c.BucketSize != 0 || c.ErrorRate == 0 { // otherwise any that keeps the rate will do
		d.Add("bucket size", uint32(f.layers[0].bucketSize), uint32(want.bucketSize))
	}
	d.Add("max iterations", f.layers[0].maxIterations, int(want.maxIterations))
	return d.Err(f.object.Key())
}
