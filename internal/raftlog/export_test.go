package raftlog

import pb "go.etcd.io/raft/v3/raftpb"

// Encoded is one of each record, for the golden test.
type Encoded struct{ EntryKey, Entry, NextEntry, StateKey, State, Mark, Synced []byte }

// Encode returns records of two entries, and of a log that has them.
func Encode(first, second *pb.Entry, mark string, value []byte) (e Encoded) {
	s := state{batch: 3, base: point{first.GetIndex() - 1, first.GetTerm(), 500, 0x01020304}, hard: hardState{second.GetTerm(), 0xabc, first.GetIndex()}, installing: 9, id: 0x1122}
	e.EntryKey = appendEntryKey(nil, first.GetIndex())
	e.Entry = make([]byte, entryHeadLen+len(first.GetData()))
	p := putEntry(e.Entry, first, s.base)
	e.NextEntry = make([]byte, entryHeadLen+len(second.GetData()))
	s.last = putEntry(e.NextEntry, second, p)
	s.marks = marksCRC(map[string][]byte{mark: value})
	e.StateKey = appendStateKey(nil, s)
	e.State = appendState(nil, s)
	e.Mark = appendMark(nil, mark, value)
	e.Synced = appendSynced(nil, s.id, s.batch)
	return e
}

// Decode decodes bytes as each record in turn, and returns what encodes what was read: it is the same bytes, or nil for a record that
// they are not.
func Decode(index uint64, b []byte) (entry, state, mark, synced []byte, errs []error) {
	p, before, err := decodePoint(index, b)
	if errs = append(errs, err); err == nil {
		entry = make([]byte, len(b))
		e := p.entry(b)
		putEntry(entry, e, point{crc: before, position: p.position - entrySize(len(e.GetData()))})
	}
	s, err := decodeState(b)
	if errs = append(errs, err); err == nil {
		state = appendState(nil, s)
	}
	value, err := decodeMark("m", b)
	if errs = append(errs, err); err == nil {
		mark = appendMark(nil, "m", value)
	}
	id, batch, err := decodeSynced(b)
	if errs = append(errs, err); err == nil {
		synced = appendSynced(nil, id, batch)
	}
	return entry, state, mark, synced, errs
}

// WithCRC returns a record with its checksum at the end made right.
func WithCRC(b []byte) []byte { return appendCRC(b[:len(b)-4:len(b)-4], len(b)-4) }

// Written returns how many bytes flushes and compactions have written.
func (l *Log) Written() (flushed, compacted uint64) {
	for i, level := range l.disk.Metrics().Levels {
		compacted += level.TableBytesCompacted
		if i == 0 {
			flushed = level.TableBytesFlushed
		}
	}
	return flushed, compacted
}

// Reclaim gives back what was truncated, and waits for that.
func (l *Log) Reclaim() error { return l.reclaim() }

// Flush begins a flush, and returns a channel that is closed at its end.
func (l *Log) Flush() (<-chan struct{}, error) { return l.disk.AsyncFlush() }

// Excise drops the entries below the base, without a flush.
func (l *Log) Excise() error { return l.excise(l.state.base.index) }

// Forge makes the value of an entry another one, whose checksum is right. It says to follow the same entry.
func Forge(index uint64, value []byte, change func(e *pb.Entry)) []byte {
	p, before, err := decodePoint(index, value)
	if err != nil {
		panic(err)
	}
	e := p.entry(value)
	size := entrySize(len(e.GetData()))
	change(e)
	forged := make([]byte, entryHeadLen+len(e.GetData()))
	putEntry(forged, e, point{crc: before, position: p.position - size})
	return forged
}

// The keys of an entry, and of a mark; and what a mark has as its value.
func EntryKey(index uint64) []byte               { return appendEntryKey(nil, index) }
func MarkKey(name string) []byte                 { return append([]byte{tagMark}, name...) }
func MarkValue(name string, value []byte) []byte { return appendMark(nil, name, value) }
