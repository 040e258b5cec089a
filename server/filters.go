package server

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	kvuse "github.com/sievekv/sievekv/internal/use"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// filters knows what an operator should know about a store's filters: how many there are, how many are full, and which
// are the largest, the fullest and the most used. It learns that in passes over all keys, which read no strings. A pass
// begins when a scrape asks for metrics or clients send commands, and goes on in the background, a few keys at a time,
// with pauses between, so that a store of millions of filters costs a scrape no more than a small one.
type filters struct {
	mu    sync.Mutex
	pass  *pass               // under way, nil if none is; guarded by mu
	due   time.Time           // when the next may begin while commands run; guarded by mu
	again time.Time           // when a scrape may begin one again, after one of several steps or one that has failed; guarded by mu
	done  chan struct{}       // closed when pass ends; guarded by mu
	last  *census             // what the last pass found, nil before; guarded by mu
	told  map[string]level    // of filters that have been told of; replaced, never changed; guarded by mu
	pause func(time.Duration) // between two steps; tests replace it
}

const (
	perStep      = 100         // keys that a step of a pass looks at
	passEvery    = time.Minute // from the end of a pass to the next, unless that takes one step
	pausePerStep = 49          // so a pass uses a fiftieth of a processor
	maxPause     = time.Second
)

// pass is a pass that is under way. Only its goroutine uses it.
type pass struct {
	cursor uint64
	steps  int
	census census
	known  map[string]level // what the log has been told before
	levels map[string]level
}

// census is what a pass finds. It does not change once the pass has ended.
type census struct {
	all, nearlyFull, full, growing, aboveRate uint64
	use                                       [len(useFacts)]uint64 // of all filters together

	largest, fullest, worst, used ranking
}

// ranking has the keys of the filters with the greatest values, the greatest first.
type ranking []ranked

type ranked struct {
	key   string
	value float64
}

// add enters a filter if it is among the first.
func (r *ranking) add(most int, key string, value float64) {
	i, _ := slices.BinarySearchFunc(*r, ranked{key, value}, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(b.value, a.value), cmp.Compare(a.key, b.key))
	})
	if i >= most {
		return
	}
	*r = slices.Insert(*r, i, ranked{key, value})
	*r = (*r)[:min(len(*r), most)]
}

// facts are the fields of SIEVE.STATS for a filter.
type facts map[string]reply.Reply

// number returns a fact as a number, 0 if there is none.
func (f facts) number(name string) float64 {
	if fact := f[name]; fact.Kind() == reply.KindDouble {
		return fact.Double()
	}
	return float64(f[name].Int())
}

// isFilter reports whether the facts are about a filter. A bitmap has no capacity.
func (f facts) isFilter() bool { return f.number("capacity") > 0 }

// grows reports whether the filter gets another layer when it is full.
func (f facts) grows() bool { return f.number("expansion") > 0 }

// used returns the share of the capacity that is used.
func (f facts) used() float64 { return f.number("items") / f.number("capacity") }

// excess returns the expected error rate divided by the one that the filter was made for; 0 if it was made for none.
func (f facts) excess() float64 {
	if rate := f.number("error_rate"); rate > 0 {
		return f.number("expected_rate") / rate
	}
	return 0
}

// isAboveRate reports whether a filter answers yes too often.
func (f facts) isAboveRate() bool {
	return kvuse.IsAboveRate(f.number("expected_rate"), f.number("error_rate"), uint64(f.number("capacity")))
}

// useFacts are the facts about the use of a filter.
var useFacts = [...]string{"lookups_yes", "lookups_no", "adds_new", "adds_known"}

// look adds a filter to the findings of a pass. most is the length of each ranking.
func (c *census) look(key string, f facts, most int) {
	c.all++
	c.largest.add(most, key, f.number("bytes"))
	if len(f["layers"].Elems()) > 1 {
		c.growing++
	}
	if !f.grows() {
		c.fullest.add(most, key, f.used())
		switch f.level() {
		case nearlyFull, almostFull:
			c.nearlyFull++
		case full:
			c.full++
		}
	}
	if f.isAboveRate() {
		c.aboveRate++
		c.worst.add(most, key, f.excess())
	}
	sum := 0.0
	for i, name := range useFacts {
		n := f.number(name)
		c.use[i] += uint64(n)
		sum += n
	}
	if sum > 0 {
		c.used.add(most, key, sum)
	}
}

// keys returns the keys of all rankings, each once.
func (c *census) keys() (keys []string) {
	for _, r := range []ranking{c.largest, c.fullest, c.worst, c.used} {
		for _, one := range r {
			if !slices.Contains(keys, one.key) {
				keys = append(keys, one.key)
			}
		}
	}
	return keys
}

