package kv_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/kv"
)

// The error of a read of a damaged table is in words for people: Pebble's has a note for programs behind them.
func TestCorrupt_text(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	options := func() *kv.Options { return &kv.Options{BallastSize: -1, Logger: slog.New(slog.DiscardHandler)} }
	db, err := kv.Open(dir, options())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2000 {
		if _, err := db.Set(kv.NoSync, fmt.Appendf(nil, "key-%d", i), []byte(strings.Repeat("v", 100)), kv.SetOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(db.CompactTables(t.Context()), db.Close()); err != nil {
		t.Fatal(err)
	}
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatal("no tables", err)
	}
	for _, name := range tables {
		flipBit(t, name)
	}
	if db, err = kv.Open(dir, options()); err == nil {
		for i := 0; i < 2000 && err == nil; i++ {
			_, err = db.Get(fmt.Appendf(nil, "key-%d", i))
		}
		if cerr := db.Close(); cerr != nil {
			t.Error(cerr)
		}
	}
	if !errors.Is(err, kv.ErrCorrupt) {
		t.Fatalf("error %v, want ErrCorrupt", err)
	}
	if strings.ContainsAny(err.Error(), "<\n") {
		t.Errorf("the error is %q", err)
	}
}

// flipBit flips a bit of a file, behind a third of it.
func flipBit(t *testing.T, name string) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/3] ^= 1
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
}
