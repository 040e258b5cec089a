package redisbloom

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
)

// Errors of cuckoo filters.
const (
	ErrCuckooFull    = Error("Filter is full")
	ErrCuckooMemory  = Error("ERR Insufficient memory") // a further sub-filter cannot be made
	ErrMaxExpansions = Error("Maximum expansions reached")
	ErrHeader        = Error("Invalid header")
	ErrCreate        = Error("Couldn't create filter!")
	ErrPosition      = Error("Invalid position")
	ErrChunk         = Error("Couldn't load chunk!")
)

// Defaults of RedisBloom's configuration.
const (
	DefaultBucketSize    = 2
	DefaultMaxIterations = 20
	DefaultExpansion     = 1
	DefaultMaxExpansions = 32
)

const (
	cuckooHeader    = 4*8 + 3*2
	maxSubFilters   = 65535
	maxExpansion    = 32768
	maxCapacity     = 1 << 30
	maxBucketSize   = 255
	alternateFactor = 0x5bd1e995
)

// Cuckoo is a cuckoo filter: sub-filters from oldest to newest.
type Cuckoo struct {
	MaxExpansions int  // a command that finds this number of sub-filters refuses to add; see MayAdd
	Bounded       bool // not as RedisBloom: a command makes no more than that either

	items, deletes uint64
	buckets        uint64 // of the first sub-filter
	bucketSize     uint16
	maxIterations  uint16
	expansion      uint16
	filters        []*cuckooFilter
}

// cuckooFilter is a sub-filter: its buckets, one after the other. A slot that is 0 is empty.
type cuckooFilter struct {
	buckets uint64
	size    int // slots of a bucket
	slots   []byte
}

// NewCuckoo returns an empty filter, as CF.RESERVE makes it. The expansion is rounded up to a power of two.
func NewCuckoo(capacity uint64, bucketSize, maxIterations, expansion uint16) (*Cuckoo, error) {
	if bucketSize < 1 || bucketSize > maxBucketSize || maxIterations < 1 || expansion > maxExpansion ||
		capacity < 2*uint64(bucketSize) || capacity > maxCapacity {
		return nil, ErrCreate
	}
	c := &Cuckoo{
		MaxExpansions: DefaultMaxExpansions,
		buckets:       powerOfTwo(capacity / uint64(bucketSize)),
		bucketSize:    bucketSize,
		maxIterations: maxIterations,
	}
	if expansion > 0 {
		c.expansion = uint16(powerOfTwo(uint64(expansion)))
	}
	if !c.append() {
		return nil, ErrCreate
	}
	return c, nil
}

// Clone returns a copy, which shares nothing.
func (c *Cuckoo) Clone() *Cuckoo {
	own := *c
	own.filters = nil
	for _, f := range c.filters {
		own.filters = append(own.filters, &cuckooFilter{f.buckets, f.size, slices.Clone(f.slots)})
	}
	return &own
}

// powerOfTwo returns the lowest power of two that is at least n.
func powerOfTwo(n uint64) uint64 {
	p := uint64(1)
	for p < n {
		p *= 2
	}
	return p
}

// append appends a sub-filter, unless it would be too large.
func (c *Cuckoo) append() bool {
	buckets := c.buckets
	for range c.filters {
		buckets *= uint64(c.expansion)
		if buckets > maxBytes {
			return false
		}
	}
	if buckets*uint64(c.bucketSize) > maxBytes || len(c.filters) == maxSubFilters {
		return false
	}
	c.filters = append(c.filters, &cuckooFilter{buckets, int(c.bucketSize), make([]byte, buckets*uint64(c.bucketSize))})
	return true
}

// hash returns the fingerprint of item and its hash, which gives its first bucket.
func hash(item []byte) (fingerprint byte, h1 uint64) {
	h1 = murmur64A(item, 0)
	return byte(h1%255 + 1), h1
}

// alternate returns the other hash of an item: alternate of that one is h again.
func alternate(fingerprint byte, h uint64) uint64 {
	return h ^ uint64(fingerprint)*alternateFactor
}

// Alike returns a number that two items have in common if, and only if, no sub-filter with the given number of buckets
// can tell them apart.
func Alike(item []byte, buckets uint64) uint64 {
	fingerprint, h := hash(item)
	return min(h%buckets, alternate(fingerprint, h)%buckets)<<8 | uint64(fingerprint)
}

// bucket returns the slots of the bucket of a hash.
func (f *cuckooFilter) bucket(h uint64) []byte {
	at := int(h%f.buckets) * f.size
	return f.slots[at : at+f.size]
}

// put puts a fingerprint into an empty slot of its bucket or else of its other bucket, if there is one.
func (f *cuckooFilter) put(fingerprint byte, h uint64) bool {
	return f.replace(0, fingerprint, h, alternate(fingerprint, h))
}

// replace sets the first slot that is was, of the buckets of hashes, in this order.
func (f *cuckooFilter) replace(was, is byte, hashes ...uint64) bool {
	for _, h := range hashes {
		bucket := f.bucket(h)
		if i := bytes.IndexByte(bucket, was); i >= 0 {
			bucket[i] = is
			return true
		}
	}
	return false
}