// ask begins a pass for a scrape, unless one is under way or has just ended. If one step is a whole pass of the small
// store, the scrape sees the present state.
func (l *filters) ask(s *Server) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pass != nil || time.Now().Before(l.again) {
		return
	}
	p := &pass{known: l.told}
	switch end, err := p.step(s); {
	case err != nil:
		l.end(p, err)
	case end:
		l.keep(p)
	default:
		l.goOn(s, p)
	}
}

// tick begins a pass if one is due. The server calls it while commands run, so that its log tells of filters that
// become full even if nobody asks for metrics.
func (l *filters) tick(s *Server) {
	if !l.mu.TryLock() {
		return
	}
	defer l.mu.Unlock()
	if l.pass == nil && time.Now().After(l.due) {
		l.goOn(s, &pass{known: l.told})
	}
}

// goOn takes the steps of a pass in a goroutine of its own. The caller holds mu.
func (l *filters) goOn(s *Server, p *pass) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shuttingDown {
		return
	}
	s.idle.Add(1)
	l.pass, l.done = p, make(chan struct{})
	go func() {
		defer s.idle.Done()
		err := p.run(s, l.pause)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.end(p, err)
		close(l.done)
	}()
}

// keep keeps the findings of a whole pass. The caller holds mu.
func (l *filters) keep(p *pass) { l.last, l.told = &p.census, p.levels }

// end ends a pass of the background, or one that has failed: if the store is damaged or has failed, the metrics tell
// nothing about filters, rather than an old state. The caller holds mu.
func (l *filters) end(p *pass, err error) {
	l.keep(p)
	if err != nil {
		l.last = nil
	}
	l.pass, l.due = nil, time.Now().Add(passEvery)
	if err != nil || p.steps > 1 {
		l.again = l.due
	}
}

// run takes the steps of a pass.
func (p *pass) run(s *Server, pause func(time.Duration)) error {
	for !s.isShuttingDown() {
		begin := time.Now()
		if end, err := p.step(s); end || err != nil {
			return err
		}
		pause(min(pausePerStep*time.Since(begin), maxPause))
	}
	return ErrServerClosed
}

// pauseBetween waits, but not longer than until the server shuts down.
func (s *Server) pauseBetween(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.stopping:
	}
}

// step looks at some keys, and reports whether they were the last.
func (p *pass) step(s *Server) (end bool, err error) {
	keys, next, err := s.db.ScanFrom(s.ctx, p.cursor, perStep, kv.ScanOptions{NoStrings: true})
	if err != nil {
		return false, err
	}
	most := int(s.host.SettingInt(metricsSetting))
	session := module.NewSession(s.db)
	for _, key := range keys {
		if f := s.factsOf(session, key); f.isFilter() {
			p.census.look(key, f, most)
			p.tell(s, key, f)
		}
	}
	p.cursor, p.steps = next, p.steps+1
	return next == 0, nil
}

// level tells how full a filter is that does not grow.
type level int

const (
	nearlyFull level = iota + 1 // 80 percent of the capacity
	almostFull                  // 95 percent
	full
)

func (f facts) level() level {
	switch used := f.used(); {
	case f.grows() || used < kvuse.NearlyFull:
		return 0
	case used < 0.95:
		return nearlyFull
	case used < 1:
		return almostFull
	}
	return full
}

// maxTold is how many filters tell remembers, so that the log has each once. It does not log others.
const maxTold = 10_000

// tell logs that a filter is fuller than it was in the pass before.
func (p *pass) tell(s *Server, key string, f facts) {
	now := f.level()
	if now == 0 || len(p.levels) >= maxTold {
		return
	}
	if p.levels == nil {
		p.levels = make(map[string]level)
	}
	if p.levels[key] = now; now <= p.known[key] {
		return
	}
	message := [...]string{nearlyFull: "sievekv: a filter is 80 percent full", almostFull: "sievekv: a filter is 95 percent full", full: "sievekv: a filter is full"}[now]
	s.warnings.warn(message, "key", label(key), "items", uint64(f.number("items")), "capacity", uint64(f.number("capacity")))
}

