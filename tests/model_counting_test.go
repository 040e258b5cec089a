package tests_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"pgregory.net/rapid"

	"github.com/sievekv/sievekv/internal/probe"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/scalableext"
)

// countingFamily is the commands on counting Bloom filters.
type countingFamily struct{}

// countingShadow is a counting Bloom filter beside the store: the same hashes and growth over plain memory, so that it
// has the same false positives, counters that stick and deletions that are kept, and every reply can be foretold.
type countingShadow struct {
	params      scalableext.Params
	layers      []*countingLayer // oldest first
	items, kept uint64
	mixed       bool // new items went to an older layer

	deletedLately, foundLately uint64 // deletions since the first that was kept, and those after which the item was found
}

type countingLayer struct {
	layout   probe.Layout
	counters map[uint64]uint8 // those above 0, by block<<16 | position
	rate     float64
	capacity uint64
	fill     uint64
}

const mostCounted = 15

func newCountingShadow(c newFilter) *countingShadow {
	s := &countingShadow{params: scalableext.Params{
		Capacity: c.capacity, ErrorRate: min(c.rate, 0.25), Expansion: c.expansion, Hash: modelHash,
	}}
	if !s.grow() {
		panic("a filter without a layer")
	}
	return s
}

func (s *countingShadow) grow() bool {
	capacity, rate, err := s.params.Layer(len(s.layers))
	if err != nil {
		return false
	}
	layout, err := probe.SizeCounters(capacity, rate)
	if err != nil {
		return false
	}
	s.layers = append(s.layers, &countingLayer{
		layout: layout, counters: make(map[uint64]uint8), rate: rate, capacity: capacity,
	})
	return true
}

func (s *countingShadow) newest() *countingLayer { return s.layers[len(s.layers)-1] }

// countersOf returns the counters of an item.
func (l *countingLayer) countersOf(hash uint64) []uint64 {
	blk, _ := l.layout.Block(hash)
	var list []uint64
	for _, p := range l.layout.AppendPositions(nil, hash) {
		list = append(list, blk<<16|uint64(p))
	}
	return list
}

func (l *countingLayer) count(hash uint64) uint8 {
	least := uint8(mostCounted)
	for _, at := range l.countersOf(hash) {
		least = min(least, l.counters[at])
	}
	return least
}

func (l *countingLayer) stuck() (n uint64) {
	for _, v := range l.counters {
		if v == mostCounted {
			n++
		}
	}
	return n
}

// load is what the layer holds of its capacity. As many counters that stick as an item has take the place of one.
func (l *countingLayer) load() uint64 {
	k := uint64(l.layout.Hashes)
	return l.fill + (l.stuck()+k-1)/k
}

// full says whether the layer has no room for a new item, or may have none after a number of items.
func (l *countingLayer) full(items uint64) bool {
	above := uint64(len(l.counters)) + items*uint64(l.layout.Hashes)
	return l.load()+2*items >= l.capacity || above >= l.layout.FullSet(l.capacity)
}

// change counts an item's counters up or down, except stuck ones.
func (l *countingLayer) change(hash uint64, by int) (changed bool) {
	for _, at := range l.countersOf(hash) {
		if l.counters[at] == mostCounted {
			continue
		}
		changed = true
		if l.counters[at] += uint8(by); l.counters[at] == 0 {
			delete(l.counters, at)
		}
	}
	return changed
}

// matching returns the layers in which an item seems to be: first the layer that has it, then in a filter that is not
// mixed the oldest, and otherwise newest first.
func (s *countingShadow) matching(hash uint64) (list []*countingLayer) {
	for _, l := range slices.Backward(s.layers) {
		if l.count(hash) > 0 {
			list = append(list, l)
		}
	}
	if !s.mixed && len(list) > 0 {
		return list[len(list)-1:]
	}
	return list
}

func hashOf(item string) uint64 { return modelHash.Sum([]byte(item)) }

func (s *countingShadow) has(item string) bool { return len(s.matching(hashOf(item))) > 0 }

