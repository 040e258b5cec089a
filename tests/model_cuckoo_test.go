package tests_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"pgregory.net/rapid"

	"github.com/sievekv/sievekv/module/reply"
)

// cuckooFamily is the commands on cuckoo filters. All are made with so low an error rate that there is no false
// positive, so that replies follow from how many copies of each item there are.
type cuckooFamily struct{}

// multiset is a cuckoo filter beside the store.
type multiset struct {
	capacity, iterations, expansion int64

	copies  map[string]int
	items   int64
	deletes int64 // since CF.COMPACT; a store may have compacted by itself later
	chain   bool  // it may have more than one layer
}

// An item that is hot, and only such a one, is added more often than a layer takes. In a
// block of 256, 428 or 512 buckets, with the seed that the stores have, it has two buckets,
// as have all of the items drawn otherwise, and shares them with few of those.
var hotItems = []string{"hot51", "hot59"}

const (
	cuckooBucketSize = 4
	cuckooMostCopies = 2 * cuckooBucketSize // in a layer

	// The capacity of a filter that begins with a short block, of half a whole one; of one
	// whose blocks are cut; and of one whose blocks are whole. They take 901, 1,503 and 1,802
	// items before they grow.
	cuckooShort = 600
	cuckooCut   = 1500
	cuckooWhole = 1800

	cuckooBulk = 2000 // is more than all of them
)

func (s *multiset) typeName() string { return "MBbloomCF" }

func (s *multiset) clone() modelValue {
	c := *s
	c.copies = maps.Clone(s.copies)
	return &c
}

func (s *multiset) questions(key string) [][]string {
	list := [][]string{{"CF.INFO", key}, append([]string{"CF.MEXISTS", key}, itemRange(0, modelItems)...)}
	for _, item := range append(itemRange(0, 50), hotItems...) {
		list = append(list, []string{"CF.COUNT", key, item})
	}
	if s.chain {
		list = append(list, append([]string{"CF.MEXISTS", key}, bulkItems()...))
	}
	return list
}

func bulkItems() []string {
	list := make([]string, cuckooBulk)
	for i := range list {
		list[i] = "bulk" + strconv.Itoa(i)
	}
	return list
}

func drawCuckooReserve(t *rapid.T, key, expansion string) []string {
	words := []string{"CF.RESERVE", key, drawOne(t, strconv.Itoa(cuckooShort), strconv.Itoa(cuckooCut), strconv.Itoa(cuckooWhole)), "ERROR", "1e-07", "BUCKETSIZE", "4", "EXPANSION", expansion}
	if chance(t, 2) {
		words = append(words, "MAXITERATIONS", drawOne(t, "20", "1", "500"))
	}
	return words
}

// draw makes no filter without an error rate: the items of CF.ADD and CF.ADDNX, which would, come after a CF.RESERVE.
func (f cuckooFamily) draw(t *rapid.T, m *model) [][]string {
	key := drawKey(t)
	one := func(words ...string) [][]string { return [][]string{words} }
	insert := func(name string, items ...string) []string {
		return append([]string{name, key, "NOCREATE", "ITEMS"}, items...)
	}
	reserve := func() []string { return drawCuckooReserve(t, key, drawExpansion(t)) }
	switch rapid.IntRange(0, 23).Draw(t, "which") {
	case 0:
		return [][]string{reserve()}
	case 1, 2:
		return [][]string{reserve(), {"CF.ADD", key, drawItem(t)}}
	case 3, 4:
		return [][]string{reserve(), {"CF.ADDNX", key, drawItem(t)}}
	case 5, 6, 7:
		return [][]string{reserve(), insert("CF.INSERT", drawItems(t, 40)...)}
	case 8, 9:
		return one(insert("CF.INSERTNX", drawItems(t, 40)...)...)
	case 10, 11, 12:
		return one("CF.DEL", key, drawItem(t))
	case 13, 14: // many of the items there are
		var lines [][]string
		for _, item := range drawItems(t, 40) {
			lines = append(lines, []string{"CF.DEL", key, item})
		}
		return lines
	case 15, 16:
		return one("CF.COMPACT", key)
	case 17: // a filter of two layers
		expansion := drawOne(t, "1", "2")
		return [][]string{{"DEL", key}, drawCuckooReserve(t, key, expansion), insert("CF.INSERTNX", bulkItems()...)}
	case 18: // deletions leave one of them
		var lines [][]string
		from := rapid.IntRange(0, cuckooBulk-1).Draw(t, "from")
		for i := range rapid.IntRange(1, 300).Draw(t, "deletions") {
			lines = append(lines, []string{"CF.DEL", key, "bulk" + strconv.Itoa((from+i)%cuckooBulk)})
		}
		return append(lines, []string{"CF.COMPACT", key})
	case 19: // as many copies as there can be, and more
		hot := drawOne(t, hotItems...)
		return [][]string{
			{"DEL", key}, reserve(), insert("CF.INSERT", slices.Repeat([]string{hot}, cuckooMostCopies+2)...),
			{"CF.ADD", key, hot}, {"CF.DEL", key, hot}, {"CF.COUNT", key, hot},
		}
	}
	return [][]string{f.look(t, m)}
}

