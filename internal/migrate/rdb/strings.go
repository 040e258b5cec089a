package rdb

import (
	"bytes"
	"encoding/binary"
	"io"
	"strconv"
)

// The ways to encode a string that has no length.
const (
	encodedInt8  = 0
	encodedInt16 = 1
	encodedInt32 = 2
	encodedLZF   = 3
)

// text is a string of the file that is being read. Its bytes are read in order.
type text struct {
	io.Reader
	length uint64 // of the whole string
}

// open begins to read a string.
func (r *Reader) open() (text, error) {
	n, special, err := r.number()
	switch {
	case err != nil:
		return text{}, err
	case !special:
		return text{&plain{r, n}, n}, nil
	case n == encodedLZF:
		return r.openLZF()
	}
	return r.integer(n)
}

func (r *Reader) integer(encoding uint64) (text, error) {
	var b [4]byte
	var n int64
	var err error
	switch encoding {
	case encodedInt8:
		err = r.read(b[:1])
		n = int64(int8(b[0]))
	case encodedInt16:
		err = r.read(b[:2])
		n = int64(int16(binary.LittleEndian.Uint16(b[:])))
	case encodedInt32:
		err = r.read(b[:4])
		n = int64(int32(binary.LittleEndian.Uint32(b[:])))
	default:
		return text{}, damaged("a string has the unknown encoding %d", encoding)
	}
	digits := strconv.AppendInt(nil, n, 10)
	return text{bytes.NewReader(digits), uint64(len(digits))}, err
}

func (r *Reader) openLZF() (text, error) {
	compressed, err := r.length()
	if err != nil {
		return text{}, err
	}
	length, err := r.length()
	if err != nil {
		return text{}, err
	}
	return text{&lzf{in: plain{r, compressed}, left: length}, length}, nil
}

// string reads a whole string.
func (r *Reader) string() ([]byte, error) {
	b, length, err := r.beginning(MaxString)
	if err == nil && length > MaxString {
		err = damaged("a string of %d bytes", length)
	}
	return b, err
}

// beginning reads a string, and returns its first bytes, at most most, and its length.
func (r *Reader) beginning(most uint64) (b []byte, length uint64, err error) {
	t, err := r.open()
	if err != nil {
		return nil, 0, err
	}
	if b, err = t.first(min(most, t.length)); err == nil {
		_, err = io.Copy(io.Discard, t) // tells if the rest is damaged
	}
	return b, t.length, err
}

// first reads the first n bytes of the string. It makes room as bytes come, as the length may be wrong: at last for n, and
// for the quarter of n that they are copied from.
func (t text) first(n uint64) ([]byte, error) {
	const little = 1 << 16
	b := make([]byte, 0, min(n, little))
	for uint64(len(b)) < n {
		if len(b) == cap(b) {
			b = append(make([]byte, 0, min(n, 4*uint64(len(b)))), b...)
		}
		read, err := t.Read(b[len(b):cap(b)])
		b = b[:len(b)+read]
		if err != nil {
			return nil, cut(err)
		}
	}
	return b, nil
}

// skipString passes over a string. It does not look at what is compressed.
func (r *Reader) skipString() error {
	t, err := r.open()
	if err != nil {
		return err
	}
	switch in := t.Reader.(type) {
	case *plain:
		return r.skip(in.left)
	case *lzf:
		return r.skip(in.in.left)
	}
	return nil // a number, which was read
}

// plain reads bytes as they are in the file.
type plain struct {
	r    *Reader
	left uint64
}

func (p *plain) Read(b []byte) (int, error) {
	if p.left == 0 {
		return 0, io.EOF
	}
	n, err := p.r.in.Read(b[:min(uint64(len(b)), p.left)])
	p.r.took(b[:n])
	p.left -= uint64(n)
	if n > 0 {
		return n, nil
	}
	return 0, cut(err)
}

func (p *plain) byte() (byte, error) {
	if p.left == 0 {
		return 0, damaged("compressed bytes end too early")
	}
	p.left--
	return p.r.byte()
}

// window is how far back LZF may point.
const window = 1 << 13

// lzf reads what LZF has compressed. It is a sequence of runs, which begin with a byte c:
//
//	c < 32   c+1 bytes follow, to be taken as they are
//	else     bytes that came before, from d+1 bytes back on: c>>5 + 2 of them, or, if c>>5 is 7, as many more as the
//	         next byte says; d has the lower 5 bits of c, and the 8 bits of the byte after these
type lzf struct {
	in   plain
	left uint64 // bytes that are still to be read, without those in out
	out  []byte // bytes that were read, then bytes from next on that were not
	next int
}

func (z *lzf) Read(b []byte) (n int, err error) {
	for z.next == len(z.out) {
		if z.left == 0 {
			if z.in.left > 0 {
				return 0, damaged("compressed bytes are longer than their length")
			}
			return 0, io.EOF
		}
		if err := z.run(); err != nil {
			return 0, err
		}
	}
	n = copy(b, z.out[z.next:])
	z.next += n
	return n, nil
}

// run takes the next run to out. Everything in out was read before.
func (z *lzf) run() error {
	if len(z.out) >= 8*window {
		z.out = append(z.out[:0], z.out[len(z.out)-window:]...)
		z.next = len(z.out)
	}
	c, err := z.in.byte()
	if err != nil {
		return err
	}
	before := len(z.out)
	if c < 32 {
		for range int(c) + 1 {
			literal, err := z.in.byte()
			if err != nil {
				return err
			}
			z.out = append(z.out, literal)
		}
	} else if err := z.repeat(c); err != nil {
		return err
	}
	if n := uint64(len(z.out) - before); n > z.left {
		return damaged("compressed bytes are longer than their length")
	} else {
		z.left -= n
	}
	return nil
}

func (z *lzf) repeat(c byte) error {
	n := int(c>>5) + 2
	if c>>5 == 7 {
		more, err := z.in.byte()
		if err != nil {
			return err
		}
		n += int(more)
	}
	low, err := z.in.byte()
	if err != nil {
		return err
	}
	from := len(z.out) - (int(c&31)<<8 | int(low)) - 1
	if from < 0 {
		return damaged("compressed bytes point before their beginning")
	}
	for i := range n { // a run may overlap with itself
		z.out = append(z.out, z.out[from+i])
	}
	return nil
}
