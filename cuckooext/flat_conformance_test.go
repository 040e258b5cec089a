package cuckooext_test

import (
	"fmt"
	"testing"

	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/kv"
)

// RedisBloom's behaviour, one sentence after the other, of filters with the compatible layout. Replies that do not depend
// on the layout are in TestConformance.
func TestCompatible_conformance(t *testing.T) {
	for _, tt := range []struct{ name, script string }{
		{"the layout is the setting's when the filter is made", `
CF.ADD native x => :1 | #t
CONFIG SET cf-layout compatible => +OK
CONFIG GET cf-layout => ["cf-layout" "compatible"] | {"cf-layout" "compatible"}
CF.ADD f x => :1 | #t
CF.INFO f HASH => "murmur64a"
CONFIG SET cf-layout NATIVE => +OK
CF.INFO f HASH => "murmur64a"
CF.INFO native HASH => "keyed"
CF.ADD other x => :1 | #t
CF.INFO other HASH => "keyed"
CONFIG SET cf-layout redis
  => -ERR CONFIG SET failed (possibly related to argument 'cf-layout') - argument(s) must be one of the following: native, compatible
CF.ADD f y => :1 | #t
CF.MEXISTS f x y z => [:1 :1 :0] | [#t #t #f]
TYPE f => +MBbloomCF
`},
		{"defaults are buckets of 2, 20 iterations, expansion 1, capacity 1024", `
CONFIG SET cf-layout compatible => +OK
CONFIG GET cf-*
  => ["cf-bucket-size" "2" "cf-expansion-factor" "1" "cf-initial-size" "1024" "cf-layout" "compatible" "cf-max-expansions" "32" "cf-max-iterations" "20"]
  | {"cf-bucket-size" "2" "cf-expansion-factor" "1" "cf-initial-size" "1024" "cf-layout" "compatible" "cf-max-expansions" "32" "cf-max-iterations" "20"}
CF.ADD f a => :1 | #t
CF.INFO f
  => [+Size :1080 +Number of buckets :512 +Number of filters :1 +Number of items inserted :1 +Number of items deleted :0 +Bucket size :2 +Expansion rate :1 +Max iterations :20]
  | {+Size :1080 +Number of buckets :512 +Number of filters :1 +Number of items inserted :1 +Number of items deleted :0 +Bucket size :2 +Expansion rate :1 +Max iterations :20}
CF.DEBUG f => "bktsize:2 buckets:512 items:1 deletes:0 filters:1 max_iterations:20 expansion:1"
CF.ADDNX g a => :1 | #t
CF.DEBUG g => "bktsize:2 buckets:512 ... expansion:1"
CF.INSERT h ITEMS a => [:1] | [#t]
CF.DEBUG h => "bktsize:2 buckets:512 ... expansion:1"
CF.INSERTNX i CAPACITY 5000 ITEMS a => [:1]
CF.DEBUG i => "bktsize:2 buckets:4096 ... expansion:1"
CF.RESERVE j 100 => +OK
CF.DEBUG j => "bktsize:2 buckets:64 items:0 ... max_iterations:20 expansion:1"
`},
		{"settings that are set count", `
CONFIG SET cf-layout compatible cf-bucket-size 4 cf-expansion-factor 2 cf-max-iterations 7 cf-initial-size 100 => +OK
CF.ADD f a => :1 | #t
CF.DEBUG f => "bktsize:4 buckets:32 items:1 deletes:0 filters:1 max_iterations:7 expansion:2"
CONFIG SET cf-expansion-factor 0 => +OK
CF.ADD g a => :1 | #t
CF.DEBUG g => "... expansion:0"
CONFIG SET cf-bucket-size 51
  => -ERR CONFIG SET failed (possibly related to argument 'cf-bucket-size') - cf-initial-size must be between 102 and 1073741824 inclusive with a cf-bucket-size of 51
CONFIG SET cf-bucket-size 50 => +OK
CF.INSERT h CAPACITY 99 ITEMS a => -Capacity must be in the range [cf-bucket-size * 2, 1073741824]
CF.INSERT h CAPACITY 100 ITEMS a => [:1] | [#t]
CF.DEBUG h => "bktsize:50 buckets:2 ..."
`},
		{"RESERVE: range of the capacity, then key", `
CONFIG SET cf-layout compatible => +OK
CF.RESERVE f 3 => -Capacity must be in the range [2 * BUCKETSIZE, 1073741824]
CF.RESERVE f 1073741825 => -Capacity must be in the range [2 * BUCKETSIZE, 1073741824]
CF.RESERVE f 9 BUCKETSIZE 5 => -Capacity must be in the range [2 * BUCKETSIZE, 1073741824]
CF.INSERT f CAPACITY 3 ITEMS x => -Capacity must be in the range [cf-bucket-size * 2, 1073741824]
CF.INSERT f CAPACITY 1073741825 ITEMS x => -Capacity must be in the range [cf-bucket-size * 2, 1073741824]
CF.RESERVE f 4 => +OK
CF.RESERVE f 4 => -ERR item exists
CF.RESERVE g 1073741824 => +OK
CF.INFO g
  => [+Size :1073741880 +Number of buckets :536870912 ...] | {+Size :1073741880 +Number of buckets :536870912 ...}
CF.ADD g x => :1 | #t
CF.MEXISTS g x y => [:1 :0] | [#t #f]
CF.RESERVE h 510 BUCKETSIZE 255 MAXITERATIONS 65535 EXPANSION 32768 => +OK
CF.DEBUG h => "bktsize:255 buckets:2 items:0 deletes:0 filters:1 max_iterations:65535 expansion:32768"
CF.RESERVE i 2 BUCKETSIZE 1 MAXITERATIONS 1 EXPANSION 0 => +OK
CF.DEBUG i => "bktsize:1 buckets:2 items:0 deletes:0 filters:1 max_iterations:1 expansion:0"
`},
		{"buckets are a power of two, expansions too", `
CONFIG SET cf-layout compatible => +OK
CF.RESERVE a 7 BUCKETSIZE 2 EXPANSION 3 => +OK
CF.DEBUG a => "bktsize:2 buckets:4 ... expansion:4"
CF.RESERVE b 10 BUCKETSIZE 2 EXPANSION 16385 => +OK
CF.DEBUG b => "bktsize:2 buckets:8 ... expansion:32768"
CF.RESERVE c 9 BUCKETSIZE 3 => +OK
CF.INFO c => [+Size :68 +Number of buckets :4 ...] | {+Size :68 +Number of buckets :4 ...}
`},
		{"options that the layout does not have are refused", `
CONFIG SET cf-layout compatible => +OK
CF.RESERVE f 100 ERROR 0.01 => -ERROR: not with cf-layout compatible, where it follows from BUCKETSIZE
CF.RESERVE f 100 HASH keyed => -HASH: not with cf-layout compatible, which has its own hash
CF.RESERVE f 100 other words => +OK
`},
		{"ADD never refuses duplicates: each few copies take a sub-filter", `
CONFIG SET cf-layout compatible => +OK
CF.RESERVE f 100 => +OK
CF.INSERT f ITEMS x x x x x => [5*:1] | [5*#t]
CF.COUNT f x => :5
CF.INFO f => [... +Number of filters :2 ...] | {... +Number of filters :2 ...}
CF.ADDNX f x => :0 | #f
CF.INSERTNX f ITEMS x y y => [:0 :1 :0]
`},
		{"full with EXPANSION 0: an error, -1 in arrays, which go on", `
CONFIG SET cf-layout compatible => +OK
CF.RESERVE f 4 EXPANSION 0 => +OK
CF.INSERT f ITEMS x x x x x => [4*:1 :-1] | [4*#t #f]
CF.INSERT f ITEMS x x => [:-1 :-1] | [#f #f]
CF.INSERTNX f ITEMS x new => [:0 :-1]
CF.ADD f x => -Filter is full
CF.ADDNX f x => :0 | #f
CF.ADDNX f new => -Filter is full
CF.DEL f x => :1 | #t
CF.ADD f x => :1 | #t
`},
		{"cf-max-expansions is asked once before a command, whatever the item", `
CONFIG SET cf-layout compatible cf-max-expansions 2 => +OK
CF.RESERVE f 4 => +OK
CF.INSERT f ITEMS x x x x => [4*:1] | [4*#t]
CF.INSERT f ITEMS x => [:1] | [#t]
CF.INFO f => [... +Number of filters :2 ...] | {... +Number of filters :2 ...}
CF.ADD f y => -Maximum expansions reached
CF.ADDNX f x => -Maximum expansions reached
CF.ADDNX f y => -Maximum expansions reached
CF.INSERT f ITEMS x y => -Maximum expansions reached
CF.INSERTNX f ITEMS x y => -Maximum expansions reached
CF.EXISTS f x => :1 | #t
CF.DEL f x => :1 | #t
CONFIG SET cf-max-expansions 4 => +OK
CF.ADDNX f x => :0 | #f
CF.ADD f x => :1 | #t
`},
		{"sub-filters that would be too large: ERR Insufficient memory, -1 in arrays", `
CONFIG SET cf-layout compatible cf-max-expansions 1000 => +OK
CF.RESERVE f 4 EXPANSION 32768 => +OK
CF.INSERT f ITEMS x x x x x x x x => [8*:1] | [8*#t]
CF.ADD f x => -ERR Insufficient memory
CF.INSERT f ITEMS x y => [:-1 :1] | [#f #t]
CF.INSERTNX f ITEMS x z => [:0 :1]
`},
		{"COUNT counts twice if both buckets are the same", `
CONFIG SET cf-layout compatible => +OK
CF.RESERVE f 4 => +OK
CF.INSERT f ITEMS a x => [:1 :1] | [#t #t]
CF.COUNT f a => :2
CF.COUNT f x => :1
CF.COUNT f y => :0
`},
		{"DEL, and missing keys", `
CONFIG SET cf-layout compatible => +OK
CF.DEL f x => -Not found
CF.COMPACT f => -Cuckoo filter was not found
CF.INFO f => -ERR not found
CF.SCANDUMP f 0 => -ERR not found
SET s x => +OK
CF.SCANDUMP s 0 => -WRONGTYPE Operation against a key holding the wrong kind of value
CF.INSERT f ITEMS a a b => [:1 :1 :1] | [#t #t #t]
CF.DEL f a => :1 | #t
CF.DEL f a => :1 | #t
CF.DEL f a => :0 | #f
CF.INFO f
  => [... +Number of items inserted :1 +Number of items deleted :2 ...]
  | {... +Number of items inserted :1 +Number of items deleted :2 ...}
CF.COMPACT f => +OK
CF.INFO f
  => [... +Number of items inserted :1 +Number of items deleted :0 ...]
  | {... +Number of items inserted :1 +Number of items deleted :0 ...}
`},
		{"a compaction by DEL frees sub-filters and counts deletions anew", `
CONFIG SET cf-layout compatible => +OK
CF.RESERVE f 4 => +OK
CF.INSERT f ITEMS x x x x x x x x x => [9*:1] | [9*#t]
CF.INFO f => [... +Number of filters :3 ...] | {... +Number of filters :3 ...}
CF.DEL f x => :1 | #t
CF.INFO f
  => [... +Number of filters :2 +Number of items inserted :8 +Number of items deleted :0 ...]
  | {... +Number of filters :2 +Number of items inserted :8 +Number of items deleted :0 ...}
`},
		{"SCANDUMP: positions, an empty filter, the end", `
CONFIG SET cf-layout compatible => +OK
CF.RESERVE f 4 => +OK
CF.SCANDUMP f x => -Invalid position
CF.SCANDUMP f -1 => -Invalid position
CF.SCANDUMP missing x => -Invalid position
CF.SCANDUMP f => -ERR wrong number of arguments for 'cf.scandump' command
CF.SCANDUMP f 0 => [:0 _]
CF.SCANDUMP f 1 => [:0 _]
CF.INSERT f ITEMS x x x x x => [5*:1] | [5*#t]
CF.SCANDUMP f 0
  => [:1 "\x05\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x02\x00\x14\x00\x01\x00"]
CF.SCANDUMP f 9 => [:0 _]
`},
	} {
		t.Run(tt.name, func(t *testing.T) { newWorld(t, kv.Options{}).Script(tt.script) })
	}
}

