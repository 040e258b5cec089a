package main

import (
	"runtime"
	"slices"
	"time"
)

// side is one of those that are compared.
type side struct {
	name string
	run  func() (float64, error) // measures once, and returns the figure
}

// series are the figures of a side, one for each repetition.
type series []float64

// median returns the middle figure, or the mean of the two in the middle. It is 0 if there is none.
func (s series) median() float64 {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// over returns the ratio to the figure of another side, for each repetition. What a busy machine does to both sides of
// a repetition is not in it.
func (s series) over(other series) (ratios series) {
	for i := range min(len(s), len(other)) {
		if other[i] != 0 {
			ratios = append(ratios, s[i]/other[i])
		}
	}
	return ratios
}

// interleave measures sides in turn, the given number of times. Each repetition begins with another side, so that none
// always follows the same other.
func (b *bench) interleave(reps int, sides ...side) ([]series, error) {
	all := make([]series, len(sides))
	for rep := range reps {
		for i := range sides {
			at := (rep + i) % len(sides)
			if err := b.ctx.Err(); err != nil {
				return nil, err
			}
			b.progress("%s, %d of %d", sides[at].name, rep+1, reps)
			if reps < 10 {
				runtime.GC() // what others left behind is not for this side to collect
			}
			figure, err := sides[at].run()
			if err != nil {
				return nil, err
			}
			all[at] = append(all[at], figure)
		}
	}
	return all, nil
}

// nsEach returns a measurement of n operations: the time of one, in ns. The numbers that op gets go on from one
// measurement to the next.
func nsEach(n int, op func(i uint64) error) func() (float64, error) {
	next := uint64(0)
	return func() (float64, error) {
		begin := time.Now()
		for range n {
			if err := op(next); err != nil {
				return 0, err
			}
			next++
		}
		return float64(time.Since(begin).Nanoseconds()) / float64(n), nil
	}
}

// perSecond returns how many a second n are.
func perSecond(n int, took time.Duration) float64 { return float64(n) / took.Seconds() }

// percentile returns the figure that a share of the figures does not exceed.
func percentile(sorted []time.Duration, share float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(float64(len(sorted))*share), len(sorted)-1)]
}
