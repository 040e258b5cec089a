// Package entry is what the members of a group have in common: the bytes of a message in raft's log, and the chain of
// hashes by which a member finds out that it differs from the others.
//
// A message is one commit: the changes of one record of the store's log (internal/storage.Batch), and what every member has to know to
// make it. All integers are little-endian.
//
//	byte 0       version, 1
//	byte 1       flags
//	bytes 2-9 the proposal's id, by which the proposer recognises the outcome
//	bytes 10-17  the proposer's clock, in milliseconds since 1970
//	byte 18      the format level that a member needs to understand the record
//	bytes 19-26  an index j up to which the proposer had applied the log
//	bytes 27-42  H_j, the proposer's hash at j
//	bytes 43-    the record, or what a control message says
//
// A control message says nothing, when a leadership resumes; or, from format level 2 on, byte 1 and the number of a part: the members
// digest that part of what they have, as of this entry, and compare.
//
// Entries that raft makes itself are no messages: the empty one by which a leader begins, and changes of the members. They have an
// index, and so a hash.
package entry

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/sievekv/sievekv/internal/format"
)

// Version is the version of the messages that this package writes.
const Version = 1

// The format levels: what a member needs to understand a message.
const (
	LevelRecords = 1 // records, and control messages that say nothing
	LevelCompare = 2 // control messages that say to compare
	Level        = LevelCompare
)

// controlCompare is the first byte of a control message that says to compare.
const controlCompare = 1

// Compare returns the content of a control message that makes members compare a part of their stores.
func Compare(part uint8) []byte { return []byte{controlCompare, part} }

// Compares reports whether the message says to compare, and which part.
func (m *Message) Compares() (part uint8, is bool) {
	if m.Flags&Control == 0 || len(m.Record) != 2 || m.Record[0] != controlCompare {
		return 0, false
	}
	return m.Record[1], true
}

// LevelFor returns the level that a message needs.
func LevelFor(f Flags, record []byte) byte {
	if f&Control != 0 && len(record) > 0 {
		return LevelCompare
	}
	return LevelRecords
}

// headerSize is the length of what comes before the record.
const headerSize = 43

// MaxRecord is the most bytes of a record. It is more than the largest commit of a store, which the memtable bounds.
const MaxRecord = 1 << 30

// Flags say how a record is applied.
type Flags byte

// The flags. A message with others is refused, because this program does not know their meaning.
const (
	Whole   Flags = 1 << iota // lookups see the record as a whole: it is applied under the sequence lock
	Group                     // it is a group of small commits, which the proposer's memory has already
	Control                   // it changes nothing of the store by itself
)

const allFlags = Whole | Group | Control

// Message is a commit of the group.
type Message struct {
	Flags    Flags
	Proposal uint64
	Millis   int64 // the proposer's clock, since 1970
	Level    byte  // format level
	Base     Hashed
	Record   []byte
}

// Hashed is a place in the log, and the hash of everything up to it.
type Hashed struct {
	Index uint64
	Hash  Hash
}

// Append appends the message to b.
func (m *Message) Append(b []byte) []byte {
	b = append(b, Version, byte(m.Flags))
	b = binary.LittleEndian.AppendUint64(b, m.Proposal)
	b = binary.LittleEndian.AppendUint64(b, uint64(m.Millis))
	b = append(b, m.Level)
	b = binary.LittleEndian.AppendUint64(b, m.Base.Index)
	b = append(b, m.Base.Hash[:]...)
	return append(b, m.Record...)
}

// Size returns how many bytes Append appends.
func (m *Message) Size() int { return headerSize + len(m.Record) }

// Decode returns a message. Its record is part of data. It returns an error for a message that no member can apply: it
// comes from a newer program, or is damaged.
func Decode(data []byte) (m Message, err error) {
	switch {
	case len(data) < headerSize:
		return m, fmt.Errorf("message of %d bytes, want at least %d", len(data), headerSize)
	case data[0] != Version:
		return m, fmt.Errorf("message of version %d, want %d: a newer sievekv has written it", data[0], Version)
	case Flags(data[1])&^allFlags != 0:
		return m, fmt.Errorf("message with flags %#x, want at most %#x: a newer sievekv has written it", data[1], byte(allFlags))
	case len(data) > headerSize+MaxRecord:
		return m, fmt.Errorf("message of %d bytes, want at most %d", len(data), headerSize+MaxRecord)
	}
	m = Message{
		Flags:    Flags(data[1]),
		Proposal: binary.LittleEndian.Uint64(data[2:]),
		Millis:   int64(binary.LittleEndian.Uint64(data[10:])),
		Level:    data[18],
		Base:     Hashed{Index: binary.LittleEndian.Uint64(data[19:])},
		Record:   data[headerSize:],
	}
	copy(m.Base.Hash[:], data[27:])
	if _, is := m.Compares(); !is && m.Flags&Control != 0 && len(m.Record) > 0 && m.Level <= Level {
		return m, fmt.Errorf("control message %.20x is not known", m.Record)
	}
	return m, nil
}

// Hash is the hash of an entry and of all entries before it. Members with equal hashes at an index have applied the same log up to
// there.
type Hash [16]byte

// First returns the hash before the first entry of a group's log.
func First(group [16]byte) (h Hash) {
	sum := sha256.Sum256(append([]byte("sievekv group\x00"), group[:]...))
	copy(h[:], sum[:])
	return h
}

// Next returns the hash of an entry, given the hash of the entry before it: the first 16 bytes of SHA-256 of that hash,
// the entry's index and term, and its payload.
func (h Hash) Next(index, term uint64, payload []byte) (next Hash) {
	s := sha256.New()
	head := append(make([]byte, 0, len(h)+16), h[:]...)
	head = binary.LittleEndian.AppendUint64(head, index)
	head = binary.LittleEndian.AppendUint64(head, term)
	s.Write(head)
	s.Write(payload)
	copy(next[:], s.Sum(head[:0]))
	return next
}

// Applied says up to where a member has applied the log. Its store has it in the same batch as the entry's changes.
type Applied = format.Applied

// At returns the place up to which a member has applied the log, and its hash.
func At(a Applied) Hashed { return Hashed{a.Index, a.Hash} }
