package coreext_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/internal/coretest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/scalableext"
	"github.com/sievekv/sievekv/txn"
)

func TestConfig(t *testing.T) {
	reset := 0
	m := lowAndHigh()
	m.ResetStats = func(*kv.DB) { reset++ }
	w := coretest.NewWorld(t, kv.Options{Durability: kv.EverySec, CacheSize: 1 << 20, MaxFilterBytes: 1 << 30, Modules: coreext.With(m)})
	w.Script(`
		CONFIG => -ERR wrong number of arguments for 'config' command
		CONFIG foo => -ERR unknown subcommand 'foo'. Try CONFIG HELP.
		CONFIG GET => -ERR wrong number of arguments for 'config|get' command
		CONFIG GET save => ["save" ""] | {"save" ""}
		config get MAX*s NUM?ER number => ["max-filter-bytes" "1073741824" "number" "7"] | {"max-filter-bytes" "1073741824" "number" "7"}
		CONFIG GET append* dir maxmemory => ["appendfsync" "everysec" "appendonly" "yes" "dir" "memory" "maxmemory" "0"] | {"appendfsync" "everysec" "appendonly" "yes" "dir" "memory" "maxmemory" "0"}
		CONFIG GET cache-size databases => ["cache-size" "1048576" "databases" "1"] | {"cache-size" "1048576" "databases" "1"}
		CONFIG GET nosuch => [] | {}
		CONFIG SET => -ERR wrong number of arguments for 'config|set' command
		CONFIG SET number => -ERR wrong number of arguments for 'config|set' command
		CONFIG SET number 1 rate => -ERR syntax error
		CONFIG SET Nosuch 1 => -ERR Unknown option or number of arguments for CONFIG SET - 'Nosuch'
		CONFIG SET Dir x => -ERR CONFIG SET failed (possibly related to argument 'dir') - can't set immutable config
		CONFIG SET dir x nosuch 1 => -ERR CONFIG SET failed (possibly related to argument 'dir') - can't set immutable config
		CONFIG SET number 1 NUMBER 2 => -ERR CONFIG SET failed (possibly related to argument 'number') - duplicate parameter
		CONFIG SET number abc => -ERR CONFIG SET failed (possibly related to argument 'number') - argument couldn't be parsed into an integer
		CONFIG SET number 11 => -ERR CONFIG SET failed (possibly related to argument 'number') - argument must be between -3 and 10 inclusive
		CONFIG SET word x => -ERR CONFIG SET failed (possibly related to argument 'word') - argument(s) must be one of the following: yes, no
		CONFIG SET number 3 rate 2 => -ERR CONFIG SET failed (possibly related to argument 'rate') - argument must be above 0 and below 1
		CONFIG GET number => ["number" "7"] | {"number" "7"}
		CONFIG SET low bbb high bbb NUMBER 10 => +OK
		CONFIG SET high b => -ERR CONFIG SET failed (possibly related to argument 'high') - argument must not be longer than high
		CONFIG GET low high number => ["high" "bbb" "low" "bbb" "number" "10"] | {"high" "bbb" "low" "bbb" "number" "10"}
		CONFIG REWRITE => -ERR The server is running without a config file
		CONFIG RESETSTAT x => -ERR wrong number of arguments for 'config|resetstat' command
		SET k v => +OK
		CONFIG RESETSTAT => +OK
		CONFIG HELP x => -ERR wrong number of arguments for 'config|help' command
		CONFIG HELP => [+CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are: +GET pattern [pattern ...] ... +HELP +    Prints this help.]
	`)
	if reset != 1 {
		t.Errorf("the module's counts were reset %d times, want once", reset)
	}
	if info := string(w.Do("INFO", "durability").Bytes()); !strings.Contains(info, "\ncommits:0\r") || !strings.Contains(info, "\nlast_sequence:") {
		t.Errorf("after RESETSTAT INFO is %q, want no commits", info)
	}
}