var (
	filtersDesc = desc("filters", "Filters, as the last pass over the store has counted them.")
	fullDesc    = desc("filters_full", "Filters that are full, and do not grow.")
	nearlyDesc  = desc("filters_nearly_full", "Filters that have 80 percent or more of their items, are not full, and do not grow.")
	growingDesc = desc("filters_growing", "Filters with more than one layer.")
	aboveDesc   = desc("filters_above_rate", "Filters that answer yes more often than they were made for, by more than chance.")

	filterLabels = []string{"key", "type"}

	// filterMetrics are the metrics of a filter, by their names in SIEVE.STATS.
	filterMetrics = map[string]*prometheus.Desc{
		"bytes":         desc("filter_bytes", "Size of a filter, in bytes.", filterLabels...),
		"items":         desc("filter_items", "Items of a filter.", filterLabels...),
		"capacity":      desc("filter_capacity", "Items a filter is made for, in all its layers.", filterLabels...),
		"fill":          desc("filter_fill_ratio", "Share of the bits or counters that are set.", filterLabels...),
		"load":          desc("filter_load_ratio", "Share of the slots that are taken.", filterLabels...),
		"expected_rate": desc("filter_expected_error_rate", "The error rate of a filter as full as it is.", filterLabels...),
		"error_rate":    desc("filter_error_rate", "The error rate a filter was made for; 0 for none.", filterLabels...),
	}
)

// lookupsDesc and addsDesc are about the use of a filter, by useFacts.
var (
	lookupsDesc = desc("filter_lookups_total", "Lookups of a filter since the store was opened, by their answer.", "key", "type", "answer")
	addsDesc    = desc("filter_adds_total", "Adds to a filter since the store was opened, of items that were new to it or known.", "key", "type", "item")
	useMetrics  = [len(useFacts)]struct {
		desc  *prometheus.Desc
		value string // of the last label
	}{{lookupsDesc, "yes"}, {lookupsDesc, "no"}, {addsDesc, "new"}, {addsDesc, "known"}}
)

// filtersInfo returns the section of INFO about filters: the findings of the last pass, nothing before the first one.
// INFO may be part of a transaction, or run on a damaged store, so it begins no pass itself.
func filtersInfo(s *Server) (fields []module.InfoField) {
	s.filters.mu.Lock()
	last := s.filters.last
	s.filters.mu.Unlock()
	if last == nil {
		return nil
	}
	add := func(name string, n uint64) { fields = append(fields, module.InfoField{Name: name, Value: n}) }
	add("filters", last.all)
	add("filters_nearly_full", last.nearlyFull)
	add("filters_full", last.full)
	add("filters_growing", last.growing)
	add("filters_above_rate", last.aboveRate)
	for i, name := range useFacts {
		add("filter_"+name, last.use[i])
	}
	return fields
}

// collect sends the findings of the last pass. With keys, it also sends metrics of the filters in the rankings.
func (l *filters) collect(s *Server, keys bool, out chan<- prometheus.Metric) {
	l.ask(s)
	l.mu.Lock()
	last := l.last
	l.mu.Unlock()
	if last == nil {
		return
	}
	count := func(d *prometheus.Desc, n uint64) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n))
	}
	count(filtersDesc, last.all)
	count(nearlyDesc, last.nearlyFull)
	count(fullDesc, last.full)
	count(growingDesc, last.growing)
	count(aboveDesc, last.aboveRate)
	if !keys || s.host.SettingInt(metricsSetting) == 0 {
		return
	}
	session := module.NewSession(s.db)
	for _, key := range last.keys() {
		if f := s.factsOf(session, key); f.isFilter() {
			f.collect(key, out)
		}
	}
}

// collect sends the metrics of a filter.
func (f facts) collect(key string, out chan<- prometheus.Metric) {
	labels := []string{label(key), string(f["type"].Bytes())}
	for name, desc := range filterMetrics {
		if _, ok := f[name]; ok {
			out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, f.number(name), labels...)
		}
	}
	for i, m := range useMetrics {
		out <- prometheus.MustNewConstMetric(m.desc, prometheus.CounterValue, f.number(useFacts[i]), append(labels, m.value)...)
	}
}

// factsOf returns the fields of SIEVE.STATS for a key, nil if the key is missing or cannot be read.
func (s *Server) factsOf(session *module.Session, key string) facts {
	list := session.Do(s.ctx, [][]byte{[]byte("SIEVE.STATS"), []byte(key)}).Elems()
	if len(list) != 1 || list[0].Kind() != reply.KindMap {
		return nil
	}
	f := make(facts)
	pairs := list[0].Elems()
	for i := 0; i+1 < len(pairs); i += 2 {
		f[string(pairs[i].Bytes())] = pairs[i+1]
	}
	return f
}

// maxLabel is how many bytes of a key a label shows.
const maxLabel = 256

// label returns a label for a key. Labels must be UTF-8. Different keys have different labels.
func label(key string) string {
	if !utf8.ValidString(key) || len(key) > 0 && key[0] == '"' {
		key = strconv.Quote(key)
	}
	if len(key) > maxLabel {
		h := fnv.New128a()
		_, _ = h.Write([]byte(key)) // never fails
		key = fmt.Sprintf("%s... %x", strconv.Quote(key[:maxLabel]), h.Sum(nil))
	}
	return key
}
