package sievekv_test

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sievekv/sievekv"
)

// small makes a filter of each type, with room for 100 items and no growth.
func small(t *testing.T, db *sievekv.DB) map[string]sievekv.Filter {
	t.Helper()
	b, c, n := db.Bloom("bloom"), db.Cuckoo("cuckoo"), db.Counting("counting")
	err := errors.Join(
		b.Reserve(sievekv.Capacity(100, 1e-6), &sievekv.BloomConfig{NonScaling: true}),
		c.Reserve(sievekv.Capacity(100, 1e-6), &sievekv.CuckooConfig{NonScaling: true}),
		n.Reserve(sievekv.Capacity(100, 1e-6), &sievekv.CountingConfig{NonScaling: true}),
	)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]sievekv.Filter{"bloom": b, "cuckoo": c, "counting": n}
}

// The forms of an item mean the same for all types, and unwanted answers need no slice.
func TestFilter_forms(t *testing.T) {
	db := inMemory()
	defer db.Close()
	for name, f := range small(t, db) {
		t.Run(name, func(t *testing.T) {
			of := func(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }
			wantNew := func(want bool) func(bool, error) {
				return func(isNew bool, err error) {
					t.Helper()
					if isNew != want || err != nil {
						t.Errorf("isNew = %v, %v, want %v", isNew, err, want)
					}
				}
			}
			wantSome := func(want int) func(int, error) {
				return func(n int, err error) {
					t.Helper()
					if n != want || err != nil {
						t.Errorf("n = %d, %v, want %d", n, err, want)
					}
				}
			}
			wantNew(true)(f.Add(of(1)))
			wantNew(true)(f.AddString(string(of(2))))
			wantNew(true)(f.Add(sievekv.Uint64(3)))
			wantNew(false)(f.Add(of(3)))
			wantNew(false)(f.AddString(string(of(1))))
			wantNew(false)(f.Add(sievekv.Uint64(2)))
			isNew := make([]bool, 3)
			wantSome(1)(f.AddMany([][]byte{of(3), of(4), of(4)}, isNew))
			if !slices.Equal(isNew, []bool{false, true, false}) {
				t.Errorf("isNew = %v", isNew)
			}
			wantSome(2)(f.AddManyString([]string{"a", "b", "a"}, nil))
			wantSome(1)(f.AddMany(sievekv.Uint64s(4, 5), nil))
			if _, err := f.AddMany(sievekv.Uint64s(4, 5), isNew); !errors.Is(err, sievekv.ErrLength) || !strings.Contains(err.Error(), "3 answers for 2 items") {
				t.Errorf("answers of another number: %v", err)
			}
			present := make([]bool, 4)
			if err := f.MayContainMany(sievekv.Uint64s(1, 3, 5, 7), present); err != nil || !slices.Equal(present, []bool{true, true, true, false}) {
				t.Errorf("MayContainMany: %v, %v", present, err)
			}
			if err := f.MayContainManyString([]string{"a", "b", "c", string(of(5))}, present); err != nil || !slices.Equal(present, []bool{true, true, false, true}) {
				t.Errorf("MayContainManyString: %v, %v", present, err)
			}
			if there, err := f.MayContain(sievekv.Uint64(5)); !there || err != nil {
				t.Errorf("MayContain = %v, %v", there, err)
			}
		})
	}
}

// The error of a batch that does not fit has the first item that was not added.
func TestFilter_AddMany_full(t *testing.T) {
	db := inMemory()
	defer db.Close()
	for name, f := range small(t, db) {
		items := make([]uint64, 3000)
		for i := range items {
			items[i] = uint64(i)
		}
		isNew := make([]bool, len(items))
		n, err := f.AddMany(sievekv.Uint64s(items...), isNew)
		var left *sievekv.ItemError
		if !errors.Is(err, sievekv.ErrFull) || !errors.As(err, &left) {
			t.Errorf("%s: %v, want ErrFull in an ItemError", name, err)
			continue
		}
		yes := 0
		for i, added := range isNew {
			if added {
				yes++
			}
			if i < left.Item && !added || i == left.Item && added {
				t.Errorf("%s: item %d is new: %v, the first left is %d", name, i, added, left.Item)
			}
		}
		if n != yes || n < 90 {
			t.Errorf("%s: %d new items, want %d", name, n, yes)
		}
	}
}

// Drop removes a whole filter, on all types, and leaves other types alone.
func TestFilter_Drop(t *testing.T) {
	db := inMemory()
	defer db.Close()
	if err := db.Set("text", nil); err != nil {
		t.Fatal(err)
	}
	small(t, db)
	for i, key := range []string{"bloom", "cuckoo", "counting"} {
		handles := func(key string) []sievekv.Filter {
			return []sievekv.Filter{db.Bloom(key), db.Cuckoo(key), db.Counting(key)}
		}
		if found, err := handles("text")[i].Drop(); found || !errors.Is(err, sievekv.ErrWrongType) {
			t.Errorf("Drop of a string: %v, %v, want ErrWrongType", found, err)
		}
		if found, err := handles(key)[(i+1)%3].Drop(); found || !errors.Is(err, sievekv.ErrWrongType) {
			t.Errorf("Drop of another type: %v, %v, want ErrWrongType", found, err)
		}
		for _, want := range []bool{true, false} {
			if found, err := handles(key)[i].Drop(); found != want || err != nil {
				t.Errorf("Drop = %v, %v, want %v", found, err, want)
			}
		}
	}
	if n, err := db.Size(); n != 1 || err != nil {
		t.Errorf("%d keys are left, %v, want the string", n, err)
	}
}

// The expiry of a filter is a time.Time, the zero time if it does not expire.
func TestInfo_expiresAt(t *testing.T) {
	db, clock := withClock()
	defer db.Close()
	for ttl, want := range map[time.Duration]time.Time{0: {}, time.Hour: clock.now().Add(time.Hour)} {
		b, c, n := db.Bloom("bloom"), db.Cuckoo("cuckoo"), db.Counting("counting")
		err := errors.Join(
			b.Reserve(sievekv.Capacity(100, 0.01), &sievekv.BloomConfig{TTL: ttl}),
			c.Reserve(sievekv.Capacity(100, 0.01), &sievekv.CuckooConfig{TTL: ttl}),
			n.Reserve(sievekv.Capacity(100, 0.01), &sievekv.CountingConfig{TTL: ttl}),
		)
		if err != nil {
			t.Fatal(err)
		}
		bloom, err1 := b.Info()
		cuckoo, err2 := c.Info()
		counting, err3 := n.Info()
		if err := errors.Join(err1, err2, err3); err != nil {
			t.Fatal(err)
		}
		for i, at := range []time.Time{bloom.ExpiresAt, cuckoo.ExpiresAt, counting.ExpiresAt} {
			if !at.Equal(want) || at.IsZero() != want.IsZero() {
				t.Errorf("with a TTL of %v type %d expires at %v, want %v", ttl, i, at, want)
			}
		}
		if _, err := db.Delete("bloom", "cuckoo", "counting"); err != nil {
			t.Fatal(err)
		}
	}
}
