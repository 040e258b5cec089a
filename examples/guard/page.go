package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/wcharczuk/go-chart/v2"
	"github.com/wcharczuk/go-chart/v2/drawing"
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

// plot draws the queries of each second, without the guard and with it.
func plot(r row) ([]byte, error) {
	line := func(name, color string, seconds []int64) chart.Series {
		s := chart.ContinuousSeries{Name: name, Style: chart.Style{StrokeColor: drawing.ColorFromHex(color), StrokeWidth: 2}}
		for i, n := range seconds {
			s.XValues, s.YValues = append(s.XValues, float64(i+1)), append(s.YValues, float64(n))
		}
		return s
	}
	number := func(v any) string { return humanize.Comma(int64(v.(float64))) }
	c := chart.Chart{
		Title: "queries that reach the database", TitleStyle: chart.Style{FontSize: 12}, Width: 760, Height: 360,
		Background: chart.Style{Padding: chart.Box{Top: 40, Left: 110, Right: 20, Bottom: 20}},
		XAxis:      chart.XAxis{Name: "seconds since all keys were written", ValueFormatter: number},
		YAxis:      chart.YAxis{Name: "queries in the second", ValueFormatter: number},
		Series:     []chart.Series{line("guard off", "d55e00", r.off.seconds), line("guard on", "0072b2", r.on.seconds)},
	}
	c.Elements = []chart.Renderable{chart.LegendLeft(&c)}
	var out bytes.Buffer
	err := c.Render(chart.SVG, &out)
	return out.Bytes(), err
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
		drawn, err := plot(r)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(docs, "guard-avalanche.svg"), drawn, 0o644); err != nil {
			return err
		}
	}
	return nil
}
