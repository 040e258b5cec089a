package storage

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/bits"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/format"
)

// Batch is a list of changes that are written as a whole. The zero value is empty. One goroutine at a time uses it.
type Batch struct {
	data    []byte // keys and values, one after the other
	changes []batchChange
	size    int  // upper bound of what the changes take as a record of the log
	pending int  // upper bound of what they take in an index, see index.holds
	now     bool // a change does something that no index has: see Later
}

type batchChange struct {
	kind            Kind
	part            format.ObjectKey // what the key is of, if it is of a part of an object
	key, value, end int              // where in the data the key begins, the value begins, and the value ends
	most            int              // bytes that the value adds to the operand that it is joined to, at most
}

// Kind says what one change of a batch does.
type Kind = pebble.InternalKeyKind

// The kinds of changes.
const (
	KindSet         = pebble.InternalKeyKindSet
	KindDelete      = pebble.InternalKeyKindDelete
	KindMerge       = pebble.InternalKeyKindMerge
	KindRangeDelete = pebble.InternalKeyKindRangeDelete
)

// Change is a change of a batch. Its slices are valid until the batch is changed.
type Change struct {
	Kind  Kind
	Key   []byte
	Value []byte           // the end of a range that is deleted
	Part  format.ObjectKey // what Key is of, if it is of a part of an object
}

// Set adds the setting of a key to a value.
func (b *Batch) Set(key, value []byte) {
	at, part := b.begin(key), partOf(key)
	b.data = append(b.data, value...)
	b.end(KindSet, part, at, len(key), len(value))
	b.now = b.now || !isPlainRecord(key, part) || len(key)+len(value) > maxPendingRecord
}

// Delete adds the deletion of a key.
func (b *Batch) Delete(key []byte) {
	b.end(KindDelete, partOf(key), b.begin(key), len(key), 0)
	b.now = true
}

// DeleteRange adds the deletion of all keys from one on, below another.
func (b *Batch) DeleteRange(from, to []byte) {
	at := b.begin(from)
	b.data = append(b.data, to...)
	b.end(KindRangeDelete, format.ObjectKey{}, at, len(from), 0)
	b.now = true
}

// Merge adds an operand of a block.
func (b *Batch) Merge(key, operand []byte) {
	at := b.begin(key)
	b.data = append(b.data, operand...)
	b.end(KindMerge, partOf(key), at, len(key), len(operand))
	b.now = true // no bound is known of what it is joined to
}

// SetBits adds the setting of bits of a block. Items that may be joined with items of other commits become the shortest
// operand only then, others at once. Scratch is memory for positions.
func (b *Batch) SetBits(object, layer, blk uint64, set *block.BitSet, joined bool, scratch *[]uint16) {
	at, n := b.beginBlock(object, layer, blk)
	if joined {
		b.data = set.AppendChange(b.data)
	} else {
		b.data = set.AppendOperand(b.data, blk, scratch)
		b.now = b.now || set.HasItems()
	}
	b.end(KindMerge, format.ObjectKey{Object: object, Part: layer + format.PartLayers, Rest: blk}, at, n, set.ChangeSize())
}

// SetSlots adds new values of slots of a block, one for each slot, in ascending order.
func (b *Batch) SetSlots(object, layer, blk uint64, family block.Family, slots []block.Slot) {
	at, n := b.beginBlock(object, layer, blk)
	b.data = block.AppendSlotsOperand(b.data, family, slots)
	const most = 7 // bytes of a slot: up to 3 of the gap before it, and 4 of the value
	b.end(KindMerge, format.ObjectKey{Object: object, Part: layer + format.PartLayers, Rest: blk}, at, n, most*len(slots))
}

// SetCounters adds the counters of a layer.
func (b *Batch) SetCounters(object, layer uint64, values [format.NumCounters]uint64) {
	at := len(b.data)
	b.data = format.AppendCountersKey(b.data, object, layer)
	n := len(b.data) - at
	b.data = format.AppendCounters(b.data, values)
	b.end(KindSet, format.ObjectKey{Object: object, Part: format.PartCounters, Rest: layer}, at, n, len(b.data)-at-n)
}

