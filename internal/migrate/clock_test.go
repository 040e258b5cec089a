package migrate

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sievekv/sievekv/internal/migrate/rdb"
	"github.com/sievekv/sievekv/internal/migrate/rdb/rdbtest"
	"github.com/sievekv/sievekv/module/reply"
)

// jumping returns options whose clock jumps by two hours when it is read for the nth time, and a function that tells whether it
// has jumped.
func jumping(nth int) (o Options, jumped func() bool) {
	reads := 0
	o.Now = func() time.Time {
		if reads++; reads >= nth {
			return now.Add(2 * time.Hour)
		}
		return now
	}
	return o, func() bool { return reads >= nth }
}

// Values expire at every moment of a run. None of them is made to live for ever, nothing is left beside a key, and the run goes on.
func TestImport_expiresMeanwhile(t *testing.T) {
	hour := now.Add(time.Hour).UnixMilli()
	file := rdbtest.New(11).ExpireAt(hour).Set("s", "x").ExpireAt(hour).Set("long", long()).
		ExpireAt(hour).Filter("f", rdb.Bloom, bloomOf(t, 3).Dump()).Bytes()
	for name, there := range map[string]map[string]*value{
		"missing": {},
		"equal":   {"s": {text: "x"}, "long": {text: long()}, "f": {bloom: bloomOf(t, 3)}},
		"other":   {"s": {text: "y"}, "long": {text: "y"}, "f": {bloom: bloomOf(t, 4)}},
	} {
		for nth := 1; ; nth++ {
			to := newFake()
			to.longest = 100
			for key, v := range there {
				v.life = 30 * time.Minute
				to.keys[key] = v
			}
			o, jumped := jumping(nth)
			o.OnConflict = Replace
			report, err := Import(t.Context(), bytes.NewReader(file), to, o)
			if err != nil || report.Err() != nil || report.Expired+report.Strings+report.Filters+report.Unchanged != 3 {
				t.Errorf("%s, at %d: %+v, %v", name, nth, report, err)
			}
			for key, v := range to.keys {
				if v.life == 0 || isCopy([]byte(key)) {
					t.Errorf("%s, at %d: %q lives for %v", name, nth, key, v.life)
				}
			}
			if !jumped() {
				break
			}
		}
	}
}

// A filter that expires while another one is copied is not a failure.
func TestCopy_expiresMeanwhile(t *testing.T) {
	from, to := newFake(), newFake()
	from.keys["a"], from.keys["b"] = &value{bloom: bloomOf(t, 3)}, &value{bloom: bloomOf(t, 3), life: time.Hour}
	passed, o := time.Duration(0), Options{}
	o.Now = func() time.Time { return now.Add(passed) }
	to.before = func(words []string) {
		if words[0] == "BF.LOADCHUNK" {
			delete(from.keys, "b")
			passed = 2 * time.Hour
		}
	}
	report, err := Copy(t.Context(), from, to, o)
	if err != nil || report.Err() != nil || report.Filters != 1 || report.Expired != 1 {
		t.Errorf("%+v, %v", report, err)
	}
	same(t, to.keys, from.keys)
}

// A string that is removed while it is read is passed over, also one that is made again at once: it was read as nothing.
func TestCopy_goneWhileRead(t *testing.T) {
	for name, asks := range map[string][2]string{"before the value": {"GET", "PTTL"}, "after it": {"PTTL", ""}} {
		from, to := newFake(), newFake()
		from.keys["k"] = &value{text: "x"}
		read := false // the value, so PTTL is asked for the second time
		from.before = func(words []string) {
			switch read = read || words[0] == "GET"; {
			case read && words[0] == asks[0]:
				delete(from.keys, "k")
			case read && words[0] == asks[1]:
				from.keys["k"] = &value{text: "y"}
			}
		}
		if report, err := Copy(t.Context(), from, to, options()); err != nil || report.Err() != nil || len(to.keys) > 0 {
			t.Errorf("%s: %+v, %v, %d keys", name, report, err, len(to.keys))
		}
	}
}

