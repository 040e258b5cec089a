package coreext

import (
	"errors"

	"github.com/sievekv/sievekv/internal/text"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// objectCommands are the commands about how values are kept.
func objectCommands() []module.Command {
	onKey := func(name, summary string, f handler) module.Command {
		return module.Command{
			Name: name, Arity: 3, Flags: module.ReadOnly, FirstKey: 2, LastKey: 2, KeyStep: 1, KeyFlags: []string{"RO"},
			Syntax: "key", Summary: summary, Handler: f,
		}
	}
	return []module.Command{{
		Name: "OBJECT", Arity: -2, Group: "generic", Summary: "Answers how a value is kept.", Complexity: "O(1)",
		Example: "SET visits 42\nOBJECT ENCODING visits",
		Subcommands: []module.Command{
			onKey("ENCODING", "Answers int, embstr or raw for a string, as Redis does; raw for other types.", objectEncoding),
			onKey("FREQ", "Refused: how often keys are used is not tracked.", untracked(
				"ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching "+
					"between policies at runtime LRU and LFU data will take some time to adjust.")),
			onKey("IDLETIME", "Refused: when keys were used is not tracked.", untracked(
				"ERR No maxmemory policy is selected, idle time not tracked.")),
			onKey("REFCOUNT", "Answers 1: keys share no values.", objectRefCount),
		},
	}, {
		Name: "MEMORY", Arity: -2, Group: "server", Summary: "Answers how many bytes a key takes.",
		Complexity: "O(N) for N blocks looked at", Example: "SET user:1 ann\nMEMORY USAGE user:1",
		Subcommands: []module.Command{{
			Name: "USAGE", Arity: -3, Flags: module.ReadOnly, FirstKey: 2, LastKey: 2, KeyStep: 1, KeyFlags: []string{"RO"}, Syntax: "key [SAMPLES count]",
			Summary: "Answers how many bytes a key takes in the store, nil if it is missing. It measures 100 blocks of each layer, " +
				"or count, or all for 0, and extrapolates.",
			Handler: memoryUsage,
		}},
	}}
}

func objectEncoding(c *module.Call) reply.Reply {
	answer := reply.Nil
	err := c.Read(func(r kv.Reader) error {
		answer = reply.Nil
		blocks, err := r.Peek(c.Args[0], func(value []byte) {
			if value != nil {
				answer = reply.BulkString(encodingOf(value))
			}
		})
		if blocks != nil {
			answer = reply.BulkString("raw")
		}
		return err
	})
	switch {
	case errors.Is(err, kv.ErrWrongType):
		return reply.BulkString("raw")
	case err != nil:
		return module.ErrorReply(err)
	}
	return answer
}

// encodingOf returns how Redis would keep a string.
func encodingOf(value []byte) string {
	const maxEmbedded = 44
	if _, ok := text.ParseInt(value); ok {
		return "int"
	}
	if len(value) <= maxEmbedded {
		return "embstr"
	}
	return "raw"
}

// untracked returns a handler that refuses to answer what is not tracked.
func untracked(why string) handler {
	return func(c *module.Call) reply.Reply {
		return lookup(c, func(o *kv.Object, _ int64) reply.Reply {
			if o == nil {
				return reply.Nil
			}
			return reply.Error(why)
		})
	}
}

func objectRefCount(c *module.Call) reply.Reply {
	return lookup(c, func(o *kv.Object, _ int64) reply.Reply {
		if o == nil {
			return reply.Nil
		}
		return reply.Int(1)
	})
}

// defaultSamples is how many blocks of a layer MEMORY USAGE measures by default.
const defaultSamples = 100

func memoryUsage(c *module.Call) reply.Reply {
	samples := int64(defaultSamples)
	for args := c.Args[1:]; len(args) > 0; args = args[2:] {
		if text.FoldCase(args[0]) != "SAMPLES" || len(args) == 1 {
			return errSyntax
		}
		n, ok := text.ParseInt(args[1])
		switch {
		case !ok:
			return module.ErrorReply(kv.ErrNotInteger)
		case n < 0:
			return errSyntax
		}
		samples = n
	}
	answer := reply.Nil
	err := c.ReadLong(func(r kv.Reader) error {
		n, there, err := r.StoredBytes(c.Context, c.Args[0], samples)
		if there {
			answer = reply.Int(int64(n))
		}
		return err
	})
	if err != nil {
		return module.ErrorReply(err)
	}
	return answer
}
