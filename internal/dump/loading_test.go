package dump

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/sievekv/sievekv/kv"
)

// Spans are the bytes that were added, whatever their order, and what is stored of them is read back.
func TestSpans(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var s spans
		var bytes [40]bool
		for range r.IntN(12) {
			from := r.IntN(len(bytes))
			to := from + 1 + r.IntN(len(bytes)-from)
			s = s.add(span{uint64(from), uint64(to)})
			for i := from; i < to; i++ {
				bytes[i] = true
			}
		}
		var want spans
		for i, there := range bytes {
			switch {
			case !there:
			case i > 0 && bytes[i-1]:
				want[len(want)-1].to++
			default:
				want = append(want, span{uint64(i), uint64(i) + 1})
			}
		}
		if len(s) != len(want) || len(s) > 0 && !reflect.DeepEqual(s, want) {
			t.Fatalf("spans %v, want %v", s, want)
		}
		again, err := decodeSpans(s.append(nil))
		if err != nil || len(again) != len(s) || len(s) > 0 && !reflect.DeepEqual(again, s) {
			t.Fatalf("spans %v are read back as %v, %v", s, again, err)
		}
	}
	for _, b := range [][]byte{{1}, {0x80}, {1, 0x80}, {1, 2, 3}} {
		if s, err := decodeSpans(b); !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("%x: %v, %v", b, s, err)
		}
	}
}
