// Package metrics gives the metrics of a store to Prometheus. Server.MetricsHandler of package server has them too,
// with the server's own.
package metrics

import (
	"errors"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sievekv/sievekv/kv"
)

// New returns a collector of a store's metrics, whose names begin with "sievekv_". It reads them when Prometheus asks.
// For a store that has failed or was closed it gives sievekv_up alone, which is then 0.
func New(db *kv.DB) prometheus.Collector { return collector{db} }

type collector struct{ db *kv.DB }

// Describe implements prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{up, free, levelTables, levelBytes, levelFill} {
		out <- d
	}
	for i := range singles {
		out <- singles[i].desc
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) { _ = Collect(c.db, out) } // sievekv_up says what is wrong

// Collect sends the metrics of a store to out. If it returns an error, it has sent sievekv_up alone.
func Collect(db *kv.DB, out chan<- prometheus.Metric) error {
	out <- prometheus.MustNewConstMetric(up, prometheus.GaugeValue, health(db))
	m, err := db.Metrics()
	if err != nil {
		return err
	}
	for i := range singles {
		s := &singles[i]
		out <- prometheus.MustNewConstMetric(s.desc, s.kind, s.value(&m))
	}
	if m.DiskTotal > 0 {
		out <- prometheus.MustNewConstMetric(free, prometheus.GaugeValue, float64(m.DiskFree))
	}
	for i, l := range m.Levels {
		level := strconv.Itoa(i)
		out <- prometheus.MustNewConstMetric(levelTables, prometheus.GaugeValue, float64(l.Tables), level)
		out <- prometheus.MustNewConstMetric(levelBytes, prometheus.GaugeValue, float64(l.Bytes), level)
		out <- prometheus.MustNewConstMetric(levelFill, prometheus.GaugeValue, l.Fill, level)
	}
	return nil
}

func health(db *kv.DB) float64 {
	switch err := db.Health(); {
	case err == nil:
		return 1
	case errors.Is(err, kv.ErrNoSpace):
		return 0.5
	}
	return 0
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("sievekv_"+name, help, labels, nil)
}

var (
	levelTables = desc("level_tables", "Tables of a level.", "level")
	levelBytes  = desc("level_bytes", "Bytes of the tables of a level.", "level")
	levelFill   = desc("level_fill_ratio", "Size of a level to the size it is to have.", "level")
	free        = desc("disk_free_bytes", "Free space of the file system that the store is on.")
	up          = desc("up", "1 if the store takes reads and writes, 0.5 if reads alone, as the disk is almost full, 0 if it has failed.")
)

// single is a metric without labels.
type single struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*kv.Metrics) float64
}

func counter(name, help string, value func(*kv.Metrics) float64) single {
	return single{desc(name, help), prometheus.CounterValue, value}
}

func gauge(name, help string, value func(*kv.Metrics) float64) single {
	return single{desc(name, help), prometheus.GaugeValue, value}
}

