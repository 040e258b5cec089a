package scalableext

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/sievekv/sievekv/internal/hash"
	"github.com/sievekv/sievekv/internal/probe"
	"github.com/sievekv/sievekv/kv"
)

// Asked has the parameters that the configurations of all types share. A Config or the words of a command ask for
// them.
type Asked struct {
	Capacity   uint64
	ErrorRate  float64
	Expansion  uint32 // 0 with NonScaling
	NonScaling bool
	TTL        time.Duration
	Hash       hash.Kind
	Group      string // of filters with one secret, which can be merged; "" for a secret of its own
	Window     Window // none unless it has a Span or Last

	// GrowthLog is the most bytes of the log of a filter that grows, see Log: below 0 for none. 0 means that none was asked for;
	// a filter then has none, unless its type knows better.
	GrowthLog int64

	Layers       bool   // words gave the expansion, so the filter is to grow by layers unless they ask for a log
	Windows      bool   // words may ask for a window, or for a log
	MostCapacity uint64 // that commands take; 0 means probe.MaxCapacity
	Unused       uint32 // the Expansion that words asked for together with NonScaling
}

const (
	// DefaultExpansion is the expansion of a filter that asks for none.
	DefaultExpansion = 2

	// DefaultGrowthLog is the most bytes of the log of a Bloom filter that does not say.
	DefaultGrowthLog = 64 << 20

	// MaxRate is the highest error rate of a filter of bits or counters. Higher rates are lowered to it.
	MaxRate = 0.25
)

// BadConfig returns an error that wraps ErrConfig, for a wrong value in an extension's Config.
func BadConfig(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrConfig, fmt.Sprintf(format, args...))
}

// CheckLife checks the parameters that do not depend on the filter's size.
func (a Asked) CheckLife() error {
	switch {
	case a.TTL != 0 && a.TTL < time.Millisecond:
		return BadConfig("TTL is %v, want at least 1ms, or 0 for none", a.TTL)
	case a.Hash > hash.XXH64:
		return BadConfig("hash is %v, want keyed or xxh64", a.Hash)
	case a.Group != "" && a.Hash == hash.XXH64:
		return BadConfig("group is %q with hash xxh64, want none: such filters have one seed, and can be merged", a.Group)
	case len(a.Group) > MaxGroup:
		return BadConfig("group has %d bytes, want at most %d", len(a.Group), MaxGroup)
	}
	return nil
}

// CheckExpansion checks the parameters of growth.
func (a Asked) CheckExpansion() error {
	switch {
	case a.Expansion > MaxExpansion:
		return BadConfig("expansion is %d, want 1 to %d, or 0 for %d", a.Expansion, MaxExpansion, DefaultExpansion)
	case a.NonScaling && a.Expansion != 0:
		return BadConfig("expansion is %d in a filter that does not grow, want 0", a.Expansion)
	}
	return nil
}

// Spec returns what is stored for a new filter. plan returns all of it except the expiry, for the hash of the store's
// items.
func (a Asked) Spec(db *kv.DB, plan func(hash.Function) (kv.Spec, error)) (kv.Spec, error) {
	f, err := db.ItemHash(a.Hash, a.Group)
	if err != nil {
		return kv.Spec{}, err
	}
	s, err := plan(f)
	if err == nil && a.TTL != 0 {
		s.Expiry = db.Now() + a.TTL.Milliseconds()
	}
	return s, err
}

// ExpiresAt returns when an object expires, the zero time for never.
func ExpiresAt(o *kv.Object) time.Time {
	if o.Expiry() == 0 {
		return time.Time{}
	}
	return time.UnixMilli(o.Expiry())
}

// Cells describes the cells, bits or counters, in the layers of a type of filter.
type Cells struct {
	Package string // the start of errors
	Name    string // the name of the cells in errors
	Count   func(*probe.Layout) uint64
	Size    func(capacity uint64, rate float64) (probe.Layout, error)
	From    func(cells uint64, hashes int) (probe.Layout, error)

	// Layer returns what is stored for a layer.
	Layer func(l probe.Layout, capacity uint64, rate float64) kv.LayerSpec
}

// Spec returns what is stored for a new filter. s has its type and family.
func (k *Cells) Spec(db *kv.DB, a Asked, cells uint64, hashes int, s kv.Spec) (kv.Spec, error) {
	return a.Spec(db, func(f hash.Function) (kv.Spec, error) {
		p, layout, err := k.plan(a, cells, hashes, f)
		if err != nil {
			return s, err
		}
		capacity, rate, err := p.Layer(0)
		logged := a.GrowthLog > 0 && p.grows()
		if logged {
			p.Growth, p.Log.Limit = Logged, uint64(a.GrowthLog)
		}
		s.Params = p.Append(nil)
		if err != nil || !logged || capacity > logFirst {
			s.Layers = []kv.LayerSpec{k.Layer(layout, capacity, rate)}
			return s, err
		}
		rate = p.firstLogged()
		layout, err = k.Size(capacity, rate)
		s.Layers = p.withLog(k.Layer(layout, capacity, rate))
		return s, err
	})
}

