package kv

import "cmp"

// memtablesInMemory is how many memtables there may be at a time: the one that takes writes, and others that are being
// written to tables.
const memtablesInMemory = 3

// Budget returns how much memory, in bytes, the options allow a store to take: its caches, and three memtables. It
// counts the defaults of fields that are 0. It leaves out what a process takes besides, such as garbage.
func (o Options) Budget() int64 {
	o.setBudgets()
	return o.CacheSize + o.TableCacheSize + max(0, o.StringCacheSize) + memtablesInMemory*int64(o.MemTableSize)
}

// setBudgets sets the budgets that are not given.
func (o *Options) setBudgets() {
	if o.Memory != 0 {
		o.shareMemory()
	}
	o.CacheSize = cmp.Or(o.CacheSize, 256<<20)
	o.TableCacheSize = cmp.Or(o.TableCacheSize, max(o.CacheSize/8, min(max(o.CacheSize/2, 8<<20), 32<<20)))
	o.StringCacheSize = cmp.Or(o.StringCacheSize, o.CacheSize/4)
	o.MemTableSize = cmp.Or(o.MemTableSize, defaultMemTableSize)
}

// shareMemory shares Memory among the budgets that are not given. Memtables get seven parts of sixteen, because they
// limit the size of a commit, until they have their usual size. Of the rest, the cache gets seven parts of nine, and
// tables and strings one each.
func (o *Options) shareMemory() {
	memory := min(max(o.Memory, minMemory), maxMemory)
	memtable := min(memory*7/16/memtablesInMemory, defaultMemTableSize)
	rest := memory - memtablesInMemory*memtable
	o.CacheSize = cmp.Or(o.CacheSize, rest*7/9)
	o.TableCacheSize = cmp.Or(o.TableCacheSize, rest/9)
	o.StringCacheSize = cmp.Or(o.StringCacheSize, rest/9)
	o.MemTableSize = cmp.Or(o.MemTableSize, int(memtable))
}
