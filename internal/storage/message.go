package storage

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/text"
)

// Message is a message of the log of a group, and the content of its record of format.Applied.
type Message struct {
	format.Applied
	Record  []byte // nil for an entry that is the log's own
	Whole   bool   // as the Proposal said
	Group   bool
	Members []byte // the members from now on, in any form; nil if they stay as they are
}

// ErrMember is returned by Open when a store of a group is opened alone.
var ErrMember = errors.New("kv: the store is a member of a group")

// Owns reports whether the memory of this store has the commits of a message already. The apply loop calls it: the role does not
// change meanwhile. An entry of a term comes from the store that led in the term.
func (g *Group) Owns(m *Message) bool { return m.Group && g.term != 0 && g.term == m.Term }

// Proposed reports whether this store has proposed a message, in the term that it leads in. The apply loop calls it.
func (g *Group) Proposed(m *Message) bool { return g.term != 0 && g.term == m.Term }

// Applied returns what the store has applied last.
func (g *Group) Applied() format.Applied { return *g.applied.Load() }

// IsNext returns an error unless a message directly follows the one that was applied last. A store that leads, or has
// not yet forgotten what it had while it led, takes messages of that term only.
func (g *Group) IsNext(m *Message) error {
	if g.term != 0 && m.Term != g.term {
		return fmt.Errorf("kv: message %d of the log is of term %d, and the store leads in term %d, or was not told to follow", m.Index, m.Term, g.term)
	}
	if at := g.Applied().Index; m.Index != at+1 {
		return fmt.Errorf("kv: message %d of the log, want %d", m.Index, at+1)
	}
	return nil
}

// Apply puts a message into Pebble, with its record, and returns the number of the commit; 0 if it has none, or its commits have
// numbers already. The caller has checked the message's Record by Batch.Load, unless the store owns it.
func (g *Group) Apply(m *Message) (number uint64, err error) {
	s, own := g.store, g.Owns(m)
	batch := s.disk.NewBatch()
	defer func() { _ = batch.Close() }() // releases memory, cannot fail
	if len(m.Record) > 0 {
		const room = 128 // for the record of format.Applied
		if err := batch.SetRepr(append(make([]byte, 0, len(m.Record)+len(m.Members)+room), m.Record...)); err != nil {
			return 0, format.Corruptf("message %d: %v", m.Index, err)
		}
	}
	must(batch.Set(format.AppendMetaKey(nil, format.MetaApplied), format.AppendApplied(nil, m.Applied), nil))
	if m.Members != nil {
		must(batch.Set(format.AppendMetaKey(nil, format.MetaMembers), m.Members, nil))
	}
	if err := s.disk.Apply(batch, pebble.NoSync); err != nil {
		return 0, s.Fail(text.After(err, "kv: message %d", m.Index))
	}
	Raise(&s.lastSeq, lastSequence(batch))
	applied := m.Applied
	g.applied.Store(&applied)
	switch {
	case own:
		return 0, g.land(len(m.Record))
	case len(m.Record) > 0:
		number = s.last.Add(1)
	}
	return number, s.failure()
}

// land empties the index of the flight whose message Pebble has.
func (g *Group) land(bytes int) error {
	s, p := g.store, &g.store.pending
	s.pauseAt("flush: applied")
	p.mu.Lock()
	f := g.flight
	if f == nil {
		p.mu.Unlock()
		return s.Fail(errors.New("kv: a message of pending commits was applied that is not in flight"))
	}
	p.recorded.Add(-int64(p.flushing.records))
	p.flushing.reset()
	g.flight = nil
	p.flushed.Store(f.upTo)
	p.mu.Unlock()
	Raise(&s.durable, f.number)
	s.stats.flushedBytes.Add(uint64(bytes))
	close(f.done)
	return s.failure()
}

// Write changes the stored form of this member alone. What lookups and messages read must stay the same. No message may
// be applied meanwhile.
func (g *Group) Write(b *Batch) error {
	batch := g.store.disk.NewBatch()
	defer func() { _ = batch.Close() }() // releases memory, cannot fail
	b.addTo(batch)
	if err := g.store.disk.Apply(batch, pebble.NoSync); err != nil {
		return g.store.Fail(text.After(err, "kv: commit"))
	}
	Raise(&g.store.lastSeq, lastSequence(batch))
	return g.store.failure()
}

// SyncStore brings applied messages to stable storage, and returns the index up to which this store no longer needs the
// log.
func (g *Group) SyncStore() (index uint64, err error) {
	index = g.Applied().Index
	seq, err := g.store.syncDisk()
	if err == nil {
		Raise(&g.store.durableSeq, seq)
	}
	return index, err
}

// atOnce returns the number of a commit up to which Pebble has all. The caller makes sure that no commit is made
// meanwhile.
func (g *Group) atOnce() uint64 {
	last, durable := g.store.last.Load(), g.store.durable.Load()
	if g.store.pending.none() {
		return last
	}
	return min(last, durable)
}

// join finds out what the store of a group has applied. A store that has applied something is not opened alone, unless it leaves the group.
func (s *Store) join() error {
	applied, _, err := ReadApplied(s.disk)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", s.Dir, err)
	case s.opts.Log != nil:
		s.Group = &Group{store: s, log: s.opts.Log}
		s.Group.applied.Store(&applied)
	case applied.Index == 0:
	case !s.opts.LeaveGroup:
		return fmt.Errorf("%w: %s has applied %d messages; open it read-only (Options.ReadOnly), "+
			"or take it out of the group (Options.LeaveGroup)", ErrMember, s.Dir, applied.Index)
	default:
		return s.leave()
	}
	return nil
}

// leave turns the store of a group into a store of its own.
func (s *Store) leave() error {
	b := s.disk.NewBatch()
	defer func() { _ = b.Close() }() // releases memory, cannot fail
	for _, which := range []byte{format.MetaApplied, format.MetaMembers} {
		must(b.Delete(format.AppendMetaKey(nil, which), nil))
	}
	if err := s.disk.Apply(b, pebble.Sync); err != nil {
		return text.After(err, "kv: open %s", s.Dir)
	}
	Raise(&s.lastSeq, lastSequence(b))
	Raise(&s.durableSeq, lastSequence(b))
	return s.failure()
}

// ReadApplied reads the last message that a store has applied, and the members of its group; Index is 0 for a store
// that never was in a group.
func ReadApplied(from Reader) (applied format.Applied, members []byte, err error) {
	value, err := ReadMeta(from, format.AppendMetaKey(nil, format.MetaApplied))
	if err == nil && value != nil {
		applied, err = format.DecodeApplied(value)
	}
	if err == nil {
		members, err = ReadMeta(from, format.AppendMetaKey(nil, format.MetaMembers))
	}
	return applied, members, err
}
