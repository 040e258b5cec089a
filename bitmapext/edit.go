package bitmapext

import (
	"context"
	"sync/atomic"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/kv"
)

// mostStaged is the most bytes that are staged one by one. If more bytes of a string change, it is written as a new
// object, ahead of the commit.
const mostStaged = 64 << 10

// few reports whether n bytes may be staged one by one. Most take a byte or two of the commit, and no more than four.
func few(w *kv.Writer, n int) bool {
	return n <= MaxInline || n <= min(mostStaged, w.Room()/4)
}

// SetRange stages a string with the bytes from offset on overwritten, after zeros if the string is shorter than offset,
// and returns its new length. An empty part changes nothing. The key keeps its expiry. The errors are
// kv.ErrStringTooLong, kv.ErrWrongType and errors of writing.
func SetRange(ctx context.Context, w *kv.Writer, key []byte, offset uint64, part []byte) (length uint64, err error) {
	s, err := Staged(w, key)
	if err != nil {
		return 0, err
	}
	if len(part) == 0 {
		return s.Len(), nil
	}
	return s.setRange(ctx, w, key, offset, part)
}

// Append stages a string with tail appended, and returns its new length. As in Redis, an empty tail is written too: a
// missing key is made, and watchers of the key are told. It returns the errors of SetRange.
func Append(ctx context.Context, w *kv.Writer, key, tail []byte) (length uint64, err error) {
	s, err := Staged(w, key)
	if err != nil {
		return 0, err
	}
	return s.setRange(ctx, w, key, s.Len(), tail)
}

func (s *String) setRange(ctx context.Context, w *kv.Writer, key []byte, offset uint64, part []byte) (uint64, error) {
	n := s.Len()
	if offset > MaxLen || offset+uint64(len(part)) > MaxLen {
		return 0, kv.ErrStringTooLong
	}
	end := offset + uint64(len(part))
	n = max(n, end)
	if !few(w, len(part)) {
		var now words
		b := make([]byte, 0, blockBytes)
		return n, s.rebuild(ctx, w, key, n, s.expiry, func(blk uint64) (*words, error) {
			old, err := s.wordsOf(blk, &now)
			start := blk * blockBytes
			if err != nil || end <= start || offset >= start+blockBytes {
				return old, err
			}
			now.set(old)
			b = now.appendBytes(b[:0], blockBytes)
			if offset >= start {
				copy(b[offset-start:], part)
			} else {
				copy(b, part[start-offset:])
			}
			now.setBytes(b)
			return &now, nil
		})
	}
	e, err := s.edit(ctx, w, key, n)
	if err != nil {
		return 0, err
	}
	if err := e.put(offset, part); err != nil {
		return 0, err
	}
	return n, e.done()
}

// SetBit stages a string with a bit set or cleared, and returns what the bit was. A string that is too short gets zeros
// up to the byte of the bit. It returns the errors of SetRange.
func SetBit(ctx context.Context, w *kv.Writer, key []byte, n uint64, on bool) (was bool, err error) {
	s, err := Staged(w, key)
	if err != nil {
		return false, err
	}
	b, err := s.byteAt(n / 8)
	bit := byte(0x80) >> (n % 8)
	if was = b&bit != 0; err != nil || was == on && n/8 < s.Len() {
		return was, err
	}
	e, err := s.edit(ctx, w, key, n/8+1)
	if err != nil {
		return false, err
	}
	b &^= bit
	if on {
		b |= bit
	}
	if err := e.put(n/8, []byte{b}); err != nil {
		return false, err
	}
	return was, e.done()
}

// editor stages changes of single bytes of a string.
type editor struct {
	w   *kv.Writer
	key []byte
	s   *String

	inline  []byte // the changed string, if it stays in its header
	wrote   bool   // bytes, the same ones perhaps, or the length
	changed bool   // bytes in blocks
	slots   []block.Slot
}

// edit begins changes of a string, which is made as long as least says. The caller changes bytes below that, and then
// calls done.
func (s *String) edit(ctx context.Context, w *kv.Writer, key []byte, least uint64) (*editor, error) {
	n := max(s.Len(), least)
	e := &editor{w: w, key: key, s: s, wrote: n != s.Len() || !s.there}
	if s.object == nil && n <= MaxInline {
		e.inline = make([]byte, n)
		copy(e.inline, s.inline)
		return e, nil
	}
	if s.object == nil {
		if err := s.intoBlocks(ctx, w, key, n); err != nil {
			return nil, err
		}
	}
	last, _ := place((n - 1) / blockBytes)
	for i := len(s.object.Layers()); i <= last; i++ {
		grown, err := w.Grow(s.object, layerSpec(i))
		if err != nil {
			return nil, err
		}
		s.object = grown
	}
	if n != s.Len() {
		w.SetCounter(s.object.Layers()[0], lengthIndex, n)
		w.TogetherOnly()
	}
	return e, nil
}

