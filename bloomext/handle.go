package bloomext

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/kv/probe"
	"github.com/sievekv/sievekv/scalableext"
)

// ErrFull is returned by an add of a new item to a filter that does not grow and
// holds its capacity. Items before it in the same batch are added.
var ErrFull = errors.New("bloomext: non scaling filter is full")

// ErrCannotGrow is returned, with the reason, by an add of a new item to a filter
// that is full and can have no further layer. Items before it in the same batch
// are added.
var ErrCannotGrow = scalableext.ErrCannotGrow

// Filter is a handle on the Bloom filter under a key. It holds no resources and
// follows the key: when the key is deleted, renamed away, or another filter is
// renamed over it, the handle's next use is about what is there then. A missing
// or expired key is kv.ErrNotFound, one of another type kv.ErrWrongType.
type Filter struct {
	h     *handle
	level kv.Durability
}

type handle struct {
	db  *kv.DB
	key []byte
	tx  *kv.Transaction // what the handle is bound to, nil for the store itself

	// current is the filter the last use found; its object tells whether it has
	// ended. Never nil: a handle begins with one that has. A lookup looks at the
	// store, then at the object, then at the blocks: see kv.DB.Read. That of a
	// handle bound to a transaction stays as it begins.
	current atomic.Pointer[filter]
}

// noFilter is where a handle begins.
var noFilter = &filter{object: kv.EndedObject()}

func newHandle(db *kv.DB, key []byte) *handle {
	h := &handle{db: db, key: key}
	h.current.Store(noFilter)
	return h
}

// New returns a handle on a key. It reads nothing: the filter may be made later.
func New(db *kv.DB, key string) *Filter {
	return &Filter{h: newHandle(db, []byte(key))}
}

// With returns a handle on the same filter whose writes are made at another
// level of durability.
func (f *Filter) With(level kv.Durability) *Filter { return &Filter{h: f.h, level: level} }

// In returns a handle on the same key that reads and writes as part of a transaction,
// until that ends. Its level of durability is the transaction's.
func (f *Filter) In(s kv.Scope) *Filter {
	h := newHandle(f.h.db, f.h.key)
	h.tx = s.Scope()
	return &Filter{h: h, level: f.level}
}

// begin starts a write to the key, and others.
func (f *Filter) begin(others ...[]byte) (*kv.Writer, error) {
	if f.h.tx != nil {
		return f.h.tx.Begin()
	}
	return f.h.db.Begin(f.level, append(others, f.h.key)...)
}

func (h *handle) read(look func(kv.Reader) error) error {
	if h.tx != nil {
		return h.tx.Read(look)
	}
	return h.db.Read(look)
}

// Reserve makes an empty filter under the key. It returns kv.ErrExists if the
// key holds anything, probe.ErrParams for a Config out of range, and
// kv.ErrTooLarge for a filter above Options.MaxFilterBytes.
func (f *Filter) Reserve(c Config) error {
	w, err := f.begin()
	if err != nil {
		return err
	}
	if err := f.ReserveStaged(w, c); err != nil {
		return w.Refuse(err)
	}
	return w.Commit()
}

// ReserveStaged is Reserve as part of a writer's commit. The writer was begun
// with the filter's key.
func (f *Filter) ReserveStaged(w *kv.Writer, c Config) error {
	o, err := w.Object(f.h.key)
	if err != nil {
		return err
	}
	if o != nil {
		return fmt.Errorf("%w: %q", kv.ErrExists, f.h.key)
	}
	spec, err := c.spec(f.h.db)
	if err != nil {
		return err
	}
	_, err = w.Create(f.h.key, spec)
	return err
}

// OpenOrReserve makes the filter if there is none under the key, and otherwise
// checks that it was made with these parameters: if not, the error wraps
// ErrMismatch. A TTL counts from the filter's making and is not compared.
func (f *Filter) OpenOrReserve(c Config) error {
	w, err := f.begin()
	if err != nil {
		return err
	}
	existing, err := f.h.staged(w)
	switch {
	case errors.Is(err, kv.ErrNotFound):
		if err := f.ReserveStaged(w, c); err != nil {
			return w.Refuse(err)
		}
		return w.Commit()
	case err == nil:
		err = c.mismatch(existing)
	}
	return w.Refuse(err)
}

// Delete removes the filter and reports whether there was one. A key of another
// type is left alone: kv.ErrWrongType.
func (f *Filter) Delete() (bool, error) {
	w, err := f.begin()
	if err != nil {
		return false, err
	}
	if _, err := f.h.staged(w); err != nil {
		if errors.Is(err, kv.ErrNotFound) {
			err = nil
		}
		return false, w.Refuse(err)
	}
	found, err := w.Delete(f.h.key)
	if err != nil {
		return false, w.Refuse(err)
	}
	return found, w.Commit()
}

