package module

import (
	"slices"
	"strings"

	"github.com/sievekv/sievekv/internal/text"
	"github.com/sievekv/sievekv/module/reply"
)

// A command such as CONFIG is a family: its second word names a subcommand. The subcommand has an entry of its own,
// such as CONFIG|GET. Transactions queue that name, arity errors show it, and COMMAND lists it.

// withSubcommands completes a command as registered by a module: it adds the subcommand HELP, full names, and the
// syntax of the family.
func (c Command) withSubcommands(module string) *Command {
	c.module = module
	if len(c.Subcommands) == 0 {
		return &c
	}
	c.Subcommands = slices.Clone(c.Subcommands)
	own := slices.ContainsFunc(c.Subcommands, func(s Command) bool { return s.Name == "HELP" })
	if !own {
		c.Subcommands = append(c.Subcommands, Command{
			Name: "HELP", Arity: 2, Flags: c.Flags & ModuleFlag,
			Summary: "Lists the subcommands.", Handler: help(c),
		})
	}
	var forms []string
	for i := range c.Subcommands {
		s := &c.Subcommands[i]
		forms = append(forms, s.Usage())
		s.Name, s.Group, s.module = c.Name+"|"+s.Name, c.Group, module
		if s.Categories == nil {
			s.Categories = c.Categories
		}
		if s.Complexity == "" {
			s.Complexity = c.Complexity
		}
	}
	if c.Syntax == "" {
		c.Syntax = strings.Join(forms, " | ")
		if c.Takes(1) {
			c.Syntax = "[" + c.Syntax + "]"
		}
	}
	return &c
}

// Usage returns what users type: the name and the Syntax.
func (c *Command) Usage() string { return strings.TrimSpace(c.Name + " " + c.Syntax) }

// help returns a handler that lists the subcommands of a family in the format of Redis.
func help(family Command) func(*Call) reply.Reply {
	lines := []reply.Reply{reply.Status(family.Name + " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:")}
	add := func(usage, summary string) {
		lines = append(lines, reply.Status(usage), reply.Status("    "+summary))
	}
	for _, s := range family.Subcommands {
		add(s.Usage(), s.Summary)
	}
	add("HELP", "Prints this help.")
	return func(*Call) reply.Reply { return reply.Array(lines...) }
}

// subcommand returns the subcommand with a name, nil if there is none.
func (c *Command) subcommand(word []byte) *Command {
	name := c.Name + "|" + text.FoldCase(word)
	for i := range c.Subcommands {
		if c.Subcommands[i].Name == name {
			return &c.Subcommands[i]
		}
	}
	return nil
}
