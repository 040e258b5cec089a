package raftlog

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"
)

// Every byte that is stored. Numbers are little-endian, except the index in a key, which is big-endian so that the
// entries are in order. Checksums are CRC-32C.
//
// Keys:
//
//	'e' index(8)            an entry
//	'e' last(8) batch(8)    a state record, behind the entry that is its last one, with the number of its batch
//	'a' name                a mark: the CRC of name and value, 4 bytes, then the value
//
// The newest state record is the last of all records: what is behind it is deleted by its batch. So new records come behind old
// ones, the tables of Pebble do not overlap, and no compaction writes an entry again.
//
// Entry:
//
//	offset  size  field
//	0       4     CRC of the index, 8 bytes, and of all bytes from 4 on
//	4       4     CRC of the entry before, as its bytes 0 to 3 have it; 0 if it is the base of a log that was empty
//	8 8 term, at least 1, never lower than the term of the entry before
//	16      8     position: the size of all entries up to this one, see entrySize
//	24      1     type: 0 normal, 1 a change of members, 2 a change of members in two steps
//	25      n     data
//
// State record:
//
//	offset  size  field
//	0       4     magic "SVRL"
//	4       2     format version, 1
//	6       2     0
//	8       8     number of the batch that wrote it, from 1 on
//	16      28    base: index 8, term 8, position 8, CRC 4; index and term are 0 in a log that never had a base
//	44      28    last entry, likewise; the base if there are no entries
//	72      24    hard state: term 8, vote 8, commit 8
//	96      8     index of the snapshot that is being installed, 0 if none is
//	104     8     id of the log, random
//	112     4     CRC of all marks: of each, in the order of their names, length of the name 1, name, length 4, value
//	116     4     CRC of bytes 0 to 115
//
// File SYNCED:
//
//	offset  size  field
//	0       4     magic "SVRS"
//	4       2     format version, 1
//	6       2     0
//	8       8     id of the log
//	16      8     number of the last batch known to be on stable storage; 0 before there is one
//	24      4     CRC of bytes 0 to 23
//
// In every version the magic and the version come first, and the last 4 bytes are the CRC of all before: so a flipped bit in
// the version is not taken for a newer version.
const (
	tagMark  = 'a'
	tagEntry = 'e'

	entryKeyLen  = 9
	stateKeyLen  = 17
	entryHeadLen = 25
	stateLen     = 120
	syncedLen    = 28
	pointLen     = 28

	formatVersion = 1
	stateMagic    = "SVRL"
	syncedMagic   = "SVRS"

	maxMarkName  = math.MaxUint8
	maxMarkValue = 64 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// point is an entry without its data, as the state record knows it.
type point struct {
	index, term uint64
	position    uint64
	crc         uint32
}

// hardState is raft's, without pointers.
type hardState struct{ term, vote, commit uint64 }

// state is the state record.
type state struct {
	batch      uint64
	base, last point
	hard       hardState
	installing uint64
	id         uint64 // of the log
	marks      uint32
}

// entrySize returns how much an entry counts for Size, in bytes: its key and its value.
func entrySize(data int) uint64 { return uint64(entryKeyLen + entryHeadLen + data) }

func appendEntryKey(dst []byte, index uint64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, tagEntry), index)
}

func appendStateKey(dst []byte, s state) []byte {
	return binary.BigEndian.AppendUint64(appendEntryKey(dst, s.last.index), s.batch)
}

func isStateKey(key []byte) bool { return len(key) == stateKeyLen && key[0] == tagEntry }

func decodeEntryKey(key []byte) (index uint64, err error) {
	if len(key) != entryKeyLen || key[0] != tagEntry {
		return 0, damagef("key %x is not that of an entry", key)
	}
	return binary.BigEndian.Uint64(key[1:]), nil
}

