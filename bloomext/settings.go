package bloomext

import (
	"strconv"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/scalableext"
)

// moduleVersion is what MODULE LIST says: that of the RedisBloom whose BF and CF commands
// these are, by which clients tell what they may send.
const moduleVersion = 20800

// The settings, which are RedisBloom's: what filters are made of that a command makes without
// being told. Config, for Go programs, has defaults of its own.
const (
	errorRateSetting = "bf-error-rate"
	capacitySetting  = "bf-initial-size"
	expansionSetting = "bf-expansion-factor"
)

// maxInitialCapacity is the highest bf-initial-size.
const maxInitialCapacity = 1 << 30

func settings() []module.Setting {
	return []module.Setting{{
		Name: errorRateSetting, Default: "0.01", Check: module.FloatSetting(0, 1, scalableext.MaxRate),
		Summary: "Error rate of filters that BF.ADD, BF.MADD and BF.INSERT make without being told one.",
	}, {
		Name: capacitySetting, Default: "100", Check: module.IntegerSetting(1, maxInitialCapacity),
		Summary: "Capacity of filters that BF.ADD, BF.MADD and BF.INSERT make without being told one.",
	}, {
		Name: expansionSetting, Default: strconv.Itoa(scalableext.DefaultExpansion),
		Check:   module.IntegerSetting(0, scalableext.MaxExpansion),
		Summary: "Expansion of filters that are made without being told one; 0 for filters that do not grow.",
	}}
}

// defaults is what a command makes a filter of that it is not told anything about.
func defaults(db *kv.DB) scalableext.Asked {
	expansion := uint32(module.Of(db).SettingInt(expansionSetting))
	return scalableext.Asked{
		Capacity: uint64(module.Of(db).SettingInt(capacitySetting)), ErrorRate: module.Of(db).SettingFloat(errorRateSetting),
		Expansion: expansion, NonScaling: expansion == 0,
	}
}

// defaultSpec is that of filters made by adding to a missing key.
func defaultSpec(db *kv.DB) (kv.Spec, error) { return configOf(defaults(db)).spec(db) }
