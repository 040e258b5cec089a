package cuckooext

import (
	"encoding/binary"
	"fmt"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// layerParams are the parameters of a layer that are stored with it. kv stores its blocks, and the width of its
// fingerprints, which is the width of the slots.
//
//	offset  size  field
//	0       1     version: 1 if the blocks are whole, 2 for one short block, 3 if
//	              the blocks are cut, see blockForm
//	1       1     b, slots of a bucket, 1 to 255
//	2       2     max iterations: the most moves of an insert, 1 to 65535,
//	              little-endian
//	4       1-6   capacity of the layer, 1 to 2^40, uvarint; in the
//	              compatible layout the number of slots
//
// There must be no further bytes. How many buckets a block has follows from its lines, see geometry.short and geometry.cut.
type layerParams struct {
	form          blockForm
	bucketSize    uint8
	maxIterations uint16
	capacity      uint64
}

const layerFixedLen = 4

// blockForm says which blocks a layer has. It is the version of the layer's parameters, so that programs that do not know such
// blocks refuse them. Stored on disk: do not renumber.
type blockForm byte

const (
	wholeBlocks blockForm = 1 // and all in the compatible layout
	shortBlock  blockForm = 2 // one block, of the oldest layer, with a part of the buckets of whole blocks
	cutBlocks   blockForm = 3 // as those of all layers of the filter
)

// The counters of a layer. Stored on disk: do not renumber.
const (
	entriesCounter   = 0 // slots that are not empty
	deletesCounter   = 1 // in the oldest layer: entries deleted from any layer since the last compaction
	compactedCounter = 2 // in the newest layer: blocks that the present compaction has finished

	// In the oldest layer of a filter with the native layout: compactions that have ended. They set the deletes to 0, and
	// move entries: by this number a dump knows of them, see dump.Dump.
	compactionsCounter = 3
)

func (p layerParams) append(dst []byte) []byte {
	dst = append(dst, byte(p.form), p.bucketSize)
	dst = binary.LittleEndian.AppendUint16(dst, p.maxIterations)
	return binary.AppendUvarint(dst, p.capacity)
}

// decodeLayerParams decodes what append wrote. Its errors wrap kv.ErrUnsupportedVersion or kv.ErrCorrupt.
func decodeLayerParams(b []byte) (p layerParams, err error) {
	if len(b) > 0 && (b[0] < byte(wholeBlocks) || b[0] > byte(cutBlocks)) {
		return p, fmt.Errorf("%w: cuckoo layer parameters have format %d, this program knows %d to %d",
			kv.ErrUnsupportedVersion, b[0], wholeBlocks, cutBlocks)
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
	return layerParams{blockForm(b[0]), b[1], maxIterations, capacity}, nil
}
