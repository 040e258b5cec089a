package freeze

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// The end of a log.
//
// Pebble replays a log up to the first record that is not whole. In the last log that is taken for a torn write, unless a
// later block of 32 KiB tells that the log had been synced further. So a bit that flips in one of the last records takes
// away what follows, though it was acknowledged. And a record whose log number is one too high by such a bit counts as
// the proper end of any log.
//
// So before Pebble replays a log, the place where it ends is looked at. The log is damaged
//
//   - if a chunk behind it, in the same block, tells that the log had been synced further;
//   - if one bit, flipped back, makes a whole record of what is there, whose contents are a batch. A torn write does not
//     look so, save by chance: what is torn holds zeros or older data in some of its sectors, and of n such bytes one
//     flipped bit makes the checksum right with a chance of 8n in 2^32. So chunks of more than 4 KiB are not judged by
//     this; most are 100 bytes long, for which the chance is 2 in 10 million torn writes.
//
// What is still not noticed is a bit that flips in a chunk of more than 4 KiB after which nothing was written.
//
// A log consists of blocks of 32 KiB, and these of chunks: see package record of Pebble. This is about chunks of
// the newest format; a log with others is left to Pebble.
const (
	logBlock       = 32 << 10
	chunkHeadLen   = 19 // checksum 4, length 2, kind 1, log number 4, how far the log was synced 8
	chunkSummed    = 6  // where what the checksum covers begins
	trailerLen     = 11
	trailerKind    = 5
	chunkFull      = 9
	chunkFirst     = 10
	chunkMiddle    = 11
	chunkLast      = 12
	checksumOffset = 0xa282ead8
	maxMended      = 4 << 10 // longest chunk to try bits of
)

// errOldChunk is returned of a chunk of an older format.
var errOldChunk = errors.New("freeze: chunk of an older format")

// cook makes a stored checksum of a CRC-32C; uncook undoes it.
func cook(crc uint32) uint32   { return bits.RotateLeft32(crc, 17) + checksumOffset }
func uncook(sum uint32) uint32 { return bits.RotateLeft32(sum-checksumOffset, -17) }

// logNumber returns the number in the name of a log.
func logNumber(entry string) (uint32, bool) {
	digits, ok := strings.CutSuffix(entry, ".log")
	digits, _, _ = strings.Cut(digits, "-")
	n, err := strconv.ParseUint(digits, 10, 64)
	return uint32(n), ok && err == nil
}

// checkLog returns ErrDamaged for a log that ends at a flipped bit. Errors of reading are left to Pebble.
func checkLog(f vfs.File, number uint32) error {
	l := &logReader{r: f, number: number}
	err := l.readToEnd()
	if errors.Is(err, ErrDamaged) {
		return err
	}
	return nil
}

// logReader reads a log, chunk by chunk.
type logReader struct {
	r      io.ReaderAt
	number uint32

	offset int64  // of the next chunk
	block  []byte // the block it is in
	record []byte // what was read of a record that has not ended
}

// next returns what is at the offset, up to the end of the block; nothing if the log ends there.
func (l *logReader) next() ([]byte, error) {
	for {
		at := int(l.offset % logBlock)
		if at == 0 {
			l.block = slices.Grow(l.block[:0], logBlock)[:logBlock]
			n, err := l.r.ReadAt(l.block, l.offset)
			if err != nil && err != io.EOF {
				return nil, err
			}
			l.block = l.block[:n]
		}
		if at > len(l.block) {
			return nil, nil
		}
		if rest := l.block[at:]; len(rest) >= chunkHeadLen || len(l.block) < logBlock {
			return rest, nil
		}
		l.offset += int64(logBlock - at) // too little room for a chunk
	}
}

// readToEnd reads chunks up to the first that is not whole, and looks at that.
func (l *logReader) readToEnd() error {
	for {
		rest, err := l.next()
		if err != nil {
			return err
		}
		n, err := l.take(rest)
		if err != nil {
			return err
		}
		if n == 0 {
			return l.lookAtEnd(rest)
		}
		l.offset += int64(n)
	}
}

// take takes in the chunk at the beginning of b, and returns its length, 0 if there is none.
func (l *logReader) take(b []byte) (int, error) {
	n := wholeChunk(b)
	if n == 0 {
		return 0, l.oldChunk(b)
	}
	return l.takeWhole(b[:n]), nil
}

// wholeChunk returns the length of the chunk that b begins with, 0 if its checksum is wrong.
func wholeChunk(b []byte) int {
	n := chunkLen(b)
	if n == 0 || cook(crc32.Checksum(b[chunkSummed:n], castagnoli)) != binary.LittleEndian.Uint32(b) {
		return 0
	}
	return n
}

// chunkLen returns the length that a chunk claims to have, 0 if it does not fit into b.
func chunkLen(b []byte) int {
	if len(b) < chunkHeadLen {
		return 0
	}
	n := chunkHeadLen + int(binary.LittleEndian.Uint16(b[4:]))
	if n > len(b) {
		return 0
	}
	return n
}

