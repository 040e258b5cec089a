package bloomext

import (
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/kv/probe"
	"github.com/sievekv/sievekv/kv/reply"
)

// Module returns the extension, for kv.Options.Modules.
func Module() kv.Module {
	const (
		write = kv.Write | kv.DenyOOM | kv.ModuleFlag
		read  = kv.ReadOnly | kv.Fast | kv.ModuleFlag
	)
	command := func(name string, arity int, flags kv.Flags, syntax, summary, complexity, example string, f func(*kv.Call) reply.Reply) kv.Command {
		return kv.Command{
			Name: name, Arity: arity, Flags: flags, FirstKey: 1, LastKey: 1, KeyStep: 1, Group: "bloom",
			Summary: summary, Syntax: syntax, Complexity: complexity, Example: example, Handler: f,
		}
	}
	return kv.Module{Name: "bf", Types: []*kv.Type{bloomType}, Commands: []kv.Command{
		command("BF.RESERVE", -4, write, "key error_rate capacity [EXPANSION e] [NONSCALING]",
			"Makes an empty Bloom filter.", "O(1), whatever the size", "BF.RESERVE seen 0.01 1000000 NONSCALING", reserve),
		command("BF.ADD", 3, write|kv.Fast, "key item",
			"Adds an item; answers 1 if it is new, 0 if it was there, perhaps.", "O(k) for k hashes", "BF.ADD seen http://example.org/", add),
		command("BF.MADD", -3, write, "key item [item ...]",
			"Adds items in one commit; answers 1 or 0 for each.", "O(N k) for N items and k hashes", "BF.MADD seen a b c", madd),
		command("BF.EXISTS", 3, read, "key item",
			"Answers 1 if the item may have been added, 0 if it was not.", "O(k) for k hashes", "BF.EXISTS seen a", exists),
		command("BF.MEXISTS", -3, read&^kv.Fast, "key item [item ...]",
			"Answers 1 or 0, as BF.EXISTS, for each item.", "O(N k) for N items and k hashes", "BF.MEXISTS seen a z", mexists),
		command("BF.CARD", 2, read, "key",
			"Answers the number of adds that were new; 0 for a missing key.", "O(1)", "BF.CARD seen", card),
		command("BF.INFO", -2, read, "key [CAPACITY | SIZE | FILTERS | ITEMS | EXPANSION]",
			"Answers facts about the filter, or one of them.", "O(1)", "BF.INFO seen", info),
	}}
}

var (
	errItemExists   = reply.Error("ERR item exists")
	errNotFound     = reply.Error("ERR not found")
	errFullReply    = reply.Error("ERR non scaling filter is full")
	errNeedsReserve = reply.Error("ERR not found: BF.RESERVE key error_rate capacity NONSCALING makes the filter")
)

// errorReply gives the words RedisBloom uses where it has any.
func errorReply(err error) reply.Reply {
	switch {
	case errors.Is(err, ErrFull):
		return errFullReply
	case errors.Is(err, kv.ErrExists):
		return errItemExists
	case errors.Is(err, kv.ErrNotFound):
		return errNotFound
	}
	return kv.ErrorReply(err)
}

// handleOf returns a handle on the key a call names.
func handleOf(c *kv.Call) *Filter {
	return &Filter{h: newHandle(c.DB, c.Args[0]), level: c.Level()}
}

