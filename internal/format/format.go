// Package format describes every byte that the engine stores: how keys are made, and what their values hold. Only the
// values under the keys of blocks are package block's.
package format

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"slices"

	"github.com/sievekv/sievekv/internal/block"
)

// All keys are described in this file, and all values except two kinds: blocks, which package block has, and the
// parameters and attributes of modules. Stored on disk: never reuse or renumber a value.
//
// Keys. The first byte is a tag. The integers behind it are in the form of AppendOrdered, 1 byte for 0 to 247 and up
// to 9 for larger ones. So keys sort by (object, part, block), and a block key takes 4 to 7 bytes:
//
//	tag   rest                          value
//	0x01  one byte, see meta keys       store metadata
//	0x02  hash of the user key, 8       header, see AppendHeader
//	      bytes big-endian; user key
//	0x03  object 0x00 layer             counters of the layer, see AppendCounters
//	0x03  object 0x01 name              attribute of the object: any bytes
//	0x03  object layer+2 block          a block or operands for one, package block
//	0x04  object                        a dropped object whose space is not yet
//	                                    reclaimed; value empty, or 0x01: blocks of
//	                                    one being built, not dropped yet
//	0x05  expiry, user key              the key expires then; value empty for a
//	                                    string, 0x01 for what has an object
//	0x06  time, user key                the key's type is to be called then, see
//	                                    kv.Type.Wake; value empty
//
// All of an object lies in one range, [0x03 object, 0x03 object+1). So one range deletion drops an object, whatever its
// size. Object ids are never used twice. When the newest layer of an object is removed, the object's next layer may get
// its number: the commit that removes a layer also removes all of its stored keys.
//
// The hash is XXH64, with the first 8 bytes of the store's id as its seed. So each key has a place among 2^64, which
// never changes; a scan's cursor is such a place. Someone who chooses keys but does not know the id cannot crowd many
// of them into one place.
//
// The versions of headers, of types' formats and of the store's format are checked before anything else is decoded: a
// newer one is unsupported, not corrupt. There are no checksums here, since Pebble's cover all of this, in the log
// and in tables.
const (
	TagMeta    = 0x01
	TagHeader  = 0x02
	TagObject  = 0x03
	TagDropped = 0x04
	TagExpiry  = 0x05
	TagWake    = 0x06
	TagEnd     = 0x07

	PartCounters   = 0
	PartAttributes = 1
	PartLayers     = 2
)

// Meta keys, the byte after TagMeta.
const (
	MetaStore  = 0x01 // see AppendStoreMeta; written once
	MetaNextID = 0x02 // uvarint: every object id in use is below it
	MetaKeys   = 0x03 // followed by one byte: how many headers have a hash that begins with it, see AppendKeyCounts
	MetaSecret = 0x05 // 32 bytes: the secrets of keyed hashes follow from it; written when an object first needs one

	MetaApplied = 0x06 // see AppendApplied; only a member of a group has it, and writes it with each message
	MetaMembers = 0x07 // the members of the group, in a form that the engine does not know

	// 0x04 is in older stores: the secret of all of their keyed hashes. A person who knows one of these filters must
	// not learn the secrets of later ones, so no other secret follows from it.
)

// DroppedUnwritten is the value under an object's TagDropped key while the object is being built.
const DroppedUnwritten = 0x01

// expiryOfObject is the value under an expiry key if the user key has an object.
const expiryOfObject = 0x01

// ExpiryNoteValue returns the value under the expiry key of a user key with this header.
func ExpiryNoteValue(h *Header) []byte {
	if h.ID == 0 {
		return nil
	}
	return []byte{expiryOfObject}
}

// MaxKeyLen is the longest user key, in bytes.
const MaxKeyLen = 64 << 10

// MaxLayers bounds the layers of one object. Types have lower bounds of their own.
const MaxLayers = 1<<16 - 1

// StoreVersion is the format version of the whole store. It is raised for every new stored form that earlier programs
// cannot read, such as a new kind of value of a block, and freeze.SealVersion with it.
const StoreVersion = 1

// headerVersion is the format version of headers.
const headerVersion = 1

