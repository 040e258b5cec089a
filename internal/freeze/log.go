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

// Damage in the middle of a log
//
// Pebble replays the last log up to the first chunk that is not whole. It takes that place for the end that a crash
// left, unless a chunk in a later block of 32 KiB says that the log had been synced further. So a bit that flips in a
// chunk takes away the acknowledged commits behind it, up to the end of the block or of the log.
//
// So before Pebble replays a log, FS looks behind the first broken chunk (the first one that is not whole), also in
// the same block, for a chunk that vouches for it. That is a whole chunk of this log whose header says that the log
// had been synced beyond the broken chunk's beginning. If there is one, the log is damaged.
//
// Why this is right: the log's writer puts into each header a place up to which the log had been synced by then. So
// everything in front of that place was on the disk. If it is not there now, an acknowledged commit is lost, whatever
// the cause. The only question is whether the chunk that vouches was really written there by this log's writer:
//
//   - A crash of the machine keeps what was synced. Of what was written after the last sync it keeps any part. A
//     chunk in that part vouches only for what was synced before the chunk was written.
//   - A kill leaves the beginning of what was written. Nothing of this log is behind the first broken chunk.
//   - After a sync of the log that failed, nothing more is written to the log (see FS). So no chunk speaks of that
//     sync.
//   - A log may reuse an older log's file, and then has that log's chunks behind its own end. They carry the older
//     log's number, and a chunk that vouches must carry the number of this log. Numbers are not used twice: Pebble
//     takes one that is greater than any in the directory and in the MANIFEST, and syncs the directory before it
//     writes to a log. If a crash takes a log's name back, nothing had been written to that log.
//   - Stored values can hold bytes that look like a chunk of this log. So FS looks only at places where the writer
//     begins chunks: at the beginning of a block, and at the end of a chunk. For the broken chunk itself, its end
//     follows from the length in its header, if the crash cannot have torn the header: it lies in one sector of 512
//     bytes, and has a log's kind of chunk and this log's number. A header that lies in two sectors is not believed.
//     Behind the last chunk of all, an older log's values may look like chunks, if somebody made them so. Pebble
//     would replay those as commits; this check makes that no worse.
//
// This is not noticed:
//
//   - Damage to the last chunks, those written after the last sync but one.
//   - Damage to the number, the length or the kind in a header, or to a header in two sectors, if no later block
//     vouches for the chunk.
//   - If the log is long, damage to some chunks before the last ones: the writer does not count all that it writes.
//
// A log consists of blocks of 32 KiB, which consist of chunks; Pebble's package record describes them. This check
// knows chunks of the newest format. Chunks of other formats vouch for nothing.
const (
	logBlock     = 32 << 10
	sector       = 512 // a crash keeps all of a sector or none
	chunkHeadLen = 19  // checksum 4, length 2, kind 1, log number 4, how far the log was synced 8
	chunkSummed  = 6   // the checksum covers the chunk from here on
	firstKind    = 9   // the kinds of the newest format
	lastKind     = 12
)

// logNumber returns the number of a log, from its file name.
func logNumber(entry string) (uint32, bool) {
	digits, ok := strings.CutSuffix(entry, ".log")
	n, err := strconv.ParseUint(digits, 10, 64)
	return uint32(n), ok && err == nil // chunks hold the lower 32 bits
}

// checkLog returns ErrDamaged if a chunk of a log is broken although it was synced. It ignores errors of reading:
// Pebble will meet them, too.
func checkLog(f vfs.File, number uint32) error {
	block := make([]byte, logBlock)
	broken := int64(-1) // offset of the first chunk that is not whole; -1 for none yet
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
				break // it is not known where the next chunk of this block begins
			}
			rest = rest[length:]
		}
		if n < logBlock {
			return nil
		}
	}
}

// chunkLen returns the length of the chunk at the beginning of b. It returns 0 if the header is not one of this log,
// or if the chunk does not fit into b.
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
	return bits.RotateLeft32(crc, 17)+0xa282ead8 == binary.LittleEndian.Uint32(chunk) // Pebble stores checksums in this form
}

// syncedTo returns how far the log had been synced when the chunk was written, according to its header.
func syncedTo(chunk []byte) uint64 { return binary.LittleEndian.Uint64(chunk[11:]) }
