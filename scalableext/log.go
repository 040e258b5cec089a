package scalableext

import (
	"fmt"
	"math"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/probe"
	"github.com/sievekv/sievekv/kv"
)

// Log has the parameters of the log of a filter that grows without more and more layers.
//
// # The log
//
// The log is a layer of the filter: a list of the hashes of items, 8 bytes each, on disk (kv.LayoutLog). From the hashes of
// all its items a filter can be built anew with any size.
//
// It has every item of the layers that are newer than it, which it is said to cover. An add appends the item's hash in the
// commit that sets its bits. So does an add of an item that seems to be known, unless the log surely has it, or a layer
// that the log does not cover has all its bits: such an item may never have been added before, and only by chance all its
// bits are set. A layer built from a log without it would not have it, although its add was answered. So an add of an item
// that comes again is a write like that of a new one, unless the item came a moment ago: each open filter remembers some
// hashes that its log surely has.
//
// When the log has twice as many hashes as the filter has items, Type.Compact makes the filter anew in one commit, with a
// log that has each hash once, and one layer with all of them (kv.Writer.Build). If that does not make the log shorter, it is
// dropped.
//
// # Growth
//
// When the newest layer is full, a small layer takes the adds: it has room for an eighth of the items, and for all that the
// commit is known to add. In the same commit another layer is made, with room for all items that the log covers and for a
// quarter of the filter's items besides. It is hidden: lookups and adds do not ask it.
// Type.Prepare makes what the log has into a layer in memory, beside adds, and stores its blocks, some in each commit.
// Type.Compact puts in what the log has got meanwhile, in small commits that note how far they have come. Once the hidden
// layer has the whole log, a commit drops all layers that the log covers, and shows it. That commit holds the lock of the
// key, so no add comes between. A crash leaves a prefix of these commits, after any of which the filter has all of its items
// in the layers that are looked at. After a crash Type.Compact puts in the rest, or the whole log if not all blocks were
// stored: those that were have items of the log alone.
//
// If the small layer is full before, there is another. If that one is full, or the commit or the transaction has made the small
// layer itself, a larger one with its items takes its place, if the commit has room for that: so there are at most MostAsked
// layers that lookups ask. An add that leaves the small layer nearly full, or without room for as many items again, does a part of
// the filling itself, and all of it if there are MostAsked layers. So does a transaction, after its commit. A batch that finds no
// room in the newest layer ends the filling first. The second small layer takes no more than the layer that is filled has room
// for. If a batch needs more, or that layer becomes full, it is dropped, and filling begins again with a larger one.
//
// Adds end a filling a little before the log would become longer than allowed. The commit that would make it longer drops the
// log, and what is being filled. So does the commit that would begin a growth, if the log has no room for what is added
// meanwhile. From then on the filter grows by layers: two for a sixth of the items, so that a filter with few more items than
// the log had room for stays small, and then for half as many as there are.
//
// # The error rate
//
// A layer that is filled gets nine tenths of what the layers that stay leave of the filter's rate. A layer that takes adds
// gets half of what is left beside the layers that are looked at. So the rates never sum to more than the filter's. By chance a
// layer for few items gets a higher rate than it was made for: by 4 % for 1,000 items (the standard deviation), and less by the
// square root of their number. So a layer for few items is made for less, to have room for that. The first layer is not:
// it is no larger than the rate needs. Its rate is what it was made for on average over many filters.
//
// The last layer that is filled, because the log will not be long enough for another, gets a fifth of the filter's rate, and each
// layer after the end of the log 5 %, at most a quarter of what is left. Steps of one and a half, and equal rates, make a
// filter of ten to a thousand times as many items smallest: 20 bits for an item at 1 %, on average over all numbers of items.
// With larger steps more of it is empty; with smaller ones, or lower rates, an item takes more bits.
type Log struct {
	// Limit is the most bytes of the log. It is 0 if there is none and will be none.
	Limit uint64

	// Filling is the number of the layer that is being filled, plus 1, or 0.
	Filling uint64
}

const (
	// MaxLogBytes is the highest limit of a log.
	MaxLogBytes = 1 << 40

	// logFirst is the capacity up to which a new filter has a log from its first item on. Larger ones have been made for
	// their items, and get a log with their second layer.
	logFirst = 1024

	minLogBlocks = 2 // a layer with one block keeps it in memory

	// LogLengthCounter is the counter of the log that has the number of hashes.
	LogLengthCounter = 0

	// FilledCounter is the counter of a layer that says how many hashes of the log were put into it.
	FilledCounter = 3

	smallShare = 8  // a small layer has room for one in so many of the items
	minSmall   = 16 // and at least for so many

	// Up to fewLayers layers a filter whose log has ended grows by one for a sixth of its items: with a quarter, a filter at 1 %
	// could take 15 bits for an item, not 14.
	fewLayers = 2

	// The shares of a filter's rate, see Log.
	filledShare = 0.9
	chance      = 6 // divided by the root of the items: four standard deviations of the rate of a layer at 1 %, as a part of it
	lastShare   = 0.2
	laterShare  = 0.05

	// MostAsked is the most layers that lookups ask as long as there is a log: a large one and two small ones.
	MostAsked = 3

	// ManySmall is the number of layers that a log covers from which on the next small layer has room for as many items as
	// there are: what is to be filled is not filled in time.
	ManySmall = 2
)

