package bloomext

import (
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// The errors of filters of all types, for errors.Is; see package scalableext.
var (
	ErrFull       = scalableext.ErrFull       // a filter that does not grow has no room for a new item
	ErrCannotGrow = scalableext.ErrCannotGrow // one that grows has no room, and can have no further layer
	ErrMismatch   = scalableext.ErrMismatch   // the filter was made with other parameters
	ErrUnequal    = scalableext.ErrUnequal    // filters to be merged differ
	ErrRate       = scalableext.ErrRate       // their union would exceed the error rate
	ErrConfig     = scalableext.ErrConfig     // a value of a Config is out of range
)

// Filter is a handle on the Bloom filter under a key. It holds no resources and
// follows the key: when the key is deleted, renamed away, or another filter is
// renamed over it, the handle's next use is about what is there then. A missing
// or expired key is kv.ErrNotFound, one of another type kv.ErrWrongType.
type Filter struct {
	h     *handle
	level kv.Durability
}

type handle = scalableext.Handle[filter]

// noFilter is where a handle begins.
var noFilter = &filter{object: kv.EndedObject()}

// New returns a handle on a key. It reads nothing: the filter may be made later.
func New(db *kv.DB, key string) *Filter {
	return &Filter{h: scalableext.NewHandle(db, []byte(key), nil, noFilter)}
}

// With returns a handle on the same filter whose writes are made at another
// level of durability.
func (f *Filter) With(level kv.Durability) *Filter { return &Filter{h: f.h, level: level} }

// In returns a handle on the same key that reads and writes as part of a transaction,
// until that ends. Its level of durability is the transaction's. If that is of another
// store, every use of the handle returns kv.ErrOtherStore.
func (f *Filter) In(s kv.Scope) *Filter {
	return &Filter{h: f.h.In(s, noFilter), level: f.level}
}

// Reserve makes an empty filter under the key. It returns kv.ErrExists if the
// key holds anything, which is kv.ErrWrongType too if that is no filter,
// ErrConfig for a Config out of range, and kv.ErrTooLarge for a filter above Options.MaxFilterBytes.
func (f *Filter) Reserve(c Config) error { return f.h.Reserve(f.level, c.spec) }

// ReserveStaged is Reserve as part of a writer's commit. The writer was begun
// with the filter's key.
func (f *Filter) ReserveStaged(w *kv.Writer, c Config) error { return f.h.ReserveStaged(w, c.spec) }

// OpenOrReserve makes the filter if there is none under the key, and otherwise
// checks that it was made with these parameters: if not, the error wraps
// ErrMismatch. A TTL counts from the filter's making and is not compared, nor is
// the hash unless the Config names one.
func (f *Filter) OpenOrReserve(c Config) error { return f.h.OpenOrReserve(f.level, c.spec, c.mismatch) }

// Drop removes the whole filter and reports whether there was one. It returns
// kv.ErrWrongType, and changes nothing, if the key holds another type.
func (f *Filter) Drop() (bool, error) { return f.h.Drop(f.level) }

// MayContain reports whether the item may have been added: false means that it
// was not. With an error it is true.
func (f *Filter) MayContain(item []byte) (bool, error) {
	h := f.h
	c := h.Current.Load()
	if !h.DB.Ready() || !c.object.Live() && !c.object.Usable() {
		return lookup(h, item)
	}
	hash := c.hash.Sum(item)
	if h.DB.Sampled(hash) {
		c.touch(h.DB, hash)
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
	return lookup(h, item)
}

// MayContainString is MayContain for a string.
func (f *Filter) MayContainString(item string) (bool, error) {
	return f.MayContain(scalableext.BytesOf(item))
}

// MayContainUint64 is MayContain for the 8 bytes of item in little-endian order.
func (f *Filter) MayContainUint64(item uint64) (bool, error) {
	b := scalableext.LittleEndian(item)
	return f.MayContain(b[:])
}

// Add adds an item and reports whether it is new; false means that it was there
// before, perhaps: at the false-positive rate a new item seems known, and
// nothing is changed by adding it. The error is ErrFull for a new item where
// there is no room.
func (f *Filter) Add(item []byte) (bool, error) {
	h := f.h
	c := h.Current.Load()
	if h.DB.Ready() && (c.object.Live() || c.object.Usable()) {
		hash := c.hash.Sum(item)
		if h.DB.Sampled(hash) {
			c.touch(h.DB, hash)
		}
		if present, _ := c.resident(hash); present {
			return false, h.DB.Acknowledge(c.object, f.level)
		}
	}
	return f.add(item)
}

// AddString is Add for a string.
func (f *Filter) AddString(item string) (bool, error) { return f.Add(scalableext.BytesOf(item)) }

// AddUint64 is Add for the 8 bytes of item in little-endian order.
func (f *Filter) AddUint64(item uint64) (bool, error) {
	b := scalableext.LittleEndian(item)
	return f.Add(b[:])
}

// touch counts a lookup for the cache.
func (f *filter) touch(db *kv.DB, hash uint64) {
	for i := range f.layers {
		l := &f.layers[i]
		blk, _ := l.layout.Block(hash)
		db.Touch(f.object, l.table, blk)
	}
}

// lookup is the way of a lookup that did not find everything in place.
func lookup(h *handle, item []byte) (present bool, err error) {
	err = h.Read(func(r kv.Reader) error {
		c, err := h.Find(r)
		if err != nil {
			return err
		}
		present, err = c.load(r, c.hash.Sum(item), nil)
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

func (f *Filter) add(item []byte) (added bool, err error) {
	err = f.h.WriteStaged(f.level, func(w *kv.Writer, c *filter) error {
		s := stager{w, c}
		added, err = s.add(c.hash.Sum(item))
		return err
	})
	return added && err == nil, err
}
