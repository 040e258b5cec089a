package bloomext_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/compaction"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/internal/coretest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// script runs commands, one in each line: "command => reply in text form on one line", with words split at blanks. A
// line that begins with two blanks continues the one before.
func script(t *testing.T, db *kv.DB, text string) {
	t.Helper()
	s := module.NewSession(db)
	for line := range strings.Lines(strings.ReplaceAll(text, "\n  ", " ")) {
		command, want, ok := strings.Cut(strings.TrimSpace(line), " => ")
		if !ok {
			continue
		}
		r := s.Do(t.Context(), words(command))
		got := strings.Join(strings.Fields(string(reply.AppendText(nil, r))), " ")
		if got != want {
			t.Errorf("%s\n got %s\nwant %s", command, got, want)
		}
	}
}

// The built-in commands, on keys of this module.
func TestCommands(t *testing.T) {
	modules := []module.Module{bloomext.Module(), compaction.Module(), coretest.OtherModule()}
	db := open(t, "", &kv.Options{InMemory: true, Modules: coreext.With(modules...)})
	defer closeDB(t, db)
	script(t, db, `
PING => PONG
ping hello => "hello"
PING a b => (error) ERR wrong number of arguments for 'ping' command
ECHO hello => "hello"
NOSUCH a b => (error) ERR unknown command 'NOSUCH', with args beginning with: 'a' 'b'

BF.MADD f a b => 1) (integer) 1 2) (integer) 1
BF.ADD g x => (integer) 1
OTHER.NEW o => OK
TYPE f => MBbloom--
TYPE o => other
TYPE missing => none
EXISTS f f missing => (integer) 2
DBSIZE => (integer) 3
RENAME missing x => (error) ERR no such key
RENAME f f => OK
RENAME f h => OK
EXISTS f => (integer) 0
BF.EXISTS h a => (integer) 1
RENAME h o => OK
TYPE o => MBbloom--
BF.MEXISTS o a b z => 1) (integer) 1 2) (integer) 1 3) (integer) 0
DBSIZE => (integer) 2
DEL o g g missing => (integer) 2
BF.EXISTS o a => (integer) 0
DBSIZE => (integer) 0
BF.ADD g x => (integer) 1
FLUSHALL NOW => (error) ERR syntax error
FLUSHALL async => OK
DBSIZE => (integer) 0
BF.EXISTS g x => (integer) 0
COMMAND INFO nosuch bf.add => 1) (nil)
  2) 1) "bf.add" 2) (integer) 3 3) 1) write 2) denyoom 3) fast 4) module 4) (integer) 1 5) (integer) 1 6) (integer) 1
  7) 1) @bloom 2) @write 3) @fast 8) (empty array) 9) 1) 1) "flags" 2) 1) RW 2) access 3) update
  3) "begin_search" 4) 1) "type" 2) "index" 3) "spec" 4) 1) "index" 2) (integer) 1
  5) "find_keys" 6) 1) "type" 2) "range" 3) "spec" 4) 1) "lastkey" 2) (integer) 0 3) "keystep" 4) (integer) 1
  5) "limit" 6) (integer) 0 10) (empty array)
COMMAND NOPE => (error) ERR unknown subcommand 'NOPE'. Try COMMAND HELP.
`)
	s := module.NewSession(db)
	count, list := s.Do(t.Context(), words("COMMAND COUNT")), s.Do(t.Context(), words("COMMAND LIST"))
	n, withSubcommands := 0, 0
	for _, c := range module.Of(db).Commands() {
		n++
		withSubcommands += 1 + len(c.Subcommands)
	}
	if count.Int() != int64(n) || len(list.Elems()) != withSubcommands {
		t.Errorf("COMMAND COUNT = %v and COMMAND LIST has %d names, want %d and %d", count, len(list.Elems()), n, withSubcommands)
	}
}

// words splits a command line at blanks. A word may be in quotes.
func words(line string) (list [][]byte) {
	for _, w := range strings.Fields(line) {
		if quoted, err := strconv.Unquote(w); err == nil {
			w = quoted
		}
		list = append(list, []byte(w))
	}
	return list
}

// Every command of the table has what help needs, and its example runs in an empty store.
func TestCommands_examples(t *testing.T) {
	db := open(t, "", &kv.Options{InMemory: true, Modules: coreext.With(bloomext.Module())})
	defer closeDB(t, db)
	s := module.NewSession(db)
	run := func(line string) {
		t.Helper()
		r := s.Do(t.Context(), words(line))
		for _, e := range append(r.Elems(), r) {
			if e.IsError() {
				t.Errorf("%s: %v", line, r)
			}
		}
	}
	for _, cmd := range module.Of(db).Commands() {
		lines := strings.Split(cmd.Example, "\n")
		if cmd.Group == "" || cmd.Complexity == "" || !strings.HasPrefix(lines[len(lines)-1], cmd.Name) {
			t.Errorf("%s: group %q, complexity %q, example %q", cmd.Name, cmd.Group, cmd.Complexity, cmd.Example)
		}
		if cmd.Name == "SIEVE.BACKUP" {
			continue // its example is refused: it would leave a directory
		}
		run("FLUSHALL")
		for _, line := range lines {
			run(line)
		}
	}
}

// A store opened without a module can still list, rename and remove its keys.
func TestModule_missing(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir, &kv.Options{BallastSize: -1, Modules: coreext.With(bloomext.Module(), coretest.OtherModule())})
	script(t, db, "OTHER.NEW o => OK\nBF.RESERVE f 0.01 10 NONSCALING => OK")
	closeDB(t, db)
	db = open(t, dir, &kv.Options{BallastSize: -1})
	defer closeDB(t, db)
	script(t, db, `
TYPE o => other
BF.ADD o x => (error) ERR module not registered: "o" holds a other of module "othermodule"
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
	db := open(t, "", &kv.Options{InMemory: true, Modules: coreext.With(compaction.Module(), bloomext.Module())})
	defer closeDB(t, db)
	s := module.NewSession(db)
	all := string(s.Do(t.Context(), words("INFO")).Bytes())
	for _, name := range []string{"Store", "Cache", "Durability", "Pebble", "Compaction"} {
		one := string(s.Do(t.Context(), words("INFO "+strings.ToLower(name))).Bytes())
		if !strings.Contains(all, "# "+name+"\r\n") || !strings.HasPrefix(one, fmt.Sprintf("# %s\r\n", name)) {
			t.Errorf("INFO has no section %s: %q", name, one)
		}
	}
}