// putEntry writes an entry that follows another into dst, which has room for just that. It returns the entry's point.
func putEntry(dst []byte, e *pb.Entry, before point) point {
	p := point{index: e.GetIndex(), term: e.GetTerm(), position: before.position + entrySize(len(e.GetData()))}
	le := binary.LittleEndian
	le.PutUint32(dst[4:], before.crc)
	le.PutUint64(dst[8:], p.term)
	le.PutUint64(dst[16:], p.position)
	dst[24] = byte(e.GetType())
	copy(dst[entryHeadLen:], e.GetData())
	p.crc = entryCRC(p.index, dst)
	le.PutUint32(dst, p.crc)
	return p
}

func entryCRC(index uint64, value []byte) uint32 {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], index)
	return crc32.Update(crc32.Checksum(b[:], castagnoli), castagnoli, value[4:])
}

// entry returns the entry at p, whose value was checked. It has a copy of the data.
func (p point) entry(value []byte) *pb.Entry {
	e := &pb.Entry{Index: &p.index, Term: &p.term, Type: pb.EntryType(value[24]).Enum()}
	if len(value) > entryHeadLen {
		e.Data = slices.Clone(value[entryHeadLen:])
	}
	return e
}

// decodePoint reads an entry without its data. Before is the CRC of the entry before.
func decodePoint(index uint64, value []byte) (p point, before uint32, err error) {
	if len(value) < entryHeadLen {
		return p, 0, damagef("entry %d has %d bytes, fewer than %d", index, len(value), entryHeadLen)
	}
	le := binary.LittleEndian
	p = point{index: index, term: le.Uint64(value[8:]), position: le.Uint64(value[16:]), crc: le.Uint32(value)}
	switch {
	case p.crc != entryCRC(index, value):
		return p, 0, damagef("entry %d has a wrong checksum", index)
	case p.term == 0 || value[24] > byte(pb.EntryConfChangeV2):
		return p, 0, damagef("entry %d has term %d and type %d", index, p.term, value[24])
	}
	return p, le.Uint32(value[4:]), nil
}

// follows returns an error if the entry at p, whose value names the CRC before, does not follow the entry at prev.
func (p point) follows(prev point, before uint32) error {
	switch {
	case p.index != prev.index+1:
		return damagef("entry %d follows entry %d: what is between them is missing", p.index, prev.index)
	case before != prev.crc:
		return damagef("entry %d follows another entry %d than there is", p.index, prev.index)
	case p.term < prev.term:
		return damagef("entry %d has term %d, entry %d before it %d", p.index, p.term, prev.index, prev.term)
	}
	return nil
}

func appendPoint(dst []byte, p point) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint64(dst, p.index)
	dst = le.AppendUint64(dst, p.term)
	dst = le.AppendUint64(dst, p.position)
	return le.AppendUint32(dst, p.crc)
}

func readPoint(b []byte) point {
	le := binary.LittleEndian
	return point{le.Uint64(b), le.Uint64(b[8:]), le.Uint64(b[16:]), le.Uint32(b[24:])}
}

func appendState(dst []byte, s state) []byte {
	dst = appendHead(dst, stateMagic)
	le := binary.LittleEndian
	dst = le.AppendUint64(dst, s.batch)
	dst = appendPoint(dst, s.base)
	dst = appendPoint(dst, s.last)
	dst = le.AppendUint64(dst, s.hard.term)
	dst = le.AppendUint64(dst, s.hard.vote)
	dst = le.AppendUint64(dst, s.hard.commit)
	dst = le.AppendUint64(dst, s.installing)
	dst = le.AppendUint64(dst, s.id)
	dst = le.AppendUint32(dst, s.marks)
	return appendCRC(dst, stateLen-4)
}