// text returns the text of a shape: see Merging.
func (k *Cells) text(shape any) string {
	l, ok := shape.(probe.Layout)
	if !ok {
		return fmt.Sprint(shape)
	}
	return fmt.Sprintf("%d %s with %d hashes in %d lines", k.Count(&l), k.Name, l.Hashes, l.LinesPerItem)
}

// plan returns the parameters of a new filter, and the layout of its first layer. They are for a capacity and an
// error rate, or for cells and hashes if these are not 0. Its error wraps ErrConfig, and names the parameter, its
// value and what is allowed.
func (k *Cells) plan(a Asked, cells uint64, hashes int, f hash.Function) (Params, probe.Layout, error) {
	of := k.planRate
	if cells != 0 || hashes != 0 {
		of = func(a Asked) (Params, probe.Layout, error) { return k.planCells(a, cells, hashes) }
	}
	if err := a.CheckLife(); err != nil {
		return Params{}, probe.Layout{}, err
	}
	p, first, err := of(a)
	p.Hash = f
	return p, first, err
}

// Plan describes a filter that was not made, and holds items.
type Plan struct {
	Params
	Layers       []PlannedLayer
	Room         uint64 // items that all layers have room for
	Bytes        uint64 // of the cells of all layers
	Set, Cells   uint64 // cells that are set, as expected, and all cells
	LogBytes     uint64 // of the log that it grows from, on disk
	ExpectedRate float64
}

// PlannedLayer is a layer of a Plan.
type PlannedLayer struct {
	Layout   probe.Layout
	Capacity uint64
	Rate     float64 // the layer's share of the filter's error rate
	Items    uint64
	Set      uint64 // cells that are set, as expected
}

// Planned returns the plan of a filter that holds the given number of items, if each layer is filled before the next is
// added. The errors are ErrConfig, and ErrFull or ErrCannotGrow if the filter cannot hold them.
func (k *Cells) Planned(a Asked, cells uint64, hashes int, items uint64) (*Plan, error) {
	params, layout, err := k.plan(a, cells, hashes, hash.Function{})
	if err != nil {
		return nil, err
	}
	if a.GrowthLog > 0 && params.grows() {
		params.Growth, params.Log.Limit = Logged, uint64(a.GrowthLog)
		if p, err := k.plannedLogged(params, layout, items); err == nil {
			return p, nil
		} // otherwise a rate is too low: it grows by layers
		params.Growth, params.Log = Native, Log{}
	}
	p := &Plan{Params: params}
	var rates []float64
	for {
		capacity, rate, err := p.Layer(len(p.Layers))
		switch {
		case err != nil && p.Expansion == 0:
			return nil, ErrFull
		case err != nil:
			return nil, err
		case len(p.Layers) > 0:
			if layout, err = k.layout(params, len(p.Layers)); err != nil {
				return nil, fmt.Errorf("%w: %w", ErrCannotGrow, err)
			}
		}
		held := min(items, capacity)
		rates = append(rates, p.add(layout, capacity, rate, held))
		if items -= held; items == 0 {
			p.ExpectedRate = ChainRate(rates)
			return p, nil
		}
	}
}

// add adds a layer that holds the given number of items, and returns its rate.
func (p *Plan) add(layout probe.Layout, capacity uint64, rate float64, held uint64) float64 {
	set, _ := layout.ExpectedSet(float64(held))
	l := PlannedLayer{layout, capacity, rate, held, uint64(math.Round(set))}
	p.Layers = append(p.Layers, l)
	p.Room += capacity
	p.Bytes += layout.Bits() / 8
	p.Set += l.Set
	p.Cells += layout.Cells()
	return layout.ExpectedRate(held)
}

// plannedLogged is Planned for a filter that may have a log, once what is filled has been.
func (k *Cells) plannedLogged(params Params, first probe.Layout, items uint64) (*Plan, error) {
	p := &Plan{Params: params}
	var made, rates []float64 // of the layers, and as expected
	add := func(layout probe.Layout, capacity uint64, rate float64) {
		held := min(items, capacity)
		rates, made, items = append(rates, p.add(layout, capacity, rate, held)), append(made, rate), items-held
	}
	// The first layer that the log covers.
	capacity, rate := params.Capacity, params.firstLogged()
	if capacity > logFirst { // it stays, and the log covers those behind it
		add(first, capacity, firstShare*params.ErrorRate)
		capacity, rate = max(minSmall, capacity/smallShare), params.left(made)/2
	}
	logged := min(items, params.Log.Limit/8)
	for stay := p.Room; capacity < logged; {
		capacity, rate = params.FilledLayer(made, stay, capacity, capacity)
	}
	if p.LogBytes = 8 * logged; logged < items {
		p.LogBytes, p.Log.Limit = 0, 0 // it has ended
	}
	for items > 0 || len(made) == 0 {
		layout, err := k.Size(capacity, rate)
		if err != nil {
			return nil, err
		}
		if add(layout, capacity, rate); items == 0 {
			break
		}
		if capacity, rate, err = p.SmallLayer(made, p.Room, 0, 0); err != nil {
			return nil, err
		}
	}
	p.ExpectedRate = ChainRate(rates)
	return p, nil
}

