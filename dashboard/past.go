package dashboard

import (
	"fmt"
	"math"
	"time"

	"github.com/sievekv/sievekv/internal/live"
)

// describe says what there is of history.
func (h *history) describe() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return fmt.Sprintf("History is in memory: an hour by 5 s and a day by 1 min, of the store and of up to %d filters, those used most: now %d. It begins when the process does.",
		h.most, len(h.filters))
}

// storeColumn returns a column of the store's past.
func (h *history) storeColumn(c choice, column int, now time.Time) []float64 {
	s := &h.spans[c.at]
	return past(s.times.all(), s.store[column].all(), now, c.span)
}

// storeCharts draws the past of the store.
func (d *Dashboard) storeCharts(c choice, now time.Time) []*chart {
	h := d.history
	h.mu.Lock()
	defer h.mu.Unlock()
	column := func(name string, of int) curve { return curve{name, h.storeColumn(c, of, now)} }
	x := timeTicks(c.span)
	var list []*chart
	if d.o.Server != nil {
		list = append(list,
			newChart("Commands a second", x, fixed, round10, column("all", colCommands), column("failed or refused", colFailed)),
			newChart("Time of a command", x, showMicros, round10, column("half took at most", colHalf), column("99 of 100", colSlow)))
	}
	return append(list,
		newChart("Lookups and adds a second", x, fixed, round10, column("lookups", colLookups), column("adds", colAdds)),
		newChart("Commits a second", x, fixed, round10, column("commits", colCommits)),
		newChart("Memory", x, size1, round2, column("caches and memtables", colMemory)),
		newChart("Disk", x, size1, round2, column("all files", colDisk), column("log", colLog), column("to be compacted", colDebt)))
}

func size1(v float64) string { return size(v) }

// commandFacts returns what the server counts, with the rates of the last point.
func (d *Dashboard) commandFacts(c live.Counts, now time.Time) *commandPage {
	p := &commandPage{Counts: c, PerSecond: -1, FailedPerSecond: -1, Half: math.NaN(), Slow: math.NaN()}
	h := d.history
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &h.spans[0]
	times := s.times.all()
	if len(times) < 2 {
		return p
	}
	last := func(column int) float64 {
		values := s.store[column].all()
		return float64(values[len(values)-1])
	}
	p.PerSecond, p.FailedPerSecond, p.Half, p.Slow = last(colCommands), last(colFailed), last(colHalf), last(colSlow)
	return p
}

// filterCharts draws the past of a filter, nothing if there is none. grown says how many items it has got in an hour and in a day.
func (d *Dashboard) filterCharts(key string, c choice, now time.Time) (list []*chart, grown []string) {
	h := d.history
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.filters[key]
	if f == nil {
		return nil, nil
	}
	times := h.spans[c.at].times.all()
	x := timeTicks(c.span)
	column := func(name string, of int) curve { return curve{name, past(times, f.rates[c.at][of].all(), now, c.span)} }
	list = []*chart{
		newChart(chartItems, x, fixed, whole, curve{"items", past(times, f.items[c.at].all(), now, c.span)}),
		newChart("Lookups a second", x, fixed, round10, column("answered yes", colYes), column("answered no", colNo)),
		newChart("Adds a second", x, fixed, round10, column("new items", colNew), column("known items", colKnown)),
	}
	for i, name := range []string{"hour", "day"} {
		if text := growth(f.items[i].all(), h.spans[i].times.all(), now, name); text != "" {
			grown = append(grown, text)
		}
	}
	return list, grown
}

// growth says how many items a filter has got since the first of its points.
func growth(items []uint64, times []int64, now time.Time, most string) string {
	if len(items) < 2 {
		return ""
	}
	since := now.Sub(time.UnixMilli(times[len(times)-len(items)]))
	if most == "day" && since < 70*time.Minute {
		return "" // the hour says the same
	}
	first, last := items[0], items[len(items)-1]
	span := "the last " + most
	if since < 50*time.Minute || most == "day" && since < 23*time.Hour {
		span = "the last " + showSpan(since)
	}
	if last < first {
		return fmt.Sprintf("%s items fewer in %s", count(first-last), span)
	}
	return fmt.Sprintf("%s items more in %s", count(last-first), span)
}
