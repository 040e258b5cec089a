package countingext

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/kv/reply"
	"github.com/sievekv/sievekv/scalableext"
)

// Module returns the extension, for kv.Options.Modules.
func Module() kv.Module {
	const (
		write  = kv.Write | kv.DenyOOM | kv.ModuleFlag
		remove = kv.Write | kv.ModuleFlag
		read   = kv.ReadOnly | kv.Fast | kv.ModuleFlag
	)
	command := func(
		name string, arity int, flags kv.Flags, syntax, summary, complexity, example string, f func(*kv.Call) reply.Reply,
	) kv.Command {
		return kv.Command{
			Name: name, Arity: arity, Flags: flags, FirstKey: 1, LastKey: 1, KeyStep: 1, Group: "counting",
			Summary: summary, Syntax: syntax, Complexity: complexity, Example: example, Handler: f,
		}
	}
	merge := command("CBF.MERGE", -3, write, "dest src [src ...]",
		"Adds to dest everything the other filters hold, each as often. All must be made with equal parameters.",
		"O(M) for M blocks of all filters", "CBF.MADD monday a b\nCBF.MADD tuesday b c\nCBF.MERGE week monday tuesday", merge)
	merge.LastKey = -1
	return kv.Module{Name: "cbf", Types: []*kv.Type{countingType}, Commands: []kv.Command{
		command("CBF.RESERVE", -4, write, "key error_rate capacity [EXPANSION e] [NONSCALING] [TTL seconds]",
			"Makes an empty counting Bloom filter.", "O(1), whatever the size", "CBF.RESERVE online 0.01 1000000", reserve),
		command("CBF.ADD", 3, write|kv.Fast, "key item",
			"Adds an item, once more if it is there, making the filter if there is none; answers 1 if it was absent, else 0.",
			"O(k n) for k hashes and n layers", "CBF.ADD online alice", add),
		command("CBF.MADD", -3, write, "key item [item ...]",
			"Adds items in one commit, making the filter if there is none; answers 1 or 0, as CBF.ADD, for each.",
			"O(N k n) for N items, k hashes and n layers", "CBF.MADD online alice bob alice", madd),
		command("CBF.INSERT", -4, write,
			"key [CAPACITY n] [ERROR r] [EXPANSION e] [NOCREATE] [NONSCALING] ITEMS item [item ...]",
			"Adds items as CBF.MADD does, to a filter that is made as the options say if there is none.",
			"O(N k n) for N items, k hashes and n layers", "CBF.INSERT online CAPACITY 10000 ITEMS alice bob", insert),
		command("CBF.DEL", 3, remove|kv.Fast, "key item",
			"Deletes an item, once, and answers 1, or 0 if it is not there. One never added may take others with it.",
			"O(k n) for k hashes and n layers", "CBF.ADD online alice\nCBF.DEL online alice\nCBF.EXISTS online alice\n"+
				"CBF.DEL online alice", del),
		command("CBF.MDEL", -3, remove, "key item [item ...]",
			"Deletes items that were added before, each once, in one commit; answers 1 or 0, as CBF.DEL, for each.",
			"O(N k n) for N items, k hashes and n layers", "CBF.MADD online alice bob\nCBF.MDEL online alice bob", mdel),
		command("CBF.EXISTS", 3, read, "key item",
			"Answers 1 if the item may be there, 0 if it is not.",
			"O(k n) for k hashes and n layers", "CBF.ADD online alice\nCBF.EXISTS online alice", exists),
		command("CBF.MEXISTS", -3, read&^kv.Fast, "key item [item ...]",
			"Answers 1 or 0, as CBF.EXISTS, for each item.",
			"O(N k n) for N items, k hashes and n layers", "CBF.MADD online alice bob\nCBF.MEXISTS online alice carol", mexists),
		command("CBF.COUNT", 3, read, "key item",
			"Answers how often the item is there, perhaps too high but never too low; 15 means 15 or more.",
			"O(k n) for k hashes and n layers", "CBF.MADD online alice alice\nCBF.COUNT online alice", countCommand),
		command("CBF.CARD", 2, read, "key",
			"Answers the number of items there, each as often as it was added and not deleted; 0 for a missing key.",
			"O(n) for n layers", "CBF.MADD online alice bob\nCBF.CARD online", card),
		command("CBF.INFO", -2, read, "key [CAPACITY | SIZE | FILTERS | ITEMS | EXPANSION | KEPT | STUCK]",
			"Answers facts about the filter, or one of them.", "O(n) for n layers",
			"CBF.MADD online alice bob\nCBF.INFO online", info),
		command("CBF.DEBUG", 2, read, "key",
			"Answers the number of items and a line for each layer, oldest first.",
			"O(n) for n layers", "CBF.MADD online alice bob\nCBF.DEBUG online", debug),
		merge,
	}}
}

