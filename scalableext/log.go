package scalableext

import (
	"fmt"
	"math"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/probe"
	"github.com/sievekv/sievekv/kv"
)

// Log has the parameters of a growth log, with which a filter grows and stays at one large layer.
//
// # The log
//
// The log is a layer of the filter: a list of the hashes of items, 8 bytes each, on disk and never in the cache (kv.LayoutLog).
// From the hashes of all its items the store can build the filter again in any size.
//
// The log covers the layers that are newer than it: it has every item of these layers. An add appends the item's hash in the
// commit that sets its bits. An add of an item that seems known appends it too, unless the log surely has it, or a layer
// that the log does not cover has all its bits. Otherwise an item that seems known by chance alone would be missing from a layer
// that is built from the log, although its add was answered. So an add of a repeated item is a write like the add of a new one,
// unless the item came a moment ago: each open filter remembers some hashes that its log surely has.
//
// When the log has twice as many hashes as the filter has items, Type.Compact builds the filter again in one commit, with one
// layer of all items and a log that has each hash once (kv.Writer.Build). It reads and sorts the whole log, 8 bytes of memory for
// each hash, and holds the lock of the key meanwhile. If the log does not become shorter, it is dropped.
//
// A filter for more than logFirst items has no log until its first layer is full. That layer stays. Smaller filters have a log
// from their first item on.
//
// # Growth
//
// When the newest layer is full, a small layer takes the adds. It has room for an eighth of the items, and for all items that
// the commit is known to add. The same commit makes another layer, with room for all items that the log covers and for a
// quarter of the filter's items besides. This layer is hidden: lookups and adds do not ask it.
// Type.Prepare builds it in memory from the log, beside adds, and stores its blocks, some in each commit. Type.Compact then adds
// the hashes that the log has received meanwhile, in small commits that note how far they have come. Once the hidden layer has
// the whole log, one commit drops all layers that the log covers, and shows the hidden one. That commit holds the lock of the
// key, so no add comes between. An item is written about five times on its way to a large filter.
//
// A crash leaves a prefix of these commits. After each of them the layers that lookups ask have all items, and the log has all
// items of the layers that it covers. After a crash Type.Compact adds the rest, or the whole log if some blocks were not stored:
// the stored blocks have items of the log alone, so adding them twice changes nothing.
//
// If the small layer is full before the hidden one is, there is a second small layer. If that is full too, or if the same commit
// or transaction has made the small layer, a larger layer with the same items, read from the log, takes its place, if the commit
// has room for it. So lookups ask at most MostAsked layers. The second small layer takes no more than the hidden layer
// has room for. If a batch needs more, or the hidden layer becomes full, it is dropped, and a larger one is begun.
//
// Adds help if services are late. An add does a part of the filling if it leaves the small layer nearly full, or with room for
// fewer items than it has added. It does all of the filling if there are MostAsked layers. A transaction does so after its
// commit. A batch that finds no room in the newest layer ends the filling first.
//
// Adds end a filling a little before the log reaches its limit. The commit that would exceed the limit drops the log, and the
// hidden layer. So does a commit that would begin a growth, if the log has no room for the adds of the meantime. From then on
// the filter grows by layers: two for a sixth of the items, so that a filter with few more items than the log had room for stays
// small, and then each for half as many as there are.
//
// # The error rate
//
// A filled layer gets nine tenths of what the layers that stay leave of the filter's rate. A layer that takes adds gets half of
// what the layers that lookups ask leave. So the rates never sum to more than the filter's. By chance a layer for few
// items gets a higher rate than it was made for: by 4 % for 1,000 items (the standard deviation), and less by the square root of
// their number. So a filled layer for few items is made for a lower rate, to have room for that. The first layer is not: it is no
// larger than its rate needs, which it has on average over many filters.
//
// The last layer that is filled, because the log has no room for another growth, gets a fifth of the filter's rate.
// Each layer after the end of the log gets 5 % of it, at most a quarter of the rest. With steps of one and a half and
// equal rates a filter of ten to a thousand times the log's items is smallest: 20 bits for an item at 1 %, on average
// over all numbers of items. Larger steps leave more of it empty; smaller ones, or lower rates, take more bits for an
// item.
//
// # Other filters that grow
//
// Taffy cuckoo filters (Apple 2021), InfiniFilter (Dayan, Bercea, Reviriego, Pagh: SIGMOD 2023) and the Aleph Filter (Dayan,
// Bercea, Pagh: VLDB 2024) keep a fingerprint of each item in the filter, from which the filter can be doubled without anything
// else. Right after a doubling they take up to twice the bits. Taffy takes log2(1/rate) + log2 log2 n + a constant for an item;
// in the others a fingerprint loses a bit in each doubling. Here the hashes are on disk, apart from the filter, which takes 10.4
// to 13 bits for an item at 1 %, and up to 16.5 from three quarters of the log's limit on. In return an item takes 8 bytes of disk,
// read once for each growth.
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

	smallShare = 8  // a small layer has room for this share of the items
	minSmall   = 16 // and at least for this number

	// Up to fewLayers layers a filter whose log has ended grows by one for a sixth of its items: with a quarter, a filter at 1 %
	// could take 15 bits for an item, not 14.
	fewLayers = 2

	// The shares of a filter's rate, see Log.
	filledShare = 0.9
	chance      = 6 // divided by the root of the items: four standard deviations of the rate of a layer at 1 %, as a part of it
	lastShare   = 0.2
	laterShare  = 0.05

	// MostAsked is the most layers that lookups ask while there is a log: a large one and two small ones.
	MostAsked = 3

	// ManySmall is the number of covered layers above which the next small layer has room for as many items as the
	// filter has, because filling does not keep up with adds.
	ManySmall = 2
)

