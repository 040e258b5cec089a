// Package memory has what is in memory of the stored objects: their blocks, and what tells a lookup whether what it has read was
// true at one moment.
//
// A lookup is a section of an open object. It begins with the object's word, reads blocks, and perhaps the clock, and asks at
// the end whether the section is valid: then nothing that the answer rests on has changed since it was read. The word says
// whether the object is what its key maps to, and counts the commits that changed more than bits or slots under that one
// key: of several keys, which object is under a key, its layers, or its expiry. Such a commit holds the gate of lookups
// (apply) alone. Before Pebble has it, it makes the words of all open objects that it touches busy, and moves them on after
// the last change in memory. A commit that changes slots also notes the places of their blocks, from before Pebble has it
// until memory has all of it (package lastchange). Bits need no note: they are only ever set, so a mixture of two states
// misses nothing that was added before the lookup began.
//
// An answer "present" needs no valid end: at worst it is one more false positive. An answer "absent" does, and so does "known",
// on which an add writes nothing: the bits may be those of the key to which the filter was renamed meanwhile.
//
// A lookup that reads the disk has the same sections, which its kv.Reader keeps.
//
// Package tests/section explores this as a model.
package memory

import "math/bits"

// Section is a lookup of an open object, in memory. One goroutine uses it.
type Section struct {
	object *Object
	word   uint64
	now    int64  // see Now; 0 if it was not asked for
	noted  uint64 // bit i is set if a block at place i of the object's last changes was read
	sum    uint64 // of what these places had before the blocks were read
}

// Begin begins a lookup, of a Section that is zero. It returns false if the object cannot be used: it is not what its key maps
// to now, or is changing, or the store has failed or was closed. Then the caller looks the key up.
func (s *Section) Begin(o *Object) (usable bool) {
	s.object, s.word = o, o.word.Load()
	return uint8(s.word) == 0 || s.beginTimed()
}

// BeginAnyhow begins a lookup that reads the disk where memory does not do. Whether the object could be used, ValidOnDisk says.
func (s *Section) BeginAnyhow(o *Object) { s.object, s.word = o, o.word.Load() }

// Of reports whether the lookup is one of an object.
func (s *Section) Of(o *Object) bool { return s.object == o }

// beginTimed is the rest of Begin.
func (s *Section) beginTimed() bool {
	return s.word&wordUnusable == 0 && !s.object.expiredBy(s.Now())
}

// Now returns the time of the lookup, in Unix milliseconds. It is read once, after the word.
func (s *Section) Now() int64 {
	if s.now == 0 {
		s.now = s.object.clock()
	}
	return s.now
}

// Block returns the first line of a block of bits that is in memory, else nil. The caller may read the block's lines with
// atomic loads at any time, even after the block has left memory. Blk must be below the layer's number of blocks.
func (s *Section) Block(l *Layer, blk uint64) *Line {
	if s.object.slots {
		s.giveUp() // Slots was to be called
	}
	return l.InMemory(blk)
}

// Slots is Block for a block of slots.
func (s *Section) Slots(l *Layer, blk uint64) *Line {
	s.Note(l, blk)
	return l.InMemory(blk)
}

// Note notes what the place of a block of slots has, before the block is read.
func (s *Section) Note(l *Layer, blk uint64) {
	place := s.object.PlaceOf(l, blk)
	if bit := uint64(1) << place; s.noted&bit == 0 {
		at := s.object.changes.At(place)
		s.noted |= bit
		s.sum += at
		if at&1 != 0 { // a commit is changing the block
			s.giveUp()
		}
	}
}

// giveUp makes the section invalid for ever: no object that can be used has this word.
func (s *Section) giveUp() { s.word |= wordEnded }

// Valid reports whether all that the lookup has read was true at one moment after Begin.
func (s *Section) Valid() bool {
	return s.object.word.Load() == s.word && (s.noted == 0 || s.unchanged())
}

// unchanged reports whether no commit has changed the blocks of slots since they were read. What the places have only grows,
// so their sum is the same only if each is.
func (s *Section) unchanged() bool {
	sum := uint64(0)
	for left := s.noted; left != 0; left &= left - 1 {
		sum += s.object.changes.At(bits.TrailingZeros64(left))
	}
	return sum == s.sum
}

// ValidOnDisk is Valid for a lookup that reads what is not in memory from the disk. Then it does not matter that an object of
// bits was closed meanwhile: each of its blocks has every commit up to then, or was read later.
func (s *Section) ValidOnDisk() bool {
	word := s.object.word.Load()
	if !s.object.slots && word&wordClosed != 0 {
		word, s.word = word&^(wordClosed|wordEnded), s.word&^(wordClosed|wordEnded)
	}
	return word == s.word && word&wordUnusable == 0 && s.unchanged()
}
