package server

import (
	"math"
	"strconv"

	"github.com/sievekv/sievekv/module"
)

// The names of the settings, as in Redis where Redis has them.
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
	trackingSetting      = "tracking-table-max-keys"
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
		integer(timeoutSetting, 0, 0, math.MaxInt32, "Seconds without a command after which the server closes a connection; 0 for never."),
		integer(bulkSetting, 32<<20, 1<<10, 512<<20, "The most bytes of one word of a command."),
		integer(querySetting, 64<<20, 1<<20, 1<<30, "The most bytes of a whole command."),
		integer(clientsMemorySetting, 64<<20, 1<<20, math.MaxInt64,
			"The most bytes of the buffers of all connections together. Above it, the server closes a connection that holds more than 32 KiB and asks for more."),
		integer(slowerThanSetting, 10_000, -1, math.MaxInt64, "Microseconds from which SLOWLOG keeps a command; -1 for none."),
		integer(slowMaxSetting, 128, 0, 10_000, "How many commands SLOWLOG keeps."),
		integer(aclLogMaxSetting, 128, 0, 10_000, "How many refused commands and logins ACL LOG keeps."),
		integer(metricsSetting, 20, 0, 1000, "How many filters the metrics show in each list: the largest, the fullest, the ones above their rate, and the most used."),
		integer(trackingSetting, 100_000, 1, 100_000_000,
			"How many keys are remembered that clients with CLIENT TRACKING have read, counted once for each client and again for every 256 bytes; if there are more, clients are told of keys that have not changed."),
	}
}

func (s *Server) maxClients() int64 { return s.host.SettingInt(maxClientsSetting) }
