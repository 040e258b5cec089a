package coreext

import (
	"strconv"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
)

// settings are those of the store itself: how it was opened. None can be changed.
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
		of("cache-size", "Budget of resident blocks and open objects, in bytes.",
			func(o kv.Options) string { return strconv.FormatInt(o.CacheSize, 10) }),
		fixed("databases", "1", "There is database 0 alone."),
		{
			Name: "dir", Summary: "The directory of the store.",
			Value: func(db *kv.DB) string { return db.About().Directory },
		},
		of("max-filter-bytes", "The most bytes a filter may be made for.",
			func(o kv.Options) string { return strconv.FormatUint(o.MaxFilterBytes, 10) }),
		fixed("maxmemory", "0", "Data is on disk: its size is not limited by memory."),
		fixed("maxmemory-policy", "noeviction", "Keys stay until they are removed or expire."),
		fixed("save", "", "There are no snapshots to save: the log and the tables are all there is."),
	}
}
