package tests_test

import (
	"flag"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/sievekv/sievekv/bloomext"
	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/cuckooext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/tests/redisbloom"
)

var redisBloomCommands = flag.Int("commands", 12_000, "how many commands TestRedisBloom runs")

// redisBloomRun runs random commands on filters with the compatible layout, and compares every reply with what package
// redisbloom foretells.
type redisBloomRun struct {
	t     *testing.T
	r     *rand.Rand
	s     *module.Session
	model *model
	done  map[string]int // commands, by name and by what they answered
	total int
}

// do runs a command.
func (r *redisBloomRun) do(words ...string) {
	r.t.Helper()
	r.expect(r.model.answer(words), words...)
}

func (r *redisBloomRun) expect(want want, words ...string) {
	r.t.Helper()
	r.total++
	got := r.s.Do(r.t.Context(), wordsOf(words))
	r.done[words[0]]++
	if got.IsError() {
		r.done[string(got.Bytes())]++
	}
	for _, e := range got.Elems() {
		if e.IsError() {
			r.done[string(e.Bytes())]++
		}
	}
	if err := want(got); err != nil {
		r.t.Fatalf("command %d, %.300q, answers\n%.300v: %.300v", r.total, words, got, err)
	}
}

// The keys of Bloom filters, of cuckoo filters, and one that has either or a string.
func (r *redisBloomRun) key(family string) string {
	if r.r.IntN(20) == 0 {
		return "any"
	}
	return family + strconv.Itoa(r.r.IntN(8))
}

func (r *redisBloomRun) pick(of ...string) string { return of[r.r.IntN(len(of))] }

// item returns one of the items of the filter under a key, which are few or many.
func (r *redisBloomRun) item(key string) string {
	n := []int{20, 200, 2000, 20_000}[int(key[len(key)-1])%4]
	return "i" + strconv.Itoa(r.r.IntN(n))
}

func (r *redisBloomRun) items(key string, most int) []string {
	list := make([]string, 1+r.r.IntN(most))
	for i := range list {
		list[i] = r.item(key)
	}
	return list
}

// step runs one command, or some that belong together.
func (r *redisBloomRun) step() {
	r.t.Helper()
	switch n := r.r.IntN(1000); {
	case n < 2:
		name := r.pick(slices.Sorted(maps.Keys(compatibleSettings))...)
		r.do("CONFIG", "SET", name, r.pick(compatibleSettings[name]...))
	case n < 4:
		r.do("DEL", r.pick(r.key("b"), r.key("c"), "any"))
	case n < 6:
		r.do("SET", "any", "string")
	case n < 500:
		r.bloom(r.key("b"))
	default:
		r.cuckoo(r.key("c"))
	}
}

// compatibleSettings are values of settings. Buckets of 2 are never larger than the least of the capacities.
var compatibleSettings = map[string][]string{
	"bf-error-rate": {"0.01", "0.5", "0.001", "0.2"}, "bf-initial-size": {"100", "1", "7"}, "bf-expansion-factor": {"2", "0", "1", "4"},
	"cf-bucket-size": {"2", "1", "4"}, "cf-initial-size": {"1024", "10", "100"}, "cf-max-iterations": {"20", "1", "500"},
	"cf-expansion-factor": {"1", "0", "2", "3"}, "cf-max-expansions": {"32", "2", "5", "100"},
}

