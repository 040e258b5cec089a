package raftlog

import (
	"maps"
	"math"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	pb "go.etcd.io/raft/v3/raftpb"
)

// change is a batch that is being made, and the log as it will be when it is there.
type change struct {
	batch   *pebble.Batch
	state   state
	entries []*pb.Entry // appended
	before  point       // the first of them
	reset   bool
	marks   map[string][]byte // nil if they stay as they are
}

// Append appends entries, whose indexes must be consecutive, and stores the hard state if it is not nil: in one batch, which
// is on stable storage when Append returns if sync is true. The entries from the first given index on are replaced. Neither
// the entries nor what they point to may be changed later. The stored commit index never goes down, whatever the hard
// state says.
//
// These are errors: a gap; an entry at or below the commit index; a term that goes down, or that is above the hard
// state's; another vote in the same term; and a commit index behind the last entry.
func (l *Log) Append(entries []*pb.Entry, hs *pb.HardState, sync bool) error {
	if len(entries) == 0 && hs == nil && !sync {
		_, err := l.current()
		return err
	}
	return l.write(sync, func(c *change) error {
		if err := c.setHardState(hs); err != nil {
			return err
		}
		return l.appendEntries(c, entries)
	})
}

// Truncate removes the entries up to an index, whose term stays known. There must be an entry with that index, and the store
// must need none of the removed ones any more, also after a crash. The stored commit index is raised to it if it is lower. A
// crash may undo a truncation. An index that was truncated before changes nothing.
func (l *Log) Truncate(index uint64) error {
	err := l.write(false, func(c *change) error {
		if index <= c.state.base.index {
			return nil
		}
		p, err := l.point(index)
		if err != nil {
			return err
		}
		c.state.base = p
		c.state.hard.commit = max(c.state.hard.commit, index)
		return nil
	})
	if err == nil {
		l.reclaimSome()
	}
	return err
}

// Installing notes that a snapshot up to an index is about to replace the store. Reset ends that, and so does index 0. It is on
// stable storage when Installing returns.
func (l *Log) Installing(index uint64) error {
	return l.write(true, func(c *change) error {
		c.state.installing = index
		return nil
	})
}

// Reset makes the log empty, to go on after an entry that a snapshot stands for, stores the hard state if it is not
// nil, and ends what Installing has noted: in one batch, which is on stable storage when Reset returns. The stored
// commit index becomes that index, whatever the hard state says. If the stored term is lower than the entry's, Reset
// raises it to that, without a vote: a crash may have come between the snapshot and the hard state that came with it.
// It is an error if the commit index was higher.
func (l *Log) Reset(index, term uint64, hs *pb.HardState) error {
	err := l.write(true, func(c *change) error {
		if index < c.state.hard.commit || index == math.MaxUint64 {
			return rulef("reset to index %d, and the commit index is %d", index, c.state.hard.commit)
		}
		if err := c.setHardState(hs); err != nil {
			return err
		}
		if c.state.hard.term < term {
			c.state.hard = hardState{term: term}
		}
		c.state.hard.commit = index
		p := point{index: index, term: term, position: c.state.last.position}
		c.state.base, c.state.last = p, p
		c.state.installing = 0
		c.reset = true
		return c.deleteFrom(0, max(index, l.state.last.index))
	})
	if err != nil {
		return err
	}
	return l.reclaim()
}

// SetMark stores a small value under a name of 1 to 255 bytes, and syncs it. The value has at most 64 KiB. An empty value removes
// the mark.
func (l *Log) SetMark(name string, value []byte) error {
	return l.write(true, func(c *change) error {
		if len(name) == 0 || len(name) > maxMarkName || len(value) > maxMarkValue {
			return rulef("mark %.300q of %d bytes: want a name of 1 to %d bytes, and at most %d bytes", name, len(value), maxMarkName, maxMarkValue)
		}
		c.marks = maps.Clone(l.marks)
		key := append([]byte{tagMark}, name...)
		if len(value) == 0 {
			delete(c.marks, name)
			return c.batch.Delete(key, nil)
		}
		c.marks[name] = slices.Clone(value)
		return c.batch.Set(key, appendMark(nil, name, value), nil)
	})
}

// write makes one batch by fill, gives it to Pebble, and syncs if sync is true. Every change of the log goes through here.
func (l *Log) write(sync bool, fill func(c *change) error) error {
	if err := l.use(); err != nil {
		return err
	}
	defer l.using.RUnlock()
	l.writing.Lock()
	defer l.writing.Unlock()
	c := &change{batch: l.disk.NewBatch(), state: l.state}
	defer func() { _ = c.batch.Close() }() // releases memory, cannot fail
	if err := l.build(c, fill); err != nil {
		return l.fail(err)
	}
	if err := l.apply(c, sync); err != nil {
		return l.fail(err)
	}
	if !sync {
		return l.Failed()
	}
	if err := c.batch.SyncWait(); err != nil {
		return l.fail(err)
	}
	// A sync of a frozen directory seems to succeed. If it is not frozen now, it was not then.
	if err := l.Failed(); err != nil {
		return err
	}
	if err := l.synced.set(c.state.batch); err != nil {
		return l.fail(err)
	}
	return nil
}

