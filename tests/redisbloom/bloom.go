package redisbloom

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// Errors of Bloom filters.
const (
	ErrFull      = Error("ERR non scaling filter is full")
	ErrInserting = Error("ERR problem inserting into filter") // a further sub-filter cannot be made
	ErrBadData   = Error("ERR received bad data")
	ErrNoLink    = Error("ERR invalid offset - no link found")
	ErrTooBig    = Error("ERR invalid chunk - Too big for current filter")
)

// The options of a Bloom filter, as its header has them. The model has only filters with 64-bit hashes.
const (
	optNoRound    = 1
	optEntsIsBits = 2
	optForce64    = 4
	optNonScaling = 8
)

const (
	bloomHeader = 8 + 4 + 4 + 4                 // items, sub-filters, options, expansion
	bloomLink   = 8 + 8 + 8 + 8 + 8 + 4 + 8 + 1 // one sub-filter in the header
	maxRate     = 0.25                          // a higher error rate is lowered to this
	ln2         = 0.693147180559945             // as RedisBloom writes it
	ln2Squared  = 0.480453013918201             // likewise
	firstSeed   = uint64(0xc6a4a7935bd1e995)    // of an item's first hash
	tightening  = 0.5                           // a sub-filter's error rate, by the one before
)

// Bloom is a Bloom filter: sub-filters from oldest to newest.
type Bloom struct {
	items     uint64
	options   uint32
	expansion uint32
	filters   []*bloomFilter
}

// bloomFilter is a sub-filter.
type bloomFilter struct {
	bits     uint64
	items    uint64
	rate     float64
	bpe      float64 // bits per item
	hashes   uint32
	capacity uint64
	n2       uint8 // of old filters: bits is 2^n2
	array    []byte

	estimated bool // items is an estimate: see Unite
}

// NewBloom returns an empty filter, as BF.RESERVE makes it. A non-scaling filter keeps expansion, which is the default
// of the server (2) or, if EXPANSION 0 made it so, 0.
func NewBloom(capacity uint64, rate float64, expansion uint32, nonscaling bool) (*Bloom, error) {
	b := &Bloom{options: optNoRound | optForce64, expansion: expansion}
	rate = min(rate, maxRate)
	if nonscaling || expansion == 0 {
		b.options |= optNonScaling
	} else {
		rate *= tightening
	}
	if err := b.append(capacity, rate); err != nil {
		return nil, ErrMemory
	}
	return b, nil
}

// Clone returns a copy, which shares nothing.
func (b *Bloom) Clone() *Bloom {
	c := *b
	c.filters = nil
	for _, f := range b.filters {
		own := *f
		own.array = slices.Clone(f.array)
		c.filters = append(c.filters, &own)
	}
	return &c
}

func (b *Bloom) append(capacity uint64, rate float64) error {
	if capacity < 1 || rate <= 0 || rate >= 1 {
		return ErrInserting
	}
	bpe := math.Abs(logarithm(rate) / ln2Squared)
	wanted := float64(capacity) * bpe
	if wanted > 8*maxBytes {
		return ErrInserting
	}
	words := (max(uint64(wanted), 1) + 63) / 64
	b.filters = append(b.filters, &bloomFilter{
		bits:     64 * words,
		rate:     rate,
		bpe:      bpe,
		hashes:   hashesOf(bpe),
		capacity: capacity,
		array:    make([]byte, 8*words),
	})
	return nil
}

func hashesOf(bpe float64) uint32 { return uint32(math.Ceil(ln2 * bpe)) }

// positions returns the bits of item in a sub-filter.
func (f *bloomFilter) positions(item []byte) (bits []uint64) {
	first := murmur64A(item, firstSeed)
	second := murmur64A(item, first)
	for j := range uint64(f.hashes) {
		bits = append(bits, (first+j*second)%f.bits)
	}
	return bits
}

func (f *bloomFilter) has(item []byte) bool {
	for _, bit := range f.positions(item) {
		if f.array[bit/8]&(1<<(bit%8)) == 0 {
			return false
		}
	}
	return true
}

// Exists reports whether item may have been added.
func (b *Bloom) Exists(item []byte) bool {
	for _, f := range b.filters {
		if f.has(item) {
			return true
		}
	}
	return false
}

// Add adds item, and reports whether it was new. An item that any sub-filter matches is not new, and changes nothing.
func (b *Bloom) Add(item []byte) (bool, error) {
	if b.Exists(item) {
		return false, nil
	}
	newest := b.filters[len(b.filters)-1]
	if newest.items >= newest.capacity {
		if b.options&optNonScaling != 0 {
			return false, ErrFull
		}
		if err := b.append(newest.capacity*uint64(b.expansion), newest.rate*tightening); err != nil {
			return false, err
		}
		newest = b.filters[len(b.filters)-1]
	}
	for _, bit := range newest.positions(item) {
		newest.array[bit/8] |= 1 << (bit % 8)
	}
	newest.items++
	b.items++
	return true, nil
}

// BloomInfo is what BF.INFO answers.
type BloomInfo struct {
	Capacity, Size, Filters, Items uint64
	Expansion                      int64 // -1, which BF.INFO shows as nil, if the filter does not scale
	Estimated                      bool  // Items is an estimate, in a union
}