// takeWhole takes in a chunk whose checksum is right, and returns its length, 0 if it is not of this log.
func (l *logReader) takeWhole(c []byte) int {
	if binary.LittleEndian.Uint32(c[7:]) != l.number {
		return 0
	}
	switch c[6] {
	case chunkFull, chunkFirst:
		l.record = l.record[:0]
	case chunkMiddle, chunkLast:
	default:
		return 0
	}
	l.record = append(l.record, c[chunkHeadLen:]...)
	return len(c)
}

// oldChunk returns errOldChunk if b begins with a chunk of an older format, or the proper end of a log.
func (l *logReader) oldChunk(b []byte) error {
	if len(b) < trailerLen {
		return nil
	}
	sum, length, kind := binary.LittleEndian.Uint32(b), int(binary.LittleEndian.Uint16(b[4:])), b[6]
	number := binary.LittleEndian.Uint32(b[7:])
	if sum == 0 && length == 0 && kind == trailerKind && number == l.number+1 {
		return errOldChunk
	}
	for _, head := range []int{7, trailerLen} { // the oldest format has no log number
		if end := head + length; kind > 0 && kind < chunkFull && end <= len(b) &&
			cook(crc32.Checksum(b[chunkSummed:end], castagnoli)) == sum && (head == 7 || number == l.number) {
			return errOldChunk
		}
	}
	return nil
}

// lookAtEnd returns ErrDamaged if what is behind the last whole chunk was whole once.
func (l *logReader) lookAtEnd(b []byte) error {
	if len(b) < chunkHeadLen || !l.vouched(b) && !l.mendable(b) {
		return nil
	}
	return fmt.Errorf("%w: log %06d: the record at offset %d (cutting the file there gives up what follows)",
		ErrDamaged, l.number, l.offset)
}

// vouched reports whether a whole chunk behind the one that b begins with tells that this was synced.
func (l *logReader) vouched(b []byte) bool {
	n := chunkLen(b)
	for n > 0 {
		b = b[n:]
		n = wholeChunk(b)
		if n > 0 && binary.LittleEndian.Uint32(b[7:]) == l.number && binary.LittleEndian.Uint64(b[11:]) > uint64(l.offset) {
			return true
		}
	}
	return false
}

// mendable reports whether one bit of the chunk that b begins with makes a whole record of it.
func (l *logReader) mendable(b []byte) bool {
	length := binary.LittleEndian.Uint16(b[4:])
	sum := binary.LittleEndian.Uint32(b)
	if n := chunkLen(b); n > 0 && n <= maxMended {
		crc := crc32.Checksum(b[chunkSummed:n], castagnoli)
		if bits.OnesCount32(sum^cook(crc)) == 1 {
			return l.continues(b[:n])
		}
		if i, bit, ok := findFlip(n-chunkSummed, uncook(sum)^crc); ok {
			mended := slices.Clone(b[:n])
			mended[chunkSummed+i] ^= bit
			return l.continues(mended)
		}
	}
	for bit := range 16 {
		n := chunkHeadLen + int(length^1<<bit)
		if n <= min(len(b), maxMended) && cook(crc32.Checksum(b[chunkSummed:n], castagnoli)) == sum {
			return l.continues(b[:n])
		}
	}
	return false
}

// findFlip returns the bit, of n bytes, that changes their CRC by diff if it is flipped: the change depends only on how
// many bytes follow.
func findFlip(n int, diff uint32) (i int, bit byte, ok bool) {
	var change [8]uint32
	for k := range change {
		change[k] = castagnoli[1<<k]
	}
	for i := n - 1; i >= 0; i-- {
		for k, c := range change {
			if c == diff {
				return i, 1 << k, true
			}
			change[k] = castagnoli[byte(c)] ^ c>>8
		}
	}
	return 0, 0, false
}

// continues reports whether a chunk, one bit of which was mended, goes on to the end of a record that holds a batch.
func (l *logReader) continues(c []byte) bool {
	ahead := logReader{
		r: l.r, number: l.number, offset: l.offset, block: slices.Clone(l.block), record: slices.Clone(l.record),
	}
	for {
		n := ahead.takeWhole(c)
		if n == 0 {
			return false
		}
		if c[6] == chunkFull || c[6] == chunkLast {
			return isBatch(ahead.record)
		}
		ahead.offset += int64(n)
		rest, err := ahead.next()
		if err != nil {
			return false
		}
		c = rest[:wholeChunk(rest)]
		if len(c) == 0 {
			return false
		}
	}
}

// isBatch reports whether b decodes as a batch with as many entries as it says.
func isBatch(b []byte) bool {
	head, ok := batchrepr.ReadHeader(b)
	if !ok {
		return false
	}
	r := batchrepr.Read(b)
	n := uint32(0)
	for {
		kind, _, _, ok, err := r.Next()
		if err != nil {
			return false
		}
		if !ok {
			return n == head.Count
		}
		if kind != pebble.InternalKeyKindLogData {
			n++ // those are not counted
		}
	}
}
