package bitmapext

import (
	"encoding/binary"
	"math/bits"
)

// Count returns how many bits are set from bit from on, below end. Bits behind the string's end are not set.
func (s *String) Count(from, end uint64) (n uint64, err error) {
	end = min(end, 8*s.Len())
	if from >= end {
		return 0, nil
	}
	last := blocksOf((end + 7) / 8)
	for blk := s.next(from/8/blockBytes, last); blk < last; blk = s.next(blk+1, last) {
		part, err := s.part(blk)
		if err != nil {
			return 0, err
		}
		if part == nil {
			continue
		}
		start := blk * blockBytes * 8
		n += countBits(part, max(from, start)-start, min(end-start, 8*uint64(len(part))))
	}
	return n, nil
}

// countBits returns how many bits of p are set from bit from on, below end.
func countBits(p []byte, from, end uint64) (n uint64) {
	if from >= end {
		return 0
	}
	head, tail := byte(0xff)>>(from%8), byte(0xff)<<(7-(end-1)%8)
	i, last := from/8, (end-1)/8
	if i == last {
		return uint64(bits.OnesCount8(p[i] & head & tail))
	}
	n = uint64(bits.OnesCount8(p[i]&head) + bits.OnesCount8(p[last]&tail))
	for i++; i+8 <= last; i += 8 {
		n += uint64(bits.OnesCount64(binary.LittleEndian.Uint64(p[i:])))
	}
	for ; i < last; i++ {
		n += uint64(bits.OnesCount8(p[i]))
	}
	return n
}

// Find returns the first bit from bit from on, below end, that is set, or with on false the first that is not; false if
// there is none. Bits behind the string's end are not set.
func (s *String) Find(on bool, from, end uint64) (n uint64, ok bool, err error) {
	length := 8 * s.Len()
	stop := min(end, length)
	last := blocksOf((stop + 7) / 8)
	for blk := from / 8 / blockBytes; blk < last && from < stop; blk++ {
		if on {
			if blk = s.next(blk, last); blk == last {
				break
			}
		}
		part, err := s.part(blk)
		if err != nil {
			return 0, false, err
		}
		start := blk * blockBytes * 8
		at := max(from, start)
		if part == nil {
			if !on {
				return at, true, nil
			}
			continue
		}
		if i, ok := findBit(part, on, at-start, min(stop-start, 8*uint64(len(part)))); ok {
			return start + i, true, nil
		}
	}
	if at := max(from, length); !on && at < end {
		return at, true, nil
	}
	return 0, false, nil
}

// findBit returns the first bit of p from bit from on, below end, that is as on says.
func findBit(p []byte, on bool, from, end uint64) (uint64, bool) {
	flip := byte(0)
	if !on {
		flip = 0xff
	}
	for from < end {
		i := from / 8
		if from%8 == 0 && end-from >= 64 {
			w := binary.BigEndian.Uint64(p[i:])
			if !on {
				w = ^w
			}
			if w == 0 {
				from += 64
				continue
			}
		}
		if b := (p[i] ^ flip) & (0xff >> (from % 8)); b != 0 {
			from = 8*i + uint64(bits.LeadingZeros8(b))
			return from, from < end
		}
		from = 8 * (i + 1)
	}
	return 0, false
}

// Streak returns how many bits in a row are set up to bit end, itself included.
func (s *String) Streak(end uint64) (n uint64, err error) {
	if end/8 >= s.Len() {
		return 0, nil
	}
	for {
		blk := end / 8 / blockBytes
		part, err := s.part(blk)
		if part == nil || err != nil {
			return n, err
		}
		start := blk * blockBytes * 8
		run := streak(part, end-start)
		n += run
		if run <= end-start || blk == 0 {
			return n, nil
		}
		end = start - 1
	}
}

// streak returns how many bits of p in a row are set up to bit end, itself included.
func streak(p []byte, end uint64) (n uint64) {
	for i := int(end / 8); i >= 0; i-- {
		b, width := p[i], uint64(8)
		if i == int(end/8) {
			width = end%8 + 1
			b >>= 8 - width
		}
		ones := uint64(bits.TrailingZeros8(^b))
		n += min(ones, width)
		if ones < width {
			break
		}
	}
	return n
}
