package bloomext

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// layerParams are the parameters of a layer that are stored with it, besides the blocks and lines, which kv stores.
//
//	offset  size  field
//	0       1     k, probes of an item, 1 to 64
//	1       1     lines that the probes are spread over, 1 to 3
//	2       8     error rate of the layer, IEEE 754 bits, little-endian
//	10      1-6   capacity of the layer, 1 to 2^40, uvarint
//
// There must be no further bytes.
//
// Counter 0 of a layer is the number of items it took, counter 1 the number of its set bits, counter 2 has flags: 1
// if a merge or an import has estimated counter 0.
type layerParams struct {
	hashes, linesPerItem uint8
	rate                 float64
	capacity             uint64
}

const (
	layerFixedLen = 10

	itemsCounter = 0
	onesCounter  = 1
	flagsCounter = 2

	flagEstimated = 1
)

func (p layerParams) append(dst []byte) []byte {
	dst = append(dst, p.hashes, p.linesPerItem)
	dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(p.rate))
	return binary.AppendUvarint(dst, p.capacity)
}

func decodeLayerParams(b []byte) (p layerParams, err error) {
	bad := fmt.Errorf("%w: Bloom layer parameters %x", kv.ErrCorrupt, b)
	if len(b) <= layerFixedLen {
		return p, bad
	}
	p.hashes, p.linesPerItem = b[0], b[1]
	p.rate = math.Float64frombits(binary.LittleEndian.Uint64(b[2:]))
	capacity, ok := scalableext.DecodeCapacity(b[layerFixedLen:])
	if !ok || !(p.rate > 0 && p.rate < 1) {
		return p, bad
	}
	p.capacity = capacity
	return p, nil
}
