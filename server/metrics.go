package server

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sievekv/sievekv/kv"
)

// MetricsHandler answers GET /metrics in Prometheus' text format; /healthz with 200 while the
// process can be asked at all; and /readyz with 200 if the store takes reads and writes and
// the server is not shutting down, else with 503 and the reason.
func (s *Server) MetricsHandler(o *MetricsOptions) http.Handler {
	if o == nil {
		o = &MetricsOptions{}
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector{s, o.showsKeys()}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		err := s.db.Health()
		if err == nil && s.isDraining() {
			err = ErrServerClosed
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, "ok")
	})
	return o.guard(s, mux)
}

// collector makes metrics of the counts at the moment it is asked.
type collector struct {
	server *Server
	keys   bool // of filters are shown
}

// desc returns the description of a metric of ours.
func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("sievekv_"+name, help, labels, nil)
}

var (
	commandsDesc = desc("command_duration_seconds", "Time a command took, without the wait for a batch to be settled and sent.", "command")
	failedDesc   = desc("command_errors_total", "Commands answered with an error.", "command")
	errorsDesc   = desc("error_replies_total", "Error replies by their first word.", "kind")
	levelTables  = desc("level_tables", "Tables of a level.", "level")
	levelBytes   = desc("level_bytes", "Bytes of the tables of a level.", "level")
	levelFill    = desc("level_fill_ratio", "Size of a level to the size it is to have.", "level")
	upDesc       = desc("up", "1 if the store takes reads and writes, 0.5 if reads alone, as the disk is almost full, 0 if it has failed.")
)

// single is a metric without labels.
type single[T any] struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(T) float64
}

func counter[T any](name, help string, value func(T) float64) single[T] {
	return single[T]{desc(name, help), prometheus.CounterValue, value}
}

func gauge[T any](name, help string, value func(T) float64) single[T] {
	return single[T]{desc(name, help), prometheus.GaugeValue, value}
}

var serverMetrics = []single[*Server]{
	gauge("connections", "Open connections.", func(s *Server) float64 { return float64(len(s.connections())) }),
	gauge("connections_held_bytes", "Memory of the buffers of all connections but those of strangers.",
		func(s *Server) float64 { return float64(s.held.Load()) }),
	gauge("strangers", "Connections whose clients have not given the password yet, or not ended the TLS handshake.",
		func(s *Server) float64 { return float64(s.countStrangers()) }),
	gauge("strangers_held_bytes", "Memory of their buffers.", func(s *Server) float64 { return float64(s.strangers.held.Load()) }),
	counter("strangers_closed_total", "Strangers closed in favour of new ones.", func(s *Server) float64 { return float64(s.stats.closedStrangers.Load()) }),
	counter("failed_handshakes_total", "TLS handshakes that failed.", func(s *Server) float64 { return float64(s.stats.handshakes.Load()) }),
	counter("connections_accepted_total", "Connections accepted.", func(s *Server) float64 { return float64(s.stats.accepted.Load()) }),
	counter("connections_refused_total", "Connections refused: too many, or from elsewhere without a password.",
		func(s *Server) float64 { return float64(s.stats.refused.Load()) }),
	counter("connections_limited_total", "Connections closed for the memory they asked for.",
		func(s *Server) float64 { return float64(s.stats.limited.Load()) }),
	counter("protocol_errors_total", "Connections closed for malformed input.", func(s *Server) float64 { return float64(s.stats.protocolErrors.Load()) }),
	counter("wrong_passwords_total", "Wrong passwords given.", func(s *Server) float64 { return float64(s.stats.wrongPasswords.Load()) }),
	counter("unknown_commands_total", "Commands of unknown names.", func(s *Server) float64 { return float64(s.stats.unknown.Load()) }),
	counter("sent_bytes_total", "Bytes of replies.", func(s *Server) float64 { return float64(s.stats.bytesOut.Load()) }),
}

