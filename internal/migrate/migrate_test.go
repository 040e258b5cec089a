package migrate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sievekv/sievekv/internal/migrate/rdb"
	"github.com/sievekv/sievekv/internal/migrate/rdb/rdbtest"
	"github.com/sievekv/sievekv/module/reply"
	"github.com/sievekv/sievekv/tests/redisbloom"
)

// value is a value of a fake: text, a *redisbloom.Bloom, a *redisbloom.Cuckoo, or a list for nil.
type value struct {
	text   string
	bloom  *redisbloom.Bloom
	cuckoo *redisbloom.Cuckoo
	list   bool
	life   time.Duration // 0 for ever
}

// fake is a Redis with RedisBloom, made of the model.
type fake struct {
	keys    map[string]*value
	refused string // the commands of this name are refused
	longest int    // if not 0, SET takes no longer string
	most    int    // if not 0, no key is longer
	before  func(words []string)
	log     []string
}

func newFake() *fake { return &fake{keys: map[string]*value{}} }

func (f *fake) Do(_ context.Context, words [][]byte) (reply.Reply, error) {
	var w []string
	for _, word := range words {
		w = append(w, string(word))
	}
	if f.before != nil {
		f.before(w)
	}
	f.log = append(f.log, w[0])
	if f.refused != "" && strings.HasSuffix(w[0], f.refused) {
		return reply.Error("NOPERM this user has no permissions to run the command"), nil
	}
	return f.answer(w), nil
}

func (f *fake) answer(w []string) reply.Reply {
	var v *value
	if len(w) > 1 {
		v = f.keys[w[1]]
	}
	if f.most > 0 && len(w) > 1 && len(w[1]) > f.most {
		return reply.Error(fmt.Sprintf("ERR too large: key of %d bytes, at most %d", len(w[1]), f.most))
	}
	switch w[0] {
	case "SCAN":
		var keys []reply.Reply
		at, _ := strconv.Atoi(w[1])
		all := slices.Sorted(maps.Keys(f.keys))
		next := min(at+3, len(all))
		for _, key := range all[at:next] {
			if len(w) < 6 || strings.HasPrefix(key, strings.TrimSuffix(w[5], "*")) {
				keys = append(keys, reply.BulkString(key))
			}
		}
		return reply.Array(reply.BulkString(strconv.Itoa(next%len(all))), reply.Array(keys...))
	case "SET":
		if f.longest > 0 && len(w[2]) > f.longest {
			return reply.Error(fmt.Sprintf("ERR too large: value of %d bytes under key %q, at most %d", len(w[2]), w[1], f.longest))
		}
		if v != nil && w[len(w)-1] == "NX" {
			return reply.Nil
		}
		f.keys[w[1]] = &value{text: w[2]}
		if len(w) > 4 {
			f.keys[w[1]].life = millis(w[4])
		}
		return reply.Status("OK")
	case "APPEND":
		if v == nil {
			v = &value{}
			f.keys[w[1]] = v
		}
		v.text += w[2]
		return reply.Int(int64(len(v.text)))
	case "DEL":
		delete(f.keys, w[1])
		return reply.Int(1)
	case "TYPE":
		return reply.Status(v.typeName())
	}
	if name, word, ok := strings.Cut(w[0], "."); ok {
		return f.ofFilter(name, word, w, v)
	}
	if v == nil {
		if w[0] == "PTTL" {
			return reply.Int(-2)
		}
		return reply.Nil
	}
	switch w[0] {
	case "GET":
		if v.typeName() != "string" {
			return reply.Error("WRONGTYPE Operation against a key holding the wrong kind of value")
		}
		return reply.BulkString(v.text)
	case "STRLEN":
		if v.typeName() != "string" {
			return reply.Error("WRONGTYPE Operation against a key holding the wrong kind of value")
		}
		return reply.Int(int64(len(v.text)))
	case "PTTL":
		if v.life == 0 {
			return reply.Int(-1)
		}
		return reply.Int(v.life.Milliseconds())
	case "PEXPIRE":
		v.life = millis(w[2])
		return reply.Int(1)
	case "PERSIST":
		v.life = 0
		return reply.Int(1)
	case "RENAME", "RENAMENX":
		if w[0] == "RENAMENX" && f.keys[w[2]] != nil {
			return reply.Int(0)
		}
		f.keys[w[2]] = v
		delete(f.keys, w[1])
		return reply.Int(1)
	case "DUMP":
		name, chunks := rdb.Bloom, []redisbloom.Chunk(nil)
		if v.bloom != nil {
			chunks = v.bloom.Dump()
		} else {
			name, chunks = rdb.Cuckoo, v.cuckoo.Dump()
		}
		return reply.Bulk(rdbtest.Dump(7, 11, func(f *rdbtest.File) { f.FilterValue(name, chunks) }))
	}
	return reply.Error("ERR unknown command '" + w[0] + "'")
}

func millis(word string) time.Duration {
	n, _ := strconv.Atoi(word)
	return time.Duration(n) * time.Millisecond
}

func (v *value) typeName() string {
	switch {
	case v == nil:
		return "none"
	case v.list:
		return "list"
	case v.bloom != nil:
		return rdb.Bloom
	case v.cuckoo != nil:
		return rdb.Cuckoo
	}
	return "string"
}

