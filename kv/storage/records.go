package storage

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// Record is a key and the value that it gets. A small commit may set a few, such as the header of a string.
type Record struct{ Key, Value []byte }

// recordIndex has the records that pending commits set, the newest of each key. It keeps them in one slice of bytes,
// without pointers.
type recordIndex struct {
	data    []byte
	entries []recordEntry
	last    []int32 // of each bucket, the last entry, counted from 1; 0 for none. Nil if there are no entries
}

type recordEntry struct {
	prefix          uint64 // the first bytes of the key
	key, value, end uint32 // where they begin in data, and where the value ends
	keyLen          uint32
	before          int32 // the entry before in its bucket, counted from 1; 0 for none
}

const (
	recordBits    = 13
	recordBuckets = 1 << recordBits

	// keptRecords is the most bytes that an empty index keeps memory for.
	keptRecords = 4 << 20
)

// prefixOf returns the second to ninth byte of a key as a number. The first byte tells the kind of a key.
func prefixOf(key []byte) uint64 {
	var b [8]byte
	copy(b[:], key[1:])
	return binary.BigEndian.Uint64(b[:])
}

func bucketOfRecord(prefix uint64) int { return int(prefix * 0x9e3779b97f4a7c15 >> (64 - recordBits)) }

// find returns the entry of a key, nil if there is none.
func (x *recordIndex) find(key []byte) *recordEntry {
	if len(x.entries) == 0 {
		return nil
	}
	prefix := prefixOf(key)
	for i := x.last[bucketOfRecord(prefix)]; i > 0; i = x.entries[i-1].before {
		if e := &x.entries[i-1]; e.prefix == prefix && bytes.Equal(x.keyOf(e), key) {
			return e
		}
	}
	return nil
}

func (x *recordIndex) keyOf(e *recordEntry) []byte { return x.data[e.key : e.key+e.keyLen] }

func (x *recordIndex) valueOf(e *recordEntry) []byte { return x.data[e.value:e.end] }

// set sets a record, and reports whether its key is new.
func (x *recordIndex) set(r Record) bool {
	if e := x.find(r.Key); e != nil {
		if len(r.Value) > int(e.end-e.value) {
			e.value = uint32(len(x.data))
			x.data = append(x.data, r.Value...)
		} else {
			copy(x.data[e.value:], r.Value)
		}
		e.end = e.value + uint32(len(r.Value))
		return false
	}
	if x.last == nil {
		x.last = make([]int32, recordBuckets)
	}
	prefix, start := prefixOf(r.Key), len(x.data)
	last := &x.last[bucketOfRecord(prefix)]
	x.data = append(append(x.data, r.Key...), r.Value...)
	value := start + len(r.Key)
	x.entries = append(x.entries, recordEntry{
		prefix: prefix, key: uint32(start), value: uint32(value), end: uint32(len(x.data)), keyLen: uint32(len(r.Key)), before: *last,
	})
	*last = int32(len(x.entries))
	return true
}

func (x *recordIndex) reset() {
	if len(x.entries) == 0 {
		return
	}
	if cap(x.data)+recordEntryBytes*cap(x.entries) > keptRecords {
		*x = recordIndex{}
		return
	}
	clear(x.last)
	x.data, x.entries = x.data[:0], x.entries[:0]
}

// recordEntryBytes is the size of a recordEntry.
const recordEntryBytes = 32

// build adds the records to a batch, in the order of their keys: Pebble then finds the place of each near that of the
// one before.
func (x *recordIndex) build(batch *pebble.Batch, order []int32) []int32 {
	order = order[:0]
	for i := range x.entries {
		order = append(order, int32(i))
	}
	slices.SortFunc(order, func(i, j int32) int {
		a, b := &x.entries[i], &x.entries[j]
		if c := cmp.Compare(a.prefix, b.prefix); c != 0 && x.data[a.key] == x.data[b.key] {
			return c
		}
		return bytes.Compare(x.keyOf(a), x.keyOf(b))
	})
	for _, i := range order {
		e := &x.entries[i]
		must(batch.Set(x.keyOf(e), x.valueOf(e), nil))
	}
	return order
}

// record returns a copy of the value that a pending commit has set.
func (p *pending) record(key []byte) (value []byte, found bool) {
	if p.recorded.Load() == 0 {
		return nil, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, from := range []*group{&p.filling, &p.flushing} { // the newer one first
		if e := from.records.find(key); e != nil {
			return bytes.Clone(from.records.valueOf(e)), true
		}
	}
	return nil, false
}
