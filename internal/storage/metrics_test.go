package storage

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Compactions are behind from the eighth sublevel of level 0 on, and until there are fewer again.
func TestMetrics_behind(t *testing.T) {
	s := openNumbered(t, vfs.NewMem(), "store")
	defer s.close()
	HoldCompactions(s.Store)
	for n := 1; n <= level0Behind; n++ {
		s.next = 0
		if err := s.commit(10); err != nil {
			t.Fatal(err)
		}
		if err := s.disk.Flush(); err != nil {
			t.Fatal(err)
		}
		if got, want := s.Metrics().Behind, n == level0Behind; got != want {
			t.Errorf("behind with %d tables above each other: %t, want %t", n, got, want)
		}
	}
	ReleaseCompactions(s.Store)
	AwaitCompactions(s.Store)
	if s.Metrics().Behind {
		t.Error("behind after compactions")
	}
	s.stalled.Store(stalled)
	if !s.Metrics().Behind {
		t.Error("not behind while a commit waits")
	}
	s.stalled.Store(0)
}
