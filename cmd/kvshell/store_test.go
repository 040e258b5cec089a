package main

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/exit"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/scratch"
	"github.com/sievekv/sievekv/kv"
)

func TestOpenError(t *testing.T) {
	for opening, want := range map[error]int{
		fs.ErrPermission: exit.Open, kv.ErrFailed: exit.Local, kv.ErrCorrupt: exit.Corrupt, kv.ErrUnsupportedVersion: exit.Open,
	} {
		err := openError("dir", opening)
		if got := exit.Code(err); got != want {
			t.Errorf("%v: %d, want %d", err, got, want)
		}
		wrapped := errors.Join(fmt.Errorf("while it ran: %w", err), fs.ErrClosed)
		if got := exit.Code(wrapped); got != want {
			t.Errorf("wrapped %v: %d, want %d", err, got, want)
		}
	}
}

func openScratchFor(t *testing.T) *kv.DB {
	t.Helper()
	db, err := scratch.Open()
	return closedAtEnd(t, db, err)
}

// closedAtEnd returns a store just opened, which is closed when the test ends.
func closedAtEnd(t *testing.T, db *kv.DB, err error) *kv.DB {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}