// count returns what CBF.COUNT answers.
func (s *countingShadow) count(item string) (n int64) {
	for _, l := range s.layers {
		n += int64(l.count(hashOf(item)))
	}
	return min(n, mostCounted)
}

// add returns what CBF.ADD answers.
func (s *countingShadow) add(item string) reply.Reply {
	hash := hashOf(item)
	have := s.matching(hash)
	absent := len(have) == 0
	if absent {
		l, failed := s.withRoom()
		if l == nil {
			return failed
		}
		have = append(have, l)
	}
	if have[0].change(hash, 1) {
		have[0].fill++
	}
	s.items++
	return reply.Bool(absent)
}

// withRoom returns the layer that takes a new item, or what an add that there is no room for is answered with.
func (s *countingShadow) withRoom() (*countingLayer, reply.Reply) {
	if !s.newest().full(0) {
		return s.newest(), reply.OK
	}
	var older *countingLayer
	for _, l := range s.layers {
		if !l.full(0) {
			older = l
		}
	}
	switch {
	case older != nil && (s.params.Expansion < 2 || s.mixed):
	case s.params.Expansion == 0:
		return nil, reply.Error("ERR non scaling filter is full")
	case s.grow():
		return s.newest(), reply.OK
	case older == nil:
		return nil, reply.Error("ERR problem inserting into filter")
	}
	s.mixed = true
	return older, reply.OK
}

// remove reports what CBF.DEL answers.
func (s *countingShadow) remove(item string) bool {
	hash := hashOf(item)
	have := s.matching(hash)
	if len(have) == 0 {
		return false
	}
	if len(have) == 1 && have[0].change(hash, -1) {
		have[0].fill -= min(1, have[0].fill)
	} else {
		s.kept++
	}
	s.items -= min(1, s.items)
	if s.kept > 0 {
		if s.deletedLately >= 8192 {
			s.deletedLately, s.foundLately = s.deletedLately/2, s.foundLately/2
		}
		s.deletedLately++
		if s.has(item) {
			s.foundLately++
		}
	}
	return true
}

// inOrder returns the numbers of items in the order of their blocks. Items of one block keep their order.
func (s *countingShadow) inOrder(items []string) []int {
	list := make([]int, len(items))
	for i := range list {
		list[i] = i
	}
	block := func(i int) uint64 {
		blk, _ := s.newest().layout.Block(hashOf(items[i]))
		return blk
	}
	slices.SortStableFunc(list, func(a, b int) int { return cmp.Compare(block(a), block(b)) })
	return list
}

// addAll returns what CBF.MADD answers. Items go in in the order of their blocks where there is room for all, whatever
// they make stick.
func (s *countingShadow) addAll(items []string) reply.Reply {
	if !s.newest().full(uint64(len(items))) {
		list := make([]reply.Reply, len(items))
		for _, i := range s.inOrder(items) {
			list[i] = s.add(items[i])
		}
		return reply.Array(list...)
	}
	var list []reply.Reply
	for i, item := range items {
		r := s.add(item)
		list = append(list, r)
		switch {
		case r.IsError() && s.params.Expansion == 0:
			return reply.Array(list...)
		case r.IsError():
			return reply.Array(append(list, s.addAll(items[i+1:]).Elems()...)...)
		}
	}
	return reply.Array(list...)
}

func (s *countingShadow) removeAll(items []string) (deleted []bool) {
	deleted = make([]bool, len(items))
	for _, i := range s.inOrder(items) {
		deleted[i] = s.remove(items[i])
	}
	return deleted
}

func (s *countingShadow) typeName() string { return "CBloom---" }

func (s *countingShadow) clone() modelValue {
	c := *s
	c.layers = nil
	for _, l := range s.layers {
		own := *l
		own.counters = maps.Clone(l.counters)
		c.layers = append(c.layers, &own)
	}
	return &c
}

