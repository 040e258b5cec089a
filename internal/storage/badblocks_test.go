package storage

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// tableOn returns a file system with a table of some bytes, which remembers damage.
func tableOn(t *testing.T) *badBlocks {
	t.Helper()
	b := &badBlocks{FS: vfs.NewMem(), files: make(map[string]map[int64]error)}
	if err := writeFileSync(b, "000007.sst", make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *badBlocks) meet(message string) (isNew bool) {
	return b.report(pebble.DataCorruptionInfo{Path: "000007.sst", Details: errors.New(message)})
}

// read reads a byte of the table.
func (b *badBlocks) read(t *testing.T, at int64) error {
	t.Helper()
	f, err := b.Open("000007.sst")
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.ReadAt(make([]byte, 1), at)
	return errors.Join(err, f.Close())
}

// A place that was reported is not read again, and logged once. All other places are read.
func TestBadBlocks(t *testing.T) {
	const block = "pebble: file 000007: block 40/20: crc32c checksum mismatch 1 != 2"
	for name, tt := range map[string]struct {
		message string
		refused []int64 // of 0, 40, 41
	}{
		"a block":      {block, []int64{40}},
		"again":        {block + "\n<corruption detail carrier>", []int64{40}},
		"the footer":   {"pebble: backing file 000007 error: pebble/table: invalid table 000007: (footer corrupted)", []int64{0, 40, 41}},
		"no file":      {"pebble: backing file 000007 error: file 000007 unknown to the objstorage provider", nil},
		"a large one":  {"block 99999999999999999999/1: checksum mismatch", nil},
		"of 40 blocks": {"a table of 40 blocks", nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := tableOn(t)
			if !b.meet(tt.message) || b.meet(tt.message) {
				t.Error("it is not logged once")
			}
			var refused []int64
			for _, at := range []int64{0, 40, 41} {
				switch err := b.read(t, at); {
				case pebble.IsCorruptionError(err) && !strings.Contains(err.Error(), "carrier"):
					refused = append(refused, at)
				case err != nil:
					t.Error(err)
				}
			}
			if fmt.Sprint(refused) != fmt.Sprint(tt.refused) {
				t.Errorf("reads at %v are refused, want %v", refused, tt.refused)
			}
			if b.known != 1 || b.reads.Load() != 2 {
				t.Errorf("%d places are known, %d reads failed", b.known, b.reads.Load())
			}
		})
	}
}

// A file that is written again, or removed, is no longer damaged.
func TestBadBlocks_forget(t *testing.T) {
	for name, replace := range map[string]func(b *badBlocks) error{
		"written": func(b *badBlocks) error { return writeFileSync(b, "000007.sst", make([]byte, 100)) },
		"removed": func(b *badBlocks) error {
			return errors.Join(b.Remove("000007.sst"), writeFileSync(b.FS, "000007.sst", make([]byte, 100)))
		},
	} {
		b := tableOn(t)
		b.meet("block 40/20: checksum mismatch")
		b.meet("block 60/20: checksum mismatch")
		if b.read(t, 60) == nil {
			t.Error("a damaged block is read")
		}
		err := errors.Join(replace(b), b.read(t, 40), b.read(t, 60))
		if err != nil || b.known != 0 || b.any.Load() {
			t.Errorf("%s: %d places are known: %v", name, b.known, err)
		}
	}
}

// What is remembered is bounded. What is beyond is counted.
func TestBadBlocks_many(t *testing.T) {
	b := tableOn(t)
	for i := range maxBadBlocks + 10 {
		if isNew := b.meet(fmt.Sprintf("block %d/1: checksum mismatch", i)); isNew != (i < maxBadBlocks) {
			t.Fatalf("block %d: new %t", i, isNew)
		}
	}
	if b.known != maxBadBlocks || b.reads.Load() != maxBadBlocks+10 || b.read(t, 5) == nil {
		t.Errorf("%d are known, %d reads failed", b.known, b.reads.Load())
	}
}
