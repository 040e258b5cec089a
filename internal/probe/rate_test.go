package probe_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/sievekv/sievekv/internal/probe"
)

// A measured rate has two parts: how full the lines are, and whether the probes of absent items are spread evenly and
// independently over them. Each part is compared with its expectation.
//
// The fill: a block's own rate follows from the bits set in its lines (filter.blockRate). The mean over many blocks
// must be ExpectedRate. Blocks are as good as independent, so the standard error is their standard deviation divided
// by the root of their number.
//
// The probes: the number of hits among absent items must be what the filters' own rates say. Only the binomial error
// is left, as good as Poisson: the root of the number of hits.
//
// The seeds are fixed. The bounds are 4 standard errors, for the fill plus 0.3 % of the rate for what the formula
// neglects: the third moment of the fill.
func TestExpectedRate_measured(t *testing.T) {
	for i, c := range []measurement{
		{rate: 0.03, items: 100, filters: 4000, probes: 2e6},
		{rate: 0.03, items: 1e4, filters: 40, probes: 2e6},
		{rate: 0.03, items: 1e6, filters: 1, probes: 2e6},
		{rate: 1e-2, items: 100, filters: 4000, probes: 4e6},
		{rate: 1e-2, items: 1e4, filters: 40, probes: 4e6},
		{rate: 1e-2, items: 1e6, filters: 1, probes: 4e6},
		{rate: 7e-3, items: 100, filters: 4000, probes: 4e6},
		{rate: 1e-3, items: 100, filters: 4000, probes: 5e6},
		{rate: 1e-3, items: 1e4, filters: 40, probes: 5e6},
		{rate: 1e-3, items: 1e6, filters: 1, probes: 5e6},
		{rate: 1e-4, items: 100, filters: 2000, probes: 1e7},
		{rate: 1e-4, items: 1e4, filters: 40, probes: 1e7},
		{rate: 1e-4, items: 1e6, filters: 1, probes: 5e6},
		{rate: 1e-6, items: 100, filters: 2000, probes: 5e6},
		{rate: 1e-6, items: 1e4, filters: 40, probes: 2e7},
		{rate: 1e-6, items: 1e6, filters: 1, probes: 5e6},
	} {
		t.Run(fmt.Sprintf("%g/%d", c.rate, c.items), func(t *testing.T) {
			t.Parallel()
			layout := mustSize(t, c.items, c.rate)
			c.run(layout, splitmix(i)<<56)
			mean, stdErr := c.fillRate()
			if want := layout.ExpectedRate(c.items); math.Abs(mean-want) > 4*stdErr+0.003*want {
				t.Errorf("%+v: rate by fill is %.4g, standard error %.2g, want ExpectedRate %.4g", layout, mean, stdErr, want)
			}
			if math.Abs(c.hits-c.wantHits) > 4*math.Sqrt(c.wantHits) {
				t.Errorf("%+v: %v hits among %v absent items, want %.0f", layout, c.hits, c.probes, c.wantHits)
			}
			if mean > c.rate {
				t.Errorf("%+v: rate by fill is %.4g, above the %g asked for", layout, mean, c.rate)
			}
		})
	}
}

// measurement fills filters and probes them for absent items.
type measurement struct {
	rate    float64
	items   uint64
	filters int
	probes  int // in all filters together

	blocks, sum, squares float64 // of the rates of the blocks by their fill
	hits, wantHits       float64
}

func (m *measurement) run(l probe.Layout, seed splitmix) {
	added, absent := seed, seed|1<<55
	f := newFilter(l)
	for range m.filters {
		f.clear()
		for range m.items {
			f.add(added.next())
		}
		probes := m.probes / m.filters
		for b := range f.blocks {
			rate := f.blockRate(b)
			m.blocks++
			m.sum += rate
			m.squares += rate * rate
			m.wantHits += rate * float64(probes) / float64(len(f.blocks))
		}
		for range probes {
			if f.mayContain(absent.next()) {
				m.hits++
			}
		}
	}
}

func (m *measurement) fillRate() (mean, stdErr float64) {
	mean = m.sum / m.blocks
	return mean, math.Sqrt((m.squares/m.blocks - mean*mean) / m.blocks)
}

