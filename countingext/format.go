package countingext

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
//	0       1     version, 1 or 2
//	1       1     k, probes of an item, 1 to 64
//	2       1     lines that the probes are spread over, 1 to 3
//	3       8     error rate of the layer, IEEE 754 bits, little-endian
//	11      1-6   capacity of the layer, 1 to 2^40, uvarint
//
// There must be no further bytes. Version 2 means that older layers take no new items since the layer was added: see
// filter.ordered. A program that knows only version 1 would add new items to them.
type layerParams struct {
	hashes, linesPerItem uint8
	rate                 float64
	capacity             uint64
	ordered              bool // version 2
}

const (
	layerVersion        = 1
	orderedLayerVersion = 2
	layerFixedLen       = 11
)

// The layers' own numbers, which kv calls counters. Stored on disk: do not renumber.
const (
	fillCounter  = 0 // adds that counted up, minus deletions that counted down
	aboveCounter = 1 // counters above 0
	stuckCounter = 2 // counters at 15
	sumCounter   = 3 // the sum of all counters

	// In the oldest layer, for the whole filter.
	itemsCounter = 4 // adds minus deletions
	keptCounter  = 5 // deletions that counted nothing down

	// Both count from the first kept deletion, and are halved whenever the first one reaches lateDeletions.
	deletedLatelyCounter = 6 // deletions
	foundLatelyCounter   = 7 // deletions after which the item seemed to be present

	// In the second oldest layer.
	mixedCounter = 4 // 1 if new items may have been added to another layer than the newest

	lateDeletions = 8192
)

func (p layerParams) append(dst []byte) []byte {
	version := byte(layerVersion)
	if p.ordered {
		version = orderedLayerVersion
	}
	dst = append(dst, version, p.hashes, p.linesPerItem)
	dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(p.rate))
	return binary.AppendUvarint(dst, p.capacity)
}

// decodeLayerParams decodes what append wrote. Package probe checks whether k and the lines fit each other and the
// blocks. The errors wrap kv.ErrUnsupportedVersion or kv.ErrCorrupt.
func decodeLayerParams(b []byte) (p layerParams, err error) {
	if len(b) > 0 && b[0] != layerVersion && b[0] != orderedLayerVersion {
		return p, fmt.Errorf("%w: counting layer parameters have format %d, this program knows %d and %d",
			kv.ErrUnsupportedVersion, b[0], layerVersion, orderedLayerVersion)
	}
	bad := fmt.Errorf("%w: counting layer parameters %x", kv.ErrCorrupt, b)
	if len(b) <= layerFixedLen {
		return p, bad
	}
	capacity, ok := scalableext.DecodeCapacity(b[layerFixedLen:])
	if !ok {
		return p, bad
	}
	rate := math.Float64frombits(binary.LittleEndian.Uint64(b[3:]))
	if !(rate > 0 && rate < 1) {
		return p, bad
	}
	return layerParams{
		hashes: b[1], linesPerItem: b[2], rate: rate, capacity: capacity, ordered: b[0] == orderedLayerVersion,
	}, nil
}
