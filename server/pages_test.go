package server_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/dashboard"
	"github.com/sievekv/sievekv/server"
)

// pages is a dashboard of a server.
type pages struct {
	*world
	handler http.Handler
}

func servePages(w *world) *pages {
	w.t.Helper()
	d, err := dashboard.New(w.db.Store(), &dashboard.Options{Authorize: w.server.Viewer, Server: w.server.Live()})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(d.Close)
	return &pages{w, w.server.PagesHandler(d)}
}

// see asks for a page, with a login unless it is "", from an address.
func (p *pages) see(path, login, from string) (code int, page string) {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Host, r.RemoteAddr = "localhost", from+":1"
	if name, password, ok := strings.Cut(login, " "); ok {
		r.SetBasicAuth(name, password)
	}
	if from == byProxy {
		r.RemoteAddr = ofHere + ":1"
		r.Header.Set("X-Forwarded-For", farAway)
	}
	a := httptest.NewRecorder()
	p.handler.ServeHTTP(a, r)
	return a.Code, a.Body.String()
}

const ofHere, farAway, byProxy = "127.0.0.1", "192.0.2.1", "a proxy on this machine"

// The pages need the passwords of the server's users, unless the default user needs none and the browser is of this machine.
func TestPages_login(t *testing.T) {
	p := servePages(serve(t, nil))
	c := p.client()
	for _, tt := range []struct {
		login, from string
		open, safe  int // without a password of the default user, and with one
	}{
		{"", ofHere, 200, 401},
		{"", farAway, 401, 401},
		{"", byProxy, 401, 401},
		{"free x", byProxy, 401, 401},
		{"eve pw", byProxy, 200, 200},
		{"default any", farAway, 401, 401},
		{"default any", ofHere, 200, 401},
		{"default secret", farAway, 401, 200},
		{" secret", ofHere, 200, 200},
		{"eve pw", farAway, 200, 200},
		{"eve wrong", ofHere, 401, 401},
		{"nobody pw", ofHere, 401, 401},
		{"gone pw", ofHere, 401, 401},
		{"free x", farAway, 401, 401},
	} {
		c.answers("ACL SETUSER default reset on nopass ~* +@all => +OK")
		c.answers("ACL SETUSER eve on >pw ~* +@all => +OK")
		c.answers("ACL SETUSER gone off >pw ~* +@all => +OK")
		c.answers("ACL SETUSER free on nopass ~* +@all => +OK")
		if code, page := p.see("/", tt.login, tt.from); code != tt.open {
			t.Errorf("%q from %s: %d, want %d: %s", tt.login, tt.from, code, tt.open, page)
		}
		c.answers("ACL SETUSER default resetpass >secret => +OK")
		if code, page := p.see("/", tt.login, tt.from); code != tt.safe {
			t.Errorf("with a password %q from %s: %d, want %d: %s", tt.login, tt.from, code, tt.safe, page)
		}
	}
	if code, page := p.see("/filters", "eve wrong", ofHere); code != 401 || strings.Contains(page, "eve") {
		t.Errorf("a wrong password is told %s", page)
	}
}

// Answers to passwords for the pages are delayed by the same count as those for metrics.
func TestPages_guesses(t *testing.T) {
	w := serve(t, server.Options{Password: "secret"}.WithTimes(long, long, long).WithGuesses(soon, soon))
	p := servePages(w)
	for range server.FreeGuesses + 1 {
		p.see("/", "default wrong", farAway)
	}
	if got := w.server.MetricsGuesses(); got != server.FreeGuesses+1 {
		t.Errorf("%d wrong passwords are remembered, want %d", got, server.FreeGuesses+1)
	}
	if code, _ := p.see("/", "default secret", farAway); code != 200 || w.server.MetricsGuesses() != 0 {
		t.Errorf("the right password: %d, and %d wrong ones are remembered", code, w.server.MetricsGuesses())
	}
}

