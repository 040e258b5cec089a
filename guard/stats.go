package guard

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sony/gobreaker/v2"
)

// Stats are counts since New, and present states.
type Stats struct {
	// What became of the ids that were asked for. Asked is the sum of the next five.
	Asked   uint64
	Refused uint64 // the filter refused them
	Hits    uint64 // a fresh value was in the cache
	Soft    uint64 // a soft value was, and was returned while a load refreshes it
	Nulls   uint64 // they were remembered as absent
	Misses  uint64 // a load was needed

	Stale  uint64 // misses that got a stale value, as the source could not be asked
	Shared uint64 // misses that shared a load that was under way
	Loads  uint64 // calls of the source, refreshes included
	Failed uint64 // calls of the source that failed

	FilterFaults uint64 // lookups for which there was no filter, or none that could be read
	CacheFaults  uint64 // reads and writes of the cache that failed

	Breaker string // "closed", "half-open" or "open"; "none" if there is no breaker

	FullFilters uint64 // filters that had no room for an id that was put, and were dropped: see Options.Capacity

	// FalsePositives counts lookups of absent ids that the filter let through. FalsePositiveRate is their share of all
	// lookups of absent ids, since New or since Rebuild made the filter in use. Ids that went away without a Remove, or from a Bloom filter, count until the next Rebuild.
	FalsePositives    uint64
	FalsePositiveRate float64

	// AboveRate says that the last thousand such lookups of this filter, or more, had more false positives than
	// Options.ErrorRate, and not by chance: for instance, as ids were removed, or the filter was made for another rate.
	AboveRate bool
}

// Stats returns the guard's counts. Those of calls under way may be missing in some of them.
func (g *Guard) Stats() Stats {
	c := &g.counts
	s := Stats{
		Refused: c.refused.Load(), Hits: c.hits.Load(), Soft: c.soft.Load(), Nulls: c.nulls.Load(), Misses: c.misses.Load(),
		Stale: c.stale.Load(), Shared: c.shared.Load(), Loads: c.loads.Load(), Failed: c.failed.Load(),
		FilterFaults: g.filterFaults.n.Load(), CacheFaults: g.readFaults.n.Load() + g.writeFaults.n.Load(),
		FalsePositives: c.falsePositives.Load(), FullFilters: c.full.Load(), Breaker: "none",
	}
	s.Asked = s.Refused + s.Hits + s.Soft + s.Nulls + s.Misses
	s.FalsePositiveRate, s.AboveRate = g.rates()
	if g.breaker != nil {
		s.Breaker = g.breaker.State().String()
	}
	return s
}

// counts are what Stats counts.
type counts struct {
	refused, hits, soft, nulls, misses           atomic.Uint64
	stale, shared, loads, failed, falsePositives atomic.Uint64
	full                                         atomic.Uint64

	window sync.Mutex // guards what follows
	since  [2]uint64  // false positives and refusals when the filter in use came
	from   [2]uint64  // the same when the window began
	above  bool       // the last whole window had more false positives than the filter should have
}

// rateWindow is the number of lookups of absent ids over which the rate of false positives is compared with ErrorRate.
const rateWindow = 1000

// falsePositive notes a lookup of an absent id that the filter let through; filtered says that there was a filter.
func (g *Guard) falsePositive(filtered bool) {
	if !filtered {
		return
	}
	g.counts.falsePositives.Add(1)
	g.rates()
}

// beginRate begins the rate of false positives anew, as there is another filter.
func (c *counts) beginRate() {
	c.window.Lock()
	defer c.window.Unlock()
	c.since = [2]uint64{c.falsePositives.Load(), c.refused.Load()}
	c.from, c.above = c.since, false
}

// rates returns the rate of false positives of the filter in use, and whether it is above ErrorRate in the last whole
// window.
func (g *Guard) rates() (rate float64, above bool) {
	c := &g.counts
	c.window.Lock()
	defer c.window.Unlock()
	now := [2]uint64{c.falsePositives.Load(), c.refused.Load()}
	share := func(since [2]uint64) (found, asked float64) {
		found = float64(now[0] - since[0])
		return found, found + float64(now[1]-since[1])
	}
	if found, asked := share(c.since); asked > 0 {
		rate = found / asked
	}
	found, asked := share(c.from)
	if asked < rateWindow {
		return rate, c.above
	}
	mean := asked * g.opts.ErrorRate
	above = found > mean+5*math.Sqrt(mean) // five standard deviations: not by chance
	if above && !c.above {
		g.opts.Logger.Warn("guard: the filter lets more absent ids through than asked for; Rebuild makes it anew",
			"guard", g.name, "rate", found/asked, "asked", g.opts.ErrorRate)
	}
	c.from, c.above = now, above
	return rate, above
}