// errorReply gives the words RedisBloom uses where it has any.
func errorReply(err error) reply.Reply {
	switch {
	case errors.Is(err, ErrFull):
		return reply.Error("ERR non scaling filter is full")
	case errors.Is(err, ErrCannotGrow):
		return reply.Error("ERR problem inserting into filter")
	case errors.Is(err, kv.ErrExists):
		return reply.Error("ERR item exists")
	case errors.Is(err, kv.ErrNotFound):
		return reply.Error("ERR not found")
	}
	return kv.ErrorReply(err)
}

// filterOf returns a handle for a call.
func filterOf(c *kv.Call, key []byte) *Filter {
	return &Filter{h: scalableext.NewHandle(c.DB, key, c.Transaction, noFilter), level: c.Level()}
}

// handleOf returns a handle on the key a call names.
func handleOf(c *kv.Call) *Filter { return filterOf(c, c.Args[0]) }

// configOf is a filter as the words of a command ask for it.
func configOf(a scalableext.Asked) Config {
	return Config{
		Capacity: a.Capacity, ErrorRate: a.ErrorRate, Expansion: a.Expansion, NonScaling: a.NonScaling, TTL: a.TTL,
	}
}

// defaultAsked is what a command makes a filter of that it is not told anything about:
// RedisBloom's defaults of Bloom filters.
var defaultAsked = scalableext.Asked{Capacity: 100, ErrorRate: 0.01, Expansion: defaultExpansion}

// defaultConfig is that of filters made by adding to a missing key.
func defaultConfig() *Config {
	c := configOf(defaultAsked)
	return &c
}

func reserve(c *kv.Call) reply.Reply {
	asked, failed, ok := scalableext.ParseReserve(c, defaultAsked)
	if !ok {
		return failed
	}
	err := handleOf(c).Reserve(configOf(asked))
	if errors.Is(err, kv.ErrWrongType) {
		return kv.WrongType
	}
	if err != nil {
		return errorReply(err)
	}
	return reply.OK
}

func add(c *kv.Call) reply.Reply {
	r := insertItems(handleOf(c), defaultConfig(), c.Args[1:2])
	if !r.IsError() {
		r = r.Elems()[0]
	}
	return r
}

func madd(c *kv.Call) reply.Reply { return insertItems(handleOf(c), defaultConfig(), c.Args[1:]) }

func insert(c *kv.Call) reply.Reply {
	asked, items, failed, ok := scalableext.ParseInsert(c, defaultAsked)
	switch {
	case !ok:
		return failed
	case asked == nil:
		return insertItems(handleOf(c), nil, items)
	}
	create := configOf(*asked)
	return insertItems(handleOf(c), &create, items)
}

// insertItems adds items in a single commit, and answers for each. A filter that is
// missing is made as create says, or, if that is nil, an error. The answers end with the
// error of a full filter, and go on after that of one that cannot grow, which may know
// later items.
func insertItems(f *Filter, create *Config, items [][]byte) reply.Reply {
	w, err := f.h.Begin(f.level)
	if err != nil {
		return errorReply(err)
	}
	list, err := stageItems(f, w, create, items)
	if err != nil {
		return errorReply(w.Refuse(err))
	}
	if err := w.Commit(); err != nil {
		return errorReply(err)
	}
	return reply.Array(list...)
}

// noRoom reports whether an add was refused for want of room.
func noRoom(err error) bool { return errors.Is(err, ErrFull) || errors.Is(err, ErrCannotGrow) }

func stageItems(f *Filter, w *kv.Writer, create *Config, items [][]byte) ([]reply.Reply, error) {
	_, err := f.h.Staged(w)
	if errors.Is(err, kv.ErrNotFound) && create != nil {
		err = f.ReserveStaged(w, *create)
	}
	if err != nil {
		return nil, err
	}
	added := make([]bool, len(items))
	var list []reply.Reply
	for start := 0; start < len(items); {
		n, err := f.AddStaged(w, items[start:], added[start:])
		if err != nil && !noRoom(err) {
			return nil, err
		}
		list = append(list, bools(added[start:start+n])...)
		if err == nil {
			break
		}
		list = append(list, errorReply(err))
		if errors.Is(err, ErrFull) {
			break
		}
		start += n + 1
	}
	return list, nil
}

func bools(answers []bool) []reply.Reply {
	list := make([]reply.Reply, len(answers))
	for i, yes := range answers {
		list[i] = reply.Bool(yes)
	}
	return list
}

func del(c *kv.Call) reply.Reply {
	deleted, err := handleOf(c).Delete(c.Args[1])
	if err != nil {
		return errorReply(err)
	}
	return reply.Bool(deleted)
}

