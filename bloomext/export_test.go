package bloomext

import (
	"github.com/sievekv/sievekv/kv/probe"
	"github.com/sievekv/sievekv/scalableext"
)

// Logging and Remember are what pipelines remember by.
func Logging(f *Filter) any { return f.logging() }

func Remember(f *Filter, before any, item uint64) {
	b := scalableext.LittleEndian(item)
	c, _ := before.(*filter)
	f.remember(c, f.h.Current.Load().hash.Sum(b[:]))
}

// FilledAhead returns how many hashes of a log of so many are put into a layer in memory.
func FilledAhead(capacity uint64, rate float64, length uint64) (uint64, error) {
	layout, err := probe.Size(capacity, rate)
	return filledAhead(&layer{layout: layout, capacity: capacity}, length), err
}

// BeginLoad and Load do what BF.LOADCHUNK does with a header, and with data.
func BeginLoad(f *Filter, header []byte) error { return f.beginLoad(header) }

func Load(f *Filter, iter int64, data []byte) error { return loading.Load(f.h, f.level, iter, data) }
