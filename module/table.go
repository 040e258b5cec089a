package module

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sievekv/sievekv/internal/text"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module/reply"
)

// Table has the types, commands and settings that modules register. It needs no store, and never changes. Stores are
// opened with it, as kv.Options.Modules. If its modules have Services, a second store cannot be opened with it at the
// same time, because a Service works for one store.
type Table struct {
	modules  []Module
	commands map[string]*Command
	names    []string // of commands, sorted
	settings []Setting

	serving atomic.Bool // the services work for an open store

	described, documented sync.Map // of *Command: what Description and Documentation return
}

// hasServices reports whether a module has services that run.
func (t *Table) hasServices(run func(Service) bool) bool {
	return slices.ContainsFunc(t.modules, func(m Module) bool { return slices.ContainsFunc(m.Services, run) })
}

// New returns the table of modules. Their services start in the order given. Mistakes in the modules become errors of
// kv.Open.
func New(modules ...Module) *Table {
	t := &Table{modules: modules, commands: make(map[string]*Command)}
	for _, m := range modules {
		for i := range m.Commands {
			cmd := m.Commands[i].withSubcommands(m.Name)
			t.commands[text.FoldString(cmd.Name)] = cmd
			t.names = append(t.names, text.FoldString(cmd.Name))
		}
		t.settings = append(t.settings, m.Settings...)
	}
	slices.Sort(t.names)
	for i, cmd := range t.Commands() {
		cmd.number, cmd.lower = i, strings.ToLower(cmd.Name)
	}
	slices.SortFunc(t.settings, func(a, b Setting) int { return strings.Compare(a.Name, b.Name) })
	return t
}

// Modules returns the modules of kv.Options.Modules, none if its value is not a Table.
func Modules(of kv.Modules) []Module {
	if t, ok := of.(*Table); ok && t != nil {
		return slices.Clone(t.modules)
	}
	return nil
}

// Types returns the types of each module. The error says what is wrong with the modules: names registered twice, or
// commands and settings that lack something.
func (t *Table) Types() (map[string][]*kv.Type, error) {
	types := make(map[string][]*kv.Type)
	for _, m := range t.modules {
		types[m.Name] = m.Types
	}
	return types, t.validate()
}

// Attach returns a *Host for a store that is being opened.
func (t *Table) Attach(db *kv.DB) kv.Running { return newHost(t, db) }

// validate returns conflicts between the modules, and incomplete commands and settings.
func (t *Table) validate() error {
	var errs []error
	seen := make(map[string]bool)
	once := func(what, name string) {
		if len(name) < 1 || len(name) > 64 {
			errs = append(errs, fmt.Errorf("%s name %q: 1 to 64 bytes", what, name))
		}
		if seen[what+name] {
			errs = append(errs, fmt.Errorf("%s %q is registered twice", what, name))
		}
		seen[what+name] = true
	}
	for _, m := range t.modules {
		once("module", m.Name)
		for _, c := range m.Commands {
			once("command", text.FoldString(c.Name))
			errs = append(errs, validateCommand(&c, "command "+strconv.Quote(c.Name)))
			for _, sub := range c.Subcommands {
				once("subcommand", text.FoldString(c.Name+"|"+sub.Name))
				errs = append(errs, validateCommand(&sub, "subcommand "+strconv.Quote(c.Name+"|"+sub.Name)))
			}
		}
		for i := range m.Settings {
			once("setting", m.Settings[i].Name)
			if err := validateSetting(&m.Settings[i]); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

func validateCommand(c *Command, what string) error {
	needed := len(c.Subcommands) == 0 || c.Takes(1)
	if c.Handler == nil && needed || c.Arity == 0 || c.Summary == "" {
		return fmt.Errorf("%s: needs a Handler, an Arity other than 0 and a Summary", what)
	}
	return nil
}

// Modules returns the modules in the order given.
func (t *Table) Modules() []Module { return t.modules }

// Command returns the command with a name, in any case, nil if there is none.
func (t *Table) Command(name []byte) *Command {
	if c := t.commands[string(name)]; c != nil {
		return c // the name was in upper case
	}
	return t.commands[text.FoldCase(name)]
}

// Commands returns the commands, sorted by name, without subcommands.
func (t *Table) Commands() []*Command {
	list := make([]*Command, len(t.names))
	for i, name := range t.names {
		list[i] = t.commands[name]
	}
	return list
}

// Groups returns the sorted groups of the commands.
func (t *Table) Groups() []string {
	var groups []string
	for _, cmd := range t.commands {
		groups = append(groups, cmd.Group)
	}
	slices.Sort(groups)
	return slices.Compact(groups)
}

// Settings returns the settings that the modules register, sorted by name.
func (t *Table) Settings() []Setting { return slices.Clone(t.settings) }

// Refuse returns the error reply to words that call no command, or a command with a wrong number of words; ok is false
// for all other words. It needs no store. words has at least one word.
func (t *Table) Refuse(words [][]byte) (r reply.Reply, ok bool) {
	switch cmd, _ := t.Resolve(words); {
	case cmd == nil:
		return t.unknown(words), true
	case !cmd.Takes(len(words)) && cmd.Refusal != "":
		return reply.Error(cmd.Refusal), true
	case !cmd.Takes(len(words)):
		return WrongArity(cmd), true
	}
	return reply.Nil, false
}

// Resolve returns the command that words call, nil if there is none, and its arguments. words has at least one word.
func (t *Table) Resolve(words [][]byte) (cmd *Command, args [][]byte) {
	return t.Command(words[0]).resolve(words)
}

// resolve is Table.Resolve for the command that the first word names, nil if there is none.
func (c *Command) resolve(words [][]byte) (cmd *Command, args [][]byte) {
	if c == nil || len(c.Subcommands) == 0 || len(words) == 1 {
		return c, words[1:]
	}
	return c.subcommand(words[1]), words[2:]
}

// Named returns a command by the name that COMMAND uses, such as "get" or "config|get", nil if there is none.
func (t *Table) Named(name []byte) *Command {
	family, sub, found := strings.Cut(string(name), "|")
	cmd := t.Command([]byte(family))
	if cmd == nil || !found {
		return cmd
	}
	return cmd.subcommand([]byte(sub))
}

// Description returns Command.Describe of a command of the table. Making it takes time, so the table keeps it.
func (t *Table) Description(cmd *Command) reply.Reply {
	r, ok := t.described.Load(cmd)
	if !ok {
		r, _ = t.described.LoadOrStore(cmd, cmd.Describe())
	}
	return r.(reply.Reply)
}

// Documentation is Description for Command.Docs.
func (t *Table) Documentation(cmd *Command) reply.Pair {
	p, ok := t.documented.Load(cmd)
	if !ok {
		p, _ = t.documented.LoadOrStore(cmd, cmd.Docs())
	}
	return p.(reply.Pair)
}

// unknown returns the error for words that call no command.
func (t *Table) unknown(words [][]byte) reply.Reply {
	if family := t.Command(words[0]); family != nil {
		return reply.Errorf("ERR unknown subcommand '%.128s'. Try %s HELP.", words[1], family.Name)
	}
	return unknownCommand(words)
}
