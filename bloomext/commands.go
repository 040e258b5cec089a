package bloomext

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"

	"github.com/sievekv/sievekv/internal/filtercmd"
	"github.com/sievekv/sievekv/internal/hash"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/scalableext"
)

// Options are what a program may choose for all filters that it makes in a store.
type Options struct {
	// GrowthLog is the setting growth-log-bytes of the store when it is opened, see Config.GrowthLog. 0 means 64 MiB, below
	// 0 that filters have no log. At most 2^40.
	GrowthLog int64
}

// Module returns the extension, for module.New.
func Module() module.Module { return ModuleWith(Options{}) }

// ModuleWith is Module with options. A program that opens its store with package sievekv has it in Options.Modules.
func ModuleWith(o Options) module.Module {
	const (
		write = module.Write | module.DenyOOM | module.ModuleFlag
		read  = module.ReadOnly | module.Fast | module.ModuleFlag
	)
	m := module.Module{Name: "bf", Version: moduleVersion, Types: []*kv.Type{bloomType}, Settings: settings(o)}
	m.Commands = filtercmd.Commands("bloom", []module.Command{
		{
			Name: "BF.RESERVE", Arity: -4, Flags: write | module.Brief,
			Syntax:     "key error_rate capacity [EXPANSION e] [NONSCALING] [TTL seconds] [HASH KEYED|XXH64] [GROUP name] [WINDOW seconds | LAST n] [SLICES n] [GROWTHLOG bytes]",
			Summary:    "Makes an empty Bloom filter. With WINDOW it forgets items that were not added for so long, with LAST all but the last n items. Filters of one GROUP can be merged. GROWTHLOG is the most bytes of the log from which it grows, 0 for none, as with EXPANSION alone.",
			Complexity: "O(1), whatever the size", Example: "BF.RESERVE seen 0.01 1000000", Handler: reserve,
		},
		{
			Name: "BF.ADD", Arity: 3, Flags: write | module.Fast, Syntax: "key item",
			Summary:    "Adds an item, and makes the filter if it is missing; answers 1 if the item is new, 0 if it may have been added before.",
			Complexity: "O(k n) for k hashes and n layers", Example: "BF.ADD seen http://example.org/", Handler: add, Series: addSeries,
		},
		{
			Name: "BF.MADD", Arity: -3, Flags: write, Syntax: "key item [item ...]",
			Summary:    "Adds items in one commit, and makes the filter if it is missing; answers 1 or 0 for each.",
			Complexity: "O(N k n) for N items, k hashes and n layers", Example: "BF.MADD seen a b c", Handler: madd,
		},
		{
			Name: "BF.INSERT", Arity: -4, Flags: write,
			Syntax:     "key [CAPACITY n] [ERROR r] [EXPANSION e] [NOCREATE] [NONSCALING] ITEMS item [item ...]",
			Summary:    "Adds items as BF.MADD does, and makes the filter as the options say if it is missing.",
			Complexity: "O(N k n) for N items, k hashes and n layers",
			Example:    "BF.INSERT seen CAPACITY 10000 ITEMS a b c", Handler: insert,
		},
		{
			Name: "BF.EXISTS", Arity: 3, Flags: read, Syntax: "key item",
			Summary:    "Answers 1 if the item may have been added, 0 if it was not.",
			Complexity: "O(k n) for k hashes and n layers", Example: "BF.ADD seen a\nBF.EXISTS seen a", Handler: exists, Series: existsSeries,
		},
		{
			Name: "BF.MEXISTS", Arity: -3, Flags: read &^ module.Fast, Syntax: "key item [item ...]",
			Summary:    "Answers 1 or 0, as BF.EXISTS, for each item.",
			Complexity: "O(N k n) for N items, k hashes and n layers",
			Example:    "BF.MADD seen a b\nBF.MEXISTS seen a z", Handler: mexists,
		},
		{
			Name: "BF.CARD", Arity: 2, Flags: read, Syntax: "key",
			Summary:    "Answers the number of items that were new when added; 0 for a missing key.",
			Complexity: "O(n) for n layers", Example: "BF.MADD seen a b\nBF.CARD seen", Handler: card,
		},
		{
			Name: "BF.INFO", Arity: -2, Flags: read, Syntax: "key [CAPACITY | SIZE | FILTERS | ITEMS | EXPANSION | HASH | GROWTHLOG | WINDOW | LAST | SLICES]",
			Summary:    "Answers facts about the filter, or one fact.",
			Complexity: "O(n) for n layers", Example: "BF.MADD seen a b\nBF.INFO seen", Handler: info,
		},
		{
			Name: "BF.DEBUG", Arity: 2, Flags: read, Syntax: "key",
			Summary:    "Answers the number of items and a line for each layer, oldest first.",
			Complexity: "O(n) for n layers", Example: "BF.MADD seen a b\nBF.DEBUG seen", Handler: debug,
		},
		{
			Name: "BF.SCANDUMP", Arity: 3, Flags: read &^ module.Fast, Syntax: "key iterator",
			Summary:    "Answers a chunk of the filter's dump, and the iterator of the next; begins at 0, and ends with 0.",
			Complexity: "O(M) for M bytes of the chunk", Example: "CONFIG SET bf-layout compatible\nBF.ADD seen a\nBF.SCANDUMP seen 0", Handler: scanDump,
		},
		{
			Name: "BF.LOADCHUNK", Arity: 4, Flags: write | module.NoMulti | module.Brief, Syntax: "key iterator data",
			Summary:    "Loads a chunk of a dump, with the iterator that came with it; the filter appears when all of it has come.",
			Complexity: "O(M) for M bytes of the chunk", Example: loadExample, Handler: loadChunk,
		},
		{
			Name: "BF.MERGE", Arity: -3, Flags: write, Syntax: "dest src [src ...]",
			LastKey: -1, KeyFlags: []string{"RW access update", "RO access"},
			Summary:    "Adds the contents of the other filters to dest. All filters must have been made with equal parameters and in one GROUP, or with HASH xxh64.",
			Complexity: "O(M) for M blocks of all filters",
			Example:    "BF.RESERVE monday 0.01 1000 GROUP days\nBF.RESERVE tuesday 0.01 1000 GROUP days\nBF.MADD monday a b\nBF.MADD tuesday b c\nBF.MERGE week monday tuesday", Handler: merge,
		},
	})
	return m
}

