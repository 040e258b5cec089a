package kv

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/sievekv/sievekv/kv/block"
)

// Every byte kv stores is described in this file; the values under block keys
// are package block's. Stored on disk: never reuse or renumber a value.
//
// Keys. The first byte is a tag; integers behind it are in the ordered form of
// appendOrdered, 1 byte for 0 to 247 and up to 9 for larger ones, so that keys
// sort by (object, part, block) and a block key takes 4 to 7 bytes:
//
//	tag   rest                          value
//	0x01  one byte, see meta keys       store metadata
//	0x02  hash of the user key, 8       header, see appendHeader
//	      bytes big-endian; user key
//	0x03  object 0x00 layer             counters of the layer, see appendCounters
//	0x03  object 0x01 name              attribute of the object: any bytes
//	0x03  object layer+2 block          a block or operands for one, package block
//	0x04  object                        a dropped object whose space is not yet
//	                                    reclaimed; value empty, or 0x01: blocks of
//	                                    one being built, not dropped yet
//	0x05  expiry, user key              the key expires then; value empty for a
//	                                    string, 0x01 for what has an object
//
// All of an object lies in one range, [0x03 object, 0x03 object+1), so that
// dropping it is one range deletion whatever its size. Object ids are never used twice.
// The number of a layer that was removed, which is the newest, may be used by the next one
// its object gets: what is stored of the first goes in the commit that removes it.
//
// The hash is XXH64 with the first 8 bytes of the store's id as seed. Sorted by
// it, keys have a place in 64 bits that never changes: the cursor of a scan. Nobody
// who chooses keys can know it, and so crowd one place.
//
// Header versions, type format versions and the store's format version are
// checked before anything else is decoded: newer is unsupported, not corrupt.
// Pebble's checksums cover all of it, log and tables, so there are none here.
const (
	tagMeta    = 0x01
	tagHeader  = 0x02
	tagObject  = 0x03
	tagDropped = 0x04
	tagExpiry  = 0x05
	tagEnd     = 0x06

	partCounters   = 0
	partAttributes = 1
	partLayers     = 2
)

// Meta keys, the byte after tagMeta.
const (
	metaStore  = 0x01 // see appendStoreMeta; written once
	metaNextID = 0x02 // uvarint: every object id in use is below it
	metaSecret = 0x04 // 32 bytes: the secret of keyed hashes; written when the first object needs it
	metaKeys   = 0x03 // and a group, a byte: uvarint, the number of headers whose hash begins with that byte
)

// droppedUnwritten is the value of the note of an object being built.
const droppedUnwritten = 0x01

// expiryOfObject is the value of the note of a key that has an object.
const expiryOfObject = 0x01

// expiryNoteValue returns the value of the note of a key with a header.
func expiryNoteValue(h *header) []byte {
	if h.id == 0 {
		return nil
	}
	return []byte{expiryOfObject}
}

// MaxKeyLen is the longest user key, in bytes.
const MaxKeyLen = 64 << 10

// maxLayers bounds the layers of one object.
const maxLayers = 64

// storeVersion is the format version of the whole store.
const storeVersion = 1

// headerVersion is the format version of headers.
const headerVersion = 1

// appendOrdered appends v so that byte order is numeric order: values up to 247
// are one byte; others a byte 247+n followed by n big-endian bytes without
// leading zeros.
func appendOrdered(dst []byte, v uint64) []byte {
	if v <= 247 {
		return append(dst, byte(v))
	}
	var be [8]byte
	binary.BigEndian.PutUint64(be[:], v)
	n := 1
	for n < 8 && v>>(8*n) != 0 {
		n++
	}
	return append(append(dst, byte(247+n)), be[8-n:]...)
}

