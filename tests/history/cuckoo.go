package history

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/scalableext"
)

// cuckoo is the cuckoo filter: as a value how many copies of each item it has. Its error
// rate is so low that no history meets a false positive.
//
// Some filters are filled with items that nobody looks for, and so have several layers. A command that adds, outside
// of a transaction, is seen item by item; a lookup of several items sees changes to a part of them.
//
// With the compatible layout everybody can tell which items collide, and the items of a history do not. More than 4
// copies of an item make the filter grow.
type cuckoo struct{ compatible bool }

const (
	cuckooRate  = 1e-7
	cuckooItems = 24
	mostCopies  = 8 // of an item in a layer; the few items of a history never fill a block in another way

	// compatibleCapacity makes layers of 16 blocks, in which the items of a history do not collide.
	compatibleCapacity = 100_000
)

// filling returns how many items fill a filter: a layer of one block has room for 1,800. With the compatible layout there
// are as many as fit into a commit, as each changes a block.
func (t cuckoo) filling() int {
	if t.compatible {
		return 200
	}
	return 2000
}

func (cuckoo) Name() string { return "MBbloomCF" }
func (cuckoo) Keys() []int  { return []int{0, 1} }

func (cuckoo) items(random *rand.Rand, most int) []string {
	var items []string
	for range 1 + random.IntN(most) {
		if item := strconv.Itoa(random.IntN(cuckooItems)); !slices.Contains(items, item) {
			items = append(items, item)
		}
	}
	return items
}

func (t cuckoo) Read(random *rand.Rand) Command {
	c := Command{Type: t, Keys: []int{random.IntN(2)}}
	switch r := random.IntN(10); {
	case r < 4:
		c.Name, c.Args = "CF.EXISTS", t.items(random, 1)
	case r < 7:
		c.Name, c.Args = "CF.COUNT", t.items(random, 1)
	default:
		c.Name, c.Args = "CF.MEXISTS", t.items(random, 4)
	}
	return c
}

func (t cuckoo) Write(random *rand.Rand) Command {
	c := Command{Type: t, Keys: []int{random.IntN(2)}}
	switch r := random.IntN(40); {
	case r < 5:
		c.Name, c.Args = "CF.RESERVE", []string{capacities[random.IntN(len(capacities))]}
	case r < 6:
		c.Name = fillCommand
	case r < 8:
		c.Name = "CF.COMPACT"
	case r < 20:
		c.Name, c.Args = "CF.DEL", t.items(random, 1)
	case r < 27:
		c.Name, c.Args = "CF.INSERT", t.items(random, 1+2*random.IntN(2))
	default:
		c.Name, c.Args = "CF.INSERTNX", t.items(random, 1+2*random.IntN(2))
	}
	return c
}

// fillCommand is CF.INSERTNX of the items that nobody looks for.
const fillCommand = "filling CF.INSERTNX"

// copies is a value of a filter: the number of copies of each item, and 1 behind them if it was filled.
type copies [cuckooItems + 1]byte

func (t cuckoo) copies(v Value) (c copies) {
	if v.Type == t.Name() {
		copy(c[:], v.Data)
	}
	return c
}

func (t cuckoo) Apply(v Value, c Command) (Value, string, bool) {
	has := t.copies(v) // none if it is of another type
	number := func(item string) int { return int(bitsOf(item)) }
	found := make([]bool, len(c.Args))
	if c.Name != "CF.RESERVE" {
		for i, item := range c.Args {
			found[i] = has[number(item)] > 0
		}
	}
	switch c.Name {
	case "CF.EXISTS":
		return v, digit(found[0]), false
	case "CF.MEXISTS":
		return v, list(digits(found)), false
	case "CF.COUNT":
		return v, decimal(int64(has[number(c.Args[0])])), false
	case "CF.RESERVE":
		switch v.Type {
		case t.Name():
			return v, "ERR item exists", false
		case "":
		default:
			return v, wrongType, false
		}
		return Value{t.Name(), string(has[:])}, ok, true
	}
	switch there := v.Type == t.Name(); {
	case !there && c.Name == "CF.DEL":
		return v, "Not found", false
	case !there && c.Name == "CF.COMPACT":
		return v, "Cuckoo filter was not found", false
	case !there && v.Type != "":
		return v, wrongType, false
	case !there:
		return v, "ERR not found", false
	}
	var reply string
	changed := false
	switch c.Name {
	case "CF.COMPACT":
		reply, changed = ok, true // nothing that can be seen, except by watchers
	case "CF.DEL":
		if reply, changed = digit(found[0]), found[0]; changed {
			has[number(c.Args[0])]--
		}
	case fillCommand:
		reply, changed = t.filled(has[cuckooItems] == 0), has[cuckooItems] == 0
		has[cuckooItems] = 1
	default:
		answers := make([]string, len(c.Args))
		for i, item := range c.Args {
			n := &has[number(item)]
			switch {
			case c.Name == "CF.INSERTNX" && found[i]:
				answers[i] = "0"
			case *n == mostCopies && !t.compatible:
				answers[i] = "-1"
			default:
				*n++
				answers[i], changed = "1", true
			}
		}
		reply = list(answers)
	}
	return Value{t.Name(), string(has[:])}, reply, changed
}

