package block

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/RoaringBitmap/roaring/v2"
)

// The values stored under block keys. The first byte is the kind, which includes its version: a new layout gets a new
// byte. Stored on disk: never reuse or renumber a value. All integers are little-endian. A uvarint is as in
// encoding/binary, in as few bytes as possible; a longer form is an error.
//
// Blocks:
//
//	size     field
//	1        kind: 0x01 raw, 0x02 positions, 0x03 roaring
//	1        family: 1 bits, else the width of a slot: 4, 8, 10, 12, 14, 16, 18, 20, 24 or 32
//	1        length in lines of 512 bits, 1 to 128
//	uvarint  how many operands (changes that commits have written) have been merged into the block since it was last
//	         written whole; it fits in 32 bits. An operand of items counts once per 8 items, rounded up
//	rest     the bits of the block
//	         raw: 64 bytes for each line, trailing zeros included
//	         positions: as below, of the set bits
//	         roaring: one 32-bit roaring bitmap in the portable format, without
//	         run containers and shorter than raw
//
// Bit p of a block is bit p%8 of byte p/8, in raw blocks and in bitmaps. Slot i of width w is bits i*w to i*w+w-1,
// its lowest bit first. A block with at most 128 set bits is written as positions, one with more as roaring; but as
// raw wherever that is not longer.
//
// Operands of the bits family, "set these bits":
//
//	0x10     one operand; positions
//	0x11     merged: uvarint operands, 1 or more, 32 bits; positions
//	0x12     one or merged: uvarint operands as above; bitmap: 64 bytes for each
//	         line up to the line of the last bit set
//	0x13     one operand; items
//	0x14     one or merged: uvarint operands as above; 2 bytes: a number n below 1024;
//	         8 bytes for each of the words n, n+1, ... of the block, one or more
//
// Operands of the slots families, "set these slots to". For slots of 4, 8, 12, 16, 20, 24 and 32 bits, c is a quarter of
// the bits; for slots of 10, 14 and 18 it is 0xa, 0xe and 0x9:
//
//	0x20+c   one operand; slots
//	0x30+c   merged: uvarint operands as above; slots
//
// Kept inputs, which could not be merged, oldest first:
//
//	0x40     one or more times: uvarint length, 1 or more; that many bytes
//
// Positions are the numbers of bits, ascending. The first takes two bytes. Each of the others is a uvarint: the number
// of unset bits between it and its predecessor. A typical add, six bits in one line, is a value of 8 or 9 bytes if it
// is written as positions.
//
// Items belong to one block of a Bloom filter's layer. Three bytes come first, of the layer's layout (package probe):
// lines of a block, hashes, and lines per item. Then come two uvarints: the layer's blocks, and the number of this
// block. Each item follows, in any order, as the difference between its hash and the lowest hash of the block, in as
// many bytes as the greatest such difference needs: 8 in a layer of one block, 6 in one of a million.
//
// Slots are in ascending order of index. Each begins with a uvarint: the number of slots between it and its
// predecessor (for the first slot, before it), shifted left by w%8, with the lowest w%8 bits of the slot's value in
// the room so made. The other w/8 bytes of the value follow. So a 4-bit counter takes 1 to 3 bytes, a 12-bit
// fingerprint 2 to 4.
//
// There are no checksums here, because the storage engine's cover every value.
const (
	kindRaw         = 0x01
	kindPositions   = 0x02
	kindRoaring     = 0x03
	kindBits        = 0x10
	kindBitsMerged  = 0x11
	kindBitmap      = 0x12
	kindItems       = 0x13
	kindRun         = 0x14
	kindSlots       = 0x20
	kindSlotsMerged = 0x30
	kindKept        = 0x40
)

// maxPositions is the most bits for which an operand may be positions, of 1 to 2 bytes each. So positions stay below 5
// KiB. For more bits a bitmap is used. It may take twice the bytes, but is checked and applied several times as fast
// (0.8 ns for a bit patched, not 8; 2 cores of a Xeon, Go 1.26, 2026-11).
const maxPositions = 4096

