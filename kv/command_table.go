package kv

import (
	"slices"
	"strings"

	"github.com/sievekv/sievekv/kv/reply"
)

// firstVersion is the version that all commands are there since.
const firstVersion = "1.0.0"

// commandCommand is COMMAND, by which clients ask for the command table. Its replies have
// the form Redis gives them.
func commandCommand() Command {
	const perCommand = "O(N) for N commands"
	return Command{
		Name: "COMMAND", Arity: -1, Group: "server", Categories: []string{"connection"}, Summary: "Answers the command table, or a part of it.",
		Complexity: perCommand, Example: "COMMAND GETKEYS MSET user:1 ann user:2 bob",
		Handler: func(c *Call) reply.Reply { return describeAll(c.DB.Commands()) },
		Subcommands: []Command{
			{Name: "COUNT", Arity: 2, Summary: "Answers the number of commands.", Complexity: "O(1)", Handler: countCommands},
			{
				Name: "LIST", Arity: -2, Syntax: "[FILTERBY MODULE|ACLCAT|PATTERN value]",
				Summary: "Answers the names of the commands of a module, of a category, that match a pattern, or of all.",
				Handler: listCommands,
			},
			{
				Name: "INFO", Arity: -2, Syntax: "[name [name ...]]",
				Summary: "Answers arity, flags and places of keys of commands, of all if none is named.", Handler: commandInfo,
			},
			{
				Name: "DOCS", Arity: -2, Syntax: "[name [name ...]]",
				Summary: "Answers what commands, or all, are for and how they are written.", Handler: commandDocs,
			},
			{
				Name: "GETKEYS", Arity: -4, Syntax: "command [word [word ...]]",
				Summary: "Answers which words of a command are keys.", Complexity: "O(N) for N words",
				Handler: func(c *Call) reply.Reply {
					return keysOfCommand(c, func(key []byte, _ string) reply.Reply { return reply.Bulk(key) })
				},
			},
			{
				Name: "GETKEYSANDFLAGS", Arity: -4, Syntax: "command [word [word ...]]",
				Summary: "Answers which words of a command are keys, and what is done with these.", Complexity: "O(N) for N words",
				Handler: func(c *Call) reply.Reply {
					return keysOfCommand(c, func(key []byte, flags string) reply.Reply {
						return reply.Array(reply.Bulk(key), reply.Set(statuses(strings.Fields(flags))...))
					})
				},
			},
		},
	}
}

func countCommands(c *Call) reply.Reply { return reply.Int(int64(len(c.DB.registry.names))) }

func listCommands(c *Call) reply.Reply {
	wanted := func(*Command) bool { return true }
	if len(c.Args) > 0 {
		if len(c.Args) != 3 || Fold(c.Args[0]) != "FILTERBY" {
			return errSyntax
		}
		value := string(c.Args[2])
		switch Fold(c.Args[1]) {
		case "MODULE":
			wanted = func(cmd *Command) bool { return cmd.Flags&ModuleFlag != 0 && cmd.module == value }
		case "ACLCAT":
			wanted = func(cmd *Command) bool { return cmd.inCategory(strings.ToLower(value)) }
		case "PATTERN":
			pattern, err := NewPattern(strings.ToLower(value))
			if err != nil {
				return ErrorReply(err)
			}
			wanted = func(cmd *Command) bool { return pattern.Match([]byte(cmd.LowerName())) }
		default:
			return errSyntax
		}
	}
	var list []reply.Reply
	add := func(cmd *Command) {
		if wanted(cmd) {
			list = append(list, reply.BulkString(cmd.LowerName()))
		}
	}
	for _, cmd := range c.DB.Commands() {
		add(cmd)
		for i := range cmd.Subcommands {
			add(&cmd.Subcommands[i])
		}
	}
	return reply.Array(list...)
}

func commandInfo(c *Call) reply.Reply {
	if len(c.Args) == 0 {
		return describeAll(c.DB.Commands())
	}
	list := make([]reply.Reply, len(c.Args)) // nil for a name that is none
	for i, name := range c.Args {
		if cmd := c.DB.registry.named(name); cmd != nil {
			list[i] = describe(cmd)
		}
	}
	return reply.Array(list...)
}

func describeAll(commands []*Command) reply.Reply {
	list := make([]reply.Reply, len(commands))
	for i, cmd := range commands {
		list[i] = describe(cmd)
	}
	return reply.Array(list...)
}

// describe is a command's entry in the reply of COMMAND: name, arity, flags, first key, last
// key, step, categories, tips, key specifications, subcommands.
func describe(cmd *Command) reply.Reply {
	flags := statuses(cmd.Flags.Names())
	var subs []reply.Reply
	for i := range cmd.Subcommands {
		subs = append(subs, describe(&cmd.Subcommands[i]))
	}
	family := reply.Set() // as Redis has it: a set if it is empty
	if len(subs) > 0 {
		family = reply.Array(subs...)
	}
	categories := cmd.AllCategories()
	for i := range categories {
		categories[i] = "@" + categories[i]
	}
	return reply.Array(
		reply.BulkString(cmd.LowerName()), reply.Int(int64(cmd.Arity)), reply.Set(flags...),
		reply.Int(int64(cmd.FirstKey)), reply.Int(int64(cmd.LastKey)), reply.Int(int64(cmd.KeyStep)),
		reply.Set(statuses(categories)...), reply.Set(), reply.Set(cmd.keySpecs()...), family,
	)
}

func statuses(words []string) []reply.Reply {
	var list []reply.Reply
	for _, word := range words {
		list = append(list, reply.Status(word))
	}
	return list
}