// filterOf returns a handle for one command.
func filterOf(c *module.Call, key []byte) *Filter {
	return &Filter{h: scalableext.HandleFor(c, key, noFilter), level: c.Level()}
}

// handleOf returns a handle on the key of a call.
func handleOf(c *module.Call) *Filter {
	return filterOf(c, c.Args[0])
}

// recalled is handleOf for a command that looks up or adds one item, which can often answer from memory.
func recalled(c *module.Call) *Filter {
	return &Filter{h: scalableext.Recalled(c, c.Args[0], noFilter), level: c.Level()}
}

// configOf returns the Config for the words of a command.
func configOf(db *kv.DB, a scalableext.Asked) Config {
	c := Config{
		Capacity: a.Capacity, ErrorRate: a.ErrorRate, Expansion: a.Expansion, NonScaling: a.NonScaling, TTL: a.TTL, Hash: a.Hash, Group: a.Group,
		Layout: scalableext.LayoutOf(db, layoutSetting), unused: a.Unused + 1,
		Window: a.Window.Span, Last: a.Window.Last, Slices: a.Window.Slices, GrowthLog: a.GrowthLog,
	}
	if c.GrowthLog == 0 && !a.Layers && c.Layout == scalableext.LayoutNative {
		c.GrowthLog = cmp.Or(defaultLog(db), -1)
	}
	return c
}

func reserve(c *module.Call) reply.Reply {
	words := defaults(c.DB)
	words.Windows = true
	asked, failed, ok := filtercmd.ParseReserve(c, words)
	if !ok {
		return failed
	}
	config := configOf(c.DB, asked)
	compatible := config.Layout == scalableext.LayoutCompatible
	if compatible && config.Slices+int(config.Last)+int(config.Window) != 0 {
		return reply.Errorf("ERR bad window: not with %s compatible, in which filters do not forget", layoutSetting)
	}
	if compatible && config.GrowthLog != 0 {
		return reply.Errorf("ERR bad growthlog: not with %s compatible, in which filters have no log", layoutSetting)
	}
	if compatible && config.Hash != hash.Default {
		return reply.Errorf("ERR bad hash: not with %s compatible, which has its own hash", layoutSetting)
	}
	if compatible && config.Group != "" {
		return reply.Errorf("ERR bad group: not with %s compatible, in which all filters have one hash", layoutSetting)
	}
	err := handleOf(c).Reserve(config)
	if compatible && errors.Is(err, kv.ErrTooLarge) {
		return errNoMemory
	}
	return filtercmd.Done(err)
}

// errNoMemory is RedisBloom's answer to a filter that is too large.
var errNoMemory = reply.Error("ERR Insufficient memory to create filter")

func add(c *module.Call) reply.Reply {
	return filtercmd.Bool(recalled(c).add(c.Args[1], defaultSpec))
}

// addSeries answers items that the filter has from memory, up to the first that is perhaps new. It adds the rest in one
// commit.
func addSeries(c *module.Call, calls *module.Series) {
	f := recalled(c)
	known := f.residentSeries(calls, true)
	if known > 0 {
		o := f.h.Current.Load().object
		if err := f.h.DB.Acknowledge(o, f.level); err != nil {
			known = 0
		}
		o.Uses().Adds(0, uint64(known))
	}
	if known == calls.Len() {
		return
	}
	before := f.logging()
	filtercmd.AddSeries(f.h, f.level, defaultSpec, calls, known, f.AddStaged, func(item []byte) (bool, error) { return f.add(item, defaultSpec) })
	for i := known; i < calls.Len() && before != nil; i++ {
		if r := calls.Replies[i]; !r.IsError() && (r.Int() == 0 || before.sure.made()) {
			f.remember(before, before.hash.Sum(calls.Args(i)[1]))
		}
	}
	f.Added(calls.Len() - known)
}