func (f *fake) ofFilter(name, word string, w []string, v *value) reply.Reply {
	failed := func(err error) reply.Reply { return reply.Error(err.Error()) }
	var iter int64
	if len(w) > 2 {
		iter, _ = strconv.ParseInt(w[2], 10, 64)
	}
	switch {
	case word == "LOADCHUNK" && v == nil:
		var err error
		v = &value{}
		if name == "BF" {
			v.bloom, err = redisbloom.LoadBloomHeader([]byte(w[3]))
		} else {
			v.cuckoo, err = redisbloom.LoadCuckooHeader([]byte(w[3]))
		}
		if err != nil {
			return failed(err)
		}
		f.keys[w[1]] = v
		return reply.Status("OK")
	case v == nil:
		return reply.Error("ERR not found")
	case word == "LOADCHUNK":
		c := redisbloom.Chunk{Iter: iter, Data: []byte(w[3])}
		err := error(nil)
		if name == "BF" {
			err = v.bloom.LoadChunk(c)
		} else {
			err = v.cuckoo.LoadChunk(c)
		}
		if err != nil {
			return failed(err)
		}
		return reply.Status("OK")
	case word == "SCANDUMP":
		c := redisbloom.Chunk{}
		if name == "BF" {
			c = v.bloom.Scan(iter)
		} else {
			c = v.cuckoo.Scan(iter)
		}
		return reply.Array(reply.Int(c.Iter), reply.Bulk(c.Data))
	}
	info := []reply.Reply{reply.BulkString("Size"), reply.Int(int64(len(f.keys)))} // no two are equal
	field := func(name string, n uint64) { info = append(info, reply.BulkString(name), reply.Int(int64(n))) }
	if name == "BF" {
		i := v.bloom.Info()
		field("Capacity", i.Capacity)
		field("Number of items inserted", i.Items)
		return reply.Array(info...)
	}
	i := v.cuckoo.Info()
	field("Number of buckets", i.Buckets)
	field("Number of filters", i.Filters)
	field("Number of items inserted", i.Items)
	field("Number of items deleted", i.Deletes)
	field("Bucket size", i.BucketSize)
	field("Expansion rate", i.Expansion)
	field("Max iterations", i.MaxIterations)
	return reply.Array(info...)
}

func name(i int) []byte { return fmt.Appendf(nil, "item:%d", i) }