// kick makes room for a fingerprint by moving others to their other buckets. If that does not work, nothing changes.
func (f *cuckooFilter) kick(fingerprint byte, h uint64, most int) bool {
	var kicked []*byte // the slots whose fingerprint went on to the next, or to fingerprint
	i, victim := h%f.buckets, 0
	for range most {
		slot := &f.bucket(i)[victim]
		fingerprint, *slot = *slot, fingerprint
		kicked = append(kicked, slot)
		i = alternate(fingerprint, i) % f.buckets
		if f.replace(0, fingerprint, i) {
			return true
		}
		victim = (victim + 1) % f.size
	}
	for _, slot := range slices.Backward(kicked) {
		fingerprint, *slot = *slot, fingerprint
	}
	return false
}

// MayAdd returns ErrMaxExpansions if the filter has the most sub-filters, so that a command adds nothing more.
// RedisBloom asks once for a command, before it adds items.
func (c *Cuckoo) MayAdd() error {
	if len(c.filters) >= c.MaxExpansions {
		return ErrMaxExpansions
	}
	return nil
}

// Add answers CF.ADD: it adds item, even if it is there.
func (c *Cuckoo) Add(item []byte) error {
	if err := c.MayAdd(); err != nil {
		return err
	}
	return c.insert(item)
}

// AddNX answers CF.ADDNX: it adds item unless it is there, and reports whether it did.
func (c *Cuckoo) AddNX(item []byte) (bool, error) {
	if err := c.MayAdd(); err != nil {
		return false, err
	}
	if c.Exists(item) {
		return false, nil
	}
	err := c.insert(item)
	return err == nil, err
}

// Insert answers CF.INSERT and, with nx, CF.INSERTNX: 1 for an item that it added, 0 for one that was there, and -1
// for one that has no room.
func (c *Cuckoo) Insert(nx bool, items ...[]byte) (answers []int, err error) {
	if err := c.MayAdd(); err != nil {
		return nil, err
	}
	for _, item := range items {
		switch {
		case nx && c.Exists(item):
			answers = append(answers, 0)
		case c.insert(item) != nil:
			answers = append(answers, -1)
		default:
			answers = append(answers, 1)
		}
	}
	return answers, nil
}

func (c *Cuckoo) insert(item []byte) error {
	fingerprint, h := hash(item)
	for {
		for i := len(c.filters) - 1; i >= 0; i-- {
			if c.filters[i].put(fingerprint, h) {
				c.items++
				return nil
			}
		}
		if c.filters[len(c.filters)-1].kick(fingerprint, h, int(c.maxIterations)) {
			c.items++
			return nil
		}
		if c.expansion == 0 {
			return ErrCuckooFull
		}
		if err := c.MayAdd(); c.Bounded && err != nil {
			return err
		}
		if !c.append() {
			return ErrCuckooMemory
		}
	}
}

// Count answers CF.COUNT: the slots with the fingerprint of item, in both its buckets of all sub-filters. Slots count
// twice if the two buckets are the same.
func (c *Cuckoo) Count(item []byte) (n int) {
	fingerprint, h := hash(item)
	for _, f := range c.filters {
		n += bytes.Count(f.bucket(h), []byte{fingerprint})
		n += bytes.Count(f.bucket(alternate(fingerprint, h)), []byte{fingerprint})
	}
	return n
}

// Exists answers CF.EXISTS.
func (c *Cuckoo) Exists(item []byte) bool { return c.Count(item) > 0 }

// Delete answers CF.DEL: it removes one fingerprint of item, and reports whether there was one. After many deletes it
// compacts the filter.
func (c *Cuckoo) Delete(item []byte) bool {
	fingerprint, h := hash(item)
	for i := len(c.filters) - 1; i >= 0; i-- {
		if c.filters[i].replace(fingerprint, 0, h, alternate(fingerprint, h)) {
			c.items--
			c.deletes++
			if len(c.filters) > 1 && float64(c.deletes) > float64(c.items)*0.1 {
				c.compact(false)
			}
			return true
		}
	}
	return false
}

// Compact answers CF.COMPACT.
func (c *Cuckoo) Compact() { c.compact(true) }

// compact moves fingerprints from newer sub-filters to the oldest with room. goOn says whether it goes on behind a
// sub-filter that it could not empty.
func (c *Cuckoo) compact(goOn bool) {
	for i := len(c.filters) - 1; i > 0; i-- {
		emptied := c.empty(i)
		if emptied && i == len(c.filters)-1 {
			c.filters = c.filters[:i]
		}
		if !emptied && !goOn {
			break
		}
	}
	c.deletes = 0
}