func (b *Batch) begin(key []byte) (at int) {
	at = len(b.data)
	b.data = append(b.data, key...)
	return at
}

func (b *Batch) beginBlock(object, layer, blk uint64) (at, keyLen int) {
	at = len(b.data)
	b.data = format.AppendBlockKey(b.data, object, layer, blk)
	return at, len(b.data) - at
}

// end adds a change whose key and value the data has from at on.
func (b *Batch) end(kind Kind, part format.ObjectKey, at, keyLen, most int) {
	b.changes = append(b.changes, batchChange{kind, part, at, at + keyLen, len(b.data), most})
	value := len(b.data) - at - keyLen
	if kind == KindMerge {
		b.pending += perBlock
		if block.IsUnjoined(b.data[at+keyLen:]) {
			value = most + perBlock
		}
	}
	b.size += 1 + uvarintLen(keyLen) + keyLen + uvarintLen(value) + value
	b.pending += perPending + keyLen + most
}

func uvarintLen(n int) int { return (bits.Len(uint(n)|1) + 6) / 7 }

// partOf returns which part of an object a key belongs to, if it belongs to one.
func partOf(key []byte) (part format.ObjectKey) {
	if key[0] == format.TagObject {
		part, _ = format.DecodeObjectKey(key)
	}
	return part
}

// isPlainRecord reports whether a key is a header's, a layer's counters', or a number of keys': these are looked up by
// their keys alone.
func isPlainRecord(key []byte, part format.ObjectKey) bool {
	switch key[0] {
	case format.TagHeader:
		return true
	case format.TagMeta:
		return key[1] == format.MetaKeys
	case format.TagObject:
		return part.Part == format.PartCounters
	}
	return false
}

// Load replaces the changes by the changes of a record from a Log. An error wraps format.ErrCorrupt, and the batch may
// then have some of the changes.
func (b *Batch) Load(record []byte) error {
	b.Reset()
	if len(record) < logHeader {
		return format.Corruptf("record of %d bytes, want at least %d", len(record), logHeader)
	}
	count := binary.LittleEndian.Uint32(record[logHeader-4:])
	for rest := record[logHeader:]; len(rest) > 0; { // Pebble's own reader trusts what it reads
		kind := Kind(rest[0])
		key, more, ok := cutString(rest[1:])
		var value []byte
		if ok && kind != KindDelete {
			value, more, ok = cutString(more)
		}
		if !ok || !b.load(kind, key, value) {
			return format.Corruptf("record of %d bytes: change %d, of kind %d, of key %.40x", len(record), len(b.changes), kind, key)
		}
		rest = more
	}
	if len(b.changes) != int(count) {
		return format.Corruptf("record of %d changes, want %d", len(b.changes), count)
	}
	return nil
}

// cutString cuts a string off that begins with its length.
func cutString(b []byte) (s, rest []byte, ok bool) {
	size, n := binary.Uvarint(b)
	if n <= 0 || size > uint64(len(b)-n) {
		return nil, nil, false
	}
	b = b[n:]
	return b[:size], b[size:], true
}

// load adds a change of a record. It reports false for a change that the engine never makes.
func (b *Batch) load(kind Kind, key, value []byte) bool {
	switch {
	case len(key) == 0 || !isWhole(key, kind == KindRangeDelete):
		return false
	case kind == KindSet:
		b.Set(key, value)
	case kind == KindDelete:
		b.Delete(key)
	case kind == KindRangeDelete:
		if bytes.Compare(value, []byte{key[0] + 1}) > 0 || key[0] == format.TagMeta && !bytes.Equal(value, []byte{format.TagMeta, key[1] + 1}) {
			return false // it reaches into keys of another kind
		}
		b.DeleteRange(key, value)
	case kind == KindMerge && partOf(key).Part >= format.PartLayers && !block.IsUnjoined(value): // addTo joins all of these
		b.Merge(key, value)
	default:
		return false
	}
	return true
}

