package probe_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/sievekv/sievekv/internal/probe"
)

// The numbers come from the Poisson formula without the correction for dependent loads, computed independently; the
// correction adds up to 0.05 bits.
func TestPlan_bits(t *testing.T) {
	for _, c := range []struct {
		rate                 float64
		linesPerItem, hashes int
		bits                 float64
	}{
		{1e-2, 1, 6, 9.92},
		{1e-3, 2, 10, 14.63},
		{1e-4, 2, 13, 19.82},
		{1e-6, 2, 18, 31.09},
		{1e-6, 3, 19, 29.72},
	} {
		bits, k := probe.PlanBits(c.rate, c.linesPerItem, 0)
		if k != c.hashes || math.Abs(bits-c.bits) > 0.05 {
			t.Errorf("%g, %d lines: got %.3f bits, k = %d, want %v, k = %d", c.rate, c.linesPerItem, bits, k, c.bits, c.hashes)
		}
	}
}

func TestPlan_bestHashes(t *testing.T) {
	for _, rate := range []float64{0.25, 0.01, 1e-5} {
		for g := 1; g <= 3; g++ {
			got, k := probe.PlanBits(rate, g, 0)
			for other := max(g, k-10); other <= k+10; other++ {
				if bits, _ := probe.PlanBits(rate, g, other); bits < got {
					t.Errorf("%g, %d lines: %.4f bits with k = %d, but %.4f with %d", rate, g, got, k, bits, other)
				}
			}
		}
	}
}

// A large layer needs at most 10 % more than a classic filter, whose bits per item are ln(1/rate)/ln(2)^2.
func TestSize_large(t *testing.T) {
	for _, c := range []struct {
		rate                 float64
		hashes, linesPerItem uint8
	}{
		{0.25, 2, 1},
		{0.03, 5, 1},
		{0.01, 6, 1},
		{0.007, 7, 1},
		{0.005, 7, 1},
		{0.0049, 8, 2},
		{1e-3, 10, 2},
		{1e-4, 13, 2},
		{1.01e-6, 18, 2},
		{1e-6, 19, 3},
		{1e-8, 25, 3},
	} {
		l := mustSize(t, 1e9, c.rate)
		classic := -math.Log(c.rate) / (math.Ln2 * math.Ln2)
		perItem := float64(l.Bits()) / 1e9
		if l.Hashes != c.hashes || l.LinesPerItem != c.linesPerItem || perItem > 1.1*classic {
			t.Errorf("%g: got %+v with %.2f bits per item, want k = %d, g = %d and at most %.2f",
				c.rate, l, perItem, c.hashes, c.linesPerItem, 1.1*classic)
		}
	}
}

func TestSize_expectedRate(t *testing.T) {
	capacities := []uint64{1e5, 123_457, 1e6, 1e7 + 1, 1e9, 1e12, probe.MaxCapacity}
	for n := uint64(1); n < 20_000; n += 1 + n/20 {
		capacities = append(capacities, n)
	}
	for _, rate := range []float64{0.99, 0.25, 0.1, 0.01, 0.007, 0.005, 0.0049, 1e-3, 1e-4, 1.01e-6, 1e-6, 2e-7} {
		perItem := bitsPerItem(t, rate)
		for _, n := range capacities {
			l := mustSize(t, n, rate)
			if got := l.ExpectedRate(n); got > min(rate, 0.25) {
				t.Errorf("Size(%d, %g): expected rate is %g in %+v", n, rate, got, l)
			}
			// A small layer may need more than the share of a large one: a line each for rounding up the layer and
			// every block, one more for uneven shares among few lines, and room for equal hashes.
			most := float64(n)*perItem*1.1 + 512*float64(l.Blocks+2)
			if float64(l.Bits()) > most {
				t.Errorf("Size(%d, %g): %d bits in %+v, want at most %.0f", n, rate, l.Bits(), l, most)
			}
		}
	}
}

