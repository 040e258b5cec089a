package bloomext_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/sievekv/sievekv/internal/coretest"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/tests/redisbloom"
)

var modelCommands = flag.Int("commands", 5_000, "commands of each filter in TestCompatible_model")

// pair is a filter with the compatible layout, and the model of the same one.
type pair struct {
	t     *testing.T
	w     *coretest.World
	model *redisbloom.Bloom
	done  int // commands
}

// newPair reserves a filter. It does not scale if expansion is 0.
func newPair(t *testing.T, o kv.Options, capacity uint64, rate float64, expansion uint32) *pair {
	t.Helper()
	p := &pair{t: t, w: newWorld(t, o)}
	p.w.Script("CONFIG SET bf-layout compatible => +OK")
	var err error
	if p.model, err = redisbloom.NewBloom(capacity, rate, expansion, false); err != nil {
		t.Fatal(err)
	}
	p.want(reply.OK, "BF.RESERVE", "f", fmt.Sprint(rate), fmt.Sprint(capacity), "EXPANSION", fmt.Sprint(expansion))
	return p
}

// want runs a command, and compares its reply.
func (p *pair) want(want reply.Reply, words ...string) {
	p.t.Helper()
	p.done++
	if got := p.w.Do(words...); coretest.Wire(got, reply.Reply.RESP2) != coretest.Wire(want, reply.Reply.RESP2) {
		p.t.Fatalf("command %d, %.200q: %s, want %s", p.done, words, coretest.Wire(got, reply.Reply.RESP2), coretest.Wire(want, reply.Reply.RESP2))
	}
}

// do runs one command on both, and compares their answers.
func (p *pair) do(name string, items ...string) {
	p.t.Helper()
	words := append([]string{name, "f"}, items...)
	if name == "BF.INSERT" {
		words = append([]string{name, "f", "ITEMS"}, items...)
	}
	var list []reply.Reply
	for _, item := range items {
		if name == "BF.EXISTS" || name == "BF.MEXISTS" {
			list = append(list, reply.Bool(p.model.Exists([]byte(item))))
			continue
		}
		added, err := p.model.Add([]byte(item))
		if err != nil {
			list = append(list, reply.Error(err.Error()))
		} else {
			list = append(list, reply.Bool(added))
		}
		if err == redisbloom.ErrFull {
			break
		}
	}
	if name == "BF.EXISTS" || name == "BF.ADD" {
		p.want(list[0], words...)
	} else {
		p.want(reply.Array(list...), words...)
	}
}

// compare compares facts and dumps.
func (p *pair) compare() {
	p.t.Helper()
	var lines []reply.Reply
	for _, line := range p.model.Debug() {
		lines = append(lines, reply.BulkString(line))
	}
	p.want(reply.Array(lines...), "BF.DEBUG", "f")
	i := p.model.Info()
	number := func(name string, n uint64) reply.Pair { return reply.Label(name, reply.Int(int64(n))) }
	expansion := reply.Label("Expansion rate", reply.Int(i.Expansion))
	if i.Expansion < 0 {
		expansion.Value = reply.Nil
	}
	p.want(reply.Map(number("Capacity", i.Capacity), number("Size", i.Size), number("Number of filters", i.Filters),
		number("Number of items inserted", i.Items), expansion), "BF.INFO", "f")
	p.want(reply.Int(int64(i.Items)), "BF.CARD", "f")
	p.compareDumps()
}

func (p *pair) compareDumps() {
	p.t.Helper()
	want := p.model.Dump()
	got := p.dump()
	if !slices.EqualFunc(got, want, func(a, b redisbloom.Chunk) bool { return a.Iter == b.Iter && string(a.Data) == string(b.Data) }) {
		p.t.Fatalf("after %d commands the dump of %d chunks differs from the model's of %d", p.done, len(got), len(want))
	}
}

// dump returns the chunks of BF.SCANDUMP.
func (p *pair) dump() (chunks []redisbloom.Chunk) {
	p.t.Helper()
	for iter := int64(0); ; {
		r := p.w.Do("BF.SCANDUMP", "f", strconv.FormatInt(iter, 10))
		e := r.Elems()
		if len(e) != 2 {
			p.t.Fatalf("BF.SCANDUMP f %d: %v", iter, r)
		}
		if iter = e[0].Int(); iter == 0 {
			if e[1].Kind() != reply.KindBulk || len(e[1].Bytes()) > 0 {
				p.t.Fatalf("the dump ends with %v", e[1])
			}
			return chunks
		}
		chunks = append(chunks, redisbloom.Chunk{Iter: iter, Data: e[1].Bytes()})
	}
}

// randomCommands runs commands of random items out of so many.
func (p *pair) randomCommands(r *rand.Rand, n, items int) {
	p.t.Helper()
	item := func() string { return "i" + strconv.Itoa(r.IntN(1+items*(p.done+n/10)/n)) }
	some := func() []string {
		list := make([]string, 1+r.IntN(8))
		for i := range list {
			list[i] = item()
		}
		return list
	}
	for p.done = 0; p.done < n; {
		switch k := r.IntN(10); {
		case k < 3:
			p.do("BF.EXISTS", item())
		case k == 3:
			p.do("BF.MEXISTS", some()...)
		case k < 8:
			p.do("BF.ADD", item())
		default:
			p.do([]string{"BF.MADD", "BF.INSERT"}[r.IntN(2)], some()...)
		}
		if p.done%(n/10) == 0 {
			p.compare()
		}
	}
	p.compare()
}

// A filter with the compatible layout answers and dumps as RedisBloom's, false positives included, whatever the commands.
func TestCompatible_model(t *testing.T) {
	n := *modelCommands
	if testing.Short() {
		n = 2000
	}
	for _, tt := range []struct {
		capacity  uint64
		rate      float64
		expansion uint32
		items     int
	}{
		{1, 0.25, 1, 150},           // as many layers
		{20, 1e-9, 1, 1400},         // 70 layers
		{1, 0.9, 2, 3000},           // a rate that is lowered
		{10, 1e-6, 2, 5000},         //
		{100, 0.01, 2, 30_000},      // the defaults
		{1000, 0.01, 0, 3000},       // no growth
		{5000, 0.001, 4, 40_000},    // several blocks
		{50_000, 0.2, 1, 100_000},   //
		{30_000, 0.0001, 0, 40_000}, //
		{3, 1e-300, 32768, 20},      // very many bits of each item
		{1000, 1e-9, 1, 6000},       //
	} {
		t.Run(fmt.Sprintf("%d at %g, expansion %d", tt.capacity, tt.rate, tt.expansion), func(t *testing.T) {
			t.Parallel()
			p := newPair(t, kv.Options{}, tt.capacity, tt.rate, tt.expansion)
			p.randomCommands(rand.New(rand.NewPCG(tt.capacity, uint64(tt.expansion))), n, tt.items)
		})
	}
}
