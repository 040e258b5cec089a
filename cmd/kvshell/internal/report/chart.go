package report

import (
	"fmt"
	"math"
	"strings"
)

// Marks are what charts are made of.
type Marks struct {
	full, empty string
	levels      []rune // of a line of heights, the lowest first
}

// ASCII marks can be shown anywhere, Blocks where there is UTF-8.
var (
	ASCII  = &Marks{"#", "-", []rune("_.-=+*#@")}
	Blocks = &Marks{"█", "░", []rune("▁▂▃▄▅▆▇█")}
)

// Charted is a Result that can be drawn, below its text.
type Charted interface{ Chart(m *Marks) string }

// Bar returns a bar of the given width in characters, with a share of it full. A share above 0 has at least one
// character, and only the whole share fills the bar.
func (m *Marks) Bar(share float64, width int) string {
	n := min(max(0, int(share*float64(width))), width)
	if share > 0 && width > 0 {
		n = max(n, 1)
	}
	return strings.Repeat(m.full, n) + strings.Repeat(m.empty, width-n)
}

// Line returns a character for each value, whose height is the value's share of the greatest.
func (m *Marks) Line(values []float64) string {
	most := 0.0
	for _, v := range values {
		most = max(most, v)
	}
	line := make([]rune, len(values))
	for i, v := range values {
		at := 0
		if most > 0 {
			at = int(math.Round(max(0, v) / most * float64(len(m.levels)-1)))
		}
		line[i] = m.levels[at]
	}
	return string(line)
}

// barWidth is the width of a bar of a chart.
const barWidth = 40

// bars returns a chart with a bar for each share, with a blank line before it.
func (m *Marks) bars(rows []bar) string {
	var shown [][2]string
	for _, r := range rows {
		shown = append(shown, [2]string{r.name, fmt.Sprintf("%s %s", m.Bar(r.share, barWidth), r.label)})
	}
	return "\n" + facts(shown)
}

type bar struct {
	name, label string
	share       float64
}

func shareBar(name string, part, whole uint64) bar {
	share := float64(part) / float64(max(1, whole))
	return bar{name, fmt.Sprintf("%.2f %%", 100*share), share}
}

// Chart shows how full the cache is.
func (s *storeStats) Chart(m *Marks) string {
	return m.bars([]bar{shareBar("cache", s.Cache.UsedBytes, s.Cache.BudgetBytes)})
}

// Chart shows how much of its capacity a filter uses, and each of its layers if there are several; "" for another key.
func (s *keyStats) Chart(m *Marks) string {
	row, is := rowOf(s)
	if !is {
		return ""
	}
	rows := []bar{shareBar("items", row.Items, row.Capacity)}
	if len(row.layers) > 1 {
		for i, l := range row.layers {
			rows = append(rows, shareBar(fmt.Sprint("layer ", i), l[0], l[1]))
		}
	}
	return m.bars(rows)
}

// Chart shows how the rate rises while the filter fills, and the bytes of the layers of one that has grown.
func (p *filterPlan) Chart(m *Marks) string {
	const steps = barWidth
	rates := make([]float64, steps)
	for i := range rates {
		items := float64(p.Capacity) * float64(i+1) / steps
		rates[i] = math.Pow(1-math.Exp(-float64(p.Hashes)*items/float64(max(1, p.cells()))), float64(p.Hashes))
	}
	chart := "\n" + facts([][2]string{{"rate, from empty to capacity", m.Line(rates)}})
	if p.Grown == nil || len(p.Grown.Layers) < 2 {
		return chart
	}
	var rows []bar
	for i, l := range p.Grown.Layers {
		b := shareBar(fmt.Sprint("layer ", i), l.Bytes, p.Grown.Bytes)
		b.label += " of the bytes"
		rows = append(rows, b)
	}
	return chart + m.bars(rows)
}

// cells returns what a hash of the filter chooses from.
func (p *filterPlan) cells() uint64 {
	if p.Counters > 0 {
		return p.Counters
	}
	return p.Bits
}

// Chart shows the bytes of the layers of a filter that has grown.
func (p *cuckooPlan) Chart(m *Marks) string {
	if p.Grown == nil || len(p.Grown.Layers) < 2 {
		return ""
	}
	var rows []bar
	for i, l := range p.Grown.Layers {
		b := shareBar(fmt.Sprint("layer ", i), l.Blocks*l.BlockBytes, p.Grown.Bytes)
		b.label += " of the bytes"
		rows = append(rows, b)
	}
	return m.bars(rows)
}
