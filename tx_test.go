package sievekv_test

import (
	"errors"
	"testing"

	"github.com/sievekv/sievekv"
)

// The handles of a transaction, and of a view, are of it; those of the store are refused inside of it, and what they
// were to write is nowhere.
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
	must(db.Bloom("b").Reserve(sievekv.BloomConfig{Capacity: 100, ErrorRate: 1e-6}))
	must(db.Cuckoo("c").Reserve(sievekv.CuckooConfig{Capacity: 100, ErrorRate: 1e-6}))
	must(db.Counting("n").Reserve(sievekv.CountingConfig{Capacity: 100, ErrorRate: 1e-6}))
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
			must(tx.Cuckoo("c").AddString("x"))
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
			if err := db.Cuckoo("c").AddString("y"); !errors.Is(err, sievekv.ErrNested) {
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
