package dashboard_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"html"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/sievekv/sievekv"
	"github.com/sievekv/sievekv/dashboard"
	_ "github.com/sievekv/sievekv/internal/kvtest/seeded"
	"github.com/sievekv/sievekv/module"
	"github.com/sievekv/sievekv/module/reply"
)

// world is a store with a dashboard.
type world struct {
	t  *testing.T
	db *sievekv.DB
	d  *dashboard.Dashboard
}

func open(t *testing.T, o *dashboard.Options) *world {
	t.Helper()
	db, err := sievekv.Open("", &sievekv.Options{InMemory: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() }) // a test may have closed it
	d, err := dashboard.New(db.Store(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return &world{t, db, d}
}

// do runs commands, each a line of words with spaces between them.
func (w *world) do(lines ...string) {
	w.t.Helper()
	for _, line := range lines {
		w.run(strings.Fields(line)...)
	}
}

func (w *world) run(words ...string) {
	w.t.Helper()
	var args [][]byte
	for _, word := range words {
		args = append(args, []byte(word))
	}
	if r := module.NewSession(w.db.Store()).Do(context.Background(), args); r.IsError() {
		w.t.Fatalf("%.200q: %s", words, r.Bytes())
	}
}

// request returns a request of this machine.
func request(path string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Host, r.RemoteAddr = "localhost", "127.0.0.1:1"
	return r
}

func (w *world) answer(r *http.Request) *httptest.ResponseRecorder {
	answer := httptest.NewRecorder()
	w.d.Forget() // what the listing has may be older than what the test has done
	w.d.ServeHTTP(answer, r)
	return answer
}

// page returns a page without its tags, and with single spaces.
func (w *world) page(path string) string {
	w.t.Helper()
	return text(w.source(path))
}

// source returns a page as it is.
func (w *world) source(path string) string {
	w.t.Helper()
	a := w.answer(request(path))
	if a.Code != http.StatusOK {
		w.t.Fatalf("%s: %d %s", path, a.Code, text(a.Body.String()))
	}
	return a.Body.String()
}

var (
	tags   = regexp.MustCompile(`<[^>]*>`)
	spaces = regexp.MustCompile(`\s+`)
)

func text(page string) string {
	page = html.UnescapeString(tags.ReplaceAllString(page, " "))
	page = strings.ReplaceAll(page, "\u202f", "") // between thousands
	return strings.TrimSpace(spaces.ReplaceAllString(page, " "))
}

// has fails unless a page has all of the texts.
func (w *world) has(path string, texts ...string) {
	w.t.Helper()
	page := w.page(path)
	for _, want := range texts {
		if !strings.Contains(page, want) {
			w.t.Errorf("%s lacks %q: %s", path, want, page)
		}
	}
}

func (w *world) fill(command, key string, from, to int) {
	w.t.Helper()
	words := []string{command, key}
	for i := from; i < to; i++ {
		words = append(words, fmt.Sprint("item ", i))
	}
	w.run(words...)
}

func TestPages_empty(t *testing.T) {
	w := open(t, nil)
	w.has("/", "There is no filter yet", "BF.RESERVE seen 0.01 1000000", "0 filters")
	w.has("/filters", "There is no filter to be seen")
	w.has("/busy", "serves the store to nobody", "No filter was used")
	w.has("/plan", "as it is made", "RedisBloom")
}

// stats returns what SIEVE.STATS says of a filter.
func (w *world) stats(key string) map[string]reply.Reply {
	w.t.Helper()
	r := module.NewSession(w.db.Store()).Do(context.Background(), [][]byte{[]byte("SIEVE.STATS"), []byte(key)})
	facts := make(map[string]reply.Reply)
	pairs := r.Elems()[0].Elems()
	for i := 0; i+1 < len(pairs); i += 2 {
		facts[string(pairs[i].Bytes())] = pairs[i+1]
	}
	return facts
}

// at returns the path of a filter's page.
func at(key string) string {
	return "/filter?key=" + base64.RawURLEncoding.EncodeToString([]byte(key))
}

// The pages have the numbers of SIEVE.STATS and of Info.
func TestPages_numbers(t *testing.T) {
	w := open(t, nil)
	w.do("BF.RESERVE seen 0.001 1000 NONSCALING", "CF.RESERVE tokens 1000", "CBF.RESERVE online 0.01 500", "BF.RESERVE recent 0.01 100 WINDOW 3600 SLICES 4",
		"BF.RESERVE grown 0.01 100 EXPANSION 2", "SET string value", "SETBIT bits 5 1")
	w.fill("BF.MADD", "seen", 0, 850)
	w.fill("BF.MADD", "seen", 840, 860)
	w.fill("BF.MEXISTS", "seen", 0, 100)
	w.fill("BF.MADD", "grown", 0, 1000)
	w.fill("CBF.MADD", "online", 0, 77)
	w.fill("BF.MADD", "recent", 0, 50)
	w.do("CF.ADD tokens a", "CF.ADD tokens b", "CF.EXISTS tokens a")
	all := w.page("/filters")
	if !strings.Contains(all, "5 filters") || strings.Contains(all, "string") || strings.Contains(all, "bits") {
		t.Errorf("the table is %s", all)
	}
	for _, key := range []string{"seen", "tokens", "online", "recent", "grown"} {
		s := w.stats(key)
		items, capacity := s["items"].Int(), s["capacity"].Int()
		if items == 0 || capacity == 0 {
			t.Fatalf("%s has %d of %d items", key, items, capacity)
		}
		row := regexp.MustCompile(" " + key + " .*").FindString(all)
		if want := fmt.Sprintf(" %d %d ", items, capacity); !strings.Contains(row, want) {
			t.Errorf("the row of %s lacks %q: %s", key, want, row)
		}
		w.has(at(key),
			fmt.Sprintf("It holds %d of the %d items", items, capacity),
			fmt.Sprintf("%d answered yes, %d no", s["lookups_yes"].Int(), s["lookups_no"].Int()),
			fmt.Sprintf("%% of %d", capacity), "the emptiest is")
	}
	info, err := w.db.Bloom("seen").Info()
	if err != nil {
		t.Fatal(err)
	}
	w.has(at("seen"), fmt.Sprintf("Distinct items, estimated %d", info.Distinct), "BF.RESERVE seen 0.001 1000 NONSCALING", "nearly full", "keyed, native",
		`db.Bloom("seen").OpenOrReserve(sievekv.Capacity(1000, 0.001), &sievekv.BloomConfig{ NonScaling: true, })`, "It does not grow")
	w.has(at("recent"), "WINDOW 3600 SLICES 4", "sievekv.Window(1*time.Hour, ", "Slices, the oldest first", "It forgets items that were not added for 60 min.", "in 75 min")
	w.has(at("grown"), fmt.Sprintf("It has grown to %d layers", len(w.stats("grown")["layers"].Elems())), "EXPANSION 2", "layer 0, 1 block ")
	w.has("/", "5 filters", "Nearly full: 1", "Grown: 1", "Never asked: 3")
	w.has("/busy", "seen Bloom")
}

// The commands and the Go code of a page make the same filter.
func TestFilter_made(t *testing.T) {
	w := open(t, nil)
	commands := []string{
		"BF.RESERVE f 0.001 1000 NONSCALING", "BF.RESERVE f 0.01 5000", "BF.RESERVE f 0.01 100 EXPANSION 4", "BF.RESERVE f 0.02 300 GROWTHLOG 100000",
		"BF.RESERVE f 0.01 100 WINDOW 3600 SLICES 4", "BF.RESERVE f 0.01 100 WINDOW 60", "BF.RESERVE f 0.01 6400 LAST 6400 SLICES 5", "BF.RESERVE f 0.01 100 HASH XXH64",
		"CF.RESERVE f 1000", "CF.RESERVE f 1000 BUCKETSIZE 2 MAXITERATIONS 50 EXPANSION 4", "CF.RESERVE f 1000 ERROR 0.0001", "CBF.RESERVE f 0.01 100", "CBF.RESERVE f 0.001 100 NONSCALING",
	}
	for _, command := range commands {
		w.do("DEL f g", command)
		page := text(w.answer(request(at("f"))).Body.String())
		shown := regexp.MustCompile(`redis-cli: (.*) In Go:`).FindStringSubmatch(page)
		if shown == nil {
			t.Errorf("%s: the page has no command: %s", command, page)
			continue
		}
		w.do(strings.Replace(shown[1], " f ", " g ", 1))
		f, g := w.stats("f"), w.stats("g")
		for name, value := range f {
			if name != "key" && name != "slices" && fmt.Sprint(value) != fmt.Sprint(g[name]) {
				t.Errorf("%s: %s makes a filter whose %s is %v, not %v", command, shown[1], name, g[name], value)
			}
		}
		if len(f["slices"].Elems()) != len(g["slices"].Elems()) {
			t.Errorf("%s: %s makes %d slices", command, shown[1], len(g["slices"].Elems()))
		}
	}
}

// A page asks the filter itself about an item.
func TestFilter_item(t *testing.T) {
	w := open(t, nil)
	w.do("BF.ADD seen alice", "CF.ADD tokens alice", "CBF.RESERVE online 0.01 10", "CBF.ADD online alice")
	for _, key := range []string{"seen", "tokens", "online"} {
		w.has(at(key)+"&item=alice", "alice: Yes, it may be in the filter.")
		w.has(at(key)+"&item=bob", "bob: No, it is not in the filter.")
	}
	w.run("BF.ADD", "seen", "<b>&\x00\xff")
	w.has(at("seen")+"&item=%3Cb%3E%26%00%ff", `"<b>&\x00\xff": Yes, it may be in the filter.`)
	w.do("BF.ADD empty x")
	w.run("BF.ADD", "empty", "")
	w.has(at("empty")+"&item=", `"": Yes`)
	// A page that is asked for again and again would count lookups that nobody made.
	if !strings.Contains(w.source(at("seen")), "data-refresh") || strings.Contains(w.source(at("seen")+"&item=alice"), "data-refresh") {
		t.Error("a page follows the store that asks about an item, or one does not that asks nothing")
	}
}

// Keys of any bytes are text, have an address, and are shortened.
func TestKeys_hostile(t *testing.T) {
	w := open(t, nil)
	keys := []string{
		"<script>alert(1)</script>", `"><img src=x onerror=alert(1)>`, "' onmouseover='x", "{{.}}", "javascript:alert(1)", "a\x00b\nc", "\xff\xfe", " lead", "\u202egnp", "&amp;&lt;",
		"", strings.Repeat("k", 65536), strings.Repeat("<", 2000), "../../filters?x=1#y", "naïve ключ 鍵",
	}
	for _, key := range keys {
		w.run("BF.ADD", key, "alice")
	}
	for _, path := range []string{"/", "/filters", "/busy"} {
		source := w.source(path)
		for _, bad := range []string{"<script>alert", "<img", "onmouseover='x", "\x00", "\u202e", "\xff"} {
			if strings.Contains(source, bad) {
				t.Errorf("%s has %q", path, bad)
			}
		}
		if len(source) > 200_000 {
			t.Errorf("%s has %d bytes", path, len(source))
		}
	}
	links := regexp.MustCompile(`<a class="key" href="(/filter\?[^"]*)"`).FindAllStringSubmatch(w.source("/filters"), -1)
	if len(links) != len(keys) {
		t.Fatalf("%d links to %d filters", len(links), len(keys))
	}
	for _, link := range links {
		if page := w.page(html.UnescapeString(link[1]) + "&item=alice"); !strings.Contains(page, "It holds 1 of") || !strings.Contains(page, "alice: Yes") {
			t.Errorf("%.100s leads to %s", link[1], page)
		}
	}
}

// With a prefix all links and forms stay below it.
func TestPrefix(t *testing.T) {
	w := open(t, &dashboard.Options{Prefix: "/dash"})
	w.do("BF.ADD seen alice")
	for _, path := range []string{"/dash/", "/dash/filters", "/dash" + at("seen"), "/dash/plan", "/dash/busy"} {
		for _, link := range regexp.MustCompile(`(?:href|src|action)="([^"]*)"`).FindAllStringSubmatch(w.source(path), -1) {
			if to := link[1]; !strings.HasPrefix(to, "/dash/") && to != "data:," && to != "#main" {
				t.Errorf("%s leads to %s", path, to)
			}
		}
	}
	if a := w.answer(request("/filters")); a.Code != http.StatusNotFound {
		t.Errorf("outside of the prefix: %d", a.Code)
	}
	for _, prefix := range []string{"dash", "/dash/", "/"} {
		if _, err := dashboard.New(w.db.Store(), &dashboard.Options{Prefix: prefix}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", prefix)) {
			t.Errorf("prefix %q: %v", prefix, err)
		}
	}
}

// Close ends what runs in the background, also while the listing is read.
func TestClose_goroutines(t *testing.T) {
	w := open(t, nil)
	for i := range 2000 {
		w.run("BF.ADD", fmt.Sprint(i), "x")
	}
	before := goleak.IgnoreCurrent()
	for range 3 {
		d, err := dashboard.New(w.db.Store(), nil)
		if err != nil {
			t.Fatal(err)
		}
		d.ServeHTTP(httptest.NewRecorder(), request("/filters"))
		d.Close()
		d.Close()
	}
	// The store makes the cache of its blocks when it needs it first, which may be meanwhile.
	const cache = "github.com/dgraph-io/ristretto/v2."
	goleak.VerifyNone(t, before, goleak.IgnoreAnyFunction(cache+"(*Cache[...]).processItems"), goleak.IgnoreAnyFunction(cache+"(*defaultPolicy[...]).processItems"))
}

// After Close of the store or of the dashboard pages say so.
func TestClose(t *testing.T) {
	w := open(t, nil)
	w.do("BF.ADD seen alice")
	w.page("/")
	if err := w.db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/", at("seen")} {
		if a := w.answer(request(path)); a.Code < 400 {
			t.Errorf("%s of a closed store: %d", path, a.Code)
		}
	}
	w.d.Close()
	if a := w.answer(request("/filters")); a.Code != http.StatusServiceUnavailable {
		t.Errorf("after Close: %d", a.Code)
	}
}