// AppendOrdered appends v so that byte order is numeric order. A value up to 247 is one byte. A larger one is a byte
// 247+n, followed by n big-endian bytes without leading zeros.
func AppendOrdered(dst []byte, v uint64) []byte {
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

// DecodeOrdered returns the value at the start of b, and its length in bytes. A length of 0 means that b does not
// begin with a value in the form that AppendOrdered makes.
func DecodeOrdered(b []byte) (v uint64, n int) {
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

// AppendMetaKey appends the key of a value of the store's metadata: MetaStore, MetaNextID or MetaSecret.
func AppendMetaKey(dst []byte, which byte) []byte { return append(dst, TagMeta, which) }

// AppendKeyCountKey appends the key of the numbers of user keys in a group, see MetaKeys.
func AppendKeyCountKey(dst []byte, group uint8) []byte {
	return append(AppendMetaKey(dst, MetaKeys), group)
}

// KeyCounts are the numbers of user keys in a group. Expired keys that are still stored count.
type KeyCounts struct {
	Keys     uint64
	Expiring uint64 // those that have an expiry
}

// Plus returns the numbers after a commit that adds to them, or subtracts. None is below 0, whatever a damaged store
// says.
func (c KeyCounts) Plus(keys, expiring int) KeyCounts {
	return KeyCounts{uint64(max(0, int64(c.Keys)+int64(keys))), uint64(max(0, int64(c.Expiring)+int64(expiring)))}
}

// AppendKeyCounts appends the numbers of user keys in a group:
//
//	uvarint  Keys
//	uvarint  Expiring
//
// In older stores Expiring is left out, even if keys expire. Programs of that time, before the first release, take the longer
// form for corrupt, and do not open the store. So StoreVersion was not raised.
func AppendKeyCounts(dst []byte, c KeyCounts) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(dst, c.Keys), c.Expiring)
}

// DecodeKeyCounts returns the numbers of user keys in a group, and whether Expiring is left out.
func DecodeKeyCounts(b []byte) (c KeyCounts, older bool, err error) {
	keys, n := binary.Uvarint(b)
	if n > 0 && n == len(b) {
		return KeyCounts{Keys: keys}, true, nil
	}
	expiring, m := binary.Uvarint(b[max(0, n):])
	if n <= 0 || m <= 0 || n+m != len(b) {
		return c, false, Corruptf("numbers of keys %x", b)
	}
	return KeyCounts{keys, expiring}, false, nil
}

// AppendHeaderKey appends the key of the header of a user key, which has the given hash.
func AppendHeaderKey(dst []byte, hash uint64, key []byte) []byte {
	dst = append(slices.Grow(dst, HeaderKeyPrefix+len(key)), TagHeader)
	return append(binary.BigEndian.AppendUint64(dst, hash), key...)
}

// HeaderKeyPrefix is the number of bytes before the user key in a header's key.
const HeaderKeyPrefix = 1 + 8

// DecodeHeaderKey returns the hash and the user key of a header's key.
func DecodeHeaderKey(key []byte) (hash uint64, user []byte, err error) {
	if len(key) < HeaderKeyPrefix || key[0] != TagHeader {
		return 0, nil, Corruptf("header key %x", key)
	}
	return binary.BigEndian.Uint64(key[1:]), key[HeaderKeyPrefix:], nil
}

// AppendExpiryKey appends the key that notes when a user key expires, in Unix milliseconds.
func AppendExpiryKey(dst []byte, expiry int64, key []byte) []byte {
	return append(AppendOrdered(append(dst, TagExpiry), uint64(expiry)), key...)
}

// DecodeExpiryKey returns the time and the user key of an expiry key. key is part of b.
func DecodeExpiryKey(b []byte) (expiry int64, key []byte, err error) {
	return decodeTimed(b, TagExpiry, "expiry")
}

// WakeSoon is the time of a wake key that was written without knowing when to call the type.
const WakeSoon = 1

// AppendWakeKey appends the key that notes when to call the type of a user key's object, in Unix milliseconds.
func AppendWakeKey(dst []byte, at int64, key []byte) []byte {
	return append(AppendOrdered(append(dst, TagWake), uint64(at)), key...)
}

