package kv_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/sievekv/sievekv/kv"
)

// endsAfter is a context that ends when it was asked so often.
type endsAfter struct {
	context.Context
	n atomic.Int64
}

func (c *endsAfter) Err() error {
	if c.n.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// A scan is given up between any two keys, those that the transaction it is in has made included.
func TestScan_givenUp(t *testing.T) {
	s := openKeys(t, nil, kv.Options{})
	defer s.close(t)
	const keys = 100
	set := func(w *kv.Writer, prefix string) error {
		for i := range keys {
			if _, err := w.Set(fmt.Append(nil, prefix, i), []byte("v"), kv.SetOptions{}); err != nil {
				return err
			}
		}
		return nil
	}
	if err := s.DB.Update(t.Context(), kv.NoSync, func(tx *kv.Transaction) error {
		return tx.Write(func(w *kv.Writer) error { return set(w, "k") })
	}); err != nil {
		t.Fatal(err)
	}
	for name, begin := range map[string]func(w *kv.Writer) error{
		"stored": func(*kv.Writer) error { return nil },
		"staged": func(w *kv.Writer) error { w.DeleteEverything(); return set(w, "l") },
		"both":   func(w *kv.Writer) error { return set(w, "l") },
	} {
		rollback := errors.New("rollback")
		err := s.DB.Update(t.Context(), kv.NoSync, func(tx *kv.Transaction) error {
			if err := tx.Write(begin); err != nil {
				return err
			}
			return tx.Read(func(r kv.Reader) error {
				for n := range keys {
					ctx := &endsAfter{Context: context.Background()}
					ctx.n.Store(int64(n))
					found, _, err := r.ScanFrom(ctx, 0, 1<<20, kv.ScanOptions{})
					if !errors.Is(err, context.Canceled) || len(found) > n {
						t.Errorf("%s: a scan that ends after %d looks: %d keys, %v", name, n, len(found), err)
						break
					}
				}
				return rollback
			})
		})
		if !errors.Is(err, rollback) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Only a writer that may touch any key deletes all keys.
func TestWriter_DeleteAll_ofNamedKeys(t *testing.T) {
	s := openKeys(t, nil, kv.Options{})
	defer s.close(t)
	set := func(w *kv.Writer) error {
		_, err := w.Set([]byte("k"), []byte("v"), kv.SetOptions{})
		return err
	}
	if err := s.Write(kv.NoSync, [][]byte{[]byte("k")}, set); err != nil {
		t.Fatal(err)
	}
	if err := s.Write(kv.NoSync, [][]byte{[]byte("j")}, (*kv.Writer).DeleteAll); err == nil {
		t.Error("a writer of one key has deleted all")
	}
	if n, err := s.Size(); n != 1 || err != nil {
		t.Errorf("%d keys are left, %v, want 1", n, err)
	}
	if err := s.DB.Update(t.Context(), kv.NoSync, func(tx *kv.Transaction) error { return tx.Write((*kv.Writer).DeleteAll) }); err != nil {
		t.Error(err)
	}
	if n, err := s.Size(); n != 0 || err != nil {
		t.Errorf("%d keys are left, %v, want 0", n, err)
	}
}