func decodeState(b []byte) (s state, err error) {
	if err := checkHead(b, stateMagic, stateLen, "the state record"); err != nil {
		return s, err
	}
	le := binary.LittleEndian
	s = state{
		batch: le.Uint64(b[8:]), base: readPoint(b[16:]), last: readPoint(b[44:]),
		hard:       hardState{le.Uint64(b[72:]), le.Uint64(b[80:]), le.Uint64(b[88:])},
		installing: le.Uint64(b[96:]), id: le.Uint64(b[104:]), marks: le.Uint32(b[112:]),
	}
	if err := s.check(); err != nil {
		return s, damagef("the state record: %w", err)
	}
	return s, nil
}

// check returns an error if the state is not one that a log can have.
func (s *state) check() error {
	switch {
	case s.batch == 0:
		return fmt.Errorf("batch number 0")
	case s.last.index < s.base.index || s.last.term < s.base.term || s.last.position < s.base.position,
		s.last.index == s.base.index && s.last != s.base, s.last.index == math.MaxUint64:
		return fmt.Errorf("the log ends at index %d, term %d, and begins behind index %d, term %d", s.last.index, s.last.term, s.base.index, s.base.term)
	case s.hard.commit < s.base.index || s.hard.commit > s.last.index:
		return fmt.Errorf("the commit index is %d, and the log is from %d to %d", s.hard.commit, s.base.index+1, s.last.index)
	case s.hard.term < s.last.term:
		return fmt.Errorf("the hard state has term %d, entry %d has term %d", s.hard.term, s.last.index, s.last.term)
	}
	return nil
}

func appendMark(dst []byte, name string, value []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(dst, markCRC(name, value)), value...)
}

func decodeMark(name string, b []byte) ([]byte, error) {
	if len(b) < 4 || binary.LittleEndian.Uint32(b) != markCRC(name, b[4:]) {
		return nil, damagef("mark %q has a wrong checksum", name)
	}
	return slices.Clone(b[4:]), nil
}

func markCRC(name string, value []byte) uint32 {
	return crc32.Update(crc32.Checksum([]byte(name), castagnoli), castagnoli, value)
}

// marksCRC returns the CRC of all marks.
func marksCRC(marks map[string][]byte) (crc uint32) {
	for _, name := range slices.Sorted(maps.Keys(marks)) {
		b := append([]byte{byte(len(name))}, name...)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(marks[name])))
		crc = crc32.Update(crc, castagnoli, append(b, marks[name]...))
	}
	return crc
}

func appendSynced(dst []byte, id, batch uint64) []byte {
	dst = binary.LittleEndian.AppendUint64(appendHead(dst, syncedMagic), id)
	return appendCRC(binary.LittleEndian.AppendUint64(dst, batch), syncedLen-4)
}

func decodeSynced(b []byte) (id, batch uint64, err error) {
	if err := checkHead(b, syncedMagic, syncedLen, "file "+syncedName); err != nil {
		return 0, 0, err
	}
	return binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:]), nil
}

func appendHead(dst []byte, magic string) []byte {
	return binary.LittleEndian.AppendUint32(append(dst, magic...), formatVersion) // the upper half is the two zeros
}

// appendCRC appends the CRC of the last n bytes.
func appendCRC(dst []byte, n int) []byte {
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[len(dst)-n:], castagnoli))
}

// checkHead checks what all records of their own have in common: magic, checksum, version, length.
func checkHead(b []byte, magic string, length int, what string) error {
	if len(b) < 12 || string(b[:4]) != magic {
		return damagef("%s has no magic", what)
	}
	end := len(b) - 4
	le := binary.LittleEndian
	if le.Uint32(b[end:]) != crc32.Checksum(b[:end], castagnoli) {
		return damagef("%s has a wrong checksum", what)
	}
	if version := le.Uint16(b[4:]); version != formatVersion {
		return fmt.Errorf("%w: %s has format %d, this program knows %d", ErrVersion, what, version, formatVersion)
	}
	if len(b) != length || le.Uint16(b[6:]) != 0 {
		return damagef("%s has %d bytes, or unknown flags", what, len(b))
	}
	return nil
}
