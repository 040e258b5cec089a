package kv_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/kv"
)

// sweepHeld begins a sweep, and returns when it has found its notes. GoOn lets it go on, and waits for its end.
func (s keyStore) sweepHeld(t *testing.T, held *stops) (goOn func()) {
	t.Helper()
	found := held.next("sweep: found")
	swept := make(chan error, 1)
	go func() {
		_, err := s.Sweep(t.Context())
		swept <- err
	}()
	<-found.reached
	return func() {
		t.Helper()
		found.release()
		if err := <-swept; err != nil {
			t.Fatal(err)
		}
	}
}

// A key that is set again while a sweep has its note stays.
func TestSweep_setMeanwhile(t *testing.T) {
	held := newStops()
	s := openKeys(t, nil, *kv.WithPause(&kv.Options{}, held.at))
	defer s.close(t)
	s.set(t, "k", "old", kv.SetOptions{Expiry: s.Now() + 1})
	s.passed.Store(1)
	goOn := s.sweepHeld(t, held)
	s.set(t, "k", "new", kv.SetOptions{})
	goOn()
	if v, err := s.Get([]byte("k")); string(v) != "new" || err != nil {
		t.Errorf("Get = %q, %v, want new", v, err)
	}
	s.check(t)
}

// A sweep does not say that nothing is left while another is about to remove keys.
func TestSweep_another(t *testing.T) {
	held := newStops()
	s := openKeys(t, nil, *kv.WithPause(&kv.Options{}, held.at))
	defer s.close(t)
	s.set(t, "k", "v", kv.SetOptions{Expiry: s.Now() + 1})
	s.passed.Store(1)
	goOn := s.sweepHeld(t, held)
	s.wantExpiryBacklog(t, 1)
	if more, err := s.Sweep(t.Context()); !more || err != nil {
		t.Errorf("Sweep = %v, %v beside one that has removed nothing yet, want more", more, err)
	}
	goOn()
	if more, err := s.Sweep(t.Context()); more || err != nil {
		t.Errorf("Sweep = %v, %v after all have ended, want no more", more, err)
	}
	if n, err := s.Size(); n != 0 || err != nil {
		t.Errorf("%d keys are left, %v", n, err)
	}
	s.check(t)
}

// A sweep leaves a key that is locked after it has found it, without waiting for the lock, and a later one comes to it.
func TestSweep_lockedMeanwhile(t *testing.T) {
	held := newStops()
	s := openKeys(t, nil, *kv.WithPause(&kv.Options{}, held.at))
	defer s.close(t)
	lock := func() *kv.Writer {
		w, err := s.Begin(kv.NoSync, []byte("k"))
		if err != nil {
			t.Error(err)
		}
		return w
	}
	w, other := lock(), "other"
	for !s.KeyFree(other) { // it has the same lock, as one key in 256 has
		other += "s"
	}
	w.Discard()
	s.set(t, "k", "v", kv.SetOptions{Expiry: s.Now() + 1})
	s.set(t, other, "v", kv.SetOptions{Expiry: s.Now() + 1})
	s.passed.Store(1)
	goOn := s.sweepHeld(t, held)
	w = lock()
	goOn()
	s.wantExpiryBacklog(t, 1)
	w.Discard()
	s.sweepAll(t)
	s.wantExpiryBacklog(t, 0)
	s.check(t)
}

// While a writer holds the locks of all keys that a sweep finds, there is nothing that a sweep can do at once: the service
// must not call it again without a rest. The keys are removed once the locks are free.
func TestSweep_allLocked(t *testing.T) {
	for name, hold := range map[string]func(s keyStore) (end func()){
		"a writer of the key": func(s keyStore) func() {
			w, err := s.Begin(kv.NoSync, []byte("k"))
			if err != nil {
				t.Fatal(err)
			}
			return w.Discard
		},
		"a transaction": func(s keyStore) func() {
			tx, err := s.BeginExclusive(t.Context(), kv.NoSync)
			if err != nil {
				t.Fatal(err)
			}
			return func() { _ = tx.Rollback() }
		},
	} {
		s := openKeys(t, nil, kv.Options{})
		s.set(t, "k", "v", kv.SetOptions{Expiry: s.Now() + 1})
		s.passed.Store(1)
		end := hold(s)
		for range 2 {
			if more, err := s.Sweep(t.Context()); more || err != nil {
				t.Errorf("%s: Sweep = %v, %v, want no more for now", name, more, err)
			}
			s.wantExpiryBacklog(t, 1)
		}
		end()
		if more, err := s.Sweep(t.Context()); more || err != nil {
			t.Errorf("%s: Sweep = %v, %v after its end, want no more", name, more, err)
		}
		if n := s.ExpiredKeys(); n != 1 {
			t.Errorf("%s: %d keys were removed", name, n)
		}
		s.check(t)
		s.close(t)
	}
}

