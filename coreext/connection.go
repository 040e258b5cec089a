package coreext

import (
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// connectionCommands are the commands that work without a server too.
func connectionCommands() []module.Command {
	return []module.Command{{
		Name: "PING", Arity: -1, Flags: module.Fast, Group: "connection",
		Summary: "Answers PONG, or the message given.", Syntax: "[message]", Complexity: "O(1)",
		Example: "PING", Handler: ping,
	}, {
		Name: "ECHO", Arity: 2, Flags: module.Fast, Group: "connection",
		Summary: "Answers the message.", Syntax: "message", Complexity: "O(1)",
		Example: "ECHO hello", Handler: func(c *module.Call) reply.Reply { return reply.Bulk(c.Args[0]) },
	}}
}

func ping(c *module.Call) reply.Reply {
	switch len(c.Args) {
	case 0:
		return reply.Status("PONG")
	case 1:
		return reply.Bulk(c.Args[0])
	}
	return module.WrongArity(c.Command)
}
