package tests_test

import (
	"fmt"
	"strconv"

	"pgregory.net/rapid"

	"github.com/sievekv/sievekv/module/reply"
)

// bloomFamily is the commands on Bloom filters.
type bloomFamily struct{}

func (s *shadow) typeName() string { return "MBbloom--" }

func (s *shadow) clone() modelValue { return s.copy() }

func (s *shadow) questions(key string) [][]string {
	return [][]string{
		{"BF.CARD", key}, {"BF.INFO", key}, {"BF.DEBUG", key},
		append([]string{"BF.MEXISTS", key}, itemRange(0, modelItems)...),
	}
}

// modelItems is the number of items there are.
const modelItems = 400

func drawItem(t *rapid.T) string {
	return strconv.Itoa(rapid.IntRange(0, modelItems-1).Draw(t, "item"))
}

func itemRange(from, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = strconv.Itoa((from + i) % modelItems)
	}
	return list
}

// drawItems returns up to the given number of items.
func drawItems(t *rapid.T, most int) []string {
	if chance(t, 2) {
		return itemRange(rapid.IntRange(0, modelItems-1).Draw(t, "from"), rapid.IntRange(1, most).Draw(t, "items"))
	}
	var list []string
	for range rapid.IntRange(1, 5).Draw(t, "items") {
		list = append(list, drawItem(t))
	}
	return list
}

func drawCapacity(t *rapid.T) string { return drawOne(t, "10", "1", "3", "50", "200", "20000") }

func drawRate(t *rapid.T) string { return drawOne(t, "0.01", "0.5", "0.2", "0.001", "1e-07") }

func drawExpansion(t *rapid.T) string { return drawOne(t, "2", "0", "1", "4") }

func (f bloomFamily) draw(t *rapid.T, m *model) [][]string {
	one := func(words ...string) [][]string { return [][]string{words} }
	switch rapid.IntRange(0, 15).Draw(t, "which") {
	case 0, 1:
		words := []string{"BF.RESERVE", drawKey(t), drawRate(t), drawCapacity(t), "EXPANSION", drawExpansion(t)}
		if chance(t, 4) {
			words = append(words, "TTL", drawOne(t, "5", "100", "0", "abc"))
		}
		return [][]string{words}
	case 2, 3, 4:
		return one("BF.ADD", drawKey(t), drawItem(t))
	case 5: // more than the operands after which a block is folded
		key, lines := drawKey(t), [][]string(nil)
		for _, item := range drawItems(t, 100) {
			lines = append(lines, []string{"BF.ADD", key, item})
		}
		return lines
	case 6, 7, 8:
		return [][]string{append([]string{"BF.MADD", drawKey(t)}, drawItems(t, 40)...)}
	case 9, 10:
		return [][]string{drawInsert(t)}
	case 11, 12, 13:
		words := []string{"BF.MERGE", drawKey(t), drawKey(t)}
		if chance(t, 3) {
			words = append(words, drawKey(t))
		}
		return [][]string{words}
	}
	return [][]string{f.look(t, m)}
}

func drawInsert(t *rapid.T) []string { return drawInsertInto(t, drawKey(t)) }

func drawInsertInto(t *rapid.T, key string) []string {
	words := []string{"BF.INSERT", key}
	for _, option := range []string{"CAPACITY", "ERROR", "EXPANSION", "NOCREATE", "NONSCALING"} {
		if !chance(t, 3) {
			continue
		}
		words = append(words, option)
		switch option {
		case "CAPACITY":
			words = append(words, drawCapacity(t))
		case "ERROR":
			words = append(words, drawRate(t))
		case "EXPANSION":
			words = append(words, drawExpansion(t))
		}
	}
	return append(append(words, "ITEMS"), drawItems(t, 40)...)
}

func (bloomFamily) look(t *rapid.T, _ *model) []string {
	switch rapid.IntRange(0, 5).Draw(t, "which") {
	case 0:
		return []string{"BF.EXISTS", drawKey(t), drawItem(t)}
	case 1:
		return append([]string{"BF.MEXISTS", drawKey(t)}, drawItems(t, 40)...)
	case 2:
		return []string{"BF.CARD", drawKey(t)}
	case 3:
		return []string{"BF.DEBUG", drawKey(t)}
	case 4:
		return []string{"BF.INFO", drawKey(t)}
	}
	return []string{"BF.INFO", drawKey(t), drawOne(t, "CAPACITY", "SIZE", "FILTERS", "ITEMS", "EXPANSION", "bad")}
}

// filter returns the filter under a key; ok is false if it holds another type.
func (m *model) filter(key string) (f *shadow, ok bool) {
	k := m.keys[key]
	if k == nil {
		return nil, true
	}
	f, ok = k.value.(*shadow)
	return f, ok
}

func (f bloomFamily) answer(m *model, name string, args []string) want {
	switch name {
	case "BF.RESERVE":
		return m.reserve(args)
	case "BF.ADD", "BF.MADD":
		r := m.insert(args[0], newFilter{capacity: 100, rate: 0.01, expansion: 2}, args[1:])
		if name == "BF.ADD" && !r.IsError() {
			r = r.Elems()[0]
		}
		return exactly(r)
	case "BF.INSERT":
		create, items := insertOptions(args[1:])
		return exactly(m.insert(args[0], create, items))
	case "BF.EXISTS", "BF.MEXISTS":
		have, _ := m.filter(args[0])
		var list []reply.Reply
		for _, item := range args[1:] {
			list = append(list, reply.Bool(have != nil && have.has(item)))
		}
		if name == "BF.EXISTS" {
			return exactly(list[0])
		}
		return exactly(reply.Array(list...))
	case "BF.CARD", "BF.INFO", "BF.DEBUG":
		return f.facts(m, name, args)
	case "BF.MERGE":
		return m.merge(args)
	}
	return nil
}

