package remains

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/record"
)

// The MANIFEST is a log of edits. An edit is a sequence of tags, each with fields; see Pebble's package
// internal/manifest. These are the tags that a store without virtual tables and without blob files has.
const (
	tagComparer    = 1
	tagMinLog      = 2
	tagNextFile    = 3
	tagLastSeq     = 4
	tagDeletedFile = 6
	tagPrevLog     = 9
	tagNewFile2    = 100 // without custom fields
	tagNewFile4    = 103 // with them

	customEnd = 1
	customBad = 1 << 6 // this bit is set in tags of fields that must be understood
)

var errManifest = errors.New("remains: the MANIFEST has an edit that cannot be decoded")

// Table is what the MANIFEST says of a table.
type Table struct {
	Number, Size      uint64
	Level             int
	Smallest, Largest pebble.InternalKey
	// The least and the greatest sequence in it.
	SmallestSeq, LargestSeq uint64
}

// version is what the MANIFEST says of the store.
type version struct {
	comparer                  string
	minLog, nextFile, lastSeq uint64
	flushed                   uint64 // all commits up to this sequence are in tables, and no others; 0 if it is not known
	tabled                    uint64 // all commits up to this sequence are in tables; 0 if it is not known
	loggedBy                  uint64 // the last sequence when minLog was written: the log begins at the next one, or before
	tables                    map[uint64]Table

	sequenceNext bool // the edit with minLog had no sequence: the next edit's counts
}

// readManifest reads a MANIFEST. Clean is false if it does not end with a whole record.
func readManifest(data []byte) (v *version, clean bool, err error) {
	v = &version{tables: make(map[uint64]Table)}
	for r := record.NewReader(bytes.NewReader(data), 0); ; {
		rec, err := r.Next()
		if err == io.EOF {
			return v, true, nil
		}
		var edit []byte
		if err == nil {
			edit, err = io.ReadAll(rec)
		}
		if err != nil {
			return v, false, nil
		}
		if err := v.apply(edit); err != nil {
			return v, false, err
		}
	}
}

func (v *version) apply(edit []byte) error {
	d := decoder{b: edit}
	type place struct {
		level int
		n     uint64
	}
	var deleted []place
	var added []Table
	flush, whole := false, false
	for len(d.b) > 0 {
		switch tag := d.uvarint(); tag {
		case tagComparer:
			v.comparer = string(d.bytes())
			whole = true // this edit has all tables
		case tagMinLog:
			v.minLog = d.uvarint()
			flush = true
		case tagNextFile:
			v.nextFile = d.uvarint()
		case tagLastSeq:
			v.lastSeq = d.uvarint()
		case tagPrevLog:
			d.uvarint()
		case tagDeletedFile:
			level := d.uvarint()
			deleted = append(deleted, place{int(level), d.uvarint()})
		case tagNewFile2, tagNewFile4:
			added = append(added, d.table(tag == tagNewFile4))
		default:
			return errManifest
		}
	}
	if d.bad {
		return errManifest
	}
	for _, p := range deleted {
		if v.tables[p.n].Level == p.level {
			delete(v.tables, p.n)
		}
	}
	if flush || v.sequenceNext {
		v.loggedBy, v.sequenceNext = v.lastSeq, whole // an edit that has all tables has no sequence
	}
	if flush {
		v.flushed, v.tabled = 0, 0
		if !whole {
			v.tabled = v.loggedBy // an open begins a log, and all before it is in tables
		}
	}
	for _, t := range added {
		if flush && !whole && t.Level == 0 {
			v.flushed = max(v.flushed, t.LargestSeq) // a flush keeps the newest entry
			v.tabled = v.flushed
		}
	}
	for _, t := range added { // after the deletions: a table may move to another level
		v.tables[t.Number] = t
	}
	return nil
}

// reached returns the next sequence, judged by the files that are there, for comparison with the sidecar: the sequence
// behind the logs, which is 0 if they have no commit, or behind the tables. The last sequence in the MANIFEST proves
// nothing: an edit of a compaction has the last sequence of its time, and the log may have lost it since. It counts if
// nothing else is known.
func (v *version) reached(logs uint64) uint64 {
	if logs > 0 || v.tabled > 0 {
		return max(logs, v.tabled+1)
	}
	return max(v.lastSeq+1, FirstSequence)
}

// FirstSequence is the sequence of the first commit of a store in Pebble.
const FirstSequence = 10

// sorted returns the tables by number.
func (v *version) sorted() []Table {
	return slices.SortedFunc(maps.Values(v.tables), func(a, b Table) int { return cmp.Compare(a.Number, b.Number) })
}

type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) bytes() []byte {
	n := d.uvarint()
	if n > uint64(len(d.b)) {
		d.bad, d.b = true, nil
		return nil
	}
	out := d.b[:n]
	d.b = d.b[n:]
	return out
}

func (d *decoder) key() pebble.InternalKey {
	b := d.bytes()
	if len(b) < 8 {
		d.bad = true
		return pebble.InternalKey{}
	}
	n := len(b) - 8
	trailer := binary.LittleEndian.Uint64(b[n:])
	return pebble.MakeInternalKey(slices.Clone(b[:n]), pebble.SeqNum(trailer>>8), pebble.InternalKeyKind(trailer&0xff))
}

func (d *decoder) table(custom bool) (t Table) {
	t.Level, t.Number, t.Size = int(d.uvarint()), d.uvarint(), d.uvarint()
	t.Smallest, t.Largest = d.key(), d.key()
	t.SmallestSeq, t.LargestSeq = d.uvarint(), d.uvarint()
	for custom && !d.bad {
		tag := d.uvarint()
		if tag == customEnd {
			break
		}
		if tag&customBad != 0 {
			d.bad = true
		}
		d.bytes()
	}
	return t
}

// encode returns a MANIFEST with one edit that says what v says. All tables are in level 0: their sequences tell
// which version of a key is the newest.
func (v *version) encode() []byte {
	var e []byte
	num := func(list ...uint64) {
		for _, n := range list {
			e = binary.AppendUvarint(e, n)
		}
	}
	key := func(k pebble.InternalKey) {
		num(uint64(k.Size()))
		e = append(e, k.UserKey...)
		e = binary.LittleEndian.AppendUint64(e, uint64(k.Trailer))
	}
	num(tagComparer, uint64(len(v.comparer)))
	e = append(e, v.comparer...)
	num(tagMinLog, v.minLog, tagNextFile, v.nextFile, tagLastSeq, v.lastSeq)
	for _, t := range v.sorted() {
		num(tagNewFile2, uint64(t.Level), t.Number, t.Size)
		key(t.Smallest)
		key(t.Largest)
		num(t.SmallestSeq, t.LargestSeq)
	}
	var out bytes.Buffer
	w := record.NewWriter(&out)
	_, _ = w.WriteRecord(e) // to memory, which cannot fail
	_ = w.Close()
	return out.Bytes()
}
