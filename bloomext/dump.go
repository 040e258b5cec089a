package bloomext

import (
	"encoding/binary"
	"math"

	"github.com/sievekv/sievekv/internal/dump"
	"github.com/sievekv/sievekv/internal/filtercmd"
	"github.com/sievekv/sievekv/internal/text"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/scalableext"
)

// The dump of a filter with the compatible layout, as RedisBloom's BF.SCANDUMP gives it, begins with a header. All
// fields are little-endian:
//
//	offset  size  field
//	0       8     items that were new when added, of all layers
//	8       4     layers
//	12      4     options, see flatParams
//	16      4     expansion
//
// For each layer, the oldest first, 53 bytes follow:
//
//	offset  size  field
//	0       8     bytes of the array
//	8       8     bits of the array
//	16      8     items that were new when added
//	24      8     error rate, IEEE 754 bits
//	32      8     bits per item, IEEE 754 bits
//	40      4     k, bits of an item
//	44      8     capacity
//	52      1     n2, see flatParams
//
// The arrays of the layers follow, the oldest first.
const (
	dumpHeaderLen = 20
	dumpLayerLen  = 53
)

// dumpHeader returns the header of the filter's dump.
func (f *filter) dumpHeader(r kv.Reader) []byte {
	newest := f.newest.flat
	b := binary.LittleEndian.AppendUint64(nil, f.items(r))
	for _, v := range []uint32{uint32(len(f.layers)), newest.options, newest.expansion} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	for i := range f.layers {
		l := f.layer(i).flat
		for _, v := range []uint64{l.bits / 8, l.bits, r.Counter(l.table, itemsCounter), math.Float64bits(l.rate), math.Float64bits(l.perItem)} {
			b = binary.LittleEndian.AppendUint64(b, v)
		}
		b = binary.LittleEndian.AppendUint32(b, l.hashes)
		b = append(binary.LittleEndian.AppendUint64(b, l.capacity), l.n2)
	}
	return b
}

// maxDumpChunk is the most bytes of a chunk of a dump, as in RedisBloom.
const maxDumpChunk = 16 << 20

// dumpChunk returns the chunk of a dump that begins at an offset of the arrays, which ends with its layer or after
// maxDumpChunk bytes; nil behind the end. Charge is as for dump.LayerBytes.
func (f *filter) dumpChunk(r kv.Reader, offset uint64, charge func(bytes int) error) ([]byte, error) {
	for i := range f.layers {
		l := f.layer(i).flat
		if n := l.bits / 8; offset >= n {
			offset -= n
			continue
		}
		return dump.LayerBytes(r, f.object, l.table, offset, min(offset+maxDumpChunk, l.bits/8), charge)
	}
	return nil, nil
}

func scanDump(c *module.Call) reply.Reply {
	iter, numeric := text.ParseInt(c.Args[1]) // below 0 it is behind the end
	var chunk []byte
	next := int64(0)
	err := handleOf(c).h.LookLong(func(r kv.Reader, f *filter) (err error) {
		switch {
		case f.layout() != scalableext.LayoutCompatible:
			chunk, next, err = dump.NewDump(r, f.object, false).Chunk(iter, c.Charge)
			return err
		case iter == 0:
			if err = c.Charge(dumpHeaderLen + len(f.layers)*dumpLayerLen); err == nil {
				chunk, next = f.dumpHeader(r), 1
			}
		default:
			if chunk, err = f.dumpChunk(r, uint64(iter-1), c.Charge); len(chunk) > 0 {
				next = iter + int64(len(chunk))
			}
		}
		return err
	})
	switch {
	case err != nil:
		return filtercmd.ErrorReply(err)
	case !numeric:
		return reply.Error("Second argument must be numeric")
	}
	return reply.Array(reply.Int(next), reply.Bulk(chunk))
}
