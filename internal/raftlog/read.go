package raftlog

import (
	"errors"
	"fmt"
	"slices"
	"sort"

	"github.com/cockroachdb/pebble/v2"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// Term implements raft.Storage: the term of an entry, or of the base. It returns raft.ErrCompacted for what is below, and
// raft.ErrUnavailable for what is above the last entry. It reads nothing from the disk.
func (l *Log) Term(index uint64) (uint64, error) {
	if err := l.use(); err != nil {
		return 0, err
	}
	defer l.using.RUnlock()
	l.mu.RLock()
	defer l.mu.RUnlock()
	switch {
	case index < l.state.base.index:
		return 0, raft.ErrCompacted
	case index == l.state.base.index:
		return l.state.base.term, nil
	case index > l.state.last.index:
		return 0, raft.ErrUnavailable
	}
	return l.terms.of(index), nil
}

// Entries implements raft.Storage: the entries from lo on, below hi. Their encoded sizes add up to at most maxSize bytes, but
// there is at least one. It returns raft.ErrCompacted if the first was truncated, and raft.ErrUnavailable if hi is behind the
// next index. The caller owns the slice; the entries must not be changed.
func (l *Log) Entries(lo, hi, maxSize uint64) ([]*pb.Entry, error) {
	if err := l.use(); err != nil {
		return nil, err
	}
	defer l.using.RUnlock()
	entries, it, s, err := l.look(lo, hi, maxSize)
	if it == nil || err != nil {
		return entries, err
	}
	entries, err = readEntries(it, s, lo, hi, maxSize)
	if err = errors.Join(err, it.Close()); err != nil {
		return nil, l.fail(err)
	}
	return entries, nil
}

// look returns the entries if they are in memory, and else an iterator over those on the disk, with the state of the same
// moment.
func (l *Log) look(lo, hi, maxSize uint64) ([]*pb.Entry, *pebble.Iterator, state, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	switch {
	case lo <= l.state.base.index:
		return nil, nil, l.state, raft.ErrCompacted
	case hi > l.state.last.index+1:
		return nil, nil, l.state, raft.ErrUnavailable
	case lo >= hi:
		return nil, nil, l.state, nil
	case l.recent.has(lo):
		return limit(l.recent.between(lo, hi), maxSize), nil, l.state, nil
	}
	it, err := l.disk.NewIter(&pebble.IterOptions{LowerBound: appendEntryKey(nil, lo), UpperBound: appendEntryKey(nil, hi)})
	if err != nil {
		return nil, nil, l.state, l.fail(err)
	}
	return nil, it, l.state, nil
}

// limit returns a copy of the first entries, as many as maxSize allows.
func limit(entries []*pb.Entry, maxSize uint64) []*pb.Entry {
	size := uint64(0)
	for i, e := range entries {
		if size += uint64(proto.Size(e)); size > maxSize && i > 0 {
			return slices.Clone(entries[:i])
		}
	}
	return slices.Clone(entries)
}

// readEntries reads the entries from lo on, below hi.
func readEntries(it *pebble.Iterator, s state, lo, hi, maxSize uint64) (entries []*pb.Entry, err error) {
	size := uint64(0)
	w := walk{it: it, prev: point{index: lo - 1}, joins: true, last: hi - 1}
	if w.prev.index == s.base.index {
		w.prev, w.joins = s.base, false
	}
	for w.next() {
		e := w.prev.entry(w.value)
		if size += uint64(proto.Size(e)); size > maxSize && len(entries) > 0 {
			return entries, nil
		}
		entries = append(entries, e)
	}
	if w.err == nil && w.prev.index == s.last.index && w.prev != s.last {
		w.err = damagef("entry %d is another one than the last that was appended", w.prev.index)
	}
	return entries, w.err
}

// walk reads entries in the order of their indexes, and checks that each follows the one before.
type walk struct {
	it    *pebble.Iterator
	prev  point  // the entry that was read last; at first the one before the first
	joins bool   // only the index of prev is known, and the first entry may follow any of that index
	last  uint64 // index of the last entry to read
	value []byte // of prev, valid until the next call of next
	begun bool
	err   error
}

// next reads the next entry. It returns false at the end, or with an error in w.err.
func (w *walk) next() bool {
	if w.err != nil || w.prev.index >= w.last {
		return false
	}
	index := w.prev.index + 1
	ok := w.begun && w.it.Next() || !w.begun && w.it.First()
	for w.begun = true; ok && isStateKey(w.it.Key()); {
		ok = w.it.Next()
	}
	if !ok {
		if w.err = damagef("entry %d is missing, and the log should reach to %d", index, w.last); w.it.Error() != nil {
			w.err = readError(w.it.Error(), fmt.Sprintf("entry %d", index))
		}
		return false
	}
	if w.value, w.err = w.it.ValueAndErr(); w.err != nil {
		w.err = readError(w.err, fmt.Sprintf("entry %d", index))
		return false
	}
	w.err = w.take()
	return w.err == nil
}

// take checks the entry that the iterator is at, and makes it the one that was read last.
func (w *walk) take() error {
	index, err := decodeEntryKey(w.it.Key())
	if err != nil {
		return err
	}
	p, before, err := decodePoint(index, w.value)
	if err != nil {
		return err
	}
	if w.joins {
		w.prev.crc, w.joins = before, false
	}
	err = p.follows(w.prev, before)
	w.prev = p
	return err
}

// point reads an entry without its data. It is called with writing held, for an index from the base to the last entry.
func (l *Log) point(index uint64) (point, error) {
	switch {
	case index < l.state.base.index || index > l.state.last.index:
		return point{}, rulef("index %d, and the log is from %d to %d", index, l.state.base.index+1, l.state.last.index)
	case index == l.state.base.index:
		return l.state.base, nil
	case index == l.state.last.index:
		return l.state.last, nil
	}
	return l.readPoint(index)
}

// readPoint reads an entry without its data from the disk.
func (l *Log) readPoint(index uint64) (p point, err error) {
	what := fmt.Sprintf("entry %d", index)
	value, closer, err := l.disk.Get(appendEntryKey(nil, index))
	if errors.Is(err, pebble.ErrNotFound) {
		return p, damagef("%s is missing", what)
	}
	if err != nil {
		return p, readError(err, what)
	}
	p, _, err = decodePoint(index, value)
	return p, errors.Join(err, closer.Close())
}

// IndexFor returns the lowest index up to which the log has to be truncated so that Size is at most keep bytes. It is the
// base's index if Size is that low already.
func (l *Log) IndexFor(keep uint64) (uint64, error) {
	if err := l.use(); err != nil {
		return 0, err
	}
	defer l.using.RUnlock()
	l.writing.Lock() // so that no entry is replaced meanwhile
	defer l.writing.Unlock()
	s := l.state
	if s.last.position-s.base.position <= keep {
		return s.base.index, nil
	}
	var failed error
	n := sort.Search(int(s.last.index-s.base.index), func(i int) bool {
		p, err := l.point(s.base.index + uint64(i) + 1)
		failed = errors.Join(failed, err)
		return err != nil || s.last.position-p.position <= keep
	})
	if failed != nil {
		return 0, l.fail(failed)
	}
	return s.base.index + uint64(n) + 1, nil
}

// Mark returns a copy of a mark, nil if there is none.
func (l *Log) Mark(name string) ([]byte, error) {
	if err := l.use(); err != nil {
		return nil, err
	}
	defer l.using.RUnlock()
	l.mu.RLock()
	defer l.mu.RUnlock()
	return slices.Clone(l.marks[name]), nil
}