// Info returns what BF.INFO answers.
func (b *Bloom) Info() BloomInfo {
	info := BloomInfo{Size: 32, Filters: uint64(len(b.filters)), Items: b.items, Expansion: int64(b.expansion)}
	for _, f := range b.filters {
		info.Capacity += f.capacity
		info.Size += 64 + uint64(len(f.array))
		info.Estimated = info.Estimated || f.estimated
	}
	if b.options&optNonScaling != 0 {
		info.Expansion = -1
	}
	return info
}

// Debug returns the lines that BF.DEBUG answers.
func (b *Bloom) Debug() []string {
	lines := []string{fmt.Sprintf("size:%d", b.items)}
	for _, f := range b.filters {
		lines = append(lines, fmt.Sprintf("bytes:%d bits:%d hashes:%d hashwidth:64 capacity:%d size:%d ratio:%.6g",
			len(f.array), f.bits, f.hashes, f.capacity, f.items, f.rate))
	}
	return lines
}

func (b *Bloom) arrays() (arrays [][]byte) {
	for _, f := range b.filters {
		arrays = append(arrays, f.array)
	}
	return arrays
}

// Scan answers BF.SCANDUMP: the chunk at iter, with the iter of the next one. The end is Chunk{}.
func (b *Bloom) Scan(iter int64) Chunk {
	if iter == 0 {
		return Chunk{1, b.header()}
	}
	array, at, ok := locate(b.arrays(), iter-1)
	if !ok {
		return Chunk{}
	}
	data := array[at:min(int64(len(array)), at+MaxChunk)]
	return Chunk{iter + int64(len(data)), data}
}

// Dump returns all chunks.
func (b *Bloom) Dump() (chunks []Chunk) {
	for c := b.Scan(0); c.Iter != 0; c = b.Scan(c.Iter) {
		chunks = append(chunks, c)
	}
	return chunks
}

func (b *Bloom) header() (h []byte) {
	le := binary.LittleEndian
	h = le.AppendUint64(h, b.items)
	h = le.AppendUint32(h, uint32(len(b.filters)))
	h = le.AppendUint32(h, b.options)
	h = le.AppendUint32(h, b.expansion)
	for _, f := range b.filters {
		h = le.AppendUint64(h, uint64(len(f.array)))
		h = le.AppendUint64(h, f.bits)
		h = le.AppendUint64(h, f.items)
		h = le.AppendUint64(h, math.Float64bits(f.rate))
		h = le.AppendUint64(h, math.Float64bits(f.bpe))
		h = le.AppendUint32(h, f.hashes)
		h = le.AppendUint64(h, f.capacity)
		h = append(h, f.n2)
	}
	return h
}

// LoadBloom returns the filter of a dump.
func LoadBloom(chunks []Chunk) (*Bloom, error) {
	return load(chunks, LoadBloomHeader, (*Bloom).LoadChunk)
}

// LoadBloomHeader returns the filter of a header, with no bit set yet.
func LoadBloomHeader(h []byte) (*Bloom, error) {
	le := binary.LittleEndian
	if len(h) < bloomHeader {
		return nil, ErrBadData
	}
	b := &Bloom{items: le.Uint64(h), options: le.Uint32(h[12:]), expansion: le.Uint32(h[16:])}
	filters := le.Uint32(h[8:])
	h = h[bloomHeader:]
	if filters == 0 || uint64(len(h)) != uint64(filters)*bloomLink {
		return nil, ErrBadData
	}
	if b.options&^(optNoRound|optEntsIsBits|optForce64|optNonScaling) != 0 || b.options&optForce64 == 0 {
		return nil, ErrBadData
	}
	var items uint64
	for ; len(h) > 0; h = h[bloomLink:] {
		length := le.Uint64(h)
		f := &bloomFilter{
			bits:     le.Uint64(h[8:]),
			items:    le.Uint64(h[16:]),
			rate:     math.Float64frombits(le.Uint64(h[24:])),
			bpe:      math.Float64frombits(le.Uint64(h[32:])),
			hashes:   le.Uint32(h[40:]),
			capacity: le.Uint64(h[44:]),
			n2:       h[52],
		}
		if !(f.rate > 0 && f.rate < 1) || !(f.bpe > 0) || f.hashes != hashesOf(f.bpe) || f.bits != 8*length || f.bits == 0 || f.n2 > 63 {
			return nil, ErrBadData
		}
		if length > maxBytes {
			return nil, ErrMemory
		}
		f.array = make([]byte, length)
		b.filters = append(b.filters, f)
		if items += f.items; items < f.items {
			return nil, ErrBadData
		}
	}
	if items != b.items {
		return nil, ErrBadData
	}
	return b, nil
}

// LoadChunk answers BF.LOADCHUNK of a filter that exists. The data ends where iter says.
func (b *Bloom) LoadChunk(c Chunk) error {
	length := int64(len(c.Data))
	if c.Iter <= 0 || c.Iter < length {
		return ErrBadData
	}
	array, at, ok := locate(b.arrays(), c.Iter-length-1)
	if !ok {
		return ErrNoLink
	}
	if at+length > int64(len(array)) {
		return ErrTooBig
	}
	copy(array[at:], c.Data)
	return nil
}