// Subcommands are checked like commands: mistakes are reported before a transaction queues them.
func TestSubcommands_transactions(t *testing.T) {
	var queued []string
	db := openWith(t, lowAndHigh())
	s := module.NewSession(db)
	refused := 0
	s.Refused = func() { refused++ }
	s.Intercept = func(cmd *module.Command, args [][]byte) (reply.Reply, bool) {
		queued = append(queued, fmt.Sprintf("%s %q", cmd.Name, args))
		return reply.Status("QUEUED"), true
	}
	for _, line := range []string{"CONFIG", "CONFIG nosuch", "CONFIG GET", "config get number", "object help"} {
		words := strings.Fields(line)
		s.Do(t.Context(), toWords(words[0], words[1:]...))
	}
	if want := []string{`CONFIG|GET ["number"]`, `OBJECT|HELP []`}; refused != 3 || !slices.Equal(queued, want) {
		t.Errorf("refused %d, queued %q, want 3 and %q", refused, queued, want)
	}
}

func TestCommand(t *testing.T) {
	w := coretest.NewWorld(t, kv.Options{Modules: coreext.With(bloomext.Module(), coretest.OtherModule())})
	w.Script(`
		COMMAND foo => -ERR unknown subcommand 'foo'. Try COMMAND HELP.
		COMMAND COUNT x => -ERR wrong number of arguments for 'command|count' command
		COMMAND INFO mset nosuch => [["mset" :-3 [+write +denyoom] :1 :-1 :2 [+@string +@write +@slow] []
  [["flags" [+OW +update] "begin_search" ["type" "index" "spec" ["index" :1]] "find_keys" ["type" "range" "spec" ["lastkey" :-1 "keystep" :2 "limit" :0]]]] []] _]
  | [["mset" :-3 ~[+write +denyoom] :1 :-1 :2 ~[+@string +@write +@slow] ~[]
  ~[{"flags" ~[+OW +update] "begin_search" {"type" "index" "spec" {"index" :1}} "find_keys" {"type" "range" "spec" {"lastkey" :-1 "keystep" :2 "limit" :0}}}] ~[]] _]
		COMMAND INFO TIME config|get memory|usage => [["time" :1 [+fast] :0 :0 :0 [+@fast] [] [] []] ["config|get" :-3 [+admin] :0 :0 :0 [+@admin +@dangerous +@slow] [] [] []] ["memory|usage" :-3 [+readonly] :2 :2 :1 ...]]
  | [["time" :1 ~[+fast] ... ["memory|usage" :-3 ~[+readonly] :2 :2 :1 ...]]
		COMMAND INFO object => [["object" :-2 [] :0 :0 :0 [+@keyspace +@slow] [] [] [["object|encoding" :3 [+readonly] :2 :2 :1 ... ["object|help" :2 ...]]]]
  | [["object" :-2 ~[] ... ~[] ~[] [["object|encoding" :3 ... ["object|help" :2 ...]]]]
		COMMAND LIST FILTERBY MODULE othermodule => ["other.new"]
		COMMAND LIST FILTERBY MODULE kv => []
		COMMAND LIST FILTERBY ACLCAT Connection => ["command" "command|count" "command|list" "command|info" "command|docs" "command|getkeys" "command|getkeysandflags" "command|help" "echo" "ping"]
		COMMAND LIST FILTERBY ACLCAT nosuch => []
		COMMAND LIST FILTERBY PATTERN CONFIG* => ["config" "config|get" "config|set" "config|resetstat" "config|rewrite" "config|help"]
		COMMAND LIST FILTERBY PATTERN => -ERR syntax error
		COMMAND LIST FILTERBY FOO x => -ERR syntax error
		COMMAND LIST x => -ERR syntax error
		COMMAND GETKEYS GET => -ERR wrong number of arguments for 'command|getkeys' command
		COMMAND GETKEYS GET k => ["k"]
		COMMAND GETKEYS MSET a b c d => ["a" "c"]
		COMMAND GETKEYS MSET a b c => ["a" "c"]
		COMMAND GETKEYS DEL a b c => ["a" "b" "c"]
		COMMAND GETKEYS BF.MADD f x y => ["f"]
		COMMAND GETKEYS memory USAGE k => ["k"]
		COMMAND GETKEYS memory USAGE => -ERR Invalid number of arguments specified for command
		COMMAND GETKEYS memory nosuch => -ERR Invalid command specified
		COMMAND GETKEYS GET a b => -ERR Invalid number of arguments specified for command
		COMMAND GETKEYS CONFIG GET k => -ERR The command has no key arguments
		COMMAND GETKEYS nosuch x => -ERR Invalid command specified
		COMMAND GETKEYSANDFLAGS GET k => [["k" [+RO +access]]] | [["k" ~[+RO +access]]]
		COMMAND GETKEYSANDFLAGS SET k v => [["k" [+OW +update]]] | [["k" ~[+OW +update]]]
		COMMAND GETKEYSANDFLAGS SET k v NX get => [["k" [+RW +access +update]]] | [["k" ~[+RW +access +update]]]
		COMMAND GETKEYSANDFLAGS RENAME a b => [["a" [+RW +access +delete]] ["b" [+OW +update]]] | [["a" ~[+RW +access +delete]] ["b" ~[+OW +update]]]
		COMMAND GETKEYSANDFLAGS MEMORY USAGE k SAMPLES 0 => [["k" [+RO]]] | [["k" ~[+RO]]]
		COMMAND GETKEYSANDFLAGS MSET a b c d => [["a" [+OW +update]] ["c" [+OW +update]]] | [["a" ~[+OW +update]] ["c" ~[+OW +update]]]
		COMMAND DOCS nosuch => [] | {}
		COMMAND DOCS get => ["get" ["summary" "Answers the string under a key, nil if there is none." "since" "1.0.0" "group" "string" "complexity" "O(N) for a string of N bytes"
  "arguments" [["name" "key" "type" "key" "key_spec_index" :0]] "syntax" "GET key" "example" "SET user:1 ann\nGET user:1"]]
  | {"get" {"summary" "Answers the string under a key, nil if there is none." "since" "1.0.0" "group" "string" "complexity" "O(N) for a string of N bytes"
  "arguments" [{"name" "key" "type" "key" "key_spec_index" :0}] "syntax" "GET key" "example" "SET user:1 ann\nGET user:1"}}
		COMMAND DOCS bf.card => ["bf.card" [... "module" "bf" ...]] | {"bf.card" {... "module" "bf" ...}}
		COMMAND DOCS config => ["config" [... "subcommands" ["config|get" ["summary" ... "arguments" [["name" "pattern" "type" "pattern" "flags" [+multiple]]] "syntax" "CONFIG GET pattern [pattern ...]"] "config|set" ...]]
  | {"config" {... "subcommands" {"config|get" {"summary" ... "arguments" [{"name" "pattern" "type" "pattern" "flags" ~[+multiple]}] ...}} ...}}
		COMMAND HELP => [+COMMAND <subcommand> ...]
	`)
	if n, all := w.Do("COMMAND", "COUNT").Int(), len(w.Do("COMMAND").Elems()); int(n) != all || all != len(module.Of(w.DB).Commands()) {
		t.Errorf("COMMAND COUNT = %d, COMMAND has %d elements, want %d", n, all, len(module.Of(w.DB).Commands()))
	}
	if all, docs := len(w.Do("COMMAND", "INFO").Elems()), len(w.Do("COMMAND", "DOCS").Elems()); 2*all != docs {
		t.Errorf("COMMAND INFO has %d elements, COMMAND DOCS %d, want twice as many", all, docs)
	}
}

