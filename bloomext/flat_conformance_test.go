package bloomext_test

import (
	"testing"

	"github.com/sievekv/sievekv/kv"
)

// RedisBloom's behaviour, one sentence after the other, of filters with the compatible layout. Replies that do not depend
// on the layout are in TestConformance.
func TestCompatible_conformance(t *testing.T) {
	for _, tt := range []struct{ name, script string }{
		{"the layout is the setting's when the filter is made", `
BF.ADD native x => :1 | #t
CONFIG SET bf-layout compatible => +OK
CONFIG GET bf-layout => ["bf-layout" "compatible"] | {"bf-layout" "compatible"}
BF.ADD f x => :1 | #t
BF.INFO f HASH => ["murmur64a"] | {+Hash "murmur64a"}
CONFIG SET bf-layout NATIVE => +OK
BF.INFO f HASH => ["murmur64a"] | {+Hash "murmur64a"}
BF.INFO native HASH => ["keyed"] | {+Hash "keyed"}
BF.ADD other x => :1 | #t
BF.INFO other HASH => ["keyed"] | {+Hash "keyed"}
CONFIG SET bf-layout redis
  => -ERR CONFIG SET failed (possibly related to argument 'bf-layout') - argument(s) must be one of the following: native, compatible
BF.ADD f y => :1 | #t
BF.MEXISTS f x y z => [:1 :1 :0] | [#t #t #f]
TYPE f => +MBbloom--
`},
		{"automatic creation: capacity 100, error 0.01, expansion 2, scaling", `
CONFIG SET bf-layout compatible => +OK
BF.ADD f a => :1 | #t
BF.INFO f
  => [+Capacity :100 +Size :240 +Number of filters :1 +Number of items inserted :1 +Expansion rate :2]
  | {+Capacity :100 +Size :240 +Number of filters :1 +Number of items inserted :1 +Expansion rate :2}
BF.DEBUG f => ["size:1" "bytes:144 bits:1152 hashes:8 hashwidth:64 capacity:100 size:1 ratio:0.005"]
BF.MADD g a b => [:1 :1] | [#t #t]
BF.DEBUG g => ["size:2" "bytes:144 bits:1152 hashes:8 hashwidth:64 capacity:100 size:2 ratio:0.005"]
BF.INSERT h ITEMS a => [:1] | [#t]
BF.DEBUG h => ["size:1" "bytes:144 bits:1152 hashes:8 hashwidth:64 capacity:100 size:1 ratio:0.005"]
CONFIG SET bf-error-rate 0.1 bf-initial-size 10 bf-expansion-factor 4 => +OK
BF.ADD i a => :1 | #t
BF.DEBUG i => ["size:1" "bytes:8 bits:64 hashes:5 hashwidth:64 capacity:10 size:1 ratio:0.05"]
BF.INFO i EXPANSION => [:4] | {+Expansion rate :4}
CONFIG SET bf-expansion-factor 0 => +OK
BF.ADD j a => :1 | #t
BF.INFO j EXPANSION => [_] | {+Expansion rate _}
BF.DEBUG j => ["size:1" "bytes:8 bits:64 hashes:4 hashwidth:64 capacity:10 size:1 ratio:0.1"]
`},
		{"RESERVE: ranges of the error rate and the capacity, then key", `
CONFIG SET bf-layout compatible => +OK
BF.RESERVE f x 100 => -ERR bad error rate
BF.RESERVE f 0 100 => -ERR error rate must be in the range (0.000000, 1.000000)
BF.RESERVE f 1 100 => -ERR error rate must be in the range (0.000000, 1.000000)
BF.RESERVE f 0.01 0 => -ERR capacity must be in the range [1, 1073741824]
BF.RESERVE f 0.01 1073741825 => -ERR capacity must be in the range [1, 1073741824]
BF.INSERT f CAPACITY 1073741825 ITEMS x => -Bad capacity
BF.INSERT f CAPACITY 0 ITEMS x => -Bad capacity
BF.RESERVE f 0.01 100 EXPANSION 32769 => -ERR expansion must be in the range [0, 32768]
BF.RESERVE f 0.01 100 EXPANSION 2 NONSCALING => -Nonscaling filters cannot expand
BF.RESERVE f 0.01 100 => +OK
BF.RESERVE f 0.01 100 => -ERR item exists
BF.RESERVE g 0.01 1073741824 EXPANSION 32768 => +OK
BF.INFO g CAPACITY => [:1073741824] | {+Capacity :1073741824}
BF.ADD g x => :1 | #t
BF.MEXISTS g x y => [:1 :0] | [#t #f]
BF.RESERVE h 0.01 1 => +OK
BF.DEBUG h => ["size:0" "bytes:8 bits:64 hashes:8 hashwidth:64 capacity:1 size:0 ratio:0.005"]
BF.RESERVE i 1e-300 1073741824 => -ERR Insufficient memory to create filter
BF.RESERVE i 5e-324 10 => -ERR Insufficient memory to create filter
BF.RESERVE i 5e-324 10 NONSCALING => +OK
BF.ADD i x => :1 | #t
BF.RESERVE j 0.01 10 HASH keyed => -ERR bad hash: not with bf-layout compatible, which has its own hash
BF.RESERVE j 0.01 10 GROUP g => -ERR bad group: not with bf-layout compatible, in which all filters have one hash
`},
		{"an error rate above 0.25 is lowered to that", `
CONFIG SET bf-layout compatible => +OK
BF.RESERVE f 0.9 100 => +OK
BF.RESERVE g 0.25 100 => +OK
BF.RESERVE h 0.9 100 NONSCALING => +OK
BF.DEBUG f => ["size:0" "bytes:56 bits:448 hashes:4 hashwidth:64 capacity:100 size:0 ratio:0.125"]
BF.DEBUG g => ["size:0" "bytes:56 bits:448 hashes:4 hashwidth:64 capacity:100 size:0 ratio:0.125"]
BF.DEBUG h => ["size:0" "bytes:40 bits:320 hashes:3 hashwidth:64 capacity:100 size:0 ratio:0.25"]
`},
		{"NONSCALING and EXPANSION 0: the whole error rate, expansion nil; dumps differ", `
CONFIG SET bf-layout compatible => +OK
BF.RESERVE f 0.01 100 NONSCALING => +OK
BF.RESERVE g 0.01 100 EXPANSION 0 => +OK
BF.INSERT h NONSCALING EXPANSION 3 ITEMS a => [:1] | [#t]
BF.INFO f => [... +Expansion rate _] | {... +Expansion rate _}
BF.INFO g => [... +Expansion rate _] | {... +Expansion rate _}
BF.INFO h => [... +Expansion rate _] | {... +Expansion rate _}
BF.DEBUG f => ["size:0" "bytes:120 bits:960 hashes:7 hashwidth:64 capacity:100 size:0 ratio:0.01"]
BF.SCANDUMP f 0
  => [:1 "\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\r\x00\x00\x00\x02\x00\x00\x00..."]
BF.SCANDUMP g 0
  => [:1 "\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\r\x00\x00\x00\x00\x00\x00\x00..."]
BF.SCANDUMP h 0
  => [:1 "\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\r\x00\x00\x00\x03\x00\x00\x00..."]
`},
		{"NONSCALING and full: an error, and an array that stops there; known items still answer 0", `
CONFIG SET bf-layout compatible => +OK
BF.RESERVE f 0.001 2 NONSCALING => +OK
BF.MADD f a b c d => [:1 :1 -ERR non scaling filter is full] | [#t #t -ERR non scaling filter is full]
BF.ADD f c => -ERR non scaling filter is full
BF.ADD f a => :0 | #f
BF.INSERT f ITEMS b a d a => [:0 :0 -ERR non scaling filter is full] | [#f #f -ERR non scaling filter is full]
BF.CARD f => :2
`},
		{"scaling: capacity by the expansion, half of the error, when the newest is full", `
CONFIG SET bf-layout compatible => +OK
BF.RESERVE f 0.01 2 EXPANSION 3 => +OK
BF.MADD f a b => [:1 :1] | [#t #t]
BF.INFO f FILTERS => [:1] | {+Number of filters :1}
BF.ADD f a => :0 | #f
BF.INFO f FILTERS => [:1] | {+Number of filters :1}
BF.ADD f c => :1 | #t
BF.DEBUG f
  => ["size:3" "bytes:8 bits:64 hashes:8 hashwidth:64 capacity:2 size:2 ratio:0.005" "bytes:16 bits:128 hashes:9 hashwidth:64 capacity:6 size:1 ratio:0.0025"]
BF.INFO f CAPACITY => [:8] | {+Capacity :8}
BF.INFO f SIZE => [:184] | {+Size :184}
BF.MEXISTS f a b c d => [:1 :1 :1 :0] | [#t #t #t #f]
BF.RESERVE g 0.01 1 EXPANSION 1 => +OK
BF.MADD g a b c => [:1 :1 :1] | [#t #t #t]
BF.INFO g FILTERS => [:3] | {+Number of filters :3}
BF.INFO g CAPACITY => [:3] | {+Capacity :3}
`},
		{"a filter that cannot grow: an error as an element, and the array goes on", `
CONFIG SET bf-layout compatible => +OK
BF.RESERVE f 1e-323 1 => +OK
BF.MADD f a b a c
  => [:1 -ERR problem inserting into filter :0 -ERR problem inserting into filter] | [#t -ERR problem inserting into filter #f -ERR problem inserting into filter]
BF.ADD f b => -ERR problem inserting into filter
BF.CARD f => :1
`},
		{"SCANDUMP: iterators, an empty filter, the end", `
CONFIG SET bf-layout compatible => +OK
BF.RESERVE f 0.01 1 => +OK
BF.SCANDUMP f x => -Second argument must be numeric
BF.SCANDUMP f => -ERR wrong number of arguments for 'bf.scandump' command
BF.SCANDUMP missing 0 => -ERR not found
SET s x => +OK
BF.SCANDUMP s 0 => -WRONGTYPE Operation against a key holding the wrong kind of value
BF.SCANDUMP f 1 => [:9 "\x00\x00\x00\x00\x00\x00\x00\x00"]
BF.SCANDUMP f 5 => [:9 "\x00\x00\x00\x00"]
BF.SCANDUMP f 9 => [:0 ""]
BF.SCANDUMP f -1 => [:0 ""]
CONFIG SET bf-layout native => +OK
BF.ADD n x => :1 | #t
BF.SCANDUMP n 0 => [:1 "\x89SVKD\r\n\x1a\x02..."]
`},
		{"MERGE and COPY", `
CONFIG SET bf-layout compatible => +OK
BF.MADD f a b => [:1 :1] | [#t #t]
BF.MADD h b c => [:1 :1] | [#t #t]
CONFIG SET bf-layout native => +OK
BF.MERGE week f h => +OK
BF.MEXISTS week a b c d => [:1 :1 :1 :0] | [#t #t #t #f]
BF.DEBUG week => ["size:3" "bytes:144 bits:1152 hashes:8 hashwidth:64 capacity:100 size:3 ratio:0.005"]
BF.INFO week => [... +Number of items is estimated :1] | {... +Number of items is estimated :1}
COPY f g => :1
BF.MEXISTS g a b c => [:1 :1 :0] | [#t #t #f]
BF.DEBUG g => ["size:2" "bytes:144 bits:1152 hashes:8 hashwidth:64 capacity:100 size:2 ratio:0.005"]
`},
	} {
		t.Run(tt.name, func(t *testing.T) { newWorld(t, kv.Options{}).Script(tt.script) })
	}
}
