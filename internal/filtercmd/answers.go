package filtercmd

import (
	"context"
	"errors"

	"github.com/sievekv/sievekv/internal/hash"
	"github.com/sievekv/sievekv/internal/text"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/scalableext"
)

// Answers of commands that all types of filters have, in RedisBloom's words and forms.

var (
	errFullReply  = reply.Full(reply.Error("ERR non scaling filter is full"))
	errGrowReply  = reply.Full(reply.Error("ERR problem inserting into filter"))
	errItemExists = reply.Error("ERR item exists")
	errNotFound   = reply.Error("ERR not found")
)

// ErrorReply is module.ErrorReply, but uses RedisBloom's words where RedisBloom has any.
func ErrorReply(err error) reply.Reply {
	switch {
	case errors.Is(err, kv.ErrWrongType): // first, because an error of RESERVE may be kv.ErrExists too
		return module.WrongType
	case errors.Is(err, scalableext.ErrFull):
		return errFullReply
	case errors.Is(err, scalableext.ErrCannotGrow):
		return errGrowReply
	case errors.Is(err, kv.ErrExists):
		return errItemExists
	case errors.Is(err, kv.ErrNotFound):
		return errNotFound
	}
	return module.ErrorReply(err)
}

// Done answers OK, or an error.
func Done(err error) reply.Reply {
	if err != nil {
		return ErrorReply(err)
	}
	return reply.OK
}

// Absent reports whether commands answer this error of a lookup as if the item were absent, as RedisBloom does: the key
// is missing, or has another type.
func Absent(err error) bool {
	return errors.Is(err, kv.ErrNotFound) || errors.Is(err, kv.ErrWrongType)
}

// countMissing counts the key of a call as missing if the error says so.
func countMissing(c *module.Call, err error) {
	if err != nil && errors.Is(err, kv.ErrNotFound) {
		c.Missing(1)
	}
}

// Lookup has the methods of a handle that Exists and MExists need.
type Lookup interface {
	MayContain(item []byte) (bool, error)
	MayContainMany(items [][]byte, present []bool) error
}

// Exists answers whether an item may be in a filter, whose handle is h.
func Exists[F any](c *module.Call, f Lookup, h *scalableext.Handle[F]) reply.Reply {
	present, err := f.MayContain(c.Args[1])
	return Existence(c, h, present, err)
}

// Existence answers what MayContain has returned.
func Existence[F any](c *module.Call, h *scalableext.Handle[F], present bool, err error) reply.Reply {
	countMissing(c, err)
	h.CountAnswer(present, err)
	if err != nil && !Absent(err) {
		return ErrorReply(err)
	}
	return reply.Bool(present && err == nil)
}

// MExists is Exists for several items.
func MExists(c *module.Call, f Lookup) reply.Reply {
	items := c.Args[1:]
	present := make([]bool, len(items))
	err := f.MayContainMany(items, present)
	countMissing(c, err)
	switch {
	case Absent(err):
		clear(present)
	case err != nil:
		return ErrorReply(err)
	}
	return reply.Bools(present)
}

// Count answers a count of an item.
func Count[F any](c *module.Call, h *scalableext.Handle[F], n int, err error) reply.Reply {
	countMissing(c, err)
	h.CountAnswer(n > 0, err)
	switch {
	case Absent(err):
		return reply.Int(0)
	case err != nil:
		return ErrorReply(err)
	}
	return reply.Int(int64(n))
}

// Card answers the number of items of a filter, 0 for a missing key.
func Card(c *module.Call, items uint64, err error) reply.Reply {
	countMissing(c, err)
	if err != nil && !errors.Is(err, kv.ErrNotFound) {
		return ErrorReply(err)
	}
	return reply.Int(int64(items))
}

// Bool answers 1 or 0, or an error.
func Bool(answer bool, err error) reply.Reply {
	if err != nil {
		return ErrorReply(err)
	}
	return reply.Bool(answer)
}

// answerBytes is roughly the memory of what Answer asks and answers about a layer.
const answerBytes = 512

// Answer answers a command about the filter as a whole with what ask returns. ask must not read blocks. The command
// has a key and at most one more word.
func Answer[F, T any](c *module.Call, h *scalableext.Handle[F], ask func(*F, kv.Reader) T, show func(T) reply.Reply) reply.Reply {
	if len(c.Args) > 2 {
		return module.WrongArity(c.Command)
	}
	var said T
	charged := false
	err := h.Read(func(r kv.Reader) error {
		o, f, err := h.Find(r)
		if err == nil && !charged {
			charged, err = true, c.Charge(len(o.Layers())*answerBytes)
		}
		if err == nil {
			said = ask(f, r)
		}
		return err
	})
	if err != nil {
		return ErrorReply(err)
	}
	return show(said)
}

// Merged answers a MERGE command. of makes a handle for each key; the first one is merged into.
func Merged[H any](c *module.Call, of func(*module.Call, []byte) H, merge func(dest H, ctx context.Context, sources ...H) error) reply.Reply {
	sources := make([]H, len(c.Args)-1)
	for i, key := range c.Args[1:] {
		sources[i] = of(c, key)
	}
	return Done(merge(of(c, c.Args[0]), c.Context, sources...))
}

// Fact is a field of an INFO command.
type Fact struct {
	Word  string // asks for this field alone
	Field reply.Pair
	Alone bool // answered only for its word: clients of RedisBloom do not expect it among the others
}