// maxTiny is the most set bits for which a block may be stored as positions. These have no header of 16 bytes, as
// roaring has, but take twice roaring's time to decode. For so few bits that is 0.6 us at most (same machine), where
// any read takes several.
const maxTiny = 128

// value is a stored value, taken apart and found valid. payload is part of the bytes it was parsed from.
type value struct {
	family    Family
	layout    uint8
	lines     int // length of a block; 0 for an operand
	operands  uint32
	end       int // the bit behind the last one changed, for items perhaps more; for a block, its length in bits
	payload   []byte
	roaring   *roaring.Bitmap // the payload, in layoutRoaring
	positions positionReader  // the payload, in layoutPositions
	items     itemReader      // the payload, in layoutItems
	first     int             // the number of the payload's first word, in layoutRun
}

// The layouts of a payload.
const (
	layoutWords = iota
	layoutPositions
	layoutRoaring
	layoutSlots
	layoutItems
	layoutRun
)

// parse takes b apart, which must not be empty. Kept inputs have no meaning, so they are an error, like everything
// that cannot be decoded. Every error wraps ErrCorrupt. A value that parse accepts can be applied to every block of
// its family that is at least v.end bits long.
func (v *value) parse(b []byte) (err error) {
	v.lines, v.operands, v.roaring = 0, 1, nil
	r := reader{rest: b[1:]}
	switch kind := b[0]; {
	case kind == kindBits || kind == kindBitsMerged || kind == kindBitmap:
		err = v.parseBits(kind, r)
	case kind == kindItems:
		err = v.parseItems(r)
	case kind == kindRun:
		err = v.parseRun(r)
	case kind == kindRaw || kind == kindPositions || kind == kindRoaring:
		err = v.parseBlock(kind, r)
	case kind&0xf0 == kindSlots || kind&0xf0 == kindSlotsMerged:
		err = v.parseSlots(kind, r)
	case kind == kindKept:
		return keptError(b)
	default:
		err = errors.New("unknown kind: damaged, or of a newer version")
	}
	if err != nil {
		return fmt.Errorf("%w: kind %#02x: %w", ErrCorrupt, b[0], err)
	}
	return nil
}

func (v *value) parseBlock(kind byte, r reader) (err error) {
	v.family, v.lines, v.operands = Family(r.byte()), int(r.byte()), r.uvarint32()
	switch {
	case r.bad:
		return errHeader
	case !v.family.Valid():
		return fmt.Errorf("family %d", uint8(v.family))
	case v.lines < 1 || v.lines > MaxLines:
		return fmt.Errorf("%d lines", v.lines)
	}
	v.end = v.lines * LineBits
	v.payload = r.rest
	switch kind {
	case kindPositions:
		v.layout = layoutPositions
		if end, ok := v.positions.check(v.payload); !ok || end > v.end {
			return errPositions
		}
	case kindRoaring:
		v.layout = layoutRoaring
		v.roaring, err = parseRoaring(v.payload, v.lines)
	default:
		v.layout = layoutWords
		if len(v.payload) != v.lines*lineBytes {
			return fmt.Errorf("%d bytes for %d lines", len(v.payload), v.lines)
		}
	}
	return err
}

// roaringCookie begins every roaring bitmap without run containers.
const roaringCookie = 12346

// parseRoaring reads a roaring bitmap from bytes that may be anything. The bitmap points into b. The library reads
// only the bytes that are there, but believes what they say. Validate then checks that containers are sorted and not
// empty, and Maximum that none lies behind the block. Bitmaps with runs are refused, because Validate takes quadratic
// time in their number (28 ms for 2,000, on 2 cores of a Xeon, 2026-11). The check of the length excludes bitmap
// containers.
func parseRoaring(b []byte, lines int) (*roaring.Bitmap, error) {
	if len(b) >= lines*lineBytes {
		return nil, fmt.Errorf("%d bytes of roaring bitmap for %d lines", len(b), lines)
	}
	if len(b) < 4 || binary.LittleEndian.Uint32(b) != roaringCookie {
		return nil, errors.New("not a roaring bitmap without runs")
	}
	bitmap := roaring.New()
	n, err := bitmap.FromBuffer(b)
	if err != nil {
		return nil, err
	}
	if int(n) != len(b) {
		return nil, fmt.Errorf("%d bytes behind the roaring bitmap", len(b)-int(n))
	}
	if err := bitmap.Validate(); err != nil {
		return nil, err
	}
	if !bitmap.IsEmpty() && int(bitmap.Maximum()) >= lines*LineBits {
		return nil, errPositions
	}
	return bitmap, nil
}