// build fills a batch, and adds the state record.
func (l *Log) build(c *change, fill func(c *change) error) error {
	if err := l.Failed(); err != nil { // it was waiting for another call, which failed
		return err
	}
	if err := fill(c); err != nil {
		return err
	}
	c.state.batch++
	c.state.id = l.synced.id
	if c.marks != nil {
		c.state.marks = marksCRC(c.marks)
	}
	if err := c.state.check(); err != nil {
		return rulef("%w", err)
	}
	op := c.batch.SetDeferred(stateKeyLen, stateLen)
	appendStateKey(op.Key[:0], c.state)
	appendState(op.Value[:0], c.state)
	return op.Finish()
}

// apply gives a batch to Pebble, and lets what is in memory follow. Pebble may have to wait for the disk, but readers
// do not: replaced entries are hidden from them before the batch begins, and new ones appear when Pebble has them.
func (l *Log) apply(c *change, sync bool) (err error) {
	if c.reset || len(c.entries) > 0 && c.entries[0].GetIndex() <= l.state.last.index {
		l.hide(c)
	}
	if sync {
		err = l.disk.ApplyNoSyncWait(c.batch, pebble.Sync)
	} else {
		err = l.disk.Apply(c.batch, pebble.NoSync)
	}
	if err == nil {
		l.publish(c)
	}
	return err
}

// hide takes entries that a batch is about to replace out of memory.
func (l *Log) hide(c *change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.reset {
		l.state, l.terms, l.recent = c.state, terms{}, recent{most: l.recent.most}
		return
	}
	l.state.last = c.before
	l.recent.cut(c.before.index + 1)
}

// publish puts the changes of a batch into memory.
func (l *Log) publish(c *change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.terms.add(c.entries)
	l.terms.dropTo(c.state.base.index)
	l.recent.add(c.entries)
	l.recent.dropTo(c.state.base.index)
	if c.marks != nil {
		l.marks = c.marks
	}
	l.state = c.state
}

// setHardState takes over raft's hard state. The commit index is checked when the entries are known.
func (c *change) setHardState(hs *pb.HardState) error {
	if hs == nil {
		return nil
	}
	old := &c.state.hard
	next := hardState{hs.GetTerm(), hs.GetVote(), max(old.commit, hs.GetCommit())}
	switch {
	case next.term < old.term:
		return rulef("hard state of term %d after one of term %d", next.term, old.term)
	case next.term == old.term && old.vote != 0 && next.vote != old.vote:
		return rulef("vote for %x in term %d after a vote for %x in it", next.vote, next.term, old.vote)
	}
	*old = next
	return nil
}

// maxBatch is the most that one call of Append may bring, in bytes. Pebble panics at 4 GiB.
const maxBatch = 1 << 30

// appendEntries adds entries to a batch.
func (l *Log) appendEntries(c *change, entries []*pb.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	before, err := l.before(entries[0].GetIndex())
	if err != nil {
		return err
	}
	if err := c.deleteFrom(before.index+1, l.state.last.index); err != nil {
		return err
	}
	c.before = before
	size := uint64(0)
	for _, e := range entries {
		if e.GetIndex() != before.index+1 || e.GetTerm() < before.term || e.GetTerm() == 0 || e.GetType() < 0 || e.GetType() > pb.EntryConfChangeV2 {
			return rulef("entry of index %d, term %d and type %d behind the one of index %d and term %d", e.GetIndex(), e.GetTerm(), e.GetType(), before.index, before.term)
		}
		if size += entrySize(len(e.GetData())); size > maxBatch {
			return rulef("more than %d bytes of entries in one batch", maxBatch)
		}
		op := c.batch.SetDeferred(entryKeyLen, entryHeadLen+len(e.GetData()))
		appendEntryKey(op.Key[:0], e.GetIndex())
		before = putEntry(op.Value, e, before)
		if err := op.Finish(); err != nil {
			return err
		}
	}
	c.state.last = before
	c.entries = entries
	return nil
}

// deleteFrom deletes the entries and state records from an index on, up to the last index.
func (c *change) deleteFrom(index, last uint64) error {
	if index > last {
		return nil
	}
	return c.batch.DeleteRange(appendEntryKey(nil, index), appendEntryKey(nil, last+1), nil)
}

// before returns the entry that an appended one of that index follows. L.state is the state before the batch.
func (l *Log) before(index uint64) (point, error) {
	switch s := &l.state; {
	case index == s.last.index+1:
		return s.last, nil
	case index > s.last.index:
		return point{}, rulef("append at index %d, and the log ends at %d", index, s.last.index)
	case index <= s.hard.commit:
		return point{}, rulef("append at index %d, and everything up to %d is committed", index, s.hard.commit)
	}
	return l.point(index - 1)
}