// IntFact returns a fact with a number.
func IntFact(word, name string, n uint64) Fact {
	return Fact{Word: word, Field: reply.Label(name, reply.Int(int64(n)))}
}

// ExpansionFact returns the expansion, nil for a filter that does not grow.
func ExpansionFact(expansion uint32) Fact {
	f := IntFact("EXPANSION", "Expansion rate", uint64(expansion))
	if expansion == 0 {
		f.Field.Value = reply.Nil
	}
	return f
}

// HashFact returns the name of a filter's hash, for the word HASH only.
func HashFact(kind hash.Kind) Fact {
	return Fact{Word: "HASH", Field: reply.Label("Hash", reply.BulkString(kind.String())), Alone: true}
}

// LossyFact returns what INFO says of a filter that was salvaged without all of its blocks, nothing for others.
func LossyFact(c *module.Call, lossy bool) []Fact {
	if !lossy || len(c.Args) != 1 {
		return nil
	}
	return []Fact{IntFact("", "Lossy", 1)}
}

// Facts answers all facts, or the one for the call's second word; in RESP2 that is an array with its value.
func Facts(c *module.Call, facts []Fact) reply.Reply {
	var fields []reply.Pair
	for _, f := range facts {
		if len(c.Args) == 2 && text.FoldCase(c.Args[1]) == f.Word {
			return reply.Either(reply.Array(f.Field.Value), reply.Map(f.Field))
		}
		if !f.Alone {
			fields = append(fields, f.Field)
		}
	}
	if len(c.Args) == 2 {
		return reply.Error("Invalid information value")
	}
	return reply.Map(fields...)
}

// AddItems adds items in one commit, and answers for each. If the filter is missing, it is made as spec says; without
// spec that is an error. add stages items, and returns how many come before the first item without room.
//
// If the filter does not grow and is full, the answers end with the error. If it can have no further layer, they go
// on after the error, because the filter may contain later items.
func AddItems[F any](
	h *scalableext.Handle[F], level kv.Durability, spec scalableext.Spec, items [][]byte,
	add func(w *kv.Writer, items [][]byte, added []bool) (n int, err error),
) reply.Reply {
	var answer reply.Reply
	err := h.Write(level, func(w *kv.Writer) error {
		_, err := h.StagedOrReserved(w, spec)
		if err == nil {
			answer, err = answersOf(w, items, add)
		}
		return err
	})
	if err != nil {
		return ErrorReply(err)
	}
	return answer
}

func answersOf(
	w *kv.Writer, items [][]byte, add func(w *kv.Writer, items [][]byte, added []bool) (n int, err error),
) (reply.Reply, error) {
	var list []reply.Reply // with errors; without any, added has all answers
	added := make([]bool, len(items))
	for start, end := 0, len(items); start < len(items); {
		n, err := add(w, items[start:end], added[start:end])
		switch {
		case err != nil && !scalableext.NoRoom(err):
			return reply.Nil, err
		case err == nil && end-start == len(items):
			return reply.Bools(added), nil
		}
		for _, yes := range added[start : start+n] {
			list = append(list, reply.Bool(yes))
		}
		if err == nil { // one more item was answered
			start += n
			end = min(start+1, len(items))
			continue
		}
		list = append(list, ErrorReply(err))
		if errors.Is(err, scalableext.ErrFull) {
			break
		}
		// Most of the rest will be refused, too. One by one, each is looked at once.
		start += n + 1
		end = min(start+1, len(items))
	}
	return reply.Array(list...), nil
}

// AddSeries adds the items of a series of calls, from one call on, in one commit. Spec and add are as for AddItems. If
// there is an error that holds for all items, nothing was written, or the store has failed: then one adds the items one
// after the other, as some of them may be answered all the same.
func AddSeries[F any](
	h *scalableext.Handle[F], level kv.Durability, spec scalableext.Spec, calls *module.Series, from int,
	add func(w *kv.Writer, items [][]byte, added []bool) (n int, err error), one func(item []byte) (bool, error),
) {
	var items [module.MaxSeries][]byte
	n := 0
	for i := from; i < calls.Len(); i++ {
		items[n] = calls.Args(i)[1]
		n++
	}
	replies := calls.Replies[from:]
	err := h.Write(level, func(w *kv.Writer) error {
		if _, err := h.StagedOrReserved(w, spec); err != nil {
			return err
		}
		return addSeries(w, items[:n], replies, add)
	})
	if err == nil {
		return
	}
	for i, item := range items[:n] {
		replies[i] = Bool(one(item))
	}
}

// addSeries stages items, and answers each. An item without room is no error: the filter may have later ones.
func addSeries(
	w *kv.Writer, items [][]byte, replies []reply.Reply, add func(w *kv.Writer, items [][]byte, added []bool) (n int, err error),
) error {
	var added [module.MaxSeries]bool
	for len(items) > 0 {
		n, err := add(w, items, added[:len(items)])
		if err != nil && !scalableext.NoRoom(err) {
			return err
		}
		for i, yes := range added[:n] {
			replies[i] = reply.Bool(yes)
		}
		if err == nil {
			return nil
		}
		replies[n] = ErrorReply(err)
		items, replies = items[n+1:], replies[n+1:]
	}
	return nil
}
