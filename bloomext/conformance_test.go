package bloomext_test

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/internal/coretest"
	"github.com/sievekv/sievekv/internal/probe"
	"github.com/sievekv/sievekv/kv"
)

// The BF commands, one sentence of RedisBloom's behaviour after the other.

func newWorld(t *testing.T, o kv.Options) *coretest.World {
	t.Helper()
	return coretest.NewWorld(t, worldOptions(o))
}

func worldOptions(o kv.Options) kv.Options {
	o.Modules = coreext.With(bloomext.Module(), coretest.OtherModule())
	return o
}

// Replies that depend only on what the script shows.
func TestConformance(t *testing.T) {
	tests := []struct {
		name    string
		options kv.Options
		script  string
	}{
		{"RESERVE: error rate, then capacity, then expansion, then key", kv.Options{}, `
OTHER.NEW other => +OK
BF.RESERVE have 0.01 100 => +OK
BF.RESERVE have x y EXPANSION z => -ERR bad error rate
BF.RESERVE have 0 y EXPANSION z => -ERR error rate must be in the range (0.000000, 1.000000)
BF.RESERVE have 1 y EXPANSION z => -ERR error rate must be in the range (0.000000, 1.000000)
BF.RESERVE have 0.01 y EXPANSION z => -ERR bad capacity
BF.RESERVE have 0.01 0 EXPANSION z => -ERR capacity must be in the range [1, 1099511627776]
BF.RESERVE have 0.01 -1 EXPANSION z => -ERR capacity must be in the range [1, 1099511627776]
BF.RESERVE have 0.01 100 EXPANSION => -ERR no expansion
BF.RESERVE have 0.01 100 NONSCALING EXPANSION => -ERR no expansion
BF.RESERVE have 0.01 100 EXPANSION z NONSCALING => -ERR bad expansion
BF.RESERVE have 0.01 100 NONSCALING EXPANSION z => -ERR bad expansion
BF.RESERVE have 0.01 100 NONSCALING EXPANSION 1 => -Nonscaling filters cannot expand
BF.RESERVE have 0.01 100 EXPANSION 2 NONSCALING => -Nonscaling filters cannot expand
BF.RESERVE have 0.01 100 EXPANSION 32769 NONSCALING => -Nonscaling filters cannot expand
BF.RESERVE have 0.01 100 EXPANSION -1 NONSCALING => -Nonscaling filters cannot expand
BF.RESERVE have 0.01 100 EXPANSION 32769 => -ERR expansion must be in the range [0, 32768]
BF.RESERVE have 0.01 100 EXPANSION -1 => -ERR expansion must be in the range [0, 32768]
BF.RESERVE have 0.01 100 => -ERR item exists
BF.RESERVE other 0 100 => -ERR error rate must be in the range (0.000000, 1.000000)
BF.RESERVE other 0.01 100 => -WRONGTYPE Operation against a key holding the wrong kind of value
`},
		{"RESERVE: ends of the ranges", kv.Options{MaxFilterBytes: 1 << 42}, `
BF.RESERVE a 0.999999 1 => +OK
BF.RESERVE b 0.000001 1 EXPANSION 32768 => +OK
BF.INFO b EXPANSION => [:32768] | {+Expansion rate :32768}
BF.RESERVE c 0.01 1099511627776 NONSCALING => +OK
BF.RESERVE d 0.01 1099511627776 => +OK
BF.ADD c x => :1 | #t
BF.EXISTS c x => :1 | #t
BF.EXISTS c y => :0 | #f
`},
		{"RESERVE: 4 to 7 words", kv.Options{}, `
BF.RESERVE a 0.01 => -ERR wrong number of arguments for 'bf.reserve' command
BF.RESERVE a 0.01 100 u v w => +OK
BF.RESERVE b 0.01 100 u v w x => -ERR wrong number of arguments for 'bf.reserve' command
bf.Reserve b x y EXPANSION z NONSCALING v w => -ERR wrong number of arguments for 'bf.reserve' command
`},
		{"RESERVE: option words in any case, the first counts, unknown ones are ignored", kv.Options{}, `
BF.RESERVE a 0.01 100 nonScaling => +OK
BF.INFO a EXPANSION => [_] | {+Expansion rate _}
BF.RESERVE b 0.01 100 eXpansion 3 => +OK
BF.INFO b EXPANSION => [:3] | {+Expansion rate :3}
BF.RESERVE c 0.01 100 EXPANSION 3 EXPANSION => +OK
BF.INFO c EXPANSION => [:3] | {+Expansion rate :3}
BF.RESERVE d 0.01 100 what EXPANSION 4 => +OK
BF.INFO d EXPANSION => [:4] | {+Expansion rate :4}
BF.RESERVE e 0.01 100 NON NONSCALINGS EXPAND => +OK
BF.INFO e EXPANSION => [:2] | {+Expansion rate :2}
BF.RESERVE f 0.01 100 "nonſcaling" "expanſion" x => +OK
BF.INFO f EXPANSION => [:2] | {+Expansion rate :2}
`},
		{"EXPANSION 0 is NONSCALING", kv.Options{}, `
BF.RESERVE a 0.0001 2 EXPANSION 0 => +OK
BF.RESERVE b 0.0001 2 EXPANSION 0 NONSCALING => +OK
BF.INFO a EXPANSION => [_] | {+Expansion rate _}
BF.INFO b EXPANSION => [_] | {+Expansion rate _}
BF.MADD a x y z => [:1 :1 -ERR non scaling filter is full] | [#t #t -ERR non scaling filter is full]
BF.INSERT c CAPACITY 2 EXPANSION 0 ITEMS x y z
  => [:1 :1 -ERR non scaling filter is full]
  | [#t #t -ERR non scaling filter is full]
BF.INFO c EXPANSION => [_] | {+Expansion rate _}
`},
		{"a rate above 0.25 is 0.25", kv.Options{}, `
BF.RESERVE a 0.9 100 NONSCALING => +OK
BF.DEBUG a => ["size:0" "bytes:... capacity:100 size:0 ratio:0.25"]
BF.RESERVE b 0.250001 100 => +OK
BF.DEBUG b => ["size:0" "bytes:... capacity:100 size:0 ratio:0.225"]
BF.INSERT c ERROR 0.99 NONSCALING ITEMS x => [:1] | [#t]
BF.DEBUG c => ["size:1" "bytes:... capacity:100 size:1 ratio:0.25"]
BF.RESERVE d 0.24 100 NONSCALING => +OK
BF.DEBUG d => ["size:0" "bytes:... capacity:100 size:0 ratio:0.24"]
`},
		{"adding makes a filter of capacity 100, error 0.01, expansion 2", kv.Options{}, `
BF.ADD a x => :1 | #t
BF.MADD b x => [:1] | [#t]
BF.INSERT c ITEMS x => [:1] | [#t]
BF.INFO a CAPACITY => [:100] | {+Capacity :100}
BF.INFO b CAPACITY => [:100] | {+Capacity :100}
BF.INFO c CAPACITY => [:100] | {+Capacity :100}
BF.INFO a EXPANSION => [:2] | {+Expansion rate :2}
BF.INFO b EXPANSION => [:2] | {+Expansion rate :2}
BF.INFO c EXPANSION => [:2] | {+Expansion rate :2}
BF.RESERVE d 0.01 100 EXPANSION 2 => +OK
BF.MERGE d a b c => +OK
`},
		{"ADD, MADD: 1 new, 0 known; a repeat in a batch is known", kv.Options{}, `
BF.RESERVE f 0.0001 100 => +OK
BF.ADD f a => :1 | #t
BF.ADD f a => :0 | #f
BF.MADD f b a b c b => [:1 :0 :0 :1 :0] | [#t #f #f #t #f]
BF.INSERT f ITEMS d a d => [:1 :0 :0] | [#t #f #f]
BF.MADD f e e e e e => [:1 4*:0] | [#t 4*#f]
BF.CARD f => :5
`},
		{"items are any bytes", kv.Options{}, `
BF.RESERVE f 0.0001 100 => +OK
BF.EXISTS f "" => :0 | #f
BF.ADD f "" => :1 | #t
BF.ADD f "" => :0 | #f
BF.EXISTS f "" => :1 | #t
BF.MADD f "\x00" "\x00\x00" "\xff\xfe" "a b" "a\r\nb" "" => [5*:1 :0] | [5*#t #f]
BF.MEXISTS f "\x00" "\x00\x00" "\x00\x00\x00" "\xff\xfe" "\xff" "a b" a "a\r\nb"
  => [:1 :1 :0 :1 :0 :1 :0 :1]
  | [#t #t #f #t #f #t #f #t]
BF.INSERT f ITEMS "" "\x00" => [:0 :0] | [#f #f]
BF.ADD "\x00key\xff" "" => :1 | #t
BF.EXISTS "\x00key\xff" "" => :1 | #t
BF.ADD "" x => :1 | #t
BF.EXISTS "" x => :1 | #t
`},
		{"INSERT: words by their first letters", kv.Options{}, `
BF.INSERT a c 500 er 0.001 e 4 i x y => [:1 :1] | [#t #t]
BF.INFO a CAPACITY => [:500] | {+Capacity :500}
BF.INFO a EXPANSION => [:4] | {+Expansion rate :4}
BF.DEBUG a => ["size:2" "bytes:... capacity:500 size:2 ratio:0.0007"]
BF.INSERT b Cucumber 7 ERgo 0.001 Egg 3 Inside x => [:1] | [#t]
BF.INFO b CAPACITY => [:7] | {+Capacity :7}
BF.INFO b EXPANSION => [:3] | {+Expansion rate :3}
BF.INSERT c NiCe ITEMS x => -ERR not found
BF.INSERT c noc ITEMS x => -ERR not found
BF.INSERT c nocreate ITEMS x => -ERR not found
BF.INSERT d N ITEMS x => [:1] | [#t]
BF.INFO d EXPANSION => [_] | {+Expansion rate _}
BF.INSERT e NO ITEMS x => [:1] | [#t]
BF.INFO e EXPANSION => [_] | {+Expansion rate _}
BF.INSERT f nonscaling ITEMS x => [:1] | [#t]
BF.INFO f EXPANSION => [_] | {+Expansion rate _}
BF.INSERT g ITEMS CAPACITY 5 NOCREATE ITEMS => [4*:1] | [4*#t]
BF.INFO g CAPACITY => [:100] | {+Capacity :100}
BF.INSERT h CAPACITY 10 CAPACITY 20 ITEMS x => [:1] | [#t]
BF.INFO h CAPACITY => [:20] | {+Capacity :20}
BF.INSERT z WHAT ITEMS x => -Unknown argument received
BF.INSERT z "" ITEMS x => -Unknown argument received
BF.INSERT z TTL 10 ITEMS x => -Unknown argument received
BF.INSERT z "ıtems" x => -Unknown argument received
BF.INSERT z x y => -Unknown argument received
BF.INFO z => -ERR not found
`},
		{"INSERT: bad values, also where the key exists", kv.Options{}, `
OTHER.NEW other => +OK
BF.RESERVE f 0.0001 10 => +OK
BF.INSERT f CAPACITY x ITEMS a => -Bad capacity
BF.INSERT f CAPACITY 0 ITEMS a => -Bad capacity
BF.INSERT f CAPACITY "" ITEMS a => -Bad capacity
BF.INSERT f CAPACITY ITEMS a b => -Bad capacity
BF.INSERT f CAPACITY 1099511627777 ITEMS a => -Bad capacity
BF.INSERT f ERROR x ITEMS a => -Bad error rate
BF.INSERT f ERROR 0 ITEMS a => -Bad error rate
BF.INSERT f ERROR 1 ITEMS a => -Bad error rate
BF.INSERT f ERROR nan ITEMS a => -Bad error rate
BF.INSERT f ERROR inf ITEMS a => -Bad error rate
BF.INSERT f EXPANSION x ITEMS a => -Bad expansion
BF.INSERT f EXPANSION -1 ITEMS a => -Bad expansion
BF.INSERT f EXPANSION 32769 ITEMS a => -Bad expansion
BF.INSERT f CAPACITY 5 EXPANSION x ERROR x ITEMS a => -Bad expansion
BF.INSERT missing CAPACITY x NOCREATE ITEMS a => -Bad capacity
BF.INSERT other CAPACITY x ITEMS a => -Bad capacity
BF.INSERT other NOCREATE ITEMS a => -WRONGTYPE Operation against a key holding the wrong kind of value
BF.INSERT f CAPACITY 50 ERROR 0.5 EXPANSION 8 NONSCALING ITEMS a => [:1] | [#t]
BF.INFO f CAPACITY => [:10] | {+Capacity :10}
BF.INFO f EXPANSION => [:2] | {+Expansion rate :2}
BF.CARD f => :1
`},
		{"INSERT: NOCREATE, and no ITEMS", kv.Options{}, `
BF.INSERT f NOCREATE ITEMS a => -ERR not found
BF.INSERT f NOCREATE CAPACITY 10 ERROR 0.1 EXPANSION 2 ITEMS a => -ERR not found
BF.INSERT f CAPACITY 10 => -ERR wrong number of arguments for 'bf.insert' command
BF.INSERT f NOCREATE NONSCALING => -ERR wrong number of arguments for 'bf.insert' command
BF.INSERT f NOCREATE CAPACITY => -ERR wrong number of arguments for 'bf.insert' command
BF.INSERT f NOCREATE ERROR => -ERR wrong number of arguments for 'bf.insert' command
BF.INSERT f NOCREATE EXPANSION => -ERR wrong number of arguments for 'bf.insert' command
BF.INSERT f NOCREATE ITEMS => -ERR wrong number of arguments for 'bf.insert' command
BF.INSERT f ITEMS => -ERR wrong number of arguments for 'bf.insert' command
EXISTS f => :0
BF.INSERT f CAPACITY 10 ERROR 0.0001 ITEMS a => [:1] | [#t]
BF.INSERT f NOCREATE ITEMS a b => [:0 :1] | [#f #t]
BF.INSERT f NOCREATE CAPACITY 20 ERROR 0.1 ITEMS c => [:1] | [#t]
BF.INFO f CAPACITY => [:10] | {+Capacity :10}
`},
		{"INSERT: NONSCALING wins over EXPANSION", kv.Options{}, `
BF.INSERT f NONSCALING EXPANSION 4 CAPACITY 2 ERROR 0.0001 ITEMS a b c
  => [:1 :1 -ERR non scaling filter is full]
  | [#t #t -ERR non scaling filter is full]
BF.INSERT g EXPANSION 4 NONSCALING CAPACITY 2 ERROR 0.0001 ITEMS a b c
  => [:1 :1 -ERR non scaling filter is full]
  | [#t #t -ERR non scaling filter is full]
BF.INFO f EXPANSION => [_] | {+Expansion rate _}
BF.INFO g EXPANSION => [_] | {+Expansion rate _}
`},
		{"a full filter that does not scale", kv.Options{}, `
BF.RESERVE f 0.0001 3 NONSCALING => +OK
BF.MADD f a b => [:1 :1] | [#t #t]
BF.MADD f a c c b d a e => [:0 :1 :0 :0 -ERR non scaling filter is full] | [#f #t #f #f -ERR non scaling filter is full]
BF.CARD f => :3
BF.MEXISTS f a b c d e => [:1 :1 :1 :0 :0] | [#t #t #t #f #f]
BF.ADD f a => :0 | #f
BF.ADD f d => -ERR non scaling filter is full
BF.MADD f d a => [-ERR non scaling filter is full]
BF.MADD f a d a => [:0 -ERR non scaling filter is full] | [#f -ERR non scaling filter is full]
BF.INSERT f ITEMS b c d a => [:0 :0 -ERR non scaling filter is full] | [#f #f -ERR non scaling filter is full]
BF.INSERT f NOCREATE ITEMS d => [-ERR non scaling filter is full]
BF.INFO f
  => [+Capacity :3 +Size ... +Number of filters :1 +Number of items inserted :3 +Expansion rate _]
  | {+Capacity :3 +Size ... +Number of filters :1 +Number of items inserted :3 +Expansion rate _}
BF.INSERT g CAPACITY 2 ERROR 0.0001 NONSCALING ITEMS a b a c a
  => [:1 :1 :0 -ERR non scaling filter is full]
  | [#t #t #f -ERR non scaling filter is full]
BF.MEXISTS g a b c => [:1 :1 :0] | [#t #t #f]
`},
		{"no growth by known items", kv.Options{}, `
CONFIG SET growth-log-bytes 0 => +OK
BF.RESERVE f 0.0001 2 EXPANSION 1 => +OK
BF.MADD f a b a b => [:1 :1 :0 :0] | [#t #t #f #f]
BF.ADD f a => :0 | #f
BF.INFO f FILTERS => [:1] | {+Number of filters :1}
BF.MADD f a c a b c => [:0 :1 :0 :0 :0] | [#f #t #f #f #f]
BF.INFO f FILTERS => [:2] | {+Number of filters :2}
BF.MADD f d a c e => [:1 :0 :0 :1] | [#t #f #f #t]
BF.INFO f FILTERS => [:3] | {+Number of filters :3}
BF.MEXISTS f a b c d e f => [5*:1 :0] | [5*#t #f]
BF.CARD f => :5
`},
		{"growth that is refused: the array goes on", kv.Options{MaxFilterBytes: 128}, `
CONFIG SET growth-log-bytes 0 => +OK
BF.RESERVE f 0.0001 4 => +OK
BF.MADD f i{1..12} => [12*:1] | [12*#t]
BF.INFO f SIZE => [:288] | {+Size :288}
BF.MADD f i1 x i2 y x i12
  => [:0 -ERR problem inserting into filter :0 -ERR problem inserting into filter -ERR problem inserting into filter :0]
  | [#f -ERR problem inserting into filter #f -ERR problem inserting into filter -ERR problem inserting into filter #f]
BF.ADD f x => -ERR problem inserting into filter
BF.ADD f i1 => :0 | #f
BF.INSERT f ITEMS x i3 => [-ERR problem inserting into filter :0] | [-ERR problem inserting into filter #f]
BF.EXISTS f x => :0 | #f
BF.CARD f => :12
BF.RESERVE g 0.0001 2 EXPANSION 16 => +OK
BF.MADD g a b c a d
  => [:1 :1 -ERR problem inserting into filter :0 -ERR problem inserting into filter]
  | [#t #t -ERR problem inserting into filter #f -ERR problem inserting into filter]
BF.MEXISTS g a b c d => [:1 :1 :0 :0] | [#t #t #f #f]
BF.INSERT h CAPACITY 2 EXPANSION 16 ERROR 0.0001 ITEMS a b c b
  => [:1 :1 -ERR problem inserting into filter :0]
  | [#t #t -ERR problem inserting into filter #f]
`},
		{"EXISTS, MEXISTS, CARD: missing key and wrong type", kv.Options{}, `
OTHER.NEW other => +OK
BF.EXISTS missing a => :0 | #f
BF.EXISTS other a => :0 | #f
BF.MEXISTS missing a b => [:0 :0] | [#f #f]
BF.MEXISTS other a b => [:0 :0] | [#f #f]
BF.CARD missing => :0
BF.CARD other => -WRONGTYPE Operation against a key holding the wrong kind of value
EXISTS missing => :0
BF.RESERVE f 0.0001 100 => +OK
BF.EXISTS f a => :0 | #f
BF.MADD f a b => [:1 :1] | [#t #t]
BF.EXISTS f a => :1 | #t
BF.MEXISTS f a c b => [:1 :0 :1] | [#t #f #t]
BF.MEXISTS f c => [:0] | [#f]
BF.CARD f => :2
`},
		{"INFO: all fields, or one", kv.Options{}, `
BF.RESERVE f 0.01 100 => +OK
BF.MADD f a b => [:1 :1] | [#t #t]
BF.INFO f
  => [+Capacity :100 +Size :224 +Number of filters :1 +Number of items inserted :2 +Expansion rate :2]
  | {+Capacity :100 +Size :224 +Number of filters :1 +Number of items inserted :2 +Expansion rate :2}
BF.INFO f CAPACITY => [:100] | {+Capacity :100}
BF.INFO f Size => [:224] | {+Size :224}
BF.INFO f filters => [:1] | {+Number of filters :1}
BF.INFO f ITEMS => [:2] | {+Number of items inserted :2}
BF.INFO f EXPANSION => [:2] | {+Expansion rate :2}
BF.RESERVE g 0.01 100 NONSCALING => +OK
BF.INFO g EXPANSION => [_] | {+Expansion rate _}
BF.INFO g
  => [+Capacity :100 +Size ... +Number of filters :1 +Number of items inserted :0 +Expansion rate _]
  | {+Capacity :100 +Size ... +Number of filters :1 +Number of items inserted :0 +Expansion rate _}
`},
		{"INFO: errors", kv.Options{}, `
OTHER.NEW other => +OK
BF.RESERVE f 0.01 100 => +OK
BF.INFO missing => -ERR not found
BF.INFO missing nosuch => -ERR not found
BF.INFO missing CAPACITY => -ERR not found
BF.INFO f nosuch => -Invalid information value
BF.INFO f "" => -Invalid information value
BF.INFO f "Number of filters" => -Invalid information value
BF.INFO f "ſize" => -Invalid information value
BF.INFO f CAPACITY SIZE => -ERR wrong number of arguments for 'bf.info' command
BF.INFO other => -WRONGTYPE Operation against a key holding the wrong kind of value
BF.INFO other nosuch => -WRONGTYPE Operation against a key holding the wrong kind of value
`},
		{"DEBUG", kv.Options{}, `
CONFIG SET growth-log-bytes 0 => +OK
OTHER.NEW other => +OK
BF.DEBUG missing => -ERR not found
BF.DEBUG other => -WRONGTYPE Operation against a key holding the wrong kind of value
BF.RESERVE f 0.01 4 EXPANSION 2 => +OK
BF.DEBUG f => ["size:0" "bytes:64 bits:512 hashes:7 hashwidth:64 capacity:4 size:0 ratio:0.007"]
BF.MADD f i{1..5} => [5*:1] | [5*#t]
BF.DEBUG f
  => ["size:5" "bytes:64 bits:512 hashes:7 hashwidth:64 capacity:4 size:4 ratio:0.007"
  "bytes:64 bits:512 hashes:13 hashwidth:64 capacity:8 size:1 ratio:7.89474e-05"]
BF.RESERVE g 0.00001234567 4 NONSCALING => +OK
BF.DEBUG g => ["size:0" "bytes:64 bits:512 ... capacity:4 size:0 ratio:1.23457e-05"]
`},
		{"a key of another type", kv.Options{}, `
OTHER.NEW o => +OK
BF.ADD o x => -WRONGTYPE Operation against a key holding the wrong kind of value
BF.MADD o x y => -WRONGTYPE Operation against a key holding the wrong kind of value
BF.INSERT o ITEMS x => -WRONGTYPE Operation against a key holding the wrong kind of value
BF.RESERVE o 0.01 100 => -WRONGTYPE Operation against a key holding the wrong kind of value
TYPE o => +other
BF.ADD f x => :1 | #t
TYPE f => +MBbloom--
`},
		{"TTL", kv.Options{}, `
BF.RESERVE a 0.01 100 TTL 10 => +OK
BF.RESERVE b 0.01 50 EXPANSION 4 ttl 20 => +OK
BF.RESERVE c 0.01 100 Ttl 30 NONSCALING => +OK
BF.RESERVE d 0.01 100 => +OK
BF.RESERVE e 0.01 100 EXPANSION 0 NONSCALING TTL 1 => +OK
BF.MADD a x y => [:1 :1] | [#t #t]
@pass 999ms
EXISTS a b c d e => :5
@pass 1ms
EXISTS a b c d e => :4
@pass 8999ms
BF.MEXISTS a x y => [:1 :1] | [#t #t]
BF.CARD a => :2
BF.RESERVE a 0.01 100 => -ERR item exists
@pass 1ms
BF.EXISTS a x => :0 | #f
BF.CARD a => :0
BF.INFO a => -ERR not found
BF.INSERT a NOCREATE ITEMS x => -ERR not found
TYPE a => +none
BF.INFO b CAPACITY => [:50] | {+Capacity :50}
BF.INFO b EXPANSION => [:4] | {+Expansion rate :4}
@pass 10s
EXISTS a b c d => :2
BF.ADD b x => :1 | #t
BF.INFO b CAPACITY => [:100] | {+Capacity :100}
BF.RESERVE a 0.01 7 => +OK
@pass 240000h
EXISTS a b c d => :3
BF.INFO a CAPACITY => [:7] | {+Capacity :7}
BF.EXISTS b x => :1 | #t
`},
		{"TTL: errors", kv.Options{}, `
BF.RESERVE f 0.01 100 TTL => -ERR no ttl
BF.RESERVE f 0.01 100 EXPANSION 2 TTL => -ERR no ttl
BF.RESERVE f 0.01 100 TTL x => -ERR bad ttl
BF.RESERVE f 0.01 100 TTL 1.5 => -ERR bad ttl
BF.RESERVE f 0.01 100 TTL 0 => -ERR ttl must be in the range [1, 3162240000]
BF.RESERVE f 0.01 100 TTL -1 => -ERR ttl must be in the range [1, 3162240000]
BF.RESERVE f 0.01 100 TTL 3162240001 => -ERR ttl must be in the range [1, 3162240000]
BF.RESERVE f x 100 TTL 0 => -ERR bad error rate
BF.RESERVE f 0.01 x TTL 0 => -ERR bad capacity
BF.RESERVE f 0.01 100 EXPANSION 2 NONSCALING TTL 5 => -Nonscaling filters cannot expand
BF.RESERVE f 0.01 100 EXPANSION 2 u TTL 5 w => -ERR wrong number of arguments for 'bf.reserve' command
EXISTS f => :0
BF.RESERVE f 0.01 100 TTL 3162240000 => +OK
BF.RESERVE f 0.01 100 TTL 5 => -ERR item exists
`},
		{"MERGE: into a missing filter and into one that is there", kv.Options{}, `
BF.RESERVE a 0.0001 100 => +OK
BF.RESERVE b 0.0001 100 => +OK
BF.MADD a x{1..20} => [20*:1] | [20*#t]
BF.MADD b y{1..20} => [20*:1] | [20*#t]
BF.MERGE d a b => +OK
BF.MEXISTS d x{1..20} y{1..20} => [40*:1] | [40*#t]
BF.MEXISTS d z{1..20} => [20*:0] | [20*#f]
BF.MEXISTS a y{1..20} => [20*:0] | [20*#f]
BF.MERGE a b => +OK
BF.MEXISTS a x{1..20} y{1..20} => [40*:1] | [40*#t]
BF.CARD b => :20
BF.MERGE b b => +OK
BF.CARD b => :20
BF.MERGE b a b a => +OK
BF.MEXISTS b x{1..20} y{1..20} => [40*:1] | [40*#t]
BF.ADD b x1 => :0 | #f
BF.ADD b z1 => :1 | #t
TYPE d => +MBbloom--
`},
		{"MERGE: layers, and what is known of their items", kv.Options{}, `
CONFIG SET growth-log-bytes 0 => +OK
BF.RESERVE a 0.0001 4 => +OK
BF.RESERVE b 0.0001 4 => +OK
BF.MADD a x{1..6} => [6*:1] | [6*#t]
BF.ADD b x1 => :1 | #t
BF.MERGE b a => +OK
BF.MEXISTS b x{1..6} => [6*:1] | [6*#t]
BF.INFO b
  => [+Capacity :12 +Size :288 +Number of filters :2 +Number of items inserted :6 +Expansion rate :2]
  | {+Capacity :12 +Size :288 +Number of filters :2 +Number of items inserted :6 +Expansion rate :2}
BF.INFO b ITEMS => [:6] | {+Number of items inserted :6}
BF.INFO a
  => [+Capacity :12 +Size :288 +Number of filters :2 +Number of items inserted :6 +Expansion rate :2]
  | {+Capacity :12 +Size :288 +Number of filters :2 +Number of items inserted :6 +Expansion rate :2}
BF.MERGE c a => +OK
BF.INFO c
  => [+Capacity :12 +Size :288 +Number of filters :2 +Number of items inserted :6 +Expansion rate :2]
  | {+Capacity :12 +Size :288 +Number of filters :2 +Number of items inserted :6 +Expansion rate :2}
BF.RESERVE d 0.0001 4 => +OK
BF.ADD d y => :1 | #t
BF.RESERVE e 0.0001 4 => +OK
BF.MADD e z{1..2} => [:1 :1] | [#t #t]
BF.MERGE e d => +OK
BF.INFO e ITEMS => [:3] | {+Number of items inserted :3}
BF.INFO e
  => [+Capacity :4 ... +Number of items is estimated :1]
  | {+Capacity :4 ... +Number of items is estimated :1}
BF.MERGE g e => +OK
BF.INFO g
  => [+Capacity :4 ... +Number of items is estimated :1]
  | {+Capacity :4 ... +Number of items is estimated :1}
`},
		{"MERGE: what is refused, and changes nothing", kv.Options{}, `
OTHER.NEW other => +OK
BF.RESERVE a 0.01 100 => +OK
BF.RESERVE capacity 0.01 200 => +OK
BF.RESERVE rate 0.02 100 => +OK
BF.RESERVE expansion 0.01 100 EXPANSION 4 => +OK
BF.RESERVE nonscaling 0.01 100 NONSCALING => +OK
BF.ADD a x => :1 | #t
BF.MERGE => -ERR wrong number of arguments for 'bf.merge' command
BF.MERGE a => -ERR wrong number of arguments for 'bf.merge' command
BF.MERGE a capacity => -ERR filters differ, and cannot be merged: capacity of "a" is 100, of "capacity" 200
BF.MERGE a rate => -ERR filters differ, and cannot be merged: error rate of "a" is 0.01, of "rate" 0.02
BF.MERGE a expansion => -ERR filters differ, and cannot be merged: expansion of "a" is 2, of "expansion" 4
BF.MERGE a nonscaling => -ERR filters differ, and cannot be merged: expansion of "a" is 2, of "nonscaling" 0
BF.MERGE d a capacity => -ERR filters differ, and cannot be merged: capacity of "a" is 100, of "capacity" 200
BF.MERGE a missing => -ERR not found
BF.MERGE d a missing => -ERR not found
BF.MERGE missing missing => -ERR not found
BF.MERGE d d a => -ERR not found
BF.MERGE a other => -WRONGTYPE Operation against a key holding the wrong kind of value
BF.MERGE other a => -WRONGTYPE Operation against a key holding the wrong kind of value
BF.MERGE d other => -WRONGTYPE Operation against a key holding the wrong kind of value
EXISTS d missing => :0
TYPE other => +other
BF.CARD a => :1
`},
		{"MERGE: a union above the error rate", kv.Options{}, `
BF.RESERVE a 0.0001 100 NONSCALING => +OK
BF.RESERVE b 0.0001 100 NONSCALING => +OK
BF.MADD a x{1..80} => [80*:1] | [80*#t]
BF.MADD b y{1..80} => [80*:1] | [80*#t]
BF.MERGE d a b => -ERR the union would exceed the error rate: layer 0 would have ..., is made for 0.0001
BF.MERGE a b => -ERR the union would exceed the error rate: layer 0 would have ..., is made for 0.0001
BF.CARD a => :80
BF.MEXISTS a y{1..80} => [80*:0] | [80*#f]
EXISTS d => :0
BF.RESERVE c 0.0001 100 NONSCALING => +OK
BF.MADD c x{1..80} z1 => [81*:1] | [81*#t]
BF.MERGE a c => +OK
BF.MEXISTS a x{1..80} z1 => [81*:1] | [81*#t]
`},
		{"MERGE: the life of dest stays as it is", kv.Options{}, `
BF.RESERVE short 0.01 100 TTL 10 => +OK
BF.RESERVE long 0.01 100 => +OK
BF.MADD short a => [:1] | [#t]
BF.MADD long b => [:1] | [#t]
BF.MERGE new short long => +OK
BF.MERGE short long => +OK
BF.MERGE long short => +OK
@pass 10s
EXISTS short => :0
BF.MEXISTS long a b => [:1 :1] | [#t #t]
BF.MEXISTS new a b => [:1 :1] | [#t #t]
BF.MERGE new short => -ERR not found
`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { newWorld(t, tt.options).Script(tt.script) })
	}
}

