package cuckooext

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sievekv/sievekv/internal/filtercmd"
	"github.com/sievekv/sievekv/internal/hash"
	"github.com/sievekv/sievekv/internal/text"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/scalableext"
)

// Module returns the extension, for module.New.
func Module() module.Module {
	const (
		write = module.Write | module.DenyOOM | module.ModuleFlag
		read  = module.ReadOnly | module.Fast | module.ModuleFlag
	)
	return module.Module{Name: "cf", Types: []*kv.Type{cuckooType}, Settings: settings(), Commands: filtercmd.Commands("cuckoo", []module.Command{
		{
			Name: "CF.RESERVE", Arity: -3, Flags: write | module.Brief,
			Syntax:     "key capacity [BUCKETSIZE b] [MAXITERATIONS m] [EXPANSION e] [ERROR rate] [HASH KEYED|XXH64]",
			Summary:    "Makes an empty cuckoo filter.",
			Complexity: "O(1), whatever the size", Example: "CF.RESERVE sessions 1000000 ERROR 0.001", Handler: reserve,
		},
		{
			Name: "CF.ADD", Arity: 3, Flags: write | module.Fast, Syntax: "key item",
			Summary:    "Adds one more copy of an item, and makes the filter if it is missing.",
			Complexity: "O(n) for n layers", Example: "CF.ADD sessions alice", Handler: add,
		},
		{
			Name: "CF.ADDNX", Arity: 3, Flags: write | module.Fast, Syntax: "key item",
			Summary:    "Adds an item unless it may be present, and makes the filter if it is missing; answers 1 if it added the item, otherwise 0.",
			Complexity: "O(n) for n layers", Example: "CF.ADDNX sessions alice\nCF.ADDNX sessions alice", Handler: addNX,
		},
		{
			Name: "CF.INSERT", Arity: -4, Flags: write, Syntax: "key [CAPACITY n] [NOCREATE] ITEMS item [item ...]",
			Summary:    "Adds items in one commit, and makes the filter if it is missing; answers for each 1, or -1 if there is no room.",
			Complexity: "O(N n) for N items and n layers",
			Example:    "CF.INSERT sessions CAPACITY 10000 ITEMS alice bob", Handler: insert,
		},
		{
			Name: "CF.INSERTNX", Arity: -4, Flags: write, Syntax: "key [CAPACITY n] [NOCREATE] ITEMS item [item ...]",
			Summary:    "Adds those items that are not present; answers for each 1, 0 if it may be present, or -1 if there is no room.",
			Complexity: "O(N n) for N items and n layers",
			Example:    "CF.INSERTNX sessions ITEMS alice bob alice", Handler: insertNX,
		},
		{
			Name: "CF.EXISTS", Arity: 3, Flags: read, Syntax: "key item",
			Summary:    "Answers 1 if the item may be present, 0 if it is not.",
			Complexity: "O(n) for n layers", Example: "CF.ADD sessions alice\nCF.EXISTS sessions alice", Handler: exists,
		},
		{
			Name: "CF.MEXISTS", Arity: -3, Flags: read &^ module.Fast, Syntax: "key item [item ...]",
			Summary:    "Answers 1 or 0, as CF.EXISTS, for each item.",
			Complexity: "O(N n) for N items and n layers",
			Example:    "CF.ADD sessions alice\nCF.MEXISTS sessions alice bob", Handler: mexists,
		},
		{
			Name: "CF.COUNT", Arity: 3, Flags: read, Syntax: "key item",
			Summary:    "Answers how many copies of the item there are, sometimes a little too many.",
			Complexity: "O(n) for n layers",
			Example:    "CF.INSERT sessions ITEMS alice alice\nCF.COUNT sessions alice", Handler: countCommand,
		},
		{
			Name: "CF.DEL", Arity: 3, Flags: module.Write | module.Fast | module.ModuleFlag, Syntax: "key item",
			Summary:    "Deletes one copy of an item that was added before. Deleting an item that was never added can remove another item.",
			Complexity: "O(n) for n layers",
			Example:    "CF.ADD sessions alice\nCF.EXISTS sessions alice\nCF.DEL sessions alice", Handler: del,
		},
		{
			Name: "CF.COMPACT", Arity: 2, Flags: module.Write | module.ModuleFlag, Syntax: "key",
			Summary:    "Moves entries to older layers that have room, and removes layers that become empty.",
			Complexity: "O(M) for M blocks of all layers",
			Example:    "CF.ADD sessions alice\nCF.COMPACT sessions", Handler: compactCommand,
		},
		{
			Name: "CF.INFO", Arity: -2, Flags: read, Syntax: "key [ERROR | HASH]",
			Summary:    "Answers facts about the filter, or its present false-positive rate, or the name of its hash.",
			Complexity: "O(n) for n layers",
			Example:    "CF.ADD sessions alice\nCF.INFO sessions\nCF.INFO sessions ERROR", Handler: info,
		},
		{
			Name: "CF.DEBUG", Arity: 2, Flags: read, Syntax: "key",
			Summary:    "Answers a line of facts about the filter.",
			Complexity: "O(n) for n layers", Example: "CF.ADD sessions alice\nCF.DEBUG sessions", Handler: debug,
		},
		{
			Name: "CF.SCANDUMP", Arity: 3, Flags: read &^ module.Fast, Syntax: "key iterator",
			Summary:    "Answers a chunk of the filter's dump, and the iterator of the next; begins at 0, and ends with 0.",
			Complexity: "O(M) for M bytes of the chunk", Example: "CONFIG SET cf-layout compatible\nCF.ADD sessions alice\nCF.SCANDUMP sessions 0", Handler: scanDump,
		},
		{
			Name: "CF.LOADCHUNK", Arity: 4, Flags: write | module.NoMulti | module.Brief, Syntax: "key iterator data",
			Summary:    "Loads a chunk of a dump, with the iterator that came with it; the filter appears when all of it has come.",
			Complexity: "O(M) for M bytes of the chunk", Example: loadExample, Handler: loadChunk,
		},
	})}
}

