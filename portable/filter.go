package portable

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"unsafe"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/kv"
)

// lookups are what the filters of all types answer without a store.
type lookups interface {
	Copies(r kv.Reader, item []byte) (uint64, error)
}

// Filter is a filter in memory, read from a file, which needs no store. It never changes, and any number of goroutines
// may use it, unless one reads another into it. The zero value has not been read: it takes every item for present.
//
// It takes about the memory of the filter's blocks that have an item.
type Filter struct {
	contents
	filter lookups
	from   kv.Reader
	layers []blocks // oldest first
	info   Info
}

// blocks are the blocks of a layer that are not zeros, in ascending order.
type blocks struct {
	numbers []uint32
	blocks  []stored
	places  []uint32 // of each block in the lists, from 1; 0 for zeros. Nil if few blocks are in the lists
}

// stored is a block: its words or, if the words of a file's many nearly empty blocks would take far more memory than
// the file, its bytes.
type stored struct {
	words []uint64
	value []byte
}

// roomBytes is the memory that blocks may take in any case, and perByte how much more for each byte of the file.
const (
	roomBytes = 64 << 20
	perByte   = 16
)

// ReadFilter reads a filter from a file that Export has written. The errors are ErrDamaged, kv.ErrWrongType for the
// file of a string, kv.ErrUnsupportedVersion for a file of a newer version, kv.ErrNoModule for a type that is not built
// in, and errors of reading.
func ReadFilter(r io.Reader) (*Filter, error) {
	f := new(Filter)
	if _, err := f.ReadFrom(r); err != nil {
		return nil, err
	}
	return f, nil
}

// ReadFrom reads a file to its end, as ReadFilter does, into the filter. With an error the filter is as before.
func (f *Filter) ReadFrom(from io.Reader) (int64, error) {
	r := newReading(context.Background(), from)
	read, err := readFilter(r)
	if err == nil {
		*f = *read
	}
	return r.in.at, err
}

func readFilter(r *reading) (*Filter, error) {
	if err := r.open(own()); err != nil {
		return nil, err
	}
	f := &Filter{contents: *r.c}
	var body any
	if r.object != nil {
		body = r.object.Body()
	}
	var ok bool
	if f.filter, ok = body.(lookups); !ok {
		return nil, fmt.Errorf("%w: the file has a %s, want a filter", kv.ErrWrongType, r.info.Type)
	}
	room := int64(roomBytes)
	f.layers = make([]blocks, len(r.c.header.Layers))
	layers := r.object.Layers()
	r.sink.load = func(l *kv.Layer, blk uint64) (*kv.Line, error) {
		return f.layers[slices.Index(layers, l)].load(f.header, l, blk)
	}
	r.sink.block = func(layer int, blk uint64, words []uint64) error {
		l := &f.layers[layer]
		s := stored{}
		if int64(len(words))*8 <= room+perByte*r.in.at {
			s.words = slices.Clone(words)
			room -= int64(len(words)) * 8
		} else {
			s.value = block.AppendBlock(nil, f.header.Family, words)
		}
		l.numbers, l.blocks = append(l.numbers, uint32(blk)), append(l.blocks, s)
		return nil
	}
	err := r.rest()
	for i := range f.layers {
		f.layers[i].index(f.header.Layers[i].Blocks)
	}
	f.from, f.info = r.from, r.info
	f.info.FileBytes = r.in.at
	return f, err
}

// index makes a table of a layer's blocks, unless most of it would be empty.
func (b *blocks) index(size uint64) {
	const most = 16
	if size > most*uint64(len(b.numbers)) {
		return
	}
	b.places = make([]uint32, size)
	for i, blk := range b.numbers {
		b.places[blk] = uint32(i) + 1
	}
}

// load returns a block of a layer, nil for zeros.
func (b *blocks) load(h *format.Header, l *kv.Layer, blk uint64) (*kv.Line, error) {
	var i int
	found := false
	if b.places != nil {
		i = int(b.places[blk]) - 1
		found = i >= 0
	} else {
		i, found = slices.BinarySearch(b.numbers, uint32(blk))
	}
	if !found {
		return nil, nil
	}
	words, err := b.blocks[i].read(h.Family, int(l.Spec().Lines))
	if err != nil {
		return nil, err
	}
	return (*kv.Line)(words), nil
}

func (s *stored) read(fam block.Family, lines int) ([]uint64, error) {
	if s.words != nil {
		return s.words, nil
	}
	words := make([]uint64, lines*block.LineWords)
	_, err := block.Decode(words, fam, s.value)
	return words, err
}

// MayContain reports whether an item may have been added to the filter: false means that it was not.
func (f *Filter) MayContain(item []byte) bool { return f.filter == nil || f.Count(item) > 0 }

// MayContainString is MayContain for a string.
func (f *Filter) MayContainString(item string) bool { return f.MayContain(bytesOf(item)) }

// Count returns how often an item seems to have been added: the copies of a cuckoo filter, the count of a counting
// filter, at most 15, and 1 in a Bloom filter that may contain the item. It is 0 for a filter that has not been read.
func (f *Filter) Count(item []byte) uint64 {
	if f.filter == nil {
		return 0
	}
	n, err := f.filter.Copies(f.from, item)
	if err != nil {
		return 1 // it was decoded before: this cannot be, and nothing is known of the item
	}
	return n
}

// CountString is Count for a string.
func (f *Filter) CountString(item string) uint64 { return f.Count(bytesOf(item)) }

// bytesOf returns the bytes of a string, without copying them. They must not be changed.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// Info describes the filter.
func (f *Filter) Info() Info { return f.info }

var errNotRead = errors.New("portable: the filter has not been read")

// WriteTo writes the filter to a file, as Export does.
func (f *Filter) WriteTo(w io.Writer) (int64, error) {
	if f.filter == nil {
		return 0, errNotRead
	}
	e, err := newEncoder(w, &f.contents)
	if err != nil {
		return e.at, err
	}
	for i, l := range f.layers {
		for j, blk := range l.numbers {
			words, err := l.blocks[j].read(f.header.Family, int(f.header.Layers[i].Lines))
			if err == nil {
				err = e.block(f.header.Family, i, uint64(blk), words)
			}
			if err != nil {
				return e.at, err
			}
		}
	}
	err = e.end()
	return e.at, err
}

// MarshalBinary returns what WriteTo writes.
func (f *Filter) MarshalBinary() ([]byte, error) {
	var b bytes.Buffer
	_, err := f.WriteTo(&b)
	return b.Bytes(), err
}

// UnmarshalBinary reads what MarshalBinary returned, as ReadFrom does.
func (f *Filter) UnmarshalBinary(data []byte) error {
	_, err := f.ReadFrom(bytes.NewReader(data))
	return err
}
