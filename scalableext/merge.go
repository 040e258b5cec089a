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

	// Logs, if set, makes the union from the logs of all parts, whatever their layers, and returns nil if it cannot.
	Logs func(ctx context.Context, w *kv.Writer, key []byte, parts []*F, expiry int64) (*kv.Object, error)

	// InLog, if set, reports whether the log of a filter has all of its items: then its layers may have other shapes
	// than the union's.
	InLog func(f *F) bool

	// Unite fills the union, which is being built, with the contents of parts, layer by layer, and with the items that the logs of
	// others have.
	Unite func(w *kv.Writer, b *kv.Builder, union *F, parts, logged []*F) error
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
	var expiry int64
	if !missing {
		expiry = dest.object.Expiry()
	}
	united, err := m.union(ctx, w, h.Key, parts, expiry)
	if err != nil || missing {
		return err
	}
	return w.KeepAttributes(dest.object, united)
}

// union makes the union of filters under a key.
func (m *Merging[F]) union(ctx context.Context, w *kv.Writer, key []byte, parts []mergePart[F], expiry int64) (*kv.Object, error) {
	filters := make([]*F, len(parts))
	for i, p := range parts {
		if m.Check != nil {
			if err := m.Check(p.filter); err != nil {
				return nil, err
			}
		}
		if err := m.unequal(parts[0], p); err != nil {
			return nil, err
		}
		filters[i] = p.filter
	}
	if m.Logs != nil {
		if o, err := m.Logs(ctx, w, key, filters, expiry); o != nil || err != nil {
			return o, err
		}
	}
	var layered []mergePart[F]
	var united, logged []*F
	for _, p := range parts {
		if m.InLog != nil && m.InLog(p.filter) {
			logged = append(logged, p.filter)
		} else {
			layered, united = append(layered, p), append(united, p.filter)
		}
	}
	if len(layered) == 0 { // one log has no room for the items of all
		layered, united, logged = parts, filters, nil
	}
	longest, lossy := layered[0], false
	for _, p := range layered {
		if err := m.unequalLayers(layered[0], p); err != nil {
			return nil, err
		}
		if len(p.layers) > len(longest.layers) {
			longest = p
		}
		lossy = lossy || p.object.Lossy()
	}
	spec := kv.Spec{Type: m.Type, Family: longest.object.Family(), Params: longest.stored, Expiry: expiry, Lossy: lossy}
	for _, l := range longest.layers {
		spec.Layers = append(spec.Layers, l.Spec())
	}
	return w.Build(ctx, key, spec, func(b *kv.Builder) error {
		union, err := kv.As[*F](key, b.Object())
		if err != nil {
			return err
		}
		return m.Unite(w, b, union, united, logged)
	})
}

// differ returns the error of two filters that differ.
func differ[F any](a, b mergePart[F], name string, have, other any) error {
	return fmt.Errorf("%w: %s of %q is %v, of %q %v", ErrUnequal, name, a.object.Key(), have, b.object.Key(), other)
}

// unequal returns an error if two filters differ too much to be merged, whatever their layers.
func (m *Merging[F]) unequal(a, b mergePart[F]) error {
	p, q := a.params, b.params
	if why := p.UnequalHash(a.object.Key(), q, b.object.Key()); why != "" {
		return fmt.Errorf("%w: %s", ErrUnequal, why)
	}
	rule := func(p Params) Growth { // the first layers are the same with a log and without
		if p.Growth == Logged {
			return Native
		}
		return p.Growth
	}
	switch {
	case p.Capacity != q.Capacity:
		return differ(a, b, "capacity", p.Capacity, q.Capacity)
	case p.ErrorRate != q.ErrorRate:
		return differ(a, b, "error rate", p.ErrorRate, q.ErrorRate)
	case p.Expansion != q.Expansion:
		return differ(a, b, "expansion", p.Expansion, q.Expansion)
	case rule(p) != rule(q):
		return differ(a, b, "growth rule", p.Growth, q.Growth)
	}
	return nil
}

// unequalLayers returns an error if layers of two filters that have the same number do not have the same shape.
func (m *Merging[F]) unequalLayers(a, b mergePart[F]) error {
	for i := range min(len(a.layers), len(b.layers)) {
		if l, other := m.Shape(a.filter, i), m.Shape(b.filter, i); l != other {
			return differ(a, b, fmt.Sprintf("layout of layer %d", i), m.Cells.text(l), m.Cells.text(other))
		}
	}
	return nil
}
