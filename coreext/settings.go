package coreext

import (
	"strconv"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
)

// settings are the settings of the store, which say how it was opened. None can be changed.
func settings() []module.Setting {
	of := func(name, summary string, value func(o kv.Options) string) module.Setting {
		return module.Setting{Name: name, Summary: summary, Value: func(db *kv.DB) string { return value(db.Options()) }}
	}
	fixed := func(name, value, summary string) module.Setting {
		return module.Setting{Name: name, Default: value, Summary: summary}
	}
	return []module.Setting{
		of("appendfsync", "When a write is reported as done: always, everysec or no.",
			func(o kv.Options) string { return o.Durability.String() }),
		fixed("appendonly", "yes", "Every write goes to a log."),
		backupDir(),
		of("cache-size", "Budget of resident blocks and open objects, in bytes.",
			func(o kv.Options) string { return strconv.FormatInt(o.CacheSize, 10) }),
		fixed("databases", "1", "The only database is 0."),
		{
			Name: "dir", Summary: "The directory of the store.",
			Value: func(db *kv.DB) string { return db.About().Directory },
		},
		of("max-filter-bytes", "The most bytes of a filter; kvshell has a flag of this name.",
			func(o kv.Options) string { return strconv.FormatUint(o.MaxFilterBytes, 10) }),
		fixed("maxmemory", "0", "0: data is on disk, and memory does not limit its size."),
		fixed("maxmemory-policy", "noeviction", "Keys stay until they are removed or expire."),
		fixed("save", "", "Empty: there are no snapshots besides the log and the tables."),
		of("string-cache-size", "Budget of strings in memory, in bytes; negative for none.",
			func(o kv.Options) string { return strconv.FormatInt(o.StringCacheSize, 10) }),
	}
}
