package portable

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/sievekv/sievekv/bitmapext"
	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
)

// types are data types by the name of their module.
type types map[string][]*kv.Type

// own returns the types that every store has.
var own = sync.OnceValue(func() types {
	t := types{format.BuiltInModule: {bitmapext.Type()}}
	for _, m := range []module.Module{bloomext.Module(), cuckooext.Module(), countingext.Module()} {
		t[m.Name] = m.Types
	}
	return t
})

// of returns the type that a header names. The error is kv.ErrNoModule.
func (t types) of(h *format.Header) (*kv.Type, error) {
	for _, list := range t {
		if i := slices.IndexFunc(list, func(t *kv.Type) bool { return t.Name == h.TypeName }); i >= 0 {
			return list[i], nil
		}
	}
	return nil, fmt.Errorf("%w: the file has a %s of module %q", kv.ErrNoModule, h.TypeName, h.Module)
}

// sink takes what a file has. Each field may be nil.
type sink struct {
	load  func(l *kv.Layer, blk uint64) (*kv.Line, error) // of reading.from
	block func(layer int, blk uint64, words []uint64) error
	bytes func(part []byte)
}

// reading is the reading of one file.
type reading struct {
	ctx  context.Context
	in   decoder
	sink sink
	info Info

	c        *contents
	typ      *kv.Type   // nil for a string in one piece
	object   *kv.Object // likewise
	from     kv.Reader  // of the object
	verifier kv.Verifier
	words    []uint64
	layer    int    // of the last block
	next     uint64 // the block behind it
	total    uint64 // blocks or bytes
}

// read reads a file to its end, and checks all of it.
func read(ctx context.Context, from io.Reader, t types) (Info, error) {
	r := newReading(ctx, from)
	err := r.open(t)
	if err == nil {
		err = r.rest()
	}
	r.info.FileBytes = r.in.at
	return r.info, err
}

func newReading(ctx context.Context, from io.Reader) *reading {
	return &reading{ctx: ctx, in: decoder{r: bufio.NewReaderSize(from, chunkSize)}}
}

// open reads a file up to the header chunk, and opens the object. The errors are ErrDamaged, kv.ErrUnsupportedVersion,
// kv.ErrNoModule, and errors of reading.
func (r *reading) open(t types) error {
	if err := r.in.prefix(); err != nil {
		return err
	}
	return r.header(t)
}

// rest reads a file to its end after open, and gives its content to the sink. The sink must not use the content if rest
// returns an error. The errors are ErrDamaged, and errors of the sink, of reading and of the context.
func (r *reading) rest() error {
	for {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		start := r.in.at
		kind, payload, err := r.in.next()
		if err != nil {
			return err
		}
		switch {
		case kind == kindBlocks && r.object != nil:
			err = r.blocks(start, payload)
		case kind == kindBytes && r.object == nil && len(payload) > 0:
			if r.total += uint64(len(payload)); r.total > bitmapext.MaxLen {
				return damaged(start, "string of more than %d bytes", bitmapext.MaxLen)
			}
			if r.sink.bytes != nil {
				r.sink.bytes(payload)
			}
		case kind == kindEnd:
			return r.end(start, payload)
		default:
			err = damaged(start, "chunk of kind %d and %d bytes", kind, len(payload))
		}
		if err != nil {
			return err
		}
	}
}

// header reads the header chunk, and opens the object.
func (r *reading) header(t types) error {
	start := r.in.at
	kind, payload, err := r.in.next()
	if err != nil {
		return err
	}
	if kind != kindHeader {
		return damaged(start, "chunk of kind %d, want the header", kind)
	}
	if r.c, err = decodeContents(payload); err != nil {
		return inFile(start, err)
	}
	h := r.c.header
	if r.info.Type = h.TypeName; r.c.inline() {
		return nil
	}
	if r.typ, err = t.of(h); err != nil {
		return err
	}
	load := func(l *kv.Layer, blk uint64) (*kv.Line, error) { return r.sink.load(l, blk) }
	if r.object, r.from, err = kv.Detached(r.typ, h, r.c.counters, load); err != nil {
		return inFile(start, err)
	}
	if r.typ.Verify != nil {
		r.verifier = r.typ.Verify(r.object)
	}
	if r.typ.Describe == nil {
		return nil
	}
	d, err := r.typ.Describe(r.from, r.object)
	if err != nil {
		return inFile(start, err)
	}
	r.info.Bytes, r.info.Facts = d.Bytes, d.Facts
	if h.Lossy {
		r.info.Facts = append(kv.FactList{kv.NewFact("lossy", true)}, d.Facts...)
	}
	return nil
}

