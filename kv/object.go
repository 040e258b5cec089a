package kv

import (
	"fmt"
	"math"
	"sync/atomic"
	"unsafe"

	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/memory"
	"github.com/sievekv/sievekv/internal/use"
)

// Object is an open object: one incarnation of what a key maps to. The header, the parameters and the list of layers
// never change in an incarnation. A commit that changes them (growth, RENAME, replacement) puts a new Object under
// the key, which shares the layers that stay, and ends the old one. A caller that keeps an Object begins a Section of it each
// time it uses it. Disk is read inside DB.Read.
type Object struct {
	db     *DB
	key    string
	header *format.Header
	typ    *Type // nil if the module is not registered
	layers []*Layer
	body   any
	uses   *use.Counts // nil without a type; all incarnations share it

	memory memory.Object

	// changed is the number of the last commit that changed the object, or of a later one; changing while a commit of single
	// keys changes it, from before Pebble or the pending commits have it until memory has all of it. So a lookup that saw a
	// bit, in memory or on the disk, and then loads changed, gets changing, or the number of the commit that set the bit, or a
	// later one.
	changed atomic.Uint64

	epoch uint64 // see storage.Group: when the object was made; 0 in a store that is alone

	// handedOver is set when a commit gave the layers to a new incarnation.
	handedOver atomic.Bool
}

// changing is more than the number of any commit.
const changing = math.MaxUint64

// EndedObject returns an object that was never under a key, for a handle that has not found its object yet.
func EndedObject() *Object {
	o := &Object{header: &format.Header{}}
	o.memory.End()
	return o
}

func newObject(db *DB, key string, h *format.Header, layers []*Layer) (*Object, error) {
	o := &Object{db: db, key: key, header: h, layers: layers}
	o.memory.Init(h, db.clock)
	if g := db.store.Group; g != nil {
		o.epoch = g.Epoch()
	}
	if t := db.registry.types[h.TypeName]; t != nil && h.ID != 0 {
		if h.TypeVersion > t.Version {
			return nil, fmt.Errorf("%w: key %q: type %s has format %d, this program knows %d", ErrUnsupportedVersion, key, h.TypeName, h.TypeVersion, t.Version)
		}
		o.typ, o.uses = t, db.uses.Of(h.ID)
		body, err := t.open(o)
		if err != nil {
			return nil, fmt.Errorf("key %q: %w", key, err)
		}
		o.body = body
	}
	for _, l := range layers {
		l.MakeTable()
	}
	return o, nil
}

// open decodes the parameters of an object. A panic of Open becomes an error: objects are also opened in the middle
// of commits, which must go on.
func (t *Type) open(o *Object) (body any, err error) {
	defer func() {
		if why := recover(); why != nil {
			body, err = nil, format.Corruptf("type %s: Open panicked: %v", t.Name, why)
		}
	}()
	return t.Open(o)
}

// CheckCounters returns an error if a counter of the object's layers is out of range, see Type.Check. Counter gives them.
func (o *Object) CheckCounters(counter func(l *Layer, i int) uint64) error {
	if o.typ == nil || o.typ.Check == nil {
		return nil
	}
	return o.typ.Check(o, counter)
}

// expiredBy reports whether the key counts as missing at a time.
func (o *Object) expiredBy(now int64) bool {
	at := o.header.Expiry
	return at != 0 && at <= now || o.header.Hidden
}

// Memory returns what a Section needs of the object.
func (o *Object) Memory() *memory.Object { return &o.memory }

// Uses has the counts of the object's use since the store was opened, see use.Table. Nil without a type, and if the object
// belongs to no store.
func (o *Object) Uses() *use.Counts { return o.uses }

// ID returns the object's id, which no other object of the store ever has; 0 for a string kept in its header. RENAME
// keeps it.
func (o *Object) ID() uint64 { return o.header.ID }

// Key returns the key the object is under.
func (o *Object) Key() string { return o.key }

// TypeName returns the type's name as TYPE prints it.
func (o *Object) TypeName() string { return o.header.TypeName }

// Params returns the module's parameters of the object. They must not be changed.
func (o *Object) Params() []byte { return o.header.Params }

// Header returns the object's header. Its layers and parameters must not be changed.
func (o *Object) Header() format.Header { return *o.header }

// Family returns the block family of the layers.
func (o *Object) Family() Family { return o.header.Family }

// Lossy reports whether the object was salvaged although blocks or changes of it were lost, or was merged from such an
// object. A filter may then miss items that were added to it.
func (o *Object) Lossy() bool { return o.header.Lossy }

// Hidden reports whether the object is hidden, see Writer.Hidden.
func (o *Object) Hidden() bool { return o.header.Hidden }

// layer returns the layer with a number, nil if there is none.
func (o *Object) layer(number uint64) *Layer {
	for _, l := range o.layers {
		if l.Number() == number {
			return l
		}
	}
	return nil
}

// Layers returns the layers, oldest first. The slice must not be changed.
func (o *Object) Layers() []*Layer { return o.layers }

// Body returns what the type's Open returned for the object.
func (o *Object) Body() any { return o.body }

// inline reports whether the object is a string that is kept in its header. It has nothing else stored, and is never in
// the map of open objects.
func (o *Object) inline() bool { return o.header.ID == 0 }

// bytes returns the memory of an open object without its full-size blocks: the structs, two map entries, the
// residency entry, and the block of each layer that has only one.
func (o *Object) bytes() int64 {
	const perObject = int64(unsafe.Sizeof(Object{})+unsafe.Sizeof(format.Header{})+unsafe.Sizeof(use.Counts{})) + 480
	n := perObject + int64(len(o.key)) + int64(len(o.header.Params)) + o.memory.Changes().Bytes()
	if o.typ != nil {
		n += o.typ.BodyBytes
	}
	for _, l := range o.layers {
		n += l.Bytes()
	}
	return n
}
