package report

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	kvuse "github.com/sievekv/sievekv/internal/use"
	"github.com/sievekv/sievekv/module/reply"
)

// Busy are the filters of a store with those first that are asked and added to most, and of equal ones the fullest. It is filled by one
// pass over the store after the other.
type Busy struct {
	before, now map[string]uint64 // how often each filter was used, at the last pass and at this one
	elapsed     time.Duration     // between the two; 0 at the first

	all, full, above int
	list             []busyRow
}

type busyRow struct {
	filterRow
	perSecond float64
}

// mostBusy is how many filters are kept: more than any screen shows.
const mostBusy = 500

// Begin begins a pass, so long after the last one; 0 for the first.
func (b *Busy) Begin(elapsed time.Duration) {
	*b = Busy{before: b.now, now: make(map[string]uint64), elapsed: elapsed}
}

// Add enters a key, given what SIEVE.STATS answers about it. It ignores keys that are not filters.
func (b *Busy) Add(r reply.Reply) error {
	s, row, err := filterOf(r)
	if s == nil {
		return err
	}
	b.all++
	switch {
	case !s.grows() && row.Fill >= 1:
		b.full++
	case kvuse.IsAboveRate(row.rate, row.asked, row.Capacity):
		b.above++
	}
	one := busyRow{filterRow: row}
	b.now[row.Key] = row.all()
	if last, known := b.before[row.Key]; known && b.elapsed > 0 && row.all() >= last { // otherwise the filter was made again
		one.perSecond = float64(row.all()-last) / b.elapsed.Seconds()
	}
	b.list = insertFirst(b.list, one, mostBusy, compareBusy)
	return nil
}

func compareBusy(a, b busyRow) int {
	return cmp.Or(cmp.Compare(b.perSecond, a.perSecond), cmp.Compare(b.Fill, a.Fill), cmp.Compare(a.Key, b.Key))
}

// grows reports whether the filter gets another layer when it is full.
func (s *keyStats) grows() bool {
	switch {
	case s.bloom != nil:
		return s.bloom.Expansion > 0
	case s.cuckoo != nil:
		return s.cuckoo.Expansion > 0
	}
	return s.counting != nil && s.counting.Expansion > 0
}

// Screen returns the lines of a screen of a size, the first ones about the store. A height of 0 is for all filters, a width of 0 for
// whole lines.
func (b *Busy) Screen(store string, width, height int, m *Marks) []string {
	lines := []string{
		store, fmt.Sprintf("filters: %d, of which %d full, %d above their rate", b.all, b.full, b.above), "",
		"  uses/s   found     full               rate    items capacity type      key",
	}
	for i := range b.list {
		lines = append(lines, b.line(&b.list[i], m))
	}
	if height > 0 {
		lines = lines[:min(len(lines), height)]
	}
	if width > 0 {
		for i, line := range lines {
			lines[i] = cut(line, width)
		}
	}
	return lines
}

func (b *Busy) line(r *busyRow, m *Marks) string {
	uses, found := "-", "-"
	if b.elapsed > 0 {
		uses = short(r.perSecond)
	}
	if lookups := r.LookupsYes + r.LookupsNo; lookups > 0 {
		found = fmt.Sprintf("%.1f %%", 100*float64(r.LookupsYes)/float64(lookups))
	}
	return fmt.Sprintf("%8s %7s %6.1f %% %s %8.2g %8s %8s %-9s %s", uses, found, 100*r.Fill, m.Bar(r.Fill, 10), r.rate,
		short(float64(r.Items)), short(float64(r.Capacity)), r.Type, fmt.Sprintf("%q", r.Key))
}

// short returns a number with at most four digits and a unit.
func short(n float64) string {
	for _, unit := range []string{"", "k", "M", "G", "T"} {
		if n < 9999.5 || unit == "T" {
			return strings.TrimSuffix(fmt.Sprintf("%.1f", n), ".0") + unit
		}
		n /= 1000
	}
	return ""
}

// cut returns the beginning of a line that fits a width in characters. All characters are one column wide.
func cut(line string, width int) string {
	if utf8.RuneCountInString(line) <= width {
		return line
	}
	return string([]rune(line)[:width])
}
