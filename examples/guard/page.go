package main

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

func count(n int) string { return humanize.Comma(int64(n)) }

var columns = []string{"scene", "guard", "requests", "failed", "queries", "a second", "p50", "p99", "what is asked of the guard", "found", "must be", "met"}

// cells returns two lines of the table for a row.
func (r *row) cells() [][]string {
	line := func(scene, name string, f *figures) []string {
		return []string{
			scene, name, count(f.requests), count(f.failed), count(int(f.queries)), count(int(f.perSecond() + 0.5)),
			short(f.percentile(0.5)), short(f.percentile(0.99)), "", "", "", "",
		}
	}
	on := line("", "on", r.on)
	met := "not met"
	if r.met() {
		met = "met"
	}
	copy(on[8:], []string{r.what, r.measured, r.asked(), met})
	return [][]string{line(r.scene, "off", r.off), on}
}

// short returns a duration with three digits.
func short(d time.Duration) string {
	switch {
	case d >= time.Second:
		return fmt.Sprintf("%.3g s", d.Seconds())
	case d >= time.Millisecond:
		return fmt.Sprintf("%.3g ms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.3g µs", float64(d)/1e3)
}

// text returns the table for a terminal.
func text(rows []row) string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(columns, "\t"))
	for _, r := range rows {
		for _, cells := range r.cells() {
			fmt.Fprintln(w, strings.Join(cells, "\t"))
		}
	}
	_ = w.Flush() // a strings.Builder takes all
	return out.String()
}

// markdown returns the table for a document.
func markdown(rows []row) string {
	var out strings.Builder
	fmt.Fprintf(&out, "| %s |\n|%s\n", strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
	for _, r := range rows {
		for _, cells := range r.cells() {
			fmt.Fprintf(&out, "| %s |\n", strings.Join(cells, " | "))
		}
	}
	return out.String()
}

// picture draws the queries of each second, without the guard and with it.
func picture(r row) ([]byte, error) {
	plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"}
	c := plot.New()
	c.Title.Text, c.X.Label.Text, c.Y.Label.Text = "Queries that reach the database", "seconds since all keys were written", "queries in the second"
	c.Title.TextStyle.Font.Size, c.Title.Padding = font.Points(13), font.Points(8)
	c.X.Tick.Marker, c.Y.Tick.Marker = ticks(10), ticks(10_000)
	c.Legend.Top, c.Legend.Left, c.Legend.XOffs, c.Legend.YOffs = true, true, 12, -8
	c.Add(plotter.NewGrid())
	most := 0.0
	for _, side := range []struct {
		name    string
		color   color.RGBA
		seconds []int64
	}{{"guard off", color.RGBA{R: 0xd5, G: 0x5e, A: 255}, r.off.seconds}, {"guard on", color.RGBA{G: 0x72, B: 0xb2, A: 255}, r.on.seconds}} {
		points := make(plotter.XYs, len(side.seconds))
		for i, n := range side.seconds {
			points[i].X, points[i].Y = float64(i+1), float64(n)
			most = max(most, float64(n))
		}
		curve, err := plotter.NewLine(points)
		if err != nil {
			return nil, err
		}
		curve.Color, curve.Width = side.color, font.Points(1.5)
		c.Add(curve)
		c.Legend.Add(side.name, curve)
	}
	c.X.Min, c.Y.Min, c.Y.Max = 0, 0, 10_000*math.Ceil(most/10_000)
	canvas := vgsvg.New(570, 270)
	page := draw.New(canvas)
	page.SetColor(color.White)
	page.Fill(page.Rectangle.Path())
	c.Draw(draw.Crop(page, 6, -16, 6, -8))
	var out bytes.Buffer
	_, err := canvas.WriteTo(&out)
	return bytes.ReplaceAll(out.Bytes(), []byte("font-family:Liberation Sans"), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif")), err
}

// ticks are at multiples of a number.
type ticks int

// Ticks implements plot.Ticker.
func (step ticks) Ticks(_, most float64) (all []plot.Tick) {
	for at := 0; float64(at) <= most; at += int(step) {
		all = append(all, plot.Tick{Value: float64(at), Label: humanize.Comma(int64(at))})
	}
	return all
}

const (
	begins = "<!-- The tables are made by go -C examples/guard run . -write -->\n"
	ends   = "<!-- Here the tables end. -->\n"
)

// writePage puts the table into GUARD.md of a directory, and the plot beside it.
func writePage(docs, about string, rows []row) error {
	path := filepath.Join(docs, "GUARD.md")
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(page), begins)
	_, after, ended := strings.Cut(rest, ends)
	if !found || !ended {
		return fmt.Errorf("%s has no place for the tables", path)
	}
	made := before + begins + "\n" + about + "\n\n" + markdown(rows) + "\n" + ends + after
	if err := os.WriteFile(path, []byte(made), 0o644); err != nil {
		return err
	}
	for _, r := range rows {
		if !r.plotted {
			continue
		}
		drawn, err := picture(r)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(docs, "guard-avalanche.svg"), drawn, 0o644); err != nil {
			return err
		}
	}
	return nil
}