// Each command refuses one word less and one word more than it takes. The error has its name in lower case.
func TestConformance_arity(t *testing.T) {
	w := newWorld(t, kv.Options{})
	for _, command := range []string{
		"BF.RESERVE", "BF.RESERVE k", "BF.RESERVE k 0.01", "BF.RESERVE k 0.01 100 a b c d",
		"Bf.Add", "BF.ADD k", "bf.add k a b",
		"BF.MADD", "BF.MADD k",
		"BF.INSERT", "BF.INSERT k", "BF.INSERT k ITEMS",
		"BF.EXISTS", "BF.EXISTS k", "BF.EXISTS k a b",
		"BF.MEXISTS", "BF.MEXISTS k",
		"BF.CARD", "BF.CARD k a",
		"BF.INFO", "BF.INFO k CAPACITY SIZE",
		"BF.DEBUG", "BF.DEBUG k a",
		"BF.MERGE", "bf.MERGE k",
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
		w.Script("BF.RESERVE f 0.01 " + q + " => -ERR bad capacity")
		w.Script("BF.RESERVE f 0.01 100 EXPANSION " + q + " => -ERR bad expansion")
		w.Script("BF.RESERVE f 0.01 100 TTL " + q + " => -ERR bad ttl")
		w.Script("BF.INSERT f CAPACITY " + q + " ITEMS a => -Bad capacity")
		w.Script("BF.INSERT f EXPANSION " + q + " ITEMS a => -Bad expansion")
	}
	for _, word := range []string{"9223372036854775807", "-9223372036854775808"} {
		w.Script("BF.RESERVE f 0.01 " + word + " => -ERR capacity must be in the range [1, 1099511627776]")
		w.Script("BF.RESERVE f 0.01 100 EXPANSION " + word + " => -ERR expansion must be in the range [0, 32768]")
		w.Script("BF.INSERT f CAPACITY " + word + " ITEMS a => -Bad capacity")
		w.Script("BF.INSERT f EXPANSION " + word + " ITEMS a => -Bad expansion")
	}
	w.Script("DBSIZE => :0")
}

