package kv_test

import (
	"errors"
	"testing"

	"github.com/sievekv/sievekv/kv"
)

// What is to be called after a commit is called once for each key, with the sum, when other writes may go on; and not at all if
// nothing was committed.
func TestTransaction_AfterCommit(t *testing.T) {
	db, err := kv.Open("", &kv.Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	called := make(map[string]int)
	write := func(n int) {
		if err := db.Write(kv.NoSync, [][]byte{[]byte("k")}, func(*kv.Writer) error { return nil }); err != nil {
			t.Error(err)
		}
		called["k"] += n
	}
	failed := errors.New("failed")
	for _, want := range []error{nil, failed} {
		if err := db.Update(t.Context(), kv.NoSync, func(tx *kv.Transaction) error {
			tx.AfterCommit("k", 2, write)
			tx.AfterCommit("l", 5, func(n int) { called["l"] += 100 + n })
			tx.AfterCommit("k", 3, nil)
			return want
		}); err != want {
			t.Fatal(err)
		}
	}
	tx, err := db.BeginExclusive(t.Context(), kv.NoSync)
	if err != nil {
		t.Fatal(err)
	}
	tx.AfterCommit("k", 10, write)
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if called["k"] != 15 || called["l"] != 105 || len(called) != 2 {
		t.Errorf("called with %v", called)
	}
	tx.AfterCommit("k", 1, write) // it has ended
}
