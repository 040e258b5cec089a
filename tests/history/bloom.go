package history

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// bloom is the Bloom filter: as a value the set of its items, at most 64, and how many the filter has counted. Its
// error rate is so low that no history meets a false positive.
//
// A command that adds, outside of a transaction, is seen item by item, and its
// count after or before; a lookup of several items sees such adds to a part of them.
type bloom struct{}

const (
	bloomRate  = 1e-9
	bloomItems = 48
)

// capacities are for new filters: one grows, the other has more blocks than the cache has room for.
var capacities = []string{"4", "6000"}

func (bloom) Name() string { return "MBbloom--" }
func (bloom) Keys() []int  { return []int{0, 1} }

func randomItems(random *rand.Rand, most int) []string {
	var items []string
	for range 1 + random.IntN(most) {
		// Few items are new, and those are looked for often.
		item := strconv.Itoa(min(random.IntN(bloomItems), random.IntN(bloomItems)))
		if !slices.Contains(items, item) {
			items = append(items, item)
		}
	}
	return items
}

func (t bloom) Read(random *rand.Rand) Command {
	c := Command{Type: t, Keys: []int{random.IntN(2)}}
	switch r := random.IntN(10); {
	case r < 5:
		c.Name, c.Args = "BF.EXISTS", randomItems(random, 1)
	case r < 9:
		c.Name, c.Args = "BF.MEXISTS", randomItems(random, 4)
	default:
		c.Name = "BF.CARD"
	}
	return c
}

func (t bloom) Write(random *rand.Rand) Command {
	c := Command{Type: t, Keys: []int{random.IntN(2)}, Name: "BF.INSERT"}
	capacity := capacities[random.IntN(len(capacities))]
	switch r := random.IntN(10); {
	case r < 1:
		c.Name, c.Args = "BF.RESERVE", []string{capacity}
	case r < 4:
		c.Args = append([]string{capacity}, randomItems(random, 3)...)
	case r < 6:
		c.Args = append([]string{"NOCREATE"}, randomItems(random, 3)...)
	default:
		c.Args = append([]string{"NOCREATE"}, randomItems(random, 1)...)
	}
	return c
}

// content is a value of a filter.
type content struct{ items, count uint64 }

func (t bloom) content(v Value) (c content) {
	if v.Type == t.Name() {
		c.items = binary.LittleEndian.Uint64([]byte(v.Data))
		c.count = binary.LittleEndian.Uint64([]byte(v.Data[8:]))
	}
	return c
}

func (t bloom) value(c content) Value {
	b := binary.LittleEndian.AppendUint64(nil, c.items)
	return Value{t.Name(), string(binary.LittleEndian.AppendUint64(b, c.count))}
}

// bitOf returns the bit of an item.
func bitOf(item string) uint64 {
	n, err := strconv.Atoi(item)
	if err != nil {
		panic(err)
	}
	return 1 << n
}

// The parts of an insert. The first has the arguments of one item, the other is how many items are new.
const (
	insertPart = "item of BF.INSERT"
	countPart  = "count of BF.INSERT"
)

func (t bloom) Apply(v Value, c Command) (Value, string, bool) {
	has := t.content(v)
	wrong, missing := v.Type != "" && v.Type != t.Name(), v.Type == ""
	switch {
	case c.Name == "BF.EXISTS" || c.Name == "BF.MEXISTS":
		found := make([]bool, len(c.Args))
		for i, item := range c.Args {
			found[i] = !wrong && has.items&bitOf(item) != 0
		}
		if c.Name == "BF.EXISTS" {
			return v, digit(found[0]), false
		}
		return v, list(digits(found)), false
	case wrong:
		return v, wrongType, false
	case c.Name == "BF.CARD":
		return v, decimal(int64(has.count)), false
	case c.Name == "BF.RESERVE":
		if !missing {
			return v, "ERR item exists", false
		}
		return t.value(has), ok, true
	case c.Name == countPart:
		has.count += bitsOf(c.Args[0])
		return t.value(has), "", true
	case c.Args[0] == "NOCREATE" && missing:
		return v, "ERR not found", false
	}
	isNew := make([]bool, len(c.Args)-1)
	before := has.items
	for i, item := range c.Args[1:] {
		isNew[i] = has.items&bitOf(item) == 0
		has.items |= bitOf(item)
	}
	if c.Name != insertPart {
		has.count += uint64(bits.OnesCount64(has.items &^ before))
	}
	return t.value(has), list(digits(isNew)), missing || slices.Contains(isNew, true)
}

