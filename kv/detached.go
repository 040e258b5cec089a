package kv

import (
	"fmt"

	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/memory"
)

// detached is the source of a Reader of an object that belongs to no store.
type detached struct {
	source // nil: there are no keys
	block  func(l *Layer, blk uint64) (*Line, error)
}

func (d detached) load(_ *Object, l *Layer, blk uint64) (*Line, error) {
	first, err := d.block(l, blk)
	if first == nil && err == nil {
		first = memory.ZeroLine
	}
	return first, err
}

func (detached) counter(l *Layer, i int) uint64 { return l.Counter(i) }

func (detached) fixed() bool { return true }

// Detached opens an object that belongs to no store, such as one read from a file, with the counters of its layers. It
// returns the object, and a Reader for its type, whose Load calls block; a nil block means zeros. The object's table
// has no blocks. The errors are ErrUnsupportedVersion and the errors of the type's Open and Check.
func Detached(t *Type, h *format.Header, counters [][format.NumCounters]uint64, block func(l *Layer, blk uint64) (*Line, error)) (*Object, Reader, error) {
	if h.TypeVersion > t.Version {
		return nil, Reader{}, fmt.Errorf("%w: type %s has format %d, this program knows %d", ErrUnsupportedVersion, t.Name, h.TypeVersion, t.Version)
	}
	o := &Object{header: h, typ: t}
	for i, spec := range h.Layers {
		l := memory.NewLayer(h.ID, spec) // without a table, which takes memory for each block that there may be
		l.SetCounters(counters[i])
		o.layers = append(o.layers, l)
	}
	var err error
	if o.body, err = t.open(o); err == nil {
		err = o.CheckCounters((*Layer).Counter)
	}
	return o, Reader{source: detached{block: block}}, err
}
