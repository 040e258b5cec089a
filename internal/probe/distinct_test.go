package probe_test

import (
	"math"
	"testing"

	"github.com/sievekv/sievekv/internal/probe"
)

// addCounted adds an item and returns how many cells it was the first to set.
func (f *filter) addCounted(h uint64) (set uint64) {
	b, _ := f.layout.Block(h)
	f.buf = f.layout.AppendPositions(f.buf[:0], h)
	for _, p := range f.buf {
		first := int(p) * f.cellBits()
		if word := &f.blocks[b][first/64]; *word>>(first%64)&1 == 0 {
			*word |= 1 << (first % 64)
			set++
		}
	}
	return set
}

func (f *filter) rate() (mean float64) {
	for b := range f.blocks {
		mean += f.blockRate(b) / float64(len(f.blocks))
	}
	return mean
}

// spread is the mean and the deviation of numbers.
type spread struct{ n, sum, squares float64 }

func (s *spread) add(x float64) { s.n, s.sum, s.squares = s.n+1, s.sum+x, s.squares+x*x }

func (s *spread) mean() float64 { return s.sum / s.n }

func (s *spread) deviation() float64 {
	return math.Sqrt(max(0, s.squares/s.n-s.mean()*s.mean()))
}

// The mean and the deviation are exact. Over many layers they are off by at most four standard errors; the deviation's
// standard error is 1/sqrt(2n) of it. The estimate for the mean is the number of items added.
func TestExpectedSet(t *testing.T) {
	for i, tt := range []struct {
		layout probe.Layout
		items  int
	}{
		{mustLayout(t, 1, 1, 6, 1), 50},
		{mustLayout(t, 1, 2, 6, 1), 100},
		{mustLayout(t, 1, 3, 10, 2), 100},
		{mustLayout(t, 2, 20, 10, 2), 1200},
		{mustLayout(t, 5, 4, 19, 3), 300},
		{mustLayout(t, 1, 4, 1, 1), 1000},
		{mustLayout(t, 3, 1, 2, 1), 700},
		{mustSizeCounters(t, 100, 0.01), 100},
		{mustSizeCounters(t, 5, 0.25), 12},
	} {
		f, hashes, set := newFilter(tt.layout), splitmix(i)<<56, spread{}
		for range 2000 {
			f.clear()
			ones := uint64(0)
			for range tt.items {
				ones += f.addCounted(hashes.next())
			}
			set.add(float64(ones))
		}
		mean, deviation := tt.layout.ExpectedSet(float64(tt.items))
		if math.Abs(set.mean()-mean) > 4*deviation/math.Sqrt(set.n) {
			t.Errorf("%+v: %d items set %.3f cells, want %.3f", tt.layout, tt.items, set.mean(), mean)
		}
		if math.Abs(set.deviation()-deviation) > 4*deviation/math.Sqrt(2*set.n) {
			t.Errorf("%+v: %d items set cells with a deviation of %.3f, want %.3f", tt.layout, tt.items, set.deviation(), deviation)
		}
		if n := tt.layout.DistinctItems(uint64(math.Round(mean))); math.Abs(n-float64(tt.items)) > 1 {
			t.Errorf("%+v: %.0f cells are estimated to be of %.2f items, want %d", tt.layout, mean, n, tt.items)
		}
	}
}

