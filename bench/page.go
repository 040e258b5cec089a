package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const pageIntro = `# Benchmarks

` + "`go -C bench run . --full --write`" + ` makes this page. It measures sievekv beside other libraries and programs on one machine, in
one run.

How the figures are made:

- What is compared is measured in turn, several times. A table has the median of each side.
- "ratio" is the figure of sievekv divided by the peer's, for each repetition, and of these ratios the median. "lowest to
  highest" are the extremes of all repetitions. For times (ns, ms), sizes and rates of errors a low ratio is good, for figures per
  second a high one.
- "must" is what this project asks of itself, and "met" whether the figures of this run are as they must be. "(reduced)"
  means that the run had fewer items than the must is about, as with ` + "`--quick`" + `.
- Clients, servers and the background work of stores share the processors of one machine.

What a reader may conclude: how sievekv compares with a peer in the same conditions, if the ratios of all repetitions are on
the same side of 1. Figures by themselves hold for this machine only. A range that is wide means that something else was
running: measure again on a quiet machine. A peer that keeps a filter in memory only is no substitute for one that is
stored: such a row tells what storing costs.

`

const busyWarning = `**Other programs kept this machine busy when this page was made. Figures of time are not to be relied on.**

`

// writePage writes BENCHMARKS.md and the plots.
func writePage(docs string, about *machine, results []result) error {
	var out strings.Builder
	out.WriteString(pageIntro)
	if about.busy() {
		out.WriteString(busyWarning)
	}
	out.WriteString("| | |\n|---|---|\n")
	for _, line := range about.lines() {
		fmt.Fprintf(&out, "| %s | %s |\n", line[0], escape(line[1]))
	}
	met, all := countMet(results)
	fmt.Fprintf(&out, "\n%d of %d figures are as they must be.\n", met, all)
	var errs []error
	for _, r := range results {
		r.markdown(&out)
		for _, p := range r.plots {
			svg, err := p.svg()
			if svg == nil || err != nil {
				errs = append(errs, err)
				continue
			}
			name := "bench-" + p.name + ".svg"
			errs = append(errs, os.WriteFile(filepath.Join(docs, name), svg, 0o644))
			fmt.Fprintf(&out, "\n![%s](%s)\n", p.title, name)
		}
	}
	return errors.Join(append(errs, os.WriteFile(filepath.Join(docs, "BENCHMARKS.md"), []byte(out.String()), 0o644))...)
}

// markdown appends the section of a topic.
func (r *result) markdown(out *strings.Builder) {
	fmt.Fprintf(out, "\n## %s\n\n%s\n\n", r.topic.name, r.topic.about)
	if len(r.rows) > 0 {
		fmt.Fprintf(out, "| %s |\n|%s\n", strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
	}
	for _, row := range r.rows {
		cells := row.cells()
		for i := range cells {
			cells[i] = escape(cells[i])
		}
		fmt.Fprintf(out, "| %s |\n", strings.Join(cells, " | "))
	}
	for _, note := range r.notes {
		fmt.Fprintf(out, "\n%s\n", note)
	}
}

// escape makes text fit into a cell.
func escape(text string) string { return strings.ReplaceAll(text, "|", "\\|") }
