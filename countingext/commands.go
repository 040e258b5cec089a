package countingext

import (
	"fmt"
	"strconv"

	"github.com/sievekv/sievekv/internal/filtercmd"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/scalableext"
)

// Module returns the extension, for module.New.
func Module() module.Module {
	const (
		write  = module.Write | module.DenyOOM | module.ModuleFlag
		remove = module.Write | module.ModuleFlag
		read   = module.ReadOnly | module.Fast | module.ModuleFlag
	)
	return module.Module{Name: "cbf", Types: []*kv.Type{countingType}, Settings: []module.Setting{scalableext.GroupSetting(groupSetting, "counting Bloom filters")}, Commands: filtercmd.Commands("counting", []module.Command{
		{
			Name: "CBF.RESERVE", Arity: -4, Flags: write | module.Brief,
			Syntax:     "key error_rate capacity [EXPANSION e] [NONSCALING] [TTL seconds] [HASH KEYED|XXH64] [GROUP name]",
			Summary:    "Makes an empty counting Bloom filter. Filters of one GROUP can be merged.",
			Complexity: "O(1), whatever the size", Example: "CBF.RESERVE online 0.01 1000000", Handler: reserve,
		},
		{
			Name: "CBF.ADD", Arity: 3, Flags: write | module.Fast, Syntax: "key item",
			Summary:    "Adds an item once more, and makes the filter if it is missing; answers 1 if the item was absent, otherwise 0.",
			Complexity: "O(k n) for k hashes and n layers", Example: "CBF.ADD online alice", Handler: add,
		},
		{
			Name: "CBF.MADD", Arity: -3, Flags: write, Syntax: "key item [item ...]",
			Summary:    "Adds items in one commit, and makes the filter if it is missing; answers 1 or 0, as CBF.ADD, for each.",
			Complexity: "O(N k n) for N items, k hashes and n layers", Example: "CBF.MADD online alice bob alice", Handler: madd,
		},
		{
			Name: "CBF.INSERT", Arity: -4, Flags: write,
			Syntax:     "key [CAPACITY n] [ERROR r] [EXPANSION e] [NOCREATE] [NONSCALING] ITEMS item [item ...]",
			Summary:    "Adds items as CBF.MADD does, and makes the filter as the options say if it is missing.",
			Complexity: "O(N k n) for N items, k hashes and n layers",
			Example:    "CBF.INSERT online CAPACITY 10000 ITEMS alice bob", Handler: insert,
		},
		{
			Name: "CBF.DEL", Arity: 3, Flags: remove | module.Fast, Syntax: "key item",
			Summary:    "Deletes an item once; answers 1, or 0 if it is absent. Deleting an item that was never added can remove other items.",
			Complexity: "O(k n) for k hashes and n layers",
			Example: "CBF.ADD online alice\nCBF.DEL online alice\nCBF.EXISTS online alice\n" +
				"CBF.DEL online alice", Handler: del,
		},
		{
			Name: "CBF.MDEL", Arity: -3, Flags: remove, Syntax: "key item [item ...]",
			Summary:    "Deletes items that were added before, each once, in one commit; answers 1 or 0, as CBF.DEL, for each.",
			Complexity: "O(N k n) for N items, k hashes and n layers",
			Example:    "CBF.MADD online alice bob\nCBF.MDEL online alice bob", Handler: mdel,
		},
		{
			Name: "CBF.EXISTS", Arity: 3, Flags: read, Syntax: "key item",
			Summary:    "Answers 1 if the item may be present, 0 if it is not.",
			Complexity: "O(k n) for k hashes and n layers",
			Example:    "CBF.ADD online alice\nCBF.EXISTS online alice", Handler: exists,
		},
		{
			Name: "CBF.MEXISTS", Arity: -3, Flags: read &^ module.Fast, Syntax: "key item [item ...]",
			Summary:    "Answers 1 or 0, as CBF.EXISTS, for each item.",
			Complexity: "O(N k n) for N items, k hashes and n layers",
			Example:    "CBF.MADD online alice bob\nCBF.MEXISTS online alice carol", Handler: mexists,
		},
		{
			Name: "CBF.COUNT", Arity: 3, Flags: read, Syntax: "key item",
			Summary:    "Answers how often the item was added and not deleted: sometimes too high, never too low; 15 means that the count is not known any more.",
			Complexity: "O(k n) for k hashes and n layers",
			Example:    "CBF.MADD online alice alice\nCBF.COUNT online alice", Handler: countCommand,
		},
		{
			Name: "CBF.CARD", Arity: 2, Flags: read, Syntax: "key",
			Summary:    "Answers the number of adds minus deletions; 0 for a missing key.",
			Complexity: "O(n) for n layers", Example: "CBF.MADD online alice bob\nCBF.CARD online", Handler: card,
		},
		{
			Name: "CBF.INFO", Arity: -2, Flags: read,
			Syntax:     "key [CAPACITY | SIZE | FILTERS | ITEMS | EXPANSION | KEPT | STUCK | LEFTOVER | DELETED | HASH]",
			Summary:    "Answers facts about the filter, or one fact.",
			Complexity: "O(n) for n layers", Example: "CBF.MADD online alice bob\nCBF.INFO online", Handler: info,
		},
		{
			Name: "CBF.DEBUG", Arity: 2, Flags: read, Syntax: "key",
			Summary:    "Answers the number of items and a line for each layer, oldest first.",
			Complexity: "O(n) for n layers", Example: "CBF.MADD online alice bob\nCBF.DEBUG online", Handler: debug,
		},
		{
			Name: "CBF.MERGE", Arity: -3, Flags: write, Syntax: "dest src [src ...]",
			LastKey: -1, KeyFlags: []string{"RW access update", "RO access"},
			Summary:    "Adds the contents of the other filters to dest, each item as often as it is in them. All filters must have been made with equal parameters and in one GROUP, or with HASH xxh64.",
			Complexity: "O(M) for M blocks of all filters",
			Example:    "CBF.RESERVE monday 0.01 1000 GROUP days\nCBF.RESERVE tuesday 0.01 1000 GROUP days\nCBF.MADD monday a b\nCBF.MADD tuesday b c\nCBF.MERGE week monday tuesday", Handler: merge,
		},
	})}
}

