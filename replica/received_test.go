package replica

import (
	"slices"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
)

// A snapshot that raft has taken is there when it is installed, whatever comes meanwhile, and none stays for good.
func TestReceived(t *testing.T) {
	var r received
	var removed []uint64
	arrives := func(index, term uint64) {
		r.add(&staged{at: at{index, term}, remove: func() { removed = append(removed, index) }})
	}
	taken := func(index, term uint64) *pb.SnapshotMetadata {
		return &pb.SnapshotMetadata{Index: new(index), Term: new(term)}
	}
	for _, index := range []uint64{200, 100, 300} { // the earlier leader's comes late
		arrives(index, 2)
	}
	arrives(200, 2) // again: it is equal
	if _, err := r.take(taken(200, 3)); err == nil {
		t.Error("one of another term is taken")
	}
	s, err := r.take(taken(200, 2))
	if err != nil || s.index != 200 {
		t.Fatalf("%+v, %v", s, err)
	}
	if _, err := r.take(taken(200, 2)); err == nil {
		t.Error("it is taken twice")
	}
	r.drop(250)
	if !slices.Equal(removed, []uint64{200, 100}) {
		t.Errorf("removed %d", removed)
	}
	if s, err := r.take(taken(300, 2)); err != nil || s.index != 300 {
		t.Errorf("%+v, %v", s, err)
	}
}
