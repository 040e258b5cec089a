package probe_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/sievekv/sievekv/internal/probe"
)

func TestNewLayout(t *testing.T) {
	for _, c := range [][4]uint64{
		{1, 1, 1, 1},
		{1, 128, 64, 3},
		{1 << 30, 128, 6, 1},
		{1 << 37, 1, 6, 1},
		{7, 65, 13, 2},
	} {
		l, err := probe.NewLayout(c[0], c[1], c[2], c[3])
		if err != nil {
			t.Errorf("%v: %v", c, err)
			continue
		}
		if got := [4]uint64{l.Blocks, uint64(l.Lines), uint64(l.Hashes), uint64(l.LinesPerItem)}; got != c {
			t.Errorf("got %v, want %v", got, c)
		}
		if l.Bits() != c[0]*c[1]*512 || l.BlockWords() != int(c[1])*8 {
			t.Errorf("%v: %d bits, %d words in a block", c, l.Bits(), l.BlockWords())
		}
	}
}

func TestNewLayout_errors(t *testing.T) {
	for _, c := range []struct {
		blocks, lines, hashes, linesPerItem uint64
		want                                string
	}{
		{0, 1, 6, 1, "blocks is 0, want 1 to 137438953472 (of 1 lines)"},
		{1<<30 + 1, 128, 6, 1, "blocks is 1073741825, want 1 to 1073741824 (of 128 lines)"},
		{math.MaxUint64, 128, 6, 1, "blocks is 18446744073709551615"},
		{1, 0, 6, 1, "lines per block is 0, want 1 to 128"},
		{1, 129, 6, 1, "lines per block is 129, want 1 to 128"},
		{1, 1 << 32, 6, 1, "lines per block is 4294967296, want 1 to 128"},
		{1, 8, 0, 1, "hashes is 0, want 1 to 64"},
		{1, 8, 65, 1, "hashes is 65, want 1 to 64"},
		{1, 8, 262, 1, "hashes is 262, want 1 to 64"},
		{1, 8, 6, 0, "lines per item is 0, want 1 to 3"},
		{1, 8, 6, 4, "lines per item is 4, want 1 to 3"},
		{1, 2, 6, 3, "lines per item is 3, want 1 to 2"},
		{1, 8, 1, 2, "lines per item is 2, want 1 to 1"},
	} {
		_, err := probe.NewLayout(c.blocks, c.lines, c.hashes, c.linesPerItem)
		checkError(t, fmt.Sprintf("NewLayout(%d, %d, %d, %d)", c.blocks, c.lines, c.hashes, c.linesPerItem), err, c.want)
	}
}

func TestFromBits(t *testing.T) {
	for _, c := range []struct {
		bits                        uint64
		hashes                      int
		blocks, lines, linesPerItem uint64
	}{
		{1, 1, 1, 1, 1},
		{512, 20, 1, 1, 1},
		{513, 20, 1, 2, 2},
		{1537, 20, 1, 4, 3},
		{65_536, 7, 1, 128, 1},
		{65_536, 8, 1, 128, 2},
		{65_536, 18, 1, 128, 2},
		{65_536, 19, 1, 128, 3},
		{65_537, 7, 2, 65, 1},
		{1e6, 64, 16, 123, 3},
		{probe.MaxBits, 7, 1 << 30, 128, 1},
	} {
		l, err := probe.FromBits(c.bits, c.hashes)
		if err != nil {
			t.Errorf("FromBits(%d, %d): %v", c.bits, c.hashes, err)
			continue
		}
		if want := mustLayout(t, c.blocks, c.lines, uint64(c.hashes), c.linesPerItem); l != want {
			t.Errorf("FromBits(%d, %d): got %+v, want %+v", c.bits, c.hashes, l, want)
		}
	}
}

func TestFromBits_errors(t *testing.T) {
	for _, c := range []struct {
		bits   uint64
		hashes int
		want   string
	}{
		{0, 6, "bits is 0, want 1 to 70368744177664"},
		{probe.MaxBits + 1, 6, "bits is 70368744177665, want 1 to 70368744177664"},
		{1000, 0, "hashes is 0, want 1 to 64"},
		{1000, 65, "hashes is 65, want 1 to 64"},
		{1000, -1, "hashes is -1, want 1 to 64"},
	} {
		_, err := probe.FromBits(c.bits, c.hashes)
		checkError(t, fmt.Sprintf("FromBits(%d, %d)", c.bits, c.hashes), err, c.want)
	}
}

// A header stores the four numbers; a layout made from them again must be the same.
func TestNewLayout_restores(t *testing.T) {
	for _, l := range []probe.Layout{mustSize(t, 100, 0.01), mustSize(t, 1e5, 1e-4), mustSize(t, 1e7, 1e-7)} {
		again := mustLayout(t, l.Blocks, uint64(l.Lines), uint64(l.Hashes), uint64(l.LinesPerItem))
		if again != l {
			t.Errorf("got %+v, want %+v", again, l)
		}
	}
}
