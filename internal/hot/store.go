package hot

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// store is the memory of a shard: a ring of entries, and an index.
//
// The ring has two forms. At first the entries lie between tail, which is 0, and head, and the ring grows as they
// become more. When it may not grow any more, it is wrapped: the older entries lie between tail and end, the newer
// ones between 0 and head, which is not above tail. An entry never goes over the end of the ring.
//
// The index is a table of buckets of eight slots, a line of the processor's cache each. A key has two buckets, so that a
// lookup looks at two lines at most, however the keys were chosen. If both are full and the index cannot grow, an entry
// has to go. An entry of the ring that no slot leads to was dropped.
type store struct {
	ring             []byte
	head, tail, last int
	wrapped          bool
	slots            []slot
	n                int  // entries that slots lead to
	victim           uint // of the next full bucket
}

// limits are the bounds of a shard's memory.
type limits struct{ ring, slots int }

const (
	align      = 8 // of entries in the ring
	slotBytes  = 8
	bucketSize = 8 // slots

	firstRing   = 1 << 10
	mostPart    = 16       // an entry takes at most this part of the ring
	mostEntry   = 16 << 10 // bytes of an entry; more than lengthBits can tell of a value
	mostShare   = 1 << 32  // bytes of a shard: a slot has 31 bits for a place, in units of align
	mostReturns = 8        // entries that a put moves to the front
)

// limitsOf splits a shard's memory: three quarters for the ring, and at most a quarter for the index, whose size is a
// power of two.
func limitsOf(share int64) limits {
	share = min(share, mostShare)
	l := limits{slots: bucketSize}
	for int64(2*l.slots*slotBytes) <= share/4 {
		l.slots *= 2
	}
	l.ring = int(share-int64(l.slots*slotBytes)) &^ (align - 1)
	return l
}

func (l *limits) share() int64 { return int64(l.ring) + int64(l.slots*slotBytes) }

// fit reports whether the cache keeps such an entry.
func (l *limits) fit(key, value []byte) bool {
	return sizeOf(len(key), len(value)) <= min(l.ring/mostPart, mostEntry)
}

// slot leads to an entry: it has 32 bits of the key's hash, whether a commit is changing the key, and the place of the
// entry in the ring, in units of align, plus one. 0 is a free slot.
type slot uint64

const changing slot = 1 << 31

func (x slot) changing() bool { return x&changing != 0 }
func (x slot) tag() uint32    { return uint32(x >> 32) }
func (x slot) pos() int       { return (int(x&(changing-1)) - 1) * align }

func (x slot) entry(s *store) entry { return entry(s.ring[x.pos():]) }

func slotFor(tag uint32, pos int) slot { return slot(tag)<<32 | slot(pos/align+1) }

// tagOf returns the bits of a hash that a slot has. They also choose the bucket, so that the index can grow without
// the keys. They are not among those that choose the shard.
func tagOf(hash uint64) uint32 { return uint32(hash >> 24) }

// entry is the ring from the start of an entry on. An entry has the tag of the key in 4 bytes, the length of the key in
// 2, the length of the value with the flags in 2, the expiry in 8, the key, and the value.
type entry []byte

const (
	headerBytes = 16

	// The flags.
	touched  = 1 << 15 // a lookup found the entry since it was put where it is
	isString = 1 << 14 // the value is a string; else the entry only says that the key is there

	lengthBits = 1<<14 - 1
)

func (e entry) tag() uint32   { return binary.LittleEndian.Uint32(e) }
func (e entry) keyLen() int   { return int(binary.LittleEndian.Uint16(e[4:])) }
func (e entry) expiry() int64 { return int64(binary.LittleEndian.Uint64(e[8:])) }
func (e entry) key() []byte   { return e[headerBytes:][:e.keyLen()] }
func (e entry) value() []byte { return e[headerBytes+e.keyLen():][:e.valueLen()] }
func (e entry) size() int     { return sizeOf(e.keyLen(), e.valueLen()) }

func (e entry) flags() uint16          { return binary.LittleEndian.Uint16(e[6:]) }
func (e entry) valueLen() int          { return int(e.flags() & lengthBits) }
func (e entry) flag(f uint16) bool     { return e.flags()&f != 0 }
func (e entry) setFlags(flags uint16)  { binary.LittleEndian.PutUint16(e[6:], flags) }
func (e entry) set(f uint16)           { e.setFlags(e.flags() | f) }
func (e entry) clear(f uint16)         { e.setFlags(e.flags() &^ f) }
func sizeOf(key, value int) (size int) { return (headerBytes + key + value + align - 1) &^ (align - 1) }

// write makes an entry at the start of e.
func (e entry) write(tag uint32, key, value []byte, expiry int64, flags uint16) {
	binary.LittleEndian.PutUint32(e, tag)
	binary.LittleEndian.PutUint16(e[4:], uint16(len(key)))
	copy(e[headerBytes:], key)
	e.setValue(value, expiry, flags)
}

func (e entry) setValue(value []byte, expiry int64, flags uint16) {
	e.setFlags(uint16(len(value)) | flags)
	binary.LittleEndian.PutUint64(e[8:], uint64(expiry))
	copy(e[headerBytes+e.keyLen():], value)
}

