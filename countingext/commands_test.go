package countingext_test

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/internal/coretest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// Scripts are those of package coretest.

func newWorld(t *testing.T, o kv.Options) *coretest.World {
	t.Helper()
	o.Modules = coreext.With(countingext.Module(), coretest.OtherModule())
	return coretest.NewWorld(t, o)
}

func TestCommands(t *testing.T) {
	tests := []struct {
		name    string
		options kv.Options
		script  string
	}{
		{"RESERVE: error rate, then capacity, then expansion, then key", kv.Options{}, `
OTHER.NEW other => +OK
CBF.RESERVE have 0.01 100 => +OK
CBF.RESERVE have x y EXPANSION z => -ERR bad error rate
CBF.RESERVE have nan 100 => -ERR bad error rate
CBF.RESERVE have 0 y EXPANSION z => -ERR error rate must be in the range (0.000000, 1.000000)
CBF.RESERVE have 1 100 => -ERR error rate must be in the range (0.000000, 1.000000)
CBF.RESERVE have 0.01 y EXPANSION z => -ERR bad capacity
CBF.RESERVE have 0.01 0 => -ERR capacity must be in the range [1, 1099511627776]
CBF.RESERVE have 0.01 1099511627777 => -ERR capacity must be in the range [1, 1099511627776]
CBF.RESERVE have 0.01 100 EXPANSION => -ERR no expansion
CBF.RESERVE have 0.01 100 EXPANSION z => -ERR bad expansion
CBF.RESERVE have 0.01 100 EXPANSION 32769 => -ERR expansion must be in the range [0, 32768]
CBF.RESERVE have 0.01 100 NONSCALING EXPANSION 1 => -Nonscaling filters cannot expand
CBF.RESERVE have 0.01 100 TTL => -ERR no ttl
CBF.RESERVE have 0.01 100 TTL x => -ERR bad ttl
CBF.RESERVE have 0.01 100 TTL 0 => -ERR ttl must be in the range [1, 3162240000]
CBF.RESERVE have 0.01 100 NONSCALING NONSCALING NONSCALING NONSCALING => -ERR wrong number of arguments for 'cbf.reserve' command
CBF.RESERVE new 0.01 100 EXPANSON 4 => -ERR unknown option 'EXPANSON'
CBF.RESERVE new 0.01 100 EXPANSION 4 NONSCALE => -ERR unknown option 'NONSCALE'
CBF.RESERVE new 0.01 100 TTL 10 KEYED HASH => -ERR unknown option 'KEYED'
EXISTS new => :0
CBF.RESERVE have 0.01 100 => -ERR item exists
CBF.RESERVE other 0.01 100 => -WRONGTYPE Operation against a key holding the wrong kind of value
CBF.RESERVE large 0.01 1099511627776 => -ERR too large...
CBF.RESERVE e 0.01 100 EXPANSION 4 => +OK
CBF.INFO e EXPANSION => [:4] | {+Expansion rate :4}
CBF.RESERVE n 0.01 100 nonscaling => +OK
CBF.INFO n EXPANSION => [_] | {+Expansion rate _}
CBF.RESERVE z 0.01 100 EXPANSION 0 => +OK
CBF.INFO z EXPANSION => [_] | {+Expansion rate _}
TYPE e => +CBloom---
`},
		{"ADD, MADD: 1 if absent, 0 if there, counted up all the same", kv.Options{}, `
CBF.ADD f a => :1 | #t
CBF.ADD f a => :0 | #f
CBF.MADD f b a b c b => [:1 :0 :0 :1 :0] | [#t #f #f #t #f]
CBF.COUNT f a => :3
CBF.COUNT f b => :3
CBF.COUNT f c => :1
CBF.COUNT f d => :0
CBF.CARD f => :7
CBF.INFO f CAPACITY => [:100] | {+Capacity :100}
CBF.INFO f EXPANSION => [:2] | {+Expansion rate :2}
CBF.ADD f "" => :1 | #t
CBF.MEXISTS f "" "\x00" a z => [:1 :0 :1 :0] | [#t #f #t #f]
`},
		{"DEL, MDEL: 1 if there, 0 if not", kv.Options{}, `
CBF.MADD f a a b => [:1 :0 :1] | [#t #f #t]
CBF.DEL f x => :0 | #f
CBF.DEL f a => :1 | #t
CBF.EXISTS f a => :1 | #t
CBF.DEL f a => :1 | #t
CBF.EXISTS f a => :0 | #f
CBF.DEL f a => :0 | #f
CBF.MADD f c c d => [:1 :0 :1] | [#t #f #t]
CBF.MDEL f c b x c c d => [:1 :1 :0 :1 :0 :1] | [#t #t #f #t #f #t]
CBF.CARD f => :0
CBF.MEXISTS f a b c d => [4*:0] | [4*#f]
CBF.INFO f KEPT => [:0] | {+Deletes kept :0}
CBF.DEBUG f => ["size:0 kept:0" "bytes:576 counters:1152 hashes:7 hashwidth:64 capacity:100 size:0 above:0 stuck:0 ratio:0.007"]
`},
		{"COUNT: 15 means 15 or more, and stays", kv.Options{}, `
CBF.MADD f i i i i i i i i i i i i i i => [:1 13*:0] | [#t 13*#f]
CBF.COUNT f i => :14
CBF.MADD f i i i => [:0 :0 :0] | [#f #f #f]
CBF.COUNT f i => :15
CBF.CARD f => :17
CBF.MDEL f i i i i i i i i i i i i i i i i i => [17*:1] | [17*#t]
CBF.COUNT f i => :15
CBF.CARD f => :0
CBF.INFO f KEPT => [:17] | {+Deletes kept :17}
CBF.INFO f STUCK => [:7] | {+Counters stuck :7}
CBF.INFO f LEFTOVER => [:15] | {+Adds left over :15}
CBF.INFO f DELETED => ["1"] | {+Error rate of deleted items ,1}
`},
		{"a missing key, and one of another type", kv.Options{}, `
OTHER.NEW other => +OK
CBF.EXISTS missing a => :0 | #f
CBF.EXISTS other a => :0 | #f
CBF.MEXISTS missing a b => [:0 :0] | [#f #f]
CBF.MEXISTS other a b => [:0 :0] | [#f #f]
CBF.COUNT missing a => :0
CBF.COUNT other a => :0
CBF.CARD missing => :0
CBF.CARD other => -WRONGTYPE Operation against a key holding the wrong kind of value
CBF.DEL missing a => -ERR not found
CBF.DEL other a => -WRONGTYPE Operation against a key holding the wrong kind of value
CBF.MDEL missing a => -ERR not found
CBF.MDEL other a => -WRONGTYPE Operation against a key holding the wrong kind of value
CBF.ADD other a => -WRONGTYPE Operation against a key holding the wrong kind of value
CBF.MADD other a => -WRONGTYPE Operation against a key holding the wrong kind of value
CBF.INSERT other ITEMS a => -WRONGTYPE Operation against a key holding the wrong kind of value
CBF.INFO missing => -ERR not found
CBF.INFO other => -WRONGTYPE Operation against a key holding the wrong kind of value
CBF.DEBUG missing => -ERR not found
CBF.DEBUG other => -WRONGTYPE Operation against a key holding the wrong kind of value
EXISTS missing => :0
`},
		{"INSERT", kv.Options{}, `
CBF.INSERT a CAPACITY 500 ERROR 0.001 EXPANSION 4 ITEMS x y x => [:1 :1 :0] | [#t #t #f]
CBF.INFO a CAPACITY => [:500] | {+Capacity :500}
CBF.INFO a EXPANSION => [:4] | {+Expansion rate :4}
CBF.DEBUG a => ["size:3 kept:0" "bytes:3968 counters:7936 hashes:10 hashwidth:64 capacity:500 size:3 above:20 stuck:0 ratio:0.0007"]
CBF.INSERT b NOCREATE ITEMS x => -ERR not found
CBF.INSERT a NOCREATE ITEMS x z => [:0 :1] | [#f #t]
CBF.INSERT c CAPACITY 2 NONSCALING ITEMS x y z x => [:1 :1 -ERR non scaling filter is full]
  | [#t #t -ERR non scaling filter is full]
CBF.INSERT d CAPACITY 0 ITEMS x => -Bad capacity
CBF.INSERT d ERROR 1 ITEMS x => -Bad error rate
CBF.INSERT d EXPANSION -1 ITEMS x => -Bad expansion
CBF.INSERT d WHAT ITEMS x => -ERR unknown option 'WHAT'
CBF.INSERT d NCREATE ITEMS x => -ERR unknown option 'NCREATE'
CBF.INSERT d CAPACITY 10 ITMES x => -ERR unknown option 'ITMES'
CBF.INSERT d nocreate ITEMS WHAT => -ERR not found
CBF.INSERT d CAPACITY 10 => -ERR wrong number of arguments for 'cbf.insert' command
CBF.INSERT d ITEMS => -ERR wrong number of arguments for 'cbf.insert' command
`},
		{"a full filter that does not grow", kv.Options{}, `
CBF.RESERVE f 0.0001 3 NONSCALING => +OK
CBF.MADD f a b c => [:1 :1 :1] | [#t #t #t]
CBF.ADD f d => -ERR non scaling filter is full
CBF.MADD f a d a => [:0 -ERR non scaling filter is full] | [#f -ERR non scaling filter is full]
CBF.COUNT f a => :2
CBF.DEL f a => :1 | #t
CBF.ADD f d => -ERR non scaling filter is full
CBF.DEL f a => :1 | #t
CBF.ADD f d => :1 | #t
CBF.MEXISTS f a b c d => [:0 :1 :1 :1] | [#f #t #t #t]
`},
		{"growth", kv.Options{}, `
CBF.RESERVE f 0.0001 4 => +OK
CBF.MADD f i{1..4} => [4*:1] | [4*#t]
CBF.INFO f FILTERS => [:1] | {+Number of filters :1}
CBF.MADD f i{1..4} => [4*:0] | [4*#f]
CBF.INFO f FILTERS => [:1] | {+Number of filters :1}
CBF.ADD f i5 => :1 | #t
CBF.INFO f FILTERS => [:2] | {+Number of filters :2}
CBF.INFO f
  => [+Capacity :12 +Size :256 +Number of filters :2 +Number of items :9 +Expansion rate :2 +Deletes kept :0
  +Counters stuck :0 +Adds left over :0 +Error rate of deleted items ...]
  | {+Capacity :12 +Size :256 +Number of filters :2 +Number of items :9 +Expansion rate :2 +Deletes kept :0
  +Counters stuck :0 +Adds left over :0 +Error rate of deleted items ...}
CBF.MDEL f i{1..5} => [5*:1] | [5*#t]
CBF.MEXISTS f i{1..5} => [4*:1 :0] | [4*#t #f]
CBF.COUNT f i1 => :1
`},
		{"growth that is refused: the array goes on", kv.Options{MaxFilterBytes: 300}, `
CBF.RESERVE f 0.0001 4 => +OK
CBF.MADD f i{1..12} => [12*:1] | [12*#t]
CBF.MADD f i1 x i2 => [:0 -ERR problem inserting into filter :0] | [#f -ERR problem inserting into filter #f]
CBF.ADD f x => -ERR problem inserting into filter
CBF.MDEL f i1 i1 i2 => [:1 :1 :1] | [#t #t #t]
CBF.ADD f x => :1 | #t
CBF.INFO f FILTERS => [:2] | {+Number of filters :2}
`},
		{"INFO: errors", kv.Options{}, `
CBF.ADD f a => :1 | #t
CBF.INFO f nosuch => -Invalid information value
CBF.INFO f CAPACITY SIZE => -ERR wrong number of arguments for 'cbf.info' command
CBF.INFO f size => [:576] | {+Size :576}
CBF.INFO f ITEMS => [:1] | {+Number of items :1}
`},
		{"TTL", kv.Options{}, `
CBF.RESERVE f 0.01 100 TTL 10 => +OK
CBF.ADD f a => :1 | #t
@pass 9999ms
CBF.EXISTS f a => :1 | #t
@pass 1ms
CBF.EXISTS f a => :0 | #f
CBF.DEL f a => -ERR not found
`},
		{"RENAME, COPY, DEL", kv.Options{}, `
CBF.MADD f a a => [:1 :0] | [#t #f]
COPY f g => :1
CBF.DEL f a => :1 | #t
CBF.COUNT g a => :2
CBF.CARD g => :2
RENAME f h => +OK
CBF.COUNT h a => :1
DEL g => :1
CBF.COUNT g a => :0
`},
		{"MERGE: sums of counters, at most 15", kv.Options{}, `
CBF.MADD a x x y => [:1 :0 :1] | [#t #f #t]
CBF.MADD b x z z z z z z z z => [:1 :1 7*:0] | [#t #t 7*#f]
CBF.MERGE c a b => +OK
CBF.COUNT c x => :3
CBF.COUNT c y => :1
CBF.CARD c => :12
CBF.MERGE c a a c => +OK
CBF.COUNT c x => :5
CBF.CARD c => :15
CBF.MERGE b c => +OK
CBF.COUNT b z => :15
CBF.MERGE a a => +OK
CBF.CARD a => :3
CBF.MDEL b x x x x x x => [6*:1] | [6*#t]
CBF.EXISTS b x => :0 | #f
CBF.COUNT a x => :2
TYPE c => +CBloom---
`},
		{"MERGE: what is refused, and changes nothing", kv.Options{}, `
OTHER.NEW other => +OK
CBF.RESERVE a 0.01 100 => +OK
CBF.RESERVE capacity 0.01 200 => +OK
CBF.RESERVE rate 0.02 100 => +OK
CBF.RESERVE expansion 0.01 100 EXPANSION 4 => +OK
CBF.ADD a x => :1 | #t
CBF.MERGE a => -ERR wrong number of arguments for 'cbf.merge' command
CBF.MERGE a capacity => -ERR filters differ, and cannot be merged: capacity of "a" is 100, of "capacity" 200
CBF.MERGE a rate => -ERR filters differ, and cannot be merged: error rate of "a" is 0.01, of "rate" 0.02
CBF.MERGE a expansion => -ERR filters differ, and cannot be merged: expansion of "a" is 2, of "expansion" 4
CBF.MERGE a missing => -ERR not found
CBF.MERGE d d a => -ERR not found
CBF.MERGE a other => -WRONGTYPE Operation against a key holding the wrong kind of value
CBF.MERGE other a => -WRONGTYPE Operation against a key holding the wrong kind of value
EXISTS d missing => :0
CBF.CARD a => :1
CBF.RESERVE p 0.0001 100 NONSCALING => +OK
CBF.RESERVE q 0.0001 100 NONSCALING => +OK
CBF.MADD p x{1..80} => [80*:1] | [80*#t]
CBF.MADD q y{1..80} => [80*:1] | [80*#t]
CBF.MERGE p q => -ERR the union would exceed the error rate: layer 0 would have ...
CBF.CARD p => :80
`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, tt.options)
			w.Script(tt.script)
			check(t, w.DB)
		})
	}
}

