package sievekv_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sievekv/sievekv"
	_ "github.com/sievekv/sievekv/internal/kvtest/seeded"
)

// The same mistake is the same error on all types of filters.
func TestErrors(t *testing.T) {
	db := inMemory()
	defer db.Close()
	ctx := t.Context()
	full := func(add func(item uint64) error) error {
		for item := range uint64(1000) {
			if err := add(item); err != nil {
				return err
			}
		}
		return nil
	}
	item := func(n uint64) string { return string([]byte{byte(n), byte(n >> 8)}) }

	bloom, cuckoo, counting := db.Bloom("b"), db.Cuckoo("c"), db.Counting("n")
	other, others := db.Bloom("b2"), db.Counting("n2")
	for _, err := range []error{
		bloom.Reserve(sievekv.Capacity(100, 0.01), &sievekv.BloomConfig{NonScaling: true}),
		cuckoo.Reserve(sievekv.Capacity(100, 0), &sievekv.CuckooConfig{NonScaling: true}),
		counting.Reserve(sievekv.Capacity(100, 0.01), &sievekv.CountingConfig{NonScaling: true}),
		other.Reserve(sievekv.Capacity(200, 0.01), nil),
		others.Reserve(sievekv.Capacity(200, 0.01), nil),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		what string
		want error
		errs []error // of a Bloom, a cuckoo and a counting filter, or those of them that have it
	}{
		{"a rate out of range", sievekv.ErrConfig, []error{
			db.Bloom("new").Reserve(sievekv.Capacity(100, 2), nil),
			db.Cuckoo("new").Reserve(sievekv.Capacity(100, 2), nil),
			db.Counting("new").OpenOrReserve(sievekv.Capacity(100, 2), nil),
		}},
		{"a size that was not chosen", sievekv.ErrConfig, []error{
			db.Bloom("new").Reserve(sievekv.Size{}, nil),
			db.Cuckoo("new").Reserve(sievekv.Size{}, nil),
			db.Counting("new").OpenOrReserve(sievekv.Size{}, nil),
		}},
		{"a size that filters of the type do not have", sievekv.ErrConfig, []error{
			db.Cuckoo("new").Reserve(sievekv.Window(time.Hour, 100, 0.01), nil),
			db.Cuckoo("new").OpenOrReserve(sievekv.Last(100, 0.01), nil),
			db.Cuckoo("new").OpenOrReserve(sievekv.Bits(1000, 7), nil),
			db.Counting("new").Reserve(sievekv.Window(time.Hour, 100, 0.01), nil),
			db.Counting("new").OpenOrReserve(sievekv.Last(100, 0.01), nil),
		}},
		{"another capacity", sievekv.ErrMismatch, []error{
			bloom.OpenOrReserve(sievekv.Capacity(50, 0.01), &sievekv.BloomConfig{NonScaling: true}),
			cuckoo.OpenOrReserve(sievekv.Capacity(50, 0), &sievekv.CuckooConfig{NonScaling: true}),
			counting.OpenOrReserve(sievekv.Capacity(50, 0.01), &sievekv.CountingConfig{NonScaling: true}),
		}},
		{"no room", sievekv.ErrFull, []error{
			full(func(n uint64) error { _, err := bloom.AddString(item(n)); return err }),
			full(func(n uint64) error { _, err := cuckoo.AddString("one item"); return err }),
			full(func(n uint64) error { _, err := counting.AddString(item(n)); return err }),
		}},
		{"a merge of unequal filters", sievekv.ErrUnequal, []error{
			bloom.Merge(ctx, other), counting.Merge(ctx, others),
		}},
	} {
		for i, err := range tt.errs {
			if !errors.Is(err, tt.want) {
				t.Errorf("%s, filter %d: %v, want %v", tt.what, i, err, tt.want)
			}
			if !strings.HasPrefix(err.Error(), "sievekv: ") && !strings.HasPrefix(err.Error(), "key ") {
				t.Errorf("%s, filter %d: the error begins otherwise than with the name of the package: %v", tt.what, i, err)
			}
		}
	}
}

// Missing values are refused instead of meaning something else: an empty directory name does not mean the current
// one, and an unknown condition does not mean none.
func TestErrors_options(t *testing.T) {
	t.Chdir(t.TempDir())
	if db, err := sievekv.Open("", nil); !errors.Is(err, sievekv.ErrOptions) {
		t.Errorf("Open without a directory = %v, want ErrOptions", err)
		if err == nil {
			_ = db.Close() // the test has failed
		}
	}
	if left, err := os.ReadDir("."); len(left) != 0 || err != nil {
		t.Errorf("Open without a directory leaves %v, %v", left, err)
	}
	db := inMemory()
	defer db.Close()
	o := sievekv.SetOptions{If: sievekv.IfExists + sievekv.IfMissing}
	if done, err := db.SetWith("k", nil, o); done || !errors.Is(err, sievekv.ErrOptions) {
		t.Errorf("SetWith(%+v) = %v, %v, want ErrOptions", o, done, err)
	}
	if _, err := db.With(sievekv.NoSync + 1).Bloom("f").AddString("x"); !errors.Is(err, sievekv.ErrOptions) {
		t.Errorf("an add with a level of durability that there is not = %v, want ErrOptions", err)
	}
	if err := db.Update(t.Context(), func(tx *sievekv.Tx) error {
		if err := tx.Commit(); err == nil {
			t.Error("Commit inside the function of Update commits")
		}
		return tx.Set("committed", []byte("by Update"))
	}); err != nil {
		t.Errorf("Update after a Commit that was refused = %v", err)
	}
	err := db.Update(t.Context(), func(tx *sievekv.Tx) error {
		_, err := tx.SetWith("k", nil, o)
		return err
	})
	if !errors.Is(err, sievekv.ErrOptions) {
		t.Errorf("in a transaction: SetWith(%+v) = %v, want ErrOptions", o, err)
	}
}
