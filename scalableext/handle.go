package scalableext

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
)

// Handle is the common part of the handles of all types of filters. It follows a key, and remembers the filter of
// type F that it found there. It holds no resources.
type Handle[F any] struct {
	DB  *kv.DB
	Key []byte
	Tx  *kv.Transaction // the transaction that the handle is bound to, nil for the store

	refused error // the error of every use if In could not bind the handle

	ctx   context.Context // of the command that the handle is for, nil if it is not for a command
	found *kv.Object      // that the command has found last, nil for other handles: many goroutines may use those

	// Current is the filter that the last use found. Its object says whether it has ended. It is never nil: at first
	// its object is one that has ended. A lookup looks first at the store, then at the object, then at the blocks:
	// see kv.DB.Ready. If the handle is bound to a transaction, Current never changes.
	Current atomic.Pointer[F]
}

// Spec returns how a new filter is stored.
type Spec = func(*kv.DB) (kv.Spec, error)

// NewHandle returns a handle on a key, bound to tx unless that is nil. none is a filter whose object has ended.
func NewHandle[F any](db *kv.DB, key []byte, tx *kv.Transaction, none *F) *Handle[F] {
	h := &Handle[F]{DB: db, Key: key, Tx: tx}
	h.Current.Store(none)
	return h
}

// In returns a handle on the same key that is bound to a transaction. If s is nil or of another store, every use of
// the handle returns an error that says so.
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
		own, other := kv.StoreNames(h.DB, tx.DB())
		bound.refused = fmt.Errorf("%w: In: the handle on key %q is of %s, the transaction of %s", kv.ErrOtherStore, h.Key, own, other)
	}
	return bound
}

// Outside returns kv.ErrNested if ctx belongs to a transaction to which the handle is not bound, see kv.DB.Outside.
func (h *Handle[F]) Outside(ctx context.Context) error {
	if h.Tx != nil {
		return nil
	}
	return h.DB.Outside(ctx)
}

// HandleFor returns a handle on a key for one command.
func HandleFor[F any](c *module.Call, key []byte, none *F) *Handle[F] {
	h := NewHandle(c.DB, key, c.Transaction, none)
	h.ctx = c.Context
	return h
}

// Recalled is HandleFor, but starts with the filter that is open under the key, if there is one. So a command of one
// item answers from memory as a used handle does, and counts for the cache.
func Recalled[F any](c *module.Call, key []byte, none *F) *Handle[F] {
	h := HandleFor(c, key, none)
	if h.Tx != nil { // what is in memory is not what a transaction sees
		return h
	}
	if o := h.DB.Opened(key); o != nil {
		if f, ok := o.Body().(*F); ok {
			h.Current.Store(f)
			h.found = o
		}
	}
	return h
}

// GivenUp returns the error of the command's context if it has ended, see kv.GivenUp.
func (h *Handle[F]) GivenUp(i int) error {
	if h.ctx == nil {
		return nil
	}
	return kv.GivenUp(h.ctx, i)
}

// Write runs a change of the key and of others, see kv.DB.Write.
func (h *Handle[F]) Write(level kv.Durability, change func(*kv.Writer) error, others ...[]byte) error {
	if h.refused != nil {
		return h.refused
	}
	if h.Tx != nil {
		return h.Tx.Write(change)
	}
	return h.DB.Write(level, append(others, h.Key), change)
}

// Change runs a change of the filter, and returns its answer, which is false after an error. If the filter is
// missing, it is made as spec says in the same commit; without spec that is an error.
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

// WriteItems is Write for a batch of items. stage returns how many items it staged. If an item has no room, those
// before it are committed and n is their number. After another error n is 0.
func (h *Handle[F]) WriteItems(level kv.Durability, stage func(*kv.Writer) (int, error)) (n int, err error) {
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

// maxBatch is the most that BatchSize returns. chainBytes is the most that a filter takes of a commit, besides its key,
// if it grows by all possible layers: a header with them, and the counters of each.
const (
	maxBatch   = 4096
	chainBytes = 2048 + MaxLayers*(256+64)
)

// BatchSize returns how many items, 1 to 4096, may be added in one commit if each takes at most itemBytes of it, see
// kv.DB.MaxCommit.
func (h *Handle[F]) BatchSize(itemBytes int) int {
	return max(1, min(maxBatch, (h.DB.MaxCommit()-h.ownBytes())/itemBytes))
}

// ownBytes returns how many bytes of a commit the filter takes besides its items, and the layers that it may get.
func (h *Handle[F]) ownBytes() int {
	n := chainBytes + len(h.Key)
	if o := h.DB.Opened(h.Key); o != nil {
		n += o.Header().LayersSize()
	}
	return n
}

// Room returns how many bytes of w's commit are left for items.
func (h *Handle[F]) Room(w *kv.Writer) int { return w.Room() - h.ownBytes() }

// Look resolves the key, and calls look with the filter. It may run several times, see kv.DB.Read.
func (h *Handle[F]) Look(look func(kv.Reader, *F) error) error {
	return h.Read(func(r kv.Reader) error {
		_, f, err := h.Find(r)
		if err != nil {
			return err
		}
		return look(r, f)
	})
}

// LookLong is Look for a lookup of many blocks: it sees everything as of one commit, and keeps no commit waiting.
func (h *Handle[F]) LookLong(look func(kv.Reader, *F) error) error {
	read := h.Read
	if h.Tx == nil {
		read = func(look func(kv.Reader) error) error { return h.DB.ReadWith(kv.ReadOptions{Long: true}, look) }
	}
	return read(func(r kv.Reader) error {
		_, f, err := h.Find(r)
		if err != nil {
			return err
		}
		return look(r, f)
	})
}

// Ask returns what ask returns for the filter.
func Ask[F, T any](h *Handle[F], ask func(*F, kv.Reader) T) (said T, err error) {
	err = h.Look(func(r kv.Reader, f *F) error {
		said = ask(f, r)
		return nil
	})
	return said, err
}

// Find resolves the key, remembers the filter, and returns it with its object.
func (h *Handle[F]) Find(r kv.Reader) (*kv.Object, *F, error) {
	o, err := r.Lookup(h.Key)
	if err != nil {
		return nil, nil, err
	}
	f, err := kv.As[*F](h.Key, o)
	if err != nil {
		return nil, nil, err
	}
	if r.Remembers() {
		h.Current.Store(f)
	}
	if h.ctx != nil {
		h.found = o
	}
	return o, f, nil
}

// Staged returns the filter as a writer sees it, and remembers it if the writer has not changed it.
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

// StagedOrReserved is Staged, but makes a missing filter as spec says; without spec that is an error.
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

// ReserveStaged stages an empty filter as spec says. If the key exists, it returns kv.ErrExists, which is
// kv.ErrWrongType too if the key does not hold such a filter.
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

// Reserve is ReserveStaged in its own commit.
func (h *Handle[F]) Reserve(level kv.Durability, spec Spec) error {
	return h.Write(level, func(w *kv.Writer) error { return h.ReserveStaged(w, spec) })
}

// OpenOrReserve is Reserve if the key is missing, and otherwise returns the error of mismatch for the filter.
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

// Drop removes the whole filter, and reports whether there was one. If the key holds another type, it changes nothing
// and returns kv.ErrWrongType.
func (h *Handle[F]) Drop(level kv.Durability) (found bool, err error) {
	found, err = h.Change(level, nil, func(w *kv.Writer, _ *F) (bool, error) { return w.Delete(h.Key) })
	if errors.Is(err, kv.ErrNotFound) {
		return false, nil
	}
	return found, err
}
