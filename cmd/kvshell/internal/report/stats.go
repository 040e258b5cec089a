// Package report has what the words stats and plan print about stores, keys and filters: as text for people and, by
// package json, as objects for programs.
package report

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/sievekv/sievekv/cmd/kvshell/internal/filters"
	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/internal/hash"
	"github.com/sievekv/sievekv/module/reply"
)

// Stats reads a reply to SIEVE.STATS about the store or, if ofKey, about a key. The reply has the types of RESP3.
func Stats(r reply.Reply, ofKey bool) (result Result, err error) {
	result = new(storeStats)
	if ofKey {
		result = new(keyStats)
	}
	if err := json.Unmarshal(reply.AppendJSON(nil, r), result); err != nil {
		return nil, fmt.Errorf("SIEVE.STATS: %w", err)
	}
	return result, nil
}

// Result is what is printed: a text for people, and fields for programs.
type Result interface{ Text() string }

// storeStats is what stats tells about a store. Counts begin when the store is opened.
type storeStats struct {
	Directory  string          `json:"directory"`
	Keys       uint64          `json:"keys"`
	DiskBytes  uint64          `json:"disk_bytes"` // without the reserve
	TableBytes uint64          `json:"table_bytes"`
	LogBytes   uint64          `json:"log_bytes"`
	Reserve    uint64          `json:"reserve_bytes"`
	Durability string          `json:"durability"`
	Commits    uint64          `json:"commits"`
	Syncs      uint64          `json:"syncs"`
	Cache      cacheStats      `json:"cache"`
	Pebble     pebbleStats     `json:"pebble"`
	Compaction compactionStats `json:"compaction"`
}

type cacheStats struct {
	UsedBytes   uint64 `json:"used_bytes"`
	BudgetBytes uint64 `json:"budget_bytes"`
	Evictions   uint64 `json:"evictions"`
	BlocksRead  uint64 `json:"blocks_read"`
}

type pebbleStats struct {
	MemtableBytes     uint64 `json:"memtable_bytes"`
	LogBytesWritten   uint64 `json:"log_bytes_written"`
	Flushes           uint64 `json:"flushes"`
	Compactions       uint64 `json:"compactions"`
	ReadAmplification uint64 `json:"read_amplification"`
}

type compactionStats struct {
	Folds             uint64 `json:"folds"`
	FoldBacklog       int    `json:"fold_backlog"`
	Reclaimed         uint64 `json:"reclaimed"` // objects
	ReclaimBacklog    int    `json:"reclaim_backlog"`
	CompactionBacklog int    `json:"compaction_backlog"`
	ExpiryBacklog     int    `json:"expiry_backlog"`
}

func (s *storeStats) Text() string {
	return facts([][2]string{
		{"directory", s.Directory},
		{"keys", fmt.Sprint(s.Keys)},
		{"on disk", fmt.Sprintf("%d bytes, with %d in tables and %d of log", s.DiskBytes, s.TableBytes, s.LogBytes)},
		{"reserve", fmt.Sprintf("%d bytes, for when the disk is full", s.Reserve)},
		{"durability", s.Durability},
		{"commits", fmt.Sprintf("%d, with %d bytes of log", s.Commits, s.Pebble.LogBytesWritten)},
		{"syncs", fmt.Sprint(s.Syncs)},
		{"cache", fmt.Sprintf("%d of %d bytes used", s.Cache.UsedBytes, s.Cache.BudgetBytes)},
		{"evictions", fmt.Sprint(s.Cache.Evictions)},
		{"blocks read", fmt.Sprint(s.Cache.BlocksRead)},
		{"memtables", fmt.Sprintf("%d bytes", s.Pebble.MemtableBytes)},
		{"flushes", fmt.Sprint(s.Pebble.Flushes)},
		{"compactions", fmt.Sprint(s.Pebble.Compactions)},
		{"read amplification", fmt.Sprint(s.Pebble.ReadAmplification)},
		{"blocks folded", fmt.Sprintf("%d, %d waiting", s.Compaction.Folds, s.Compaction.FoldBacklog)},
		{"objects reclaimed", fmt.Sprintf("%d, %d waiting", s.Compaction.Reclaimed, s.Compaction.ReclaimBacklog)},
		{"objects to compact", fmt.Sprint(s.Compaction.CompactionBacklog)},
		{"expired keys", fmt.Sprintf("%d are still stored", s.Compaction.ExpiryBacklog)},
	})
}

// facts lays names and values out in two columns.
func facts(rows [][2]string) string {
	width := 0
	for _, row := range rows {
		width = max(width, len(row[0]))
	}
	var b strings.Builder
	for _, row := range rows {
		fmt.Fprintf(&b, "%-*s  %s\n", width, row[0], row[1])
	}
	return b.String()
}

