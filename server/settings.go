package server

import (
	"math"
	"strconv"

	"github.com/sievekv/sievekv/module"
)

// The settings, by Redis' names where Redis has them.
const (
	maxClientsSetting    = "maxclients"
	timeoutSetting       = "timeout"
	bulkSetting          = "proto-max-bulk-len"
	querySetting         = "client-query-buffer-limit"
	clientsMemorySetting = "maxmemory-clients"
	slowerThanSetting    = "slowlog-log-slower-than"
	slowMaxSetting       = "slowlog-max-len"
	aclLogMaxSetting     = "acllog-max-len"
	metricsSetting       = "metrics-largest"
)

func settings(h *hub) []module.Setting {
	integer := func(name string, value, low, high int64, summary string) module.Setting {
		return module.Setting{Name: name, Default: strconv.FormatInt(value, 10), Summary: summary, Check: module.IntegerSetting(low, high)}
	}
	maxClients := integer(maxClientsSetting, 10_000, 1, math.MaxInt32, "The most connections at a time.")
	maxClients.Fits = func(value func(string) string) error { return h.clientsFit(1, value) }
	maxClients.FitsCall = func(c *module.Call, value func(string) string) error {
		if s := serverOf(c); s != nil {
			return h.clientsFit(s.fewestClients(), value)
		}
		return nil
	}
	return []module.Setting{
		maxClients,
		integer(timeoutSetting, 0, 0, math.MaxInt32, "After so many seconds without a command a connection is closed; 0 for never."),
		integer(bulkSetting, 32<<20, 1<<10, 512<<20, "The most bytes of one word of a command."),
		integer(querySetting, 64<<20, 1<<20, 1<<30, "The most bytes of a command, all its words together."),
		integer(clientsMemorySetting, 64<<20, 1<<20, math.MaxInt64,
			"What the buffers of all connections may take together, in bytes: of those that take more than 32 KiB each, who asks for more then is closed."),
		integer(slowerThanSetting, 10_000, -1, math.MaxInt64, "Commands that take so many microseconds are kept for SLOWLOG; -1 for none."),
		integer(slowMaxSetting, 128, 0, 10_000, "How many of them are kept."),
		integer(aclLogMaxSetting, 128, 0, 10_000, "How many refused commands and logins are kept for ACL LOG."),
		integer(metricsSetting, 20, 0, 1000, "How many filters, the largest ones, are among the metrics."),
	}
}

func (s *Server) maxClients() int64 { return module.Of(s.db).SettingInt(maxClientsSetting) }