func mdel(c *kv.Call) reply.Reply {
	items := c.Args[1:]
	deleted := make([]bool, len(items))
	if err := handleOf(c).deleteChunk(items, deleted); err != nil {
		return errorReply(err)
	}
	return reply.Array(bools(deleted)...)
}

// absent reports whether a lookup's error means, on the wire, that there is nothing: a
// missing key and one of another type both answer 0.
func absent(err error) bool {
	return errors.Is(err, kv.ErrNotFound) || errors.Is(err, kv.ErrWrongType)
}

func exists(c *kv.Call) reply.Reply {
	present, err := handleOf(c).MayContain(c.Args[1])
	switch {
	case absent(err):
		return reply.Bool(false)
	case err != nil:
		return errorReply(err)
	}
	return reply.Bool(present)
}

func mexists(c *kv.Call) reply.Reply {
	items := c.Args[1:]
	present := make([]bool, len(items))
	switch err := handleOf(c).MayContainMany(items, present); {
	case absent(err):
		clear(present)
	case err != nil:
		return errorReply(err)
	}
	return reply.Array(bools(present)...)
}

func countCommand(c *kv.Call) reply.Reply {
	n, err := handleOf(c).Count(c.Args[1])
	switch {
	case absent(err):
		return reply.Int(0)
	case err != nil:
		return errorReply(err)
	case n == MaxCount:
		return reply.AtLeast(MaxCount)
	}
	return reply.Int(int64(n))
}

func card(c *kv.Call) reply.Reply {
	var items uint64
	err := handleOf(c).look(func(r kv.Reader, f *filter) error {
		items = f.items(r)
		return nil
	})
	switch {
	case errors.Is(err, kv.ErrNotFound):
		return reply.Int(0)
	case err != nil:
		return errorReply(err)
	}
	return reply.Int(int64(items))
}

// factsOf returns what Info does, but for the bytes on disk and in memory.
func factsOf(c *kv.Call) (i Info, err error) {
	err = handleOf(c).look(func(r kv.Reader, f *filter) error {
		i = f.info(r)
		return nil
	})
	return i, err
}

func info(c *kv.Call) reply.Reply {
	if len(c.Args) > 2 {
		return kv.WrongArity(c.Command)
	}
	i, err := factsOf(c)
	if err != nil {
		return errorReply(err)
	}
	expansion := reply.Nil
	if i.Expansion != 0 {
		expansion = reply.Int(int64(i.Expansion))
	}
	fields := []struct {
		word string
		pair reply.Pair
	}{
		{"CAPACITY", reply.Field("Capacity", reply.Int(int64(i.Capacity)))},
		{"SIZE", reply.Field("Size", reply.Int(int64(i.Bytes)))},
		{"FILTERS", reply.Field("Number of filters", reply.Int(int64(len(i.Layers))))},
		{"ITEMS", reply.Field("Number of items", reply.Int(int64(i.Items)))},
		{"EXPANSION", reply.Field("Expansion rate", expansion)},
		{"KEPT", reply.Field("Deletes kept", reply.Int(int64(i.DeletesKept)))},
		{"STUCK", reply.Field("Counters stuck", reply.Int(int64(i.Stuck)))},
	}
	var pairs []reply.Pair
	for _, f := range fields {
		if len(c.Args) == 2 && kv.Fold(c.Args[1]) == f.word {
			return reply.Either(reply.Array(f.pair.Value), reply.Map(f.pair))
		}
		pairs = append(pairs, f.pair)
	}
	if len(c.Args) == 2 {
		return reply.Error("Invalid information value")
	}
	return reply.Map(pairs...)
}

func debug(c *kv.Call) reply.Reply {
	i, err := factsOf(c)
	if err != nil {
		return errorReply(err)
	}
	lines := []reply.Reply{reply.BulkString(fmt.Sprintf("size:%d kept:%d", i.Items, i.DeletesKept))}
	for _, l := range i.Layers {
		lines = append(lines, reply.BulkString(fmt.Sprintf(
			"bytes:%d counters:%d hashes:%d hashwidth:64 capacity:%d size:%d above:%d stuck:%d ratio:%s",
			l.Counters/2, l.Counters, l.Hashes, l.Capacity, l.Adds, l.Above, l.Stuck,
			strconv.FormatFloat(l.ErrorRate, 'g', 6, 64))))
	}
	return reply.Array(lines...)
}

func merge(c *kv.Call) reply.Reply {
	dest := handleOf(c)
	sources := make([]*Filter, len(c.Args)-1)
	for i, key := range c.Args[1:] {
		sources[i] = filterOf(c, key)
	}
	if err := dest.Merge(c.Context, sources...); err != nil {
		return errorReply(err)
	}
	return reply.OK
}
