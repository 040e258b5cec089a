// Package text tells texts from other files by how they begin, and reads a text in UTF-8, or in UTF-16 with a byte
// order mark, as UTF-8 without one.
package text

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf16"
	"unicode/utf8"
)

// Encoding is what the first bytes of a text tell of how it is written.
type Encoding string

// The encodings. Bytes without a mark are read as they are: lines may have any bytes.
const (
	Plain  Encoding = ""
	Marked Encoding = "UTF-8 with a byte order mark"
	UTF16  Encoding = "UTF-16"
)

// Note returns a note about a text that is not read byte by byte, "" for one that is.
func (e Encoding) Note(name fmt.Stringer) string {
	switch e {
	case Marked:
		return fmt.Sprintf("note: %s begins with a byte order mark, which is left out\n", name)
	case UTF16:
		return fmt.Sprintf("note: %s is in UTF-16, and is read as UTF-8\n", name)
	}
	return ""
}

const (
	mark             = "\xef\xbb\xbf"
	markLittleEndian = "\xff\xfe"
	markBigEndian    = "\xfe\xff"
)

// Decode returns a reader of the text that r reads, in UTF-8 without a mark. It waits for no more than the mark.
func Decode(r *bufio.Reader) (*bufio.Reader, Encoding, error) {
	for _, begin := range []struct {
		mark string
		then Encoding
		high int // where the higher byte of a unit of UTF-16 is
	}{{mark, Marked, 0}, {markLittleEndian, UTF16, 1}, {markBigEndian, UTF16, 0}} {
		is, err := Begins(r, begin.mark, "")
		if err != nil {
			return nil, Plain, err
		}
		if !is {
			continue
		}
		if _, err := r.Discard(len(begin.mark)); err != nil {
			return nil, Plain, err
		}
		if begin.then == UTF16 {
			r = bufio.NewReaderSize(&decoder{in: r, high: begin.high, offset: int64(len(begin.mark))}, 64<<10)
		}
		return r, begin.then, nil
	}
	return r, Plain, nil
}

// DecodeAll is Decode for a text in memory. The result may share memory with b.
func DecodeAll(b []byte) ([]byte, error) {
	r, encoding, err := Decode(bufio.NewReader(bytes.NewReader(b)))
	if err != nil || encoding == Plain {
		return b, err
	}
	return io.ReadAll(r)
}

// ErrUTF16 is in the error about a text that begins as one in UTF-16, and is none.
var ErrUTF16 = errors.New("not in UTF-16, as which it begins")

// decoder reads UTF-16 as UTF-8.
type decoder struct {
	in     *bufio.Reader
	high   int
	offset int64
	ready  []byte // of the last character
	buf    [utf8.UTFMax]byte
}

// Read gives as many whole characters as are there, and at least one byte.
func (d *decoder) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if len(d.ready) == 0 {
			if n > 0 && d.in.Buffered() < 4 { // the next character may have to be waited for
				return n, nil
			}
			if d.ready, err = d.next(); err != nil {
				return n, err
			}
		}
		copied := copy(p[n:], d.ready)
		n, d.ready = n+copied, d.ready[copied:]
	}
	return n, nil
}

// next returns the next character.
func (d *decoder) next() ([]byte, error) {
	unit, err := d.unit()
	if err != nil {
		return nil, err
	}
	c := rune(unit)
	if utf16.IsSurrogate(c) {
		low, err := d.unit()
		if c = utf16.DecodeRune(c, rune(low)); errors.Is(err, io.EOF) || err == nil && c == utf8.RuneError {
			return nil, fmt.Errorf("%w: half a character at byte %d", ErrUTF16, d.offset-2)
		} else if err != nil {
			return nil, err
		}
	}
	return utf8.AppendRune(d.buf[:0], c), nil
}

// unit returns the next 16 bits.
func (d *decoder) unit() (uint16, error) {
	var b [2]byte
	n, err := io.ReadFull(d.in, b[:])
	d.offset += int64(n)
	if errors.Is(err, io.ErrUnexpectedEOF) && n == 1 {
		err = fmt.Errorf("%w: it ends after %d bytes, in the middle of a character", ErrUTF16, d.offset)
	}
	return uint16(b[d.high])<<8 | uint16(b[1-d.high]), err
}
