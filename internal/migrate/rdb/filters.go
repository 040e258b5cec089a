package rdb

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// The types of RedisBloom's filters, as TYPE answers them.
const (
	Bloom  = "MBbloom--"
	Cuckoo = "MBbloomCF"
)

// filterVersion is the version of the values of both types.
const filterVersion = 4

// The opcodes of the fields of a module's value.
const (
	fieldEnd      = 0
	fieldSigned   = 1
	fieldUnsigned = 2
	fieldFloat    = 3
	fieldDouble   = 4
	fieldString   = 5
)

// fields passes over the fields of a module's value, up to the end of the value.
func (r *Reader) fields() error {
	for {
		op, err := r.length()
		if err != nil {
			return err
		}
		switch op {
		case fieldEnd:
			return nil
		case fieldSigned, fieldUnsigned:
			err = r.lengths(1)
		case fieldFloat:
			err = r.skip(4)
		case fieldDouble:
			err = r.skip(8)
		case fieldString:
			err = r.skipString()
		default:
			return damaged("a module's value has a field of the unknown kind %d", op)
		}
		if err != nil {
			return err
		}
	}
}

// Filter is a filter of the file, as SCANDUMP gives it.
type Filter struct {
	Type   string
	Header []byte // as BF.SCANDUMP and CF.SCANDUMP have it
	Items  uint64
	arrays []int64 // where in the file each array is
	size   uint64  // of all arrays
}

// Size returns the number of bytes of the arrays.
func (f *Filter) Size() uint64 { return f.size }

// IsFilter reports whether the value of a key is a filter that Filter reads.
func (k Key) IsFilter() bool {
	return (k.Type == Bloom || k.Type == Cuckoo) && k.kind == typeModule2 && k.version == filterVersion
}

// Filter reads the value of a key for which IsFilter holds.
func (r *Reader) Filter() (*Filter, error) {
	r.unread = false
	f := fieldReader{r: r, filter: &Filter{Type: r.key.Type}}
	if r.key.Type == Bloom {
		f.bloom()
	} else {
		f.cuckoo()
	}
	f.expect(fieldEnd)
	if f.err != nil {
		return nil, r.explain(fmt.Errorf("the filter %q: %w", r.key.Name, f.err))
	}
	return f.filter, nil
}

// fieldReader reads the fields of a filter. After an error it reads nothing more.
type fieldReader struct {
	r      *Reader
	filter *Filter
	err    error
}

func (f *fieldReader) expect(kind uint64) {
	if f.err != nil {
		return
	}
	got, err := f.r.length()
	if err == nil && got != kind {
		err = damaged("a field of the kind %d is where one of the kind %d must be", got, kind)
	}
	f.err = err
}

// unsigned reads a number of at most most.
func (f *fieldReader) unsigned(most uint64) (n uint64) {
	f.expect(fieldUnsigned)
	if f.err == nil {
		n, f.err = f.r.length()
	}
	if f.err == nil && n > most {
		f.err = damaged("%d is too large", n)
	}
	return n
}

// double returns the bits of a floating-point number.
func (f *fieldReader) double() uint64 {
	f.expect(fieldDouble)
	var b [8]byte
	if f.err == nil {
		f.err = f.r.read(b[:])
	}
	return binary.LittleEndian.Uint64(b[:])
}

// array notes where an array is, reads all of it, and returns its length.
func (f *fieldReader) array() uint64 {
	f.expect(fieldString)
	if f.err != nil {
		return 0
	}
	f.filter.arrays = append(f.filter.arrays, f.r.offset)
	t, err := f.r.open()
	if err == nil {
		_, err = io.Copy(io.Discard, t)
	}
	f.err = err
	f.filter.size += t.length
	return t.length
}

// bloom reads what BFRdbSave writes: items, sub-filters, options, expansion; and for each sub-filter capacity, error
// rate, hashes, bits per item, bits, the logarithm of bits or 0, the array, items.
func (f *fieldReader) bloom() {
	le := binary.LittleEndian
	f.filter.Items = f.unsigned(math.MaxUint64)
	filters := f.unsigned(math.MaxUint32)
	h := le.AppendUint64(nil, f.filter.Items)
	h = le.AppendUint32(h, uint32(filters))
	h = le.AppendUint32(h, uint32(f.unsigned(math.MaxUint32))) // options
	h = le.AppendUint32(h, uint32(f.unsigned(math.MaxUint32))) // expansion
	for i := uint64(0); i < filters && f.err == nil; i++ {
		capacity := f.unsigned(math.MaxUint64)
		rate := f.double()
		hashes := f.unsigned(math.MaxUint32)
		perItem := f.double()
		bits := f.unsigned(math.MaxUint64)
		n2 := f.unsigned(math.MaxUint8)
		length := f.array()
		items := f.unsigned(math.MaxUint64)
		for _, n := range []uint64{length, bits, items, rate, perItem} {
			h = le.AppendUint64(h, n)
		}
		h = le.AppendUint32(h, uint32(hashes))
		h = le.AppendUint64(h, capacity)
		h = append(h, byte(n2))
	}
	f.filter.Header = h
}

// cuckoo reads what CFRdbSave writes: sub-filters, buckets of the first, items, deletes, bucket size, iterations,
// expansion; and for each sub-filter its buckets, and the array.
func (f *fieldReader) cuckoo() {
	le := binary.LittleEndian
	filters := f.unsigned(math.MaxUint16)
	buckets := f.unsigned(math.MaxUint64)
	f.filter.Items = f.unsigned(math.MaxUint64)
	deletes := f.unsigned(math.MaxUint64)
	bucketSize := f.unsigned(math.MaxUint16)
	iterations := f.unsigned(math.MaxUint16)
	expansion := f.unsigned(math.MaxUint16)
	expected := buckets
	for i := uint64(0); i < filters && f.err == nil; i++ {
		n := f.unsigned(math.MaxUint64)
		length := f.array()
		if f.err == nil && (n != expected || bucketSize == 0 || length/bucketSize != n || length%bucketSize != 0) {
			f.err = damaged("sub-filter %d has %d buckets in %d bytes, want %d of %d", i, n, length, expected, bucketSize)
		}
		expected *= expansion
	}
	var h []byte
	for _, n := range []uint64{f.filter.Items, buckets, deletes, filters} {
		h = le.AppendUint64(h, n)
	}
	for _, n := range []uint64{bucketSize, iterations, expansion} {
		h = le.AppendUint16(h, uint16(n))
	}
	f.filter.Header = h
}

// Chunk is a piece of a filter's arrays, which are counted as one after the other. LOADCHUNK takes it with Iter, which
// is 1 plus the end of the piece.
type Chunk struct {
	Iter int64
	Data []byte
}

// Chunks gives the arrays in chunks of up to most bytes, each of one array. The filter's file, or dump, is read again.
// A chunk is only valid until give returns.
func (f *Filter) Chunks(file io.ReaderAt, most int, give func(Chunk) error) error {
	iter := int64(1)
	for _, at := range f.arrays {
		again := newReader(io.NewSectionReader(file, at, math.MaxInt64-at))
		t, err := again.open()
		if err != nil {
			return err
		}
		data := make([]byte, max(1, min(uint64(most), t.length)))
		for {
			n, err := io.ReadFull(t, data)
			if n > 0 {
				iter += int64(n)
				if err := give(Chunk{iter, data[:n]}); err != nil {
					return err
				}
			}
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				break
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}
