package countingext_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// Lookups in a missing filter return an error, and true.
func TestFilter_missing(t *testing.T) {
	db := open(t, kv.Options{})
	f := countingext.New(db, "f")
	item := [][]byte{[]byte("a")}
	answer := make([]bool, 1)
	if ok, err := f.MayContain(item[0]); !ok || !errors.Is(err, kv.ErrNotFound) {
		t.Errorf("MayContain = %t, %v", ok, err)
	}
	if err := f.MayContainMany(item, answer); !answer[0] || !errors.Is(err, kv.ErrNotFound) {
		t.Errorf("MayContainMany = %t, %v", answer, err)
	}
	for name, err := range map[string]error{
		"Add":        errorOf(f.Add(item[0])),
		"AddMany":    errorOf(f.AddMany(item, answer)),
		"Delete":     errorOf(f.Delete(item[0])),
		"DeleteMany": errorOf(f.DeleteMany(item, answer)),
		"Count":      errorOf(f.Count(item[0])),
		"Info":       errorOf(f.Info()),
		"Merge":      f.Merge(t.Context(), countingext.New(db, "g")),
	} {
		if !errors.Is(err, kv.ErrNotFound) {
			t.Errorf("%s: %v, want ErrNotFound", name, err)
		}
	}
	for name, err := range map[string]error{
		"AddMany":        errorOf(f.AddMany(item, make([]bool, 2))),
		"DeleteMany":     errorOf(f.DeleteMany(item, make([]bool, 2))),
		"MayContainMany": f.MayContainMany(item, make([]bool, 2)),
	} {
		if err == nil || !strings.Contains(err.Error(), "2 answers for 1 items") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func errorOf[T any](_ T, err error) error { return err }

// A transaction sees its own changes; others see all of them after the commit, or none after a rollback.
func TestFilter_In(t *testing.T) {
	for _, commit := range []bool{true, false} {
		db := open(t, kv.Options{})
		f := countingext.New(db, "f")
		must(t, f.Reserve(countingext.Config{Capacity: 2, ErrorRate: 0.001}))
		addMany(t, f, itemsFrom("i", 0, 2))
		tx, err := db.BeginExclusive(t.Context(), kv.NoSync)
		must(t, err)
		in := f.In(tx)
		deleteMany(t, in, itemsFrom("i", 0, 1))
		addMany(t, in, itemsFrom("n", 0, 5))
		mustContain(t, in, itemsFrom("n", 0, 5))
		mustContain(t, f, itemsFrom("i", 0, 2))
		if n, err := in.Count([]byte("i0")); n != 0 || err != nil {
			t.Errorf("Count in the transaction = %d, %v", n, err)
		}
		want := 2
		if commit {
			must(t, tx.Commit())
			mustContain(t, f, itemsFrom("n", 0, 5))
			want = 6
		} else {
			tx.Rollback()
		}
		if info := infoOf(t, f); info.Items != uint64(want) {
			t.Errorf("commit %t: %d items, want %d", commit, info.Items, want)
		}
		if n, err := f.Count([]byte("n0")); (n == 1) != commit || err != nil {
			t.Errorf("commit %t: Count = %d, %v", commit, n, err)
		}
		check(t, db)
	}
}

// AddIfAbsentStaged counts each item once, in whatever order it visits blocks, and stops at the first item without
// room.
func TestFilter_AddIfAbsentStaged(t *testing.T) {
	db := open(t, kv.Options{})
	f := countingext.New(db, "f")
	must(t, f.Reserve(countingext.Config{Capacity: 10, ErrorRate: 1e-9, NonScaling: true}))
	stage := func(items [][]byte) (n int, added []bool, full error) {
		t.Helper()
		added = make([]bool, len(items))
		must(t, db.Write(kv.NoSync, [][]byte{[]byte("f")}, func(w *kv.Writer) error {
			n, full = f.AddIfAbsentStaged(w, items, added)
			return nil
		}))
		return n, added, full
	}
	n, added, err := stage([][]byte{[]byte("a"), []byte("b"), []byte("a")})
	if n != 3 || err != nil || !added[0] || !added[1] || added[2] {
		t.Errorf("AddIfAbsentStaged = %d, %v, %v, want 3 with two new", n, err, added)
	}
	items := append([][]byte{[]byte("b")}, itemsFrom("x", 0, 12)...)
	n, added, err = stage(items)
	if n != 9 || !errors.Is(err, scalableext.ErrFull) || added[0] || !added[8] || added[9] {
		t.Errorf("AddIfAbsentStaged = %d, %v, %v, want 9, %v", n, err, added, scalableext.ErrFull)
	}
	for i, item := range items {
		want := 1
		if i >= n {
			want = 0
		}
		if count, err := f.Count(item); count != want || err != nil {
			t.Errorf("Count(%s) = %d, %v, want %d", item, count, err, want)
		}
	}
	err = db.Write(kv.NoSync, [][]byte{[]byte("f")}, func(w *kv.Writer) error {
		_, err := f.AddIfAbsentStaged(w, items, added[1:])
		return err
	})
	if err == nil || errors.Is(err, scalableext.ErrFull) {
		t.Errorf("with an answer too few: %v", err)
	}
	check(t, db)
}

// A batch is divided into commits that fit even with the longest key, which is stored with each new layer.
func TestFilter_AddMany_longKey(t *testing.T) {
	db := open(t, kv.Options{MemTableSize: 256 << 10, Durability: kv.NoSync})
	f := countingext.New(db, strings.Repeat("k", 44_000))
	must(t, f.Reserve(countingext.Config{Capacity: 5, ErrorRate: 1e-4, Expansion: 30_000}))
	items := itemsFrom("i", 0, 2000)
	addMany(t, f, items)
	mustContain(t, f, items)
	if n := len(infoOf(t, f).Layers); n != 2 {
		t.Errorf("%d layers, want 2", n)
	}
	check(t, db)
}