// A filter that is removed at the source when it was found to be equal leaves the target's as it is.
func TestCopy_equalAndGone(t *testing.T) {
	from, to := newFake(), newFake()
	from.keys["k"], to.keys["k"] = &value{bloom: bloomOf(t, 3)}, &value{bloom: bloomOf(t, 3), life: time.Hour}
	asked := 0
	from.before = func(words []string) {
		if words[0] == "PTTL" {
			if asked++; asked == 2 {
				delete(from.keys, "k")
			}
		}
	}
	if report, err := Copy(t.Context(), from, to, options()); err != nil || report.Err() != nil || report.Unchanged != 0 {
		t.Errorf("%+v, %v", report, err)
	}
	same(t, to.keys, map[string]*value{"k": {bloom: bloomOf(t, 3), life: time.Hour}})
}

// broken is a server whose connection ends at a command.
type broken struct {
	*fake
	at string
}

var errBroken = errors.New("the connection is broken")

func (b *broken) Do(ctx context.Context, words [][]byte) (reply.Reply, error) {
	if strings.HasSuffix(string(words[0]), b.at) {
		return reply.Nil, errBroken
	}
	return b.fake.Do(ctx, words)
}

// A connection that ends while two filters are compared ends the run: the filters are not taken for different ones.
func TestCopy_brokenWhileCompared(t *testing.T) {
	for _, o := range []Conflict{Fail, Skip, Replace} {
		for _, ends := range []string{"the source", "the target"} {
			from, to := &broken{fake: newFake()}, &broken{fake: newFake()}
			from.keys["k"], to.keys["k"] = &value{bloom: bloomOf(t, 3)}, &value{bloom: bloomOf(t, 3)}
			if from.at, to.at = "SCANDUMP", "none"; ends == "the target" {
				from.at, to.at = to.at, from.at
			}
			report, err := Copy(t.Context(), from, to, Options{OnConflict: o})
			if !errors.Is(err, errBroken) || report.Skipped != 0 || !reflect.DeepEqual(to.keys["k"], &value{bloom: bloomOf(t, 3)}) {
				t.Errorf("%s, %s: %+v, %v", o, ends, report, err)
			}
		}
	}
}

// A filter at the target that has no dump is another one.
func TestCopy_targetWithoutDump(t *testing.T) {
	for what, want := range map[Conflict]error{Fail: ErrRefused, Skip: nil, Replace: nil} {
		from := newFake()
		to := &scanning{newFake(), nil}
		from.keys["k"], to.keys["k"] = &value{bloom: bloomOf(t, 3)}, &value{bloom: bloomOf(t, 4)}
		refuse := func(words [][]byte) reply.Reply {
			if !isCopy(words[1]) {
				return reply.Error("ERR it has a form that has no dump")
			}
			var w []string
			for _, word := range words {
				w = append(w, string(word))
			}
			return to.answer(w)
		}
		to.answers = map[string]func([][]byte) reply.Reply{"SCANDUMP": refuse, "DUMP": refuse}
		o := options()
		o.OnConflict = what
		report, err := Copy(t.Context(), from, to, o)
		if !errors.Is(err, want) || report.Err() != nil || reflect.DeepEqual(to.keys["k"], from.keys["k"]) != (what == Replace) {
			t.Errorf("%s: %+v, %v", what, report, err)
		}
	}
}

// A filter is not kept if the target tells other numbers about it.
func TestCopy_otherInfo(t *testing.T) {
	from := newFake()
	to := &scanning{newFake(), map[string]func([][]byte) reply.Reply{"INFO": func([][]byte) reply.Reply {
		return reply.Array(reply.BulkString("Capacity"), reply.Int(1))
	}}}
	from.keys["k"] = &value{bloom: bloomOf(t, 3)}
	report, err := Copy(t.Context(), from, to, options())
	if err != nil || len(report.Failed) != 1 || report.Failed[0] != `"k": BF.INFO tells Capacity of (integer) 100, and of the copy (integer) 1` {
		t.Errorf("%+v, %v", report, err)
	}
	same(t, to.keys, map[string]*value{})
}

// Without options a run uses the clock of this machine, and shows nothing. With Progress it is shown how far it is.
func TestCopy_options(t *testing.T) {
	from, to := newFake(), newFake()
	from.keys["k"] = &value{text: "x", life: time.Hour}
	var shown Report
	report, err := Copy(t.Context(), from, to, Options{Progress: func(r Report) { shown = r }})
	if err != nil || report.Strings != 1 || shown.Strings != 1 || to.keys["k"].life <= 0 || to.keys["k"].life > time.Hour {
		t.Errorf("%+v, shown %+v, %v", report, shown, err)
	}
}