// decodeOrdered returns the value at the start of b and its length; a length of
// 0 means that b does not hold one in the only form appendOrdered makes.
func decodeOrdered(b []byte) (v uint64, n int) {
	if len(b) == 0 {
		return 0, 0
	}
	if b[0] <= 247 {
		return uint64(b[0]), 1
	}
	n = int(b[0]) - 247
	if len(b) < 1+n || b[1] == 0 {
		return 0, 0
	}
	for _, c := range b[1 : 1+n] {
		v = v<<8 | uint64(c)
	}
	if v <= 247 {
		return 0, 0
	}
	return v, 1 + n
}

func appendMetaKey(dst []byte, which byte) []byte { return append(dst, tagMeta, which) }

func appendKeyCountKey(dst []byte, group uint8) []byte {
	return append(appendMetaKey(dst, metaKeys), group)
}

func appendHeaderKey(dst []byte, hash uint64, key []byte) []byte {
	return append(binary.BigEndian.AppendUint64(append(dst, tagHeader), hash), key...)
}

// headerKeyPrefix is the number of bytes of a header's key before the user key.
const headerKeyPrefix = 1 + 8

// decodeHeaderKey returns the hash and the user key of a header's key.
func decodeHeaderKey(key []byte) (hash uint64, user []byte, err error) {
	if len(key) < headerKeyPrefix || key[0] != tagHeader {
		return 0, nil, corruptf("header key %x", key)
	}
	return binary.BigEndian.Uint64(key[1:]), key[headerKeyPrefix:], nil
}

func appendExpiryKey(dst []byte, expiry int64, key []byte) []byte {
	return append(appendOrdered(append(dst, tagExpiry), uint64(expiry)), key...)
}

func decodeExpiryKey(b []byte) (expiry int64, key []byte, err error) {
	if len(b) > 0 && b[0] == tagExpiry {
		if v, n := decodeOrdered(b[1:]); n > 0 && v <= math.MaxInt64 {
			return int64(v), b[1+n:], nil
		}
	}
	return 0, nil, corruptf("expiry key %x", b)
}

func appendObjectKey(dst []byte, object uint64) []byte {
	return appendOrdered(append(dst, tagObject), object)
}

func appendCountersKey(dst []byte, object, layer uint64) []byte {
	return appendOrdered(append(appendObjectKey(dst, object), partCounters), layer)
}

func appendAttributeKey(dst []byte, object uint64, name string) []byte {
	return append(append(appendObjectKey(dst, object), partAttributes), name...)
}

func appendBlockKey(dst []byte, object, layer, blk uint64) []byte {
	return appendOrdered(appendOrdered(appendObjectKey(dst, object), layer+partLayers), blk)
}

func appendDroppedKey(dst []byte, object uint64) []byte {
	return appendOrdered(append(dst, tagDropped), object)
}

// objectKey is a decoded key of an object's range.
type objectKey struct {
	object uint64
	part   uint64 // partCounters, partAttributes, or partLayers + the layer
	rest   uint64 // the layer of counters, the block of a layer
}

// decodeObjectKey decodes counters and block keys; of attributes it leaves the
// name out.
func decodeObjectKey(key []byte) (objectKey, error) {
	bad := func() (objectKey, error) { return objectKey{}, corruptf("object key %x", key) }
	if len(key) == 0 || key[0] != tagObject {
		return bad()
	}
	object, n := decodeOrdered(key[1:])
	if n == 0 {
		return bad()
	}
	key2 := key[1+n:]
	part, n := decodeOrdered(key2)
	if n == 0 {
		return bad()
	}
	if part == partAttributes {
		return objectKey{object: object, part: part}, nil
	}
	rest, m := decodeOrdered(key2[n:])
	if m == 0 || len(key2) != n+m {
		return bad()
	}
	return objectKey{object: object, part: part, rest: rest}, nil
}

// storeMeta is the store's identity.
//
//	offset  size  field
//	0       4     magic "SVKV"
//	4       1     format version, 1
//	5       16    store id, random
//	21      8     seed of item hashes, little-endian
type storeMeta struct {
	id   [16]byte
	seed uint64
}

// keySeed is the seed of the hashes of keys. It never changes, and nobody sets it.
func (m *storeMeta) keySeed() uint64 { return binary.LittleEndian.Uint64(m.id[:]) }

