// Package coreext has the built-in commands: on keys and strings, on the connection, the server and its settings, and
// the store's own SIEVE commands. If Redis has a command, its replies and errors are Redis's.
package coreext

import (
	"slices"

	"github.com/sievekv/sievekv/bitmapext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// Module returns the built-in module, for module.New.
func Module() module.Module {
	return module.Module{
		Name: "kv", Types: []*kv.Type{bitmapext.Type()}, Settings: settings(), Commands: slices.Concat(
			connectionCommands(), serverCommands(), objectCommands(), sieveCommands(), stringCommands(), bitmapext.Commands(),
			keyCommands(),
		),
	}
}

// With returns a table of the built-in module and others, for kv.Options.Modules.
func With(others ...module.Module) *module.Table { return Add(nil, others...) }

// Add returns a table of the modules in kv.Options.Modules and others after them. If the built-in module is not among
// them, it comes first.
func Add(modules kv.Modules, others ...module.Module) *module.Table {
	all := module.Modules(modules)
	if own := Module(); !slices.ContainsFunc(all, func(m module.Module) bool { return m.Name == own.Name }) {
		all = slices.Insert(all, 0, own)
	}
	return module.New(append(all, others...)...)
}

type handler = func(*module.Call) reply.Reply

// rowsOf returns a function that makes the table entries of a group of commands on one key.
func rowsOf(group string) func(name string, arity int, flags module.Flags, syntax, summary, complexity, example string, f handler) module.Command {
	return func(name string, arity int, flags module.Flags, syntax, summary, complexity, example string, f handler) module.Command {
		return module.Command{
			Name: name, Arity: arity, Flags: flags, FirstKey: 1, LastKey: 1, KeyStep: 1, Group: group,
			Summary: summary, Syntax: syntax, Complexity: complexity, Example: example, Handler: f,
		}
	}
}

var errSyntax = reply.Error("ERR syntax error")