// keyStats is what stats tells about a key. At most one of bloom, cuckoo and counting is set, by the filter's type.
type keyStats struct {
	Key           string `json:"key"`
	Type          string `json:"type"`
	Bytes         uint64 `json:"bytes"` // of bit arrays or of a string; on disk and in memory only what is used
	DiskBytes     uint64 `json:"disk_bytes"`
	ResidentBytes uint64 `json:"resident_bytes"`
	ExpiresAt     int64  `json:"expires_at_ms"`
	Hash          string `json:"hash"` // of the items of a filter
	Lossy         bool   `json:"lossy,omitempty"`
	use                  // of a filter, since the store was opened

	bloom    *filterStats
	cuckoo   *cuckooStats
	counting *countingStats
}

type filterStats struct {
	Items          uint64       `json:"items"`
	ItemsEstimated bool         `json:"items_estimated"`
	Distinct       uint64       `json:"distinct"` // estimated
	Capacity       uint64       `json:"capacity"`
	Fill           float64      `json:"fill"`
	ExpectedRate   float64      `json:"expected_rate"`
	ErrorRate      float64      `json:"error_rate"`
	Expansion      uint32       `json:"expansion"`
	Scheme         string       `json:"scheme,omitempty"`    // of a filter that was imported from another library
	Layers         []layerStats `json:"layers"`              // oldest first
	Window         float64      `json:"window,omitempty"`    // seconds after which it forgets items
	Last           uint64       `json:"last,omitempty"`      // items: it forgets all others
	Slices         []sliceStats `json:"slices,omitempty"`    // oldest first
	LogBytes       uint64       `json:"log_bytes,omitempty"` // of the log that it grows from
}

// sliceStats is a slice of a filter that forgets. Age and TTL are seconds. Of a filter in a file, Begun and ExpiresAt are there in
// their place, in Unix seconds.
type sliceStats struct {
	Items    uint64  `json:"items"`
	Capacity uint64  `json:"capacity"`
	Fill     float64 `json:"fill"`
	Layers   int     `json:"layers"`
	Age      float64 `json:"age,omitempty"`
	TTL      float64 `json:"ttl,omitempty"`

	Begun     float64 `json:"begun,omitempty"`
	ExpiresAt float64 `json:"expires_at,omitempty"`
}

type layerStats struct {
	Capacity  uint64  `json:"capacity"`
	Items     uint64  `json:"items"`
	Fill      float64 `json:"fill"`
	Bits      uint64  `json:"bits"`
	Hashes    int     `json:"hashes"`
	ErrorRate float64 `json:"error_rate"`
}

// cuckooStats is filterStats for a cuckoo filter.
type cuckooStats struct {
	Items           uint64             `json:"items"`
	Deletes         uint64             `json:"deletes"` // since the last compaction
	Capacity        uint64             `json:"capacity"`
	Load            float64            `json:"load"`
	ExpectedRate    float64            `json:"expected_rate"`
	ErrorRate       float64            `json:"error_rate"`
	FingerprintBits int                `json:"fingerprint_bits"`
	BucketSize      int                `json:"bucket_size"`
	MaxIterations   int                `json:"max_iterations"`
	Expansion       uint32             `json:"expansion"`
	MaxLayers       int                `json:"max_layers"`
	Layers          []cuckooLayerStats `json:"layers"` // oldest first
}

type cuckooLayerStats struct {
	Blocks     uint64  `json:"blocks"`
	BlockBytes uint64  `json:"block_bytes"`
	Capacity   uint64  `json:"capacity"`
	Items      uint64  `json:"items"`
	Load       float64 `json:"load"`
}

// countingStats is filterStats for a counting Bloom filter.
type countingStats struct {
	Items        uint64               `json:"items"`
	DeletesKept  uint64               `json:"deletes_kept"`
	Leftover     uint64               `json:"leftover"`
	Ordered      bool                 `json:"ordered"`
	Stuck        uint64               `json:"stuck"`
	Distinct     uint64               `json:"distinct"` // estimated
	Capacity     uint64               `json:"capacity"`
	Fill         float64              `json:"fill"`
	ExpectedRate float64              `json:"expected_rate"`
	DeletedRate  float64              `json:"deleted_rate"`
	ErrorRate    float64              `json:"error_rate"`
	Expansion    uint32               `json:"expansion"`
	Layers       []countingLayerStats `json:"layers"` // oldest first
}

type countingLayerStats struct {
	Capacity  uint64  `json:"capacity"`
	Items     uint64  `json:"items"` // without adds that changed no counter
	Fill      float64 `json:"fill"`
	Stuck     uint64  `json:"stuck"`
	Counters  uint64  `json:"counters"`
	Hashes    int     `json:"hashes"`
	ErrorRate float64 `json:"error_rate"`
}

