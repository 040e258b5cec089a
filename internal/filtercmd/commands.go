package filtercmd

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sievekv/sievekv/internal/hash"
	"github.com/sievekv/sievekv/internal/probe"
	"github.com/sievekv/sievekv/internal/text"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/scalableext"
)

// reserveWords is the most words of a RESERVE command with its name, but without TTL, HASH, GROWTHLOG and the options of
// windows, which are two words each.
const reserveWords = 7

// Commands completes the commands of a group, and returns them: unless a command says otherwise, its first argument is
// its only key.
func Commands(group string, commands []module.Command) []module.Command {
	for i := range commands {
		c := &commands[i]
		c.Group = group
		c.FirstKey, c.LastKey, c.KeyStep = cmp.Or(c.FirstKey, 1), cmp.Or(c.LastKey, 1), cmp.Or(c.KeyStep, 1)
	}
	return commands
}

// Reserve runs BF.RESERVE and CBF.RESERVE.
func Reserve(c *module.Call, defaults scalableext.Asked, reserve func(scalableext.Asked) error) reply.Reply {
	asked, failed, ok := ParseReserve(c, defaults)
	if !ok {
		return failed
	}
	return Done(reserve(asked))
}

// Insert runs BF.INSERT and CBF.INSERT. add adds items to the filter; its Spec is nil if the words forbid to make
// one.
func Insert(c *module.Call, defaults scalableext.Asked, spec func(scalableext.Asked) scalableext.Spec, add func(c *module.Call, s scalableext.Spec, items [][]byte) reply.Reply) reply.Reply {
	asked, items, failed, ok := ParseInsert(c, defaults)
	switch {
	case !ok:
		return failed
	case asked == nil:
		return add(c, nil, items)
	}
	return add(c, spec(*asked), items)
}

// CheckOptions refuses a word that is none of the options; options has how many values each takes. It looks no further
// than ITEMS. ParseReserve and ParseInsert take other words, too, as RedisBloom does: commands that RedisBloom does not
// have call CheckOptions first.
func CheckOptions(args [][]byte, options map[string]int) (failed reply.Reply, ok bool) {
	for i := 0; i < len(args); i++ {
		word := text.FoldCase(args[i])
		values, known := options[word]
		switch {
		case !known:
			return reply.Errorf("ERR unknown option '%.128s'", args[i]), false
		case word == "ITEMS":
			return reply.Nil, true
		}
		i += values
	}
	return reply.Nil, true
}

// ParseReserve parses the words of BF.RESERVE and CBF.RESERVE:
//
//	key error_rate capacity [EXPANSION e] [NONSCALING] [TTL seconds] [HASH keyed|xxh64] [GROUP name]
//	[WINDOW seconds | LAST n] [SLICES n] [GROWTHLOG bytes]
//
// The last line is for BF.RESERVE alone: it is taken if defaults.Windows is set.
// Options that are missing are as in defaults. If the words are wrong, it is not ok, and failed is the reply in
// RedisBloom's words.
func ParseReserve(c *module.Call, defaults scalableext.Asked) (a scalableext.Asked, failed reply.Reply, ok bool) {
	bad := func(r reply.Reply) (scalableext.Asked, reply.Reply, bool) { return scalableext.Asked{}, r, false }
	most := reserveWords
	for _, option := range []string{"TTL", "HASH", "GROUP", "WINDOW", "LAST", "SLICES", "GROWTHLOG"} {
		if len(c.Args) > 3 && slices.ContainsFunc(c.Args[3:], func(arg []byte) bool { return text.FoldCase(arg) == option }) {
			most += 2
		}
	}
	if len(c.Args)+1 > most {
		return bad(module.WrongArity(c.Command))
	}
	rate, ok := text.ParseFloat(c.Args[1])
	switch {
	case !ok || math.IsNaN(rate):
		return bad(reply.Error("ERR bad error rate"))
	case rate <= 0 || rate >= 1:
		return bad(reply.Error("ERR error rate must be in the range (0.000000, 1.000000)"))
	}
	capacity, ok := text.ParseInt(c.Args[2])
	switch {
	case !ok:
		return bad(reply.Error("ERR bad capacity"))
	case capacity < 1 || capacity > mostCapacity(&defaults):
		return bad(reply.Errorf("ERR capacity must be in the range [1, %d]", mostCapacity(&defaults)))
	}
	a = defaults
	a.Capacity, a.ErrorRate = uint64(capacity), rate
	if failed, ok := parseOptions(&a, c.Args[3:]); !ok {
		return bad(failed)
	}
	return a, reply.Nil, true
}