func appendStoreMeta(dst []byte, m storeMeta) []byte {
	dst = append(dst, "SVKV"...)
	dst = append(dst, storeVersion)
	dst = append(dst, m.id[:]...)
	return binary.LittleEndian.AppendUint64(dst, m.seed)
}

func decodeStoreMeta(b []byte) (m storeMeta, err error) {
	if len(b) < 5 || string(b[:4]) != "SVKV" {
		return m, corruptf("store metadata: no magic")
	}
	if b[4] != storeVersion {
		return m, fmt.Errorf("%w: store has format %d, this program knows %d", ErrUnsupportedVersion, b[4], storeVersion)
	}
	if len(b) != 29 {
		return m, corruptf("store metadata: %d bytes, want 29", len(b))
	}
	copy(m.id[:], b[5:])
	m.seed = binary.LittleEndian.Uint64(b[21:])
	return m, nil
}

// Layouts of a layer: which blocks an operation on one item touches.
const (
	// LayoutNative: the item's hash picks one block, all else lies inside it.
	LayoutNative = 0
)

// LayerSpec is the stored description of one layer.
type LayerSpec struct {
	Number uint64 // of an object's layers the newest has the highest; see Writer.Shrink
	Layout uint8  // LayoutNative; others are the module's
	Blocks uint64 // number of blocks, at least 1
	Lines  uint32 // 512-bit lines of each block, 1 to 128
	Params []byte // the module's own parameters of this layer
}

// Bytes returns the size, in bytes, of the layer's bit array.
func (s LayerSpec) Bytes() uint64 { return s.Blocks * uint64(s.Lines) * (block.LineBits / 8) }

// header is what a user key maps to.
//
//	u8        header version, 1
//	u8        type code: 0 a module's type, 1 string
//	if 0:     u8 length, type name as TYPE prints it; u8 length, module name
//	u8        format version of the type
//	uvarint   object id
//	uvarint   expiry, Unix milliseconds; 0 means none
//	u8        block family, package block; 0 if there are no layers
//	uvarint   number of layers, at most 64; each, oldest first:
//	  uvarint   layer number, ascending
//	  u8        layout
//	  uvarint   blocks, at least 1
//	  u8        lines per block, 1 to 128
//	  uvarint   length of the layer's parameters, then these
//	rest      parameters of the object: the module's own
//
// A string is code 1 with its parameters holding an encoding byte and then the
// bytes; one kept so is no object: its id is 0. The encodings:
//
//	0  the bytes themselves
//
// Others, for strings coded as blocks, have the length there, an id, and the bits
// in layer 0.
type header struct {
	typeName, module string
	typeVersion      uint8
	id               uint64
	expiry           int64
	family           block.Family
	layers           []LayerSpec
	params           []byte
}

const (
	typeCodeModule = 0
	typeCodeString = 1

	stringVersion = 1
	encodingBytes = 0
)

// stringType is the name TYPE prints for the built-in type with a code.
const (
	stringType    = "string"
	builtInModule = "kv"
)

func appendHeader(dst []byte, h *header) []byte {
	dst = append(dst, headerVersion)
	if h.typeName == stringType {
		dst = append(dst, typeCodeString)
	} else {
		dst = append(dst, typeCodeModule, byte(len(h.typeName)))
		dst = append(dst, h.typeName...)
		dst = append(dst, byte(len(h.module)))
		dst = append(dst, h.module...)
	}
	dst = append(dst, h.typeVersion)
	dst = binary.AppendUvarint(dst, h.id)
	dst = binary.AppendUvarint(dst, uint64(h.expiry))
	dst = append(dst, byte(h.family))
	dst = binary.AppendUvarint(dst, uint64(len(h.layers)))
	for _, l := range h.layers {
		dst = binary.AppendUvarint(dst, l.Number)
		dst = append(dst, l.Layout)
		dst = binary.AppendUvarint(dst, l.Blocks)
		dst = append(dst, byte(l.Lines))
		dst = binary.AppendUvarint(dst, uint64(len(l.Params)))
		dst = append(dst, l.Params...)
	}
	return append(dst, h.params...)
}

