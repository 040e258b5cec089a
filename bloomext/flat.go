package bloomext

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"slices"
	"sync/atomic"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/internal/hash"
	"github.com/sievekv/sievekv/internal/memory"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// The compatible layout: a filter has the bytes that RedisBloom's has after the same commands.
//
// A layer is one array of bits. Two hashes of an item, a and b, choose its bits: bit j, from 0 to k-1, is a + j*b modulo
// the length of the array. The foreign layout differs in that alone: see foreign.go. Byte i of the array is byte i%8192 of
// block i/8192, so the bits of an item mostly lie in k blocks. An item is in a filter if one layer has all of its bits. An add sets them in the newest layer.
//
// Lookups while bits are set. An add is one commit, but it is applied to the blocks in memory one after the other. A
// lookup that runs meanwhile may see some of the item's bits and not others. It then answers "absent", which is right:
// the add has not returned. After it has returned, each block has its bits, in memory or on disk: a block that is read
// has every commit that had returned before the lookup began (kv/load.go). Bits are never cleared, so it does not matter
// that the lookup reads the blocks one after the other. For the same reason an answer "present" was true when the last bit
// was read. So lookups need neither a lock nor versions. They are as safe in a snapshot, whose blocks are of one commit.

const (
	flatBits  = block.MaxLines * block.LineBits // of a block, except in a layer that has one block only
	flatShift = 16                              // flatBits is 2^flatShift

	compatibleMaxCapacity = 1 << 30

	// maxFlatHashes is above the bits of an item at any error rate: the lowest one, 5e-324, needs 1075.
	maxFlatHashes = 1100

	// ln2 and ln2Squared are the constants of RedisBloom.
	ln2        = 0.693147180559945
	ln2Squared = 0.480453013918201

	// firstSeed is the seed of an item's first hash, which is the seed of the second.
	firstSeed = 0xc6a4a7935bd1e995
)

// pair is the two hashes of an item; in some filters with the foreign layout it has two more.
type pair struct{ a, b, c, d uint64 }

// pair returns the hashes of an item.
func (f *filter) pair(item []byte) pair {
	if s := f.newest.flat.scheme; s != schemeCompatible {
		return s.pair(item)
	}
	a := f.hash.Sum(item)
	return pair{a: a, b: hash.NewMurmur64A(a).Sum(item)}
}

// compatibleHash is the first hash of the items of filters with the compatible layout.
func compatibleHash() hash.Function { return hash.NewMurmur64A(firstSeed) }

// flat is the bit array of a layer with the compatible or the foreign layout.
type flat struct {
	table   *kv.Layer
	length  uint64 // bits that items may set: all, or fewer at the beginning
	inverse uint64 // (2^64-1) / length, rounded down
	flatParams
}

// flatParams are the parameters of a layer that are stored with it, as RedisBloom's dump has them. All fields are
// little-endian:
//
//	offset  size  field
//	0       8     error rate of the layer, IEEE 754 bits
//	8       8     bits per item, as RedisBloom computes them from the error rate, IEEE 754 bits
//	16      8     capacity of the layer
//	24      8     bits of the layer, a multiple of 8
//	32      4     k, bits of an item, 1 to 1100
//	36      1     n2: if it is not 0, items set bits below 2^n2 only
//	37      4     options of the filter: 4, and 8 if it does not grow, and perhaps 1 and 2, which mean nothing here
//	41      4     expansion of the filter
//
// All layers have the same options and expansion. The counters are the same as in layerParams.
//
// The foreign layout has other parameters. Scheme, rate, capacity, bits and hashes are stored: see appendForeign.
type flatParams struct {
	scheme        scheme // schemeCompatible unless the layout is foreign
	rate, perItem float64
	capacity      uint64
	bits          uint64
	hashes        uint32
	n2            uint8
	options       uint32
	expansion     uint32
}

const (
	flatParamsLen = 45

	// Options in dumps. RedisBloom sets the first two in all filters.
	optionNoRound    = 1
	optionEntsIsBits = 2
	optionForce64    = 4
	optionNonScaling = 8
)

func (p flatParams) append(dst []byte) []byte {
	for _, v := range []uint64{math.Float64bits(p.rate), math.Float64bits(p.perItem), p.capacity, p.bits} {
		dst = binary.LittleEndian.AppendUint64(dst, v)
	}
	dst = append(binary.LittleEndian.AppendUint32(dst, p.hashes), p.n2)
	dst = binary.LittleEndian.AppendUint32(dst, p.options)
	return binary.LittleEndian.AppendUint32(dst, p.expansion)
}

