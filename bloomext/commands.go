package bloomext

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/kv/probe"
	"github.com/sievekv/sievekv/kv/reply"
	"github.com/sievekv/sievekv/scalableext"
)

// Module returns the extension, for kv.Options.Modules.
func Module() kv.Module {
	const (
		write = kv.Write | kv.DenyOOM | kv.ModuleFlag
		read  = kv.ReadOnly | kv.Fast | kv.ModuleFlag
	)
	type handler = func(*kv.Call) reply.Reply
	command := func(
		name string, arity int, flags kv.Flags, syntax, summary, complexity, example string, f handler,
	) kv.Command {
		return kv.Command{
			Name: name, Arity: arity, Flags: flags, FirstKey: 1, LastKey: 1, KeyStep: 1, Group: "bloom",
			Summary: summary, Syntax: syntax, Complexity: complexity, Example: example, Handler: f,
		}
	}
	merge := command("BF.MERGE", -3, write, "dest src [src ...]",
		"Adds to dest everything the other filters hold. All must be made with equal parameters.",
		"O(M) for M blocks of all filters", "BF.MADD monday a b\nBF.MADD tuesday b c\nBF.MERGE week monday tuesday", merge)
	merge.LastKey = -1
	m := kv.Module{Name: "bf", Version: moduleVersion, Types: []*kv.Type{bloomType}, Settings: settings()}
	m.Commands = []kv.Command{
		command("BF.RESERVE", -4, write, "key error_rate capacity [EXPANSION e] [NONSCALING] [TTL seconds]",
			"Makes an empty Bloom filter.", "O(1), whatever the size", "BF.RESERVE seen 0.01 1000000", reserve),
		command("BF.ADD", 3, write|kv.Fast, "key item",
			"Adds an item, making the filter if there is none; answers 1 if it is new, 0 if it was there, perhaps.",
			"O(k n) for k hashes and n layers", "BF.ADD seen http://example.org/", add),
		command("BF.MADD", -3, write, "key item [item ...]",
			"Adds items in one commit, making the filter if there is none; answers 1 or 0 for each.",
			"O(N k n) for N items, k hashes and n layers", "BF.MADD seen a b c", madd),
		command("BF.INSERT", -4, write,
			"key [CAPACITY n] [ERROR r] [EXPANSION e] [NOCREATE] [NONSCALING] ITEMS item [item ...]",
			"Adds items as BF.MADD does, to a filter that is made as the options say if there is none.",
			"O(N k n) for N items, k hashes and n layers", "BF.INSERT seen CAPACITY 10000 ITEMS a b c", insert),
		command("BF.EXISTS", 3, read, "key item",
			"Answers 1 if the item may have been added, 0 if it was not.",
			"O(k n) for k hashes and n layers", "BF.ADD seen a\nBF.EXISTS seen a", exists),
		command("BF.MEXISTS", -3, read&^kv.Fast, "key item [item ...]",
			"Answers 1 or 0, as BF.EXISTS, for each item.",
			"O(N k n) for N items, k hashes and n layers", "BF.MADD seen a b\nBF.MEXISTS seen a z", mexists),
		command("BF.CARD", 2, read, "key",
			"Answers the number of adds that were new; 0 for a missing key.",
			"O(n) for n layers", "BF.MADD seen a b\nBF.CARD seen", card),
		command("BF.INFO", -2, read, "key [CAPACITY | SIZE | FILTERS | ITEMS | EXPANSION]",
			"Answers facts about the filter, or one of them.", "O(n) for n layers", "BF.MADD seen a b\nBF.INFO seen", info),
		command("BF.DEBUG", 2, read, "key",
			"Answers the number of items and a line for each layer, oldest first.",
			"O(n) for n layers", "BF.MADD seen a b\nBF.DEBUG seen", debug),
		merge,
	}
	return m
}

var (
	errItemExists = reply.Error("ERR item exists")
	errNotFound   = reply.Error("ERR not found")
	errFullReply  = reply.Error("ERR non scaling filter is full")
	errGrow       = reply.Error("ERR problem inserting into filter")
)