// DecodeWakeKey returns the time and the user key of a wake key. key is part of b.
func DecodeWakeKey(b []byte) (at int64, key []byte, err error) {
	return decodeTimed(b, TagWake, "wake")
}

func decodeTimed(b []byte, tag byte, name string) (at int64, key []byte, err error) {
	if len(b) > 0 && b[0] == tag {
		if v, n := DecodeOrdered(b[1:]); n > 0 && v <= math.MaxInt64 {
			return int64(v), b[1+n:], nil
		}
	}
	return 0, nil, Corruptf("%s key %x", name, b)
}

// AppendObjectKey appends the start of an object's range, with which all keys of the object begin.
func AppendObjectKey(dst []byte, object uint64) []byte {
	return AppendOrdered(append(dst, TagObject), object)
}

// AppendCountersKey appends the key of the counters of a layer.
func AppendCountersKey(dst []byte, object, layer uint64) []byte {
	return AppendOrdered(append(AppendObjectKey(dst, object), PartCounters), layer)
}

// AppendAttributeKey appends the key of an attribute of an object.
func AppendAttributeKey(dst []byte, object uint64, name string) []byte {
	return append(append(AppendObjectKey(dst, object), PartAttributes), name...)
}

// AppendBlockKey appends the key of a block of a layer.
func AppendBlockKey(dst []byte, object, layer, blk uint64) []byte {
	return AppendOrdered(AppendOrdered(AppendObjectKey(dst, object), layer+PartLayers), blk)
}

// AppendDroppedKey appends the key that notes that the space of an object must be reclaimed.
func AppendDroppedKey(dst []byte, object uint64) []byte {
	return AppendOrdered(append(dst, TagDropped), object)
}

// ObjectKey is a decoded key from an object's range.
type ObjectKey struct {
	Object uint64
	Part   uint64 // PartCounters, PartAttributes, or PartLayers + the layer
	Rest   uint64 // for counters the layer, for a layer the block
}

// DecodeObjectKey decodes a key from an object's range. It leaves out the name of an attribute.
func DecodeObjectKey(key []byte) (ObjectKey, error) {
	bad := func() (ObjectKey, error) { return ObjectKey{}, Corruptf("object key %x", key) }
	if len(key) == 0 || key[0] != TagObject {
		return bad()
	}
	object, n := DecodeOrdered(key[1:])
	if n == 0 {
		return bad()
	}
	key2 := key[1+n:]
	part, n := DecodeOrdered(key2)
	if n == 0 {
		return bad()
	}
	if part == PartAttributes {
		return ObjectKey{Object: object, Part: part}, nil
	}
	rest, m := DecodeOrdered(key2[n:])
	if m == 0 || len(key2) != n+m {
		return bad()
	}
	return ObjectKey{Object: object, Part: part, Rest: rest}, nil
}

// StoreMeta is the store's identity.
//
//	offset  size  field
//	0       4     magic "SVKV"
//	4       1     format version, 1
//	5       16    store id, random
//	21      8     seed of item hashes, little-endian
type StoreMeta struct {
	ID   [16]byte
	Seed uint64
}

// KeySeedLen is the length of the seed of the hashes of keys: the first bytes of a store's ID.
const KeySeedLen = 8

// KeySeed is the seed of the hashes of keys. It never changes, and cannot be set.
func (m *StoreMeta) KeySeed() uint64 { return binary.LittleEndian.Uint64(m.ID[:KeySeedLen]) }

// AppendStoreMeta appends the store's identity in the form that StoreMeta shows.
func AppendStoreMeta(dst []byte, m StoreMeta) []byte {
	dst = append(dst, "SVKV"...)
	dst = append(dst, StoreVersion)
	dst = append(dst, m.ID[:]...)
	return binary.LittleEndian.AppendUint64(dst, m.Seed)
}

