package server

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
)

// services returns the module's services: registration, and the sections of INFO that Redis has.
func (h *hub) services() []module.Service {
	section := func(name string, fields func(s *Server) []module.InfoField) module.Service {
		return &infoSection{hub: h, name: name, fields: fields}
	}
	return []module.Service{
		&registration{section("Server", serverInfo), h},
		section("Clients", clientsInfo),
		section("Memory", memoryInfo),
		section("Persistence", persistenceInfo),
		section("Stats", statsInfo),
		section("Replication", replicationInfo),
		section("CPU", cpuInfo),
		section("Commandstats", commandStatsInfo),
		section("Errorstats", errorStatsInfo),
		section("Cluster", clusterInfo),
		section("Keyspace", keyspaceInfo),
		section("Filters", filtersInfo),
	}
}

// registration enters the hub in hubs while the store is open.
type registration struct {
	module.Service
	hub *hub
}

func (r *registration) Start(db *kv.DB) error {
	r.hub.db = db
	hubs.Store(db, r.hub)
	return nil
}

// OnlyReads implements module.ReadingService.
func (*registration) OnlyReads() {}

func (r *registration) Stop() { hubs.Delete(r.hub.db) }

// infoSection is a section of INFO. It has fields only while a server serves the store.
type infoSection struct {
	hub    *hub
	name   string
	fields func(*Server) []module.InfoField
}

func (*infoSection) Start(*kv.DB) error { return nil }
func (*infoSection) Stop()              {}

// OnlyReads implements module.ReadingService.
func (*infoSection) OnlyReads() {}

// Info returns the section, without fields if no server serves the store.
func (i *infoSection) Info() (section string, fields []module.InfoField) {
	s := i.hub.server.Load()
	if s == nil {
		return i.name, nil
	}
	return i.name, i.fields(s)
}

func serverInfo(s *Server) []module.InfoField {
	up := int64(time.Since(s.started).Seconds())
	fields := []module.InfoField{
		{Name: "redis_version", Value: RedisVersion},
		{Name: "redis_mode", Value: s.mode()},
		{Name: "server_name", Value: "sievekv"},
		{Name: "os", Value: runtime.GOOS + " " + runtime.GOARCH},
		{Name: "arch_bits", Value: 32 << (^uint(0) >> 63)},
		{Name: "go_version", Value: runtime.Version()},
		{Name: "process_id", Value: os.Getpid()},
		{Name: "run_id", Value: s.runID},
		{Name: "tcp_port", Value: s.port()},
		{Name: "uptime_in_seconds", Value: up},
		{Name: "uptime_in_days", Value: up / (24 * 60 * 60)},
	}
	return fields
}

func clientsInfo(s *Server) []module.InfoField {
	return []module.InfoField{
		{Name: "connected_clients", Value: len(s.connections())},
		{Name: "maxclients", Value: s.maxClients()},
		{Name: "strangers", Value: s.countStrangers()},
		{Name: "maxstrangers", Value: s.maxStrangers()},
		{Name: "blocked_clients", Value: 0},
		{Name: "tracking_clients", Value: s.trackers.clients.Load()},
		{Name: "total_watched_keys", Value: s.db.WatchedKeys()},
	}
}

func memoryInfo(s *Server) []module.InfoField {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	human := func(n uint64) string {
		return strings.ReplaceAll(strings.TrimSuffix(humanize.IBytes(n), "iB"), " ", "")
	}
	fields := []module.InfoField{
		{Name: "used_memory", Value: m.HeapAlloc},
		{Name: "used_memory_human", Value: human(m.HeapAlloc)},
		{Name: "mem_clients_normal", Value: s.held.Load()},
		{Name: "mem_clients_strangers", Value: s.strangers.held.Load()},
		{Name: "maxmemory", Value: 0},
		{Name: "maxmemory_human", Value: "0B"},
		{Name: "maxmemory_policy", Value: "noeviction"},
	}
	if rss := residentBytes(); rss > 0 {
		fields = append(fields, module.InfoField{Name: "used_memory_rss", Value: rss}, module.InfoField{Name: "used_memory_rss_human", Value: human(rss)})
	}
	return fields
}

