package module

import (
	"slices"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/module/reply"
)

// ReadTable reads back what a table says about its commands.
func TestReadTable_own(t *testing.T) {
	handler := func(*Call) reply.Reply { return reply.OK }
	own := New(Module{Name: "m", Commands: []Command{
		{Name: "GET", Arity: 2, Flags: ReadOnly | Fast, FirstKey: 1, LastKey: 1, KeyStep: 1, Group: "string", Summary: "Gets.", Syntax: "key", Complexity: "O(1)", Example: "GET k", Handler: handler},
		{Name: "SET", Arity: -3, Flags: Write, FirstKey: 1, LastKey: 1, KeyStep: 1, Group: "string", Summary: "Sets.", Syntax: "key value [NX | XX] [EX seconds | KEEPTTL]", Handler: handler},
		{Name: "DEL", Arity: -2, Group: "generic", Summary: "Deletes.", Syntax: "key [key ...]", FirstKey: 1, LastKey: -1, KeyStep: 1, Handler: handler},
		{Name: "CONFIG", Arity: -2, Group: "server", Summary: "Settings.", Subcommands: []Command{
			{Name: "GET", Arity: -3, Summary: "Gets.", Syntax: "pattern [pattern ...]", Handler: handler},
			{Name: "REWRITE", Arity: 2, Summary: "Rewrites.", Handler: handler},
		}},
	}})
	var entries []reply.Reply
	var docs []reply.Pair
	for _, cmd := range own.Commands() {
		entries, docs = append(entries, cmd.Describe()), append(docs, cmd.Docs())
	}
	read := ReadTable(reply.Array(entries...), reply.Map(docs...))
	if got, want := len(read.Commands()), len(own.Commands()); got != want {
		t.Fatalf("%d commands, want %d", got, want)
	}
	for _, want := range own.Commands() {
		got := read.Command([]byte(strings.ToLower(want.Name)))
		if got == nil {
			t.Errorf("no %s", want.Name)
			continue
		}
		if got.Usage() != want.Usage() || got.Summary != want.Summary || got.Group != want.Group || got.Complexity != want.Complexity ||
			got.Example != want.Example || got.Arity != want.Arity || got.Flags != want.Flags ||
			got.FirstKey != want.FirstKey || got.LastKey != want.LastKey || got.KeyStep != want.KeyStep {
			t.Errorf("%s: %+v, want %+v", want.Name, got, want)
		}
		if got, want := alternatives(got), alternatives(want); got != want {
			t.Errorf("%s has the arguments %s", got, want)
		}
	}
}

// alternatives returns the arguments of a command as text, with alternatives sorted.
func alternatives(cmd *Command) string {
	parts := strings.Split(argumentTexts(cmd.Arguments(), " "), "|")
	slices.Sort(parts)
	return strings.Join(parts, "|")
}
