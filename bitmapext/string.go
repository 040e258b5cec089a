package bitmapext

import (
	"context"
	"encoding/binary"
	"sync/atomic"

	"github.com/sievekv/sievekv/kv"
)

// Source is what a string is read from: a kv.Reader or a *kv.Writer.
type Source interface {
	Load(o *kv.Object, l *kv.Layer, blk uint64) (*kv.Line, error)
	Counter(l *kv.Layer, i int) uint64
}

// String is the string under a key, in either form. It is valid as long as what it was found with, until the string is
// changed.
type String struct {
	from   Source
	ctx    context.Context // of the command that reads it, nil for none: part returns its error
	object *kv.Object      // of a string in blocks, else nil
	inline []byte          // the string otherwise
	there  bool
	expiry int64

	block []byte // the block that part read last
	read  uint64 // its number plus 1; 0 if there is none
}

// Look calls look with the string under a key. The string is valid during the call. A large string in a header is not
// copied. All that look reads is as of one commit: if blocks change meanwhile, kv.DB.Read repeats the lookup. The
// errors are kv.ErrWrongType and errors of reading.
func Look(r kv.Reader, key []byte, look func(*String) error) error {
	var answer error
	o, err := r.Peek(key, func(value []byte) {
		answer = look(&String{inline: value, there: value != nil})
	})
	switch {
	case err != nil:
		return err
	case o == nil:
		return answer
	}
	return look(InBlocks(r, o))
}

// InBlocks returns a string in blocks, given what String of a kv.Reader or kv.Writer has returned for it.
func InBlocks(from Source, o *kv.Object) *String {
	return &String{from: from, object: o, there: true, expiry: o.Expiry()}
}

// Staged returns the string under a key with a writer's changes.
func Staged(w *kv.Writer, key []byte) (*String, error) {
	value, o, err := w.String(key)
	if err != nil {
		return nil, err
	}
	s := &String{from: w, object: o, inline: value, there: o != nil || value != nil}
	if s.there {
		o, err = w.Object(key)
		s.expiry = o.Expiry()
	}
	return s, err
}

// Exists reports whether there is a string.
func (s *String) Exists() bool { return s.there }

// Len returns the length of the string in bytes, 0 if it is missing.
func (s *String) Len() uint64 {
	if s.object == nil {
		return uint64(len(s.inline))
	}
	return s.from.Counter(s.object.Layers()[0], lengthIndex)
}

// blocks returns the number of blocks that a string of n bytes takes.
func blocksOf(n uint64) uint64 { return (n + blockBytes - 1) / blockBytes }

// part returns the bytes of block blk of the string, up to the string's end; nil if all of them are zero. They are
// valid until the next call.
func (s *String) part(blk uint64) ([]byte, error) {
	n := s.Len()
	if blk >= blocksOf(n) {
		return nil, nil
	}
	if s.ctx != nil && s.ctx.Err() != nil {
		return nil, s.ctx.Err()
	}
	end := min(n, (blk+1)*blockBytes)
	if s.object == nil {
		return s.inline[blk*blockBytes : end], nil
	}
	if s.read != blk+1 {
		layer, i := place(blk)
		words, err := s.load(layer, i)
		if words == nil || err != nil {
			return nil, err
		}
		if s.block == nil {
			s.block = make([]byte, blockBytes)
		}
		for j := range words {
			binary.LittleEndian.PutUint64(s.block[8*j:], atomic.LoadUint64(&words[j]))
		}
		s.read = blk + 1
	}
	return s.block[:end-blk*blockBytes], nil
}

// wordsOf returns block blk of the string, nil if all of it is zero. It may use spare for it.
func (s *String) wordsOf(blk uint64, spare *words) (*words, error) {
	switch n := s.Len(); {
	case blk >= blocksOf(n):
		return nil, nil
	case s.object == nil:
		spare.setBytes(s.inline[blk*blockBytes : min(n, (blk+1)*blockBytes)])
		return spare, nil
	}
	layer, i := place(blk)
	return s.load(layer, i)
}

// load returns block n of a layer, which must be read with atomic loads; nil if nothing is in it.
func (s *String) load(layer int, n uint64) (*words, error) {
	layers := s.object.Layers()
	if layer >= len(layers) {
		return nil, nil
	}
	l := layers[layer]
	if layer == 2 && !marked(func(i int) uint64 { return s.from.Counter(l, i) }, n) {
		return nil, nil
	}
	first, err := s.from.Load(s.object, l, n)
	if err != nil {
		return nil, err
	}
	return (*words)(l.Words(first)), nil
}

// next returns the first block from blk on, below end, that may have a set bit; end if there is none.
func (s *String) next(blk, end uint64) uint64 {
	if s.object == nil {
		return min(blk, end)
	}
	layers := s.object.Layers()
	for blk < end {
		layer, n := place(blk)
		if layer >= len(layers) {
			return end
		}
		if layer < 2 || marked(func(i int) uint64 { return s.from.Counter(layers[2], i) }, n) {
			return blk
		}
		blk += markedBlocks - n%markedBlocks
	}
	return end
}

// Bytes returns a copy of the string.
func (s *String) Bytes() ([]byte, error) { return s.Range(0, s.Len()) }

// Range returns a copy of the bytes from from on, below to, which is at most Len.
func (s *String) Range(from, to uint64) ([]byte, error) {
	if from >= to {
		return []byte{}, nil
	}
	if s.object == nil {
		return append([]byte{}, s.inline[from:to]...), nil
	}
	b := make([]byte, to-from)
	last := blocksOf(to)
	for blk := s.next(from/blockBytes, last); blk < last; blk = s.next(blk+1, last) {
		part, err := s.part(blk)
		if err != nil {
			return nil, err
		}
		start := blk * blockBytes
		if start < from {
			part = part[min(uint64(len(part)), from-start):]
			start = from
		}
		copy(b[start-from:], part)
	}
	return b, nil
}

// Bit reports whether bit n is set.
func (s *String) Bit(n uint64) (bool, error) {
	b, err := s.byteAt(n / 8)
	return b>>(7-n%8)&1 != 0, err
}

// byteAt returns byte i of the string, 0 behind its end.
func (s *String) byteAt(i uint64) (byte, error) {
	if i >= s.Len() {
		return 0, nil
	}
	if s.object == nil {
		return s.inline[i], nil
	}
	layer, blk := place(i / blockBytes)
	words, err := s.load(layer, blk)
	if words == nil || err != nil {
		return 0, err
	}
	return byteOf(words, i), nil
}

// Object returns the object of a string in blocks, nil if the string is in its header or missing.
func (s *String) Object() *kv.Object { return s.object }

// InMemory reports whether bit n is set of a string in blocks that an earlier lookup has found. known is false if the
// object is not what its key maps to now, or if the block is not in memory.
func InMemory(db *kv.DB, o *kv.Object, n uint64) (on, known bool) {
	s := o.Memory().BeginSlots()
	if !s.Usable() {
		return false, false
	}
	layers, i := o.Layers(), n/8
	layer, blk := place(i / blockBytes)
	if layer >= len(layers) || i >= layers[0].Counter(lengthIndex) {
		return false, s.Valid()
	}
	l := layers[layer]
	if db.Sampled(n * 0x9e3779b97f4a7c15 >> 40) {
		db.Touch(o, l, blk)
	}
	first := s.Block(l, blk)
	if first == nil {
		return false, false
	}
	on = byteOf((*words)(l.Words(first)), i)>>(7-n%8)&1 != 0
	return on, s.Valid()
}