var storeMetrics = []single[*kv.Metrics]{
	gauge("keys", "Keys.", func(m *kv.Metrics) float64 { return float64(m.Keys) }),
	gauge("open_objects", "Objects open in memory.", func(m *kv.Metrics) float64 { return float64(m.OpenObjects) }),
	gauge("cache_budget_bytes", "Budget of resident blocks and open objects.", func(m *kv.Metrics) float64 { return float64(m.CacheBudget) }),
	gauge("cache_used_bytes", "What of it is used.", func(m *kv.Metrics) float64 { return float64(m.CacheUsed) }),
	counter("cache_evictions_total", "Blocks and objects that had to go.", func(m *kv.Metrics) float64 { return float64(m.CacheEvictions) }),
	counter("blocks_read_total", "Blocks read from tables.", func(m *kv.Metrics) float64 { return float64(m.BlocksRead) }),
	counter("commits_total", "Commits.", func(m *kv.Metrics) float64 { return float64(m.Commits) }),
	counter("commit_bytes_total", "Bytes of commits.", func(m *kv.Metrics) float64 { return float64(m.CommitBytes) }),
	counter("log_syncs_total", "Syncs of the log.", func(m *kv.Metrics) float64 { return float64(m.Syncs) }),
	gauge("watermark_lag", "Operations applied and not known to be on stable storage.",
		func(m *kv.Metrics) float64 {
			return float64(m.LastSequence) - float64(min(m.DurableSequence, m.LastSequence))
		}),
	counter("folds_total", "Blocks written back whole.", func(m *kv.Metrics) float64 { return float64(m.Folds) }),
	gauge("fold_backlog", "Blocks that wait to be.", func(m *kv.Metrics) float64 { return float64(m.FoldBacklog) }),
	counter("reclaimed_objects_total", "Removed objects whose blocks are gone.", func(m *kv.Metrics) float64 { return float64(m.Reclaimed) }),
	counter("expired_keys_total", "Keys removed after their time.", func(m *kv.Metrics) float64 { return float64(m.ExpiredKeys) }),
	counter("object_compactions_total", "Commits that made an object smaller.", func(m *kv.Metrics) float64 { return float64(m.Compactions) }),
	gauge("disk_bytes", "All files of the store but the reserve.", func(m *kv.Metrics) float64 { return float64(m.DiskBytes) }),
	gauge("table_bytes", "Size of the tables.", func(m *kv.Metrics) float64 { return float64(m.TableBytes) }),
	gauge("log_bytes", "Size of the log.", func(m *kv.Metrics) float64 { return float64(m.LogBytes) }),
	gauge("reserve_bytes", "Size of the file that is removed when the disk is full.",
		func(m *kv.Metrics) float64 { return float64(m.ReserveBytes) }),
	counter("log_written_bytes_total", "Bytes written to the log.", func(m *kv.Metrics) float64 { return float64(m.LogBytesWritten) }),
	gauge("memtable_bytes", "Size of the memtables.", func(m *kv.Metrics) float64 { return float64(m.MemTableBytes) }),
	counter("flushes_total", "Memtables written as tables.", func(m *kv.Metrics) float64 { return float64(m.Flushes) }),
	counter("table_compactions_total", "Compactions of tables.", func(m *kv.Metrics) float64 { return float64(m.TableCompactions) }),
	gauge("compaction_debt_bytes", "What compactions of tables have before them.", func(m *kv.Metrics) float64 { return float64(m.CompactionDebt) }),
	gauge("read_amplification", "Tables a read may have to look at.", func(m *kv.Metrics) float64 { return float64(m.ReadAmp) }),
	counter("background_errors_total", "Failed flushes and compactions, which are tried again.",
		func(m *kv.Metrics) float64 { return float64(m.BackgroundErrors) }),
}

// Describe describes nothing: which commands and filters there are is known when they are
// collected.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	s := c.server
	for i := range serverMetrics {
		m := &serverMetrics[i]
		out <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(s))
	}
	c.commands(out)
	out <- prometheus.MustNewConstMetric(upDesc, prometheus.GaugeValue, up(s.db))
	metrics, err := s.db.Metrics()
	if err != nil {
		return // up says it
	}
	for i := range storeMetrics {
		m := &storeMetrics[i]
		out <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(&metrics))
	}
	if c.keys {
		s.largest.collect(s, out)
	}
	for i, l := range metrics.Levels {
		level := strconv.Itoa(i)
		out <- prometheus.MustNewConstMetric(levelTables, prometheus.GaugeValue, float64(l.Tables), level)
		out <- prometheus.MustNewConstMetric(levelBytes, prometheus.GaugeValue, float64(l.Bytes), level)
		out <- prometheus.MustNewConstMetric(levelFill, prometheus.GaugeValue, l.Fill, level)
	}
}

func up(db *kv.DB) float64 {
	switch err := db.Health(); {
	case err == nil:
		return 1
	case errors.Is(err, kv.ErrNoSpace):
		return 0.5
	}
	return 0
}

// commands collects what ran. A command that never did is left out.
func (c collector) commands(out chan<- prometheus.Metric) {
	for _, cmd := range c.server.db.Commands() {
		st := c.server.stats.commands[cmd]
		count := uint64(0)
		buckets := make(map[float64]uint64, latencyBuckets)
		for i := range st.latency {
			count += st.latency[i].Load()
			if i < latencyBuckets-1 {
				buckets[math.Ldexp(float64(time.Microsecond)/float64(time.Second), i)] = count
			}
		}
		if count+st.rejected.Load() == 0 {
			continue
		}
		name := cmd.LowerName()
		sum := time.Duration(st.nanos.Load()).Seconds()
		out <- prometheus.MustNewConstHistogram(commandsDesc, count, sum, buckets, name)
		out <- prometheus.MustNewConstMetric(failedDesc, prometheus.CounterValue, float64(st.failed.Load()+st.rejected.Load()), name)
	}
	for i, kind := range errorKinds {
		if n := c.server.stats.errors[i].Load(); n > 0 {
			out <- prometheus.MustNewConstMetric(errorsDesc, prometheus.CounterValue, float64(n), kind)
		}
	}
}
