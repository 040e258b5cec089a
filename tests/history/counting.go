package history

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/sievekv/sievekv/countingext"
	"github.com/sievekv/sievekv/kv"
)

// counting is the counting Bloom filter: as a value how often each item is there, up to where its counters stick. Its
// error rate is so low that no history meets a false positive, and so no item seems to be in several layers.
//
// A command that adds or deletes, outside of a transaction, is seen item by item; a
// lookup of several items sees changes to a part of them.
type counting struct{}

const (
	countingRate  = 1e-9
	countingItems = 24
)

func (counting) Name() string { return "CBloom---" }
func (counting) Keys() []int  { return []int{0, 1} }

func (counting) items(random *rand.Rand, most int) []string {
	var items []string
	for range 1 + random.IntN(most) {
		// Few items are added often enough for their counters to stick.
		item := strconv.Itoa(min(random.IntN(countingItems), random.IntN(countingItems)))
		if !slices.Contains(items, item) {
			items = append(items, item)
		}
	}
	return items
}

func (t counting) Read(random *rand.Rand) Command {
	c := Command{Type: t, Keys: []int{random.IntN(2)}}
	switch r := random.IntN(10); {
	case r < 4:
		c.Name, c.Args = "CBF.EXISTS", t.items(random, 1)
	case r < 7:
		c.Name, c.Args = "CBF.COUNT", t.items(random, 1)
	default:
		c.Name, c.Args = "CBF.MEXISTS", t.items(random, 4)
	}
	return c
}

func (t counting) Write(random *rand.Rand) Command {
	c := Command{Type: t, Keys: []int{random.IntN(2)}, Name: "CBF.INSERT"}
	capacity := capacities[random.IntN(len(capacities))]
	repeated := func() []string {
		items := t.items(random, 3)
		return append(items, slices.Repeat(items[:1], random.IntN(4))...)
	}
	switch r := random.IntN(20); {
	case r < 2:
		c.Name, c.Args = "CBF.RESERVE", []string{capacity}
	case r < 6:
		c.Name, c.Args = "CBF.DEL", t.items(random, 1)
	case r < 9:
		c.Name, c.Args = "CBF.MDEL", repeated()
	case r < 12:
		c.Args = append([]string{capacity}, repeated()...)
	case r < 14:
		c.Args = append([]string{"NOCREATE"}, repeated()...)
	default:
		c.Args = append([]string{"NOCREATE"}, t.items(random, 1)...)
	}
	return c
}

// counts is a value of a filter: how often each item is there.
type counts [countingItems]byte

func (t counting) counts(v Value) (c counts) {
	if v.Type == t.Name() {
		copy(c[:], v.Data)
	}
	return c
}

func (t counting) Apply(v Value, c Command) (Value, string, bool) {
	has := t.counts(v) // none if it is of another type
	number := func(item string) *byte { return &has[bitsOf(item)] }
	there, missing := v.Type == t.Name(), v.Type == ""
	switch {
	case c.Name == "CBF.EXISTS" || c.Name == "CBF.MEXISTS":
		found := make([]bool, len(c.Args))
		for i, item := range c.Args {
			found[i] = *number(item) > 0
		}
		if c.Name == "CBF.EXISTS" {
			return v, digit(found[0]), false
		}
		return v, list(digits(found)), false
	case c.Name == "CBF.COUNT":
		return v, decimal(int64(*number(c.Args[0]))), false
	case !there && !missing:
		return v, wrongType, false
	case c.Name == "CBF.RESERVE" && there:
		return v, "ERR item exists", false
	case c.Name == "CBF.RESERVE":
		return Value{t.Name(), string(has[:])}, ok, true
	case missing && (c.Name != "CBF.INSERT" || c.Args[0] == "NOCREATE"):
		return v, "ERR not found", false
	}
	items, insert := c.Args, c.Name == "CBF.INSERT"
	if insert {
		items = items[1:]
	}
	answers, changed := make([]bool, len(items)), insert
	for i, item := range items {
		switch n := number(item); {
		case insert:
			answers[i] = *n == 0
			*n = min(*n+1, countingext.MaxCount)
		case *n > 0:
			answers[i], changed = true, true
			if *n < countingext.MaxCount {
				*n--
			}
		}
	}
	after := Value{t.Name(), string(has[:])}
	if c.Name == "CBF.DEL" {
		return after, digit(answers[0]), changed
	}
	return after, list(digits(answers)), changed
}

