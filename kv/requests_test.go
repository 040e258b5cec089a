package kv

import (
	"fmt"
	"strings"
	"testing"
)

// What waits is bounded by the bytes of keys, each request waits once, and room comes back.
func TestRequests(t *testing.T) {
	var q requests[compactRequest]
	long := strings.Repeat("k", MaxKeyLen-5)
	added := 0
	for q.add(compactRequest(fmt.Sprintf("%s%05d", long, added))) {
		added++
	}
	if most := maxRequests / MaxKeyLen; added < most-1 || added > most {
		t.Errorf("%d long keys found room, want about %d", added, most)
	}
	if !q.add(compactRequest(long+"00000")) || q.len() != added {
		t.Errorf("one that waits was asked for again: %d wait, want %d", q.len(), added)
	}
	if _, ok := q.take(); !ok || q.len() != added-1 {
		t.Errorf("%d wait, want %d", q.len(), added-1)
	}
	if !q.add(compactRequest(long + "more ")) {
		t.Error("no room though one was taken")
	}
	if all := q.takeAll(); len(all) != added || q.len() != 0 {
		t.Errorf("%d were taken, %d wait, want %d and 0", len(all), q.len(), added)
	}
	for i := range added - 1 {
		if !q.add(compactRequest(fmt.Sprintf("%s%05d", long, i))) {
			t.Fatal("no room though all were taken")
		}
	}
	for q.len() > 0 {
		q.take()
	}
	if _, ok := q.take(); ok || q.bytes != 0 {
		t.Errorf("%d bytes wait in an empty queue", q.bytes)
	}
}