// filterOf returns a handle for one command.
func filterOf(c *module.Call, key []byte) *Filter {
	return &Filter{h: scalableext.HandleFor(c, key, noFilter), level: c.Level()}
}

// handleOf returns a handle on the key of a call.
func handleOf(c *module.Call) *Filter { return filterOf(c, c.Args[0]) }

// recalled is handleOf for a command of one item, which can often answer from memory.
func recalled(c *module.Call) *Filter {
	return &Filter{h: scalableext.Recalled(c, c.Args[0], noFilter), level: c.Level()}
}

// configOf returns the Config for the words of a command.
func configOf(a scalableext.Asked) Config {
	return Config{
		Capacity: a.Capacity, ErrorRate: a.ErrorRate, Expansion: a.Expansion, NonScaling: a.NonScaling, TTL: a.TTL, Hash: a.Hash, Group: a.Group,
	}
}

// groupSetting is the setting of the group of filters that commands make.
const groupSetting = "cbf-group"

// defaults returns the parameters of a filter that a command makes without being given any: RedisBloom's defaults for
// Bloom filters.
func defaults(db *kv.DB) scalableext.Asked {
	return scalableext.Asked{
		Capacity: 100, ErrorRate: 0.01, Expansion: scalableext.DefaultExpansion, Group: scalableext.GroupOf(db, groupSetting),
	}
}

// The options of CBF.RESERVE and CBF.INSERT, and how many values each has.
var (
	reserveOptions = map[string]int{"EXPANSION": 1, "NONSCALING": 0, "TTL": 1, "HASH": 1, "GROUP": 1}
	insertOptions  = map[string]int{"CAPACITY": 1, "ERROR": 1, "EXPANSION": 1, "NOCREATE": 0, "NONSCALING": 0, "ITEMS": 0}
)

func reserve(c *module.Call) reply.Reply {
	if failed, ok := filtercmd.CheckOptions(c.Args[3:], reserveOptions); !ok {
		return failed
	}
	return filtercmd.Reserve(c, defaults(c.DB), func(a scalableext.Asked) error { return handleOf(c).Reserve(configOf(a)) })
}