// MayContain reports whether the item may have been added: false means that it
// was not. With an error it is true.
func (f *Filter) MayContain(item []byte) (bool, error) {
	h := f.h
	c := h.current.Load()
	if !h.db.Ready() || !c.object.Live() && !c.object.Usable() {
		return h.lookup(item)
	}
	hash := probe.Sum64Seed(item, c.seed)
	if h.db.Sampled(hash) {
		h.touch(c, hash)
	}
	// A lookup of a resident block of the newest layer, without a call but those
	// of hash and test: each call costs as much as two probes.
	blk, rest := c.newest.layout.Block(hash)
	if first := c.newest.table.Resident(blk); first != nil {
		if c.newest.layout.Test(first, rest, hash) {
			return true, nil
		}
		if len(c.layers) == 1 {
			return false, nil
		}
	}
	if present, known := c.resident(hash); known {
		return present, nil
	}
	return h.lookup(item)
}

// MayContainString is MayContain for a string.
func (f *Filter) MayContainString(item string) (bool, error) { return f.MayContain(bytesOf(item)) }

// MayContainUint64 is MayContain for the 8 bytes of item in little-endian order.
func (f *Filter) MayContainUint64(item uint64) (bool, error) {
	b := littleEndian(item)
	return f.MayContain(b[:])
}

// Add adds an item and reports whether it is new; false means that it was there
// before, perhaps: at the false-positive rate a new item seems known, and
// nothing is changed by adding it. The error is ErrFull for a new item where
// there is no room.
func (f *Filter) Add(item []byte) (bool, error) {
	h := f.h
	c := h.current.Load()
	if h.db.Ready() && (c.object.Live() || c.object.Usable()) {
		hash := probe.Sum64Seed(item, c.seed)
		if h.db.Sampled(hash) {
			h.touch(c, hash)
		}
		if present, _ := c.resident(hash); present {
			return false, h.db.Acknowledge(c.object, f.level)
		}
	}
	return f.add(item)
}

// AddString is Add for a string.
func (f *Filter) AddString(item string) (bool, error) { return f.Add(bytesOf(item)) }

// AddUint64 is Add for the 8 bytes of item in little-endian order.
func (f *Filter) AddUint64(item uint64) (bool, error) {
	b := littleEndian(item)
	return f.Add(b[:])
}

// touch counts a lookup for the cache.
func (h *handle) touch(c *filter, hash uint64) {
	for i := range c.layers {
		l := &c.layers[i]
		blk, _ := l.layout.Block(hash)
		h.db.Touch(c.object, l.table, blk)
	}
}

// find resolves the key and remembers what it found.
func (h *handle) find(r kv.Reader) (*filter, error) {
	o, err := r.Lookup(h.key)
	if err != nil {
		return nil, err
	}
	c, err := kv.As[*filter](h.key, o)
	if err == nil && h.tx == nil {
		h.current.Store(c)
	}
	return c, err
}

// lookup is the way of a lookup that did not find everything in place.
func (h *handle) lookup(item []byte) (present bool, err error) {
	err = h.read(func(r kv.Reader) error {
		c, err := h.find(r)
		if err != nil {
			return err
		}
		present, err = c.load(r, probe.Sum64Seed(item, c.seed), nil)
		return err
	})
	return present || err != nil, err
}

// loaded is a block that a lookup of many items has read.
type loaded struct {
	blk   uint64
	first *kv.Line
}

// load answers from resident blocks where it can and reads the others. Kept, if
// not nil, has an entry for each layer, for the block of the item before: it
// need not be read again, even if the cache did not keep it.
func (f *filter) load(r kv.Reader, hash uint64, kept []loaded) (bool, error) {
	for i := range f.layers {
		l := &f.layers[i]
		blk, rest := l.layout.Block(hash)
		var first *kv.Line
		if kept != nil && kept[i].first != nil && kept[i].blk == blk {
			first = kept[i].first
		} else {
			var err error
			if first, err = r.Load(f.object, l.table, blk); err != nil {
				return true, err
			}
			if kept != nil {
				kept[i] = loaded{blk, first}
			}
		}
		if l.layout.Test(first, rest, hash) {
			return true, nil
		}
	}
	return false, nil
}

func (f *Filter) add(item []byte) (bool, error) {
	w, err := f.begin()
	if err != nil {
		return false, err
	}
	c, err := f.h.staged(w)
	if err != nil {
		return false, w.Refuse(err)
	}
	s := stager{w, c}
	added, err := s.add(probe.Sum64Seed(item, c.seed))
	if err != nil {
		return false, w.Refuse(err)
	}
	return added, w.Commit()
}

// staged returns the filter as a writer sees it.
func (h *handle) staged(w *kv.Writer) (*filter, error) {
	o, err := w.Object(h.key)
	if err != nil {
		return nil, err
	}
	return kv.As[*filter](h.key, o)
}

func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

func littleEndian(v uint64) (b [8]byte) {
	for i := range b {
		b[i] = byte(v >> (8 * i))
	}
	return b
}