// Shown returns the layers of a chain's object that lookups ask, oldest first, and the parameters of a chain of these
// layers alone, whose log has ended. A log is of use only with all of its layers as they are at one moment, so code
// that copies a filter in another way leaves the log behind.
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

// LogRoom reports whether a log of length hashes may have n more, in a filter of the given number of items.
func (l Log) LogRoom(length, n, items uint64) bool {
	const most, few = 4, 4096 // hashes for each item, and besides
	return (length+n)*8 <= l.Limit && length+n <= most*items+few
}

// LastsFor reports whether a log of length hashes, in a filter of the given number of items, has room for the adds that
// come while a layer is filled.
func (l Log) LastsFor(length, items uint64) bool { return l.LogRoom(length, items/smallShare, items) }

// Long reports whether a log of length hashes has enough repeated hashes to be rebuilt: as many as the filter has
// items, or fewer if the log would reach its limit before.
func (l Log) Long(length, items uint64) bool {
	const few = 256
	return length > 2*items+few || length*8 > l.Limit-l.Limit/8 && length > items+items/4+few
}

// Ending reports whether a log of length hashes has little room left after n more: a layer that is filled from it must
// be filled now.
func (l Log) Ending(length, n uint64) bool { return (length+2*n)*8 > l.Limit-l.Limit/32 }

// Overdue reports whether a log that is too long has nearly no room left, so that an add rebuilds it if services have
// not.
func (l Log) Overdue(length, items uint64) bool {
	const few = 2048
	return l.Long(length, items) && (length > 3*items+few || length*8 > l.Limit-l.Limit/16)
}

// SmallLayer returns the capacity and the rate of the layer that takes adds when the newest one is full. The layers
// that lookups ask have these rates and this number of items, and the log covers the newest `covered` of them, 0 if
// there is no log. Ahead is the number of items that the same commit is known to add to the layer, perhaps 0.
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

// FilledLayer returns the capacity and the rate of a layer to fill from the log, which has length hashes. Rates are the
// rates of the layers that stay, and stay is the number of their items. Covered is the number of items in the layers
// that the new layer replaces, plus the items that the commit is known to add, whose hashes need not be in the log yet.
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
