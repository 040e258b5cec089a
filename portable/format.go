package portable

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// A file, of one filter, bitmap or string. Never reuse or renumber a value. Integers are little-endian; a uvarint is as
// in encoding/binary.
//
//	size  field
//	8     magic: 0x89 "SVKF" 0x0d 0x0a 0x1a
//	1     format version, 1
//	rest  chunks: a header, any number with content, an end. Nothing may follow the end
//
// The magic shows at once that a transfer has taken the file for text. A chunk:
//
//	size  field
//	1     kind: 1 header, 2 blocks, 3 bytes, 4 end
//	4     n, the length of the payload, at most 131,072
//	n     payload
//	4     CRC-32C of: the checksum of the header chunk, 4 bytes, 0 in that chunk itself; the chunk's offset in the file,
//	      8 bytes; the kind, the length and the payload
//
// So a chunk can be checked by itself, given its offset and the header chunk's checksum, and one that was left out, moved,
// repeated or taken from another file does not pass.
//
// Payload of the header:
//
//	uvarint  length of the next field
//	         what the key maps to, see format.Header: the type, its version, the layers, and the parameters, which have
//	         the hash of the filter's items with its secret. The object id is 1; for a string in one piece it is 0, and
//	         the parameters are the encoding, 0. The expiry is 0
//	for each layer, oldest first:
//	  u8     length of the next field
//	         counters, see format.AppendCounters
//
// Payload of blocks, which a file has unless it is a string in one piece: one or more of these, in ascending order in
// the whole file. Blocks that are missing are zeros.
//
//	uvarint  layer, 0 being the oldest
//	uvarint  block
//	uvarint  length of the next field
//	         the block, see package block: raw, positions or roaring
//
// Payload of bytes, for a string in one piece: the next bytes of it, at least one.
//
// Payload of the end:
//
//	uvarint  number of blocks, or length of the string in one piece
const (
	magic   = "\x89SVKF\r\n\x1a"
	version = 1

	prefixLen   = len(magic) + 1
	chunkHead   = 1 + 4
	checksumLen = 4
	maxPayload  = 128 << 10
	chunkSize   = 64 << 10 // a chunk that is longer is written; a block adds 8 KiB at most

	kindHeader = 1
	kindBlocks = 2
	kindBytes  = 3
	kindEnd    = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum returns the checksum of a chunk.
func checksum(header uint32, at int64, chunk []byte) uint32 {
	var place [12]byte
	binary.LittleEndian.PutUint32(place[:], header)
	binary.LittleEndian.PutUint64(place[4:], uint64(at))
	return crc32.Update(crc32.Checksum(place[:], castagnoli), castagnoli, chunk)
}

// ErrDamaged is returned, wrapped with the place in the file, for bytes that cannot be what Export has written.
var ErrDamaged = scalableext.ErrDamaged

func damaged(at int64, form string, args ...any) error {
	return fmt.Errorf("%w: at byte %d: %s", ErrDamaged, at, fmt.Sprintf(form, args...))
}

// contents is what the header chunk describes.
type contents struct {
	header   *format.Header
	counters [][format.NumCounters]uint64 // of each layer
}

// inline reports whether it is a string in one piece.
func (c *contents) inline() bool { return c.header.ID == 0 }

// encoder writes a file.
type encoder struct {
	w      io.Writer
	at     int64  // bytes written
	header uint32 // checksum of the header chunk
	chunk  []byte // the chunk that is being made, without its checksum
	value  []byte
	total  uint64 // blocks or bytes
}

// newEncoder writes the beginning of a file.
func newEncoder(w io.Writer, c *contents) (*encoder, error) {
	e := &encoder{w: w}
	if err := e.write(append([]byte(magic), version)); err != nil {
		return e, err
	}
	h := format.AppendHeader(nil, c.header)
	e.begin(kindHeader)
	e.chunk = append(binary.AppendUvarint(e.chunk, uint64(len(h))), h...)
	for _, counters := range c.counters {
		stored := format.AppendCounters(nil, counters)
		e.chunk = append(append(e.chunk, byte(len(stored))), stored...)
	}
	if n := len(e.chunk) - chunkHead; n > maxPayload {
		return e, fmt.Errorf("%w: header of %d bytes, at most %d", kv.ErrTooLarge, n, maxPayload)
	}
	sum, err := e.flush()
	e.header = sum
	return e, err
}

func (e *encoder) write(b []byte) error {
	n, err := e.w.Write(b)
	e.at += int64(n)
	return err
}

func (e *encoder) begin(kind byte) { e.chunk = append(e.chunk[:0], kind, 0, 0, 0, 0) }

// flush writes the chunk that was begun, and returns its checksum.
func (e *encoder) flush() (uint32, error) {
	binary.LittleEndian.PutUint32(e.chunk[1:], uint32(len(e.chunk)-chunkHead))
	sum := checksum(e.header, e.at, e.chunk)
	err := e.write(binary.LittleEndian.AppendUint32(e.chunk, sum))
	e.chunk = e.chunk[:0]
	return sum, err
}

// block writes a block, unless all of it is zero.
func (e *encoder) block(fam block.Family, layer int, blk uint64, words []uint64) error {
	if block.Count(words) == 0 {
		return nil
	}
	if len(e.chunk) == 0 {
		e.begin(kindBlocks)
	}
	e.value = block.AppendBlock(e.value[:0], fam, words)
	e.chunk = binary.AppendUvarint(binary.AppendUvarint(e.chunk, uint64(layer)), blk)
	e.chunk = append(binary.AppendUvarint(e.chunk, uint64(len(e.value))), e.value...)
	e.total++
	if len(e.chunk) < chunkSize {
		return nil
	}
	_, err := e.flush()
	return err
}

// bytes writes a string in one piece.
func (e *encoder) bytes(s []byte) error {
	e.total = uint64(len(s))
	for len(s) > 0 {
		n := min(len(s), chunkSize)
		e.begin(kindBytes)
		e.chunk = append(e.chunk, s[:n]...)
		if _, err := e.flush(); err != nil {
			return err
		}
		s = s[n:]
	}
	return nil
}

// end writes the end of the file.
func (e *encoder) end() error {
	if len(e.chunk) > 0 {
		if _, err := e.flush(); err != nil {
			return err
		}
	}
	e.begin(kindEnd)
	e.chunk = binary.AppendUvarint(e.chunk, e.total)
	_, err := e.flush()
	return err
}

// decoder reads a file. It takes one chunk into memory at a time.
type decoder struct {
	r      io.Reader
	at     int64  // bytes read
	begun  bool   // the header chunk was read
	header uint32 // its checksum
	chunk  []byte
}

// prefix reads what comes before the chunks. The errors are ErrDamaged, kv.ErrUnsupportedVersion and errors of reading.
func (d *decoder) prefix() error {
	var b [prefixLen]byte
	n, err := io.ReadFull(d.r, b[:])
	if err != nil && !cutShort(err) {
		return err
	}
	if k := min(n, len(magic)); string(b[:k]) != magic[:k] {
		if b[0] == 0x1f && b[1] == 0x8b {
			return damaged(0, "it is compressed by gzip: give what gzip -dc makes of it")
		}
		return damaged(0, "it does not begin as a file of a filter, bitmap or string does")
	}
	if d.at = int64(n); err != nil {
		return damaged(d.at, "the file ends here")
	}
	if v := b[len(magic)]; v != version {
		return fmt.Errorf("%w: the file has format %d, this program knows %d", kv.ErrUnsupportedVersion, v, version)
	}
	return nil
}

// next reads a chunk. The payload is valid until the next call. The errors are ErrDamaged and errors of reading.
func (d *decoder) next() (kind byte, payload []byte, err error) {
	if d.chunk == nil {
		d.chunk = make([]byte, chunkHead+maxPayload+checksumLen)
	}
	start := d.at
	if err := d.fill(d.chunk[:chunkHead]); err != nil {
		return 0, nil, err
	}
	n := binary.LittleEndian.Uint32(d.chunk[1:])
	if n > maxPayload {
		return 0, nil, damaged(start, "chunk of %d bytes, at most %d", n, maxPayload)
	}
	end := chunkHead + int(n)
	if err := d.fill(d.chunk[chunkHead : end+checksumLen]); err != nil {
		return 0, nil, err
	}
	want := binary.LittleEndian.Uint32(d.chunk[end:])
	if sum := checksum(d.header, start, d.chunk[:end]); sum != want {
		return 0, nil, damaged(start, "the checksum of the chunk up to byte %d is wrong", d.at)
	}
	if !d.begun {
		d.begun, d.header = true, want
	}
	return d.chunk[0], d.chunk[chunkHead:end], nil
}

func (d *decoder) fill(b []byte) error {
	n, err := io.ReadFull(d.r, b)
	d.at += int64(n)
	if cutShort(err) {
		return damaged(d.at, "the file ends here")
	}
	return err
}

func cutShort(err error) bool { return err == io.EOF || err == io.ErrUnexpectedEOF }

// decodeContents decodes the payload of the header chunk. Its errors wrap kv.ErrUnsupportedVersion or kv.ErrCorrupt.
func decodeContents(payload []byte) (*contents, error) {
	r := fields{rest: payload}
	h, err := format.DecodeHeader(r.bytes(r.uvarint())) // of no bytes if it is cut short, which is an error
	if err != nil {
		return nil, err
	}
	c := &contents{header: h, counters: make([][format.NumCounters]uint64, len(h.Layers))}
	for i := range c.counters {
		stored := r.bytes(uint64(r.byte()))
		if c.counters[i], err = format.DecodeCounters(stored); err != nil {
			return nil, err
		}
	}
	inline := h.TypeName == format.StringType && len(h.Params) == 1 && h.Params[0] == format.EncodingBytes && len(h.Layers) == 0
	switch {
	case r.bad || len(r.rest) > 0:
		return nil, format.Corruptf("header of %d bytes for %d layers", len(payload), len(h.Layers))
	case h.ID > 1 || h.Expiry != 0 || inline != (h.ID == 0):
		return nil, format.Corruptf("header of a %s with %d layers, object id %d and expiry %d", h.TypeName, len(h.Layers), h.ID, h.Expiry)
	}
	return c, nil
}

// fields reads the fields of a payload. The first that is cut short sets bad.
type fields struct {
	rest []byte
	bad  bool
}

func (f *fields) byte() byte {
	if b := f.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (f *fields) bytes(n uint64) []byte {
	if n > uint64(len(f.rest)) {
		f.bad = true
		return nil
	}
	b := f.rest[:n:n]
	f.rest = f.rest[n:]
	return b
}

func (f *fields) uvarint() uint64 {
	v, n := binary.Uvarint(f.rest)
	if n <= 0 {
		f.bad = true
		return 0
	}
	f.rest = f.rest[n:]
	return v
}
