package sievekv_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/sievekv/sievekv"
)

// numbers returns what All returns.
func numbers(t *testing.T, b *sievekv.Bitmap) (list []uint32) {
	t.Helper()
	for n, err := range b.All() {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, n)
	}
	return list
}

// Every method answers as a set does, for numbers near each other and far apart.
func TestBitmap(t *testing.T) {
	db := inMemory()
	defer db.Close()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	random := rand.New(rand.NewPCG(1, 1))
	for most, rounds := range map[uint64]int{1000: 2000, 1 << 20: 1000, 1 << 32: 100} {
		bitmaps, sets := []*sievekv.Bitmap{db.Bitmap("a"), db.Bitmap("b")}, []*roaring.Bitmap{roaring.New(), roaring.New()}
		for _, b := range bitmaps {
			must(b.FromRoaring(t.Context(), roaring.New()))
			if there, err := db.Exists("a"); there > 0 || err != nil {
				t.Fatalf("FromRoaring of nothing leaves a key: %v, %v", there, err)
			}
		}
		some := func() uint32 { return uint32(random.Uint64N(most)) }
		for range rounds {
			i, n := random.IntN(2), some()
			b, set := bitmaps[i], sets[i]
			if random.IntN(3) == 0 && !set.IsEmpty() {
				n, _ = set.Select(uint32(random.Uint64N(set.GetCardinality())))
			}
			had := set.Contains(n)
			if random.IntN(3) > 0 {
				set.Add(n)
				if isNew, err := b.Set(n); isNew == had || err != nil {
					t.Fatalf("Set(%d) = %v, %v", n, isNew, err)
				}
			} else {
				set.Remove(n)
				if was, err := b.Clear(n); was != had || err != nil {
					t.Fatalf("Clear(%d) = %v, %v", n, was, err)
				}
			}
			n = some()
			if on, err := b.Test(n); on != set.Contains(n) || err != nil {
				t.Fatalf("Test(%d) = %v, %v", n, on, err)
			}
			first, last := some(), some()
			want := uint64(0)
			if first <= last {
				want = set.CardinalityInRange(uint64(first), uint64(last)+1)
			}
			if got, err := b.CountRange(first, last); got != want || err != nil {
				t.Fatalf("CountRange(%d, %d) = %d, %v, want %d", first, last, got, err, want)
			}
			it := set.Iterator()
			it.AdvanceIfNeeded(n)
			next, ok, err := b.Next(n)
			if ok != it.HasNext() || ok && next != it.PeekNext() || err != nil {
				t.Fatalf("Next(%d) = %d, %v, %v", n, next, ok, err)
			}
			streak := uint64(0)
			for at := int64(n); at >= 0 && set.Contains(uint32(at)); at-- {
				streak++
			}
			if got, err := b.Streak(n); got != streak || err != nil {
				t.Fatalf("Streak(%d) = %d, %v, want %d", n, got, err, streak)
			}
		}
		for i, b := range bitmaps {
			if got := numbers(t, b); !slices.Equal(got, sets[i].ToArray()) {
				t.Fatalf("All returns %d numbers, want %d", len(got), sets[i].GetCardinality())
			}
			set, err := b.ToRoaring(t.Context())
			if err != nil || !set.Equals(sets[i]) {
				t.Fatalf("ToRoaring returns %d numbers, %v", set.GetCardinality(), err)
			}
			count, err := b.Count()
			if count != sets[i].GetCardinality() || err != nil {
				t.Fatalf("Count = %d, %v", count, err)
			}
		}
		for _, tt := range []struct {
			want *roaring.Bitmap
			into error
			op   sievekv.BitOp
		}{
			{roaring.And(sets[0], sets[1]), db.Bitmap("and").And(t.Context(), bitmaps...), sievekv.BitAnd},
			{roaring.Or(sets[0], sets[1]), db.Bitmap("or").Or(t.Context(), bitmaps...), sievekv.BitOr},
			{roaring.Xor(sets[0], sets[1]), db.Bitmap("xor").Xor(t.Context(), bitmaps...), sievekv.BitXor},
			{roaring.AndNot(sets[0], sets[1]), db.Bitmap("andnot").AndNot(t.Context(), bitmaps...), sievekv.BitDiff},
		} {
			must(tt.into)
			key := map[sievekv.BitOp]string{sievekv.BitAnd: "and", sievekv.BitOr: "or", sievekv.BitXor: "xor", sievekv.BitDiff: "andnot"}[tt.op]
			stored, err := db.Bitmap(key).ToRoaring(t.Context())
			must(err)
			combined, err := bitmaps[0].Combined(t.Context(), tt.op, bitmaps[1])
			must(err)
			n, err := bitmaps[0].CountCombined(t.Context(), tt.op, bitmaps[1])
			if must(err); !stored.Equals(tt.want) || !combined.Equals(tt.want) || n != tt.want.GetCardinality() {
				t.Errorf("%v of bitmaps: stored %d, combined %d, counted %d, want %d numbers", tt.op,
					stored.GetCardinality(), combined.GetCardinality(), n, tt.want.GetCardinality())
			}
		}
	}
}

