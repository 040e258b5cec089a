package bitmapext_test

import (
	"bytes"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/bitmapext"
	"github.com/sievekv/sievekv/kv"
)

// Parts that together are larger than a commit are written, as blocks go ahead of it.
func TestSetRange_smallCommits(t *testing.T) {
	o := options(vfs.NewMem())
	o.MemTableSize = 256 << 10
	db, err := kv.Open("bitmaps", o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	keys := inBytes([]string{"a", "b", "c", "d", "e", "f"})
	part := bytes.Repeat([]byte("x"), 50_000)
	for range 2 {
		err = db.Write(kv.NoSync, keys, func(w *kv.Writer) error {
			for _, key := range keys {
				if _, err := bitmapext.SetRange(t.Context(), w, key, 10, part); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for i := range part {
			part[i] = byte(i)
		}
	}
	for _, key := range keys {
		if got, err := db.Get(key); err != nil || !bytes.Equal(got[10:], part) {
			t.Errorf("%s: %d bytes, %v", key, len(got), err)
		}
	}
}