func TestTime(t *testing.T) {
	coretest.NewWorld(t, kv.Options{}).Script(`
		TIME x => -ERR wrong number of arguments for 'time' command
		TIME => ["1000000000" "0"]
		@pass 1500ms
		TIME => ["1000000001" "500000"]
	`)
}

func TestModuleList(t *testing.T) {
	m := module.Module{Name: "test", Version: 20301}
	coretest.NewWorld(t, kv.Options{Modules: coreext.With(m, coretest.OtherModule())}).Script(`
		MODULE => -ERR wrong number of arguments for 'module' command
		MODULE LOAD x => -ERR unknown subcommand 'LOAD'. Try MODULE HELP.
		MODULE LIST => [["name" "test" "ver" :20301 "path" "" "args" []]] | [{"name" "test" "ver" :20301 "path" "" "args" []}]
	`)
}

// Opening reports mistakes in subcommands like those in commands.
func TestOptions_subcommands(t *testing.T) {
	handler := func(*module.Call) reply.Reply { return reply.OK }
	sub := func(name string) module.Command {
		return module.Command{Name: name, Arity: 2, Summary: "S.", Handler: handler}
	}
	for name, tc := range map[string]struct {
		command module.Command
		want    string
	}{
		"twice":         {module.Command{Name: "A", Arity: -2, Summary: "A.", Subcommands: []module.Command{sub("b"), sub("B")}}, `subcommand "A|B" is registered twice`},
		"needs handler": {module.Command{Name: "A", Arity: -1, Summary: "A.", Subcommands: []module.Command{sub("B")}}, `command "A": needs a Handler`},
		"no arity":      {module.Command{Name: "A", Arity: -2, Summary: "A.", Subcommands: []module.Command{{Name: "B", Summary: "S.", Handler: handler}}}, `subcommand "A|B": needs`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := kv.Open("", &kv.Options{InMemory: true, Modules: coreext.With(module.Module{Name: "test", Commands: []module.Command{tc.command}})})
			if !errors.Is(err, kv.ErrOptions) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Open = %v, want ErrOptions with %q", err, tc.want)
			}
		})
	}
}

