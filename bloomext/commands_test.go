package bloomext_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/compaction"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/kv/block"
	"github.com/sievekv/sievekv/kv/reply"
)

// other is a type of another module, for keys of the wrong type.
var other = &kv.Type{Name: "other", Version: 1, Open: func(*kv.Object) (any, error) { return "other", nil }}

func otherModule() kv.Module {
	return kv.Module{Name: "othermodule", Types: []*kv.Type{other}, Commands: []kv.Command{{
		Name: "OTHER.NEW", Arity: 2, Flags: kv.Write | kv.ModuleFlag, FirstKey: 1, LastKey: 1, KeyStep: 1,
		Group: "other", Summary: "Makes a key of another type.", Syntax: "key", Handler: func(c *kv.Call) reply.Reply {
			w, err := c.DB.Begin(c.Level(), c.Args[0])
			if err != nil {
				return kv.ErrorReply(err)
			}
			if _, err := w.Create(c.Args[0], kv.Spec{Type: other, Family: block.FamilyBits}); err != nil {
				w.Discard()
				return kv.ErrorReply(err)
			}
			if err := w.Commit(); err != nil {
				return kv.ErrorReply(err)
			}
			return reply.OK
		},
	}}}
}

// script runs commands given a line each, "command => reply in text form on one
// line", with words split at blanks.
func script(t *testing.T, db *kv.DB, text string) {
	t.Helper()
	s := db.NewSession()
	for line := range strings.Lines(text) {
		command, want, ok := strings.Cut(strings.TrimSpace(line), " => ")
		if !ok {
			continue
		}
		var words [][]byte
		for _, w := range strings.Fields(command) {
			words = append(words, []byte(strings.Trim(w, `"`)))
		}
		r := s.Do(t.Context(), words)
		got := strings.Join(strings.Fields(string(reply.AppendText(nil, r))), " ")
		if got != want {
			t.Errorf("%s\n got %s\nwant %s", command, got, want)
		}
	}
}

func TestCommands(t *testing.T) {
	db := open(t, "", &kv.Options{InMemory: true, Modules: []kv.Module{bloomext.Module(), compaction.Module(), otherModule()}})
	defer closeDB(t, db)
	script(t, db, `
PING => PONG
ping hello => "hello"
PING a b => (error) ERR wrong number of arguments for 'ping' command
ECHO "" => ""
NOSUCH a b => (error) ERR unknown command 'NOSUCH', with args beginning with: 'a' 'b'

BF.RESERVE => (error) ERR wrong number of arguments for 'bf.reserve' command
BF.RESERVE f 0.01 => (error) ERR wrong number of arguments for 'bf.reserve' command
BF.RESERVE f 0.01 100 EXPANSION 1 NONSCALING x => (error) ERR wrong number of arguments for 'bf.reserve' command
BF.RESERVE f x 100 NONSCALING => (error) ERR bad error rate
BF.RESERVE f nan 100 NONSCALING => (error) ERR bad error rate
BF.RESERVE f 1_0e-2 100 NONSCALING => (error) ERR bad error rate
BF.RESERVE f 0 100 NONSCALING => (error) ERR error rate must be in the range (0.000000, 1.000000)
BF.RESERVE f 1 100 NONSCALING => (error) ERR error rate must be in the range (0.000000, 1.000000)
BF.RESERVE f inf 100 NONSCALING => (error) ERR error rate must be in the range (0.000000, 1.000000)
BF.RESERVE f 0.01 1e3 NONSCALING => (error) ERR bad capacity
BF.RESERVE f 0.01 010 NONSCALING => (error) ERR bad capacity
BF.RESERVE f 0.01 +5 NONSCALING => (error) ERR bad capacity
BF.RESERVE f 0.01 0 NONSCALING => (error) ERR capacity must be in the range [1, 1099511627776]
BF.RESERVE f 0.01 1099511627777 NONSCALING => (error) ERR capacity must be in the range [1, 1099511627776]
BF.RESERVE f 0.01 100 EXPANSION => (error) ERR no expansion
BF.RESERVE f 0.01 100 EXPANSION x => (error) ERR bad expansion
BF.RESERVE f 0.01 100 EXPANSION 32769 => (error) ERR expansion must be in the range [0, 32768]
BF.RESERVE f 0.01 100 EXPANSION -1 => (error) ERR expansion must be in the range [0, 32768]
BF.RESERVE f 0.01 100 NONSCALING EXPANSION 2 => (error) Nonscaling filters cannot expand
BF.RESERVE f 0.01 100 => (error) ERR filters that grow are not supported: add NONSCALING
BF.RESERVE f 0.01 1099511627776 NONSCALING => (error) ERR kv: too large: filter of 1373179625472 bytes, at most 68719476736 (Options.MaxFilterBytes)
BF.RESERVE f 1e-2 3 nonscaling => OK
bf.reserve f 0.01 100 NONSCALING => (error) ERR item exists
BF.RESERVE g 0x1p-3 10 EXPANSION 0 => OK
BF.RESERVE NONSCALING .5 10 NONSCALING => OK

BF.ADD missing x => (error) ERR not found: BF.RESERVE key error_rate capacity NONSCALING makes the filter
BF.ADD f a => (integer) 1
BF.ADD f a => (integer) 0
BF.MADD f a b b c d e => 1) (integer) 0 2) (integer) 1 3) (integer) 0 4) (integer) 1 5) (error) ERR non scaling filter is full
BF.ADD f b => (integer) 0
BF.ADD f z => (error) ERR non scaling filter is full
BF.ADD f => (error) ERR wrong number of arguments for 'bf.add' command
BF.EXISTS f a => (integer) 1
BF.EXISTS f z => (integer) 0
BF.EXISTS missing a => (integer) 0
BF.MEXISTS f a z c => 1) (integer) 1 2) (integer) 0 3) (integer) 1
BF.MEXISTS missing a z => 1) (integer) 0 2) (integer) 0
BF.CARD f => (integer) 3
BF.CARD missing => (integer) 0
BF.INFO f => 1) "Capacity" 2) (integer) 3 3) "Size" 4) (integer) 64 5) "Number of filters" 6) (integer) 1 7) "Number of items inserted" 8) (integer) 3 9) "Expansion rate" 10) (nil)
BF.INFO f capacity => 1) (integer) 3
BF.INFO f SIZE => 1) (integer) 64
BF.INFO f FILTERS => 1) (integer) 1
BF.INFO f ITEMS => 1) (integer) 3
BF.INFO f EXPANSION => 1) (nil)
BF.INFO f other => (error) Invalid information value
BF.INFO missing => (error) ERR not found
BF.INFO f a b => (error) ERR wrong number of arguments for 'bf.info' command

OTHER.NEW o => OK
TYPE o => other
BF.ADD o x => (error) WRONGTYPE Operation against a key holding the wrong kind of value
BF.MADD o x => (error) WRONGTYPE Operation against a key holding the wrong kind of value
BF.EXISTS o x => (integer) 0
BF.MEXISTS o x => 1) (integer) 0
BF.CARD o => (error) WRONGTYPE Operation against a key holding the wrong kind of value
BF.INFO o => (error) WRONGTYPE Operation against a key holding the wrong kind of value
BF.RESERVE o 0.01 10 NONSCALING => (error) WRONGTYPE Operation against a key holding the wrong kind of value

TYPE f => MBbloom--
TYPE missing => none
EXISTS f f missing => (integer) 2
DBSIZE => (integer) 4
RENAME missing x => (error) ERR no such key
RENAME f f => OK
RENAME f h => OK
EXISTS f => (integer) 0
BF.EXISTS h a => (integer) 1
RENAME h o => OK
TYPE o => MBbloom--
DBSIZE => (integer) 3
DEL o g g missing => (integer) 2
BF.EXISTS o a => (integer) 0
DBSIZE => (integer) 1
FLUSHALL NOW => (error) ERR syntax error
FLUSHALL async => OK
DBSIZE => (integer) 0
BF.RESERVE f 0.01 3 NONSCALING => OK
BF.EXISTS f a => (integer) 0
BF.CARD f => (integer) 0
COMMAND COUNT => (integer) 18
COMMAND INFO nosuch bf.add => 1) (nil) 2) 1) "bf.add" 2) (integer) 3 3) 1) write 2) denyoom 3) fast 4) module 4) (integer) 1 5) (integer) 1 6) (integer) 1 7) 1) @bloom 8) (empty array) 9) (empty array) 10) (empty array)
COMMAND NOPE => (error) ERR unknown subcommand or wrong number of arguments for 'NOPE'. Try COMMAND COUNT, LIST, INFO or DOCS.
`)
}

