package cuckooext

import (
	"time"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/hash"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// Info describes a filter.
type Info struct {
	Asked    uint64 // the capacity asked for when the filter was made
	Capacity uint64 // entries that the existing layers were made for

	// ErrorRate is the highest false-positive rate that the filter can reach: the one asked for, or the rate of the most
	// layers it may have.
	ErrorRate    float64
	ExpectedRate float64 // the present false-positive rate, by formula

	Items   uint64 // items added and not deleted
	Deletes uint64 // since the last compaction

	Layout          scalableext.Layout
	FingerprintBits int
	BucketSize      int
	Buckets         uint64 // of the oldest layer
	MaxIterations   int
	Expansion       uint32 // 0 for a filter that does not grow
	MaxLayers       int    // by the error rate (in the compatible layout, the most of any filter) and, in a store, the setting cf-max-expansions; Options.MaxFilterBytes may allow fewer

	Bytes         uint64 // of the slots; only used blocks take space on disk and in memory
	DiskBytes     uint64 // an estimate, without the last writes
	ResidentBytes uint64 // of blocks in memory

	Lossy     bool        // it was salvaged without all of its blocks, and may miss items
	Hash      hash.Kind   // of the items: hash.Keyed, hash.XXH64 or, in the compatible layout, hash.Murmur64A
	ExpiresAt time.Time   // to the millisecond; zero for never
	Layers    []LayerInfo // oldest first
}

// LayerInfo describes a layer of a filter.
type LayerInfo struct {
	Blocks     uint64
	BlockBytes uint64 // of a block on disk and in memory, 64 to 8192; its slots may take a few less
	Capacity   uint64
	Items      uint64
	Load       float64 // share of the slots that are taken, 0 to 1
}

// Info returns facts about the filter, without reading its blocks.
func (f *Filter) Info() (info Info, err error) {
	err = f.h.Look(func(r kv.Reader, c *filter) (err error) {
		info = c.info(r)
		info.DiskBytes, info.ResidentBytes, err = f.h.DB.ObjectBytes(c.object)
		return err
	})
	return info, err
}

// info is Info without the bytes on disk and in memory.
func (f *filter) info(r kv.Reader) Info {
	p, oldest := f.chain.Params, &f.layers[len(f.layers)-1]
	i := Info{
		Asked: p.Capacity, ErrorRate: p.ErrorRate, Expansion: p.Expansion, ExpiresAt: scalableext.ExpiresAt(f.object), Hash: f.hash.Kind(), Lossy: f.object.Lossy(),
		MaxLayers:       f.g.layersOf(p),
		Layout:          f.layout(),
		FingerprintBits: f.g.family.Width(), BucketSize: int(f.g.bucketSize), MaxIterations: oldest.maxIterations,
		Deletes: r.Counter(oldest.table, deletesCounter),
	}
	if f.compatible {
		i.MaxLayers, i.Buckets = compatibleLayers(oldest.capacity, p.Expansion), oldest.buckets
	} else {
		i.Buckets = oldest.blocks * uint64(oldest.g.buckets)
	}
	if db := r.DB(); db != nil { // nil for a filter of no store
		i.MaxLayers = int(min(int64(i.MaxLayers), maxLayers(db)))
	}
	for n := len(f.layers) - 1; n >= 0; n-- {
		l := &f.layers[n]
		entries := r.Counter(l.table, entriesCounter)
		load, size := float64(entries)/float64(l.capacity), l.capacity
		if !f.compatible {
			load, size = l.g.loadOf(l.blocks, entries), l.g.bytes(l.blocks)
		}
		i.Layers = append(i.Layers, LayerInfo{
			Blocks: l.blocks, BlockBytes: blockBytes(int(l.table.Spec().Lines)), Capacity: l.capacity, Items: entries, Load: load,
		})
		i.Capacity += l.capacity
		i.Items += entries
		i.Bytes += size
	}
	i.ExpectedRate = f.g.expectedRate(i.Layers)
	return i
}

func blockBytes(lines int) uint64 { return uint64(lines) * block.LineBits / 8 }

// describe returns what SIEVE.STATS shows of a filter.
func (f *filter) describe(r kv.Reader) kv.Description {
	info := f.info(r)
	layers := make([]kv.FactList, len(info.Layers))
	for i, l := range info.Layers {
		layers[i] = kv.FactList{
			kv.IntFact("blocks", l.Blocks), kv.IntFact("block_bytes", l.BlockBytes), kv.IntFact("capacity", l.Capacity), kv.IntFact("items", l.Items),
			kv.NewFact("load", l.Load),
		}
	}
	facts := kv.FactList{
		kv.IntFact("items", info.Items), kv.IntFact("deletes", info.Deletes),
		kv.IntFact("capacity", info.Capacity),
		kv.NewFact("load", info.Load()), kv.NewFact("expected_rate", info.ExpectedRate),
		kv.NewFact("error_rate", info.ErrorRate), kv.IntFact("fingerprint_bits", info.FingerprintBits),
		kv.IntFact("bucket_size", info.BucketSize), kv.IntFact("max_iterations", info.MaxIterations),
		kv.IntFact("expansion", info.Expansion), kv.IntFact("max_layers", info.MaxLayers),
		kv.NewFact("hash", info.Hash.String()), kv.NewFact("layers", layers),
	}
	if f.compatible {
		facts = append(facts, kv.NewFact("layout", info.Layout.String()))
	}
	return kv.Description{Bytes: info.Bytes, Facts: facts}
}

// Load returns the share of slots that are taken in all layers together, 0 to 1.
func (i Info) Load() float64 {
	return float64(i.Items) * float64(i.FingerprintBits) / (8 * float64(i.Bytes))
}

// Planned returns what Info would say of a filter made with the Config that holds a number of items, if each layer is
// filled before the next is added. Of the sizes it sets only Bytes. It needs no store, and ignores
// Options.MaxFilterBytes. The errors are ErrConfig, and ErrFull or ErrCannotGrow if the filter cannot hold them.
//
// How many items a layer with the compatible layout takes depends on the items. Planned fills it as far as one of 2^20 slots is
// filled when an item first finds no room. Smaller ones take more, and older ones go on to take some, so that a filter that has
// grown has fewer layers than planned.
func (c Config) Planned(items uint64) (Info, error) {
	p, err := c.plan(hash.Function{})
	if err != nil {
		return Info{}, err
	}
	first, err := decodeLayerParams(p.first.Params)
	if err != nil {
		return Info{}, err
	}
	i := Info{
		Asked: c.Capacity, ErrorRate: p.params.ErrorRate, Expansion: p.params.Expansion, MaxLayers: p.g.layersOf(p.params), Items: items,
		Layout:          c.Layout,
		FingerprintBits: p.g.family.Width(), BucketSize: int(p.g.bucketSize), MaxIterations: int(first.maxIterations),
	}
	if c.Layout == scalableext.LayoutCompatible {
		return i.fillCompatible(&p.g, first.capacity)
	}
	e, err := p.g.first(c.Capacity)
	if err != nil {
		return Info{}, err
	}
	i.Buckets = e.blocks * uint64(e.buckets)
	for {
		l := LayerInfo{Blocks: e.blocks, BlockBytes: blockBytes(e.lines()), Capacity: e.room()}
		l.Items = min(items, l.Capacity)
		l.Load = e.loadOf(e.blocks, l.Items)
		items -= l.Items
		i.Layers = append(i.Layers, l)
		i.Capacity += l.Capacity
		i.Bytes += e.bytes(e.blocks)
		switch {
		case items == 0:
			i.ExpectedRate = p.g.expectedRate(i.Layers)
			return i, nil
		case i.Expansion == 0:
			return Info{}, scalableext.ErrFull
		case len(i.Layers) == i.MaxLayers:
			return Info{}, scalableext.ErrCannotGrow
		}
		if e, err = e.next(i.Expansion); err != nil {
			return Info{}, scalableext.ErrCannotGrow
		}
	}
}

// fillCompatible completes what Planned returns of a filter with the compatible layout whose first layer has so many
// slots.
func (i Info) fillCompatible(g *geometry, slots uint64) (Info, error) {
	i.MaxLayers, i.Buckets = compatibleLayers(slots, i.Expansion), slots/uint64(i.BucketSize)
	for items := i.Items; ; slots *= uint64(i.Expansion) {
		spec := compatibleSpec(i.BucketSize, i.MaxIterations, slots/uint64(i.BucketSize))
		l := LayerInfo{Blocks: spec.Blocks, BlockBytes: blockBytes(int(spec.Lines)), Capacity: slots, Items: min(items, compatibleItems(slots, i.BucketSize))}
		l.Load = float64(l.Items) / float64(slots)
		items -= l.Items
		i.Layers = append(i.Layers, l)
		i.Capacity += slots
		i.Bytes += slots
		switch {
		case items == 0:
			i.ExpectedRate = g.expectedRate(i.Layers)
			return i, nil
		case i.Expansion == 0:
			return Info{}, scalableext.ErrFull
		case len(i.Layers) == i.MaxLayers:
			return Info{}, scalableext.ErrCannotGrow
		}
	}
}