func (cuckooFamily) look(t *rapid.T, _ *model) []string {
	switch rapid.IntRange(0, 3).Draw(t, "which") {
	case 0:
		return []string{"CF.EXISTS", drawKey(t), drawItem(t)}
	case 1:
		return append([]string{"CF.MEXISTS", drawKey(t)}, drawItems(t, 40)...)
	case 2:
		return []string{"CF.COUNT", drawKey(t), drawOne(t, drawItem(t), hotItems[0])}
	}
	return []string{"CF.INFO", drawKey(t)}
}

// multiset returns the cuckoo filter under a key; ok is false if it holds another type.
func (m *model) multiset(key string) (s *multiset, ok bool) {
	k := m.keys[key]
	if k == nil {
		return nil, true
	}
	s, ok = k.value.(*multiset)
	return s, ok
}

func (f cuckooFamily) answer(m *model, name string, args []string) want {
	switch name {
	case "CF.RESERVE":
		return m.reserveCuckoo(args)
	case "CF.ADD", "CF.ADDNX":
		return m.addCuckoo(args[0], args[1], name == "CF.ADDNX")
	case "CF.INSERT", "CF.INSERTNX":
		return m.insertCuckoo(args[0], args[3:], name == "CF.INSERTNX")
	case "CF.EXISTS", "CF.MEXISTS", "CF.COUNT":
		have, _ := m.multiset(args[0])
		var list []reply.Reply
		for _, item := range args[1:] {
			n := 0
			if have != nil {
				n = have.copies[item]
			}
			if name == "CF.COUNT" {
				return exactly(reply.Int(int64(n)))
			}
			list = append(list, reply.Bool(n > 0))
		}
		if name == "CF.EXISTS" {
			return exactly(list[0])
		}
		return exactly(reply.Array(list...))
	case "CF.DEL":
		return m.deleteCuckoo(args[0], args[1])
	case "CF.COMPACT":
		have, _ := m.multiset(args[0])
		if have == nil {
			return fails("Cuckoo filter was not found")
		}
		have.deletes = 0
		m.touch(args[0])
		return exactly(reply.OK)
	case "CF.INFO":
		switch have, ok := m.multiset(args[0]); {
		case !ok:
			return fails(wrongType)
		case have == nil:
			return fails("ERR not found")
		default:
			return have.info()
		}
	}
	return nil
}

func (m *model) reserveCuckoo(args []string) want {
	switch have, ok := m.multiset(args[0]); {
	case !ok:
		return fails(wrongType)
	case have != nil:
		return fails("ERR item exists")
	}
	s := &multiset{iterations: 20, copies: make(map[string]int)}
	options := map[string]*int64{"EXPANSION": &s.expansion, "MAXITERATIONS": &s.iterations, "": &s.capacity}
	for i := 0; i < len(args)-1; i += 2 {
		name := args[i]
		if i == 0 {
			name = ""
		}
		if to := options[name]; to != nil {
			n, ok := integer(args[i+1])
			if !ok {
				panic(fmt.Sprint("drawn: ", args))
			}
			*to = n
		}
	}
	m.set(args[0], s, 0)
	return exactly(reply.OK)
}

