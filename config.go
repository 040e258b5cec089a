package sievekv

import (
	"cmp"
	"strings"
	"time"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/scalableext"
)

// Size says how large a new filter is: a Capacity, a number of Bits, a Window of time, or the Last items.
type Size struct {
	capacity uint64
	rate     float64
	window   time.Duration
	last     uint64
	bits     uint64
	hashes   int
	form     string // the name of the function that made it
}

// Capacity is the size of a filter for a number of distinct items, 1 to 2^40; in a cuckoo or counting filter copies count too.
// It answers true for at most the share rate of other items.
//
// A filter grows beyond its capacity, and keeps the rate, unless its config says NonScaling. Of a Bloom or counting filter the
// rate is above 0 and below 1; above 0.25 means 0.25. It must be at least 1.8e-19 times the capacity, or 1.3e-19 times if
// the filter does not grow. Of a cuckoo filter it may be 0, see CuckooConfig.
func Capacity(items uint64, rate float64) Size {
	return Size{capacity: items, rate: rate, form: "Capacity"}
}

// Bits is the size of a Bloom filter with a number of bits, 1 to 2^46, and of probes for each item, 1 to 64; or of a counting
// filter with a number of counters, 1 to 2^44. Such a filter does not grow, and has no error rate that was asked for. Its
// capacity is the number of items that set half of the bits, bits*ln2/hashes. Bits are rounded up to whole lines of 512, counters
// of 128.
func Bits(bits uint64, hashes int) Size { return Size{bits: bits, hashes: hashes, form: "Bits"} }

// Window is the size of a Bloom filter that forgets items that were not added for some time: it finds an item for at least span
// after its last add, and for at most span + span/Slices. An add of an item that it has keeps the item for another span, and is
// not new. The capacity is the number of items in one span; a span that gets more items grows. The span is 100 ms for each slice
// to 100 years, in whole milliseconds. Such filters cannot be merged. See docs/WINDOWS.md.
func Window(span time.Duration, capacity uint64, rate float64) Size {
	return Size{window: span, capacity: capacity, rate: rate, form: "Window"}
}

// Last is the size of a Bloom filter that forgets old items. Of the items written to it, it finds at least the last ones, and at
// most items/Slices more; their number, items, is Slices to 2^40. An item that comes again soon is not written again. See
// docs/WINDOWS.md.
func Last(items uint64, rate float64) Size {
	return Size{capacity: items, last: items, rate: rate, form: "Last"}
}

// BloomConfig has what else may be said of a new Bloom filter. The zero value, and nil, are the defaults.
type BloomConfig struct {
	// Expansion is the factor between the capacities of a layer and the next, 1 to 32768; 0 means 2.
	Expansion uint32

	// NonScaling makes a filter that does not grow: adds of new items return ErrFull when it is full. Expansion must then be 0.
	NonScaling bool

	// Slices is into how many parts a Window, or the Last items, are divided, 2 to 32; 0 means 8. More slices forget sooner, but
	// make lookups of absent items slower, and each item larger.
	Slices int

	// TTL is the time to live from the filter's creation, at least a millisecond; 0 means for ever.
	TTL time.Duration

	// Hash is HashKeyed or HashXXH64; 0 means HashKeyed.
	Hash Hash

	// Group is the name of filters that are to be merged, 1 to 255 bytes: the filters of one group in one store have the same
	// secret of their keyed hash. Without a group a filter has a secret of its own, so that nobody learns from a dump of one
	// filter which items collide in another. The name is not stored: for a filter that exists it does not matter.
	Group string

	// Layout is LayoutNative, or LayoutCompatible for a filter that is RedisBloom's, byte for byte; 0 means LayoutNative. A
	// compatible filter has a Capacity of up to 2^30 and any rate, and grows as RedisBloom's does: the first layer has half of the
	// rate, and each further one half of the rate of the one before. Its hash is public: anyone can choose items that collide.
	Layout Layout

	// GrowthLog is the most bytes of the log from which a filter that grows is built again, so that it has few layers: 8 bytes
	// for each item, on disk. 0 means the setting growth-log-bytes, 64 MiB at first, or none if Expansion is given; below 0 means
	// none: then the filter grows by layers. See docs/GROWTH.md.
	GrowthLog int64
}

// Planned tells, without a store, what Info says of such a filter with that number of items: its size and its error rate.
// The errors are ErrConfig, and ErrFull or ErrCannotGrow if it cannot hold them.
func (c BloomConfig) Planned(s Size, items uint64) (BloomInfo, error) {
	return c.with(s).Planned(items)
}

// with returns the config of a filter of a size.
func (c *BloomConfig) with(s Size) bloomext.Config {
	if c == nil {
		c = new(BloomConfig)
	}
	return bloomext.Config{
		Capacity: s.capacity, ErrorRate: s.rate, Window: s.window, Last: s.last, Bits: s.bits, Hashes: s.hashes,
		Expansion: c.Expansion, NonScaling: c.NonScaling, Slices: c.Slices, TTL: c.TTL, Hash: c.Hash, Group: c.Group,
		Layout: c.Layout, GrowthLog: c.GrowthLog,
	}
}

