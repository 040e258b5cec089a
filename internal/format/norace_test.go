//go:build !race

package format

import (
	"bytes"
	"testing"
)

// A header's key is made in one piece: every command that reads a key makes one.
func TestAppendHeaderKey_allocations(t *testing.T) {
	key := bytes.Repeat([]byte("k"), 100)
	var made []byte
	if n := testing.AllocsPerRun(100, func() { made = AppendHeaderKey(nil, 1, key) }); n != 1 {
		t.Errorf("%v allocations for %d bytes, want 1", n, len(made))
	}
}