// A setting that was set does not follow the layout.
func TestCompatible_settingsUnset(t *testing.T) {
	w := newWorld(t, kv.Options{})
	w.Script(`
CONFIG SET cf-bucket-size 4 => +OK
CONFIG SET cf-layout compatible => +OK
CONFIG GET cf-bucket-size => ["cf-bucket-size" "4"] | {"cf-bucket-size" "4"}
CONFIG GET cf-expansion-factor => ["cf-expansion-factor" "1"] | {"cf-expansion-factor" "1"}`)
}

// Settings are checked without a store as they are with one.
func TestCompatible_checkSettings(t *testing.T) {
	table := coreext.With(cuckooext.Module())
	for _, tt := range []struct {
		pairs [][2]string
		taken int
	}{
		{[][2]string{{"cf-initial-size", "3"}}, 0},
		{[][2]string{{"cf-layout", "compatible"}, {"cf-initial-size", "4"}, {"cf-initial-size", "3"}}, 2},
		{[][2]string{{"cf-layout", "compatible"}, {"cf-bucket-size", "3"}, {"cf-initial-size", "5"}}, 2},
		{[][2]string{{"cf-layout", "compatible"}, {"cf-bucket-size", "4"}, {"cf-initial-size", "7"}}, 2},
		{[][2]string{{"cf-bucket-size", "4"}, {"cf-initial-size", "4"}}, 2},
	} {
		if taken, _ := table.CheckSettings(tt.pairs); taken != tt.taken {
			t.Errorf("%q: %d are taken, want %d", tt.pairs, taken, tt.taken)
		}
	}
}

// A filter that is queued for a compaction at some later time stays as it is.
func TestCompatible_compactedLater(t *testing.T) {
	p := newPair(t, kv.Options{}, 4, 2, 20, 1)
	for i := range 40 {
		p.do("CF.ADD", fmt.Sprint(i))
	}
	p.do("CF.DEL", "0")
	p.w.DB.QueueCompact([]byte("f"))
	if _, err := p.w.DB.CompactQueued(t.Context(), 1<<20); err != nil {
		t.Fatal(err)
	}
	p.compare()
}