// parseInt parses a decimal integer as strictly as Redis does: no sign but one
// minus, no blanks, no leading zeros.
func parseInt(b []byte) (int64, bool) {
	n, err := strconv.ParseInt(string(b), 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == string(b)
}

// parseFloat parses a number as C's strtod does: decimal, hexadecimal, inf and
// nan, no blanks.
func parseFloat(b []byte) (float64, bool) {
	s := strings.ToLower(string(b))
	if strings.Contains(s, "_") {
		return 0, false
	}
	if strings.Contains(s, "0x") && !strings.Contains(s, "p") {
		s += "p0" // Go wants an exponent
	}
	v, err := strconv.ParseFloat(s, 64)
	return v, err == nil || errors.Is(err, strconv.ErrRange)
}

// reserveWords are the most words of BF.RESERVE, its name included.
const reserveWords = 7

// options are what may follow the positional arguments of BF.RESERVE.
type options struct {
	expansion    int64
	hasExpansion bool
	nonScaling   bool
}

// parseOptions reads the first occurrence of each option; other words are
// passed over, as RedisBloom does.
func parseOptions(args [][]byte) (o options, failed reply.Reply, ok bool) {
	for i, arg := range args {
		switch {
		case strings.EqualFold(string(arg), "NONSCALING"):
			o.nonScaling = true
		case strings.EqualFold(string(arg), "EXPANSION") && !o.hasExpansion:
			if i+1 == len(args) {
				return o, reply.Error("ERR no expansion"), false
			}
			if o.expansion, ok = parseInt(args[i+1]); !ok {
				return o, reply.Error("ERR bad expansion"), false
			}
			o.hasExpansion = true
		}
	}
	switch {
	case o.hasExpansion && o.nonScaling && o.expansion != 0:
		return o, reply.Error("Nonscaling filters cannot expand"), false
	case o.hasExpansion && (o.expansion < 0 || o.expansion > 32768):
		return o, reply.Error("ERR expansion must be in the range [0, 32768]"), false
	}
	o.nonScaling = o.nonScaling || o.hasExpansion && o.expansion == 0
	return o, reply.Nil, true
}

func reserve(c *kv.Call) reply.Reply {
	if len(c.Args)+1 > reserveWords {
		return kv.WrongArity(c.Command)
	}
	rate, ok := parseFloat(c.Args[1])
	switch {
	case !ok || math.IsNaN(rate):
		return reply.Error("ERR bad error rate")
	case rate <= 0 || rate >= 1:
		return reply.Error("ERR error rate must be in the range (0.000000, 1.000000)")
	}
	capacity, ok := parseInt(c.Args[2])
	switch {
	case !ok:
		return reply.Error("ERR bad capacity")
	case capacity < 1 || capacity > probe.MaxCapacity:
		return reply.Errorf("ERR capacity must be in the range [1, %d]", int64(probe.MaxCapacity))
	}
	o, failed, ok := parseOptions(c.Args[3:])
	if !ok {
		return failed
	}
	if !o.nonScaling {
		return reply.Error("ERR filters that grow are not supported: add NONSCALING")
	}
	err := handleOf(c).Reserve(Config{Capacity: uint64(capacity), ErrorRate: rate})
	if errors.Is(err, kv.ErrExists) {
		return existing(c)
	}
	if err != nil {
		return errorReply(err)
	}
	return reply.OK
}

// existing is the reply of BF.RESERVE to a key that holds something.
func existing(c *kv.Call) reply.Reply {
	if _, err := handleOf(c).Info(); errors.Is(err, kv.ErrWrongType) {
		return kv.WrongType
	}
	return errItemExists
}

func add(c *kv.Call) reply.Reply {
	added, err := handleOf(c).Add(c.Args[1])
	if err != nil {
		return addError(err)
	}
	return reply.Bool(added)
}

func addError(err error) reply.Reply {
	if errors.Is(err, kv.ErrNotFound) {
		return errNeedsReserve
	}
	return errorReply(err)
}

// madd answers for each item. An array that is shorter than the items ends with
// the error of a full filter; the items before are added.
func madd(c *kv.Call) reply.Reply {
	items := c.Args[1:]
	added := make([]bool, len(items))
	n, err := addBatch(handleOf(c), items, added)
	if err != nil && !errors.Is(err, ErrFull) {
		return addError(err)
	}
	list := bools(added[:n])
	if err != nil {
		list = append(list, errFullReply)
	}
	return reply.Array(list...)
}

// addBatch is AddMany in a single commit, however many the items.
func addBatch(f *Filter, items [][]byte, added []bool) (int, error) {
	return addChunk(f, items, added, probe.Sum64Seed)
}

func bools(answers []bool) []reply.Reply {
	list := make([]reply.Reply, len(answers), len(answers)+1)
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
	info, err := handleOf(c).Info()
	switch {
	case errors.Is(err, kv.ErrNotFound):
		return reply.Int(0)
	case err != nil:
		return errorReply(err)
	}
	return reply.Int(int64(info.Items))
}

func info(c *kv.Call) reply.Reply {
	if len(c.Args) > 2 {
		return kv.WrongArity(c.Command)
	}
	i, err := handleOf(c).Info()
	if err != nil {
		return errorReply(err)
	}
	fields := []struct {
		word string
		pair reply.Pair
	}{
		{"CAPACITY", reply.Field("Capacity", reply.Int(int64(i.Capacity)))},
		{"SIZE", reply.Field("Size", reply.Int(int64(i.Bytes)))},
		{"FILTERS", reply.Field("Number of filters", reply.Int(int64(i.Layers)))},
		{"ITEMS", reply.Field("Number of items inserted", reply.Int(int64(i.Items)))},
		{"EXPANSION", reply.Field("Expansion rate", reply.Nil)},
	}
	var pairs []reply.Pair
	for _, f := range fields {
		if len(c.Args) == 2 && strings.EqualFold(string(c.Args[1]), f.word) {
			return reply.Either(reply.Array(f.pair.Value), reply.Map(f.pair))
		}
		pairs = append(pairs, f.pair)
	}
	if len(c.Args) == 2 {
		return reply.Error("Invalid information value")
	}
	return reply.Map(pairs...)
}