func existsSeries(c *module.Call, calls *module.Series) {
	f := recalled(c)
	n, yes := f.residentSeries(calls, false), 0
	for _, r := range calls.Replies[:n] {
		yes += int(r.Int())
	}
	f.h.CountAnswers(yes, n-yes)
	for i := n; i < calls.Len(); i++ {
		present, err := f.MayContain(calls.Args(i)[1])
		calls.Replies[i] = filtercmd.Existence(c, f.h, present, err)
	}
}

func madd(c *module.Call) reply.Reply { return addItems(c, defaultSpec, c.Args[1:]) }

func insert(c *module.Call) reply.Reply {
	return filtercmd.Insert(c, defaults(c.DB), func(a scalableext.Asked) scalableext.Spec { return configOf(c.DB, a).spec }, addItems)
}

// addItems adds items and answers for each. If the filter is missing, it is made as spec says; without spec that is
// an error.
func addItems(c *module.Call, spec scalableext.Spec, items [][]byte) reply.Reply {
	f := handleOf(c)
	f.adding(len(items))
	defer f.Added(len(items))
	return filtercmd.AddItems(f.h, f.level, spec, items, f.AddStaged)
}

func exists(c *module.Call) reply.Reply {
	f := recalled(c)
	return filtercmd.Exists(c, f, f.h)
}

func mexists(c *module.Call) reply.Reply { return filtercmd.MExists(c, handleOf(c)) }

func card(c *module.Call) reply.Reply {
	items, err := scalableext.Ask(handleOf(c).h, (*filter).items)
	return filtercmd.Card(c, items, err)
}

// sizeOf returns the size that BF.INFO answers: the size of the bit arrays and of RedisBloom's bookkeeping, as clients
// expect.
func sizeOf(i Info) uint64 { return 32 + 64*uint64(len(i.Layers)) + i.Bytes }

func info(c *module.Call) reply.Reply {
	return filtercmd.Answer(c, handleOf(c).h, (*filter).info, func(i Info) reply.Reply {
		facts := []filtercmd.Fact{
			filtercmd.IntFact("CAPACITY", "Capacity", i.Capacity),
			filtercmd.IntFact("SIZE", "Size", sizeOf(i)),
			filtercmd.IntFact("FILTERS", "Number of filters", uint64(len(i.Layers))),
			filtercmd.IntFact("ITEMS", "Number of items inserted", i.Items),
			filtercmd.ExpansionFact(i.Expansion),
		}
		if i.ItemsEstimated && len(c.Args) == 1 {
			facts = append(facts, filtercmd.IntFact("", "Number of items is estimated", 1))
		}
		facts = append(facts, filtercmd.LossyFact(c, i.Lossy)...)
		facts = append(facts, windowReply(c, i)...)
		log := filtercmd.IntFact("GROWTHLOG", "Growth log", i.LogBytes)
		log.Alone = true
		return filtercmd.Facts(c, append(facts, filtercmd.HashFact(i.Hash), log))
	})
}

// windowReply returns the facts of a filter that forgets, nothing for others. Times are in milliseconds.
func windowReply(c *module.Call, i Info) []filtercmd.Fact {
	if i.Window == 0 && i.Last == 0 {
		return nil
	}
	now := c.DB.Now()
	var slices []reply.Reply
	for _, s := range i.Slices {
		facts := []reply.Pair{
			reply.Label("Items", reply.Int(int64(s.Items))), reply.Label("Capacity", reply.Int(int64(s.Capacity))),
			reply.Label("Fill", reply.Double(s.Fill)),
		}
		if i.Window != 0 {
			facts = append(facts, reply.Label("Age", reply.Int(max(0, now-s.Begun.UnixMilli()))),
				reply.Label("Expires in", reply.Int(max(0, s.ExpiresAt.UnixMilli()-now))))
		}
		slices = append(slices, reply.Map(facts...))
	}
	window := filtercmd.IntFact("WINDOW", "Window", uint64(i.Window.Milliseconds()))
	if i.Last != 0 {
		window = filtercmd.IntFact("LAST", "Last", i.Last)
	}
	return []filtercmd.Fact{window, {Word: "SLICES", Field: reply.Label("Slices", reply.Array(slices...))}}
}

func debug(c *module.Call) reply.Reply {
	return filtercmd.Answer(c, handleOf(c).h, (*filter).info, func(i Info) reply.Reply {
		lines := []reply.Reply{reply.BulkString(fmt.Sprintf("size:%d", i.Items))}
		for _, l := range i.Layers {
			lines = append(lines, reply.BulkString(fmt.Sprintf(
				"bytes:%d bits:%d hashes:%d hashwidth:64 capacity:%d size:%d ratio:%s",
				(l.Bits+7)/8, l.Bits, l.Hashes, l.Capacity, l.Items, strconv.FormatFloat(l.ErrorRate, 'g', 6, 64))))
		}
		return reply.Array(lines...)
	})
}

func merge(c *module.Call) reply.Reply { return filtercmd.Merged(c, filterOf, (*Filter).Merge) }
