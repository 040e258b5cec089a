package raftlog

import (
	"slices"
	"sort"

	pb "go.etcd.io/raft/v3/raftpb"
)

// terms has the term of each entry, as runs of equal ones. There are few: a term begins with an election.
type terms struct {
	runs []run // in the order of their indexes, and of their terms
}

type run struct{ first, term uint64 }

// add adds entries. Those from the first index on are replaced.
func (t *terms) add(entries []*pb.Entry) {
	if len(entries) == 0 {
		return
	}
	first := entries[0].GetIndex()
	for n := len(t.runs); n > 0 && t.runs[n-1].first >= first; n-- {
		t.runs = t.runs[:n-1]
	}
	for _, e := range entries {
		t.addOne(e.GetIndex(), e.GetTerm())
	}
}

func (t *terms) addOne(index, term uint64) {
	if n := len(t.runs); n == 0 || t.runs[n-1].term != term {
		t.runs = append(t.runs, run{index, term})
	}
}

// dropTo drops the runs that end at an index or below.
func (t *terms) dropTo(index uint64) {
	n := 0
	for n+1 < len(t.runs) && t.runs[n+1].first <= index+1 {
		n++
	}
	t.runs = slices.Delete(t.runs, 0, n)
}

// of returns the term of an entry that is there.
func (t *terms) of(index uint64) uint64 {
	n := sort.Search(len(t.runs), func(i int) bool { return t.runs[i].first > index })
	return t.runs[n-1].term
}

// recent has the newest entries, up to most bytes as entrySize counts them, and at least the last.
type recent struct {
	most    int64
	size    int64
	entries []*pb.Entry // of consecutive indexes, up to the last entry of the log
}

func (r *recent) first() uint64 { return r.entries[0].GetIndex() }

// has reports whether the entries from an index on are here.
func (r *recent) has(index uint64) bool { return len(r.entries) > 0 && index >= r.first() }

// between returns the entries from lo on, below hi. The caller copies them before it gives up the lock.
func (r *recent) between(lo, hi uint64) []*pb.Entry { return r.entries[lo-r.first() : hi-r.first()] }

// add adds entries. Those from the first index on are replaced.
func (r *recent) add(entries []*pb.Entry) {
	if len(entries) == 0 {
		return
	}
	r.cut(entries[0].GetIndex())
	for _, e := range entries {
		r.size += sizeOf(e)
	}
	r.entries = append(r.entries, entries...)
	n, size := 0, r.size
	for ; size > r.most && n < len(r.entries)-1; n++ {
		size -= sizeOf(r.entries[n])
	}
	r.drop(0, n)
}

// cut drops the entries from an index on.
func (r *recent) cut(index uint64) {
	keep := 0
	if r.has(index) {
		keep = min(int(index-r.first()), len(r.entries))
	}
	r.drop(keep, len(r.entries))
}

// dropTo drops the entries up to an index.
func (r *recent) dropTo(index uint64) {
	if r.has(index) {
		r.drop(0, min(int(index-r.first())+1, len(r.entries)))
	}
}

// drop drops the entries from i on, below j, at one of the ends.
func (r *recent) drop(i, j int) {
	for _, e := range r.entries[i:j] {
		r.size -= sizeOf(e)
	}
	clear(r.entries[i:j]) // so that the array does not hold them
	if i == 0 {
		r.entries = r.entries[j:]
		return
	}
	r.entries = r.entries[:i]
}

func sizeOf(e *pb.Entry) int64 { return int64(entrySize(len(e.GetData()))) }
