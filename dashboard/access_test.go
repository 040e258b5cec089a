package dashboard_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/sievekv/sievekv/dashboard"
	"github.com/sievekv/sievekv/internal/live"
)

// Requests are refused that another site may have sent, that would change something, or that come from elsewhere.
func TestAccess_refused(t *testing.T) {
	w := open(t, &dashboard.Options{Hosts: []string{"dash.example"}})
	for _, tt := range []struct {
		name   string
		change func(*http.Request)
		want   int
	}{
		{"nothing", func(*http.Request) {}, 200},
		{"an address", func(r *http.Request) { r.Host = "127.0.0.1:8080" }, 200},
		{"IPv6", func(r *http.Request) { r.Host, r.RemoteAddr = "[::1]:80", "[::1]:9" }, 200},
		{"a known host", func(r *http.Request) { r.Host = "Dash.example:80" }, 200},
		{"another host", func(r *http.Request) { r.Host = "evil.example" }, 403},
		{"a host that looks like it", func(r *http.Request) { r.Host = "localhost.evil.example" }, 403},
		{"its own origin", func(r *http.Request) { r.Header.Set("Origin", "http://localhost") }, 200},
		{"another origin", func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") }, 403},
		{"no origin", func(r *http.Request) { r.Header.Set("Origin", "null") }, 403},
		{"a script elsewhere", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403},
		{"a link elsewhere", func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", "cross-site")
			r.Header.Set("Sec-Fetch-Mode", "navigate")
		}, 200},
		{"HEAD", func(r *http.Request) { r.Method = http.MethodHead }, 200},
		{"POST", func(r *http.Request) { r.Method = http.MethodPost }, 405},
		{"DELETE", func(r *http.Request) { r.Method = http.MethodDelete }, 405},
		{"another machine", func(r *http.Request) { r.RemoteAddr = "192.0.2.1:5" }, 403},
		{"a proxy", func(r *http.Request) { r.Header.Set("X-Forwarded-For", "192.0.2.1") }, 403},
		{"a bad query", func(r *http.Request) { r.URL.RawQuery = "a=%zz" }, 400},
	} {
		r := request("/")
		tt.change(r)
		a := w.answer(r)
		if a.Code != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, a.Code, tt.want)
		}
		if r.Method == http.MethodHead && a.Body.Len() > 0 {
			t.Errorf("HEAD has a body")
		}
	}
}

// Every answer, also one that refuses, keeps the browser from loading, running and sending anything else.
func TestAccess_headers(t *testing.T) {
	w := open(t, nil)
	elsewhere := request("/")
	elsewhere.RemoteAddr = "192.0.2.1:5"
	for _, r := range []*http.Request{request("/"), request("/filters"), request("/nothing"), request("/static/page.js"), elsewhere} {
		h := w.answer(r).Result().Header
		policy := h.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s: the policy is %s", r.URL, policy)
			}
		}
		if strings.Contains(policy, "unsafe") || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") != "no-referrer" || !strings.HasPrefix(h.Get("Cache-Control"), "no-") {
			t.Errorf("%s: headers %v", r.URL, h)
		}
		if h.Get("Set-Cookie") != "" {
			t.Errorf("%s sets a cookie", r.URL)
		}
	}
	// The policy allows none of these in a page.
	w.do("BF.ADD seen a")
	for _, path := range []string{"/", "/filters", at("seen"), "/plan", "/busy"} {
		source := w.source(path)
		for _, bad := range []string{" style=", "<style", " onclick", "javascript:", "http://", "https://", "<iframe"} {
			if strings.Contains(source, bad) {
				t.Errorf("%s has %q", path, bad)
			}
		}
	}
}

// tenant is a viewer that may see some keys, and nothing of the store.
type tenant string

func (tenant) Name() string { return "tenant" }

func (v tenant) May(words ...string) bool {
	return len(words) == 2 && words[0] == "SIEVE.STATS" && strings.HasPrefix(words[1], string(v))
}

// A viewer sees the filters that he may read, and no sign of others.
func TestAccess_keys(t *testing.T) {
	w := open(t, &dashboard.Options{Authorize: func(r *http.Request) (live.Viewer, error) {
		if r.Header.Get("Who") == "" {
			return nil, errors.New("say who you are")
		}
		return tenant(r.Header.Get("Who")), nil
	}})
	w.do("BF.ADD a:one x", "BF.ADD a:two x", "BF.ADD b:three x")
	see := func(path string) (int, string) {
		r := request(path)
		r.RemoteAddr = "192.0.2.1:5"
		r.Header.Set("Who", "a:")
		a := w.answer(r)
		return a.Code, text(a.Body.String())
	}
	for _, path := range []string{"/", "/filters", "/filters?q=three", "/busy"} {
		if code, page := see(path); code != 200 || strings.Contains(page, "b:three") || strings.Contains(page, "3 filters") || strings.Contains(page, "Commits") {
			t.Errorf("%s: %d %s", path, code, page)
		}
	}
	if _, page := see("/filters"); !strings.Contains(page, "1 to 2 of 2 filters") {
		t.Errorf("the table is %s", page)
	}
	if code, page := see(at("a:one") + "&item=x"); code != 200 || !strings.Contains(page, "You may not look items up here.") {
		t.Errorf("an own filter: %d %s", code, page)
	}
	missing, page := see(at("missing"))
	if code, other := see(at("b:three")); code != 404 || code != missing || strings.Split(other, "As of")[0] != strings.Split(page, "As of")[0] {
		t.Errorf("another's filter: %d %s; a missing one: %d %s", code, other, missing, page)
	}
	if a := w.answer(request("/")); a.Code != 403 || !strings.Contains(a.Body.String(), "say who you are") {
		t.Errorf("without a name: %d", a.Code)
	}
}