func decodeFlatParams(b []byte) (p flatParams, err error) {
	if len(b) != flatParamsLen {
		return p, fmt.Errorf("%w: compatible Bloom layer parameters of %d bytes, want %d", kv.ErrCorrupt, len(b), flatParamsLen)
	}
	wide := func(at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }
	p = flatParams{
		rate: math.Float64frombits(wide(0)), perItem: math.Float64frombits(wide(8)), capacity: wide(16), bits: wide(24),
		hashes: binary.LittleEndian.Uint32(b[32:]), n2: b[36],
		options: binary.LittleEndian.Uint32(b[37:]), expansion: binary.LittleEndian.Uint32(b[41:]),
	}
	if !p.valid() {
		return p, fmt.Errorf("%w: compatible Bloom layer parameters %x", kv.ErrCorrupt, b)
	}
	return p, nil
}

// valid reports whether a layer of these parameters can be used. It is what RedisBloom asks of a dump, and a little more.
func (p *flatParams) valid() bool {
	const known = optionNoRound | optionEntsIsBits | optionForce64 | optionNonScaling
	return p.rate > 0 && p.rate < 1 && p.perItem > 0 && p.perItem <= maxFlatHashes/ln2 && p.hashes == hashesOf(p.perItem) &&
		p.capacity > 0 && p.bits > 0 && p.bits%8 == 0 && p.n2 <= 63 && (p.n2 == 0 || 1<<p.n2 <= p.bits) &&
		p.options&^known == 0 && p.options&optionForce64 != 0 && p.expansion <= scalableext.MaxExpansion &&
		(p.expansion > 0 || p.options&optionNonScaling != 0)
}

func hashesOf(perItem float64) uint32 { return uint32(math.Ceil(ln2 * perItem)) }

// newFlat returns the parameters of a layer for a capacity and an error rate, and false if it would be too large.
func newFlat(capacity uint64, rate float64, options, expansion uint32) (p flatParams, ok bool) {
	perItem := math.Abs(logarithm(rate) / ln2Squared)
	size := float64(capacity) * perItem
	if size > format.MaxBlocks*flatBits-64 {
		return p, false
	}
	words := (max(uint64(size), 1) + 63) / 64
	return flatParams{
		rate: rate, perItem: perItem, capacity: capacity, bits: 64 * words, hashes: hashesOf(perItem), options: options, expansion: expansion,
	}, true
}

// logarithm returns the natural logarithm of x, above 0 and below 1, rounded to the nearest float64. Dumps have a number
// that is made from it, and math.Log may be wrong in the last bit.
func logarithm(x float64) float64 {
	const precision = 160
	fraction, exponent := math.Frexp(x) // from 0.5 to below 1
	number := func(x float64) *big.Float { return new(big.Float).SetPrec(precision).SetFloat64(x) }
	// The logarithm of y is 2 (z + z^3/3 + z^5/5 + ...) with z = (y-1)/(y+1), which is at least -1/3.
	log := func(y float64) *big.Float {
		one, sum := number(1), number(0)
		z := new(big.Float).Quo(new(big.Float).Sub(number(y), one), new(big.Float).Add(number(y), one))
		square := new(big.Float).Mul(z, z)
		for i := 1.0; i < 110; i += 2 {
			sum.Add(sum, new(big.Float).Quo(z, number(i)))
			z.Mul(z, square)
		}
		return sum.Mul(sum, number(2))
	}
	result := log(fraction)
	result.Sub(result, new(big.Float).Mul(log(0.5), number(float64(exponent))))
	rounded, _ := result.Float64()
	return rounded
}

// spec returns what is stored for the layer.
func (p *flatParams) spec() kv.LayerSpec {
	s := kv.LayerSpec{Layout: kv.LayoutCompatible, Blocks: (p.bits + flatBits - 1) / flatBits, Lines: block.MaxLines}
	if p.scheme == schemeCompatible {
		s.Params = p.append(nil)
	} else {
		s.Layout, s.Params = uint8(scalableext.LayoutForeign), p.appendForeign(nil)
	}
	if s.Blocks == 1 {
		s.Lines = uint32((p.bits + block.LineBits - 1) / block.LineBits)
	}
	return s
}

