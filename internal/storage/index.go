package storage

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/format"
)

// index has the changes of pending commits, by key: the value that a record was set to last, or all changes of a block. It
// keeps them in a few slices without pointers.
type index struct {
	commits int
	data    []byte // keys, values, and changes of blocks
	keys    []indexKey
	changes []indexChange
	last    []int32 // of each bucket, the last key, counted from 1; 0 for none. A power of 2
	size    int     // upper bound of the size of the batch that build makes, as CommitSize counts it
	records int     // keys that are not of objects

	countersOf format.ObjectKey // the counters that were set last
	countersAt int32            // number of their key, counted from 1; 0 for none
}

type indexKey struct {
	prefix uint64 // its first 8 bytes
	span
	block  bool  // it is a block's
	last   int32 // the last change, counted from 1
	before int32 // the key before in its bucket, counted from 1; 0 for none
}

// indexChange is a value, or a change of a block, as block.Joiner takes it.
type indexChange struct {
	span
	before int32 // the change of the same block before, counted from 1; 0 for none
}

// span is a part of the data.
type span struct{ at, size uint32 }

const (
	// A longer record, with its key, gains nothing from being pending.
	maxPendingRecord = 1 << 10

	// An index has at most this number of changes, and of bytes of data.
	maxPendingChanges = 1 << 18
	maxPendingBytes   = 8 << 20

	firstBuckets = 1 << 10
	perBlock     = block.MaxHeader
	perPending   = PerEntry + 48 // of a key: what it takes in a batch, with the key of a block, and lengths
)

// holds reports whether the index has room for another batch, and whether it is at least half full then. Most is the
// largest size of a commit.
func (x *index) holds(b *Batch, most int) (room, half bool) {
	changes, size, data := len(x.changes)+len(b.changes), x.size+b.pending, len(x.data)+len(b.data)
	half = x.commits >= MaxPending/2 || changes > maxPendingChanges/2 || size > most/2 || data > maxPendingBytes/2
	return x.commits < MaxPending && changes <= maxPendingChanges && size <= most && data <= maxPendingBytes, half
}

func prefixOf(key []byte) uint64 {
	if len(key) >= 8 {
		return binary.BigEndian.Uint64(key)
	}
	prefix := uint64(0)
	for _, c := range key {
		prefix = prefix<<8 | uint64(c)
	}
	return prefix << (64 - 8*len(key))
}

func (x *index) bucket(prefix uint64) *int32 {
	const mix = 0x9e3779b97f4a7c15
	return &x.last[prefix*mix>>32&uint64(len(x.last)-1)]
}

func (x *index) bytes(s span) []byte { return x.data[s.at : s.at+s.size] }

func (x *index) append(b []byte) span {
	at := len(x.data)
	x.data = append(x.data, b...)
	return span{uint32(at), uint32(len(b))}
}

// find returns a key, nil if the index does not have it.
func (x *index) find(key []byte) *indexKey {
	if i := x.lookUp(key); i > 0 {
		return &x.keys[i-1]
	}
	return nil
}

// lookUp returns the number of a key, counted from 1; 0 if the index does not have it.
func (x *index) lookUp(key []byte) int32 {
	if len(x.keys) == 0 {
		return 0
	}
	prefix := prefixOf(key)
	for i := *x.bucket(prefix); i > 0; i = x.keys[i-1].before {
		if k := &x.keys[i-1]; k.prefix == prefix && int(k.size) == len(key) && (len(key) <= 8 || bytes.Equal(x.bytes(k.span), key)) {
			return i
		}
	}
	return 0
}

// at returns a key, and adds it if the index does not have it.
func (x *index) at(key []byte, block bool) *indexKey { return &x.keys[x.number(key, block)-1] }

// number returns the number of a key, counted from 1, and adds the key if the index does not have it.
func (x *index) number(key []byte, block bool) int32 {
	if i := x.lookUp(key); i > 0 {
		return i
	}
	if len(x.keys) == len(x.last) {
		x.last = make([]int32, max(firstBuckets, 2*len(x.last)))
		for i := range x.keys {
			x.link(i)
		}
	}
	i := len(x.keys)
	x.keys = append(x.keys, indexKey{prefix: prefixOf(key), span: x.append(key), block: block})
	x.link(i)
	x.size += perPending + len(key)
	if block {
		x.size += perBlock
	}
	if key[0] != format.TagObject {
		x.records++
	}
	return int32(i + 1)
}

