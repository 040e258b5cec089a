package scalableext

import (
	"fmt"
	"math"
	"time"

	"github.com/sievekv/sievekv/internal/hash"
	"github.com/sievekv/sievekv/internal/probe"
	"github.com/sievekv/sievekv/kv"
)

// MaxTTL is the longest time to live of a new filter, in seconds: 100 years.
const MaxTTL = 100 * 366 * 24 * 60 * 60

// Window says what a windowed filter forgets: items that were not added for a time, or all but the last items.
//
// # How it works
//
// A windowed filter is a chain of slices. A slice is a group of layers that began at the same time. The newest slice
// takes all adds. If an item has no room in its layer, the slice grows by another layer, as other filters do. A lookup
// asks the slices that have not expired, the newest first. An item that only older slices have is written to the
// newest one when it is added again, and counts as known.
//
// With Span, a slice takes adds for Span/Slices from its start, and it expires Span + Span/Slices after its start. Both
// follow from its start and the clock alone. So a lookup finds no item of an expired slice, even if nothing was
// written since. An item lives for at least Span after its last add, because the slice took the add at most
// Span/Slices after its start; and for at most Span + Span/Slices. The first add behind the end of the newest slice
// begins the next one, at the time of its commit. That commit also removes the slices that have expired, however large
// they are, at the cost of a range deletion. The starts of two slices are at least Span/Slices apart, so there are never
// more than Slices+1 of them.
//
// A clock that is set back forgets nothing early: a slice that begins in the future takes adds, and expires by its start.
// Items are then kept longer, by as much as the clock was set back. The time of an add is the time of its commit: in a
// transaction, the time by which keys have expired for it.
//
// With Last, a slice takes its Share of the items, about Last/Slices, and then the next one begins. All but the newest
// Slices+1 slices are removed. Only items that are written to a slice count: the slices hold at least the last Last of them,
// and at most Last + Last/Slices.
//
// A filter that was never used, or whose items have all expired, has one slice that never began, with start 0. Lookups
// find nothing in it, and the first add begins a slice.
//
// # The error rate
//
// At most Slices+1 slices answer a lookup, and each is made for ErrorRate/(Slices+1). A false positive needs at least
// one slice that answers wrongly, so the rate of all is at most the sum, the ErrorRate. A slice that grows divides its
// part among its layers, as Native says.
//
// A slice has room for 9/8 of Capacity/Slices items, at least for 64, before it grows. A slice that follows one with
// more items has room for 9/8 of those. So a window that gets more items than its capacity soon has slices of one layer.
type Window struct {
	Span   time.Duration // 0 with Last; whole milliseconds
	Last   uint64        // 0 with Span
	Slices int           // 0 if the filter is not windowed
}

// The ranges of windows.
const (
	DefaultSlices = 8
	MinSlices     = 2
	MaxSlices     = 32

	// MinTurn is the shortest time that a slice takes adds, so that the numbers of layers, 2^32, last for years.
	MinTurn = 100 * time.Millisecond

	// MaxSpan is the longest window.
	MaxSpan = MaxTTL * time.Second

	minSliceCapacity = 64
)

// Is reports whether there is a window.
func (v Window) Is() bool { return v.Slices != 0 }

// Turn returns for how long a slice takes adds, in milliseconds, rounded up. So Slices slices are at least as long as
// the window.
func (v Window) Turn() int64 {
	return (v.Span.Milliseconds() + int64(v.Slices) - 1) / int64(v.Slices)
}

// Takes reports whether a slice that began at start takes adds. Times are in Unix milliseconds.
func (v Window) Takes(start, now int64) bool { return start != 0 && now < start+v.Turn() }

// Ends returns when a slice expires that began at start, 0 for one that never began.
func (v Window) Ends(start int64) int64 {
	if start == 0 {
		return 0
	}
	return start + v.Turn() + v.Span.Milliseconds()
}

// Share returns how many items a slice takes, with Last. Slices are numbered from 1. Slices slices in a row take Last-1 items
// together, or Last if Last-1 are too few for one each. With the first item of the slice behind them they hold the last Last.
func (v Window) Share(number int64) uint64 {
	n, of := v.Last-1, uint64(v.Slices)
	upTo := func(k uint64) uint64 { return (k*n + of - 1) / of }
	k := uint64(number-1) % of
	return max(1, upTo(k+1)-upTo(k))
}

// Slice returns the parameters of one slice, as of a chain of its own. Held is the number of items in the slice before
// it.
func (p Params) Slice(number int64, held uint64) Params {
	s := Params{ErrorRate: p.ErrorRate / float64(p.Window.Slices+1), Expansion: p.Expansion, Hash: p.Hash}
	if p.Window.Last != 0 {
		s.Capacity, s.Expansion = p.Window.Share(number), 0
		return s
	}
	nominal := max(float64(held), float64(p.Capacity)/float64(p.Window.Slices))
	s.Capacity = uint64(min(max(math.Ceil(nominal*9/8), minSliceCapacity), probe.MaxCapacity))
	return s
}