// errorReply is ErrorReply with RedisBloom's words for cuckoo filters.
func errorReply(err error) reply.Reply {
	switch {
	case errors.Is(err, errNoMemory):
		return reply.Error("ERR Insufficient memory")
	case errors.Is(err, scalableext.ErrFull):
		return reply.Full(reply.Error("Filter is full"))
	case errors.Is(err, scalableext.ErrCannotGrow):
		return reply.Full(reply.Error("Maximum expansions reached"))
	}
	return filtercmd.ErrorReply(err)
}

// handleOf returns a handle on the key of a call.
func handleOf(c *module.Call) *Filter {
	return &Filter{h: scalableext.HandleFor(c, c.Args[0], noFilter), level: c.Level()}
}

// recalled is handleOf for a command of one item, which can often answer from memory.
func recalled(c *module.Call) *Filter {
	return &Filter{h: scalableext.Recalled(c, c.Args[0], noFilter), level: c.Level()}
}

// option is an option of CF.RESERVE with an integer value.
type option struct {
	name     string
	min, max int64
	value    int64 // -1 if not given
}

// parse parses the first occurrence of the option, or returns the error.
func (o *option) parse(args [][]byte) (bad string) {
	o.value = -1
	i := slices.IndexFunc(args, func(arg []byte) bool { return text.FoldCase(arg) == o.name })
	if i < 0 {
		return ""
	}
	n, ok := int64(0), i+1 < len(args)
	if ok {
		n, ok = text.ParseInt(args[i+1])
	}
	switch {
	case !ok:
		return "Couldn't parse " + o.name
	case n < o.min || n > o.max:
		return fmt.Sprintf("%s: value must be in the range [%d, %d]", o.name, o.min, o.max)
	}
	o.value = n
	return ""
}

// parseRate parses the first occurrence of ERROR. The rate is 0 if there is none.
func parseRate(args [][]byte) (rate float64, bad string) {
	i := slices.IndexFunc(args, func(arg []byte) bool { return text.FoldCase(arg) == "ERROR" })
	if i < 0 {
		return 0, ""
	}
	ok := i+1 < len(args)
	if ok {
		rate, ok = text.ParseFloat(args[i+1])
	}
	switch {
	case !ok || math.IsNaN(rate):
		return 0, "Couldn't parse ERROR"
	case !(rate > 0 && rate < 1):
		return 0, "ERROR: value must be in the range (0, 1)"
	}
	return rate, ""
}

// parseHash parses the first occurrence of HASH.
func parseHash(args [][]byte) (kind hash.Kind, bad string) {
	i := slices.IndexFunc(args, func(arg []byte) bool { return text.FoldCase(arg) == "HASH" })
	if i < 0 {
		return hash.Default, ""
	}
	ok := i+1 < len(args)
	if ok {
		kind, ok = filtercmd.ParseHash(args[i+1])
	}
	if !ok {
		return hash.Default, "HASH: must be keyed or xxh64"
	}
	return kind, ""
}