func (r *redisBloomRun) bloom(key string) {
	r.t.Helper()
	switch n := r.r.IntN(100); {
	case n < 4:
		if r.r.IntN(3) == 0 {
			r.do("DEL", key)
		}
		words := []string{"BF.RESERVE", key, r.pick("0.01", "0.9", "0.25", "0.001", "1e-6", "0", "x", "1e-322"), r.pick("10", "1", "3", "50", "700", "0", "x")}
		if r.r.IntN(2) == 0 {
			words = append(words, "EXPANSION", r.pick("2", "0", "1", "4", "x", "32769"))
		}
		if r.r.IntN(4) == 0 {
			words = append(words, "NONSCALING")
		}
		r.do(words...)
	case n < 30:
		r.do("BF.ADD", key, r.item(key))
	case n < 45:
		r.do(append([]string{"BF.MADD", key}, r.items(key, 12)...)...)
	case n < 52:
		words := []string{"BF.INSERT", key}
		for _, option := range [][]string{
			{"CAPACITY", r.pick("1", "5", "60")}, {"ERROR", r.pick("0.1", "0.02", "0.0001")}, {"EXPANSION", r.pick("0", "1", "2", "3")}, {"NONSCALING"}, {"NOCREATE"},
		} {
			if r.r.IntN(4) == 0 {
				words = append(words, option...)
			}
		}
		r.do(append(append(words, "ITEMS"), r.items(key, 12)...)...)
	case n < 70:
		r.do("BF.EXISTS", key, r.item(key))
	case n < 82:
		r.do(append([]string{"BF.MEXISTS", key}, r.items(key, 12)...)...)
	case n < 85:
		r.do("BF.CARD", key)
	case n < 89:
		r.do(r.pick("BF.INFO", "BF.DEBUG"), key)
	case n < 91:
		r.do("BF.INFO", key, r.pick("CAPACITY", "SIZE", "FILTERS", "ITEMS", "EXPANSION", "bad"))
	case n < 95:
		r.do("BF.SCANDUMP", key, r.pick("0", "1", "9", "33", "1000000", "-1", "x"))
	case n == 95:
		if r.thin(key) {
			r.do("DEL", key)
		}
	default:
		v := r.model.keys[key]
		b, ok := valueOf[compatibleBloom](v)
		if !ok {
			r.do("BF.LOADCHUNK", key, "9", "data")
			return
		}
		r.load("BF", key, r.key("b"), b.Dump(), func(chunks []redisbloom.Chunk) (modelValue, error) {
			b, err := redisbloom.LoadBloom(chunks)
			return compatibleBloom{b}, err
		})
	}
}

func valueOf[V modelValue](k *modelKey) (v V, ok bool) {
	if k != nil {
		v, ok = k.value.(V)
	}
	return v, ok
}

// thin reports whether the filter under a key has grown to where a command no longer does much.
func (r *redisBloomRun) thin(key string) bool {
	if b, ok := valueOf[compatibleBloom](r.model.keys[key]); ok {
		i := b.Info()
		return i.Filters > 6 || i.Expansion < 0
	}
	if c, ok := valueOf[compatibleCuckoo](r.model.keys[key]); ok {
		i := c.Info()
		return i.Filters > 12 || i.Expansion == 0
	}
	return false
}

func (r *redisBloomRun) cuckoo(key string) {
	r.t.Helper()
	switch n := r.r.IntN(100); {
	case n < 4:
		if r.r.IntN(3) == 0 {
			r.do("DEL", key)
		}
		words := []string{"CF.RESERVE", key, r.pick("10", "4", "30", "500", "3000", "1", "x")}
		for _, option := range [][]string{
			{"BUCKETSIZE", r.pick("1", "2", "3", "4", "0", "256")}, {"MAXITERATIONS", r.pick("1", "5", "20", "x", "0")}, {"EXPANSION", r.pick("0", "0", "0", "1", "1", "2", "3", "32769")},
		} {
			if r.r.IntN(3) == 0 || option[0] == "EXPANSION" {
				words = append(words, option...)
			}
		}
		r.do(words...)
	case n < 24:
		r.do(r.pick("CF.ADD", "CF.ADDNX", "CF.ADDNX"), key, r.item(key))
	case n < 34:
		words := []string{r.pick("CF.INSERT", "CF.INSERTNX"), key}
		for _, option := range [][]string{{"CAPACITY", r.pick("8", "60", "700", "1", "x")}, {"NOCREATE"}} {
			if r.r.IntN(4) == 0 {
				words = append(words, option...)
			}
		}
		r.do(append(append(words, "ITEMS"), r.items(key, 12)...)...)
	case n < 60:
		r.do("CF.DEL", key, r.item(key))
	case n < 70:
		r.do("CF.EXISTS", key, r.item(key))
	case n < 77:
		r.do(append([]string{"CF.MEXISTS", key}, r.items(key, 12)...)...)
	case n < 83:
		r.do("CF.COUNT", key, r.item(key))
	case n < 85:
		r.do("CF.COMPACT", key)
	case n < 90:
		r.do(r.pick("CF.INFO", "CF.DEBUG"), key)
	case n < 94:
		r.do("CF.SCANDUMP", key, r.pick("0", "1", "9", "33", "1000000", "-1", "x"))
	case n == 94:
		if r.thin(key) {
			r.do("DEL", key)
		}
	default:
		c, ok := valueOf[compatibleCuckoo](r.model.keys[key])
		if !ok || c.Info().Items == 0 {
			r.do("CF.LOADCHUNK", key, "9", "")
			return
		}
		r.load("CF", key, r.key("c"), c.Dump(), func(chunks []redisbloom.Chunk) (modelValue, error) {
			c, err := redisbloom.LoadCuckoo(chunks)
			return compatibleCuckoo{c}, err
		})
	}
}

