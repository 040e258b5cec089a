package server

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// largest finds the largest filters of a store for the metrics. To look at a million filters takes half a minute, so
// each collection looks at perCollect more keys, round and round, and remembers the largest filters found so far.
type largest struct {
	mu     sync.Mutex
	cursor uint64            // where the scan goes on
	bytes  map[string]uint64 // of filters, by key
}

// perCollect is how many keys a collection looks at.
const perCollect = 1000

var (
	filterLabels = []string{"key", "type"}

	filterBytes = desc("filter_bytes", "Size of a filter, in bytes.", filterLabels...)

	// filterMetrics are the metrics of a filter, by their names in SIEVE.STATS.
	filterMetrics = map[string]*prometheus.Desc{
		"items":         desc("filter_items", "Items of a filter.", filterLabels...),
		"capacity":      desc("filter_capacity", "Items a filter is made for, in all its layers.", filterLabels...),
		"fill":          desc("filter_fill_ratio", "Share of the bits or counters that are set.", filterLabels...),
		"load":          desc("filter_load_ratio", "Share of the slots that are taken.", filterLabels...),
		"expected_rate": desc("filter_expected_error_rate", "The error rate of a filter as full as it is.", filterLabels...),
		"error_rate":    desc("filter_error_rate", "The error rate a filter was made for; 0 for none.", filterLabels...),
	}
)

// collect sends metrics of the largest filters; the setting says how many.
func (l *largest) collect(s *Server, out chan<- prometheus.Metric) {
	most := int(s.host.SettingInt(metricsSetting))
	if most == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bytes == nil {
		l.bytes = make(map[string]uint64)
	}
	keys, next, err := s.db.ScanFrom(s.ctx, l.cursor, perCollect, kv.ScanOptions{NoStrings: true})
	if err != nil {
		return // sievekv_up shows it
	}
	l.cursor = next
	session := module.NewSession(s.db)
	for _, key := range keys {
		if facts := s.factsOf(session, key); facts != nil {
			l.bytes[key] = uint64(facts["bytes"].Int())
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(l.bytes), func(a, b string) int {
		return cmp.Or(cmp.Compare(l.bytes[b], l.bytes[a]), cmp.Compare(a, b))
	}) {
		facts := map[string]reply.Reply(nil)
		if most > 0 {
			facts = s.factsOf(session, key)
		}
		if facts == nil {
			delete(l.bytes, key)
			continue
		}
		most--
		l.bytes[key] = uint64(facts["bytes"].Int())
		labels := []string{label(key), string(facts["type"].Bytes())}
		out <- prometheus.MustNewConstMetric(filterBytes, prometheus.GaugeValue, float64(l.bytes[key]), labels...)
		for name, desc := range filterMetrics {
			if fact, ok := facts[name]; ok {
				value := float64(fact.Int())
				if fact.Kind() == reply.KindDouble {
					value = fact.Double()
				}
				out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
			}
		}
	}
}

// factsOf returns the fields of SIEVE.STATS for a key, nil if the key is missing or cannot be read.
func (s *Server) factsOf(session *module.Session, key string) map[string]reply.Reply {
	list := session.Do(s.ctx, [][]byte{[]byte("SIEVE.STATS"), []byte(key)}).Elems()
	if len(list) != 1 || list[0].Kind() != reply.KindMap {
		return nil
	}
	facts := make(map[string]reply.Reply)
	pairs := list[0].Elems()
	for i := 0; i+1 < len(pairs); i += 2 {
		facts[string(pairs[i].Bytes())] = pairs[i+1]
	}
	return facts
}

// maxLabel is how many bytes of a key are shown in a label.
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
