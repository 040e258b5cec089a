package crash

import (
	"errors"
	"fmt"
	"slices"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/internal/txntest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// rate is so low that no item is ever found that was not added. That of cuckoo filters with buckets of four cannot be
// lower than wideRate, which will do.
const (
	rate     = 1e-9
	wideRate = 1e-7
)

// filter is a handle of any type.
type filter interface {
	Add(item []byte) (isNew bool, err error)
	AddMany(items [][]byte, isNew []bool) (int, error) // items that are new
	MayContain(item []byte) (bool, error)
	MayContainMany(items [][]byte, present []bool) error
}

// filterType is a type of filters. All that is done to filters is done to one of each.
type filterType struct {
	name     string
	typeName string // as TYPE prints it

	// open returns a handle at a level or, with a transaction, bound to it.
	open func(a api, key string) filter

	// reserve makes a filter for the given number of items. One that takes all grows.
	reserve func(a api, key string, capacity uint64, expansion uint32) error

	// reserveWords are the command that does the same.
	reserveWords func(key string, capacity uint64, expansion uint32) []string

	addCommand   string
	addManyWords func(key string) []string // before the items

	// createWithItems makes a filter together with its first items, in one commit.
	createWithItems func(
		w *worker, level kv.Durability, key string, capacity uint64, expansion uint32, items [][]byte,
	) error

	// remove deletes an item, nil if the type cannot; compact makes a filter smaller, nil if it cannot. Their commands
	// are called after them.
	remove                        func(a api, key string, item []byte) (bool, error)
	compact                       func(a api, key string) error
	removeCommand, compactCommand string

	// removeMany deletes items in one commit, nil if the type cannot.
	removeMany        func(a api, key string, items [][]byte) error
	removeManyCommand string

	// addAgain adds an item that is there, and leaves all as it was; nil if Add does.
	addAgain func(w *worker, level kv.Durability, key string, item []byte) error

	// items returns how many items it counts.
	items func(db *kv.DB, key string) (int, error)
}

// types are the types of filters.
var types = map[string]*filterType{
	"bloom": {
		name: "bloom", typeName: "MBbloom--",
		open: func(a api, key string) filter { return a.bloom(key) },
		reserve: func(a api, key string, capacity uint64, expansion uint32) error {
			return a.bloom(key).Reserve(bloomConfig(a.db, capacity, expansion))
		},
		reserveWords: func(key string, capacity uint64, expansion uint32) []string {
			words := []string{"BF.RESERVE", key, fmt.Sprint(rate), fmt.Sprint(capacity)}
			if expansion == 0 {
				return append(words, "NONSCALING")
			}
			return append(words, "EXPANSION", fmt.Sprint(expansion))
		},
		addCommand: "BF.ADD", addManyWords: func(key string) []string { return []string{"BF.MADD", key} },
		createWithItems: (*worker).createBloom,
		items: func(db *kv.DB, key string) (int, error) {
			info, err := bloomext.New(db, key).Info()
			return int(info.Items), err
		},
	},
	"cuckoo": {
		name: "cuckoo", typeName: "MBbloomCF",
		open: func(a api, key string) filter { return cuckoo{a.cuckoo(key)} },
		reserve: func(a api, key string, capacity uint64, expansion uint32) error {
			return a.cuckoo(key).Reserve(cuckooConfig(capacity, expansion))
		},
		reserveWords: func(key string, capacity uint64, expansion uint32) []string {
			c := cuckooConfig(capacity, expansion)
			if c.Layout == scalableext.LayoutCompatible {
				return []string{"CF.RESERVE", key, fmt.Sprint(capacity)}
			}
			return []string{
				"CF.RESERVE", key, fmt.Sprint(capacity), "BUCKETSIZE", fmt.Sprint(c.BucketSize),
				"EXPANSION", fmt.Sprint(expansion), "ERROR", fmt.Sprint(c.ErrorRate),
			}
		},
		addCommand:      "CF.ADD",
		addManyWords:    func(key string) []string { return []string{"CF.INSERT", key, "NOCREATE", "ITEMS"} },
		createWithItems: (*worker).createCuckoo,
		remove:          func(a api, key string, item []byte) (bool, error) { return a.cuckoo(key).Delete(item) },
		compact:         func(a api, key string) error { return a.cuckoo(key).Compact() },
		removeCommand:   "CF.DEL", compactCommand: "CF.COMPACT",
		items: func(db *kv.DB, key string) (int, error) {
			info, err := cuckooext.New(db, key).Info()
			return int(info.Items), err
		},
	},
	"counting": {
		name: "counting", typeName: "CBloom---",
		open: func(a api, key string) filter { return a.counting(key) },
		reserve: func(a api, key string, capacity uint64, expansion uint32) error {
			return a.counting(key).Reserve(countingConfig(capacity, expansion))
		},
		reserveWords: func(key string, capacity uint64, expansion uint32) []string {
			words := []string{"CBF.RESERVE", key, fmt.Sprint(rate), fmt.Sprint(capacity)}
			if expansion == 0 {
				return append(words, "NONSCALING")
			}
			return append(words, "EXPANSION", fmt.Sprint(expansion))
		},
		addCommand: "CBF.ADD", addManyWords: func(key string) []string { return []string{"CBF.MADD", key} },
		createWithItems: (*worker).createCounting,
		remove:          func(a api, key string, item []byte) (bool, error) { return a.counting(key).Delete(item) },
		removeCommand:   "CBF.DEL",
		removeMany: func(a api, key string, items [][]byte) error {
			deleted := make([]bool, len(items))
			_, err := a.counting(key).DeleteMany(items, deleted)
			return errors.Join(err, expect(err != nil || !slices.Contains(deleted, false), "an item was forgotten"))
		},
		removeManyCommand: "CBF.MDEL",
		addAgain:          (*worker).addAndDelete,
		items: func(db *kv.DB, key string) (int, error) {
			info, err := countingext.New(db, key).Info()
			return int(info.Items), errors.Join(err, expect(info.DeletesKept == 0, "deletions were kept"))
		},
	},
}

// cuckoo has a cuckoo filter behave as one of items that are all different.
type cuckoo struct{ *cuckooext.Filter }

func (c cuckoo) Add(item []byte) (isNew bool, err error) { return c.AddIfAbsent(item) }

// stringType is how data names strings.
const stringType = "string"

// typeNames are what a new key can be, in a fixed order.
var typeNames = []string{"bloom", "counting", "cuckoo", stringType}

// bloomConfig returns one of the store's layout, which commands make too.
func bloomConfig(db *kv.DB, capacity uint64, expansion uint32) bloomext.Config {
	return bloomext.Config{
		Capacity: capacity, ErrorRate: rate, Expansion: expansion, NonScaling: expansion == 0, Layout: scalableext.LayoutOf(db, "bf-layout"),
	}
}

// A cuckoo filter of the compatible layout has this capacity, which no other has, and this number of buckets. Its
// fingerprints have 8 bits: because of newItems no item is found by chance.
const (
	compatibleCuckoo  = 200_000
	compatibleBuckets = 1 << 17
)

// cuckooConfig returns one of blocks for some 500 items if it grows, and 1,800 if not, or one of the compatible layout.
func cuckooConfig(capacity uint64, expansion uint32) cuckooext.Config {
	if capacity == compatibleCuckoo {
		return cuckooext.Config{Capacity: capacity, Layout: scalableext.LayoutCompatible}
	}
	c := cuckooext.Config{
		Capacity: capacity, Expansion: expansion, NonScaling: expansion == 0, ErrorRate: wideRate, BucketSize: 4,
	}
	if expansion > 0 {
		c.ErrorRate, c.BucketSize = rate, 1
	}
	return c
}

func countingConfig(capacity uint64, expansion uint32) countingext.Config {
	return countingext.Config{Capacity: capacity, ErrorRate: rate, Expansion: expansion, NonScaling: expansion == 0}
}

// api is the Go API, inside a transaction or with a level.
type api struct {
	db    *kv.DB
	level kv.Durability
	tx    *txntest.Tx // nil outside
}

func (a api) bloom(key string) *bloomext.Filter {
	if a.tx != nil {
		return bloomext.New(a.db, key).In(a.tx)
	}
	return bloomext.New(a.db, key).With(a.level)
}

func (a api) cuckoo(key string) *cuckooext.Filter {
	if a.tx != nil {
		return cuckooext.New(a.db, key).In(a.tx)
	}
	return cuckooext.New(a.db, key).With(a.level)
}

func (a api) counting(key string) *countingext.Filter {
	if a.tx != nil {
		return countingext.New(a.db, key).In(a.tx)
	}
	return countingext.New(a.db, key).With(a.level)
}

func (a api) set(key, value string, expiry int64) error {
	o := kv.SetOptions{Expiry: expiry}
	if a.tx != nil {
		_, err := a.tx.SetWith(key, []byte(value), o)
		return err
	}
	_, err := a.db.Set(a.level, []byte(key), []byte(value), o)
	return err
}

// write makes a change of keys.
func (a api) write(keys [][]byte, change func(*kv.Writer) error) error {
	if a.tx != nil {
		return a.tx.Write(change)
	}
	return a.db.Write(a.level, keys, change)
}

func (a api) remove(keys ...string) (int, error) {
	if a.tx != nil {
		return a.tx.Delete(keys...)
	}
	list := make([][]byte, len(keys))
	for i, key := range keys {
		list[i] = []byte(key)
	}
	return a.db.Delete(a.level, list...)
}

func (a api) rename(src, dst string) error {
	if a.tx != nil {
		return a.tx.Rename(src, dst)
	}
	return a.db.Rename(a.level, []byte(src), []byte(dst))
}

func (a api) copy(src, dst string) (bool, error) {
	if a.tx != nil {
		return a.tx.Copy(src, dst, true)
	}
	return a.db.Copy(background, a.level, []byte(src), []byte(dst), true)
}

func (a api) expire(key string, at int64) (bool, error) {
	if a.tx != nil {
		return a.tx.Expire(key, at)
	}
	return a.db.Expire(a.level, []byte(key), at, kv.ExpireAlways)
}