// load dumps the filter under a key, and loads the dump under another. If that key is free, it is found missing until all
// has come, in pieces of any length. If not, data is refused, or is what is there.
func (r *redisBloomRun) load(family, from, to string, dump []redisbloom.Chunk, loaded func([]redisbloom.Chunk) (modelValue, error)) {
	r.t.Helper()
	chunks := []redisbloom.Chunk{dump[0]}
	at := int64(1)
	for _, c := range dump[1:] {
		iter := strconv.FormatInt(at, 10)
		r.do(family+".SCANDUMP", from, iter)
		for rest := c.Data; len(rest) > 0; {
			n := 1 + r.r.IntN(len(rest))
			if r.r.IntN(2) == 0 {
				n = len(rest)
			}
			at += int64(n)
			chunks = append(chunks, redisbloom.Chunk{Iter: at, Data: rest[:n]})
			rest = rest[n:]
		}
	}
	k := r.model.keys[to]
	if k == nil {
		v, err := loaded(chunks)
		if err != nil {
			r.t.Fatalf("the model refuses its dump of %q: %v", from, err)
		}
		tail := chunks[1:]
		r.r.Shuffle(len(tail), func(i, j int) { tail[i], tail[j] = tail[j], tail[i] })
		for i, c := range chunks {
			r.expect(exactly(reply.OK), family+".LOADCHUNK", to, strconv.FormatInt(c.Iter, 10), string(c.Data))
			if i < len(chunks)-1 {
				r.do(family+".EXISTS", to, r.item(to))
			}
		}
		r.model.set(to, v, 0)
		return
	}
	// A header, data at an impossible place, or what is there once more.
	c := chunks[0]
	switch n := r.r.IntN(3); {
	case n == 0 && from == to:
		c = chunks[r.r.IntN(len(chunks))]
	case n < 2:
		c = redisbloom.Chunk{Iter: []int64{0, 2_000_000_000, -5}[r.r.IntN(3)], Data: []byte("x")}
	}
	r.do(family+".LOADCHUNK", to, strconv.FormatInt(c.Iter, 10), string(c.Data))
}

// TestRedisBloom runs random commands on small filters with the compatible layout, so that growth, moved entries, full
// filters and errors are frequent, over a cache of a few blocks, and compares each reply, in the forms of both
// protocols, with package redisbloom's. At the end it compares all there is, dumps included. -commands says how many.
func TestRedisBloom(t *testing.T) {
	t.Parallel()
	commands := *redisBloomCommands
	if raceEnabled && commands > 3000 && !given("commands") {
		commands = 3000
	}
	db, err := kv.Open("", &kv.Options{
		InMemory: true, CacheSize: 64 << 10, Seed: modelSeed, Durability: kv.NoSync,
		Modules: coreext.With(bloomext.Module(), cuckooext.Module()),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { must(t, db.Close()) }()
	r := &redisBloomRun{t: t, r: rand.New(rand.NewPCG(20, 26)), s: module.NewSession(db), model: newModel(), done: make(map[string]int)}
	r.do("CONFIG", "SET", "bf-layout", "compatible")
	r.do("CONFIG", "SET", "cf-layout", "compatible")
	for r.total < commands {
		r.step()
	}
	for _, key := range r.model.names() {
		for _, words := range r.model.keys[key].value.questions(key) {
			r.do(words...)
		}
	}
	must(t, checkStore(db))
	for _, name := range slices.Sorted(maps.Keys(r.done)) {
		t.Logf("%8d %s", r.done[name], name)
	}
	if commands < 12_000 {
		return
	}
	for _, name := range []string{
		string(redisbloom.ErrFull), string(redisbloom.ErrCuckooFull), string(redisbloom.ErrMaxExpansions), "ERR item exists", wrongType,
	} {
		if r.done[name] == 0 {
			t.Errorf("no command answered %q", name)
		}
	}
}