// parseOptions parses the first occurrence of each option. It ignores other words, as RedisBloom does; see
// CheckOptions.
func parseOptions(a *scalableext.Asked, args [][]byte) (failed reply.Reply, ok bool) {
	bad := func(text string) (reply.Reply, bool) { return reply.Error(text), false }
	expansion, ttl := int64(-1), int64(0)
	a.NonScaling = false // settle decides at the end: EXPANSION may change it
	group := ""
	for i, arg := range args {
		switch word := text.FoldCase(arg); {
		case word == "NONSCALING":
			a.NonScaling = true
		case word == "EXPANSION" && expansion < 0:
			if i+1 == len(args) {
				return bad("ERR no expansion")
			}
			n, ok := text.ParseInt(args[i+1])
			if !ok {
				return bad("ERR bad expansion")
			}
			if n < 0 || n > scalableext.MaxExpansion {
				n = scalableext.MaxExpansion + 1
			}
			expansion = n
		case word == "HASH" && a.Hash == hash.Default:
			if i+1 == len(args) {
				return bad("ERR no hash")
			}
			if a.Hash, ok = ParseHash(args[i+1]); !ok {
				return bad("ERR bad hash: must be keyed or xxh64")
			}
		case word == "GROUP" && group == "":
			if i+1 == len(args) {
				return bad("ERR no group")
			}
			if n := len(args[i+1]); n == 0 || n > scalableext.MaxGroup {
				return reply.Errorf("ERR group must have 1 to %d bytes", scalableext.MaxGroup), false
			}
			group = string(args[i+1])
		case word == "TTL" && ttl == 0:
			if i+1 == len(args) {
				return bad("ERR no ttl")
			}
			if ttl, ok = text.ParseInt(args[i+1]); !ok {
				return bad("ERR bad ttl")
			}
			if ttl < 1 || ttl > scalableext.MaxTTL {
				return reply.Errorf("ERR ttl must be in the range [1, %d]", int64(scalableext.MaxTTL)), false
			}
		}
	}
	if failed, ok := parseWindow(a, args); !ok {
		return failed, false
	}
	if a.Group = cmp.Or(group, a.Group); group == "" && a.Hash == hash.XXH64 { // the setting is for keyed hashes
		a.Group = ""
	}
	switch {
	case expansion > 0 && a.NonScaling:
		return bad("Nonscaling filters cannot expand")
	case expansion > scalableext.MaxExpansion:
		return reply.Errorf("ERR expansion must be in the range [0, %d]", scalableext.MaxExpansion), false
	}
	if expansion >= 0 {
		a.Expansion, a.Layers = uint32(expansion), true
	}
	switch {
	case expansion >= 0:
	case a.Window.Last != 0: // its slices do not grow
		a.Expansion = 0
	case a.Expansion == 0 && (a.Window.Span != 0 || a.GrowthLog > 0): // these filters grow, whatever the setting says
		a.Expansion = scalableext.DefaultExpansion
	}
	settle(a)
	a.TTL = time.Duration(ttl) * time.Second
	return reply.Nil, true
}

// parseWindow parses the first occurrence of each option of a window, and of a log.
func parseWindow(a *scalableext.Asked, args [][]byte) (failed reply.Reply, ok bool) {
	if !a.Windows {
		return reply.Nil, true
	}
	span, last, slices, log := int64(0), int64(0), int64(0), int64(-1)
	options := []struct {
		word  string
		to    *int64
		unset int64
		low   int64
		high  int64
	}{
		{"WINDOW", &span, 0, 1, scalableext.MaxTTL}, {"LAST", &last, 0, scalableext.MinSlices, probe.MaxCapacity},
		{"SLICES", &slices, 0, scalableext.MinSlices, scalableext.MaxSlices}, {"GROWTHLOG", &log, -1, 0, scalableext.MaxLogBytes},
	}
	for i, arg := range args {
		for _, o := range options {
			if text.FoldCase(arg) != o.word || *o.to != o.unset {
				continue
			}
			name := strings.ToLower(o.word)
			if i+1 == len(args) {
				return reply.Errorf("ERR no %s: want a whole number in the range [%d, %d]", name, o.low, o.high), false
			}
			n, ok := text.ParseInt(args[i+1])
			switch {
			case !ok:
				return reply.Errorf("ERR bad %s '%.128s': must be a whole number in the range [%d, %d]", name, args[i+1], o.low, o.high), false
			case n < o.low || n > o.high:
				return reply.Errorf("ERR %s must be in the range [%d, %d], not %d", name, o.low, o.high, n), false
			}
			*o.to = n
		}
	}
	switch windowed := span != 0 || last != 0; {
	case span != 0 && last != 0:
		return reply.Error("ERR window and last: only one of them"), false
	case slices != 0 && !windowed:
		return reply.Error("ERR slices without window or last"), false
	case log >= 0 && (windowed || a.NonScaling):
		return reply.Error("ERR growthlog with window, last or nonscaling: such filters have no log"), false
	case log >= 0:
		a.GrowthLog = cmp.Or(log, -1)
	}
	a.Window = scalableext.Window{Span: time.Duration(span) * time.Second, Last: uint64(last), Slices: int(slices)}
	return reply.Nil, true
}