func (k *Cells) planRate(a Asked) (p Params, first probe.Layout, err error) {
	switch {
	case !(a.ErrorRate > 0 && a.ErrorRate < 1):
		return p, first, BadConfig("error rate is %v, want above 0 and below 1", a.ErrorRate)
	case a.Capacity < 1 || a.Capacity > probe.MaxCapacity:
		return p, first, BadConfig("capacity is %d, want 1 to %d", a.Capacity, uint64(probe.MaxCapacity))
	}
	if err := a.CheckExpansion(); err != nil {
		return p, first, err
	}
	p = Params{Capacity: a.Capacity, ErrorRate: min(a.ErrorRate, MaxRate), Expansion: a.Expansion}
	if !a.NonScaling && a.Expansion == 0 {
		p.Expansion = DefaultExpansion
	}
	first, err = k.layout(p, 0)
	return p, first, err
}

// layout returns the layout of layer i. The error about too low an error rate has the rates of the filter, which the
// user gives, and not the layer's share of them.
func (k *Cells) layout(p Params, i int) (probe.Layout, error) {
	capacity, rate, err := p.Layer(i)
	if err != nil {
		return probe.Layout{}, err
	}
	if lowest := probe.LowestRate(capacity); rate < lowest {
		whole := p
		whole.ErrorRate = 1
		_, share, _ := whole.Layer(i)
		return probe.Layout{}, BadConfig("error rate is %v, want at least %s for a capacity of %d",
			p.ErrorRate, probe.LowestText(lowest/share), capacity)
	}
	return k.Size(capacity, rate)
}

func (k *Cells) planCells(a Asked, cells uint64, hashes int) (p Params, first probe.Layout, err error) {
	switch {
	case cells == 0 || hashes == 0:
		return p, first, BadConfig("%s are %d and hashes %d, want both or neither", k.Name, cells, hashes)
	case a.ErrorRate != 0:
		return p, first, BadConfig("error rate is %v with %s given, want 0: it follows", a.ErrorRate, k.Name)
	case a.Expansion != 0:
		return p, first, BadConfig("expansion is %d with %s given, want 0: such a filter does not grow", a.Expansion, k.Name)
	case a.Capacity > probe.MaxCapacity:
		return p, first, BadConfig("capacity is %d, want at most %d", a.Capacity, uint64(probe.MaxCapacity))
	}
	if first, err = k.From(cells, hashes); err != nil {
		return p, first, err
	}
	p.Capacity = a.Capacity
	if p.Capacity == 0 {
		half := float64(k.Count(&first)) * math.Ln2 / float64(first.Hashes)
		p.Capacity = uint64(min(max(1, half), probe.MaxCapacity))
	}
	p.ErrorRate = first.FullRate(p.Capacity)
	if !(p.ErrorRate > 0 && p.ErrorRate < 1) {
		return p, first, BadConfig("capacity is %d, for which %d %s and %d hashes have an error rate of %v, want above 0 and below 1",
			p.Capacity, cells, k.Name, hashes, p.ErrorRate)
	}
	return p, first, nil
}

// Mismatch returns an error if a filter differs from one that Spec would describe. have are the filter's parameters,
// oldest is the layout of its oldest layer.
func (k *Cells) Mismatch(a Asked, cells uint64, hashes int, key string, have Params, oldest probe.Layout) error {
	want, first, err := k.plan(a, cells, hashes, have.Hash)
	if err != nil {
		return err
	}
	var d Differences
	if cells != 0 {
		d.Add(k.Name, k.Count(&oldest), k.Count(&first))
		d.Add("hashes", oldest.Hashes, first.Hashes)
	} else {
		d.Add("error rate", have.ErrorRate, want.ErrorRate)
	}
	d.AddParams(a, have, want)
	return d.Err(key)
}

// Differences are the differences between a filter and what was asked for.
type Differences []string

// Add adds a parameter if its values differ.
func (d *Differences) Add(name string, have, want any) {
	if have != want {
		*d = append(*d, fmt.Sprintf("%s is %v, asked for %v", name, have, want))
	}
}

// AddParams adds the parameters of all types that differ. It compares the hash only if one is asked for.
func (d *Differences) AddParams(a Asked, have, want Params) {
	if a.Hash != hash.Default {
		d.Add("hash", have.Hash.Kind(), a.Hash)
	}
	d.Add("capacity", have.Capacity, want.Capacity)
	d.Add("expansion", have.Expansion, want.Expansion)
}

// Err returns ErrMismatch with all differences, nil if there are none.
func (d Differences) Err(key string) error {
	if len(d) == 0 {
		return nil
	}
	return fmt.Errorf("%w: key %q: %s", ErrMismatch, key, strings.Join(d, "; "))
}