// AllCategories are the command's categories of access control lists, without the @.
func (c *Command) AllCategories() []string {
	list := slices.Clone(c.Categories)
	add := func(is bool, name string) {
		if is && !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	switch c.Group { // Redis has other names for some, and none for the commands about the server
	case "server":
	case "generic":
		add(true, "keyspace")
	case "transactions":
		add(true, "transaction")
	default:
		add(true, c.Group)
	}
	add(c.Flags&Write != 0, "write")
	add(c.Flags&ReadOnly != 0, "read")
	add(c.Flags&Admin != 0, "admin")
	add(c.Flags&Admin != 0, "dangerous")
	add(c.Flags&Fast != 0, "fast")
	add(c.Flags&Fast == 0, "slow")
	return list
}

func (c *Command) inCategory(name string) bool { return slices.Contains(c.AllCategories(), name) }

// keySpecs are the key specifications: from which word on the keys are, which words of those,
// and what is done with them.
func (c *Command) keySpecs() []reply.Reply {
	if c.FirstKey == 0 {
		return nil
	}
	number := func(name string, n int) reply.Pair { return reply.Field(name, reply.Int(int64(n))) }
	var specs []reply.Reply
	flags := c.keyFlags(nil)
	for i, word := range flags {
		index, last := c.FirstKey+i*c.KeyStep, 0 // last is counted from the index, or from the end
		if i == len(flags)-1 {
			if last = c.LastKey; last > 0 {
				last -= index
			}
		}
		words := strings.Fields(word)
		if c.KeyFlagsOf != nil {
			words = append(words, "variable_flags")
		}
		specs = append(specs, reply.Map(
			reply.Field("flags", reply.Set(statuses(words)...)),
			reply.Field("begin_search", reply.Map(
				reply.Field("type", reply.BulkString("index")), reply.Field("spec", reply.Map(number("index", index))),
			)),
			reply.Field("find_keys", reply.Map(
				reply.Field("type", reply.BulkString("range")),
				reply.Field("spec", reply.Map(number("lastkey", last), number("keystep", c.KeyStep), number("limit", 0))),
			)),
		))
	}
	return specs
}

// keyFlags are those of the first key, the second and so on; the last of all behind it. Without
// arguments they are those that stand for all.
func (c *Command) keyFlags(args [][]byte) []string {
	switch {
	case c.KeyFlagsOf != nil && args != nil:
		return c.KeyFlagsOf(args)
	case c.KeyFlags != nil:
		return c.KeyFlags
	case c.Flags&ReadOnly != 0:
		return []string{"RO access"}
	}
	return []string{"RW access update"}
}

// Keys calls f with each of the arguments that is a key, and what is done with it, until it
// returns false. The number of arguments is one that the command takes.
func (c *Command) Keys(args [][]byte, f func(key []byte, flags string) bool) {
	if c.FirstKey == 0 {
		return
	}
	names := 1
	if strings.Contains(c.Name, "|") {
		names = 2 // FirstKey and LastKey count them
	}
	last := c.LastKey - names
	if c.LastKey < 0 {
		last = c.LastKey + len(args)
	}
	flags := c.keyFlags(args)
	for i, n := c.FirstKey-names, 0; i <= last; i, n = i+max(1, c.KeyStep), n+1 {
		if !f(args[i], flags[min(n, len(flags)-1)]) {
			return
		}
	}
}

// keysOfCommand answers for each key of the command that the arguments are.
func keysOfCommand(c *Call, show func(key []byte, flags string) reply.Reply) reply.Reply {
	var cmd *Command
	var args [][]byte
	if c.DB.registry.command(c.Args[0]) != nil {
		cmd, args = c.DB.registry.resolve(c.Args)
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
	cmd.Keys(args, func(key []byte, flags string) bool {
		list = append(list, show(append([]byte{}, key...), flags))
		return true
	})
	return reply.Array(list...)
}

func commandDocs(c *Call) reply.Reply {
	commands := c.DB.Commands()
	if len(c.Args) > 0 {
		commands = nil
		for _, name := range c.Args {
			if cmd := c.DB.registry.named(name); cmd != nil {
				commands = append(commands, cmd)
			}
		}
	}
	pairs := make([]reply.Pair, len(commands))
	for i, cmd := range commands {
		pairs[i] = cmd.docs()
	}
	return reply.Map(pairs...)
}

// docs is a command's entry in the reply of COMMAND DOCS. Syntax and example are not among
// what Redis has there.
func (c *Command) docs() reply.Pair {
	var fields []reply.Pair
	add := func(name, value string) {
		if value != "" {
			fields = append(fields, reply.Field(name, reply.BulkString(value)))
		}
	}
	add("summary", c.Summary)
	add("since", firstVersion)
	add("group", c.Group)
	add("complexity", c.Complexity)
	if c.Flags&ModuleFlag != 0 {
		add("module", c.module)
	}
	if len(c.Subcommands) > 0 {
		subs := make([]reply.Pair, len(c.Subcommands))
		for i := range c.Subcommands {
			subs[i] = c.Subcommands[i].docs()
		}
		fields = append(fields, reply.Field("subcommands", reply.Map(subs...)))
	} else if arguments, ok := parseSyntax(c); ok && len(arguments) > 0 {
		fields = append(fields, reply.Field("arguments", argumentReplies(arguments)))
	}
	add("syntax", strings.ReplaceAll(c.Name, "|", " ")+strings.TrimRight(" "+c.Syntax, " "))
	add("example", c.Example)
	return reply.Field(c.LowerName(), reply.Map(fields...))
}
