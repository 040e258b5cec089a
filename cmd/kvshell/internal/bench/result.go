package bench

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Result is what a run has found.
type Result struct {
	Directory string  `json:"directory"` // in which the stores were made
	Seconds   float64 `json:"seconds"`   // of all parts together
	Items     uint64  `json:"items"`     // in the filter that was looked up
	Lines     []Line  `json:"lines"`
}

// Text returns the result for a person to read.
func (r *Result) Text() string {
	var out strings.Builder
	const format = "%-17s  %7v  %10s  %6s  %6s  %6s  %7s\n"
	fmt.Fprintf(&out, format, "", "clients", "a second", "p50", "p99", "p99.9", "longest")
	for _, l := range r.Lines {
		fmt.Fprintf(&out, format, l.name(), l.Clients, number(l.PerSecond), short(l.P50), short(l.P99), short(l.P999), short(l.Longest))
	}
	fmt.Fprintf(&out, explanation, r.Items, timedLookups, r.Directory)
	return out.String()
}

func (l *Line) name() string {
	if l.Level != "" {
		return l.What + ", " + l.Level
	}
	return l.What
}

const explanation = `
add, always        A new item is on stable storage when the add returns. One client waits for the disk at every add;
                   16 clients share its syncs.
add, everysec      An add returns at once, and the disk is synced once a second. A crash can lose about a second of adds.
add, no            An add returns at once, and nothing is synced. A crash can lose more.
lookup in memory   An item is looked up in a filter of %d items that is in the cache. One of %d lookups
                   is timed, and reading the clock is in its time.
lookup from files  The same with a cache of a tenth of the filter: most lookups read a block from a file, which the
                   operating system has in memory if there is room.

Of 100 calls, 50 took no longer than p50 and 99 no longer than p99; of 1000, 999 took no longer than p99.9.
The stores were made in %s and are removed.
`

// number returns a number with three digits that count, and commas.
func number(x float64) string {
	if x < 100 {
		return strconv.FormatFloat(x, 'g', 3, 64)
	}
	unit := math.Pow10(int(math.Log10(x)) - 2)
	text := strconv.FormatFloat(math.Round(x/unit)*unit, 'f', 0, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// short returns a time with three digits that count.
func short(ns int64) string {
	unit := time.Duration(1)
	for time.Duration(ns) >= 1000*unit {
		unit *= 10
	}
	return time.Duration(ns).Round(unit).String()
}
