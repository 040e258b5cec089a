package cuckooext

import (
	"encoding/binary"

	"github.com/sievekv/sievekv/internal/dump"
	"github.com/sievekv/sievekv/internal/text"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// dumpHeader begins the dump of a filter with the compatible layout, as RedisBloom's CF.SCANDUMP gives it. All fields are
// little-endian:
//
//	offset  size  field
//	0       8     items: slots that are taken
//	8       8     buckets of the oldest layer
//	16      8     deletes since the last compaction
//	24      8     layers
//	32      2     bucket size
//	34      2     max iterations
//	36      2     expansion, 0 for a filter that does not grow
//
// The arrays of the layers follow, the oldest first.
type dumpHeader struct {
	items, buckets, deletes, layers      uint64
	bucketSize, maxIterations, expansion uint16
}

func (h dumpHeader) append(dst []byte) []byte {
	for _, v := range []uint64{h.items, h.buckets, h.deletes, h.layers} {
		dst = binary.LittleEndian.AppendUint64(dst, v)
	}
	for _, v := range []uint16{h.bucketSize, h.maxIterations, h.expansion} {
		dst = binary.LittleEndian.AppendUint16(dst, v)
	}
	return dst
}

// dumpHeader returns the header of the filter's dump.
func (f *filter) dumpHeader(r kv.Reader) dumpHeader {
	oldest := &f.layers[len(f.layers)-1]
	h := dumpHeader{
		buckets: oldest.buckets, deletes: r.Counter(oldest.table, deletesCounter), layers: uint64(len(f.layers)),
		bucketSize: uint16(oldest.bucketSize), maxIterations: uint16(oldest.maxIterations), expansion: uint16(f.chain.Params.Expansion),
	}
	for i := range f.layers {
		h.items += r.Counter(f.layers[i].table, entriesCounter)
	}
	return h
}

// maxDumpChunk is the most bytes of a chunk of a dump, as in RedisBloom.
const maxDumpChunk = 16 << 20

// dumpChunk returns the chunk of a dump that begins at an offset of the arrays, and the offset of the next; nil behind
// the end. In a layer of at most maxDumpChunk bytes a chunk is the whole layer, wherever in it the offset is: RedisBloom
// does that. Charge is as for dump.LayerBytes.
func (f *filter) dumpChunk(r kv.Reader, offset uint64, charge func(bytes int) error) (chunk []byte, next uint64, err error) {
	start := offset
	for i := len(f.layers) - 1; i >= 0; i-- {
		l := &f.layers[i]
		if start >= l.capacity {
			start -= l.capacity
			continue
		}
		end := min(start+maxDumpChunk, l.capacity)
		if l.capacity <= maxDumpChunk {
			start, end = 0, l.capacity
		}
		chunk, err = dump.LayerBytes(r, f.object, l.table, start, end, charge)
		return chunk, offset + end - start, err
	}
	return nil, 0, nil
}

var errPosition = reply.Error("Invalid position")

func scanDump(c *module.Call) reply.Reply {
	iter, ok := text.ParseInt(c.Args[1])
	if !ok || iter < 0 {
		return errPosition
	}
	var chunk []byte
	next := int64(0)
	err := handleOf(c).h.LookLong(func(r kv.Reader, f *filter) (err error) {
		if !f.compatible {
			chunk, next, err = dump.NewDump(r, f.object, true).Chunk(iter, c.Charge)
			return err
		}
		h := f.dumpHeader(r)
		switch {
		case h.items == 0:
		case iter == 0:
			chunk, next = h.append(nil), 1
		default:
			var end uint64
			chunk, end, err = f.dumpChunk(r, uint64(iter-1), c.Charge)
			next = int64(end) + 1
		}
		return err
	})
	switch {
	case err != nil:
		return errorReply(err)
	case chunk == nil:
		return reply.Array(reply.Int(0), reply.Nil)
	}
	return reply.Array(reply.Int(next), reply.Bulk(chunk))
}