// empty moves each fingerprint of sub-filter i to an older one that has room, and reports whether none is left.
func (c *Cuckoo) empty(i int) bool {
	f := c.filters[i]
	emptied := true
	for at, fingerprint := range f.slots {
		if fingerprint == 0 {
			continue
		}
		moved := false
		for _, older := range c.filters[:i] {
			if moved = older.put(fingerprint, uint64(at/f.size)); moved {
				f.slots[at] = 0
				break
			}
		}
		emptied = emptied && moved
	}
	return emptied
}

// CuckooInfo is what CF.INFO answers.
type CuckooInfo struct {
	Size, Buckets, Filters, Items, Deletes, BucketSize, Expansion, MaxIterations uint64
}

// Info returns what CF.INFO answers.
func (c *Cuckoo) Info() CuckooInfo {
	info := CuckooInfo{
		Size:          40 + 16*uint64(len(c.filters)),
		Buckets:       c.buckets,
		Filters:       uint64(len(c.filters)),
		Items:         c.items,
		Deletes:       c.deletes,
		BucketSize:    uint64(c.bucketSize),
		Expansion:     uint64(c.expansion),
		MaxIterations: uint64(c.maxIterations),
	}
	for _, f := range c.filters {
		info.Size += uint64(len(f.slots))
	}
	return info
}

// Debug returns what CF.DEBUG answers.
func (c *Cuckoo) Debug() string {
	return fmt.Sprintf("bktsize:%d buckets:%d items:%d deletes:%d filters:%d max_iterations:%d expansion:%d",
		c.bucketSize, c.buckets, c.items, c.deletes, len(c.filters), c.maxIterations, c.expansion)
}

func (c *Cuckoo) arrays() (arrays [][]byte) {
	for _, f := range c.filters {
		arrays = append(arrays, f.slots)
	}
	return arrays
}

// Scan answers CF.SCANDUMP: the chunk at iter, with the iter of the next one. The end is Chunk{}, and so is what an
// empty filter answers. An iter within a sub-filter of up to MaxChunk bytes gives all of the sub-filter.
func (c *Cuckoo) Scan(iter int64) Chunk {
	if c.items == 0 {
		return Chunk{}
	}
	if iter == 0 {
		return Chunk{1, c.header()}
	}
	slots, at, ok := locate(c.arrays(), iter-1)
	if !ok {
		return Chunk{}
	}
	if len(slots) <= MaxChunk {
		at = 0
	}
	data := slots[at:min(int64(len(slots)), at+MaxChunk)]
	return Chunk{iter + int64(len(data)), data}
}

// Dump returns all chunks; an empty filter has none.
func (c *Cuckoo) Dump() (chunks []Chunk) {
	for chunk := c.Scan(0); chunk.Iter != 0; chunk = c.Scan(chunk.Iter) {
		chunks = append(chunks, chunk)
	}
	return chunks
}

func (c *Cuckoo) header() (h []byte) {
	le := binary.LittleEndian
	h = le.AppendUint64(h, c.items)
	h = le.AppendUint64(h, c.buckets)
	h = le.AppendUint64(h, c.deletes)
	h = le.AppendUint64(h, uint64(len(c.filters)))
	h = le.AppendUint16(h, c.bucketSize)
	h = le.AppendUint16(h, c.maxIterations)
	return le.AppendUint16(h, c.expansion)
}

// LoadCuckoo returns the filter of a dump.
func LoadCuckoo(chunks []Chunk) (*Cuckoo, error) {
	return load(chunks, LoadCuckooHeader, (*Cuckoo).LoadChunk)
}

// LoadCuckooHeader returns the filter of a header, with empty slots.
func LoadCuckooHeader(h []byte) (*Cuckoo, error) {
	le := binary.LittleEndian
	if len(h) != cuckooHeader {
		return nil, ErrHeader
	}
	c := &Cuckoo{
		MaxExpansions: DefaultMaxExpansions,
		items:         le.Uint64(h),
		buckets:       le.Uint64(h[8:]),
		deletes:       le.Uint64(h[16:]),
		bucketSize:    le.Uint16(h[32:]),
		maxIterations: le.Uint16(h[34:]),
		expansion:     le.Uint16(h[36:]),
	}
	filters := le.Uint64(h[24:])
	if filters < 1 || filters > maxSubFilters || c.bucketSize < 1 || c.bucketSize > maxBucketSize || c.maxIterations < 1 ||
		c.expansion > maxExpansion || c.expansion == 0 && filters > 1 ||
		c.buckets < 1 || c.buckets > maxBytes || c.buckets != powerOfTwo(c.buckets) {
		return nil, ErrCreate
	}
	for range filters {
		if !c.append() {
			return nil, ErrCreate
		}
	}
	return c, nil
}

// LoadChunk answers CF.LOADCHUNK of a filter that exists. The data ends where its iter says.
func (c *Cuckoo) LoadChunk(chunk Chunk) error {
	length := int64(len(chunk.Data))
	if chunk.Iter == 0 {
		return ErrPosition
	}
	slots, at, ok := locate(c.arrays(), chunk.Iter-length-1)
	if length == 0 || !ok || at+length > int64(len(slots)) {
		return ErrChunk
	}
	copy(slots[at:], chunk.Data)
	return nil
}