// headerText is what errors show of a header: not its end, of which a filter's secret is part.
func headerText(b []byte) string {
	return fmt.Sprintf("header of %d bytes, %x at their beginning", len(b), b[:min(len(b), 20)])
}

// decodeHeader decodes a header. The result shares no memory with b.
func decodeHeader(b []byte) (*header, error) {
	h, err := decodeHeaderShared(b)
	if err == nil {
		h.params = append([]byte(nil), h.params...)
	}
	return h, err
}

// decodeHeaderShared is decodeHeader with parameters that are part of b.
func decodeHeaderShared(b []byte) (*header, error) {
	d := decoder{b: b}
	if v := d.byte(); v != headerVersion && !d.bad {
		return nil, fmt.Errorf("%w: header has format %d, this program knows %d", ErrUnsupportedVersion, v, headerVersion)
	}
	h := &header{}
	switch code := d.byte(); {
	case d.bad:
	case code == typeCodeString:
		h.typeName, h.module = stringType, builtInModule
	case code == typeCodeModule:
		h.typeName = string(d.bytes(uint64(d.byte())))
		h.module = string(d.bytes(uint64(d.byte())))
	default:
		return nil, fmt.Errorf("%w: header has type code %d, this program knows 0 and 1", ErrUnsupportedVersion, code)
	}
	h.typeVersion = d.byte()
	h.id = d.uvarint()
	expiry := d.uvarint()
	h.family = block.Family(d.byte())
	layers := d.uvarint()
	if d.bad || h.typeName == "" || h.module == "" || expiry > math.MaxInt64 || layers > maxLayers ||
		layers > 0 && !h.family.Valid() {
		return nil, corruptf("%s", headerText(b))
	}
	h.expiry = int64(expiry)
	for range layers {
		l := LayerSpec{Number: d.uvarint(), Layout: d.byte(), Blocks: d.uvarint(), Lines: uint32(d.byte())}
		l.Params = append([]byte(nil), d.bytes(d.uvarint())...)
		if d.bad || l.check() != nil || len(h.layers) > 0 && l.Number <= h.layers[len(h.layers)-1].Number {
			return nil, corruptf("%s: layer %d", headerText(b), len(h.layers))
		}
		h.layers = append(h.layers, l)
	}
	h.params = d.b
	return h, nil
}

// maxBlocks bounds the blocks of a layer: a writer packs a block number into 30
// bits beside the bit's position.
const (
	blockBits = 30
	maxBlocks = 1 << blockBits
)

func (s *LayerSpec) check() error {
	if s.Blocks < 1 || s.Blocks > maxBlocks || s.Lines < 1 || s.Lines > block.MaxLines || s.Number > math.MaxUint32 {
		return fmt.Errorf("layer %d with %d blocks of %d lines: blocks 1 to %d, lines 1 to %d", s.Number, s.Blocks, s.Lines, uint64(maxBlocks), block.MaxLines)
	}
	return nil
}

// numCounters is the number of counters a layer has. What they count is the
// module's affair; the first is the number of items by convention.
const numCounters = 8

// appendCounters appends the counters as uvarints, without zeros at the end: a
// filter's item count is 1 to 5 bytes.
func appendCounters(dst []byte, c [numCounters]uint64) []byte {
	n := numCounters
	for n > 0 && c[n-1] == 0 {
		n--
	}
	for _, v := range c[:n] {
		dst = binary.AppendUvarint(dst, v)
	}
	return dst
}

func decodeCounters(b []byte) (c [numCounters]uint64, err error) {
	d := decoder{b: b}
	for i := 0; len(d.b) > 0; i++ {
		if i == numCounters {
			return c, corruptf("counters %x: more than %d", b, numCounters)
		}
		c[i] = d.uvarint()
		if d.bad {
			return c, corruptf("counters %x", b)
		}
	}
	return c, nil
}
