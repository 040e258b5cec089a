package memory

import (
	"sync/atomic"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/lastchange"
)

// Object is what lookups in memory need of an open object. All its fields but the word and the last changes stay as they are.
type Object struct {
	word    atomic.Uint64
	changes lastchange.Numbers // which commit changed a block last
	expiry  int64              // Unix milliseconds, 0 for never
	hidden  bool
	clock   func() int64 // Unix milliseconds
}

// The bits of a word, in its lowest byte. The rest of it counts.
const (
	wordEnded  = 1 << iota // the key maps to another incarnation, or to none
	wordClosed             // the object was closed to save memory; it has ended, too
	wordShut               // the store has failed or was closed
	wordBusy               // a commit that changes more than bits or slots is applied
	wordTimed              // the object expires, or is hidden, or an answer depends on the time
	wordSlots              // the layers are of slots
	wordStep   = 1 << 8

	wordUnusable = wordEnded | wordClosed | wordShut | wordBusy
)

// Init makes an object of what its header says. The clock returns the time in Unix milliseconds.
func (o *Object) Init(h *format.Header, clock func() int64) {
	o.expiry, o.hidden, o.clock = h.Expiry, h.Hidden, clock
	if o.expiry != 0 || o.hidden {
		o.SetTimed()
	}
	if h.Family != block.FamilyBits {
		o.word.Or(wordSlots)
	}
	if h.ID != 0 { // a string in its header has no blocks
		o.changes = lastchange.New(places(h))
	}
}

// places returns how many blocks are told apart by their last changes, and at most how many places those have. A
// Section notes places of slots in one word. Most blocks of a log are never written, and they are not kept in memory.
func places(h *format.Header) (blocks, most uint64) {
	for _, spec := range h.Layers {
		if spec.Layout == format.LayoutLog {
			spec.Blocks = 1
		}
		blocks += min(spec.Blocks, 512)
	}
	if h.Family != block.FamilyBits {
		return blocks, 64
	}
	return blocks, 512
}

// SetTimed makes sections read the clock, because an answer depends on the time. A type calls it when it opens the
// object.
func (o *Object) SetTimed() { o.word.Or(wordTimed) }

// expiredBy reports whether the key counts as missing at a time in Unix milliseconds.
func (o *Object) expiredBy(now int64) bool { return o.expiry != 0 && o.expiry <= now || o.hidden }

// Ended reports whether this incarnation has ended, other than by its expiry.
func (o *Object) Ended() bool { return o.word.Load()&wordEnded != 0 }

// End ends the incarnation.
func (o *Object) End() { o.word.Or(wordEnded) }

// Close ends the incarnation because it is closed to save memory. What is stored has not changed.
func (o *Object) Close() { o.word.Or(wordEnded | wordClosed) }

// Shut lets no lookup begin any more, because the store has failed or was closed.
func (o *Object) Shut() { o.word.Or(wordShut) }

// Hold makes the word busy, until MoveOn.
func (o *Object) Hold() { o.word.Or(wordBusy) }

// MoveOn ends what Hold began, and counts.
func (o *Object) MoveOn() {
	for {
		word := o.word.Load()
		if o.word.CompareAndSwap(word, word&^wordBusy+wordStep) {
			return
		}
	}
}

// Changes returns which commit changed a block last, by places.
func (o *Object) Changes() *lastchange.Numbers { return &o.changes }

// PlaceOf returns the place of a block among the last changes.
func (o *Object) PlaceOf(l *Layer, blk uint64) int { return o.changes.Place(l.spec.Number, blk) }

// LastChange returns the number of the last commit that may have changed a block. A writer that has locked the key may keep what
// it finds out about the block until that changes.
func (o *Object) LastChange(l *Layer, blk uint64) uint64 { return o.changes.Last(o.PlaceOf(l, blk)) }
