package kv_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/kv"
)

// set sets a string to a value.
func setString(s *store, key, value string) error {
	_, err := s.Set(kv.NoSync, []byte(key), []byte(value), kv.SetOptions{})
	return err
}

func (s *store) wantMissing(keys ...string) {
	s.t.Helper()
	for _, key := range keys {
		if n, err := s.Exists([]byte(key)); n != 0 || err != nil {
			s.t.Errorf("key %s is there: %d, %v", key, n, err)
		}
	}
}

// A transaction that waits for another gives up when its context ends, and leaves no trace at the gate.
func TestTransaction_waitGivenUp(t *testing.T) {
	s := openStore(t, inMemory())
	first, err := s.BeginExclusive(t.Context(), kv.NoSync)
	s.must(err)
	why := errors.New("why")
	for name, begin := range map[string]func(context.Context) error{
		"begin": func(ctx context.Context) error { _, err := s.BeginExclusive(ctx, kv.NoSync); return err },
		"update": func(ctx context.Context) error {
			return s.Update(ctx, kv.NoSync, func(*kv.Transaction) error { t.Error("it runs"); return nil })
		},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		waiting := s.begin(func() error {
			if err := begin(ctx); !errors.Is(err, why) {
				return errors.Join(errors.New(name+" was not given up"), err)
			}
			return nil
		})
		until(func() bool { return s.GateWaiters() == 1 })
		cancel(why)
		waiting.wait()
	}
	behind := s.begin(func() error { return setString(s, "k", "v") })
	until(func() bool { return s.GateWaiters() == 1 })
	s.must(first.Commit())
	behind.wait()
	if !s.GateFree() {
		t.Error("the gate is not free")
	}
}

// A write inside of a transaction's function that is not part of it fails at once, whatever its context, and so does
// one that is given the transaction's context. Nothing of it is there afterwards.
func TestTransaction_nestedWrite(t *testing.T) {
	s := openStore(t, inMemory())
	s.makeFilter("f", []string{"x"})
	s.makeFilter("g", []string{"y"})
	f, g := bloomext.New(s.DB, "f"), bloomext.New(s.DB, "g")
	background := context.Background()
	writes := map[string]func(context.Context) error{
		"SET":    func(context.Context) error { return setString(s, "k", "v") },
		"add":    func(context.Context) error { _, err := f.Add([]byte("new")); return err },
		"merge":  func(ctx context.Context) error { return f.Merge(ctx, g) },
		"rename": func(context.Context) error { return s.Rename(kv.NoSync, []byte("f"), []byte("k")) },
		"copy": func(ctx context.Context) error {
			_, err := s.Copy(ctx, kv.NoSync, []byte("f"), []byte("k"), false)
			return err
		},
		"flush": func(context.Context) error { return s.DeleteAll(kv.NoSync) },
		"update": func(ctx context.Context) error {
			return s.Update(ctx, kv.NoSync, func(*kv.Transaction) error { t.Error("it runs"); return nil })
		},
		"begin": func(ctx context.Context) error { _, err := s.BeginExclusive(ctx, kv.NoSync); return err },
	}
	failure := errors.New("no")
	for name, write := range writes {
		err := s.Update(t.Context(), kv.NoSync, func(tx *kv.Transaction) error {
			if err := write(background); !errors.Is(err, kv.ErrNested) {
				t.Errorf("%s = %v, want ErrNested", name, err)
			}
			if err := write(tx.Context()); !errors.Is(err, kv.ErrNested) {
				t.Errorf("%s with the transaction's context = %v, want ErrNested", name, err)
			}
			return failure
		})
		if !errors.Is(err, failure) {
			t.Errorf("Update = %v", err)
		}
	}
	for _, name := range []string{"merge", "copy", "update", "begin"} {
		err := s.Update(t.Context(), kv.NoSync, func(tx *kv.Transaction) error {
			other := make(chan error)
			go func() { other <- writes[name](tx.Context()) }()
			if err := <-other; !errors.Is(err, kv.ErrNested) {
				t.Errorf("%s of another goroutine with the transaction's context = %v, want ErrNested", name, err)
			}
			return failure
		})
		if !errors.Is(err, failure) {
			t.Errorf("Update = %v", err)
		}
	}
	s.wantMissing("k")
	if there, err := f.MayContain([]byte("new")); there || err != nil {
		t.Errorf("an item that was not added is there: %t, %v", there, err)
	}
	s.must(setString(s, "k", "v"))
}

// A write inside of the function of one store's transaction to another store, whose transaction is another
// goroutine's, waits for that.
func TestTransaction_twoStores(t *testing.T) {
	s, other := openStore(t, inMemory()), openStore(t, inMemory())
	waits := func(end func()) {
		t.Helper()
		second := s.begin(func() error {
			return s.Update(t.Context(), kv.NoSync, func(*kv.Transaction) error { return setString(other, "k", "v") })
		})
		until(func() bool { return other.GateWaiters() == 1 || second.ended() })
		end()
		second.wait()
	}
	began, end := make(chan struct{}), make(chan struct{})
	first := other.begin(func() error {
		return other.Update(t.Context(), kv.NoSync, func(*kv.Transaction) error {
			close(began)
			<-end
			return nil
		})
	})
	<-began
	waits(func() { close(end) })
	first.wait()
	tx, err := other.BeginExclusive(t.Context(), kv.NoSync)
	s.must(err)
	waits(func() { s.must(tx.Commit()) })
}

