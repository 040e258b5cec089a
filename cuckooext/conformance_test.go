package cuckooext_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/internal/coretest"
	"github.com/sievekv/sievekv/kv"
)

// The CF commands, one sentence of RedisBloom's behaviour after the other, as scripts of package coretest.

func newWorld(t *testing.T, o kv.Options) *coretest.World {
	t.Helper()
	return coretest.NewWorld(t, worldOptions(o))
}

func worldOptions(o kv.Options) kv.Options {
	o.Modules = coreext.With(cuckooext.Module(), coretest.OtherModule())
	return o
}

// Replies that depend only on what the script shows.
func TestConformance(t *testing.T) {
	tests := []struct {
		name   string
		script string
	}{
		{"RESERVE: capacity, options in their order, range of the capacity, then key", `
OTHER.NEW other => +OK
CF.RESERVE have 1000 => +OK
CF.RESERVE have x BUCKETSIZE y MAXITERATIONS z => -Bad capacity
CF.RESERVE have 1 EXPANSION x BUCKETSIZE y MAXITERATIONS z => -Couldn't parse MAXITERATIONS
CF.RESERVE have 1 EXPANSION x BUCKETSIZE y MAXITERATIONS 0
  => -MAXITERATIONS: value must be in the range [1, 65535]
CF.RESERVE have 1 MAXITERATIONS 65536 => -MAXITERATIONS: value must be in the range [1, 65535]
CF.RESERVE have 1 MAXITERATIONS -1 => -MAXITERATIONS: value must be in the range [1, 65535]
CF.RESERVE have 1 EXPANSION x BUCKETSIZE y => -Couldn't parse BUCKETSIZE
CF.RESERVE have 1 EXPANSION x BUCKETSIZE 0 => -BUCKETSIZE: value must be in the range [1, 255]
CF.RESERVE have 1 BUCKETSIZE 256 => -BUCKETSIZE: value must be in the range [1, 255]
CF.RESERVE have 1 EXPANSION x => -Couldn't parse EXPANSION
CF.RESERVE have 1 EXPANSION -1 => -EXPANSION: value must be in the range [0, 32768]
CF.RESERVE have 1 EXPANSION 32769 => -EXPANSION: value must be in the range [0, 32768]
CF.RESERVE have 3 => -Capacity must be in the range [2 * BUCKETSIZE, 1099511627776]
CF.RESERVE have -5 => -Capacity must be in the range [2 * BUCKETSIZE, 1099511627776]
CF.RESERVE have 9 BUCKETSIZE 5 => -Capacity must be in the range [2 * BUCKETSIZE, 1099511627776]
CF.RESERVE have 10 BUCKETSIZE 5 => -ERR item exists
CF.RESERVE have 4 => -ERR item exists
CF.RESERVE other 3 => -Capacity must be in the range [2 * BUCKETSIZE, 1099511627776]
CF.RESERVE other 4 => -WRONGTYPE Operation against a key holding the wrong kind of value
`},
		{"RESERVE: ends of the ranges", `
CF.RESERVE a 2 BUCKETSIZE 1 MAXITERATIONS 1 EXPANSION 0 => +OK
CF.INFO a
  => [... +Bucket size :1 +Expansion rate :0 +Max iterations :1]
  | {... +Bucket size :1 +Expansion rate :0 +Max iterations :1}
CF.RESERVE b 510 BUCKETSIZE 255 MAXITERATIONS 65535 EXPANSION 32768 => +OK
CF.INFO b
  => [... +Bucket size :255 +Expansion rate :32768 +Max iterations :65535]
  | {... +Bucket size :255 +Expansion rate :32768 +Max iterations :65535}
CF.INSERT a ITEMS x y => [:1 :1] | [#t #t]
CF.INSERT b ITEMS x y => [:1 :1] | [#t #t]
CF.MEXISTS a x y z => [:1 :1 :0] | [#t #t #f]
CF.MEXISTS b x y z => [:1 :1 :0] | [#t #t #f]
`},
		{"RESERVE: an odd number of words", `
CF.RESERVE a 100 EXPANSION => -ERR wrong number of arguments for 'cf.reserve' command
CF.RESERVE a x EXPANSION => -ERR wrong number of arguments for 'cf.reserve' command
CF.RESERVE a 100 u v => +OK
CF.RESERVE b 100 u BUCKETSIZE => -Couldn't parse BUCKETSIZE
CF.RESERVE b 100 u MAXITERATIONS => -Couldn't parse MAXITERATIONS
CF.RESERVE b 100 u EXPANSION => -Couldn't parse EXPANSION
CF.RESERVE b 100 u v w BUCKETSIZE 3 x => +OK
CF.INFO b => [... +Bucket size :3 ...] | {... +Bucket size :3 ...}
`},
		{"RESERVE: option words in any case, the first counts, unknown ones are ignored", `
CF.RESERVE a 100 bucketSIZE 2 maxIterations 7 Expansion 4 => +OK
CF.INFO a
  => [... +Bucket size :2 +Expansion rate :4 +Max iterations :7]
  | {... +Bucket size :2 +Expansion rate :4 +Max iterations :7}
CF.RESERVE b 100 EXPANSION 4 EXPANSION x => +OK
CF.INFO b => [... +Expansion rate :4 ...] | {... +Expansion rate :4 ...}
CF.RESERVE c 100 EXPAND 3 "expanſion" x => +OK
CF.INFO c => [... +Expansion rate :2 ...] | {... +Expansion rate :2 ...}
CF.RESERVE d 100 TTL 3 => +OK
TTL d => :-1
`},
		{"EXPANSION is rounded up to a power of two", `
CF.RESERVE a 100 EXPANSION 3 => +OK
CF.INFO a => [... +Expansion rate :4 ...] | {... +Expansion rate :4 ...}
CF.RESERVE b 100 EXPANSION 1 => +OK
CF.INFO b => [... +Expansion rate :1 ...] | {... +Expansion rate :1 ...}
CF.RESERVE c 100 EXPANSION 16385 => +OK
CF.INFO c => [... +Expansion rate :32768 ...] | {... +Expansion rate :32768 ...}
`},
		{"adding makes a filter", `
CF.ADD a x => :1 | #t
CF.ADDNX b x => :1 | #t
CF.INSERT c ITEMS x => [:1] | [#t]
CF.INSERTNX d ITEMS x => [:1]
CF.DEBUG a => "bktsize:4 buckets:455 items:1 deletes:0 filters:1 max_iterations:20 expansion:2"
CF.DEBUG b => "bktsize:4 buckets:455 items:1 deletes:0 filters:1 max_iterations:20 expansion:2"
CF.DEBUG c => "bktsize:4 buckets:455 items:1 deletes:0 filters:1 max_iterations:20 expansion:2"
CF.DEBUG d => "bktsize:4 buckets:455 items:1 deletes:0 filters:1 max_iterations:20 expansion:2"
TYPE a => +MBbloomCF
`},
		{"ADD adds again, ADDNX does not; each has its form in RESP3", `
CF.ADD f a => :1 | #t
CF.ADD f a => :1 | #t
CF.COUNT f a => :2
CF.ADDNX f a => :0 | #f
CF.ADDNX f b => :1 | #t
CF.COUNT f a => :2
CF.COUNT f b => :1
CF.COUNT f c => :0
CF.INSERT f ITEMS a b c => [:1 :1 :1] | [#t #t #t]
CF.INSERTNX f ITEMS a d d e => [:0 :1 :0 :1]
CF.COUNT f a => :3
CF.COUNT f d => :1
CF.MEXISTS f a b c d e x => [5*:1 :0] | [5*#t #f]
CF.EXISTS f a => :1 | #t
CF.EXISTS f x => :0 | #f
CF.INFO f => [... +Number of items inserted :8 ...] | {... +Number of items inserted :8 ...}
`},
		{"DEL takes one copy", `
CF.INSERT f ITEMS a a a b => [4*:1] | [4*#t]
CF.DEL f a => :1 | #t
CF.COUNT f a => :2
CF.DEL f a => :1 | #t
CF.DEL f a => :1 | #t
CF.DEL f a => :0 | #f
CF.EXISTS f a => :0 | #f
CF.EXISTS f b => :1 | #t
CF.DEL f x => :0 | #f
CF.INFO f
  => [... +Number of items inserted :1 +Number of items deleted :3 ...]
  | {... +Number of items inserted :1 +Number of items deleted :3 ...}
CF.ADDNX f a => :1 | #t
CF.COMPACT f => +OK
CF.INFO f
  => [... +Number of items inserted :2 +Number of items deleted :0 ...]
  | {... +Number of items inserted :2 +Number of items deleted :0 ...}
CF.DEL f a => :1 | #t
CF.DEL f b => :1 | #t
CF.INFO f => [... +Number of items inserted :0 ...] | {... +Number of items inserted :0 ...}
EXISTS f => :1
`},
		{"items are any bytes", `
CF.EXISTS f "" => :0 | #f
CF.ADD f "" => :1 | #t
CF.ADDNX f "" => :0 | #f
CF.COUNT f "" => :1
CF.INSERT f ITEMS "\x00" "\x00\x00" "\xff\xfe" "a b" "a\r\nb" "" => [6*:1] | [6*#t]
CF.MEXISTS f "\x00" "\x00\x00" "\x00\x00\x00" "\xff\xfe" "\xff" "a b" a "a\r\nb"
  => [:1 :1 :0 :1 :0 :1 :0 :1]
  | [#t #t #f #t #f #t #f #t]
CF.DEL f "" => :1 | #t
CF.DEL f "" => :1 | #t
CF.DEL f "" => :0 | #f
CF.ADD "\x00key\xff" "" => :1 | #t
CF.EXISTS "\x00key\xff" "" => :1 | #t
CF.ADD "" x => :1 | #t
CF.EXISTS "" x => :1 | #t
`},
		{"INSERT: words by their first letters", `
CF.INSERT a c 20000 i x y => [:1 :1] | [#t #t]
CF.INFO a => [... +Number of buckets :5600 ...] | {... +Number of buckets :5600 ...}
CF.INSERT b Cucumber 20000 Inside x => [:1] | [#t]
CF.INFO b => [... +Number of buckets :5600 ...] | {... +Number of buckets :5600 ...}
CF.INSERT c n ITEMS x => -ERR not found
CF.INSERT c Nothing ITEMS x => -ERR not found
CF.INSERTNX c nocreate CAPACITY 100 ITEMS x => -ERR not found
CF.INSERT c CAPACITY 100 NOCREATE i x => -ERR not found
CF.INSERT g ITEMS CAPACITY 5 NOCREATE ITEMS => [4*:1] | [4*#t]
CF.INFO g => [... +Number of buckets :455 ...] | {... +Number of buckets :455 ...}
CF.INSERT h CAPACITY 10 CAPACITY 20000 ITEMS x => [:1] | [#t]
CF.INFO h => [... +Number of buckets :5600 ...] | {... +Number of buckets :5600 ...}
CF.INSERT z WHAT ITEMS x => -Unknown argument received
CF.INSERTNX z WHAT ITEMS x => -Unknown argument received
CF.INSERT z "" ITEMS x => -Unknown argument received
CF.INSERT z EXPANSION 2 ITEMS x => -Unknown argument received
CF.INSERT z "ıtems" x => -Unknown argument received
CF.INSERT z x y => -Unknown argument received
EXISTS c z => :0
`},
		{"INSERT: bad values, also where the key exists", `
OTHER.NEW other => +OK
CF.ADD f x => :1 | #t
CF.INSERT f CAPACITY x ITEMS a => -Bad capacity
CF.INSERTNX f CAPACITY x ITEMS a => -Bad capacity
CF.INSERT f CAPACITY "" ITEMS a => -Bad capacity
CF.INSERT f CAPACITY ITEMS a b => -Bad capacity
CF.INSERT f CAPACITY x WHAT ITEMS a => -Bad capacity
CF.INSERT f WHAT CAPACITY x ITEMS a => -Unknown argument received
CF.INSERT f CAPACITY 3 ITEMS a => -Capacity must be in the range [cf-bucket-size * 2, 1099511627776]
CF.INSERT f CAPACITY -1 ITEMS a => -Capacity must be in the range [cf-bucket-size * 2, 1099511627776]
CF.INSERTNX f CAPACITY 1099511627777 ITEMS a => -Capacity must be in the range [cf-bucket-size * 2, 1099511627776]
CF.INSERT missing CAPACITY 3 NOCREATE ITEMS a => -Capacity must be in the range [cf-bucket-size * 2, 1099511627776]
CF.INSERT other CAPACITY x ITEMS a => -Bad capacity
CF.INSERT other NOCREATE ITEMS a => -WRONGTYPE Operation against a key holding the wrong kind of value
CF.INSERT f CAPACITY 20000 ITEMS a => [:1] | [#t]
CF.INSERT f NOCREATE CAPACITY 20000 ITEMS a => [:1] | [#t]
CF.INFO f => [... +Number of buckets :455 ...] | {... +Number of buckets :455 ...}
CF.INSERT small CAPACITY 4 ITEMS a => [:1] | [#t]
EXISTS missing => :0
`},
		{"INSERT: no ITEMS", `
CF.INSERT f CAPACITY 10 => -ERR wrong number of arguments for 'cf.insert' command
CF.INSERT f NOCREATE NOCREATE => -ERR wrong number of arguments for 'cf.insert' command
CF.INSERT f NOCREATE CAPACITY => -ERR wrong number of arguments for 'cf.insert' command
CF.INSERT f NOCREATE ITEMS => -ERR wrong number of arguments for 'cf.insert' command
CF.INSERTNX f CAPACITY 10 => -ERR wrong number of arguments for 'cf.insertnx' command
CF.INSERTNX f NOCREATE ITEMS => -ERR wrong number of arguments for 'cf.insertnx' command
EXISTS f => :0
`},
		{"a full filter that does not grow: arrays go on", `
CF.RESERVE f 1000 EXPANSION 0 => +OK
CF.INSERT f ITEMS x x x x x x x x x y => [8*:1 :-1 :1] | [8*#t #f #t]
CF.INSERTNX f ITEMS x y z => [:0 :0 :1]
CF.ADD f x => -Filter is full
CF.ADDNX f x => :0 | #f
CF.INSERT f NOCREATE ITEMS x y x => [:-1 :1 :-1] | [#f #t #f]
CF.COUNT f x => :8
CF.COUNT f y => :2
CF.DEL f x => :1 | #t
CF.ADD f x => :1 | #t
`},
		{"EXISTS, MEXISTS, COUNT: missing key and wrong type answer 0", `
OTHER.NEW other => +OK
CF.EXISTS missing a => :0 | #f
CF.EXISTS other a => :0 | #f
CF.MEXISTS missing a b => [:0 :0] | [#f #f]
CF.MEXISTS other a b => [:0 :0] | [#f #f]
CF.COUNT missing a => :0
CF.COUNT other a => :0
EXISTS missing => :0
`},
		{"DEL, COMPACT, INFO, DEBUG: missing key and wrong type", `
OTHER.NEW other => +OK
CF.DEL missing a => -Not found
CF.DEL other a => -Not found
CF.COMPACT missing => -Cuckoo filter was not found
CF.COMPACT other => -Cuckoo filter was not found
CF.INFO missing => -ERR not found
CF.INFO other => -WRONGTYPE Operation against a key holding the wrong kind of value
CF.DEBUG missing => -ERR not found
CF.DEBUG other => -WRONGTYPE Operation against a key holding the wrong kind of value
EXISTS missing => :0
TYPE other => +other
`},
		{"ADD, ADDNX, INSERT, INSERTNX: a key of another type", `
OTHER.NEW other => +OK
CF.ADD other x => -WRONGTYPE Operation against a key holding the wrong kind of value
CF.ADDNX other x => -WRONGTYPE Operation against a key holding the wrong kind of value
CF.INSERT other ITEMS x => -WRONGTYPE Operation against a key holding the wrong kind of value
CF.INSERTNX other ITEMS x => -WRONGTYPE Operation against a key holding the wrong kind of value
CF.INSERTNX other NOCREATE ITEMS x => -WRONGTYPE Operation against a key holding the wrong kind of value
TYPE other => +other
`},
		{"INFO and DEBUG", `
CF.RESERVE f 1000 => +OK
CF.INSERT f ITEMS a b c => [:1 :1 :1] | [#t #t #t]
CF.DEL f b => :1 | #t
CF.INFO f
  => [+Size :2786 +Number of buckets :455 +Number of filters :1 +Number of items inserted :2
  +Number of items deleted :1 +Bucket size :4 +Expansion rate :2 +Max iterations :20]
  | {+Size :2786 +Number of buckets :455 +Number of filters :1 +Number of items inserted :2
  +Number of items deleted :1 +Bucket size :4 +Expansion rate :2 +Max iterations :20}
CF.DEBUG f => "bktsize:4 buckets:455 items:2 deletes:1 filters:1 max_iterations:20 expansion:2"
`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { newWorld(t, kv.Options{}).Script(tt.script) })
	}
}

