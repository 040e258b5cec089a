package scalableext

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/kv/hash"
	"github.com/sievekv/sievekv/kv/probe"
)

// Params are the parameters of a chain, as stored in its object's header.
//
//	offset  size  field
//	0       1     version, 1
//	1       1     growth rule: 0 Native, 1 Halving
//	2       9, 33 hash of the items, see hash.Function.Append: 0 and a seed for
//	              XXH64, 1 and a secret for a keyed hash
//	..      8     error rate asked for, IEEE 754 bits, little-endian
//	..      1-10  capacity asked for, uvarint
//	..      1-5   expansion, uvarint; 0 means that the chain does not grow
//
// There must be no further bytes. Unknown growth rules and hash functions are unsupported.
type Params struct {
	Capacity  uint64  // of the first layer, at least 1
	ErrorRate float64 // of the whole chain, above 0 and below 1
	Expansion uint32  // factor between the capacities of two layers; 0 for a chain that does not grow
	Growth    Growth
	Hash      hash.Function
}

const (
	paramsVersion = 1
	hashAt        = 2
)

// Append appends the stored form.
func (p Params) Append(dst []byte) []byte {
	dst = p.Hash.Append(append(dst, paramsVersion, byte(p.Growth)))
	dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(p.ErrorRate))
	dst = binary.AppendUvarint(dst, p.Capacity)
	return binary.AppendUvarint(dst, uint64(p.Expansion))
}

// decodeParams decodes what Append appended. Its errors do not show the bytes, which may contain a secret.
func decodeParams(b []byte) (p Params, err error) {
	bad := fmt.Errorf("%w: chain parameters of %d bytes", kv.ErrCorrupt, len(b))
	if len(b) > 0 && b[0] != paramsVersion {
		return p, fmt.Errorf("%w: chain parameters have format %d, this program knows %d", kv.ErrUnsupportedVersion, b[0], paramsVersion)
	}
	if len(b) <= hashAt {
		return p, bad
	}
	f, n := hash.Decode(b[hashAt:])
	if b[1] >= numGrowths || n < 0 {
		return p, fmt.Errorf("%w: growth rule %d, hash function %d", kv.ErrUnsupportedVersion, b[1], b[hashAt])
	}
	rest := b[hashAt+n:]
	if n == 0 || len(rest) < 8 {
		return p, bad
	}
	p.Hash, p.Growth = f, Growth(b[1])
	p.ErrorRate = math.Float64frombits(binary.LittleEndian.Uint64(rest))
	rest = rest[8:]
	capacity, n := binary.Uvarint(rest)
	expansion, m := uint64(0), 0
	if n > 0 {
		expansion, m = binary.Uvarint(rest[n:])
	}
	if m <= 0 || n+m != len(rest) || capacity == 0 || expansion > MaxExpansion || !(p.ErrorRate > 0 && p.ErrorRate < 1) {
		return p, bad
	}
	p.Capacity, p.Expansion = capacity, uint32(expansion)
	return p, nil
}

// DecodeCapacity decodes a layer's capacity, 1 to probe.MaxCapacity. b must be its shortest uvarint, with no further
// bytes.
func DecodeCapacity(b []byte) (capacity uint64, ok bool) {
	capacity, n := binary.Uvarint(b)
	minimal := n == 1 || n > 1 && b[len(b)-1] != 0
	return capacity, minimal && n == len(b) && capacity >= 1 && capacity <= probe.MaxCapacity
}

// UnequalHash says how the hashes of the filters under two keys differ, "" if they do not. It does not show the hash
// keys.
func (p Params) UnequalHash(key string, q Params, other string) string {
	switch {
	case p.Hash == q.Hash:
		return ""
	case p.Hash.Kind() != q.Hash.Kind():
		return fmt.Sprintf("hash of %q is %v, of %q %v", key, p.Hash, other, q.Hash)
	}
	return fmt.Sprintf("%q and %q have the hash %v with different keys: they were made in different stores, or with another seed", key, other, p.Hash)
}
