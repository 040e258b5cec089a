package bloomext

import (
	"cmp"
	"strconv"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/scalableext"
)

// moduleVersion is the version that MODULE LIST shows: the version of the RedisBloom whose BF and CF commands these are.
// Clients decide by it which commands they may send.
const moduleVersion = 20800

// RedisBloom's settings: the parameters of filters that commands make without being given any. A Config of a Go
// program has its own defaults.
const (
	errorRateSetting = "bf-error-rate"
	capacitySetting  = "bf-initial-size"
	expansionSetting = "bf-expansion-factor"
	layoutSetting    = "bf-layout"
	growthLogSetting = "growth-log-bytes"
	groupSetting     = "bf-group"
)

// maxInitialCapacity is the highest bf-initial-size.
const maxInitialCapacity = 1 << 30

func settings(o Options) []module.Setting {
	growthLog := max(0, cmp.Or(o.GrowthLog, scalableext.DefaultGrowthLog))
	return []module.Setting{{
		Name: errorRateSetting, Default: "0.01", Check: module.FloatSetting(0, 1, scalableext.MaxRate),
		Summary: "Error rate of filters that BF.ADD, BF.MADD and BF.INSERT make if none is given.",
	}, {
		Name: capacitySetting, Default: "100", Check: module.IntegerSetting(1, maxInitialCapacity),
		Summary: "Capacity of filters that BF.ADD, BF.MADD and BF.INSERT make if none is given.",
	}, {
		Name: expansionSetting, Default: strconv.Itoa(scalableext.DefaultExpansion),
		Check:   module.IntegerSetting(0, scalableext.MaxExpansion),
		Summary: "Expansion of new filters if none is given; 0 for filters that do not grow.",
	}, {
		Name: growthLogSetting, Default: strconv.FormatInt(growthLog, 10), Check: module.IntegerSetting(0, scalableext.MaxLogBytes),
		Summary: "Most bytes of the log of a new Bloom filter that grows, from which it gets larger without more layers; 0 for none.",
	}, scalableext.LayoutSetting(layoutSetting, "Bloom filters"), scalableext.GroupSetting(groupSetting, "Bloom filters of the native layout")}
}

// defaults returns the parameters of a filter that a command makes without being given any.
func defaults(db *kv.DB) scalableext.Asked {
	expansion := uint32(module.Of(db).SettingInt(expansionSetting))
	a := scalableext.Asked{
		Capacity: uint64(module.Of(db).SettingInt(capacitySetting)), ErrorRate: module.Of(db).SettingFloat(errorRateSetting),
		Expansion: expansion, NonScaling: expansion == 0,
	}
	if scalableext.LayoutOf(db, layoutSetting) == scalableext.LayoutCompatible {
		a.MostCapacity = compatibleMaxCapacity
		return a
	}
	a.Group = scalableext.GroupOf(db, groupSetting)
	return a
}

// defaultSpec is the spec of filters that commands make by adding to a missing key.
func defaultSpec(db *kv.DB) (kv.Spec, error) { return configOf(db, defaults(db)).spec(db) }
