package main

import (
	"bytes"
	"math"
	"slices"

	"github.com/wcharczuk/go-chart/v2"
	"github.com/wcharczuk/go-chart/v2/drawing"
)

// plot is a picture of lines.
type plot struct {
	name      string // of the file
	title     string
	x, y      string // what the axes have
	log, logY bool   // both axes, or y alone, have powers of ten at equal distances
	lines     []line
}

// line is one of a plot.
type line struct {
	name string
	x, y []float64
}

func (l *line) add(x, y float64) {
	if y > 0 { // there is no logarithm of 0
		l.x, l.y = append(l.x, x), append(l.y, y)
	}
}

// colors are told apart by most people.
var colors = []string{"0072b2", "d55e00", "009e73", "cc79a7", "e69f00", "56b4e9"}

// svg draws the plot. It returns nothing if no line has two points.
func (p *plot) svg() ([]byte, error) {
	c, ok := p.chart()
	if !ok {
		return nil, nil
	}
	var out bytes.Buffer
	err := c.Render(chart.SVG, &out)
	return out.Bytes(), err
}

func (p *plot) chart() (c chart.Chart, ok bool) {
	c = chart.Chart{
		Title: p.title, TitleStyle: chart.Style{FontSize: 12}, Width: 760, Height: 420,
		Background: chart.Style{Padding: chart.Box{Top: 40, Left: 190, Right: 20, Bottom: 20}},
		XAxis:      chart.XAxis{Name: p.x, ValueFormatter: label},
		YAxis:      chart.YAxis{Name: p.y, ValueFormatter: label},
	}
	var xs, ys []float64 // of all lines
	for i, l := range p.lines {
		if len(l.x) < 2 {
			continue
		}
		x, y := scaled(l.x, p.log), scaled(l.y, p.log || p.logY)
		xs, ys = append(xs, x...), append(ys, y...)
		color := drawing.ColorFromHex(colors[i%len(colors)])
		c.Series = append(c.Series, chart.ContinuousSeries{
			Name: l.name, XValues: x, YValues: y,
			Style: chart.Style{StrokeColor: color, StrokeWidth: 2, DotColor: color, DotWidth: 3},
		})
	}
	if len(xs) == 0 {
		return c, false
	}
	if p.log {
		c.XAxis.Range, c.XAxis.Ticks = powers(xs)
	}
	if p.log || p.logY {
		c.YAxis.Range, c.YAxis.Ticks = powers(ys)
	}
	c.Elements = []chart.Renderable{chart.LegendLeft(&c)}
	return c, true
}

func label(v any) string { return format(v.(float64)) }

// scaled returns the logarithms of figures, if the axis has them.
func scaled(figures []float64, log bool) []float64 {
	if !log {
		return figures
	}
	logs := make([]float64, len(figures))
	for i, x := range figures {
		logs[i] = math.Log10(x)
	}
	return logs
}

// powers returns an axis from a power of ten to another, for logarithms, with a tick at each power.
func powers(logs []float64) (*chart.ContinuousRange, []chart.Tick) {
	low, high := math.Floor(slices.Min(logs)), math.Ceil(slices.Max(logs))
	high = max(high, low+1)
	var ticks []chart.Tick
	for power := low; power <= high; power++ {
		ticks = append(ticks, chart.Tick{Value: power, Label: format(math.Pow(10, power))})
	}
	return &chart.ContinuousRange{Min: low, Max: high}, ticks
}