// The arguments of COMMAND DOCS, shown as redis-cli shows them in its hints, give the syntax that they were made
// from.
func TestCommandDocs_arguments(t *testing.T) {
	w := coretest.NewWorld(t, kv.Options{Modules: coreext.With(bloomext.Module(), syntaxes())})
	var missing []string
	var look func(docs []reply.Reply)
	look = func(docs []reply.Reply) {
		for i := 0; i < len(docs); i += 2 {
			fields := fieldsOf(docs[i+1])
			if subs, ok := fields["subcommands"]; ok {
				look(subs.Elems())
				continue
			}
			name, syntax, _ := strings.Cut(string(fields["syntax"].Bytes()), " ")
			if strings.Contains(string(docs[i].Bytes()), "|") {
				_, syntax, _ = strings.Cut(syntax, " ")
			}
			arguments, ok := fields["arguments"]
			if !ok && syntax != "" {
				missing = append(missing, name)
			}
			if got, want := hint(arguments.Elems(), " "), strings.ReplaceAll(syntax, " | ", "|"); ok && got != want {
				t.Errorf("%s: arguments read %s, want %s", name, got, want)
			}
		}
	}
	look(w.Do("COMMAND", "DOCS").Elems())
	if want := []string{"BITFIELD", "BITFIELD_RO", "S.DOTS", "S.OPEN", "S.OTHER"}; !slices.Equal(missing, want) {
		t.Errorf("no arguments for %q, want that of %q", missing, want)
	}
}

// syntaxes has commands with forms of syntax that no other command has.
func syntaxes() module.Module {
	m := module.Module{Name: "syntaxes"}
	for name, syntax := range map[string]string{
		"S.DOTS": "KILL ...", "S.OPEN": "a [b", "S.OTHER": "a [b ...]",
		"S.TOKENS": "[ON|OFF] LIB-NAME|LIB-VER text", "S.BLOCK": "[AUTH username password] [STORE k v [k v ...]]",
		"S.CHOICE": "[A a | B b c | C]", "S.NESTED": "[a [B [c [c ...]]]] d",
	} {
		m.Commands = append(m.Commands, module.Command{
			Name: name, Arity: 1, Summary: "S.", Syntax: syntax, Handler: func(*module.Call) reply.Reply { return reply.OK },
		})
	}
	return m
}

