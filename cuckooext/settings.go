package cuckooext

import (
	"fmt"
	"strconv"

	"github.com/sievekv/sievekv/internal/probe"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/scalableext"
)

// RedisBloom's settings: the parameters of filters that commands make without being given any, and how far all
// filters grow. A Config of a Go program has its own defaults.
const (
	bucketSizeSetting = "cf-bucket-size"
	capacitySetting   = "cf-initial-size"
	iterationsSetting = "cf-max-iterations"
	expansionSetting  = "cf-expansion-factor"
	maxLayersSetting  = "cf-max-expansions"
	layoutSetting     = "cf-layout"
)

// DefaultMaxLayers is the default of the setting cf-max-expansions: the most layers of a filter.
const DefaultMaxLayers = unratedLayers

// maxInitialCapacity is the highest cf-initial-size.
const maxInitialCapacity = 1 << 30

func settings() []module.Setting {
	integer := func(name string, value, low, high int64, summary string) module.Setting {
		return module.Setting{
			Name: name, Summary: summary, Default: strconv.FormatInt(value, 10), Check: module.IntegerSetting(low, high),
		}
	}
	list := []module.Setting{
		integer(bucketSizeSetting, defaultBucketSize, 1, maxBucketSize,
			"Bucket size of new filters if none is given."),
		integer(capacitySetting, 1024, 1, maxInitialCapacity,
			"Capacity of filters that CF.ADD, CF.ADDNX, CF.INSERT and CF.INSERTNX make if none is given."),
		integer(iterationsSetting, defaultIterations, 1, maxIterations,
			"Most entries moved to make room for one, in new filters if none is given."),
		integer(expansionSetting, scalableext.DefaultExpansion, 0, scalableext.MaxExpansion,
			"Expansion of new filters if none is given; 0 for filters that do not grow."),
		integer(maxLayersSetting, unratedLayers, 1, 1<<16,
			"Most sub-filters of any filter; its error rate may allow fewer."),
	}
	for i := range list {
		switch s := &list[i]; s.Name {
		case bucketSizeSetting:
			s.Fits, s.Unset = capacityFits, byLayout(s.Default, compatibleBucketSize)
		case capacitySetting:
			s.Fits = capacityFits
		case expansionSetting:
			s.Unset = byLayout(s.Default, compatibleExpansion)
		}
	}
	return append(list, scalableext.LayoutSetting(layoutSetting, "cuckoo filters"))
}

// byLayout returns the values that a setting has until it is set: RedisBloom's for filters with the compatible layout.
func byLayout(native string, compatible int) func(value func(name string) string) string {
	return func(value func(name string) string) string {
		if value(layoutSetting) == scalableext.LayoutCompatible.String() {
			return strconv.Itoa(compatible)
		}
		return native
	}
}

// maxLayers returns the most layers that the setting allows.
func maxLayers(db *kv.DB) int64 { return module.Of(db).SettingInt(maxLayersSetting) }

// capacityFits refuses a capacity that is too small for the bucket size.
func capacityFits(value func(name string) string) error {
	capacity, err := strconv.ParseInt(value(capacitySetting), 10, 64)
	if err != nil {
		return err
	}
	bucket, err := strconv.ParseInt(value(bucketSizeSetting), 10, 64)
	if err != nil {
		return err
	}
	least := leastCapacityOf(bucket)
	if value(layoutSetting) == scalableext.LayoutCompatible.String() {
		least = 2 * bucket
	}
	if capacity < least {
		return fmt.Errorf("%s must be between %d and %d inclusive with a %s of %d",
			capacitySetting, least, maxInitialCapacity, bucketSizeSetting, bucket)
	}
	return nil
}

// capacityRange returns the lowest and the highest capacity of a filter for which no bucket size is given.
func capacityRange(db *kv.DB) (least, most int64) {
	least, most = leastCapacityOf(module.Of(db).SettingInt(bucketSizeSetting)), probe.MaxCapacity
	if scalableext.LayoutOf(db, layoutSetting) == scalableext.LayoutCompatible {
		least, most = 2*module.Of(db).SettingInt(bucketSizeSetting), compatibleMaxCapacity
	}
	return least, most
}

// leastCapacityOf returns the size of two buckets, as in RedisBloom. For the default bucket size it uses RedisBloom's
// default, which is 2, so that capacities that RedisBloom accepts are accepted here.
func leastCapacityOf(bucketSize int64) int64 {
	if bucketSize == defaultBucketSize {
		bucketSize = 2
	}
	return 2 * bucketSize
}

// initialSpec returns the spec of filters that commands make by adding to a missing key.
func initialSpec(db *kv.DB) (kv.Spec, error) {
	return defaultConfig(db, uint64(module.Of(db).SettingInt(capacitySetting))).spec(db)
}

// defaultConfig returns the Config of a filter with a capacity and default parameters.
func defaultConfig(db *kv.DB, capacity uint64) Config {
	expansion := uint32(module.Of(db).SettingInt(expansionSetting))
	return Config{
		Layout: scalableext.LayoutOf(db, layoutSetting), Capacity: capacity, BucketSize: int(module.Of(db).SettingInt(bucketSizeSetting)),
		MaxIterations: int(module.Of(db).SettingInt(iterationsSetting)), Expansion: expansion, NonScaling: expansion == 0,
	}
}
