package dashboard

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// chart is a chart over time, or over another number, as its template draws it. Positions are in units of the drawing, from the upper
// left corner.
type chart struct {
	Title, Summary string // the summary says in words what the lines show
	Lines          []line
	X, Y           []tick
	Empty          bool
	Mark           *point // where the filter is now, nil for none

	place func(v float64) float64 // where a value is on the Y axis; nil if Empty
}

// line is one of at most four lines, each with its own colour and dashes.
type line struct {
	Name, Last, Path string
	Class            int
}

type tick struct {
	At    float64
	Label string
}

type point struct{ X, Y float64 }

// The drawing has a left margin for labels and a lower one.
const (
	chartLeft, chartRight = 52.0, 352.0
	chartTop, chartFloor  = 8.0, 122.0
	buckets               = 150 // points of a line
)

// curve is what a line is drawn from: values from left to right, NaN for a gap.
type curve struct {
	name   string
	values []float64
}

// past returns the values of a ring at equal times from span ago until now; what falls into one place is averaged.
func past[T uint64 | float32](times []int64, ring []T, now time.Time, span time.Duration) []float64 {
	sums, counts := make([]float64, buckets), make([]int, buckets)
	times = times[len(times)-min(len(times), len(ring)):] // a filter's past may begin later
	ring = ring[len(ring)-len(times):]
	start := now.Add(-span).UnixMilli()
	for i, at := range times {
		place := int(float64(at-start) / float64(span.Milliseconds()) * buckets)
		if v := float64(ring[i]); place >= 0 && at >= start && !math.IsNaN(v) {
			place = min(place, buckets-1)
			sums[place] += v
			counts[place]++
		}
	}
	for i := range sums {
		sums[i] /= float64(counts[i]) // NaN for none
	}
	return sums
}

// chartItems is the title of the chart of a filter's items.
const chartItems = "Items"

// newChart draws curves over the same range. show shows a value.
func newChart(title string, x []tick, show func(float64) string, step func(top float64) float64, curves ...curve) *chart {
	c := &chart{Title: title, X: x, Empty: true}
	top, least := 0.0, math.Inf(1)
	for _, one := range curves {
		for _, v := range one.values {
			if !math.IsNaN(v) {
				top, least, c.Empty = max(top, v), min(least, v), false
			}
		}
	}
	if c.Empty {
		c.Summary = title + ": nothing yet."
		return c
	}
	by, floor := step(top), 0.0
	if c.Title == chartItems { // which hardly change, beside how many they are
		by = step(top - least)
		floor = math.Floor(least/by) * by
	}
	ceiling := math.Max(math.Ceil(top/by), floor/by+2) * by
	c.place = func(v float64) float64 {
		return math.Round(10*(chartFloor-(v-floor)/(ceiling-floor)*(chartFloor-chartTop))) / 10
	}
	for n := 0; n <= int(math.Round((ceiling-floor)/by)); n++ {
		v := floor + float64(n)*by
		c.Y = append(c.Y, tick{c.place(v), show(v)})
	}
	var said []string
	for i, one := range curves {
		last := "–"
		if v, ok := lastOf(one.values); ok {
			last = show(v)
		}
		c.Lines = append(c.Lines, line{one.name, last, pathOf(one.values, c.place), i + 1})
		said = append(said, one.name+" "+last)
	}
	c.Summary = fmt.Sprintf("%s: now %s; from %s to %s in the time shown.", title, strings.Join(said, ", "), show(least), show(top))
	return c
}

func lastOf(values []float64) (v float64, ok bool) {
	for i := len(values) - 1; i >= 0; i-- {
		if !math.IsNaN(values[i]) {
			return values[i], true
		}
	}
	return 0, false
}

// pathOf returns a path in SVG through values, with gaps where there are none. A value between gaps is a dot.
func pathOf(values []float64, place func(float64) float64) string {
	var b strings.Builder
	pen := false
	for i, v := range values {
		if math.IsNaN(v) {
			pen = false
			continue
		}
		x := chartLeft + (chartRight-chartLeft)*(float64(i)+0.5)/float64(len(values))
		if pen {
			fmt.Fprintf(&b, "L%.1f %.1f", x, place(v))
		} else {
			fmt.Fprintf(&b, "M%.1f %.1fh0", x, place(v))
		}
		pen = true
	}
	return b.String()
}

// round10 returns a step of 1, 2 or 5 times a power of ten so that there are three to six steps up to top.
func round10(top float64) float64 {
	if top <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(top/5)))
	for _, m := range []float64{1, 2, 5, 10} {
		if top/(m*power) <= 5 {
			return m * power
		}
	}
	return 10 * power
}

// whole is round10 for what is counted.
func whole(top float64) float64 { return max(1, round10(top)) }

// round2 is round10 for bytes: 1, 2 or 5 of a unit, tenfold, or a hundredfold.
func round2(top float64) float64 {
	unit := 1.0
	for top/unit >= 1024 {
		unit *= 1024
	}
	return max(1, round10(top/unit)*unit)
}

// timeTicks are the ticks of the time before now.
func timeTicks(span time.Duration) (x []tick) {
	labels := []string{"60 min ago", "45", "30", "15", "now"}
	if span > time.Hour {
		labels = []string{"24 h ago", "18", "12", "6", "now"}
	}
	for i, label := range labels {
		x = append(x, tick{chartLeft + (chartRight-chartLeft)*float64(i)/float64(len(labels)-1), label})
	}
	return x
}

// choice says which part of the history is shown.
type choice struct {
	Day  bool
	span time.Duration
	at   int // in history.spans
}

func chosen(r *request) choice {
	if r.FormValue("span") == "day" {
		return choice{true, coarsePeriod * coarseLength, 1}
	}
	return choice{false, finePeriod * fineLength, 0}
}
