package storage

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sievekv/sievekv/internal/format"
)

// What a full or failing disk does is no damage, though Pebble calls it so while it merges operands. A missing table is.
func TestReadError_disk(t *testing.T) {
	for _, system := range []syscall.Errno{syscall.ENOSPC, syscall.EIO} {
		err := ReadError(fmt.Errorf("%w: %w", pebble.ErrCorruption, system), "compaction")
		if errors.Is(err, format.ErrCorrupt) || !errors.Is(err, system) {
			t.Errorf("%v", err)
		}
	}
	if err := ReadError(fmt.Errorf("%w: %w", pebble.ErrCorruption, syscall.ENOENT), "table"); !errors.Is(err, format.ErrCorrupt) {
		t.Errorf("%v", err)
	}
	if err := ReadError(fmt.Errorf("%w: checksum", pebble.ErrCorruption), "block"); !errors.Is(err, format.ErrCorrupt) {
		t.Errorf("%v", err)
	}
}