// A layer of one line is a classic filter, and large layers do not lose digits.
func TestExpectedSet_edges(t *testing.T) {
	l := mustLayout(t, 1, 1, 6, 1)
	if mean, _ := l.ExpectedSet(50); math.Abs(mean-512*(1-math.Pow(511./512, 300))) > 1e-9 {
		t.Errorf("one line: %v", mean)
	}
	if mean, deviation := l.ExpectedSet(0); mean != 0 || deviation != 0 {
		t.Errorf("no items: %v, %v", mean, deviation)
	}
	large := mustSize(t, probe.MaxCapacity, 0.01)
	mean, deviation := large.ExpectedSet(probe.MaxCapacity)
	if perItem := mean / probe.MaxCapacity; perItem < 4 || perItem > 6 || !(deviation > 1e5 && deviation < 1e7) {
		t.Errorf("%d items set %v bits, deviation %v", uint64(probe.MaxCapacity), mean, deviation)
	}
	if n := large.DistinctItems(uint64(mean)); math.Abs(n/probe.MaxCapacity-1) > 1e-9 {
		t.Errorf("%v bits are of %v items", mean, n)
	}
	for _, set := range []uint64{0, 1, 5, 511, 512} {
		n, rate := l.DistinctItems(set), l.SetRate(set)
		if !(n >= 0 && n < 1000) || !(rate >= 0 && rate <= 1) || (rate == 0) != (set == 0) || (rate == 1) != (set == 512) {
			t.Errorf("%d bits: %v items, rate %v", set, n, rate)
		}
	}
}

// A layer that is given distinct items until it is full has the rate that FullRate returns. That is at most the rate
// that it was made for, and the layer got at least as many items as it has capacity. The bounds are four standard
// errors over many layers, plus 1 % of the rate for the formula.
func TestFullRate(t *testing.T) {
	for i, size := range []func(uint64, float64) (probe.Layout, error){probe.Size, probe.SizeCounters} {
		for _, rate := range []float64{0.25, 0.2, 0.1, 0.05, 0.01, 1e-3} {
			for _, capacity := range []uint64{1, 2, 10, 30, 100, 176, 1000, 10_000} {
				layout, err := size(capacity, rate)
				if err != nil {
					t.Fatal(err)
				}
				f, hashes, rates := newFilter(layout), splitmix(i)<<56+splitmix(capacity)<<40, spread{}
				full, early, layers := layout.FullSet(capacity), 0, min(500, 40_000/capacity)
				for range layers {
					f.clear()
					var tried, added, set uint64
					for ; added < capacity && set < full; tried++ {
						if n := f.addCounted(hashes.next()); n > 0 {
							added, set = added+1, set+n
						}
					}
					if tried < capacity {
						early++
					}
					rates.add(f.rate())
				}
				mean, stdErr := rates.mean(), rates.deviation()/math.Sqrt(rates.n)
				if want := layout.FullRate(capacity); math.Abs(mean-want) > 4*stdErr+0.01*want || want > rate {
					t.Errorf("%d cells for %d items at %g: full at a rate of %.4g, standard error %.2g, want %.4g",
						layout.Cells(), capacity, rate, mean, stdErr, want)
				}
				if mean > rate+4*stdErr || early > 0 {
					t.Errorf("%d cells for %d items: full at a rate of %.4g, made for %g; %d of %d were full early",
						layout.Cells(), capacity, mean, rate, early, layers)
				}
			}
		}
	}
}

// Of n distinct items, those that set no bit are not counted as new.
func TestTriedItems(t *testing.T) {
	for i, rate := range []float64{0.25, 0.1, 0.01} {
		const items = 20_000
		layout := mustSize(t, items, rate)
		f, hashes, added := newFilter(layout), splitmix(i)<<56, uint64(0)
		for range items {
			if f.addCounted(hashes.next()) > 0 {
				added++
			}
		}
		// Their number is as good as Poisson: the bound is four deviations.
		if got := layout.TriedItems(added); math.Abs(got-items) > 4*math.Sqrt(items-float64(added))+1 {
			t.Errorf("%g: %d new of %d items, estimated are %.1f", rate, added, items, got)
		}
	}
	l := mustLayout(t, 1, 1, 1, 1)
	if n := l.TriedItems(0); n != 0 {
		t.Errorf("none new: %v", n)
	}
	if n := l.TriedItems(100_000); !math.IsInf(n, 1) {
		t.Errorf("more than there are bits: %v", n)
	}
}