// DecodeStoreMeta decodes what AppendStoreMeta wrote. The errors wrap ErrCorrupt or ErrUnsupportedVersion.
func DecodeStoreMeta(b []byte) (m StoreMeta, err error) {
	if len(b) < 5 || string(b[:4]) != "SVKV" {
		return m, Corruptf("store metadata: no magic")
	}
	if b[4] != StoreVersion {
		return m, fmt.Errorf("%w: store has format %d, this program knows %d", ErrUnsupportedVersion, b[4], StoreVersion)
	}
	if len(b) != 29 {
		return m, Corruptf("store metadata: %d bytes, want 29", len(b))
	}
	copy(m.ID[:], b[5:])
	m.Seed = binary.LittleEndian.Uint64(b[21:])
	return m, nil
}

// Layouts of a layer: which blocks an operation on one item touches.
const (
	// LayoutNative: the item's hash picks one block, and all of the item lies inside it.
	LayoutNative = 0

	// LayoutCompatible: the layer is one array, as RedisBloom has it, cut into blocks: bit i of the array is bit
	// i%65536 of block i/65536. An item may lie in several blocks.
	LayoutCompatible = 1

	// LayoutLog: the layer is a list of hashes, 1,024 in each block of 128 lines, see Writer.AddWords of kv. It is read
	// seldom: its blocks are not kept in memory, and do not count as memory of its object. 2 is package scalableext's.
	LayoutLog = 3
)

// LayerSpec is the stored description of one layer.
type LayerSpec struct {
	Number uint64 // the newest layer of an object has the highest; see Writer.Shrink
	Layout uint8  // LayoutNative or LayoutCompatible; other values are for modules to define
	Blocks uint64 // number of blocks, at least 1
	Lines  uint32 // 512-bit lines of each block, 1 to 128
	Params []byte // the module's parameters of this layer
}

// Bytes returns the size, in bytes, of the layer's bit array, 0 for a log.
func (s LayerSpec) Bytes() uint64 {
	if s.Layout == LayoutLog {
		return 0
	}
	return s.Blocks * uint64(s.Lines) * (block.LineBits / 8)
}

// Header is what a user key maps to.
//
//	u8        header version, 1
//	u8        type code: 0 a module's type, 1 string; 2 is added if it is lossy, 4 if it is hidden
//	if even:  u8 length, type name as TYPE prints it; u8 length, module name
//	u8        format version of the type
//	uvarint   object id
//	uvarint   expiry, Unix milliseconds; 0 means none
//	u8        block family, package block; 0 if there are no layers
//	uvarint   number of layers, at most MaxLayers; each, oldest first:
//	  uvarint   layer number, ascending
//	  u8        layout
//	  uvarint   blocks, at least 1
//	  u8        lines per block, 1 to 128
//	  uvarint   length of the layer's parameters, then these
//	rest      parameters of the object: the module's own
//
// A string has code 1. Its parameters are an encoding byte, and then bytes that depend on the encoding. A string with
// encoding 0 is no object: its id is 0. The encodings:
//
//	0  the bytes themselves
//	1  nothing: the bytes are in blocks of 8-bit slots, see package bitmapext. The header has an id and layers
type Header struct {
	TypeName, Module string
	TypeVersion      uint8
	ID               uint64
	Expiry           int64
	Family           block.Family
	Layers           []LayerSpec
	Params           []byte

	// Lossy means that blocks or changes of the object were lost, and that it was salvaged all the same. A filter may
	// then miss items that were added to it.
	Lossy bool

	// Hidden means that every lookup finds the key missing: the object is not complete. It has an expiry.
	Hidden bool
}

// LayersSize returns an upper bound of the bytes that the layers take in the header as it is stored.
func (h Header) LayersSize() (n int) {
	const most = 3*binary.MaxVarintLen64 + 2 // of a layer, besides its parameters
	for i := range h.Layers {
		n += most + len(h.Layers[i].Params)
	}
	return n
}

const (
	typeCodeModule = 0
	typeCodeString = 1
	typeCodeLossy  = 2 // is added to the code
	typeCodeHidden = 4 // likewise

	StringVersion = 1 // the format version of the type string
	EncodingBytes = 0 // the encoding of a string that is the bytes themselves

	EncodingBlocks = 1 // the encoding of a string in blocks
)