func bloomOf(t *testing.T, n int) *redisbloom.Bloom {
	t.Helper()
	b, err := redisbloom.NewBloom(100, 0.01, 2, false)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if _, err := b.Add(name(i)); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func cuckooOf(t *testing.T, n int) *redisbloom.Cuckoo {
	t.Helper()
	c, err := redisbloom.NewCuckoo(64, 2, 20, 2)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if err := c.Add(name(i)); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// source returns a server with values of all types.
func source(t *testing.T) *fake {
	f := newFake()
	for i := range 40 {
		f.keys[fmt.Sprint("s", i)] = &value{text: fmt.Sprint("value ", i), life: time.Duration(i%2) * time.Hour}
	}
	f.keys["bloom"] = &value{bloom: bloomOf(t, 500)}
	f.keys["bloom that expires"] = &value{bloom: bloomOf(t, 50), life: time.Hour}
	f.keys["cuckoo"] = &value{cuckoo: cuckooOf(t, 300)}
	f.keys["empty cuckoo"] = &value{cuckoo: cuckooOf(t, 0)}
	f.keys["empty bloom"] = &value{bloom: bloomOf(t, 0)}
	return f
}

var now = time.UnixMilli(1_800_000_000_000)

func options() Options { return Options{Now: func() time.Time { return now }} }

// same compares the keys of two servers.
func same(t *testing.T, got, want map[string]*value) {
	t.Helper()
	for key, v := range want {
		if !reflect.DeepEqual(got[key], v) {
			t.Errorf("%q: %+v, want %+v", key, got[key], v)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d keys, want %d", len(got), len(want))
	}
}

func TestCopy(t *testing.T) {
	for _, refused := range []string{"", "SCANDUMP"} {
		from, to := source(t), newFake()
		want := maps.Clone(from.keys)
		from.keys["list"] = &value{list: true}
		from.keys["left"+Suffix] = &value{text: "of another run"}
		if from.refused = refused; refused != "" {
			delete(from.keys, "empty cuckoo") // the fake has no dump of it
			delete(want, "empty cuckoo")
		}
		report, err := Copy(t.Context(), from, to, options())
		if err != nil || report.Err() != nil {
			t.Fatal(err, report.Failed)
		}
		same(t, to.keys, want)
		if report.Strings != 40 || report.Filters != len(want)-40 || report.Others["list"] != 1 || report.Unchanged != 0 || report.Copies != 1 {
			t.Errorf("%+v", report)
		}
		const left = "left out             1 with #kvshell-copy behind the key, which another run has not finished\n"
		if text := report.Text(false); !strings.HasSuffix(text, left) {
			t.Errorf("%s", text)
		}
		to.log = nil
		report, err = Copy(t.Context(), from, to, options())
		if err != nil || report.Unchanged != len(want) || report.Strings+report.Filters != 0 {
			t.Errorf("again: %+v, %v", report, err)
		}
		same(t, to.keys, want)
		if slices.Contains(to.log, "BF.LOADCHUNK") || slices.Contains(to.log, "RENAME") || slices.Contains(to.log, "PEXPIRE") {
			t.Errorf("equal values were written again: %q", to.log)
		}
	}
}

func TestCopy_some(t *testing.T) {
	from, to := source(t), newFake()
	o := options()
	o.Match, o.Prefix = "bloom*", "old:"
	if _, err := Copy(t.Context(), from, to, o); err != nil {
		t.Fatal(err)
	}
	same(t, to.keys, map[string]*value{"old:bloom": from.keys["bloom"], "old:bloom that expires": from.keys["bloom that expires"]})
}

func TestCopy_dryRun(t *testing.T) {
	from := newFake()
	from.keys["a b"], from.keys["bloom"] = &value{text: "x"}, &value{bloom: bloomOf(t, 1)}
	var list bytes.Buffer
	o := options()
	o.DryRun, o.List = true, &list
	report, err := Copy(t.Context(), from, nil, o)
	if err != nil || report.wouldBe != 2 || list.String() != "string \"a b\"\nMBbloom-- \"bloom\"\n" {
		t.Errorf("%+v, %v, %s", report, err, list.String())
	}
}

// TestCopy_conflict copies to keys that hold other values of every type.
func TestCopy_conflict(t *testing.T) {
	others := map[string]*value{
		"s0": {text: "other"}, "s1": {bloom: bloomOf(t, 1)}, "s2": {list: true},
		"bloom": {bloom: bloomOf(t, 499)}, "cuckoo": {text: "other"}, "empty bloom": {cuckoo: cuckooOf(t, 1)},
	}
	for _, what := range []Conflict{Fail, Skip, Replace} {
		from, to := source(t), newFake()
		maps.Copy(to.keys, others)
		o := options()
		o.OnConflict = what
		report, err := Copy(t.Context(), from, to, o)
		want := maps.Clone(from.keys)
		switch what {
		case Fail:
			if !errors.Is(err, ErrRefused) {
				t.Errorf("%v", err)
			}
			want = maps.Clone(to.keys)
			maps.Copy(want, others)
		case Skip:
			maps.Copy(want, others)
			if err != nil || report.Skipped != len(others) {
				t.Errorf("%+v, %v", report, err)
			}
		default:
			if err != nil || report.Skipped != 0 {
				t.Errorf("%+v, %v", report, err)
			}
		}
		same(t, to.keys, want)
	}
}

// TestCopy_sameHeader replaces a filter that differs in its bits alone.
func TestCopy_sameHeader(t *testing.T) {
	from, to := newFake(), newFake()
	other, err := redisbloom.NewBloom(100, 0.01, 2, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Add([]byte("another")); err != nil {
		t.Fatal(err)
	}
	from.keys["k"], to.keys["k"] = &value{bloom: bloomOf(t, 1)}, &value{bloom: other}
	o := options()
	o.OnConflict = Replace
	if report, err := Copy(t.Context(), from, to, o); err != nil || report.Filters != 1 {
		t.Errorf("%+v, %v", report, err)
	}
	same(t, to.keys, from.keys)
}

func TestCopy_expiry(t *testing.T) {
	for _, what := range []Conflict{Fail, Skip, Replace} {
		from, to, before := newFake(), newFake(), newFake()
		for key, lives := range map[string][2]time.Duration{"longer": {3 * time.Hour, time.Hour}, "for ever": {0, time.Hour}, "not for ever": {time.Hour, 0}} {
			from.keys[key], from.keys["b"+key] = &value{text: "x", life: lives[0]}, &value{bloom: bloomOf(t, 3), life: lives[0]}
			for _, f := range []*fake{to, before} {
				f.keys[key], f.keys["b"+key] = &value{text: "x", life: lives[1]}, &value{bloom: bloomOf(t, 3), life: lives[1]}
			}
		}
		o := options()
		o.OnConflict = what
		if report, err := Copy(t.Context(), from, to, o); err != nil || report.Unchanged != 6 {
			t.Errorf("%s: %+v, %v", what, report, err)
		}
		want := from
		if what == Skip {
			want = before
		}
		same(t, to.keys, want.keys)
	}
}

// TestCopy_changing adds an item to a filter while it is copied.
func TestCopy_changing(t *testing.T) {
	for _, changes := range []int{1, attempts} {
		from, to := newFake(), newFake()
		filter := bloomOf(t, 50)
		from.keys["k"] = &value{bloom: filter}
		added := 0
		to.before = func(words []string) {
			if words[0] == "BF.LOADCHUNK" && words[2] != "1" && added < changes {
				for fresh := false; !fresh; added++ {
					fresh, _ = filter.Add(name(1000 + added))
				}
			}
		}
		report, err := Copy(t.Context(), from, to, options())
		if err != nil {
			t.Fatal(err)
		}
		want := maps.Clone(from.keys)
		if changes == attempts {
			want = nil
			if len(report.Failed) != 1 || !errors.Is(report.Err(), ErrRefused) {
				t.Errorf("%+v", report)
			}
		}
		same(t, to.keys, want)
	}
}

// A filter is copied as it is at one moment, also if a change between two chunks leaves the numbers in its header as they were:
// a compaction of a cuckoo filter, or another filter under the key.
func TestCopy_sameNumbers(t *testing.T) {
	cuckoo := cuckooOf(t, 300)
	bloom, other := bloomOf(t, 500), bloomOf(t, 0)
	for i := 0; string(other.Scan(0).Data) != string(bloom.Scan(0).Data); i++ {
		if _, err := other.Add(name(5000 + i)); err != nil || i > 1000 {
			t.Fatal("no other filter has the same header", err)
		}
	}
	for key, change := range map[string]func(v *value){
		"cuckoo": func(v *value) {
			for i := range 30 {
				v.cuckoo.Delete(name(i))
			}
			v.cuckoo.Compact()
			for i := range 30 {
				if err := v.cuckoo.Add(name(i)); err != nil {
					t.Fatal(err)
				}
			}
		},
		"bloom": func(v *value) { v.bloom = other },
	} {
		from, to := newFake(), newFake()
		v := map[string]*value{"cuckoo": {cuckoo: cuckoo}, "bloom": {bloom: bloom}}[key]
		from.keys["k"] = v
		chunks := 0
		to.before = func(words []string) {
			if !strings.HasSuffix(words[0], ".LOADCHUNK") {
				return
			}
			if chunks++; chunks == 2 {
				change(v)
			}
		}
		if report, err := Copy(t.Context(), from, to, options()); err != nil || report.Filters != 1 || chunks < 6 {
			t.Errorf("%s: %+v, %v, after %d chunks", key, report, err, chunks)
		}
		same(t, to.keys, from.keys)
	}
}

// TestCopy_damagedByTarget flips a bit of what was loaded.
func TestCopy_damagedByTarget(t *testing.T) {
	from, to := newFake(), newFake()
	from.keys["bloom"], from.keys["cuckoo"] = &value{bloom: bloomOf(t, 50)}, &value{cuckoo: cuckooOf(t, 50)}
	to.before = func(words []string) {
		if strings.HasSuffix(words[0], "LOADCHUNK") && words[2] != "1" {
			words[3] = string(words[3][0]^1) + words[3][1:]
		}
	}
	report, err := Copy(t.Context(), from, to, options())
	if err != nil || len(report.Failed) != 2 || len(to.keys) != 0 {
		t.Errorf("%+v, %v, %d keys", report, err, len(to.keys))
	}
}

func TestCopy_refused(t *testing.T) {
	from, to := newFake(), newFake()
	from.keys["bloom"], from.keys["s"] = &value{bloom: bloomOf(t, 50)}, &value{text: "x"}
	to.refused = "LOADCHUNK"
	report, err := Copy(t.Context(), from, to, options())
	if err != nil || len(report.Failed) != 1 || !strings.Contains(report.Failed[0], "BF.LOADCHUNK: NOPERM") || report.Strings != 1 {
		t.Errorf("%+v, %v", report, err)
	}
	from.keys = map[string]*value{"s": {text: "x"}}
	to.refused = "SET"
	if _, err := Copy(t.Context(), from, to, options()); !errors.Is(err, ErrRefused) {
		t.Error(err)
	}
	to.keys["s"], to.refused = &value{text: "x"}, "GET"
	if _, err := Copy(t.Context(), from, to, options()); err == nil || !strings.Contains(err.Error(), "NOPERM") {
		t.Errorf("a target that does not tell what it has: %v", err)
	}
}

// TestCopy_refusedStrings copies from a server that refuses a command which strings need.
func TestCopy_refusedStrings(t *testing.T) {
	for _, command := range []string{"TYPE", "PTTL", "STRLEN", "GET"} {
		from, to := newFake(), newFake()
		from.keys["a key"] = &value{text: "x"}
		from.refused = command
		_, err := Copy(t.Context(), from, to, options())
		if !errors.Is(err, ErrRefused) || !strings.Contains(fmt.Sprint(err), `"a key": `+command+": NOPERM") {
			t.Errorf("%s: %v", command, err)
		}
	}
}

// TestCopy_replacedMeanwhile replaces or removes a string when its type is known.
func TestCopy_replacedMeanwhile(t *testing.T) {
	for _, command := range []string{"STRLEN", "GET"} {
		for _, other := range []*value{nil, {list: true}} {
			from, to := newFake(), newFake()
			from.keys["k"], from.keys["s"] = &value{text: "x"}, &value{text: "y"}
			from.before = func(words []string) {
				if words[0] != command {
					return
				}
				if from.keys["k"] = other; other == nil {
					delete(from.keys, "k")
				}
			}
			if report, err := Copy(t.Context(), from, to, options()); err != nil || report.Strings != 1 || report.Err() != nil {
				t.Errorf("%s: %+v, %v", command, report, err)
			}
			same(t, to.keys, map[string]*value{"s": from.keys["s"]})
		}
	}
}

// TestCopy_timeOfAnother replaces a value by one with another time to live when the first one's is known: the copy has
// its own.
func TestCopy_timeOfAnother(t *testing.T) {
	for _, lives := range [][2]time.Duration{{0, time.Hour}, {time.Hour, 0}, {time.Hour, 2 * time.Hour}} {
		for _, equal := range []bool{false, true} {
			from, to := newFake(), newFake()
			from.keys["s"] = &value{text: "old", life: lives[0]}
			from.keys["f"] = &value{bloom: bloomOf(t, 1), life: lives[0]}
			if equal {
				to.keys["f"] = &value{bloom: bloomOf(t, 1)}
			}
			from.before = func(words []string) {
				switch words[0] {
				case "GET":
					from.keys["s"] = &value{text: "new", life: lives[1]}
				case "BF.SCANDUMP":
					from.keys["f"].life = lives[1]
				}
			}
			if report, err := Copy(t.Context(), from, to, options()); err != nil || report.Err() != nil {
				t.Errorf("%v: %+v, %v", lives, report, err)
			}
			same(t, to.keys, from.keys)
		}
	}
	from, to := newFake(), newFake()
	from.keys["s"], from.keys["f"] = &value{text: "x"}, &value{bloom: bloomOf(t, 1)}
	from.before = func(words []string) {
		if words[0] == "GET" {
			from.keys["s"].life += time.Hour
		}
	}
	to.before = func(words []string) {
		if words[0] == "BF.INFO" { // the last that is asked about a filter that was loaded
			delete(from.keys, "f")
		}
	}
	report, err := Copy(t.Context(), from, to, options())
	if err != nil || len(report.Failed) != 1 || report.Failed[0] != `"s": it changed 3 times while it was copied` {
		t.Errorf("%+v, %v", report, err)
	}
	same(t, to.keys, map[string]*value{})
}

// TestCopy_slowFilter copies a filter for a while: a string that was listed with it expires when it did, and is read once.
func TestCopy_slowFilter(t *testing.T) {
	from, to := newFake(), newFake()
	from.keys["f"], from.keys["s"] = &value{bloom: bloomOf(t, 1)}, &value{text: "x", life: time.Hour}
	passed := time.Duration(0)
	o := Options{Now: func() time.Time { return now.Add(passed) }}
	to.before = func(words []string) {
		if words[0] == "BF.LOADCHUNK" {
			passed += time.Minute
			from.keys["s"].life -= time.Minute
		}
	}
	if report, err := Copy(t.Context(), from, to, o); err != nil || report.Err() != nil {
		t.Errorf("%+v, %v", report, err)
	}
	gets := 0
	for _, command := range from.log {
		if command == "GET" {
			gets++
		}
	}
	if passed == 0 || gets != 1 {
		t.Errorf("after %v the string was read %d times, want once", passed, gets)
	}
	same(t, to.keys, from.keys)
}

// long returns a string that no SET of the tests takes, as bitmaps may be.
func long() string { return strings.Repeat("0123456789abcdef", pieceSize/8) + "end" }

// TestCopy_long copies strings that the target takes in pieces alone, to keys that are missing and to those that are not.
func TestCopy_long(t *testing.T) {
	from := newFake()
	from.keys["long"], from.keys["lives"] = &value{text: long()}, &value{text: long(), life: time.Hour}
	from.keys["short"] = &value{text: "x"}
	for _, other := range []*value{nil, {text: "other"}, {bloom: bloomOf(t, 1)}} {
		to := newFake()
		to.longest = 100
		to.before = func(words []string) {
			if words[0] == "APPEND" && !isCopy([]byte(words[1])) {
				t.Errorf("a piece of %q under its own key", words[1])
			}
		}
		want := maps.Clone(from.keys)
		o := options()
		o.OnConflict = Replace
		if other != nil {
			to.keys["long"] = other
			for what, want := range map[Conflict]error{Fail: ErrRefused, Skip: nil} {
				o.OnConflict = what
				if _, err := Copy(t.Context(), from, to, o); !errors.Is(err, want) || !reflect.DeepEqual(to.keys["long"], other) {
					t.Errorf("%s: %v", what, err)
				}
			}
			o.OnConflict = Replace
		}
		if report, err := Copy(t.Context(), from, to, o); err != nil || report.Err() != nil || other == nil && report.Strings != 3 {
			t.Errorf("%+v, %v", report, err)
		}
		same(t, to.keys, want)
		to.log = nil
		if report, err := Copy(t.Context(), from, to, o); err != nil || report.Unchanged != 3 || slices.Contains(to.log, "APPEND") {
			t.Errorf("again: %+v, %v", report, err)
		}
	}
}

// TestCopy_left finds what a run left at the target that another one has not needed.
func TestCopy_left(t *testing.T) {
	from, to := newFake(), newFake()
	to.longest = 100
	for key, v := range map[string]*value{"bloom": {bloom: bloomOf(t, 50)}, "long": {text: long()}} {
		from.keys[key], to.keys[key], to.keys[key+Suffix] = v, v, &value{text: "x"}
	}
	if report, err := Copy(t.Context(), from, to, options()); err != nil || report.Unchanged != 2 {
		t.Errorf("%+v, %v", report, err)
	}
	same(t, to.keys, from.keys)
}

// TestCopy_tooLong copies what fits when a key, or a string in pieces, is refused.
func TestCopy_tooLong(t *testing.T) {
	from, to := newFake(), newFake()
	from.keys["long"], from.keys["short"] = &value{text: long()}, &value{text: "x"}
	from.keys[strings.Repeat("k", 100)], from.keys[strings.Repeat("b", 100)] = &value{text: "x"}, &value{bloom: bloomOf(t, 1)}
	from.keys[strings.Repeat("c", 95)] = &value{bloom: bloomOf(t, 1)} // has no room for the key beside
	to.longest, to.most, to.refused = 100, 99, "APPEND"
	report, err := Copy(t.Context(), from, to, options())
	if err != nil || len(report.Failed) != 4 || !errors.Is(report.Err(), ErrRefused) {
		t.Errorf("%+v, %v", report, err)
	}
	same(t, to.keys, map[string]*value{"short": from.keys["short"]})
}

// TestCopy_damagedLong loses a piece of a string.
func TestCopy_damagedLong(t *testing.T) {
	from, to := newFake(), newFake()
	from.keys["long"] = &value{text: long()}
	to.longest = 100
	to.before = func(words []string) {
		if words[0] == "APPEND" && strings.HasSuffix(words[2], "end") {
			words[2] = ""
		}
	}
	report, err := Copy(t.Context(), from, to, options())
	if err != nil || len(report.Failed) != 1 || len(to.keys) != 0 {
		t.Errorf("%+v, %v, %d keys", report, err, len(to.keys))
	}
}

// TestCopy_interrupted ends a run between any two steps. After each, every key is missing or whole; a second run
// completes.
func TestCopy_interrupted(t *testing.T) {
	type crash struct{}
	for at := 1; ; at++ {
		from, to := source(t), newFake()
		from.keys["long"], to.longest = &value{text: long()}, 100
		step := 0
		o := options()
		o.Step = func(string) {
			if step++; step == at {
				panic(crash{})
			}
		}
		ended := func() (ended bool) {
			defer func() {
				r := recover()
				if _, ok := r.(crash); r != nil && !ok {
					panic(r)
				}
				ended = r == nil
			}()
			if _, err := Copy(t.Context(), from, to, o); err != nil {
				t.Fatal(err)
			}
			return
		}()
		for key, v := range to.keys {
			if !isCopy([]byte(key)) && !reflect.DeepEqual(v, from.keys[key]) {
				t.Fatalf("step %d: %q is not whole", at, key)
			}
		}
		o.Step = nil
		if _, err := Copy(t.Context(), from, to, o); err != nil {
			t.Fatal(err)
		}
		same(t, to.keys, from.keys)
		if ended {
			if at < 10 {
				t.Errorf("%d steps", at)
			}
			return
		}
	}
}

func TestImport(t *testing.T) {
	bloom, cuckoo := bloomOf(t, 500), cuckooOf(t, 300)
	hour := now.Add(time.Hour).UnixMilli()
	file := rdbtest.New(11).Aux("redis-ver", "7.2.4").
		Set("plain", "value").Key(0, "int").Raw(0xc0, 7).Key(0, "zeros").Zeros(100).
		ExpireAt(hour).Set("lives", "x").ExpireAt(now.UnixMilli()).Set("expired", "x").
		Key(1, "list").Raw(1).Text("a").
		Filter("bloom", rdb.Bloom, bloom.Dump()).
		ExpireAt(hour).Filter("cuckoo", rdb.Cuckoo, cuckoo.Dump()).
		ExpireAt(now.Add(-1).UnixMilli()).Filter("expired filter", rdb.Cuckoo, cuckoo.Dump()).
		Set("long"+Suffix, "half").
		Select(1).Set("plain", "of another database").
		Bytes()
	want := map[string]*value{
		"plain": {text: "value"}, "int": {text: "7"}, "zeros": {text: strings.Repeat("\x00", 100)}, "lives": {text: "x", life: time.Hour},
		"bloom": {bloom: bloom}, "cuckoo": {cuckoo: cuckoo, life: time.Hour},
	}
	to := newFake()
	report, err := Import(t.Context(), bytes.NewReader(file), to, options())
	if err != nil {
		t.Fatal(err)
	}
	same(t, to.keys, want)
	const text = `strings copied       4
filters copied       2
equal already        0
expired              2
of other databases   1
left out             1 of type list
left out             1 with #kvshell-copy behind the key, which another run has not finished
`
	if got := report.Text(false); got != text {
		t.Errorf("%s", got)
	}
	if report, err := Import(t.Context(), bytes.NewReader(file), to, options()); err != nil || report.Unchanged != 6 {
		t.Errorf("again: %+v, %v", report, err)
	}
	var list bytes.Buffer
	o := options()
	o.Database, o.DryRun, o.List = 1, true, &list
	if _, err := Import(t.Context(), bytes.NewReader(file), nil, o); err != nil || list.String() != "string \"plain\" 19 bytes\n" {
		t.Errorf("%q, %v", list.String(), err)
	}
}

// What a server says cannot move the cursor of a terminal.
func TestReport_printable(t *testing.T) {
	r := Report{Others: map[string]int{"\x1b[2J": 1}, Failed: []string{"k: ERR \x01"}}
	if got := r.Text(false); !strings.Contains(got, `1 of type \x1b[2J`+"\n") || !strings.Contains(got, `k: ERR \x01`+"\n") {
		t.Errorf("%q", got)
	}
}

// A filter of a version that is not known is named, and the rest is copied.
func TestImport_oldFilter(t *testing.T) {
	file := rdbtest.New(9).Key(7, "old").Module("MBbloom--", 3).Raw(2, 2).Raw(0).Set("k", "v").Bytes()
	to := newFake()
	report, err := Import(t.Context(), bytes.NewReader(file), to, options())
	if err != nil || report.Strings != 1 || len(report.Failed) != 1 || !errors.Is(report.Err(), ErrRefused) {
		t.Errorf("%+v, %v", report, err)
	}
	same(t, to.keys, map[string]*value{"k": {text: "v"}})
}

func TestCheck(t *testing.T) {
	file := rdbtest.New(11).Set("k", "v").Filter("bloom", rdb.Bloom, bloomOf(t, 5).Dump()).Bytes()
	file[len(file)-1] ^= 1
	if err := Check(t.Context(), bytes.NewReader(file)); !errors.Is(err, rdb.ErrDamaged) {
		t.Error(err)
	}
}

// longLived answers PTTL with one number.
type longLived struct {
	*fake
	life int64
}

func (l *longLived) Do(ctx context.Context, words [][]byte) (reply.Reply, error) {
	if string(words[0]) == "PTTL" {
		return reply.Int(l.life), nil
	}
	return l.fake.Do(ctx, words)
}

// A time to live may be longer than a time.Duration can tell.
func TestCopy_longLife(t *testing.T) {
	from, to := newFake(), newFake()
	from.keys["text"], from.keys["filter"] = &value{text: "x"}, &value{bloom: bloomOf(t, 3)}
	for life, want := range map[int64]int64{
		1: 1, 999: 999, 400 * 365 * 24 * 3600 * 1000: 400 * 365 * 24 * 3600 * 1000, // 400 years
		math.MaxInt64 - now.UnixMilli(): latest - now.UnixMilli(), math.MaxInt64: latest - now.UnixMilli(),
	} {
		var lives []string
		to.before = func(words []string) {
			switch words[0] {
			case "SET":
				lives = append(lives, words[4])
			case "PEXPIRE":
				lives = append(lives, words[2])
			}
		}
		clear(to.keys)
		report, err := Copy(t.Context(), &longLived{from, life}, to, options())
		if err != nil || report.Strings != 1 || report.Filters != 1 {
			t.Errorf("%d: %+v, %v", life, report, err)
		}
		about := strconv.FormatInt(want, 10)
		for _, got := range lives {
			if n, err := strconv.ParseInt(got, 10, 64); err != nil || n > want || n < want-1000 {
				t.Errorf("%d: %q, want %s", life, lives, about)
			}
		}
		if len(lives) != 2 {
			t.Errorf("%d: %q", life, lives)
		}
	}
}

// The times to live of a file are any number.
func TestImport_expiry(t *testing.T) {
	year1 := time.Time{}.UnixMilli()
	for at, lives := range map[int64]bool{
		math.MinInt64: false, year1: false, -1: false, 0: false, now.UnixMilli(): false, now.UnixMilli() + 1: true, math.MaxInt64: true,
	} {
		to := newFake()
		report, err := Import(t.Context(), bytes.NewReader(rdbtest.New(11).ExpireAt(at).Set("k", "v").Bytes()), to, options())
		if err != nil || (report.Strings == 1) != lives || (report.Expired == 1) == lives {
			t.Errorf("%d: %+v, %v", at, report, err)
		}
	}
}

// A long key is not shown in full, and a list ends before it fills a terminal.
func TestCopy_shown(t *testing.T) {
	long := strings.Repeat("k", 70000)
	from := newFake()
	for i := range 10 {
		from.keys[fmt.Sprint(long, i)] = &value{text: "x"}
	}
	var list bytes.Buffer
	o := options()
	o.DryRun, o.List, o.ListMost = true, &list, 3
	report, err := Copy(t.Context(), from, nil, o)
	if err != nil {
		t.Fatal(err)
	}
	line := "string \"" + strings.Repeat("k", 100) + "\" and 69901 bytes more\n"
	if list.String() != strings.Repeat(line, 3) {
		t.Errorf("the list is %.500q", list.String())
	}
	if got := report.Text(true); got != "not listed           7\nwould be copied      10\n" {
		t.Errorf("the report is %q", got)
	}
	to := newFake()
	to.most = 1000
	if report, err := Copy(t.Context(), from, to, options()); err != nil || len(report.Failed) != 10 || len(report.Text(false)) > 10000 {
		t.Errorf("%d failed, %v: %.500s", len(report.Failed), err, report.Text(false))
	}
}

// A key that somebody makes at the target, between the look at it and the end of the copy, is not overwritten unless keys are
// replaced. The copy beside it is removed.
func TestCopy_madeMeanwhile(t *testing.T) {
	for _, what := range []Conflict{Fail, Skip, Replace} {
		from, to := newFake(), newFake()
		from.keys["bloom"], from.keys["long"] = &value{bloom: bloomOf(t, 3)}, &value{text: long()}
		to.longest = pieceSize
		made := &value{text: "of somebody"}
		to.before = func(words []string) {
			if strings.HasPrefix(words[0], "RENAME") {
				to.keys[words[2]] = made
			}
		}
		o := options()
		o.OnConflict = what
		report, err := Copy(t.Context(), from, to, o)
		want, failed := map[string]*value{"bloom": made, "long": made}, 2
		if what == Replace {
			want, failed = from.keys, 0
		}
		if err != nil || len(report.Failed) != failed || report.Strings+report.Filters != 2-failed {
			t.Errorf("%s: %+v, %v", what, report, err)
		}
		same(t, to.keys, want)
	}
}

// What has expired in a file is counted as that, whatever it is, and is not in the list of a dry run.
func TestImport_expired(t *testing.T) {
	past := now.Add(-time.Hour).UnixMilli()
	file := rdbtest.New(11).ExpireAt(past).Set("k", "v").ExpireAt(past).Key(1, "list").Raw(1).Text("a").
		ExpireAt(past).Filter("bloom", rdb.Bloom, bloomOf(t, 3).Dump()).Bytes()
	var list bytes.Buffer
	o := options()
	o.DryRun, o.List = true, &list
	report, err := Import(t.Context(), bytes.NewReader(file), nil, o)
	if err != nil || report.Expired != 3 || len(report.Others) > 0 || list.Len() > 0 {
		t.Errorf("%+v, %v, %q", report, err, list.String())
	}
}

// A file that is not damaged, but has what is not known, is refused: its exit code is another.
func TestCheck_unsupported(t *testing.T) {
	file := rdbtest.New(11).Key(99, "k").Text("v").Bytes()
	if err := Check(t.Context(), bytes.NewReader(file)); !errors.Is(err, rdb.ErrUnsupported) {
		t.Error(err)
	}
}

// Strings of a file are written before they fill the memory: when they are many, and when they are long.
func TestImport_parts(t *testing.T) {
	many, long := rdbtest.New(11), rdbtest.New(11)
	for i := range scanCount {
		many.Set(fmt.Sprint(i), "x")
	}
	for i := range 2 {
		long.Key(0, fmt.Sprint(i)).Zeros(most/2 + 1)
	}
	for name, f := range map[string]*rdbtest.File{"many": many, "long": long} {
		to := newFake()
		file := f.Filter("bloom", rdb.Bloom, bloomOf(t, 3).Dump()).Bytes()
		if _, err := Import(t.Context(), bytes.NewReader(file), to, options()); err != nil {
			t.Fatal(err)
		}
		if set, filter := slices.Index(to.log, "SET"), slices.Index(to.log, "BF.LOADCHUNK"); set < 0 || set > filter {
			t.Errorf("%s: the first SET is command %d, the filter %d", name, set, filter)
		}
	}
	var list bytes.Buffer
	o := options()
	o.DryRun, o.List = true, &list
	file := rdbtest.New(11).Filter("bloom", rdb.Bloom, bloomOf(t, 3).Dump()).Bytes()
	if _, err := Import(t.Context(), bytes.NewReader(file), nil, o); err != nil || !strings.HasPrefix(list.String(), `MBbloom-- "bloom" 3 items, `) {
		t.Errorf("%q, %v", list.String(), err)
	}
}

// A key that is gone before its type or its time to live is asked for is passed over, also one that is made again in
// between.
func TestCopy_gone(t *testing.T) {
	for command, then := range map[string]string{"TYPE": "", "PTTL": "", "TYPE ": "PTTL"} {
		from, to := newFake(), newFake()
		from.keys["k"] = &value{text: "x"}
		from.before = func(words []string) {
			switch words[0] {
			case strings.TrimSpace(command):
				delete(from.keys, "k")
			case then:
				from.keys["k"] = &value{text: "x"}
			}
		}
		report, err := Copy(t.Context(), from, to, options())
		if err != nil || len(report.Others) > 0 || report.Err() != nil || slices.Contains(to.log, "SET") || slices.Contains(from.log, "STRLEN") {
			t.Errorf("%s: %+v, %v", command, report, err)
		}
	}
}

// odd answers SCAN with no cursor.
type odd struct{}

func (o odd) Do(context.Context, [][]byte) (reply.Reply, error) { return reply.Array(), nil }

func TestCopy_oddServer(t *testing.T) {
	if _, err := Copy(t.Context(), odd{}, newFake(), options()); !errors.Is(err, ErrRefused) {
		t.Error(err)
	}
}

// scanning is a server that answers SCANDUMP, or DUMP, by itself.
type scanning struct {
	*fake
	answers map[string]func(words [][]byte) reply.Reply
}

func (s *scanning) Do(ctx context.Context, words [][]byte) (reply.Reply, error) {
	_, word, _ := strings.Cut(string(words[0]), ".")
	if word == "" {
		word = string(words[0])
	}
	if answer := s.answers[word]; answer != nil {
		return answer(words), nil
	}
	return s.fake.Do(ctx, words)
}

// A filter whose server answers what no server should is left, and the rest is copied.
func TestCopy_oddFilter(t *testing.T) {
	always := func(r reply.Reply) func([][]byte) reply.Reply { return func([][]byte) reply.Reply { return r } }
	refuses := always(reply.Error("NOPERM no"))
	dumpOf := func(data []byte) map[string]func([][]byte) reply.Reply {
		return map[string]func([][]byte) reply.Reply{"SCANDUMP": refuses, "DUMP": always(reply.Bulk(data))}
	}
	text := rdbtest.Dump(0, 11, func(f *rdbtest.File) { f.Text("x") })
	for name, c := range map[string]struct {
		answers map[string]func([][]byte) reply.Reply
		want    string
	}{
		"one element": {map[string]func([][]byte) reply.Reply{"SCANDUMP": always(reply.Array(reply.Int(1)))}, "is not a number and bytes"},
		"circles": {map[string]func([][]byte) reply.Reply{"SCANDUMP": func(words [][]byte) reply.Reply {
			b, err := redisbloom.NewBloom(100, 0.01, 2, false)
			if err != nil {
				t.Fatal(err)
			}
			return reply.Array(reply.Int(1), reply.Bulk(b.Scan(0).Data))
		}}, "goes in circles"},
		"nothing":      {map[string]func([][]byte) reply.Reply{"SCANDUMP": always(reply.Array(reply.Int(0), reply.Bulk(nil)))}, "BF.SCANDUMP has nothing"},
		"both refused": {map[string]func([][]byte) reply.Reply{"SCANDUMP": refuses, "DUMP": always(reply.Error("NOPERM neither"))}, "BF.SCANDUMP: NOPERM no"},
		"no filter":    {dumpOf(text), "DUMP: it is of another version"},
	} {
		t.Run(name, func(t *testing.T) {
			from, to := &scanning{newFake(), c.answers}, newFake()
			from.keys["bloom"], from.keys["s"] = &value{bloom: bloomOf(t, 5)}, &value{text: "x"}
			report, err := Copy(t.Context(), from, to, options())
			if err != nil || len(report.Failed) != 1 || !strings.Contains(report.Failed[0], c.want) {
				t.Errorf("%+v, %v, want %q", report, err, c.want)
			}
			same(t, to.keys, map[string]*value{"s": {text: "x"}})
		})
	}
}

// A name that no store takes is told, and copied under no shorter one.
func TestImport_longName(t *testing.T) {
	file := rdbtest.New(9).Raw(0).Zeros(rdb.MaxName + 1).Text("v").Raw(0).Zeros(rdb.MaxName).Text("v").Bytes()
	to := newFake()
	report, err := Import(t.Context(), bytes.NewReader(file), to, options())
	if err != nil || report.Strings != 1 || len(report.Failed) != 1 || !strings.HasSuffix(report.Failed[0], ": a key of 65537 bytes, at most 65536") {
		t.Errorf("%d strings were copied, %v: %.200q", report.Strings, err, report.Failed)
	}
	same(t, to.keys, map[string]*value{strings.Repeat("\x00", rdb.MaxName): {text: "v"}})
}