// A write that a transaction's function has another goroutine make, and waits for, fails after a while in which the
// function does nothing else. It is not made after the transaction either, which its context may have ended before.
func TestTransaction_nestedElsewhere(t *testing.T) {
	for _, ended := range []bool{false, true} {
		s := openStore(t, &kv.Options{InMemory: true, Durability: kv.NoSync, MaxIdleTransaction: time.Millisecond})
		s.makeFilter("f", nil)
		f := bloomext.New(s.DB, "f")
		ctx, cancel := context.WithCancel(t.Context())
		err := s.Update(ctx, kv.NoSync, func(tx *kv.Transaction) error {
			if ended {
				cancel()
				until(func() bool { return errors.Is(tx.Read(func(kv.Reader) error { return nil }), kv.ErrEnded) })
			}
			for name, write := range map[string]func() error{
				"SET":   func() error { return setString(s, "k", "v") },
				"add":   func() error { _, err := f.Add([]byte("new")); return err },
				"flush": func() error { return s.DeleteAll(kv.NoSync) },
				"begin": func() error { _, err := s.BeginExclusive(context.Background(), kv.NoSync); return err },
			} {
				made := make(chan error)
				go func() { made <- write() }()
				if err := <-made; !errors.Is(err, kv.ErrBusy) {
					t.Errorf("%s = %v, want ErrBusy", name, err)
				}
			}
			return tx.Write(func(w *kv.Writer) error {
				_, err := w.Set([]byte("l"), nil, kv.SetOptions{})
				return err
			})
		})
		if errors.Is(err, kv.ErrEnded) != ended {
			t.Errorf("Update = %v", err)
		}
		s.wantMissing("k")
		if there, err := f.MayContain([]byte("new")); there || err != nil {
			t.Errorf("an item that was not added is there: %t, %v", there, err)
		}
		s.must(setString(s, "k", "v"))
		cancel()
	}
}

// However long a transaction works, others wait for it.
func TestTransaction_slow(t *testing.T) {
	s := openStore(t, &kv.Options{InMemory: true, Durability: kv.NoSync, MaxIdleTransaction: time.Millisecond})
	tx, err := s.BeginExclusive(t.Context(), kv.NoSync)
	s.must(err)
	var waiting *task
	looks := make(chan struct{})
	work := func() error {
		waiting = s.begin(func() error { return setString(s, "k", "v") })
		for range 10 { // times that it has looked whether the transaction is idle
			<-looks
		}
		return nil
	}
	s.each("gate: waiting", func() {
		select {
		case looks <- struct{}{}:
		case <-t.Context().Done():
		}
	})
	s.must(tx.Write(func(*kv.Writer) error { return work() }))
	s.each("gate: waiting", func() {})
	go func() {
		for range looks {
		}
	}()
	s.must(tx.Commit())
	waiting.wait()
	close(looks)
}

// Close waits neither for a transaction's function nor for a goroutine that waits for it, and nothing is written past
// the transaction any more.
func TestTransaction_closed(t *testing.T) {
	s := openStore(t, &kv.Options{InMemory: true, Durability: kv.NoSync, MaxIdleTransaction: -1})
	s.makeFilter("f", nil)
	err := s.Update(t.Context(), kv.NoSync, func(tx *kv.Transaction) error {
		waiting := s.begin(func() error { return passOver(setString(s, "k", "v"), kv.ErrClosed) })
		until(func() bool { return s.GateWaiters() == 1 })
		s.must(s.Close())
		waiting.wait()
		if err := setString(s, "k", "v"); !errors.Is(err, kv.ErrClosed) && !errors.Is(err, kv.ErrNested) {
			t.Errorf("a write after Close = %v", err)
		}
		return nil
	})
	if !errors.Is(err, kv.ErrClosed) {
		t.Errorf("Update = %v, want ErrClosed", err)
	}
}

// A handle that is bound to a transaction of another store, or to none, is of no use, and says so.
func TestTransaction_otherStore(t *testing.T) {
	s, other := openStore(t, inMemory()), openStore(t, inMemory())
	s.makeFilter("f", []string{"x"})
	f := bloomext.New(s.DB, "f")
	other.makeFilter("f", nil)
	for name, begin := range map[string]func() (*kv.Transaction, error){
		"transaction": func() (*kv.Transaction, error) { return other.BeginExclusive(t.Context(), kv.NoSync) },
		"view":        func() (*kv.Transaction, error) { return other.NewView(t.Context()) },
	} {
		tx, err := begin()
		s.must(err)
		bound := f.In(tx)
		if there, err := bound.MayContain([]byte("x")); !there || !errors.Is(err, kv.ErrOtherStore) {
			t.Errorf("%s: MayContain = %t, %v, want ErrOtherStore", name, there, err)
		}
		if _, err := bound.Add([]byte("x")); !errors.Is(err, kv.ErrOtherStore) {
			t.Errorf("%s: Add = %v, want ErrOtherStore", name, err)
		}
		if _, err := bound.Info(); !errors.Is(err, kv.ErrOtherStore) {
			t.Errorf("%s: Info = %v, want ErrOtherStore", name, err)
		}
		s.must(tx.Rollback())
	}
	if _, err := f.In(nil).Add([]byte("x")); err == nil {
		t.Error("a handle bound to nothing adds")
	}
	if there, err := bloomext.New(other.DB, "f").MayContain([]byte("x")); there || err != nil {
		t.Errorf("the other store's filter has %t, %v", there, err)
	}
}
