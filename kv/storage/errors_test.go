package storage

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sievekv/sievekv/kv/format"
)

// What happens on a full disk is no damage, though Pebble calls it so while it merges operands.
func TestReadError_fullDisk(t *testing.T) {
	err := ReadError(fmt.Errorf("%w: %w", pebble.ErrCorruption, syscall.ENOSPC), "compaction")
	if errors.Is(err, format.ErrCorrupt) || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("%v", err)
	}
	if err := ReadError(fmt.Errorf("%w: checksum", pebble.ErrCorruption), "block"); !errors.Is(err, format.ErrCorrupt) {
		t.Errorf("%v", err)
	}
}
