package bitmapext

import (
	"fmt"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/format"
	"github.com/sievekv/sievekv/kv"
)

// The stored form of a string in blocks. Block n of the string has its bytes from n*8,192 on, in slots of 8 bits. The
// blocks are in up to three layers. A layer is made when a byte that is not zero first needs it, or one after it. So an
// object that is open takes little memory while the string is short.
//
//	layer  blocks of the string
//	0      0
//	1      1 to 63
//	2      64 to 65,536
//
// The parameters of the header are the encoding, and nothing else. A layer has no parameters. Counter 0 of layer 0 is
// the length of the string in bytes. The counters of layer 2 are 512 marks, the first the lowest bit of counter 0. Mark
// i is set if one of the layer's blocks from 128*i to 128*i+127 may have a set bit. So what reads a whole string can
// leave out what was never written.
const (
	blockBytes  = block.Size
	lengthIndex = 0 // of the counter of layer 0

	firstOfLayer1 = 1
	firstOfLayer2 = 64
	maxBlocks     = 65_537 // 512 MiB, and 8 bytes that a BITFIELD at the last bit may need
	markedBlocks  = 128
)

// layerBlocks are the numbers of blocks of the layers.
var layerBlocks = [...]uint64{firstOfLayer1, firstOfLayer2 - firstOfLayer1, maxBlocks - firstOfLayer2}

// MaxInline is the length up to which a string that is changed in place stays in its header, in bytes.
const MaxInline = 1024

// MaxLen is the length of the longest string, in bytes, as in Redis.
const MaxLen = 512 << 20

// MaxBit is the greatest number of a bit that commands take.
const MaxBit = MaxLen*8 - 1

// place returns the layer that has a block of a string, and the block's number in that layer.
func place(blk uint64) (layer int, n uint64) {
	switch {
	case blk < firstOfLayer1:
		return 0, blk
	case blk < firstOfLayer2:
		return 1, blk - firstOfLayer1
	}
	return 2, blk - firstOfLayer2
}

// layersFor returns the layers of a string that has something in block blk, and nothing beyond.
func layersFor(blk uint64) []kv.LayerSpec {
	last, _ := place(blk)
	layers := make([]kv.LayerSpec, last+1)
	for i := range layers {
		layers[i] = layerSpec(i)
	}
	return layers
}

func layerSpec(i int) kv.LayerSpec {
	return kv.LayerSpec{Number: uint64(i), Layout: format.LayoutNative, Blocks: layerBlocks[i], Lines: block.MaxLines}
}

// Type returns the type of strings in blocks, for the module that has the commands on strings.
func Type() *kv.Type { return stringType }

var stringType = &kv.Type{
	Name: format.StringType, Version: format.StringVersion,
	Open: open, Value: value, Check: checkLength, Verify: verify, Describe: describe,
}

func open(o *kv.Object) (any, error) {
	if p := o.Params(); len(p) != 1 || p[0] != format.EncodingBlocks {
		return nil, fmt.Errorf("%w: string in blocks: encoding %x, this program knows %d", kv.ErrUnsupportedVersion, p[:min(2, len(p))], format.EncodingBlocks)
	}
	layers := o.Layers()
	if o.Family() != block.FamilySlots8 || len(layers) < 1 || len(layers) > len(layerBlocks) {
		return nil, format.Corruptf("string in blocks: %d layers of %v", len(layers), o.Family())
	}
	for i, l := range layers {
		if s, want := l.Spec(), layerSpec(i); s.Number != want.Number || s.Layout != want.Layout || s.Blocks != want.Blocks || s.Lines != want.Lines || len(s.Params) > 0 {
			return nil, format.Corruptf("string in blocks: layer %d is %+v, want %+v", i, s, want)
		}
	}
	return new(lineTable), nil
}

// checkLength is the Check of the type.
func checkLength(o *kv.Object, counter func(l *kv.Layer, i int) uint64) error {
	n := counter(o.Layers()[0], lengthIndex)
	if n > maxBlocks*blockBytes {
		return format.Corruptf("string in blocks: length %d, want at most %d", n, maxBlocks*blockBytes)
	}
	return nil
}

// value returns the bytes of a string in blocks.
func value(r kv.Reader, o *kv.Object) ([]byte, error) {
	return InBlocks(r, o).Bytes()
}

func describe(r kv.Reader, o *kv.Object) (kv.Description, error) {
	n := r.Counter(o.Layers()[0], lengthIndex)
	return kv.Description{Bytes: n, Facts: kv.FactList{kv.IntFact("length", n)}}, nil
}

// verifier finds what cannot be in a string in blocks.
type verifier struct {
	object *kv.Object
	end    uint64 // behind the last byte that is not zero
}

func verify(o *kv.Object) kv.Verifier { return &verifier{object: o} }

// Block looks at one block.
func (v *verifier) Block(l *kv.Layer, n uint64, words []uint64) error {
	last := len(words) - 1
	for last >= 0 && words[last] == 0 {
		last--
	}
	if last < 0 {
		return nil
	}
	layer, blk := int(l.Spec().Number), n
	switch layer {
	case 1:
		blk += firstOfLayer1
	case 2:
		blk += firstOfLayer2
		if !marked(l.Counter, n) && !v.object.Lossy() { // its marks may be older than its blocks
			return format.Corruptf("string in blocks: block %d has set bits, but no mark says so", blk)
		}
	}
	end := blk*blockBytes + uint64(last)*8
	for w := words[last]; w != 0; w >>= 8 {
		end++
	}
	v.end = max(v.end, end)
	return nil
}

// Done compares the length with what the blocks have.
func (v *verifier) Done() (note string, err error) {
	n := v.object.Layers()[0].Counter(lengthIndex)
	if n <= MaxInline || v.end > n {
		return "", format.Corruptf("string in blocks: length %d, %d up to the last byte that is not zero", n, v.end)
	}
	return "", nil
}

// marked reports whether the mark of block n of layer 2 is set. counter returns a counter of that layer.
func marked(counter func(i int) uint64, n uint64) bool {
	m := n / markedBlocks
	return counter(int(m/64))>>(m%64)&1 != 0
}
