package guard

import (
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sony/gobreaker/v2"
)

// Stats are counts since New, and present states.
type Stats struct {
	// The outcomes for the ids that were asked for. Asked is the sum of the next five. Ids that got ErrUnfiltered are
	// in none.
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

	FilterFaults uint64 // lookups for which there was no filter, or none that could be read; a GetMany is one
	CacheFaults  uint64 // reads and writes of the cache that failed

	Breaker string // "closed", "half-open" or "open"; "none" if there is no breaker

	FullFilters uint64 // filters that had no room for an id that was put, and were dropped: see Options.Capacity

	// FalsePositives counts absent ids that the filter let through, each when a load has found it absent, and not again
	// while it is remembered as absent: see Nulls.
	FalsePositives uint64

	// FalsePositiveRate is the share of absent ids that the filter lets through, measured since New or since Rebuild made
	// the filter in use. Ids that are asked for again and again count little more than once, whether they pass or are
	// refused. Ids that went away without a Remove, or from a Bloom filter, count until the next Rebuild.
	FalsePositiveRate float64

	// AboveRate says that the filter in use lets through more than Options.ErrorRate, and not by chance: for instance, as
	// ids were removed, or the filter was made for another rate. It stays so until Rebuild has made another filter. A
	// filter with twice the rate is found after about 72/ErrorRate different absent ids, and nearly always by
	// 250/ErrorRate, which is 25,000 at 0.01. A filter with the rate asked for is wrongly said to be above it with a
	// probability of 1e-9 for each 51/ErrorRate different absent ids, at most. One id alone, or twenty, never suffice.
	AboveRate bool
}

// Stats returns the guard's counts. Some of them may lack calls under way.
func (g *Guard) Stats() Stats {
	c := &g.counts
	s := Stats{
		Refused: c.refused.Load(), Hits: c.hits.Load(), Soft: c.soft.Load(), Nulls: c.nulls.Load(), Misses: c.misses.Load(),
		Stale: c.stale.Load(), Shared: c.shared.Load(), Loads: c.loads.Load(), Failed: c.failed.Load(),
		FilterFaults: g.filterFaults.n.Load(), CacheFaults: g.readFaults.n.Load() + g.writeFaults.n.Load(),
		FalsePositives: c.falsePositives.Load(), FullFilters: c.full.Load(), Breaker: "none",
	}
	s.Asked = s.Refused + s.Hits + s.Soft + s.Nulls + s.Misses
	s.FalsePositiveRate, s.AboveRate = g.passing.read()
	if g.breaker != nil {
		s.Breaker = g.breakerState().String()
	}
	return s
}

// counts are what Stats counts.
type counts struct {
	refused, hits, soft, nulls, misses           atomic.Uint64
	stale, shared, loads, failed, falsePositives atomic.Uint64
	full                                         atomic.Uint64
}

// falsePositive notes that a load has found an id absent that the filter let through.
func (g *Guard) falsePositive(id string) {
	g.counts.falsePositives.Add(1)
	if rate, alarm := g.passing.pass(id); alarm {
		g.opts.Logger.Warn("guard: the filter lets more absent ids through than asked for; Rebuild makes it anew",
			"guard", g.name, "rate", rate, "asked", g.opts.ErrorRate)
	}
}

// refuse notes that the filter has refused an id.
func (g *Guard) refuse(id string) {
	g.counts.refused.Add(1)
	g.passing.refuse(id)
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
// "guard". It reads them when Prometheus asks. A registry may have several collectors, but each guard once. For guards
// of two stores that have the same name, use prometheus.WrapRegistererWith. sievekv.NewCollector has the metrics of the
// store.
func NewCollector(guards ...*Guard) prometheus.Collector {
	c := make(collector, len(guards))
	for i, g := range guards {
		c[i].guard = g
		label := prometheus.Labels{"guard": strings.ToValidUTF8(g.name, "\ufffd")} // a name may be any bytes
		for _, m := range metrics {
			c[i].descs = append(c[i].descs, prometheus.NewDesc("sievekv_guard_"+m.name, m.help, nil, label))
		}
	}
	return c
}

type collector []collected

// collected is a guard with the description of each metric. The guard's name is in the description: so collectors of
// different guards have different descriptions, as a registry wants.
type collected struct {
	guard *Guard
	descs []*prometheus.Desc
}

// Describe implements prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, of := range c {
		for _, desc := range of.descs {
			out <- desc
		}
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	for _, of := range c {
		s := of.guard.Stats()
		for i, m := range metrics {
			out <- prometheus.MustNewConstMetric(of.descs[i], m.kind, m.value(&s, &of.guard.opts))
		}
	}
}

type metric struct {
	name, help string
	kind       prometheus.ValueType
	value      func(*Stats, *Options) float64
}

func counter(name, help string, value func(*Stats) uint64) metric {
	return metric{name, help, prometheus.CounterValue, func(s *Stats, _ *Options) float64 { return float64(value(s)) }}
}

func gauge(name, help string, value func(*Stats, *Options) float64) metric {
	return metric{name, help, prometheus.GaugeValue, value}
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
	counter("false_positives_total", "Absent ids that the filter let through, counted when a load has found them absent.", func(s *Stats) uint64 { return s.FalsePositives }),
	gauge("false_positive_ratio", "Share of absent ids that the filter in use lets through, as measured.",
		func(s *Stats, _ *Options) float64 { return s.FalsePositiveRate }),
	gauge("false_positive_ratio_asked", "The share that was asked for.", func(_ *Stats, o *Options) float64 { return o.ErrorRate }),
	gauge("false_positives_above_asked", "1 if the filter in use lets through more than was asked for, not by chance.",
		func(s *Stats, _ *Options) float64 {
			if s.AboveRate {
				return 1
			}
			return 0
		}),
	gauge("breaker", "0 if loads go to the source, 0.5 if one may try, 1 if none.",
		func(s *Stats, _ *Options) float64 { return breakerStates[s.Breaker] }),
}
