package main

import (
	"bytes"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// picture is a plot of lines.
type picture struct {
	name      string // of the file
	title     string // what is measured
	x, y      string // what the axes have, with units
	log, logY bool   // both axes, or y alone, have powers of ten at equal distances
	lines     []line
}

// line is one of a picture.
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
var colors = []color.RGBA{
	{R: 0x00, G: 0x72, B: 0xb2, A: 255}, {R: 0xd5, G: 0x5e, B: 0x00, A: 255}, {R: 0x00, G: 0x9e, B: 0x73, A: 255},
	{R: 0xcc, G: 0x79, B: 0xa7, A: 255}, {R: 0xe6, G: 0x9f, B: 0x00, A: 255}, {R: 0x56, G: 0xb4, B: 0xe9, A: 255},
}

const (
	pictureWidth  = 760 * vg.Inch / 96
	pictureHeight = 420 * vg.Inch / 96
)

// svg draws the picture. It returns nothing if no line has two points.
func (p *picture) svg() ([]byte, error) {
	drawn, err := p.plot()
	if drawn == nil || err != nil {
		return nil, err
	}
	canvas := vgsvg.New(pictureWidth, pictureHeight)
	page := draw.New(canvas)
	page.SetColor(color.White)
	page.Fill(page.Rectangle.Path())
	drawn.Draw(draw.Crop(page, 6, -16, 6, -8))
	var out bytes.Buffer
	_, err = canvas.WriteTo(&out)
	return bytes.ReplaceAll(out.Bytes(), []byte("font-family:Liberation Sans"), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif")), err
}

// plot returns the axes, the lines and the legend. It is nil if no line has two points.
func (p *picture) plot() (*plot.Plot, error) {
	plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"}
	c := plot.New()
	c.Title.Text, c.X.Label.Text, c.Y.Label.Text = p.title, p.x, p.y
	c.Title.TextStyle.Font.Size, c.Title.Padding = font.Points(13), font.Points(8)
	c.Add(grid())
	c.X.Tick.Marker, c.Y.Tick.Marker = ticks{}, ticks{}
	if p.log {
		c.X.Scale, c.X.Tick.Marker = plot.LogScale{}, powers{}
	}
	if p.log || p.logY {
		c.Y.Scale, c.Y.Tick.Marker = plot.LogScale{}, powers{}
	}
	// The legend is below, where no line is: those with powers on both axes rise, the others fall.
	c.Legend.Left, c.Legend.XOffs, c.Legend.YOffs, c.Legend.Padding = true, font.Points(12), font.Points(8), font.Points(3)
	if p.log {
		c.Legend.XOffs = pictureWidth * 0.55
	}
	c.Legend.TextStyle.Font.Size, c.Legend.ThumbnailWidth = font.Points(10), font.Points(20)
	drawn := 0
	for i, l := range p.lines {
		if len(l.x) < 2 {
			continue
		}
		points := make(plotter.XYs, len(l.x))
		for k := range points {
			points[k].X, points[k].Y = l.x[k], l.y[k]
		}
		curve, dots, err := plotter.NewLinePoints(points)
		if err != nil {
			return nil, err
		}
		curve.Color, curve.Width = colors[i%len(colors)], font.Points(1.5)
		dots.Color, dots.Shape, dots.Radius = curve.Color, draw.CircleGlyph{}, font.Points(2)
		c.Add(curve, dots)
		c.Legend.Add(l.name, curve, dots)
		drawn++
	}
	if drawn == 0 {
		return nil, nil
	}
	if !p.log {
		widen(&c.X, false)
	}
	widen(&c.Y, p.log || p.logY)
	return c, nil
}

func grid() *plotter.Grid {
	g := plotter.NewGrid()
	g.Vertical.Color = color.Gray{Y: 0xe4}
	g.Horizontal.Color = g.Vertical.Color
	return g
}

// widen has an axis begin and end at a round number: a power of ten, or 0 and a tick.
func widen(a *plot.Axis, log bool) {
	if log {
		a.Min, a.Max = math.Pow(10, math.Floor(math.Log10(a.Min))), math.Pow(10, math.Ceil(math.Log10(a.Max)))
		return
	}
	step := roundStep(a.Max)
	a.Min, a.Max = 0, math.Ceil(a.Max/step)*step
}

// roundStep returns the distance of some five ticks between 0 and a number: 1, 2 or 5 of a power of ten.
func roundStep(most float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(most/4)))
	for _, k := range []float64{1, 2, 5} {
		if k*power >= most/6 {
			return k * power
		}
	}
	return 10 * power
}

// ticks are at round numbers, from 0.
type ticks struct{}

// Ticks implements plot.Ticker.
func (ticks) Ticks(_, most float64) (all []plot.Tick) {
	step := roundStep(most)
	for i := 0.0; i*step <= most*(1+1e-9); i++ {
		all = append(all, plot.Tick{Value: i * step, Label: format(i * step)})
	}
	return all
}

// powers are ticks at the powers of ten. Between few of them 2 and 5 have ticks, too.
type powers struct{}

// Ticks implements plot.Ticker.
func (powers) Ticks(least, most float64) (all []plot.Tick) {
	between := []float64{1}
	if most/least <= 100 {
		between = []float64{1, 2, 5}
	}
	for power := math.Floor(math.Log10(least)); power <= math.Ceil(math.Log10(most)); power++ {
		for _, k := range between {
			if at := k * math.Pow(10, power); at >= least && at <= most {
				all = append(all, plot.Tick{Value: at, Label: format(at)})
			}
		}
	}
	return all
}