// window returns the parameters of a new windowed filter, and the layer of its first slice.
func (k *Cells) window(a Asked, v Window, f hash.Function) (p Params, first PlannedLayer, err error) {
	if err := a.CheckLife(); err != nil {
		return p, first, err
	}
	if v.Last != 0 && a.Expansion != 0 {
		return p, first, BadConfig("expansion is %d with last %d, want 0: its slices do not grow", a.Expansion, v.Last)
	}
	a.Window = Window{}
	if p, _, err = k.planRate(a); err != nil {
		return p, first, err
	}
	p.Growth, p.Window, p.Hash = Windowed, v, f
	if v.Last != 0 {
		p.Expansion = 0
	}
	capacity, rate, err := p.Slice(1, 0).Layer(0)
	if err != nil {
		return p, first, err
	}
	if lowest := probe.LowestRate(capacity); rate < lowest {
		return p, first, BadConfig("error rate is %v, want at least %s for a capacity of %d in %d slices",
			p.ErrorRate, probe.LowestText(lowest/rate*p.ErrorRate), p.Capacity, v.Slices)
	}
	layout, err := k.Size(capacity, rate)
	return p, PlannedLayer{Layout: layout, Capacity: capacity, Rate: rate}, err
}

// WindowSpec returns what is stored for a new windowed filter. s has its type and family.
func (k *Cells) WindowSpec(db *kv.DB, a Asked, s kv.Spec) (kv.Spec, error) {
	v, err := a.CheckWindow()
	if err != nil {
		return s, err
	}
	return a.Spec(db, func(f hash.Function) (kv.Spec, error) {
		p, first, err := k.window(a, v, f)
		if err != nil {
			return s, err
		}
		start := int64(0) // the first add begins a slice
		if v.Last != 0 {
			start = 1
		}
		layer := k.Layer(first.Layout, first.Capacity, first.Rate)
		layer.Params = append(AppendStart(nil, start), layer.Params...)
		s.Params, s.Layers = p.Append(nil), []kv.LayerSpec{layer}
		return s, nil
	})
}

// PlannedWindow returns the plan of one slice of a windowed filter whose window holds the given number of items, and
// the number of slices that exist at once. It assumes that the slice before had its share of the items, so that each
// slice was made for them, see Params.Slice: a window that begins to get more items than its capacity has slices that
// grow by layers, until they expire.
func (k *Cells) PlannedWindow(a Asked, items uint64) (Params, *Plan, int, error) {
	v, err := a.CheckWindow()
	if err != nil {
		return Params{}, nil, 0, err
	}
	p, first, err := k.window(a, v, hash.Function{})
	if err != nil {
		return Params{}, nil, 0, err
	}
	share := (items + uint64(v.Slices) - 1) / uint64(v.Slices)
	if v.Last != 0 {
		share = min(share, first.Capacity)
	}
	planSlice := func(held uint64) (*Plan, error) {
		s := p.Slice(1, held)
		return k.Planned(Asked{Capacity: s.Capacity, ErrorRate: s.ErrorRate, Expansion: s.Expansion, NonScaling: s.Expansion == 0}, 0, 0, share)
	}
	plan, err := planSlice(share)
	if err != nil { // a slice that cannot be so large begins as the first one did
		plan, err = planSlice(0)
	}
	return p, plan, v.Slices + 1, err
}

// WindowMismatch returns an error if a filter differs from one that WindowSpec would describe.
func (k *Cells) WindowMismatch(a Asked, key string, have Params) error {
	v, err := a.CheckWindow()
	if err != nil {
		return err
	}
	want, _, err := k.window(a, v, have.Hash)
	if err != nil {
		return err
	}
	var d Differences
	d.Add("window", have.Window, want.Window)
	d.Add("error rate", have.ErrorRate, want.ErrorRate)
	d.AddParams(a, have, want)
	return d.Err(key)
}

// Of returns the parameters of a slice whose first layer has a capacity.
func (p Params) Of(capacity uint64) Params {
	s := p.Slice(1, 0)
	s.Capacity = capacity
	return s
}

// CheckWindow checks the parameters of a window, and returns the window with its defaults.
func (a Asked) CheckWindow() (Window, error) {
	v := a.Window
	if v.Slices == 0 {
		v.Slices = DefaultSlices
	}
	bad := func(format string, args ...any) (Window, error) {
		return Window{}, BadConfig(format, args...)
	}
	switch {
	case v.Span == 0 && v.Last == 0:
		return bad("slices are %d without a window, want 0, or a window or last items", v.Slices)
	case v.Span != 0 && v.Last != 0:
		return bad("window is %v and last %d, want one of them", v.Span, v.Last)
	case v.Slices < MinSlices || v.Slices > MaxSlices:
		return bad("slices are %d, want %d to %d, or 0 for %d", v.Slices, MinSlices, MaxSlices, DefaultSlices)
	case v.Span != 0 && (v.Span < MinTurn*time.Duration(v.Slices) || v.Span > MaxSpan):
		return bad("window is %v, want %v to %v for %d slices", v.Span, MinTurn*time.Duration(v.Slices), time.Duration(MaxSpan), v.Slices)
	case v.Span%time.Millisecond != 0:
		return bad("window is %v, want whole milliseconds", v.Span)
	case v.Last != 0 && (v.Last < uint64(v.Slices) || v.Last > probe.MaxCapacity):
		return bad("last is %d, want %d to %d for %d slices", v.Last, v.Slices, uint64(probe.MaxCapacity), v.Slices)
	case v.Last != 0 && a.Capacity != v.Last:
		return bad("capacity is %d with last %d, want the same", a.Capacity, v.Last)
	case a.NonScaling && v.Span != 0:
		return bad("a window of time in a filter that does not grow: a slice must grow if it gets more items than its share")
	}
	return v, nil
}

// String returns the window as commands are given it.
func (v Window) String() string {
	switch {
	case !v.Is():
		return "none"
	case v.Last != 0:
		return fmt.Sprintf("last %d in %d slices", v.Last, v.Slices)
	}
	return fmt.Sprintf("%v in %d slices", v.Span, v.Slices)
}
