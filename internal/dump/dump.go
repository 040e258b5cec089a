package dump

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// The dump of a filter with the native or the foreign layout, as BF.SCANDUMP and CF.SCANDUMP give it in chunks.
// RedisBloom cannot read it. The first chunk is the header. Integers are little-endian; a uvarint is as in
// encoding/binary.
//
//	size  field
//	8     magic: 0x89 "SVKD" 0x0d 0x0a 0x1a
//	1     version, 2
//	8     id of the filter that was dumped, which no other of its store ever has. Version 1 does not have it
//	uvarint  length of the next field
//	      what the key maps to, see format.Header. The object id is 1, and the expiry is 0
//	for each layer, oldest first:
//	  u8  length of the next field
//	      counters, see format.AppendCounters
//	4     CRC-32C of everything before it
//
// Every other chunk has the next bytes of the layers' blocks, the oldest layer first, and behind them 4 bytes: the CRC-32C
// of the dump's mark, 4 bytes, of where in all bytes of the layers the chunk begins, 8 bytes, and of the chunk's bytes.
//
// The mark is the CRC-32C of the header's fields up to the counters, or, for a filter whose entries move, of the
// counters too. So a chunk of another dump does not pass, and neither does a chunk of another filter that was made
// under the same key meanwhile. Items that are added to a Bloom filter while it is dumped may be in the dump or not. A
// cuckoo filter that changes meanwhile must be dumped again: an entry could be missing.
const (
	dumpMagic   = "\x89SVKD\r\n\x1a"
	dumpVersion = 2
	dumpSumLen  = 4
	dumpIDLen   = 8 // since version 2

	// maxDumpChunk is the most bytes of blocks in a chunk that Chunk returns. A dump may have longer ones: older versions
	// made some of 16 MiB.
	maxDumpChunk = 1 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errDumpSum = errors.New("the chunk is damaged, or of another dump, or the filter was changed while it was dumped: begin anew with the header")

// IsNativeDump reports whether a chunk begins the dump of a filter with the native layout.
func IsNativeDump(chunk []byte) bool {
	return len(chunk) >= len(dumpMagic) && string(chunk[:len(dumpMagic)]) == dumpMagic
}

// Dump gives the dump of a filter with the native layout.
type Dump struct {
	r      kv.Reader
	object *kv.Object
	layers []*kv.Layer
	header []byte
	mark   uint32
}

// NewDump begins to dump an object. Moves says that its entries move.
func NewDump(r kv.Reader, o *kv.Object, moves bool) *Dump {
	h := o.Header()
	h.ID, h.Expiry, h.Hidden, h.Layers = 1, 0, false, nil
	var layers []*kv.Layer
	layers, h.Params = scalableext.Shown(o)
	for _, l := range layers {
		h.Layers = append(h.Layers, l.Spec())
	}
	stored := format.AppendHeader(nil, &h)
	b := binary.LittleEndian.AppendUint64(append([]byte(dumpMagic), dumpVersion), o.ID())
	b = append(binary.AppendUvarint(b, uint64(len(stored))), stored...)
	fixed := len(b)
	for _, l := range layers {
		var counters [format.NumCounters]uint64
		for i := range counters {
			counters[i] = r.Counter(l, i)
		}
		b = appendCounters(b, counters)
	}
	d := &Dump{r: r, object: o, layers: layers, mark: dumpMark(b, fixed, moves)}
	d.header = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	return d
}

func appendCounters(b []byte, counters [format.NumCounters]uint64) []byte {
	stored := format.AppendCounters(nil, counters)
	return append(append(b, byte(len(stored))), stored...)
}

// decodeCounters decodes the counters of n layers, and nothing else.
func decodeCounters(b []byte, layers int) (all [][format.NumCounters]uint64, err error) {
	for range layers {
		if len(b) < 1 || len(b)-1 < int(b[0]) {
			return nil, ErrBadData
		}
		counters, err := format.DecodeCounters(b[1:][:b[0]])
		if err != nil {
			return nil, ErrBadData
		}
		all, b = append(all, counters), b[1+b[0]:]
	}
	if len(b) > 0 {
		return nil, ErrBadData
	}
	return all, nil
}

// dumpMark returns the mark of a dump, of whose header fixed bytes come before the counters.
func dumpMark(header []byte, fixed int, moves bool) uint32 {
	if !moves {
		header = header[:fixed]
	}
	return crc32.Checksum(header, castagnoli)
}

// Chunk returns the chunk that iter asks for, which is 0 or what was returned with the chunk before, and what asks for the
// next. Behind the end it returns nothing and 0. It calls charge with the chunk's length before it makes one of blocks, and returns its error.
func (d *Dump) Chunk(iter int64, charge func(bytes int) error) (chunk []byte, next int64, err error) {
	if iter == 0 {
		return d.header, 1, nil
	}
	offset := uint64(iter - 1)
	start := offset
	for _, l := range d.layers {
		n := LayerLen(l)
		if start >= n {
			start -= n
			continue
		}
		end := min(start+maxDumpChunk, n)
		if chunk, err = LayerBytes(d.r, d.object, l, start, end, charge); err != nil {
			return nil, 0, err
		}
		chunk = binary.LittleEndian.AppendUint32(chunk, chunkSum(d.mark, offset, chunk))
		return chunk, iter + int64(end-start), nil
	}
	return nil, 0, nil
}

// DumpContent returns what a chunk of the dump of a filter with the native layout says of the filter, so that dumps of two
// filters can be compared: without the id and the checksums. Header says that the chunk is the first one.
func DumpContent(chunk []byte, header bool) []byte {
	content := chunk[:max(0, len(chunk)-dumpSumLen)]
	if at := len(dumpMagic) + 1; header && len(content) >= at+dumpIDLen && content[at-1] > 1 {
		content = slices.Delete(slices.Clone(content), at, at+dumpIDLen)
	}
	return content
}

// LayerLen returns the number of bytes of a layer's blocks.
func LayerLen(l *kv.Layer) uint64 { return l.Spec().Blocks * blockLenOf(l) }

func chunkSum(mark uint32, offset uint64, data []byte) uint32 {
	b := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32(nil, mark), offset)
	return crc32.Update(crc32.Checksum(b, castagnoli), castagnoli, data)
}

