package kv

import (
	"errors"
	"strconv"
	"time"

	"github.com/sievekv/sievekv/kv/reply"
)

// serverCommands are the commands by which a client learns what it talks to, and sets it up,
// with Redis' replies and errors.
func serverCommands() []Command {
	return []Command{commandCommand(), configCommand(), moduleCommand(), {
		Name: "TIME", Arity: 1, Flags: Fast, Group: "server",
		Summary:    "Answers the time by the store's clock: Unix seconds, and the microseconds of the one that has begun.",
		Complexity: "O(1)", Example: "TIME", Handler: timeCommand,
	}}
}

func timeCommand(c *Call) reply.Reply {
	now := c.DB.opts.Clock()
	part := func(n int64) reply.Reply { return reply.BulkString(strconv.FormatInt(n, 10)) }
	return reply.Array(part(now.Unix()), part(int64(now.Nanosecond())/int64(time.Microsecond)))
}

func configCommand() Command {
	return Command{
		Name: "CONFIG", Arity: -2, Group: "server",
		Summary:    "Answers or changes settings, in memory: the next opening of the store begins with the defaults again.",
		Complexity: "O(N) for N settings", Example: "CONFIG GET append* save",
		Subcommands: []Command{
			{
				Name: "GET", Arity: -3, Flags: Admin, Syntax: "pattern [pattern ...]",
				Summary: "Answers the settings that match a pattern, with their values.", Handler: configGet,
			},
			{
				Name: "SET", Arity: -4, Flags: Admin, Syntax: "name value [name value ...]",
				Summary: "Changes settings, all of those named or none.", Handler: configSet,
			},
			{
				Name: "RESETSTAT", Arity: 2, Flags: Admin, Summary: "Sets what INFO counts back to 0.", Complexity: "O(1)",
				Handler: func(c *Call) reply.Reply { c.DB.ResetStats(); return reply.OK },
			},
			{
				Name: "REWRITE", Arity: 2, Flags: Admin, Summary: "Refused: there is no file of settings.", Complexity: "O(1)",
				Handler: func(*Call) reply.Reply { return reply.Error("ERR The server is running without a config file") },
			},
		},
	}
}

func configGet(c *Call) reply.Reply {
	names := c.DB.registry.settingNames
	wanted := make([]bool, len(names))
	for _, arg := range c.Args {
		if err := c.Context.Err(); err != nil {
			return ErrorReply(err)
		}
		pattern, err := NewPattern(fold(string(arg)))
		if err != nil {
			return ErrorReply(err)
		}
		for i, name := range names {
			wanted[i] = wanted[i] || pattern.Match([]byte(fold(name)))
		}
	}
	var pairs []reply.Pair
	for i, name := range names {
		if wanted[i] {
			pairs = append(pairs, reply.Field(name, reply.BulkString(c.DB.Setting(name))))
		}
	}
	return reply.Map(pairs...)
}

func configSet(c *Call) reply.Reply {
	if len(c.Args)%2 != 0 {
		return errSyntax
	}
	var pairs [][2]string
	for i := 0; i < len(c.Args); i += 2 {
		pairs = append(pairs, [2]string{string(c.Args[i]), string(c.Args[i+1])})
	}
	name, why := c.DB.registry.change(c, pairs)
	switch {
	case errors.Is(why, errNoSetting):
		return reply.Errorf("ERR Unknown option or number of arguments for CONFIG SET - '%s'", name)
	case why != nil:
		return reply.Errorf("ERR CONFIG SET failed (possibly related to argument '%s') - %v", name, why)
	}
	return reply.OK
}

// ResetStats sets the counts of INFO back to 0, those of modules too. What is not a count
// of events stays, as do background errors: whoever looks for these must not miss one.
func (db *DB) ResetStats() {
	s := &db.stats
	for _, n := range []interface{ Store(uint64) }{
		&s.commits, &s.commitBytes, &s.syncs, &s.blocksRead, &s.folds, &s.foldsDropped, &s.reclaimed, &s.expired,
		&s.compactions, &db.residency.evicted,
	} {
		n.Store(0)
	}
	for _, m := range db.registry.modules {
		if m.ResetStats != nil {
			m.ResetStats(db)
		}
	}
}

func moduleCommand() Command {
	return Command{
		Name: "MODULE", Arity: -2, Group: "server",
		Summary:    "Answers which modules with a version of their own the store was opened with.",
		Complexity: "O(N) for N modules", Example: "MODULE LIST",
		Subcommands: []Command{{
			Name: "LIST", Arity: 2, Flags: Admin, Summary: "Answers name and version of each.", Handler: moduleList,
		}},
	}
}

func moduleList(c *Call) reply.Reply {
	var list []reply.Reply
	for _, m := range c.DB.registry.modules {
		if m.Version == 0 {
			continue
		}
		list = append(list, reply.Map(
			reply.Field("name", reply.BulkString(m.Name)), reply.Field("ver", reply.Int(int64(m.Version))),
			reply.Field("path", reply.BulkString("")), reply.Field("args", reply.Array()),
		))
	}
	return reply.Array(list...)
}
