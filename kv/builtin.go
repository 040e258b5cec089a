package kv

import (
	"slices"
	"strings"

	"github.com/sievekv/sievekv/kv/reply"
)

// builtIn is the module of the commands every store has.
func builtIn(o *Options, dir string) Module {
	commands := []Command{
		{
			Name: "PING", Arity: -1, Flags: Fast, Group: "connection",
			Summary: "Answers PONG, or the message given.", Syntax: "[message]", Complexity: "O(1)",
			Example: "PING", Handler: ping,
		}, {
			Name: "ECHO", Arity: 2, Flags: Fast, Group: "connection",
			Summary: "Answers the message.", Syntax: "message", Complexity: "O(1)",
			Example: "ECHO hello", Handler: func(c *Call) reply.Reply { return reply.Bulk(c.Args[0]) },
		}, {
			Name: "DBSIZE", Arity: 1, Flags: ReadOnly | Fast, Group: "server",
			Summary: "Answers the number of keys.", Complexity: "O(1)", Example: "MSET user:1 ann user:2 bob\nDBSIZE", Handler: dbSize,
		}, {
			Name: "FLUSHALL", Arity: -1, Flags: Write, Group: "server",
			Summary: "Removes every key.", Syntax: "[ASYNC | SYNC]", Complexity: "O(1), whatever the size",
			Example: "SET user:1 ann\nFLUSHALL", Handler: flushAll,
		}, {
			Name: "FLUSHDB", Arity: -1, Flags: Write, Group: "server",
			Summary: "Removes every key, as FLUSHALL does.", Syntax: "[ASYNC | SYNC]", Complexity: "O(1), whatever the size",
			Example: "SET user:1 ann\nFLUSHDB", Handler: flushAll,
		}, {
			Name: "INFO", Arity: -1, Group: "server",
			Summary: "Answers facts and figures about the store, in sections.", Syntax: "[section [section ...]]",
			Complexity: "O(1)", Example: "INFO cache", Handler: info,
		}, {
			Name: "COMMAND", Arity: -1, Group: "server",
			Summary: "Answers the command table, or a part of it.", Syntax: "[COUNT | LIST | INFO [name ...] | DOCS [name ...]]",
			Complexity: "O(N) for N commands", Example: "COMMAND COUNT", Handler: command,
		},
	}
	return Module{
		Name: builtInModule, Commands: slices.Concat(commands, stringCommands(), keyCommands()), Settings: o.ownSettings(dir),
	}
}

var errSyntax = reply.Error("ERR syntax error")

func ping(c *Call) reply.Reply {
	switch len(c.Args) {
	case 0:
		return reply.Status("PONG")
	case 1:
		return reply.Bulk(c.Args[0])
	}
	return WrongArity(c.Command)
}

func dbSize(c *Call) reply.Reply {
	var n uint64
	err := c.Read(func(r Reader) (err error) {
		n, err = r.Size(c.Context)
		return err
	})
	if err != nil {
		return ErrorReply(err)
	}
	return reply.Int(int64(n))
}

// flushAll takes Redis' words for how to free the memory; here that is always in
// the background.
func flushAll(c *Call) reply.Reply {
	if len(c.Args) > 1 || len(c.Args) == 1 && Fold(c.Args[0]) != "ASYNC" && Fold(c.Args[0]) != "SYNC" {
		return errSyntax
	}
	if c.Transaction == nil {
		if err := c.DB.DeleteAll(c.Level()); err != nil {
			return ErrorReply(err)
		}
		return reply.OK
	}
	return c.Update(nil, func(w *Writer) (reply.Reply, error) {
		w.deleteAll()
		return reply.OK, nil
	})
}

func command(c *Call) reply.Reply {
	if len(c.Args) == 0 {
		return describeAll(c.DB.Commands(), describe)
	}
	sub, names := Fold(c.Args[0]), c.Args[1:]
	switch {
	case sub == "COUNT" && len(names) == 0:
		return reply.Int(int64(len(c.DB.registry.names)))
	case sub == "LIST" && len(names) == 0:
		list := make([]reply.Reply, 0, len(c.DB.registry.names))
		for _, name := range c.DB.registry.names {
			list = append(list, reply.BulkString(strings.ToLower(name)))
		}
		return reply.Array(list...)
	case sub == "INFO":
		if len(names) == 0 {
			return describeAll(c.DB.Commands(), describe)
		}
		list := make([]reply.Reply, len(names)) // nil for a name that is none
		for i, name := range names {
			if cmd := c.DB.registry.command(name); cmd != nil {
				list[i] = describe(cmd)
			}
		}
		return reply.Array(list...)
	case sub == "DOCS":
		return commandDocs(c.DB, names)
	}
	return reply.Errorf("ERR unknown subcommand or wrong number of arguments for '%s'. Try COMMAND COUNT, LIST, INFO or DOCS.", c.Args[0])
}

func describeAll(commands []*Command, f func(*Command) reply.Reply) reply.Reply {
	list := make([]reply.Reply, len(commands))
	for i, cmd := range commands {
		list[i] = f(cmd)
	}
	return reply.Array(list...)
}

// describe is a command's entry in the reply of COMMAND, in Redis' form.
func describe(cmd *Command) reply.Reply {
	var flags []reply.Reply
	for _, name := range cmd.Flags.Names() {
		flags = append(flags, reply.Status(name))
	}
	category := reply.Status("@" + cmd.Group)
	return reply.Array(
		reply.BulkString(strings.ToLower(cmd.Name)), reply.Int(int64(cmd.Arity)), reply.Set(flags...),
		reply.Int(int64(cmd.FirstKey)), reply.Int(int64(cmd.LastKey)), reply.Int(int64(cmd.KeyStep)),
		reply.Set(category), reply.Array(), reply.Array(), reply.Array(),
	)
}

func commandDocs(db *DB, names [][]byte) reply.Reply {
	commands := db.Commands()
	if len(names) > 0 {
		commands = commands[:0:0]
		for _, name := range names {
			if cmd := db.registry.command(name); cmd != nil {
				commands = append(commands, cmd)
			}
		}
	}
	pairs := make([]reply.Pair, len(commands))
	for i, cmd := range commands {
		pairs[i] = reply.Field(strings.ToLower(cmd.Name), reply.Map(
			reply.Field("summary", reply.BulkString(cmd.Summary)),
			reply.Field("group", reply.BulkString(cmd.Group)),
			reply.Field("complexity", reply.BulkString(cmd.Complexity)),
			reply.Field("syntax", reply.BulkString(strings.TrimSpace(cmd.Name+" "+cmd.Syntax))),
			reply.Field("example", reply.BulkString(cmd.Example)),
		))
	}
	return reply.Map(pairs...)
}
