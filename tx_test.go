package sievekv_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/sievekv/sievekv"
)

// Handles of a transaction or a snapshot see only that. Inside it, handles of the store are refused, and write
// nothing.
func TestTx_handles(t *testing.T) {
	db := inMemory()
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(db.Bloom("b").Reserve(sievekv.Capacity(100, 1e-6), nil))
	must(db.Cuckoo("c").Reserve(sievekv.Capacity(100, 1e-6), nil))
	must(db.Counting("n").Reserve(sievekv.Capacity(100, 1e-6), nil))
	all := func(b *sievekv.Bloom, c *sievekv.Cuckoo, n *sievekv.Counting, item string) (there [3]bool, err error) {
		var errs [3]error
		there[0], errs[0] = b.MayContainString(item)
		there[1], errs[1] = c.MayContainString(item)
		there[2], errs[2] = n.MayContainString(item)
		return there, errors.Join(errs[:]...)
	}
	outside := func(item string) ([3]bool, error) { return all(db.Bloom("b"), db.Cuckoo("c"), db.Counting("n"), item) }
	none, every := [3]bool{}, [3]bool{true, true, true}
	failure := errors.New("no")
	for _, want := range []error{failure, nil} {
		err := db.Update(t.Context(), func(tx *sievekv.Tx) error {
			_, err := tx.Bloom("b").AddString("x")
			must(err)
			_, err = tx.Cuckoo("c").AddString("x")
			must(err)
			_, err = tx.Counting("n").AddString("x")
			must(err)
			if there, err := all(tx.Bloom("b"), tx.Cuckoo("c"), tx.Counting("n"), "x"); there != every || err != nil {
				t.Errorf("inside: %v, %v", there, err)
			}
			if there, err := outside("x"); there != none || err != nil {
				t.Errorf("outside: %v, %v", there, err)
			}
			if _, err := db.Bloom("b").AddString("y"); !errors.Is(err, sievekv.ErrNested) {
				t.Errorf("Add = %v, want ErrNested", err)
			}
			if _, err := db.Cuckoo("c").AddString("y"); !errors.Is(err, sievekv.ErrNested) {
				t.Errorf("Add = %v, want ErrNested", err)
			}
			if _, err := db.Counting("n").AddString("y"); !errors.Is(err, sievekv.ErrNested) {
				t.Errorf("Add = %v, want ErrNested", err)
			}
			if err := db.Set("k", nil); !errors.Is(err, sievekv.ErrNested) {
				t.Errorf("Set = %v, want ErrNested", err)
			}
			return want
		})
		if !errors.Is(err, want) {
			t.Errorf("Update = %v, want %v", err, want)
		}
	}
	must(db.View(t.Context(), func(s *sievekv.Snapshot) error {
		_, err := db.Bloom("b").AddString("later") // nobody waits for a view
		must(err)
		if there, err := all(s.Bloom("b"), s.Cuckoo("c"), s.Counting("n"), "x"); there != every || err != nil {
			t.Errorf("view: %v, %v", there, err)
		}
		if there, err := s.Bloom("b").MayContainString("later"); there || err != nil {
			t.Errorf("view: what was added later is there: %v, %v", there, err)
		}
		return nil
	}))
	if there, err := outside("y"); there != none || err != nil {
		t.Errorf("what was refused is there: %v, %v", there, err)
	}
}

// A transaction and a snapshot have the store's methods on keys, with the same answers.
func TestTx_keys(t *testing.T) {
	db, clock := withClock()
	defer db.Close()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	yes := func(done bool, err error) {
		t.Helper()
		if !done || err != nil {
			t.Errorf("done = %v, %v", done, err)
		}
	}
	must(db.Set("gone", []byte("x")))
	must(db.Bloom("f").Reserve(sievekv.Capacity(10, 0.01), nil))
	keysOf := func(keys func(func(string, error) bool)) (n int) {
		for key, err := range keys {
			must(err)
			if key == "gone" {
				t.Error("a key that was removed is there")
			}
			n++
		}
		return n
	}
	type reader interface {
		MGet(keys ...string) ([][]byte, error)
		TTL(key string) (time.Duration, error)
		TypeOf(key string) (string, error)
		Scan(ctx context.Context, o sievekv.ScanOptions) iter.Seq2[string, error]
		Exists(keys ...string) (int, error)
	}
	look := func(r reader, left time.Duration) {
		t.Helper()
		values, err := r.MGet("a", "f", "none", "moved")
		if err != nil || string(values[0]) != "1" || values[1] != nil || values[2] != nil || string(values[3]) != "2" {
			t.Errorf("MGet = %q, %v", values, err)
		}
		for key, want := range map[string]time.Duration{"a": left, "moved": 0, "c": left} {
			if ttl, err := r.TTL(key); ttl != want || err != nil {
				t.Errorf("TTL of %s = %v, %v, want %v", key, ttl, err, want)
			}
		}
		if _, err := r.TTL("none"); !errors.Is(err, sievekv.ErrNotFound) {
			t.Errorf("TTL of a missing key = %v", err)
		}
		for key, want := range map[string]string{"a": "string", "f": "MBbloom--", "none": "none"} {
			if name, err := r.TypeOf(key); name != want || err != nil {
				t.Errorf("TypeOf %s = %s, %v, want %s", key, name, err, want)
			}
		}
		if n, err := r.Exists("a", "a", "gone"); n != 2 || err != nil {
			t.Errorf("Exists = %d, %v", n, err)
		}
		if n := keysOf(r.Scan(t.Context(), sievekv.ScanOptions{})); n != 4 {
			t.Errorf("Scan returns %d keys, want 4", n)
		}
	}
	must(db.Update(t.Context(), func(tx *sievekv.Tx) error {
		must(tx.MSet(map[string][]byte{"a": []byte("1"), "b": []byte("2")}))
		yes(tx.Expire("a", time.Minute))
		yes(tx.SetWith("c", []byte("3"), sievekv.SetOptions{If: sievekv.IfMissing, TTL: time.Minute}))
		if done, err := tx.SetWith("c", nil, sievekv.SetOptions{If: sievekv.IfMissing}); done || err != nil {
			t.Errorf("SetWith = %v, %v, want false", done, err)
		}
		if _, err := tx.SetWith("c", nil, sievekv.SetOptions{TTL: 1}); !errors.Is(err, sievekv.ErrOptions) {
			t.Errorf("SetWith of a nanosecond = %v", err)
		}
		yes(tx.ExpireAt("b", clock.now().Add(time.Hour)))
		yes(tx.Persist("b"))
		yes(tx.RenameIfFree("b", "moved"))
		if done, err := tx.RenameIfFree("moved", "c"); done || err != nil {
			t.Errorf("RenameIfFree = %v, %v, want false", done, err)
		}
		yes(tx.Copy(t.Context(), "gone", "copy", false))
		if n, err := tx.Delete("gone", "copy", "never"); n != 2 || err != nil {
			t.Errorf("Delete = %d, %v", n, err)
		}
		look(tx, time.Minute)
		return nil
	}))
	look(db, time.Minute)
	must(db.View(t.Context(), func(s *sievekv.Snapshot) error {
		clock.advance(time.Hour) // it stays as it was
		must(db.Set("later", nil))
		look(s, time.Minute)
		if _, err := s.Bloom("f").AddString("x"); !errors.Is(err, sievekv.ErrReadOnly) {
			t.Errorf("Add = %v, want ErrReadOnly", err)
		}
		return nil
	}))
}