// isWhole reports whether a key, or the first key of a range, is as long as keys of its kind are. A record never has
// the keys of the store's identity and of the messages that it has applied.
func isWhole(key []byte, ofRange bool) bool {
	switch key[0] {
	case format.TagMeta:
		n := 2
		if len(key) >= n && key[1] == format.MetaKeys && !ofRange {
			n = 3
		}
		return len(key) == n && key[1] != format.MetaStore && key[1] != format.MetaApplied && key[1] != format.MetaMembers
	case format.TagHeader:
		return ofRange || len(key) >= format.HeaderKeyPrefix
	case format.TagObject:
		return ofRange || partOf(key).Object != 0
	}
	return true
}

// Count returns the number of changes.
func (b *Batch) Count() int { return len(b.changes) }

// Empty reports whether there are none.
func (b *Batch) Empty() bool { return len(b.changes) == 0 }

// Len returns how many bytes the batch takes in the log, at most.
func (b *Batch) Len() int { return logHeader + b.size }

// logHeader is the length of what begins a record of the log: 8 bytes for Pebble's sequence, and 4 for the number of changes.
const logHeader = 12

// Change returns change i, in the order in which they were added.
func (b *Batch) Change(i int) Change {
	c := &b.changes[i]
	return Change{c.kind, b.data[c.key:c.value], b.data[c.value:c.end], c.part}
}

// Reset removes all changes. The batch keeps memory for as many bytes as most batches have.
func (b *Batch) Reset() {
	const mostData, mostChanges = 1 << 20, 1 << 14
	if cap(b.data) > mostData || cap(b.changes) > mostChanges {
		*b = Batch{}
		return
	}
	*b = Batch{data: b.data[:0], changes: b.changes[:0]}
}

// addTo adds the changes to a batch of Pebble.
func (b *Batch) addTo(to *pebble.Batch) {
	var j *joiner
	for i := range b.changes {
		c := b.Change(i)
		switch c.Kind {
		case KindSet:
			must(to.Set(c.Key, c.Value, nil))
		case KindDelete:
			must(to.Delete(c.Key, nil))
		case KindRangeDelete:
			must(to.DeleteRange(c.Key, c.Value, nil))
		default:
			if block.IsUnjoined(c.Value) {
				if j == nil {
					j = new(joiner)
				}
				j.changes = append(j.changes, c.Value)
				c.Value = j.join(c.Part.Rest)
			}
			must(to.Merge(c.Key, c.Value, nil))
		}
	}
}

// OnlyRemoves reports whether a batch of the engine has nothing but removals and their notes.
func (b *Batch) OnlyRemoves() bool {
	for i := range b.changes {
		if c := b.Change(i); c.Kind != KindDelete && c.Kind != KindRangeDelete && c.Key[0] != format.TagDropped {
			return false
		}
	}
	return true
}

const (
	// fewKeys is the most keys of a range that are deleted one by one. A batch of manyChanges changes gets no more such
	// deletions.
	fewKeys     = 32
	manyChanges = 4096
)

// DeleteAll adds the deletion of a range of keys of objects to a batch. No other commit may change the range before the
// batch is applied.
//
// Where the range has few keys, they are deleted one by one. Pebble keeps the range deletions of a memtable in a list,
// which the first read after each new one builds again. So with thousands of them each read that is not answered from
// memory would take milliseconds.
func DeleteAll(s *Store, b *Batch, from, to []byte) {
	if b.Count() < manyChanges {
		if keys, few := s.keysOf(from, to); few {
			for _, key := range keys {
				b.Delete(key)
			}
			return
		}
	}
	b.DeleteRange(from, to)
}

// keysOf returns the keys of a range, if they are few and can be read.
func (s *Store) keysOf(from, to []byte) (keys [][]byte, few bool) {
	keys, err := FirstKeys(context.Background(), s, from, to, fewKeys+1)
	return keys, err == nil && len(keys) <= fewKeys
}

// FirstKeys returns the first n keys of a range, or all if there are fewer.
func FirstKeys(ctx context.Context, s *Store, from, to []byte, n int) (keys [][]byte, err error) {
	it, err := s.NewIterWithContext(ctx, &IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		return nil, err
	}
	for ok := it.First(); ok && len(keys) < n; ok = it.Next() {
		keys = append(keys, bytes.Clone(it.Key()))
	}
	return keys, errors.Join(it.Error(), it.Close())
}
