package cuckooext

import (
	"fmt"
	"strconv"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/scalableext"
)

// The settings, which are RedisBloom's: what filters are made of that a command makes without
// being told, and how far any grows. Config, for Go programs, has defaults of its own.
const (
	bucketSizeSetting = "cf-bucket-size"
	capacitySetting   = "cf-initial-size"
	iterationsSetting = "cf-max-iterations"
	expansionSetting  = "cf-expansion-factor"
	maxLayersSetting  = "cf-max-expansions"
)

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
			"Slots of a bucket of filters that are made without being told."),
		integer(capacitySetting, 1024, 1, maxInitialCapacity,
			"Capacity of filters that CF.ADD, CF.ADDNX, CF.INSERT and CF.INSERTNX make without being told."),
		integer(iterationsSetting, defaultIterations, 1, maxIterations,
			"Most entries moved to make room for one, in filters that are made without being told."),
		integer(expansionSetting, scalableext.DefaultExpansion, 0, scalableext.MaxExpansion,
			"Expansion of filters that are made without being told one; 0 for filters that do not grow."),
		integer(maxLayersSetting, unratedLayers, 1, 1<<16,
			"Most sub-filters of any filter; its error rate may allow fewer."),
	}
	for i := range list {
		if name := list[i].Name; name == bucketSizeSetting || name == capacitySetting {
			list[i].Fits = capacityFits
		}
	}
	return list
}

// capacityFits refuses a capacity and a bucket size that do not go together.
func capacityFits(value func(name string) string) error {
	capacity, err := strconv.ParseInt(value(capacitySetting), 10, 64)
	if err != nil {
		return err
	}
	bucket, err := strconv.ParseInt(value(bucketSizeSetting), 10, 64)
	if err != nil {
		return err
	}
	if least := leastCapacityOf(bucket); capacity < least {
		return fmt.Errorf("%s must be between %d and %d inclusive with a %s of %d",
			capacitySetting, least, maxInitialCapacity, bucketSizeSetting, bucket)
	}
	return nil
}

// leastCapacity is the lowest capacity of a filter for which no bucket size is given.
func leastCapacity(db *kv.DB) int64 {
	return leastCapacityOf(module.Of(db).SettingInt(bucketSizeSetting))
}

// leastCapacityOf is two buckets, as in RedisBloom. As long as the bucket size is the
// default it is reckoned by RedisBloom's, which is 2: what that takes is taken here.
func leastCapacityOf(bucketSize int64) int64 {
	if bucketSize == defaultBucketSize {
		bucketSize = 2
	}
	return 2 * bucketSize
}

// initialSpec is that of filters made by adding to a missing key.
func initialSpec(db *kv.DB) (kv.Spec, error) {
	return defaultConfig(db, uint64(module.Of(db).SettingInt(capacitySetting))).spec(db)
}

// defaultConfig is that of filters of a capacity that are made without being told more.
func defaultConfig(db *kv.DB, capacity uint64) Config {
	expansion := uint32(module.Of(db).SettingInt(expansionSetting))
	return Config{
		Capacity: capacity, BucketSize: int(module.Of(db).SettingInt(bucketSizeSetting)),
		MaxIterations: int(module.Of(db).SettingInt(iterationsSetting)), Expansion: expansion, NonScaling: expansion == 0,
	}
}