// CuckooConfig has what else may be said of a new cuckoo filter, whose size is a Capacity. The zero value, and nil, are the
// defaults.
//
// With an error rate of 0 fingerprints have 12 bits, and the filter grows to up to 32 layers; a full layer then has a rate of
// 0.0018 with buckets of four. Otherwise the rate is at least 1.7e-9, or 4.1e-10 if the filter does not grow, and 5.4e-20 more
// for each item of the capacity; the filter has the fingerprints, of 8 to 32 bits, with which it is smallest, and grows until the
// rate is used up.
type CuckooConfig struct {
	// Expansion is the factor between the blocks of a layer and the next, 1 to 32768, rounded up to a power of two; 0 means 2.
	Expansion uint32

	// NonScaling makes a filter that does not grow: adds return ErrFull when it is full. Expansion must then be 0.
	NonScaling bool

	// BucketSize is the number of slots of a bucket, 1 to 255. 0 means 4, and with an error rate the size of 2 to 4 with which
	// the filter is smallest. Smaller buckets have a lower error rate, but a block takes fewer items before it is full.
	BucketSize int

	// MaxIterations is the most entries that an add moves to make room, 1 to 65535; 0 means 20.
	MaxIterations int

	// TTL is the time to live from the filter's creation, at least a millisecond; 0 means for ever.
	TTL time.Duration

	// Hash is HashKeyed or HashXXH64; 0 means HashKeyed.
	Hash Hash

	// Layout is LayoutNative, or LayoutCompatible for a filter that is RedisBloom's, byte for byte; 0 means LayoutNative. A
	// compatible filter has fingerprints of 8 bits, a Capacity of twice the bucket size to 2^30, buckets of 2 and an Expansion of 1
	// unless asked for others, and no error rate. Its hash is public: anyone can choose items that collide.
	Layout Layout
}

// Planned tells, without a store, what Info says of such a filter with that number of items: its size and its error rate.
// The errors are ErrConfig, and ErrFull or ErrCannotGrow if it cannot hold them.
func (c CuckooConfig) Planned(s Size, items uint64) (CuckooInfo, error) {
	config, err := c.with(s)
	if err != nil {
		return CuckooInfo{}, err
	}
	return config.Planned(items)
}

// with returns the config of a filter of a size.
func (c *CuckooConfig) with(s Size) (cuckooext.Config, error) {
	if c == nil {
		c = new(CuckooConfig)
	}
	return cuckooext.Config{
		Capacity: s.capacity, ErrorRate: s.rate, Expansion: c.Expansion, NonScaling: c.NonScaling, BucketSize: c.BucketSize,
		MaxIterations: c.MaxIterations, TTL: c.TTL, Hash: c.Hash, Layout: c.Layout,
	}, s.only("a cuckoo filter", "Capacity")
}

// only returns an error unless the size has one of some forms.
func (s Size) only(filter string, forms ...string) error {
	for _, form := range forms {
		if cmp.Or(s.form, "Capacity") == form {
			return nil
		}
	}
	return scalableext.BadConfig("size is %s, want %s: %s has no other", s.form, strings.Join(forms, " or "), filter)
}

// CountingConfig has what else may be said of a new counting filter, whose size is a Capacity, or Bits: the number of its counters.
// The zero value, and nil, are the defaults.
type CountingConfig struct {
	// Expansion is the factor between the capacities of a layer and the next, 1 to 32768; 0 means 2. With 1, deletions leave
	// something behind: see package countingext.
	Expansion uint32

	// NonScaling makes a filter that does not grow: adds of new items return ErrFull when it is full. Expansion must then be 0.
	NonScaling bool

	// TTL is the time to live from the filter's creation, at least a millisecond; 0 means for ever.
	TTL time.Duration

	// Hash is HashKeyed or HashXXH64; 0 means HashKeyed.
	Hash Hash

	// Group is the name of filters that are to be merged, see BloomConfig.
	Group string
}

// Planned tells, without a store, what Info says of such a filter with that number of items: its size and its error rate.
// The errors are ErrConfig, and ErrFull or ErrCannotGrow if it cannot hold them.
func (c CountingConfig) Planned(s Size, items uint64) (CountingInfo, error) {
	config, err := c.with(s)
	if err != nil {
		return CountingInfo{}, err
	}
	return config.Planned(items)
}

// with returns the config of a filter of a size.
func (c *CountingConfig) with(s Size) (countingext.Config, error) {
	if c == nil {
		c = new(CountingConfig)
	}
	return countingext.Config{
		Capacity: s.capacity, ErrorRate: s.rate, Counters: s.bits, Hashes: s.hashes,
		Expansion: c.Expansion, NonScaling: c.NonScaling, TTL: c.TTL, Hash: c.Hash, Group: c.Group,
	}, s.only("a counting filter", "Capacity", "Bits")
}