func (s *countingShadow) questions(key string) [][]string {
	list := [][]string{
		{"CBF.CARD", key}, {"CBF.INFO", key}, {"CBF.DEBUG", key},
		append([]string{"CBF.MEXISTS", key}, itemRange(0, modelItems)...),
	}
	for _, item := range itemRange(0, 50) {
		list = append(list, []string{"CBF.COUNT", key, item})
	}
	return list
}

func (f countingFamily) draw(t *rapid.T, m *model) [][]string {
	key := drawKey(t)
	one := func(words ...string) [][]string { return [][]string{words} }
	switch rapid.IntRange(0, 23).Draw(t, "which") {
	case 0, 1:
		words := []string{"CBF.RESERVE", key, drawRate(t), drawCapacity(t), "EXPANSION", drawExpansion(t)}
		if chance(t, 4) {
			words = append(words, "TTL", drawOne(t, "5", "100", "0", "abc"))
		}
		return [][]string{words}
	case 2, 3, 4:
		return one("CBF.ADD", key, drawItem(t))
	case 5, 6, 7:
		return [][]string{append([]string{"CBF.MADD", key}, drawItems(t, 40)...)}
	case 8, 9:
		words := drawInsert(t)
		words[0] = "CBF.INSERT"
		return [][]string{words}
	case 10, 11, 12: // whether the item was added or not
		return one("CBF.DEL", key, drawItem(t))
	case 13, 14:
		return [][]string{append([]string{"CBF.MDEL", key}, drawItems(t, 40)...)}
	case 15, 16: // until counters stick, with others to come after
		item := drawItem(t)
		many := slices.Repeat([]string{item}, rapid.IntRange(10, 18).Draw(t, "times"))
		return [][]string{
			append([]string{"CBF.MADD", key}, append(many, drawItems(t, 40)...)...), {"CBF.COUNT", key, item},
			append([]string{"CBF.MDEL", key}, many...), {"CBF.COUNT", key, item},
		}
	case 17, 18, 19:
		words := []string{"CBF.MERGE", key, drawKey(t)}
		if chance(t, 3) {
			words = append(words, drawKey(t))
		}
		return [][]string{words}
	}
	return [][]string{f.look(t, m)}
}

func (countingFamily) look(t *rapid.T, _ *model) []string {
	key := drawKey(t)
	switch rapid.IntRange(0, 6).Draw(t, "which") {
	case 0:
		return []string{"CBF.EXISTS", key, drawItem(t)}
	case 1:
		return append([]string{"CBF.MEXISTS", key}, drawItems(t, 40)...)
	case 2:
		return []string{"CBF.COUNT", key, drawItem(t)}
	case 3:
		return []string{"CBF.CARD", key}
	case 4:
		return []string{"CBF.DEBUG", key}
	case 5:
		return []string{"CBF.INFO", key}
	}
	fact := drawOne(t, "CAPACITY", "SIZE", "FILTERS", "ITEMS", "EXPANSION", "KEPT", "STUCK", "LEFTOVER", "DELETED", "bad")
	return []string{"CBF.INFO", key, fact}
}

// counting returns the counting filter under a key; ok is false if it holds another type.
func (m *model) counting(key string) (s *countingShadow, ok bool) {
	k := m.keys[key]
	if k == nil {
		return nil, true
	}
	s, ok = k.value.(*countingShadow)
	return s, ok
}