func reserve(c *module.Call) reply.Reply {
	if len(c.Args)%2 != 0 {
		return module.WrongArity(c.Command)
	}
	capacity, ok := text.ParseInt(c.Args[1])
	if !ok {
		return reply.Error("Bad capacity")
	}
	iterations := option{name: "MAXITERATIONS", min: 1, max: maxIterations}
	bucket := option{name: "BUCKETSIZE", min: 1, max: maxBucketSize}
	expansion := option{name: "EXPANSION", min: 0, max: scalableext.MaxExpansion}
	for _, o := range []*option{&iterations, &bucket, &expansion} {
		if bad := o.parse(c.Args[2:]); bad != "" {
			return reply.Error(bad)
		}
	}
	rate, bad := parseRate(c.Args[2:])
	if bad != "" {
		return reply.Error(bad)
	}
	kind, bad := parseHash(c.Args[2:])
	if bad != "" {
		return reply.Error(bad)
	}
	least, most := capacityRange(c.DB)
	if bucket.value > 0 {
		least = 2 * bucket.value
	}
	if capacity < least || capacity > most {
		return reply.Errorf("Capacity must be in the range [2 * BUCKETSIZE, %d]", most)
	}
	made := defaultConfig(c.DB, uint64(capacity))
	if made.Layout == scalableext.LayoutCompatible {
		if rate != 0 {
			return reply.Errorf("ERROR: not with %s compatible, where it follows from BUCKETSIZE", layoutSetting)
		}
		if kind != hash.Default {
			return reply.Errorf("HASH: not with %s compatible, which has its own hash", layoutSetting)
		}
	}
	made.ErrorRate, made.Hash = rate, kind
	switch {
	case bucket.value > 0:
		made.BucketSize = int(bucket.value)
	case rate != 0 && made.BucketSize == defaultBucketSize:
		made.BucketSize = 0 // the one with which the filter is smallest
	}
	if iterations.value > 0 {
		made.MaxIterations = int(iterations.value)
	}
	if expansion.value >= 0 {
		made.Expansion, made.NonScaling = uint32(expansion.value), expansion.value == 0
	}
	return filtercmd.Done(handleOf(c).Reserve(made))
}

// insertItems adds items in one commit, and returns 1, 0 or -1 for each. If the filter is missing, it is made as spec
// says; without spec that is an error.
func insertItems(f *Filter, spec scalableext.Spec, items [][]byte, onlyNew bool) (answers []int64, err error) {
	_, err = f.adding(spec, func(s *stager) (bool, error) {
		answers, err = f.stageItems(s, items, onlyNew)
		return true, err
	})
	return answers, err
}

func (f *Filter) stageItems(s *stager, items [][]byte, onlyNew bool) (answers []int64, err error) {
	for i, item := range items {
		looked := i
		if s.c.compatible {
			looked = 0 // at each item: with MAXITERATIONS 65535 it may take milliseconds
		}
		if err := f.h.GivenUp(looked); err != nil {
			return nil, err
		}
		h, added := s.c.hash.Sum(item), false
		if onlyNew {
			added, err = s.addIfAbsent(h)
		} else {
			added, err = s.addAnyway(h)
		}
		switch {
		case err == nil && added:
			answers = append(answers, 1)
		case err == nil:
			answers = append(answers, 0)
		case scalableext.NoRoom(err):
			answers = append(answers, -1)
		default:
			return nil, err
		}
	}
	return answers, nil
}

// boolReply answers 1 or 0, or an error.
func boolReply(answer bool, err error) reply.Reply {
	if err != nil {
		return errorReply(err)
	}
	return reply.Bool(answer)
}

func add(c *module.Call) reply.Reply {
	return boolReply(handleOf(c).adding(initialSpec, func(s *stager) (bool, error) { return s.addAnyway(s.c.hash.Sum(c.Args[1])) }))
}

func addNX(c *module.Call) reply.Reply {
	return boolReply(recalled(c).addIfAbsent(c.Args[1], initialSpec))
}

func insert(c *module.Call) reply.Reply {
	return insertCommand(c, false, func(n int64) reply.Reply { return reply.Either(reply.Int(n), reply.Bool(n > 0)) })
}

func insertNX(c *module.Call) reply.Reply { return insertCommand(c, true, reply.Int) }