// mostCapacity returns the highest capacity that commands take.
func mostCapacity(a *scalableext.Asked) int64 {
	return int64(cmp.Or(a.MostCapacity, probe.MaxCapacity))
}

// ParseHash returns the hash with a name, in any case.
func ParseHash(word []byte) (hash.Kind, bool) { return hash.ParseKind(strings.ToLower(string(word))) }

// settle makes Expansion 0 for a filter that does not scale, and sets NonScaling for one with Expansion 0.
func settle(a *scalableext.Asked) {
	if a.NonScaling || a.Expansion == 0 {
		a.Unused = a.Expansion
		a.Expansion, a.NonScaling = 0, true
	}
}

// ParseInsert parses the words of BF.INSERT and CBF.INSERT. It knows options by their first letters, as RedisBloom
// does:
//
//	key [CAPACITY n] [ERROR r] [EXPANSION e] [NOCREATE] [NONSCALING] ITEMS item [item ...]
//
// Options that are missing are as in defaults. create is nil if the command must not make a missing filter. If the
// words are wrong, it is not ok, and failed is the reply.
func ParseInsert(c *module.Call, defaults scalableext.Asked) (create *scalableext.Asked, items [][]byte, failed reply.Reply, ok bool) {
	bad := func(r reply.Reply) (*scalableext.Asked, [][]byte, reply.Reply, bool) { return nil, nil, r, false }
	a := defaults
	a.NonScaling = false // settle decides at the end: EXPANSION may change it
	create = &a
	for i := 1; i < len(c.Args); i++ {
		word := text.FoldCase(c.Args[i])
		switch {
		case strings.HasPrefix(word, "I"):
			if i+1 == len(c.Args) {
				return bad(module.WrongArity(c.Command))
			}
			settle(&a)
			return create, c.Args[i+1:], reply.Nil, true
		case strings.HasPrefix(word, "N") && len(word) > 2 && word[2] == 'C':
			create = nil
		case strings.HasPrefix(word, "N"):
			a.NonScaling = true
		case strings.HasPrefix(word, "C"), strings.HasPrefix(word, "E"):
			if i++; i == len(c.Args) {
				return bad(module.WrongArity(c.Command))
			}
			if why := set(&a, word, c.Args[i]); why != "" {
				return bad(reply.Error(why))
			}
		default:
			return bad(reply.Error("Unknown argument received"))
		}
	}
	return bad(module.WrongArity(c.Command))
}

// set sets an option of an INSERT command that has a value, or returns the error.
func set(a *scalableext.Asked, word string, value []byte) (bad string) {
	switch {
	case strings.HasPrefix(word, "C"):
		n, ok := text.ParseInt(value)
		if !ok || n < 1 || n > mostCapacity(a) {
			return "Bad capacity"
		}
		a.Capacity = uint64(n)
	case strings.HasPrefix(word, "ER"):
		r, ok := text.ParseFloat(value)
		if !ok || !(r > 0 && r < 1) {
			return "Bad error rate"
		}
		a.ErrorRate = r
	default:
		n, ok := text.ParseInt(value)
		if !ok || n < 0 || n > scalableext.MaxExpansion {
			return "Bad expansion"
		}
		a.Expansion, a.NonScaling, a.Layers = uint32(n), a.NonScaling || n == 0, true
	}
	return ""
}
