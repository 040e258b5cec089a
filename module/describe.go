package module

import (
	"slices"
	"strings"

	"github.com/sievekv/sievekv/module/reply"
)

// firstVersion is the version since which all commands exist.
const firstVersion = "1.0.0"

// Describe returns the command's entry in the reply of COMMAND: name, arity, flags, first key, last
// key, step, categories, tips, key specifications, subcommands.
func (cmd *Command) Describe() reply.Reply {
	flags := statuses(cmd.Flags.Names())
	var subs []reply.Reply
	for i := range cmd.Subcommands {
		subs = append(subs, cmd.Subcommands[i].Describe())
	}
	family := reply.Set() // if there are none, Redis answers an empty set here
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

// AllCategories returns the command's categories for access control lists, without the @.
func (c *Command) AllCategories() []string {
	list := slices.Clone(c.Categories)
	add := func(is bool, name string) {
		if is && !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	switch c.Group { // Redis has other names for some groups, and no category for server commands
	case "server", "cluster":
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

// InCategory reports whether the command is in a category, given in lower case without the @.
func (c *Command) InCategory(name string) bool { return slices.Contains(c.AllCategories(), name) }

// keySpecs returns the key specifications: where the keys start, which words are keys, and what the command does with
// them.
func (c *Command) keySpecs() []reply.Reply {
	if c.FirstKey == 0 {
		return nil
	}
	number := func(name string, n int) reply.Pair { return reply.Field(name, reply.Int(int64(n))) }
	var specs []reply.Reply
	flags := c.keyFlags(nil)
	for i, word := range flags {
		index, last := c.FirstKey+i*c.KeyStep, 0 // last counts from the index, or from the end if negative
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

// keyFlags returns the flags of the first key, the second and so on; the last one also holds for all following keys.
// Without arguments it returns the flags that cover all cases.
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

// Keys calls f with each argument that is a key and with its flags, until f returns false. The number of arguments
// must be one that the command takes.
func (c *Command) Keys(args [][]byte, f func(key []byte, flags string) bool) {
	if c.FirstKey == 0 || c.EveryKey != nil && c.EveryKey(args) {
		return
	}
	names := 1
	if strings.Contains(c.Name, "|") {
		names = 2 // FirstKey and LastKey count both words of the name
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

// FirstKeyOf returns the first argument that is a key. It is not ok if there is none. The number of arguments must be one that
// the command takes.
func (c *Command) FirstKeyOf(args [][]byte) (key []byte, ok bool) {
	if c.FirstKey == 0 {
		return nil, false
	}
	c.Keys(args, func(first []byte, _ string) bool {
		key, ok = first, true
		return false
	})
	return key, ok
}

// Docs returns the command's entry in the reply of COMMAND DOCS. The fields syntax and example are additions: Redis
// does not have them.
func (c *Command) Docs() reply.Pair {
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
			subs[i] = c.Subcommands[i].Docs()
		}
		fields = append(fields, reply.Field("subcommands", reply.Map(subs...)))
	} else if arguments, ok := parseSyntax(c); ok && len(arguments) > 0 {
		fields = append(fields, reply.Field("arguments", argumentReplies(arguments)))
	}
	add("syntax", strings.ReplaceAll(c.Name, "|", " ")+strings.TrimRight(" "+c.Syntax, " "))
	add("example", c.Example)
	return reply.Field(c.LowerName(), reply.Map(fields...))
}
