package guard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/kv"
)

// ErrUnknown is returned by Once if an earlier run of the same key began, and nobody knows whether it had its effect: the
// process died while it ran, or the function panicked or ended its goroutine.
var ErrUnknown = errors.New("guard: the outcome of an earlier run is unknown")

// onceRecord is what the store has under a key of Once, as JSON. Without an answer, the run has begun.
type onceRecord struct {
	Answer json.RawMessage `json:"answer,omitempty"`
}

// runs are the calls of Once whose function runs, by store and key.
var runs singleflight.Group

// Once runs f for a key, stores its answer for ttl, and returns it. A later call with the key within ttl returns the stored
// answer and does not run f. So a request that comes twice, with one idempotency key, has its effect once. Calls that come
// while f runs wait for its answer, each as long as its own context lasts. f goes on when callers give up; its context has
// the values of the first caller's, and no end.
//
// f runs at most once, also across a crash. Before it runs, a record that it has begun is on stable storage, and the answer
// is before Once returns. If the process dies in between, nobody knows whether f has had its effect: then, for ttl from the
// beginning of f on, Once returns ErrUnknown. The caller may find out whether the effect is there, and let the key run
// again by OnceForget. If f returns an error, it must have had no effect: nothing is kept, Once returns the error, and the
// next call runs f again. If f panics or ends its goroutine, the outcome is unknown, as after a crash.
//
// For an effect in the store itself use OnceTx, which has no such gap.
//
// The answer is stored as JSON, and every caller gets its own copy. ttl is at least a millisecond; 0 means for ever.
// The records are under keys that begin with "once:". A key is for Once or for OnceTx, not for both. The errors are
// f's, ErrUnknown, the context's, errors of encoding/json and of the store, and sievekv.ErrOptions for a ttl out of
// range and for an empty key: nobody chose it as a key, and it would give one caller the answer of another.
func Once[T any](ctx context.Context, db *sievekv.DB, key string, ttl time.Duration, f func(ctx context.Context) (T, error)) (answer T, err error) {
	if err := errors.Join(ctx.Err(), checkOnce("Once", key, ttl)); err != nil {
		return answer, err
	}
	result := runs.DoChan(fmt.Sprintf("%p %s", db.Store(), key), func() (any, error) {
		return runOnce(context.WithoutCancel(ctx), db.With(sievekv.Always), onceKey(key), ttl, func(ctx context.Context) ([]byte, error) {
			return encoded(ctx, f)
		})
	})
	select {
	case r := <-result:
		if r.Err != nil {
			return answer, r.Err
		}
		return decodeAnswer[T](r.Val.([]byte))
	case <-ctx.Done():
		return answer, ctx.Err()
	}
}

// encoded runs f, and returns its answer as JSON. f has a goroutine of its own: if it ends that, its callers must hear of it.
func encoded[T any](ctx context.Context, f func(ctx context.Context) (T, error)) (stored []byte, err error) {
	err = fmt.Errorf("%w: the function has ended its goroutine", ErrUnknown)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("%w: the function panicked: %v", ErrUnknown, p)
			}
		}()
		answer, ferr := f(ctx)
		if ferr != nil {
			err = ferr
			return
		}
		if stored, err = json.Marshal(answer); err != nil {
			err = fmt.Errorf("%w: its answer cannot be stored: %w", ErrUnknown, err)
		}
	}()
	<-ended
	return stored, err
}

func onceKey(key string) string { return "once:" + key }

// checkOnce returns an error if a function of this name cannot run with the key and the time to live.
func checkOnce(name, key string, ttl time.Duration) error {
	switch {
	case key == "":
		return fmt.Errorf("%w: guard: %s: the key is empty: at least 1 byte", sievekv.ErrOptions, name)
	case ttl != 0 && ttl < msec:
		return fmt.Errorf("%w: guard: %s: ttl is %v: at least %v, or 0 for ever", sievekv.ErrOptions, name, ttl, msec)
	}
	return nil
}

