package kv

import (
	"slices"

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
			Name: "DBSIZE", Arity: 1, Flags: ReadOnly | Fast, Group: "server", Categories: []string{"keyspace"},
			Summary: "Answers the number of keys.", Complexity: "O(1)", Example: "MSET user:1 ann user:2 bob\nDBSIZE", Handler: dbSize,
		}, {
			Name: "FLUSHALL", Arity: -1, Flags: Write, Group: "server", Categories: []string{"keyspace", "dangerous"},
			Summary: "Removes every key.", Syntax: "[ASYNC | SYNC]", Complexity: "O(1), whatever the size",
			Example: "SET user:1 ann\nFLUSHALL", Handler: flushAll,
		}, {
			Name: "FLUSHDB", Arity: -1, Flags: Write, Group: "server", Categories: []string{"keyspace", "dangerous"},
			Summary: "Removes every key, as FLUSHALL does.", Syntax: "[ASYNC | SYNC]", Complexity: "O(1), whatever the size",
			Example: "SET user:1 ann\nFLUSHDB", Handler: flushAll,
		}, {
			Name: "INFO", Arity: -1, Group: "server", Categories: []string{"dangerous"},
			Summary: "Answers facts and figures about the store, in sections.", Syntax: "[section [section ...]]",
			Complexity: "O(1)", Example: "INFO cache", Handler: info,
		},
	}
	return Module{
		Name: builtInModule, Settings: o.ownSettings(dir), Commands: slices.Concat(
			commands, serverCommands(), objectCommands(), sieveCommands(), stringCommands(), keyCommands(),
		),
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