// Split returns the parts of changes, also of a single one: they may come in the middle of lookups of several items.
func (t counting) Split(c Command, reply string) (parts []Part) {
	part := func(reply string, name string, args ...string) {
		parts = append(parts, Part{Command{Type: t, Name: name, Keys: c.Keys, Args: args}, reply})
	}
	answers := unlist(reply)
	switch {
	case c.Name == "CBF.DEL" && reply == "1":
		part(reply, c.Name, c.Args...)
	case !strings.HasPrefix(reply, "["):
		return nil
	case c.Name == "CBF.MEXISTS":
		for i, item := range c.Args {
			part(answers[i], "CBF.EXISTS", item)
		}
	case c.Name == "CBF.MDEL" && slices.Contains(answers, "1"):
		for i, item := range c.Args {
			part(answers[i], "CBF.DEL", item)
		}
	case c.Name == "CBF.INSERT":
		for i, item := range c.Args[1:] {
			part(list(answers[i:i+1]), c.Name, c.Args[0], item)
		}
	}
	return parts
}

func (t counting) Describe(v Value) string {
	var list []string
	for i, n := range t.counts(v) {
		if n > 0 {
			list = append(list, fmt.Sprintf("%d: %d", i, n))
		}
	}
	return "{" + strings.Join(list, ", ") + "}"
}

func (t counting) Words(c Command, key string) []string {
	switch {
	case c.Name == "CBF.RESERVE":
		return []string{c.Name, key, "1e-9", c.Args[0]}
	case c.Name != "CBF.INSERT":
		return append([]string{c.Name, key}, c.Args...)
	case c.Args[0] == "NOCREATE":
		return append([]string{c.Name, key, "NOCREATE", "ITEMS"}, c.Args[1:]...)
	}
	return append([]string{c.Name, key, "CAPACITY", c.Args[0], "ERROR", "1e-9", "ITEMS"}, c.Args[1:]...)
}

func (t counting) Handle(db *kv.DB, key string) Handle {
	return countingHandle{countingext.New(db, key)}
}

type countingHandle struct{ f *countingext.Filter }

func (h countingHandle) Do(c Command, level kv.Durability, scope kv.Scope) (string, bool) {
	f := h.f.With(level)
	if scope != nil {
		f = f.In(scope)
	}
	r, err := countingDo(f, c)
	lookup := c.Name == "CBF.EXISTS" || c.Name == "CBF.MEXISTS" || c.Name == "CBF.COUNT"
	switch {
	case err == nil:
		return r, r != ""
	case lookup && (errors.Is(err, kv.ErrNotFound) || errors.Is(err, kv.ErrWrongType)):
		// As the commands answer: nothing is in there.
		_, r, _ = counting{}.Apply(Value{}, c)
		return r, true
	case errors.Is(err, kv.ErrNotFound):
		return "ERR not found", true
	case errors.Is(err, kv.ErrWrongType):
		return wrongType, true
	case errors.Is(err, kv.ErrExists):
		return "ERR item exists", true
	}
	return errorText(err), true
}

// countingDo returns no reply if there is no call for the command.
func countingDo(f *countingext.Filter, c Command) (string, error) {
	items, answers := make([][]byte, len(c.Args)), make([]bool, len(c.Args))
	for i, item := range c.Args {
		items[i] = []byte(item)
	}
	switch {
	case c.Name == "CBF.EXISTS":
		found, err := f.MayContain(items[0])
		return digit(found), err
	case c.Name == "CBF.MEXISTS":
		err := f.MayContainMany(items, answers)
		return list(digits(answers)), err
	case c.Name == "CBF.COUNT":
		n, err := f.Count(items[0])
		return decimal(int64(n)), err
	case c.Name == "CBF.RESERVE":
		capacity, err := strconv.ParseUint(c.Args[0], 10, 64)
		if err != nil {
			return "", err
		}
		return ok, f.Reserve(countingext.Config{Capacity: capacity, ErrorRate: countingRate})
	case c.Name == "CBF.DEL":
		deleted, err := f.Delete(items[0])
		return digit(deleted), err
	case c.Name == "CBF.MDEL":
		_, err := f.DeleteMany(items, answers)
		return list(digits(answers)), err
	case c.Args[0] != "NOCREATE":
		return "", nil
	case len(c.Args) == 2:
		isNew, err := f.Add(items[1])
		return list(digits([]bool{isNew})), err
	}
	_, err := f.AddMany(items[1:], answers[1:])
	return list(digits(answers[1:])), err
}
