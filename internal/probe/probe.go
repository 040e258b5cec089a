package probe

import (
	"math/bits"
	"slices"
	"sync/atomic"
	"unsafe"
)

// Line is 512 bits, the size of a cache line: bit p is bit p%64 of word p/64.
type Line = [lineWords]uint64

// FirstLine returns the first line of a block, which stands for the whole block in Test and Touch. Words must be the
// whole block, l.BlockWords() of them; the line keeps them alive. FirstLine panics if there are fewer than 8.
func FirstLine(words []uint64) *Line { return (*Line)(words) }

// lineAt returns line i of the block that begins with first. i must be below l.Lines. Callers multiply a fraction by
// that number, or reduce i by it.
func lineAt(first *Line, i uint64) *Line {
	return (*Line)(unsafe.Add(unsafe.Pointer(first), i*(lineBits/8)))
}

// manyLines says when reading the whole block in order is faster than reading only the lines that items need: if these
// are at least one in manyLines of the block's lines.
const manyLines = 8

const (
	probeBits     = 9  // bits of hash that a probe takes; 2^9 is lineBits
	headProbes    = 3  // probes taken from the hash itself, the lowest bits first
	probesPerWord = 6  // probes taken from each derived word, the lowest bits first
	maxSteps      = 16 // at most 12 are used; a power of two saves the bounds checks
)

// multipliers are the first 64 fractional bits of the square roots of the first 16 primes, with the last bit set.
// They have no structure of their own; SHA-2 uses such numbers too.
var multipliers = [maxSteps]uint64{
	0x6a09e667f3bcc909, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
	0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179,
	0xcbbb9d5dc1059ed9, 0x629a292a367cd507, 0x9159015a3070dd17, 0x152fecd8f70e5939,
	0x67332667ffc00b31, 0x8eb44a8768581511, 0xdb0c2e0d64f98fa7, 0x47b5481dbefa4fa5,
}

// word derives word n, 0 to maxSteps-1, from hash h. It combines both halves of the product because neither would do
// alone. The low bits of the low half do not depend on the high bits of h, so the low bits of two words would depend
// on each other. The high bits of the high half are little more than the high bits of h again, which chose block and
// line.
func word(h uint64, n int) uint64 {
	high, low := bits.Mul64(h, multipliers[n&(maxSteps-1)])
	return high ^ low
}

// probe returns the bit that the lowest 9 bits of w point to. It is bit 0 of the result; the other bits mean nothing.
func probe(line *Line, w uint64) uint64 {
	return atomic.LoadUint64(&line[w>>6&(lineWords-1)]) >> (w & 63)
}

// isSet is probe for use before a branch: the compiler makes one instruction of it.
func isSet(line *Line, w uint64) bool {
	return atomic.LoadUint64(&line[w>>6&(lineWords-1)])&(1<<(w&63)) != 0
}

// Test reports whether all bits of the item with hash h are set in the block that begins with first. Rest is what
// l.Block returned with the number of that block. Other goroutines may set bits meanwhile with atomic.OrUint64: an
// item is found if all of its bits were set before the call.
//
// Three probes are loaded before the first branch. Seven of eight absent items end there even in a full filter,
// whereas a branch after each probe would be a coin toss to the processor. Test is one function without calls, as a
// call costs as much as two probes. The short cuts for 6 and 7 hashes, the layouts for rates from 0.5 to 2 %, take 10
// % off a lookup including the hash.
func (l *Layout) Test(first *Line, rest, h uint64) bool {
	i, _ := bits.Mul64(rest, uint64(l.Lines))
	line := lineAt(first, i)
	if probe(line, h)&probe(line, h>>9)&probe(line, h>>18)&1 == 0 {
		if l.head == 3 || !isSet(line, h) || l.head == 2 && !isSet(line, h>>9) {
			return false
		}
	}
	if l.tail == 3 {
		w := word(h, 0)
		return isSet(line, w) && isSet(line, w>>9) && isSet(line, w>>18)
	}
	if l.tail == 4 {
		w := word(h, 0)
		return isSet(line, w) && isSet(line, w>>9) && isSet(line, w>>18) && isSet(line, w>>27)
	}
	var chosen uint8
	var distance uint64
	for n := range int(l.numSteps) {
		s := l.steps[n&(maxSteps-1)]
		w := word(h, n)
		if s.line != chosen {
			chosen = s.line
			distance, w = l.otherLine(chosen, distance, w)
			line = lineAt(first, l.wrap(i+distance))
		}
		set := probe(line, w)
		switch s.probes {
		case 6:
			set &= probe(line, w>>45)
			fallthrough
		case 5:
			set &= probe(line, w>>36)
			fallthrough
		case 4:
			set &= probe(line, w>>27)
			fallthrough
		case 3:
			set &= probe(line, w>>18)
			fallthrough
		case 2:
			set &= probe(line, w>>9)
		}
		if set&1 == 0 {
			return false
		}
	}
	return true
}

// otherLine chooses the item's second line (j = 1) or third line (j = 2) by word w, uniformly among the lines not yet
// chosen. It returns the distance from the first line, 1 to l.Lines-1, and the rest of w for the step's probes. For the
// third line the argument second is the distance of the second line.
func (l *Layout) otherLine(j uint8, second, w uint64) (distance, rest uint64) {
	distance, rest = bits.Mul64(w, uint64(l.Lines)-uint64(j))
	distance++
	if j == 2 {
		distance += (second - 1 - distance) >> 63 // 1 if distance >= second; a branch would be a coin toss
	}
	return distance, rest >> (64 - probesPerWord*probeBits)
}

