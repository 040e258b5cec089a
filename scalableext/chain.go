package scalableext

import (
	"errors"
	"fmt"
	"slices"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/kv"
)

// Chain is an open chain of layers of type L. It never changes: growing makes another chain, which shares the layers.
type Chain[L any] struct {
	Params Params

	// newestFirst is the order of lookups: most items are in the newest layer.
	newestFirst []L

	Log     *kv.Layer // nil unless the chain has a log, see type Log
	Filling *L        // the layer that is being filled from the log, nil if there is none
	Base    int       // the number of the oldest layers, with items that the log does not have
}

// Open decodes the parameters of an object, and opens its layers with open. Its errors wrap kv.ErrCorrupt or
// kv.ErrUnsupportedVersion.
func Open[L any](o *kv.Object, open func(p Params, l *kv.Layer) (L, error)) (*Chain[L], error) {
	p, err := decodeParams(o.Params())
	if err != nil {
		return nil, err
	}
	layers := o.Layers()
	most := p.MaxLayers()
	if len(layers) > 0 && layers[0].Spec().Layout == kv.LayoutCompatible { // its layers do not share an error rate
		most = format.MaxLayers
	}
	if len(layers) > most {
		return nil, fmt.Errorf("%w: %d layers, want at most %d for capacity %d and expansion %d", kv.ErrCorrupt, len(layers), most, p.Capacity, p.Expansion)
	}
	c := &Chain[L]{Params: p, newestFirst: make([]L, 0, len(layers))}
	for _, l := range slices.Backward(layers) {
		s := l.Spec()
		if s.Layout == kv.LayoutLog {
			if c.Log != nil || p.Growth != Logged || s.Lines != block.MaxLines || s.Blocks < minLogBlocks || s.Blocks*block.Size < p.Log.Limit {
				return nil, fmt.Errorf("%w: layer %d is a log of %d blocks of %d lines, with growth rule %d", kv.ErrCorrupt, s.Number, s.Blocks, s.Lines, p.Growth)
			}
			c.Log = l
			continue
		}
		layer, err := open(p, l)
		switch {
		case err != nil:
			return nil, fmt.Errorf("layer %d: %w", s.Number, err)
		case p.Log.Filling == s.Number+1:
			c.Filling = &layer
			continue
		case c.Log != nil:
			c.Base++
		}
		c.newestFirst = append(c.newestFirst, layer)
	}
	if len(c.newestFirst) == 0 || c.Log != nil && p.Log.Limit == 0 || p.Log.Filling != 0 && (c.Filling == nil || c.Log == nil || c.Log.Spec().Number >= p.Log.Filling) {
		return nil, fmt.Errorf("%w: %d layers, a log of at most %d bytes (there: %t), from which layer %d is filled (there: %t)", kv.ErrCorrupt,
			len(c.newestFirst), p.Log.Limit, c.Log != nil, p.Log.Filling, c.Filling != nil)
	}
	return c, nil
}

// Describe returns the field Describe of a kv.Type for filters of type F.
func Describe[F any](describe func(*F, kv.Reader) kv.Description) func(kv.Reader, *kv.Object) (kv.Description, error) {
	return func(r kv.Reader, o *kv.Object) (kv.Description, error) {
		f, err := kv.As[*F]([]byte(o.Key()), o)
		if err != nil {
			return kv.Description{}, err
		}
		d := describe(f, r)
		if uses := o.Uses(); uses != nil { // it is of a store
			d.Facts = append(d.Facts, useFacts(uses.Totals())...)
		}
		return d, nil
	}
}

// NewestFirst returns the layers in the order of lookups. The caller must not change the slice.
func (c *Chain[L]) NewestFirst() []L { return c.newestFirst }

// Newest returns the layer that takes new items.
func (c *Chain[L]) Newest() *L { return &c.newestFirst[0] }

// Grow stages another layer for the chain's object, and returns the object with the layer. spec makes the layer from
// its capacity and error rate. If no further layer is possible, the error wraps ErrCannotGrow.
func (c *Chain[L]) Grow(w *kv.Writer, o *kv.Object, spec func(capacity uint64, rate float64) (kv.LayerSpec, error)) (*kv.Object, error) {
	capacity, rate, err := c.Params.Layer(len(c.newestFirst))
	if err != nil {
		return nil, err
	}
	s, err := spec(capacity, rate)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCannotGrow, err)
	}
	grown, err := w.Grow(o, s)
	if errors.Is(err, kv.ErrTooLarge) {
		return nil, fmt.Errorf("%w: %w", ErrCannotGrow, err)
	}
	return grown, err
}
