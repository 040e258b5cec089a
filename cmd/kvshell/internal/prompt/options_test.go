package prompt

import (
	"slices"
	"strings"
	"testing"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/server"
)

func TestNextWords(t *testing.T) {
	const (
		reserve = "key error_rate capacity [EXPANSION e] [NONSCALING]"
		insert  = "key [CAPACITY n] [NOCREATE] ITEMS item [item ...]"
		set     = "key value [NX | XX] [GET] [EX seconds | PX milliseconds | KEEPTTL]"
		table   = "[COUNT | LIST | INFO [name [name ...]] | DOCS [name [name ...]]]"
		config  = "GET parameter [parameter ...] | HELP | RESETSTAT | REWRITE | SET parameter value [parameter value ...]"
		zadd    = "numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM | MIN]"
	)
	tests := []struct {
		syntax, typed string
		want          string
	}{
		{reserve, "", ""},
		{reserve, "k 0.01", ""},
		{reserve, "k 0.01 100", "EXPANSION NONSCALING"},
		{reserve, "k 0.01 100 expansion", ""}, // its value
		{reserve, "k 0.01 100 expansion 2", "NONSCALING"},
		{reserve, "k 0.01 100 NONSCALING EXPANSION 2", ""},
		{reserve, "NONSCALING NONSCALING NONSCALING", "EXPANSION NONSCALING"}, // a key, and so on
		{insert, "k", "CAPACITY NOCREATE ITEMS"},
		{insert, "k NOCREATE", "CAPACITY ITEMS"},
		{insert, "k CAPACITY ITEMS", "NOCREATE ITEMS"}, // a value, whatever it looks like
		{insert, "k ITEMS", ""},
		{insert, "k ITEMS a b", ""},
		{set, "k v", "NX XX GET EX PX KEEPTTL"},
		{set, "k v XX", "GET EX PX KEEPTTL"},
		{set, "k v EX 5", "NX XX GET"},
		{table, "", "COUNT LIST INFO DOCS"},
		{table, "LIST", ""},
		{table, "INFO a", ""},
		{config, "GET", ""},
		{zadd, "1 k", "WEIGHTS AGGREGATE SUM MIN"},
		{"key [key ...]", "a b", ""},
		{"", "", ""},
	}
	for _, tt := range tests {
		got := nextWords(&module.Command{Syntax: tt.syntax}, strings.Fields(tt.typed))
		if !slices.Equal(got, strings.Fields(tt.want)) {
			t.Errorf("%s after %q: %q, want %q", tt.syntax, tt.typed, got, tt.want)
		}
	}
}

// The second word of a command with subcommands is one of theirs, and the words after it are the subcommand's.
func TestNextWords_subcommands(t *testing.T) {
	client := module.New(server.Module()).Command([]byte("CLIENT"))
	for typed, want := range map[string]string{"LIST": "TYPE ID", "list TYPE normal": "ID", "GETNAME": "", "NOSUCH": ""} {
		if got := nextWords(client, strings.Fields(typed)); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("after CLIENT %s: %q, want %q", typed, got, want)
		}
	}
	if got := nextWords(client, nil); len(got) != len(client.Subcommands) || !slices.Contains(got, "LIST") {
		t.Errorf("after CLIENT: %q", got)
	}
}

// Every option of the command table is a word, and a syntax without any has as many words as the arity says.
func TestOptionsOf_commands(t *testing.T) {
	for _, c := range module.New(sievekv.Modules()...).Commands() {
		o := optionsOf(c.Arguments())
		for _, option := range o.list {
			if strings.Trim(option.word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") != "" {
				t.Errorf("%s has the option %q", c.Name, option.word)
			}
		}
		if c.Arity > 0 && len(o.list) == 0 && o.leading != c.Arity-1 {
			t.Errorf("%s: %d words in %q, but its arity is %d", c.Name, o.leading, c.Syntax, c.Arity)
		}
	}
}