// filled is the reply to fillCommand.
func (t cuckoo) filled(isNew bool) string {
	return list(slices.Repeat([]string{digit(isNew)}, t.filling()))
}

// Split returns the parts of changes, also of a single one: they may come in the middle of lookups of several items.
func (t cuckoo) Split(c Command, reply string) (parts []Part) {
	part := func(reply string, name string, args ...string) {
		parts = append(parts, Part{Command{Type: t, Name: name, Keys: c.Keys, Args: args}, reply})
	}
	answers := unlist(reply)
	switch {
	case c.Name == "CF.MEXISTS" && strings.HasPrefix(reply, "["):
		for i, item := range c.Args {
			part(answers[i], "CF.EXISTS", item)
		}
	case c.Name == "CF.DEL" && reply == "1", c.Name == "CF.COMPACT" && reply == ok,
		c.Name == fillCommand && reply == t.filled(true):
		part(reply, c.Name, c.Args...)
	case strings.HasPrefix(c.Name, "CF.INSERT") && slices.Contains(answers, "1"):
		for i, item := range c.Args {
			part(list(answers[i:i+1]), c.Name, item)
		}
	}
	return parts
}

func (t cuckoo) Describe(v Value) string {
	var b strings.Builder
	has := t.copies(v)
	for i, n := range has[:cuckooItems] {
		if n > 0 {
			fmt.Fprintf(&b, "%d: %d, ", i, n)
		}
	}
	return fmt.Sprintf("{%sfilled: %d}", b.String(), has[cuckooItems])
}

func (t cuckoo) Words(c Command, key string) []string {
	switch c.Name {
	case "CF.RESERVE":
		if t.compatible {
			return []string{c.Name, key, strconv.Itoa(compatibleCapacity)}
		}
		return []string{c.Name, key, c.Args[0], "ERROR", "1e-7"}
	case "CF.INSERT", "CF.INSERTNX":
		return append([]string{c.Name, key, "NOCREATE", "ITEMS"}, c.Args...)
	case fillCommand:
		words := []string{"CF.INSERTNX", key, "NOCREATE", "ITEMS"}
		for i := range t.filling() {
			words = append(words, "filling "+strconv.Itoa(i))
		}
		return words
	}
	return append([]string{c.Name, key}, c.Args...)
}

func (t cuckoo) Handle(db *kv.DB, key string) Handle { return cuckooHandle{t, cuckooext.New(db, key)} }

type cuckooHandle struct {
	t cuckoo
	f *cuckooext.Filter
}

func (h cuckooHandle) Do(c Command, level kv.Durability, scope kv.Scope) (string, bool) {
	f := h.f.With(level)
	if scope != nil {
		f = f.In(scope)
	}
	r, err := h.t.do(f, c)
	absent := errors.Is(err, kv.ErrNotFound) || errors.Is(err, kv.ErrWrongType)
	switch {
	case err == nil:
		return r, r != ""
	case c.Name == "CF.RESERVE" && errors.Is(err, kv.ErrWrongType):
		return wrongType, true
	case errors.Is(err, kv.ErrExists):
		return "ERR item exists", true
	case absent && !strings.HasPrefix(c.Name, "CF.INSERT"):
		// As the commands answer: a filter that is not there.
		_, r, _ = h.t.Apply(Value{}, c)
		return r, true
	case errors.Is(err, kv.ErrNotFound):
		return "ERR not found", true
	case absent:
		return wrongType, true
	case errors.Is(err, scalableext.ErrFull) && len(c.Args) == 1:
		return list([]string{"-1"}), true
	}
	return errorText(err), true
}

// do returns no reply if there is no call for the command.
func (t cuckoo) do(f *cuckooext.Filter, c Command) (string, error) {
	switch {
	case c.Name == "CF.EXISTS":
		found, err := f.MayContain([]byte(c.Args[0]))
		return digit(found), err
	case c.Name == "CF.MEXISTS":
		items, found := make([][]byte, len(c.Args)), make([]bool, len(c.Args))
		for i, item := range c.Args {
			items[i] = []byte(item)
		}
		err := f.MayContainMany(items, found)
		return list(digits(found)), err
	case c.Name == "CF.COUNT":
		n, err := f.Count([]byte(c.Args[0]))
		return decimal(int64(n)), err
	case c.Name == "CF.RESERVE" && t.compatible:
		return ok, f.Reserve(cuckooext.Config{Capacity: compatibleCapacity, Layout: scalableext.LayoutCompatible})
	case c.Name == "CF.RESERVE":
		capacity, err := strconv.ParseUint(c.Args[0], 10, 64)
		if err != nil {
			return "", err
		}
		return ok, f.Reserve(cuckooext.Config{Capacity: capacity, ErrorRate: cuckooRate})
	case c.Name == "CF.COMPACT":
		return ok, f.Compact()
	case c.Name == "CF.DEL":
		deleted, err := f.Delete([]byte(c.Args[0]))
		return digit(deleted), err
	case c.Name == "CF.INSERT" && len(c.Args) == 1:
		_, err := f.Add([]byte(c.Args[0]))
		return list([]string{"1"}), err
	case c.Name == "CF.INSERTNX" && len(c.Args) == 1:
		isNew, err := f.AddIfAbsent([]byte(c.Args[0]))
		return list(digits([]bool{isNew})), err
	}
	return "", nil
}