func (f countingFamily) answer(m *model, name string, args []string) want {
	switch name {
	case "CBF.RESERVE":
		return m.reserveCounting(args)
	case "CBF.ADD", "CBF.MADD":
		r := m.insertCounting(args[0], newFilter{capacity: 100, rate: 0.01, expansion: 2}, args[1:])
		if name == "CBF.ADD" && !r.IsError() {
			r = r.Elems()[0]
		}
		return exactly(r)
	case "CBF.INSERT":
		create, items := insertOptions(args[1:])
		return exactly(m.insertCounting(args[0], create, items))
	case "CBF.DEL", "CBF.MDEL":
		return m.deleteCounting(name, args[0], args[1:])
	case "CBF.EXISTS", "CBF.MEXISTS", "CBF.COUNT":
		have, _ := m.counting(args[0])
		var list []reply.Reply
		for _, item := range args[1:] {
			switch {
			case name != "CBF.COUNT":
				list = append(list, reply.Bool(have != nil && have.has(item)))
			case have != nil && have.count(item) == mostCounted:
				list = append(list, reply.AtLeast(mostCounted))
			case have != nil:
				list = append(list, reply.Int(have.count(item)))
			default:
				list = append(list, reply.Int(0))
			}
		}
		if name != "CBF.MEXISTS" {
			return exactly(list[0])
		}
		return exactly(reply.Array(list...))
	case "CBF.CARD", "CBF.INFO", "CBF.DEBUG":
		return f.facts(m, name, args)
	case "CBF.MERGE":
		return m.mergeCounting(args)
	}
	return nil
}

func (m *model) reserveCounting(args []string) want {
	c, expiry, failed := m.reserveOptions(args)
	have, ok := m.counting(args[0])
	switch {
	case failed != nil:
		return failed
	case !ok:
		return fails(wrongType)
	case have != nil:
		return fails("ERR item exists")
	}
	m.set(args[0], newCountingShadow(c), expiry)
	return exactly(reply.OK)
}

// insertCounting adds items to a filter, and makes it if there is none.
func (m *model) insertCounting(key string, c newFilter, items []string) reply.Reply {
	have, ok := m.counting(key)
	switch {
	case !ok:
		return reply.Error(wrongType)
	case have == nil && c.never:
		return reply.Error("ERR not found")
	case have == nil:
		have = newCountingShadow(c)
		m.set(key, have, 0)
	}
	before := have.items
	answer := have.addAll(items)
	if have.items != before {
		m.touch(key)
	}
	return answer
}

func (m *model) deleteCounting(name, key string, items []string) want {
	have, ok := m.counting(key)
	switch {
	case !ok:
		return fails(wrongType)
	case have == nil:
		return fails("ERR not found")
	}
	deleted := have.removeAll(items)
	if slices.Contains(deleted, true) {
		m.touch(key)
	}
	if name == "CBF.DEL" {
		return exactly(reply.Bool(deleted[0]))
	}
	var list []reply.Reply
	for _, was := range deleted {
		list = append(list, reply.Bool(was))
	}
	return exactly(reply.Array(list...))
}

func (countingFamily) facts(m *model, name string, args []string) want {
	have, ok := m.counting(args[0])
	switch {
	case !ok:
		return fails(wrongType)
	case have == nil && name == "CBF.CARD":
		return exactly(reply.Int(0))
	case have == nil:
		return fails("ERR not found")
	case name == "CBF.CARD":
		return exactly(reply.Int(int64(have.items)))
	case name == "CBF.DEBUG":
		lines := []reply.Reply{reply.BulkString(fmt.Sprintf("size:%d kept:%d", have.items, have.kept))}
		for _, l := range have.layers {
			lines = append(lines, reply.BulkString(fmt.Sprintf(
				"bytes:%d counters:%d hashes:%d hashwidth:64 capacity:%d size:%d above:%d stuck:%d ratio:%.6g",
				l.layout.Bits()/8, l.layout.Bits()/4, l.layout.Hashes, l.capacity, l.fill, len(l.counters), l.stuck(),
				l.rate)))
		}
		return exactly(reply.Array(lines...))
	}
	return have.info(args[1:])
}