func bitsPerItem(t *testing.T, rate float64) float64 {
	l := mustSize(t, 1e8, rate)
	return float64(l.Bits()) / 1e8
}

// Two blocks of 65 lines hold what one of 128 does not.
func TestSize_equalBlocks(t *testing.T) {
	for _, c := range []struct {
		capacity      uint64
		blocks, lines uint64
	}{
		{1, 1, 1},
		{100, 1, 2},
		{6_550, 1, 128},
		{6_600, 2, 65},
		{13_200, 3, 86},
		{100_000, 16, 122},
	} {
		l := mustSize(t, c.capacity, 0.01)
		if l.Blocks != c.blocks || uint64(l.Lines) != c.lines {
			t.Errorf("%d items: got %d blocks of %d lines, want %d of %d", c.capacity, l.Blocks, l.Lines, c.blocks, c.lines)
		}
	}
}

func TestSize_fewLines(t *testing.T) {
	for _, c := range []struct {
		capacity            uint64
		lines, linesPerItem uint64
	}{
		{10, 1, 1}, {20, 2, 2}, {40, 3, 3}, {100, 7, 3},
	} {
		l := mustSize(t, c.capacity, 1e-7)
		if uint64(l.Lines) != c.lines || uint64(l.LinesPerItem) != c.linesPerItem {
			t.Errorf("%d items: got %+v, want %d lines, %d for an item", c.capacity, l, c.lines, c.linesPerItem)
		}
	}
}

func TestSize_lowestRate(t *testing.T) {
	for _, n := range []uint64{1, 100, 1e6, 1e9, probe.MaxCapacity} {
		lowest := 2 / 0.9 * float64(n) / (1 << 64)
		l := mustSize(t, n, lowest)
		if got := l.ExpectedRate(n); got > lowest {
			t.Errorf("%d items: expected rate is %g, want %g", n, got, lowest)
		}
	}
}

func TestSize_errors(t *testing.T) {
	for _, c := range []struct {
		capacity uint64
		rate     float64
		want     []string
	}{
		{0, 0.01, []string{"capacity is 0", "1 to 1099511627776"}},
		{1<<40 + 1, 0.01, []string{"capacity is 1099511627777", "1 to 1099511627776"}},
		{100, 0, []string{"error rate is 0", "at least 1.21e-17", "below 1"}},
		{100, 1, []string{"error rate is 1", "below 1"}},
		{100, -0.5, []string{"error rate is -0.5"}},
		{100, math.NaN(), []string{"error rate is NaN"}},
		{100, math.Inf(1), []string{"error rate is +Inf"}},
		{1e8, 1e-11, []string{"error rate is 1e-11", "at least 1.21e-11", "capacity of 100000000"}},
	} {
		_, err := probe.Size(c.capacity, c.rate)
		checkError(t, fmt.Sprintf("Size(%d, %v)", c.capacity, c.rate), err, c.want...)
	}
}

func checkError(t *testing.T, call string, err error, want ...string) {
	t.Helper()
	if !errors.Is(err, probe.ErrParams) {
		t.Errorf("%s: got error %v, want ErrParams", call, err)
		return
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: error %q lacks %q", call, err, w)
		}
	}
}

// Requests that share the entries of the memos must not get each other's layouts.
func TestSize_concurrent(t *testing.T) {
	const requests = 600
	ask := func(i uint64) (uint64, float64) { return 1 + i%500, 1 / float64(5+i%19) }
	alone := make([]probe.Layout, requests)
	for i := range alone {
		n, rate := ask(uint64(i))
		alone[i] = mustSize(t, n, rate)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i, want := range alone {
				n, rate := ask(uint64(i))
				if got, err := probe.Size(n, rate); err != nil || got != want {
					t.Errorf("Size(%d, %g): got %+v, %v, want %+v", n, rate, got, err, want)
				}
			}
		})
	}
	wg.Wait()
}
