package scalableext

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
)

// Handle is what the handles of all types of filters are made of: it follows a key, and
// remembers the filter of type F found there. It holds no resources.
type Handle[F any] struct {
	DB  *kv.DB
	Key []byte
	Tx  *kv.Transaction // what the handle is bound to, nil for the store itself

	refused error // what every use returns: it could not be bound as it was asked to

	ctx context.Context // of the command that the handle was made for; nil for one that is not for a command

	// Current is the filter that the last use found; its object tells whether it has
	// ended. Never nil: a handle begins with one that has. A lookup looks at the
	// store, then at the object, then at the blocks: see kv.DB.Read. That of a
	// handle bound to a transaction stays as it begins.
	Current atomic.Pointer[F]
}

// Spec says how a filter is stored that is to be made in a store.
type Spec = func(*kv.DB) (kv.Spec, error)

// NewHandle returns a handle on a key, bound to a transaction if tx is not nil. None is a
// filter whose object has ended.
func NewHandle[F any](db *kv.DB, key []byte, tx *kv.Transaction, none *F) *Handle[F] {
	h := &Handle[F]{DB: db, Key: key, Tx: tx}
	h.Current.Store(none)
	return h
}

// In returns a handle on the same key that is bound to a transaction. If that is of another
// store, or none, every use of the handle returns an error that says so.
func (h *Handle[F]) In(s kv.Scope, none *F) *Handle[F] {
	var tx *kv.Transaction
	if s != nil {
		tx = s.Scope()
	}
	bound := NewHandle(h.DB, h.Key, tx, none)
	switch {
	case tx == nil:
		bound.refused = fmt.Errorf("scalableext: In: key %q: the transaction is nil", h.Key)
	case tx.DB() != h.DB:
		bound.refused = fmt.Errorf("%w: In: the handle on key %q is of the store in %s, the transaction of that in %s",
			kv.ErrOtherStore, h.Key, h.DB.Dir(), tx.DB().Dir())
	}
	return bound
}

// Outside returns kv.ErrNested if the handle is not bound to the transaction whose context
// this is, see kv.DB.Outside.
func (h *Handle[F]) Outside(ctx context.Context) error {
	if h.Tx != nil {
		return nil
	}
	return h.DB.Outside(ctx)
}

// HandleFor returns a handle on a key for a command alone.
func HandleFor[F any](c *module.Call, key []byte, none *F) *Handle[F] {
	h := NewHandle(c.DB, key, c.Transaction, none)
	h.ctx = c.Context
	return h
}

// Recalled is HandleFor with the filter that is open under the key, if there is one. So a command of one
// item answers from memory what a handle that was used before would, and counts for the cache as its lookups do.
func Recalled[F any](c *module.Call, key []byte, none *F) *Handle[F] {
	h := HandleFor(c, key, none)
	if h.Tx != nil { // what is in memory is not what a transaction sees
		return h
	}
	if o := h.DB.Opened(key); o != nil {
		if f, ok := o.Body().(*F); ok {
			h.Current.Store(f)
		}
	}
	return h
}

// GivenUp returns the error of the command's context if that has ended, see kv.GivenUp.
func (h *Handle[F]) GivenUp(i int) error {
	if h.ctx == nil {
		return nil
	}
	return kv.GivenUp(h.ctx, i)
}

// Write runs a change of what is under the key, and under others, see kv.DB.Write.
func (h *Handle[F]) Write(level kv.Durability, change func(*kv.Writer) error, others ...[]byte) error {
	if h.refused != nil {
		return h.refused
	}
	if h.Tx != nil {
		return h.Tx.Write(change)
	}
	return h.DB.Write(level, append(others, h.Key), change)
}

// Change runs a change of the filter, and returns its answer, which is false after an error. If there is
// no filter, it is made as spec describes it, in the same commit; without spec that is an error.
func (h *Handle[F]) Change(level kv.Durability, spec Spec, change func(*kv.Writer, *F) (bool, error)) (answer bool, err error) {
	err = h.Write(level, func(w *kv.Writer) error {
		f, err := h.StagedOrReserved(w, spec)
		if err != nil {
			return err
		}
		answer, err = change(w, f)
		return err
	})
	return answer && err == nil, err
}

// Read runs a lookup, see kv.DB.Read.
func (h *Handle[F]) Read(look func(kv.Reader) error) error {
	if h.refused != nil {
		return h.refused
	}
	if h.Tx != nil {
		return h.Tx.Read(look)
	}
	return h.DB.Read(look)
}