// persistenceInfo is for dashboards that check whether Redis keeps its data: here every write is in the log, which
// Redis calls the AOF.
func persistenceInfo(s *Server) []module.InfoField {
	status := "ok"
	if s.db.Health() != nil {
		status = "err"
	}
	return []module.InfoField{
		{Name: "loading", Value: 0},
		{Name: "rdb_bgsave_in_progress", Value: 0},
		{Name: "aof_enabled", Value: 1},
		{Name: "aof_rewrite_in_progress", Value: 0},
		{Name: "aof_last_write_status", Value: status},
	}
}

func statsInfo(s *Server) []module.InfoField {
	errors := uint64(0)
	for kind := range errorKinds {
		errors += s.stats.failures(kind)
	}
	return []module.InfoField{
		{Name: "total_connections_received", Value: s.stats.accepted.Load()},
		{Name: "total_commands_processed", Value: s.stats.total()},
		{Name: "instantaneous_ops_per_sec", Value: s.stats.rate.perSecond(time.Since(s.started), s.stats.total())},
		{Name: "total_net_input_bytes", Value: s.stats.bytesIn.Load()},
		{Name: "total_net_output_bytes", Value: s.stats.bytesOut.Load()},
		{Name: "rejected_connections", Value: s.stats.refused.Load()},
		{Name: "limited_connections", Value: s.stats.limited.Load()},
		{Name: "closed_strangers", Value: s.stats.closedStrangers.Load()},
		{Name: "failed_handshakes", Value: s.stats.handshakes.Load()},
		{Name: "protocol_errors", Value: s.stats.protocolErrors.Load()},
		{Name: "expired_keys", Value: s.db.ExpiredKeys()},
		{Name: "evicted_keys", Value: 0},
		{Name: "keyspace_hits", Value: s.stats.keysFound.Load()},
		{Name: "keyspace_misses", Value: s.stats.keysMissing.Load()},
		{Name: "acl_access_denied_auth", Value: s.stats.wrongPasswords.Load()},
		{Name: "acl_access_denied_cmd", Value: s.stats.deniedCommands.Load()},
		{Name: "acl_access_denied_key", Value: s.stats.deniedKeys.Load()},
		{Name: "acl_access_denied_channel", Value: 0},
		{Name: "tracking_total_keys", Value: s.trackers.keys()},
		{Name: "unknown_commands", Value: s.stats.unknown.Load()},
		{Name: "total_error_replies", Value: errors},
	}
}

func cpuInfo(*Server) []module.InfoField {
	system, user, known := processorTime()
	if !known {
		return nil
	}
	seconds := func(name string, used time.Duration) module.InfoField {
		return module.InfoField{Name: name, Value: fmt.Sprintf("%.6f", used.Seconds())}
	}
	return []module.InfoField{
		seconds("used_cpu_sys", system), seconds("used_cpu_user", user),
		seconds("used_cpu_sys_children", 0), seconds("used_cpu_user_children", 0),
	}
}

func commandStatsInfo(s *Server) (fields []module.InfoField) {
	for _, cmd := range s.host.Commands() {
		c := s.stats.of(cmd)
		calls, rejected := c.calls.Load(), c.rejected.Load()
		if calls+rejected == 0 {
			continue
		}
		micros := c.nanos.Load() / 1000
		fields = append(fields, module.InfoField{Name: "cmdstat_" + cmd.LowerName(), Value: fmt.Sprintf(
			"calls=%d,usec=%d,usec_per_call=%.2f,rejected_calls=%d,failed_calls=%d",
			calls, micros, float64(micros)/float64(max(calls, 1)), rejected, c.failed.Load())})
	}
	return fields
}

func errorStatsInfo(s *Server) (fields []module.InfoField) {
	for i, kind := range errorKinds {
		if n := s.stats.failures(i); n > 0 {
			fields = append(fields, module.InfoField{Name: "errorstat_" + kind, Value: fmt.Sprintf("count=%d", n)})
		}
	}
	slices.SortFunc(fields, func(a, b module.InfoField) int { return strings.Compare(a.Name, b.Name) })
	return fields
}

// keyspaceInfo shows 0 as the average time to live, as Redis does before it has sampled keys that expire. The average
// is not kept.
func keyspaceInfo(s *Server) []module.InfoField {
	keys, err := s.db.Size()
	if err != nil || keys == 0 {
		return nil
	}
	expires, err := s.db.ExpiringKeys()
	if err != nil {
		return nil
	}
	return []module.InfoField{{Name: "db0", Value: fmt.Sprintf("keys=%d,expires=%d,avg_ttl=0", keys, expires)}}
}