func cuckooStatsOf(info cuckooext.Info) *cuckooStats {
	s := &cuckooStats{
		Items: info.Items, Deletes: info.Deletes, Capacity: info.Capacity, Load: filters.SlotsTaken(info), ExpectedRate: info.ExpectedRate,
		ErrorRate: info.ErrorRate, FingerprintBits: info.FingerprintBits, BucketSize: info.BucketSize,
		MaxIterations: info.MaxIterations, Expansion: info.Expansion, MaxLayers: info.MaxLayers,
	}
	for _, l := range info.Layers {
		s.Layers = append(s.Layers, cuckooLayerStats(l))
	}
	return s
}

// UnmarshalJSON also reads the fields of a filter into the struct for its type.
func (s *keyStats) UnmarshalJSON(b []byte) error {
	type plain keyStats
	if err := json.Unmarshal(b, (*plain)(s)); err != nil {
		return err
	}
	switch kind, _ := filters.KindOf(s.Type); kind {
	case filters.Bloom:
		return json.Unmarshal(b, &s.bloom)
	case filters.Cuckoo:
		return json.Unmarshal(b, &s.cuckoo)
	case filters.Counting:
		return json.Unmarshal(b, &s.counting)
	}
	return nil
}

func (s *keyStats) Text() string {
	rows := append([][2]string{{"key", fmt.Sprintf("%q", s.Key)}, {"type", s.Type}}, s.kindRows()...)
	bytes := fmt.Sprint(s.Bytes)
	if s.Type != "string" && s.Bytes > 0 {
		bytes = fmt.Sprintf("%d reserved, %d on disk, %d in memory", s.Bytes, s.DiskBytes, s.ResidentBytes)
	}
	expires := "never"
	if s.ExpiresAt != 0 {
		at := time.UnixMilli(s.ExpiresAt).UTC().Format(time.RFC3339)
		expires = fmt.Sprintf("%s, in %d seconds", at, (s.ExpiresAt-time.Now().UnixMilli())/1000)
	}
	rows = append(rows, s.use.rows(s.layers() != "")...)
	rows = append(rows, [][2]string{
		{"bytes", bytes},
		{"expires", expires},
	}...)
	return facts(rows) + s.layers()
}

// kindRows returns what is told of a filter, none for another key.
func (s *keyStats) kindRows() (rows [][2]string) {
	if f := s.bloom; f != nil {
		items, growth := fmt.Sprint(f.Items), "no further layer"
		if f.ItemsEstimated {
			items = "about " + items
		}
		if f.Expansion != 0 {
			growth = fmt.Sprintf("by layers for %d times the items of the one before", f.Expansion)
		}
		if f.LogBytes > 0 {
			growth = fmt.Sprintf("from a log of %d bytes", f.LogBytes)
		}
		rate := fmt.Sprintf("%.3g expected now, at most %g asked for", f.ExpectedRate, f.ErrorRate)
		if f.Scheme != "" { // nobody has asked
			rate = fmt.Sprintf("%.3g expected now, %.3g with %d items", f.ExpectedRate, f.ErrorRate, f.Capacity)
		}
		rows = append(rows, [][2]string{
			{"items", fmt.Sprintf("%s of %d", items, f.Capacity)},
			{"distinct", fmt.Sprintf("%d estimated by the bits set", f.Distinct)},
			{"fill", fmt.Sprintf("%.2f %% of the bits", 100*f.Fill)},
			{"error rate", rate},
			{"growth", growth},
		}...)
		if f.Scheme != "" {
			rows = append(rows, [2]string{"layout", "foreign: " + f.Scheme})
		}
		rows = append(rows, f.windowRows()...)
	}
	if s.cuckoo != nil {
		rows = append(rows, s.cuckoo.rows()...)
	}
	if s.counting != nil {
		rows = append(rows, s.counting.rows()...)
	}
	if s.Lossy {
		rows = append(rows, [2]string{"lossy", "salvaged without all of its blocks: it may miss items"})
	}
	if s.Hash != "" {
		text := s.Hash
		if text == hash.Murmur64A.String() {
			text += ", public as RedisBloom's: items that collide can be chosen; docs/MIGRATING.md says how to leave it"
		}
		rows = append(rows, [2]string{"hash", text})
	}
	return rows
}

// layers returns the table of a filter's layers, with a blank line before it; "" for another key.
func (s *keyStats) layers() string {
	switch {
	case s.bloom != nil:
		return "\n" + s.bloom.layerTable()
	case s.cuckoo != nil:
		return "\n" + s.cuckoo.layerTable()
	case s.counting != nil:
		return "\n" + s.counting.layerTable()
	}
	return ""
}