// singles are the metrics without labels but up.
var singles = []single{
	gauge("keys", "Keys.", func(m *kv.Metrics) float64 { return float64(m.Keys) }),
	gauge("open_objects", "Objects open in memory.", func(m *kv.Metrics) float64 { return float64(m.OpenObjects) }),
	gauge("cache_budget_bytes", "Budget of resident blocks and open objects.", func(m *kv.Metrics) float64 { return float64(m.CacheBudget) }),
	gauge("cache_used_bytes", "What of it is used.", func(m *kv.Metrics) float64 { return float64(m.CacheUsed) }),
	counter("cache_evictions_total", "Blocks and objects that had to go.", func(m *kv.Metrics) float64 { return float64(m.CacheEvictions) }),
	gauge("string_cache_budget_bytes", "Budget of strings in memory.", func(m *kv.Metrics) float64 { return float64(m.Strings.Budget) }),
	gauge("string_cache_used_bytes", "What of it is used.", func(m *kv.Metrics) float64 { return float64(m.Strings.Used) }),
	gauge("string_cache_keys", "Keys with an entry there.", func(m *kv.Metrics) float64 { return float64(m.Strings.Keys) }),
	counter("string_cache_hits_total", "Lookups of keys that were answered there.", func(m *kv.Metrics) float64 { return float64(m.Strings.Hits) }),
	counter("string_cache_misses_total", "Lookups of keys that were not.", func(m *kv.Metrics) float64 { return float64(m.Strings.Misses) }),
	counter("blocks_read_total", "Blocks read from tables.", func(m *kv.Metrics) float64 { return float64(m.BlocksRead) }),
	counter("commits_total", "Commits.", func(m *kv.Metrics) float64 { return float64(m.Commits) }),
	counter("commit_bytes_total", "Bytes of commits.", func(m *kv.Metrics) float64 { return float64(m.CommitBytes) }),
	counter("growth_log_bytes_total", "Bytes of commits for the logs from which filters grow.",
		func(m *kv.Metrics) float64 { return float64(m.GrowthLogBytes) }),
	counter("log_syncs_total", "Syncs of the log.", func(m *kv.Metrics) float64 { return float64(m.Syncs) }),
	counter("log_sync_seconds_total", "Time for which commits waited for syncs of the log.",
		func(m *kv.Metrics) float64 { return m.SyncTime.Seconds() }),
	gauge("watermark_lag", "Operations applied and not known to be on stable storage.",
		func(m *kv.Metrics) float64 {
			return float64(m.LastSequence) - float64(min(m.DurableSequence, m.LastSequence))
		}),
	counter("folds_total", "Blocks written back whole.", func(m *kv.Metrics) float64 { return float64(m.Folds) }),
	gauge("fold_backlog", "Blocks that wait to be.", func(m *kv.Metrics) float64 { return float64(m.FoldBacklog) }),
	counter("reclaimed_objects_total", "Removed objects whose blocks are gone.", func(m *kv.Metrics) float64 { return float64(m.Reclaimed) }),
	gauge("reclaim_backlog", "Removed objects whose blocks are still stored, counted up to 1000.",
		func(m *kv.Metrics) float64 { return float64(m.ReclaimBacklog) }),
	counter("expired_keys_total", "Keys removed after their time.", func(m *kv.Metrics) float64 { return float64(m.ExpiredKeys) }),
	gauge("expiry_backlog", "Keys after their time that are still stored, counted up to 1000.",
		func(m *kv.Metrics) float64 { return float64(m.ExpiryBacklog) }),
	counter("object_compactions_total", "Commits that made an object smaller.", func(m *kv.Metrics) float64 { return float64(m.Compactions) }),
	gauge("object_compaction_backlog", "Objects that wait to be made smaller.",
		func(m *kv.Metrics) float64 { return float64(m.CompactBacklog) }),
	counter("put_off_total", "Background work that waited because compactions of tables were behind.",
		func(m *kv.Metrics) float64 { return float64(m.PutOff) }),
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
	gauge("compactions_behind", "1 while a commit waits for compactions of tables, or soon will.",
		func(m *kv.Metrics) float64 {
			if m.Behind {
				return 1
			}
			return 0
		}),
	gauge("read_amplification", "Tables a read may have to look at.", func(m *kv.Metrics) float64 { return float64(m.ReadAmp) }),
	counter("background_errors_total", "Failed flushes and compactions, which are tried again.",
		func(m *kv.Metrics) float64 { return float64(m.BackgroundErrors) }),
	gauge("damaged_blocks", "Blocks of tables that were found damaged and are still there: reads of what is in them fail.",
		func(m *kv.Metrics) float64 { return float64(m.DamagedBlocks) }),
	counter("damaged_reads_total", "Reads that failed on damaged tables.",
		func(m *kv.Metrics) float64 { return float64(m.DamagedReads) }),
}