func (v *value) parseBits(kind byte, r reader) error {
	v.family = FamilyBits
	if kind != kindBits {
		v.operands = r.uvarint32()
	}
	if r.bad || v.operands == 0 {
		return errHeader
	}
	v.payload = r.rest
	ok := true
	if kind == kindBitmap {
		v.layout = layoutWords
		v.end, ok = checkBitmap(v.payload)
	} else {
		v.layout = layoutPositions
		v.end, ok = v.positions.check(v.payload)
	}
	if !ok {
		return errPositions
	}
	return nil
}

func (v *value) parseSlots(kind byte, r reader) error {
	if v.family = familyOfCode[kind&0xf]; v.family == 0 {
		return errors.New("unknown width")
	}
	if kind&0xf0 == kindSlotsMerged {
		v.operands = r.uvarint32()
	}
	if r.bad || v.operands == 0 {
		return errHeader
	}
	v.layout = layoutSlots
	v.payload = r.rest
	var ok bool
	if v.end, ok = checkSlots(v.payload, v.family.Width()); !ok {
		return errSlots
	}
	return nil
}

// slotsCode returns the part of the kinds of a slots family's operands that tells the width.
func slotsCode(f Family) byte {
	switch f {
	case FamilySlots10, FamilySlots14:
		return byte(f)
	case FamilySlots18:
		return 9
	}
	return byte(f) / 4 % 16
}

// familyOfCode has the family of each code, 0 if there is none.
var familyOfCode = func() (families [16]Family) {
	for _, f := range slotFamilies {
		families[slotsCode(f)] = f
	}
	return families
}()

var (
	errHeader    = errors.New("header cut short or out of range")
	errPositions = errors.New("positions cut short, not minimal or out of range")
	errSlots     = errors.New("slots cut short, not minimal or out of range")
	errKept      = errors.New("list of kept inputs cut short")
)

// reader reads header fields. The first field that is cut short sets bad.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) byte() byte {
	if len(r.rest) == 0 {
		r.bad = true
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

func (r *reader) uvarint32() uint32 {
	x := r.uvarint()
	if x > math.MaxUint32 {
		r.bad = true
		return 0
	}
	return uint32(x)
}

func (r *reader) uvarint() uint64 {
	x, n := binary.Uvarint(r.rest)
	if n <= 0 || n > 1 && r.rest[n-1] == 0 {
		r.bad = true
		return 0
	}
	r.rest = r.rest[n:]
	return x
}

// appendKept adds an input to a list that begins with kindKept.
func appendKept(dst, input []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(input))), input...)
}

// nextKept splits the first input off the rest of a list of kept inputs. It reports whether there is one.
func nextKept(list []byte) (input, rest []byte, ok bool) {
	r := reader{rest: list}
	n := r.uvarint32()
	if r.bad || n == 0 || uint64(n) > uint64(len(r.rest)) {
		return nil, nil, false
	}
	return r.rest[:n], r.rest[n:], true
}

// countKept returns the number of inputs in a value of kindKept. It reports false for any other value.
func countKept(b []byte) (n int, ok bool) {
	if b[0] != kindKept || len(b) == 1 {
		return 0, false
	}
	for list := b[1:]; len(list) > 0; n++ {
		if _, list, ok = nextKept(list); !ok {
			return 0, false
		}
	}
	return n, true
}

func keptError(b []byte) error {
	n, ok := countKept(b)
	if !ok {
		return fmt.Errorf("%w: kind %#02x: %w", ErrCorrupt, b[0], errKept)
	}
	return fmt.Errorf("%w: %d inputs that could not be merged", ErrCorrupt, n)
}