func (s *countingShadow) info(field []string) want {
	var size, capacity, stuck, adds uint64
	var rates []float64
	for _, l := range s.layers {
		adds += l.fill
		rates = append(rates, l.layout.SetRate(uint64(len(l.counters))))
		size += l.layout.Bits() / 8
		capacity += l.capacity
		stuck += l.stuck()
	}
	deletedRate := scalableext.ChainRate(rates)
	if s.deletedLately > 0 {
		deletedRate = float64(s.foundLately) / float64(s.deletedLately)
	}
	expansion := reply.Nil
	if s.params.Expansion > 0 {
		expansion = reply.Int(int64(s.params.Expansion))
	}
	pairs := []reply.Pair{
		reply.Label("Capacity", reply.Int(int64(capacity))),
		reply.Label("Size", reply.Int(int64(size))),
		reply.Label("Number of filters", reply.Int(int64(len(s.layers)))),
		reply.Label("Number of items", reply.Int(int64(s.items))),
		reply.Label("Expansion rate", expansion),
		reply.Label("Deletes kept", reply.Int(int64(s.kept))),
		reply.Label("Counters stuck", reply.Int(int64(stuck))),
		reply.Label("Adds left over", reply.Int(int64(max(adds, s.items)-s.items))),
		reply.Label("Error rate of deleted items", reply.Double(deletedRate)),
	}
	if len(field) == 0 {
		return exactly(reply.Map(pairs...))
	}
	i := slices.Index([]string{"CAPACITY", "SIZE", "FILTERS", "ITEMS", "EXPANSION", "KEPT", "STUCK", "LEFTOVER", "DELETED"}, field[0])
	if i < 0 {
		return fails("Invalid information value")
	}
	return exactly(reply.Either(reply.Array(pairs[i].Value), reply.Map(pairs[i])))
}

func (m *model) mergeCounting(keys []string) want {
	var names []string
	var parts []*countingShadow
	var expiry int64
	seen := make(map[string]bool)
	for i, key := range keys {
		f, ok := m.counting(key)
		switch {
		case !ok:
			return fails(wrongType)
		case f == nil && i > 0:
			return fails("ERR not found")
		case f == nil || seen[key]:
			continue
		case i == 0:
			expiry = m.keys[key].expiry
		}
		seen[key] = true
		names, parts = append(names, key), append(parts, f)
	}
	sum, answer := sumOf(names, parts)
	if sum != nil {
		m.set(keys[0], sum, expiry)
	}
	return exactly(answer)
}

// sumOf returns filters, given with their names, added up, or what CBF.MERGE answers instead.
func sumOf(names []string, parts []*countingShadow) (*countingShadow, reply.Reply) {
	longest := parts[0]
	for i, p := range parts[1:] {
		if what, have, other := (&shadow{params: parts[0].params}).differs(&shadow{params: p.params}); what != "" {
			return nil, reply.Errorf("ERR filters differ, and cannot be merged: %s of %q is %v, of %q %v",
				what, names[0], have, names[i+1], other)
		}
		if len(p.layers) > len(longest.layers) {
			longest = p
		}
	}
	sum := &countingShadow{params: longest.params}
	filled := 0
	for _, p := range parts {
		sum.items += p.items
		sum.kept += p.kept
		sum.deletedLately += p.deletedLately
		sum.foundLately += p.foundLately
		if slices.ContainsFunc(p.layers, func(l *countingLayer) bool { return len(l.counters) > 0 }) {
			filled++
			sum.mixed = sum.mixed || p.mixed || filled > 1
		}
	}
	sum.mixed = sum.mixed && len(longest.layers) > 1
	for i, like := range longest.layers {
		l := &countingLayer{
			layout: like.layout, counters: make(map[uint64]uint8), rate: like.rate, capacity: like.capacity,
		}
		fullest := 0
		for _, p := range parts {
			if i >= len(p.layers) {
				continue
			}
			for at, n := range p.layers[i].counters {
				l.counters[at] = min(l.counters[at]+n, mostCounted)
			}
			l.fill += p.layers[i].fill
			fullest = max(fullest, len(p.layers[i].counters))
		}
		if rate := unionRate(&l.layout, maps.Keys(l.counters), probe.CounterBits); len(l.counters) > fullest && rate > l.rate {
			return nil, reply.Errorf(
				"ERR the union would exceed the error rate: layer %d would have %.3g, is made for %.3g",
				i, rate, l.rate)
		}
		sum.layers = append(sum.layers, l)
	}
	return sum, reply.OK
}
