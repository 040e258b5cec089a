package cuckooext_test

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
	model *redisbloom.Cuckoo
	done  int // commands
}

func newPair(t *testing.T, o kv.Options, capacity uint64, bucketSize, iterations, expansion uint16) *pair {
	t.Helper()
	p := &pair{t: t, w: newWorld(t, o)}
	p.w.Script("CONFIG SET cf-layout compatible => +OK")
	var err error
	if p.model, err = redisbloom.NewCuckoo(capacity, bucketSize, iterations, expansion); err != nil {
		t.Fatal(err)
	}
	p.model.Bounded = true
	p.want(reply.OK, "CF.RESERVE", "f", fmt.Sprint(capacity), "BUCKETSIZE", fmt.Sprint(bucketSize), "MAXITERATIONS", fmt.Sprint(iterations),
		"EXPANSION", fmt.Sprint(expansion))
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
	item := []byte(items[0])
	failed := func(err error, otherwise reply.Reply) reply.Reply {
		if err != nil {
			return reply.Error(err.Error())
		}
		return otherwise
	}
	words := append([]string{name, "f"}, items...)
	var want reply.Reply
	switch name {
	case "CF.ADD":
		want = failed(p.model.Add(item), reply.Bool(true))
	case "CF.ADDNX":
		added, err := p.model.AddNX(item)
		want = failed(err, reply.Bool(added))
	case "CF.INSERT", "CF.INSERTNX":
		words = append([]string{name, "f", "ITEMS"}, items...)
		var all [][]byte
		for _, item := range items {
			all = append(all, []byte(item))
		}
		answers, err := p.model.Insert(name == "CF.INSERTNX", all...)
		var list []reply.Reply
		for _, n := range answers {
			list = append(list, reply.Int(int64(n)))
		}
		want = failed(err, reply.Array(list...))
	case "CF.DEL":
		want = reply.Bool(p.model.Delete(item))
	case "CF.EXISTS":
		want = reply.Bool(p.model.Exists(item))
	case "CF.COUNT":
		want = reply.Int(int64(p.model.Count(item)))
	case "CF.MEXISTS":
		var list []reply.Reply
		for _, item := range items {
			list = append(list, reply.Bool(p.model.Exists([]byte(item))))
		}
		want = reply.Array(list...)
	}
	p.want(want, words...)
}

func (p *pair) compact() {
	p.t.Helper()
	p.model.Compact()
	p.want(reply.OK, "CF.COMPACT", "f")
}

// compare compares facts and dumps.
func (p *pair) compare() {
	p.t.Helper()
	p.want(reply.BulkString(p.model.Debug()), "CF.DEBUG", "f")
	i := p.model.Info()
	var fields []reply.Pair
	for _, f := range []struct {
		name string
		n    uint64
	}{
		{"Size", i.Size}, {"Number of buckets", i.Buckets}, {"Number of filters", i.Filters}, {"Number of items inserted", i.Items},
		{"Number of items deleted", i.Deletes}, {"Bucket size", i.BucketSize}, {"Expansion rate", i.Expansion}, {"Max iterations", i.MaxIterations},
	} {
		fields = append(fields, reply.Label(f.name, reply.Int(int64(f.n))))
	}
	p.want(reply.Map(fields...), "CF.INFO", "f")
	want := p.model.Dump()
	got := p.dump()
	if !slices.EqualFunc(got, want, func(a, b redisbloom.Chunk) bool { return a.Iter == b.Iter && string(a.Data) == string(b.Data) }) {
		p.t.Fatalf("after %d commands the dump of %d chunks differs from the model's of %d", p.done, len(got), len(want))
	}
}

// dump returns the chunks of CF.SCANDUMP.
func (p *pair) dump() (chunks []redisbloom.Chunk) {
	p.t.Helper()
	for iter := int64(0); ; {
		r := p.w.Do("CF.SCANDUMP", "f", strconv.FormatInt(iter, 10))
		e := r.Elems()
		if len(e) != 2 {
			p.t.Fatalf("CF.SCANDUMP f %d: %v", iter, r)
		}
		if iter = e[0].Int(); iter == 0 {
			if e[1].Kind() != reply.KindNil {
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
	item := func() string { return "i" + strconv.Itoa(r.IntN(items)) }
	some := func() []string {
		list := make([]string, 1+r.IntN(8))
		for i := range list {
			list[i] = item()
		}
		return list
	}
	for i := range items / 2 {
		p.do("CF.ADDNX", "i"+strconv.Itoa(i))
	}
	adding := true
	for p.done = 0; p.done < n; {
		if r.IntN(max(1, items/4)) == 0 {
			adding = !adding
		}
		switch k := r.IntN(20); {
		case k < 3:
			p.do("CF.EXISTS", item())
		case k < 5:
			p.do("CF.COUNT", item())
		case k == 5:
			p.do("CF.MEXISTS", some()...)
		case k == 6:
			p.do("CF.DEL", "never"+item())
		case k < 15 == adding:
			p.do([]string{"CF.ADD", "CF.ADDNX", "CF.ADDNX"}[r.IntN(3)], item())
		case k == 18 && adding:
			p.do([]string{"CF.INSERT", "CF.INSERTNX"}[r.IntN(2)], some()...)
		case k == 19 && r.IntN(50) == 0:
			p.compact()
		default:
			p.do("CF.DEL", item())
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
		capacity                          uint64
		bucketSize, iterations, expansion uint16
		items                             int
	}{
		{4, 2, 20, 1, 40},           // buckets that are the same, many sub-filters
		{16, 1, 5, 2, 100},          //
		{100, 3, 20, 2, 500},        // buckets that lie in two words
		{1024, 2, 20, 1, 1500},      // the defaults
		{1000, 4, 500, 4, 3000},     //
		{1000, 255, 20, 0, 1500},    // no growth
		{16_000, 255, 20, 1, 12000}, // a bucket that lies in two blocks
		{20_000, 7, 20, 1, 30_000},  // several blocks
		{9000, 100, 20, 2, 12_000},  //
		{40_000, 2, 500, 2, 20_000}, //
	} {
		t.Run(fmt.Sprintf("%d in buckets of %d, expansion %d", tt.capacity, tt.bucketSize, tt.expansion), func(t *testing.T) {
			t.Parallel()
			p := newPair(t, kv.Options{}, tt.capacity, tt.bucketSize, tt.iterations, tt.expansion)
			p.randomCommands(rand.New(rand.NewPCG(tt.capacity, uint64(tt.bucketSize))), n, tt.items)
		})
	}
}
