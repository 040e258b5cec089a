package prompt

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/server"
)

func TestMissingOf(t *testing.T) {
	const (
		reserve = "key error_rate capacity [EXPANSION e] [NONSCALING]"
		insert  = "key [CAPACITY n] [NOCREATE] ITEMS item [item ...]"
		set     = "key value [NX | XX] [GET] [EX seconds | PX milliseconds | KEEPTTL]"
		table   = "[COUNT | LIST | INFO [name [name ...]]]"
		zadd    = "numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM|MIN]"
		pairs   = "key value [key value ...]"
		stats   = "[key [key ...] | LIMIT count]"
	)
	for _, tt := range []struct{ syntax, typed, want string }{
		{reserve, "", reserve},
		{reserve, "k", "error_rate capacity [EXPANSION e] [NONSCALING]"},
		{reserve, "k 0.01 100", "[EXPANSION e] [NONSCALING]"},
		{reserve, "k 0.01 100 expansion", "e [NONSCALING]"},
		{reserve, "k 0.01 100 expansion 2", "[NONSCALING]"},
		{reserve, "k 0.01 100 NONSCALING", "[EXPANSION e]"},
		{reserve, "k 0.01 100 NONSCALING EXPANSION 2", ""},
		{reserve, "k 0.01 100 NOSUCH", ""},
		{reserve, "EXPANSION", "error_rate capacity [EXPANSION e] [NONSCALING]"}, // a key
		{insert, "k", "[CAPACITY n] [NOCREATE] ITEMS item [item ...]"},
		{insert, "k capacity", "n [NOCREATE] ITEMS item [item ...]"},
		{insert, "k CAPACITY ITEMS", "[NOCREATE] ITEMS item [item ...]"},
		{insert, "k ITEMS", "item [item ...] [CAPACITY n] [NOCREATE]"},
		{insert, "k NOCREATE CAPACITY 5 ITEMS a", "[item ...]"},
		{insert, "k NOCREATE CAPACITY 5 ITEMS a b c", "[item ...]"},
		{set, "k", "value [NX|XX] [GET] [EX seconds | PX milliseconds | KEEPTTL]"},
		{set, "k v xx", "[GET] [EX seconds | PX milliseconds | KEEPTTL]"},
		{set, "k v GET EX", "seconds [NX|XX]"},
		{set, "k v KEEPTTL", "[NX|XX] [GET]"},
		{table, "", "[COUNT | LIST | INFO [name [name ...]]]"},
		{table, "INFO", "[name [name ...]]"},
		{table, "INFO a", "[name ...]"},
		{table, "LIST", ""},
		{table, "LIST x", ""},
		{zadd, "1 a", "[key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM|MIN]"},
		{zadd, "2 a b WEIGHTS", "weight [weight ...] [AGGREGATE SUM|MIN]"},
		{zadd, "2 a b WEIGHTS 1 2 AGGREGATE", "SUM|MIN"},
		{zadd, "2 a b AGGREGATE MIN", "[WEIGHTS weight [weight ...]]"},
		{pairs, "a", "value [key value ...]"},
		{pairs, "a 1", "[key value ...]"},
		{pairs, "a 1 b", "value [key value ...]"},
		{stats, "", "[key [key ...] | LIMIT count]"},
		{stats, "LIMIT", "count"},
		{stats, "k", "[key ...]"},
		{"[message]", "", "[message]"},
		{"[message]", "x", ""},
		{"[message]", "x y", ""},
		{"", "", ""},
	} {
		if got := missingOf(&module.Command{Syntax: tt.syntax}, strings.Fields(tt.typed)); got != tt.want {
			t.Errorf("%s after %q: %q, want %q", tt.syntax, tt.typed, got, tt.want)
		}
	}
}

// Commands of Redis have options that may be given several times, each time with their token.
func TestMatchAll_repeatedToken(t *testing.T) {
	list := []module.Argument{{Name: "key", Kind: "key"}, {Name: "pattern", Kind: "pattern", Token: "GET", Optional: true, MultipleToken: true}}
	for typed, want := range map[string]string{
		"": "key [GET pattern [GET pattern ...]]", "k": "[GET pattern [GET pattern ...]]", "k get": "pattern [GET pattern ...]",
		"k GET a": "[GET pattern ...]", "k GET a GET": "pattern [GET pattern ...]", "k GET a GET b": "[GET pattern ...]", "k GET a b": " left b",
	} {
		missing, left := matchAll(list, strings.Fields(typed))
		got := strings.Join(missing, " ")
		if len(left) > 0 {
			got += " left " + strings.Join(left, " ")
		}
		if got != want {
			t.Errorf("after %q: %q, want %q", typed, got, want)
		}
	}
}

// Without any word, what is missing is the whole syntax.
func TestMissingOf_commands(t *testing.T) {
	plain := strings.NewReplacer(" ", "")
	for _, c := range module.New(append(sievekv.Modules(), server.Module())...).Commands() {
		if len(c.Subcommands) > 0 {
			continue
		}
		if got := missingOf(c, nil); plain.Replace(got) != plain.Replace(c.Syntax) {
			t.Errorf("%s: %q, want %q", c.Name, got, c.Syntax)
		}
	}
}

func TestCompleter_Hint(t *testing.T) {
	own := func() []*cobra.Command {
		load := &cobra.Command{Use: "load KEY FILE|- [-o OUT] [flags]"}
		load.Flags().StringP("out", "o", "", "append to `OUT`")
		load.Flags().Bool("replace", false, "")
		plan := &cobra.Command{Use: "plan --capacity N --error P [flags]"}
		plan.Flags().String("capacity", "", "for `N` items")
		return []*cobra.Command{load, plan, {Use: "stats [KEY | --filters] [flags]"}, {Use: "exit"}}
	}
	table := module.New(append(sievekv.Modules(), server.Module())...)
	c := &Completer{Known: func() *module.Table { return table }, Own: own}
	for line, want := range map[string]string{
		"": "", " ": "", "BF.AD": "", "nosuch ": "",
		"BF.ADD":             " key item",
		"bf.add ":            "key item",
		"BF.ADD k":           " item",
		"BF.ADD k ":          "item",
		"BF.ADD k x":         "",
		"BF.ADD k x y":       "",
		`BF.ADD "a b`:        " item",
		`BF.ADD "a b" `:      "item",
		`BF.ADD "a"b `:       "",
		"-- BF.ADD k ":       "item",
		"-- ":                "",
		"client":             " " + strings.Join(nextWords(table.Command([]byte("CLIENT")), nil), "|"),
		"client no-evict ":   "ON|OFF",
		"client nosuch ":     "",
		"load ":              "KEY FILE|- [-o OUT] [flags]",
		"load k":             " FILE|- [-o OUT] [flags]",
		"load k -o ":         "OUT FILE|- [flags]",
		"load -o x k f":      " [flags]",
		"load --replace ":    "KEY FILE|- [-o OUT] [flags]",
		"load k f x":         "",
		"plan":               " --capacity N --error P [flags]",
		"plan --capacity ":   "N --error P [flags]",
		"plan --capacity=1 ": "--error P [flags]",
		"stats ":             "[KEY | --filters] [flags]",
		"stats k ":           "[flags]",
		"exit":               "",
	} {
		if got := c.Hint(line); got != want {
			t.Errorf("%q has the hint %q, want %q", line, got, want)
		}
	}
	c.Known = func() *module.Table { return nil } // not known yet
	if got := c.Hint("BF.ADD "); got != "" {
		t.Errorf("without a table the hint is %q", got)
	}
}