// dumpedHeader is what the header of a dump says.
type dumpedHeader struct {
	spec     kv.Spec
	counters []byte // of each layer, as they are in the header
	mark     uint32
}

// decodeDumpHeader decodes the header of a dump, which may be anything. The errors are ErrBadData, and
// kv.ErrUnsupportedVersion for a header of a newer version.
func decodeDumpHeader(b []byte, typ *kv.Type, moves bool) (d dumpedHeader, err error) {
	body := len(b) - dumpSumLen
	if !IsNativeDump(b) || body <= len(dumpMagic) {
		return d, ErrBadData
	}
	v := b[len(dumpMagic)]
	if v < 1 || v > dumpVersion {
		return d, fmt.Errorf("%w: dump of version %d, this program knows 1 to %d", kv.ErrUnsupportedVersion, v, dumpVersion)
	}
	if crc32.Checksum(b[:body], castagnoli) != binary.LittleEndian.Uint32(b[body:]) {
		return d, errDumpSum
	}
	rest := b[len(dumpMagic)+1 : body]
	if v > 1 {
		if len(rest) < dumpIDLen {
			return d, ErrBadData
		}
		rest = rest[dumpIDLen:]
	}
	n, size := binary.Uvarint(rest)
	if size <= 0 || n > uint64(len(rest)-size) {
		return d, ErrBadData
	}
	h, err := format.DecodeHeader(rest[size:][:n])
	switch {
	case errors.Is(err, kv.ErrUnsupportedVersion):
		return d, err
	case err != nil, h.TypeName != typ.Name, h.ID != 1, h.Expiry != 0, len(h.Layers) == 0:
		return d, ErrBadData
	case h.TypeVersion > typ.Version:
		return d, fmt.Errorf("%w: dump of a %s of version %d, this program knows %d", kv.ErrUnsupportedVersion, h.TypeName, h.TypeVersion, typ.Version)
	}
	rest = rest[uint64(size)+n:]
	for i := range h.Layers {
		if l := h.Layers[i].Layout; l == kv.LayoutCompatible || l == kv.LayoutLog { // whose dumps are others, or have none
			return d, ErrBadData
		}
	}
	if _, err := decodeCounters(rest, len(h.Layers)); err != nil {
		return d, err
	}
	d.counters, d.mark = rest, dumpMark(b[:body], body-len(rest), moves)
	stored := *typ
	stored.Version = h.TypeVersion
	d.spec = kv.Spec{Type: &stored, Family: h.Family, Layers: h.Layers, Params: h.Params, Lossy: h.Lossy}
	return d, nil
}