// wrap returns i modulo l.Lines, for i below 2*l.Lines. It has no branch, as that would be a coin toss too.
func (l *Layout) wrap(i uint64) uint64 {
	lines := uint64(l.Lines)
	i -= lines
	return i + lines&uint64(int64(i)>>63)
}

// Least returns the least of the item's counters, 0 to 15, in the block of counters that begins with first. The item
// has hash h, and rest is as for Test. If the result is not 0 the item tests as present, also if it was never added.
// Counters may change meanwhile.
func (l *Layout) Least(first *Line, rest, h uint64) uint64 {
	i, _ := bits.Mul64(rest, uint64(l.Lines))
	line := lineAt(first, i)
	least := leastOf(line, h, l.head, 1<<CounterBits-1)
	var chosen uint8
	var distance uint64
	for n := 0; n < int(l.numSteps) && least > 0; n++ {
		s := l.steps[n&(maxSteps-1)]
		w := word(h, n)
		if s.line != chosen {
			chosen = s.line
			distance, w = l.otherLine(chosen, distance, w)
			line = lineAt(first, l.wrap(i+distance))
		}
		least = leastOf(line, w, s.probes, least)
	}
	return least
}

// leastOf returns the least of the given number and of the counters that the probes in w point to. A probe of a
// counter is the lowest 7 of its 9 bits.
func leastOf(line *Line, w uint64, probes uint8, least uint64) uint64 {
	for range probes {
		c := atomic.LoadUint64(&line[w>>4&(lineWords-1)]) >> (w & 15 * CounterBits)
		least = min(least, c&(1<<CounterBits-1))
		w >>= probeBits
	}
	return least
}

// Touch loads one word of the item's first line and returns it; rest is as for Test. A caller with many items
// touches all of them before it tests the first: the loads then wait for memory side by side.
func (l *Layout) Touch(first *Line, rest uint64) uint64 {
	i, _ := bits.Mul64(rest, uint64(l.Lines))
	return atomic.LoadUint64(&lineAt(first, i)[0])
}

// TestAll sets found[i] to what Test answers for the item with hash hashes[i]. All items must be in the block that begins
// with first. It reads the block's memory ahead: one item after the other would wait for each of its lines.
func (l *Layout) TestAll(first *Line, hashes []uint64, found []bool) {
	l.Fetch(first, hashes)
	for i, h := range hashes {
		_, rest := l.Block(h)
		found[i] = l.Test(first, rest, h)
	}
}

// Fetch loads a word of each line that items may need, so that the processor waits for all of them at the same time.
// Unless the items are few, these are all lines of the block: memory is read several times as fast in order.
func (l *Layout) Fetch(first *Line, hashes []uint64) {
	if !l.needMany(len(hashes)) {
		for _, h := range hashes {
			_, rest := l.Block(h)
			l.Touch(first, rest)
		}
		return
	}
	for i := range uint64(l.Lines) {
		atomic.LoadUint64(&lineAt(first, i)[0])
	}
}

// SameBlock returns the block of the item with the first hash, and how many items, from the first on, are in it.
func (l *Layout) SameBlock(hashes []uint64) (blk uint64, n int) {
	blk, _ = l.Block(hashes[0])
	for n = 1; n < len(hashes); n++ {
		if of, _ := l.Block(hashes[n]); of != blk {
			break
		}
	}
	return blk, n
}

// needMany reports whether it is faster to read a block in order than the lines of this number of items.
func (l *Layout) needMany(items int) bool { return items*int(l.LinesPerItem) >= int(l.Lines)/manyLines }

// AppendPositions appends to dst where the bits of the item with hash h are in its block: 1 to l.Hashes positions
// below l.BlockWords()*64, ascending and each once. Position p is bit p%64 of word p/64 of the block. In a layer of
// counters a position is the number of a counter, which is the 4 bits from 4p up. doc.go says how positions are
// chosen ("The hash bits").
func (l *Layout) AppendPositions(dst []uint16, h uint64) []uint16 {
	start := len(dst)
	dst = l.AppendProbes(dst, h)
	sortPositions(dst[start:])
	return dst[:start+len(slices.Compact(dst[start:]))]
}

// sortPositions sorts by counting, for each position, how many are below it. For so few numbers in random order that
// takes half the time of slices.Sort, whose branches cannot be predicted.
func sortPositions(p []uint16) {
	var drawn [MaxHashes]uint16
	var ranks [MaxHashes]uint8
	n := copy(drawn[:], p)
	for i := range n {
		rank := uint8(i)
		for j, other := range drawn[:i] {
			before := uint8((int32(drawn[i])-int32(other))>>31) & 1 // 1 if position i is below position j
			rank -= before
			ranks[j] += before
		}
		ranks[i] = rank
	}
	for i, rank := range ranks[:n] {
		p[rank] = drawn[i]
	}
}

// AppendProbes is AppendPositions without sorting: the positions are in the order in which they are drawn, and one that
// is drawn twice is appended twice.
func (l *Layout) AppendProbes(dst []uint16, h uint64) []uint16 {
	_, rest := l.Block(h)
	i, _ := bits.Mul64(rest, uint64(l.Lines))
	dst = l.appendStep(dst, i, h, l.head)
	line, chosen, distance := i, uint8(0), uint64(0)
	for n, s := range l.steps[:l.numSteps] {
		w := word(h, n)
		if s.line != chosen {
			chosen = s.line
			distance, w = l.otherLine(chosen, distance, w)
			line = l.wrap(i + distance)
		}
		dst = l.appendStep(dst, line, w, s.probes)
	}
	return dst
}

func (l *Layout) appendStep(dst []uint16, line, w uint64, probes uint8) []uint16 {
	cells := uint64(l.cell.perLine())
	for range probes {
		dst = append(dst, uint16(line*cells|w&(cells-1)))
		w >>= probeBits
	}
	return dst
}
