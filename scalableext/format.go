package scalableext

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/sievekv/sievekv/kv"
)

// Params are the parameters of a chain, as stored in its object's header.
//
//	offset  size  field
//	0       1     version, 1
//	1       1     growth rule: 0 Native, 1 Halving
//	2       1     hash function: 0 XXH64 with a seed
//	3       8     seed of the hash function, little-endian
//	11      8     error rate asked for, IEEE 754 bits, little-endian
//	19      1-10  capacity asked for, uvarint
//	..      1-5   expansion, uvarint; 0 means that the chain does not grow
//
// Nothing may follow. Growth rules and hash functions that are not known are
// refused as unsupported.
type Params struct {
	Capacity  uint64  // of the first layer, at least 1
	ErrorRate float64 // of the whole chain, above 0 and below 1
	Expansion uint32  // factor between the capacities of two layers; 0: one layer for ever
	Growth    Growth
	Seed      uint64
}

const (
	paramsVersion = 1
	hashXXH64     = 0
	fixedLen      = 19
)

// Append appends the stored form.
func (p Params) Append(dst []byte) []byte {
	dst = append(dst, paramsVersion, byte(p.Growth), hashXXH64)
	dst = binary.LittleEndian.AppendUint64(dst, p.Seed)
	dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(p.ErrorRate))
	dst = binary.AppendUvarint(dst, p.Capacity)
	return binary.AppendUvarint(dst, uint64(p.Expansion))
}

func decodeParams(b []byte) (p Params, err error) {
	if len(b) > 0 && b[0] != paramsVersion {
		return p, fmt.Errorf("%w: chain parameters have format %d, this program knows %d", kv.ErrUnsupportedVersion, b[0], paramsVersion)
	}
	if len(b) < fixedLen {
		return p, fmt.Errorf("%w: chain parameters %x: %d bytes, at least %d", kv.ErrCorrupt, b, len(b), fixedLen+2)
	}
	if b[1] >= numGrowths || b[2] != hashXXH64 {
		return p, fmt.Errorf("%w: growth rule %d, hash function %d", kv.ErrUnsupportedVersion, b[1], b[2])
	}
	p.Growth = Growth(b[1])
	p.Seed = binary.LittleEndian.Uint64(b[3:])
	p.ErrorRate = math.Float64frombits(binary.LittleEndian.Uint64(b[11:]))
	capacity, n := binary.Uvarint(b[fixedLen:])
	expansion, m := uint64(0), 0
	if n > 0 {
		expansion, m = binary.Uvarint(b[fixedLen+n:])
	}
	if m <= 0 || fixedLen+n+m != len(b) || capacity == 0 || expansion > MaxExpansion || !(p.ErrorRate > 0 && p.ErrorRate < 1) {
		return p, fmt.Errorf("%w: chain parameters %x", kv.ErrCorrupt, b)
	}
	p.Capacity, p.Expansion = capacity, uint32(expansion)
	return p, nil
}
