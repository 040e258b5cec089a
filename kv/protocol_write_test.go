package kv_test

import (
	"errors"
	"runtime"
	"testing"

	"github.com/sievekv/sievekv/kv"
)

// unfinished runs f in a goroutine of its own, and wants it to panic, or to end that goroutine.
func (s *store) unfinished(name string, f func()) {
	s.t.Helper()
	returned := make(chan bool)
	go func() {
		done := false
		defer func() {
			_ = recover()
			returned <- done
		}()
		f()
		done = true
	}()
	if <-returned {
		s.t.Errorf("%s returned", name)
	}
}

// A writer that its function panics with, or ends the goroutine, holds nothing afterwards, and leaves nothing.
func TestWrite_unfinished(t *testing.T) {
	s := openStore(t, inMemory())
	stage := func(w *kv.Writer) {
		if _, err := w.Set([]byte("k"), []byte("half"), kv.SetOptions{}); err != nil {
			t.Error(err)
		}
	}
	for name, end := range map[string]func(){"panic": func() { panic("no") }, "end of the goroutine": runtime.Goexit} {
		s.unfinished(name, func() {
			_ = s.Write(kv.NoSync, [][]byte{[]byte("k")}, func(w *kv.Writer) error {
				stage(w)
				end()
				return nil
			})
		})
		if !s.KeyFree("k") || !s.GateFree() {
			t.Fatalf("after a %s the lock of the key, or the gate, is taken", name)
		}
		tx, err := s.BeginExclusive(t.Context(), kv.NoSync)
		s.must(err)
		s.unfinished(name+" in a transaction", func() {
			_ = tx.Write(func(w *kv.Writer) error {
				stage(w)
				end()
				return nil
			})
		})
		if !tx.Free() {
			t.Fatalf("after a %s the transaction is taken", name)
		}
		s.unfinished(name+" of a lookup in a transaction", func() {
			_ = tx.Read(func(kv.Reader) error {
				end()
				return nil
			})
		})
		if !tx.Free() {
			t.Fatalf("after a %s of a lookup the transaction is taken", name)
		}
		s.must(tx.Write(func(w *kv.Writer) error {
			_, err := w.Set([]byte("l"), []byte(name), kv.SetOptions{})
			return err
		}))
		s.must(tx.Commit())
		if v, err := s.Get([]byte("k")); !errors.Is(err, kv.ErrNotFound) {
			t.Errorf("after a %s there is %q, %v", name, v, err)
		}
		if v, err := s.Get([]byte("l")); string(v) != name || err != nil {
			t.Errorf("what a transaction wrote after a %s is %q, %v", name, v, err)
		}
	}
}