// Expired keys that are locked hold up no others, however many they are.
func TestSweep_manyLocked(t *testing.T) {
	s := openKeys(t, nil, kv.Options{})
	defer s.close(t)
	begin := func() *kv.Writer {
		w, err := s.Begin(kv.NoSync, []byte("k"))
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	w := begin()
	var locked []string
	for i := 0; len(locked) < 40; i++ {
		if key := fmt.Sprint("locked ", i); !s.KeyFree(key) {
			locked = append(locked, key)
		}
	}
	w.Discard()
	for _, key := range locked {
		s.set(t, key, "v", kv.SetOptions{Expiry: s.Now() + 1})
	}
	w = begin()
	const others = 40
	for i, n := 0, 0; n < others; i++ {
		if key := fmt.Sprint("other ", i); s.KeyFree(key) {
			s.set(t, key, "v", kv.SetOptions{Expiry: s.Now() + 2})
			n++
		}
	}
	s.passed.Store(2)
	s.sweepAll(t)
	s.wantExpiryBacklog(t, len(locked))
	if n := s.ExpiredKeys(); n != others {
		t.Errorf("%d keys were removed, want %d", n, others)
	}
	w.Discard()
	s.sweepAll(t)
	s.wantExpiryBacklog(t, 0)
	s.check(t)
}

// A sweep makes a commit of a few keys, so that nobody waits long for one of them.
func TestSweep_few(t *testing.T) {
	s := openKeys(t, nil, kv.Options{})
	defer s.close(t)
	const keys, few = 40, 16
	for i := range keys {
		s.set(t, fmt.Sprint("k", i), "v", kv.SetOptions{Expiry: s.Now() + 1})
	}
	s.wantExpiryBacklog(t, 0)
	s.passed.Store(1)
	s.wantExpiryBacklog(t, keys)
	if more, err := s.Sweep(t.Context()); !more || err != nil {
		t.Errorf("Sweep = %v, %v, want more", more, err)
	}
	if n := s.ExpiredKeys(); n != few {
		t.Errorf("%d keys were removed in one commit, want %d", n, few)
	}
	s.wantExpiryBacklog(t, keys-few)
	s.sweepAll(t)
	s.wantExpiryBacklog(t, 0)
	s.check(t)
}

// A key that takes more than half of a commit is removed by itself.
func TestSweep_longKey(t *testing.T) {
	s := openKeys(t, nil, kv.Options{MemTableSize: 256 << 10})
	defer s.close(t)
	s.set(t, strings.Repeat("k", 20_000), "v", kv.SetOptions{Expiry: s.Now() + 1})
	s.passed.Store(1)
	if more, err := s.Sweep(t.Context()); more || err != nil {
		t.Errorf("Sweep = %v, %v, want no more", more, err)
	}
	if n, err := s.Size(); n != 0 || err != nil {
		t.Errorf("%d keys are left, %v", n, err)
	}
	s.check(t)
}

// A time that has come removes a key at once, and the condition is looked at before.
func TestExpire_now(t *testing.T) {
	s := openKeys(t, nil, kv.Options{})
	defer s.close(t)
	s.set(t, "k", "v", kv.SetOptions{})
	for _, tt := range []struct {
		at   int64
		cond kv.ExpireIf
		done bool
		keys uint64
	}{
		{s.Now(), kv.ExpireIfSet, false, 1},
		{s.Now() + 10, kv.ExpireIfUnset, true, 1},
		{s.Now() + 10, kv.ExpireIfLater, false, 1},
		{s.Now() + 10, kv.ExpireIfSooner, false, 1},
		{s.Now(), kv.ExpireAlways, true, 0},
	} {
		var done bool
		err := s.Write(kv.NoSync, [][]byte{[]byte("k")}, func(w *kv.Writer) (err error) {
			done, err = w.Expire([]byte("k"), tt.at, tt.cond)
			return err
		})
		if done != tt.done || err != nil {
			t.Errorf("Expire(%d, %d) = %v, %v, want %v", tt.at-s.Now(), tt.cond, done, err, tt.done)
		}
		if n, err := s.Size(); n != tt.keys || err != nil {
			t.Errorf("%d keys, %v, want %d", n, err, tt.keys)
		}
	}
	s.check(t)
}

// wantExpiryBacklog checks how many keys have expired and are still stored.
func (s keyStore) wantExpiryBacklog(t *testing.T, want int) {
	t.Helper()
	m, err := s.Metrics()
	if err != nil || m.ExpiryBacklog != want {
		t.Errorf("%d expired keys are still stored (%v), want %d", m.ExpiryBacklog, err, want)
	}
}