// Shown returns the layers of a chain's object that lookups ask, oldest first, and its parameters as those of a chain that has
// these alone: its log has ended. A log is of use only with all of its layers as they are in one moment, so what copies a
// filter in another way leaves it behind.
func Shown(o *kv.Object) (layers []*kv.Layer, params []byte) {
	p, err := decodeParams(o.Params())
	if err != nil || p.Growth != Logged {
		return o.Layers(), o.Params()
	}
	for _, l := range o.Layers() {
		if s := l.Spec(); s.Layout != kv.LayoutLog && s.Number+1 != p.Log.Filling {
			layers = append(layers, l)
		}
	}
	p.Log = Log{}
	return layers, p.Append(nil)
}

// grows reports whether a chain with Native growth can have another layer.
func (p Params) grows() bool { return p.Expansion != 0 && p.MaxLayers() > 1 }

// withLog puts a log before the layers of a new filter.
func (p Params) withLog(layers ...kv.LayerSpec) []kv.LayerSpec {
	layers = append([]kv.LayerSpec{p.LogSpec()}, layers...)
	for i := range layers {
		layers[i].Number = uint64(i)
	}
	return layers
}

// LogSpec returns what is stored for a log.
func (p Params) LogSpec() kv.LayerSpec {
	blocks := (p.Log.Limit + block.Size - 1) / block.Size
	return kv.LayerSpec{Layout: kv.LayoutLog, Blocks: max(minLogBlocks, blocks), Lines: block.MaxLines}
}

// LogRoom reports whether a log of so many hashes may have n more, in a filter of so many items.
func (l Log) LogRoom(length, n, items uint64) bool {
	const most, few = 4, 4096 // hashes for each item, and besides
	return (length+n)*8 <= l.Limit && length+n <= most*items+few
}

// LastsFor reports whether a log of so many hashes, in a filter of so many items, has room for those that are added while a
// layer is filled.
func (l Log) LastsFor(length, items uint64) bool { return l.LogRoom(length, items/smallShare, items) }

// Long reports whether a log of so many hashes, in a filter of so many items, has so many of them several times that it is
// to be made anew: as many as there are items, or fewer if it could become too long before.
func (l Log) Long(length, items uint64) bool {
	const few = 256
	return length > 2*items+few || length*8 > l.Limit-l.Limit/8 && length > items+items/4+few
}

// Ending reports whether a log of so many hashes has little room left besides that for n: what is filled from it must be filled now.
func (l Log) Ending(length, n uint64) bool { return (length+2*n)*8 > l.Limit-l.Limit/32 }

// Overdue reports whether a log that is too long has nearly no room left, so that an add makes it anew if services have not.
func (l Log) Overdue(length, items uint64) bool {
	const few = 2048
	return l.Long(length, items) && (length > 3*items+few || length*8 > l.Limit-l.Limit/16)
}

// SmallLayer returns the capacity and the rate of a layer that takes adds when the newest one is full. Rates are those of the
// layers that lookups ask, items the number that they have, and covered how many of them the log covers, 0 if there is no
// log. Ahead is the number of items that the same commit is known to add to the layer, perhaps 0.
func (p Params) SmallLayer(rates []float64, items, ahead uint64, covered int) (capacity uint64, rate float64, err error) {
	left := p.left(rates)
	rate = left / 2
	switch {
	case p.Log.Limit == 0:
		rate = min(p.ErrorRate*laterShare, left/4)
		switch {
		case len(rates) <= fewLayers:
			capacity = items / 6
		case p.Expansion > 2:
			capacity = items * (uint64(p.Expansion) - 1)
		default:
			capacity = items / 2
		}
	case covered > ManySmall:
		capacity = items
	default:
		capacity = items / smallShare
	}
	return min(max(minSmall, capacity, ahead), probe.MaxCapacity), rate, p.checkLeft(rates, len(rates))
}

// FilledLayer returns the capacity and the rate of a layer that is to be filled from the log, which has so many hashes. Rates are
// those of the layers that stay, which have so many items. Covered is the number of items of the layers that it replaces, and
// of those that the commit is known to add, whose hashes need not be in the log yet.
func (p Params) FilledLayer(rates []float64, stay, covered, length uint64) (capacity uint64, rate float64) {
	capacity = min(covered+max((stay+covered)/4, minSmall), probe.MaxCapacity)
	left := p.left(rates)
	if !p.Log.LastsFor(max(length, covered)+capacity-covered, capacity) { // nothing is filled any more once it is full
		return capacity, min(p.ErrorRate*lastShare, left/2)
	}
	return capacity, left * filledShare / (1 + chance/math.Sqrt(float64(capacity)))
}

// firstLogged returns the rate of the first layer of a filter that has a log from its first item on.
func (p Params) firstLogged() float64 {
	if !p.Log.LastsFor(p.Capacity, p.Capacity) {
		return p.ErrorRate * firstShare
	}
	return p.ErrorRate * filledShare
}

// left returns what layers leave of the rate.
func (p Params) left(rates []float64) float64 {
	left := p.ErrorRate
	for _, rate := range rates {
		left -= rate
	}
	return left
}

func (p Params) checkLeft(rates []float64, layers int) error {
	if left := p.left(rates); !(left > p.ErrorRate*math.Ldexp(1, -MaxLayers)) {
		return fmt.Errorf("%w: %d layers leave %v of the error rate", ErrCannotGrow, layers, left)
	}
	return nil
}