// inFile returns an error that decoding has returned as one about the file.
func inFile(at int64, err error) error {
	if errors.Is(err, kv.ErrUnsupportedVersion) {
		return err
	}
	return damaged(at, "%v", err)
}

// blocks reads a chunk of blocks, which begins at start.
func (r *reading) blocks(start int64, payload []byte) error {
	if len(payload) == 0 {
		return damaged(start, "chunk without blocks")
	}
	f := fields{rest: payload}
	for len(f.rest) > 0 {
		layer, blk := f.uvarint(), f.uvarint()
		value := f.bytes(f.uvarint())
		layers := r.object.Layers()
		switch {
		case f.bad:
			return damaged(start, "block cut short")
		case layer >= uint64(len(layers)) || blk >= layers[layer].Spec().Blocks:
			return damaged(start, "block %d of layer %d, which the file does not have", blk, layer)
		case int(layer) < r.layer || int(layer) == r.layer && blk < r.next:
			return damaged(start, "block %d of layer %d comes after block %d of layer %d", blk, layer, r.next-1, r.layer)
		}
		r.layer, r.next = int(layer), blk+1
		if err := r.oneBlock(layers[layer], blk, value); err != nil {
			if !errors.Is(err, block.ErrCorrupt) && !errors.Is(err, kv.ErrCorrupt) {
				return err
			}
			return damaged(start, "block %d of layer %d: %v", blk, layer, err)
		}
		r.total++
	}
	return nil
}

func (r *reading) oneBlock(l *kv.Layer, blk uint64, value []byte) error {
	n := int(l.Spec().Lines) * block.LineWords
	r.words = slices.Grow(r.words[:0], n)[:n]
	info, err := block.Decode(r.words, r.object.Family(), value)
	switch {
	case err != nil:
		return err
	case info.Kind != block.KindSparse && info.Kind != block.KindDense:
		return fmt.Errorf("%w: %v in place of a block", block.ErrCorrupt, info.Kind)
	}
	if r.verifier != nil {
		if err := r.verifier.Block(l, blk, r.words); err != nil {
			return err
		}
	}
	if r.sink.block == nil {
		return nil
	}
	return r.sink.block(r.layer, blk, r.words)
}

// end reads the end chunk, which begins at start, and checks that all of the object was there.
func (r *reading) end(start int64, payload []byte) error {
	f := fields{rest: payload}
	if n := f.uvarint(); f.bad || len(f.rest) > 0 || n != r.total {
		return damaged(start, "the end is for %d blocks or bytes, there were %d", n, r.total)
	}
	switch n, err := io.ReadFull(r.in.r, make([]byte, 1)); {
	case n > 0:
		return damaged(r.in.at, "more bytes follow the end")
	case !cutShort(err):
		return err
	}
	if r.verifier != nil {
		note, err := r.verifier.Done()
		switch {
		case err != nil && r.c.header.Lossy: // its counters may count what was lost
			note = fmt.Sprintf("lossy: %v", err)
		case err != nil:
			return inFile(start, err)
		}
		r.info.Note = note
	}
	if r.object != nil {
		r.info.Blocks = r.total
	} else {
		r.info.Bytes = r.total
	}
	r.info.Whole = true
	return nil
}

// Info describes a file.
type Info struct {
	Type      string      // as the command TYPE prints it
	Bytes     uint64      // that the layers have room for, or of a string
	Blocks    uint64      // in the file; others are zeros
	FileBytes int64       // up to the end, or to where it is damaged
	Facts     kv.FactList // that the type tells, see kv.KeyStats
	Note      string      // what is unlikely, see kv.CheckReport
	Whole     bool        // all of it was read, and every checksum holds
}

// Describe reads a file without a store, checks all of it, and describes it. With an error, the Info has the facts
// found before it. The errors are ErrDamaged, kv.ErrUnsupportedVersion for a file of a newer version, kv.ErrNoModule
// for a type that is not built in, and errors of reading.
func Describe(ctx context.Context, r io.Reader) (Info, error) { return read(ctx, r, own()) }
