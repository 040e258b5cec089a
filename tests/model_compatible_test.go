package tests_test

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"pgregory.net/rapid"

	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/tests/redisbloom"
)

// compatibleFamily is the commands on filters with the compatible layout, as package redisbloom foretells them.
type compatibleFamily struct{}

// modelSettings are the settings of new filters. Those of cuckoo filters are the ones for the compatible layout.
var modelSettings = map[string]string{
	"bf-layout": "native", "bf-error-rate": "0.01", "bf-initial-size": "100", "bf-expansion-factor": "2",
	"cf-layout": "native", "cf-bucket-size": "2", "cf-initial-size": "1024", "cf-max-iterations": "20", "cf-expansion-factor": "1",
	"cf-max-expansions": "32",
}

func (m *model) setting(name string) string {
	if value, ok := m.settings[name]; ok {
		return value
	}
	return modelSettings[name]
}

func (m *model) number(setting string) uint64 {
	n, err := strconv.ParseUint(m.setting(setting), 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

// compatibleBloom is a Bloom filter with the compatible layout.
type compatibleBloom struct{ *redisbloom.Bloom }

func (compatibleBloom) typeName() string { return "MBbloom--" }

func (b compatibleBloom) clone() modelValue { return compatibleBloom{b.Clone()} }

func (b compatibleBloom) questions(key string) [][]string {
	list := [][]string{
		{"BF.CARD", key}, {"BF.INFO", key}, {"BF.DEBUG", key}, {"BF.SCANDUMP", key, "0"},
		append([]string{"BF.MEXISTS", key}, itemRange(0, modelItems)...),
	}
	for _, c := range b.Dump() {
		list = append(list, []string{"BF.SCANDUMP", key, strconv.FormatInt(c.Iter, 10)})
	}
	return list
}

// compatibleCuckoo is a cuckoo filter with the compatible layout.
type compatibleCuckoo struct{ *redisbloom.Cuckoo }

func (compatibleCuckoo) typeName() string { return "MBbloomCF" }

func (c compatibleCuckoo) clone() modelValue { return compatibleCuckoo{c.Clone()} }

func (c compatibleCuckoo) questions(key string) [][]string {
	list := [][]string{
		{"CF.INFO", key}, {"CF.DEBUG", key}, {"CF.SCANDUMP", key, "0"},
		append([]string{"CF.MEXISTS", key}, itemRange(0, modelItems)...),
	}
	for _, item := range itemRange(0, 20) {
		list = append(list, []string{"CF.COUNT", key, item})
	}
	for _, chunk := range c.Dump() {
		list = append(list, []string{"CF.SCANDUMP", key, strconv.FormatInt(chunk.Iter, 10)})
	}
	return list
}

// draw makes filters with a pair of CONFIG SET around it: the setting is native otherwise. They are small, so that growth,
// full filters and moved entries are frequent.
func (f compatibleFamily) draw(t *rapid.T, m *model) [][]string {
	key := drawKey(t)
	one := func(words ...string) [][]string { return [][]string{words} }
	with := func(layout string, lines ...[]string) [][]string {
		lines = append([][]string{{"CONFIG", "SET", layout, "compatible"}}, lines...)
		return append(lines, []string{"CONFIG", "SET", layout, "native"})
	}
	switch rapid.IntRange(0, 15).Draw(t, "which") {
	case 0, 1:
		return with("bf-layout", []string{"BF.RESERVE", key, drawRate(t), drawOne(t, "10", "1", "3", "200", "20000"), "EXPANSION", drawExpansion(t)})
	case 2:
		return with("bf-layout", append([]string{"BF.MADD", key}, drawItems(t, 40)...))
	case 3:
		return with("bf-layout", []string{"DEL", key}, drawInsertInto(t, key))
	case 4, 5, 6:
		words := []string{"CF.RESERVE", key, drawOne(t, "10", "4", "100", "400"), "EXPANSION", drawExpansion(t), "BUCKETSIZE", drawOne(t, "2", "1", "4")}
		return with("cf-layout", []string{"DEL", key}, words, append([]string{"CF.INSERT", key, "NOCREATE", "ITEMS"}, drawItems(t, 60)...))
	case 7:
		return with("cf-layout", []string{drawOne(t, "CF.ADD", "CF.ADDNX"), key, drawItem(t)})
	case 8, 9:
		return one(append([]string{drawOne(t, "CF.INSERT", "CF.INSERTNX"), key, "NOCREATE", "ITEMS"}, drawItems(t, 40)...)...)
	case 10, 11: // enough that the filter compacts
		var lines [][]string
		for _, item := range drawItems(t, 40) {
			lines = append(lines, []string{"CF.DEL", key, item})
		}
		return lines
	case 12:
		return one("CF.COMPACT", key)
	}
	return [][]string{f.look(t, m)}
}

func (compatibleFamily) look(t *rapid.T, _ *model) []string {
	switch rapid.IntRange(0, 3).Draw(t, "which") {
	case 0:
		return append([]string{drawOne(t, "BF.MEXISTS", "CF.MEXISTS"), drawKey(t)}, drawItems(t, 40)...)
	case 1:
		return []string{"CF.COUNT", drawKey(t), drawItem(t)}
	case 2:
		return []string{drawOne(t, "BF.INFO", "CF.INFO", "BF.CARD"), drawKey(t)}
	}
	return []string{"BF.EXISTS", drawKey(t), drawItem(t)}
}

// answer leaves commands on filters with the native layout to their families, and also commands that would make one.
func (compatibleFamily) answer(m *model, name string, args []string) want {
	if name == "CONFIG" { // SET, with what can be set
		if m.settings = maps.Clone(m.settings); m.settings == nil {
			m.settings = make(map[string]string)
		}
		m.settings[args[1]] = args[2]
		return exactly(reply.OK)
	}
	var value modelValue
	if len(args) > 0 && m.keys[args[0]] != nil {
		value = m.keys[args[0]].value
	}
	switch {
	case strings.HasPrefix(name, "BF.") && name != "BF.MERGE":
		b, ok := value.(compatibleBloom)
		if _, native := value.(*shadow); ok || m.setting("bf-layout") == "compatible" && !native {
			return m.answerBloom(b.Bloom, value != nil, name, args)
		}
	case strings.HasPrefix(name, "CF."):
		c, ok := value.(compatibleCuckoo)
		if _, native := value.(*multiset); ok || m.setting("cf-layout") == "compatible" && !native {
			return m.answerCuckoo(c.Cuckoo, value != nil, name, args)
		}
	}
	return nil
}

// errorOr returns an error as a command answers it.
func errorOr(err error, otherwise reply.Reply) reply.Reply {
	if err != nil {
		return reply.Error(err.Error())
	}
	return otherwise
}

// oneOrAll is what a command answers that has one item, or many.
func oneOrAll(one bool, list []reply.Reply) want {
	if one {
		return exactly(list[0])
	}
	return exactly(reply.Array(list...))
}

// answerBloom answers a command on a key that has the filter b, another type, or nothing.
func (m *model) answerBloom(b *redisbloom.Bloom, there bool, name string, args []string) want {
	key := args[0]
	wrong := there && b == nil
	switch {
	case name == "BF.EXISTS" || name == "BF.MEXISTS":
		var list []reply.Reply
		for _, item := range args[1:] {
			list = append(list, reply.Bool(b != nil && b.Exists([]byte(item))))
		}
		return oneOrAll(name == "BF.EXISTS", list)
	case name == "BF.RESERVE":
		made, failed := m.bloomOf(args[1:])
		if slices.Contains(args, "TTL") { // as other families draw it
			_, _, failed = m.reserveOptions(args)
		}
		switch {
		case failed != nil:
			return failed
		case wrong:
			return fails(wrongType)
		case there:
			return fails("ERR item exists")
		case made == nil:
			return fails(redisbloom.ErrMemory.Error())
		}
		m.set(key, compatibleBloom{made}, 0)
		return exactly(reply.OK)
	case wrong:
		return fails(wrongType)
	case name == "BF.CARD" && b == nil:
		return exactly(reply.Int(0))
	case name == "BF.ADD" || name == "BF.MADD" || name == "BF.INSERT":
		items, create := args[1:], true
		made := redisbloomOf(m.number("bf-initial-size"), m.rate(), m.number("bf-expansion-factor"), false)
		if name == "BF.INSERT" {
			made, items, create = m.insertedBloom(args[1:])
		}
		if b == nil {
			if !create {
				return fails("ERR not found")
			}
			b = made
			m.set(key, compatibleBloom{b}, 0)
		}
		return m.addToBloom(key, b, name == "BF.ADD", items)
	case b == nil:
		return fails("ERR not found")
	}
	switch name {
	case "BF.CARD":
		return exactly(reply.Int(int64(b.Info().Items)))
	case "BF.DEBUG":
		var lines []reply.Reply
		for _, line := range b.Debug() {
			lines = append(lines, reply.BulkString(line))
		}
		return exactly(reply.Array(lines...))
	case "BF.SCANDUMP":
		iter, ok := integer(args[1])
		switch {
		case !ok:
			return fails("Second argument must be numeric")
		case iter < 0:
			return exactly(reply.Array(reply.Int(0), reply.BulkString("")))
		}
		c := b.Scan(iter)
		return exactly(reply.Array(reply.Int(c.Iter), reply.Bulk(append([]byte{}, c.Data...))))
	case "BF.LOADCHUNK": // of data for a filter that is complete
		if args[1] == "1" {
			return fails(redisbloom.ErrBadData.Error())
		}
		return loaded(args, func(c redisbloom.Chunk) error { return b.LoadChunk(c) })
	}
	return bloomInfo(b.Info(), args[1:])
}

// loaded is what LOADCHUNK answers if the data is what is there.
func loaded(args []string, load func(redisbloom.Chunk) error) want {
	iter, ok := integer(args[1])
	if !ok {
		panic("drawn: " + args[1])
	}
	return exactly(errorOr(load(redisbloom.Chunk{Iter: iter, Data: []byte(args[2])}), reply.OK))
}

func bloomInfo(i redisbloom.BloomInfo, field []string) want {
	number := func(name string, n uint64) reply.Pair { return reply.Label(name, reply.Int(int64(n))) }
	expansion := reply.Nil
	if i.Expansion >= 0 {
		expansion = reply.Int(i.Expansion)
	}
	return infoFields(field, i.Estimated, []reply.Pair{
		number("Capacity", i.Capacity), number("Size", i.Size), number("Number of filters", i.Filters),
		number("Number of items inserted", i.Items), reply.Label("Expansion rate", expansion),
	})
}

// infoFields is what BF.INFO answers: all, or the one that is asked for.
func infoFields(field []string, estimated bool, pairs []reply.Pair) want {
	if len(field) == 0 {
		if estimated {
			pairs = append(pairs, reply.Label("Number of items is estimated", reply.Int(1)))
		}
		return exactly(reply.Map(pairs...))
	}
	i := slices.Index([]string{"CAPACITY", "SIZE", "FILTERS", "ITEMS", "EXPANSION"}, field[0])
	if i < 0 {
		return fails("Invalid information value")
	}
	return exactly(reply.Either(reply.Array(pairs[i].Value), reply.Map(pairs[i])))
}

func (m *model) rate() float64 {
	rate, err := strconv.ParseFloat(m.setting("bf-error-rate"), 64)
	if err != nil {
		panic(err)
	}
	return rate
}

// redisbloomOf returns nil for a filter that cannot be made.
func redisbloomOf(capacity uint64, rate float64, expansion uint64, nonscaling bool) *redisbloom.Bloom {
	b, err := redisbloom.NewBloom(capacity, rate, uint32(expansion), nonscaling)
	if err != nil {
		return nil
	}
	return b
}

// bloomOf returns the filter that BF.RESERVE makes, nil if it would be too large.
func (m *model) bloomOf(args []string) (made *redisbloom.Bloom, failed want) {
	rate, err := strconv.ParseFloat(args[0], 64)
	if err != nil {
		return nil, fails("ERR bad error rate")
	}
	if !(rate > 0 && rate < 1) {
		return nil, fails("ERR error rate must be in the range (0.000000, 1.000000)")
	}
	capacity, ok := integer(args[1])
	switch {
	case !ok:
		return nil, fails("ERR bad capacity")
	case capacity < 1 || capacity > 1<<30:
		return nil, fails("ERR capacity must be in the range [1, 1073741824]")
	}
	nonscaling := slices.Contains(args[2:], "NONSCALING")
	expansion := int64(m.number("bf-expansion-factor"))
	if i := slices.Index(args[2:], "EXPANSION"); i >= 0 {
		if i+3 == len(args) {
			return nil, fails("ERR no expansion")
		}
		expansion, ok = integer(args[i+3])
		switch {
		case !ok:
			return nil, fails("ERR bad expansion")
		case nonscaling && expansion != 0:
			return nil, fails("Nonscaling filters cannot expand")
		case expansion < 0 || expansion > 32768:
			return nil, fails("ERR expansion must be in the range [0, 32768]")
		}
	}
	return redisbloomOf(uint64(capacity), rate, uint64(expansion), nonscaling), nil
}

// insertedBloom returns the filter that BF.INSERT makes.
func (m *model) insertedBloom(args []string) (made *redisbloom.Bloom, items []string, create bool) {
	set := make(map[string]string)
	for args[0] != "ITEMS" {
		set[args[0]] = args[1]
		if strings.HasPrefix(args[0], "NO") {
			args = args[1:]
			continue
		}
		args = args[2:]
	}
	clone := *m
	clone.settings = maps.Clone(m.settings)
	if clone.settings == nil {
		clone.settings = make(map[string]string)
	}
	for option, setting := range map[string]string{"CAPACITY": "bf-initial-size", "ERROR": "bf-error-rate", "EXPANSION": "bf-expansion-factor"} {
		if value, ok := set[option]; ok {
			clone.settings[setting] = value
		}
	}
	_, nonscaling := set["NONSCALING"]
	_, never := set["NOCREATE"]
	made = redisbloomOf(clone.number("bf-initial-size"), clone.rate(), clone.number("bf-expansion-factor"), nonscaling)
	return made, args[1:], !never
}

func (m *model) addToBloom(key string, b *redisbloom.Bloom, one bool, items []string) want {
	before := b.Info().Items
	var list []reply.Reply
	for _, item := range items {
		added, err := b.Add([]byte(item))
		list = append(list, errorOr(err, reply.Bool(added)))
		if err == redisbloom.ErrFull {
			break
		}
	}
	if b.Info().Items != before {
		m.touch(key)
	}
	return oneOrAll(one, list)
}

// answerCuckoo answers a command on a key that has the filter c, another type, or nothing.
func (m *model) answerCuckoo(c *redisbloom.Cuckoo, there bool, name string, args []string) want {
	key := args[0]
	wrong := there && c == nil
	switch name {
	case "CF.EXISTS", "CF.MEXISTS", "CF.COUNT":
		var list []reply.Reply
		for _, item := range args[1:] {
			n := 0
			if c != nil {
				n = c.Count([]byte(item))
			}
			if name == "CF.COUNT" {
				return exactly(reply.Int(int64(n)))
			}
			list = append(list, reply.Bool(n > 0))
		}
		return oneOrAll(name == "CF.EXISTS", list)
	case "CF.DEL":
		if c == nil {
			return fails("Not found")
		}
		deleted := c.Delete([]byte(args[1]))
		if deleted {
			m.touch(key)
		}
		return exactly(reply.Bool(deleted))
	case "CF.COMPACT":
		if c == nil {
			return fails("Cuckoo filter was not found")
		}
		c.Compact()
		m.touch(key)
		return exactly(reply.OK)
	case "CF.RESERVE":
		made, failed := m.cuckooOf(args[1], args[2:])
		switch {
		case failed != nil:
			return failed
		case wrong:
			return fails(wrongType)
		case there:
			return fails("ERR item exists")
		}
		m.set(key, compatibleCuckoo{made}, 0)
		return exactly(reply.OK)
	case "CF.SCANDUMP":
		if iter, ok := integer(args[1]); !ok || iter < 0 {
			return fails(redisbloom.ErrPosition.Error())
		}
	case "CF.LOADCHUNK":
		if iter, ok := integer(args[1]); !ok || iter == 0 {
			return fails(redisbloom.ErrPosition.Error())
		}
		if c != nil && args[1] == "1" {
			return fails("ERR item exists")
		}
	}
	switch {
	case name == "CF.ADD", name == "CF.ADDNX", strings.HasPrefix(name, "CF.INSERT"):
		return m.addToCuckoo(key, c, wrong, name, args[1:])
	case wrong:
		return fails(wrongType)
	case c == nil:
		return fails("ERR not found")
	}
	switch name {
	case "CF.DEBUG":
		return exactly(reply.BulkString(c.Debug()))
	case "CF.SCANDUMP":
		iter, _ := integer(args[1])
		chunk := c.Scan(iter)
		if chunk.Iter == 0 {
			return exactly(reply.Array(reply.Int(0), reply.Nil))
		}
		return exactly(reply.Array(reply.Int(chunk.Iter), reply.Bulk(chunk.Data)))
	case "CF.LOADCHUNK":
		return loaded(args, c.LoadChunk)
	}
	i := c.Info()
	number := func(name string, n uint64) reply.Pair { return reply.Label(name, reply.Int(int64(n))) }
	return exactly(reply.Map(
		number("Size", i.Size), number("Number of buckets", i.Buckets), number("Number of filters", i.Filters),
		number("Number of items inserted", i.Items), number("Number of items deleted", i.Deletes), number("Bucket size", i.BucketSize),
		number("Expansion rate", i.Expansion), number("Max iterations", i.MaxIterations)))
}

// cuckooOf returns the filter that CF.RESERVE makes.
func (m *model) cuckooOf(capacity string, options []string) (*redisbloom.Cuckoo, want) {
	wanted, ok := integer(capacity)
	if !ok {
		return nil, fails("Bad capacity")
	}
	values := make(map[string]uint16)
	for _, o := range []struct {
		name, setting string
		least, most   int64
	}{
		{"MAXITERATIONS", "cf-max-iterations", 1, 65535}, {"BUCKETSIZE", "cf-bucket-size", 1, 255}, {"EXPANSION", "cf-expansion-factor", 0, 32768},
	} {
		values[o.name] = uint16(m.number(o.setting))
		i := slices.Index(options, o.name)
		if i < 0 {
			continue
		}
		n, ok := integer(options[i+1])
		switch {
		case !ok:
			return nil, fails("Couldn't parse " + o.name)
		case n < o.least || n > o.most:
			return nil, fails(o.name + ": value must be in the range [" + strconv.FormatInt(o.least, 10) + ", " + strconv.FormatInt(o.most, 10) + "]")
		}
		values[o.name] = uint16(n)
	}
	if wanted < 2*int64(values["BUCKETSIZE"]) || wanted > 1<<30 {
		return nil, fails("Capacity must be in the range [2 * BUCKETSIZE, 1073741824]")
	}
	c, err := redisbloom.NewCuckoo(uint64(wanted), values["BUCKETSIZE"], values["MAXITERATIONS"], values["EXPANSION"])
	if err != nil {
		panic(err)
	}
	return c, nil
}

// addToCuckoo answers a command that adds to the filter c. If c is nil, the key has another type, or nothing.
func (m *model) addToCuckoo(key string, c *redisbloom.Cuckoo, wrong bool, name string, args []string) want {
	capacity, create := m.setting("cf-initial-size"), true
	if strings.HasPrefix(name, "CF.INSERT") {
		for ; args[0] != "ITEMS"; args = args[1:] {
			if create = create && args[0] != "NOCREATE"; args[0] == "CAPACITY" {
				capacity, args = args[1], args[1:]
			}
		}
		if n, ok := integer(capacity); !ok {
			return fails("Bad capacity")
		} else if n < int64(2*m.number("cf-bucket-size")) || n > 1<<30 {
			return fails("Capacity must be in the range [cf-bucket-size * 2, 1073741824]")
		}
		args = args[1:]
	}
	if wrong {
		return fails(wrongType)
	}
	if c == nil {
		if !create {
			return fails("ERR not found")
		}
		c, _ = m.cuckooOf(capacity, nil)
		m.set(key, compatibleCuckoo{c}, 0)
	}
	c.MaxExpansions, c.Bounded = int(m.number("cf-max-expansions")), true
	before := c.Info()
	answer := addedToCuckoo(c, name, args)
	if c.Info() != before {
		m.touch(key)
	}
	return exactly(answer)
}

func addedToCuckoo(c *redisbloom.Cuckoo, name string, args []string) reply.Reply {
	switch name {
	case "CF.ADD":
		return errorOr(c.Add([]byte(args[0])), reply.Bool(true))
	case "CF.ADDNX":
		added, err := c.AddNX([]byte(args[0]))
		return errorOr(err, reply.Bool(added))
	}
	answers, err := c.Insert(name == "CF.INSERTNX", wordsOf(args)...)
	var list []reply.Reply
	for _, n := range answers {
		if name == "CF.INSERTNX" {
			list = append(list, reply.Int(int64(n)))
		} else {
			list = append(list, reply.Either(reply.Int(int64(n)), reply.Bool(n > 0)))
		}
	}
	return errorOr(err, reply.Array(list...))
}

// mergeCompatible answers BF.MERGE of filters, given with their names, if one has the compatible layout.
func mergeCompatible(names []string, parts []modelValue) (union modelValue, answer reply.Reply) {
	first, compatible := parts[0].(compatibleBloom)
	var filters []*redisbloom.Bloom
	for i, p := range parts {
		var what string
		var have, others any
		switch p := p.(type) {
		case compatibleBloom:
			filters = append(filters, p.Bloom)
			if what, have, others = "hash", "keyed", "murmur64a"; compatible {
				what, have, others = first.Differs(p.Bloom)
			}
		case *shadow:
			if what, have, others = "hash", "murmur64a", "keyed"; !compatible {
				what, have, others = parts[0].(*shadow).differs(p)
			}
		}
		if what != "" {
			return nil, reply.Errorf("ERR filters differ, and cannot be merged: %s of %q is %v, of %q %v", what, names[0], have, names[i], others)
		}
	}
	united, err := redisbloom.Unite(filters...)
	if err != nil {
		return nil, reply.Error(err.Error())
	}
	return compatibleBloom{united}, reply.OK
}