// reserveOptions reads the words of BF.RESERVE and CBF.RESERVE; failed is what they answer if these are wrong.
func (m *model) reserveOptions(args []string) (c newFilter, expiry int64, failed want) {
	rate, err1 := strconv.ParseFloat(args[1], 64)
	capacity, err2 := strconv.ParseUint(args[2], 10, 64)
	expansion, err3 := strconv.ParseUint(args[4], 10, 32)
	if err1 != nil || err2 != nil || err3 != nil {
		panic(fmt.Sprint("drawn: ", args))
	}
	if len(args) > 5 {
		switch ttl, ok := integer(args[6]); {
		case !ok:
			failed = fails("ERR bad ttl")
		case ttl < 1:
			failed = fails("ERR ttl must be in the range [1, 3162240000]")
		default:
			expiry = m.now + 1000*ttl
		}
	}
	return newFilter{capacity: capacity, rate: rate, expansion: uint32(expansion)}, expiry, failed
}

func (m *model) reserve(args []string) want {
	c, expiry, failed := m.reserveOptions(args)
	have, ok := m.filter(args[0])
	switch {
	case failed != nil:
		return failed
	case !ok:
		return fails(wrongType)
	case have != nil:
		return fails("ERR item exists")
	}
	m.set(args[0], newShadow(c.capacity, c.rate, c.expansion), expiry)
	return exactly(reply.OK)
}

// newFilter is how an add makes a filter.
type newFilter struct {
	capacity  uint64
	rate      float64
	expansion uint32
	never     bool
}

func insertOptions(args []string) (c newFilter, items []string) {
	c = newFilter{capacity: 100, rate: 0.01, expansion: 2}
	nonScaling := false
	for i := 0; ; i++ {
		switch args[i] {
		case "NOCREATE":
			c.never = true
			continue
		case "NONSCALING":
			nonScaling = true
			continue
		case "ITEMS":
			if nonScaling {
				c.expansion = 0
			}
			return c, args[i+1:]
		}
		value, err := strconv.ParseFloat(args[i+1], 64)
		if err != nil {
			panic(fmt.Sprint("drawn: ", args))
		}
		switch args[i] {
		case "CAPACITY":
			c.capacity = uint64(value)
		case "ERROR":
			c.rate = value
		case "EXPANSION":
			c.expansion = uint32(value)
		}
		i++
	}
}

// insert adds items to a filter, and makes it if there is none.
func (m *model) insert(key string, c newFilter, items []string) reply.Reply {
	have, ok := m.filter(key)
	switch {
	case !ok:
		return reply.Error(wrongType)
	case have == nil && c.never:
		return reply.Error("ERR not found")
	case have == nil:
		have = newShadow(c.capacity, c.rate, c.expansion)
		m.set(key, have, 0)
	}
	before := have.items()
	answer := addAll(have, items)
	if have.items() != before {
		m.touch(key)
	}
	return answer
}

func (bloomFamily) facts(m *model, name string, args []string) want {
	have, ok := m.filter(args[0])
	switch {
	case !ok:
		return fails(wrongType)
	case have == nil && name == "BF.CARD":
		return exactly(reply.Int(0))
	case have == nil:
		return fails("ERR not found")
	case name == "BF.CARD":
		return exactly(reply.Int(int64(have.items())))
	case name == "BF.DEBUG":
		lines := []reply.Reply{reply.BulkString(fmt.Sprintf("size:%d", have.items()))}
		for _, l := range have.layers {
			lines = append(lines, reply.BulkString(fmt.Sprintf(
				"bytes:%d bits:%d hashes:%d hashwidth:64 capacity:%d size:%d ratio:%.6g",
				l.layout.Bits()/8, l.layout.Bits(), l.layout.Hashes, l.capacity, l.items, l.rate)))
		}
		return exactly(reply.Array(lines...))
	}
	return have.info(args[1:])
}

func (s *shadow) info(field []string) want {
	size, capacity, estimated := int64(32), uint64(0), false
	for _, l := range s.layers {
		size += 64 + int64(l.layout.Bits()/8)
		capacity += l.capacity
		estimated = estimated || l.estimated
	}
	expansion := reply.Nil
	if s.params.Expansion > 0 {
		expansion = reply.Int(int64(s.params.Expansion))
	}
	pairs := []reply.Pair{
		reply.Label("Capacity", reply.Int(int64(capacity))),
		reply.Label("Size", reply.Int(size)),
		reply.Label("Number of filters", reply.Int(int64(len(s.layers)))),
		reply.Label("Number of items inserted", reply.Int(int64(s.items()))),
		reply.Label("Expansion rate", expansion),
	}
	return infoFields(field, estimated, pairs)
}

func (m *model) merge(keys []string) want {
	var names []string
	var parts []modelValue
	var shadows []*shadow
	var expiry int64
	seen := make(map[string]bool)
	for i, key := range keys {
		k := m.keys[key]
		if k == nil && i > 0 {
			return fails("ERR not found")
		}
		if k == nil || seen[key] {
			continue
		}
		switch v := k.value.(type) {
		case *shadow:
			shadows = append(shadows, v)
		case compatibleBloom:
		default:
			return fails(wrongType)
		}
		if i == 0 {
			expiry = k.expiry
		}
		seen[key] = true
		names, parts = append(names, key), append(parts, k.value)
	}
	var union modelValue
	var answer reply.Reply
	if len(shadows) < len(parts) {
		union, answer = mergeCompatible(names, parts)
	} else if u, a := unite(names, shadows); u != nil {
		union, answer = u, a
	} else {
		answer = a
	}
	if union != nil {
		m.set(keys[0], union, expiry)
	}
	return exactly(answer)
}