func bitsOf(n string) uint64 {
	v, err := strconv.ParseUint(n, 10, 64)
	if err != nil {
		panic(err)
	}
	return v
}

func (t bloom) Split(c Command, reply string) (parts []Part) {
	part := func(name, reply string, args ...string) {
		parts = append(parts, Part{Command{Type: t, Name: name, Keys: c.Keys, Args: args}, reply})
	}
	answers := unlist(reply)
	switch {
	case !strings.HasPrefix(reply, "["):
		return nil
	case c.Name == "BF.MEXISTS":
		for i, item := range c.Args {
			part("BF.EXISTS", answers[i], item)
		}
	case slices.Contains(answers, "1"):
		isNew := 0
		for i, item := range c.Args[1:] {
			part(insertPart, list(answers[i:i+1]), c.Args[0], item)
			if answers[i] == "1" {
				isNew++
			}
		}
		part(countPart, "", strconv.Itoa(isNew))
	}
	return parts
}

func (t bloom) Describe(v Value) string {
	c := t.content(v)
	var items []string
	for i := range bloomItems {
		if c.items>>i&1 != 0 {
			items = append(items, strconv.Itoa(i))
		}
	}
	return fmt.Sprintf("{%s, count %d}", strings.Join(items, " "), c.count)
}

func (t bloom) Words(c Command, key string) []string {
	switch {
	case c.Name == "BF.RESERVE":
		return []string{c.Name, key, "1e-9", c.Args[0]}
	case c.Name != "BF.INSERT":
		return append([]string{c.Name, key}, c.Args...)
	case c.Args[0] == "NOCREATE":
		return append([]string{c.Name, key, "NOCREATE", "ITEMS"}, c.Args[1:]...)
	}
	return append([]string{c.Name, key, "CAPACITY", c.Args[0], "ERROR", "1e-9", "ITEMS"}, c.Args[1:]...)
}

func (t bloom) Handle(db *kv.DB, key string) Handle { return bloomHandle{bloomext.New(db, key)} }

type bloomHandle struct{ f *bloomext.Filter }

func (h bloomHandle) Do(c Command, level kv.Durability, scope kv.Scope) (string, bool) {
	f := h.f.With(level)
	if scope != nil {
		f = f.In(scope)
	}
	r, err := bloomDo(f, c)
	lookup := c.Name == "BF.EXISTS" || c.Name == "BF.MEXISTS"
	switch {
	case err == nil:
		return r, r != ""
	case lookup && (errors.Is(err, kv.ErrNotFound) || errors.Is(err, kv.ErrWrongType)):
		// As the commands answer: nothing is in there.
		_, r, _ = bloom{}.Apply(Value{}, c)
		return r, true
	case errors.Is(err, kv.ErrNotFound) && c.Name == "BF.CARD":
		return "0", true
	case errors.Is(err, kv.ErrNotFound):
		return "ERR not found", true
	case errors.Is(err, kv.ErrWrongType):
		return wrongType, true
	case errors.Is(err, kv.ErrExists):
		return "ERR item exists", true
	}
	return errorText(err), true
}

// bloomDo returns no reply if there is no call for the command.
func bloomDo(f *bloomext.Filter, c Command) (string, error) {
	switch {
	case c.Name == "BF.EXISTS":
		found, err := f.MayContain([]byte(c.Args[0]))
		return digit(found), err
	case c.Name == "BF.MEXISTS":
		found := make([]bool, len(c.Args))
		err := f.MayContainMany(scalableext.BytesOfAll(c.Args), found)
		return list(digits(found)), err
	case c.Name == "BF.CARD":
		i, err := f.Info()
		return decimal(int64(i.Items)), err
	case c.Name == "BF.RESERVE":
		capacity, err := strconv.ParseUint(c.Args[0], 10, 64)
		if err != nil {
			return "", err
		}
		return ok, f.Reserve(bloomext.Config{Capacity: capacity, ErrorRate: bloomRate})
	case c.Args[0] != "NOCREATE":
		return "", nil
	case len(c.Args) == 2:
		isNew, err := f.Add([]byte(c.Args[1]))
		return list(digits([]bool{isNew})), err
	}
	isNew := make([]bool, len(c.Args)-1)
	_, err := f.AddMany(scalableext.BytesOfAll(c.Args[1:]), isNew)
	return list(digits(isNew)), err
}