// replace puts another string into an entry, if it takes as much room, and reports whether it did.
func (e entry) replace(value []byte, expiry int64) bool {
	if len(value) > lengthBits || sizeOf(e.keyLen(), len(value)) != e.size() {
		return false
	}
	e.setValue(value, expiry, e.flags()&touched|isString)
	return true
}

// find returns the number of the slot that leads to a key's entry, -1 if there is none.
func (s *store) find(hash uint64, key []byte) int {
	if len(s.slots) == 0 {
		return -1
	}
	tag := tagOf(hash)
	for _, first := range s.buckets(tag) {
		for i, x := range s.slots[first : first+bucketSize] {
			if x != 0 && x.tag() == tag && string(x.entry(s).key()) == string(key) {
				return first + i
			}
		}
	}
	return -1
}

// buckets returns the numbers of the first slots of the two buckets of a tag. They may be the same.
func (s *store) buckets(tag uint32) [2]int {
	mask := uint32(len(s.slots)/bucketSize - 1)
	return [2]int{int(tag&mask) * bucketSize, int(bits.ReverseBytes32(tag*0x9e3779b1)&mask) * bucketSize}
}

func (s *store) drop(i int) {
	s.slots[i] = 0
	s.n--
}

// put adds an entry for a key that has none, without the value if it is too large or keep is false.
func (s *store) put(l *limits, hash uint64, key, value []byte, expiry int64, keep bool) {
	flags := uint16(isString)
	if !keep || !l.fit(key, value) {
		if value, flags = nil, 0; !l.fit(key, nil) {
			return
		}
	}
	tag := tagOf(hash)
	pos := s.room(l, sizeOf(len(key), len(value)))
	entry(s.ring[pos:]).write(tag, key, value, expiry, flags)
	if len(s.slots) == 0 {
		s.slots = make([]slot, bucketSize)
	} else if len(s.slots) < l.slots {
		if _, free := s.emptier(tag); free == 0 || s.n > len(s.slots)/8*5 {
			s.growIndex()
		}
	}
	s.lead(slotFor(tag, pos))
}

// lead puts a slot into the bucket of its tag that has more room. If both are full, it takes the place of a slot whose
// entry no lookup has found since it was put where it is, or else of any.
func (s *store) lead(x slot) {
	best, free := s.emptier(x.tag())
	if free == 0 {
		s.drop(best + s.victimOf(s.slots[best:best+bucketSize]))
	}
	s.slots[best+slices.Index(s.slots[best:best+bucketSize], 0)] = x
	s.n++
}

// emptier returns the number of the first slot of the bucket of a tag that has more room, and how many slots are free
// there.
func (s *store) emptier(tag uint32) (best, most int) {
	buckets := s.buckets(tag)
	best = buckets[0]
	for _, first := range buckets {
		free := 0
		for _, x := range s.slots[first : first+bucketSize] {
			if x == 0 {
				free++
			}
		}
		if free > most {
			best, most = first, free
		}
	}
	return best, most
}

func (s *store) victimOf(bucket []slot) (i int) {
	s.victim++
	i = int(s.victim % bucketSize)
	for range bucketSize - 1 {
		e := bucket[i].entry(s)
		if !e.flag(touched) {
			return i
		}
		e.clear(touched)
		i = (i + 1) % bucketSize
	}
	return i
}

func (s *store) growIndex() {
	old := s.slots
	s.slots, s.n = make([]slot, 2*len(old)), 0
	for _, x := range old {
		if x != 0 {
			s.lead(x)
		}
	}
}

// room returns where the ring has room for n bytes. It makes the ring longer, or lets the oldest entries go.
func (s *store) room(l *limits, n int) (pos int) {
	returns := mostReturns
	for {
		switch {
		case s.wrapped && s.head+n <= s.tail, !s.wrapped && s.head+n <= len(s.ring):
			pos = s.head
			s.head += n
			return pos
		case s.wrapped:
			returns = s.evict(returns)
		case len(s.ring) < l.ring:
			s.ring = append(make([]byte, 0, min(l.ring, max(firstRing, 2*len(s.ring)))), s.ring...)
			s.ring = s.ring[:cap(s.ring)]
		default:
			s.last, s.head, s.wrapped = s.head, 0, true
		}
	}
}

// evict takes the oldest entry out of the ring. If it was found since it was put there, it goes to the front instead:
// that is, at most returns times. The ring is wrapped.
func (s *store) evict(returns int) int {
	from := s.tail
	e := entry(s.ring[from:])
	tag, n := e.tag(), e.size()
	if s.tail += n; s.tail == s.last {
		s.tail, s.wrapped = 0, false
	}
	i := s.slotTo(tag, from)
	switch {
	case i < 0: // dropped before
	case returns > 0 && e.flag(touched) && !s.slots[i].changing():
		// There is room: the entry leaves as much as it needs.
		copy(s.ring[s.head:], e[:n])
		entry(s.ring[s.head:]).clear(touched)
		s.slots[i] = slotFor(tag, s.head)
		s.head += n
		returns--
	default:
		s.drop(i)
	}
	return returns
}

// slotTo returns the number of the slot that leads to a place in the ring, -1 if none does.
func (s *store) slotTo(tag uint32, pos int) int {
	for _, first := range s.buckets(tag) {
		for i, x := range s.slots[first : first+bucketSize] {
			if x != 0 && x.tag() == tag && x.pos() == pos {
				return first + i
			}
		}
	}
	return -1
}