// runOnce returns the stored answer, or runs f and stores its answer. Only one goroutine does so for a key.
func runOnce(ctx context.Context, db *sievekv.DB, key string, ttl time.Duration, f func(context.Context) ([]byte, error)) ([]byte, error) {
	stored, err := beginOnce(db.Store(), []byte(key), ttl)
	if err != nil {
		return nil, err
	}
	if stored != nil {
		return storedAnswer(key, stored)
	}
	answer, err := f(ctx)
	switch {
	case errors.Is(err, ErrUnknown):
		return nil, err // the record stays
	case err != nil:
		_, derr := db.Delete(key)
		return nil, errors.Join(err, derr)
	}
	record, err := json.Marshal(onceRecord{answer})
	if err == nil {
		_, err = db.SetWith(key, record, sievekv.SetOptions{TTL: ttl})
	}
	if err != nil {
		return nil, fmt.Errorf("%w: the answer was not stored: %w", ErrUnknown, err)
	}
	return answer, nil
}

// beginOnce returns the record of a key, or nil after it has stored that a run has begun. It is one commit, with one
// look at the clock: with a look for each step, the record might exist in one step and have expired in the other.
func beginOnce(store *kv.DB, key []byte, ttl time.Duration) (stored []byte, err error) {
	err = store.Write(kv.Always, [][]byte{key}, func(w *kv.Writer) (err error) {
		if stored, err = w.Get(key); stored != nil || err != nil {
			return err
		}
		var o kv.SetOptions
		if ttl != 0 {
			o.Expiry = w.Now() + ttl.Milliseconds()
		}
		_, err = w.Set(key, []byte("{}"), o)
		return err
	})
	return stored, err
}

// storedAnswer returns the answer in a record.
func storedAnswer(key string, stored []byte) ([]byte, error) {
	var r onceRecord
	if err := json.Unmarshal(stored, &r); err != nil {
		return nil, fmt.Errorf("%w: key %q: %w", sievekv.ErrCorrupt, key, err)
	}
	if r.Answer == nil {
		return nil, fmt.Errorf("%w: key %q", ErrUnknown, key)
	}
	return r.Answer, nil
}

func decodeAnswer[T any](stored []byte) (answer T, err error) {
	err = json.Unmarshal(stored, &answer)
	return answer, err
}

// OnceTx is Once for an effect in the store: f, the effect and the record of the answer are one commit. So f has its effect
// exactly once, whatever crashes, and ErrUnknown never comes. f must write by tx alone and be quick, as in sievekv.DB.Update;
// other calls wait for it. If it returns an error, nothing is kept. key and ttl are as for Once.
func OnceTx[T any](ctx context.Context, db *sievekv.DB, key string, ttl time.Duration, f func(tx *sievekv.Tx) (T, error)) (answer T, err error) {
	if err := checkOnce("OnceTx", key, ttl); err != nil {
		return answer, err
	}
	err = db.With(sievekv.Always).Update(ctx, func(tx *sievekv.Tx) error {
		stored, err := tx.Get(onceKey(key))
		if err == nil {
			if stored, err = storedAnswer(onceKey(key), stored); err == nil {
				answer, err = decodeAnswer[T](stored)
			}
			return err
		}
		if !errors.Is(err, sievekv.ErrNotFound) {
			return err
		}
		if answer, err = f(tx); err != nil {
			return err
		}
		encoded, err := json.Marshal(answer)
		if err != nil {
			return err
		}
		record, err := json.Marshal(onceRecord{encoded})
		if err != nil {
			return err
		}
		_, err = tx.SetWith(onceKey(key), record, sievekv.SetOptions{TTL: ttl})
		return err
	})
	if err != nil {
		return *new(T), err
	}
	return answer, nil
}

// OnceForget removes the record of a key, so that Once and OnceTx run it again. It must not be called while the key
// runs. The errors are sievekv.ErrOptions for an empty key, and errors of the store.
func OnceForget(db *sievekv.DB, key string) error {
	if err := checkOnce("OnceForget", key, 0); err != nil {
		return err
	}
	_, err := db.With(sievekv.Always).Delete(onceKey(key))
	return err
}