// Each command refuses one word less and one word more than it takes. The error has its name in lower case.
func TestConformance_arity(t *testing.T) {
	w := newWorld(t, kv.Options{})
	for _, command := range []string{
		"CF.RESERVE", "CF.RESERVE k", "CF.RESERVE k 100 EXPANSION", "CF.RESERVE k 100 a b c",
		"Cf.Add", "CF.ADD k", "cf.add k a b",
		"CF.ADDNX", "CF.ADDNX k", "CF.ADDNX k a b",
		"CF.INSERT", "CF.INSERT k", "CF.INSERT k ITEMS",
		"CF.INSERTNX", "CF.INSERTNX k", "CF.INSERTNX k ITEMS",
		"CF.EXISTS", "CF.EXISTS k", "CF.EXISTS k a b",
		"CF.MEXISTS", "CF.MEXISTS k",
		"CF.COUNT", "CF.COUNT k", "CF.COUNT k a b",
		"CF.DEL", "CF.DEL k", "CF.DEL k a b",
		"CF.COMPACT", "CF.COMPACT k a",
		"CF.INFO", "CF.INFO k ERROR x",
		"CF.DEBUG", "CF.DEBUG k a",
	} {
		name, _, _ := strings.Cut(command, " ")
		w.Script(fmt.Sprintf("%s => -ERR wrong number of arguments for '%s' command", command, strings.ToLower(name)))
	}
	w.Script("DBSIZE => :0")
}