// Every command of the table has what help is made of, and its example runs.
func TestCommands_examples(t *testing.T) {
	db := open(t, "", &kv.Options{InMemory: true, Modules: []kv.Module{bloomext.Module()}})
	defer closeDB(t, db)
	s := db.NewSession()
	run := func(line string) reply.Reply {
		var words [][]byte
		for _, w := range strings.Fields(line) {
			words = append(words, []byte(w))
		}
		return s.Do(t.Context(), words)
	}
	for _, cmd := range db.Commands() {
		if cmd.Group == "" || cmd.Complexity == "" || !strings.HasPrefix(cmd.Example, cmd.Name) {
			t.Errorf("%s: group %q, complexity %q, example %q", cmd.Name, cmd.Group, cmd.Complexity, cmd.Example)
		}
		if cmd.Name != "BF.RESERVE" {
			run("BF.RESERVE seen 0.01 100 NONSCALING")
		} else {
			run("DEL seen")
		}
		if r := run(cmd.Example); r.IsError() {
			t.Errorf("%s: %v", cmd.Example, r)
		}
	}
}

// A store opened without a module still names, moves and removes its keys.
func TestModule_missing(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir, &kv.Options{BallastSize: -1, Modules: []kv.Module{bloomext.Module(), otherModule()}})
	script(t, db, "OTHER.NEW o => OK\nBF.RESERVE f 0.01 10 NONSCALING => OK")
	closeDB(t, db)
	db = open(t, dir, &kv.Options{BallastSize: -1})
	defer closeDB(t, db)
	script(t, db, `
TYPE o => other
BF.ADD o x => (error) ERR kv: module not registered: "o" holds a other of module "othermodule"
RENAME o p => OK
TYPE p => other
DEL p => (integer) 1
TYPE p => none
`)
	report, err := db.Check(t.Context())
	if err != nil || len(report.Problems) > 0 {
		t.Errorf("Check = %+v, %v", report, err)
	}
}

func TestInfo_sections(t *testing.T) {
	db := open(t, "", &kv.Options{InMemory: true, Modules: []kv.Module{compaction.Module(), bloomext.Module()}})
	defer closeDB(t, db)
	s := db.NewSession()
	all := string(s.Do(t.Context(), [][]byte{[]byte("INFO")}).Bytes())
	for _, name := range []string{"Store", "Cache", "Durability", "Pebble", "Compaction"} {
		one := string(s.Do(t.Context(), [][]byte{[]byte("INFO"), []byte(strings.ToLower(name))}).Bytes())
		if !strings.Contains(all, "# "+name+"\r\n") || !strings.HasPrefix(one, fmt.Sprintf("# %s\r\n", name)) {
			t.Errorf("INFO has no section %s: %q", name, one)
		}
	}
}
