package scalableext

import (
	"fmt"
	"slices"

	"github.com/sievekv/sievekv/kv"
)

// Chain is an open chain of layers of type L. It never changes: one that grew is
// another chain, which shares the layers.
type Chain[L any] struct {
	Params Params

	// newestFirst is the order of lookups: most items are in the newest layer.
	newestFirst []L
}

// Open decodes the parameters of an object and opens its layers with open. The
// errors wrap kv.ErrCorrupt or kv.ErrUnsupportedVersion.
func Open[L any](o *kv.Object, open func(p Params, l *kv.Layer) (L, error)) (*Chain[L], error) {
	p, err := decodeParams(o.Params())
	if err != nil {
		return nil, err
	}
	layers := o.Layers()
	if len(layers) < 1 || p.Expansion == 0 && len(layers) > 1 {
		return nil, fmt.Errorf("%w: %d layers with expansion %d", kv.ErrCorrupt, len(layers), p.Expansion)
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

// NewestFirst returns the layers in the order of lookups. The slice must not be
// changed.
func (c *Chain[L]) NewestFirst() []L { return c.newestFirst }

// Newest returns the layer that takes new items.
func (c *Chain[L]) Newest() *L { return &c.newestFirst[0] }
