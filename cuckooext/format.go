package cuckooext

import (
	"encoding/binary"
	"fmt"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// layerParams are the parameters of a layer that are stored with it. kv stores its blocks, and the width of its
// fingerprints, which is that of the slots.
//
//	offset  size  field
//	0       1     version: 1, or 2 if the layer has a short block
//	1       1     b, slots of a bucket, 1 to 255
//	2       2     max iterations: the most moves of an insert, 1 to 65535,
//	              little-endian
//	4       1-6   capacity of the layer, 1 to 2^40, uvarint; in the
//	              compatible layout the number of slots
//
// There must be no further bytes. How many buckets a short block has follows from its lines, see geometry.short.
type layerParams struct {
	bucketSize    uint8
	maxIterations uint16
	capacity      uint64
	short         bool
}

const (
	layerVersion  = 1
	shortVersion  = 2 // programs that know no short blocks refuse it
	layerFixedLen = 4
)

// The counters of a layer. Stored on disk: do not renumber.
const (
	entriesCounter   = 0 // slots that are not empty
	deletesCounter   = 1 // in the oldest layer: entries deleted from any layer since the last compaction
	compactedCounter = 2 // in the newest layer: blocks that the present compaction has finished

	// In the oldest layer of a filter with the native layout: compactions that have ended. They set the deletes to 0, and
	// move entries: by this number a dump knows of them, see scalableext.Dump.
	compactionsCounter = 3
)

func (p layerParams) append(dst []byte) []byte {
	version := byte(layerVersion)
	if p.short {
		version = shortVersion
	}
	dst = append(dst, version, p.bucketSize)
	dst = binary.LittleEndian.AppendUint16(dst, p.maxIterations)
	return binary.AppendUvarint(dst, p.capacity)
}

// decodeLayerParams decodes what append wrote. Its errors wrap kv.ErrUnsupportedVersion or kv.ErrCorrupt.
func decodeLayerParams(b []byte) (p layerParams, err error) {
	if len(b) > 0 && b[0] != layerVersion && b[0] != shortVersion {
		return p, fmt.Errorf("%w: cuckoo layer parameters have format %d, this program knows %d and %d",
			kv.ErrUnsupportedVersion, b[0], layerVersion, shortVersion)
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
	return layerParams{bucketSize: b[1], maxIterations: maxIterations, capacity: capacity, short: b[0] == shortVersion}, nil
}
