package dashboard

import (
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/kv"
)

// fill is how full the blocks of a filter are: of some blocks, evenly chosen, if it has many.
type fill struct {
	Layers  []fillLayer
	Summary string
	Age     string

	at time.Time
}

// fillLayer is a layer with its blocks as squares of a drawing.
type fillLayer struct {
	Blocks        int
	Name          string
	Squares       []square
	Width, Height int
}

// square is a block. Shade is 0 to 9, relative to the fullest and the emptiest block of the filter.
type square struct {
	X, Y, Shade int
	Title       string

	block uint64
	share float64
}

// fills has the fills that were read last, so that a page that is asked for again and again reads blocks once in a while.
type fills struct {
	mu   sync.Mutex
	kept map[string]*fill // guarded by mu; the fills do not change
}

const (
	mostBlocks = 256 // that are read for a page
	perLine    = 32  // squares
	side       = 10  // of a square
	fillFresh  = 30 * time.Second
	keptFills  = 32
)

// of returns the fill of a filter, and reads it again if it is too old. Requests for others wait meanwhile: one page at
// a time reads blocks.
func (s *fills) of(d *Dashboard, key string, now time.Time) (*fill, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.kept[key]
	if f == nil || now.Sub(f.at) >= fillFresh {
		var err error
		if f, err = d.readFill(key); err != nil || f == nil {
			return nil, err
		}
		f.at = now
		if s.kept == nil || len(s.kept) >= keptFills {
			s.kept = make(map[string]*fill)
		}
		s.kept[key] = f
	}
	shown := *f
	shown.Age = showSpan(max(0, now.Sub(f.at)))
	return &shown, nil
}

// readFill reads blocks as of one commit. They do not stay in memory.
func (d *Dashboard) readFill(key string) (f *fill, err error) {
	err = d.db.ReadWith(kv.ReadOptions{Long: true}, func(r kv.Reader) error {
		o, err := r.Lookup([]byte(key))
		if err != nil || o == nil {
			return err
		}
		f = &fill{}
		layers := slices.DeleteFunc(slices.Clone(o.Layers()), func(l *kv.Layer) bool { return l.Spec().Layout == kv.LayoutLog })
		for i, l := range layers[:min(len(layers), mostBlocks/2)] {
			one, err := readLayer(r, o, l, mostBlocks/min(len(layers), mostBlocks/2))
			if err != nil {
				return err
			}
			one.Name = fmt.Sprintf("layer %d, %s", i, many(one.Blocks, "block"))
			f.Layers = append(f.Layers, one)
		}
		return nil
	})
	if f != nil {
		f.shade()
	}
	return f, err
}

// readLayer reads most blocks of a layer.
func readLayer(r kv.Reader, o *kv.Object, l *kv.Layer, most int) (f fillLayer, err error) {
	all := l.Spec().Blocks
	n := int(min(all, uint64(most)))
	f = fillLayer{Blocks: int(min(all, 1<<62)), Width: side * min(n, perLine), Height: side * ((n + perLine - 1) / perLine)}
	for i := range n {
		blk := uint64(float64(all) * float64(i) / float64(n))
		first, err := r.Load(o, l, blk)
		if err != nil {
			return f, err
		}
		f.Squares = append(f.Squares, square{X: side * (i % perLine), Y: side * (i / perLine), block: blk, share: shareSet(l.Words(first), o.Family())})
	}
	return f, nil
}

// shareSet returns the share of a block's bits, or slots, that are not 0. Others may be setting them.
func shareSet(words []uint64, family block.Family) float64 {
	own := make([]uint64, len(words))
	ones := 0
	for i := range words {
		own[i] = atomic.LoadUint64(&words[i])
		ones += bits.OnesCount64(own[i])
	}
	if family == block.FamilyBits {
		return float64(ones) / float64(64*len(own))
	}
	slots, taken := family.Slots(len(own)/block.LineWords), 0
	for i := range slots {
		if block.SlotAt(own, family, i) != 0 {
			taken++
		}
	}
	return float64(taken) / float64(slots)
}

// shade sets how dark the squares are, and what the fill is in words.
func (f *fill) shade() {
	least, most, sum, n, all := 1.0, 0.0, 0.0, 0, 0
	for _, l := range f.Layers {
		all += l.Blocks
		for _, s := range l.Squares {
			least, most, sum, n = min(least, s.share), max(most, s.share), sum+s.share, n+1
		}
	}
	if n == 0 {
		f.Summary = "It has no blocks."
		return
	}
	for i := range f.Layers {
		for j := range f.Layers[i].Squares {
			s := &f.Layers[i].Squares[j]
			if s.Shade = int(9.99 * s.share); most > least && most-least < 0.5 {
				s.Shade = int(9.99 * (s.share - least) / (most - least))
			}
			s.Title = fmt.Sprintf("block %s: %s", count(s.block), percent(s.share))
		}
	}
	of := fmt.Sprintf("All of %s", many(n, "block"))
	if n < all {
		of = fmt.Sprintf("%s of %s blocks, evenly chosen", count(n), count(all))
	}
	f.Summary = fmt.Sprintf("%s: the emptiest is %s full, the fullest %s, the mean is %s.", of, percent(least), percent(most), percent(sum/float64(n)))
}
