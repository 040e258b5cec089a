package scalableext

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/sievekv/sievekv/internal/hash"
	"github.com/sievekv/sievekv/internal/probe"
	"github.com/sievekv/sievekv/kv"
)

// Params are the parameters of a chain, as stored in its object's header.
//
//	offset  size  field
//	0       1     version, 1
//	1       1     growth rule: 0 Native, 1 Halving, 2 Windowed, 3 Logged
//	2       9, 33 hash of the items, see hash.Function.Append: 0 and a seed for
//	              XXH64, 1 and a secret for a keyed hash
//	..      8     error rate asked for, IEEE 754 bits, little-endian
//	..      1-10  capacity asked for, uvarint
//	..      1-5   expansion, uvarint; 0 means that the chain does not grow
//
// With the growth rule Windowed follow:
//
//	..      1-6   window in milliseconds, uvarint; 0 with last
//	..      1-6   last, items, uvarint; 0 with a window of time
//	..      1     slices
//
// With the growth rule Logged follow:
//
//	..      1-6   most bytes of the log, uvarint; 0 if there is none and will be none
//	..      1-5   number of the layer that is being filled, plus 1, uvarint; 0 for none
//
// There must be no further bytes. Unknown growth rules and hash functions are unsupported.
type Params struct {
	Capacity  uint64  // of the first layer, at least 1
	ErrorRate float64 // of the whole chain, above 0 and below 1
	Expansion uint32  // factor between the capacities of two layers; 0 for a chain that does not grow
	Growth    Growth
	Hash      hash.Function
	Window    Window // with Windowed growth
	Log       Log    // with Logged growth
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
	dst = binary.AppendUvarint(dst, uint64(p.Expansion))
	if p.Growth == Windowed {
		dst = binary.AppendUvarint(dst, uint64(p.Window.Span.Milliseconds()))
		dst = append(binary.AppendUvarint(dst, p.Window.Last), byte(p.Window.Slices))
	}
	if p.Growth == Logged {
		dst = binary.AppendUvarint(binary.AppendUvarint(dst, p.Log.Limit), p.Log.Filling)
	}
	return dst
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
	if m <= 0 {
		return p, bad
	}
	rest = rest[n+m:]
	if p.Growth == Windowed {
		if p.Window, rest = decodeWindow(rest); !p.Window.Is() {
			return p, bad
		}
	}
	if p.Growth == Logged {
		if p.Log, rest = decodeLog(rest); rest == nil || expansion == 0 {
			return p, bad
		}
	}
	// Filters that do not grow may be larger in a foreign layout, and ones that grow in the compatible one.
	tooLarge := capacity > probe.MaxCapacity && expansion > 0 && p.Growth != Halving
	if len(rest) != 0 || p.Window.Last != 0 && p.Window.Last != capacity || capacity == 0 || tooLarge || expansion > MaxExpansion || !(p.ErrorRate > 0 && p.ErrorRate < 1) {
		return p, bad
	}
	p.Capacity, p.Expansion = capacity, uint32(expansion)
	return p, nil
}

// decodeWindow decodes the window at the start of b, and returns what follows. If the window is out of range, what it
// returns has no slices.
func decodeWindow(b []byte) (v Window, rest []byte) {
	span, n := binary.Uvarint(b)
	if n <= 0 || span > uint64(MaxSpan/time.Millisecond) {
		return v, b
	}
	last, m := binary.Uvarint(b[n:])
	if m <= 0 || len(b) == n+m {
		return v, b
	}
	v = Window{Span: time.Duration(span) * time.Millisecond, Last: last, Slices: int(b[n+m])}
	if _, err := (Asked{Window: v, Capacity: last}).CheckWindow(); err != nil {
		return Window{}, b
	}
	return v, b[n+m+1:]
}

// decodeLog decodes the parameters of a log at the start of b, and returns what follows, nil if they are out of range.
func decodeLog(b []byte) (l Log, rest []byte) {
	limit, n := binary.Uvarint(b)
	filling, m := uint64(0), 0
	if n > 0 {
		filling, m = binary.Uvarint(b[n:])
	}
	if m <= 0 || limit > MaxLogBytes || filling > math.MaxUint32 || limit == 0 && filling != 0 {
		return l, nil
	}
	return Log{limit, filling}, b[n+m:]
}

// DecodeStart decodes when the slice of a layer began, in Unix milliseconds or, with Last, as its number. It is a uvarint
// in front of the other parameters of the layer, which it returns.
func DecodeStart(b []byte) (start int64, rest []byte, err error) {
	v, n := binary.Uvarint(b)
	if n <= 0 || v > maxStart {
		return 0, nil, fmt.Errorf("%w: start of a slice %x", kv.ErrCorrupt, b)
	}
	return int64(v), b[n:], nil
}

// maxStart is the highest start of a slice: a thousand centuries, so that times do not overflow.
const maxStart = 1 << 52

// AppendStart appends what DecodeStart decodes.
func AppendStart(dst []byte, start int64) []byte { return binary.AppendUvarint(dst, uint64(start)) }

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
	return fmt.Sprintf("%q and %q hash with different keys: filters that are to be merged are made in one store, with one GROUP", key, other)
}
