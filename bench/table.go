package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
)

// row is a row of a table: a figure, the peer's, and their ratio.
type row struct {
	what    string
	unit    string
	ours    series
	peer    string // "" for none
	theirs  series
	must    *must
	reduced bool // the mode measures less than the must is about
}

// must is a figure that sievekv must reach.
type must struct {
	ratio   bool // it is about the ratio
	atLeast bool
	limit   float64
}

func figureAtLeast(limit float64) *must { return &must{false, true, limit} }
func figureAtMost(limit float64) *must  { return &must{false, false, limit} }
func ratioAtLeast(limit float64) *must  { return &must{true, true, limit} }
func ratioAtMost(limit float64) *must   { return &must{true, false, limit} }

// ratio returns the median of the ratios of the repetitions.
func (r *row) ratio() (ratio float64, ok bool) {
	ratios := r.ours.over(r.theirs)
	return ratios.median(), len(ratios) > 0
}

// met reports whether the figure is as it must be, and whether it was measured at all.
func (r *row) met() (met, known bool) {
	if r.must == nil {
		return false, false
	}
	value, known := r.ours.median(), len(r.ours) > 0
	if r.must.ratio {
		value, known = r.ratio()
	}
	if r.must.atLeast {
		return value >= r.must.limit, known
	}
	return value <= r.must.limit, known
}

// verdict is the last column.
func (r *row) verdict() string {
	if r.must == nil {
		return ""
	}
	met, known := r.met()
	text := "not met"
	switch {
	case !known:
		return "not measured"
	case met:
		text = "met"
	}
	if r.reduced {
		text += " (reduced)"
	}
	return text
}

// columns are the headings of all tables.
var columns = []string{"what", "unit", "sievekv", "peer", "its figure", "ratio", "lowest to highest", "must", "met"}

func (r *row) cells() []string {
	cells := make([]string, len(columns))
	cells[0], cells[1], cells[2], cells[3] = r.what, r.unit, format(r.ours.median()), r.peer
	if ratios := r.ours.over(r.theirs); len(ratios) > 0 {
		low, high := math.Inf(1), 0.0
		for _, x := range ratios {
			low, high = min(low, x), max(high, x)
		}
		cells[4], cells[5] = format(r.theirs.median()), format(ratios.median())
		if len(ratios) > 1 {
			cells[6] = format(low) + " to " + format(high)
		}
	}
	if r.must != nil {
		cells[7] = r.must.String()
	}
	cells[8] = r.verdict()
	return cells
}

func (m *must) String() string {
	sign := "≤ "
	if m.atLeast {
		sign = "≥ "
	}
	if m.ratio {
		return "ratio " + sign + format(m.limit)
	}
	return sign + format(m.limit)
}

// format returns a figure with three digits that count, and commas in large ones.
func format(x float64) string {
	if x == 0 || math.IsInf(x, 0) || math.IsNaN(x) {
		return strconv.FormatFloat(x, 'g', 3, 64)
	}
	digits := int(math.Floor(math.Log10(math.Abs(x)))) + 1 // before the point
	if digits < -3 {
		return strconv.FormatFloat(x, 'g', 3, 64)
	}
	if digits < 3 {
		text := strconv.FormatFloat(x, 'f', 3-max(digits, 0), 64)
		if digits > 0 {
			return trimZeros(text)
		}
		return trimZeros(strconv.FormatFloat(x, 'f', 3-digits, 64))
	}
	unit := math.Pow10(digits - 3)
	text := strconv.FormatFloat(math.Round(x/unit)*unit, 'f', 0, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func trimZeros(text string) string { return strings.TrimSuffix(strings.TrimRight(text, "0"), ".") }

// text returns the table of a topic for a terminal.
func (r *result) text() string {
	var out strings.Builder
	fmt.Fprintf(&out, "\n%s (%.0f s, of the processors %.0f s)\n", r.topic.name, r.took.Seconds(), r.cpu.Seconds())
	if len(r.rows) > 0 {
		w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, strings.Join(columns, "\t"))
		for _, row := range r.rows {
			fmt.Fprintln(w, strings.Join(row.cells(), "\t"))
		}
		_ = w.Flush() // a strings.Builder takes all
	}
	for _, note := range r.notes {
		fmt.Fprintln(&out, note)
	}
	if r.err != nil {
		fmt.Fprintln(&out, "failed:", r.err)
	}
	return out.String()
}

// countMet counts the figures that are as they must be, and all that must be something.
func countMet(results []result) (met, all int) {
	for _, r := range results {
		for _, row := range r.rows {
			if row.must != nil {
				all++
			}
			if ok, known := row.met(); ok && known {
				met++
			}
		}
	}
	return met, all
}

// verdict tells how many figures are as they must be, and lists the others.
func verdict(results []result) string {
	met, all := countMet(results)
	if all == 0 {
		return ""
	}
	var out strings.Builder
	fmt.Fprintf(&out, "\n%d of %d figures are as they must be\n", met, all)
	for _, r := range results {
		for _, row := range r.rows {
			if ok, known := row.met(); row.must == nil || ok && known {
				continue
			}
			cells := row.cells()
			fmt.Fprintf(&out, "  %s: %s: %s %s, ratio %s, must %s: %s\n",
				r.topic.name, row.what, cells[2], row.unit, orDash(cells[5]), cells[7], cells[8])
		}
	}
	return out.String()
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