func fieldsOf(m reply.Reply) map[string]reply.Reply {
	fields := make(map[string]reply.Reply)
	for i, e := 0, m.Elems(); i < len(e); i += 2 {
		fields[string(e[i].Bytes())] = e[i+1]
	}
	return fields
}

// hint shows arguments as redis-cli 7 does.
func hint(arguments []reply.Reply, separator string) string {
	var shown []string
	for _, a := range arguments {
		fields := fieldsOf(a)
		text := string(fields["name"].Bytes())
		kind := string(fields["type"].Bytes())
		switch kind {
		case "pure-token":
			text = ""
		case "oneof":
			text = hint(fields["arguments"].Elems(), "|")
		case "block":
			text = hint(fields["arguments"].Elems(), " ")
		}
		token := string(fields["token"].Bytes())
		whole := token + text
		if token != "" && kind != "pure-token" {
			whole = token + " " + text
		}
		for _, flag := range fields["flags"].Elems() {
			if string(flag.Bytes()) == "multiple" {
				whole += " [" + text + " ...]"
			}
		}
		for _, flag := range fields["flags"].Elems() {
			if string(flag.Bytes()) == "optional" {
				whole = "[" + whole + "]"
			}
		}
		shown = append(shown, whole)
	}
	return strings.Join(shown, separator)
}

func TestObject(t *testing.T) {
	w := coretest.NewWorld(t, kv.Options{Modules: coreext.With(coretest.OtherModule())})
	w.Script(`
		MSET n 123 short abc empty "" longest 12345678901234567890123456789012345678901234 long 123456789012345678901234567890123456789012345 zeros 007 => +OK
		OTHER.NEW other => +OK
		OBJECT => -ERR wrong number of arguments for 'object' command
		OBJECT FOO n => -ERR unknown subcommand 'FOO'. Try OBJECT HELP.
		OBJECT ENCODING => -ERR wrong number of arguments for 'object|encoding' command
		OBJECT ENCODING n short => -ERR wrong number of arguments for 'object|encoding' command
		OBJECT ENCODING n => "int"
		OBJECT ENCODING short => "embstr"
		OBJECT ENCODING empty => "embstr"
		OBJECT ENCODING zeros => "embstr"
		OBJECT ENCODING longest => "embstr"
		OBJECT ENCODING long => "raw"
		OBJECT ENCODING other => "raw"
		OBJECT ENCODING missing => _
		OBJECT REFCOUNT n => :1
		OBJECT REFCOUNT missing => _
		OBJECT FREQ n => -ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.
		OBJECT FREQ missing => _
		OBJECT IDLETIME n => -ERR No maxmemory policy is selected, idle time not tracked.
		OBJECT IDLETIME missing => _
		PEXPIRE n 5 => :1
		@pass 10ms
		OBJECT ENCODING n => _
	`)
}