// Error rates are what C's strtod accepts as a whole, without a blank in front.
func TestConformance_doubles(t *testing.T) {
	const (
		bad = "-ERR bad error rate"
		out = "-ERR error rate must be in the range (0.000000, 1.000000)"
	)
	w := newWorld(t, kv.Options{})
	for _, tt := range []struct {
		reply string
		words []string
	}{
		{"+OK", []string{
			"1e-3", ".5", "5.e-1", "+0.1", "00.5", "1E-3", "0.1e0", "100e-3", "1e-06", "0x1p-3", "0X.8P0", "0x0.8",
			"+0x1P-3", "0.100000000000000000000000000000000000000000000001", "0.99999999",
		}},
		{out, []string{
			"0", "-0", "0.0", ".0", "0e5", "0x0", "0x0p-9", "0e-9999", "1", "1e0", "0x1", "0x10", "2", "-0.1", "-1e-3",
			"1e300", "inf", "INF", "-inf", "+Inf", "infinity", "-Infinity",
		}},
		{bad, []string{
			"", "x", " 0.1", "0.1 ", "\t0.1", "0.1\n", "0.1x", "0,1", "0.1\x00", "\x00", "1_0e-2", "0_1", ".", "e",
			"e-3", "1e", "1e-", "0x", "0xp-3", "0x1p", "0x1e-3", "0b1", "+", "-", "+-0.1", "--0.1", "in", "infin", "nan",
			"NaN", "-nan", "1e999", "-1e999", "1e-999", "-1e-999", "0x1p9999", "0x1p-9999", "ı", "ınf",
		}},
	} {
		for _, word := range tt.words {
			q := strconv.Quote(word)
			w.Script("BF.RESERVE f " + q + " 100 => " + tt.reply)
			if tt.reply == "+OK" {
				w.Script("BF.INSERT g ERROR " + q + " ITEMS a => [:1] | [#t]")
				w.Script("DEL f g => :2")
			} else {
				w.Script("BF.INSERT g ERROR " + q + " ITEMS a => -Bad error rate")
			}
		}
	}
	w.Script("DBSIZE => :0")
}

