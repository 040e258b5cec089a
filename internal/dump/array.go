package dump

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/kv"
)

// A layer is an array of bytes: its blocks one after another. Dumps have it as it is. In a layer with the compatible
// layout byte j of the array is byte j%8192 of block j/8192.

const (
	lineLen  = block.LineBits / 8
	blockLen = block.MaxLines * lineLen
)

// Stretch is what lies in one block of a range of bytes of a layer: the bytes From to To-1 of the block.
type Stretch struct{ Block, From, To uint64 }

// StretchAt returns the first stretch of the bytes at to end-1 of a layer with the compatible layout. At must be below end.
func StretchAt(at, end uint64) Stretch { return stretchAt(at, end, blockLen) }

func stretchAt(at, end, blockLen uint64) Stretch {
	from := at % blockLen
	return Stretch{at / blockLen, from, min(from+end-at, blockLen)}
}

// blockLenOf returns the number of bytes of each block of a layer.
func blockLenOf(l *kv.Layer) uint64 { return uint64(l.Spec().Lines) * lineLen }

// Len returns the number of bytes.
func (p Stretch) Len() uint64 { return p.To - p.From }

// Loader is a kv.Reader or a *kv.Writer.
type Loader interface {
	Load(o *kv.Object, l *kv.Layer, blk uint64) (*kv.Line, error)
}

// appendTo appends the stretch of a block. Other goroutines may change the block meanwhile.
func (p Stretch) appendTo(dst []byte, words []uint64) []byte {
	var word [8]byte
	for from := p.From; from < p.To; {
		binary.LittleEndian.PutUint64(word[:], atomic.LoadUint64(&words[from/8]))
		n := min(8-from%8, p.To-from)
		dst = append(dst, word[from%8:from%8+n]...)
		from += n
	}
	return dst
}

// LayerBytes returns the bytes at to end-1 of a layer, with room for a checksum behind them. It calls charge with their
// number first, and returns its error.
func LayerBytes(r Loader, o *kv.Object, l *kv.Layer, at, end uint64, charge func(bytes int) error) ([]byte, error) {
	if err := charge(int(end - at)); err != nil {
		return nil, err
	}
	b := make([]byte, 0, end-at+dumpSumLen)
	for at < end {
		p := stretchAt(at, end, blockLenOf(l))
		first, err := r.Load(o, l, p.Block)
		if err != nil {
			return nil, err
		}
		b = p.appendTo(b, l.Words(first))
		at += p.Len()
	}
	return b, nil
}

// EachStretch calls change for each block that data, which begins at a byte of a layer, overlaps. It passes the present
// bytes and the bytes of data. Both are valid during the call.
func EachStretch(r Loader, o *kv.Object, l *kv.Layer, at uint64, data []byte, change func(p Stretch, was, is []byte) error) error {
	var was []byte
	for end := at + uint64(len(data)); at < end; {
		p := stretchAt(at, end, blockLenOf(l))
		first, err := r.Load(o, l, p.Block)
		if err != nil {
			return err
		}
		was = p.appendTo(was[:0], l.Words(first))
		if err := change(p, was, data[:p.Len()]); err != nil {
			return err
		}
		at, data = at+p.Len(), data[p.Len():]
	}
	return nil
}
