package coretest

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sievekv/sievekv/coreext"
	"github.com/sievekv/sievekv/kv"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// World is a store with its own clock, and a session.
type World struct {
	DB      *kv.DB
	t       *testing.T
	session *module.Session
	passed  atomic.Int64 // nanoseconds
}

// NewWorld opens a store in memory with the options, and with a fixed seed unless they have one, so that a test's
// false positives are the same in every run. When the test ends, the store is checked and closed.
func NewWorld(t *testing.T, o kv.Options) *World {
	t.Helper()
	w := openWorld(t, o)
	t.Cleanup(func() {
		w.check(t)
		w.close(t)
	})
	return w
}

func openWorld(t *testing.T, o kv.Options) *World {
	t.Helper()
	w := &World{t: t}
	o.InMemory, o.Modules = true, coreext.Add(o.Modules)
	if o.Seed == 0 {
		o.Seed = 1
	}
	o.Clock = func() time.Time { return time.Unix(1_000_000_000, w.passed.Load()) }
	var err error
	if w.DB, err = kv.Open("", &o); err != nil {
		t.Fatal(err)
	}
	w.session = module.NewSession(w.DB)
	return w
}

func (w *World) check(t testing.TB) {
	t.Helper()
	report, err := w.DB.Check(context.Background()) // the test's context may have ended
	if err != nil || len(report.Problems) > 0 {
		t.Errorf("Check = %v, %v", report.Problems, err)
	}
}

func (w *World) close(t testing.TB) {
	t.Helper()
	if err := w.DB.Close(); err != nil {
		t.Error(err)
	}
}

// Worlds are for a fuzz test. Opening a store takes longer than most inputs, so many inputs share one.
type Worlds struct {
	options kv.Options
	w       *World // nil for none
	left    int    // inputs that it is still for
}

// NewWorlds returns worlds that NewWorld would open with these options.
func NewWorlds(f *testing.F, o kv.Options) *Worlds {
	ws := &Worlds{options: o}
	f.Cleanup(func() { ws.end(f) })
	return ws
}

// With calls f with a world without keys for one input, and then checks its store.
func (ws *Worlds) With(t *testing.T, f func(w *World)) {
	t.Helper()
	const inputs = 100
	if ws.left == 0 {
		ws.end(t)
		ws.w, ws.left = openWorld(t, ws.options), inputs
	}
	left := ws.left - 1
	ws.left = 0 // after a failure the next input has another one
	ws.w.t = t
	f(ws.w)
	ws.w.check(t)
	if r := ws.w.Do("FLUSHALL"); r.IsError() {
		t.Errorf("FLUSHALL: %v", r)
	}
	if !t.Failed() {
		ws.left = left
	}
}

func (ws *Worlds) end(t testing.TB) {
	if ws.w != nil {
		ws.w.close(t)
		ws.w = nil
	}
}

// Do runs a command, given as its words.
func (w *World) Do(words ...string) reply.Reply {
	w.t.Helper()
	args := make([][]byte, len(words))
	for i, word := range words {
		if word != "" { // an empty word is nil, as some parsers leave it
			args[i] = []byte(word)
		}
	}
	return w.session.Do(w.t.Context(), args)
}

// Line runs a command given as in a script.
func (w *World) Line(command string) reply.Reply {
	w.t.Helper()
	return w.Do(splitWords(w.t, command)...)
}

// Script runs a script.
func (w *World) Script(text string) {
	w.t.Helper()
	for line := range strings.Lines(strings.ReplaceAll(text, "\n  ", " ")) {
		line = strings.TrimSpace(line)
		command, want, found := strings.Cut(line, " => ")
		switch {
		case line == "":
		case strings.HasPrefix(line, "@pass "):
			d, err := time.ParseDuration(strings.TrimPrefix(line, "@pass "))
			if err != nil {
				w.t.Fatal(err)
			}
			w.passed.Add(int64(d))
		case !found:
			w.t.Fatalf("%s: no =>", line)
		default:
			resp2, resp3, differ := strings.Cut(want, " | ")
			if !differ {
				resp3 = resp2
			}
			r := w.Line(command)
			w.compare(command, "RESP2", Wire(r, reply.Reply.RESP2), resp2)
			w.compare(command, "RESP3", Wire(r, reply.Reply.RESP3), resp3)
		}
	}
}