// check returns ErrBadData if the type refuses the parameters, or the counters, as it does when it is imported.
func (d *dumpedHeader) check(typ *kv.Type) error {
	all, err := decodeCounters(d.counters, len(d.spec.Layers))
	if err != nil {
		return err
	}
	h := &format.Header{
		TypeName: typ.Name, TypeVersion: d.spec.Type.Version, ID: 1, Family: d.spec.Family, Layers: d.spec.Layers, Params: d.spec.Params, Lossy: d.spec.Lossy,
	}
	if _, _, err = kv.Detached(typ, h, all, nil); err != nil && !errors.Is(err, kv.ErrUnsupportedVersion) {
		return fmt.Errorf("%w: %w", ErrBadData, err)
	}
	return err
}

// dumpAttribute is the attribute of a half-loaded filter with the native layout that has the mark of its dump, and the
// counters of its layers, as the header has them. The filter gets them at the end.
const dumpAttribute = "dump"

// BeginNative is Handle.BeginLoad for the header of a dump of a filter with the native layout. Typ is the filter's
// type. Moves is as for NewDump. The errors are BeginLoad's, ErrBadData, kv.ErrUnsupportedVersion, and one for a header
// with another checksum.
func (m *Loading[F]) BeginNative(h *scalableext.Handle[F], level kv.Durability, header []byte, typ *kv.Type, moves bool) error {
	var d dumpedHeader
	spec := func(*kv.DB) (_ kv.Spec, err error) {
		if d, err = decodeDumpHeader(header, typ, moves); err == nil {
			err = d.check(typ)
		}
		return d.spec, err
	}
	return BeginLoad(h, level, spec, func(w *kv.Writer, _ *F) error {
		o, err := w.Object(h.Key) // staged by this writer, which finds it
		if err != nil {
			return err
		}
		w.SetAttribute(o, dumpAttribute, append(binary.LittleEndian.AppendUint32(nil, d.mark), d.counters...))
		return nil
	})
}

// endNative stages the counters of a filter with the native layout once all of its bytes have come, except the counter
// that Put keeps.
func (m *Loading[F]) endNative(h *scalableext.Handle[F], w *kv.Writer, o *kv.Object) error {
	stored, err := h.DB.Attribute(o, dumpAttribute)
	if err != nil || len(stored) < dumpSumLen {
		return err
	}
	all, err := decodeCounters(stored[dumpSumLen:], len(o.Layers()))
	if err != nil {
		return fmt.Errorf("%w: key %q: counters of a dump %x", kv.ErrCorrupt, h.Key, stored)
	}
	for i, l := range o.Layers() {
		for n, v := range all[i] {
			if v != 0 && n != m.Counted {
				w.SetCounter(l, n, v)
			}
		}
	}
	w.SetAttribute(o, dumpAttribute, nil)
	if err := o.CheckCounters(w.Counter); err != nil {
		return fmt.Errorf("%w: %w", ErrBadData, err)
	}
	return nil
}

// payload returns the bytes of blocks that a chunk of data has, and where they begin in all bytes of the layers. For a
// filter with the native layout it checks the chunk first; if the filter is complete it need not be checked, as data is
// compared with what is there.
func (m *Loading[F]) payload(h *scalableext.Handle[F], w *kv.Writer, iter int64, data []byte) (payload []byte, from int64, err error) {
	_, o, f, err := m.target(h, w)
	switch {
	case err != nil:
		return nil, 0, err
	case iter <= 0:
		return nil, 0, ErrBadData
	}
	if !m.Native(f) {
		return data, iter - 1 - int64(len(data)), nil
	}
	end := len(data) - dumpSumLen
	if end < 0 {
		return nil, 0, ErrBadData
	}
	payload, from = data[:end], iter-1-int64(end)
	if !o.Hidden() {
		return payload, from, nil
	}
	stored, err := h.DB.Attribute(o, dumpAttribute)
	if err != nil {
		return nil, 0, err
	}
	if len(stored) < dumpSumLen ||
		chunkSum(binary.LittleEndian.Uint32(stored), uint64(from), payload) != binary.LittleEndian.Uint32(data[end:]) {
		return nil, 0, errDumpSum
	}
	return payload, from, nil
}
