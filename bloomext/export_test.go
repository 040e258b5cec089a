package bloomext

import (
	"github.com/sievekv/sievekv/internal/probe"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// Logging and Remember are what pipelines remember by.
func Logging(f *Filter) any { return f.logging() }

func Remember(f *Filter, before any, item uint64) {
	b := scalableext.Uint64(item)
	c, _ := before.(*filter)
	f.remember(c, f.h.Current.Load().hash.Sum(b[:]))
}

// FilledAhead returns how many hashes of a log of so many are put into a layer in memory.
func FilledAhead(capacity uint64, rate float64, length uint64) (uint64, error) {
	layout, err := probe.Size(capacity, rate)
	return filledAhead(&layer{layout: layout, capacity: capacity}, length), err
}

// Wake and Prepare are what the type has.
func Wake(o *kv.Object) int64 { return wake(o) }

func Prepare(db *kv.DB, o *kv.Object) (step func(*kv.Writer, *kv.Object) (bool, error), err error) {
	return prepare(db, o, 1<<20)
}

// Remembered reports whether a hash is remembered of which another was added.
func Remembered(added, h uint64) bool {
	var s sure
	s.add(added, 100)
	return s.has(h)
}

// BeginLoad and Load do what BF.LOADCHUNK does with a header, and with data.
func BeginLoad(f *Filter, header []byte) error { return f.beginLoad(header) }

func Load(f *Filter, iter int64, data []byte) error { return loading.Load(f.h, f.level, iter, data) }
