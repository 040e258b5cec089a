package main

import (
	"bytes"

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

// svg draws the plot.
func (p *plot) svg() ([]byte, error) {
	c := chart.Chart{
		Title: p.title, Width: 760, Height: 420,
		Background: chart.Style{Padding: chart.Box{Top: 40, Left: 190, Right: 20, Bottom: 20}},
		XAxis:      chart.XAxis{Name: p.x, ValueFormatter: label},
		YAxis:      chart.YAxis{Name: p.y, ValueFormatter: label},
	}
	low, high := bounds(p.lines)
	if p.log {
		c.XAxis.Range = &chart.LogarithmicRange{}
	}
	if p.log || p.logY {
		c.YAxis.Range = &chart.LogarithmicRange{Min: low, Max: high}
	}
	for i, l := range p.lines {
		if len(l.x) < 2 {
			continue
		}
		color := drawing.ColorFromHex(colors[i%len(colors)])
		c.Series = append(c.Series, chart.ContinuousSeries{
			Name: l.name, XValues: l.x, YValues: l.y,
			Style: chart.Style{StrokeColor: color, StrokeWidth: 2, DotColor: color, DotWidth: 3},
		})
	}
	if len(c.Series) == 0 {
		return nil, nil
	}
	c.Elements = []chart.Renderable{chart.LegendLeft(&c)}
	var out bytes.Buffer
	err := c.Render(chart.SVG, &out)
	return out.Bytes(), err
}

func label(v any) string { return format(v.(float64)) }

// bounds returns the lowest and the highest figure of all lines.
func bounds(lines []line) (low, high float64) {
	for _, l := range lines {
		for _, y := range l.y {
			if low == 0 || y < low {
				low = y
			}
			high = max(high, y)
		}
	}
	return low, high
}
