package scalableext

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sievekv/sievekv/kv"
)

// Merging says how filters of type F are merged.
type Merging[F any] struct {
	Type  *kv.Type
	Cells Cells

	// Shape returns the shape of a layer; 0 is the oldest. Layers of equal shapes can be united: an item has the same
	// places in them. It is comparable: a probe.Layout, or a value that has its text.
	Shape func(f *F, layer int) any

	// Check, if set, refuses filters that cannot be merged at all.
	Check func(f *F) error

	// Unite fills the union, which is being built, with the contents of all parts.
	Unite func(w *kv.Writer, b *kv.Builder, union *F, parts []*F) error
}

// Merge adds the contents of the sources to the filter, in one commit. A nil source is an error.
func (h *Handle[F]) Merge(ctx context.Context, level kv.Durability, sources []*Handle[F], m *Merging[F]) error {
	if err := h.Outside(ctx); err != nil {
		return err
	}
	var keys [][]byte
	for i, s := range sources {
		if s == nil {
			return m.nilSource(i)
		}
		keys = append(keys, s.Key)
	}
	return h.Write(level, func(w *kv.Writer) error { return h.MergeStaged(ctx, w, sources, m) }, keys...)
}

// Each returns the value of each handle of a list, nil for a nil handle.
func Each[H, V any](list []*H, of func(*H) *V) []*V {
	values := make([]*V, len(list))
	for i, h := range list {
		if h != nil {
			values[i] = of(h)
		}
	}
	return values
}

func (m *Merging[F]) nilSource(i int) error {
	return fmt.Errorf("%s: merge: source %d is nil: must be a filter", m.Cells.Package, i)
}

// mergePart is one of the filters that are merged.
type mergePart[F any] struct {
	object *kv.Object
	filter *F
	params Params
	layers []*kv.Layer // those that lookups ask, see Shown
	stored []byte
}

// stagedPart returns the filter under a key as a writer sees it.
func (h *Handle[F]) stagedPart(w *kv.Writer) (p mergePart[F], err error) {
	if p.filter, err = h.Staged(w); err != nil {
		return p, err
	}
	if p.object, err = w.Object(h.Key); err != nil {
		return p, err
	}
	p.params, err = decodeParams(p.object.Params())
	p.layers, p.stored = Shown(p.object)
	return p, err
}

// MergeStaged is Merge as part of a writer's commit. The writer must have been begun with all keys.
func (h *Handle[F]) MergeStaged(ctx context.Context, w *kv.Writer, sources []*Handle[F], m *Merging[F]) error {
	var parts []mergePart[F]
	dest, err := h.stagedPart(w)
	missing := errors.Is(err, kv.ErrNotFound)
	switch {
	case err == nil:
		parts = append(parts, dest)
	case !missing:
		return err
	}
	for i, s := range sources {
		if s == nil {
			return m.nilSource(i)
		}
		if s.DB != h.DB {
			return fmt.Errorf("%w: %q is in the store %s, %q in %s", ErrUnequal, h.Key, h.DB.Dir(), s.Key, s.DB.Dir())
		}
		p, err := s.stagedPart(w)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(parts, func(q mergePart[F]) bool { return q.object.ID() == p.object.ID() }) {
			parts = append(parts, p)
		}
	}
	if len(parts) == 0 {
		return fmt.Errorf("%w: %q", kv.ErrNotFound, h.Key)
	}
	longest, filters := parts[0], make([]*F, len(parts))
	for i, p := range parts {
		if m.Check != nil {
			if err := m.Check(p.filter); err != nil {
				return err
			}
		}
		if err := m.unequal(parts[0], p); err != nil {
			return err
		}
		if len(p.layers) > len(longest.layers) {
			longest = p
		}
		filters[i] = p.filter
	}
	spec := kv.Spec{Type: m.Type, Family: longest.object.Family(), Params: longest.stored}
	if !missing {
		spec.Expiry = dest.object.Expiry()
	}
	for _, p := range parts {
		spec.Lossy = spec.Lossy || p.object.Lossy()
	}
	for _, l := range longest.layers {
		spec.Layers = append(spec.Layers, l.Spec())
	}
	united, err := w.Build(ctx, h.Key, spec, func(b *kv.Builder) error {
		union, err := kv.As[*F](h.Key, b.Object())
		if err != nil {
			return err
		}
		return m.Unite(w, b, union, filters)
	})
	if err != nil || missing {
		return err
	}
	return w.KeepAttributes(dest.object, united)
}

// unequal returns an error if two filters differ too much to be merged. If they do not, their layers of the same
// number have the same shape.
func (m *Merging[F]) unequal(a, b mergePart[F]) error {
	p, q := a.params, b.params
	differ := func(name string, have, other any) error {
		return fmt.Errorf("%w: %s of %q is %v, of %q %v", ErrUnequal, name, a.object.Key(), have, b.object.Key(), other)
	}
	if why := p.UnequalHash(a.object.Key(), q, b.object.Key()); why != "" {
		return fmt.Errorf("%w: %s", ErrUnequal, why)
	}
	switch {
	case p.Capacity != q.Capacity:
		return differ("capacity", p.Capacity, q.Capacity)
	case p.ErrorRate != q.ErrorRate:
		return differ("error rate", p.ErrorRate, q.ErrorRate)
	case p.Expansion != q.Expansion:
		return differ("expansion", p.Expansion, q.Expansion)
	case p.Growth != q.Growth:
		return differ("growth rule", p.Growth, q.Growth)
	}
	for i := range min(len(a.layers), len(b.layers)) {
		if l, other := m.Shape(a.filter, i), m.Shape(b.filter, i); l != other {
			return differ(fmt.Sprintf("layout of layer %d", i), m.Cells.text(l), m.Cells.text(other))
		}
	}
	return nil
}