// insertCommand runs the INSERT commands. It knows options by their first letters, as RedisBloom does.
func insertCommand(c *module.Call, onlyNew bool, show func(int64) reply.Reply) reply.Reply {
	capacity, create := module.Of(c.DB).SettingInt(capacitySetting), true
	for i := 1; i < len(c.Args); i++ {
		word := text.FoldCase(c.Args[i])
		switch {
		case strings.HasPrefix(word, "I"):
			if i+1 == len(c.Args) {
				return module.WrongArity(c.Command)
			}
			if least, most := capacityRange(c.DB); capacity < least || capacity > most {
				return reply.Errorf("Capacity must be in the range [cf-bucket-size * 2, %d]", most)
			}
			var spec scalableext.Spec
			if create {
				spec = func(db *kv.DB) (kv.Spec, error) { return defaultConfig(db, uint64(capacity)).spec(db) }
			}
			return showItems(c, spec, c.Args[i+1:], onlyNew, show)
		case strings.HasPrefix(word, "C"):
			if i++; i == len(c.Args) {
				return module.WrongArity(c.Command)
			}
			var ok bool
			if capacity, ok = text.ParseInt(c.Args[i]); !ok {
				return reply.Error("Bad capacity")
			}
		case strings.HasPrefix(word, "N"):
			create = false
		default:
			return reply.Error("Unknown argument received")
		}
	}
	return module.WrongArity(c.Command)
}

func showItems(c *module.Call, spec scalableext.Spec, items [][]byte, onlyNew bool, show func(int64) reply.Reply) reply.Reply {
	answers, err := insertItems(handleOf(c), spec, items, onlyNew)
	if err != nil {
		return errorReply(err)
	}
	list := make([]reply.Reply, len(answers))
	for i, n := range answers {
		if list[i] = show(n); n < 0 {
			list[i] = reply.Full(list[i])
		}
	}
	return reply.Array(list...)
}

func exists(c *module.Call) reply.Reply {
	f := recalled(c)
	return filtercmd.Exists(c, f, f.h)
}

func mexists(c *module.Call) reply.Reply { return filtercmd.MExists(c, handleOf(c)) }

func countCommand(c *module.Call) reply.Reply {
	f := handleOf(c)
	n, err := f.Count(c.Args[1])
	return filtercmd.Count(c, f.h, n, err)
}

func del(c *module.Call) reply.Reply {
	deleted, err := handleOf(c).Delete(c.Args[1])
	if filtercmd.Absent(err) {
		return reply.Error("Not found")
	}
	return boolReply(deleted, err)
}

func compactCommand(c *module.Call) reply.Reply {
	switch err := handleOf(c).compact(c.Context); {
	case filtercmd.Absent(err):
		return reply.Error("Cuckoo filter was not found")
	case err != nil:
		return errorReply(err)
	}
	return reply.OK
}

func info(c *module.Call) reply.Reply {
	return filtercmd.Answer(c, handleOf(c).h, (*filter).info, func(i Info) reply.Reply {
		if len(c.Args) == 2 {
			switch text.FoldCase(c.Args[1]) {
			case "ERROR":
				return reply.Double(i.ExpectedRate)
			case "HASH":
				return reply.BulkString(i.Hash.String())
			}
			return reply.Error("Invalid information value")
		}
		field := func(name string, n int64) reply.Pair { return reply.Label(name, reply.Int(n)) }
		fields := []reply.Pair{
			field("Size", 40+16*int64(len(i.Layers))+int64(i.Bytes)),
			field("Number of buckets", int64(i.Buckets)),
			field("Number of filters", int64(len(i.Layers))),
			field("Number of items inserted", int64(i.Items)),
			field("Number of items deleted", int64(i.Deletes)),
			field("Bucket size", int64(i.BucketSize)),
			field("Expansion rate", int64(i.Expansion)),
			field("Max iterations", int64(i.MaxIterations)),
		}
		for _, f := range filtercmd.LossyFact(c, i.Lossy) {
			fields = append(fields, f.Field)
		}
		return reply.Map(fields...)
	})
}

func debug(c *module.Call) reply.Reply {
	return filtercmd.Answer(c, handleOf(c).h, (*filter).info, func(i Info) reply.Reply {
		return reply.BulkString(fmt.Sprintf("bktsize:%d buckets:%d items:%d deletes:%d filters:%d max_iterations:%d expansion:%d",
			i.BucketSize, i.Buckets, i.Items, i.Deletes, len(i.Layers), i.MaxIterations, i.Expansion))
	})
}