func (w *World) compare(command, protocol, got, want string) {
	w.t.Helper()
	if !matches(got, want) {
		w.t.Errorf("%s in %s\n got %s\nwant %s", command, protocol, got, want)
	}
}

// matches compares a reply with a pattern in which ... stands for any text.
func matches(got, want string) bool {
	parts := strings.Split(want, "...")
	rest, ok := strings.CutPrefix(got, parts[0])
	for _, part := range parts[1:] {
		var found bool
		_, rest, found = strings.Cut(rest, part)
		ok = ok && found
	}
	return ok && (rest == "" || len(parts) > 1 && strings.HasSuffix(got, parts[len(parts)-1]))
}

var wordRange = regexp.MustCompile(`^(.*)\{(\d+)\.\.(\d+)\}$`)

func splitWords(t *testing.T, command string) (words []string) {
	t.Helper()
	for rest := strings.TrimLeft(command, " "); rest != ""; rest = strings.TrimLeft(rest, " ") {
		if quoted, err := strconv.QuotedPrefix(rest); err == nil {
			word, err := strconv.Unquote(quoted)
			if err != nil {
				t.Fatal(err)
			}
			words, rest = append(words, word), rest[len(quoted):]
			continue
		}
		word, after, _ := strings.Cut(rest, " ")
		rest = after
		m := wordRange.FindStringSubmatch(word)
		if m == nil {
			words = append(words, word)
			continue
		}
		for i := atoi(t, m[2]); i <= atoi(t, m[3]); i++ {
			words = append(words, m[1]+strconv.Itoa(i))
		}
	}
	return words
}

func atoi(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Wire returns a reply in the notation of scripts, in the form of a protocol.
func Wire(r reply.Reply, form func(reply.Reply) reply.Reply) string {
	r = form(r)
	switch r.Kind() {
	case reply.KindNil:
		return "_"
	case reply.KindStatus:
		return "+" + string(r.Bytes())
	case reply.KindError:
		return "-" + string(r.Bytes())
	case reply.KindInt:
		return ":" + strconv.FormatInt(r.Int(), 10)
	case reply.KindDouble:
		return "," + strconv.FormatFloat(r.Double(), 'g', -1, 64)
	case reply.KindBulk:
		return strconv.Quote(string(r.Bytes()))
	case reply.KindBool:
		return map[int64]string{0: "#f", 1: "#t"}[r.Int()]
	case reply.KindArray:
		return "[" + wireElems(r, form) + "]"
	case reply.KindSet:
		return "~[" + wireElems(r, form) + "]"
	case reply.KindMap:
		return "{" + wireElems(r, form) + "}"
	default:
		return "a reply of kind " + r.Kind().String()
	}
}

func wireElems(r reply.Reply, form func(reply.Reply) reply.Reply) string {
	var elems []string
	for _, e := range r.Elems() {
		elems = append(elems, Wire(e, form))
	}
	return Runs(elems)
}

// Runs joins elements, and writes repeats as a count.
func Runs(elems []string) string {
	var runs []string
	for len(elems) > 0 {
		n := slices.IndexFunc(elems, func(e string) bool { return e != elems[0] })
		if n < 0 {
			n = len(elems)
		}
		if n >= 4 {
			runs = append(runs, fmt.Sprintf("%d*%s", n, elems[0]))
		} else {
			runs = append(runs, elems[:n]...)
		}
		elems = elems[n:]
	}
	return strings.Join(runs, " ")
}