// intoBlocks stages a string that is in its header as one of n bytes in blocks.
func (s *String) intoBlocks(ctx context.Context, w *kv.Writer, key []byte, n uint64) error {
	if !few(w, len(s.inline)) {
		var spare words
		return s.rebuild(ctx, w, key, n, s.expiry, func(blk uint64) (*words, error) { return s.wordsOf(blk, &spare) })
	}
	o, err := w.Create(key, specOf(n, s.expiry))
	if err != nil {
		return err
	}
	w.SetCounter(o.Layers()[0], lengthIndex, n)
	from := s.inline
	*s = String{from: w, object: o, there: true, expiry: s.expiry}
	e := &editor{w: w, key: key, s: s}
	return e.put(0, from)
}

func specOf(n uint64, expiry int64) kv.Spec {
	return kv.Spec{
		Type: stringType, Family: block.FamilySlots8, Layers: layersFor((n - 1) / blockBytes),
		Params: []byte{format.EncodingBlocks}, Expiry: expiry,
	}
}

// rebuild stages a string of n bytes in blocks in place of what is under the key. content returns a block, nil
// if all of it is zero. s is then the new string.
func (s *String) rebuild(ctx context.Context, w *kv.Writer, key []byte, n uint64, expiry int64, content func(blk uint64) (*words, error)) error {
	o, err := w.Build(ctx, key, specOf(n, expiry), func(b *kv.Builder) error {
		layers := b.Object().Layers()
		var marks [8]uint64
		for blk := range blocksOf(n) {
			words, err := content(blk)
			if err != nil {
				return err
			}
			if words == nil || !words.some() {
				continue
			}
			layer, i := place(blk)
			if err := b.Put(layers[layer], i, words[:]); err != nil {
				return err
			}
			if layer == 2 {
				marks[i/markedBlocks/64] |= 1 << (i / markedBlocks % 64)
			}
		}
		w.SetCounter(layers[0], lengthIndex, n)
		for i, m := range marks {
			if m != 0 {
				w.SetCounter(layers[2], i, m)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	*s = String{from: w, object: o, there: true, expiry: expiry}
	return nil
}

// read copies bytes of the changed string, from offset on, to b. Those behind its end are zero.
func (e *editor) read(offset uint64, b []byte) error {
	if e.inline != nil {
		clear(b)
		if offset < uint64(len(e.inline)) {
			copy(b, e.inline[offset:])
		}
		return nil
	}
	for i := range b {
		var err error
		if b[i], err = e.s.byteAt(offset + uint64(i)); err != nil {
			return err
		}
	}
	return nil
}

// byteOf returns byte i of a string, which is in the block of the words.
func byteOf(words *words, i uint64) byte {
	i %= blockBytes
	return byte(atomic.LoadUint64(&words[i/8]) >> (i % 8 * 8))
}

// put changes bytes of the string, which is long enough for them.
func (e *editor) put(offset uint64, part []byte) error {
	e.wrote = true
	if e.inline != nil {
		copy(e.inline[offset:], part)
		return nil
	}
	for len(part) > 0 {
		n := min(uint64(len(part)), blockBytes-offset%blockBytes)
		if err := e.putInBlock(offset, part[:n]); err != nil {
			return err
		}
		offset, part = offset+n, part[n:]
	}
	return nil
}

func (e *editor) putInBlock(offset uint64, part []byte) error {
	layer, blk := place(offset / blockBytes)
	l := e.s.object.Layers()[layer]
	first, err := e.w.Load(e.s.object, l, blk)
	if err != nil {
		return err
	}
	words := (*words)(l.Words(first))
	e.slots = e.slots[:0]
	for i, b := range part {
		at := offset + uint64(i)
		if byteOf(words, at) != b {
			e.slots = append(e.slots, block.Slot{Index: uint16(at % blockBytes), Value: uint32(b)})
		}
	}
	if len(e.slots) == 0 {
		return nil
	}
	e.changed = true
	if layer == 2 && !marked(func(i int) uint64 { return e.w.Counter(l, i) }, blk) {
		m := blk / markedBlocks
		i := int(m / 64)
		e.w.SetCounter(l, i, e.w.Counter(l, i)|1<<(m%64))
		e.w.TogetherOnly()
	}
	return e.w.SetSlots(e.s.object, l, blk, e.slots)
}

// done ends the changes. As in Redis, watchers of the key are told of written bytes even if they are the same.
func (e *editor) done() error {
	if !e.wrote {
		return nil
	}
	if e.inline != nil {
		_, err := e.w.Set(e.key, e.inline, kv.SetOptions{KeepTTL: true})
		return err
	}
	if !e.changed {
		length := e.s.object.Layers()[0]
		e.w.SetCounter(length, lengthIndex, e.w.Counter(length, lengthIndex))
	}
	return nil
}