// A terminal shows that 15 means 15 or more; programs get a number.
func TestCommands_countInText(t *testing.T) {
	w := newWorld(t, kv.Options{})
	for n := 1; n <= 20; n++ {
		w.Line("CBF.ADD f x")
		r := w.Line("CBF.COUNT f x")
		want := fmt.Sprintf("(integer) %d", n)
		if n >= countingext.MaxCount {
			want = "(integer) 15 or more"
		}
		number := fmt.Sprintln(min(n, countingext.MaxCount))
		if r.String() != want || r.Int() != int64(min(n, countingext.MaxCount)) || string(reply.AppendJSON(nil, r)) != number ||
			string(reply.AppendRaw(nil, r)) != number || string(reply.AppendCSV(nil, r)) != number {
			t.Errorf("CBF.COUNT of an item added %d times is %s, and %d, want %s", n, r, r.Int(), want)
		}
	}
}

// Each command refuses one word less and one word more than it takes.
func TestCommands_arity(t *testing.T) {
	w := newWorld(t, kv.Options{})
	for _, command := range []string{
		"CBF.RESERVE k 0.01", "CBF.ADD k", "cbf.add k a b", "CBF.MADD k", "CBF.INSERT k ITEMS", "CBF.DEL k", "CBF.DEL k a b",
		"CBF.MDEL k", "CBF.EXISTS k", "CBF.EXISTS k a b", "CBF.MEXISTS k", "CBF.COUNT k", "CBF.COUNT k a b", "CBF.CARD",
		"CBF.CARD k a", "CBF.INFO", "CBF.DEBUG", "CBF.DEBUG k a", "CBF.MERGE k",
	} {
		name, _, _ := strings.Cut(command, " ")
		w.Script(fmt.Sprintf("%s => -ERR wrong number of arguments for '%s' command", command, strings.ToLower(name)))
	}
	w.Script("DBSIZE => :0")
}

