package txn_test

import (
	"context"
	"errors"
	"testing"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/internal/txntest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
)

// A change that fails leaves the transaction as it was before, whatever the change did and earlier ones staged.
func TestTx_takenBack(t *testing.T) {
	refused := errors.New("refused")
	for name, change := range map[string]func(w *kv.Writer, seen *bloomext.Filter) error{
		"string": func(w *kv.Writer, _ *bloomext.Filter) error {
			_, err := w.Set([]byte("row"), []byte("2"), kv.SetOptions{})
			return err
		},
		"new string": func(w *kv.Writer, _ *bloomext.Filter) error {
			_, err := w.Set([]byte("new"), []byte("2"), kv.SetOptions{})
			return err
		},
		"deleted string": func(w *kv.Writer, _ *bloomext.Filter) error {
			_, err := w.Delete([]byte("row"))
			return err
		},
		"items": func(w *kv.Writer, seen *bloomext.Filter) error {
			_, err := seen.AddStaged(w, [][]byte{[]byte("b"), []byte("c")}, make([]bool, 2))
			return err
		},
		"deleted filter": func(w *kv.Writer, _ *bloomext.Filter) error {
			_, err := w.Delete([]byte("seen"))
			return err
		},
		"renamed filter": func(w *kv.Writer, _ *bloomext.Filter) error {
			return w.Rename([]byte("seen"), []byte("new"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := open(t, kv.Options{})
			seen := reserve(t, db, "seen", 10_000)
			update(t, db, func(tx *txntest.Tx) error {
				in := seen.In(tx)
				must(t, tx.Set("row", []byte("1")))
				_, err := in.Add([]byte("a"))
				must(t, err)
				err = tx.Write(func(w *kv.Writer) error { return errors.Join(change(w, seen), refused) })
				if !errors.Is(err, refused) {
					t.Errorf("Write = %v, want %v", err, refused)
				}
				// An undone change can be made again.
				for _, item := range []string{"b", "c"} {
					if isNew, err := in.Add([]byte(item)); !isNew || err != nil {
						t.Errorf("Add of %s that was taken back = %v, %v, want true", item, isNew, err)
					}
				}
				if isNew, err := in.Add([]byte("a")); isNew || err != nil {
					t.Errorf("Add of an item added before = %v, %v, want false", isNew, err)
				}
				return nil
			})
			if v, err := db.Get([]byte("row")); string(v) != "1" || err != nil {
				t.Errorf("Get = %q, %v, want 1", v, err)
			}
			if n, err := db.Exists([]byte("new")); n != 0 || err != nil {
				t.Errorf("Exists = %d, %v, want 0", n, err)
			}
			if info, err := seen.Info(); err != nil || info.Items != 3 {
				t.Errorf("%d items, %v, want 3", info.Items, err)
			}
		})
	}
}

// Many bits are undone in another way than few.
func TestTx_takenBack_many(t *testing.T) {
	db := open(t, kv.Options{})
	seen := reserve(t, db, "seen", 10_000)
	items := make([][]byte, 100)
	for i := range items {
		items[i] = []byte{byte(i)}
	}
	refused := errors.New("refused")
	update(t, db, func(tx *txntest.Tx) error {
		in := seen.In(tx)
		half := items[:50]
		_, err := in.AddMany(half, make([]bool, 50))
		must(t, err)
		err = tx.Write(func(w *kv.Writer) error {
			_, err := seen.AddStaged(w, items, make([]bool, 100))
			return errors.Join(err, refused)
		})
		if !errors.Is(err, refused) {
			t.Errorf("Write = %v, want %v", err, refused)
		}
		isNew := make([]bool, 100)
		_, err = in.AddMany(items, isNew)
		must(t, err)
		for i := range items {
			if isNew[i] != (i >= 50) {
				t.Errorf("item %d is new: %t", i, isNew[i])
			}
		}
		return nil
	})
	present := make([]bool, 100)
	must(t, seen.MayContainMany(items, present))
	for i, p := range present {
		if !p {
			t.Errorf("item %d is lost", i)
		}
	}
}

// A transaction does not begin if its context has ended, and none outlives its function.
func TestTx_ends(t *testing.T) {
	db := open(t, kv.Options{})
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := txntest.Begin(gone, db, kv.NoSync); !errors.Is(err, context.Canceled) || errors.Is(err, kv.ErrEnded) {
		t.Errorf("Begin = %v, want %v", err, context.Canceled)
	}
	var view *txntest.Snapshot
	must(t, txntest.View(t.Context(), db, func(s *txntest.Snapshot) error {
		view = s
		return nil
	}))
	if _, err := view.Exists("k"); !errors.Is(err, kv.ErrEnded) {
		t.Errorf("Exists in a view that has ended = %v, want %v", err, kv.ErrEnded)
	}
}

// Refused commands abort what MULTI began, and queued words are copies.
func TestMulti_refused(t *testing.T) {
	db := open(t, kv.Options{})
	session := module.NewSession(db)
	do := func(words ...string) string {
		args := make([][]byte, len(words))
		for i, w := range words {
			args[i] = []byte(w)
		}
		got := session.Do(t.Context(), args).String()
		for _, arg := range args {
			for i := range arg {
				arg[i] = '#' // a sender uses its memory again
			}
		}
		return got
	}
	for _, line := range []struct {
		words []string
		want  string
	}{
		{[]string{"MULTI"}, "OK"},
		{[]string{"SET", "k", "v"}, "QUEUED"},
		{[]string{"EXEC"}, "1) OK"},
		{[]string{"GET", "k"}, `"v"`},
		{[]string{"MULTI"}, "OK"},
		{[]string{"DEL", "k"}, "QUEUED"},
		{[]string{"SIEVE.CHECK"}, "(error) ERR Command not allowed inside a transaction"},
		{[]string{"EXEC"}, "(error) EXECABORT Transaction discarded because of previous errors."},
		{[]string{"MULTI"}, "OK"},
		{[]string{"DEL", "k"}, "QUEUED"},
		{[]string{"EXEC", "now"}, "(error) EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command"},
		{[]string{"GET", "k"}, `"v"`},
	} {
		if got := do(line.words...); got != line.want {
			t.Errorf("%q answers %s, want %s", line.words, got, line.want)
		}
	}
}