// The built-in type: its name, as TYPE prints it, and its module.
const (
	StringType    = "string"
	BuiltInModule = "kv"
)

// AppendHeader appends a header in the form that Header shows.
func AppendHeader(dst []byte, h *Header) []byte {
	dst = append(dst, headerVersion)
	added := byte(0)
	if h.Lossy {
		added = typeCodeLossy
	}
	if h.Hidden {
		added += typeCodeHidden
	}
	if h.TypeName == StringType {
		dst = append(dst, typeCodeString+added)
	} else {
		dst = append(dst, typeCodeModule+added, byte(len(h.TypeName)))
		dst = append(dst, h.TypeName...)
		dst = append(dst, byte(len(h.Module)))
		dst = append(dst, h.Module...)
	}
	dst = append(dst, h.TypeVersion)
	dst = binary.AppendUvarint(dst, h.ID)
	dst = binary.AppendUvarint(dst, uint64(h.Expiry))
	dst = append(dst, byte(h.Family))
	dst = binary.AppendUvarint(dst, uint64(len(h.Layers)))
	for _, l := range h.Layers {
		dst = binary.AppendUvarint(dst, l.Number)
		dst = append(dst, l.Layout)
		dst = binary.AppendUvarint(dst, l.Blocks)
		dst = append(dst, byte(l.Lines))
		dst = binary.AppendUvarint(dst, uint64(len(l.Params)))
		dst = append(dst, l.Params...)
	}
	return append(dst, h.Params...)
}

// headerText describes a header in an error. It leaves out the end of the header, which may hold a filter's secret.
func headerText(b []byte) string {
	return fmt.Sprintf("header of %d bytes, %x at their beginning", len(b), b[:min(len(b), 20)])
}

// DecodeHeader decodes a header. The result shares no memory with b.
func DecodeHeader(b []byte) (*Header, error) {
	h, err := DecodeHeaderShared(b)
	if err == nil {
		h.Params = append([]byte(nil), h.Params...)
	}
	return h, err
}

// DecodeHeaderShared is DecodeHeader, but the parameters are part of b.
func DecodeHeaderShared(b []byte) (*Header, error) {
	d := decoder{b: b}
	if v := d.byte(); v != headerVersion && !d.bad {
		return nil, fmt.Errorf("%w: header has format %d, this program knows %d", ErrUnsupportedVersion, v, headerVersion)
	}
	h := &Header{}
	switch code := d.byte(); {
	case d.bad:
	case code&^(typeCodeLossy|typeCodeHidden) == typeCodeString:
		h.TypeName, h.Module = StringType, BuiltInModule
	case code&^(typeCodeLossy|typeCodeHidden) == typeCodeModule:
		h.TypeName = string(d.bytes(uint64(d.byte())))
		h.Module = string(d.bytes(uint64(d.byte())))
	default:
		return nil, fmt.Errorf("%w: header has type code %d, this program knows 0 to 7", ErrUnsupportedVersion, code)
	}
	h.Lossy = len(b) > 1 && b[1]&typeCodeLossy != 0
	h.Hidden = len(b) > 1 && b[1]&typeCodeHidden != 0
	h.TypeVersion = d.byte()
	h.ID = d.uvarint()
	expiry := d.uvarint()
	h.Family = block.Family(d.byte())
	layers := d.uvarint()
	if d.bad || h.TypeName == "" || h.Module == "" || expiry > math.MaxInt64 || layers > MaxLayers || h.Hidden && expiry == 0 ||
		layers > 0 && !h.Family.Valid() {
		return nil, Corruptf("%s", headerText(b))
	}
	h.Expiry = int64(expiry)
	for range layers {
		l := LayerSpec{Number: d.uvarint(), Layout: d.byte(), Blocks: d.uvarint(), Lines: uint32(d.byte())}
		l.Params = append([]byte(nil), d.bytes(d.uvarint())...)
		if d.bad || l.Check() != nil || len(h.Layers) > 0 && l.Number <= h.Layers[len(h.Layers)-1].Number {
			return nil, Corruptf("%s: layer %d", headerText(b), len(h.Layers))
		}
		h.Layers = append(h.Layers, l)
	}
	h.Params = d.b
	return h, nil
}

