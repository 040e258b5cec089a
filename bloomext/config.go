package bloomext

import (
	"cmp"
	"fmt"
	"time"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/hash"
	"github.com/sievekv/sievekv/internal/probe"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/scalableext"
)

// Config says how a new filter is made: for a capacity and an error rate, or with given Bits and Hashes.
type Config struct {
	// Capacity is the number of distinct items expected, 1 to 2^40. A filter that grows takes more at the same error
	// rate, but with more bits for each item and a lookup in every layer. A filter that does not grow returns
	// ErrFull. A layer is full when as many items as its capacity were new in it. It is also full when so many bits are
	// set that it must hold more distinct items than that; with a probability of 1 in 3,000,000 it does not.
	Capacity uint64

	// ErrorRate is the highest false-positive rate at any number of items, below 1. Rates above 0.25 are lowered to
	// that. It must be at least 1.8e-19 times the Capacity, or 1.3e-19 times if the filter does not grow.
	ErrorRate float64

	// Expansion is the factor between the capacities of a layer and the next, 1 to 32768; 0 means 2.
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

	// Layout is scalableext.LayoutNative, or scalableext.LayoutCompatible for a filter that is RedisBloom's, byte for byte.
	// A compatible filter takes a Capacity of up to 2^30, any ErrorRate, and no Bits and Hashes. It grows as RedisBloom's
	// does: the first layer has half of the ErrorRate, and each further one half of the rate of the one before. It is full
	// when the items that were new are as many as its Capacity. Its Hash is MurmurHash64A, with a public seed: an attacker
	// can choose items that collide.
	Layout scalableext.Layout

	// Window makes a filter that forgets: an item is found for at least Window after its last add, and for at most
	// Window + Window/Slices. An add of an item that is about to be forgotten keeps it, and reports that it is not new.
	// Capacity is then the number of items that are added in one Window, and ErrorRate the rate of all that is found. A
	// Window that gets more items grows; so NonScaling must not be set. Window is 100 ms for each slice to 100 years, in
	// whole milliseconds. See scalableext.Window for how it works, and for what a clock does that is set back.
	Window time.Duration

	// Last makes a filter that finds at least the last Last items that were written to it, and at most Last + Last/Slices,
	// Slices to 2^40. An item that comes again soon is not written again. Capacity must be equal to Last. Window must then be 0.
	Last uint64

	// Slices is into how many parts a Window, or the Last items, are divided, 2 to 32; 0 means 8. More slices forget sooner,
	// but make lookups of absent items slower, and each item larger.
	Slices int

	// GrowthLog is the most bytes of the log from which a filter that grows is built again, so that it does not get more and
	// more layers: 8 for each item, on disk, and never in memory. Then it grows by layers. 0 means the setting
	// growth-log-bytes, which is 64 MiB at first, or Options.MaxFilterBytes if that is less, unless Expansion is given: then, and
	// below 0, there is none. More than Options.MaxFilterBytes is an error. See scalableext.Log for how it works. Filters that do not grow, that forget, or have another layout than the
	// native one have no log, and ones that are made for more than 1,024 items none before they are full.
	GrowthLog int64

	// TTL is the time to live from the filter's creation, at least a millisecond; 0 means for ever.
	TTL time.Duration

	// Bits, 1 to 2^46, and Hashes, 1 to 64, set the filter's size and its probes for each item. Bits are rounded up
	// to whole lines of 512. Such a filter does not grow, and ErrorRate must be 0: it follows from the capacity. A
	// capacity of 0 becomes the number of items that set half of the bits, Bits*ln2/Hashes.
	Bits   uint64
	Hashes int

	// unused is the expansion that dumps of a filter have that does not grow, plus 1; 0 means the default.
	unused uint32
}

// cells describes the bits of a filter.
var cells = scalableext.Cells{
	Package: "bloomext", Name: "bits", Count: (*probe.Layout).Bits, Size: probe.Size, From: probe.FromBits,
	Layer: specOf,
}

func (c Config) asked() scalableext.Asked {
	return scalableext.Asked{
		Capacity: c.Capacity, ErrorRate: c.ErrorRate, Expansion: c.Expansion, NonScaling: c.NonScaling, TTL: c.TTL, Hash: c.Hash, Group: c.Group,
		Window: scalableext.Window{Span: c.Window, Last: c.Last, Slices: c.Slices},
	}
}

// mostLog returns the most bytes that the log of a new filter may have: as many as a filter.
func mostLog(db *kv.DB) int64 { return int64(min(db.MaxFilterBytes(), scalableext.MaxLogBytes)) }

