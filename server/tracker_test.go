package server

import (
	"fmt"
	"strings"
	"testing"
)

// A key waits once to be told. If very many wait, the client is told that all have changed, and what waits takes no more
// memory.
func TestTracker_pending(t *testing.T) {
	x := &tracker{}
	for range 100_000 {
		x.tell("k")
	}
	if got := string(x.appendPending(nil)); got != ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n" {
		t.Errorf("of one key is told %q", got)
	}
	for i := range 500 {
		x.tell(fmt.Sprint("key:", i))
	}
	if got := string(x.appendPending(nil)); strings.Count(got, "key:") != 500 {
		t.Errorf("of 500 keys is told %q", got)
	}
	for i := range 5000 {
		x.tell(fmt.Sprint("key:", i))
	}
	if n := len(x.pending); n != 0 {
		t.Errorf("%d keys wait", n)
	}
	if got := string(x.appendPending(nil)); got != ">2\r\n$10\r\ninvalidate\r\n_\r\n" {
		t.Errorf("of 5000 keys is told %q", got)
	}
	if got := x.appendPending(nil); len(got) > 0 {
		t.Errorf("of nothing is told %q", got)
	}
}