// The least and the greatest number.
func TestBitmap_edges(t *testing.T) {
	db := inMemory()
	defer db.Close()
	b := db.Bitmap("b")
	if _, ok, err := b.First(); ok || err != nil {
		t.Errorf("First of nothing = %v, %v", ok, err)
	}
	for _, n := range []uint32{math.MaxUint32, 0} {
		if isNew, err := b.Set(n); !isNew || err != nil {
			t.Errorf("Set(%d) = %v, %v", n, isNew, err)
		}
		if got, ok, err := b.First(); got != n || !ok || err != nil {
			t.Errorf("First = %d, %v, %v, want %d", got, ok, err, n)
		}
	}
	if got := numbers(t, b); !slices.Equal(got, []uint32{0, math.MaxUint32}) {
		t.Errorf("All returns %d", got)
	}
	if n, err := b.CountRange(1, math.MaxUint32); n != 1 || err != nil {
		t.Errorf("CountRange = %d, %v", n, err)
	}
	if n, err := b.Streak(math.MaxUint32); n != 1 || err != nil {
		t.Errorf("Streak = %d, %v", n, err)
	}
}

// A used handle follows its key, whatever becomes of it.
func TestBitmap_follows(t *testing.T) {
	const far, farther = 100_000, 10_000_000 // in blocks of three layers
	for what, become := range map[string]struct {
		change func(*sievekv.DB) error
		near   bool // whether number 5 is there afterwards
		far    bool
	}{
		"deleted":        {func(db *sievekv.DB) error { _, err := db.Delete("b"); return err }, false, false},
		"replaced":       {func(db *sievekv.DB) error { return db.Set("b", []byte{4}) }, true, false},
		"another bitmap": {func(db *sievekv.DB) error { return db.Rename("other", "b") }, false, true},
		"renamed":        {func(db *sievekv.DB) error { return db.Rename("b", "c") }, false, false},
		"cleared":        {func(db *sievekv.DB) error { _, err := db.Bitmap("b").Clear(5); return err }, false, true},
		"longer":         {func(db *sievekv.DB) error { _, err := db.Bitmap("b").Set(farther); return err }, true, true},
		"combined":       {func(db *sievekv.DB) error { return db.Bitmap("b").Xor(t.Context(), db.Bitmap("b"), db.Bitmap("five")) }, false, true},
		"gone by time": {func(db *sievekv.DB) error {
			_, err := db.Expire("b", time.Nanosecond)
			time.Sleep(2 * time.Millisecond)
			return err
		}, false, false},
	} {
		db := inMemory()
		b, other := db.Bitmap("b"), db.Bitmap("other")
		for _, err := range []error{second(b.Set(5)), second(b.Set(far)), second(other.Set(far)), second(db.Bitmap("five").Set(5))} {
			if err != nil {
				t.Fatal(err)
			}
		}
		want := func(n uint32, want bool) {
			t.Helper()
			for range 2 { // the first lookup finds the string, the second one is from memory
				if on, err := b.Test(n); on != want || err != nil {
					t.Errorf("%s: Test(%d) = %v, %v", what, n, on, err)
				}
			}
		}
		want(5, true)
		want(far, true)
		want(far+1, false)
		want(farther, false)
		if allocs := testing.AllocsPerRun(100, func() { _, _ = b.Test(far) }); allocs > 0 {
			t.Errorf("Test in memory allocates %v times", allocs)
		}
		if err := become.change(db); err != nil {
			t.Fatal(what, err)
		}
		want(5, become.near)
		want(far, become.far)
		want(farther, what == "longer")
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		if _, err := b.Test(5); !errors.Is(err, sievekv.ErrClosed) {
			t.Errorf("Test in a closed store: %v", err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// Handles of transactions and snapshots see theirs alone, and Combined and Store take bitmaps of one store.
func TestBitmap_in(t *testing.T) {
	db, elsewhere := inMemory(), inMemory()
	defer db.Close()
	defer elsewhere.Close()
	b := db.Bitmap("b")
	if _, err := b.Set(100_000); err != nil {
		t.Fatal(err)
	}
	err := db.View(t.Context(), func(s *sievekv.Snapshot) error {
		if _, err := b.Clear(100_000); err != nil {
			return err
		}
		if on, err := s.Bitmap("b").Test(100_000); !on || err != nil {
			t.Errorf("in a snapshot: %v, %v", on, err)
		}
		if _, err := s.Bitmap("b").Set(1); !errors.Is(err, sievekv.ErrReadOnly) {
			t.Errorf("a write to a snapshot = %v, want ErrReadOnly", err)
		}
		if on, err := b.Test(100_000); on || err != nil {
			t.Errorf("outside: %v, %v", on, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	undo := errors.New("undo")
	err = db.Update(t.Context(), func(tx *sievekv.Tx) error {
		inside := tx.Bitmap("b")
		if _, err := inside.Set(100_001); err != nil {
			return err
		}
		if on, err := inside.Test(100_001); !on || err != nil {
			t.Errorf("in a transaction: %v, %v", on, err)
		}
		if on, err := b.Test(100_001); on || err != nil {
			t.Errorf("outside: %v, %v", on, err)
		}
		return undo
	})
	if on, errTest := b.Test(100_001); on || errTest != nil || !errors.Is(err, undo) {
		t.Errorf("after a transaction that failed: %v, %v, %v", on, errTest, err)
	}
	if err := b.And(t.Context(), elsewhere.Bitmap("b")); !errors.Is(err, sievekv.ErrOtherStore) || !strings.Contains(err.Error(), "of a store in memory, ") || !strings.Contains(err.Error(), "of another store in memory") {
		t.Errorf("And = %v", err)
	}
	if err := b.And(t.Context(), nil); err == nil {
		t.Error("And of nil has no error")
	}
	for _, err := range []error{
		b.Store(t.Context(), sievekv.BitNot, b, b), b.Store(t.Context(), sievekv.BitOr), b.Store(t.Context(), 99, b),
		second(b.Combined(t.Context(), sievekv.BitDiff)), second(b.CountCombined(t.Context(), sievekv.BitNot, b)),
	} {
		if !errors.Is(err, sievekv.ErrBitOp) {
			t.Errorf("a bad operation: %v", err)
		}
	}
	if err := b.FromRoaring(t.Context(), nil); err == nil {
		t.Error("FromRoaring of nil has no error")
	}
	if err := errors.Join(db.Bloom("bloom").Reserve(sievekv.Capacity(10, 0.1), nil)); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Bitmap("bloom").Test(1); !errors.Is(err, sievekv.ErrWrongType) {
		t.Errorf("a bitmap that is a filter: %v", err)
	}
}

// Drop removes a bitmap, on the store and in a transaction, in blocks or not, and leaves a filter alone.
func TestBitmap_Drop(t *testing.T) {
	db := inMemory()
	defer db.Close()
	for _, n := range []uint32{1, 1 << 30} {
		if _, err := db.Bitmap("b").Set(n); err != nil {
			t.Fatal(err)
		}
		undo := errors.New("undo")
		err := db.Update(t.Context(), func(tx *sievekv.Tx) error {
			if found, err := tx.Bitmap("b").Drop(); !found || err != nil {
				t.Errorf("Drop in a transaction = %v, %v", found, err)
			}
			return undo
		})
		if !errors.Is(err, undo) {
			t.Fatal(err)
		}
		for _, want := range []bool{true, false} {
			if found, err := db.Bitmap("b").Drop(); found != want || err != nil {
				t.Errorf("Drop = %v, %v, want %v", found, err, want)
			}
		}
	}
	if err := db.Bloom("f").Reserve(sievekv.Capacity(10, 0.01), nil); err != nil {
		t.Fatal(err)
	}
	if found, err := db.Bitmap("f").Drop(); found || !errors.Is(err, sievekv.ErrWrongType) {
		t.Errorf("Drop of a filter = %v, %v, want ErrWrongType", found, err)
	}
}
