package cuckooext

import (
	"encoding/binary"
	"fmt"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// layerParams are a layer's own parameters, as stored with it; its blocks are kv's,
// and the width of its fingerprints is that of the slots.
//
//	offset  size  field
//	0       1     version, 1
//	1       1     b, slots of a bucket, 1 to 255
//	2       2     max iterations: the most moves of an insert, 1 to 65535,
//	              little-endian
//	4       1-6   capacity of the layer, 1 to 2^40, uvarint
//
// Nothing may follow.
type layerParams struct {
	bucketSize    uint8
	maxIterations uint16
	capacity      uint64
}

const (
	layerVersion  = 1
	layerFixedLen = 4
)

// The numbers kept with a layer. Stored on disk: do not renumber.
const (
	entriesCounter   = 0 // slots that are not empty
	deletesCounter   = 1 // of the oldest layer: entries deleted from any since the last compaction
	compactedCounter = 2 // of the newest layer: blocks that the compaction under way is done with
)

func (p layerParams) append(dst []byte) []byte {
	dst = append(dst, layerVersion, p.bucketSize)
	dst = binary.LittleEndian.AppendUint16(dst, p.maxIterations)
	return binary.AppendUvarint(dst, p.capacity)
}

// decodeLayerParams returns parameters that append could have written. The errors
// wrap kv.ErrUnsupportedVersion or kv.ErrCorrupt.
func decodeLayerParams(b []byte) (p layerParams, err error) {
	if len(b) > 0 && b[0] != layerVersion {
		return p, fmt.Errorf("%w: cuckoo layer parameters have format %d, this program knows %d",
			kv.ErrUnsupportedVersion, b[0], layerVersion)
	}
	bad := fmt.Errorf("%w: cuckoo layer parameters %x", kv.ErrCorrupt, b)
	if len(b) <= layerFixedLen {
		return p, bad
	}
	capacity, ok := scalableext.DecodeCapacity(b[layerFixedLen:])
	if !ok {
		return p, bad
	}
	maxIterations := binary.LittleEndian.Uint16(b[2:])
	if b[1] == 0 || maxIterations == 0 {
		return p, bad
	}
	return layerParams{bucketSize: b[1], maxIterations: maxIterations, capacity: capacity}, nil
}
