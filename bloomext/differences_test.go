package bloomext_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/internal/coretest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// differences has the tests of the entries of docs/DIFFERENCES.md, by name.
var differences = map[string]func(t *testing.T){
	"option-words": func(t *testing.T) {
		newWorld(t, kv.Options{}).Script(`
BF.RESERVE NONSCALING 0.01 100 => +OK
BF.INFO NONSCALING EXPANSION => [:2] | {+Expansion rate :2}
BF.RESERVE EXPANSION 0.01 100 => +OK
BF.RESERVE TTL 0.01 100 => +OK
BF.INFO EXPANSION EXPANSION => [:2] | {+Expansion rate :2}
BF.RESERVE expansion 0.01 100 NONSCALING => +OK
BF.RESERVE f 0.01 EXPANSION => -ERR bad capacity
BF.RESERVE f NONSCALING 100 => -ERR bad error rate`)
	},
	"capacity-limit": func(t *testing.T) {
		newWorld(t, kv.Options{MaxFilterBytes: 1 << 42}).Script(`
BF.RESERVE a 0.01 1073741825 => +OK
BF.RESERVE b 0.01 1099511627776 => +OK
BF.RESERVE c 0.01 1099511627777 => -ERR capacity must be in the range [1, 1099511627776]
BF.INSERT c CAPACITY 1099511627776 ITEMS x => [:1] | [#t]
BF.INSERT d CAPACITY 1099511627777 ITEMS x => -Bad capacity`)
	},
	"filter-bytes": func(t *testing.T) {
		newWorld(t, kv.Options{MaxFilterBytes: 128}).Script(`
BF.RESERVE f 0.01 1000 => -ERR too large: filter of ... bytes, at most 128 (max-filter-bytes)
BF.ADD f x => -ERR too large: filter of 192 bytes, at most 128 (max-filter-bytes)
BF.INSERT f CAPACITY 1000 ITEMS x => -ERR too large: filter of ... bytes, at most 128 (max-filter-bytes)
EXISTS f => :0
BF.RESERVE f 0.01 30 => +OK`)
		newWorld(t, kv.Options{}).Script(`
BF.RESERVE f 0.01 1099511627776
  => -ERR too large: filter of ... bytes, at most 68719476736 (max-filter-bytes)`)
	},
	"sub-filters": func(t *testing.T) {
		w := newWorld(t, kv.Options{MaxFilterBytes: 1 << 42})
		w.Script(`
CONFIG SET growth-log-bytes 0 => +OK
BF.RESERVE f 0.0001 1 EXPANSION 1 => +OK
BF.MADD f i{1..64} => [64*:1] | [64*#t]
BF.INFO f FILTERS => [:64] | {+Number of filters :64}
BF.MADD f x i1 y i64
  => [-ERR problem inserting into filter :0 -ERR problem inserting into filter :0]
  | [-ERR problem inserting into filter #f -ERR problem inserting into filter #f]
BF.CARD f => :64
BF.RESERVE g 0.0001 1 EXPANSION 32768 => +OK
BF.MADD g i{1..32769} => [32769*:1] | [32769*#t]
BF.INFO g CAPACITY => [:32769] | {+Capacity :32769}
BF.ADD g x => :1 | #t
BF.INFO g
  => [+Capacity :1073774593 ... +Number of filters :3 ...]
  | {+Capacity :1073774593 ... +Number of filters :3 ...}`)
	},
	"one-commit": func(t *testing.T) {
		w := newWorld(t, kv.Options{})
		logBytes(t, w.DB, 0) // otherwise a batch that makes a filter grow helps to fill a layer, in commits of its own
		before := infoNumber(t, w.DB, "commits")
		w.Script(`
BF.INSERT f CAPACITY 10 ERROR 0.0001 ITEMS i{1..300} => [300*:1] | [300*#t]
BF.INSERT g CAPACITY 3 ERROR 0.0001 NONSCALING ITEMS a b c d e
  => [:1 :1 :1 -ERR non scaling filter is full]
  | [#t #t #t -ERR non scaling filter is full]
BF.MEXISTS g a b c d e => [:1 :1 :1 :0 :0] | [#t #t #t #f #f]`)
		if n := infoNumber(t, w.DB, "commits") - before; n != 2 {
			t.Errorf("two batches took %d commits, want 2", n)
		}
	},
	"batch-size": func(t *testing.T) {
		newWorld(t, kv.Options{MemTableSize: 256 << 10}).Script(`
BF.RESERVE f 0.01 10000000 => +OK
BF.MADD f i{1..1000} => -ERR too large: commit of ... bytes, at most 65536 (a quarter of Options.MemTableSize)
BF.CARD f => :0
BF.MADD f i{1..100} => [100*:1] | [100*#t]`)
	},
	"known-items": func(t *testing.T) {
		w := newWorld(t, kv.Options{})
		w.Script(`
BF.RESERVE f 0.01 2000 => +OK
BF.RESERVE g 0.01 100 GROWTHLOG 0 => +OK
BF.MADD f a b => [:1 :1] | [#t #t]
BF.MADD g a b => [:1 :1] | [#t #t]
BF.ADD h a => :1 | #t
BF.ADD h a => :0 | #f`)
		before := infoNumber(t, w.DB, "commits")
		w.Script(`
BF.ADD f a => :0 | #f
BF.MADD f a b => [:0 :0] | [#f #f]
BF.MADD g a b => [:0 :0] | [#f #f]
BF.ADD h a => :0 | #f
BF.RESERVE f 0.01 100 => -ERR item exists`)
		if n := infoNumber(t, w.DB, "commits") - before; n != 0 {
			t.Errorf("commands that change nothing took %d commits, want none", n)
		}
	},
	"size": func(t *testing.T) {
		w := newWorld(t, kv.Options{})
		w.Script("BF.RESERVE f 0.01 1000 NONSCALING => +OK")
		// RedisBloom has 8*ceil(1000*9.585/64) = 1200 bytes and 7 hashes.
		w.Script(`
BF.DEBUG f => ["size:0" "bytes:1280 bits:10240 hashes:6 hashwidth:64 capacity:1000 size:0 ratio:0.01"]
BF.INFO f SIZE => [:1376] | {+Size :1376}`)
	},
	"hash": func(t *testing.T) {
		const probes = "BF.MEXISTS f absent:{1..1000}"
		answers := make(map[string]bool)
		for _, seed := range []uint64{1, 2} {
			w := newWorld(t, kv.Options{Seed: seed})
			w.Script("BF.RESERVE f 0.25 500 NONSCALING => +OK")
			w.Line("BF.MADD f item:{1..500}")
			answers[coretest.Wire(w.Line(probes), reply.Reply.RESP2)] = true
		}
		if len(answers) != 2 {
			t.Error("stores of two seeds give the same 1000 answers for absent items")
		}
	},
	"hash-option": func(t *testing.T) {
		newWorld(t, kv.Options{}).Script(`
BF.RESERVE a 0.01 100 HASH xxh64 => +OK
BF.RESERVE b 0.01 100 EXPANSION 2 TTL 60 hash Keyed => +OK
BF.RESERVE c 0.01 100 => +OK
BF.INFO a HASH => ["xxh64"] | {+Hash "xxh64"}
BF.INFO b hash => ["keyed"] | {+Hash "keyed"}
BF.INFO c HASH => ["keyed"] | {+Hash "keyed"}
BF.INFO c EXPANSION => [:2] | {+Expansion rate :2}
BF.MADD a x y => [:1 :1] | [#t #t]
BF.MEXISTS a x y => [:1 :1] | [#t #t]
BF.RESERVE d 0.01 100 HASH => -ERR no hash
BF.RESERVE d 0.01 100 GROUP => -ERR no group
BF.RESERVE d 0.01 100 GROUP "" => -ERR group must have 1 to 255 bytes
BF.RESERVE d 0.01 100 HASH xxh64 GROUP g => -ERR parameter out of range: group is "g" with hash xxh64, want none: such filters have one seed, and can be merged
BF.RESERVE e 0.01 100 EXPANSION 2 HASH keyed GROUP g TTL 60 => +OK
BF.RESERVE e3 0.01 100 EXPANSION 2 GROUP g => +OK
BF.MERGE e e3 => +OK
BF.RESERVE d 0.01 100 HASH md5 => -ERR bad hash: must be keyed or xxh64
BF.RESERVE d 0.01 100 HASH default => -ERR bad hash: must be keyed or xxh64
BF.RESERVE d 0.01 100 EXPANSION 2 NONSCALING HASH xxh64 TTL 60 x => -ERR wrong number of arguments for 'bf.reserve' command
EXISTS d => :0`)
	},
	"lowest-rate": func(t *testing.T) {
		newWorld(t, kv.Options{}).Script(`
BF.RESERVE f 1.19e-13 1000000 NONSCALING
  => -ERR ... error rate is 1.19e-13, want at least 1.21e-13 for a capacity of 1000000
BF.INSERT f CAPACITY 1000000 ERROR 1e-300 NONSCALING ITEMS x
  => -ERR ... error rate is 1e-300, want at least 1.21e-13 for a capacity of 1000000
BF.RESERVE f 1.72e-13 1000000 => -ERR ... error rate is 1.72e-13, want at least 1.73e-13 for a capacity of 1000000
EXISTS f => :0
BF.RESERVE f 1.21e-13 1000000 NONSCALING => +OK
BF.RESERVE h 1.73e-13 1000000 => +OK
BF.RESERVE g 1e-18 2 => +OK
BF.MADD g a b c a => [:1 :1 -ERR problem inserting into filter :0] | [#t #t -ERR problem inserting into filter #f]`)
	},
	"full": func(t *testing.T) {
		w := newWorld(t, kv.Options{})
		// Some 9,200 of 10,000 distinct items at 0.25 are new; then there is room for some 150 more.
		w.Script("BF.RESERVE f 0.25 10000 NONSCALING => +OK")
		w.Line("BF.MADD f i{1..10000}")
		w.Script("BF.MADD f j{1..1000} => [... -ERR non scaling filter is full]\nBF.CARD f => :9...")
	},
	"growth-budget": func(t *testing.T) {
		w := newWorld(t, kv.Options{})
		w.Script("BF.RESERVE f 0.01 100 GROWTHLOG 0 => +OK")
		w.Line("BF.MADD f item:{1..400}")
		w.Script(`
BF.DEBUG f => ["size:... capacity:100 size:100 ratio:0.007"
  ... capacity:200 size:200 ratio:9.09091e-05" ... ratio:9.09091e-05"]`)
	},
	"growth-log": func(t *testing.T) {
		w := newWorld(t, kv.Options{})
		w.Script(`
CONFIG GET growth-log-bytes => ["growth-log-bytes" "67108864"] | {"growth-log-bytes" "67108864"}
BF.RESERVE a 0.01 100 GROWTHLOG 1000000 => +OK
BF.RESERVE b 0.01 100 EXPANSION 2 TTL 60 GROWTHLOG 0 HASH keyed => +OK
BF.RESERVE d 0.01 2000 => +OK
BF.RESERVE x 0.01 100 EXPANSION 2 => +OK
BF.INFO x GROWTHLOG => [:0] | {+Growth log :0}
BF.INSERT y EXPANSION 2 ITEMS a => [:1] | [#t]
BF.INFO y GROWTHLOG => [:0] | {+Growth log :0}
BF.RESERVE z 0.01 100 GROWTHLOG 1000000 EXPANSION 2 => +OK
BF.ADD z a => :1 | #t
BF.INFO z GROWTHLOG => [:8] | {+Growth log :8}
BF.INSERT v ITEMS a => [:1] | [#t]
BF.INFO v GROWTHLOG => [:8] | {+Growth log :8}
BF.RESERVE e 0.01 100 GROWTHLOG => -ERR no growthlog: want a whole number in the range [0, 1099511627776]
BF.RESERVE e 0.01 100 GROWTHLOG x => -ERR bad growthlog 'x': must be a whole number in the range [0, 1099511627776]
BF.RESERVE e 0.01 100 GROWTHLOG -1 => -ERR growthlog must be in the range [0, 1099511627776], not -1
BF.RESERVE e 0.01 100 NONSCALING GROWTHLOG 100 => -ERR growthlog with window, last or nonscaling: such filters have no log
BF.RESERVE e 0.01 100 WINDOW 60 GROWTHLOG 100 => -ERR growthlog with window, last or nonscaling: such filters have no log`)
		for _, key := range []string{"a", "b", "c"} {
			for i := range 30 {
				w.Line(fmt.Sprintf("BF.MADD %s item:{%d..%d}", key, 50*i+1, 50*i+50))
			}
		}
		w.Line("BF.MADD d item:{1..1500}")
		compacts(t, w.DB, 1000)
		for key, logged := range map[string]bool{"a": true, "b": false, "c": true} {
			info, err := bloomext.New(w.DB, key).Info()
			if err != nil {
				t.Fatal(err)
			}
			layers, log := len(info.Layers), info.LogBytes
			w.Script(fmt.Sprintf(`BF.INFO %s GROWTHLOG => [:%d] | {+Growth log :%d}`, key, log, log))
			if logged && (layers > 2 || log < 8*1450) || !logged && (layers < 4 || log != 0) {
				t.Errorf("%s has %d layers, and a log of %d bytes", key, layers, log)
			}
		}
		w.Script(`
BF.INFO d GROWTHLOG => [:0] | {+Growth log :0}
CONFIG SET growth-log-bytes 0 => +OK
BF.ADD g x => :1 | #t
BF.INFO g GROWTHLOG => [:0] | {+Growth log :0}
CONFIG SET growth-log-bytes 100000 bf-layout compatible => +OK
BF.RESERVE h 0.01 100 GROWTHLOG 100 => -ERR bad growthlog: not with bf-layout compatible, in which filters have no log
BF.ADD h x => :1 | #t
BF.INFO h GROWTHLOG => [:0] | {+Growth log :0}`)
	},
	"ttl": func(t *testing.T) {
		newWorld(t, kv.Options{}).Script(`
BF.RESERVE f 0.01 100 EXPANSION 2 TTL 60 => +OK
BF.RESERVE g 0.01 100 EXPANSION 2 x y TTL => -ERR no ttl
BF.RESERVE g 0.01 100 EXPANSION 0 NONSCALING TTL 60 => +OK
BF.ADD f x => :1 | #t
@pass 59999ms
BF.EXISTS f x => :1 | #t
@pass 1ms
BF.EXISTS f x => :0 | #f
EXISTS f g => :0`)
	},
	"window": func(t *testing.T) {
		newWorld(t, kv.Options{}).Script(`
BF.RESERVE f 0.01 100 EXPANSION 2 WINDOW 8 SLICES 8 TTL 600 HASH keyed => +OK
BF.INFO f SLICES => [[]] | {+Slices []}
BF.MADD f x y x => [:1 :1 :0] | [#t #t #f]
BF.INFO f WINDOW => [:8000] | {+Window :8000}
@pass 999ms
BF.ADD f z => :1 | #t
@pass 1ms
BF.ADD f x => :0 | #f
BF.CARD f => :4
@pass 7999ms
BF.MEXISTS f x y z => [:1 :1 :1] | [#t #t #t]
@pass 1ms
BF.MEXISTS f x y z => [:1 :0 :0] | [#t #f #f]
BF.CARD f => :1
COPY f g => :1
@pass 999ms
BF.EXISTS g x => :1 | #t
@pass 1ms
BF.EXISTS g x => :0 | #f
BF.INFO g SLICES => [[]] | {+Slices []}
BF.INFO g CAPACITY => [:0] | {+Capacity :0}
BF.ADD g x => :1 | #t
BF.RESERVE l 0.01 10 LAST 10 SLICES 5 => +OK
BF.MADD l 1 2 3 4 5 6 7 8 9 10 11 12 13 => [13*:1] | [13*#t]
BF.MEXISTS l 4 13 => [:1 :1] | [#t #t]
BF.EXISTS l 2 => :0 | #f
BF.INFO l LAST => [:10] | {+Last :10}
BF.ADD p x => :1 | #t
BF.MERGE p f => -ERR ... "f" has a window, and such filters cannot be merged
BF.MERGE n f => -ERR ... "f" has a window, and such filters cannot be merged
BF.RESERVE w 0.01 100 WINDOW => -ERR no window: want a whole number in the range [1, 3162240000]
BF.RESERVE w 0.01 100 WINDOW x => -ERR bad window 'x': must be a whole number in the range [1, 3162240000]
BF.RESERVE w 0.01 100 WINDOW 0 => -ERR window must be in the range [1, 3162240000], not 0
BF.RESERVE w 0.01 100 WINDOW 60 SLICES 33 => -ERR slices must be in the range [2, 32], not 33
BF.RESERVE w 0.01 100 SLICES 8 => -ERR slices without window or last
BF.RESERVE w 0.01 100 WINDOW 60 LAST 100 => -ERR window and last: only one of them
BF.RESERVE w 0.01 100 LAST 99 => -ERR ... capacity is 100 with last 99, want the same
BF.RESERVE w 0.01 100 LAST 1 => -ERR last must be in the range [2, 1099511627776], not 1
BF.RESERVE w 0.01 100 WINDOW 60 NONSCALING => -ERR ... does not grow...
BF.RESERVE w 0.01 100 WINDOW 60 SLICES 8 LAST 100 v x y z => -ERR wrong number of arguments for 'bf.reserve' command
EXISTS w n => :0
CONFIG SET bf-layout compatible => +OK
BF.RESERVE w 0.01 100 WINDOW 60 => -ERR bad window: not with bf-layout compatible, in which filters do not forget
EXISTS w => :0`)
	},
	"merge": func(t *testing.T) {
		newWorld(t, kv.Options{}).Script(`
BF.ADD a x => :1 | #t
BF.ADD b y => :1 | #t
BF.MERGE d a b => +OK
BF.MEXISTS d x y z => [:1 :1 :0] | [#t #t #f]`)
	},
	"merge-info": func(t *testing.T) {
		newWorld(t, kv.Options{}).Script(`
BF.RESERVE c 0.01 1000 => +OK
BF.ADD c x => :1 | #t
BF.RESERVE d 0.01 1000 => +OK
BF.ADD d y => :1 | #t
BF.MERGE c d => +OK
BF.INFO c => [+Capacity ... +Number of items inserted :2 +Expansion rate :2] | {+Capacity ... +Number of items inserted :2 +Expansion rate :2}
CONFIG SET growth-log-bytes 0 => +OK
BF.ADD a x => :1 | #t
BF.ADD b y => :1 | #t
BF.MERGE a b => +OK
BF.INFO a
  => [+Capacity ... +Expansion rate :2
  +Number of items is estimated :1]
  | {+Capacity ... +Expansion rate :2 +Number of items is estimated :1}
BF.INFO b => [+Capacity ... +Expansion rate :2] | {+Capacity ... +Expansion rate :2}
BF.INFO a ESTIMATED => -Invalid information value`)
	},
	"native-dump": func(t *testing.T) {
		newWorld(t, kv.Options{}).Script(`
BF.ADD f x => :1 | #t
BF.SCANDUMP f 0 => [:1 "\x89SVKD\r\n\x1a\x02..."]
BF.LOADCHUNK f 9 x => -ERR received bad data`)
	},
	"compatible-options": func(t *testing.T) {
		newWorld(t, kv.Options{}).Script(`
CONFIG SET bf-layout compatible => +OK
BF.RESERVE f 0.01 100 HASH xxh64 => -ERR bad hash: not with bf-layout compatible, which has its own hash
BF.RESERVE f 0.01 100 TTL 5 => +OK
TTL f => :5`)
	},
	"half-loaded": func(t *testing.T) {
		w := newWorld(t, kv.Options{})
		beginLoad(t, w)
		w.Script(`
EXISTS f => :0
DBSIZE => :1
@pass 3600s
BF.LOADCHUNK f 17 xxxxxxxx => -ERR not found`)
	},
	"loaded-header": func(t *testing.T) {
		w := newWorld(t, kv.Options{})
		header := headerOf(2, 5, 2, with(func(l *layerHeader) { l.capacity = 0 }))
		if got := load(w, 1, header); got != "-ERR received bad data" { // TestLoadChunk_errors has the others
			t.Error(got)
		}
	},
	"loaded-again": func(t *testing.T) {
		w := newWorld(t, kv.Options{})
		beginLoad(t, w)
		w.Script(`
BF.LOADCHUNK f 9 "" => +OK
BF.LOADCHUNK f 9 22222222 => -ERR other data has come for this place before: load the filter anew, from its header on
BF.LOADCHUNK f 17 12345678 => +OK
BF.LOADCHUNK f 17 12345678 => +OK
BF.LOADCHUNK f 17 12345679 => -ERR other data has come for this place before: load the filter anew, from its header on`)
	},
	"configuration": func(t *testing.T) {
		opts := kv.Options{FS: vfs.NewMem(), BallastSize: -1, MinFreeSpace: -1, Modules: coreext.With(bloomext.Module())}
		for range 2 {
			db, err := kv.Open("store", &opts)
			if err != nil {
				t.Fatal(err)
			}
			if value := module.Of(db).Setting("bf-initial-size"); value != "100" {
				t.Errorf("of a store just opened bf-initial-size is %s, want 100", value)
			}
			err = module.Of(db).SetSetting("bf-initial-size", "500")
			if err := errors.Join(err, db.Close()); err != nil {
				t.Fatal(err)
			}
		}
		newWorld(t, kv.Options{}).Script("CONFIG REWRITE => -ERR The server is running without a config file")
	},
	"key-length": func(t *testing.T) {
		w := newWorld(t, kv.Options{})
		longest := strings.Repeat("k", kv.MaxKeyLen)
		w.Script(fmt.Sprintf(`
BF.ADD %[1]s x => :1 | #t
BF.EXISTS %[1]s x => :1 | #t
BF.ADD %[1]sk x => -ERR too large: key of 65537 bytes, at most 65536
BF.EXISTS %[1]sk x => -ERR too large: key of 65537 bytes, at most 65536`, longest))
	},
}

func TestDifferences(t *testing.T) {
	coretest.Differences(t, "../docs/DIFFERENCES.md", "BF commands", differences)
}