// A filter grows by a layer of expansion times the capacity when a new item finds the newest layer at its capacity.
// INFO and DEBUG are right at every item.
func TestConformance_growth(t *testing.T) {
	const rate, first, adds = 0.01, 6, 200
	for _, expansion := range []int{1, 2, 4} {
		t.Run(fmt.Sprint("EXPANSION ", expansion), func(t *testing.T) {
			w := newWorld(t, kv.Options{})
			w.Script(fmt.Sprintf("BF.RESERVE f %v %d EXPANSION %d GROWTHLOG 0 => +OK", rate, first, expansion))
			items, capacities := []int{0}, []int{first} // of each layer
			for i := range adds {
				added := w.Line(fmt.Sprintf("BF.ADD f item:%d", i)).Int()
				newest := len(items) - 1
				if added == 1 && items[newest] == capacities[newest] {
					items, capacities = append(items, 0), append(capacities, expansion*capacities[newest])
					newest++
				}
				items[newest] += int(added)
				describes(t, w, rate, expansion, items, capacities)
			}
			for i := range adds {
				w.Script(fmt.Sprintf("BF.EXISTS f item:%d => :1 | #t", i))
			}
		})
	}
}

// describes checks the answers of BF.INFO, BF.CARD and BF.DEBUG about filter f.
func describes(t *testing.T, w *coretest.World, rate float64, expansion int, items, capacities []int) {
	t.Helper()
	most := 64
	if expansion > 1 {
		most = 1 + int(math.Log(math.Pow(2, 40)/float64(capacities[0]))/math.Log(float64(expansion)))
	}
	var counted, capacity, bytes int
	var lines []string
	for i := range items {
		share := 0.7 * rate
		if i > 0 {
			share = (1 - 0.7) * rate / float64(most-1)
		}
		l, err := probe.Size(uint64(capacities[i]), share)
		if err != nil {
			t.Fatal(err)
		}
		counted, capacity, bytes = counted+items[i], capacity+capacities[i], bytes+int(l.Bits()/8)
		lines = append(lines, fmt.Sprintf(`"bytes:%d bits:%d hashes:%d hashwidth:64 capacity:%d size:%d ratio:%.6g"`,
			l.Bits()/8, l.Bits(), l.Hashes, capacities[i], items[i], share))
	}
	fields := fmt.Sprintf(`+Capacity :%d +Size :%d +Number of filters :%d `+
		`+Number of items inserted :%d +Expansion rate :%d`,
		capacity, 32+64*len(items)+bytes, len(items), counted, expansion)
	w.Script(fmt.Sprintf("BF.INFO f => [%s] | {%s}", fields, fields))
	w.Script(fmt.Sprintf("BF.CARD f => :%d", counted))
	w.Script(fmt.Sprintf(`BF.DEBUG f => ["size:%d" %s]`, counted, coretest.Runs(lines)))
}

