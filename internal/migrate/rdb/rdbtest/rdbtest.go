// Package rdbtest makes RDB files for tests, byte by byte.
package rdbtest

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/sievekv/sievekv/tests/redisbloom"
)

// File is a file that is being made.
type File struct {
	version int
	bytes   []byte
	change  func(uint64) uint64 // see Forge
}

// New begins a file of a version: from 80 on it is of Valkey.
func New(version int) *File {
	if version >= 80 {
		return &File{version: version, bytes: fmt.Appendf(nil, "VALKEY%03d", version)}
	}
	return &File{version: version, bytes: fmt.Appendf(nil, "REDIS%04d", version)}
}

// Raw appends bytes.
func (f *File) Raw(b ...byte) *File {
	f.bytes = append(f.bytes, b...)
	return f
}

// Length appends a length in the shortest form.
func (f *File) Length(n uint64) *File {
	switch {
	case n < 1<<6:
		return f.Raw(byte(n))
	case n < 1<<14:
		return f.Raw(0x40|byte(n>>8), byte(n))
	case n <= math.MaxUint32:
		return f.Raw(binary.BigEndian.AppendUint32([]byte{0x80}, uint32(n))...)
	}
	return f.Raw(binary.BigEndian.AppendUint64([]byte{0x81}, n)...)
}

// Text appends a string as it is.
func (f *File) Text(s string) *File { return f.Length(uint64(len(s))).Raw([]byte(s)...) }

// Texts appends strings.
func (f *File) Texts(texts ...string) *File {
	for _, s := range texts {
		f.Text(s)
	}
	return f
}

// Zeros appends a string of n zero bytes, compressed by LZF: one literal, then copies of up to 264 bytes of it.
func (f *File) Zeros(n int) *File {
	compressed := []byte{0, 0}
	for left := n - 1; left > 0; {
		run := min(left, 264)
		switch {
		case run < 3:
			compressed = append(compressed, byte(run-1))
			compressed = append(compressed, make([]byte, run)...)
		case run < 9:
			compressed = append(compressed, byte(run-2)<<5, 0)
		default:
			compressed = append(compressed, 7<<5, byte(run-9), 0)
		}
		left -= run
	}
	return f.Raw(0xc3).Length(uint64(len(compressed))).Length(uint64(n)).Raw(compressed...)
}

// Aux appends a field about the file.
func (f *File) Aux(name, value string) *File { return f.Raw(250).Texts(name, value) }

// Select makes n the database of the keys that follow.
func (f *File) Select(n uint64) *File { return f.Raw(254).Length(n) }

// ExpireAt gives the next key a time in milliseconds at which it expires.
func (f *File) ExpireAt(millis int64) *File {
	return f.Raw(binary.LittleEndian.AppendUint64([]byte{252}, uint64(millis))...)
}

// Key begins a key: the type of its value, and its name.
func (f *File) Key(kind byte, name string) *File { return f.Raw(kind).Text(name) }

// Set appends a string.
func (f *File) Set(name, value string) *File { return f.Key(0, name).Text(value) }

// Module appends the name of a module's type, and the version of its values, as one number.
func (f *File) Module(name string, version uint64) *File {
	const characters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	var id uint64
	for _, c := range []byte(name) {
		for i := range len(characters) {
			if characters[i] == c {
				id = id<<6 | uint64(i)
			}
		}
	}
	return f.Length(id<<10 | version)
}

func (f *File) unsigned(numbers ...uint64) *File {
	for _, n := range numbers {
		f.Length(2).Length(f.forged(n))
	}
	return f
}

// Forge has every number of the filters that follow changed, and the bits of every rate.
func (f *File) Forge(change func(uint64) uint64) *File {
	f.change = change
	return f
}

func (f *File) forged(n uint64) uint64 {
	if f.change == nil {
		return n
	}
	return f.change(n)
}

func (f *File) double(bits uint64) *File {
	bits = f.forged(bits)
	return f.Length(4).Raw(binary.LittleEndian.AppendUint64(nil, bits)...)
}

// Filter appends a filter of a dump, which RedisBloom's type name tells the type of.
func (f *File) Filter(name, typeName string, dump []redisbloom.Chunk) *File {
	f.Key(7, name)
	return f.FilterValue(typeName, dump)
}

// FilterValue appends the value of a filter. An array that begins with a zero byte is compressed if all of it is zero.
func (f *File) FilterValue(typeName string, dump []redisbloom.Chunk) *File {
	f.Module(typeName, 4)
	header := dump[0].Data
	var data []byte
	for _, c := range dump[1:] {
		data = append(data, c.Data...)
	}
	array := func(n uint64) {
		f.Length(5)
		if allZero(data[:n]) {
			f.Zeros(int(n))
		} else {
			f.Text(string(data[:n]))
		}
		data = data[n:]
	}
	le := binary.LittleEndian
	if typeName == "MBbloom--" {
		f.unsigned(le.Uint64(header), uint64(le.Uint32(header[8:])), uint64(le.Uint32(header[12:])), uint64(le.Uint32(header[16:])))
		for h := header[20:]; len(h) > 0; h = h[53:] {
			f.unsigned(le.Uint64(h[44:])).double(le.Uint64(h[24:])).unsigned(uint64(le.Uint32(h[40:]))).double(le.Uint64(h[32:]))
			f.unsigned(le.Uint64(h[8:]), uint64(h[52]))
			array(le.Uint64(h))
			f.unsigned(le.Uint64(h[16:]))
		}
		return f.Length(0)
	}
	items, buckets, deletes, filters := le.Uint64(header), le.Uint64(header[8:]), le.Uint64(header[16:]), le.Uint64(header[24:])
	size, iterations, expansion := uint64(le.Uint16(header[32:])), uint64(le.Uint16(header[34:])), uint64(le.Uint16(header[36:]))
	f.unsigned(filters, buckets, items, deletes, size, iterations, expansion)
	for range filters {
		f.unsigned(buckets)
		array(buckets * size)
		buckets *= expansion
	}
	return f.Length(0)
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return len(b) > 0
}

// Bytes ends the file, and returns it.
func (f *File) Bytes() []byte {
	f.Raw(255)
	if f.version < 5 {
		return f.bytes
	}
	return binary.LittleEndian.AppendUint64(f.bytes, Checksum(f.bytes))
}

// Dump returns a value as DUMP does: its type, the value, and a footer. Value appends the value to a file.
func Dump(kind byte, version uint16, value func(*File)) []byte {
	f := &File{}
	value(f.Raw(kind))
	f.Raw(binary.LittleEndian.AppendUint16(nil, version)...)
	return binary.LittleEndian.AppendUint64(f.bytes, Checksum(f.bytes))
}

// Checksum returns the checksum of a file, bit by bit: the polynomial is Jones's, bits come lowest first, and nothing
// is inverted.
func Checksum(b []byte) (sum uint64) {
	for _, c := range b {
		sum ^= uint64(c)
		for range 8 {
			odd := sum & 1
			sum >>= 1
			if odd == 1 {
				sum ^= 0x95ac9329ac4bc9b5 // 0xad93d23594c935a9 with its bits in the other order
			}
		}
	}
	return sum
}