// Every small capacity, by the fill of 200 filters each: the mean stays below the rate asked for.
func TestExpectedRate_smallMeasured(t *testing.T) {
	for _, rate := range []float64{0.25, 0.01, 1e-3} {
		for items := uint64(1); items <= 120; items++ {
			m := measurement{items: items, filters: 200}
			m.run(mustSize(t, items, rate), splitmix(items)<<56)
			if mean, stdErr := m.fillRate(); mean > rate+4*stdErr {
				t.Errorf("%d items: rate by fill is %.4g, standard error %.2g, want at most %g", items, mean, stdErr, rate)
			}
		}
	}
}

// A layer of one line is a classic filter, whose rate is known exactly. It is a sum over d: the chance that k probes
// hit d different bits, times the chance, by inclusion and exclusion, that all of those are set.
func TestExpectedRate_oneLine(t *testing.T) {
	for _, c := range []struct {
		items  uint64
		hashes uint64
	}{
		{10, 6}, {50, 6}, {52, 7}, {35, 10}, {26, 13}, {200, 3}, {1000, 1},
	} {
		l := mustLayout(t, 1, 1, c.hashes, 1)
		want := classicRate(512, int(c.items*c.hashes), int(c.hashes))
		if got := l.ExpectedRate(c.items); math.Abs(got-want) > 0.002*want {
			t.Errorf("%d items, %d hashes: got %.5g, want %.5g", c.items, c.hashes, got, want)
		}
	}
}

func classicRate(bits float64, throws, probes int) float64 {
	different := make([]float64, probes+1) // [d] is the chance that the probes so far hit d different bits
	different[0] = 1
	for range probes {
		for d := probes; d > 0; d-- {
			different[d] = different[d]*float64(d)/bits + different[d-1]*(bits-float64(d-1))/bits
		}
		different[0] = 0
	}
	rate := 0.0
	for d, chance := range different {
		allSet, choose := 0.0, 1.0
		for j := range d + 1 {
			allSet += choose * math.Pow(1-float64(j)/bits, float64(throws))
			choose *= -float64(d-j) / float64(j+1)
		}
		rate += chance * allSet
	}
	return rate
}

func TestExpectedRate_edges(t *testing.T) {
	l := mustSize(t, 1000, 0.01)
	for _, c := range []struct {
		name     string
		items    uint64
		low, top float64
	}{
		{"empty", 0, 0, 0},
		{"one item", 1, 1e-14, 1e-11},
		{"full", 1000, 0.008, 0.01},
		{"twice", 2000, 0.09, 0.25},
		{"hundredfold", 100_000, 1, 1},
		{"all there are", math.MaxUint64, 1, 1},
	} {
		if got := l.ExpectedRate(c.items); got < c.low || got > c.top {
			t.Errorf("%s: got %v, want %v to %v", c.name, got, c.low, c.top)
		}
	}
}

func TestExpectedRate_grows(t *testing.T) {
	for _, l := range []probe.Layout{
		mustLayout(t, 1, 1, 6, 1),
		mustLayout(t, 1, 2, 10, 2),
		mustLayout(t, 1, 4, 19, 3),
		mustLayout(t, 1, 128, 13, 2),
		mustLayout(t, 500, 97, 19, 3),
		mustLayout(t, 1, 3, 64, 1),
	} {
		last := 0.0
		for n := uint64(1); n < 1<<20; n += 1 + n/8 {
			rate := l.ExpectedRate(n)
			if !(rate >= last && rate <= 1) {
				t.Fatalf("%+v: rate %v for %d items after %v for fewer", l, rate, n, last)
			}
			last = rate
		}
		if last != 1 && l.Blocks == 1 {
			t.Errorf("%+v: rate %v when overfull, want 1", l, last)
		}
	}
}

// At 2^40 items, one in 2^24 hashes belongs to an item.
func TestExpectedRate_equalHashes(t *testing.T) {
	l, err := probe.FromBits(probe.MaxBits, 20)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := l.ExpectedRate(1<<40), 1.0/(1<<24); got < want || got > 1.1*want {
		t.Errorf("got %v, want a little above %v", got, want)
	}
}