// errorReply gives the words RedisBloom uses where it has any.
func errorReply(err error) reply.Reply {
	switch {
	case errors.Is(err, ErrFull):
		return errFullReply
	case errors.Is(err, ErrCannotGrow):
		return errGrow
	case errors.Is(err, kv.ErrExists):
		return errItemExists
	case errors.Is(err, kv.ErrNotFound):
		return errNotFound
	}
	return kv.ErrorReply(err)
}

// filterOf returns a handle for a call.
func filterOf(c *kv.Call, key []byte) *Filter {
	h := scalableext.NewHandle(c.DB, key, c.Transaction, noFilter)
	return &Filter{h: h, level: c.Level()}
}

// handleOf returns a handle on the key a call names.
func handleOf(c *kv.Call) *Filter {
	return filterOf(c, c.Args[0])
}

// configOf is a filter as the words of a command ask for it.
func configOf(a scalableext.Asked) Config {
	return Config{
		Capacity: a.Capacity, ErrorRate: a.ErrorRate, Expansion: a.Expansion, NonScaling: a.NonScaling, TTL: a.TTL,
	}
}

func reserve(c *kv.Call) reply.Reply {
	asked, failed, ok := scalableext.ParseReserve(c, defaults(c.DB))
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
	f := handleOf(c)
	added, err := f.Add(c.Args[1])
	if errors.Is(err, kv.ErrNotFound) {
		r := insertItems(f, defaultConfig(c.DB), c.Args[1:2])
		if !r.IsError() {
			r = r.Elems()[0]
		}
		return r
	}
	if err != nil {
		return errorReply(err)
	}
	return reply.Bool(added)
}

func madd(c *kv.Call) reply.Reply { return insertItems(handleOf(c), defaultConfig(c.DB), c.Args[1:]) }

func insert(c *kv.Call) reply.Reply {
	asked, items, failed, ok := scalableext.ParseInsert(c, defaults(c.DB))
	switch {
	case !ok:
		return failed
	case asked == nil:
		return insertItems(handleOf(c), nil, items)
	}
	create := configOf(*asked)
	return insertItems(handleOf(c), &create, items)
}

// insertItems adds items in a single commit, and answers for each. A filter that
// is missing is made as create says, or, if that is nil, an error. The answers
// end with the error of a full filter, and go on after that of one that cannot
// grow, which may know later items.
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
		n, err := stageMany(f.h, w, items[start:], added[start:], probe.Sum64Seed)
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

// absent reports whether a lookup's error means, on the wire, that there is
// nothing: a missing key and one of another type both answer 0.
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

// sizeOf is the size that BF.INFO answers: that of the bit arrays and of
// RedisBloom's bookkeeping, which clients reckon with.
func sizeOf(i Info) int64 { return 32 + 64*int64(len(i.Layers)) + int64(i.Bytes) }

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
		{"SIZE", reply.Field("Size", reply.Int(sizeOf(i)))},
		{"FILTERS", reply.Field("Number of filters", reply.Int(int64(len(i.Layers))))},
		{"ITEMS", reply.Field("Number of items inserted", reply.Int(int64(i.Items)))},
		{"EXPANSION", reply.Field("Expansion rate", expansion)},
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
	if i.ItemsEstimated {
		pairs = append(pairs, reply.Field("Number of items is estimated", reply.Int(1)))
	}
	return reply.Map(pairs...)
}

func debug(c *kv.Call) reply.Reply {
	i, err := factsOf(c)
	if err != nil {
		return errorReply(err)
	}
	lines := []reply.Reply{reply.BulkString(fmt.Sprintf("size:%d", i.Items))}
	for _, l := range i.Layers {
		lines = append(lines, reply.BulkString(fmt.Sprintf(
			"bytes:%d bits:%d hashes:%d hashwidth:64 capacity:%d size:%d ratio:%s",
			l.Bits/8, l.Bits, l.Hashes, l.Capacity, l.Items, strconv.FormatFloat(l.ErrorRate, 'g', 6, 64))))
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
