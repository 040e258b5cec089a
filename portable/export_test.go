package portable

import (
	"bytes"
	"encoding/binary"
	"io"

	"github.com/sievekv/sievekv/internal/format"
)

// Repaired returns a file whose checksums agree with its chunks, as far as there are whole chunks.
func Repaired(file []byte) []byte {
	file = append([]byte(nil), file...)
	header := uint32(0)
	for at := prefixLen; at+chunkHead+checksumLen <= len(file); {
		n := int(binary.LittleEndian.Uint32(file[at+1:]))
		end := at + chunkHead + n
		if n > maxPayload || end+checksumLen > len(file) {
			break
		}
		sum := checksum(header, int64(at), file[at:end])
		binary.LittleEndian.PutUint32(file[end:], sum)
		if at == prefixLen {
			header = sum
		}
		at = end + checksumLen
	}
	return file
}

// PrefixLen is where the header chunk begins.
const PrefixLen = prefixLen

// Memory returns how many bytes the blocks of a filter take, and what finds them.
func (f *Filter) Memory() (n int) {
	for _, l := range f.layers {
		n += 4 * (len(l.numbers) + len(l.places))
		for _, s := range l.blocks {
			n += 8*len(s.words) + len(s.value)
		}
	}
	return n
}

// HeaderLen returns the length of what the header chunk of a file has.
func HeaderLen(file []byte) int { return int(binary.LittleEndian.Uint32(file[prefixLen+1:])) }

// HeaderOf returns what the header chunk of a file describes.
func HeaderOf(file []byte) (*format.Header, [][format.NumCounters]uint64, error) {
	n := HeaderLen(file)
	c, err := decodeContents(file[prefixLen+chunkHead:][:n])
	if err != nil {
		return nil, nil, err
	}
	return c.header, c.counters, nil
}

// WithHeader returns a file with another header, and right checksums.
func WithHeader(file []byte, h *format.Header, counters [][format.NumCounters]uint64) []byte {
	var b bytes.Buffer
	if _, err := newEncoder(&b, &contents{h, counters}); err != nil {
		return file
	}
	n := HeaderLen(file)
	return Repaired(append(b.Bytes(), file[prefixLen+chunkHead+n+checksumLen:]...))
}

// BeginFile writes the beginning of a file with a header.
func BeginFile(w io.Writer, h *format.Header) error {
	_, err := newEncoder(w, &contents{h, make([][format.NumCounters]uint64, len(h.Layers))})
	return err
}

// LongString reads the file of a string of zeros that is cut behind the given number of bytes of the string.
type LongString struct {
	Len  int
	file bytes.Buffer
	e    *encoder
}

// Read implements io.Reader.
func (s *LongString) Read(p []byte) (int, error) {
	var err error
	for err == nil && s.file.Len() < len(p) && s.Len > 0 {
		if s.e == nil {
			s.e, err = newEncoder(&s.file, &contents{header: format.StringHeader([]byte{format.EncodingBytes}, 0)})
			continue
		}
		s.e.begin(kindBytes)
		s.e.chunk = append(s.e.chunk, make([]byte, min(maxPayload, s.Len))...)
		s.Len -= min(maxPayload, s.Len)
		_, err = s.e.flush()
	}
	if err != nil {
		return 0, err
	}
	return s.file.Read(p)
}
