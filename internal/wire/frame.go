package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// A frame, little-endian:
//
//	offset  size  field
//	0       4     length of the body
//	4       4     CRC-32C of the length, the kind and the body
//	8       1     kind
//	9       n     body
//
// A connection begins with a hello of the dialer and an answer, of at most 1 KiB. Then the dialer sends messages on one for
// messages; and on one for a snapshot the message that the snapshot belongs to, data, and an end, whereupon the other side answers
// whether the snapshot was taken over. Meanwhile both sides send pings. On one for a digest the dialer sends it, and the other side
// answers. On one for probes the dialer sends an empty probe again and again, and gets one with an answer for each. A program that
// does not know digests or probes refuses the hello.
//
// Message: a raftpb.Message, at most 64 MiB. Data: a part of the snapshot, at most 256 KiB. End and ping: empty. Digest, and the
// answer to a probe: at most 1 KiB, whose form package replica has. Answer: 1 byte, 0 for yes or 1 for no, and then the reason in
// words. Hello, 39 bytes:
//
//	offset  size  field
//	0       4     magic "SVKW"
//	4       2     version, 1
//	6       1     kind of the connection: 1 messages, 2 a snapshot, 3 a digest, 4 probes
//	7       16    id of the group
//	23      8     id of the member that dials
//	31      8     id of the member that it means
const (
	frameHello byte = 1 + iota
	frameAnswer
	frameMessage
	frameData
	frameEnd
	framePing
	frameDigest
	frameProbe

	frameHeadLen = 9
	maxHello     = 1 << 10 // also of a newer version
	maxMessage   = 64 << 20
	maxData      = 256 << 10
	maxKept      = 1 << 20 // a buffer that has grown beyond that is not kept

	helloMagic   = "SVKW"
	helloVersion = 1
	helloLen     = 39

	forMessages byte = 1
	forSnapshot byte = 2
	forDigest   byte = 3
	forProbes   byte = 4
)

// errFrame means that this package cannot have sent the bytes that arrived.
var errFrame = errors.New("not a frame of a group")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func frameCRC(kind byte, body []byte) uint32 {
	head := [5]byte{4: kind}
	binary.LittleEndian.PutUint32(head[:], uint32(len(body)))
	return crc32.Update(crc32.Checksum(head[:], castagnoli), castagnoli, body)
}

func writeFrame(w *bufio.Writer, kind byte, body []byte) error {
	head := binary.LittleEndian.AppendUint32(w.AvailableBuffer(), uint32(len(body)))
	head = binary.LittleEndian.AppendUint32(head, frameCRC(kind, body))
	if _, err := w.Write(append(head, kind)); err != nil {
		return err
	}
	_, err := w.Write(body)
	return err
}

// readFrame reads a frame whose body has up to most bytes, into a buffer that grows with the bytes that arrive.
func readFrame(r io.Reader, body *bytes.Buffer, most int) (kind byte, err error) {
	var head [frameHeadLen]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n > uint32(most) {
		return 0, fmt.Errorf("%w: it has %d bytes, and at most %d are allowed", errFrame, n, most)
	}
	if body.Reset(); body.Cap() > maxKept {
		*body = bytes.Buffer{}
	}
	if _, err := io.CopyN(body, r, int64(n)); err != nil {
		return 0, noEOF(err)
	}
	if binary.LittleEndian.Uint32(head[4:]) != frameCRC(head[8], body.Bytes()) {
		return 0, fmt.Errorf("%w: its checksum is wrong", errFrame)
	}
	return head[8], nil
}

// noEOF returns io.ErrUnexpectedEOF in place of io.EOF.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// hello names the dialer, and the member that it wants.
type hello struct {
	kind     byte
	cluster  [16]byte
	from, to uint64
}

func appendHello(dst []byte, h hello) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint16(append(dst, helloMagic...), helloVersion)
	dst = append(append(dst, h.kind), h.cluster[:]...)
	return le.AppendUint64(le.AppendUint64(dst, h.from), h.to)
}

func decodeHello(b []byte) (h hello, err error) {
	le := binary.LittleEndian
	switch {
	case len(b) < 6 || string(b[:4]) != helloMagic:
		return h, fmt.Errorf("%w: no hello", errFrame)
	case le.Uint16(b[4:]) != helloVersion:
		return h, fmt.Errorf("protocol %d, and this program speaks %d", le.Uint16(b[4:]), helloVersion)
	case len(b) != helloLen || b[6] < forMessages || b[6] > forProbes:
		return h, fmt.Errorf("%w: a hello of %d bytes for something else", errFrame, len(b))
	}
	h = hello{kind: b[6], from: le.Uint64(b[23:]), to: le.Uint64(b[31:])}
	copy(h.cluster[:], b[7:])
	return h, nil
}