func (s *cuckooStats) rows() [][2]string {
	growth := "no further layer"
	if s.Expansion != 0 {
		growth = fmt.Sprintf("by layers of at least %d times the size of the one before, %d at most", s.Expansion, s.MaxLayers)
	}
	return [][2]string{
		{"items", fmt.Sprintf("%d of %d", s.Items, s.Capacity)},
		{"deleted", fmt.Sprintf("%d since the last compaction", s.Deletes)},
		{"load", fmt.Sprintf("%.2f %% of the slots", 100*s.Load)},
		{"fingerprints", fmt.Sprintf("%d bits, %d to a bucket, %d moved at most", s.FingerprintBits, s.BucketSize, s.MaxIterations)},
		{"error rate", fmt.Sprintf("%.3g expected now, at most %.3g", s.ExpectedRate, s.ErrorRate)},
		{"growth", growth},
	}
}

func (s *cuckooStats) layerTable() string {
	rows := [][]string{{"layer", "blocks", "capacity", "items", "load"}}
	for i, l := range s.Layers {
		rows = append(rows, []string{
			fmt.Sprint(i), fmt.Sprint(l.Blocks), fmt.Sprint(l.Capacity), fmt.Sprint(l.Items), fmt.Sprintf("%.2f %%", 100*l.Load),
		})
	}
	return columns(rows)
}

func (s *countingStats) rows() [][2]string {
	growth := "no further layer"
	if s.Expansion != 0 {
		growth = fmt.Sprintf("by layers for %d times the items of the one before", s.Expansion)
	}
	kept := fmt.Sprintf("%d, which counted nothing down", s.DeletesKept)
	if s.DeletesKept > 0 {
		kept += fmt.Sprintf("; %d adds are left over, %.3g for each item, and %.3g of the items deleted are found",
			s.Leftover, float64(s.Leftover)/float64(max(1, s.Items)), s.DeletedRate)
	}
	return [][2]string{
		{"items", fmt.Sprintf("%d of %d", s.Items, s.Capacity)},
		{"distinct", fmt.Sprintf("%d estimated by the counters above 0", s.Distinct)},
		{"deletes kept", kept},
		{"stuck", fmt.Sprintf("%d counters at %d", s.Stuck, countingext.MaxCount)},
		{"fill", fmt.Sprintf("%.2f %% of the counters above 0", 100*s.Fill)},
		{"error rate", fmt.Sprintf("%.3g expected now, at most %g asked for", s.ExpectedRate, s.ErrorRate)},
		{"growth", growth},
	}
}

func (s *countingStats) layerTable() string {
	rows := [][]string{{"layer", "capacity", "items", "fill", "stuck", "counters", "hashes", "error rate"}}
	for i, l := range s.Layers {
		rows = append(rows, []string{
			fmt.Sprint(i), fmt.Sprint(l.Capacity), fmt.Sprint(l.Items), fmt.Sprintf("%.2f %%", 100*l.Fill),
			fmt.Sprint(l.Stuck), fmt.Sprint(l.Counters), fmt.Sprint(l.Hashes), fmt.Sprintf("%.3g", l.ErrorRate),
		})
	}
	return columns(rows)
}

// windowRows returns what is told of a filter that forgets, nothing for others.
func (s *filterStats) windowRows() (rows [][2]string) {
	seconds := func(n float64) time.Duration { return time.Duration(n * float64(time.Second)).Round(time.Second) }
	switch {
	case s.Window != 0:
		rows = [][2]string{{"forgets", fmt.Sprintf("items that were not added for %v", seconds(s.Window))}}
	case s.Last != 0:
		rows = [][2]string{{"forgets", fmt.Sprintf("all but the last %d items", s.Last)}}
	}
	for i, l := range s.Slices {
		row := fmt.Sprintf("%d items of %d, %.2f %% of the bits", l.Items, l.Capacity, 100*l.Fill)
		at := func(n float64) string { return time.UnixMilli(int64(n * 1000)).UTC().Format(time.RFC3339) }
		switch {
		case l.ExpiresAt != 0:
			row += fmt.Sprintf(", began %s, expires %s", at(l.Begun), at(l.ExpiresAt))
		case s.Window != 0:
			row += fmt.Sprintf(", began %v ago, expires in %v", seconds(l.Age), seconds(l.TTL))
		}
		rows = append(rows, [2]string{fmt.Sprint("slice ", i), row})
	}
	return rows
}

func (s *filterStats) layerTable() string {
	rows := [][]string{{"layer", "capacity", "items", "fill", "bits", "hashes", "error rate"}}
	for i, l := range s.Layers {
		rows = append(rows, []string{
			fmt.Sprint(i), fmt.Sprint(l.Capacity), fmt.Sprint(l.Items), fmt.Sprintf("%.2f %%", 100*l.Fill),
			fmt.Sprint(l.Bits), fmt.Sprint(l.Hashes), fmt.Sprintf("%.3g", l.ErrorRate),
		})
	}
	return columns(rows)
}
