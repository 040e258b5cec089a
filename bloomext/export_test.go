package bloomext

import "github.com/sievekv/sievekv/scalableext"

// Logging and Remember are what pipelines remember by.
func Logging(f *Filter) any { return f.logging() }

func Remember(f *Filter, before any, item uint64) {
	b := scalableext.LittleEndian(item)
	c, _ := before.(*filter)
	f.remember(c, f.h.Current.Load().hash.Sum(b[:]))
}