// defaultSpec is the spec of filters that commands make by adding to a missing key.
func defaultSpec(db *kv.DB) (kv.Spec, error) { return configOf(defaults(db)).spec(db) }

func add(c *module.Call) reply.Reply {
	return filtercmd.Bool(handleOf(c).add(c.Args[1], defaultSpec))
}

func madd(c *module.Call) reply.Reply { return addItems(c, defaultSpec, c.Args[1:]) }

func insert(c *module.Call) reply.Reply {
	if failed, ok := filtercmd.CheckOptions(c.Args[1:], insertOptions); !ok {
		return failed
	}
	return filtercmd.Insert(c, defaults(c.DB), func(a scalableext.Asked) scalableext.Spec { return configOf(a).spec }, addItems)
}

// addItems adds items and answers for each. If the filter is missing, it is made as spec says; without spec that is
// an error.
func addItems(c *module.Call, spec scalableext.Spec, items [][]byte) reply.Reply {
	f := handleOf(c)
	return filtercmd.AddItems(f.h, f.level, spec, items, f.AddStaged)
}

func del(c *module.Call) reply.Reply {
	return filtercmd.Bool(handleOf(c).Delete(c.Args[1]))
}

func mdel(c *module.Call) reply.Reply {
	items := c.Args[1:]
	deleted := make([]bool, len(items))
	f := handleOf(c)
	if err := f.h.Write(f.level, func(w *kv.Writer) error { return f.DeleteStaged(w, items, deleted) }); err != nil {
		return filtercmd.ErrorReply(err)
	}
	return reply.Bools(deleted)
}

func exists(c *module.Call) reply.Reply {
	f := recalled(c)
	return filtercmd.Exists(c, f, f.h)
}

func mexists(c *module.Call) reply.Reply { return filtercmd.MExists(c, handleOf(c)) }

func countCommand(c *module.Call) reply.Reply {
	f := handleOf(c)
	n, err := f.Count(c.Args[1])
	answer := filtercmd.Count(c, f.h, n, err)
	if n == MaxCount && err == nil {
		return reply.AtLeast(MaxCount)
	}
	return answer
}

func card(c *module.Call) reply.Reply {
	items, err := scalableext.Ask(handleOf(c).h, (*filter).items)
	return filtercmd.Card(c, items, err)
}

func info(c *module.Call) reply.Reply {
	return filtercmd.Answer(c, handleOf(c).h, (*filter).info, func(i Info) reply.Reply {
		return filtercmd.Facts(c, append([]filtercmd.Fact{
			filtercmd.IntFact("CAPACITY", "Capacity", i.Capacity),
			filtercmd.IntFact("SIZE", "Size", i.Bytes),
			filtercmd.IntFact("FILTERS", "Number of filters", uint64(len(i.Layers))),
			filtercmd.IntFact("ITEMS", "Number of items", i.Items),
			filtercmd.ExpansionFact(i.Expansion),
			filtercmd.IntFact("KEPT", "Deletes kept", i.DeletesKept),
			filtercmd.IntFact("STUCK", "Counters stuck", i.Stuck),
			filtercmd.IntFact("LEFTOVER", "Adds left over", i.Leftover),
			{Word: "DELETED", Field: reply.Label("Error rate of deleted items", reply.Double(i.DeletedRate))},
			filtercmd.HashFact(i.Hash),
		}, filtercmd.LossyFact(c, i.Lossy)...))
	})
}

func debug(c *module.Call) reply.Reply {
	return filtercmd.Answer(c, handleOf(c).h, (*filter).info, func(i Info) reply.Reply {
		lines := []reply.Reply{reply.BulkString(fmt.Sprintf("size:%d kept:%d", i.Items, i.DeletesKept))}
		for _, l := range i.Layers {
			lines = append(lines, reply.BulkString(fmt.Sprintf(
				"bytes:%d counters:%d hashes:%d hashwidth:64 capacity:%d size:%d above:%d stuck:%d ratio:%s",
				l.Counters/2, l.Counters, l.Hashes, l.Capacity, l.Adds, l.Above, l.Stuck,
				strconv.FormatFloat(l.ErrorRate, 'g', 6, 64))))
		}
		return reply.Array(lines...)
	})
}

func merge(c *module.Call) reply.Reply { return filtercmd.Merged(c, filterOf, (*Filter).Merge) }
