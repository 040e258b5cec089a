package scalableext

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/sievekv/sievekv/internal/probe"
)

func TestParams_MaxLayers(t *testing.T) {
	tests := []struct {
		capacity  uint64
		expansion uint32
		want      int
	}{
		{100, 2, 34},
		{100, 1, 64},
		{100, 0, 1},
		{1, 2, 41},
		{100, 4, 17},
		{1 << 39, 2, 2},
		{1<<39 + 1, 2, 1},
		{probe.MaxCapacity, 2, 1},
		{probe.MaxCapacity, 1, 64},
		{1, MaxExpansion, 3},
	}
	for _, tt := range tests {
		p := Params{Capacity: tt.capacity, ErrorRate: 0.01, Expansion: tt.expansion}
		if got := p.MaxLayers(); got != tt.want {
			t.Errorf("capacity %d, expansion %d: %d layers, want %d", tt.capacity, tt.expansion, got, tt.want)
		}
	}
}

// A chain that can have one layer alone leaves it all of the rate, and layers that have all of it leave none for another.
func TestParams_wholeRate(t *testing.T) {
	for _, p := range []Params{{Capacity: 1<<39 + 1, ErrorRate: 0.01, Expansion: 2}, {Capacity: 100, ErrorRate: 0.01}} {
		if _, rate, err := p.Layer(0); rate != p.ErrorRate || err != nil {
			t.Errorf("%+v: a layer with %v, %v", p, rate, err)
		}
	}
	p := Params{Capacity: 100, ErrorRate: 0.01, Expansion: 2, Growth: Logged}
	for _, rates := range [][]float64{{0.005, 0.005}, {0.02}, {math.NaN()}} {
		if _, rate, err := p.SmallLayer(rates, 100, 0, 0); !errors.Is(err, ErrCannotGrow) {
			t.Errorf("behind %v: a layer with %v, %v", rates, rate, err)
		}
	}
}

// A filter that was loaded from a dump may have several layers though it does not grow.
func TestParams_halving(t *testing.T) {
	for _, expansion := range []uint32{0, 1, 2, MaxExpansion} {
		p := Params{Capacity: probe.MaxCapacity, ErrorRate: 0.01, Expansion: expansion, Growth: Halving}
		if got := p.MaxLayers(); got != MaxLayers {
			t.Errorf("expansion %d: %d layers", expansion, got)
		}
	}
}

// However far a chain grows, the rates of its layers sum to at most the rate asked for, and none exceeds what a layer
// may have.
func TestParams_budget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Params{
			Capacity:  rapid.Uint64Range(1, probe.MaxCapacity).Draw(t, "capacity"),
			ErrorRate: rapid.Float64Range(1e-9, 0.99).Draw(t, "rate"),
			Expansion: rapid.Uint32Range(0, MaxExpansion).Draw(t, "expansion"),
		}
		if rapid.Bool().Draw(t, "small") {
			p.Capacity, p.Expansion = p.Capacity%1000+1, p.Expansion%5
		}
		var sum float64
		var last uint64
		most := p.MaxLayers()
		for i := range most {
			capacity, rate, err := p.Layer(i)
			if err != nil || capacity < max(1, last) || capacity > probe.MaxCapacity || !(rate > 0) {
				t.Fatalf("layer %d of %d has capacity %d after %d and rate %g, %v", i, most, capacity, last, rate, err)
			}
			sum, last = sum+rate, capacity
		}
		if sum > p.ErrorRate*(1+1e-9) {
			t.Errorf("the rates of %d layers sum to %g, above %g", most, sum, p.ErrorRate)
		}
		if _, _, err := p.Layer(most); !errors.Is(err, ErrCannotGrow) {
			t.Errorf("layer %d: error is %v, want %v", most, err, ErrCannotGrow)
		}
	})
}

func TestChainRate(t *testing.T) {
	for _, tt := range []struct {
		layers []float64
		want   float64
	}{
		{nil, 0},
		{[]float64{0}, 0},
		{[]float64{0, 0}, 0},
		{[]float64{0.5, 0.5}, 0.75},
		{[]float64{1e-20, 2e-20}, 3e-20},
		{[]float64{0.5, 1}, 1},
	} {
		got := ChainRate(tt.layers)
		if math.Abs(got-tt.want) > 1e-9*tt.want || math.Signbit(got) {
			t.Errorf("ChainRate(%v) = %v, want %v", tt.layers, got, tt.want)
		}
	}
}

// However a chain grows from its log, and whenever the log ends, the rates of the layers that lookups ask sum to the filter's at
// most, and leave something.
func TestLog_rates(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		p := Params{Capacity: 100, ErrorRate: 0.01, Expansion: 2, Growth: Logged, Log: Log{Limit: 1 << 20}}
		rates, base, items := []float64{firstShare * p.ErrorRate}, 0, uint64(100)
		for range 30 {
			switch {
			case p.Log.Limit != 0 && random.IntN(2) == 0 && len(rates) > base: // the layers that the log covers are replaced
				stay := random.Uint64N(1000) * uint64(base)
				capacity, rate := p.FilledLayer(rates[:base], stay, items, items)
				if capacity != items+max(16, (stay+items)/4) {
					t.Fatalf("a layer of %d for %d items beside %d", capacity, items, stay)
				}
				rates = append(rates[:base], rate)
			case random.IntN(40) == 0:
				p.Log.Limit = 0
			case random.IntN(40) == 0 && len(rates) < 5:
				base = len(rates)
			default:
				capacity, rate, err := p.SmallLayer(rates, items, 0, len(rates)-base)
				if err != nil {
					t.Fatal(err)
				}
				rates, items = append(rates, rate), items+capacity
			}
			sum := 0.0
			for _, rate := range rates {
				sum += rate
			}
			if !(sum < p.ErrorRate) || rates[len(rates)-1] <= 0 {
				t.Fatalf("rates %v sum to %v, asked for %v", rates, sum, p.ErrorRate)
			}
		}
	}
}

// A log is long when half of its hashes are there several times, or a fifth if it may not get much longer.
func TestLog_Long(t *testing.T) {
	for _, tt := range []struct {
		limit, length, items uint64
		want                 bool
	}{
		{1 << 20, 0, 0, false},
		{1 << 20, 2256, 1000, false},
		{1 << 20, 2257, 1000, true},
		{1 << 20, 110_000, 100_000, false},
		{1 << 20, 120_000, 95_000, true},
		{1 << 20, 120_000, 96_000, false},
	} {
		if got := (Log{Limit: tt.limit}).Long(tt.length, tt.items); got != tt.want {
			t.Errorf("a log of %d hashes, at most %d bytes, of %d items is long: %t", tt.length, tt.limit, tt.items, got)
		}
	}
}