// openFlat opens a layer with the compatible or the foreign layout. Decode decodes its parameters.
func openFlat(l *kv.Layer, decode func([]byte) (flatParams, error)) (layer, error) {
	s := l.Spec()
	p, err := decode(s.Params)
	if err != nil {
		return layer{}, err
	}
	if want := p.spec(); s.Blocks != want.Blocks || s.Lines != want.Lines {
		return layer{}, fmt.Errorf("%w: %v Bloom layer of %d bits in %d blocks of %d lines", kv.ErrCorrupt,
			scalableext.Layout(s.Layout), p.bits, s.Blocks, s.Lines)
	}
	f := &flat{table: l, length: p.bits, flatParams: p}
	if p.n2 > 0 {
		f.length = 1 << p.n2
	}
	if p.scheme == schemeGuava32 { // whose numbers are below 2^31
		f.length = min(f.length, 1<<31)
	}
	f.inverse = math.MaxUint64 / f.length
	return layer{table: l, capacity: p.capacity, rate: p.rate, flat: f}, nil
}

// number returns the number that, modulo the length of the array, is bit j of an item.
func (l *flat) number(p pair, j uint64) uint64 {
	if l.scheme == schemeCompatible {
		return p.a + j*p.b
	}
	return l.scheme.number(p, j)
}

// place returns x modulo the length of the array, without a division: the estimate of the quotient is at most 1 too low.
func (l *flat) place(x uint64) uint64 {
	q, _ := bits.Mul64(x, l.inverse)
	r := x - q*l.length
	if r >= l.length {
		r -= l.length
	}
	return r
}

// inMemory answers from memory alone. It is not known if all bits that are in memory are set, but some are not in memory.
func (l *flat) inMemory(s memory.Section, p pair) (present, known bool) {
	known = true
	for j := range uint64(l.hashes) {
		at := l.place(l.number(p, j))
		first := s.Block(l.table, at>>flatShift)
		if first == nil {
			known = false
		} else if !block.IsSet(l.table.Words(first), uint16(at)) {
			return false, true
		}
	}
	return known, known
}

// load answers, and reads the blocks that are not resident.
func (l *flat) load(r kv.Reader, o *kv.Object, p pair) (bool, error) {
	for j := range uint64(l.hashes) {
		at := l.place(l.number(p, j))
		first, err := r.Load(o, l.table, at>>flatShift)
		if err != nil {
			return true, err
		}
		if !block.IsSet(l.table.Words(first), uint16(at)) {
			return false, nil
		}
	}
	return true, nil
}

// pairInMemory is inMemory for the layouts other than the native one.
func (f *filter) pairInMemory(s memory.Section, p pair) (present, known bool) {
	known = true
	for i := range f.layers {
		in, decided := f.layers[i].flat.inMemory(s, p)
		if in {
			return true, true
		}
		known = known && decided
	}
	return false, known && s.Valid()
}

// loadPair is load for the layouts other than the native one.
func (f *filter) loadPair(r kv.Reader, p pair) (bool, error) {
	for i := range f.layers {
		if present, err := f.layers[i].flat.load(r, f.object, p); present || err != nil {
			return true, err
		}
	}
	return false, nil
}

// touchPair counts a lookup for the cache. It counts one of the item's blocks in each layer, as few lookups are counted.
func (f *filter) touchPair(db *kv.DB, p pair) {
	for i := range f.layers {
		l := f.layers[i].flat
		j := p.b >> 32 % uint64(l.hashes)
		db.Touch(f.object, l.table, l.place(l.number(p, j))>>flatShift)
	}
}

// addPair is add for the layouts other than the native one.
func (s *stager) addPair(p pair) (bool, error) {
	full := s.full(&s.c.layers[0])
	for i := range s.c.layers {
		if i == 0 && !full {
			continue // it is found out below
		}
		if found, err := s.hasPair(s.c.layers[i].flat, p); found || err != nil {
			return false, err
		}
	}
	if full {
		if err := s.growFlat(); err != nil {
			return false, err
		}
	}
	newest := s.c.layers[0].flat
	ones, err := s.setPair(newest, p)
	if err != nil || ones == 0 {
		return false, err
	}
	s.w.SetCounter(newest.table, itemsCounter, s.w.Counter(newest.table, itemsCounter)+1)
	s.w.SetCounter(newest.table, onesCounter, s.w.Counter(newest.table, onesCounter)+uint64(ones))
	return true, nil
}