func TestMemory(t *testing.T) {
	w := coretest.NewWorld(t, kv.Options{Modules: coreext.With(bloomext.Module(), coretest.OtherModule())})
	w.Script(`
		SET k abc => +OK
		MEMORY => -ERR wrong number of arguments for 'memory' command
		MEMORY FOO => -ERR unknown subcommand 'FOO'. Try MEMORY HELP.
		MEMORY USAGE => -ERR wrong number of arguments for 'memory|usage' command
		MEMORY USAGE missing => _
		MEMORY USAGE k SAMPLES => -ERR syntax error
		MEMORY USAGE k SAMPLES x => -ERR value is not an integer or out of range
		MEMORY USAGE k SAMPLES -1 => -ERR syntax error
		MEMORY USAGE k SAMPLES 0 x => -ERR syntax error
		MEMORY USAGE k FOO 0 => -ERR syntax error
		MEMORY USAGE k SAMPLES 0 SAMPLES 1 => :...
		MEMORY HELP => [+MEMORY <subcommand> ...]
		OTHER.NEW other => +OK
		MEMORY USAGE other => :...
	`)
	usage := func(words ...string) int64 { return w.Do(append([]string{"MEMORY", "USAGE"}, words...)...).Int() }
	before := usage("k")
	w.Do("SET", "k", "abcd")
	if now := usage("k"); now != before+1 {
		t.Errorf("MEMORY USAGE of a longer string is %d, want %d", now, before+1)
	}
	w.Do("EXPIRE", "k", "60")
	if now := usage("k"); now <= before+1 {
		t.Errorf("MEMORY USAGE of a key that expires is %d, want more than %d", now, before+1)
	}
	// A filter of 126 full blocks: the measured ones are like the rest.
	w.Do("BF.RESERVE", "f", "0.01", "800000", "NONSCALING")
	empty := usage("f")
	f := bloomext.New(w.DB, "f")
	items, added := make([]uint64, 100_000), make([]bool, 100_000)
	for i := range items {
		items[i] = uint64(i)
	}
	if _, err := f.AddMany(scalableext.Uint64s(items...), added); err != nil {
		t.Fatal(err)
	}
	if err := w.DB.CompactTables(t.Context()); err != nil {
		t.Fatal(err)
	}
	all, info := usage("f", "SAMPLES", "0"), w.Do("BF.INFO", "f", "SIZE").RESP2().Elems()[0].Int()
	if empty > 200 || all < info/4 || all > info+info/50 {
		t.Errorf("MEMORY USAGE is %d of an empty filter, and then %d of %d bytes", empty, all, info)
	}
	for _, samples := range []string{"1", "20", "100", "125", "126", "127", "9223372036854775807"} {
		if n := usage("f", "SAMPLES", samples); n < all*9/10 || n > all*11/10 {
			t.Errorf("MEMORY USAGE with %s samples is %d, want about %d", samples, n, all)
		}
	}
	if n := usage("f", "SAMPLES", "126"); n != all {
		t.Errorf("MEMORY USAGE of all 126 blocks is %d, want %d", n, all)
	}
}

// In a transaction or a snapshot, the answer is for the key as seen there.
func TestMemory_transactions(t *testing.T) {
	w := coretest.NewWorld(t, kv.Options{Modules: coreext.With(bloomext.Module(), txn.Module())})
	w.Script(`
		BF.RESERVE f 0.01 1000 => +OK
		BF.MADD f a b c => [:1 :1 :1] | [#t #t #t]
		MEMORY USAGE f => :...
		MULTI => +OK
		MEMORY USAGE => -ERR wrong number of arguments for 'memory|usage' command
		EXEC => -EXECABORT Transaction discarded because of previous errors.
		MULTI => +OK
		MEMORY USAGE f => +QUEUED
		MEMORY USAGE g => +QUEUED
		EXEC => [:... _]
		MULTI => +OK
		SET g v => +QUEUED
		MEMORY USAGE g => +QUEUED
		DEL f => +QUEUED
		MEMORY USAGE f => +QUEUED
		OBJECT ENCODING g => +QUEUED
		EXEC => [+OK :... :1 _ "embstr"]
		BF.ADD f a => :1 | #t
		MULTI => +OK
		CONFIG SET nosuch 1 => +QUEUED
		TIME => +QUEUED
		EXEC => [-ERR Unknown option or number of arguments for CONFIG SET - 'nosuch' [...]]
	`)
}

// late is a context that ends after the first look at it.
type late struct {
	context.Context
	looks atomic.Int64
}

func (c *late) Err() error {
	if c.looks.Add(1) == 1 {
		return nil
	}
	return context.Canceled
}

// A long lookup of a key ends with its context.
func TestMemory_canceled(t *testing.T) {
	w := coretest.NewWorld(t, kv.Options{Modules: coreext.With(bloomext.Module())})
	w.Do("BF.MADD", "f", "a")
	if r := module.NewSession(w.DB).Do(&late{Context: t.Context()}, toWords("MEMORY", "USAGE", "f")); !strings.Contains(r.String(), "context canceled") {
		t.Errorf("MEMORY USAGE = %v, want that it was canceled", r)
	}
}
