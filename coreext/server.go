package coreext

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/sievekv/sievekv/internal/glob"
	"github.com/sievekv/sievekv/internal/text"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// serverCommands are the commands about the server and its settings, with Redis' replies and errors.
func serverCommands() []module.Command {
	return []module.Command{commandCommand(), configCommand(), moduleCommand(), {
		Name: "DBSIZE", Arity: 1, Flags: module.ReadOnly | module.Fast, Group: "server", Categories: []string{"keyspace"},
		Summary: "Answers the number of keys.", Complexity: "O(1)", Example: "MSET user:1 ann user:2 bob\nDBSIZE", Handler: dbSize,
	}, {
		Name: "FLUSHALL", Arity: -1, Flags: module.Write, Group: "server", Categories: []string{"keyspace", "dangerous"},
		Summary: "Removes every key.", Syntax: "[ASYNC | SYNC]", Complexity: "O(1), whatever the size",
		Example: "SET user:1 ann\nFLUSHALL", Handler: flushAll,
	}, {
		Name: "FLUSHDB", Arity: -1, Flags: module.Write, Group: "server", Categories: []string{"keyspace", "dangerous"},
		Summary: "Removes every key, as FLUSHALL does.", Syntax: "[ASYNC | SYNC]", Complexity: "O(1), whatever the size",
		Example: "SET user:1 ann\nFLUSHDB", Handler: flushAll,
	}, {
		Name: "INFO", Arity: -1, Flags: module.Brief, Group: "server", Categories: []string{"dangerous"},
		Summary: "Answers statistics of the store and the server, in sections.", Syntax: "[section [section ...]]",
		Complexity: "O(1)", Example: "INFO cache", Handler: info,
	}, {
		Name: "TIME", Arity: 1, Flags: module.Fast, Group: "server",
		Summary:    "Answers the time of the store's clock: Unix seconds, and microseconds since the last full second.",
		Complexity: "O(1)", Example: "TIME", Handler: timeCommand,
	}}
}

func timeCommand(c *module.Call) reply.Reply {
	now := c.DB.Options().Clock()
	part := func(n int64) reply.Reply { return reply.BulkString(strconv.FormatInt(n, 10)) }
	return reply.Array(part(now.Unix()), part(int64(now.Nanosecond())/int64(time.Microsecond)))
}

func configCommand() module.Command {
	return module.Command{
		Name: "CONFIG", Arity: -2, Group: "server",
		Summary:    "Answers or changes settings. Changes are lost when the store is closed.",
		Complexity: "O(N) for N settings", Example: "CONFIG GET append* save",
		Subcommands: []module.Command{
			{
				Name: "GET", Arity: -3, Flags: module.Admin, Syntax: "pattern [pattern ...]",
				Summary: "Answers the settings that match a pattern, with their values.", Handler: configGet,
			},
			{
				Name: "SET", Arity: -4, Flags: module.Admin, Syntax: "name value [name value ...]",
				Summary: "Changes settings, all or none.", Handler: configSet,
			},
			{
				Name: "RESETSTAT", Arity: 2, Flags: module.Admin, Summary: "Resets the counters of INFO, except growth_log_bytes and the section Pebble, which count since the store was opened.", Complexity: "O(1)",
				Handler: func(c *module.Call) reply.Reply { c.Host.ResetStats(); return reply.OK },
			},
			{
				Name: "REWRITE", Arity: 2, Flags: module.Admin, Summary: "Refused: there is no configuration file.", Complexity: "O(1)",
				Handler: func(*module.Call) reply.Reply { return reply.Error("ERR The server is running without a config file") },
			},
		},
	}
}

func configGet(c *module.Call) reply.Reply {
	settings := c.Host.Settings()
	wanted := make([]bool, len(settings))
	for _, arg := range c.Args {
		if err := c.Context.Err(); err != nil {
			return module.ErrorReply(err)
		}
		pattern, err := newPattern(text.FoldString(string(arg)))
		if err != nil {
			return module.ErrorReply(err)
		}
		for i := range settings {
			wanted[i] = wanted[i] || pattern.Match([]byte(text.FoldString(settings[i].Name)))
		}
	}
	var pairs []reply.Pair
	for i := range settings {
		if name := settings[i].Name; wanted[i] {
			pairs = append(pairs, reply.Field(name, reply.BulkString(c.Host.Setting(name))))
		}
	}
	return reply.Map(pairs...)
}

func configSet(c *module.Call) reply.Reply {
	if len(c.Args)%2 != 0 {
		return errSyntax
	}
	var pairs [][2]string
	for i := 0; i < len(c.Args); i += 2 {
		pairs = append(pairs, [2]string{string(c.Args[i]), string(c.Args[i+1])})
	}
	name, why := c.Host.ChangeSettings(c, pairs)
	switch {
	case errors.Is(why, module.ErrNoSetting):
		return reply.Errorf("ERR Unknown option or number of arguments for CONFIG SET - '%s'", name)
	case why != nil:
		return reply.Errorf("ERR CONFIG SET failed (possibly related to argument '%s') - %v", name, why)
	}
	return reply.OK
}

func moduleCommand() module.Command {
	return module.Command{
		Name: "MODULE", Arity: -2, Group: "server",
		Summary:    "Answers the store's modules that have a version.",
		Complexity: "O(N) for N modules", Example: "MODULE LIST",
		Subcommands: []module.Command{{
			Name: "LIST", Arity: 2, Flags: module.Admin, Summary: "Answers the name and version of each module.", Handler: moduleList,
		}},
	}
}

func moduleList(c *module.Call) reply.Reply {
	var list []reply.Reply
	for _, m := range c.Host.Modules() {
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

func dbSize(c *module.Call) reply.Reply {
	var n uint64
	err := c.Read(func(r kv.Reader) (err error) {
		n, err = r.Size()
		return err
	})
	if err != nil {
		return module.ErrorReply(err)
	}
	return reply.Int(int64(n))
}

// flushAll accepts Redis' words for when to free the memory, but always does so in the background.
func flushAll(c *module.Call) reply.Reply {
	if len(c.Args) > 1 || len(c.Args) == 1 && text.FoldCase(c.Args[0]) != "ASYNC" && text.FoldCase(c.Args[0]) != "SYNC" {
		return errSyntax
	}
	var err error
	if c.Transaction == nil {
		err = c.DB.Update(c.Context, c.Level(), func(tx *kv.Transaction) error { return tx.Write((*kv.Writer).DeleteAll) })
	} else {
		err = c.Transaction.Write((*kv.Writer).DeleteAll)
	}
	if err != nil {
		return module.ErrorReply(err)
	}
	return reply.OK
}

// newPattern returns a pattern, or an error if it is too long.
func newPattern(word string) (*glob.Pattern, error) {
	p, err := glob.New(word)
	if err != nil {
		err = fmt.Errorf("%w: %w", kv.ErrTooLarge, err)
	}
	return p, err
}
