package kv

import (
	"sync"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/memory"
	"github.com/sievekv/sievekv/internal/storage"
)

// source is what a Reader reads from: the store as it is (live), perhaps while no commit is applied, the headers of
// one moment (headers), what a transaction has staged over the store (*Writer), or a snapshot (*snapshot).
type source interface {
	// find returns the object under a key, nil if there is none or it has expired by now. For large see ReadOptions.
	find(key []byte, large func(value []byte) error, now int64) (*Object, error)

	// load returns a block, never nil without an error.
	load(o *Object, l *Layer, blk uint64) (*Line, error)

	counter(l *Layer, i int) uint64

	// size returns the number of keys, including expired ones that are still stored.
	size() (uint64, error)

	// disk returns what stored keys are read from.
	disk() storage.Reader

	// writer returns the writer whose changes belong on top of what disk has, nil if there is none.
	writer() *Writer

	// fixed reports whether no commit changes what the source returns.
	fixed() bool
}

// live is the store as it is, for one lookup. It keeps a section of each object that the lookup finds.
type live struct {
	db   *DB
	word uint64 // of the store, when the lookup began

	reads    int // of keys, and of anything else but blocks
	sections []memory.SlotSection
	moved    bool // the lookup may have read a mix of moments
}

func (db *DB) live() *live {
	s := lives.Get().(*live)
	s.db, s.word, s.reads, s.moved = db, db.word.Load(), 0, false
	return s
}

// lives has memory for lookups.
var lives = sync.Pool{New: func() any { return new(live) }}

// end ends a lookup. Its Reader is not used any more.
func (s *live) end() {
	clear(s.sections)
	s.db, s.sections = nil, s.sections[:0]
	if cap(s.sections) <= 64 {
		lives.Put(s)
	}
}

func (s *live) find(key []byte, large func(value []byte) error, now int64) (*Object, error) {
	s.reads++
	o, err := s.db.find(key, large)
	if err != nil || o == nil {
		return nil, err
	}
	if !o.inline() {
		s.section(o)
		if o.header.Expiry != 0 && o.expiredBy(now) != o.expiredBy(s.db.Now()) {
			s.moved = true // it is expiring at this moment, or was made after the lookup began
		}
	}
	if o.expiredBy(now) {
		return nil, nil
	}
	return o, nil
}

// section returns the section of an object, and begins one if there is none. It looks at the last eight only, so an object may
// have several.
func (s *live) section(o *Object) *memory.SlotSection {
	n := len(s.sections)
	for i := n - 1; i >= max(0, n-8); i-- {
		if s.sections[i].Of(&o.memory) {
			return &s.sections[i]
		}
	}
	s.sections = append(s.sections, o.memory.BeginOnDisk())
	return &s.sections[n]
}

// load ends the run of a lookup of slots whose object was closed or replaced meanwhile. Its section cannot be valid, and no block
// of the object would be kept in memory any more, so a lookup of many items would read the same blocks again and again. For bits
// an object that was closed will do, see ValidOnDisk.
func (s *live) load(o *Object, l *Layer, blk uint64) (*Line, error) {
	if o.header.Family != block.FamilyBits {
		if o.memory.Ended() {
			s.moved = true
			return nil, errMoved
		}
		s.section(o).Note(l, blk)
	}
	return s.db.load(o, l, blk)
}

// valid reports whether everything that was read was true at one moment. All sections must be valid. If the lookup has read more
// than one object, no commit under the sequence lock may have been under way, or have been applied since it began.
func (s *live) valid() bool {
	still := s.word&seqOdd == 0 && s.db.word.Load() == s.word
	if !still && (s.reads != 1 || len(s.sections) != 1) {
		return false
	}
	for i := range s.sections {
		if !s.sections[i].ValidOnDisk(still) {
			return false
		}
	}
	return !s.moved
}

func (*live) counter(l *Layer, i int) uint64 { return l.Counter(i) }

func (s *live) size() (uint64, error) {
	s.reads++
	return s.db.keys.Load(), nil
}

func (s *live) disk() storage.Reader {
	s.reads++
	return s.db.store
}

func (*live) writer() *Writer { return nil }

func (*live) fixed() bool { return false }

// headers reads key headers from a snapshot taken after the time `before`. It reads blocks and counters as live does.
type headers struct {
	*live
	keys   storage.Reader
	before int64
}

func (s *headers) find(key []byte, large func(value []byte) error, now int64) (*Object, error) {
	if len(key) > MaxKeyLen {
		return nil, keyTooLong(key)
	}
	h, err := s.db.readHeader(s.keys, key, large)
	switch {
	case h == nil || err != nil || h.Hidden || h.Expiry != 0 && h.Expiry <= s.before:
		return nil, err
	case h.Expiry != 0 && h.Expiry <= now: // at the moment, or since, when it may have had another expiry
		return nil, errMoved
	}
	return &Object{db: s.db, key: string(key), header: h}, nil
}

// find finds a key inside a transaction. The writer does not remember the key: it only keeps keys that it changes,
// however many it looks at.
func (w *Writer) find(key []byte, large func(value []byte) error, now int64) (*Object, error) {
	switch v := w.keyOf(key); {
	case v != nil && v.damage != nil && !v.changed:
		return nil, v.damage
	case v != nil:
		err := w.renew(v)
		return v.object, err
	case w.flush:
		return nil, nil
	}
	return w.db.lookup(key, large, now)
}

func (w *Writer) load(o *Object, l *Layer, blk uint64) (*Line, error) {
	return w.stagedBlock(o, l, blk)
}

func (w *Writer) counter(l *Layer, i int) uint64 { return w.Counter(l, i) }

func (w *Writer) size() (uint64, error) {
	n := w.db.keys.Load()
	if w.flush {
		n = 0
	}
	for i := range w.staged {
		switch v := &w.staged[i]; {
		case !v.changed:
		case v.object != nil && v.stored == nil:
			n++
		case v.object == nil && v.stored != nil:
			n--
		}
	}
	return n, nil
}

func (w *Writer) disk() storage.Reader { return w.db.store }

func (w *Writer) writer() *Writer { return w }

func (*Writer) fixed() bool { return true }