// Every command has what help needs, and its example runs in an empty store.
func TestCommands_examples(t *testing.T) {
	w := newWorld(t, kv.Options{})
	for _, cmd := range countingext.Module().Commands {
		lines := strings.Split(cmd.Example, "\n")
		if cmd.Group != "counting" || cmd.Complexity == "" || !strings.HasPrefix(lines[len(lines)-1], cmd.Name) {
			t.Errorf("%s: group %q, complexity %q, example %q", cmd.Name, cmd.Group, cmd.Complexity, cmd.Example)
		}
		w.Line("FLUSHALL")
		for _, line := range lines {
			r := w.Line(line)
			for _, e := range append(r.Elems(), r) {
				if e.IsError() {
					t.Errorf("%s: %v", line, r)
				}
			}
		}
	}
}

// The time and the memory of a batch of items without room do not grow with the square of their number.
func TestCommands_fullBatch(t *testing.T) {
	const items = 4000
	db := open(t, kv.Options{MaxFilterBytes: 300, Durability: kv.NoSync})
	f := countingext.New(db, "f")
	must(t, f.Reserve(countingext.Config{Capacity: 4, ErrorRate: 0.0001}))
	addMany(t, f, itemsFrom("i", 0, 12))
	words := append([][]byte{[]byte("CBF.MADD"), []byte("f")}, itemsFrom("x", 0, items)...)
	least := uint64(math.MaxUint64) // what the store allocates in the background meanwhile only adds to it
	for range 3 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		answers := module.NewSession(db).Do(t.Context(), words).Elems()
		runtime.ReadMemStats(&after)
		if len(answers) != items || !answers[items-1].IsError() {
			t.Fatalf("%d answers, the last %v, want %d errors", len(answers), answers[len(answers)-1], items)
		}
		least = min(least, (after.TotalAlloc-before.TotalAlloc)/items)
	}
	if least > 8<<10 {
		t.Errorf("%d bytes are allocated for each of %d items, want 8 KiB at most", least, items)
	}
}
