package coreext

import (
	"bytes"
	"strings"

	"github.com/sievekv/sievekv/internal/text"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// commandCommand is COMMAND, with which clients read the command table. Its replies have Redis' form.
func commandCommand() module.Command {
	const perCommand = "O(N) for N commands"
	return module.Command{
		Name: "COMMAND", Arity: -1, Group: "server", Categories: []string{"connection"}, Summary: "Answers the command table, or a part of it.",
		Complexity: perCommand, Example: "COMMAND GETKEYS MSET user:1 ann user:2 bob",
		Handler: func(c *module.Call) reply.Reply { return describeAll(c, c.Host.Commands()) },
		Subcommands: []module.Command{
			{Name: "COUNT", Arity: 2, Summary: "Answers the number of commands.", Complexity: "O(1)", Handler: countCommands},
			{
				Name: "LIST", Arity: -2, Syntax: "[FILTERBY MODULE|ACLCAT|PATTERN value]",
				Summary: "Answers the names of all commands, or of those in a module or category, or that match a pattern.",
				Handler: listCommands,
			},
			{
				Name: "INFO", Arity: -2, Syntax: "[name [name ...]]",
				Summary: "Answers the arity, the flags and the positions of keys of commands, of all if none is named.", Handler: commandInfo,
			},
			{
				Name: "DOCS", Arity: -2, Syntax: "[name [name ...]]",
				Summary: "Answers the documentation of commands, of all if none is named.", Handler: commandDocs,
			},
			{
				Name: "GETKEYS", Arity: -4, Syntax: "command [word [word ...]]",
				Summary: "Answers which words of a command are keys.", Complexity: "O(N) for N words",
				Handler: func(c *module.Call) reply.Reply {
					return keysOfCommand(c, func(key []byte, _ string) reply.Reply { return reply.Bulk(bytes.Clone(key)) })
				},
			},
			{
				Name: "GETKEYSANDFLAGS", Arity: -4, Syntax: "command [word [word ...]]",
				Summary: "Answers which words of a command are keys, and what the command does with them.", Complexity: "O(N) for N words",
				Handler: func(c *module.Call) reply.Reply {
					return keysOfCommand(c, func(key []byte, flags string) reply.Reply {
						return reply.Array(reply.Bulk(bytes.Clone(key)), flagSet(flags))
					})
				},
			},
		},
	}
}

func countCommands(c *module.Call) reply.Reply { return reply.Int(int64(len(c.Host.Commands()))) }

func listCommands(c *module.Call) reply.Reply {
	wanted := func(*module.Command) bool { return true }
	if len(c.Args) > 0 {
		if len(c.Args) != 3 || text.FoldCase(c.Args[0]) != "FILTERBY" {
			return errSyntax
		}
		value := string(c.Args[2])
		switch text.FoldCase(c.Args[1]) {
		case "MODULE":
			wanted = func(cmd *module.Command) bool { return cmd.Flags&module.ModuleFlag != 0 && cmd.Module() == value }
		case "ACLCAT":
			wanted = func(cmd *module.Command) bool { return cmd.InCategory(strings.ToLower(value)) }
		case "PATTERN":
			pattern, err := newPattern(strings.ToLower(value))
			if err != nil {
				return module.ErrorReply(err)
			}
			wanted = func(cmd *module.Command) bool { return pattern.Match([]byte(cmd.LowerName())) }
		default:
			return errSyntax
		}
	}
	var list []reply.Reply
	add := func(cmd *module.Command) {
		if wanted(cmd) {
			list = append(list, reply.BulkString(cmd.LowerName()))
		}
	}
	for _, cmd := range c.Host.Commands() {
		add(cmd)
		for i := range cmd.Subcommands {
			add(&cmd.Subcommands[i])
		}
	}
	return reply.Array(list...)
}

func commandInfo(c *module.Call) reply.Reply {
	if len(c.Args) == 0 {
		return describeAll(c, c.Host.Commands())
	}
	return describeAll(c, namedCommands(c))
}

// namedCommands returns the commands that the arguments name, nil for an unknown name.
func namedCommands(c *module.Call) []*module.Command {
	list := make([]*module.Command, len(c.Args))
	for i, name := range c.Args {
		list[i] = c.Host.Named(name)
	}
	return list
}

func describeAll(c *module.Call, commands []*module.Command) reply.Reply {
	var list []reply.Reply
	for _, cmd := range commands {
		entry := reply.Nil
		if cmd != nil {
			entry = c.Host.Description(cmd)
		}
		var err error
		if list, err = c.Grow(list, entry); err != nil {
			return module.ErrorReply(err)
		}
	}
	return reply.Array(list...)
}

// keysOfCommand answers for each key of the command in the arguments.
func keysOfCommand(c *module.Call, show func(key []byte, flags string) reply.Reply) reply.Reply {
	var cmd *module.Command
	var args [][]byte
	if c.Host.Command(c.Args[0]) != nil {
		cmd, args = c.Host.Resolve(c.Args)
	}
	switch {
	case cmd == nil:
		return reply.Error("ERR Invalid command specified")
	case cmd.FirstKey == 0:
		return reply.Error("ERR The command has no key arguments")
	case !cmd.Takes(len(c.Args)):
		return reply.Error("ERR Invalid number of arguments specified for command")
	}
	var list []reply.Reply
	var err error
	cmd.Keys(args, func(key []byte, flags string) bool {
		list, err = c.Grow(list, show(key, flags))
		return err == nil
	})
	if err != nil {
		return module.ErrorReply(err)
	}
	return reply.Array(list...)
}

func commandDocs(c *module.Call) reply.Reply {
	commands := c.Host.Commands()
	if len(c.Args) > 0 {
		commands = namedCommands(c)
	}
	var pairs []reply.Pair
	for _, cmd := range commands {
		if cmd == nil {
			continue
		}
		docs := c.Host.Documentation(cmd)
		if err := c.Charge(docs.Value.Size()); err != nil {
			return module.ErrorReply(err)
		}
		pairs = append(pairs, docs)
	}
	return reply.Map(pairs...)
}

// flagSet returns the flags of a key as a set.
func flagSet(flags string) reply.Reply {
	var words []reply.Reply
	for _, word := range strings.Fields(flags) {
		words = append(words, reply.Status(word))
	}
	return reply.Set(words...)
}
