package scalableext

import (
	"math/rand/v2"

	"github.com/sievekv/sievekv/internal/residency"
	"github.com/sievekv/sievekv/internal/use"
	"github.com/sievekv/sievekv/kv"
)

// How a filter is used is counted in its object, see kv.Object.Uses. What commands ask and add is counted exactly. A
// lookup of a program takes little more time than a count would. So one lookup in 64 is counted, for 64 lookups: if all
// it needs is in memory, that is decided by the hash of its item, see kv.DB.Counted, as even a random number would take
// too long, and otherwise by chance. Calls of many items are counted exactly, and so are adds, except adds of items
// that memory knows. An add is counted when it is staged, also if its commit fails then or is undone.

// CountRate is how many lookups one that is counted stands for.
const CountRate = residency.CountRate

// CountInMemory counts a lookup of a program that was answered from memory, and for which kv.DB.Counted was true.
func (h *Handle[F]) CountInMemory(o *kv.Object, present bool) {
	if h.ctx == nil {
		o.Uses().Lookup(present, CountRate)
	}
}

// inMemory is a filter that answers from memory.
type inMemory interface {
	Touch(db *kv.DB, hash uint64)               // counts a lookup for the cache
	InMemory(hash uint64) (present, known bool) // known is false if memory does not decide
}

// CountedInMemory answers a lookup of a program from memory, and counts it. Of it kv.DB.Counted is true.
func (h *Handle[F]) CountedInMemory(f inMemory, o *kv.Object, hash uint64) (present, known bool) {
	if h.DB.Sampled(hash) {
		f.Touch(h.DB, hash)
	}
	if present, known = f.InMemory(hash); known {
		h.CountInMemory(o, present)
	}
	return present, known
}

// CountRead counts one of many lookups of programs that were not answered from memory.
func (h *Handle[F]) CountRead(o *kv.Object, present bool) {
	if h.ctx == nil && rand.Uint32()%CountRate == 0 {
		o.Uses().Lookup(present, CountRate)
	}
}

// countMany counts a lookup of many items.
func (h *Handle[F]) countMany(o *kv.Object, present []bool) {
	yes, no := uint64(0), uint64(0)
	switch {
	case h.ctx != nil || len(present) >= CountRate:
		yes, no = use.Of(present)
	case rand.Uint32()%CountRate == 0:
		yes, no = use.Of(present)
		yes, no = yes*CountRate, no*CountRate
	}
	o.Uses().Lookups(yes, no)
}

// CountAnswers counts what a command was answered about items of the filter that its handle has found.
func (h *Handle[F]) CountAnswers(yes, no int) {
	if h.found != nil {
		h.found.Uses().Lookups(uint64(yes), uint64(no))
	}
}

// CountAnswer counts the answer to a command about one item, unless the lookup failed.
func (h *Handle[F]) CountAnswer(present bool, err error) {
	if err == nil && h.found != nil {
		h.found.Uses().Lookup(present, 1)
	}
}

// CountKnown counts an add of an item that memory knows.
func (h *Handle[F]) CountKnown(o *kv.Object, hash uint64) {
	switch {
	case h.ctx != nil:
		o.Uses().Adds(0, 1)
	case h.DB.Counted(hash):
		o.Uses().Adds(0, CountRate)
	}
}

// CountStaged counts the staged adds of the first n items, unless the error means that none is added.
func (h *Handle[F]) CountStaged(w *kv.Writer, added []bool, n int, staged error) {
	if staged != nil && !NoRoom(staged) {
		return
	}
	if o, err := w.Object(h.Key); err == nil && o != nil {
		o.Uses().Adds(use.Of(added[:n]))
	}
}

// useFacts returns what SIEVE.STATS shows of the use of a filter.
func useFacts(t use.Totals) kv.FactList {
	return kv.FactList{
		kv.IntFact("lookups_yes", t.Yes), kv.IntFact("lookups_no", t.No), kv.IntFact("adds_new", t.New), kv.IntFact("adds_known", t.Known),
	}
}