// faults counts failures of one kind, and tells the log of their beginning and end, not of each.
type faults struct {
	n  atomic.Uint64
	on atomic.Bool
}

// note notes how a use of the filter or the cache has ended.
func (g *Guard) note(f *faults, what string, err error) {
	switch {
	case err != nil:
		f.n.Add(1)
		if !f.on.Swap(true) {
			g.opts.Logger.Warn("guard: "+what+" fails", "guard", g.name, "error", err)
		}
	case f.on.Load() && f.on.Swap(false):
		g.opts.Logger.Info("guard: "+what+" works again", "guard", g.name)
	}
}

// NewCollector returns a Prometheus collector of guards, whose metrics begin with "sievekv_guard_" and have the label
// "guard". It reads them when Prometheus asks. The metrics of the store are those of sievekv.NewCollector.
func NewCollector(guards ...*Guard) prometheus.Collector { return collector(guards) }

type collector []*Guard

// Describe implements prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for i := range metrics {
		out <- metrics[i].desc
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	for _, g := range c {
		s := g.Stats()
		for _, m := range metrics {
			out <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(&s, &g.opts), g.name)
		}
	}
}

type metric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*Stats, *Options) float64
}

func describe(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("sievekv_guard_"+name, help, []string{"guard"}, nil)
}

func counter(name, help string, value func(*Stats) uint64) metric {
	return metric{describe(name, help), prometheus.CounterValue, func(s *Stats, _ *Options) float64 { return float64(value(s)) }}
}

func gauge(name, help string, value func(*Stats, *Options) float64) metric {
	return metric{describe(name, help), prometheus.GaugeValue, value}
}

var breakerStates = map[string]float64{gobreaker.StateHalfOpen.String(): 0.5, gobreaker.StateOpen.String(): 1}

var metrics = []metric{
	counter("asked_total", "Ids that were asked for.", func(s *Stats) uint64 { return s.Asked }),
	counter("refused_total", "Ids that the filter refused.", func(s *Stats) uint64 { return s.Refused }),
	counter("hits_total", "Ids with a fresh value in the cache.", func(s *Stats) uint64 { return s.Hits }),
	counter("soft_total", "Ids with a value in the cache that a load refreshes.", func(s *Stats) uint64 { return s.Soft }),
	counter("nulls_total", "Ids remembered as absent.", func(s *Stats) uint64 { return s.Nulls }),
	counter("misses_total", "Ids that needed a load.", func(s *Stats) uint64 { return s.Misses }),
	counter("stale_total", "Misses that got a stale value, as the source could not be asked.", func(s *Stats) uint64 { return s.Stale }),
	counter("shared_total", "Misses that shared a load.", func(s *Stats) uint64 { return s.Shared }),
	counter("loads_total", "Calls of the source.", func(s *Stats) uint64 { return s.Loads }),
	counter("failed_total", "Calls of the source that failed.", func(s *Stats) uint64 { return s.Failed }),
	counter("filter_faults_total", "Lookups without a filter.", func(s *Stats) uint64 { return s.FilterFaults }),
	counter("full_filters_total", "Filters that had no room for an id, and were dropped.", func(s *Stats) uint64 { return s.FullFilters }),
	counter("cache_faults_total", "Reads and writes of the cache that failed.", func(s *Stats) uint64 { return s.CacheFaults }),
	counter("false_positives_total", "Lookups of absent ids that the filter let through.", func(s *Stats) uint64 { return s.FalsePositives }),
	gauge("false_positive_ratio", "Share of the lookups of absent ids that the filter let through.",
		func(s *Stats, _ *Options) float64 { return s.FalsePositiveRate }),
	gauge("false_positive_ratio_asked", "The share that was asked for.", func(_ *Stats, o *Options) float64 { return o.ErrorRate }),
	gauge("false_positives_above_asked", "1 if lately the share was above what was asked for, not by chance.",
		func(s *Stats, _ *Options) float64 {
			if s.AboveRate {
				return 1
			}
			return 0
		}),
	gauge("breaker", "0 if loads go to the source, 0.5 if one may try, 1 if none.",
		func(s *Stats, _ *Options) float64 { return breakerStates[s.Breaker] }),
}
