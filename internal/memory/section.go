// Package memory holds the in-memory part of stored objects: their blocks, and what tells a lookup whether what it has read was
// true at one moment.
//
// A lookup is a section of an open object. It begins with the object's word, and with the clock if the word says that time
// matters. It reads blocks, and asks at the end whether the section is valid: then nothing that the answer rests on has
// changed since it was read.
//
// The word says whether the key still maps to the object. It also counts the commits that change more than the bits or slots of
// this one key: several keys, the object under a key, its layers, its expiry. Such a commit holds DB.apply exclusively. Just
// before Pebble gets it, it makes the words of all open objects that it touches busy, and moves them on after the last change in
// memory. A commit that changes slots also notes the places of their blocks, from before Pebble gets it until memory has all of
// it (package lastchange). Bits need no note: they are only ever set, so a lookup that sees a mix of old and new bits still finds
// everything added before it began.
//
// An answer "present" needs no valid end: at worst it is one more false positive. An answer "absent" does: if the
// filter was deleted meanwhile, its blocks may have been loaded again from disk, empty. So does "known", the answer
// after which an add writes nothing: the bits may belong to the key to which the filter was renamed meanwhile.
//
// A lookup that reads the disk has the same sections, which its kv.Reader keeps.
//
// Package tests/section explores this as a model.
package memory

import "math/bits"

// Section is a lookup of an open object of bits, in memory. It is a few words that the processor keeps in registers, as long as
// nobody takes its address.
type Section struct {
	object *Object // nil if it cannot be used
	word   uint64
	now    int64
}

// Begin begins a lookup of an object of bits. It is just small enough for the compiler to inline.
func (o *Object) Begin() (s Section) {
	s = Section{object: o, word: o.word.Load()}
	if uint8(s.word) != 0 {
		s = o.beginTimed()
	}
	return
}

// beginTimed is the rest of Begin, for a word that is not only a count.
//
//go:noinline
func (o *Object) beginTimed() Section { return o.begin(wordUnusable | wordSlots) }

// begin begins a lookup of an object whose word has none of the bits in without, unless it has expired.
func (o *Object) begin(without uint64) Section {
	s := Section{o, o.word.Load(), 0}
	if s.word&wordTimed != 0 {
		s.now = o.clock()
	}
	if s.word&without != 0 || s.now != 0 && o.expiredBy(s.now) {
		return Section{}
	}
	return s
}

// Usable returns false if the object is not what its key maps to now, or is changing, or the store has failed or was closed. Then
// the caller looks the key up, and nothing else of the section may be called.
func (s Section) Usable() bool { return s.object != nil }

// Now returns the time of the lookup, in Unix milliseconds; 0 if the word does not say that time matters. It was read once, after
// the word.
func (s Section) Now() int64 { return s.now }

// Block returns the first line of a block that is in memory, else nil. The caller may read the block's lines with atomic loads at
// any time, even after the block has left memory. Blk must be below the layer's number of blocks.
func (s Section) Block(l *Layer, blk uint64) *Line { return l.InMemory(blk) }

// Valid reports whether all that the lookup has read was true at one moment after Begin.
func (s Section) Valid() bool { return s.object.word.Load() == s.word }

// SlotSection is a Section that also notes which commits have changed the blocks of slots that it reads. One goroutine uses it.
type SlotSection struct {
	section Section
	noted   uint64 // bit i is set if a block at place i of the object's last changes was read
	sum     uint64 // of what these places had before the blocks were read
}

// BeginSlots begins a lookup of an object of slots.
func (o *Object) BeginSlots() SlotSection { return SlotSection{section: o.begin(wordUnusable)} }

// BeginOnDisk begins a lookup, of bits or slots, that reads from disk what memory lacks. ValidOnDisk says whether the object could
// be used.
func (o *Object) BeginOnDisk() SlotSection {
	return SlotSection{section: Section{object: o, word: o.word.Load()}}
}

// Of reports whether the lookup is about an object.
func (s *SlotSection) Of(o *Object) bool { return s.section.object == o }

// Usable is as for Section.
func (s *SlotSection) Usable() bool { return s.section.Usable() }

// Block is as for Section, for a block of slots.
func (s *SlotSection) Block(l *Layer, blk uint64) *Line {
	s.Note(l, blk)
	return l.InMemory(blk)
}

// Note notes what the place of a block of slots has, before the block is read.
func (s *SlotSection) Note(l *Layer, blk uint64) {
	changes := &s.section.object.changes
	place := s.section.object.PlaceOf(l, blk)
	if bit := uint64(1) << place; s.noted&bit == 0 {
		at := changes.At(place)
		s.noted |= bit
		s.sum += at
		if at&1 != 0 { // a commit is changing the block
			s.section.word |= wordEnded // no object that can be used has such a word, so the section is never valid
		}
	}
}

// Valid is as for Section.
func (s *SlotSection) Valid() bool { return s.section.Valid() && s.unchanged() }

// unchanged reports whether no commit has changed the blocks of slots since they were read. The numbers of places only
// grow, so their sum is the same only if each is.
func (s *SlotSection) unchanged() bool {
	sum := uint64(0)
	for left := s.noted; left != 0; left &= left - 1 {
		sum += s.section.object.changes.At(bits.TrailingZeros64(left))
	}
	return sum == s.sum
}

// ValidOnDisk is Valid for a lookup that reads from disk what memory lacks. Then it does not matter that an object of bits was
// closed meanwhile: each of its blocks has every commit up to then, or was read later. But a commit that replaces what is under
// the key does not reach a closed object, so its word stays the same. Still says that the caller knows that there was none.
func (s *SlotSection) ValidOnDisk(still bool) bool {
	now, begun := s.section.object.word.Load(), s.section.word
	if still && now&(wordSlots|wordClosed) == wordClosed {
		now, begun = now&^(wordClosed|wordEnded), begun&^(wordClosed|wordEnded)
	}
	return now == begun && now&wordUnusable == 0 && s.unchanged()
}
