package server

import (
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sievekv/sievekv/metrics"
)

// MetricsHandler serves three paths. GET /metrics gives metrics in Prometheus' text format. /healthz answers 200
// while the process runs. /readyz answers 200 if the store takes reads and writes and the server is not shutting
// down, otherwise 503 with the reason. If damage was met in the store, it says so: all else is still answered. It also says so, and
// answers 200, if no leader of the store's group is known: members that are not ready might not reach each other.
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
		if err == nil && s.isShuttingDown() {
			err = ErrServerClosed
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, s.readyText())
	})
	return o.guard(s, mux)
}

// readyText returns what /readyz says of a store that takes reads and writes.
func (s *Server) readyText() string {
	text := "ok"
	if s.group != nil && s.group.Status().Leading() == nil {
		text += ", but no leader of the group is known: nobody takes writes"
	}
	if damaged := s.db.DamagedBlocks(); damaged > 0 {
		text += fmt.Sprintf(", but damaged: reads of %d blocks of tables fail; check the store, and restore a backup or salvage it", damaged)
	}
	return text
}

// collector makes metrics from the server's counters when it is asked.
type collector struct {
	server *Server
	keys   bool // show filters by key
}

// desc returns the description of a metric named sievekv_name.
func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("sievekv_"+name, help, labels, nil)
}

var (
	commandsDesc = desc("command_duration_seconds", "Time that commands ran, without the time to settle and send their batch.", "command")
	failedDesc   = desc("command_errors_total", "Commands that ran and answered an error, or one among the elements of the reply.", "command")
	rejectedDesc = desc("commands_rejected_total", "Commands refused before they ran.", "command")
	errorsDesc   = desc("error_replies_total", "Errors in replies, also among elements, by their first word; FULL for a filter without room.", "command", "kind")
)

// single is a metric without labels.
type single struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*Server) float64
}

func counter(name, help string, value func(*Server) float64) single {
	return single{desc(name, help), prometheus.CounterValue, value}
}

func gauge(name, help string, value func(*Server) float64) single {
	return single{desc(name, help), prometheus.GaugeValue, value}
}

var serverMetrics = []single{
	gauge("connections", "Open connections.", func(s *Server) float64 { return float64(len(s.connections())) }),
	gauge("connections_held_bytes", "Memory of the buffers of all connections except strangers.",
		func(s *Server) float64 { return float64(s.held.Load()) }),
	gauge("strangers", "Connections whose clients have not given the password yet, or not finished the TLS handshake.",
		func(s *Server) float64 { return float64(s.countStrangers()) }),
	gauge("strangers_held_bytes", "Memory of the buffers of strangers.", func(s *Server) float64 { return float64(s.strangers.held.Load()) }),
	counter("strangers_closed_total", "Strangers closed to make room for new ones.", func(s *Server) float64 { return float64(s.stats.closedStrangers.Load()) }),
	counter("failed_handshakes_total", "TLS handshakes that failed.", func(s *Server) float64 { return float64(s.stats.handshakes.Load()) }),
	counter("connections_accepted_total", "Connections accepted.", func(s *Server) float64 { return float64(s.stats.accepted.Load()) }),
	counter("connections_refused_total", "Connections refused: too many, or from another machine while there is no password.",
		func(s *Server) float64 { return float64(s.stats.refused.Load()) }),
	counter("connections_limited_total", "Connections closed for the memory they asked for.",
		func(s *Server) float64 { return float64(s.stats.limited.Load()) }),
	counter("protocol_errors_total", "Connections closed for malformed input.", func(s *Server) float64 { return float64(s.stats.protocolErrors.Load()) }),
	counter("wrong_passwords_total", "Wrong passwords.", func(s *Server) float64 { return float64(s.stats.wrongPasswords.Load()) }),
	counter("unknown_commands_total", "Commands with unknown names.", func(s *Server) float64 { return float64(s.stats.unknown.Load()) }),
	counter("received_bytes_total", "Bytes of commands.", func(s *Server) float64 { return float64(s.stats.bytesIn.Load()) }),
	counter("keys_found_total", "Keys that commands of category read have found.", func(s *Server) float64 { return float64(s.stats.keysFound.Load()) }),
	counter("keys_missing_total", "Keys that commands of category read have not found.",
		func(s *Server) float64 { return float64(s.stats.keysMissing.Load()) }),
	counter("sent_bytes_total", "Bytes of replies.", func(s *Server) float64 { return float64(s.stats.bytesOut.Load()) }),
}

// Describe describes nothing: the commands and filters are known only when Collect runs.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	s := c.server
	for i := range serverMetrics {
		m := &serverMetrics[i]
		out <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(s))
	}
	if s.group != nil {
		collectGroup(s.group, out)
	}
	c.commands(out)
	if err := metrics.Collect(s.db, out); err != nil {
		return // sievekv_up says it
	}
	s.filters.collect(s, c.keys, out)
}

// commands sends the metrics of commands that have run at least once.
func (c collector) commands(out chan<- prometheus.Metric) {
	for _, cmd := range c.server.host.Commands() {
		st := c.server.stats.of(cmd)
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
		out <- prometheus.MustNewConstMetric(failedDesc, prometheus.CounterValue, float64(st.failed.Load()), name)
		out <- prometheus.MustNewConstMetric(rejectedDesc, prometheus.CounterValue, float64(st.rejected.Load()), name)
		st.errors.collect(out, name)
	}
	c.server.stats.errors.collect(out, "")
}

// collect sends how many errors of a command there were of each kind.
func (e *errorStats) collect(out chan<- prometheus.Metric, command string) {
	for i, kind := range errorKinds {
		if n := e[i].Load(); n > 0 {
			out <- prometheus.MustNewConstMetric(errorsDesc, prometheus.CounterValue, float64(n), command, kind)
		}
	}
}
