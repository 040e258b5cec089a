package cuckooext_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/internal/coretest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// differences has the tests of the entries of docs/DIFFERENCES.md, by name.
var differences = map[string]func(t *testing.T){
	"option-words": func(t *testing.T) {
		newWorld(t, kv.Options{}).Script(`
CF.RESERVE EXPANSION 100 => +OK
CF.INFO EXPANSION => [... +Expansion rate :2 ...] | {... +Expansion rate :2 ...}
CF.RESERVE BUCKETSIZE 100 => +OK
CF.RESERVE MAXITERATIONS 100 EXPANSION 4 => +OK
CF.RESERVE f EXPANSION => -Bad capacity
CF.RESERVE ERROR 100 => +OK
CF.INFO ERROR ERROR => "0" | ,0`)
	},
	"error-rate": func(t *testing.T) {
		newWorld(t, kv.Options{}).Script(`
CF.RESERVE a 1000 ERROR 0.2 => +OK
CF.RESERVE b 1000 ERROR 0.01 => +OK
CF.RESERVE c 1000 error 0.001 => +OK
CF.RESERVE d 1000 ERROR 1e-8 => +OK
CF.INFO a => [+Size :1226 +Number of buckets :390 ...] | {+Size :1226 +Number of buckets :390 ...}
CF.INFO b => [+Size :2103 +Number of buckets :455 ...] | {+Size :2103 +Number of buckets :455 ...}
CF.INFO c => [+Size :2103 +Number of buckets :585 ...] | {+Size :2103 +Number of buckets :585 ...}
CF.INFO d => [+Size :4664 +Number of buckets :384 ...] | {+Size :4664 +Number of buckets :384 ...}
CF.RESERVE e 1000 ERROR 1e-9 => -ERR parameter out of range: error rate is 1e-09, want at least ... for a capacity of 1000, bucket size 2 and 4 layers
CF.RESERVE e 1000 ERROR 1e-9 EXPANSION 0 => +OK
CF.RESERVE f 3 ERROR x => -Couldn't parse ERROR
CF.RESERVE f 3 ERROR 0 => -ERROR: value must be in the range (0, 1)
CF.RESERVE f 3 ERROR 1 => -ERROR: value must be in the range (0, 1)
CF.RESERVE f 3 ERROR nan => -Couldn't parse ERROR
CF.RESERVE f 3 ERROR 2 EXPANSION x => -Couldn't parse EXPANSION
CF.RESERVE f 3 ERROR 0.01 => -Capacity must be in the range [2 * BUCKETSIZE, 1099511627776]
CF.RESERVE f 100 x ERROR => -Couldn't parse ERROR
EXISTS f => :0`)
	},
	"default-filter": func(t *testing.T) {
		w := newWorld(t, kv.Options{})
		w.Script(`
CF.RESERVE f 1000 => +OK
CF.DEBUG f => "bktsize:4 buckets:455 items:0 deletes:0 filters:1 max_iterations:20 expansion:2"
CF.ADD g x => :1 | #t
CF.DEBUG g => "bktsize:4 buckets:455 items:1 deletes:0 filters:1 max_iterations:20 expansion:2"`)
		for _, key := range []string{"f", "g"} {
			if info := infoOf(t, cuckooext.New(w.DB, key)); info.FingerprintBits != 12 || info.MaxLayers != 31 {
				t.Errorf("%s: fingerprints of %d bits, at most %d layers, want 12 and 31", key, info.FingerprintBits, info.MaxLayers)
			}
		}
	},
	"whole-blocks": func(t *testing.T) {
		w := newWorld(t, kv.Options{})
		w.Script(`
CF.RESERVE f 4 EXPANSION 0 => +OK
CF.INFO f => [+Size :182 +Number of buckets :21 ...] | {+Size :182 +Number of buckets :21 ...}
CF.INSERT f ITEMS i{1..80} => [74*:1 6*:-1] | [74*#t 6*#f]
CF.RESERVE h 4 => +OK
CF.INSERT h ITEMS i{1..4000} => [4000*:1] | [4000*#t]
CF.INFO h => [+Size :8388 +Number of buckets :21 +Number of filters :2 ...] | {+Size :8388 +Number of buckets :21 +Number of filters :2 ...}
CF.RESERVE g 20000 => +OK
CF.INFO g => [+Size :33656 +Number of buckets :5600 ...] | {+Size :33656 +Number of buckets :5600 ...}`)
	},
	"capacity-limit": func(t *testing.T) {
		newWorld(t, kv.Options{MaxFilterBytes: 1 << 42}).Script(`
CF.RESERVE a 1073741825 => +OK
CF.RESERVE b 1099511627776 => +OK
CF.RESERVE c 1099511627777 => -Capacity must be in the range [2 * BUCKETSIZE, 1099511627776]
CF.INSERT c CAPACITY 1099511627776 ITEMS x => [:1] | [#t]
CF.ADD b x => :1 | #t
CF.MEXISTS b x y => [:1 :0] | [#t #f]`)
	},
	"filter-bytes": func(t *testing.T) {
		w := newWorld(t, kv.Options{MaxFilterBytes: 3 * 8192})
		w.Script(`
CF.RESERVE f 20000 => -ERR too large: filter of 33600 bytes, at most 24576 (max-filter-bytes)
CF.INSERT f CAPACITY 20000 ITEMS x => -ERR too large: filter of 33600 bytes, at most 24576 (max-filter-bytes)
EXISTS f => :0
CF.RESERVE f 1000 => +OK`)
		fillUp(w, "f")
		w.Script(`CF.INFO f => [... +Number of filters :2 ...] | {... +Number of filters :2 ...}`)
		newWorld(t, kv.Options{}).Script(`
CF.RESERVE f 1099511627776
  => -ERR too large: filter of ... bytes, at most 68719476736 (max-filter-bytes)`)
	},
	"duplicates": func(t *testing.T) {
		newWorld(t, kv.Options{}).Script(`
CF.RESERVE f 1000 EXPANSION 2 => +OK
CF.INSERT f ITEMS x x x x x x x x x x y => [8*:1 :-1 :-1 :1] | [8*#t #f #f #t]
CF.ADD f x => -Filter is full
CF.ADDNX f x => :0 | #f
CF.INSERTNX f ITEMS x => [:0]
CF.COUNT f x => :8
CF.INFO f => [... +Number of filters :1 ...] | {... +Number of filters :1 ...}
CF.RESERVE g 1000 BUCKETSIZE 1 => +OK
CF.INSERT g ITEMS x x x x => [:1 :1 :-1 :-1] | [#t #t #f #f]`)
	},
	"maximum-expansions": func(t *testing.T) {
		w := newWorld(t, kv.Options{MaxFilterBytes: 8192})
		w.Script("CF.RESERVE f 1000 => +OK")
		fillUp(w, "f")
		w.Script(`
CF.ADD f new => -Maximum expansions reached
CF.ADDNX f new => -Maximum expansions reached
CF.INSERT f ITEMS new new => [:-1 :-1] | [#f #f]
CF.INSERTNX f ITEMS new i1 => [:-1 :0]
CF.ADDNX f i1 => :0 | #f
CF.DEL f i1 => :1 | #t
CF.ADD f new => :1 | #t`)
	},
	"layers": func(t *testing.T) {
		// With 1.05 times the rate of 4 layers of 8-bit fingerprints, in buckets of four, there is no fifth layer.
		w := newWorld(t, kv.Options{})
		w.Script("CF.RESERVE f 1000 EXPANSION 1 ERROR 0.113 BUCKETSIZE 4 => +OK")
		fillUp(w, "f")
		w.Script(`
CF.INFO f => [... +Number of filters :4 ...] | {... +Number of filters :4 ...}
CF.ADD f new => -Maximum expansions reached
CF.RESERVE g 1000 EXPANSION 1 => +OK`)
		fillUp(w, "g")
		w.Script(`
CF.INFO g => [... +Number of filters :32 ...] | {... +Number of filters :32 ...}
CF.ADD g new => -Maximum expansions reached
CONFIG SET cf-max-expansions 100 => +OK
CF.ADD g new => -Maximum expansions reached`)
	},
	"max-iterations": func(t *testing.T) {
		// A search that moves at most one entry fails long before one that moves twenty.
		taken := make(map[int]uint64)
		for _, moves := range []int{1, 20} {
			w := newWorld(t, kv.Options{})
			w.Script(fmt.Sprintf("CF.RESERVE f 4000 BUCKETSIZE 2 EXPANSION 0 MAXITERATIONS %d => +OK", moves))
			fillUp(w, "f")
			info := infoOf(t, cuckooext.New(w.DB, "f"))
			taken[moves] = info.Items
			if moves == 20 && info.Items < info.Capacity {
				t.Errorf("%d items, want the capacity of %d", info.Items, info.Capacity)
			}
		}
		if taken[1] >= taken[20] {
			t.Errorf("%d items with at most one move, %d with 20: want fewer with one", taken[1], taken[20])
		}
	},
	"bucket-size": func(t *testing.T) {
		newWorld(t, kv.Options{}).Script(`
CF.RESERVE a 1000 BUCKETSIZE 2 => +OK
CF.RESERVE b 1000 BUCKETSIZE 6 => +OK
CF.DEBUG a => "bktsize:2 buckets:910 ..."
CF.DEBUG b => "bktsize:6 buckets:455 ..."
CF.INSERT a ITEMS x x x x x => [4*:1 :-1] | [4*#t #f]
CF.INSERT b ITEMS x x x x x x x x x x x x x => [12*:1 :-1] | [12*#t #f]`)
	},
	"info-error": func(t *testing.T) {
		w := newWorld(t, kv.Options{})
		w.Script(`
OTHER.NEW other => +OK
CF.INSERT f ITEMS i{1..3000} => [3000*:1] | [3000*#t]
CF.INFO f error => "0.00224..." | ,0.00224...
CF.INFO f NOSUCH => -Invalid information value
CF.INFO f "Bucket size" => -Invalid information value
CF.INFO missing NOSUCH => -ERR not found
CF.INFO other NOSUCH => -WRONGTYPE Operation against a key holding the wrong kind of value`)
	},
	"size": func(t *testing.T) {
		// RedisBloom has 2^19 buckets of two slots of a byte.
		newWorld(t, kv.Options{}).Script(`
CF.RESERVE f 1000000 => +OK
CF.INFO f => [+Size :1670816 +Number of buckets :278460 ...] | {+Size :1670816 +Number of buckets :278460 ...}`)
	},
	"compact": func(t *testing.T) {
		w := newWorld(t, kv.Options{})
		for _, c := range module.Of(w.DB).Commands() {
			if c.Name == "CF.COMPACT" && c.Flags&(module.Write|module.ReadOnly) != module.Write {
				t.Errorf("flags of CF.COMPACT are %v, want write", c.Flags.Names())
			}
		}
		w.Script("CF.INSERT f ITEMS i{1..6000} => [6000*:1] | [6000*#t]")
		for i := range 4000 {
			w.Line(fmt.Sprintf("CF.DEL f i%d", i+1))
		}
		before := infoNumber(t, w.DB, "commits")
		w.Script(`
CF.COMPACT f => +OK
CF.MEXISTS f i{4001..6000} => [2000*:1] | [2000*#t]`)
		if infoNumber(t, w.DB, "commits") == before {
			t.Error("CF.COMPACT made no commit")
		}
	},
	"compact-itself": func(t *testing.T) {
		w := newWorld(t, kv.Options{})
		w.Script("CF.INSERT f ITEMS i{1..6000} => [6000*:1] | [6000*#t]")
		for i := range 5500 {
			w.Line(fmt.Sprintf("CF.DEL f i%d", i+1))
		}
		for more := true; more; { // as the compaction service does
			var err error
			more, err = w.DB.CompactQueued(t.Context(), 1<<20)
			must(t, err)
		}
		w.Script(`
CF.INFO f
  => [... +Number of filters :1 +Number of items inserted :500 +Number of items deleted :0 ...]
  | {... +Number of filters :1 +Number of items inserted :500 +Number of items deleted :0 ...}
CF.MEXISTS f i{5501..6000} => [500*:1] | [500*#t]`)
	},
	"one-commit": func(t *testing.T) {
		w := newWorld(t, kv.Options{})
		before := infoNumber(t, w.DB, "commits")
		w.Script("CF.INSERT f CAPACITY 1000 ITEMS i{1..6000} => [6000*:1] | [6000*#t]")
		if n := infoNumber(t, w.DB, "commits") - before; n != 1 {
			t.Errorf("a batch took %d commits, want 1", n)
		}
	},
	"batch-size": func(t *testing.T) {
		newWorld(t, kv.Options{MemTableSize: 256 << 10}).Script(`
CF.RESERVE f 10000000 => +OK
CF.INSERT f ITEMS i{1..1000} => -ERR too large: commit of ... bytes, at most 65536 (a quarter of Options.MemTableSize)
CF.INFO f => [... +Number of items inserted :0 ...] | {... +Number of items inserted :0 ...}
CF.INSERT f ITEMS i{1..100} => [100*:1] | [100*#t]`)
	},
	"nothing-to-do": func(t *testing.T) {
		w := newWorld(t, kv.Options{})
		w.Script("CF.INSERT f ITEMS a a a a a a a a => [8*:1] | [8*#t]")
		before := infoNumber(t, w.DB, "commits")
		w.Script(`
CF.ADDNX f a => :0 | #f
CF.INSERTNX f ITEMS a a => [:0 :0]
CF.ADD f a => -Filter is full
CF.DEL f b => :0 | #f
CF.DEL missing b => -Not found`)
		if n := infoNumber(t, w.DB, "commits") - before; n != 0 {
			t.Errorf("commands that change nothing took %d commits, want none", n)
		}
	},
	"hash": func(t *testing.T) {
		const probes = "CF.MEXISTS f absent:{1..2000}"
		answers := make(map[string]bool)
		for _, seed := range []uint64{1, 2} {
			w := newWorld(t, kv.Options{Seed: seed})
			w.Script("CF.RESERVE f 1000 ERROR 0.1 EXPANSION 0 => +OK")
			w.Line("CF.INSERT f ITEMS item:{1..6000}")
			answers[coretest.Wire(w.Line(probes), reply.Reply.RESP2)] = true
		}
		if len(answers) != 2 {
			t.Error("stores of two seeds give the same 2000 answers for absent items")
		}
	},
	"hash-option": func(t *testing.T) {
		newWorld(t, kv.Options{}).Script(`
CF.RESERVE a 1000 HASH xxh64 ERROR 0.01 => +OK
CF.RESERVE b 1000 hash Keyed => +OK
CF.RESERVE c 1000 => +OK
CF.INFO a HASH => "xxh64"
CF.INFO b hash => "keyed"
CF.INFO c HASH => "keyed"
CF.ADD a x => :1 | #t
CF.EXISTS a x => :1 | #t
CF.RESERVE d 1000 HASH md5 => -HASH: must be keyed or xxh64
EXISTS d => :0`)
	},
	"compatible-options": func(t *testing.T) {
		newWorld(t, kv.Options{}).Script(`
CONFIG SET cf-layout compatible => +OK
CF.RESERVE f 100 ERROR 0.01 => -ERROR: not with cf-layout compatible, where it follows from BUCKETSIZE
CF.RESERVE f 100 HASH xxh64 => -HASH: not with cf-layout compatible, which has its own hash
CF.RESERVE f 100 TTL 5 => +OK`)
	},
	"compatible-layers": func(t *testing.T) {
		w := newWorld(t, kv.Options{})
		if got := load(w, 1, headerOf(func(h []byte) { h[24], h[25] = 1, 4 })); got != "-Couldn't create filter!" { // 1025
			t.Error(got)
		}
		w.Script(`
CONFIG SET cf-layout compatible => +OK
CF.RESERVE g 4 EXPANSION 32768 => +OK
CF.INSERT g ITEMS x x x x x x x x x => [8*:1 :-1] | [8*#t #f]
CF.INFO g => [+Size :131148 ... +Number of filters :2 ...] | {+Size :131148 ... +Number of filters :2 ...}`)
	},
	"compatible-compact": func(t *testing.T) {
		w := newWorld(t, kv.Options{MemTableSize: 256 << 10})
		w.Script(`
CONFIG SET cf-layout compatible => +OK
CF.RESERVE f 1024 => +OK
CF.INSERT f ITEMS a{1..100} => [100*:1] | [100*#t]`)
		for i := range 80 {
			w.Script(fmt.Sprintf("CF.INSERTNX f ITEMS i%d{1..100} => [...]", i))
		}
		deletes := func() (n int) {
			line := w.Do("CF.DEBUG", "f").String()
			if _, err := fmt.Sscanf(line[strings.Index(line, "deletes:"):], "deletes:%d", &n); err != nil {
				t.Fatal(line, err)
			}
			return n
		}
		for i := range 4000 {
			w.Do("CF.DEL", "f", fmt.Sprintf("i%d%d", i/100, i%100+1))
		}
		if n := deletes(); n < 3000 {
			t.Errorf("%d deletions are counted, want as many as there were since the first: none was followed by a compaction", n)
		}
		w.Script("CF.COMPACT f => +OK")
		if n := deletes(); n != 0 {
			t.Errorf("after CF.COMPACT %d deletions are counted, want none", n)
		}
		for i := range 3000 {
			w.Do("CF.DEL", "f", fmt.Sprintf("i%d%d", 40+i/100, i%100+1))
		}
		if n := deletes(); n > 500 {
			t.Errorf("of a small filter %d deletions are counted, want at most a tenth of its items: a deletion compacts it", n)
		}
	},
	"half-loaded": func(t *testing.T) {
		w := newWorld(t, kv.Options{})
		beginLoad(t, w)
		w.Script(`
EXISTS f => :0
DBSIZE => :1
@pass 3600s
CF.LOADCHUNK f 17 xxxxxxxx => -ERR not found`)
	},
	"loaded-header": func(t *testing.T) {
		w := newWorld(t, kv.Options{})
		for _, h := range []struct {
			buckets, layers uint64
			expansion       uint16
			want            string
		}{
			{2, 1024, 1, "+OK"}, {2, 1025, 1, refusedHeader}, {2, 1, 3, refusedHeader}, {2, 1, 32768, "+OK"}, {2, 1, 32769, refusedHeader},
			{1 << 30, 1, 1, "+OK"}, {1 << 31, 1, 1, refusedHeader}, {1 << 29, 3, 2, refusedHeader},
		} {
			header := headerOf(func(b []byte) {
				binary.LittleEndian.PutUint64(b[8:], h.buckets)
				binary.LittleEndian.PutUint64(b[24:], h.layers)
				binary.LittleEndian.PutUint16(b[36:], h.expansion)
			})
			if got := load(w, 1, header); got != h.want {
				t.Errorf("%+v: %s", h, got)
			}
		}
	},
	"loaded-items": func(t *testing.T) {
		w := newWorld(t, kv.Options{})
		beginLoad(t, w) // the header says 5
		load(w, 17, []byte("12345678"))
		w.Script(`CF.INFO f => [... +Number of items inserted :13 ...] | {... +Number of items inserted :13 ...}`)
	},
	"loaded-again": func(t *testing.T) {
		w := newWorld(t, kv.Options{})
		beginLoad(t, w)
		w.Script(`
CF.LOADCHUNK f 17 12345678 => +OK
CF.LOADCHUNK f 17 12345678 => +OK
CF.LOADCHUNK f 17 12345679 => -Couldn't load chunk!`)
	},
	"compatible-expansions": func(t *testing.T) {
		w := newWorld(t, kv.Options{})
		w.Script(`
CONFIG SET cf-layout compatible => +OK
CF.RESERVE f 2 BUCKETSIZE 1 => +OK`)
		// Each sub-filter takes one copy or two, and more of them would be looked at for each further copy.
		equal := strings.Repeat(" x", 20_000)
		w.Line("CF.INSERT f ITEMS" + equal)
		w.Script(`
CF.INFO f => [... +Number of filters :32 ...] | {... +Number of filters :32 ...}
CF.INSERT f ITEMS x => -Maximum expansions reached
CF.RESERVE g 4 => +OK
CONFIG SET cf-max-expansions 2 => +OK
CF.INSERT g ITEMS x x x x x x x x x x => [8*:1 :-1 :-1] | [8*#t #f #f]`)
	},
	"compatible-kicks": func(t *testing.T) {
		w := newWorld(t, kv.Options{MemTableSize: 256 << 10})
		const slots = 8 << 20 // few of which are empty
		header := headerOf(func(h []byte) {
			binary.LittleEndian.PutUint64(h[8:], slots)
			binary.LittleEndian.PutUint16(h[32:], 1)
			binary.LittleEndian.PutUint16(h[34:], 65535)
			h[24], h[36] = 1, 0
		})
		data, r := make([]byte, slots), rand.New(rand.NewPCG(1, 2))
		for i := range data {
			data[i] = byte(1 + r.IntN(255))
			if i%2000 == 5 {
				data[i] = 0
			}
		}
		if got := load(w, 1, header) + load(w, slots+1, data); got != "+OK+OK" {
			t.Fatal(got)
		}
		refused, added := 0, 0
		for i := range 100 {
			switch got := coretest.Wire(w.Do("CF.ADD", "f", fmt.Sprint(i)), reply.Reply.RESP2); {
			case got == ":1":
				added++
			case strings.HasPrefix(got, "-ERR too large: commit of"):
				refused++
			case got != "-Filter is full":
				t.Fatal(got)
			}
		}
		if refused == 0 || added == 0 {
			t.Errorf("%d adds were refused, %d done, want some of both", refused, added)
		}
	},
	"native-dump": func(t *testing.T) {
		newWorld(t, kv.Options{}).Script(`
CF.ADD f x => :1 | #t
CF.SCANDUMP f 0 => [:1 "\x89SVKD\r\n\x1a\x02..."]
CF.SCANDUMP f x => -Invalid position`)
	},
	"key-length": func(t *testing.T) {
		newWorld(t, kv.Options{}).Script(fmt.Sprintf(`
CF.ADD %[1]s x => :1 | #t
CF.EXISTS %[1]s x => :1 | #t
CF.ADD %[1]sk x => -ERR too large: key of 65537 bytes, at most 65536
CF.EXISTS %[1]sk x => -ERR too large: key of 65537 bytes, at most 65536`, strings.Repeat("k", kv.MaxKeyLen)))
	},
	"configuration": func(t *testing.T) {
		newWorld(t, kv.Options{}).Script(`
CONFIG GET cf-bucket-size cf-expansion-factor => ["cf-bucket-size" "4" "cf-expansion-factor" "2"]
  | {"cf-bucket-size" "4" "cf-expansion-factor" "2"}
CF.RESERVE f 4 => +OK
CF.RESERVE h 3 => -Capacity must be in the range [2 * BUCKETSIZE, 1099511627776]
CF.INSERT g CAPACITY 4 ITEMS x => [:1] | [#t]
CONFIG SET cf-bucket-size 5 => +OK
CF.RESERVE h 9 => -Capacity must be in the range [2 * BUCKETSIZE, 1099511627776]
CF.RESERVE h 10 => +OK
CONFIG REWRITE => -ERR The server is running without a config file`)
	},
}

func TestDifferences(t *testing.T) {
	coretest.Differences(t, "../docs/DIFFERENCES.md", "CF commands", differences)
}

// fillUp adds i1, i2, and so on until an item has no room.
func fillUp(w *coretest.World, key string) {
	const batch = 1000
	for first := 1; ; first += batch {
		command := fmt.Sprintf("CF.INSERT %s ITEMS i{%d..%d}", key, first, first+batch-1)
		for _, answer := range w.Line(command).Elems() {
			if answer.RESP2().Int() != 1 {
				return
			}
		}
	}
}

func infoOf(t *testing.T, f *cuckooext.Filter) cuckooext.Info {
	t.Helper()
	info, err := f.Info()
	must(t, err)
	return info
}

func infoNumber(t *testing.T, db *kv.DB, name string) (n int) {
	t.Helper()
	text := string(module.NewSession(db).Do(t.Context(), [][]byte{[]byte("INFO")}).Bytes())
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			_, err := fmt.Sscan(value, &n)
			must(t, err)
			return n
		}
	}
	t.Fatalf("INFO has no %s", name)
	return 0
}

const refusedHeader = "-Couldn't create filter!"