// defaultLog returns the most bytes of the log of a new filter that asks for nothing, 0 for none.
func defaultLog(db *kv.DB) int64 {
	return min(module.Of(db).SettingInt(growthLogSetting), mostLog(db))
}

// growthLog returns the most bytes of the filter's log: the setting, if the Config asks for nothing.
func (c Config) growthLog(setting int64) int64 {
	if c.GrowthLog == 0 && c.Expansion != 0 {
		return -1
	}
	return cmp.Or(c.GrowthLog, setting)
}

// windowed reports whether the filter is to forget. The error names parameters that a filter with a window cannot have.
func (c Config) windowed() (bool, error) {
	if c.Window == 0 && c.Last == 0 && c.Slices == 0 {
		return false, nil
	}
	switch {
	case c.Layout != scalableext.LayoutNative:
		return true, scalableext.BadConfig("layout is %v with a window, want native", c.Layout)
	case c.Bits != 0 || c.Hashes != 0:
		return true, scalableext.BadConfig("bits are %d and hashes %d with a window, want 0: they follow from the capacity", c.Bits, c.Hashes)
	}
	return true, nil
}

// spec returns what is stored for a new filter. Its error wraps ErrConfig if a value is out of range.
func (c Config) spec(db *kv.DB) (kv.Spec, error) {
	if windowed, err := c.windowed(); windowed || err != nil {
		return c.windowedSpec(db, err)
	}
	switch c.Layout {
	case scalableext.LayoutNative:
	case scalableext.LayoutCompatible:
		return c.compatibleSpec(db)
	default:
		return kv.Spec{}, badLayout(c.Layout)
	}
	asked, most := c.asked(), mostLog(db)
	switch {
	case c.GrowthLog > scalableext.MaxLogBytes:
		return kv.Spec{}, scalableext.BadConfig("growth log is %d bytes, want at most %d", c.GrowthLog, int64(scalableext.MaxLogBytes))
	case c.GrowthLog > most:
		return kv.Spec{}, fmt.Errorf("%w: growth log of %d bytes, at most %d (max-filter-bytes)", kv.ErrTooLarge, c.GrowthLog, most)
	}
	asked.GrowthLog = c.growthLog(defaultLog(db))
	return cells.Spec(db, asked, c.Bits, c.Hashes, kv.Spec{Type: bloomType, Family: block.FamilyBits})
}

func (c Config) windowedSpec(db *kv.DB, err error) (kv.Spec, error) {
	s := kv.Spec{Type: bloomType, Family: block.FamilyBits}
	if err != nil {
		return s, err
	}
	if s, err = cells.WindowSpec(db, c.asked(), s); err != nil {
		return s, err
	}
	// Later slices must have room: all of them are there at once.
	if most, each := db.MaxFilterBytes(), s.Layers[0].Bytes(); each > most/uint64(c.slices()+1) {
		return s, fmt.Errorf("%w: window of %d slices of %d bytes, at most %d (max-filter-bytes)", kv.ErrTooLarge, c.slices()+1, each, most)
	}
	return s, nil
}

func (c Config) slices() int { return cmp.Or(c.Slices, scalableext.DefaultSlices) }

// mismatch returns an error if a filter differs from one made with the Config.
func (c Config) mismatch(f *filter) error {
	if windowed, err := c.windowed(); windowed && err == nil && f.windowed {
		return cells.WindowMismatch(c.asked(), f.object.Key(), f.chain.Params)
	} else if err != nil {
		return err
	} else if windowed != f.windowed {
		var d scalableext.Differences
		d.Add("window", f.window, c.asked().Window)
		return d.Err(f.object.Key())
	}
	if c.Layout == scalableext.LayoutCompatible {
		return c.compatibleMismatch(f)
	}
	if !c.Layout.Valid() {
		return badLayout(c.Layout)
	}
	if f.flat {
		var d scalableext.Differences
		d.Add("layout", f.layout(), c.Layout)
		return d.Err(f.object.Key())
	}
	return cells.Mismatch(c.asked(), c.Bits, c.Hashes, f.object.Key(), f.chain.Params, f.layer(0).layout)
}

// layerSpec returns a layer for a capacity and an error rate.
func layerSpec(capacity uint64, rate float64) (kv.LayerSpec, error) {
	layout, err := probe.Size(capacity, rate)
	return specOf(layout, capacity, rate), err
}

func specOf(l probe.Layout, capacity uint64, rate float64) kv.LayerSpec {
	p := layerParams{hashes: l.Hashes, linesPerItem: l.LinesPerItem, capacity: capacity, rate: rate}
	return kv.LayerSpec{Layout: kv.LayoutNative, Blocks: l.Blocks, Lines: l.Lines, Params: p.append(nil)}
}
