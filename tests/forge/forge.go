// Package forge changes headers of filters and strings as an attacker with knowledge of the formats would: single
// numbers become others, while everything around them stays right. Tests put right checksums around what it makes, and
// give it to everything that takes a filter from outside.
package forge

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/sievekv/sievekv/internal/block"
	"github.com/sievekv/sievekv/internal/format"
)

// Counters are the counters of each layer of a header.
type Counters = [][format.NumCounters]uint64

// Forger makes changes. The same seed makes the same ones.
type Forger struct{ r *rand.Rand }

// New returns a Forger for a seed.
func New(seed uint64) *Forger { return &Forger{rand.New(rand.NewPCG(seed, 0))} }

// Header changes a header, and the counters of its layers, in one to four places.
func (f *Forger) Header(h *format.Header, counters Counters) (*format.Header, Counters) {
	changed := *h
	changed.Params, changed.Layers = slices.Clone(h.Params), slices.Clone(h.Layers)
	for i := range changed.Layers {
		changed.Layers[i].Params = slices.Clone(changed.Layers[i].Params)
	}
	counters = slices.Clone(counters)
	for range 1 + f.r.IntN(4) {
		counters = f.once(&changed, counters)
	}
	return &changed, counters
}

func (f *Forger) once(h *format.Header, counters Counters) Counters {
	if len(h.Layers) == 0 {
		h.Params = f.Bytes(h.Params)
		return counters
	}
	i := f.r.IntN(len(h.Layers))
	switch l := &h.Layers[i]; f.r.IntN(12) {
	case 0, 1, 2:
		h.Params = f.Bytes(h.Params)
	case 3, 4:
		l.Params = f.Bytes(l.Params)
	case 5, 6, 7:
		n := f.r.IntN(format.NumCounters)
		counters[i][n] = f.Number(counters[i][n])
	case 8:
		l.Blocks = f.Number(l.Blocks)
	case 9:
		f.layer(l)
	case 10:
		f.object(h)
	default:
		return f.layers(h, counters, i)
	}
	return counters
}

func (f *Forger) layer(l *format.LayerSpec) {
	switch f.r.IntN(3) {
	case 0:
		l.Number = f.Number(l.Number)
	case 1:
		l.Layout = uint8(f.r.IntN(6))
	default:
		l.Lines = uint32(f.r.IntN(block.MaxLines + 2))
	}
}

func (f *Forger) object(h *format.Header) {
	switch f.r.IntN(4) {
	case 0:
		h.Family = block.Family(f.r.IntN(16))
	case 1:
		h.TypeVersion = uint8(f.r.IntN(3))
	case 2:
		h.TypeName = []string{"MBbloom--", "MBbloomCF", "CBloom---"}[f.r.IntN(3)]
	default:
		h.Lossy = !h.Lossy
	}
}

// layers repeats a layer, with the next number, or leaves it out.
func (f *Forger) layers(h *format.Header, counters Counters, i int) Counters {
	if f.r.IntN(2) == 0 {
		h.Layers = slices.Delete(h.Layers, i, i+1)
		return slices.Delete(counters, i, i+1)
	}
	again := h.Layers[i]
	again.Number = h.Layers[len(h.Layers)-1].Number + 1
	again.Params = slices.Clone(again.Params)
	h.Layers = append(h.Layers, again)
	return append(counters, counters[i])
}

// Bytes changes a byte, a word of 8 bytes, or a uvarint.
func (f *Forger) Bytes(b []byte) []byte {
	if len(b) == 0 {
		return append(b, byte(f.r.Uint32()))
	}
	at := f.r.IntN(len(b))
	switch f.r.IntN(4) {
	case 0:
		b[at] = byte(f.Number(uint64(b[at])))
	case 1:
		if len(b) >= 8 {
			at = min(at, len(b)-8)
			binary.LittleEndian.PutUint64(b[at:], f.word(binary.LittleEndian.Uint64(b[at:])))
		}
	default:
		v, n := binary.Uvarint(b[at:])
		if n > 0 {
			rest := slices.Clone(b[at+n:])
			b = append(binary.AppendUvarint(b[:at], f.Number(v)), rest...)
		}
	}
	return b
}

// Words returns a function that changes about one number in n, or bytes that may be the bits of a rate.
func (f *Forger) Words(one int) func(uint64) uint64 {
	return func(v uint64) uint64 {
		if f.r.IntN(one) == 0 {
			return f.word(v)
		}
		return v
	}
}

// word returns another number, or the bits of a rate.
func (f *Forger) word(v uint64) uint64 {
	if f.r.IntN(2) == 0 {
		return f.Number(v)
	}
	rates := []float64{0, 5e-324, 1e-300, 1e-18, 1e-9, 0.3, 0.999, math.Nextafter(1, 0), 1, 2, -0.1, math.Inf(1), math.NaN()}
	return math.Float64bits(rates[f.r.IntN(len(rates))])
}

// Number returns another number in place of one: near it, near a power of two, a limit, or any.
func (f *Forger) Number(v uint64) uint64 {
	switch f.r.IntN(6) {
	case 0:
		return v + uint64(f.r.IntN(5)) - 2
	case 1:
		return v << f.r.IntN(20)
	case 2, 3:
		return 1<<f.r.IntN(64) + uint64(f.r.IntN(3)) - 1
	case 4:
		return []uint64{0, 1, math.MaxUint64, math.MaxInt64, math.MaxUint32, 1 << 40, 1<<40 + 1, 1 << 30, 1<<30 + 1}[f.r.IntN(9)]
	}
	return f.r.Uint64() >> f.r.IntN(64)
}
