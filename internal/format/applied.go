package format

import (
	"encoding/binary"
	"fmt"
)

// Applied says which message of its group's log a store has applied last.
type Applied struct {
	Index  uint64   // of the message, counted from 1; 0 for a store that has applied none
	Term   uint64   // the term in which the message was put into the log
	Hash   [16]byte // of the log up to the message
	Millis int64    // the leader's time, in Unix milliseconds
}

// appliedVersion is the format version of the record.
const appliedVersion = 1

// AppendApplied appends the record of the message that was applied last:
//
//	offset  size     field
//	0       1        format version, 1
//	1       16       Hash
//	17      uvarint  Index, at least 1
//	        uvarint  Term
//	        uvarint  Millis
//
// It is in the same batch as what the message changes. So a store has the message if and only if the record says so.
func AppendApplied(dst []byte, a Applied) []byte {
	dst = append(append(dst, appliedVersion), a.Hash[:]...)
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, a.Index), a.Term)
	return binary.AppendUvarint(dst, uint64(a.Millis))
}

// DecodeApplied decodes what AppendApplied wrote. The errors wrap ErrCorrupt or ErrUnsupportedVersion.
func DecodeApplied(b []byte) (a Applied, err error) {
	if len(b) > 0 && b[0] > appliedVersion {
		return a, fmt.Errorf("%w: record of the applied message has format %d, this program knows %d", ErrUnsupportedVersion, b[0], appliedVersion)
	}
	if len(b) < 1+len(a.Hash) || b[0] != appliedVersion {
		return a, Corruptf("record of the applied message %x", b)
	}
	copy(a.Hash[:], b[1:])
	var millis uint64
	rest := b[1+len(a.Hash):]
	for _, v := range []*uint64{&a.Index, &a.Term, &millis} {
		n := 0
		if *v, n = binary.Uvarint(rest); n <= 0 {
			return a, Corruptf("record of the applied message %x", b)
		}
		rest = rest[n:]
	}
	a.Millis = int64(millis)
	if len(rest) > 0 || a.Index == 0 || a.Millis < 0 {
		return a, Corruptf("record of the applied message %x", b)
	}
	return a, nil
}