// MaxBlocks bounds the blocks of a layer: writers pack the number of a block into 30 bits, beside a position.
const (
	BlockBits = 30
	MaxBlocks = 1 << BlockBits
)

// Check returns an error if the layer has a number, blocks or lines out of range.
func (s *LayerSpec) Check() error {
	if s.Blocks < 1 || s.Blocks > MaxBlocks || s.Lines < 1 || s.Lines > block.MaxLines || s.Number > math.MaxUint32 {
		return fmt.Errorf("layer %d with %d blocks of %d lines: blocks 1 to %d, lines 1 to %d", s.Number, s.Blocks, s.Lines, uint64(MaxBlocks), block.MaxLines)
	}
	return nil
}

// NumCounters is the number of counters of a layer. The module decides what they count; by convention the first is
// the number of items.
const NumCounters = 8

// AppendCounters appends the counters as uvarints, and leaves out zeros at the end. So a filter that counts only its
// items needs 1 to 5 bytes.
func AppendCounters(dst []byte, c [NumCounters]uint64) []byte {
	n := NumCounters
	for n > 0 && c[n-1] == 0 {
		n--
	}
	for _, v := range c[:n] {
		dst = binary.AppendUvarint(dst, v)
	}
	return dst
}

// DecodeCounters decodes what AppendCounters wrote. The error wraps ErrCorrupt.
func DecodeCounters(b []byte) (c [NumCounters]uint64, err error) {
	d := decoder{b: b}
	for i := 0; len(d.b) > 0; i++ {
		if i == NumCounters {
			return c, Corruptf("counters %x: more than %d", b, NumCounters)
		}
		c[i] = d.uvarint()
		if d.bad {
			return c, Corruptf("counters %x", b)
		}
	}
	return c, nil
}

// The sidecar tells Open that the log has lost its end, see package internal/storage. It is a file of its own in the
// store's directory.
//
//	offset  size  field
//	0       4     magic "SVSC"
//	4       1     version, 1
//	5       16    store id
//	21      8     durable + 1: the next sequence cannot be below it, little-endian
//	29      4     CRC-32C of bytes 0 to 28, little-endian
//
// In every version the magic and the version come first, and the last 4 bytes are the CRC-32C of all before: so damage
// is told from a newer version.
const (
	SidecarName    = "DURABLE"
	sidecarVersion = 1
	sidecarLen     = 33

	// SidecarUnknown is the sequence in the sidecar of a store that has just been made: every log reaches it.
	SidecarUnknown = 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// AppendSidecar appends the sidecar of the store with the given id. No sequence from now on is below next.
func AppendSidecar(dst []byte, id [16]byte, next uint64) []byte {
	start := len(dst)
	dst = append(dst, "SVSC"...)
	dst = append(dst, sidecarVersion)
	dst = append(dst, id[:]...)
	dst = binary.LittleEndian.AppendUint64(dst, next)
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
}

// DecodeSidecar decodes what AppendSidecar wrote. The errors wrap ErrCorrupt or ErrUnsupportedVersion.
func DecodeSidecar(b []byte) (id [16]byte, next uint64, err error) {
	if len(b) < 5+4 || string(b[:4]) != "SVSC" {
		return id, 0, Corruptf("file %s: no magic", SidecarName)
	}
	end := len(b) - 4
	if binary.LittleEndian.Uint32(b[end:]) != crc32.Checksum(b[:end], castagnoli) {
		return id, 0, Corruptf("file %s: wrong length or checksum", SidecarName)
	}
	if b[4] != sidecarVersion {
		return id, 0, fmt.Errorf("%w: file %s has format %d, this program knows %d", ErrUnsupportedVersion, SidecarName, b[4], sidecarVersion)
	}
	if len(b) != sidecarLen {
		return id, 0, Corruptf("file %s: wrong length or checksum", SidecarName)
	}
	copy(id[:], b[5:21])
	return id, binary.LittleEndian.Uint64(b[21:29]), nil
}