// An item that seems known is answered with 0 and not counted, and no item is lost.
func TestConformance_falsePositives(t *testing.T) {
	const adds = 1000
	w := newWorld(t, kv.Options{})
	w.Script("BF.RESERVE f 0.25 10 EXPANSION 2 GROWTHLOG 0 => +OK") // with a log it counts anew when it has grown
	var added int64
	for i := range adds {
		added += w.Line(fmt.Sprintf("BF.ADD f item:%d", i)).Int()
	}
	if added == adds || added < adds*3/4 {
		t.Errorf("%d of %d new items were new, want at least three in four and not all", added, adds)
	}
	w.Script(fmt.Sprintf("BF.CARD f => :%d", added))
	w.Script(fmt.Sprintf(`BF.INFO f ITEMS => [:%d] | {+Number of items inserted :%d}`, added, added))
	w.Script(fmt.Sprintf(`BF.MEXISTS f item:{0..%d} => [%d*:1] | [%d*#t]`, adds-1, adds, adds))
}

// The number of items after a merge is estimated well from the bits.
func TestConformance_mergeEstimate(t *testing.T) {
	w := newWorld(t, kv.Options{})
	w.Script(`
BF.RESERVE a 0.001 1000 => +OK
BF.RESERVE b 0.001 1000 => +OK
BF.MADD a x{1..400} => [400*:1] | [400*#t]
BF.MADD b x{301..700} => [400*:1] | [400*#t]
BF.MERGE d a b => +OK
BF.MEXISTS d x{1..700} => [700*:1] | [700*#t]`)
	// 700 items of 10 probes in 14,600 bits: the bits set have a standard deviation of about 30, or 4 items.
	if n := w.Line("BF.CARD d").Int(); n < 680 || n > 720 {
		t.Errorf("BF.CARD after a merge to 700 items = %d, want 680 to 720", n)
	}
}