// A user sees the filters, the commands and the clients that his rules allow him to see.
func TestPages_rules(t *testing.T) {
	w := serve(t, nil)
	c := w.client()
	c.answers("BF.ADD a:one x => :1")
	c.answers("BF.ADD b:two x => :1")
	c.answers("ACL SETUSER ann on >pw ~a:* +sieve.stats +bf.exists => +OK")
	c.answers("ACL SETUSER ben on >pw %W~* %R~b:* +@all => +OK")
	c.answers("ACL SETUSER none on >pw ~* +get => +OK")
	c.answers("CONFIG SET slowlog-log-slower-than 0 => +OK")
	c.answers("BF.EXISTS a:one slow-word => :0")
	p := servePages(w)
	at := func(key string) string { return "/filter?key=" + base64.RawURLEncoding.EncodeToString([]byte(key)) }
	for _, tt := range []struct {
		login, path string
		code        int
		has, lacks  string
	}{
		{"ann pw", "/filters", 200, "a:one", "b:two"},
		{"ann pw", "/", 200, "1 filter;", "b:two"},
		{"ann pw", at("a:one") + "&item=x", 200, "Yes, it may be in", "b:two"},
		{"ann pw", at("b:two"), 404, "no such filter", "b:two"},
		{"ann pw", "/busy", 200, "a:one", "slow-word"},
		{"ann pw", "/", 200, "Overview", "Commands a second"},
		{"ben pw", "/filters", 200, "b:two", "a:one"},
		{"ben pw", "/busy", 200, "slow-word", "may not see"},
		{"none pw", "/filters", 200, "no filter to be seen", "a:one"},
		{"default x", "/filters", 200, "b:two", "may not"},
		{"default x", "/", 200, "Commands a second", "may not"},
	} {
		code, page := p.see(tt.path, tt.login, ofHere)
		if code != tt.code || !strings.Contains(page, tt.has) || strings.Contains(page, tt.lacks) {
			t.Errorf("%s sees of %s: %d, without %q or with %q: %s", tt.login, tt.path, code, tt.has, tt.lacks, page)
		}
	}
}

// The pages have the numbers of INFO, SLOWLOG and CLIENT LIST; passwords are not among them.
func TestPages_numbers(t *testing.T) {
	p := servePages(serve(t, nil))
	c := p.client()
	c.answers("CLIENT SETNAME crawler => +OK")
	c.answers("CONFIG SET slowlog-log-slower-than 0 => +OK")
	for i := range 7 {
		c.do(fmt.Sprintf("BF.ADD seen item%d", i))
	}
	c.do("INCR seen")
	c.do("AUTH hidden-password")
	c.do("NOSUCH x")
	_, busy := p.see("/busy", "", ofHere)
	busy = regexp.MustCompile(`<[^>]*>|\s+`).ReplaceAllString(busy, " ")
	for _, want := range []string{"crawler", "BF.ADD seen item6"} {
		if !strings.Contains(busy, want) {
			t.Errorf("the page lacks %q: %s", want, busy)
		}
	}
	if row := regexp.MustCompile(`bf\.add  *7  *0  *0 `); !row.MatchString(busy) {
		t.Errorf("bf.add was called 7 times: %s", busy)
	}
	if row := regexp.MustCompile(`incr  *1  *1  *0 `); !row.MatchString(busy) {
		t.Errorf("incr has failed once: %s", busy)
	}
	if strings.Contains(busy, "hidden-password") {
		t.Errorf("a password is shown: %s", busy)
	}
	_, overview := p.see("/", "", ofHere)
	for _, want := range []string{"WRONGTYPE 1", "1 connected"} {
		if !strings.Contains(overview, want) {
			t.Errorf("the overview lacks %q: %s", want, overview)
		}
	}
	counts := p.server.Live().Counts()
	if counts.Calls == 0 || counts.Latency.Total() != counts.Calls || counts.Refused != 1 {
		t.Errorf("counts are %+v", counts)
	}
}

// The pages show the members of a group as this one knows them, and what is wrong with it.
func TestPages_group(t *testing.T) {
	w, g := serveGroup(t)
	p := servePages(w)
	see := func() string {
		_, page := p.see("/", "", ofHere)
		return strings.Join(strings.Fields(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(page, " ")), " ")
	}
	if page := see(); !strings.Contains(page, "No leader is known: writes wait or fail.") {
		t.Errorf("without a leader: %s", page)
	}
	g.leader("a")
	page := see()
	for _, want := range []string{
		"in term 1.", "This one has applied 99 of the 105 messages", "a leader ✔ healthy 10.0.0.1:6380 100 5", "b (this one) follower ✔ healthy 10.0.0.2:6380 99 6",
		"c follower ✖ not heard of 10.0.0.3:6380 98 7", "The leader has not heard of member c for a while.", "This member has refused a leader or a vote",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q: %s", want, page)
		}
	}
	if strings.Contains(page, "No leader is known") {
		t.Errorf("with a leader: %s", page)
	}
}
