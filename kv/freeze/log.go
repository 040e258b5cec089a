package freeze

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Damage in the middle of a log.
//
// Pebble replays the last log up to the first chunk that is not whole. It takes that for the place where a crash tore the
// log, unless a chunk in a later block of 32 KiB says that the log had been synced further. So a bit that flips in a
// chunk takes away the acknowledged commits behind it, up to the end of the block or of the log.
//
// So before Pebble replays a log, FS looks behind the first chunk that is not whole, in its own block too, for a chunk that
// vouches for it: a whole chunk of this log whose header says that the log had been synced beyond that place. If there is
// one, the log is damaged.
//
// The log's writer puts into a header where the log ended when its last sync returned, or a place before that. So what
// was in front of that place was on the disk, and if it is not there now, an acknowledged commit is lost, however
// that came. The question is only whether what vouches is a chunk that the writer wrote there:
//
//   - A crash of the machine keeps what was synced. Of what was written after the last sync it keeps any part. A
//     chunk in that part can vouch only for what was synced before it was written.
//   - A kill leaves the beginning of what was written. Behind the first chunk that is not whole there is nothing of this
//     log.
//   - After a sync of the log that failed nothing more is written to it (see FS), so no chunk speaks of that sync.
//   - A log that uses an older one's file again has that one's chunks behind its end. They have the older log's number,
//     and what vouches must have the number of this log. Numbers are not used again: Pebble takes one greater than any
//     in the directory and the MANIFEST, and syncs the directory before it writes to a log. A log whose name a crash took
//     back had nothing in it.
//   - Stored values can hold bytes that look like a chunk of this log. So what vouches is looked for only where the writer
//     begins chunks: at the beginning of a block, and at the end of a chunk. The end of the chunk that is not whole is
//     known from its length if the crash has not torn its header. Then all of the header is in one sector of 512 bytes,
//     and has a log's kind of chunk and this log's number. A header that is in two sectors is not believed. Behind the
//     last chunk of all an older log's values may look like chunks, if somebody made them so; Pebble would replay those
//     as commits, and nothing here makes that worse.
//
// What is not noticed is damage to the last chunks, those that were written after the last sync but one; damage to the
// number, the length or the kind in a header, and to a header in two sectors, if no later block vouches for it; and,
// as the writer does not count all it writes, damage to some chunks before those if the log is long.
//
// A log consists of blocks of 32 KiB, and these of chunks, which package record of Pebble describes. This is about chunks
// of the newest format; those of others vouch for nothing.
const (
	logBlock     = 32 << 10
	sector       = 512 // a crash leaves all of one or none
	chunkHeadLen = 19  // checksum 4, length 2, kind 1, log number 4, how far the log was synced 8
	chunkSummed  = 6   // where what the checksum covers begins
	firstKind    = 9   // of chunks of the newest format
	lastKind     = 12
)

// logNumber returns the number in the name of a log.
func logNumber(entry string) (uint32, bool) {
	digits, ok := strings.CutSuffix(entry, ".log")
	n, err := strconv.ParseUint(digits, 10, 64)
	return uint32(n), ok && err == nil // chunks have the lower 32 bits
}

// checkLog returns ErrDamaged if a chunk of a log is not whole that was synced. Errors of reading are left to Pebble.
func checkLog(f vfs.File, number uint32) error {
	block := make([]byte, logBlock)
	broken := int64(-1) // offset of the first chunk that is not whole
	for start := int64(0); ; start += logBlock {
		n, err := f.ReadAt(block, start)
		if err != nil && err != io.EOF {
			return nil
		}
		for rest := block[:n]; len(rest) >= chunkHeadLen; {
			at := start + int64(n-len(rest))
			length := chunkLen(rest, number)
			whole := length > 0 && isWhole(rest[:length])
			switch {
			case !whole && broken < 0:
				broken = at
				if at%sector > sector-chunkHeadLen {
					length = 0
				}
			case !whole:
				length = 0
			case broken >= 0 && syncedTo(rest) > uint64(broken):
				return fmt.Errorf("%w: log %06d: the record at offset %d, which the one at offset %d says was synced "+
					"(to cut the file at the first gives up what follows)", ErrDamaged, number, broken, at)
			}
			if length == 0 {
				break // where the next chunk of this block begins is not known
			}
			rest = rest[length:]
		}
		if n < logBlock {
			return nil
		}
	}
}

// chunkLen returns the length of the chunk that b begins with, 0 if its header is not one of this log or does not fit.
func chunkLen(b []byte, number uint32) int {
	n := chunkHeadLen + int(binary.LittleEndian.Uint16(b[4:]))
	if b[6] < firstKind || b[6] > lastKind || binary.LittleEndian.Uint32(b[7:]) != number || n > len(b) {
		return 0
	}
	return n
}

// isWhole reports whether a chunk's checksum is right.
func isWhole(chunk []byte) bool {
	crc := crc32.Checksum(chunk[chunkSummed:], castagnoli)
	return bits.RotateLeft32(crc, 17)+0xa282ead8 == binary.LittleEndian.Uint32(chunk) // as Pebble stores it
}

// syncedTo returns how far the log had been synced when a chunk was written, by its header.
func syncedTo(chunk []byte) uint64 { return binary.LittleEndian.Uint64(chunk[11:]) }