// Integers are decimal, without plus, blanks, leading zeros or anything after them.
func TestConformance_integers(t *testing.T) {
	w := newWorld(t, kv.Options{})
	for _, word := range []string{
		"010", "+5", " 5", "5 ", "1e3", "", "-", "-0", "-05", "00", "0x10", "5.0", "1_000", "5\x00", "٥", "five",
		"9223372036854775808", "-9223372036854775809", "99999999999999999999",
	} {
		q := strconv.Quote(word)
		w.Script("CF.RESERVE f " + q + " => -Bad capacity")
		for _, option := range []string{"BUCKETSIZE", "MAXITERATIONS", "EXPANSION"} {
			w.Script("CF.RESERVE f 1000 " + option + " " + q + " => -Couldn't parse " + option)
		}
		w.Script("CF.INSERT f CAPACITY " + q + " ITEMS a => -Bad capacity")
	}
	for _, word := range []string{"9223372036854775807", "-9223372036854775808"} {
		w.Script("CF.RESERVE f " + word + " => -Capacity must be in the range [2 * BUCKETSIZE, 1099511627776]")
		w.Script("CF.RESERVE f 1000 EXPANSION " + word + " => -EXPANSION: value must be in the range [0, 32768]")
	}
	w.Script("DBSIZE => :0")
}

// INFO shows growth and compaction, and COMPACT removes a layer that deletions have emptied.
func TestConformance_growth(t *testing.T) {
	w := newWorld(t, kv.Options{})
	w.Script(`
CF.INSERT f CAPACITY 1000 ITEMS i{1..20000} => [20000*:1] | [20000*#t]
CF.MEXISTS f i{1..20000} => [20000*:1] | [20000*#t]
CF.INFO f
  => [+Size :60164 +Number of buckets :455 +Number of filters :4 +Number of items inserted :20000 ...]
  | {+Size :60164 +Number of buckets :455 +Number of filters :4 +Number of items inserted :20000 ...}`)
	for i := range 19500 {
		w.Script(fmt.Sprintf("CF.DEL f i%d => :1 | #t", i+1))
	}
	w.Script(`
CF.COMPACT f => +OK
CF.MEXISTS f i{19501..20000} => [500*:1] | [500*#t]
CF.INFO f
  => [... +Number of filters :1 +Number of items inserted :500 +Number of items deleted :0 ...]
  | {... +Number of filters :1 +Number of items inserted :500 +Number of items deleted :0 ...}`)
}