// link puts key i into its bucket.
func (x *index) link(i int) {
	k := &x.keys[i]
	bucket := x.bucket(k.prefix)
	k.before = *bucket
	*bucket = int32(i + 1)
}

// add adds the changes of a batch that can be pending.
func (x *index) add(b *Batch) {
	x.commits++
	for i := range b.changes {
		c := &b.changes[i]
		key, value := b.data[c.key:c.value], b.data[c.value:c.end]
		switch {
		case c.kind == KindMerge:
			x.change(x.at(key, true), value, c.most)
		case c.part.Object != 0:
			x.set(x.counters(c.part, key), value)
		default:
			x.set(x.at(key, false), value)
		}
	}
}

// counters returns the key of a layer's counters. Most commits in a row are to one layer.
func (x *index) counters(part format.ObjectKey, key []byte) *indexKey {
	if x.countersOf != part || x.countersAt == 0 {
		x.countersOf, x.countersAt = part, x.number(key, false)
	}
	return &x.keys[x.countersAt-1]
}

// change adds a change of a block, which takes up to most bytes in the batch.
func (x *index) change(k *indexKey, change []byte, most int) {
	x.changes = append(x.changes, indexChange{x.append(change), k.last})
	k.last = int32(len(x.changes))
	x.size += most
}

// set sets a record.
func (x *index) set(k *indexKey, value []byte) {
	x.size += len(value)
	if k.last == 0 {
		x.changes = append(x.changes, indexChange{span: x.append(value)})
		k.last = int32(len(x.changes))
		return
	}
	c := &x.changes[k.last-1]
	x.size -= int(c.size)
	if len(value) > int(c.size) {
		c.span = x.append(value)
	} else {
		c.size = uint32(copy(x.data[c.at:], value))
	}
}

// value returns the value that a record was set to, in memory of the index.
func (x *index) value(key []byte) (value []byte, found bool) {
	k := x.find(key)
	if k == nil {
		return nil, false
	}
	return x.bytes(x.changes[k.last-1].span), true
}

// appendChanges appends the changes of a block, oldest first, in memory of the index. K may be nil.
func (x *index) appendChanges(changes [][]byte, k *indexKey) [][]byte {
	if k == nil {
		return changes
	}
	start := len(changes)
	for i := k.last; i > 0; i = x.changes[i-1].before {
		changes = append(changes, x.bytes(x.changes[i-1].span))
	}
	slices.Reverse(changes[start:])
	return changes
}

// reset removes everything. It keeps memory for the usual number of pending changes.
func (x *index) reset() {
	if cap(x.data) > maxPendingBytes || cap(x.changes) > maxPendingChanges {
		*x = index{}
		return
	}
	clear(x.last)
	*x = index{data: x.data[:0], keys: x.keys[:0], changes: x.changes[:0], last: x.last}
}

// joiner joins the changes of a block. It keeps memory from one block to the next.
type joiner struct {
	block.Joiner
	changes [][]byte
	operand []byte
}

// join joins the changes that j has.
func (j *joiner) join(blk uint64) []byte {
	j.operand = j.Append(j.operand[:0], blk, j.changes)
	clear(j.changes)
	j.changes = j.changes[:0]
	return j.operand
}

// flushScratch is memory for making a batch, kept from one flush to the next.
type flushScratch struct {
	order []flushKey
	joiner
}

// flushKey is a key of the index, by number.
type flushKey struct {
	prefix uint64
	i      int32
}

// build adds all changes to a batch, one for each key, in the order of their keys: Pebble then finds the place of each
// near the one before.
func (x *index) build(batch *pebble.Batch, s *flushScratch) {
	s.order = s.order[:0]
	for i := range x.keys {
		s.order = append(s.order, flushKey{x.keys[i].prefix, int32(i)})
	}
	slices.SortFunc(s.order, func(a, b flushKey) int {
		if a.prefix != b.prefix {
			return cmp.Compare(a.prefix, b.prefix)
		}
		return bytes.Compare(x.bytes(x.keys[a.i].span), x.bytes(x.keys[b.i].span))
	})
	for _, at := range s.order {
		k := &x.keys[at.i]
		key := x.bytes(k.span)
		if !k.block {
			must(batch.Set(key, x.bytes(x.changes[k.last-1].span), nil))
			continue
		}
		s.changes = x.appendChanges(s.changes, k)
		must(batch.Merge(key, s.join(blockOf(key)), nil))
	}
}

// blockOf returns the number of the block that a key belongs to.
func blockOf(key []byte) uint64 {
	k, err := format.DecodeObjectKey(key)
	must(err)
	return k.Rest
}
