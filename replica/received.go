package replica

import (
	"fmt"
	"sync"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/sievekv/sievekv/internal/storage/image"
)

// received are the snapshots that have come as a whole and are not installed. There may be several: raft takes one some
// time before it is installed, and meanwhile an earlier or the next leader may send others. Raft takes none whose index
// is applied already.
type received struct {
	mu  sync.Mutex
	all map[at]*staged // guarded by mu
}

// at is the last entry in a snapshot.
type at struct{ index, term uint64 }

// staged is a snapshot of another member, as tables.
type staged struct {
	at
	tables image.Tables
	remove func() // the files
}

// add keeps a snapshot. If there already is one of the same entry, which is equal and which raft may have taken, the
// earlier one stays.
func (r *received) add(s *staged) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all[s.at] != nil {
		s.remove()
		return
	}
	if r.all == nil {
		r.all = make(map[at]*staged)
	}
	r.all[s.at] = s
}

// take returns the snapshot that raft has taken, which is then the caller's.
func (r *received) take(meta *pb.SnapshotMetadata) (*staged, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.all[at{meta.GetIndex(), meta.GetTerm()}]
	if s == nil {
		return nil, fmt.Errorf("a snapshot of index %d is to be installed that was not received", meta.GetIndex())
	}
	delete(r.all, s.at)
	return s, nil
}

// drop removes the snapshots up to an index, which is applied.
func (r *received) drop(applied uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for at, s := range r.all {
		if at.index <= applied {
			s.remove()
			delete(r.all, at)
		}
	}
}