// writeItems is Write of a batch of items, of which stage returns how many it staged. Those
// before one that has no room are committed all the same, and n is their number; after
// another error it is 0.
func (h *Handle[F]) writeItems(level kv.Durability, stage func(*kv.Writer) (int, error)) (n int, err error) {
	var full error
	err = h.Write(level, func(w *kv.Writer) (err error) {
		if n, err = stage(w); NoRoom(err) {
			full, err = err, nil
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, full
}

// ErrMoved is how a lookup that saw blocks change under it asks to be repeated.
var ErrMoved = errors.New("scalableext: blocks changed during a lookup")

// tries is how often a lookup begins again because blocks changed under it, before it
// waits for the key's writer.
const tries = 3

// readSteady is Read for a lookup that answers ErrMoved if blocks changed while it
// looked: it is repeated then, in the end while no commit to the key is under way.
func (h *Handle[F]) readSteady(look func(kv.Reader) error) error {
	for range tries {
		if err := h.Read(look); !errors.Is(err, ErrMoved) {
			return err
		}
	}
	return h.DB.ReadLocked(h.Key, look)
}

// maxBatch is the most items in one commit; chainBytes what a filter takes of it, beside its
// key, that grew by all the layers there may be: a header with them, and counters of each.
const (
	maxBatch   = 4096
	chainBytes = 2048 + MaxLayers*(256+64)
)

// BatchSize returns how many items may be added in one commit, at least 1 and at most 4096,
// if each takes so many bytes of it at most, kv.DB.MaxCommit counting.
func (h *Handle[F]) BatchSize(itemBytes int) int {
	return max(1, min(maxBatch, (h.DB.MaxCommit()-chainBytes-len(h.Key))/itemBytes))
}

// Look resolves the key, and has look look at the filter there. If it answers ErrMoved it is repeated, see readSteady.
func (h *Handle[F]) Look(look func(kv.Reader, *F) error) error {
	return h.readSteady(func(r kv.Reader) error {
		f, err := h.Find(r)
		if err != nil {
			return err
		}
		return look(r, f)
	})
}

// Ask returns what ask says of the filter.
func Ask[F, T any](h *Handle[F], ask func(*F, kv.Reader) T) (said T, err error) {
	err = h.Look(func(r kv.Reader, f *F) error {
		said = ask(f, r)
		return nil
	})
	return said, err
}

// Find resolves the key and remembers what it found.
func (h *Handle[F]) Find(r kv.Reader) (*F, error) {
	o, err := r.Lookup(h.Key)
	if err != nil {
		return nil, err
	}
	f, err := kv.As[*F](h.Key, o)
	if err == nil && h.Tx == nil {
		h.Current.Store(f)
	}
	return f, err
}

// Staged returns the filter as a writer sees it, and remembers it if it is the one that
// everybody sees.
func (h *Handle[F]) Staged(w *kv.Writer) (*F, error) {
	o, err := w.Object(h.Key)
	if err != nil {
		return nil, err
	}
	f, err := kv.As[*F](h.Key, o)
	if err == nil && h.Tx == nil && w.Committed(o) {
		h.Current.Store(f)
	}
	return f, err
}

// StagedOrReserved is Staged of a filter that is made as spec describes it if there is none. Without spec
// that is an error.
func (h *Handle[F]) StagedOrReserved(w *kv.Writer, spec Spec) (*F, error) {
	f, err := h.Staged(w)
	if spec == nil || !errors.Is(err, kv.ErrNotFound) {
		return f, err
	}
	if err := h.ReserveStaged(w, spec); err != nil {
		return nil, err
	}
	return h.Staged(w)
}

// ReserveStaged stages an empty filter under the key, which spec describes. It returns
// kv.ErrExists if the key holds anything, which is kv.ErrWrongType too if that is no such filter.
func (h *Handle[F]) ReserveStaged(w *kv.Writer, spec Spec) error {
	o, err := w.Object(h.Key)
	if err != nil {
		return err
	}
	if o != nil {
		if _, err := kv.As[*F](h.Key, o); err != nil {
			return fmt.Errorf("%w: %w", kv.ErrExists, err)
		}
		return fmt.Errorf("%w: %q", kv.ErrExists, h.Key)
	}
	s, err := spec(h.DB)
	if err != nil {
		return err
	}
	_, err = w.Create(h.Key, s)
	return err
}

// Reserve is ReserveStaged in a commit of its own.
func (h *Handle[F]) Reserve(level kv.Durability, spec Spec) error {
	return h.Write(level, func(w *kv.Writer) error { return h.ReserveStaged(w, spec) })
}

// OpenOrReserve is Reserve if there is nothing under the key, and otherwise returns what
// mismatch says of the filter there.
func (h *Handle[F]) OpenOrReserve(level kv.Durability, spec Spec, mismatch func(*F) error) error {
	return h.Write(level, func(w *kv.Writer) error {
		existing, err := h.Staged(w)
		switch {
		case errors.Is(err, kv.ErrNotFound):
			return h.ReserveStaged(w, spec)
		case err != nil:
			return err
		}
		return mismatch(existing)
	})
}

// Drop removes the whole filter and reports whether there was one. It returns
// kv.ErrWrongType, and changes nothing, if the key holds another type.
func (h *Handle[F]) Drop(level kv.Durability) (found bool, err error) {
	found, err = h.Change(level, nil, func(w *kv.Writer, _ *F) (bool, error) { return w.Delete(h.Key) })
	if errors.Is(err, kv.ErrNotFound) {
		return false, nil
	}
	return found, err
}