// hasPair reports whether all bits of an item are set, by a commit or this writer.
func (s *stager) hasPair(l *flat, p pair) (bool, error) {
	for j := range uint64(l.hashes) {
		at := l.place(l.number(p, j))
		if set, err := s.w.HasBits(s.c.object, l.table, at>>flatShift, []uint16{uint16(at)}); !set || err != nil {
			return false, err
		}
	}
	return true, nil
}

// setPair stages the setting of an item's bits, block by block, and returns how many were not set before.
func (s *stager) setPair(l *flat, p pair) (ones int, err error) {
	const many = 32 // more take memory from the heap
	var bufPlaces [many]uint64
	var bufPositions [many]uint16
	places, positions := bufPlaces[:0], bufPositions[:0]
	sum := uint64(0) // so that the processor waits for the memory of all bits at the same time
	for j := range uint64(l.hashes) {
		at := l.place(l.number(p, j))
		places = append(places, at)
		if first := l.table.InMemory(at >> flatShift); first != nil {
			sum += atomic.LoadUint64(&l.table.Words(first)[at%flatBits/64])
		}
	}
	keepAlive(sum)
	slices.Sort(places)
	for rest := slices.Compact(places); len(rest) > 0; {
		blk := rest[0] >> flatShift
		positions = positions[:0]
		for len(rest) > 0 && rest[0]>>flatShift == blk {
			positions = append(positions, uint16(rest[0]))
			rest = rest[1:]
		}
		n, err := s.w.SetBits(s.c.object, l.table, blk, positions)
		if err != nil {
			return ones, err
		}
		if ones += n; n > 0 {
			s.spent += blockBytes + bitBytes*n
		}
	}
	return ones, nil
}

// growFlat stages another layer.
func (s *stager) growFlat() error {
	newest, params := s.c.layers[0].flat, s.c.chain.Params
	if params.Expansion == 0 {
		return s.noRoom(newest.capacity)
	}
	key := s.c.object.Key()
	high, capacity := bits.Mul64(newest.capacity, uint64(params.Expansion))
	rate := newest.rate / 2
	if high > 0 || rate == 0 {
		return fmt.Errorf("%w: key %q: after a layer of capacity %d and error rate %g", scalableext.ErrCannotGrow, key, newest.capacity, newest.rate)
	}
	p, ok := newFlat(capacity, rate, newest.options, newest.expansion)
	if !ok {
		return fmt.Errorf("%w: key %q: a layer of capacity %d and error rate %g would be too large", scalableext.ErrCannotGrow, key, capacity, rate)
	}
	return s.growBy(p.spec())
}

// checkEnd returns an error if bits behind the end of the array are set.
func (l *flat) checkEnd(blk uint64, words []uint64) error {
	end := l.bits - min(l.bits, blk*flatBits)
	for i := end / 64; i < uint64(len(words)); i++ {
		word := words[i]
		if i == end/64 {
			word >>= end % 64
		}
		if word != 0 {
			return fmt.Errorf("%w: layer %d: bits behind the end of its %d are set", kv.ErrCorrupt, l.table.Spec().Number, l.bits)
		}
	}
	return nil
}

// setRate returns the false-positive rate of a layer with a number of bits set.
func (l *flat) setRate(ones uint64) float64 {
	return math.Pow(float64(ones)/float64(l.length), float64(l.hashes))
}

// distinctItems estimates how many items set a number of bits. It is finite if all are set.
func (p *flatParams) distinctItems(ones uint64, length uint64) float64 {
	n := float64(length)
	return -n / float64(p.hashes) * math.Log1p(-min(float64(ones), n-0.5)/n)
}

// String describes the layer in an error.
func (p flatParams) String() string {
	s := fmt.Sprintf("%d bits with %d hashes, for %d items at %g, expansion %d, options %d", p.bits, p.hashes, p.capacity, p.rate, p.expansion, p.options)
	if p.n2 > 0 {
		s += fmt.Sprintf(", n2 %d", p.n2)
	}
	return s
}

// expectedSet returns how many bits a number of items sets, on average.
func (p *flatParams) expectedSet(items uint64) float64 {
	n := float64(p.bits)
	return -n * math.Expm1(float64(p.hashes)*float64(items)*math.Log1p(-1/n))
}
