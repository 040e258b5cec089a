package scalableext

import (
	"errors"
	"fmt"
	"slices"

	"github.com/sievekv/sievekv/kv"
)

// Chain is an open chain of layers of type L. It never changes: growing makes another chain, which shares the layers.
type Chain[L any] struct {
	Params Params

	// newestFirst is the order of lookups: most items are in the newest layer.
	newestFirst []L
}

// Open decodes the parameters of an object, and opens its layers with open. Its errors wrap kv.ErrCorrupt or
// kv.ErrUnsupportedVersion.
func Open[L any](o *kv.Object, open func(p Params, l *kv.Layer) (L, error)) (*Chain[L], error) {
	p, err := decodeParams(o.Params())
	if err != nil {
		return nil, err
	}
	layers := o.Layers()
	if len(layers) < 1 || len(layers) > p.MaxLayers() {
		return nil, fmt.Errorf("%w: %d layers, want 1 to %d for capacity %d and expansion %d", kv.ErrCorrupt, len(layers), p.MaxLayers(), p.Capacity, p.Expansion)
	}
	c := &Chain[L]{Params: p, newestFirst: make([]L, 0, len(layers))}
	for _, l := range slices.Backward(layers) {
		layer, err := open(p, l)
		if err != nil {
			return nil, fmt.Errorf("layer %d: %w", l.Spec().Number, err)
		}
		c.newestFirst = append(c.newestFirst, layer)
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
		return describe(f, r), nil
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
