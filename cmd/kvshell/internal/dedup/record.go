package dedup

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/input"
	"github.com/sievekv/sievekv/cmd/kvshell/internal/system"
	"github.com/sievekv/sievekv/kv"
)

// recordAttribute is the attribute of the filter that has the record of a run of dedup to a file. Each commit of the
// run writes it, and the last removes it. A claim on OUT says that there must be a record.
const recordAttribute = "dedup"

// record says how far a run has come: what it read before its last batch, and which batch that was. The batch is
// committed, but perhaps not in OUT yet. The first record of a run has a batch of no lines.
//
// Layout, little-endian. Stored on disk: never reuse or renumber a value.
//
//	offset  size  field
//	0       4     magic "dedu"
//	4       2     format version, 2
//	6       2     flags, none yet; unknown bits are unsupported, so that they can gain meaning later
//	8       8     start: position of the batch in the input, in bytes after decompression
//	16      8     end: position behind the batch; start to 2^63-1
//	24      8     XXH64, seed 0, of the input before end
//	32      8     length of OUT before the batch, in bytes; at most 2^63-1
//	40      8     lines of the input before the batch
//	48      8     new ones among them; at most as many
//	56      4     n, lines of the batch; at most end-start
//	60      4     a, bytes of the input's name
//	64      4     b, bytes of OUT's name
//	68      8     number of the run; its claim on OUT has it too
//	76      8     XXH64, seed 0, of what OUT has before the batch, or of the last 64 KiB of that
//	84      8     device of OUT, 0 if unknown
//	92      8     inode of OUT, 0 if unknown
//	100     n/8   answers, rounded up: bit i&7 of byte i>>3 is set if line i is new; bits behind n are 0
//	...     a     the input: an absolute path, or "-" for standard input
//	...     b     OUT: an absolute path
//
// Version 1 lacks the fields from 68 to 99, and its answers are at 68. It is read, but not written any more. The
// store's checksums cover the record.
type record struct {
	start, end uint64
	sum        uint64
	outLength  uint64
	lines      uint64
	newLines   uint64
	answers    []bool
	input, out string

	version int    // 1 or 2; the fields below are zero in 1
	run     uint64 // number
	tailSum uint64
	file    system.FileID // of OUT
}

// part returns the batch as a part of the input, nil without a record.
func (r *record) part() *input.Part {
	if r == nil {
		return nil
	}
	return &input.Part{Start: r.start, End: r.end, Lines: len(r.answers), Sum: r.sum}
}

const (
	recordMagic   = "dedu"
	recordVersion = 2
	recordFixed1  = 68 // bytes of the fixed part in version 1
	recordFixed   = 100
)

// appendRecord appends a record in the newest version.
func appendRecord(dst []byte, r *record) []byte {
	dst = append(dst, recordMagic...)
	dst = binary.LittleEndian.AppendUint16(dst, recordVersion)
	dst = binary.LittleEndian.AppendUint16(dst, 0)
	for _, v := range []uint64{r.start, r.end, r.sum, r.outLength, r.lines, r.newLines} {
		dst = binary.LittleEndian.AppendUint64(dst, v)
	}
	for _, n := range []int{len(r.answers), len(r.input), len(r.out)} {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(n))
	}
	for _, v := range []uint64{r.run, r.tailSum, r.file.Device, r.file.Inode} {
		dst = binary.LittleEndian.AppendUint64(dst, v)
	}
	dst = appendAnswers(dst, r.answers)
	dst = append(dst, r.input...)
	return append(dst, r.out...)
}

func appendAnswers(dst []byte, answers []bool) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, (len(answers)+7)/8)...)
	for i, isNew := range answers {
		if isNew {
			dst[at+i>>3] |= 1 << (i & 7)
		}
	}
	return dst
}

// decodeRecord decodes what appendRecord made. The errors are kv.ErrUnsupportedVersion and kv.ErrCorrupt.
// The result shares no memory with b.
func decodeRecord(b []byte) (*record, error) {
	corrupt := fmt.Errorf("%w: record of a dedup run: %x", kv.ErrCorrupt, b[:min(len(b), recordFixed)])
	if len(b) < 8 || string(b[:4]) != recordMagic {
		return nil, corrupt
	}
	version, flags := binary.LittleEndian.Uint16(b[4:]), binary.LittleEndian.Uint16(b[6:])
	if version > recordVersion || version > 0 && flags != 0 {
		return nil, fmt.Errorf("%w: record of a dedup run has format %d, flags %#x; this program knows 1 to %d, 0",
			kv.ErrUnsupportedVersion, version, flags, recordVersion)
	}
	fixed := recordFixed
	if version == 1 {
		fixed = recordFixed1
	}
	if version == 0 || len(b) < fixed {
		return nil, corrupt
	}
	r := &record{version: int(version)}
	for i, field := range []*uint64{&r.start, &r.end, &r.sum, &r.outLength, &r.lines, &r.newLines} {
		*field = binary.LittleEndian.Uint64(b[8+8*i:])
	}
	if version > 1 {
		for i, field := range []*uint64{&r.run, &r.tailSum, &r.file.Device, &r.file.Inode} {
			*field = binary.LittleEndian.Uint64(b[recordFixed1+8*i:])
		}
	}
	// As 64-bit numbers the lengths cannot overflow.
	n := uint64(binary.LittleEndian.Uint32(b[56:]))
	inputLen, outLen := uint64(binary.LittleEndian.Uint32(b[60:])), uint64(binary.LittleEndian.Uint32(b[64:]))
	rest := b[fixed:]
	bitmapLen := (n + 7) / 8
	if uint64(len(rest)) != bitmapLen+inputLen+outLen || inputLen == 0 || outLen == 0 ||
		r.end < r.start || r.end > math.MaxInt64 || n > r.end-r.start ||
		r.outLength > math.MaxInt64 || r.newLines > r.lines {
		return nil, corrupt
	}
	var padded bool
	if r.answers, padded = decodeAnswers(rest[:bitmapLen], int(n)); padded {
		return nil, corrupt
	}
	r.input = string(rest[bitmapLen : bitmapLen+inputLen])
	r.out = string(rest[bitmapLen+inputLen:])
	return r, nil
}

// decodeAnswers returns the first n bits, and whether a bit after them is set.
func decodeAnswers(bitmap []byte, n int) (answers []bool, padded bool) {
	answers = make([]bool, n)
	for i := range len(bitmap) * 8 {
		isNew := bitmap[i>>3]>>(i&7)&1 != 0
		if i < n {
			answers[i] = isNew
		} else if isNew {
			return nil, true
		}
	}
	return answers, false
}