// add returns whether there is room for an item.
func (s *multiset) add(item string) bool {
	if s.copies[item] >= cuckooMostCopies {
		return false
	}
	s.copies[item]++
	s.items++
	s.chain = s.chain || s.items > s.capacity
	return true
}

func (m *model) addCuckoo(key, item string, onlyNew bool) want {
	have, ok := m.multiset(key)
	switch {
	case !ok:
		return fails(wrongType)
	case have == nil:
		panic("CF.ADD without a filter is not drawn")
	case onlyNew && have.copies[item] > 0:
		return exactly(reply.Bool(false))
	case !have.add(item):
		return fails("Filter is full")
	}
	m.touch(key)
	return exactly(reply.Bool(true))
}

func (m *model) insertCuckoo(key string, items []string, onlyNew bool) want {
	have, ok := m.multiset(key)
	switch {
	case !ok:
		return fails(wrongType)
	case have == nil:
		return fails("ERR not found")
	}
	before := have.items
	var list []reply.Reply
	for _, item := range items {
		n := int64(1)
		if onlyNew && have.copies[item] > 0 {
			n = 0
		} else if !have.add(item) {
			n = -1
		}
		if onlyNew {
			list = append(list, reply.Int(n))
		} else {
			list = append(list, reply.Either(reply.Int(n), reply.Bool(n > 0)))
		}
	}
	if have.items != before {
		m.touch(key)
	}
	return exactly(reply.Array(list...))
}

func (m *model) deleteCuckoo(key, item string) want {
	have, _ := m.multiset(key)
	switch {
	case have == nil:
		return fails("Not found")
	case have.copies[item] == 0:
		return exactly(reply.Bool(false))
	}
	have.copies[item]--
	have.items--
	have.deletes++
	m.touch(key)
	return exactly(reply.Bool(true))
}

// info wants what CF.INFO answers, except facts that depend on whether a store has compacted the filter by itself.
func (s *multiset) info() want {
	// The buckets of the oldest layer and of a block of those after it, and the blocks of the next.
	buckets, longest, next := int64(512), int64(512), s.expansion
	switch s.capacity {
	case cuckooShort:
		buckets, next = 256, (s.expansion+1)/2
	case cuckooCut:
		buckets, longest = 428, 428
	}
	fields := map[string]int64{
		"Number of buckets": buckets, "Number of items inserted": s.items, "Bucket size": cuckooBucketSize,
		"Expansion rate": s.expansion, "Max iterations": s.iterations,
	}
	if !s.chain {
		fields["Number of filters"] = 1
	}
	deletes := s.deletes
	return func(got reply.Reply) error {
		seen, filters, size := 0, int64(0), int64(0)
		elems := got.Elems()
		for i := 0; i+1 < len(elems); i += 2 {
			name, n := string(elems[i].Bytes()), elems[i+1].Int()
			if want, ok := fields[name]; ok {
				seen++
				if n != want {
					return fmt.Errorf("%s is %d, want %d", name, n, want)
				}
			}
			switch name {
			case "Size":
				size = n
			case "Number of filters":
				filters = n
			}
			if name == "Number of items deleted" && (n < 0 || n > deletes) {
				return fmt.Errorf("%s is %d, want at most %d", name, n, deletes)
			}
		}
		if got.Kind() != reply.KindMap || len(elems) != 16 || seen != len(fields) {
			return fmt.Errorf("want a map of 8 fields, among them %v", fields)
		}
		want, blocks := 40+16*filters+buckets*cuckooBucketSize*4, next
		for range filters - 1 {
			want += blocks * longest * cuckooBucketSize * 4
			blocks *= s.expansion
		}
		if size != want || filters < 1 {
			return fmt.Errorf("size is %d, want %d for %d filters", size, want, filters)
		}
		return nil
	}
}
