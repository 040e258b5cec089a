package queue

import (
	"fmt"
	"strings"
	"testing"
)

const longest = 64 << 10

type key string

func (k key) About() string { return string(k) }

// The queue is bounded by the bytes of keys, holds each request once, and has room again when requests are taken.
func TestQueue(t *testing.T) {
	var q Queue[key]
	long := strings.Repeat("k", longest-5)
	added := 0
	for q.Add(key(fmt.Sprintf("%s%05d", long, added))) {
		added++
	}
	if most := MaxBytes / longest; added < most-1 || added > most {
		t.Errorf("%d long keys found room, want about %d", added, most)
	}
	if !q.Add(key(long+"00000")) || q.Len() != added {
		t.Errorf("one that waits was asked for again: %d wait, want %d", q.Len(), added)
	}
	if _, ok := q.Take(); !ok || q.Len() != added-1 {
		t.Errorf("%d wait, want %d", q.Len(), added-1)
	}
	if !q.Add(key(long + "more ")) {
		t.Error("no room though one was taken")
	}
	if all := q.TakeAll(); len(all) != added || q.Len() != 0 {
		t.Errorf("%d were taken, %d wait, want %d and 0", len(all), q.Len(), added)
	}
	for i := range added - 1 {
		if !q.Add(key(fmt.Sprintf("%s%05d", long, i))) {
			t.Fatal("no room though all were taken")
		}
	}
	for q.Len() > 0 {
		q.Take()
	}
	if _, ok := q.Take(); ok || q.bytes != 0 {
		t.Errorf("%d bytes wait in an empty queue", q.bytes)
	}
}
